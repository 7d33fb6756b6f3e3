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

/* Number formats: f64, f32, tf32, bf16, f16, or float64, float32, bfloat16, float16. TN_EINPUT lists them. */
TN_API tn_status pn_precision_dtype(const char *name, tn_dtype *out) TN_MUST_USE;
TN_API const char *pn_precision_name(tn_dtype dtype); /* "float64", "bfloat16", "tf32" */

/* ---- Problem files -------------------------------------------------------------------------------- */

typedef struct pn_problem pn_problem;
/* See pinn/problem.h for the content. Errors carry file:line:column, the source line and a caret. */
TN_API tn_status pn_problem_load(const char *path, size_t n_overrides, const char *const *overrides,
                                 pn_problem **out) TN_MUST_USE;
TN_API void pn_problem_free(pn_problem **problem);
TN_API tn_status pn_keys_text(FILE *file, const char *table) TN_MUST_USE;
TN_API tn_status pn_keys_markdown(FILE *file) TN_MUST_USE;
TN_API tn_status pn_keys_schema(FILE *file) TN_MUST_USE;
/* What n problem files solve and teach: lines for a terminal, or the page docs/problems.md, whose links start at the
 * folder that the paths start at. */
TN_API tn_status pn_library_list(FILE *file, size_t n, const char *const *paths, bool markdown) TN_MUST_USE;

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
  tn_device *device;  /* borrowed; NULL: the CPU */
  /* The processes that train together, all with the same options; borrowed. NULL: this one alone. The first one
   * prints and writes. A failure that every rank returns with, such as a bad file, sets *all_failed (NULL: not
   * asked); after any other one the caller must end the other ranks (tn_comm_abort), or they wait for it. */
  tn_comm *comm;
  bool *all_failed;
  bool split_layers; /* ranks share the layers of networks, not the points (tn_exec_pipeline): for large models */
  FILE *terminal;     /* progress and banner; NULL: none */
  bool live;          /* somebody watches: a line at least each 2 s of silence, not only the recorded ones */
  double save_seconds; /* between two writes of result.h5; 0: 30 */
  bool unchecked;      /* train although pinn check finds an error */
  const char *command; /* the command line, for the report; NULL */
  /* The relative L2 error that rounding leaves, for a saved result whose last low stage has this format; NaN: not
   * known. NULL: not asked. Called once, at the end of a run with a low format. */
  double (*floor)(void *context, const char *result, tn_dtype low, bool pure, unsigned products);
  void *floor_context;
  /* Called at the end of a run with each of its figures, by name: loss, steps, seconds, error.u of every unknown with
   * an exact solution. NULL: not asked. */
  void (*figure)(void *context, const char *name, double value);
  void *figure_context;
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

/* Several runs that differ in keys and seeds, one after the other: the product of all values and seeds. sweeps[i] is
 * "path=v1,v2,..." (values as in overrides); seeds 0: only the one that `solve` has. Makes DIR/NAME=VALUE/.../seed=K/ and,
 * after each run, DIR/sweep.csv; DIR is solve->out, or FILE.sweep or the next free name. *outcome: converged if every
 * run was, else not; a signal ends all. TN_EINPUT for a text of another form, a used folder, --resume. */
TN_API tn_status pn_sweep(const pn_solve_options *solve, size_t n_sweeps, const char *const *sweeps,
                          size_t seeds, pn_outcome *outcome) TN_MUST_USE;

/* Problem files to start from, for `pinn new`. */
typedef struct pn_starter {
  const char *name, *meaning, *text;
} pn_starter;
TN_API const pn_starter *pn_starters(size_t *n);
/* TN_EINPUT if there is a file already. */
TN_API tn_status pn_starter_write(const pn_starter *starter, const char *path) TN_MUST_USE;

/* ---- Results -------------------------------------------------------------------------------------- */

typedef struct pn_eval_options {
  const char *result;   /* an out folder or its result.h5 */
  const char *points;   /* CSV file with coordinate columns; or NULL and */
  const char *grid;     /* "x=-1:1:201,t=0:1:101" */
  const char *out;      /* .csv, .h5, .vtk, .svg, .c; NULL: CSV to the terminal */
  const char *compare;  /* CSV file of reference values: errors are printed; NULL */
  size_t n_expressions; /* values of unknowns and derivatives, problem language */
  const char *const *expressions;
  FILE *terminal;
} pn_eval_options;
TN_API tn_status pn_eval(const pn_eval_options *options) TN_MUST_USE;

/* Weights of another program (.safetensors, .npz) as a result that eval, check and solve read. */
typedef struct pn_import_options {
  const char *path;    /* of the problem file */
  const char *weights;
  const char *out;     /* folder; NULL: <problem>.out, next free name */
  const char *parity;  /* CSV of values of the other program; NULL: none */
  size_t threads;      /* 0: all */
  size_t n_overrides;
  const char *const *overrides;
  FILE *terminal;
} pn_import_options;
/* worst: the largest difference from the values of `parity`, in ulp-scales (pinn/parity.c). */
TN_API tn_status pn_import(const pn_import_options *options, double *worst) TN_MUST_USE;

