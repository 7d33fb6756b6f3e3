/* pinn.h: the public interface of the solver. */
#ifndef PINN_PINN_H
#define PINN_PINN_H

#include <stdio.h>

#include "autograd/autograd.h"
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

TN_API const char *pn_version(void);      /* "0.1.0" */
TN_API const char *pn_blas_name(void);    /* with version and target; factorisations use it */
TN_API const char *pn_hdf5_version(void); /* of the library in use, "1.10.8" */

/* ---- Problem files -------------------------------------------------------------------------------- */

typedef struct pn_problem pn_problem;
/* See pinn/problem.h for the content. Errors carry file:line:column, the source line and a caret. */
TN_API tn_status pn_problem_load(const char *path, size_t n_overrides, const char *const *overrides,
                                 pn_problem **out) TN_MUST_USE;
TN_API void pn_problem_free(pn_problem **problem);
TN_API tn_status pn_keys_text(FILE *file, const char *table) TN_MUST_USE;
TN_API tn_status pn_keys_markdown(FILE *file) TN_MUST_USE;
TN_API tn_status pn_keys_schema(FILE *file) TN_MUST_USE;

/* ---- Check ---------------------------------------------------------------------------------------- */

typedef struct pn_check_options {
  const char *at;   /* "x=0.25,y=0.5": print every term there; NULL */
  const char *json; /* file for a JSON report; NULL */
} pn_check_options;
/* Everything that can be known without training, printed to `out` as pinn check shows it. errors counts
 * defects (exit 2), warnings counts lines "warning: ...". */
TN_API tn_status pn_check(pn_problem *problem, const pn_check_options *options, FILE *out,
                          size_t *errors, size_t *warnings) TN_MUST_USE;

/* ---- Solve ---------------------------------------------------------------------------------------- */

typedef struct pn_solve_options {
  const char *path;   /* of the problem file */
  const char *out;    /* folder; NULL: <problem>.out, next free name */
  size_t n_overrides;
  const char *const *overrides;
  size_t threads;     /* 0: all cores the process may use */
  bool seed_given;
  uint64_t seed;
  double seconds;     /* 0: no limit */
  bool resume;
  const char *device; /* "cpu"; NULL: the same */
  FILE *terminal;     /* progress and banner; NULL: none */
  bool live;          /* somebody watches: a line at least each 2 s of silence, not only the recorded ones */
  double save_seconds; /* between two writes of result.h5; 0: 30 */
  bool unchecked;      /* train although pinn check finds an error */
  const char *command; /* the command line, for the report; NULL */
} pn_solve_options;

typedef enum pn_outcome { /* exit status of pinn solve */
  PN_CONVERGED = 0,
  PN_NOT_CONVERGED = 1,
  PN_NONFINITE = 4,
  PN_INTERRUPTED = 130,
  PN_TERMINATED = 143
} pn_outcome;
TN_API tn_status pn_solve(const pn_solve_options *options, pn_outcome *outcome) TN_MUST_USE;
/* Asynchronous stop, callable from a signal handler: the run saves at the next step boundary. */
TN_API void pn_request_stop(int signal_number);

/* ---- Results -------------------------------------------------------------------------------------- */

typedef struct pn_eval_options {
  const char *result;   /* an out folder or its result.h5 */
  const char *points;   /* CSV file with coordinate columns; or NULL and */
  const char *grid;     /* "x=-1:1:201,t=0:1:101" */
  const char *out;      /* .csv or .h5; NULL: CSV to the terminal */
  size_t n_expressions; /* values of unknowns and derivatives, problem language */
  const char *const *expressions;
  FILE *terminal;
} pn_eval_options;
TN_API tn_status pn_eval(const pn_eval_options *options) TN_MUST_USE;

/* ---- Measuring ------------------------------------------------------------------------------------ */

