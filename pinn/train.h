/* train.h: a training run: plan, points, scales, stages, stopping, acceptance. Inside pinn/ only.
 *
 *   pn_training_new   decides everything that can be printed before the first step
 *   pn_training_visit (restore)  optional: continues where a checkpoint stood, with the same bits
 *   pn_training_run   the stages; calls back; returns with a result
 */
#ifndef PINN_TRAIN_H
#define PINN_TRAIN_H

#include "pinn/metrics.h"
#include "pinn/objective.h"
#include "pinn/pinn.h"
#include "pinn/ranks.h"

/* ---- Plan (plan.c) --------------------------------------------------------------------------- */

typedef struct pn_plan_stage {
  pn_stage stage; /* every "auto" decided */
  const pn_opt_class *class_;
  pn_schedule schedule; /* of the rate; constant 0 for methods without one */
  pn_precision precision;
} pn_plan_stage;
typedef struct pn_plan {
  size_t n;
  pn_plan_stage *stages;
  bool standard; /* the file has no stages */
  bool mixed;    /* its stages differ in precision */
  bool lm_first; /* and lm makes the start; later stages are for what it leaves unsolved */
} pn_plan;
/* The stages of the file; without any, lm and what may follow it, or adam 500 then ssbroyden (n_theta <=
 * 5 000) or lbfgs, 10 000 steps. */
tn_status pn_plan_new(const pn_problem *problem, size_t n_theta, pn_plan *out) TN_MUST_USE;
/* Within so many seconds (0: no limit) the plan of a file without stages leaves the later stage most
 * of the time. */
void pn_plan_limit(pn_plan *plan, double seconds);
void pn_plan_free(pn_plan *plan);

/* ---- Run ------------------------------------------------------------------------------------- */

typedef struct pn_progress {
  size_t stage, n_stages; /* stage counts from 1 */
  const char *optimizer;
  size_t step;                    /* over all stages: steps done */
  size_t stage_step, stage_steps; /* done, and at most, in this stage */
  double loss;
  size_t n_terms;
  const double
      *relative; /* [n_terms], as sites->terms: rms residual over its scale, training points */
  size_t n_errors;
  const double *errors; /* [n_unknowns]: relative L2; NaN where there is no exact solution */
  size_t n_parameters;
  const double *parameters; /* [n_parameters]: their values now */
  double rate;          /* learning rate; NaN for methods without one */
  double loss_scale;    /* NaN for stages without one */
  size_t skips;         /* steps of this stage that were skipped for an overflow */
  double seconds;       /* since pn_training_run, earlier runs of a resumed one included */
  double seconds_left;  /* estimate */
  bool stage_end;
  bool recorded; /* went into the history; else a sign of life after 2 s of silence */
} pn_progress;

typedef struct pn_history { /* owned by the training; arrays row by record */
  size_t n, capacity, n_terms, n_unknowns, n_parameters;
  double *step, *stage, *seconds, *loss, *rate;
  double *relative; /* [n x n_terms] */
  double *error;    /* [n x n_unknowns] */
  double *parameter; /* [n x n_parameters] */
} pn_history;

typedef struct pn_training pn_training;

typedef struct pn_train_options {
  uint64_t seed;
  double seconds;            /* 0: no limit */
  double checkpoint_seconds; /* 0: 30 */
  void *context;             /* handed to the three calls below, each of which may be NULL */
  tn_status (*progress)(void *context, const pn_progress *progress);
  /* At stage ends, every checkpoint_seconds, and before a stop. The training can be visited. Only the first rank is
   * asked; the others wait for it. */
  tn_status (*checkpoint)(void *context, pn_training *training, bool stage_end);
  int (*stop)(void *context); /* polled between steps: a signal number, or 0 */
  size_t n_theta;             /* weights to start from in place of random ones, if so many are wanted */
  const double *theta;
  pn_ranks *ranks;            /* that train together, those of the pool; borrowed. NULL: one process */
} pn_train_options;

enum { PN_SCALE_EVENTS = 64 };
typedef struct pn_scale_event { /* the loss scale from step `step` of the run on */
  double step, scale;
} pn_scale_event;

typedef struct pn_low_result { /* of all stages with a low format; all 0 if there is none */
  double flops_low, flops;     /* in matrix products of losses and gradients */
  size_t skips;                /* steps skipped for an overflow */
  size_t forward;              /* of them in the loss itself, not in its gradient */
  size_t n_events;             /* of the loss scale; only the first PN_SCALE_EVENTS are kept */
  pn_scale_event event[PN_SCALE_EVENTS];
  double moved,
      lost; /* updates of single weights wanted, and those that rounding the weights undid */
  double zeros, entries; /* of gradients in a pure format: exactly zero, and all */
} pn_low_result;

