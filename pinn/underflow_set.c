/* underflow_set.c: pn_underflow_new: one training step in f64, in f32 and with a low format.
 *
 * The f64 and the f32 step are two models of the same file on the same data: weights, points and values of
 * tables are rounded to f32 for both, scales and weights of terms are copied. Their graphs are built by the same
 * calls, so operands are found in the same order, and that is checked by name. The low program is the f32 graph
 * behind ag_cast, with a loss that is multiplied by a run-time power of two first:
 *
 *   gradients of S L, cast     one program over all points       gradient at a scale
 *   operands of its products   one program, blocks of points     their values at a scale
 *
 * Operands of f64 come from a program with the same outputs at S = 1. Blocks keep memory bounded: each binds
 * its share of every point set, and the loss divides by the number of all points as ever, so an adjoint is what
 * it is in the whole step. Means over points couple all of them; then there is one block. A set with fewer
 * points than blocks gives a block none; there its first point stands in and is not read.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/result.h"
#include "pinn/underflow.h"

enum { STANDARD_POINTS = 10000, MOST_VALUES = 1 << 24 /* of a block: 128 MiB in f64 */ };

/* ---- Points ---------------------------------------------------------------------------------- */

/* The step with `interior` points of each equation (0: as in the file), the rest in proportion. The file's own
 * numbers are put back. */
static tn_status step_with(pn_problem *p, tn_pool *pool, const pn_step_options *o, size_t interior,
                           double factor, pn_step **out) {
  size_t n = p->n_equations + p->n_conditions, before = p->points.interior, *kept = NULL;
  TN_TRY(TN_NEW(n, &kept));
  for (size_t i = 0; i < n; ++i) {
    pn_term *t = i < p->n_equations ? &p->equations[i] : &p->conditions[i - p->n_equations];
    kept[i] = t->points;
    t->points = (size_t)ceil(factor * (double)t->points);
  }
  if (interior > 0)
    p->points.interior = interior;
  tn_status status = pn_step_new(p, pool, o, out);
  p->points.interior = before;
  for (size_t i = 0; i < n; ++i)
    (i < p->n_equations ? &p->equations[i] : &p->conditions[i - p->n_equations])->points = kept[i];
  tn_free(&kept);
  return status;
}

static tn_status make_step(const pn_underflow *u, tn_dtype dtype, pn_step **out) {
  const pn_step_options o = {.dtype_given = true, .dtype = dtype, .seed = u->options.seed};
  double factor = u->file_interior > 0 ? (double)u->interior / (double)u->file_interior : 1;
  bool own = u->interior == u->file_interior;
  return step_with(u->problem, u->pool, &o, own ? 0 : u->interior, own ? 1 : factor, out);
}

static tn_status make_steps(pn_underflow *u) {
  TN_TRY(make_step(u, TN_F64, &u->f64)); /* the file's own numbers */
  size_t own = u->f64->sites->interior, wanted = u->options.points;
  u->file_interior = own;
  if (wanted == 0)
    wanted = own > STANDARD_POINTS ? own : STANDARD_POINTS;
  u->interior = wanted;
  if (wanted != own) {
    pn_step_free(&u->f64);
    TN_TRY(make_step(u, TN_F64, &u->f64));
  }
  return make_step(u, TN_F32, &u->f32);
}

/* ---- The same data --------------------------------------------------------------------------- */

static void round_array(size_t n, double *x) {
  for (size_t i = 0; i < n; ++i)
    x[i] = (double)(float)x[i];
}

static void round_feed(const pn_feed *feed) {
  for (size_t i = 0; i < feed->n; ++i) {
    if (tn_buffer_dtype(feed->buffer[i]) != TN_F64)
      continue;
    double *x = tn_map(feed->buffer[i], TN_READ_WRITE);
    round_array(tn_buffer_extent(feed->buffer[i], 0), x);
    tn_unmap(feed->buffer[i]);
  }
}

static tn_status load_weights(pn_underflow *u) {
  pn_saved *saved = NULL;
  if (u->options.weights == NULL)
    return TN_OK;
  TN_TRY(pn_saved_open(u->options.weights, &saved));
  tn_status status = pn_saved_weights(saved, u->f64->model, u->f64->theta);
  if (status == TN_OK)
    status = pn_saved_terms(saved, u->f64->loss);
  pn_saved_free(&saved);
  return status;
}