/* pn_eval into a file with what is left out filled in: every unknown, a grid over the whole domain, the result's
 * name with the ending. to: "csv", "h5", "vtk" (ParaView), "svg" (a picture), "c" (a C99 function of the point). */
typedef struct pn_export_options {
  const char *result, *to;
  const char *points, *grid, *out; /* as in pn_eval_options; NULL: filled in */
  size_t n_expressions;
  const char *const *expressions;
  FILE *terminal; /* for the name of the file; NULL: none */
} pn_export_options;
TN_API tn_status pn_export(const pn_export_options *options) TN_MUST_USE;

/* ---- Reference solutions -------------------------------------------------------------------------- */

/* The unknowns of a problem on a grid by classical methods, with an estimate of the error, as a file that [tables]
 * can read. TN_EUNSUPPORTED says what of the problem they cannot do. */
typedef struct pn_reference_options {
  const char *path; /* of the problem file */
  size_t n_overrides;
  const char *const *overrides;
  const char *grid;  /* "x=-1:1:201,t=0:1:101"; NULL: the whole domain */
  const char *out;   /* .csv or .h5; NULL: <problem>.ref.csv */
  double tolerance;  /* asked of the estimate relative to each unknown's largest value; 0: 1e-8 */
  size_t points;     /* at most so many functions along a coordinate; 0: as memory and time allow */
  double seconds;    /* about so long at most; 0: 300 */
  FILE *terminal;    /* NULL: nothing is printed */
} pn_reference_options;
/* *reached: the estimate is below the tolerance. */
TN_API tn_status pn_reference(const pn_reference_options *options, bool *reached) TN_MUST_USE;

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
  tn_dtype dtype;   /* f64, f32; tf32, bf16, f16: of matrix products, all else f32 */
  unsigned products; /* of low formats: 3 for one, as for line searches; 0, 1: one */
  uint64_t seed;
} pn_step_options;
TN_API tn_status pn_step_new(pn_problem *problem, tn_pool *pool, const pn_step_options *options,
                             pn_step **out) TN_MUST_USE;
TN_API void pn_step_free(pn_step **step);
/* gradient[n] at pn_step_theta, which is the caller's to change. */
TN_API tn_status pn_step_run(pn_step *step, double *loss, double *gradient) TN_MUST_USE;
TN_API double *pn_step_theta(pn_step *step, size_t *n);
TN_API size_t pn_step_points(const pn_step *step); /* of all equations and conditions */
TN_API tn_dtype pn_step_dtype(const pn_step *step);     /* of its numbers */
TN_API tn_dtype pn_step_precision(const pn_step *step); /* of what its matrix products multiply */
TN_API double pn_step_low_share(const pn_step *step);   /* of its FLOPs in matrix products, on a low format */
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
typedef enum pn_audit_kind {
  PN_AUDIT_UNKNOWN,
  PN_AUDIT_DERIVATIVE, /* of a network by itself */
  PN_AUDIT_RESIDUAL,
  PN_AUDIT_LOSS,
  PN_AUDIT_GRADIENT
} pn_audit_kind;
typedef struct pn_audit_set {
  tn_program *program;
  size_t n_outputs;
  char (*names)[96];
  pn_audit_kind *kinds;  /* one an output */
  int *orders;           /* of derivatives of an unknown or a network; -1: has none */
  double *weights;       /* of residuals: what one unit of the mean square adds to the loss; else 0 */
  size_t n_leaves;
  tn_value *leaves;      /* blocks of weights first, then inputs and scalars */
  tn_buffer **buffers;   /* bound to them; NULL: a scalar, set to number */
  double *numbers;
  size_t loss;           /* index of the loss among the outputs */
  size_t first_gradient, n_gradients; /* output first_gradient + i belongs to leaves[i] */
  ag_resolve_report channels; /* of the residuals, as they are trained */
  double error; /* relative L2 error of the worst unknown in [exact]; NaN if not measured or none is there */
} pn_audit_set;
typedef struct pn_audit_options {
  const char *weights;  /* result.h5 or NULL: fresh weights */
  tn_dtype dtype;       /* f64 or f32; of the model */
  tn_dtype low;         /* tf32, bf16, f16: the program with ag_cast to it, dtype f32; f64 (0): none */
  bool pure;            /* with low: every number */
  unsigned products;    /* with low: 3: three products for one (ag_split); else one */
  bool measure;         /* fill `error` */
  size_t points;        /* of each set; 0: 64 */
  uint64_t seed;
} pn_audit_options;
/* With a low format, leaves that are read through casts to it alone hold numbers of it: the same data then
 * enter the program and its replay, and what the rounding of weights does can be told apart. */
