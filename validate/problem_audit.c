/* problem_audit.c: judges a whole program, the very one that runs, against its replay in MPFR.
 *
 * Two different faults, two functions.
 *
 * Rounding. vd_audit_program runs the program on the executor and replays it on the same stored
 * data. What is judged is the relative norm-2 error of each output against norm2_ulps u of its
 * dtype; ulp of single elements and c go along for information. An output that cancels (a residual
 * near zero, a gradient at a minimum) can miss the norm bound honestly, and c tells: such an output
 * passes if c stays under the ceiling times the square root of the number of nodes, the growth
 * expected of random roundings in a row.
 *
 * Formula. vd_audit_gradient holds a gradient output against differences of the value, both in
 * MPFR: along a random direction v, sum g v against (L(x + h v) - L(x - h v)) / 2h with h = 2^-60.
 * The truncation error is near h^2 = 2^-120 of L''', 36 digits; 20 are demanded.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/mp.h"

enum { GRADIENT_STEP = 60, GRADIENT_DIGITS = 20 };

static tn_status bind_replay(const tn_program *program, size_t n, const vd_binding *bindings,
                             vd_replay *replay) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t node = 0;
    if (!tn_program_leaf(program, bindings[i].leaf, &node))
      continue;
    if (bindings[i].buffer)
      TN_TRY(vd_replay_bind(replay, node, bindings[i].buffer));
    else
      TN_TRY(vd_replay_set(replay, node, bindings[i].number));
  }
  return TN_OK;
}

static tn_status run_engine(size_t n, const vd_binding *bindings, tn_exec *exec) {
  for (size_t i = 0; i < n; ++i)
    if (bindings[i].buffer)
      TN_TRY(tn_exec_bind(exec, bindings[i].leaf, bindings[i].buffer));
    else
      TN_TRY(tn_exec_set(exec, bindings[i].leaf, bindings[i].number));
  return tn_exec_run(exec);
}

static tn_status judge_output(const tn_program *program, tn_exec *exec, const vd_replay *replay,
                              size_t output, const char *name, const vd_options *o,
                              vd_report *report) {
  tn_edge edge = tn_program_output(program, output);
  const tn_node *node = tn_program_node(program, edge.node);
  size_t n = vd_replay_count(replay, edge.node, edge.port);
  double *values = NULL;
  TN_TRY(TN_NEW(n, &values));
  tn_status status = tn_exec_read(exec, output, n, values);
  vd_measure m = {0};
  for (size_t i = 0; i < n && status == TN_OK; ++i)
    vd_measure_add(&m, node->dtype, values[i], vd_replay_at(replay, edge.node, edge.port, i),
                   vd_replay_scale(replay, edge.node, edge.port, i), (double)i);
  tn_free(&values);
  TN_TRY(status);
  double u = tn_dtype_roundoff(node->dtype);
  vd_row row = {.method = "program",
                .measure = "norm2",
                .order = -1,
                .points = n,
                .value = vd_measure_norm2(&m),
                .bound = o->norm2_ulps * u,
                .ulp = m.max_ulp,
                .c = m.max_c,
                .norm2 = vd_measure_norm2(&m),
                .at = m.at};
  snprintf(row.subject, sizeof row.subject, "%s", name ? name : "");
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(node->dtype));
  row.pass = row.value <= row.bound && isfinite(m.max_error);
  double ceiling = o->c_ceiling * sqrt((double)tn_program_nodes(program));
  if (!row.pass && m.max_c <= ceiling) {
    snprintf(row.measure, sizeof row.measure, "c");
    row.value = m.max_c;
    row.bound = ceiling;
    row.pass = true;
  }
  return vd_report_add(report, &row);
}

tn_status vd_audit_program(const tn_program *program, tn_pool *pool, size_t n_bindings,
                           const vd_binding *bindings, const char *const *names,
                           const vd_options *options, vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  vd_replay *replay = NULL;
  tn_exec *exec = NULL;
  TN_TRY(vd_replay_new(program, o.bits, &replay));
  tn_status status = bind_replay(program, n_bindings, bindings, replay);
  if (status == TN_OK)
    status = vd_replay_run(replay);
  if (status == TN_OK)
    status = tn_exec_new(program, pool, &exec);
  if (status == TN_OK)
    status = run_engine(n_bindings, bindings, exec);
  for (size_t i = 0; i < tn_program_outputs(program) && status == TN_OK; ++i)
    status = judge_output(program, exec, replay, i, names ? names[i] : NULL, &o, report);
  tn_exec_free(&exec);
  vd_replay_free(&replay);
  return status;
}

/* ---- Gradients ------------------------------------------------------------------------------ */

typedef struct slope {
  tn_edge of, gradient;
  uint32_t leaf;
  size_t n;
  double *direction; /* of the leaf, owned */
} slope;

