/* model_parameter.c: numbers to be found as blocks of theta.
 *
 * Optimizers see a number z of order 1, 0 at the start, and not the parameter p itself: a speed of 0.5
 * and a rate of 7.8e8 in the same vector would leave any common step length wrong for one of them.
 *
 *   p = start + s z                       s = |start|, 1 for a start of 0
 *   p = start 10^z                        log
 *   p = lo + (hi - lo) L(4 z + c)         bounds; L(x) = 1 / (1 + exp(-x)), c such that p = start at z = 0
 *   log p = log lo + log(hi/lo) L(4 z + c)  both
 *
 * so that a step of 1 in z is a change by the parameter's own size, by a factor of ten, or (in the
 * middle of the bounds) by about their distance. The map is part of the graph: gradients, rows of J
 * and second derivatives go through it. Blocks stand behind those of the networks, in the order of
 * the names: the last columns of J belong to the parameters, which is where sensitivities are read.
 */
#include "pinn/lower.h"

#include <math.h>
#include <string.h>

static const double ln10 = 2.302585092994046;

static bool bounded(const pn_parameter *k) { return isfinite(k->lo); }

/* c of the logistic map. */
static double shift(const pn_parameter *k) {
  double lo = k->lo, hi = k->hi, x = k->start;
  if (k->log) {
    lo = log(lo);
    hi = log(hi);
    x = log(x);
  }
  return log((x - lo) / (hi - x));
}

static double unit(const pn_parameter *k) { return k->start != 0 ? fabs(k->start) : 1; }

double pn_parameter_of(const pn_parameter *k, double z) {
  if (!bounded(k))
    return k->log ? k->start * exp(ln10 * z) : k->start + unit(k) * z;
  double share = 1 / (1 + exp(-(4 * z + shift(k))));
  return k->log ? exp(log(k->lo) + log(k->hi / k->lo) * share) : k->lo + (k->hi - k->lo) * share;
}

double pn_parameter_slope(const pn_parameter *k, double z) {
  if (!bounded(k))
    return k->log ? ln10 * pn_parameter_of(k, z) : unit(k);
  double share = 1 / (1 + exp(-(4 * z + shift(k)))), slope = 4 * share * (1 - share);
  return k->log ? pn_parameter_of(k, z) * log(k->hi / k->lo) * slope : (k->hi - k->lo) * slope;
}

/* ---- In the graph ------------------------------------------------------------------------------- */

static tn_value number(const pn_model *m, double x) { return tn_const(m->graph, m->dtype, x); }

static tn_value value_of(const pn_model *m, const pn_parameter *k, tn_value z) {
  if (!bounded(k) && k->log)
    return tn_mul(number(m, k->start), tn_exp(tn_mul(number(m, ln10), z)));
  if (!bounded(k))
    return tn_add(number(m, k->start), tn_mul(number(m, unit(k)), z));
  tn_value x = tn_add(tn_mul(number(m, 4), z), number(m, shift(k)));
  tn_value share = tn_sigmoid(x);
  if (!k->log)
    return tn_add(number(m, k->lo), tn_mul(number(m, k->hi - k->lo), share));
  return tn_exp(tn_add(number(m, log(k->lo)), tn_mul(number(m, log(k->hi / k->lo)), share)));
}

/* Sizes of known expressions are evaluated by tn_eval, where the leaf needs a number: that of now. */
static tn_status bind_now(const pn_model *m, size_t i, double z) {
  tn_buffer *buffer = NULL;
  TN_TRY(tn_buffer_new(m->dtype, 0, NULL, &buffer));
  tn_status status = tn_convert(1, TN_F64, &z, m->dtype, tn_map(buffer, TN_WRITE));
  tn_unmap(buffer);
  if (status == TN_OK)
    status = tn_bind(m->blocks[m->parameter_block[i]].leaf, buffer);
  tn_buffer_release(&buffer);
  return status;
}

tn_status pn_model_parameters(pn_model *m) {
  const pn_problem *p = m->problem;
  size_t *order = NULL;
  TN_TRY(PN_TAKE(m->arena, p->n_parameters, &m->parameter));
  TN_TRY(PN_TAKE(m->arena, p->n_parameters, &m->parameter_block));
  TN_TRY(PN_TAKE(m->arena, p->n_parameters, &order));
  for (size_t i = 0; i < p->n_parameters; ++i) {
    size_t at = i;
    for (; at > 0 && strcmp(p->parameters[order[at - 1]].name, p->parameters[i].name) > 0; --at)
      order[at] = order[at - 1];
    order[at] = i;
  }
  m->first_parameter = m->n_theta;
  for (size_t k = 0; k < p->n_parameters; ++k) {
    const pn_parameter *one = &p->parameters[order[k]];
    tn_value leaf = {0};
    char name[160];
    snprintf(name, sizeof name, "parameter.%.120s", one->name);
    m->parameter_block[order[k]] = m->n_blocks;
    TN_TRY(pn_model_add_block(m, name, 0, NULL, &leaf));
    TN_TRY(bind_now(m, order[k], 0));
    tn_at(m->graph, one->place.source ? one->place.source->file : NULL, (int)one->place.line,
          (int)one->place.column, one->name);
    m->parameter[order[k]] = value_of(m, one, leaf);
  }
  return tn_graph_error(m->graph);
}

tn_status pn_model_set_parameters(const pn_model *m, const double *theta) {
  for (size_t i = 0; i < m->problem->n_parameters; ++i)
    TN_TRY(bind_now(m, i, theta[m->blocks[m->parameter_block[i]].offset]));
  return TN_OK;
}

double pn_model_parameter(const pn_model *m, const double *theta, size_t i) {
  return pn_parameter_of(&m->problem->parameters[i],
                         theta[m->blocks[m->parameter_block[i]].offset]);
}

tn_status pn_frame_parameter(pn_frame *f, size_t parameter, tn_value *out) {
  const pn_model *m = f->scope->model;
  const pn_parameter *k = &m->problem->parameters[parameter];
  if (f->scope->exact)
    *out = tn_scalar(m->graph, k->name, m->dtype, isnan(k->exact) ? k->start : k->exact);
  else
    *out = m->parameter[parameter];
  return TN_OK;
}
