/* opt.h: what an optimizer sees of the problem, and what the training loop sees of an optimizer.
 *
 * Two interfaces meet here. pn_objective is the problem as functions of one flat vector theta in
 * f64; the solver fills it. pn_opt_class is a method: one file pinn/opt_<name>.c that ends in one
 * constant of this type, plus one line in opt_list.c. pn_opt is a living optimizer: a class and its
 * state.
 *
 * One call of step is one iteration. A step never fails because of numbers: a loss that is not
 * finite, a line search without success or a gradient at rounding level are told in the report. A
 * tn_status other than TN_OK means that memory, the device or the objective itself gave up, and
 * theta is then as before.
 */
#ifndef PINN_OPT_H
#define PINN_OPT_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The objective --------------------------------------------------------------------------- */

/* The loss is L(theta) = |r|^2 = sum_i r_i^2 over N rows that carry their weights,
 * r_i = sqrt(w_m / N_m) F_m(x_i); there is no second, separately weighted loss and no factor 1/2.
 * Hence
 *
 *   gradient g = 2 J^T r,    J_ij = d r_i / d theta_j    (N x n).
 *
 * All arrays are the caller's, f64, dense, row-major. A slot overwrites its outputs. theta is not
 * changed. A value that is not finite is a value, not an error: the slot returns TN_OK and stores
 * it. A slot may also return TN_ENONFINITE; pn_objective_loss and pn_objective_gradient turn that
 * into loss = NaN. Equal theta must give equal bits until the points change. The two slots after
 * `n_terms` are required, the others are NULL where a problem cannot offer them; call
 * pn_objective_need before use. */
typedef struct pn_objective pn_objective;
struct pn_objective {
  void *context;  /* the filler's own data */
  size_t n;       /* parameters, length of theta */
  size_t n_rows;  /* N, rows of r; 0 without a residual */
  size_t n_terms; /* M, terms of the loss; 0 if they are not told apart */

  /* loss = L(theta). */
  tn_status (*loss)(pn_objective *f, const double *theta, double *loss);
  /* loss = L(theta), gradient[n] = dL/dtheta. */
  tn_status (*gradient)(pn_objective *f, const double *theta, double *loss, double *gradient);

  /* sums[M]: L_m, with sum_m L_m = L; gradients[M x n]: row m is dL_m/dtheta; NULL: not wanted. */
  tn_status (*terms)(pn_objective *f, const double *theta, double *sums, double *gradients);
  /* r[N]. */
  tn_status (*residual)(pn_objective *f, const double *theta, double *r);
  /* out[N] = J v, v[n]. */
  tn_status (*jvp)(pn_objective *f, const double *theta, const double *v, double *out);
  /* out[n] = J^T w, w[N]. */
  tn_status (*vjp)(pn_objective *f, const double *theta, const double *w, double *out);
  /* rows first .. first + count - 1: r[count] (or NULL) and J[count x n]. */
  tn_status (*rows)(pn_objective *f, const double *theta, size_t first, size_t count, double *r,
                    double *J);
  /* J = Q R by TSQR over row blocks: loss = |r|^2, R[n x n] upper triangular with zeros below (also
   * if N < n), qtr[n] = the first n entries of Q^T r. */
  tn_status (*qr)(pn_objective *f, const double *theta, double *loss, double *R, double *qtr);
  /* out[n] = the first n entries of Q^T w, w[N], with the Q of the last call of qr, which is kept
   * for it. */
  tn_status (*qt)(pn_objective *f, const double *w, double *out);
  /* out[N] = d^2/dt^2 r(theta + t v) at t = 0, v[n]: the term of geodesic acceleration. */
  tn_status (*second)(pn_objective *f, const double *theta, const double *v, double *out);
  /* losses[k] = L(thetas + k n), k < count, with the bits of `loss`. */
  tn_status (*losses)(pn_objective *f, size_t count, const double *thetas, double *losses);
};

typedef enum pn_slot {
  PN_SLOT_TERMS,
  PN_SLOT_RESIDUAL,
  PN_SLOT_JVP,
  PN_SLOT_VJP,
  PN_SLOT_ROWS,
  PN_SLOT_QR,
  PN_SLOT_QT,
  PN_SLOT_SECOND,
  PN_SLOT_LOSSES,
  PN_SLOTS
} pn_slot;

