/* schedule.c: the learning rate as a function of the step number k = 0, 1, 2, ...
 *
 *   warm-up      rate (k + 1) / W                                 for k < W, so the first step
 * moves constant     rate                                             afterwards cosine       rate
 * (1 + cos(pi (k - W) / (S - W))) / 2         and 0 from k = S on exponential  rate 2^(-(k - W) /
 * half_life)
 *
 * A half-life is asked for instead of a decay factor per step, because "halves every 700 steps" can
 * be read off a plot and 0.99901 cannot. Pure functions of k: a resumed run needs no state here.
 * cos and 2^x are our own (vector.c), so that a run gives the same bits under another libm.
 */
#include "pinn/opt.h"
#include "pinn/vector.h"

#include <math.h>
#include <string.h>

static const char *const names[PN_SCHEDULES] = {"constant", "cosine", "exponential"};

const char *pn_schedule_name(pn_schedule_kind kind) {
  return (unsigned)kind < PN_SCHEDULES ? names[kind] : "?";
}

tn_status pn_schedule_of_name(const char *name, pn_schedule_kind *out) {
  for (int k = 0; k < PN_SCHEDULES; ++k)
    if (strcmp(name, names[k]) == 0) {
      *out = (pn_schedule_kind)k;
      return TN_OK;
    }
  return TN_FAIL(TN_EINPUT, "schedule `%s` is not constant, cosine or exponential", name);
}

tn_status pn_schedule_check(const pn_schedule *schedule) {
  if ((unsigned)schedule->kind >= PN_SCHEDULES)
    return TN_FAIL(TN_EINPUT, "schedule: kind %d does not exist", (int)schedule->kind);
  if (!(schedule->rate > 0 && schedule->rate < INFINITY))
    return TN_FAIL(TN_ERANGE, "schedule: rate = %g is not a positive number", schedule->rate);
  if (schedule->kind == PN_COSINE && schedule->steps <= schedule->warmup)
    return TN_FAIL(TN_ERANGE, "schedule cosine: %zu steps leave nothing after %zu steps of warm-up",
                   schedule->steps, schedule->warmup);
  if (schedule->kind == PN_EXPONENTIAL &&
      !(schedule->half_life > 0 && schedule->half_life < INFINITY))
    return TN_FAIL(TN_ERANGE,
                   "schedule exponential: half_life = %g is not a positive number of steps",
                   schedule->half_life);
  return TN_OK;
}

double pn_schedule_rate(const pn_schedule *schedule, size_t step) {
  const size_t warmup = schedule->warmup;
  if (step < warmup)
    return schedule->rate * ((double)(step + 1) / (double)warmup);
  const double k = (double)(step - warmup);
  switch (schedule->kind) {
  case PN_COSINE:
    if (step >= schedule->steps)
      return 0;
    return schedule->rate * (0.5 + 0.5 * pn_cos_pi(k / (double)(schedule->steps - warmup)));
  case PN_EXPONENTIAL:
    return schedule->rate * pn_exp2(-k / schedule->half_life);
  default:
    return schedule->rate;
  }
}