/* Everything that is a number goes from one step to another one of the same file. */
static tn_status share_numbers(const pn_step *a, pn_step *b) {
  if (a->model->n_theta != b->model->n_theta || a->loss->n_terms != b->loss->n_terms ||
      a->sites->n_sites != b->sites->n_sites)
    return TN_FAIL(TN_EINTERNAL, "underflow: a step has %zu weights in f64 and %zu in %s",
                   a->model->n_theta, b->model->n_theta, tn_dtype_name(b->model->dtype));
  memcpy(b->theta, a->theta, a->model->n_theta * sizeof *a->theta);
  memcpy(b->model->unknown_scale, a->model->unknown_scale,
         a->model->problem->n_unknowns * sizeof *a->model->unknown_scale);
  for (size_t m = 0; m < a->loss->n_terms; ++m) {
    pn_loss_set_weight(b->loss, m, pn_loss_weight(a->loss, m));
    for (size_t r = 0; r < pn_loss_relations(a->loss, m); ++r)
      pn_loss_set_scale(b->loss, m, r, pn_loss_scale(a->loss, m, r));
  }
  return TN_OK;
}

static tn_status share_data(pn_underflow *u) {
  round_array(u->f64->model->n_theta, u->f64->theta);
  TN_TRY(share_numbers(u->f64, u->f32));
  TN_TRY(pn_loss_bind(u->f64->loss));
  round_feed(&u->f64->loss->feed);
  return pn_loss_bind(u->f32->loss);
}