/* TN_OK if f offers the slot, else TN_EUNSUPPORTED with the method and the slot in the text. */
tn_status pn_objective_need(const pn_objective *f, pn_slot slot, const char *method) TN_MUST_USE;
/* The two required slots; TN_ENONFINITE becomes TN_OK with loss = NaN (the gradient is then NaN
 * too). */
tn_status pn_objective_loss(pn_objective *f, const double *theta, double *loss) TN_MUST_USE;
tn_status pn_objective_gradient(pn_objective *f, const double *theta, double *loss,
                                double *gradient) TN_MUST_USE;
/* The slot losses, or one loss after another where it is NULL. */
tn_status pn_objective_losses(pn_objective *f, size_t count, const double *thetas,
                              double *losses) TN_MUST_USE;

/* ---- What the loop tells an optimizer, and what it hears ------------------------------------- */

typedef struct pn_scaler pn_scaler; /* scaler.h */

typedef struct pn_opt_context {
  tn_pool *pool; /* borrowed; NULL: one thread. The bits do not depend on it */
  uint64_t seed; /* for methods that draw numbers */
  double rate;   /* learning rate of this step, after the schedule; PN_OPT_RATE methods read it */
  /* The loss scale that the objective's gradient has gone through, or NULL. A method that reads it asks for leave
   * to clip and to step; the loop updates it afterwards. Others need it frozen. */
  pn_scaler *scaler;
} pn_opt_context;

typedef struct pn_step_report {
  double loss_before;   /* L at the theta that came in; NaN if the method did not evaluate it */
  double loss_after;    /* L at the theta that goes out; NaN if the method did not evaluate it */
  double gradient_norm; /* |g| at the theta that came in, before clipping */
  double step_length;   /* |theta_out - theta_in| */
  size_t losses;        /* evaluations of L alone */
  size_t gradients;     /* evaluations of L and g */
  bool accepted;        /* theta has changed */
  bool nonfinite;       /* loss or gradient at the incoming theta is not finite: nothing was done */
  bool stop;            /* no further step of this method will help; `reason` says why */
  char reason[160];     /* words; "" if there is nothing to say. Also set for a step not accepted */
} pn_step_report;

/* ---- State as named numbers ------------------------------------------------------------------ */

/* A checkpoint walks the state by a visitor: one that writes copies *data out, one that restores
 * copies into it. Names are unique within a state and n is fixed by the class, the options and the
 * number of parameters, so the restoring visitor must find the same names with the same n (after
 * an error only pn_opt_free is left). Counts and flags travel as doubles, exact below 2^53. */
typedef struct pn_state_visitor pn_state_visitor;
struct pn_state_visitor {
  void *context;
  bool restores; /* true: data is overwritten from the checkpoint */
  tn_status (*doubles)(pn_state_visitor *visitor, const char *name, size_t n, double *data);
  tn_status (*number)(pn_state_visitor *visitor, const char *name, double *x);
};

/* A count in [0, maximum] and a flag through visitor->number; a restored value out of range is
 * TN_EINPUT. */
tn_status pn_visit_count(pn_state_visitor *visitor, const char *name, size_t maximum,
                         size_t *x) TN_MUST_USE;
tn_status pn_visit_flag(pn_state_visitor *visitor, const char *name, bool *x) TN_MUST_USE;

/* ---- The class ------------------------------------------------------------------------------- */

typedef enum pn_option_kind {
  PN_OPTION_REAL,  /* double */
  PN_OPTION_COUNT, /* size_t */
  PN_OPTION_FLAG   /* bool, set by 0 or 1 */
} pn_option_kind;

typedef struct pn_option {
  const char *name; /* NULL ends the table */
  size_t offset;    /* of the field in the state */
  pn_option_kind kind;
  double standard; /* the default */
  const char *doc; /* meaning, unit, range; `pinn keys stage` prints it */
} pn_option;

enum {
  PN_OPT_RATE = 1,  /* reads context->rate, so a schedule makes sense */
  PN_OPT_KEEPS = 2, /* keeps loss and gradient between steps: wants fixed points, and resampled() */
  PN_OPT_DENSE = 4, /* memory grows as n^2 */
  PN_OPT_F64 = 8,   /* works in f64 only: a stage in another precision is refused */
  PN_OPT_COSTLY = 16 /* few long steps: the training loop looks at the errors every 5 of them */
};

