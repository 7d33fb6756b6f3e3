/* pinn.h: the public interface of the solver. */
#ifndef PINN_PINN_H
#define PINN_PINN_H

#include <stdio.h>

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
