/* scaler.h: the loss scale of a stage with 16-bit products. Inside pinn/ only.
 *
 *   begin -> backward -> reduce -> unscale (and check) -> clip ... -> step -> update
 *
 * Each call moves the state on by one; a call out of order is TN_ESTATE and its text says which call is missing or
 * has been made already. A method that evaluates many times a step (a line search) works with a frozen scale and
 * asks for it by pn_scaler_closure; the calls above are then refused.
 */
#ifndef PINN_SCALER_H
#define PINN_SCALER_H

#include "pinn/opt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PN_SCALER_BUDGET = 64 }; /* the largest budget */

typedef struct pn_scaler_options { /* [precision] of the file: pn_problem_scaler */
  double scale;                    /* the first, a power of two from `least` to 2^127 */
  double growth;                   /* a power of two above 1 */
  double backoff;                  /* a power of two below 1 */
  size_t interval; /* steps in a row without overflow before the scale grows, >= 1 */
  double least;    /* the scale never falls below this power of two */
  size_t budget;   /* so many skipped steps, 1 to PN_SCALER_BUDGET, ... */
  size_t window;   /* ... within so many steps end the stage */
} pn_scaler_options;

typedef enum pn_scaler_phase {
  PN_SCALER_READY,
  PN_SCALER_BEGUN,
  PN_SCALER_BACKWARD,
  PN_SCALER_REDUCED,
  PN_SCALER_UNSCALED,
  PN_SCALER_CLIPPED,
  PN_SCALER_STEPPED
} pn_scaler_phase;

typedef enum pn_scaler_verdict {
  PN_SCALER_GOOD,      /* the step was taken */
  PN_SCALER_SKIPPED,   /* it was not; the scale has been lowered */
  PN_SCALER_FLOOR,     /* not finite at the least scale too: the scale is not the reason */
  PN_SCALER_OVERBUDGET /* skipped, and too many of the last steps were */
} pn_scaler_verdict;

struct pn_scaler { /* by value; to be read by all, changed by scaler.c */
  pn_scaler_options options;
  double scale;
  size_t tracker;                  /* steps without overflow since the scale changed */
  size_t steps;                    /* updates made */
  size_t skips;                    /* of them without a step */
  double recent[PN_SCALER_BUDGET]; /* numbers of the last skipped steps, a ring; 0: none */
  pn_scaler_phase phase;
  bool found; /* something not finite in the step under way */
  bool frozen;
};

/* 2^16, 2, 1/2, 2000; least 1; 20 of 100. */
pn_scaler_options pn_scaler_standard(void);
tn_status pn_scaler_check(const pn_scaler_options *options) TN_MUST_USE; /* TN_ERANGE */
tn_status pn_scaler_init(pn_scaler *s, const pn_scaler_options *options) TN_MUST_USE;

tn_status pn_scaler_begin(pn_scaler *s,
                          double *scale) TN_MUST_USE;   /* what the loss is multiplied by */
tn_status pn_scaler_backward(pn_scaler *s) TN_MUST_USE; /* the gradient has been formed */
/* The gradient has been summed over all processes; found: one of them saw a number that is not finite. */
tn_status pn_scaler_reduce(pn_scaler *s, bool found) TN_MUST_USE;
/* g <- g / scale, all n entries, exactly. dtype: of the gradients before they became f64; 16 bits are refused. */
tn_status pn_scaler_unscale(pn_scaler *s, tn_dtype dtype, size_t n, double *g) TN_MUST_USE;
/* Further parts of the same gradient (the loss) that must be finite. After unscale, before the step. */
tn_status pn_scaler_look(pn_scaler *s, double x) TN_MUST_USE;
tn_status pn_scaler_clip(pn_scaler *s) TN_MUST_USE; /* permission to clip; as often as wanted */
tn_status pn_scaler_step(pn_scaler *s,
                         bool *take) TN_MUST_USE; /* false: leave everything as it is */
tn_status pn_scaler_update(pn_scaler *s, pn_scaler_verdict *verdict) TN_MUST_USE;

/* From now on one scale, a power of two >= least; again: another one. Not within a step. */
tn_status pn_scaler_freeze(pn_scaler *s, double scale) TN_MUST_USE;
/* The frozen scale, for a method that evaluates as often as it likes. */
tn_status pn_scaler_closure(const pn_scaler *s, double *scale) TN_MUST_USE;
/* A frozen step began with something not finite: counted like a skipped step. */
tn_status pn_scaler_missed(pn_scaler *s, pn_scaler_verdict *verdict) TN_MUST_USE;

/* All of it, settings included. Not within a step. */
tn_status pn_scaler_visit(pn_scaler *s, pn_state_visitor *visitor) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
