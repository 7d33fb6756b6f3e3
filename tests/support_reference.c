/* support_reference.c: reads the reference cases and builds their loss in several ways.
 *
 * The file (made by JAX with nested forward mode, nothing shared with this engine) holds weights, points, and
 * what must come out: residual, loss, gradient. Residuals are written here by hand from their formulas.
 */
#include "tests/support_reference.h"

#include <hdf5.h>
#include <string.h>

static tn_status read_array(hid_t group, const char *name, hid_t type, size_t *count, void *out) {
  hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
  if (set < 0) return TN_FAIL(TN_EIO, "reference: no data set `%s`", name);
  hid_t space = H5Dget_space(set);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  tn_status status = tn_new((size_t)n, 8, out);
  if (status == TN_OK && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *(void **)out) < 0)
    status = TN_FAIL(TN_EIO, "reference: `%s` cannot be read", name);
  *count = (size_t)n;
  H5Sclose(space);
  H5Dclose(set);
  return status;
}

tn_status reference_load(const char *name, reference_case *c) {
  memset(c, 0, sizeof *c);
  c->name = name;
  hid_t file = H5Fopen(TESTS_DATA_DIR "/reference.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t group = file < 0 ? -1 : H5Gopen2(file, name, H5P_DEFAULT);
  if (group < 0) return TN_FAIL(TN_EIO, "reference: no case `%s`", name);
  int64_t *sizes = NULL;
  double *loss = NULL;
  size_t n_points = 0, n_residual = 0, n_gradient = 0, one = 0;
  tn_status status = read_array(group, "sizes", H5T_NATIVE_INT64, &c->n_sizes, &sizes);
  for (size_t i = 0; status == TN_OK && i < c->n_sizes; ++i) c->sizes[i] = (size_t)sizes[i];
  if (status == TN_OK) status = read_array(group, "weights", H5T_NATIVE_DOUBLE, &c->n_weights, &c->weights);
  if (status == TN_OK) status = read_array(group, "points", H5T_NATIVE_DOUBLE, &n_points, &c->points);
  if (status == TN_OK) status = read_array(group, "residual", H5T_NATIVE_DOUBLE, &n_residual, &c->residual);
  if (status == TN_OK) status = read_array(group, "gradient", H5T_NATIVE_DOUBLE, &n_gradient, &c->gradient);
  if (status == TN_OK) status = read_array(group, "loss", H5T_NATIVE_DOUBLE, &one, &loss);
  if (status == TN_OK) {
    c->loss = loss[0];
    c->n_in = c->sizes[0];
    c->n_out = c->sizes[c->n_sizes - 1];
    c->n_points = n_points / c->n_in;
    c->n_equations = n_residual / c->n_points;
  }
  tn_free(&sizes);
  tn_free(&loss);
  H5Gclose(group);
  H5Fclose(file);
  return status;
}

void reference_free(reference_case *c) {
  tn_free(&c->weights);
  tn_free(&c->points);
  tn_free(&c->residual);
  tn_free(&c->gradient);
}

/* ---- Building ---- */

typedef struct maker {
  const reference_case *c;
  reference_graph *g;
  reference_mode mode;
  ag_field *field;
  tn_value outputs[8]; /* of the plain network, for BY_GRAD */
} maker;

static tn_value network(maker *m, const tn_value *args, tn_value *outputs) {
  reference_graph *g = m->g;
  tn_value h = tn_stack(m->c->n_in, args);
  size_t layers = m->c->n_sizes - 1;
  for (size_t l = 0; l < layers; ++l) {
    h = tn_linear(h, g->leaves[2 * l], g->leaves[2 * l + 1], false);
    if (l + 1 < layers) h = tn_tanh(h);
  }
  for (size_t k = 0; k < m->c->n_out; ++k)
    outputs[k] = tn_reshape(tn_slice(h, 1, k, 1), tn_shape_points(tn_shape_of(h).axis[0]));
  return h;
}

/* d^(sum of power) u_k / dx^power */
static tn_value derivative(maker *m, size_t k, const uint8_t *power) {
  if (m->mode != BY_GRAD) return ag_call(m->field, k, m->g->coordinate, power);
  tn_value d = m->outputs[k];
  for (size_t j = 0; j < m->c->n_in; ++j)
    for (int q = 0; q < power[j]; ++q)
      if (ag_grad(d, 1, &m->g->coordinate[j], &d) != TN_OK) return (tn_value){0};
  return d;
}

static tn_value d(maker *m, size_t k, size_t axis, int order) {
  uint8_t power[TN_MAX_SLOTS] = {0};
  power[axis] = (uint8_t)order;
  return derivative(m, k, power);
}

static tn_value number(const maker *m, double x) { return tn_const(m->g->graph, m->g->dtype, x); }

static tn_value times(const maker *m, double x, tn_value v) { return tn_mul(number(m, x), v); }

static void burgers(maker *m) {
  tn_value nu = tn_scalar(m->g->graph, "nu", m->g->dtype, 0.0031830988618379);
  m->g->residual[0] = tn_sub(tn_add(d(m, 0, 1, 1), tn_mul(d(m, 0, 0, 0), d(m, 0, 0, 1))),
                             tn_mul(nu, d(m, 0, 0, 2)));
}

static void kdv(maker *m) {
  m->g->residual[0] = tn_add(tn_add(d(m, 0, 1, 1), tn_mul(d(m, 0, 0, 0), d(m, 0, 0, 1))),
                             times(m, 0.0025, d(m, 0, 0, 3)));
}

static void ks(maker *m) {
  m->g->residual[0] = tn_add(tn_add(tn_add(d(m, 0, 1, 1), tn_mul(d(m, 0, 0, 0), d(m, 0, 0, 1))),
                                    d(m, 0, 0, 2)), d(m, 0, 0, 4));
}

static tn_value momentum(maker *m, size_t k) {
  tn_value u = d(m, 0, 0, 0), v = d(m, 1, 0, 0);
  tn_value transport = tn_add(tn_add(d(m, k, 2, 1), tn_mul(u, d(m, k, 0, 1))),
                              tn_mul(v, d(m, k, 1, 1)));
  tn_value pressure = tn_add(transport, d(m, 2, k, 1));
  return tn_sub(pressure, times(m, 0.01, tn_add(d(m, k, 0, 2), d(m, k, 1, 2))));
}

static void ns2d(maker *m) {
  m->g->residual[0] = momentum(m, 0);
  m->g->residual[1] = momentum(m, 1);
  m->g->residual[2] = tn_add(d(m, 0, 0, 1), d(m, 1, 1, 1));
}

static void helmholtz(maker *m) {
  m->g->residual[0] = tn_add(tn_add(d(m, 0, 0, 2), d(m, 0, 1, 2)), times(m, 10, d(m, 0, 0, 0)));
}

static void poisson10(maker *m) {
  tn_value sum = d(m, 0, 0, 2);
  for (size_t j = 1; j < 10; ++j) sum = tn_add(sum, d(m, 0, j, 2));
  m->g->residual[0] = tn_add(sum, number(m, 1));
}

static const struct { const char *name; void (*write)(maker *); } equations[] = {
    {"burgers", burgers}, {"kdv", kdv}, {"ks", ks}, {"ns2d", ns2d}, {"helmholtz", helmholtz},
    {"poisson10", poisson10}};

static tn_status prepare(maker *m) {
  const reference_case *c = m->c;
  reference_graph *g = m->g;
  char name[32];
  for (size_t l = 0; l + 1 < c->n_sizes; ++l) {
    g->leaves[g->n_leaves++] = tn_parameter(
        g->graph, "W", g->dtype, tn_shape_fixed(2, (size_t[]){c->sizes[l], c->sizes[l + 1]}));
    g->leaves[g->n_leaves++] = tn_parameter(g->graph, "b", g->dtype,
                                            tn_shape_fixed(1, (size_t[]){c->sizes[l + 1]}));
  }
  g->axis = tn_axis_new(g->graph, "points");
  for (size_t j = 0; j < c->n_in; ++j) {
    name[0] = 'x';
    name[1] = (char)('0' + j);
    name[2] = 0;
    g->coordinate[j] = tn_input(g->graph, name, g->dtype, tn_shape_points(g->axis));
  }
  if (m->mode == BY_GRAD) {
    network(m, g->coordinate, m->outputs);
    return tn_graph_error(g->graph);
  }
  TN_TRY(ag_field_new(g->graph, "net", c->n_in, g->dtype, &m->field));
  tn_value args[16], outputs[8];
  for (size_t j = 0; j < c->n_in; ++j) args[j] = ag_field_argument(m->field, j);
  network(m, args, outputs);
  return ag_field_body(m->field, c->n_out, outputs);
}

tn_status reference_build(const reference_case *c, reference_mode mode, tn_dtype dtype,
                          reference_graph *g) {
  maker m = {.c = c, .g = g, .mode = mode};
  memset(g, 0, sizeof *g);
  g->dtype = dtype;
  TN_TRY(tn_graph_new(&g->graph));
  TN_TRY(prepare(&m));
  for (size_t i = 0; i < sizeof equations / sizeof *equations; ++i)
    if (strcmp(equations[i].name, c->name) == 0) equations[i].write(&m);
  g->n_residuals = c->n_equations;
  if (mode != BY_GRAD) {
    ag_resolve_options options = {.separate = mode == BY_SEPARATE_JETS,
                                  .nested = mode == BY_NESTED_CALLS};
    TN_TRY(ag_resolve(g->graph, g->n_residuals, g->residual, &options, g->residual, &g->report));
  }
  for (size_t i = 0; i < g->n_residuals; ++i) {
    tn_value term = tn_mean(tn_square(g->residual[i]));
    g->loss = i ? tn_add(g->loss, term) : term;
  }
  return ag_grad(g->loss, g->n_leaves, g->leaves, g->gradient);
}

/* ---- Running ---- */

static tn_status bind(tn_exec *exec, tn_dtype dtype, tn_value leaf, size_t n, size_t stride,
                      const double *x) {
  tn_shape shape = tn_shape_of(leaf);
  size_t extent[TN_MAX_RANK];
  tn_buffer *buffer = NULL;
  for (uint32_t k = 0; k < shape.rank; ++k) extent[k] = shape.axis[k] ? n : shape.extent[k];
  TN_TRY(tn_buffer_new(dtype, shape.rank, extent, &buffer));
  void *data = tn_map(buffer, TN_WRITE);
  size_t count = tn_buffer_count(buffer);
  for (size_t i = 0; i < count; ++i) {
    if (dtype == TN_F64) ((double *)data)[i] = x[i * stride];
    else ((float *)data)[i] = (float)x[i * stride];
  }
  tn_unmap(buffer);
  tn_status status = tn_exec_bind(exec, leaf, buffer);
  tn_buffer_release(&buffer);
  return status;
}

tn_status reference_run(const reference_case *c, reference_graph *g, tn_pool *pool, double *loss,
                        double *residual, double *gradient) {
  tn_value outputs[40];
  size_t n = 0, offset = 0;
  outputs[n++] = g->loss;
  for (size_t i = 0; i < g->n_residuals; ++i) outputs[n++] = g->residual[i];
  for (size_t i = 0; i < g->n_leaves; ++i) outputs[n++] = g->gradient[i];
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  double *column = NULL;
  tn_status status = tn_compile(g->graph, n, outputs, &program);
  if (status == TN_OK) status = tn_exec_new(program, pool, &exec);
  for (size_t i = 0; i < g->n_leaves && status == TN_OK; ++i) {
    tn_shape shape = tn_shape_of(g->leaves[i]);
    status = bind(exec, g->dtype, g->leaves[i], 0, 1, c->weights + offset);
    offset += tn_shape_width(&shape);
  }
  for (size_t j = 0; j < c->n_in && status == TN_OK; ++j)
    status = bind(exec, g->dtype, g->coordinate[j], c->n_points, c->n_in, c->points + j);
  if (status == TN_OK) status = tn_exec_run(exec);
  if (status == TN_OK) status = tn_exec_read(exec, 0, 1, loss);
  if (status == TN_OK) status = TN_NEW(c->n_points, &column);
  for (size_t i = 0; i < g->n_residuals && status == TN_OK; ++i) {
    status = tn_exec_read(exec, 1 + i, c->n_points, column);
    for (size_t p = 0; p < c->n_points; ++p) residual[p * g->n_residuals + i] = column[p];
  }
  offset = 0;
  for (size_t i = 0; i < g->n_leaves && status == TN_OK; ++i) {
    tn_shape shape = tn_shape_of(g->leaves[i]);
    status = tn_exec_read(exec, 1 + g->n_residuals + i, tn_shape_width(&shape), gradient + offset);
    offset += tn_shape_width(&shape);
  }
  tn_free(&column);
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}
