/* linesearch.h: a step length along a descent direction by the strong Wolfe conditions. Inside
 * pinn/ only.
 */
#ifndef PINN_LINESEARCH_H
#define PINN_LINESEARCH_H

#include "pinn/opt.h"

typedef struct pn_wolfe {
  double c1;          /* share of the predicted decrease that must come, 0 < c1 < c2 */
  double c2;          /* share of the slope that may be left, c2 < 1 */
  double first;       /* first trial step, > 0 */
  double maximum;     /* longest step, >= first */
  double noise;       /* changes of L below noise * |L| are rounding; >= 0 */
  size_t evaluations; /* most evaluations of loss and gradient, >= 1 */
} pn_wolfe;

typedef enum pn_search_outcome {
  PN_SEARCH_FAILED,      /* no better point found; theta must stay */
  PN_SEARCH_DECREASE,    /* sufficient decrease only; the slope condition was not met */
  PN_SEARCH_APPROXIMATE, /* slope condition met, L equal up to the noise */
  PN_SEARCH_WOLFE        /* both conditions met */
} pn_search_outcome;

typedef struct pn_search_result {
  pn_search_outcome outcome;
  double alpha;       /* accepted step; 0 after a failure */
  double loss;        /* L at the accepted point */
  double slope;       /* p'g at the accepted point */
  size_t evaluations; /* of loss and gradient together */
  const char *reason; /* static words if outcome is FAILED or DECREASE, else "" */
} pn_search_result;

/* The rule with c1 = 1e-4, c2 = 0.9, first = 1, maximum = 1e100, noise = 1e-10, 40 evaluations. */
pn_wolfe pn_wolfe_standard(void);
/* Names `method` in the text if a number is out of its range. */
tn_status pn_wolfe_check(const pn_wolfe *rule, const char *method) TN_MUST_USE;

/* Searches along x + alpha p from L(x) = loss and slope = p'g(x). Unless it failed, x_new and g_new
 * [f->n each] hold the accepted point x + alpha p and the gradient there. They are scratch after a
 * failure. */
tn_status pn_linesearch(pn_objective *f, const double *x, const double *p, double loss,
                        double slope, const pn_wolfe *rule, double *x_new, double *g_new,
                        pn_search_result *result) TN_MUST_USE;

#endif
