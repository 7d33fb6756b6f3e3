/* bits.c: a fingerprint of what tensor/ computes, for builds that should all compute the same.
 *
 * Prints one line a subject: its name and a hash (FNV-1a, 64 bits) of every bit of its results; the last line
 * is the hash of all. It needs no other library than tensor/ and libm, so that it can be linked statically for
 * another architecture and run under an emulator: tests/test_isa.sh builds it several ways and compares.
 *
 * Numbers come from a generator of its own, by integers and exact scaling. Left out: rows of ops.def that call
 * the C library lane by lane (log10, tan, asin, acos, atan, sinh, cosh, erf, pow, powr, atan2; sin and cos
 * beyond 1e5), since C libraries differ. Any NaN counts as the same NaN: its sign and payload are nobody's
 * promise.
 */
#include "tensor/kernels.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers and hashes ------------------------------------------------------------------------ */

static uint64_t state;
static uint64_t next(void) { /* xorshift64* */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}
static double uniform(void) { return (double)(next() >> 11) * 0x1p-52 - 1; } /* [-1, 1) */

static uint64_t all = 0xcbf29ce484222325ULL, part;
static void mix(uint64_t *hash, uint64_t bits, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) *hash = (*hash ^ (bits >> 8 * i & 255)) * 0x100000001b3ULL;
}
static void begin(uint64_t seed) { state = seed * 2 + 1, part = 0xcbf29ce484222325ULL; }
static void end(const char *name, const char *dtype) {
  printf("%-14s %-4s %016llx\n", name, dtype, (unsigned long long)part);
  mix(&all, part, 8);
}

static void add_f64(size_t n, const double *x) {
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = 0x7ff8000000000000ULL;
    if (!isnan(x[i])) memcpy(&bits, &x[i], sizeof bits);
    mix(&part, bits, 8);
  }
}
static void add(const tn_kernels *t, size_t n, const void *x) {
  if (t->dtype == TN_F64) {
    add_f64(n, x);
    return;
  }
  const float *in = x;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = 0x7fc00000U;
    if (!isnan(in[i])) memcpy(&bits, &in[i], sizeof bits);
    mix(&part, bits, 4);
  }
}

static void must(tn_status status) {
  if (status == TN_OK) return;
  fprintf(stderr, "bits: %s at %s\n", tn_error_text(), tn_error_place());
  exit(1);
}
static void put(const tn_kernels *t, void *x, size_t i, double value) {
  if (t->dtype == TN_F64) ((double *)x)[i] = value;
  else ((float *)x)[i] = (float)value;
}
static void *numbers(const tn_kernels *t, size_t n) {
  void *x = NULL;
  must(tn_new(n, t->size, &x));
  for (size_t i = 0; i < n; ++i) put(t, x, i, uniform());
  return x;
}

/* ---- Kernels ----------------------------------------------------------------------------------- */

static bool from_libm(size_t op) {
  static const tn_op_id rows[] = {TN_OP_log10, TN_OP_tan,  TN_OP_asin, TN_OP_acos, TN_OP_atan, TN_OP_sinh,
                                  TN_OP_cosh,  TN_OP_erf,  TN_OP_pow,  TN_OP_powr, TN_OP_atan2};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i] == op) return true;
  return false;
}

static void cells(const tn_kernels *t) {
  enum { N = 1501 };
  static const double special[] = {0,      -0.0, 1,    -1,   0x1p-1074, 0x1p-149, -0x1p-1030, -0x1p-130, 88.8,
                                   -104.5, 709.9, -745.2, 9e4, -3e4, 1e300, -1e300, 1e38, 1e-300};
  enum { SPECIAL = sizeof special / sizeof *special };
  void *a = numbers(t, N), *b = numbers(t, N), *y = numbers(t, N);
  uint8_t mask[N];
  for (size_t i = 0; i < N; ++i) {
    int exponent = (int)(next() >> 60) - 8; /* apart: the order of two calls in one would be free */
    put(t, a, i, ldexp(uniform(), exponent));
    put(t, b, i, ldexp(uniform(), exponent / 2));
  }
  for (size_t i = 0; i < SPECIAL; ++i) put(t, a, 5 * i, special[i]);
  put(t, a, 5 * SPECIAL, (double)INFINITY), put(t, a, 5 * SPECIAL + 1, -(double)INFINITY);
  put(t, a, 5 * SPECIAL + 2, (double)NAN);
  for (size_t op = 0; op < TN_OPS; ++op) {
    if (t->compare[op]) {
      t->compare[op](N, mask, a, b);
      for (size_t i = 0; i < N; ++i) mix(&part, mask[i], 1);
    }
    if (!t->cell[op] || from_libm(op)) continue;
    bool periodic = op == TN_OP_sin || op == TN_OP_cos; /* beyond 1e5 from the C library */
    for (int k = op == TN_OP_powi ? -3 : 0; k <= (op == TN_OP_powi ? 5 : 0); ++k) {
      t->cell[op](N, y, periodic ? b : a, b, k);
      add(t, N, y);
    }
  }
  for (size_t i = 0; i < N; ++i) mask[i] = (uint8_t)(next() >> 63);
  t->where(N, y, mask, a, b);
  add(t, N, y);
  for (size_t d = 0; d < TN_DTYPES; ++d) /* to low formats */
    if (t->round[d]) t->round[d](N, y, a), add(t, N, y);
  tn_free(&a), tn_free(&b), tn_free(&y);
}