TN_API double pn_clock(void);             /* seconds on a clock that only goes forward */
TN_API double pn_peak_mib(void);          /* the largest memory of the process so far */
TN_API const char *pn_cpu_name(void);     /* as the system calls it, or "unknown" */
TN_API size_t pn_cache_bytes(int level);  /* of a data cache, 1 to 3; 0: not known */
/* The best rate of OpenBLAS's product of two n x n matrices of f64 or f32 within about `seconds`. */
TN_API tn_status pn_peak_gemm(tn_dtype dtype, size_t n, size_t threads, double seconds,
                              double *flops) TN_MUST_USE;

/* The training step of a problem by itself: loss and gradient at its first weights, with the points of its
 * first stage. problem and pool are borrowed. */
typedef struct pn_step pn_step;
typedef struct pn_step_options {
  bool dtype_given; /* else the file's */
  tn_dtype dtype;
  uint64_t seed;
} pn_step_options;
TN_API tn_status pn_step_new(pn_problem *problem, tn_pool *pool, const pn_step_options *options,
                             pn_step **out) TN_MUST_USE;
TN_API void pn_step_free(pn_step **step);
/* gradient[n] at pn_step_theta, which is the caller's to change. */
TN_API tn_status pn_step_run(pn_step *step, double *loss, double *gradient) TN_MUST_USE;
TN_API double *pn_step_theta(pn_step *step, size_t *n);
TN_API size_t pn_step_points(const pn_step *step); /* of all equations and conditions */
TN_API tn_dtype pn_step_dtype(const pn_step *step);
TN_API double pn_step_flops(const pn_step *step);  /* in matrix products, a step */
TN_API size_t pn_step_bytes(const pn_step *step);  /* storage of its programs */
/* What derivatives were planned into. */
TN_API void pn_step_planned(const pn_step *step, ag_resolve_report *out);
/* The compiled loss and gradient, for tn_exec_profile; borrowed. */
TN_API void pn_step_program(pn_step *step, const tn_program **program, tn_exec **exec);
TN_API tn_exec *pn_step_loss_exec(pn_step *step); /* of the loss alone; borrowed */

/* A picture of rates under roofs: min(peak, bytes_a_second * intensity), as one <svg> element (tn_free). The
 * first roof is the one that counts. */
typedef struct pn_roof {
  const char *name;
  double bytes_a_second;
} pn_roof;
typedef struct pn_roof_point {
  const char *name;
  double intensity; /* operations a byte */
  double flops_a_second;
} pn_roof_point;
TN_API tn_status pn_roofline_svg(const char *title, double peak, size_t n_roofs,
                                 const pn_roof *roofs, size_t n_points,
                                 const pn_roof_point *points, char **svg) TN_MUST_USE;

/* ---- Audits of a problem (validate/ does the measuring) ------------------------------------------- */

/* The step program of a problem with its bindings, for audits in validate/: outputs are, by name, the
 * unknowns, every derivative of a network that the equations use ("net u_xx"), every residual, the loss (sum
 * over terms of the mean squared residual), and its gradient by each block of weights. */
typedef struct pn_audit_set {
  tn_program *program;
  size_t n_outputs;
  char (*names)[96];
  size_t n_leaves;
  tn_value *leaves;      /* blocks of weights first, then inputs and scalars */
  tn_buffer **buffers;   /* bound to them; NULL: a scalar, set to number */
  double *numbers;
  size_t loss;           /* index of the loss among the outputs */
  size_t first_gradient, n_gradients; /* output first_gradient + i belongs to leaves[i] */
} pn_audit_set;
typedef struct pn_audit_options {
  const char *weights;  /* result.h5 or NULL: fresh weights */
  tn_dtype dtype;
  size_t points;        /* of each set; 0: 64 */
  uint64_t seed;
} pn_audit_options;
TN_API tn_status pn_audit_new(pn_problem *problem, const pn_audit_options *options,
                              pn_audit_set **out) TN_MUST_USE;
TN_API void pn_audit_free(pn_audit_set **set);

#ifdef __cplusplus
}
#endif

#endif
