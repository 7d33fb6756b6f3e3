/* scale_parts.c: sizes of functions, and what stands in an integral.
 *
 * A function that is bounded has its bound for a size; one that grows has its value at the size of its
 * argument. What is free of unknowns and stands inside integrals is measured as they see it: by the mean
 * of its square over their ranges, with five nodes each, which is plenty for a size.
 */
#include "pinn/scale.h"

#include <math.h>

enum { FEW_NODES = 5 };

double pn_size_of_function(pn_function f, const double *a, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; ++i)
    largest = fmax(largest, a[i]);
  switch (f) {
  case PN_FN_sqrt:
    return sqrt(a[0]);
  case PN_FN_exp:
  case PN_FN_cosh:
    return exp(fmin(a[0], 100));
  case PN_FN_sinh:
    return sinh(fmin(a[0], 100));
  case PN_FN_log:
    return fmax(fabs(log(a[0])), 1);
  case PN_FN_log10:
    return fmax(fabs(log10(a[0])), 1);
  case PN_FN_sin:
  case PN_FN_tanh:
  case PN_FN_erf:
  case PN_FN_asin:
  case PN_FN_atan:
    return fmin(a[0], 1);
  case PN_FN_tan:
  case PN_FN_abs:
  case PN_FN_min:
  case PN_FN_max:
    return largest;
  default:
    return 1; /* cos, acos, atan2, sign, cole_hopf */
  }
}

tn_status pn_rms_of_value(tn_value value, size_t n_points, double *out) {
  tn_shape shape = tn_shape_of(value);
  size_t n = tn_shape_batched(&shape) ? n_points : 1, finite = 0;
  double *x = NULL, sum = 0;
  *out = 0;
  TN_TRY(tn_eval(1, &value));
  TN_TRY(TN_NEW(n, &x));
  tn_status status = tn_read(value, n, x);
  for (size_t i = 0; status == TN_OK && i < n; ++i)
    if (isfinite(x[i])) {
      sum += x[i] * x[i];
      ++finite;
    }
  tn_free(&x);
  *out = finite ? sqrt(sum / (double)finite) : 0;
  return status;
}

static tn_status integrate(pn_arena *arena, const pn_expr *like, pn_expr **e) {
  pn_expr *made = NULL;
  TN_TRY(pn_expr_make(arena, PN_INTEGRAL_OF, like, 3,
                      (pn_expr *[]){*e, like->args[1], like->args[2]}, &made));
  made->name = like->name;
  made->index = like->index;
  made->n_axes = like->n_axes;
  made->axes = like->axes;
  made->number = FEW_NODES;
  *e = made;
  return TN_OK;
}

tn_status pn_within_mean(pn_arena *arena, const pn_within *within, const pn_expr *e,
                         pn_expr **square, pn_expr **one) {
  pn_expr *pair[2] = {(pn_expr *)(uintptr_t)e, (pn_expr *)(uintptr_t)e}; /* which are only read */
  TN_TRY(pn_expr_make(arena, PN_MULTIPLY, e, 2, pair, square));
  TN_TRY(pn_expr_number(arena, 1, e, one));
  for (const pn_within *w = within; w; w = w->outer) {
    TN_TRY(integrate(arena, w->integral, square));
    TN_TRY(integrate(arena, w->integral, one));
  }
  return TN_OK;
}