static void strips(const tn_kernels *t) {
  enum { N = 307, REGISTERS = 9 };
  for (int code = 0; code < TN_STRIP_CODES; ++code) {
    void *r[REGISTERS];
    for (size_t i = 0; i < REGISTERS; ++i) r[i] = numbers(t, N);
    for (uint8_t op = 0; op < (code == TN_STRIP_CELLS ? TN_FAMILIES : 1); ++op) {
      tn_strip_instruction x = {.code = (uint8_t)code, .op = op, .y = 6, .a = 0, .b = 1, .c = 2, .y2 = 7,
                                .y3 = 8, .d = 3, .e = 4, .f = 5, .k = 0.3, .l = -1.7};
      if (code == TN_STRIP_CELL) x.op = TN_OP_silu;
      if (code == TN_STRIP_BINARY) x.op = TN_OP_max;
      t->strip(1, &x, r, N);
      for (size_t i = 6; i < REGISTERS; ++i) add(t, N, r[i]);
    }
    for (size_t i = 0; i < REGISTERS; ++i) tn_free(&r[i]);
  }
}

static void products(const tn_kernels *t) {
  static const size_t shape[][2] = {{2, 20}, {20, 20}, {20, 1}, {37, 50}, {64, 64}, {5, 3}, {1, 2}, {24, 150}};
  for (size_t s = 0; s < sizeof shape / sizeof *shape; ++s)
    for (int way = 0; way < 4; ++way) {
      size_t k = shape[s][0], n = shape[s][1], panels = 9, lanes = t->lanes;
      size_t wk = way & 1 ? 1 : n, wn = way & 1 ? k : 1;
      void *w = numbers(t, k * n), *bias = numbers(t, n), *h = numbers(t, panels * k * lanes);
      void *y = numbers(t, panels * n * lanes);
      t->lin(panels, k, n, w, wk, wn, way & 2 ? bias : NULL, h, y);
      add(t, panels * n * lanes, y);
      t->lin_rows(panels, k, n, w, wk, wn, way & 2 ? bias : NULL, h, y);
      add(t, panels * n, y);
      tn_free(&w), tn_free(&bias), tn_free(&h), tn_free(&y);
    }
}

static void sums(const tn_kernels *t) {
  static const size_t shape[][2] = {{2, 20}, {20, 20}, {20, 1}, {37, 50}, {32, 64}, {64, 3}, {1, 1}};
  enum { PAIRS = 5, PANELS = 8 };
  for (size_t s = 0; s < sizeof shape / sizeof *shape; ++s)
    for (size_t valid = 1; valid <= t->lanes; valid += 5) {
      size_t k = shape[s][0], n = shape[s][1], h_stride[PAIRS], z_stride[PAIRS];
      void *h[PAIRS], *z[PAIRS], *sum = numbers(t, k * n), *plain = numbers(t, n);
      for (size_t c = 0; c < PAIRS; ++c) {
        h[c] = numbers(t, PANELS * k * t->lanes), z[c] = numbers(t, PANELS * n * t->lanes);
        h_stride[c] = c == 1 ? 0 : k * t->lanes, z_stride[c] = n * t->lanes;
      }
      tn_outer o = {PAIRS, (const void *const *)h, (const void *const *)z, h_stride, z_stride, k, n};
      t->outer_lanes(&o, 0, PANELS, valid, sum);
      add(t, k * n, sum);
      t->outer_points(&o, 0, PANELS, valid, sum);
      add(t, k * n, sum);
      t->sum_lanes(n, z[0], 0, PANELS, valid, plain);
      t->add_to(n, plain, z[1]);
      add(t, n, plain);
      t->unpack(PANELS * t->lanes - 3, n, z[2], z[3]);
      t->pack(PANELS * t->lanes - 3, n, z[3], z[4]);
      add(t, PANELS * n * t->lanes, z[4]);
      for (size_t c = 0; c < PAIRS; ++c) tn_free(&h[c]), tn_free(&z[c]);
      tn_free(&sum), tn_free(&plain);
    }
}

