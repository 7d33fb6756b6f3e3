/* data_weights.c: what sigma means for the loss.
 *
 * With a standard deviation for every measurement the misfit that statistics minimises is
 *
 *   sum over conditions m with sigma, rows i of (F_i / sigma_i)^2
 *
 * so a condition with more rows or smaller sigma counts for more, whatever its own mean square is. The loss
 * divides each term by its rows n_m and its scale s_m^2; hence the factor
 *
 *   w_m = n_m (s_m / sigma_m)^2 / max over those conditions of the same
 *
 * times weight: the most informative condition keeps the weight that it has without sigma, and the others
 * have their share beside it. Balancing multiplies all of them by one number, the least that it asked for.
 * How strongly data count beside the equations stays a matter of `weight`: the equations have no sigma.
 */
#include <math.h>

#include "pinn/data.h"
#include "pinn/objective.h"

static bool has_sigma(const pn_term *term) { return term->data && !isnan(term->data->sigma); }

/* The largest relation counts; its scale decides. */
static double information(const pn_loss *loss, size_t m) {
  const pn_data *data = pn_loss_term_of(loss, m)->data;
  double largest = 0;
  for (size_t r = 0; r < pn_loss_relations(loss, m); ++r)
    largest = fmax(largest, pn_loss_scale(loss, m, r) / data->sigma);
  return (double)data->n * largest * largest;
}

void pn_data_weigh(const pn_loss *loss, size_t n, double *weight) {
  double most = 0;
  for (size_t m = 0; m < n; ++m)
    if (has_sigma(pn_loss_term_of(loss, m)))
      most = fmax(most, information(loss, m));
  for (size_t m = 0; most > 0 && m < n; ++m)
    if (has_sigma(pn_loss_term_of(loss, m)))
      weight[m] *= information(loss, m) / most;
}

void pn_data_join(const pn_loss *loss, size_t n, const double *before, double *weight) {
  double least = INFINITY;
  for (size_t m = 0; m < n; ++m)
    if (has_sigma(pn_loss_term_of(loss, m)) && before[m] > 0)
      least = fmin(least, weight[m] / before[m]);
  for (size_t m = 0; isfinite(least) && m < n; ++m)
    if (has_sigma(pn_loss_term_of(loss, m)))
      weight[m] = least * before[m];
}
