/* problem.h: the inside of the audit of a training step, shared by problem_*.c. */
#ifndef VALIDATE_PROBLEM_H
#define VALIDATE_PROBLEM_H

#include "validate/measures.h"

/* One channel of one layer's result, in the program of loss and gradient. */
typedef struct vd_layer_channel {
  char layer[64];   /* "net1.layer2.weight" */
  char label[64];   /* "t - c0*xx" */
  vd_figures error; /* of the layer's products, all roundings up to here */
  double share;     /* sum of |adjoint| u |value|, of this channel's roundings, over the loss */
  size_t worst;     /* the point that contributes most */
} vd_layer_channel;

/* What was found in one format. */
typedef struct vd_tested {
  double u;             /* roundoff of the gate */
  vd_figures *output;   /* arithmetic: the engine against the same stored data; n_outputs */
  double *represented;  /* stored data against the master's: relative norm 2; n_outputs */
  double *reference;    /* right values of all outputs on this format's data; owned */
  size_t *first;        /* of each output in reference; n_outputs + 1 */
  double *c;            /* the c of every entry, in the order of reference; owned */
  double *expected;     /* the errors that c is against, likewise; owned */
  double loss;          /* right, on this format's data */
  double noise, stored; /* the loss of arithmetic and of stored errors in place of residuals */
  double
      gradient_noise; /* |engine - master's gradient| / |master's gradient|, all blocks together */
  double cosine;      /* between the two */
  /* The same at many points by the engine alone, at the audited weights and where training starts; 0: not
   * measured. */
  double many_loss, many_noise, start_loss, start_noise;
  double unknowns; /* of the unknowns, arithmetic and stored errors together: relative norm 2 */
  size_t n_channels;
  vd_layer_channel *channel;
  size_t entries, bounded, misses; /* intermediate and output entries held against running bounds */
  double ratio;                    /* median of bound / error over them */
  double floor_loss, floor_error;  /* predicted; error NaN: nothing to say */
} vd_tested;

/* problem_run.c: runs the format, replays it with `bits`, and measures into *out, which may hold the
 * figures of the start. master: tested before, or NULL. */
tn_status vd_test_format(const vd_problem *p, size_t format, int bits, const vd_tested *master,
                         vd_tested *out) TN_MUST_USE;
void vd_tested_free(vd_tested *tested);

/* problem_layers.c */
tn_status vd_test_layers(const vd_problem *p, const vd_problem_format *format, double u,
                         const vd_replay *replay, const vd_running *running,
                         const vd_running *expected, vd_tested *out) TN_MUST_USE;

/* problem_gradient.c: loss and noise of the gradient of every format, by the engine, at the points that q is
 * bound to: loss[n_formats], noise[n_formats]. */
tn_status vd_gradient_noise(const vd_problem *q, double *loss, double *noise) TN_MUST_USE;

/* problem_floor.c */
void vd_predict_floor(const vd_problem *p, const vd_tested *master, vd_tested *tested);
tn_status vd_advise_problem(const vd_problem *p, const vd_tested *tested,
                            vd_report *report) TN_MUST_USE;

/* problem_report.c: tables and pictures. */
tn_status vd_report_problem(const vd_problem *p, const vd_tested *tested,
                            vd_report *report) TN_MUST_USE;

#endif
