/* warm.c: networks that start from weights of another run or program.
 *
 *   [network] from = "run.out"              a result of pinn: its folder or its result.h5
 *   [network] from = "weights.safetensors"  arrays of another program (import_weights.c), or .npz
 *
 * What starts equal is the function: u(x, t) of the new run is u(x, t) of the old one at every point. So the ranges by
 * which inputs are scaled travel with the weights (a longer time does not stretch the old solution), as does the seed
 * of fixed waves; the unknown's scale is the new problem's own, and the last layer is multiplied by old/new scale,
 * which is exact because scales are powers of two. Equations, conditions, ansatz and domain may differ: unknowns are
 * matched by name, and what builds the network must be the same, or an error says what is found and what is expected.
 */
#include "pinn/warm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/names.h"
#include "pinn/result.h"

/* A result, rebuilt. */
typedef struct origin {
  const char *path;
  pn_saved *saved;
  pn_problem *problem;
  pn_model *model;
  double *theta;
} origin;

bool pn_warm_is_result(const char *path) {
  size_t n = strlen(path);
  return pn_path_is_folder(path) || (n > 3 && strcmp(path + n - 3, ".h5") == 0);
}

tn_status pn_warm_path(pn_problem *p, const char *from, const char **out) {
  char *folder = NULL, *joined = NULL, *copy = NULL;
  *out = NULL;
  if (!from || strcmp(from, "none") == 0)
    return TN_OK;
  *out = from;
  if (from[0] == '/')
    return TN_OK;
  TN_TRY(pn_path_folder(p->source.file, &folder));
  tn_status status = pn_path_join(folder, from, &joined);
  if (status == TN_OK)
    status = pn_arena_text(p->arena, joined, strlen(joined), &copy);
  tn_free(&joined);
  tn_free(&folder);
  *out = copy;
  return status;
}

static void close_origin(origin *o) {
  tn_free(&o->theta);
  pn_model_free(&o->model);
  pn_problem_free(&o->problem);
  pn_saved_free(&o->saved);
}

static tn_status open_origin(const char *path, origin *o) {
  *o = (origin){.path = path};
  tn_status status = pn_saved_open(path, &o->saved);
  if (status == TN_OK)
    status = pn_saved_problem(o->saved, &o->problem);
  if (status == TN_OK)
    status = pn_model_new(o->problem, TN_F64, &o->model);
  if (status == TN_OK)
    status = TN_NEW(o->model->n_theta, &o->theta);
  if (status == TN_OK)
    status = pn_saved_weights(o->saved, o->model, o->theta);
  if (status != TN_OK)
    close_origin(o);
  return status;
}

/* ---- Before the model is made ------------------------------------------------------------------- */

static bool uses(const pn_problem *p, const pn_network *n, size_t unknown) {
  const pn_unknown *u = &p->unknowns[unknown];
  return u->network ? u->network == n : n == &p->network;
}

static size_t find_unknown(const pn_problem *p, const char *name) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (strcmp(p->unknowns[u].name, name) == 0)
      return u;
  return PN_NONE;
}

static tn_status no_unknown(const pn_problem *p, const pn_network *n, size_t unknown,
                            const origin *o) {
  char list[160] = "";
  for (size_t u = 0; u < o->problem->n_unknowns && strlen(list) < 100; ++u)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.40s", u ? ", " : "",
             o->problem->unknowns[u].name);
  return pn_fail_at(TN_EINPUT, n->place, 1,
                    "%s has no unknown `%s` to start from; it has %s. Give `%s` network = { from = "
                    "\"none\" }",
                    o->path, p->unknowns[unknown].name, list, p->unknowns[unknown].name);
}

/* An entry that fits the file to its weights, as --set would write it. */
static tn_status add_override(pn_problem *p, const pn_network *n, const char *key, const char *value) {
  const char **list = NULL;
  char *text = NULL;
  const char *owner = NULL;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].network == n)
      owner = p->unknowns[u].name;
  if (owner)
    TN_TRY(pn_arena_format(p->arena, &text, "unknowns.%s.network.%s=%s", owner, key, value));
  else
    TN_TRY(pn_arena_format(p->arena, &text, "network.%s=%s", key, value));
  TN_TRY(PN_TAKE(p->arena, p->n_overrides + 1, &list));
  for (size_t i = 0; i < p->n_overrides; ++i)
    list[i] = p->overrides[i];
  list[p->n_overrides++] = text;
  p->overrides = list;
  return TN_OK;
}

static tn_status set_size(pn_problem *p, pn_network *n, const char *key, size_t value, size_t *size) {
  char text[32];
  if (*size != 0)
    return TN_OK;
  *size = value;
  snprintf(text, sizeof text, "%zu", value);
  return add_override(p, n, key, text);
}

