/* points_data.c: rows of data as the points of a site.
 *
 * They are what was measured and where: no sampler draws them, a refinement leaves them, validation
 * has no others. A check that looks at a few points takes rows at equal distances.
 */
#include "pinn/data.h"
#include "pinn/points.h"

/* All rows, or, where fewer than those are wanted, every so many. */
tn_status pn_site_rows(const pn_problem *problem, pn_site *site, size_t n) {
  const pn_data *data = site->data;
  site->stride = n > 0 && n < data->n ? (data->n + n - 1) / n : 1;
  TN_TRY(pn_site_resize(site, (data->n + site->stride - 1) / site->stride));
  for (size_t c = 0; c < problem->n_coordinates; ++c)
    for (size_t i = 0; site->column[c] && i < site->n; ++i)
      site->column[c][i] = data->coordinate[c][i * site->stride];
  return TN_OK;
}
