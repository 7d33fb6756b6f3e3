/* support_random_inside.h: what the files of the graph generator share. Not for tests. */
#ifndef TESTS_SUPPORT_RANDOM_INSIDE_H
#define TESTS_SUPPORT_RANDOM_INSIDE_H

#include "tests/support_random_graph.h"

enum { RANDOM_ITEMS = 1200, RANDOM_BATCH_WIDTH = 130, RANDOM_FIXED_WIDTH = 4300 };

/* A value that later steps may use. */
typedef struct random_item {
  tn_value v;
  tn_shape shape;
  tn_dtype dtype;  /* TN_BOOL: a mask */
  tn_dtype origin; /* of a mask: the dtype of the values that it may select */
  double size;     /* a rough bound of its absolute values */
} random_item;

typedef struct random_maker {
  random_graph *g;
  tn_stream stream;
  uint64_t next; /* numbers drawn */
  bool wild, mixed; /* mixed: f64 beside the others */
  size_t low;       /* percent of choices of a dtype that are of a low format */
  tn_dtype main_dtype;
  size_t deck, names; /* which operation is next; leaves named so far */
  size_t n;
  random_item item[RANDOM_ITEMS];
  size_t n_weights; /* leaves that gradients may be asked for */
  tn_value weight[RANDOM_LEAVES];
} random_maker;

/* ---- Choices ---- */

size_t random_below(random_maker *m, size_t n);
bool random_chance(random_maker *m, size_t percent);
tn_dtype random_dtype(random_maker *m);
size_t random_width(random_maker *m, size_t wide); /* wide: percent of 17 to 65 */
tn_axis random_axis(random_maker *m);
/* The next row of a kind, in turn, so that each occurs as often as the others. */
tn_op_id random_unary_row(random_maker *m);
tn_op_id random_binary_row(random_maker *m);
tn_op_id random_comparison_row(random_maker *m);

/* ---- Items ---- */

typedef enum random_place { ANYWHERE, ON_POINTS, FIXED } random_place;
typedef struct random_want {
  random_place place;
  tn_dtype dtype;        /* TN_DTYPES: any float */
  tn_axis axis;          /* 0: any */
  const tn_shape *shape; /* NULL: any */
  uint32_t rank;         /* least number of fixed axes */
} random_want;
/* An item that fits, each as likely as the others; NULL if there is none. Valid until the next one is kept. */
const random_item *random_pick(random_maker *m, random_want want);
/* Fails the test if v is an error. */
void random_keep(random_maker *m, tn_value v, double size);
void random_keep_mask(random_maker *m, tn_value v, tn_dtype origin);
/* v, or something of it that is not huge; size is updated. */
tn_value random_tame(random_maker *m, tn_value v, double *size);
tn_value random_number(random_maker *m, tn_dtype dtype, double x); /* constant */
/* A new leaf: a parameter, or an input if the shape has points or by chance. */
tn_value random_leaf(random_maker *m, tn_dtype dtype, tn_shape shape);
tn_value random_input(random_maker *m, tn_dtype dtype,
                      tn_shape shape); /* no gradient is asked for it */
tn_value random_scalar(random_maker *m, tn_dtype dtype);
/* A value of this shape, dtype and modest size: an item, or a new one. */
tn_value random_value(random_maker *m, tn_dtype dtype, tn_shape shape);
/* f(x) with x led into the domain of f; exponent 0 but for powers. */
tn_value random_function(random_maker *m, tn_op_id op, double exponent, tn_value x, double *size);
tn_value random_argument(random_maker *m, tn_op_id op, double exponent, tn_value x, double size);
double random_exponent(random_maker *m, tn_op_id op);

/* ---- Steps: each adds items ---- */

void random_step_unary(random_maker *m);
void random_step_binary(random_maker *m);
void random_step_mask(random_maker *m);
void random_step_structure(random_maker *m);
void random_step_rows(random_maker *m); /* softmax, layer_norm, rstd */
void random_step_linear(random_maker *m);
void random_step_jets(random_maker *m);
/* A network on one or several axes with its loss; kept, and added to the outputs with gradients. */
void random_step_network(random_maker *m);

void random_add_output(random_maker *m, tn_value v);
/* Gradients of the scalar y by some leaves and, if `twice`, of the squares of these; they become outputs. */
void random_add_gradients(random_maker *m, tn_value y, size_t n, const tn_value *x, bool twice);

#endif