/* The ranges of a result's networks for the coordinates of the same names. */
static tn_status take_ranges(pn_problem *p, const pn_network *n, const origin *o) {
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    pn_coordinate *mine = &p->coordinates[c];
    const pn_coordinate *old = NULL;
    for (size_t k = 0; k < o->problem->n_coordinates; ++k)
      if (strcmp(o->problem->coordinates[k].name, mine->name) == 0)
        old = &o->problem->coordinates[k];
    if (!old)
      continue;
    double lo = old->has_net_range ? old->net_lo : old->lo;
    double hi = old->has_net_range ? old->net_hi : old->hi;
    double my_lo = mine->has_net_range ? mine->net_lo : mine->lo;
    double my_hi = mine->has_net_range ? mine->net_hi : mine->hi;
    if (my_lo == lo && my_hi == hi)
      continue;
    if (mine->periodic)
      return pn_fail_at(TN_EINPUT, mine->place, strlen(mine->name),
                        "`%s` is periodic over [%g, %g], but the weights of %s over [%g, %g]",
                        mine->name, mine->lo, mine->hi, o->path, lo, hi);
    if (mine->has_net_range)
      return pn_fail_at(TN_EINPUT, n->place, 1,
                        "%s scales `%s` by [%g, %g], and another `from` of this file by [%g, %g]",
                        o->path, mine->name, lo, hi, my_lo, my_hi);
    mine->has_net_range = true;
    mine->net_lo = lo;
    mine->net_hi = hi;
  }
  if (p->wave_seed != p->seed && p->wave_seed != o->problem->wave_seed)
    return pn_fail_at(TN_EINPUT, n->place, 1,
                      "%s has Fourier features of another seed than another `from` of this file",
                      o->path);
  p->wave_seed = o->problem->wave_seed;
  return TN_OK;
}

static tn_status prepare_result(pn_problem *p, pn_network *n, const origin *o) {
  const pn_net *old = NULL;
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    if (!uses(p, n, u))
      continue;
    size_t there = find_unknown(o->problem, p->unknowns[u].name);
    if (there == PN_NONE)
      return no_unknown(p, n, u, o);
    old = &o->model->nets[o->model->unknown_net[there]];
  }
  if (!old)
    return TN_OK;
  TN_TRY(set_size(p, n, "width", old->options.width, &n->width));
  TN_TRY(set_size(p, n, "depth", old->options.depth, &n->depth));
  return take_ranges(p, n, o);
}

static tn_status prepare_layers(pn_problem *p, pn_network *n, const char *path) {
  pn_layers *layers = NULL;
  size_t n_in = 0;
  for (size_t u = 0; u < p->n_unknowns && n_in == 0; ++u)
    n_in = uses(p, n, u) ? p->unknowns[u].n_of : 0;
  TN_TRY(pn_layers_read(path, &layers));
  size_t count = pn_layers_count(layers);
  tn_status status = TN_OK;
  if (count < 2)
    status = TN_FAIL(TN_EINPUT, "%s holds one layer: no hidden layer", path);
  if (status == TN_OK)
    status = set_size(p, n, "width", pn_layers_units(layers, n_in, 0), &n->width);
  if (status == TN_OK)
    status = set_size(p, n, "depth", count - 1, &n->depth);
  if (status == TN_OK && !n->normalise_given && n->normalise) {
    n->normalise = false;
    status = add_override(p, n, "normalise", "false");
  }
  pn_layers_free(&layers);
  return status;
}

static tn_status prepare(pn_problem *p, pn_network *n) {
  const char *path = NULL;
  origin o;
  TN_TRY(pn_warm_path(p, n->from, &path));
  n->from = path;
  if (!path)
    return TN_OK;
  if (!pn_path_exists(path))
    return pn_fail_at(TN_EINPUT, n->place, 1, "`from`: there is no %s", path);
  if (!pn_warm_is_result(path))
    return prepare_layers(p, n, path);
  TN_TRY(open_origin(path, &o));
  tn_status status = prepare_result(p, n, &o);
  close_origin(&o);
  return status;
}

tn_status pn_warm_prepare(pn_problem *p) {
  TN_TRY(prepare(p, &p->network));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].network)
      TN_TRY(prepare(p, p->unknowns[u].network));
  p->warm = true;
  return TN_OK;
}

/* ---- Weights ------------------------------------------------------------------------------------ */

static tn_status differs(const pn_net *net, const origin *o, const char *key, const char *mine,
                         const char *old) {
  return pn_fail_at(TN_EINPUT, net->options.place, 1, "%s was trained with %s = %s, expected %s", o->path,
                    key, old, mine);
}

