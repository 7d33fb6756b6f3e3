/* test_summation.c: the promised order of sums over points, to the bit.
 *
 * The order of summation is promised, so this file writes it down a second time in plain scalar code, from the text
 * and not from the kernels, and compares bits:
 *   lanes   panels of L points (64 bytes), lane l sums its points over the panels of a group, ascending, from 0;
 *           lanes beyond the last point keep what they hold; lane i then takes lane i + L/2, i + L/4, ..., i + 1
 *   groups  of 8 panels, added to the slot's sum in order, from 0
 *   slots   G = the largest power of two <= min(64, groups, 32 MiB / 8 P), group g belongs to slot s with
 *           s groups / G <= g < (s + 1) groups / G (whole numbers), P the elements of the program's parameters
 *   tree    slot s takes slot s + 1, then s + 2, s + 4, ... (s a multiple of twice the distance)
 * A weight gradient does the same with fused multiply-adds, pair after pair of each panel; or, if k >= 16 and n is
 * a multiple of L, point after point of a slot, per point pair after pair.
 */
#include "tests/support_exec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double plus(tn_dtype dtype, double a, double b) {
  return dtype == TN_F32 ? (double)((float)a + (float)b) : a + b;
}
static double fused(tn_dtype dtype, double a, double b, double c) {
  return dtype == TN_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

typedef struct cut { /* of points into slots of groups */
  tn_dtype dtype;
  size_t points, lanes, groups, slots;
} cut;

static cut cut_of(tn_dtype dtype, size_t points, size_t parameters) {
  cut c = {dtype, points, dtype == TN_F32 ? 16 : 8, 0, 1};
  size_t panels = (points + c.lanes - 1) / c.lanes, most = 64;
  c.groups = (panels + 7) / 8;
  if (parameters && ((size_t)32 << 20) / (8 * parameters) < most)
    most = ((size_t)32 << 20) / (8 * parameters);
  while (2 * c.slots <= c.groups && 2 * c.slots <= most)
    c.slots *= 2;
  return c;
}

/* The factors of pair q at a point: sum += a b; a plain sum has b = NULL and adds. */
typedef struct term {
  const double *a, *b;
  size_t a_step, b_step;
} term;

static double lane_group(const cut *c, size_t group, size_t n, const term *t) {
  double lane[16] = {0};
  for (size_t panel = 8 * group; panel < 8 * group + 8; ++panel)
    for (size_t q = 0; q < n; ++q)
      for (size_t l = 0; l < c->lanes; ++l) {
        size_t i = panel * c->lanes + l;
        if (i >= c->points)
          continue;
        double a = t[q].a[i * t[q].a_step];
        lane[l] = t[q].b ? fused(c->dtype, a, t[q].b[i * t[q].b_step], lane[l])
                         : plus(c->dtype, lane[l], a);
      }
  for (size_t half = c->lanes / 2; half; half /= 2)
    for (size_t l = 0; l < half; ++l)
      lane[l] = plus(c->dtype, lane[l], lane[l + half]);
  return lane[0];
}

static double ordered(const cut *c, bool by_points, size_t n, const term *t) {
  double slot[64] = {0};
  for (size_t s = 0; s < c->slots; ++s)
    for (size_t g = s * c->groups / c->slots; g < (s + 1) * c->groups / c->slots; ++g) {
      if (!by_points) {
        slot[s] = plus(c->dtype, slot[s], lane_group(c, g, n, t));
        continue;
      }
      for (size_t i = g * 8 * c->lanes; i < (g + 1) * 8 * c->lanes && i < c->points; ++i)
        for (size_t q = 0; q < n; ++q)
          slot[s] = fused(c->dtype, t[q].a[i * t[q].a_step], t[q].b[i * t[q].b_step], slot[s]);
    }
  for (size_t step = 1; step < c->slots; step *= 2)
    for (size_t s = 0; s < c->slots; s += 2 * step)
      slot[s] = plus(c->dtype, slot[s], slot[s + step]);
  return slot[0];
}

static const size_t many[] = {1, 7, 8, 9, 63, 64, 65, 128, 129, 191, 513, 1000, 4095, 8193, 20000};
enum { N_MANY = sizeof many / sizeof *many };

static void check_sum(tn_dtype dtype, size_t parameters) {
  enum { W = 11 };
  bench b;
  bench_open(&b, dtype);
  tn_value x = tn_input(b.graph, "x", dtype, tn_shape_batch(b.axis, W)),
           outputs[2] = {tn_sum(x, 0)};
  size_t n_outputs = 1;
  tn_value theta = {0};
  if (parameters) {
    theta = tn_parameter(b.graph, "theta", dtype, tn_shape_fixed(1, &parameters));
    outputs[n_outputs++] = tn_slice(theta, 0, 0, 1);
  }
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, n_outputs, outputs, &program));
  good(tn_exec_new(program, NULL, &exec));
  if (parameters) {
    tn_buffer *zero = NULL;
    good(tn_buffer_new(dtype, 1, &parameters, &zero));
    good(tn_exec_bind(exec, theta, zero));
    tn_buffer_release(&zero);
  }
  double *data = draw("x", many[N_MANY - 1] * W), got[W], want[W];
  for (size_t s = 0; s < N_MANY; ++s) {
    size_t points = many[s];
    cut c = cut_of(dtype, points, parameters);
    give(exec, x, 2, (size_t[]){points, W}, data);
    good(tn_exec_run(exec));
    good(tn_exec_read(exec, 0, W, got));
    for (size_t j = 0; j < W; ++j)
      want[j] = ordered(&c, false, 1, &(term){data + j, NULL, W, 0});
    same_bits(got, want, W, "sum", points);
  }
  free(data);
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}
static void sum_has_its_promised_order(void **state) {
  (void)state;
  check_sum(TN_F64, 0);
  check_sum(TN_F32, 0);
  check_sum(TN_F64, (size_t)1 << 20); /* 32 MiB / 8 MiB = 4 slots at most */
  check_sum(TN_F32, (size_t)3 << 18); /* 5.3: 4 */
}

