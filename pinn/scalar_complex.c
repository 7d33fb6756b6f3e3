/* scalar_complex.c: the real and the imaginary part of a complex tree, each as a real tree.
 *
 * With z = x + i y, w = u + i v, r^2 = x^2 + y^2, a = atan2(y, x):
 *
 *   z w      x u - y v,  x v + y u             z / w    z conj(w) / (u^2 + v^2)
 *   z^2      x^2 - y^2,  2 x y                 z^n      by squaring, a product: exact derivatives
 *   exp z    e^x cos y,  e^x sin y             z^p      r^p cos(p a),  r^p sin(p a)
 *   log z    log(r^2)/2, a                     sqrt z   z^(1/2)
 *   sin z    sin x cosh y, cos x sinh y        cos z    cos x cosh y, -sin x sinh y
 *   sinh z   sinh x cos y, cosh x sin y        cosh z   cosh x cos y, sinh x sin y
 *   tanh z   with s = 1/cosh 2x and d = 1 + s cos 2y:   tanh(2x)/d,  s sin(2y)/d
 *   tan z    = -i tanh(i z)                    w^z      exp(z log w)
 *   abs z    sqrt(r^2); abs(z)^(2n) is the product (r^2)^n: smooth at z = 0
 *   dot      sum a_k b_k, not conjugated       norm     sqrt(sum abs(a_k)^2), real
 *
 * log, sqrt and powers have their cut along the negative real axis. All other operators (derivatives,
 * means, integrals, where, places) act on each part alone, so scalar.c does them with `part` set.
 * Zeros are left out while the tree is written: i*h_t is -h.im_t and h.re_t. A product of two complex
 * factors holds each twice, so n factors take 2^n nodes; the budget of scalar.c ends that.
 */
#include "pinn/scalar.h"

#include <math.h>

enum { LARGEST_POWER = 64 };

static bool is_number(const pn_expr *e, double x) { return e->kind == PN_NUMBER && e->number == x; }

static bool is_zero(const pn_expr *e) { return is_number(e, 0); }

static tn_status number(pn_writing *w, const pn_expr *like, double x, pn_expr **out) {
  TN_TRY(pn_writing_make(w, PN_NUMBER, like, 0, NULL, out));
  (*out)->number = x;
  return TN_OK;
}

static tn_status negate(pn_writing *w, const pn_expr *like, pn_expr *a, pn_expr **out) {
  if (a->kind == PN_NUMBER && !a->name)
    return number(w, like, is_zero(a) ? 0 : -a->number, out);
  if (a->kind == PN_NEGATE) {
    *out = a->args[0];
    return TN_OK;
  }
  return pn_writing_make(w, PN_NEGATE, like, 1, &a, out);
}

/* a op b without zeros and ones. */
static tn_status join(pn_writing *w, pn_kind kind, const pn_expr *like, pn_expr *a, pn_expr *b,
                      pn_expr **out) {
  bool product = kind == PN_MULTIPLY || kind == PN_DIVIDE;
  if ((kind == PN_ADD && is_zero(a)) || (kind == PN_MULTIPLY && is_number(a, 1))) {
    *out = b;
    return TN_OK;
  }
  if ((!product && is_zero(b)) || (product && is_number(b, 1)) || (product && is_zero(a))) {
    *out = a;
    return TN_OK;
  }
  if (kind == PN_MULTIPLY && is_zero(b)) {
    *out = b;
    return TN_OK;
  }
  if (kind == PN_SUBTRACT && is_zero(a))
    return negate(w, like, b, out);
  if (kind == PN_ADD && b->kind == PN_NEGATE)
    return join(w, PN_SUBTRACT, like, a, b->args[0], out);
  if (kind == PN_SUBTRACT && b->kind == PN_NEGATE)
    return join(w, PN_ADD, like, a, b->args[0], out);
  return pn_writing_make(w, kind, like, 2, (pn_expr *[]){a, b}, out);
}

static tn_status call(pn_writing *w, pn_function f, const pn_expr *like, pn_expr *a, pn_expr *b,
                      pn_expr **out) {
  TN_TRY(pn_writing_make(w, PN_FUNCTION, like, b ? 2 : 1, (pn_expr *[]){a, b}, out));
  (*out)->index = f;
  (*out)->name = pn_function_name(f);
  return TN_OK;
}

