/* fd.c: derivatives without a rule, and the rules held against them.
 *
 *   f^(m)(x) = h^-m sum over i = 0..m of (-1)^i C(m, i) f(x + (m/2 - i) h) + O(h^2),    h = 2^-80
 *
 * in MPFR. Only forward values enter, so a wrong derivative rule cannot hide here. The truncation
 * error is about m/24 h^2 f^(m+2), 48 digits below f^(m) for a function of scale 1. The differences
 * cancel 80 m bits; with 80 m + 256 bits and at least 512 there remain 77 digits, so that
 * truncation decides at every order.
 *
 * vd_audit_rules evaluates the rules by Taylor series in MPFR and demands DIGITS = 35 equal decimal
 * digits, relative to the coefficient's scale, at orders 1 to 5 for every differentiable row.
 * Rows with two arguments are also expanded along two directions (1, s), which holds their mixed derivatives
 * against differences: those along a and b alone are known to be right from the same table.
 *
 * vd_mutate_rules breaks each rule on purpose and counts how many of the mutants that check
 * notices.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/ops.h"

enum { STEP = 80, DIGITS = 35, MAX_ORDER = 5, MOST_DIGITS = 99 };

static mpfr_prec_t precision_for(int order) {
  mpfr_prec_t bits = STEP * order + 256;
  return bits < 512 ? 512 : bits;
}

void vd_fd(tn_op_id op, double exponent, int along, int order, double a, double b, mpfr_ptr out) {
  mpfr_t sum, f, e, v[2];
  mpfr_prec_t bits = precision_for(order);
  mpfr_inits2(bits, sum, f, e, v[0], v[1], (mpfr_ptr)0);
  mpfr_set_d(e, exponent, MPFR_RNDN);
  mpfr_set_zero(sum, 1);
  long binomial = 1;
  for (int i = 0; i <= order; ++i) {
    mpfr_set_d(v[0], a, MPFR_RNDN);
    mpfr_set_d(v[1], b, MPFR_RNDN);
    mpfr_set_si_2exp(f, order - 2 * i, -STEP - 1, MPFR_RNDN);
    if (along < 2) {
      mpfr_add(v[along], v[along], f, MPFR_RNDN);
    } else {
      mpfr_add(v[0], v[0], f, MPFR_RNDN);
      mpfr_mul_d(f, f, exponent, MPFR_RNDN);
      mpfr_add(v[1], v[1], f, MPFR_RNDN);
    }
    if (vd_is_binary(op))
      vd_ref_binary(op, f, v[0], v[1]);
    else
      vd_ref_unary(op, f, v[0], e);
    mpfr_mul_si(f, f, i % 2 ? -binomial : binomial, MPFR_RNDN);
    mpfr_add(sum, sum, f, MPFR_RNDN);
    binomial = binomial * (order - i) / (i + 1);
  }
  mpfr_mul_2si(sum, sum, (long)STEP * order, MPFR_RNDN);
  mpfr_set(out, sum, MPFR_RNDN);
  mpfr_clears(sum, f, e, v[0], v[1], (mpfr_ptr)0);
}

/* ---- Rules against differences -------------------------------------------------------------- */

static const double whole[] = {3, 2, 5, 4, -1, -2, 1, 0},
                    fractional[] = {2.5, 0.5, -0.5, -1.5, 3.25};

size_t vd_cases_of(tn_op_id op, vd_case *list) {
  size_t n = 0;
  if (vd_is_binary(op))
    for (int along = 0; along < 2; ++along)
      list[n++] = (vd_case){op, along, 0};
  else if (op == TN_OP_powi)
    for (size_t i = 0; i < sizeof whole / sizeof *whole; ++i)
      list[n++] = (vd_case){op, 0, whole[i]};
  else if (vd_is_power(op))
    for (size_t i = 0; i < sizeof fractional / sizeof *fractional; ++i)
      list[n++] = (vd_case){op, 0, fractional[i]};
  else if (vd_is_unary(op))
    list[n++] = (vd_case){op, 0, 0};
  return n;
}