static void check_outer(tn_dtype dtype, size_t pairs, size_t k, size_t n, bool by_points) {
  bench b;
  bench_open(&b, dtype);
  tn_value z[4], h[4];
  double *zs[4], *hs[4];
  const size_t most = 4095;
  for (size_t q = 0; q < pairs; ++q) {
    char name[32];
    snprintf(name, sizeof name, "z%zu", q);
    z[q] = tn_input(b.graph, name, dtype, tn_shape_batch(b.axis, n));
    zs[q] = draw(name, most * n);
    name[0] = 'h';
    h[q] = tn_input(b.graph, name, dtype, tn_shape_batch(b.axis, k));
    hs[q] = draw(name, most * k);
  }
  tn_value outer = tn_jet_outer(pairs, z, h);
  tn_program *program = NULL;
  tn_exec *exec = NULL;
  good(tn_compile(b.graph, 1, &outer, &program));
  good(tn_exec_new(program, NULL, &exec));
  double *got = malloc(k * n * sizeof *got), *want = malloc(k * n * sizeof *want);
  for (size_t s = 0; s < N_MANY && many[s] <= most; ++s) {
    size_t points = many[s];
    cut c = cut_of(dtype, points, 0);
    for (size_t q = 0; q < pairs; ++q) {
      give(exec, z[q], 2, (size_t[]){points, n}, zs[q]);
      give(exec, h[q], 2, (size_t[]){points, k}, hs[q]);
    }
    good(tn_exec_run(exec));
    good(tn_exec_read(exec, 0, k * n, got));
    for (size_t i = 0; i < k; ++i)
      for (size_t j = 0; j < n; ++j) {
        term t[4];
        for (size_t q = 0; q < pairs; ++q)
          t[q] = (term){hs[q] + i, zs[q] + j, k, n};
        want[i * n + j] = ordered(&c, by_points, pairs, t);
      }
    same_bits(got, want, k * n, by_points ? "outer by points" : "outer by lanes", points);
  }
  free(got);
  free(want);
  for (size_t q = 0; q < pairs; ++q) {
    free(zs[q]);
    free(hs[q]);
  }
  tn_exec_free(&exec);
  tn_program_free(&program);
  bench_close(&b);
}
static void outer_has_its_promised_order(void **state) {
  (void)state;
  for (int f32 = 0; f32 < 2; ++f32) {
    tn_dtype dtype = f32 ? TN_F32 : TN_F64;
    check_outer(dtype, 1, 3, 2, false);
    check_outer(dtype, 3, 5, 7, false);
    check_outer(dtype, 2, 15, 16, false); /* k < 16 */
    check_outer(dtype, 1, 16, 47, false); /* ragged */
    check_outer(dtype, 3, 16, 16, true);
    check_outer(dtype, 1, 17, 64, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sum_has_its_promised_order),
                                     cmocka_unit_test(outer_has_its_promised_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
