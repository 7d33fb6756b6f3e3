/* model.c: a problem's networks as fields of one graph, and the layout of theta.
 *
 * Unknowns that depend on the same coordinates and ask for no network of their own are outputs of one
 * network. Networks and outputs are ordered by the names of their unknowns, never by their places in the
 * file: net1, net2, ... and their blocks then name the same weights, and the same random numbers, however
 * the tables of the file are arranged. theta is the blocks one after another, in f64.
 * net_options.c decides what the file leaves open.
 */
#include "pinn/lower.h"
#include "pinn/net_layers.h"
#include "pinn/warm.h"

#include <math.h>
#include <string.h>

enum { MOST_OUTPUTS = sizeof((pn_net *)0)->unknown / sizeof((pn_net *)0)->unknown[0] };

/* ---- Blocks ------------------------------------------------------------------------------------- */

tn_status pn_model_add_block(pn_model *model, const char *full, size_t rank, const size_t *extent,
                             tn_value *leaf) {
  pn_block block = {.offset = model->n_theta, .count = 1, .rank = rank};
  char *name = NULL;
  TN_TRY(pn_arena_format(model->arena, &name, "%s", full));
  block.name = name;
  for (size_t i = 0; i < rank; ++i) {
    block.extent[i] = extent[i];
    if (extent[i] == 0 || block.count > (size_t)INT32_MAX / extent[i])
      return TN_FAIL(TN_ERANGE, "%s: more than 2^31 weights", name);
    block.count *= extent[i];
  }
  block.leaf = tn_parameter(model->graph, name, model->dtype, tn_shape_fixed(rank, extent));
  TN_TRY(tn_grow(&model->blocks, model->n_blocks, model->n_blocks + 1, sizeof *model->blocks));
  model->blocks[model->n_blocks++] = block;
  model->n_theta += block.count;
  *leaf = block.leaf;
  return tn_graph_error(model->graph);
}

tn_status pn_model_block(pn_model *model, const pn_net *net, const char *part, size_t rank,
                         const size_t *extent, tn_value *leaf) {
  char name[192];
  snprintf(name, sizeof name, "%s.%.120s", net->name, part);
  return pn_model_add_block(model, name, rank, extent, leaf);
}

/* ---- Which unknowns share a network -------------------------------------------------------------- */

/* Indices of the unknowns in the order of their names. */
static void sort_unknowns(const pn_problem *p, size_t *order) {
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    size_t k = i;
    for (; k > 0 && strcmp(p->unknowns[order[k - 1]].name, p->unknowns[i].name) > 0; --k)
      order[k] = order[k - 1];
    order[k] = i;
  }
}

static bool fits(const pn_problem *p, const pn_net *net, const pn_unknown *u) {
  const pn_unknown *first = &p->unknowns[net->unknown[0]];
  if (u->pair && first->pair == u->pair) /* the parts of a complex unknown */
    return true;
  if (!p->network.shared || u->network || p->unknowns[net->unknown[0]].network || net->n_in != u->n_arguments)
    return false;
  return memcmp(net->of, u->argument, u->n_arguments * sizeof *u->argument) == 0;
}

static tn_status place_unknown(pn_model *m, size_t index) {
  const pn_problem *p = m->problem;
  const pn_unknown *u = &p->unknowns[index];
  size_t i = 0;
  while (i < m->n_nets && !fits(p, &m->nets[i], u))
    ++i;
  pn_net *net = &m->nets[i];
  if (i == m->n_nets) {
    ++m->n_nets;
    net->n_in = u->n_arguments;
    memcpy(net->of, u->argument, u->n_arguments * sizeof *u->argument);
    net->options = u->network ? *u->network : p->network;
    snprintf(net->name, sizeof net->name, "net%zu", m->n_nets);
  }
  if (net->n_out == MOST_OUTPUTS)
    return TN_FAIL(TN_EUNSUPPORTED,
                   "more than %d unknowns of the same coordinates: give some of them "
                   "a network of their own",
                   (int)MOST_OUTPUTS);
  m->unknown_net[index] = i;
  m->unknown_output[index] = net->n_out;
  net->unknown[net->n_out++] = index;
  return TN_OK;
}

/* ---- Building ----------------------------------------------------------------------------------- */