void vd_case_name(const vd_case *c, char *text, size_t capacity) {
  const char *name = tn_op_row(c->op)->name;
  if (vd_is_power(c->op))
    snprintf(text, capacity, "%s %g", name, c->exponent);
  else if (vd_is_binary(c->op) && c->along == 2)
    snprintf(text, capacity, "%s along 1,%g", name, c->exponent);
  else if (vd_is_binary(c->op))
    snprintf(text, capacity, "%s by %c", name, c->along ? 'b' : 'a');
  else
    snprintf(text, capacity, "%s", name);
}

/* Decimal digits to which x and reference agree, relative to |reference| or scale if larger. */
static double digits_equal(mpfr_srcptr x, mpfr_srcptr reference, double scale) {
  mpfr_t d;
  mpfr_init2(d, mpfr_get_prec(reference) + 64);
  mpfr_sub(d, x, reference, MPFR_RNDN);
  double result = MOST_DIGITS;
  if (!mpfr_number_p(d)) {
    result = 0;
  } else if (!mpfr_zero_p(d)) {
    double size = fmax(fabs(mpfr_get_d(reference, MPFR_RNDN)), scale);
    mpfr_div_d(d, d, size, MPFR_RNDN);
    mpfr_abs(d, d, MPFR_RNDN);
    mpfr_log10(d, d, MPFR_RNDN);
    result = mpfr_number_p(d) ? fmax(0, -mpfr_get_d(d, MPFR_RNDN)) : 0;
  }
  mpfr_clear(d);
  return fmin(result, MOST_DIGITS);
}

/* A random point of the row's domain, not within reach of the step from a kink at 0. */
static double sample(tn_stream stream, uint64_t i, double lo, double hi) {
  double x = lo + (hi - lo) * tn_random_uniform(stream, i);
  return fabs(x) < 1e-9 ? 1e-9 : x;
}

typedef struct digits {
  double least[MAX_ORDER + 1];
  double at[MAX_ORDER + 1];
} digits;

/* Least digits over n points, of orders 1 .. MAX_ORDER. */
static tn_status compare(const vd_case *c, const vd_rule *mutant, uint64_t seed, size_t n,
                         digits *out) {
  const tn_op *row = tn_op_row(c->op);
  vd_series_spec spec = {.op = c->op,
                         .exponent = c->exponent,
                         .along = c->along,
                         .slope = c->exponent,
                         .order = MAX_ORDER,
                         .bits = 512,
                         .mutant = mutant};
  vd_series *series = NULL;
  TN_TRY(vd_series_new(&spec, &series));
  mpfr_t a, b, fd, f;
  mpfr_inits2(512, a, b, fd, f, (mpfr_ptr)0);
  tn_stream stream = tn_stream_of(seed, row->name);
  for (int m = 0; m <= MAX_ORDER; ++m)
    out->least[m] = MOST_DIGITS;
  for (size_t i = 0; i < n; ++i) {
    double x = sample(stream, 2 * i, row->lo, row->hi);
    double z = sample(stream, 2 * i + 1, row->lo, row->hi);
    mpfr_set_d(a, x, MPFR_RNDN);
    mpfr_set_d(b, z, MPFR_RNDN);
    vd_series_at(series, a, b);
    double factorial = 1;
    for (int m = 1; m <= MAX_ORDER; ++m) {
      factorial *= m;
      vd_fd(c->op, c->exponent, c->along, m, x, z, fd);
      mpfr_mul_d(f, vd_series_coefficient(series, m), factorial, MPFR_RNDN);
      /* 2^-100 |f|: where a derivative is zero the differences leave 2^-256 |f| of rounding */
      double scale = ldexp(vd_series_scale(series, 0), -100);
      if (!mutant)
        scale = fmax(scale, factorial * vd_series_scale(series, m));
      double equal = digits_equal(f, fd, scale);
      if (equal < out->least[m]) {
        out->least[m] = equal;
        out->at[m] = c->along == 1 ? z : x;
      }
    }
  }
  mpfr_clears(a, b, fd, f, (mpfr_ptr)0);
  vd_series_free(&series);
  return TN_OK;
}

