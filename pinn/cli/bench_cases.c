/* bench_cases.c: the seven training steps that this and other programs are timed on.
 *
 * A case is a multi-layer perceptron with tanh and a differential equation: residuals r at N points, and
 *
 *   loss = sum over residuals of mean(r^2),   timed with its gradient by every weight and bias.
 *
 * There are no conditions, scales or sampling, so the work is the same in every program that does it. A data
 * file makes the numbers the same too: raw little-endian f64, W0 (row-major [in, out]), b0, W1, b1, ..., then
 * the points [N, inputs]. Points are read anew at each step: nothing of them is kept between steps.
 *
 * The work in matrix products is counted as 6 C (M_h + M_out) + 6 M_in a point for C planned channels and
 * weight matrices of M_in, M_h, M_out entries: two each for the product forwards, back and for the weights.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/cli/bench.h"

/* ---- Residuals ---------------------------------------------------------------------------------- */

/* The order-th derivative of output k along an axis; order 0: the output. */
static tn_value d(const bench_builder *b, size_t k, size_t axis, int order) {
  uint8_t power[TN_MAX_SLOTS] = {0};
  power[axis] = (uint8_t)order;
  return ag_call(b->field, k, b->at, power);
}

static tn_value times(const bench_builder *b, double x, tn_value v) {
  return tn_mul(tn_const(b->graph, b->dtype, x), v);
}

static tn_value plus(size_t n, const tn_value *terms) {
  tn_value sum = terms[0];
  for (size_t i = 1; i < n; ++i)
    sum = tn_add(sum, terms[i]);
  return sum;
}

#define SUM(...)                                                                                   \
  plus(sizeof((tn_value[]){__VA_ARGS__}) / sizeof(tn_value), (tn_value[]){__VA_ARGS__})

/* u_t + u u_x */
static tn_value transport(const bench_builder *b) {
  return tn_add(d(b, 0, 1, 1), tn_mul(d(b, 0, 0, 0), d(b, 0, 0, 1)));
}

static size_t burgers(const bench_builder *b, tn_value *out) {
  out[0] = SUM(transport(b), times(b, -0.0031830988618379, d(b, 0, 0, 2)));
  return 1;
}

static size_t kdv(const bench_builder *b, tn_value *out) {
  out[0] = SUM(transport(b), times(b, 0.0025, d(b, 0, 0, 3)));
  return 1;
}

static size_t ks(const bench_builder *b, tn_value *out) {
  out[0] = SUM(transport(b), d(b, 0, 0, 2), d(b, 0, 0, 4));
  return 1;
}

/* Momentum of velocity component k; pressure is output 2, time axis 2. */
static tn_value momentum(const bench_builder *b, size_t k) {
  tn_value u = d(b, 0, 0, 0), v = d(b, 1, 0, 0);
  return SUM(d(b, k, 2, 1), tn_mul(u, d(b, k, 0, 1)), tn_mul(v, d(b, k, 1, 1)), d(b, 2, k, 1),
             times(b, -0.01, tn_add(d(b, k, 0, 2), d(b, k, 1, 2))));
}

static size_t ns2d(const bench_builder *b, tn_value *out) {
  out[0] = momentum(b, 0);
  out[1] = momentum(b, 1);
  out[2] = tn_add(d(b, 0, 0, 1), d(b, 1, 1, 1));
  return 3;
}

static size_t helmholtz(const bench_builder *b, tn_value *out) {
  out[0] = SUM(d(b, 0, 0, 2), d(b, 0, 1, 2), times(b, 10, d(b, 0, 0, 0)));
  return 1;
}

static size_t poisson10(const bench_builder *b, tn_value *out) {
  out[0] = tn_const(b->graph, b->dtype, 1);
  for (size_t axis = 0; axis < 10; ++axis)
    out[0] = tn_add(out[0], d(b, 0, axis, 2));
  return 1;
}

static size_t wide(const bench_builder *b, tn_value *out) {
  tn_value u = d(b, 0, 0, 0);
  out[0] = SUM(d(b, 0, 1, 1), times(b, -0.1, d(b, 0, 0, 2)), tn_mul(tn_square(u), u), tn_neg(u));
  return 1;
}