static tn_status power(pn_writing *w, const pn_expr *like, pn_expr *a, double n, pn_expr **out) {
  pn_expr *exponent = NULL;
  if (is_zero(a) || n == 1) {
    *out = a;
    return TN_OK;
  }
  TN_TRY(number(w, like, n, &exponent));
  return pn_writing_make(w, PN_POWER, like, 2, (pn_expr *[]){a, exponent}, out);
}

/* Part `part` of component k of e. */
static tn_status part_of(pn_writing *w, const pn_expr *e, size_t k, int part, pn_expr **out) {
  int before = w->part;
  w->part = part;
  tn_status status = pn_writing_out(w, e, e->components > 1 ? k : 0, out);
  w->part = before;
  return status;
}

typedef struct pair {
  pn_expr *re, *im;
} pair;

static tn_status pair_of(pn_writing *w, const pn_expr *e, size_t k, pair *out) {
  TN_TRY(part_of(w, e, k, 0, &out->re));
  return part_of(w, e, k, 1, &out->im);
}

/* The wanted part of a pair. */
static pn_expr *wanted(const pn_writing *w, const pair *z) { return w->part ? z->im : z->re; }

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static tn_status multiply(pn_writing *w, const pn_expr *like, const pair *a, const pair *b,
                          pn_expr **out) {
  pn_expr *x = NULL, *y = NULL;
  TN_TRY(join(w, PN_MULTIPLY, like, a->re, w->part ? b->im : b->re, &x));
  TN_TRY(join(w, PN_MULTIPLY, like, a->im, w->part ? b->re : b->im, &y));
  return join(w, w->part ? PN_ADD : PN_SUBTRACT, like, x, y, out);
}

/* x^2 + y^2 */
static tn_status square(pn_writing *w, const pn_expr *like, const pair *z, pn_expr **out) {
  pn_expr *x = NULL, *y = NULL;
  TN_TRY(power(w, like, z->re, 2, &x));
  TN_TRY(power(w, like, z->im, 2, &y));
  return join(w, PN_ADD, like, x, y, out);
}

static tn_status divide(pn_writing *w, const pn_expr *like, const pair *a, const pair *b,
                        pn_expr **out) {
  pn_expr *top = NULL, *bottom = NULL;
  if (is_zero(b->im))
    return join(w, PN_DIVIDE, like, wanted(w, a), b->re, out);
  pair conjugate = *b;
  TN_TRY(negate(w, like, b->im, &conjugate.im));
  TN_TRY(multiply(w, like, a, &conjugate, &top));
  TN_TRY(square(w, like, b, &bottom));
  return join(w, PN_DIVIDE, like, top, bottom, out);
}

/* Both parts of a product. */
static tn_status product(pn_writing *w, const pn_expr *like, const pair *a, const pair *b, pair *out) {
  int before = w->part;
  pair result = {NULL, NULL};
  w->part = 0;
  tn_status status = multiply(w, like, a, b, &result.re);
  w->part = 1;
  if (status == TN_OK)
    status = multiply(w, like, a, b, &result.im);
  w->part = before;
  *out = result;
  return status;
}

static tn_status squared(pn_writing *w, const pn_expr *like, const pair *z, pair *out) {
  pn_expr *x = NULL, *y = NULL, *two = NULL;
  pair result = {NULL, NULL};
  TN_TRY(power(w, like, z->re, 2, &x));
  TN_TRY(power(w, like, z->im, 2, &y));
  TN_TRY(join(w, PN_SUBTRACT, like, x, y, &result.re));
  TN_TRY(number(w, like, 2, &two));
  TN_TRY(join(w, PN_MULTIPLY, like, two, z->re, &x));
  TN_TRY(join(w, PN_MULTIPLY, like, x, z->im, &result.im));
  *out = result;
  return TN_OK;
}