/* Weights that a costly method takes at most: a step takes minutes there. */
enum { PN_OPT_COSTLY_MOST = 12000 };

typedef struct pn_opt_class {
  const char *name;
  const char *doc; /* one line */
  size_t state_size;
  const pn_option *options;
  unsigned flags;
  /* state: zeroed, options set. Checks the options and allocates. On failure, done is called. */
  tn_status (*init)(void *state, size_t n, const pn_opt_context *context);
  /* One iteration: theta[n] in and out. The report comes zeroed, losses NaN. n is f->n. */
  tn_status (*step)(void *state, const pn_opt_context *context, pn_objective *f, size_t n,
                    double *theta, pn_step_report *report);
  /* Shows every array and number that changes during training. After a restore it checks them. */
  tn_status (*visit)(void *state, size_t n, pn_state_visitor *visitor);
  /* The points, the weights or theta were changed from outside: forget what was computed from them,
   * keep what was learnt. NULL: the method remembers nothing of the kind. */
  tn_status (*resampled)(void *state);
  void (*done)(void *state); /* frees what init allocated; safe after a failed init */
} pn_opt_class;

/* ---- A living optimizer ---------------------------------------------------------------------- */

typedef struct pn_setting {
  const char *name;
  double value;
} pn_setting;

typedef struct pn_opt pn_opt;

/* All classes, in the order of documentation. */
const pn_opt_class *const *pn_opt_classes(size_t *count);
/* TN_EINPUT lists the names there are. */
tn_status pn_opt_find(const char *name, const pn_opt_class **out) TN_MUST_USE;
/* NULL if the class has no such option. */
const pn_option *pn_opt_option(const pn_opt_class *class_, const char *name);

/* A new optimizer of n parameters with some options set and the others at their defaults. context
 * is read during the call only. */
tn_status pn_opt_new(const pn_opt_class *class_, size_t n, const pn_setting *settings,
                     size_t n_settings, const pn_opt_context *context, pn_opt **out) TN_MUST_USE;
void pn_opt_free(pn_opt **opt);
const pn_opt_class *pn_opt_class_of(const pn_opt *opt);
/* One iteration; the report is overwritten. f->n must be n. After a status other than TN_OK, theta
 * is what it was before the call. */
tn_status pn_opt_step(pn_opt *opt, const pn_opt_context *context, pn_objective *f, double *theta,
                      pn_step_report *report) TN_MUST_USE;
tn_status pn_opt_visit(pn_opt *opt, pn_state_visitor *visitor) TN_MUST_USE;
tn_status pn_opt_resampled(pn_opt *opt) TN_MUST_USE;

/* For methods: sets report->reason (and stop), printf style. */
void pn_report_reason(pn_step_report *report, bool stop, const char *format, ...) TN_PRINTF(3, 4);

/* ---- Learning-rate schedules (schedule.c) ---------------------------------------------------- */

typedef enum pn_schedule_kind {
  PN_CONSTANT,
  PN_COSINE,
  PN_EXPONENTIAL,
  PN_SCHEDULES
} pn_schedule_kind;

typedef struct pn_schedule {
  pn_schedule_kind kind;
  double rate;      /* peak rate, > 0 */
  size_t warmup;    /* steps of linear rise from rate / warmup to rate; 0: none */
  size_t steps;     /* cosine: length of the stage with the warm-up; the rate is 0 at `steps` */
  double half_life; /* exponential: steps after the warm-up in which the rate halves, > 0 */
} pn_schedule;

/* "constant", "cosine", "exponential". */
tn_status pn_schedule_of_name(const char *name, pn_schedule_kind *out) TN_MUST_USE;
const char *pn_schedule_name(pn_schedule_kind kind);
tn_status pn_schedule_check(const pn_schedule *schedule) TN_MUST_USE;
/* The rate of step number `step`, counted from 0. A checked schedule is assumed. */
double pn_schedule_rate(const pn_schedule *schedule, size_t step);

#ifdef __cplusplus
}
#endif

#endif