static const bench_case cases[] = {
    {"burgers", 2, 20, 8, 1, 10000, burgers},
    {"kdv", 2, 32, 4, 1, 8192, kdv},
    {"ks", 2, 64, 4, 1, 8192, ks},
    {"ns2d", 3, 64, 5, 3, 8192, ns2d},
    {"helmholtz", 2, 50, 4, 1, 4096, helmholtz},
    {"poisson10", 10, 64, 4, 1, 4096, poisson10},
    {"wide", 2, 256, 4, 1, 8192, wide},
};
enum { N_CASES = sizeof cases / sizeof *cases };

const bench_case *bench_case_find(const char *name) {
  for (size_t i = 0; i < N_CASES; ++i)
    if (strcmp(cases[i].name, name) == 0)
      return &cases[i];
  return NULL;
}

size_t bench_case_names(const char **names, size_t capacity) {
  size_t n = N_CASES < capacity ? N_CASES : capacity;
  for (size_t i = 0; i < n; ++i)
    names[i] = cases[i].name;
  return n;
}

/* ---- The step ------------------------------------------------------------------------------------ */

typedef struct run {
  const bench_case *which;
  tn_graph *graph;
  tn_dtype dtype;     /* of numbers */
  tn_dtype precision; /* of what matrix products multiply */
  size_t products;    /* for one */
  tn_axis axis;
  size_t n; /* points */
  size_t n_leaves;
  tn_value leaf[2 * BENCH_LAYERS]; /* weights and biases in order */
  tn_value at[BENCH_INPUTS];
  tn_buffer *weights[2 * BENCH_LAYERS], *points[BENCH_INPUTS];
  tn_program *program;
  tn_exec *exec;
  ag_resolve_report report;
} run;

static size_t layer_width(const bench_case *c, size_t l) {
  return l == 0 ? c->inputs : l <= c->hidden ? c->width : c->outputs;
}

static tn_status build_field(run *r, ag_field **out) {
  const bench_case *c = r->which;
  tn_value args[BENCH_INPUTS], outputs[BENCH_RESIDUALS];
  TN_TRY(ag_field_new(r->graph, "net", c->inputs, r->dtype, out));
  for (size_t j = 0; j < c->inputs; ++j)
    args[j] = ag_field_argument(*out, j);
  tn_value h = tn_stack(c->inputs, args);
  for (size_t l = 0; l <= c->hidden; ++l) {
    size_t shape[2] = {layer_width(c, l), layer_width(c, l + 1)};
    tn_value w = tn_parameter(r->graph, "W", r->dtype, tn_shape_fixed(2, shape));
    tn_value b = tn_parameter(r->graph, "b", r->dtype, tn_shape_fixed(1, shape + 1));
    r->leaf[r->n_leaves++] = w;
    r->leaf[r->n_leaves++] = b;
    h = tn_linear(h, w, b, false);
    if (l < c->hidden)
      h = tn_tanh(h);
  }
  tn_shape one = tn_shape_points(tn_shape_of(h).axis[0]);
  for (size_t k = 0; k < c->outputs; ++k)
    outputs[k] = tn_reshape(c->outputs == 1 ? h : tn_slice(h, 1, k, 1), one);
  return ag_field_body(*out, c->outputs, outputs);
}

static tn_status build_program(run *r) {
  tn_value residual[BENCH_RESIDUALS], outputs[1 + 2 * BENCH_LAYERS], loss = {0};
  bench_builder b = {.graph = r->graph, .dtype = r->dtype, .at = r->at};
  r->axis = tn_axis_new(r->graph, "points");
  for (size_t j = 0; j < r->which->inputs; ++j) {
    char name[8];
    snprintf(name, sizeof name, "x%zu", j);
    r->at[j] = tn_input(r->graph, name, r->dtype, tn_shape_points(r->axis));
  }
  TN_TRY(build_field(r, &b.field));
  size_t n = r->which->residual(&b, residual);
  TN_TRY(tn_graph_error(r->graph));
  TN_TRY(ag_resolve(r->graph, n, residual, NULL, residual, &r->report));
  for (size_t i = 0; i < n; ++i) {
    tn_value mean = tn_mean(tn_square(residual[i]));
    loss = i == 0 ? mean : tn_add(loss, mean);
  }
  outputs[0] = loss;
  TN_TRY(ag_grad(loss, r->n_leaves, r->leaf, outputs + 1));
  if (r->precision != r->dtype) {
    const ag_cast_policy policy = {.low = r->precision};
    TN_TRY((r->products == 3 ? ag_split : ag_cast)(r->graph, &policy, 1 + r->n_leaves, outputs,
                                                   outputs));
  }
  return tn_compile(r->graph, 1 + r->n_leaves, outputs, &r->program);
}

