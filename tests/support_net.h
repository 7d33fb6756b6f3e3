/* support_net.h: small networks as fields, with a loss, for tests of passes and of precision.
 *
 * A net is u(x, y, ...) = W_L f(... f(W_0 (x, y, ...) + b_0) ...) + b_L with layers W0, b0, W1, ... Numbers of its
 * leaves are those of f32, drawn by name, so nets of two dtypes have the same ones. Any error fails the test.
 */
#ifndef TESTS_SUPPORT_NET_H
#define TESTS_SUPPORT_NET_H

#include "tests/support_exec.h"

enum { NET_INPUTS = 3, NET_LAYERS = 6 };

typedef struct net {
  tn_graph *graph;
  tn_axis axis;
  tn_dtype dtype;
  size_t n_in, n_out, width, n_layers;
  ag_field *field; /* arguments "x", "y", "z" */
  tn_value x[NET_INPUTS], w[NET_LAYERS], b[NET_LAYERS]; /* b: absent without biases */
  int power[NET_INPUTS];    /* coordinate j is bound to 2^power times its numbers, row j of W0 to 2^-power */
  double sign, gain;        /* of the coordinates; of the weights: 1, unless a test says otherwise */
  tn_value scale;           /* a run-time scalar that net_bind sets to `number`; absent: none */
  double number;
} net;

typedef struct net_shape {
  tn_dtype dtype;
  size_t n_in, n_out, width, n_layers; /* n_layers matrices, n_layers - 1 activations */
  tn_op_id activation;
  bool biased;
  bool ansatz; /* outputs are x N / (1 + x^2) + max(N, x): products, a quotient and a selection inside the field */
} net_shape;

void net_open(net *n, net_shape shape);
void net_close(net *n);
/* Output q differentiated by the coordinates of a word, "xxy". */
tn_value net_d(net *n, size_t q, const char *by);
tn_value net_k(const net *n, double x);
/* u_y + u u_x - nu u_xx, which folds u_y with u_xx; nu a run-time scalar. */
tn_value net_burgers(net *n);
/* Mean of the squares, in f64, as losses are. */
tn_value net_loss(tn_value residual);
/* All parameters in order W0, b0, W1, ...: how many. */
size_t net_parameters(const net *n, tn_value *out);
tn_status net_resolve(net *n, size_t count, tn_value *values, int (*scale)(void *, const char *, const char *),
                      void *context) TN_MUST_USE;

/* ---- Running ---- */

typedef tn_status (*net_executor)(const tn_program *program, tn_pool *pool, tn_exec **out);
/* Binds all leaves to their numbers, coordinates on so many points. */
void net_bind(const net *n, tn_exec *exec, size_t points);

/* Values on an executor with its leaves bound. */
typedef struct net_job {
  tn_program *program;
  tn_exec *exec;
  size_t n_values, count; /* numbers of all values together */
  size_t *own;            /* numbers of each */
} net_job;
void net_start(net_job *job, const net *n, size_t n_values, const tn_value *values, net_executor make,
               tn_pool *pool, size_t points);
double *net_result(net_job *job); /* runs; the values one after the other; free() */
void net_stop(net_job *job);
/* All three in one. *count: how many numbers. */
double *net_run(const net *n, size_t n_values, const tn_value *values, net_executor make, tn_pool *pool,
                size_t points, size_t *count);
/* How many of the numbers differ in any bit. */
size_t net_differing(const double *a, const double *b, size_t count);

#endif