/* ---- Things without kernels -------------------------------------------------------------------- */

static void scalars(void) {
  tn_stream stream = tn_stream_of(7, "bits");
  for (uint64_t i = 0; i < 2000; ++i) {
    double x = tn_random_normal(stream, i), y = tn_random_uniform(stream, i);
    add_f64(1, &x), add_f64(1, &y);
    mix(&part, tn_bf16_of(x), 2), mix(&part, tn_f16_of(x), 2);
    x = tn_round(TN_TF32, x), add_f64(1, &x);
  }
}

/* ---- A training step --------------------------------------------------------------------------- */

/* Two hidden layers; channels value, first and half the second derivative along x. The residual is
 * u u_x - nu u_xx, the loss the mean of its square. The backward graph is written by hand:
 *   z = h W + b:  hbar = zbar W^T, Wbar = sum of outer(h, zbar) over channels and points, bbar = sum of zbar_0
 *   h = tanh(z):  zbar = mulT(tanh'(z), hbar) */
enum { LAYERS = 3, CHANNELS = 3, OUTPUTS = 1 + 2 * LAYERS, POINTS = 1003 };
static const size_t widths[LAYERS + 1] = {2, 20, 32, 1};
typedef struct {
  tn_graph *graph;
  tn_value x, weight[LAYERS], bias[LAYERS], output[OUTPUTS];
} step;

static void record(step *s, tn_dtype dtype) {
  must(tn_graph_new(&s->graph));
  tn_graph *g = s->graph;
  tn_axis axis = tn_axis_new(g, "points");
  static const tn_jet_term terms[] = {{0, 0, 0, -1, 1, 1}, {1, 0, 1, -1, 1, 1}, {1, 1, 0, -1, 1, 1},
                                      {2, 0, 2, -1, 1, 1}, {2, 1, 1, -1, 1, 1}, {2, 2, 0, -1, 1, 1}};
  const tn_jet_table *table = tn_jet_table_new(g, CHANNELS, 2, 0, 6, terms);
  static const double along[] = {1, 0};
  const bool wanted[TN_MAX_CHANNELS] = {true, true, true};
  tn_jet h[LAYERS + 1] = {{.table = table}}, z[LAYERS] = {{.table = table}};
  s->x = tn_input(g, "x", dtype, tn_shape_batch(axis, widths[0]));
  h[0].channel[0] = s->x;
  h[0].channel[1] = tn_const_array(g, dtype, tn_shape_fixed(1, widths), along);
  for (size_t l = 0; l < LAYERS; ++l) {
    s->weight[l] = tn_parameter(g, l ? l > 1 ? "w2" : "w1" : "w0", dtype, tn_shape_fixed(2, widths + l));
    s->bias[l] = tn_parameter(g, l ? l > 1 ? "b2" : "b1" : "b0", dtype, tn_shape_fixed(1, widths + l + 1));
    must(tn_jet_lin(&h[l], s->weight[l], s->bias[l], false, &z[l]));
    if (l + 1 < LAYERS) must(tn_jet_unary(TN_OP_tanh, 0, 0, &z[l], &h[l + 1]));
  }
  tn_value nu = tn_const(g, dtype, 0.0625), two = tn_const(g, dtype, 2), minus = tn_const(g, dtype, -0.125);
  tn_value *u = z[LAYERS - 1].channel;
  tn_value r = tn_sub(tn_mul(u[0], u[1]), tn_mul(nu, tn_mul(two, u[2])));
  tn_value scale = tn_div(two, tn_count(g, dtype, axis)), rbar = tn_mul(scale, r);
  s->output[0] = tn_mean(tn_square(r));
  tn_jet zbar = {.table = table};
  zbar.channel[0] = tn_mul(rbar, u[1]), zbar.channel[1] = tn_mul(rbar, u[0]);
  zbar.channel[2] = tn_mul(minus, rbar);
  for (size_t l = LAYERS; l-- > 0;) {
    size_t pairs = l ? CHANNELS : 2;
    s->output[1 + 2 * l] = tn_jet_outer(pairs, zbar.channel, h[l].channel);
    s->output[2 + 2 * l] = tn_sum(zbar.channel[0], 0);
    if (!l) break;
    tn_jet hbar = {.table = table}, slope = {.table = table}, next = {.table = table};
    tn_value none = {0};
    must(tn_jet_lin(&zbar, s->weight[l], none, true, &hbar));
    must(tn_jet_unary(TN_OP_tanh, 0, 1, &z[l - 1], &slope));
    must(tn_jet_mulT(&slope, &hbar, wanted, &next));
    zbar = next;
  }
  must(tn_graph_error(g));
}

