/* support_random_graph.h: random well-formed graphs over the whole operation table, and numbers for their leaves.
 *
 * A seed gives one graph: leaves of every kind, elementwise and structural operations, jets of several algebras,
 * networks on up to four sets of points that share their weights, sums over points that feed batched values which are
 * summed again, gradients and gradients of gradients. Two seeds of five also have values of tf32, bf16 and f16, and
 * casts among all float dtypes. Seeds with random_is_wild also leave the domains of functions and
 * get leaves with infinities, NaN, subnormals and signed zeros.
 */
#ifndef TESTS_SUPPORT_RANDOM_GRAPH_H
#define TESTS_SUPPORT_RANDOM_GRAPH_H

#include "autograd/autograd.h"

enum {
  RANDOM_AXES = 4,
  RANDOM_LEAVES = 200,
  RANDOM_SCALARS = 64,
  RANDOM_OUTPUTS = 48,
  RANDOM_NODES = 900 /* most nodes of a program */
};

typedef struct random_graph {
  uint64_t seed;
  tn_graph *graph;
  size_t n_axes;
  tn_axis axis[RANDOM_AXES];
  size_t n_leaves; /* parameters and inputs: all want a buffer */
  tn_value leaf[RANDOM_LEAVES];
  size_t n_scalars; /* run-time scalars */
  tn_value scalar[RANDOM_SCALARS];
  size_t n_outputs;
  tn_value output[RANDOM_OUTPUTS];
  size_t refused; /* gradients that autograd does not offer */
} random_graph;

bool random_is_wild(uint64_t seed);
/* Has the graph nodes of low formats? Casts among them and f32 are then frequent. */
bool random_is_low(uint64_t seed);
/* A defect of the generator or an unexpected refusal of the engine fails the test. */
void random_graph_open(random_graph *g, uint64_t seed);
void random_graph_close(random_graph *g);

/* Buffers of all leaves, values of all scalars. */
typedef struct random_data {
  size_t points[RANDOM_AXES];
  tn_buffer *buffer[RANDOM_LEAVES];
  double number[RANDOM_SCALARS];
} random_data;

/* Numbers of points for a round, of counts around the widths of panels, groups and slots; `work` bounds the elements
 * that a run of the program computes. */
void random_points(const random_graph *g, const tn_program *program, uint64_t round, double work,
                   size_t *points);
/* New buffers. In half of the graphs parameters are views into one buffer, at any offset. */
void random_data_draw(random_data *d, const random_graph *g, uint64_t round, const size_t *points);
/* Other numbers in the same buffers; scalars as they were. */
void random_data_change(random_data *d, const random_graph *g, uint64_t round);
/* Binds the leaves and sets the scalars whose number is k modulo `of`; of = 1: all. */
void random_data_bind(const random_data *d, const random_graph *g, tn_exec *exec, size_t k,
                      size_t of);
void random_data_drop(random_data *d);

#endif
