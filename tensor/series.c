/* series.c: Taylor coefficients of any analytic row, from its derivative column alone.
 *
 * A series is a function of t, with argument x = z + t. A row y = f(g) with derivative rule D (an expression
 * in g and y) obeys y' = D g', so its coefficients follow from those of D and g (Knuth, TAOCP 2, 4.7):
 *     y_0 = f(g_0),    k y_k = sum_{j=1..k} j g_j D_{k-j}.
 * Rules refer to other rows (tanh to sech2, sech2 to tanh), which become series of their own; equal series
 * are one, so the recursion ends. All derivatives of tanh thus cost one tanh, one sech2 and products, and
 * they keep their digits in saturation, because no rule subtracts from 1.
 */
#include "tensor/emit.h"

#include <string.h>

enum { MAX_SERIES = 96, MAX_ORDER = 48 };

typedef enum kind { X, NUMBER, ROW, SUM, DIFFERENCE, PRODUCT, QUOTIENT } kind;

typedef struct series {
  kind kind;
  tn_op_id op;
  double number; /* NUMBER: value; ROW: exponent */
  int a, b;      /* arguments */
  int rule;      /* ROW: series of the derivative, -1 before it is needed */
  int known;     /* coefficients computed */
  tn_lazy coefficient[MAX_ORDER];
} series;

typedef struct builder {
  tn_emitter *e;
  int n, z;
  series s[MAX_SERIES];
} builder;

static int make(builder *B, kind kind, tn_op_id op, double number, int a, int b) {
  for (int i = 0; i < B->n; ++i) {
    const series *s = &B->s[i];
    if (s->kind == kind && s->op == op && s->number == number && s->a == a && s->b == b) return i;
  }
  if (B->n == MAX_SERIES) {
    B->e->status = TN_FAIL(TN_EUNSUPPORTED, "%s: its derivative rule needs more than %d series",
                           tn_op_row(op)->name, MAX_SERIES);
    return 0;
  }
  B->s[B->n] = (series){.kind = kind, .op = op, .number = number, .a = a, .b = b, .rule = -1};
  return B->n++;
}

static int number(builder *B, double k) { return make(B, NUMBER, 0, k, -1, -1); }
static int row(builder *B, tn_op_id op, int x, double e) { return make(B, ROW, op, e, x, -1); }

/* The derivative column as a series of x and y. */
static int rule(builder *B, tn_op_id op, int x, int y, double exponent) {
  (void)x, (void)y, (void)exponent;
#define K(c) number(B, c)
#define U(name, a) row(B, TN_OP_##name, a, 0)
#define ADD(a, b) make(B, SUM, 0, 0, a, b)
#define SUB(a, b) make(B, DIFFERENCE, 0, 0, a, b)
#define MUL(a, b) make(B, PRODUCT, 0, 0, a, b)
#define DIV(a, b) make(B, QUOTIENT, 0, 0, a, b)
#define NEG(a) make(B, PRODUCT, 0, 0, number(B, -1), a)
#define POWER_RULE                                                                                 \
  (exponent == 0 ? number(B, 0)                                                                    \
                 : MUL(number(B, exponent),                                                        \
                       exponent == 1 ? number(B, 1) : row(B, op, x, exponent - 1)))
  switch (op) {
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name: return derivative;
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  case TN_OP_##name: return derivative;
#include "tensor/ops.def"
  default: return number(B, 0);
  }
#undef K
#undef U
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef NEG
#undef POWER_RULE
}

static tn_lazy coefficient(builder *B, int i, int k);

static tn_lazy row_coefficient(builder *B, int i, int k) {
  tn_emitter *e = B->e;
  int g = B->s[i].a;
  if (k == 0) {
    tn_lazy g0 = coefficient(B, g, 0);
    if (B->s[i].number == 1 && B->s[i].op == TN_OP_powi) return g0;
    return tn_emit_cell(e, B->s[i].op, g0, B->s[i].number);
  }
  if (B->s[i].rule < 0) {
    int made = rule(B, B->s[i].op, g, i, B->s[i].number);
    B->s[i].rule = made;
  }
  int d = B->s[i].rule;
  tn_lazy sum = TN_ZERO;
  for (int j = 1; j <= k; ++j) {
    tn_lazy gj = coefficient(B, g, j);
    if (tn_lazy_is_zero(gj)) continue;
    sum = tn_emit_fma(e, tn_emit_scale(j, gj), coefficient(B, d, k - j), sum);
  }
  return tn_emit_scale(1.0 / k, sum);
}

static tn_lazy quotient_coefficient(builder *B, int i, int k) {
  tn_emitter *e = B->e;
  int a = B->s[i].a, b = B->s[i].b;
  tn_lazy top = coefficient(B, a, k);
  for (int j = 1; j <= k; ++j)
    top = tn_emit_fma(e, tn_emit_scale(-1, coefficient(B, b, j)), coefficient(B, i, k - j), top);
  return tn_emit_div(e, top, coefficient(B, b, 0));
}

static tn_lazy coefficient(builder *B, int i, int k) {
  tn_emitter *e = B->e;
  while (B->s[i].known <= k) {
    int j = B->s[i].known, a = B->s[i].a, b = B->s[i].b;
    tn_lazy c = TN_ZERO;
    switch (B->s[i].kind) {
    case X: c = j == 0 ? (tn_lazy){1, B->z} : tn_emit_number(j == 1); break;
    case NUMBER: c = tn_emit_number(j == 0 ? B->s[i].number : 0); break;
    case ROW: c = row_coefficient(B, i, j); break;
    case SUM: c = tn_emit_add(e, coefficient(B, a, j), coefficient(B, b, j)); break;
    case DIFFERENCE:
      c = tn_emit_add(e, coefficient(B, a, j), tn_emit_scale(-1, coefficient(B, b, j)));
      break;
    case PRODUCT:
      for (int p = 0; p <= j; ++p)
        c = tn_emit_fma(e, coefficient(B, a, p), coefficient(B, b, j - p), c);
      break;
    case QUOTIENT: c = quotient_coefficient(B, i, j); break;
    }
    B->s[i].coefficient[j] = c;
    B->s[i].known = j + 1;
  }
  return B->s[i].coefficient[k];
}

tn_status tn_ladder(tn_emitter *e, tn_op_id op, double exponent, int m, int order, int z,
                    tn_lazy *out) {
  if (m + order >= MAX_ORDER)
    return TN_FAIL(TN_EUNSUPPORTED, "%s: derivative %d, expected at most %d", tn_op_row(op)->name,
                   m + order, MAX_ORDER - 1);
  builder *B = NULL;
  TN_TRY(TN_NEW(1, &B));
  B->e = e;
  B->z = z;
  int f = row(B, op, make(B, X, 0, 0, -1, -1), exponent);
  for (int k = 0; k <= order && e->status == TN_OK; ++k) {
    double factor = 1; /* (m + k)! / k! */
    for (int j = k + 1; j <= m + k; ++j) factor *= j;
    out[k] = tn_emit_scale(factor, coefficient(B, f, m + k));
  }
  tn_free(&B);
  return e->status;
}