tn_status vd_audit_rules(const vd_options *options, vd_report *report) {
  vd_options defaults = vd_options_default();
  const vd_options *o = options ? options : &defaults;
  for (int op = 0; op < TN_OPS; ++op) {
    vd_case list[VD_CASES];
    if (o->only && strcmp(o->only, tn_op_row((tn_op_id)op)->name) != 0)
      continue;
    size_t n = vd_cases_of((tn_op_id)op, list);
    for (int k = 0; k < 2 && vd_is_binary((tn_op_id)op); ++k)
      list[n++] = (vd_case){(tn_op_id)op, 2, k ? -0.5 : 1};
    for (size_t i = 0; i < n; ++i) {
      digits d = {{0}, {0}};
      TN_TRY(compare(list + i, NULL, o->seed, o->rule_points, &d));
      for (int m = 1; m <= MAX_ORDER; ++m) {
        vd_row row = {.dtype = "mpfr",
                      .method = "rule",
                      .measure = "digits",
                      .order = m,
                      .points = o->rule_points,
                      .value = d.least[m],
                      .bound = DIGITS,
                      .at = d.at[m],
                      .pass = d.least[m] >= DIGITS};
        vd_case_name(list + i, row.subject, sizeof row.subject);
        TN_TRY(vd_report_add(report, &row));
      }
    }
  }
  return vd_audit_row_rules(o, report);
}

/* ---- Mutants -------------------------------------------------------------------------------- */

enum { MUTANT_POINTS = 12 };

/* Tries one mutant. A mutant is killed if any order at any point loses the demanded digits. Rules
 * of order 1 that are wrong show at order 1, so that is where it is judged. */
static tn_status try_mutant(const vd_case *c, vd_mutation kind, tn_stream stream, uint64_t *draw,
                            vd_mutants *out) {
  vd_rule rule;
  char text[64] = "", name[32] = "";
  TN_TRY(vd_rule_of(c->op, c->along, &rule));
  if (!vd_rule_mutate(&rule, kind, tn_random_bits(stream, (*draw)++), text, sizeof text))
    return TN_OK;
  digits d = {{0}, {0}};
  TN_TRY(compare(c, &rule, tn_random_bits(stream, (*draw)++), MUTANT_POINTS, &d));
  ++out->total;
  if (d.least[1] < DIGITS) {
    ++out->killed;
    return TN_OK;
  }
  vd_case_name(c, name, sizeof name);
  size_t used = 0;
  while (used < sizeof out->survivors - 1 && out->survivors[used])
    ++used;
  snprintf(out->survivors + used, sizeof out->survivors - used, "%s: %s; ", name, text);
  return TN_OK;
}

tn_status vd_mutate_rules(uint64_t seed, vd_mutants *out) {
  *out = (vd_mutants){0};
  tn_stream stream = tn_stream_of(seed, "mutants");
  uint64_t draw = 0;
  for (int op = 0; op < TN_OPS; ++op) {
    vd_case list[VD_CASES];
    size_t n = vd_cases_of((tn_op_id)op, list), before = out->total;
    if (vd_is_power((tn_op_id)op))
      n = 1; /* one exponent will do: the rule is the same text */
    for (size_t i = 0; i < n; ++i)
      for (int kind = 0; kind < VD_MUTATIONS; ++kind)
        TN_TRY(try_mutant(list + i, (vd_mutation)kind, stream, &draw, out));
    if (n > 0 && out->total == before)
      return TN_FAIL(TN_EINTERNAL, "mutants: %s has none", tn_op_row((tn_op_id)op)->name);
    out->rows += n > 0;
  }
  return TN_OK;
}