static tn_status same_number(const pn_net *net, const origin *o, const char *key, double mine,
                             double old) {
  char a[32], b[32];
  if (mine == old)
    return TN_OK;
  snprintf(a, sizeof a, "%.10g", mine);
  snprintf(b, sizeof b, "%.10g", old);
  return differs(net, o, key, a, b);
}

static tn_status same_scales(const pn_net *net, const origin *o, const char *key, size_t n,
                             const double *mine, size_t m, const double *old) {
  TN_TRY(same_number(net, o, key, (double)n, (double)m));
  for (size_t i = 0; i < n; ++i)
    TN_TRY(same_number(net, o, key, mine[i], old[i]));
  return TN_OK;
}

/* What the function is made of, besides its weights. */
static tn_status same_options(const pn_net *net, const origin *from, const pn_net *was) {
  const pn_network *a = &net->options, *b = &was->options;
  if (strcmp(a->kind, b->kind) != 0)
    return differs(net, from, "kind", a->kind, b->kind);
  if (strcmp(a->activation, b->activation) != 0)
    return differs(net, from, "activation", a->activation, b->activation);
  if (strcmp(a->adaptive, b->adaptive) != 0)
    return differs(net, from, "adaptive", a->adaptive, b->adaptive);
  TN_TRY(same_number(net, from, "omega", a->omega, b->omega));
  TN_TRY(same_number(net, from, "adaptive_factor", a->adaptive_factor, b->adaptive_factor));
  TN_TRY(same_number(net, from, "factorised", a->factorised, b->factorised));
  TN_TRY(same_number(net, from, "fourier", (double)a->fourier, (double)b->fourier));
  TN_TRY(same_scales(net, from, "fourier_scale", a->n_scales, a->scales, b->n_scales, b->scales));
  return same_scales(net, from, "fourier_time", a->n_time_scales, a->time_scales, b->n_time_scales,
                     b->time_scales);
}

static tn_status same_map(const pn_net *net, const origin *o, const char *name,
                          const pn_input_map *a, const pn_input_map *b) {
  if (a->periodic == b->periodic && a->log == b->log && a->learnt == b->learnt &&
      a->plain == b->plain && (a->plain || (a->lo == b->lo && a->hi == b->hi)))
    return TN_OK;
  return pn_fail_at(TN_EINPUT, net->options.place, 1,
                    "%s was trained with another map of `%s`: periodic, period, normalise or spacing "
                    "differ",
                    o->path, name);
}

static tn_status same_inputs(const pn_model *m, const pn_net *net, const origin *o,
                             const pn_net *was) {
  pn_problem *p = m->problem;
  TN_TRY(same_number(net, o, "number of coordinates", (double)net->n_in, (double)was->n_in));
  TN_TRY(same_number(net, o, "number of inputs", (double)net->options.n_inputs,
                     (double)was->options.n_inputs));
  for (size_t j = 0; j < net->n_in; ++j) {
    const char *mine = p->coordinates[net->of[j]].name;
    const char *old = o->problem->coordinates[was->of[j]].name;
    char key[48];
    snprintf(key, sizeof key, "coordinate %zu", j + 1);
    if (strcmp(mine, old) != 0)
      return differs(net, o, key, mine, old);
    if (net->options.n_inputs == 0)
      TN_TRY(same_map(net, o, mine, &net->input[j], &was->input[j]));
  }
  for (size_t i = 0; i < net->options.n_inputs; ++i) {
    char *mine = NULL, *old = NULL;
    TN_TRY(pn_expr_print(p->arena, net->options.inputs[i], p->coordinate_names, &mine));
    TN_TRY(pn_expr_print(o->problem->arena, was->options.inputs[i], o->problem->coordinate_names,
                         &old));
    if (strcmp(mine, old) != 0)
      return differs(net, o, "inputs", mine, old);
    TN_TRY(same_map(net, o, mine, &net->expression[i], &was->expression[i]));
  }
  return TN_OK;
}

/* "layer1.weight" of "net2.layer1.weight". */
static const char *part_of(const pn_block *b) { return strchr(b->name, '.') + 1; }

static tn_status wrong_block(const pn_net *net, const origin *o, const pn_block *mine,
                             const pn_block *old, const pn_net *was) {
  char found[64], expected[64];
  snprintf(found, sizeof found, "[%zu, %zu]", old->extent[0], old->extent[1]);
  snprintf(expected, sizeof expected, "[%zu, %zu]", mine->extent[0], mine->extent[1]);
  if (mine->rank == 1) {
    snprintf(found, sizeof found, "[%zu]", old->extent[0]);
    snprintf(expected, sizeof expected, "[%zu]", mine->extent[0]);
  }
  return pn_fail_at(TN_EINPUT, net->options.place, 1,
                    "%s: `%s` is %s, expected %s: write width = %zu, depth = %zu", o->path, old->name,
                    found, expected, was->options.width, was->options.depth);
}

