/* support_replay.h: a small rig for tests of the MPFR executor: one graph, leaves bound to numbers,
 * the program run both by the engine and in MPFR. Functions fail the test on any error.
 */
#ifndef TESTS_SUPPORT_REPLAY_H
#define TESTS_SUPPORT_REPLAY_H

#include "validate/mp.h"

enum { BITS = 256, POINTS = 11, MOST_LEAVES = 8 };

typedef struct rig {
  tn_graph *graph;
  tn_axis axis; /* of POINTS points */
  tn_program *program;
  tn_exec *exec;
  vd_replay *replay;
  vd_binding binding[MOST_LEAVES]; /* owns the buffers */
  size_t n_bindings;
} rig;

void rig_open(rig *g);
void rig_close(rig *g);
/* A leaf bound to numbers of a random stream in (-1, 1), or to 1, 2, 3, ... if whole. */
tn_value rig_leaf(rig *g, const char *name, tn_dtype dtype, tn_shape shape, bool whole);
/* Compiles the outputs and runs them on the executor and in MPFR. */
void rig_run(rig *g, size_t n, const tn_value *outputs);
/* Element i of an output in MPFR. */
mpfr_srcptr rig_at(const rig *g, size_t output, size_t i);
/* The largest c of an output, the engine's values against MPFR's. */
double rig_c(const rig *g, size_t output);

#endif
