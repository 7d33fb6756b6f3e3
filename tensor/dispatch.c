/* dispatch.c: which instance of the kernels this process uses.
 *
 * The kernel sources are compiled for the baseline of the architecture and, on x86-64, for x86-64-v3 (AVX2,
 * FMA); both give the same bits, so the choice is one of speed alone. It is made once, from what the CPU
 * and the operating system support; TN_ISA=base (or v3) in the environment forces a lower level, and names
 * that this build or CPU does not have are ignored.
 */
#include "tensor/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const tn_kernels tn_kernels_f64_base, tn_kernels_f32_base;
#ifdef TN_HAVE_V3
extern const tn_kernels tn_kernels_f64_v3, tn_kernels_f32_v3;
#endif

typedef enum { UNSETTLED, BASE, V3 } level;

static bool has_v3(void) {
#ifdef TN_HAVE_V3
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

static level level_in_use(void) {
  static _Atomic int settled; /* UNSETTLED at first; every thread would settle the same */
  int now = atomic_load_explicit(&settled, memory_order_relaxed);
  if (now == UNSETTLED) {
    const char *wish = getenv("TN_ISA");
    now = has_v3() && !(wish && strcmp(wish, "base") == 0) ? V3 : BASE;
    atomic_store_explicit(&settled, now, memory_order_relaxed);
  }
  return (level)now;
}

static const tn_kernels *table(tn_dtype dtype, level which) {
  if (dtype != TN_F64 && dtype != TN_F32) return NULL;
#ifdef TN_HAVE_V3
  if (which == V3) return dtype == TN_F64 ? &tn_kernels_f64_v3 : &tn_kernels_f32_v3;
#else
  (void)which;
#endif
  return dtype == TN_F64 ? &tn_kernels_f64_base : &tn_kernels_f32_base;
}

const tn_kernels *tn_kernels_of(tn_dtype dtype) { return table(dtype, level_in_use()); }

const tn_kernels *tn_kernels_at(tn_dtype dtype, const char *name) {
  if (strcmp(name, "base") == 0) return table(dtype, BASE);
  if (strcmp(name, "v3") == 0 && has_v3()) return table(dtype, V3);
  return NULL;
}

const char *tn_isa(void) {
#if defined(__x86_64__)
  return level_in_use() == V3 ? "x86-64-v3" : "baseline";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "baseline";
#endif
}

/* The transposition and the few chains of a narrow matrix cost more than the folds they save. */
bool tn_outer_by_points(tn_dtype dtype, size_t k, size_t n) {
  size_t lanes = TN_LANE_BYTES / (dtype == TN_F32 ? sizeof(float) : sizeof(double));
  return k >= 4 && n >= 48 && n % lanes == 0;
}
