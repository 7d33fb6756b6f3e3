/* bench.h: what the files of `pinn bench` and `pinn profile` share. */
#ifndef PINN_CLI_BENCH_H
#define PINN_CLI_BENCH_H

#include "autograd/autograd.h"
#include "pinn/pinn.h"
#include "tensor/tensor.h"

typedef struct bench_options {
  const char *what; /* case or file; NULL for `peak` */
  bool dtype_given;
  tn_dtype dtype;   /* low formats: of matrix products */
  size_t products;  /* of low formats: 1, or 3 for one; 0: 1 */
  size_t points;    /* 0: as the case or the file says */
  size_t threads;   /* 0: all */
  double seconds;   /* of timing */
  const char *data; /* weights and points of a case; NULL: own random numbers */
  size_t check;     /* descent steps before loss_after; 0: none */
  const char *json; /* file; NULL */
  const char *device; /* step: "cuda"; NULL: the CPU */
  /* scaling */
  const char *ranks;    /* "1,2,4": numbers of ranks to start; NULL: those that run already */
  const char *split;    /* what ranks share: "points" (NULL, too) or "layers" */
  double latency;       /* us a hop, of an interconnect for the model; 0: the measured one */
  double bandwidth;     /* GB/s a rank; 0: measured */
  double gpu_step;      /* s of the step on one device of the model; 0: this machine's */
} bench_options;

/* cmd_bench.c: sets the dtype if there is a text; false: it is no number format, and that was said. */
bool bench_dtype(const char *command, const char *text, bench_options *options);

/* ---- Text and JSON (bench_text.c) ---- */

typedef struct bench_text {
  size_t n, capacity;
  char *text;  /* owned; NULL while empty */
  bool failed; /* no memory: the text is not whole */
} bench_text;
void bench_put(bench_text *out, const char *format, ...) TN_PRINTF(2, 3);
/* Members of a JSON object: the first opens it. Numbers that are not finite are null. */
void bench_json_number(bench_text *out, const char *key, double value);
void bench_json_text(bench_text *out, const char *key, const char *value);
void bench_json_end(bench_text *out);
/* Prints the words, writes the JSON to a file if there is one, frees both; returns an exit status. */
int bench_deliver(bench_text *words, bench_text *json, const char *path);
const char *bench_compiler(void); /* "gcc 12.2.0" */

/* ---- Peak (bench_peak.c) ---- */

int bench_peak(const bench_options *options); /* exit status */

/* ---- Scaling ---- */

int bench_scaling(const bench_options *options); /* bench_scaling.c; exit status */
/* bench_launch.c: runs the same for each number of ranks in options->ranks, by mpirun, and makes one table. */
int bench_launch(const bench_options *options);

/* ---- Cases (bench_cases.c) ---- */

enum { BENCH_INPUTS = 16, BENCH_LAYERS = 16, BENCH_RESIDUALS = 4 };

typedef struct bench_case bench_case;
typedef struct bench_builder { /* a network with its derivatives while a residual is written */
  tn_graph *graph;
  tn_dtype dtype;
  ag_field *field;
  const tn_value *at; /* the coordinates */
} bench_builder;
struct bench_case {
  const char *name;
  size_t inputs, width, hidden, outputs, points;
  size_t (*residual)(const bench_builder *b, tn_value *out); /* how many */
};
const bench_case *bench_case_find(const char *name); /* NULL */
size_t bench_case_names(const char **names, size_t capacity);

/* ---- Steps ---- */

/* One training step, of a case or of a problem file: loss and the gradient by all weights. */
typedef struct bench_step {
  void *self;
  tn_status (*run)(void *self, double *loss);
  tn_status (*descend)(void *self, double rate); /* theta -= rate * gradient of the last run */
  tn_status (*norm)(void *self, double *gradient_norm); /* of the last run */
  void (*done)(void *self);
  const char *name;
  char shape[96];           /* "2-20x8-1" */
  ag_resolve_report report; /* what derivatives were planned into */
  const tn_program *program;
  tn_exec *exec;
  tn_exec *loss_exec; /* of the loss alone; NULL for cases */
  size_t points, parameters;
  tn_dtype dtype;     /* of numbers: f64 or f32 */
  tn_dtype precision; /* of what matrix products multiply */
  double flops;       /* in matrix products, a step */
  double low_share;   /* of them on a low format */
} bench_step;
/* bench_cases.c, bench_file.c; pool borrowed. */
tn_status bench_case_start(const bench_case *which, const bench_options *options, tn_pool *pool,
                           bench_step *out) TN_MUST_USE;
tn_status bench_file_start(const char *path, const bench_options *options, tn_pool *pool,
                           bench_step *out) TN_MUST_USE;
/* bench_step.c */
tn_status bench_start(const bench_options *options, tn_pool *pool, bench_step *out) TN_MUST_USE;
int bench_run_step(const bench_options *options); /* exit status */
/* The channels of the group with the most of them. */
const ag_group_report *bench_channels(const bench_step *step);
void bench_put_head(bench_text *out, const bench_step *step, size_t threads);

#endif
