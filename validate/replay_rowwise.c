/* replay_rowwise.c: rows (softmax, layer_norm, rstd) and operations of users in MPFR, by their meaning.
 *
 *   softmax     e_j = exp(x_j - max), 1 where x_j is the max; y_j = e_j / sum e
 *   layer_norm  d = x - mean x, s = sqrt(mean d^2 + epsilon); y = d / s; rstd: 1 / s
 *
 * Scales, with t_j = x_j - max, of exact x:
 *   softmax     y_j (1 + |t_j| + sum_k y_k |t_k|): a relative error u of t_j moves e_j by |t_j| u
 *   layer_norm  D_j / s + |y_j| (1 + mean(|d| D) / s^2), D_j = |x_j| + mean |x|
 *   rstd        (1 + mean(|d| D) / s^2) / s
 * where S of x stands for |x|. If x is not exact, softmax adds sum_k |dy_j/dx_k| S_k.
 *
 * An operation of a user is replayed if it has a meaning: as a program of its own at the same precision, whose
 * leaves are the values that enter. What it computes by itself is not looked at, so its error shows.
 */
#include <math.h>
#include <string.h>

#include "validate/replay.h"

typedef struct row { /* of entries lying side by side; x, y NULL where they take no part */
  size_t n;
  mpfr_srcptr x;
  const double *size; /* S of x */
  bool exact;
  mpfr_ptr y;
  double *scale;
} row;

/* ---- softmax -------------------------------------------------------------------------------- */

static void softmax(vd_replay *r, const row *w) {
  mpfr_ptr most = r->scratch.v, sum = r->scratch.v + 1;
  mpfr_set(most, w->x, MPFR_RNDN);
  for (size_t j = 1; j < w->n; ++j) {
    bool nan = mpfr_nan_p(most) || mpfr_nan_p(w->x + j);
    if (nan)
      mpfr_set_nan(most);
    else
      mpfr_max(most, most, w->x + j, MPFR_RNDN);
  }
  mpfr_set_zero(sum, 1);
  for (size_t j = 0; j < w->n; ++j) {
    mpfr_ptr e = w->y + j;
    if (mpfr_equal_p(w->x + j, most))
      mpfr_set_zero(e, 1);
    else
      mpfr_sub(e, w->x + j, most, MPFR_RNDN);
    w->scale[j] = fabs(mpfr_get_d(e, MPFR_RNDN)); /* |t|, for a while */
    mpfr_exp(e, e, MPFR_RNDN);
    mpfr_add(sum, sum, e, MPFR_RNDN);
  }
  double shared = 0, moved = 0;
  for (size_t j = 0; j < w->n; ++j) {
    mpfr_div(w->y + j, w->y + j, sum, MPFR_RNDN);
    double y = mpfr_get_d(w->y + j, MPFR_RNDN);
    if (y > 0) /* |t| is infinite where y is 0 */
      shared += y * w->scale[j];
    if (y > 0 && !w->exact)
      moved += y * w->size[j];
  }
  for (size_t j = 0; j < w->n; ++j) {
    double y = mpfr_get_d(w->y + j, MPFR_RNDN);
    w->scale[j] = y > 0 ? y * (1 + w->scale[j] + shared + (w->exact ? 0 : moved + w->size[j])) : 0;
  }
}

/* ---- layer_norm and rstd --------------------------------------------------------------------- */

static void norm(vd_replay *r, const tn_node *node, const row *w) {
  mpfr_ptr mean = r->scratch.v, square = r->scratch.v + 1, d = r->scratch.v + 2;
  double size = 0, spread = 0;
  mpfr_set_zero(mean, 1);
  mpfr_set_zero(square, 1);
  for (size_t j = 0; j < w->n; ++j) {
    mpfr_add(mean, mean, w->x + j, MPFR_RNDN);
    size += w->size[j] / (double)w->n;
  }
  mpfr_div_ui(mean, mean, w->n, MPFR_RNDN);
  for (size_t j = 0; j < w->n; ++j) {
    mpfr_sub(d, w->x + j, mean, MPFR_RNDN);
    spread += fabs(mpfr_get_d(d, MPFR_RNDN)) * (w->size[j] + size) / (double)w->n;
    mpfr_sqr(d, d, MPFR_RNDN);
    mpfr_add(square, square, d, MPFR_RNDN);
  }
  mpfr_div_ui(square, square, w->n, MPFR_RNDN);
  mpfr_add_d(square, square, tn_round(tn_dtype_compute(node->dtype), node->number), MPFR_RNDN);
  double relative = 1 + spread / mpfr_get_d(square, MPFR_RNDN);
  mpfr_sqrt(square, square, MPFR_RNDN);
  double s = mpfr_get_d(square, MPFR_RNDN);
  if (node->op->id == TN_OP_rstd) {
    mpfr_ui_div(w->y, 1, square, MPFR_RNDN);
    w->scale[0] = relative / s;
    return;
  }
  for (size_t j = 0; j < w->n; ++j) {
    mpfr_sub(d, w->x + j, mean, MPFR_RNDN);
    mpfr_div(w->y + j, d, square, MPFR_RNDN);
    w->scale[j] = (w->size[j] + size) / s + fabs(mpfr_get_d(w->y + j, MPFR_RNDN)) * relative;
  }
}