typedef struct pn_stage_result {
  size_t steps;
  double seconds, loss;
  char reason[160]; /* why it ended: "all steps done", "accepted at step 512", ... */
} pn_stage_result;

typedef struct pn_parameter_result {
  double value, error; /* error: |value - exact| / |exact|, absolute for an exact 0; NaN: not known */
  double accept;       /* largest error that passes; NaN: none */
  bool accepted;
  double std, low, high; /* standard deviation and 95 % interval; NaN: not computed */
  double correlation;    /* the largest with another parameter; 0: none */
  size_t with;           /* that one */
  bool identified;       /* the standard deviation is less than its own size (log: than a decade) */
  bool at_bound; /* within a thousandth of the way to one of its bounds */
} pn_parameter_result;

enum { PN_PEAKS = 4 };
typedef struct pn_spread { /* of a field that no data show directly: its standard deviation over its coordinates */
  bool known;
  double median, largest;
  double place[PN_MAX_COORDINATES]; /* of the largest */
  size_t n_peaks;                   /* places of one coordinate where it is far above its surroundings */
  double peak[PN_PEAKS];
} pn_spread;
typedef struct pn_identified { /* identify.c */
  bool done;
  char why[160];    /* it was not computed; "": there is nothing to compute */
  bool sigma_known; /* of all data; else it is estimated from the misfit */
  double measured;  /* numbers */
  pn_spread *spread; /* [n_unknowns] */
} pn_identified;

typedef struct pn_train_result { /* borrowed from the training */
  pn_outcome outcome;
  size_t steps, n_stages;
  pn_stage_result *stages; /* of the plan; steps = 0 where it was not reached */
  double seconds, loss;
  size_t n_fields;
  pn_field_error *fields; /* [n_unknowns] */
  size_t n_parameters;
  pn_parameter_result *parameters;
  pn_identified identified;
  size_t n_terms;
  pn_term_check *terms; /* those of sites->terms, then the conditions met by construction */
  size_t n_checks;
  pn_term_check *checks; /* of the problem's checks, in their order; behind terms */
  pn_low_result low;
  char detector[256]; /* "" or what the failed answer looks like, and a key to try */
} pn_train_result;

/* model: of the problem's dtype; borrowed, as pool. Sets the model's scales, draws the first
 * weights. */
tn_status pn_training_new(pn_model *model, tn_pool *pool, const pn_train_options *options,
                          pn_training **out) TN_MUST_USE;
void pn_training_free(pn_training **training);
/* TN_ENONFINITE: explained in the error text, theta is that of the last good step. A stop by
 * signal is TN_OK with outcome PN_INTERRUPTED or PN_TERMINATED. */
tn_status pn_training_run(pn_training *training) TN_MUST_USE;

/* Compares the whole state, but for what clocks told, with that of the other ranks: TN_ESTATE on all of them, with
 * their digests, if it differs anywhere. `when`: "before a save". */
tn_status pn_training_same(pn_training *training, const char *when) TN_MUST_USE;

/* All that changes: theta, optimizer, stage, step, points, weights, scales, history. */
tn_status pn_training_visit(pn_training *training, pn_state_visitor *visitor) TN_MUST_USE;

/* Looking in. All borrowed. */
const pn_plan *pn_training_plan(const pn_training *training);
const pn_sites *pn_training_sites(const pn_training *training);
/* Whose residual result->terms[m] is. */
const pn_term *pn_training_checked(const pn_training *training, size_t m);
const pn_loss *pn_training_loss(const pn_training *training);
/* Does a stage of the plan compute in a low format? Its precision, the first one's if there are several. */
bool pn_training_low(const pn_training *training, pn_precision *precision);
const pn_history *pn_training_history(const pn_training *training);
const double *pn_training_theta(const pn_training *training, size_t *n);
const pn_train_result *pn_training_result(const pn_training *training);
/* "u by 0.71 (initial)", "burgers by 1.1 (u*u_x)": one text an unknown, then one a term. */
size_t pn_training_scales(const pn_training *training, const char *const **texts);
/* Seconds a step takes, measured by pn_training_new on the loss and gradient (for the plan line).
 */
double pn_training_step_seconds(const pn_training *training);

#endif