/* ---- Numbers --------------------------------------------------------------------------------------- */

static void set(tn_dtype dtype, void *data, size_t i, double x) {
  if (dtype == TN_F64)
    ((double *)data)[i] = x;
  else
    ((float *)data)[i] = (float)x;
}

static double get(tn_dtype dtype, const void *data, size_t i) {
  return dtype == TN_F64 ? ((const double *)data)[i] : ((const float *)data)[i];
}

static tn_status make_buffers(run *r) {
  for (size_t i = 0; i < r->n_leaves; ++i) {
    tn_shape shape = tn_shape_of(r->leaf[i]);
    TN_TRY(tn_buffer_new(r->dtype, shape.rank, shape.extent, &r->weights[i]));
    TN_TRY(tn_exec_bind(r->exec, r->leaf[i], r->weights[i]));
  }
  for (size_t j = 0; j < r->which->inputs; ++j) {
    TN_TRY(tn_buffer_new(r->dtype, 1, &r->n, &r->points[j]));
    TN_TRY(tn_exec_bind(r->exec, r->at[j], r->points[j]));
  }
  return TN_OK;
}

/* Glorot's uniform weights, biases 0, points uniform in (-1, 1). */
static void draw(run *r) {
  char name[16];
  for (size_t i = 0; i < r->n_leaves; i += 2) {
    double rows = (double)tn_buffer_extent(r->weights[i], 0);
    double limit = sqrt(6 / (rows + (double)tn_buffer_extent(r->weights[i], 1)));
    snprintf(name, sizeof name, "W%zu", i / 2);
    tn_stream stream = tn_stream_of(0, name);
    void *data = tn_map(r->weights[i], TN_WRITE);
    for (size_t k = 0; k < tn_buffer_count(r->weights[i]); ++k)
      set(r->dtype, data, k, limit * (2 * tn_random_uniform(stream, k) - 1));
    tn_unmap(r->weights[i]);
  }
  for (size_t j = 0; j < r->which->inputs; ++j) {
    snprintf(name, sizeof name, "x%zu", j);
    tn_stream stream = tn_stream_of(0, name);
    void *data = tn_map(r->points[j], TN_WRITE);
    for (size_t k = 0; k < r->n; ++k)
      set(r->dtype, data, k, 2 * tn_random_uniform(stream, k) - 1);
    tn_unmap(r->points[j]);
  }
}

static double of_little_endian(const unsigned char *bytes) {
  uint64_t bits = 0;
  double x;
  for (int k = 7; k >= 0; --k)
    bits = bits << 8 | bytes[k];
  memcpy(&x, &bits, sizeof x);
  return x;
}

static bool read_number(FILE *file, double *x) {
  unsigned char bytes[8];
  if (fread(bytes, 1, sizeof bytes, file) != sizeof bytes)
    return false;
  *x = of_little_endian(bytes);
  return true;
}

static tn_status read_from(run *r, FILE *file, const char *path) {
  double x = 0;
  bool whole = true;
  for (size_t i = 0; i < r->n_leaves; ++i) {
    void *data = tn_map(r->weights[i], TN_WRITE);
    for (size_t k = 0; whole && k < tn_buffer_count(r->weights[i]); ++k) {
      whole = read_number(file, &x);
      set(r->dtype, data, k, x);
    }
    tn_unmap(r->weights[i]);
  }
  void *data[BENCH_INPUTS];
  size_t inputs = r->which->inputs;
  for (size_t j = 0; j < inputs; ++j)
    data[j] = tn_map(r->points[j], TN_WRITE);
  for (size_t k = 0; whole && k < r->n * inputs; ++k) {
    whole = read_number(file, &x);
    set(r->dtype, data[k % inputs], k / inputs, x);
  }
  for (size_t j = 0; j < inputs; ++j)
    tn_unmap(r->points[j]);
  if (!whole || fgetc(file) != EOF)
    return TN_FAIL(TN_EINPUT,
                   "%s: %s numbers for `%s` with %zu points; expected weights and biases layer by "
                   "layer, then the points, each as 8 bytes",
                   path, whole ? "too many" : "too few", r->which->name, r->n);
  return TN_OK;
}

static tn_status read_data(run *r, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return TN_FAIL(TN_EIO, "%s: the data file cannot be opened", path);
  tn_status status = read_from(r, file, path);
  fclose(file);
  return status;
}

/* ---- As a bench_step --------------------------------------------------------------------------------- */