/* ---- Operations of users --------------------------------------------------------------------- */

static tn_status build(const vd_replay *r, const tn_node *node, tn_graph *graph, tn_value *x,
                       tn_program **out) {
  tn_axis axis = tn_axis_new(graph, "points");
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    tn_edge e = node->inputs[k];
    tn_shape shape = tn_program_node(r->program, e.node)->shapes[e.port];
    if (tn_shape_batched(&shape))
      shape.axis[0] = axis;
    x[k] = tn_input(graph, "", node->dtype, shape);
  }
  tn_value y = node->op->custom->meaning(node->op->custom->context, x);
  TN_TRY(tn_graph_error(graph));
  return tn_compile(graph, 1, &y, out);
}

static tn_status run_inside(vd_replay *r, const tn_node *node, const tn_value *x, vd_replay *inner,
                            vd_port *out) {
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    uint32_t leaf;
    tn_edge e = node->inputs[k];
    const tn_shape *shape = &tn_program_node(r->program, e.node)->shapes[e.port];
    if (!tn_program_leaf(inner->program, x[k], &leaf))
      continue;
    inner->leaf[leaf].given = vd_port_of(r, e);
    inner->leaf[leaf].points = tn_shape_batched(shape) ? r->extent[shape->axis[0]] : 0;
  }
  TN_TRY(vd_replay_run(inner));
  tn_edge y = tn_program_output(inner->program, 0);
  const vd_port *from = vd_port_of(inner, y);
  for (size_t i = 0; i < out->value.n; ++i) {
    size_t j = vd_element(from, i, out->width);
    mpfr_set(out->value.v + i, from->value.v + j, MPFR_RNDN);
    out->scale[i] = from->scale[j];
  }
  return TN_OK;
}

static tn_status run_custom(vd_replay *r, const tn_node *node, vd_port *out) {
  const tn_custom *c = node->op->custom;
  if (!c->meaning)
    return TN_FAIL(
        TN_EUNSUPPORTED,
        "replay: `%s` has no meaning in operations, so there is no right value to compare with",
        node->op->name);
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  vd_replay *inner = NULL;
  tn_value x[TN_CUSTOM_INPUTS];
  TN_TRY(tn_graph_new(&graph));
  tn_status status = build(r, node, graph, x, &program);
  if (status == TN_OK)
    status = vd_replay_new(program, (int)r->bits, &inner);
  if (status == TN_OK)
    status = run_inside(r, node, x, inner, out);
  vd_replay_free(&inner);
  tn_program_free(&program);
  tn_graph_free(&graph);
  return status;
}

tn_status vd_run_rowwise(vd_replay *r, const tn_node *node, vd_port *out) {
  if (node->op->custom)
    return run_custom(r, node, out);
  const vd_port *x = vd_port_of(r, node->inputs[0]);
  tn_edge e = node->inputs[0];
  const tn_shape *shape = &tn_program_node(r->program, e.node)->shapes[e.port];
  size_t n = shape->extent[shape->rank - 1], step = node->op->id == TN_OP_rstd ? 1 : n;
  for (size_t i = 0; i < x->value.n / n; ++i) {
    row w = {n,        x->value.v + i * n,      x->scale + i * n,
             x->exact, out->value.v + i * step, out->scale + i * step};
    if (node->op->id == TN_OP_softmax)
      softmax(r, &w);
    else
      norm(r, node, &w);
  }
  return TN_OK;
}
