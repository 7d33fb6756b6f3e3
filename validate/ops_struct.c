/* ops_struct.c: the audit of operations on whole arrays: moves, casts, sums and products.
 *
 * Moves copy numbers, so they are right or wrong: every element, among them infinities, NaN, zeros of
 * both signs and subnormals, must come back with its own bits. Casts round once, to nearest and to even
 * at a tie; the reference is MPFR with the target's precision and exponent range, and many arguments lie
 * at, or next to, ties.
 *
 * Sums and products have a proven bound. With u of the format (f32's for low ones, which accumulate in
 * f32 and round once),
 *   dot product of length K    c <= K for every element, whatever the order of the additions: a chain
 *                              of K fused multiply-adds rounds K times, each by at most u S. Roundings
 *                              vary in sign, so 4 sqrt(K) must hold for 99.9 % of the elements;
 *   sum over N points          c <= log2 N + 2 up to N = 10^6: a lane adds 8 panels, lanes fold, groups of a
 *                              slot add in order, 64 slots meet in a tree. Proven: 8 + log2(lanes) + 6 + groups
 *                              a slot, which takes over beyond; equal numbers, one of the cases, come close;
 *   products of jets           c <= 8: at most four terms of three roundings each, and they share S.
 * S is the same sum of absolute values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate/ops.h"

enum { POINTS = 137, WIDTH = 6, MOST_OUT = 8, MOST_LEAVES = 10 };

typedef struct leaf { /* an array that a graph reads */
  tn_value value;
  tn_dtype dtype;
  size_t rank, extent[2];
  const double *data; /* exactly representable */
} leaf;

typedef struct bench {
  tn_pool *pool;
  tn_graph *graph;
  tn_axis axis;
  size_t n_leaves, n_outputs;
  leaf leaf[MOST_LEAVES];
  tn_value output[MOST_OUT];
} bench;

static tn_status open_bench(const vd_options *o, bench *b) {
  *b = (bench){.pool = o->pool};
  TN_TRY(tn_graph_new(&b->graph));
  b->axis = tn_axis_new(b->graph, "points");
  return TN_OK;
}

/* points: [rows, width] over the points; else a fixed array of that shape. width 0: rank 1. */
static tn_value add_leaf(bench *b, tn_dtype dtype, bool points, size_t rows, size_t width,
                         const double *data) {
  leaf *l = &b->leaf[b->n_leaves++];
  *l = (leaf){.dtype = dtype, .rank = width ? 2 : 1, .extent = {rows, width}, .data = data};
  tn_shape shape = !points ? tn_shape_fixed(l->rank, l->extent)
                   : width ? tn_shape_batch(b->axis, width)
                           : tn_shape_points(b->axis);
  char name[16];
  snprintf(name, sizeof name, "leaf%zu", b->n_leaves);
  l->value = tn_input(b->graph, name, dtype, shape);
  return l->value;
}

static tn_status bind_leaf(tn_exec *exec, const leaf *l) {
  tn_buffer *buffer = NULL;
  TN_TRY(tn_buffer_new(l->dtype, l->rank, l->extent, &buffer));
  tn_status status =
      tn_convert(tn_buffer_count(buffer), TN_F64, l->data, l->dtype, tn_map(buffer, TN_WRITE));
  tn_unmap(buffer);
  if (status == TN_OK)
    status = tn_exec_bind(exec, l->value, buffer);
  tn_buffer_release(&buffer);
  return status;
}

/* Runs; output i, of count[i] numbers, into got[i]. */
static tn_status run_bench(bench *b, const size_t *count, double *const *got) {
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  tn_status status = tn_compile(b->graph, b->n_outputs, b->output, &program);
  if (status == TN_OK)
    status = tn_exec_new(program, b->pool, &exec);
  for (size_t k = 0; k < b->n_leaves && status == TN_OK; ++k)
    status = bind_leaf(exec, &b->leaf[k]);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  for (size_t i = 0; i < b->n_outputs && status == TN_OK; ++i)
    status = tn_exec_read(exec, i, count[i], got[i]);
  tn_exec_free(&exec);
  tn_program_free(&program);
  return status;
}