static tn_status step(void *self, double *loss) {
  run *r = self;
  TN_TRY(tn_exec_run(r->exec));
  return tn_exec_read(r->exec, 0, 1, loss);
}

static tn_status descend(void *self, double rate) {
  run *r = self;
  for (size_t i = 0; i < r->n_leaves; ++i) {
    tn_buffer *gradient = NULL;
    TN_TRY(tn_exec_output(r->exec, 1 + i, &gradient));
    const void *g = tn_map(gradient, TN_READ);
    void *w = tn_map(r->weights[i], TN_READ_WRITE);
    for (size_t k = 0; k < tn_buffer_count(r->weights[i]); ++k) {
      if (r->dtype == TN_F64)
        ((double *)w)[k] -= rate * ((const double *)g)[k];
      else
        ((float *)w)[k] -= (float)rate * ((const float *)g)[k];
    }
    tn_unmap(r->weights[i]);
    tn_unmap(gradient);
  }
  return TN_OK;
}

static tn_status norm(void *self, double *out) {
  run *r = self;
  double sum = 0;
  for (size_t i = 0; i < r->n_leaves; ++i) {
    tn_buffer *gradient = NULL;
    TN_TRY(tn_exec_output(r->exec, 1 + i, &gradient));
    const void *g = tn_map(gradient, TN_READ);
    for (size_t k = 0; k < tn_buffer_count(gradient); ++k)
      sum += get(r->dtype, g, k) * get(r->dtype, g, k);
    tn_unmap(gradient);
  }
  *out = sqrt(sum);
  return TN_OK;
}

static void done(void *self) {
  run *r = self;
  tn_exec_free(&r->exec);
  tn_program_free(&r->program);
  for (size_t i = 0; i < 2 * BENCH_LAYERS; ++i)
    tn_buffer_release(&r->weights[i]);
  for (size_t j = 0; j < BENCH_INPUTS; ++j)
    tn_buffer_release(&r->points[j]);
  tn_graph_free(&r->graph);
  tn_free(&r);
}

static tn_status prepare(run *r, const bench_options *options, tn_pool *pool) {
  TN_TRY(tn_graph_new(&r->graph));
  TN_TRY(build_program(r));
  TN_TRY(tn_exec_new(r->program, pool, &r->exec));
  TN_TRY(make_buffers(r));
  if (options->data)
    return read_data(r, options->data);
  draw(r);
  return TN_OK;
}

/* All products of a case are at the same points. */
static double low_share(const tn_program *program) {
  ag_product *list = NULL;
  size_t n = 0;
  double low = 0, all = 0;
  if (ag_products(program, &n, &list) != TN_OK)
    return NAN;
  for (size_t i = 0; i < n; ++i) {
    all += list[i].flops;
    low += list[i].dtype != tn_dtype_compute(list[i].dtype) ? list[i].flops : 0;
  }
  tn_free(&list);
  return all > 0 ? low / all : 0;
}

static void describe(const run *r, bench_step *out) {
  const bench_case *c = r->which;
  size_t in = c->inputs * c->width, rest = (c->hidden - 1) * c->width * c->width;
  rest += c->width * c->outputs;
  out->name = c->name;
  out->points = r->n;
  out->dtype = r->dtype;
  out->precision = r->precision;
  out->low_share = low_share(r->program);
  out->parameters = in + rest + c->hidden * c->width + c->outputs;
  out->report = r->report;
  out->program = r->program;
  out->exec = r->exec;
  out->flops = (double)r->n * 6.0 * (double)(bench_channels(out)->channels * rest + in);
  snprintf(out->shape, sizeof out->shape, "%zu-%zux%zu-%zu", c->inputs, c->width, c->hidden,
           c->outputs);
}

tn_status bench_case_start(const bench_case *which, const bench_options *options, tn_pool *pool,
                           bench_step *out) {
  run *r = NULL;
  TN_TRY(TN_NEW(1, &r));
  r->which = which;
  r->precision = options->dtype_given ? options->dtype : TN_F32;
  r->dtype = tn_dtype_compute(r->precision);
  r->products = options->products;
  r->n = options->points ? options->points : which->points;
  *out = (bench_step){.self = r, .run = step, .descend = descend, .norm = norm, .done = done};
  tn_status status = prepare(r, options, pool);
  if (status == TN_OK) {
    describe(r, out);
  } else {
    done(r);
    out->self = NULL;
  }
  return status;
}
