/* words_low.c: the sentences about number formats that both the terminal and the report use.
 *
 * A run in f64 or f32 has one word for all of it. One with a low format says which numbers are of it, in what the
 * errors are measured, how large a share of the products it was, and what the scales did, so that nobody has to guess
 * whether a result was made in 16 bits or beside them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"

const char *pn_power(double x, char text[24]) {
  int exponent = 0;
  (void)frexp(x, &exponent);
  snprintf(text, 24, "2^%d", exponent - 1);
  return text;
}

/* Not those that differ from an earlier one in the sign alone, as a symmetry makes them. */
static void put_channels(pn_text *text, const pn_run *run) {
  size_t n = 0;
  const pn_channel *c = pn_loss_channel_list(pn_training_loss(run->training), &n);
  bool first = true;
  for (size_t i = 0; i < n; ++i) {
    if (c[i].exponent == 0 || c[i].label[0] == '-')
      continue;
    pn_put(text, first ? "; channels " : ", ");
    pn_put_channel(text, run->model, c[i].field, c[i].label);
    pn_putf(text, " by 2^%d", -c[i].exponent);
    first = false;
  }
}

void pn_put_precision(pn_text *text, const pn_run *run) {
  const pn_plan *plan = pn_training_plan(run->training);
  char words[PN_PRECISION_TEXT], first[24];
  pn_precision p;
  for (size_t i = 0; i < plan->n; ++i)
    if (i == 0 || plan->mixed)
      pn_putf(text, "%s%s", i ? "; then " : "",
              pn_precision_text(&plan->stages[i].precision, words));
  if (!pn_training_low(run->training, &p))
    return;
  if (pn_precision_scales(&p)) {
    double scale = run->problem->numbers.scale;
    pn_putf(text, "; loss scale %s",
            isnan(scale) ? "by trial, frozen, for line searches, else from 2^16"
                         : pn_power(scale, first));
  }
  pn_putf(text, "; errors and fresh points in %s", pn_precision_name(run->model->dtype));
}

/* ---- At the end ------------------------------------------------------------------------------ */

static void put_scale(pn_text *text, const pn_low_result *low) {
  char number[24], step[32];
  if (low->n_events == 0)
    return;
  pn_put(text, "\nloss scale ");
  for (size_t i = 0; i < low->n_events; ++i) {
    bool shown = i < 4 || i + 2 >= low->n_events;
    if (shown)
      pn_putf(text, "%s%s from step %s", i ? ", " : "", pn_power(low->event[i].scale, number),
              pn_grouped((size_t)low->event[i].step, step));
    else if (i == 4)
      pn_put(text, ", ...");
  }
}

static void put_overflows(pn_text *text, const pn_run *run) {
  size_t n = 0;
  const pn_channel *c = pn_loss_channel_list(pn_training_loss(run->training), &n);
  for (size_t i = 0; i < n; ++i) {
    if (c[i].overflows) {
      pn_put(text, "; ");
      pn_put_channel(text, run->model, c[i].field, c[i].label);
      pn_putf(text, " overflowed %zu time%s", c[i].overflows, c[i].overflows == 1 ? "" : "s");
    }
  }
}

void pn_put_low(pn_text *text, const pn_run *run) {
  const pn_low_result *low = &pn_training_result(run->training)->low;
  char number[32];
  pn_precision p;
  if (!pn_training_low(run->training, &p) || !(low->flops > 0))
    return;
  pn_putf(text, "%.1f %% of the work in products on %s", 100 * low->flops_low / low->flops,
          pn_precision_name(p.low));
  put_channels(text, run);
  put_scale(text, low);
  if (pn_precision_scales(&p)) {
    pn_putf(text, "; %s step%s skipped for an overflow", pn_grouped(low->skips, number),
            low->skips == 1 ? "" : "s");
    put_overflows(text, run);
  }
  if (low->moved > 0)
    pn_putf(text, "\n%.2g %% of the updates of single weights were lost in %s",
            100 * low->lost / low->moved, pn_precision_name(p.master));
  if (low->entries > 0)
    pn_putf(text, "\n%.2g %% of the entries of gradients were exactly zero",
            100 * low->zeros / low->entries);
}

void pn_put_advice(pn_text *text, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  pn_precision p;
  size_t worst = 0;
  char a[24], b[24];
  if (!pn_training_low(run->training, &p) || run->failure != NULL || r->n_fields == 0)
    return;
  if (r->low.flops > 0 && !(r->low.flops_low > 0)) {
    pn_putf(text, "nothing was computed in %s: no product of matrices is wide enough for it",
            pn_precision_name(p.low));
    return;
  }
  for (size_t i = 1; i < r->n_fields; ++i)
    if (r->fields[i].known && !(r->fields[i].rel_l2 <= r->fields[worst].rel_l2))
      worst = i;
  if (!r->fields[worst].known)
    return;
  pn_putf(text, "%s %s carried %s to %s", p.pure ? "pure" : "products in", pn_precision_name(p.low),
          run->problem->unknowns[worst].name, pn_brief(r->fields[worst].rel_l2, a));
  if (isfinite(run->floor))
    pn_putf(text,
            "; from these weights, rounding is predicted to end progress near %s, to an order of "
            "magnitude",
            pn_brief(run->floor, b));
}
