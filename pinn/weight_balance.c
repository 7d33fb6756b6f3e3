/* weight_balance.c: weights that keep conditions from being outvoted, set where a stage starts.
 *
 *   equations    w_m = f_m
 *   conditions   w_m = b_m f_m,  b_m = |g_E| / |g_m|, kept in [1, 100],  g_m = gradient of (1 /
 *   C_m) S_m,
 *                g_E the largest gradient of an equation
 *
 * f_m is the factor of the file; gradients are measured without it, so that a factor really
 * multiplies. After Wang, Teng and Perdikaris (2021), who repeat it at every few steps; here the
 * weights stand still for a stage, because a quasi-Newton method needs one function.
 *
 * Why never below 1, and equations not at all: making all norms equal was tried. At random weights
 * the network is almost constant, the equation is then nearly fulfilled and its gradient small;
 * for Burgers it got up to 90 times the weight of the initial values, and the run went to u = 0.
 * Sizes of equations among themselves are the business of scale.c.
 */
#include <math.h>

#include "pinn/objective.h"

static const double most = 100;

static double norm(size_t n, const double *x) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += x[i] * x[i];
  return sqrt(sum);
}

/* |g_m| of every term at weight 1. */
static tn_status gradient_norms(pn_loss *loss, const double *theta, double *norms) {
  pn_objective *f = pn_loss_objective(loss);
  double *gradients = NULL, *sums = NULL;
  TN_TRY(TN_NEW(f->n_terms, &sums));
  tn_status status = TN_NEW(f->n_terms * f->n, &gradients);
  for (size_t m = 0; m < f->n_terms; ++m)
    pn_loss_set_weight(loss, m, 1);
  if (status == TN_OK)
    status = pn_loss_bind(loss);
  if (status == TN_OK)
    status = f->terms(f, theta, sums, gradients);
  for (size_t m = 0; status == TN_OK && m < f->n_terms; ++m)
    norms[m] = norm(f->n, gradients + m * f->n);
  tn_free(&gradients);
  tn_free(&sums);
  return status;
}

static tn_status start(pn_loss *loss, const double *theta, double *weight) {
  size_t n = pn_loss_objective(loss)->n_terms;
  double *norms = NULL, equation = 0;
  TN_TRY(TN_NEW(n, &norms));
  tn_status status = gradient_norms(loss, theta, norms);
  for (size_t m = 0; m < n; ++m)
    if (!pn_loss_term_of(loss, m)->is_condition && isfinite(norms[m]))
      equation = fmax(equation, norms[m]);
  for (size_t m = 0; status == TN_OK && m < n; ++m)
    if (pn_loss_term_of(loss, m)->is_condition && norms[m] > 0 && isfinite(norms[m]))
      weight[m] *= fmin(fmax(equation / norms[m], 1), most);
  tn_free(&norms);
  return status;
}

const pn_weight_class pn_weight_balance = {
    "balance", "conditions pull at least as hard as the equations where a stage starts", start};