static tn_status new_random(const vd_options *o, const char *name, tn_dtype dtype, size_t n,
                            double **out) {
  TN_TRY(TN_NEW(n, out));
  tn_stream stream = tn_stream_of(o->seed, name);
  for (size_t i = 0; i < n; ++i)
    (*out)[i] = tn_round(dtype, 4 * tn_random_uniform(stream, i) - 2);
  return TN_OK;
}

static tn_status put_wrong(vd_report *report, const char *subject, tn_dtype dtype, int order,
                           size_t points, size_t wrong, double at) {
  vd_row row = {.method = "kernel",
                .measure = "wrong",
                .order = order,
                .points = points,
                .value = (double)wrong,
                .at = at,
                .pass = wrong == 0};
  snprintf(row.subject, sizeof row.subject, "%s", subject);
  snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(dtype));
  return vd_report_add(report, &row);
}

static bool same_bits(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static bool is_wanted(const vd_options *o, const char *name) {
  return !o->only || strcmp(o->only, name) == 0;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

typedef struct move {
  const char *name; /* of the row */
  size_t width;     /* numbers a point */
  tn_value (*build)(tn_value a, tn_value b);
  double (*expected)(const double *a, const double *b, size_t j); /* from the rows of one point */
} move;

static tn_value reshaped(tn_value a) {
  tn_shape s = {.rank = 3, .axis = {tn_shape_of(a).axis[0]}, .extent = {0, 2, 3}};
  return tn_reshape(a, s);
}
static tn_value zero_like(tn_value a) {
  return tn_fill(a.graph, tn_dtype_of(a), tn_shape_of(a), 0);
}

static tn_value build_slice(tn_value a, tn_value b) { return (void)b, tn_slice(a, 1, 2, 3); }
static tn_value build_pad(tn_value a, tn_value b) { return (void)b, tn_pad(a, 1, 1, 2); }
static tn_value build_concat(tn_value a, tn_value b) {
  const tn_value both[] = {a, b};
  return tn_concat(2, both, 1);
}
static tn_value build_stack(tn_value a, tn_value b) {
  const tn_value both[] = {a, b};
  return tn_stack(2, both);
}
static tn_value build_reshape(tn_value a, tn_value b) { return (void)b, reshaped(a); }
static tn_value build_transpose(tn_value a, tn_value b) {
  return (void)b, tn_transpose(reshaped(a), 1, 2);
}
static tn_value build_expand(tn_value a, tn_value b) { return (void)b, tn_expand(a, 2, 0, 3); }
static tn_value build_where(tn_value a, tn_value b) { return tn_where(tn_gt(a, b), a, b); }
static tn_value build_not(tn_value a, tn_value b) { return tn_where(tn_not(tn_gt(a, b)), a, b); }
static tn_value build_both(tn_value a, tn_value b) {
  return tn_where(tn_both(tn_gt(a, b), tn_gt(a, zero_like(a))), a, b);
}
static tn_value build_either(tn_value a, tn_value b) {
  return tn_where(tn_either(tn_gt(a, b), tn_gt(a, zero_like(a))), a, b);
}

static double want_slice(const double *a, const double *b, size_t j) { return (void)b, a[2 + j]; }
static double want_pad(const double *a, const double *b, size_t j) {
  return (void)b, j < 1 || j > WIDTH ? 0 : a[j - 1];
}
static double want_concat(const double *a, const double *b, size_t j) {
  return j < WIDTH ? a[j] : b[j - WIDTH];
}
static double want_stack(const double *a, const double *b, size_t j) {
  return j % 2 ? b[j / 2] : a[j / 2];
}
static double want_reshape(const double *a, const double *b, size_t j) { return (void)b, a[j]; }
static double want_transpose(const double *a, const double *b, size_t j) {
  return (void)b, a[j % 2 * 3 + j / 2];
}
static double want_expand(const double *a, const double *b, size_t j) { return (void)b, a[j / 3]; }
static double want_where(const double *a, const double *b, size_t j) {
  return a[j] > b[j] ? a[j] : b[j];
}
static double want_not(const double *a, const double *b, size_t j) {
  return a[j] > b[j] ? b[j] : a[j];
}
static double want_both(const double *a, const double *b, size_t j) {
  return a[j] > b[j] && a[j] > 0 ? a[j] : b[j];
}
static double want_either(const double *a, const double *b, size_t j) {
  return a[j] > b[j] || a[j] > 0 ? a[j] : b[j];
}

static const move moves[] = {
    {"slice", 3, build_slice, want_slice},
    {"pad", WIDTH + 3, build_pad, want_pad},
    {"concat", 2 * WIDTH, build_concat, want_concat},
    {"stack", 2 * WIDTH, build_stack, want_stack},
    {"reshape", WIDTH, build_reshape, want_reshape},
    {"transpose", WIDTH, build_transpose, want_transpose},
    {"expand", 3 * WIDTH, build_expand, want_expand},
    {"where", WIDTH, build_where, want_where},
    {"not", WIDTH, build_not, want_not},
    {"both", WIDTH, build_both, want_both},
    {"either", WIDTH, build_either, want_either},
};

static tn_status run_move(const vd_options *o, const move *m, tn_dtype dtype, const double *a,
                          const double *b, double *got) {
  bench t;
  TN_TRY(open_bench(o, &t));
  tn_value va = add_leaf(&t, dtype, true, POINTS, WIDTH, a);
  tn_value vb = add_leaf(&t, dtype, true, POINTS, WIDTH, b);
  t.output[t.n_outputs++] = m->build(va, vb);
  size_t count = POINTS * m->width;
  tn_status status = run_bench(&t, &count, &got);
  tn_graph_free(&t.graph);
  return status;
}

static tn_status audit_moves(const vd_options *o, tn_dtype dtype, vd_report *report) {
  vd_range f = vd_range_of(dtype);
  const double odd[] = {-0.0, INFINITY, -INFINITY, NAN, ldexp(1, f.lowest), -ldexp(3, f.lowest)};
  double *a = NULL, *b = NULL, *got = NULL;
  tn_status status = new_random(o, "moves a", dtype, POINTS * WIDTH, &a);
  if (status == TN_OK)
    status = new_random(o, "moves b", dtype, POINTS * WIDTH, &b);
  if (status == TN_OK)
    status = TN_NEW(POINTS * 3 * WIDTH, &got);
  for (size_t i = 0; status == TN_OK && i < POINTS * WIDTH; ++i) {
    if (i % 7 == 3)
      a[i] = odd[i / 7 % 6];
    if (i % 11 == 5)
      b[i] = odd[i / 11 % 6];
  }
  for (size_t k = 0; k < sizeof moves / sizeof *moves && status == TN_OK; ++k) {
    const move *m = moves + k;
    size_t wrong = 0, n = POINTS * m->width;
    double at = 0;
    if (!is_wanted(o, m->name))
      continue;
    status = run_move(o, m, dtype, a, b, got);
    for (size_t i = 0; i < n && status == TN_OK; ++i) {
      size_t row = i / m->width * WIDTH;
      if (!same_bits(got[i], m->expected(a + row, b + row, i % m->width)))
        ++wrong, at = (double)i;
    }
    status = status == TN_OK ? put_wrong(report, m->name, dtype, 0, n, wrong, at)
                             : vd_or_absent(o, status, m->name, dtype, report);
  }
  tn_free(&a);
  tn_free(&b);
  tn_free(&got);
  return status;
}

/* ---- Casts ----------------------------------------------------------------------------------- */

/* x rounded to a format once, by MPFR: precision and exponent range of the format. */
static double rounded(tn_dtype dtype, double x) {
  vd_range f = vd_range_of(dtype);
  mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  if (isnan(x))
    return x;
  mpfr_t y;
  mpfr_init2(y, f.digits);
  mpfr_set_emin(f.lowest + 1);
  mpfr_set_emax(f.top);
  int inexact = mpfr_set_d(y, x, MPFR_RNDN);
  inexact = mpfr_check_range(y, inexact, MPFR_RNDN);
  mpfr_subnormalize(y, inexact, MPFR_RNDN);
  x = mpfr_get_d(y, MPFR_RNDN);
  mpfr_clear(y);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return x;
}

/* Numbers of `from` at, and a little beside, ties of `to`, over the range of `to` and somewhat beyond. */
static void fill_ties(const vd_options *o, tn_dtype from, tn_dtype to, size_t n, double *x) {
  vd_range f = vd_range_of(to);
  tn_stream stream = tn_stream_of(o->seed, "ties");
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = tn_random_bits(stream, i);
    int e = f.lowest - 2 + (int)(bits % (uint64_t)(f.top - f.lowest + 4));
    int digits = e + 1 - f.lowest < f.digits ? e + 1 - f.lowest : f.digits; /* fewer if subnormal */
    double unit = ldexp(1, digits > 0 ? e + 1 - digits : f.lowest);
    double whole = ldexp(1, e) + unit * floor(ldexp((double)(bits >> 40), digits - 25));
    double beside[] = {0,   0.25, 0.5, 0.5 + 0x1p-9, 0.5 - 0x1p-9, 0.5 + 0x1p-30, 0.5 - 0x1p-30,
                       0.75};
    double y = whole + unit * beside[bits >> 32 & 7];
    x[i] = tn_round(from, bits >> 35 & 1 ? -y : y);
  }
}

static tn_status audit_casts(const vd_options *o, tn_dtype to, vd_report *report) {
  enum { CASTS = 4096 };
  double *x = NULL, *got = NULL, at = 0;
  size_t wrong = 0, points = 0, count = CASTS;
  if (!is_wanted(o, "cast"))
    return TN_OK;
  tn_status status = TN_NEW(CASTS, &x);
  if (status == TN_OK)
    status = TN_NEW(CASTS, &got);
  for (int d = 0; d < VD_FORMATS && status == TN_OK; ++d) {
    bench t;
    fill_ties(o, vd_formats[d], to, CASTS, x);
    status = open_bench(o, &t);
    if (status != TN_OK)
      break;
    t.output[t.n_outputs++] = tn_cast(add_leaf(&t, vd_formats[d], true, CASTS, 0, x), to);
    status = run_bench(&t, &count, &got);
    tn_graph_free(&t.graph);
    for (size_t i = 0; i < CASTS && status == TN_OK; ++i)
      if (!same_bits(got[i], rounded(to, x[i])))
        ++wrong, at = x[i];
    points += CASTS;
  }
  tn_free(&x);
  tn_free(&got);
  return status == TN_OK ? put_wrong(report, "cast", to, 0, points, wrong, at) : status;
}

/* ---- Sums and products ----------------------------------------------------------------------- */

/* Errors of sums of products: exact sum and scale grow term by term. */
typedef struct sum {
  mpfr_t value, term;
  double scale;
} sum;

/* a b k added; 128 bits hold any product, and a sum to 2^-75 of its scale. */
static void add_term(sum *s, double a, double b, double k) {
  mpfr_set_d(s->term, a, MPFR_RNDN);
  mpfr_mul_d(s->term, s->term, b, MPFR_RNDN);
  mpfr_mul_d(s->term, s->term, k, MPFR_RNDN);
  mpfr_add(s->value, s->value, s->term, MPFR_RNDN);
  s->scale += fabs(a) * fabs(b) * k;
}

static void restart(sum *s) {
  mpfr_set_zero(s->value, 1);
  s->scale = 0;
}

static vd_promise bound_of(tn_dtype dtype, double c) {
  return (vd_promise){
      .dtype = dtype, .one_rounding = tn_dtype_compute(dtype) != dtype, .c = c, .margin = 0.001};
}

static tn_status put_cell(vd_report *report, const vd_cell *cell, const vd_promise *promise,
                          const char *subject, int order) {
  vd_row row = vd_cell_row(cell, promise, subject, "kernel", order);
  return vd_report_add(report, &row);
}

/* Sums of n random (kind 0), positive (1) and equal (2) numbers. */
static tn_status audit_sum(const vd_options *o, tn_dtype dtype, size_t n, vd_report *report) {
  vd_promise promise = bound_of(dtype, log2((double)n) + 2);
  vd_cell cell = {0};
  double *x = NULL;
  sum s;
  TN_TRY(new_random(o, "sum", dtype, n, &x));
  mpfr_inits2(128, s.value, s.term, (mpfr_ptr)0);
  tn_status status = TN_OK;
  for (int kind = 0; kind < 3 && status == TN_OK; ++kind) {
    double got = 0, *to = &got;
    size_t count = 1;
    bench t;
    for (size_t i = 0; i < n; ++i)
      x[i] = kind == 2 ? tn_round(dtype, 1.0 / 3) : kind ? fabs(x[i]) : x[i];
    status = open_bench(o, &t);
    if (status != TN_OK)
      break;
    t.output[t.n_outputs++] = tn_sum(add_leaf(&t, dtype, true, n, 0, x), 0);
    status = run_bench(&t, &count, &to);
    tn_graph_free(&t.graph);
    restart(&s);
    for (size_t i = 0; i < n; ++i)
      add_term(&s, x[i], 1, 1);
    vd_cell_add(&cell, &promise, got, s.value, s.scale, (double)kind);
  }
  mpfr_clears(s.value, s.term, (mpfr_ptr)0);
  tn_free(&x);
  char name[48];
  snprintf(name, sizeof name, "sum of %zu", n);
  return status == TN_OK ? put_cell(report, &cell, &promise, name, 0) : status;
}

/* One dot product in a row of results: c of all, and the share beyond 4 sqrt(K). */
typedef struct dots {
  vd_cell cell;
  size_t beyond;
} dots;

static void add_dot(dots *d, const vd_promise *p, double length, double got, const sum *s,
                    double at) {
  vd_cell one = {0};
  vd_cell_add(&one, p, got, s->value, s->scale, at);
  d->beyond += one.c > 4 * sqrt(length);
  vd_cell_add(&d->cell, p, got, s->value, s->scale, at);
}

static tn_status put_dots(vd_report *report, const dots *d, const vd_promise *p, const char *name,
                          int order) {
  vd_row row = vd_cell_row(&d->cell, p, name, "kernel", order);
  if (row.pass && (double)d->beyond > 0.001 * (double)d->cell.points) {
    row.pass = false;
    row.value = (double)d->beyond;
    row.bound = 0.001 * (double)d->cell.points;
    snprintf(row.measure, sizeof row.measure, "4 sqrt(K)");
  }
  return vd_report_add(report, &row);
}

enum { CHANNELS = VD_ORDERS, OUT = 24 };

/* Channels times a [k, OUT] matrix, with a bias on the value. */
static tn_status audit_lin(const vd_options *o, tn_dtype dtype, size_t k, vd_report *report) {
  enum { ROWS = 45 };
  double *x = NULL, *w = NULL, *got = NULL, *to[CHANNELS];
  size_t count[CHANNELS];
  vd_promise promise = bound_of(dtype, (double)k);
  bench t;
  sum s;
  tn_status status = new_random(o, "lin x", dtype, CHANNELS * ROWS * k, &x);
  if (status == TN_OK)
    status = new_random(o, "lin w", dtype, (k + 1) * OUT, &w);
  if (status == TN_OK)
    status = TN_NEW(CHANNELS * ROWS * OUT, &got);
  if (status == TN_OK)
    status = open_bench(o, &t);
  if (status == TN_OK) {
    tn_jet h = {.table = vd_derivatives_table(t.graph, CHANNELS - 1)}, y;
    for (size_t c = 0; c < CHANNELS; ++c) {
      h.channel[c] = add_leaf(&t, dtype, true, ROWS, k, x + c * ROWS * k);
      to[c] = got + c * ROWS * OUT;
      count[c] = (size_t)ROWS * OUT;
    }
    tn_value matrix = add_leaf(&t, dtype, false, k, OUT, w);
    status = tn_jet_lin(&h, matrix, add_leaf(&t, dtype, false, OUT, 0, w + k * OUT), false, &y);
    memcpy(t.output, y.channel, sizeof *t.output * CHANNELS);
    t.n_outputs = CHANNELS;
    if (status == TN_OK)
      status = run_bench(&t, count, to);
    tn_graph_free(&t.graph);
  }
  mpfr_inits2(128, s.value, s.term, (mpfr_ptr)0);
  for (size_t c = (size_t)o->min_order; c < CHANNELS && status == TN_OK; ++c) {
    dots d = {0};
    for (size_t i = 0; i < (size_t)ROWS * OUT; ++i) {
      const double *row = x + (c * ROWS + i / OUT) * k;
      restart(&s);
      if (c == 0)
        add_term(&s, w[k * OUT + i % OUT], 1, 1);
      for (size_t j = 0; j < k; ++j)
        add_term(&s, row[j], w[j * OUT + i % OUT], 1);
      add_dot(&d, &promise, (double)k, got[c * ROWS * OUT + i], &s, (double)i);
    }
    char name[48];
    snprintf(name, sizeof name, "jet_lin of %zu", k);
    if ((int)c <= o->max_order)
      status = put_dots(report, &d, &promise, name, (int)c);
  }
  mpfr_clears(s.value, s.term, (mpfr_ptr)0);
  tn_free(&x);
  tn_free(&w);
  tn_free(&got);
  return status;
}

/* Sum over n points and two pairs of outer(h, z). */
static tn_status audit_outer(const vd_options *o, tn_dtype dtype, size_t n, vd_report *report) {
  enum { PAIRS = 2, HEIGHT = 20 };
  double *h = NULL, *z = NULL, got[HEIGHT * OUT], *to = got;
  size_t count = HEIGHT * OUT;
  vd_promise promise = bound_of(dtype, (double)(PAIRS * n));
  dots d = {0};
  bench t;
  sum s;
  tn_status status = new_random(o, "outer h", dtype, PAIRS * n * HEIGHT, &h);
  if (status == TN_OK)
    status = new_random(o, "outer z", dtype, PAIRS * n * OUT, &z);
  if (status == TN_OK)
    status = open_bench(o, &t);
  if (status == TN_OK) {
    tn_value hs[PAIRS], zs[PAIRS];
    for (size_t q = 0; q < PAIRS; ++q) {
      hs[q] = add_leaf(&t, dtype, true, n, HEIGHT, h + q * n * HEIGHT);
      zs[q] = add_leaf(&t, dtype, true, n, OUT, z + q * n * OUT);
    }
    t.output[t.n_outputs++] = tn_jet_outer(PAIRS, zs, hs);
    status = run_bench(&t, &count, &to);
    tn_graph_free(&t.graph);
  }
  mpfr_inits2(128, s.value, s.term, (mpfr_ptr)0);
  for (size_t i = 0; i < count && status == TN_OK; ++i) {
    restart(&s);
    for (size_t p = 0; p < PAIRS * n; ++p)
      add_term(&s, h[p * HEIGHT + i / OUT], z[p * OUT + i % OUT], 1);
    add_dot(&d, &promise, (double)(PAIRS * n), got[i], &s, (double)i);
  }
  mpfr_clears(s.value, s.term, (mpfr_ptr)0);
  tn_free(&h);
  tn_free(&z);
  char name[48];
  snprintf(name, sizeof name, "jet_outer of %zu", PAIRS * n);
  return status == TN_OK ? put_dots(report, &d, &promise, name, 0) : status;
}

/* ---- Products of jets ------------------------------------------------------------------------ */

/* y = a b, and z = the adjoint of b -> w b at ybar, in the algebra of derivatives. */
static tn_status audit_jet_products(const vd_options *o, tn_dtype dtype, vd_report *report) {
  double *x = NULL, *got = NULL, *to[2 * CHANNELS];
  size_t n = o->points < 2000 ? o->points : 2000, count[2 * CHANNELS];
  const bool wanted[CHANNELS] = {true, true, true, true};
  vd_promise promise = bound_of(dtype, 8);
  bench t;
  sum s;
  tn_status status = new_random(o, "jet products", dtype, 2 * CHANNELS * n, &x);
  if (status == TN_OK)
    status = TN_NEW(2 * CHANNELS * n, &got);
  if (status == TN_OK)
    status = open_bench(o, &t);
  if (status == TN_OK) {
    tn_jet a = {.table = vd_derivatives_table(t.graph, CHANNELS - 1)}, b = a, y, z;
    for (size_t c = 0; c < CHANNELS; ++c) {
      a.channel[c] = add_leaf(&t, dtype, true, n, 0, x + c * n);
      b.channel[c] = add_leaf(&t, dtype, true, n, 0, x + (CHANNELS + c) * n);
    }
    status = tn_jet_mul(&a, &b, &y);
    if (status == TN_OK)
      status = tn_jet_mulT(&a, &b, wanted, &z);
    for (size_t c = 0; c < 2 * CHANNELS && status == TN_OK; ++c) {
      t.output[t.n_outputs++] = c < CHANNELS ? y.channel[c] : z.channel[c - CHANNELS];
      to[c] = got + c * n;
      count[c] = n;
    }
    if (status == TN_OK)
      status = run_bench(&t, count, to);
    tn_graph_free(&t.graph);
  }
  static const double binomial[4][4] = {{1}, {1, 1}, {1, 2, 1}, {1, 3, 3, 1}};
  mpfr_inits2(128, s.value, s.term, (mpfr_ptr)0);
  for (size_t c = 0; c < 2 * CHANNELS && status == TN_OK; ++c) {
    bool adjoint = c >= CHANNELS;
    size_t m = c % CHANNELS;
    vd_cell cell = {0};
    for (size_t i = 0; i < n; ++i) {
      restart(&s);
      for (size_t q = adjoint ? m : 0; q < (adjoint ? CHANNELS : m + 1); ++q) {
        size_t first = adjoint ? q - m : q, second = adjoint ? q : m - q;
        add_term(&s, x[first * n + i], x[(CHANNELS + second) * n + i],
                 binomial[adjoint ? q : m][first]);
      }
      vd_cell_add(&cell, &promise, got[c * n + i], s.value, s.scale, (double)i);
    }
    if ((int)m >= o->min_order && (int)m <= o->max_order)
      status = put_cell(report, &cell, &promise, adjoint ? "jet_mulT" : "jet_mul", (int)m);
  }
  mpfr_clears(s.value, s.term, (mpfr_ptr)0);
  tn_free(&x);
  tn_free(&got);
  return status;
}

static tn_status audit_sums(const vd_options *o, tn_dtype dtype, vd_report *report) {
  static const size_t sums[] = {1, 7, 1000, 20000, 200000}, points[] = {1, 70, 700};
  for (size_t i = 0; i < sizeof sums / sizeof *sums && is_wanted(o, "sum"); ++i)
    if (sums[i] <= 200 * o->points || i < 3) /* long ones for long audits */
      TN_TRY(vd_or_absent(o, audit_sum(o, dtype, sums[i], report), "sum", dtype, report));
  for (size_t i = 0; i < sizeof points / sizeof *points && is_wanted(o, "jet_outer"); ++i)
    TN_TRY(vd_or_absent(o, audit_outer(o, dtype, points[i], report), "jet_outer", dtype, report));
  return TN_OK;
}

tn_status vd_audit_structure(const vd_options *o, tn_dtype dtype, vd_report *report) {
  static const size_t lengths[] = {1, 2, 3, 16, 64, 257};
  if (o->min_order == 0) {
    TN_TRY(audit_moves(o, dtype, report));
    TN_TRY(vd_or_absent(o, audit_casts(o, dtype, report), "cast", dtype, report));
    TN_TRY(audit_sums(o, dtype, report));
  }
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths && is_wanted(o, "jet_lin"); ++i)
    TN_TRY(vd_or_absent(o, audit_lin(o, dtype, lengths[i], report), "jet_lin", dtype, report));
  if (is_wanted(o, "jet_mul") || is_wanted(o, "jet_mulT"))
    TN_TRY(vd_or_absent(o, audit_jet_products(o, dtype, report), "jet_mul", dtype, report));
  return TN_OK;
}