static void fill(tn_buffer *buffer, double scale) {
  size_t n = tn_buffer_count(buffer);
  void *data = tn_map(buffer, TN_WRITE);
  for (size_t i = 0; i < n; ++i) {
    if (tn_buffer_dtype(buffer) == TN_F64) ((double *)data)[i] = scale * uniform();
    else ((float *)data)[i] = (float)(scale * uniform());
  }
  tn_unmap(buffer);
}

/* Three steps down the gradient; the hash of all outputs of all of them. */
static uint64_t descend(const step *s, const tn_program *program, tn_dtype dtype, tn_pool *pool,
                        bool reference) {
  static double out[64 * 64];
  tn_exec *exec = NULL;
  tn_buffer *theta[2 * LAYERS], *x = NULL;
  size_t extent[2] = {POINTS, widths[0]};
  begin(11);
  must(tn_buffer_new(dtype, 2, extent, &x));
  fill(x, 1);
  must(reference ? tn_exec_reference(program, pool, &exec) : tn_exec_new(program, pool, &exec));
  must(tn_exec_bind(exec, s->x, x));
  for (size_t i = 0; i < 2 * LAYERS; ++i) {
    must(tn_buffer_new(dtype, i % 2 ? 1 : 2, widths + i / 2 + i % 2, &theta[i]));
    fill(theta[i], i % 2 ? 0.125 : 0.5);
    must(tn_exec_bind(exec, i % 2 ? s->bias[i / 2] : s->weight[i / 2], theta[i]));
  }
  for (int k = 0; k < 3; ++k) {
    must(tn_exec_run(exec));
    must(tn_exec_read(exec, 0, 1, out));
    add_f64(1, out);
    for (size_t i = 0; i < 2 * LAYERS; ++i) {
      size_t n = tn_buffer_count(theta[i]);
      must(tn_exec_read(exec, 1 + i, n, out));
      add_f64(n, out);
      void *data = tn_map(theta[i], TN_READ_WRITE);
      for (size_t j = 0; j < n; ++j) {
        if (dtype == TN_F64) ((double *)data)[j] -= 0.25 * out[j];
        else ((float *)data)[j] -= 0.25f * (float)out[j];
      }
      tn_unmap(theta[i]);
    }
  }
  tn_exec_free(&exec);
  for (size_t i = 0; i < 2 * LAYERS; ++i) tn_buffer_release(&theta[i]);
  tn_buffer_release(&x);
  return part;
}

static bool training(tn_dtype dtype) {
  step s = {0};
  tn_program *program = NULL;
  bool same = true;
  record(&s, dtype);
  must(tn_compile(s.graph, OUTPUTS, s.output, &program));
  const uint64_t first = descend(&s, program, dtype, NULL, true);
  for (size_t threads = 1; threads <= 4; ++threads)
    for (int reference = 0; reference < 2; ++reference) {
      tn_pool *pool = NULL;
      must(tn_pool_new(threads, &pool));
      if (descend(&s, program, dtype, pool, reference) != first) {
        fprintf(stderr, "bits: %s, %zu threads, %s executor: other bits than the reference executor alone\n",
                tn_dtype_name(dtype), threads, reference ? "reference" : "streamed");
        same = false;
      }
      tn_pool_free(&pool);
    }
  tn_program_free(&program);
  tn_graph_free(&s.graph);
  return same;
}

int main(void) {
  static const tn_dtype dtypes[] = {TN_F64, TN_F32};
  bool same = true;
  fprintf(stderr, "bits: %s of %s\n", tn_isa(), tn_isa_levels());
  begin(1), scalars(), end("scalars", "");
  for (size_t d = 0; d < 2; ++d) {
    const tn_kernels *t = tn_kernels_of(dtypes[d]);
    const char *name = tn_dtype_name(dtypes[d]);
    begin(2), cells(t), end("cells", name);
    begin(3), strips(t), end("strips", name);
    begin(4), products(t), end("products", name);
    begin(5), sums(t), end("sums", name);
    same = training(dtypes[d]) && same;
    end("training", name);
  }
  printf("%-14s %-4s %016llx\n", "all", "", (unsigned long long)all);
  return same && fflush(stdout) == 0 ? 0 : 1;
}
