/* bench_model.h: a model of a training step on many ranks, from measured parts (bench_model.c has its formula). */
#ifndef PINN_CLI_BENCH_MODEL_H
#define PINN_CLI_BENCH_MODEL_H

#include "pinn/cli/bench.h"

enum { MODEL_LOOPS = 32 };

typedef struct model_loop { /* over one set of points */
  size_t points, lanes, trainable; /* trainable: scalars in the parameters, which bound the slots */
  double seconds;                  /* of a run on one rank */
  double sum_bytes;                /* of one partial sum of everything that it sums */
} model_loop;

typedef struct model {
  size_t n_loops;
  model_loop loop[MODEL_LOOPS];
  double fixed;     /* s: values without points and meeting slots; the same on every rank */
  size_t gathers;   /* a step */
  double latency;   /* s a hop of a gather; negative: not known */
  double bandwidth; /* bytes a second and rank */
} model;

/* Where the time of one rank's step goes: its parts come from a profile and are scaled so that they add up to `step`
 * seconds. An executor without a profile counts as one loop over all points. */
tn_status model_measure(const bench_step *step, double seconds, model *out) TN_MUST_USE;
/* Makes the parts add up to `seconds`, as of another machine. */
void model_scale(model *m, double seconds);
/* A gather of `bytes` of all ranks together took `seconds`: latency and bandwidth that fit n of them best. */
void model_fit(size_t ranks, size_t n, const double *bytes, const double *seconds, model *m);
/* Seconds of a step; *talk: those of them in gathers. weak: points times ranks. */
double model_step(const model *m, size_t ranks, bool weak, double *talk);

#endif