static tn_status build_net(pn_model *m, pn_net *net) {
  tn_value args[PN_MAX_COORDINATES], outputs[MOST_OUTPUTS] = {{0}};
  const char *name = net->n_out == 1 ? m->problem->unknowns[net->unknown[0]].name : net->name;
  TN_TRY(pn_net_find(net->options.kind, &net->class_));
  TN_TRY(ag_field_new(m->graph, name, net->n_in, m->dtype, &net->field));
  for (size_t j = 0; j < net->n_in; ++j) {
    TN_TRY(ag_field_label(net->field, j, m->problem->coordinates[net->of[j]].name));
    args[j] = ag_field_argument(net->field, j);
    size_t unknown = m->problem->coordinates[net->of[j]].unknown;
    if (unknown != PN_NONE) /* in units of its scale, which is known later */
      args[j] = tn_div(args[j], m->unknown_scale_leaf[unknown]);
  }
  net->first_block = m->n_blocks;
  TN_TRY(net->class_->build(m, net, args, outputs));
  for (size_t k = 0; k < net->n_out;
       ++k) /* inside the field: a residual's derivatives then fold bare */
    outputs[k] = tn_mul(m->unknown_scale_leaf[net->unknown[k]], outputs[k]);
  net->n_blocks = m->n_blocks - net->first_block;
  return ag_field_body(net->field, net->n_out, outputs);
}

static tn_status make_scales(pn_model *m) {
  const pn_problem *p = m->problem;
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->unknown_scale));
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->unknown_scale_source));
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->unknown_scale_leaf));
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    bool given = isfinite(p->unknowns[i].scale);
    char name[160];
    snprintf(name, sizeof name, "scale of %s", p->unknowns[i].name);
    m->unknown_scale[i] = given ? p->unknowns[i].scale : 1;
    m->unknown_scale_source[i] = given ? "file" : "none";
    m->unknown_scale_leaf[i] = tn_scalar(m->graph, name, m->dtype, m->unknown_scale[i]);
  }
  return TN_OK;
}

static tn_status build(pn_model *m) {
  const pn_problem *p = m->problem;
  size_t *order = NULL;
  TN_TRY(pn_arena_new(&m->arena));
  TN_TRY(tn_graph_new(&m->graph));
  TN_TRY(tn_graph_cache(m->graph, 0, 0)); /* what is evaluated here is evaluated once */
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->nets));
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->unknown_net));
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &m->unknown_output));
  TN_TRY(PN_TAKE(m->arena, p->n_unknowns, &order));
  sort_unknowns(p, order);
  for (size_t i = 0; i < p->n_unknowns; ++i)
    TN_TRY(place_unknown(m, order[i]));
  for (size_t i = 0; i < m->n_nets; ++i)
    TN_TRY(pn_net_decide(p, &m->nets[i]));
  TN_TRY(pn_net_check_activations(m));
  TN_TRY(pn_hard_new(m));
  TN_TRY(make_scales(m));
  for (size_t i = 0; i < m->n_nets; ++i)
    TN_TRY(build_net(m, &m->nets[i]));
  TN_TRY(pn_model_parameters(m));
  return tn_graph_error(m->graph);
}

tn_status pn_model_new(pn_problem *problem, tn_dtype dtype, pn_model **out) {
  *out = NULL;
  if (dtype != TN_F64 && dtype != TN_F32)
    return TN_FAIL(TN_EDTYPE, "a model of %s: f64 or f32 is expected", tn_dtype_name(dtype));
  pn_model *m = NULL;
  TN_TRY(TN_NEW(1, &m));
  m->problem = problem;
  m->dtype = dtype;
  tn_status status = build(m);
  if (status != TN_OK)
    pn_model_free(&m);
  *out = m;
  return status;
}

void pn_model_free(pn_model **model) {
  if (!*model)
    return;
  tn_free(&(*model)->blocks);
  tn_graph_free(&(*model)->graph);
  pn_arena_free(&(*model)->arena);
  tn_free(model);
}

tn_status pn_model_init(const pn_model *model, uint64_t seed, double *theta) {
  for (size_t i = 0; i < model->n_nets; ++i)
    TN_TRY(model->nets[i].class_->init(model, &model->nets[i], seed, theta));
  for (size_t i = 0; i < model->problem->n_parameters; ++i)
    theta[model->blocks[model->parameter_block[i]].offset] = 0;
  return pn_warm_fill(model, theta);
}

bool pn_model_is_hard(const pn_model *model, const pn_term *condition) {
  (void)model; /* pn_model_new refuses those that it cannot meet */
  return condition->is_condition && condition->hard;
}
