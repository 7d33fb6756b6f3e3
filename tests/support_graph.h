/* support_graph.h: short words for tests that build graphs and read numbers. */
#ifndef TESTS_SUPPORT_GRAPH_H
#define TESTS_SUPPORT_GRAPH_H

#include "autograd/autograd.h"

typedef struct bench { /* a graph with one point axis */
  tn_graph *graph;
  tn_axis axis;
  tn_dtype dtype;
} bench;

void bench_open(bench *b, tn_dtype dtype);
void bench_close(bench *b);
/* Leaves with their numbers bound: x [n] on the axis, w of fixed extents. */
tn_value points(bench *b, const char *name, size_t n, const double *x);
tn_value weights(bench *b, const char *name, size_t rank, const size_t *extent, const double *x);
tn_value k(bench *b, double x); /* constant */
/* Evaluates one value of n elements; a failure of the engine fails the test with its text. */
void numbers(tn_value v, size_t n, double *out);
double number(tn_value v);
/* dy/dx (of the sum of y). */
tn_value gradient(tn_value y, tn_value x);
/* Fails unless |got - want| <= tolerance * (|want| or 1 if want is 0). */
void near_to(double got, double want, double tolerance);
void all_near(tn_value v, size_t n, const double *want, double tolerance);
/* The jet of x along itself to some order (univariate table, derivatives not divided by k!). */
const tn_jet_table *univariate(tn_graph *graph, int order);
void seed(bench *b, tn_value x, int order, tn_jet *out);

#endif