static tn_status whole_power(pn_writing *w, const pn_expr *like, pair z, unsigned n, bool inverse,
                             pn_expr **out) {
  pair result = {NULL, NULL}, one = {NULL, NULL};
  TN_TRY(number(w, like, 1, &one.re));
  TN_TRY(number(w, like, 0, &one.im));
  for (result = one; n; n >>= 1) {
    if (n & 1u)
      TN_TRY(product(w, like, &result, &z, &result));
    if (n > 1)
      TN_TRY(squared(w, like, &z, &z));
  }
  if (inverse)
    return divide(w, like, &one, &result, out);
  *out = wanted(w, &result);
  return TN_OK;
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* f(x) g(y), negated or not. */
static tn_status two(pn_writing *w, const pn_expr *like, pn_function f, pn_expr *x, pn_function g,
                     pn_expr *y, bool minus, pn_expr **out) {
  pn_expr *a = NULL, *b = NULL;
  TN_TRY(call(w, f, like, x, NULL, &a));
  TN_TRY(call(w, g, like, y, NULL, &b));
  TN_TRY(join(w, PN_MULTIPLY, like, a, b, out));
  return minus ? negate(w, like, *out, out) : TN_OK;
}

static tn_status exponential(pn_writing *w, const pn_expr *like, const pair *z, pn_expr **out) {
  if (is_zero(z->im)) {
    *out = z->im;
    return w->part ? TN_OK : call(w, PN_FN_exp, like, z->re, NULL, out);
  }
  pn_expr *size = NULL, *turn = NULL;
  TN_TRY(call(w, w->part ? PN_FN_sin : PN_FN_cos, like, z->im, NULL, &turn));
  *out = turn;
  if (is_zero(z->re))
    return TN_OK;
  TN_TRY(call(w, PN_FN_exp, like, z->re, NULL, &size));
  return join(w, PN_MULTIPLY, like, size, turn, out);
}

static tn_status logarithm(pn_writing *w, const pn_expr *like, const pair *z, pn_expr **out) {
  pn_expr *r2 = NULL, *half = NULL;
  if (w->part)
    return call(w, PN_FN_atan2, like, z->im, z->re, out);
  TN_TRY(square(w, like, z, &r2));
  TN_TRY(call(w, PN_FN_log, like, r2, NULL, &r2));
  TN_TRY(number(w, like, 0.5, &half));
  return join(w, PN_MULTIPLY, like, half, r2, out);
}

/* r^p cos(p a) or r^p sin(p a). */
static tn_status real_power(pn_writing *w, const pn_expr *like, const pair *z, pn_expr *p,
                            pn_expr **out) {
  pn_expr *r2 = NULL, *half = NULL, *angle = NULL;
  TN_TRY(square(w, like, z, &r2));
  TN_TRY(number(w, like, 2, &half));
  TN_TRY(join(w, PN_DIVIDE, like, p, half, &half));
  TN_TRY(pn_writing_make(w, PN_POWER, like, 2, (pn_expr *[]){r2, half}, &r2));
  TN_TRY(call(w, PN_FN_atan2, like, z->im, z->re, &angle));
  TN_TRY(join(w, PN_MULTIPLY, like, p, angle, &angle));
  TN_TRY(call(w, w->part ? PN_FN_sin : PN_FN_cos, like, angle, NULL, &angle));
  return join(w, PN_MULTIPLY, like, r2, angle, out);
}

static tn_status hyperbolic_tangent(pn_writing *w, const pn_expr *like, const pair *z,
                                    pn_expr **out) {
  pn_expr *one = NULL, *twice = NULL, *x = NULL, *y = NULL, *s = NULL, *d = NULL, *top = NULL;
  TN_TRY(number(w, like, 1, &one));
  TN_TRY(number(w, like, 2, &twice));
  TN_TRY(join(w, PN_MULTIPLY, like, twice, z->re, &x));
  TN_TRY(join(w, PN_MULTIPLY, like, twice, z->im, &y));
  TN_TRY(call(w, PN_FN_cosh, like, x, NULL, &s));
  TN_TRY(pn_writing_make(w, PN_DIVIDE, like, 2, (pn_expr *[]){one, s}, &s));
  TN_TRY(call(w, PN_FN_cos, like, y, NULL, &d));
  TN_TRY(join(w, PN_MULTIPLY, like, s, d, &d));
  TN_TRY(join(w, PN_ADD, like, one, d, &d));
  TN_TRY(w->part ? call(w, PN_FN_sin, like, y, NULL, &top) : call(w, PN_FN_tanh, like, x, NULL, &top));
  if (w->part)
    TN_TRY(join(w, PN_MULTIPLY, like, s, top, &top));
  return join(w, PN_DIVIDE, like, top, d, out);
}

/* -i tanh(i z): re = im tanh(-y + i x), im = -re tanh(-y + i x). */
static tn_status tangent(pn_writing *w, const pn_expr *like, const pair *z, pn_expr **out) {
  pair turned = {NULL, z->re};
  bool imaginary = w->part;
  TN_TRY(negate(w, like, z->im, &turned.re));
  w->part = !imaginary;
  tn_status status = hyperbolic_tangent(w, like, &turned, out);
  w->part = imaginary;
  TN_TRY(status);
  return imaginary ? negate(w, like, *out, out) : TN_OK;
}

static tn_status modulus(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pair z = {NULL, NULL};
  pn_expr *r2 = NULL;
  TN_TRY(pair_of(w, e->args[0], 0, &z));
  if (is_zero(z.im))
    return call(w, PN_FN_abs, e, z.re, NULL, out);
  TN_TRY(square(w, e, &z, &r2));
  return call(w, PN_FN_sqrt, e, r2, NULL, out);
}

/* A function of a complex argument with a complex value. */
static tn_status function(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pair z = {NULL, NULL};
  pn_expr *n = NULL;
  bool im = w->part;
  TN_TRY(pair_of(w, e->args[0], 0, &z));
  switch ((pn_function)e->index) {
  case PN_FN_conj:
    *out = z.re;
    return im ? negate(w, e, z.im, out) : TN_OK;
  case PN_FN_exp:
    return exponential(w, e, &z, out);
  case PN_FN_log:
    return logarithm(w, e, &z, out);
  case PN_FN_log10:
    TN_TRY(logarithm(w, e, &z, out));
    TN_TRY(number(w, e, log(10), &n));
    return join(w, PN_DIVIDE, e, *out, n, out);
  case PN_FN_sqrt:
    TN_TRY(number(w, e, 0.5, &n));
    return real_power(w, e, &z, n, out);
  case PN_FN_sin:
    return im ? two(w, e, PN_FN_cos, z.re, PN_FN_sinh, z.im, false, out)
              : two(w, e, PN_FN_sin, z.re, PN_FN_cosh, z.im, false, out);
  case PN_FN_cos:
    return im ? two(w, e, PN_FN_sin, z.re, PN_FN_sinh, z.im, true, out)
              : two(w, e, PN_FN_cos, z.re, PN_FN_cosh, z.im, false, out);
  case PN_FN_sinh:
    return im ? two(w, e, PN_FN_cosh, z.re, PN_FN_sin, z.im, false, out)
              : two(w, e, PN_FN_sinh, z.re, PN_FN_cos, z.im, false, out);
  case PN_FN_cosh:
    return im ? two(w, e, PN_FN_sinh, z.re, PN_FN_sin, z.im, false, out)
              : two(w, e, PN_FN_cosh, z.re, PN_FN_cos, z.im, false, out);
  case PN_FN_tanh:
    return hyperbolic_tangent(w, e, &z, out);
  default:
    return tangent(w, e, &z, out);
  }
}

/* ---- Powers ---------------------------------------------------------------------------------- */

static tn_status general_power(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pair base = {NULL, NULL}, exponent = {NULL, NULL}, size = {NULL, NULL};
  double n = 0;
  const pn_expr *b = e->args[1];
  TN_TRY(pair_of(w, e->args[0], 0, &base));
  if (!b->is_complex && pn_is_constant(b)) {
    TN_TRY(pn_evaluate(w->problem, b, NULL, &n));
    if (n == floor(n) && fabs(n) <= LARGEST_POWER)
      return whole_power(w, e, base, (unsigned)fabs(n), n < 0, out);
  }
  TN_TRY(pair_of(w, b, 0, &exponent));
  if (!b->is_complex)
    return real_power(w, e, &base, exponent.re, out);
  int before = w->part; /* exp(b log a); of a real base the real logarithm: e > 0 */
  w->part = 0;
  tn_status status = e->args[0]->is_complex ? logarithm(w, e, &base, &size.re)
                                         : call(w, PN_FN_log, e, base.re, NULL, &size.re);
  w->part = 1;
  size.im = base.im;
  if (status == TN_OK && e->args[0]->is_complex)
    status = logarithm(w, e, &base, &size.im);
  w->part = before;
  TN_TRY(status);
  TN_TRY(product(w, e, &exponent, &size, &size));
  return exponential(w, e, &size, out);
}

/* abs(z)^n of a complex z with an even n: (r^2)^(n/2). */
static tn_status even_power(pn_writing *w, const pn_expr *e, bool *done, pn_expr **out) {
  const pn_expr *base = e->args[0];
  double n = 0;
  *done = base->kind == PN_FUNCTION && base->index == PN_FN_abs && base->args[0]->is_complex &&
          pn_is_constant(e->args[1]);
  if (!*done)
    return TN_OK;
  TN_TRY(pn_evaluate(w->problem, e->args[1], NULL, &n));
  *done = n / 2 == floor(n / 2) && fabs(n) <= LARGEST_POWER;
  if (!*done)
    return TN_OK;
  pair z = {NULL, NULL};
  TN_TRY(pair_of(w, base->args[0], 0, &z));
  TN_TRY(square(w, e, &z, out));
  return power(w, e, *out, n / 2, out);
}

/* ---- The walk -------------------------------------------------------------------------------- */

static tn_status dot(pn_writing *w, const pn_expr *e, pn_expr **out) {
  *out = NULL;
  for (size_t i = 0; i < e->args[0]->components; ++i) {
    pair a = {NULL, NULL}, b = {NULL, NULL};
    pn_expr *term = NULL;
    TN_TRY(pair_of(w, e->args[0], i, &a));
    TN_TRY(pair_of(w, e->args[1], i, &b));
    TN_TRY(multiply(w, e, &a, &b, &term));
    if (*out)
      TN_TRY(join(w, PN_ADD, e, *out, term, out));
    else
      *out = term;
  }
  return TN_OK;
}

static tn_status norm(pn_writing *w, const pn_expr *e, pn_expr **out) {
  pn_expr *sum = NULL;
  for (size_t i = 0; i < e->args[0]->components; ++i) {
    pair a = {NULL, NULL};
    pn_expr *term = NULL;
    TN_TRY(pair_of(w, e->args[0], i, &a));
    TN_TRY(square(w, e, &a, &term));
    if (sum)
      TN_TRY(join(w, PN_ADD, e, sum, term, &sum));
    else
      sum = term;
  }
  return call(w, PN_FN_sqrt, e, sum, NULL, out);
}

static tn_status binary(pn_writing *w, const pn_expr *e, size_t k, pn_expr **out) {
  pair a = {NULL, NULL}, b = {NULL, NULL};
  pn_expr *x = NULL, *y = NULL;
  if (e->kind == PN_ADD || e->kind == PN_SUBTRACT) {
    TN_TRY(part_of(w, e->args[0], k, w->part, &x));
    TN_TRY(part_of(w, e->args[1], k, w->part, &y));
    return join(w, e->kind, e, x, y, out);
  }
  TN_TRY(pair_of(w, e->args[0], k, &a));
  TN_TRY(pair_of(w, e->args[1], k, &b));
  return e->kind == PN_MULTIPLY ? multiply(w, e, &a, &b, out) : divide(w, e, &a, &b, out);
}

/* Real nodes over complex ones: abs, re, im, norm. */
static tn_status real_node(pn_writing *w, const pn_expr *e, bool *done, pn_expr **out) {
  *done = true;
  if (e->kind == PN_POWER)
    return even_power(w, e, done, out);
  if (e->kind == PN_NORM && e->args[0]->is_complex)
    return norm(w, e, out);
  if (e->kind == PN_FUNCTION && e->index == PN_FN_re)
    return part_of(w, e->args[0], 0, 0, out);
  if (e->kind == PN_FUNCTION && e->index == PN_FN_im)
    return part_of(w, e->args[0], 0, 1, out);
  if (e->kind == PN_FUNCTION && e->index == PN_FN_conj)
    return part_of(w, e->args[0], 0, 0, out);
  if (e->kind == PN_FUNCTION && e->index == PN_FN_abs && e->args[0]->is_complex)
    return modulus(w, e, out);
  *done = false;
  return TN_OK;
}

tn_status pn_writing_complex(pn_writing *w, const pn_expr *e, size_t k, bool *done, pn_expr **out) {
  *done = true;
  if (!e->is_complex && w->part)
    return number(w, e, 0, out);
  if (!e->is_complex)
    return real_node(w, e, done, out);
  switch (e->kind) {
  case PN_IMAGINARY_UNIT:
    return number(w, e, w->part ? 1 : 0, out);
  case PN_COMPLEX:
    *out = e->args[w->part];
    return TN_OK;
  case PN_NEGATE:
    TN_TRY(part_of(w, e->args[0], k, w->part, out));
    return negate(w, e, *out, out);
  case PN_ADD:
  case PN_SUBTRACT:
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return binary(w, e, k, out);
  case PN_POWER:
    return general_power(w, e, out);
  case PN_FUNCTION:
    return function(w, e, out);
  case PN_DOT:
    return dot(w, e, out);
  default:
    *done = false;
    return TN_OK;
  }
}
