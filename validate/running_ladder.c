/* running_ladder.c: bounds for the Taylor coefficients of a row, d_k = f^(m + k)(z) / k!.
 *
 * The engine finds them by the recurrence of the derivative column (tensor/series.c): with f' = D(x, y),
 *
 *   y_0 = f(g_0),   k y_k = sum over j = 1..k of j g_j D_(k - j)
 *
 * and rows in D are expanded by their own rules. Here the same recurrence runs on bounded numbers, whole
 * arrays at a time: rows at order 0 by their kernels at both ends of the argument's interval, everything
 * else by the arithmetic of running.c. So no figure about higher derivatives is assumed, only the promise
 * of each row's value. The rules come as trees from the table (rule.c); equal expressions are one series.
 */
#include <string.h>

#include "validate/running.h"

enum { MOST_SERIES = 96, MOST_ORDER = 24 };

/* A coefficient of all elements: an array, or one number for all (array NULL; 0: structurally zero). */
typedef struct coefficient {
  vd_near *array;
  double number;
} coefficient;

typedef struct series {
  vd_kind kind; /* VD_A, VD_K, VD_NEG, VD_ADD, VD_SUB, VD_MUL, VD_DIV, VD_CALL1 */
  tn_op_id op;
  double k; /* a number, or a power's exponent */
  int a, b;
  int rule; /* of a call; -1: not made */
  int known;
  coefficient c[MOST_ORDER];
} series;

typedef struct ladder {
  size_t n;
  const vd_near *z;
  const vd_rounding *f;
  int count;
  series s[MOST_SERIES];
  tn_status status; /* the first error; later work does nothing */
} ladder;

/* ---- Making ----------------------------------------------------------------------------------- */

static int make(ladder *l, vd_kind kind, tn_op_id op, double k, int a, int b) {
  for (int i = 0; i < l->count; ++i) {
    const series *s = l->s + i;
    if (s->kind == kind && s->op == op && s->k == k && s->a == a && s->b == b)
      return i;
  }
  if (l->count == MOST_SERIES) {
    l->status =
        TN_FAIL(TN_EUNSUPPORTED, "running bound: a rule needs more than %d series", MOST_SERIES);
    return 0;
  }
  l->s[l->count] = (series){.kind = kind, .op = op, .k = k, .a = a, .b = b, .rule = -1};
  return l->count++;
}

static int make_number(ladder *l, double k) { return make(l, VD_K, TN_OP_parameter, k, -1, -1); }

/* e x^(e - 1) of a call x^e */
static int make_power_rule(ladder *l, int call) {
  series s = l->s[call];
  if (s.k == 0)
    return make_number(l, 0);
  int lower = s.k == 1 ? make_number(l, 1) : make(l, VD_CALL1, s.op, s.k - 1, s.a, -1);
  return make(l, VD_MUL, TN_OP_parameter, 0, make_number(l, s.k), lower);
}

static int instantiate(ladder *l, const vd_rule *rule, int i, int call) {
  const vd_rule_node *r = rule->node + i;
  int a = -1, b = -1;
  if (r->kind == VD_A)
    return l->s[call].a;
  if (r->kind == VD_Y)
    return call;
  if (r->kind == VD_POWER_RULE)
    return make_power_rule(l, call);
  if (r->kind == VD_CALL2 || r->kind == VD_WHERE || r->kind == VD_B) {
    l->status = TN_FAIL(TN_EUNSUPPORTED, "running bound: the rule of `%s` has branches",
                        tn_op_row(l->s[call].op)->name);
    return 0;
  }
  if (r->arg[0] >= 0)
    a = instantiate(l, rule, r->arg[0], call);
  if (r->arg[1] >= 0)
    b = instantiate(l, rule, r->arg[1], call);
  return make(l, r->kind, r->op, r->k, a, b);
}

/* ---- Coefficients ----------------------------------------------------------------------------- */

static bool is_zero(coefficient c) { return !c.array && c.number == 0; }

static vd_near at(const ladder *l, coefficient c, size_t i) {
  return c.array ? c.array[i] : vd_near_number(c.number, l->f);
}

static coefficient scaled(ladder *l, double k, coefficient c) {
  if (!c.array)
    return (coefficient){NULL, k * c.number};
  coefficient y = {0};
  if (l->status == TN_OK)
    l->status = TN_NEW(l->n, &y.array);
  for (size_t i = 0; l->status == TN_OK && i < l->n; ++i)
    y.array[i] = vd_near_scale(k, c.array[i], l->f);
  return y;
}

/* sum = a b + sum; its array is new where it had none. */
static void add_product(ladder *l, coefficient a, coefficient b, coefficient *sum) {
  if (is_zero(a) || is_zero(b) || l->status != TN_OK)
    return;
  if (!a.array && !b.array && !sum->array) {
    sum->number += a.number * b.number;
    return;
  }
  coefficient old = *sum;
  if (!sum->array) {
    l->status = TN_NEW(l->n, &sum->array);
    if (l->status != TN_OK)
      return;
  }
  for (size_t i = 0; i < l->n; ++i) {
    vd_near p = !a.array   ? vd_near_scale(a.number, at(l, b, i), l->f)
                : !b.array ? vd_near_scale(b.number, at(l, a, i), l->f)
                           : (vd_near){0};
    bool product = a.array && b.array;
    if (is_zero(old))
      sum->array[i] = product ? vd_near_mul(a.array[i], b.array[i], l->f) : p;
    else if (product)
      sum->array[i] = vd_near_fma(a.array[i], b.array[i], at(l, old, i), l->f);
    else
      sum->array[i] = vd_near_add(p, at(l, old, i), l->f);
  }
}

