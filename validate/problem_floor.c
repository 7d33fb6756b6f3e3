/* problem_floor.c: how far each number format carries training, predicted from one audit.
 *
 * In the format's arithmetic are measured
 *
 *   L      the right loss (sum over terms of the mean squared residual)
 *   rho^2  the same sum over the errors of the residuals: of arithmetic, and of storing the weights
 *   gamma  |g^ - g| / |g|, the computed gradient g^ against the right one at the f64 weights
 *   a      relative norm-2 error of the unknowns, by arithmetic and storing together
 *   e      relative L2 error of these weights against an exact solution, if there is one
 *
 * at the audited weights, and for trained ones L0 and gamma0 also at the fresh weights, whose error is 1. L
 * and gamma are those over many points (problem_gradient.c), where they were measured.
 * A run stops gaining where the gradient's noise reaches a share tau = 1/10 of it: quasi-Newton methods
 * live on differences of gradients and so need more than one digit. gamma grows as the loss falls, since
 * the gradient shrinks, faster than the residual, and its noise does not. log gamma is taken to be linear in
 * log L, with the slope s that both measurements have, at least 1/2 (that of a gradient which shrinks like
 * the residual), and 1/2 if there is one alone:
 *
 *   floor of the loss    L (gamma / tau)^(1/s), at least rho^2
 *   floor of the error   e (floor / L)^(1/2) below L; above, the line through (L, e) and (L0, 1); at least a
 *
 * For trained weights without an exact solution only a is known, a lower bound. It is a prediction of orders
 * of magnitude: runs of Burgers' equation in f32, tf32, f16 and bf16 ended within a factor of 5 of the
 * error predicted (docs/accuracy.md). tau was chosen after comparing with those runs (0.05 was tried first), so that
 * is a fit to one problem with one optimizer, not an independent check.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/problem.h"

#define TAU 0.1

/* The line in logarithms through (x0, y0) and (x1, y1), at x. */
static double on_line(double x0, double y0, double x1, double y1, double x) {
  return exp(log(y1) + log(y0 / y1) * log(x / x1) / log(x0 / x1));
}

void vd_predict_floor(const vd_problem *p, const vd_tested *master, vd_tested *t) {
  bool many = t->many_loss > 0;
  double loss = fabs(many ? t->many_loss : master->loss), slope = 0.5;
  double gamma = many ? t->many_noise : t->gradient_noise;
  double e = p->trained ? p->error : 1;
  bool two = t->start_loss > loss && t->start_noise > 0 && gamma > t->start_noise;
  if (two)
    slope = fmax(slope, log(gamma / t->start_noise) / log(t->start_loss / loss));
  if (!isfinite(loss) || !isfinite(gamma)) { /* an overflow: no training from here */
    t->floor_loss = t->floor_error = INFINITY;
    return;
  }
  t->floor_loss = loss * pow(gamma / TAU, 1 / slope);
  t->floor_loss = fmax(t->floor_loss, t->noise + t->stored);
  t->floor_error = t->unknowns;
  if (isnan(e) || !(loss > 0))
    return;
  double error = e * sqrt(t->floor_loss / loss);
  if (t->floor_loss > loss && two && e < 1)
    error = on_line(t->start_loss, 1, loss, e, t->floor_loss);
  t->floor_error = fmax(t->floor_error, error);
}

/* Where most of what rounding can do to the loss comes from; NULL: nothing known. */
static const vd_layer_channel *worst_of(const vd_tested *t) {
  const vd_layer_channel *worst = NULL;
  for (size_t i = 0; i < t->n_channels; ++i)
    if (!worst || t->channel[i].share > worst->share)
      worst = t->channel + i;
  return worst;
}

/* "f32 carries this problem to about 3e-5" */
static void put_format(char *text, size_t capacity, const vd_problem *p, const vd_tested *t,
                       size_t i, bool first) {
  double floor = t[i].floor_error;
  const char *name = p->formats[i].name;
  if (!(floor < 0.5))
    snprintf(text, capacity, first ? "%s does not carry this problem" : "%s does not", name);
  else
    snprintf(text, capacity, first ? "%s carries this problem to about %.0e" : "%s to %.0e", name,
             floor);
}

tn_status vd_advise_problem(const vd_problem *p, const vd_tested *t, vd_report *report) {
  char sentence[1024], piece[200];
  size_t used = 0, last = p->n_formats - 1, cheapest = 0;
  if (!isfinite(t[0].loss))
    return vd_report_advise(report, "The loss is not finite at these weights and points, in f64 "
                                    "and in MPFR: no format carries this step. `pinn check` and "
                                    "`pinn solve` name the place.");
  for (size_t i = 1; i < p->n_formats; ++i) {
    put_format(piece, sizeof piece, p, t, i, i == 1);
    used +=
        (size_t)snprintf(sentence + used, sizeof sentence - used, "%s%s", i > 1 ? ", " : "", piece);
    cheapest = t[i].floor_error <= 1e-3 ? i : cheapest;
  }
  const vd_layer_channel *worst = worst_of(t + last);
  bool three = last > 0 && strstr(p->formats[last].name, "x3") != NULL;
  if (last > 0)
    used += (size_t)snprintf(
        sentence + used, sizeof sentence - used, " (relative L2 error of the unknowns%s); %s.%s",
        p->trained && isnan(p->error)
            ? ", at best: what evaluating them costs; without an exact solution no more is known"
            : "; a prediction, to about an order of magnitude",
        cheapest > 0 ? "use f64 for less" : "use f64",
        three ? " x3 is three products for one, as lbfgs and ssbroyden train by default." : "");
  if (last > 0 && worst)
    snprintf(sentence + used, sizeof sentence - used, " In %s, roundings of `%s` in %s weigh most.",
             p->formats[last].name, worst->label, worst->layer);
  if (last == 0)
    snprintf(sentence, sizeof sentence, "In f64 rounding is no obstacle above %.0e.",
             t[0].floor_error);
  TN_TRY(vd_report_advise(report, sentence));
  if (!p->trained)
    return vd_report_advise(report, "The weights are fresh: with --weights RESULT the figures are "
                                    "those of the gradient that training ends with.");
  return TN_OK;
}