TN_API tn_status pn_audit_new(pn_problem *problem, const pn_audit_options *options,
                              pn_audit_set **out) TN_MUST_USE;
TN_API void pn_audit_free(pn_audit_set **set);

/* ---- Low formats (validate/ does the measuring) --------------------------------------------------- */

/* A training step in f64, in f32 and with a low format, on the same weights and points: both are rounded to
 * f32 for all three. Points are drawn as for the first stage; weights of terms and scales are those of the
 * file, or of the result that the weights come from. */
typedef struct pn_underflow pn_underflow;
typedef struct pn_underflow_options {
  const char *weights; /* out folder or result.h5; NULL: fresh weights */
  tn_dtype low;        /* tf32, bf16, f16 */
  bool pure;           /* every number, not only what wide enough matrix products multiply */
  size_t points;       /* of each equation, conditions in proportion; 0: the file's, at least 10 000 */
  size_t values;       /* most numbers of all operands in a block of points; 0: 2^24 */
  uint64_t seed;
} pn_underflow_options;
TN_API tn_status pn_underflow_new(pn_problem *problem, tn_pool *pool,
                                  const pn_underflow_options *options, pn_underflow **out)
    TN_MUST_USE;
TN_API void pn_underflow_free(pn_underflow **set);

typedef struct pn_operand { /* one channel of an input of products that are computed in the low format */
  char layer[64];           /* "net1.layer2" */
  char label[96];           /* the channel's operator, "t - c0*xx" */
  char at[96];              /* its points, "interior" */
  bool adjoint;             /* else an activation */
  size_t width;             /* numbers a point */
} pn_operand;
TN_API size_t pn_underflow_operands(const pn_underflow *set);
TN_API const pn_operand *pn_underflow_operand(const pn_underflow *set, size_t i);

typedef enum pn_underflow_program { PN_IN_F64, PN_IN_F32, PN_IN_LOW } pn_underflow_program;
/* Values of the operands are computed in blocks of points, so that memory does not grow with their number; the
 * loss divides by all of them in every block. The last run's values stay until the next run of that program
 * (f64 or low). 2^scale: the loss scale of a low run; values are as the program has them, scaled. n = 0: this
 * block has no points of the operand. */
TN_API size_t pn_underflow_blocks(const pn_underflow *set);
TN_API tn_status pn_underflow_run(pn_underflow *set, pn_underflow_program program, size_t block,
                                  int scale) TN_MUST_USE;
TN_API tn_status pn_underflow_read(pn_underflow *set, pn_underflow_program program, size_t operand,
                                   size_t *n, const double **values) TN_MUST_USE;
/* The gradient over all points, unscaled: gradient[n_theta]. scale: of the low program. */
TN_API tn_status pn_underflow_gradient(pn_underflow *set, pn_underflow_program program, int scale,
                                       double *loss, double *gradient) TN_MUST_USE;

/* Blocks of weights. low: what a mixed policy rounds (the weight of a product in the low format). */
typedef struct pn_underflow_block {
  const char *name; /* "net1.layer2.weight" */
  size_t offset, count;
  bool low;
} pn_underflow_block;
TN_API size_t pn_underflow_weights(const pn_underflow *set, const pn_underflow_block **blocks,
                                   const double **theta);
typedef struct pn_underflow_facts {
  size_t n_theta, points, interior; /* points: of all equations and conditions together */
  size_t file_interior;             /* what the file trains with */
  double rate;                      /* of the first stage with one; 1e-3 if there is none */
  const char *optimizer;            /* of that stage */
  char channels[600];               /* of every group: "u, x, t - c0*xx; ..." */
} pn_underflow_facts;
TN_API void pn_underflow_facts_of(const pn_underflow *set, pn_underflow_facts *out);

/* Training with the low format from these weights: adam at the first stage's rate on these points, the loss scale
 * moved by the scaler of the file, channels carried by powers of two as a stage chooses them at its start. Only
 * mixed f16 has a scaler: TN_EUNSUPPORTED for others. Ends early where a training would. *records: tn_free. */
typedef struct pn_scaler_record {
  size_t step;    /* from 1 */
  double scale;   /* of this step */
  double loss;    /* before it; not finite if it overflowed */
  size_t tracker; /* steps without overflow behind it since the scale changed */
  bool skipped;
} pn_scaler_record;
TN_API bool pn_underflow_scales(const pn_underflow *set); /* is there a scaler? */
TN_API tn_status pn_underflow_train(pn_underflow *set, size_t steps, size_t *n,
                                    pn_scaler_record **records, char *carried, size_t room)
    TN_MUST_USE; /* carried: "`x` as 2^-3 times its value", what the stage chose; "" for none */

#ifdef __cplusplus
}
#endif

#endif