static void drop(coefficient *c) { tn_free(&c->array); }

static coefficient coefficient_of(ladder *l, int i, int k);

static coefficient row_coefficient(ladder *l, int i, int k) {
  series *s = l->s + i;
  coefficient y = {0};
  if (k == 0) {
    coefficient g = coefficient_of(l, s->a, 0);
    if (l->status == TN_OK)
      l->status = TN_NEW(l->n, &y.array);
    for (size_t e = 0; l->status == TN_OK && e < l->n; ++e)
      y.array[e] = at(l, g, e);
    bool itself = s->op == TN_OP_powi && s->k == 1;
    if (l->status == TN_OK && !itself)
      l->status = vd_near_row(s->op, s->k, l->n, y.array, y.array, l->f);
    return y;
  }
  if (s->rule < 0) {
    vd_rule rule;
    if (l->status == TN_OK)
      l->status = vd_rule_of(s->op, 0, &rule);
    if (l->status == TN_OK)
      s->rule = instantiate(l, &rule, rule.root, i);
  }
  for (int j = 1; j <= k && l->status == TN_OK; ++j) {
    coefficient g = coefficient_of(l, s->a, j);
    if (is_zero(g))
      continue;
    coefficient gj = scaled(l, j, g);
    add_product(l, gj, coefficient_of(l, s->rule, k - j), &y);
    drop(&gj);
  }
  coefficient whole = y;
  y = scaled(l, 1.0 / k, whole);
  drop(&whole);
  return y;
}

static coefficient quotient_coefficient(ladder *l, int i, int k) {
  coefficient top = scaled(l, 1, coefficient_of(l, l->s[i].a, k)), y = {0};
  for (int j = 1; j <= k; ++j) {
    coefficient b = scaled(l, -1, coefficient_of(l, l->s[i].b, j));
    add_product(l, b, coefficient_of(l, i, k - j), &top);
    drop(&b);
  }
  coefficient bottom = coefficient_of(l, l->s[i].b, 0);
  if (is_zero(top))
    return top;
  if (l->status == TN_OK)
    l->status = TN_NEW(l->n, &y.array);
  for (size_t e = 0; l->status == TN_OK && e < l->n; ++e)
    y.array[e] = vd_near_div(at(l, top, e), at(l, bottom, e), l->f);
  drop(&top);
  return y;
}

static coefficient compute(ladder *l, int i, int k) {
  const series *s = l->s + i;
  const coefficient one = {NULL, 1}, minus = {NULL, -1};
  coefficient y = {0};
  switch (s->kind) {
  case VD_A:
    if (k == 0 && l->status == TN_OK)
      l->status = TN_NEW(l->n, &y.array);
    if (k == 0 && l->status == TN_OK)
      memcpy(y.array, l->z, l->n * sizeof *y.array);
    y.number = k == 1;
    return y;
  case VD_K:
    y.number = k == 0 ? s->k : 0;
    return y;
  case VD_NEG:
    return scaled(l, -1, coefficient_of(l, s->a, k));
  case VD_ADD:
  case VD_SUB:
    add_product(l, one, coefficient_of(l, s->a, k), &y);
    add_product(l, s->kind == VD_ADD ? one : minus, coefficient_of(l, s->b, k), &y);
    return y;
  case VD_MUL:
    for (int p = 0; p <= k; ++p)
      add_product(l, coefficient_of(l, s->a, p), coefficient_of(l, s->b, k - p), &y);
    return y;
  case VD_DIV:
    return quotient_coefficient(l, i, k);
  default:
    return row_coefficient(l, i, k);
  }
}

static coefficient coefficient_of(ladder *l, int i, int k) {
  while (l->status == TN_OK && l->s[i].known <= k) {
    int j = l->s[i].known;
    coefficient c = compute(l, i, j);
    l->s[i].c[j] = c;
    l->s[i].known = j + 1;
  }
  return l->status == TN_OK ? l->s[i].c[k] : (coefficient){0};
}

static void run(ladder *l, const vd_ladder_spec *spec, vd_near *d) {
  bool power = vd_is_power(spec->op);
  int x = make(l, VD_A, TN_OP_parameter, 0, -1, -1);
  int f = make(l, VD_CALL1, spec->op, power ? spec->exponent : 0, x, -1);
  for (int k = 0; k <= spec->order && l->status == TN_OK; ++k) {
    double factor = 1; /* (m + k)! / k! */
    for (int j = k + 1; j <= spec->m + k; ++j)
      factor *= j;
    coefficient c = coefficient_of(l, f, spec->m + k);
    for (size_t i = 0; l->status == TN_OK && i < l->n; ++i)
      d[(size_t)k * l->n + i] = c.array ? vd_near_scale(factor, c.array[i], l->f)
                                        : vd_near_number(factor * c.number, l->f);
  }
}

tn_status vd_near_ladder(const vd_ladder_spec *spec, size_t n, const vd_near *z, vd_near *d,
                         const vd_rounding *f) {
  ladder *l = NULL;
  if (spec->m + spec->order >= MOST_ORDER)
    return TN_FAIL(TN_EUNSUPPORTED, "running bound: derivative %d, expected at most %d",
                   spec->m + spec->order, MOST_ORDER - 1);
  TN_TRY(TN_NEW(1, &l));
  l->n = n;
  l->z = z;
  l->f = f;
  run(l, spec, d);
  tn_status status = l->status;
  for (int i = 0; i < l->count; ++i)
    for (int k = 0; k < MOST_ORDER; ++k)
      drop(&l->s[i].c[k]);
  tn_free(&l);
  return status;
}