/* Column k of a last block is an unknown: where it was, and what its scale becomes. */
static void copy_last(const pn_model *m, const pn_net *net, const origin *o, const pn_net *was,
                      const pn_block *mine, const pn_block *old, double *theta) {
  size_t rows = mine->rank == 2 ? mine->extent[0] : 1;
  for (size_t k = 0; k < net->n_out; ++k) {
    size_t there = find_unknown(o->problem, m->problem->unknowns[net->unknown[k]].name);
    size_t column = o->model->unknown_output[there];
    double ratio = o->model->unknown_scale[there] / m->unknown_scale[net->unknown[k]];
    bool scaled = mine->kind == PN_BLOCK_WEIGHT || mine->kind == PN_BLOCK_BIAS;
    for (size_t i = 0; i < rows; ++i)
      theta[mine->offset + i * net->n_out + k] =
          o->theta[old->offset + i * was->n_out + column] * (scaled ? ratio : 1);
  }
}

static tn_status copy_blocks(const pn_model *m, const pn_net *net, const origin *o,
                             const pn_net *was, double *theta) {
  TN_TRY(same_number(net, o, "number of layers", (double)net->n_blocks, (double)was->n_blocks));
  for (size_t i = 0; i < net->n_blocks; ++i) {
    const pn_block *mine = &m->blocks[net->first_block + i];
    const pn_block *old = &o->model->blocks[was->first_block + i];
    size_t last = mine->rank - 1; /* columns of last blocks are chosen */
    bool same = strcmp(part_of(mine), part_of(old)) == 0 && mine->rank == old->rank;
    for (size_t k = 0; same && k < mine->rank; ++k)
      same = mine->extent[k] == old->extent[k] || (mine->last && k == last);
    if (!same)
      return wrong_block(net, o, mine, old, was);
    if (mine->last)
      copy_last(m, net, o, was, mine, old, theta);
    else
      memcpy(theta + mine->offset, o->theta + old->offset, mine->count * sizeof *theta);
  }
  return TN_OK;
}

static tn_status fill_from_result(const pn_model *m, const pn_net *net, const origin *o,
                                  double *theta) {
  const pn_problem *p = m->problem;
  size_t net_there = PN_NONE;
  for (size_t k = 0; k < net->n_out; ++k) {
    size_t there = find_unknown(o->problem, p->unknowns[net->unknown[k]].name);
    if (there == PN_NONE)
      return no_unknown(p, &net->options, net->unknown[k], o);
    if (k > 0 && o->model->unknown_net[there] != net_there)
      return pn_fail_at(TN_EINPUT, net->options.place, 1,
                        "`%s` and `%s` share a network here, but have networks of their own in %s: "
                        "write shared = false",
                        p->unknowns[net->unknown[0]].name, p->unknowns[net->unknown[k]].name, o->path);
    net_there = o->model->unknown_net[there];
  }
  const pn_net *was = &o->model->nets[net_there];
  TN_TRY(same_options(net, o, was));
  TN_TRY(same_inputs(m, net, o, was));
  return copy_blocks(m, net, o, was, theta);
}

static tn_status fill_from_layers(const pn_model *m, const pn_net *net, double *theta) {
  pn_layers *layers = NULL;
  for (size_t i = 0; i < m->n_nets; ++i)
    if (&m->nets[i] != net && m->nets[i].options.from &&
        strcmp(m->nets[i].options.from, net->options.from) == 0)
      return pn_fail_at(TN_EINPUT, net->options.place, 1,
                        "%s holds one network, and this file has several: write `from` into the "
                        "`network` of the unknowns it is for",
                        net->options.from);
  TN_TRY(pn_layers_read(net->options.from, &layers));
  tn_status status = pn_layers_fill(layers, m, net, theta);
  pn_layers_free(&layers);
  return status;
}

tn_status pn_warm_fill(const pn_model *m, double *theta) {
  for (size_t i = 0; m->problem->warm && i < m->n_nets; ++i) {
    const pn_net *net = &m->nets[i];
    const char *from = net->options.from;
    origin o;
    if (!from)
      continue;
    if (!pn_warm_is_result(from)) {
      TN_TRY(fill_from_layers(m, net, theta));
      continue;
    }
    TN_TRY(open_origin(from, &o));
    tn_status status = fill_from_result(m, net, &o, theta);
    close_origin(&o);
    TN_TRY(status);
  }
  return TN_OK;
}