/* sum of g v in MPFR, and the sum of |g v|. */
static double along(const vd_replay *replay, const slope *s, mpfr_ptr sum, mpfr_ptr t) {
  double size = 0;
  mpfr_set_zero(sum, 1);
  for (size_t i = 0; i < s->n; ++i) {
    mpfr_mul_d(t, vd_replay_at(replay, s->gradient.node, s->gradient.port, i), s->direction[i],
               MPFR_RNDN);
    mpfr_add(sum, sum, t, MPFR_RNDN);
    size += fabs(mpfr_get_d(t, MPFR_RNDN));
  }
  return size;
}

/* Runs three times: for the gradient, and at both ends of the difference. digits: to which they
 * agree. */
static tn_status compare_slopes(vd_replay *replay, slope *s, mpfr_ptr g, mpfr_ptr d, mpfr_ptr t,
                                double *digits) {
  TN_TRY(vd_replay_run(replay));
  s->n = vd_replay_count(replay, s->leaf, 0);
  if (vd_replay_count(replay, s->of.node, s->of.port) != 1 ||
      vd_replay_count(replay, s->gradient.node, s->gradient.port) != s->n)
    return TN_FAIL(TN_ESHAPE,
                   "gradient audit: a value of %zu elements and a gradient of %zu for a "
                   "leaf of %zu; expected 1 and equal numbers",
                   vd_replay_count(replay, s->of.node, s->of.port),
                   vd_replay_count(replay, s->gradient.node, s->gradient.port), s->n);
  double size = 0;
  tn_stream stream = tn_stream_of(s->n, "direction");
  TN_TRY(TN_NEW(s->n, &s->direction));
  for (size_t i = 0; i < s->n; ++i)
    s->direction[i] = 2 * tn_random_uniform(stream, i) - 1;
  size = along(replay, s, g, t);
  mpfr_set_zero(d, 1);
  for (int side = 1; side >= -1; side -= 2) {
    TN_TRY(vd_replay_shift(replay, s->leaf, s->direction, ldexp(side, -GRADIENT_STEP)));
    TN_TRY(vd_replay_run(replay));
    mpfr_srcptr value = vd_replay_at(replay, s->of.node, s->of.port, 0);
    if (side > 0)
      mpfr_set(d, value, MPFR_RNDN);
    else
      mpfr_sub(d, d, value, MPFR_RNDN);
  }
  mpfr_mul_2si(d, d, GRADIENT_STEP - 1, MPFR_RNDN);
  mpfr_sub(t, d, g, MPFR_RNDN);
  mpfr_abs(t, t, MPFR_RNDN);
  size = fmax(size, fabs(mpfr_get_d(d, MPFR_RNDN)));
  *digits = 99;
  if (!mpfr_number_p(t)) {
    *digits = 0;
  } else if (!mpfr_zero_p(t)) {
    mpfr_div_d(t, t, size, MPFR_RNDN);
    mpfr_log10(t, t, MPFR_RNDN);
    *digits = fmin(99, fmax(0, -mpfr_get_d(t, MPFR_RNDN)));
  }
  return TN_OK;
}

tn_status vd_audit_gradient(const tn_program *program, size_t n_bindings,
                            const vd_binding *bindings, size_t of, size_t gradient, tn_value leaf,
                            const char *name, const vd_options *options, vd_report *report) {
  vd_options o = options ? *options : vd_options_default();
  slope s = {0};
  size_t n_outputs = tn_program_outputs(program);
  if (of >= n_outputs || gradient >= n_outputs || !tn_program_leaf(program, leaf, &s.leaf))
    return TN_FAIL(TN_EINPUT,
                   "gradient audit: outputs %zu and %zu of %zu, or the leaf is not in it", of,
                   gradient, n_outputs);
  s.of = tn_program_output(program, of);
  s.gradient = tn_program_output(program, gradient);
  vd_replay *replay = NULL;
  TN_TRY(vd_replay_new(program, o.bits, &replay));
  mpfr_t g, d, t;
  mpfr_inits2(o.bits, g, d, t, (mpfr_ptr)0);
  double digits = 0;
  tn_status status = bind_replay(program, n_bindings, bindings, replay);
  if (status == TN_OK)
    status = compare_slopes(replay, &s, g, d, t, &digits);
  mpfr_clears(g, d, t, (mpfr_ptr)0);
  vd_replay_free(&replay);
  tn_free(&s.direction);
  TN_TRY(status);
  vd_row row = {.dtype = "mpfr",
                .method = "difference",
                .measure = "digits",
                .order = -1,
                .points = s.n,
                .value = digits,
                .bound = GRADIENT_DIGITS,
                .pass = digits >= GRADIENT_DIGITS};
  snprintf(row.subject, sizeof row.subject, "%s", name ? name : "");
  return vd_report_add(report, &row);
}
