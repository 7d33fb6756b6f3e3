/* descent.h: what L-BFGS and SSBroyden share: the remembered gradient, the line search, and the
 * reasons to stop. Inside pinn/ only. */
#ifndef PINN_DESCENT_H
#define PINN_DESCENT_H

#include "pinn/linesearch.h"

/* u^2 = 2^-106. y's is a sum whose rounding error is about u |y||s|, so y's / (|y||s|), the cosine
 * between gradient change and step, means nothing far below u; but on ill-conditioned problems
 * cosines of 1e-10 are genuine, and the slope condition has already shown y's > 0 by two separate
 * products. Hence the test only refuses garbage. It is relative: an absolute one, like y's > 1e-10,
 * would refuse every pair once steps are below 1e-5 and so end the run at a loss of about 1e-10. */
#define PN_CURVATURE_LEAST 0x1p-106

typedef struct pn_descent {
  const char *method; /* for texts */
  size_t n;
  pn_wolfe rule;
  double loss;      /* L at theta, if known */
  bool known;       /* loss and g belong to the present theta and points */
  double best;      /* lowest loss since the points changed */
  double fall;      /* how much the last step lowered the loss; 0: not known */
  size_t quiet;     /* steps since then without a new lowest loss */
  size_t nonfinite; /* steps in a row that began with a loss or gradient not finite */
  double *g;        /* n, owned: gradient at theta, if known */
  double *p;        /* n, owned: the direction */
  double *s;        /* n, owned: the last step theta_out - theta_in */
  double *y;        /* n, owned: the change of the gradient over it */
  double *x_new;    /* n, owned: scratch of the search */
  double *g_new;    /* n, owned */
} pn_descent;

tn_status pn_descent_init(pn_descent *d, const char *method, size_t n,
                          const pn_wolfe *rule) TN_MUST_USE;
void pn_descent_done(pn_descent *d);
tn_status pn_descent_visit(pn_descent *d, pn_state_visitor *visitor) TN_MUST_USE;
void pn_descent_forget(pn_descent *d); /* for resampled() */

/* Makes loss and g known and fills the report's "before" half. *go is false if the step is over:
 * loss zero, gradient zero or something not finite (the report says so). */
tn_status pn_descent_begin(pn_descent *d, pn_objective *f, const double *theta,
                           pn_step_report *report, bool *go) TN_MUST_USE;
/* Searches along p from theta with the first trial step `first`. Unless outcome is FAILED, theta,
 * loss and g are the new ones, s and y are set and the report is complete. A slope at rounding
 * level or 20 steps without a lower loss set report->stop. */
tn_status pn_descent_search(pn_descent *d, pn_objective *f, double *theta, double first,
                            pn_step_report *report, pn_search_result *result) TN_MUST_USE;

/* min(1, 2.02 fall / -slope), at least 0.1: the step at which the model -alpha slope / 2 falls as
 * the last step did (Nocedal and Wright, 3.60). 1 where that is not known or below the noise. */
double pn_descent_trial(const pn_descent *d, double slope);

/* The first trial along -g when nothing is known about the curvature: a step of the length
 * min(1, 2 L / |g|), that is to where a parabola with minimum 0 would end, but not farther than 1.
 * Unlike the usual min(1, 1 / |g|) it does not change with the scale of the loss. */
double pn_descent_first(const pn_descent *d, const pn_step_report *report);

#endif