tn_status pn_underflow_step(const pn_underflow *u, tn_dtype dtype, pn_step **out) {
  TN_TRY(make_step(u, dtype, out));
  tn_status status = share_numbers(u->f64, *out);
  if (status != TN_OK)
    pn_step_free(out);
  return status;
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* The f64 loss, and the f32 loss times 2^s, with their gradients: roots[0] and roots[1 + block]. */
static tn_status build_roots(pn_step *s, tn_value scale, tn_value *roots) {
  size_t n_blocks = s->model->n_blocks;
  tn_value *leaves = NULL;
  TN_TRY(TN_NEW(n_blocks, &leaves));
  for (size_t b = 0; b < n_blocks; ++b)
    leaves[b] = s->model->blocks[b].leaf;
  roots[0] = tn_ok(scale) ? tn_mul(s->loss->loss, scale) : s->loss->loss;
  tn_status status = ag_grad(roots[0], n_blocks, leaves, roots + 1);
  tn_free(&leaves);
  return status;
}

static bool same_operand(const pn_operand *a, const pn_operand *b) {
  return strcmp(a->layer, b->layer) == 0 && strcmp(a->label, b->label) == 0 &&
         strcmp(a->at, b->at) == 0 && a->adjoint == b->adjoint && a->width == b->width;
}

/* After the cast: gradients and rounded operands. Operands that stay f32 leave both lists. */
static tn_status cast(pn_underflow *u, size_t n_roots, const tn_value *roots,
                      const pn_operand_value *single) {
  size_t n = n_roots + u->n_operands;
  tn_graph *graph = u->f32->model->graph;
  const ag_cast_policy policy = {.low = u->options.low, .pure = u->options.pure};
  tn_value *values = NULL, *out = NULL;
  TN_TRY(TN_NEW(n, &values));
  tn_status status = TN_NEW(n, &out);
  memcpy(values, roots, n_roots * sizeof *roots);
  for (size_t i = 0; i < u->n_operands; ++i)
    values[n_roots + i] = single[i].value;
  if (status == TN_OK)
    status = TN_NEW(n, &u->low);
  if (status == TN_OK)
    status = TN_NEW(n_roots, &u->gradients);
  if (status == TN_OK)
    status = ag_cast(graph, &policy, n, values, out);
  if (status == TN_OK)
    status =
        pn_operands_rounded(graph, policy.low, n_roots, out, u->n_operands, out + n_roots, u->low);
  if (status == TN_OK)
    memcpy(u->gradients, out, n_roots * sizeof *out);
  size_t kept = 0;
  for (size_t i = 0; status == TN_OK && i < u->n_operands; ++i) {
    if (!tn_ok(u->low[i]))
      continue;
    u->operands[kept] = u->operands[i];
    u->low[kept++] = u->low[i];
  }
  u->n_operands = kept;
  tn_free(&values);
  tn_free(&out);
  return status;
}

static tn_status find_operands(pn_underflow *u) {
  size_t n_roots = 1 + u->f64->model->n_blocks, n = 0;
  tn_value *roots = NULL;
  pn_operand_value *single = NULL;
  TN_TRY(TN_NEW(n_roots, &roots));
  tn_status status = build_roots(u->f64, (tn_value){0}, roots);
  if (status == TN_OK)
    status = pn_operands_of(u->f64->model, pn_loss_channels(u->f64->loss), n_roots, roots,
                            &u->n_operands, &u->operands);
  u->scale = tn_scalar(u->f32->model->graph, "loss scale", TN_F64, 1);
  if (status == TN_OK)
    status = build_roots(u->f32, u->scale, roots);
  if (status == TN_OK)
    status =
        pn_operands_of(u->f32->model, pn_loss_channels(u->f32->loss), n_roots, roots, &n, &single);
  bool same = n == u->n_operands;
  for (size_t i = 0; status == TN_OK && same && i < n; ++i)
    same = same_operand(&single[i].is, &u->operands[i].is);
  if (status == TN_OK && !same)
    status = TN_FAIL(TN_EINTERNAL,
                     "underflow: the f64 step has %zu operands and the f32 step %zu, "
                     "or others",
                     u->n_operands, n);
  if (status == TN_OK)
    status = cast(u, n_roots, roots, single);
  tn_free(&roots);
  tn_free(&single);
  return status;
}

static tn_status compile(pn_underflow *u) {
  tn_value *exact = NULL;
  TN_TRY(pn_slot_new(u->f32->loss, 1 + u->f32->model->n_blocks, u->gradients, &u->gradient));
  if (u->n_operands == 0)
    return TN_OK;
  TN_TRY(TN_NEW(u->n_operands, &exact));
  for (size_t i = 0; i < u->n_operands; ++i)
    exact[i] = u->operands[i].value;
  tn_status status = pn_slot_new(u->f64->loss, u->n_operands, exact, &u->slots[0].program);
  tn_free(&exact);
  TN_TRY(status);
  return pn_slot_new(u->f32->loss, u->n_operands, u->low, &u->slots[1].program);
}

/* ---- Blocks of points ------------------------------------------------------------------------ */

/* Sites of means, which stand behind all others and have no scope of their own. */
static size_t count_means(const pn_step *s) {
  size_t means = 0;
  for (size_t i = 0; i < s->sites->n_sites; ++i)
    means += pn_scopes_mean_site(s->scopes, i) != PN_NONE;
  return means;
}

/* The site whose points lie on an axis. */
static tn_status site_of(const pn_step *s, tn_axis axis, size_t *site) {
  *site = PN_NONE;
  for (size_t i = 0; i + count_means(s) < s->sites->n_sites; ++i) {
    pn_scope *scope = NULL;
    TN_TRY(pn_scopes_at(s->scopes, i, &scope));
    if (scope->axis == axis)
      *site = i;
    else if (scope->mean != NULL && scope->mean->axis == axis)
      *site = pn_scopes_mean_site(s->scopes, i);
  }
  return *site != PN_NONE ? TN_OK : TN_FAIL(TN_EINTERNAL, "underflow: an operand has no points");
}

static tn_status split(pn_underflow *u) {
  double values = 0;
  for (size_t i = 0; i < u->n_operands; ++i) {
    size_t site = 0;
    TN_TRY(site_of(u->f64, u->operands[i].axis, &site));
    values += (double)u->f64->sites->sites[site].n * (double)u->operands[i].is.width;
  }
  double most = u->options.values > 0 ? (double)u->options.values : MOST_VALUES;
  u->n_blocks = count_means(u->f64) > 0 ? 1 : 1 + (size_t)(values / most);
  return TN_OK;
}

static tn_status bind_block(pn_underflow *u, pn_step *s, pn_underflow_slot *x, size_t block) {
  pn_feed_clear(&x->feed);
  x->block = PN_NONE;
  TN_TRY(pn_feed_share(&x->feed, s->scopes, s->sites, block, u->n_blocks));
  round_feed(&x->feed);
  TN_TRY(pn_loss_hand_over(s->loss, x->program.exec));
  return pn_feed_bind(&x->feed, x->program.exec);
}

static pn_underflow_slot *slot_of(pn_underflow *u, pn_underflow_program program, pn_step **step) {
  *step = program == PN_IN_F64 ? u->f64 : u->f32;
  return &u->slots[program != PN_IN_F64];
}

tn_status pn_underflow_run(pn_underflow *u, pn_underflow_program program, size_t block, int scale) {
  pn_step *s = NULL;
  pn_underflow_slot *x = slot_of(u, program, &s);
  if (program == PN_IN_F32 || block >= u->n_blocks)
    return TN_FAIL(TN_EINPUT, "underflow: block %zu of %zu, program %d of operands", block,
                   u->n_blocks, (int)program);
  if (u->n_operands == 0)
    return TN_OK;
  if (x->block != block)
    TN_TRY(bind_block(u, s, x, block));
  TN_TRY(pn_theta_set(s->model, &s->loss->theta, s->theta));
  if (program == PN_IN_LOW)
    TN_TRY(tn_exec_set(x->program.exec, u->scale, ldexp(1, scale)));
  TN_TRY(tn_exec_run(x->program.exec));
  x->block = block;
  return TN_OK;
}

tn_status pn_underflow_read(pn_underflow *u, pn_underflow_program program, size_t operand,
                            size_t *n, const double **values) {
  pn_step *s = NULL;
  pn_underflow_slot *x = slot_of(u, program, &s);
  size_t site = 0, first = 0, count = 0;
  *n = 0;
  *values = NULL;
  if (program == PN_IN_F32 || operand >= u->n_operands || x->block == PN_NONE)
    return TN_FAIL(TN_EINPUT, "underflow: operand %zu of %zu has no values", operand,
                   u->n_operands);
  const pn_operand_value *o = &u->operands[operand];
  TN_TRY(site_of(u->f64, o->axis, &site));
  if (!pn_share(s->sites->sites[site].n, x->block, u->n_blocks, &first, &count))
    return TN_OK;
  tn_free(&x->values);
  TN_TRY(TN_NEW(count * o->is.width, &x->values));
  TN_TRY(tn_exec_read(x->program.exec, operand, count * o->is.width, x->values));
  *n = count * o->is.width;
  *values = x->values;
  return TN_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

tn_status pn_underflow_gradient(pn_underflow *u, pn_underflow_program program, int scale,
                                double *loss, double *gradient) {
  pn_step *s = program == PN_IN_F64 ? u->f64 : u->f32;
  if (program != PN_IN_LOW)
    return pn_objective_gradient(pn_loss_objective(s->loss), s->theta, loss, gradient);
  TN_TRY(tn_exec_set(u->gradient.exec, u->scale, ldexp(1, scale)));
  TN_TRY(pn_loss_run(s->loss, &u->gradient, s->theta));
  TN_TRY(tn_exec_read(u->gradient.exec, 0, 1, loss));
  *loss = ldexp(*loss, -scale);
  for (size_t b = 0; b < s->model->n_blocks; ++b) {
    const pn_block *block = &s->model->blocks[b];
    TN_TRY(tn_exec_read(u->gradient.exec, 1 + b, block->count, gradient + block->offset));
  }
  for (size_t i = 0; i < s->model->n_theta; ++i)
    gradient[i] = ldexp(gradient[i], -scale);
  return TN_OK;
}

/* ---- Looking in ------------------------------------------------------------------------------ */

static tn_status gather_facts(pn_underflow *u) {
  pn_underflow_facts *f = &u->facts;
  pn_plan plan = {0};
  f->n_theta = u->f64->model->n_theta;
  f->points = u->f64->points;
  f->interior = u->f64->sites->interior;
  f->file_interior = u->file_interior;
  f->rate = 1e-3;
  f->optimizer = "adam";
  TN_TRY(pn_plan_new(u->problem, f->n_theta, &plan));
  for (size_t i = plan.n; i-- > 0;) {
    if ((plan.stages[i].class_->flags & PN_OPT_RATE) == 0)
      continue;
    f->rate = plan.stages[i].schedule.rate;
    f->optimizer = plan.stages[i].class_->name;
  }
  pn_plan_free(&plan);
  const ag_resolve_report *r = pn_loss_channels(u->f64->loss);
  size_t used = 0, most = sizeof r->group / sizeof r->group[0];
  for (size_t g = 0; g < r->n_groups && g < most && used < sizeof f->channels; ++g)
    used += (size_t)snprintf(f->channels + used, sizeof f->channels - used, "%s%s",
                             g > 0 ? "; " : "", r->group[g].labels);
  return TN_OK;
}

static tn_status list_weights(pn_underflow *u) {
  const pn_model *m = u->f64->model;
  TN_TRY(TN_NEW(m->n_blocks, &u->weights));
  for (size_t b = 0; b < m->n_blocks; ++b) {
    pn_underflow_block *w = &u->weights[b];
    *w = (pn_underflow_block){m->blocks[b].name, m->blocks[b].offset, m->blocks[b].count,
                              u->options.pure};
    for (size_t i = 0; i < u->n_operands && !w->low; ++i) {
      size_t n = strlen(u->operands[i].is.layer);
      w->low =
          strncmp(w->name, u->operands[i].is.layer, n) == 0 && strcmp(w->name + n, ".weight") == 0;
    }
  }
  return TN_OK;
}

tn_status pn_underflow_new(pn_problem *problem, tn_pool *pool, const pn_underflow_options *options,
                           pn_underflow **out) {
  pn_underflow *u = NULL;
  *out = NULL;
  if (options->low != TN_TF32 && options->low != TN_BF16 && options->low != TN_F16)
    return TN_FAIL(TN_EINPUT, "underflow: the format is %s, expected tf32, bf16 or f16",
                   tn_dtype_name(options->low));
  TN_TRY(TN_NEW(1, &u));
  u->problem = problem;
  u->pool = pool;
  u->options = *options;
  u->slots[0].block = u->slots[1].block = PN_NONE;
  tn_status status = make_steps(u);
  if (status == TN_OK)
    status = load_weights(u);
  if (status == TN_OK)
    status = share_data(u);
  if (status == TN_OK)
    status = find_operands(u);
  if (status == TN_OK)
    status = compile(u);
  if (status == TN_OK)
    status = split(u);
  if (status == TN_OK)
    status = gather_facts(u);
  if (status == TN_OK)
    status = list_weights(u);
  u->options.weights = NULL; /* the caller's text */
  if (status != TN_OK)
    pn_underflow_free(&u);
  *out = u;
  return status;
}

void pn_underflow_free(pn_underflow **set) {
  pn_underflow *u = *set;
  if (u == NULL)
    return;
  pn_slot_free(&u->gradient);
  for (size_t i = 0; i < 2; ++i) {
    pn_slot_free(&u->slots[i].program);
    pn_feed_clear(&u->slots[i].feed);
    tn_free(&u->slots[i].values);
  }
  tn_free(&u->operands);
  tn_free(&u->low);
  tn_free(&u->gradients);
  tn_free(&u->weights);
  pn_step_free(&u->f64);
  pn_step_free(&u->f32);
  tn_free(set);
}

size_t pn_underflow_operands(const pn_underflow *u) { return u->n_operands; }
const pn_operand *pn_underflow_operand(const pn_underflow *u, size_t i) {
  return i < u->n_operands ? &u->operands[i].is : NULL;
}
size_t pn_underflow_blocks(const pn_underflow *u) { return u->n_blocks; }
size_t pn_underflow_weights(const pn_underflow *u, const pn_underflow_block **blocks,
                            const double **theta) {
  *blocks = u->weights;
  *theta = u->f64->theta;
  return u->f64->model->n_blocks;
}
void pn_underflow_facts_of(const pn_underflow *u, pn_underflow_facts *out) { *out = u->facts; }
