/* dispatch.c: which instance of the kernels this process uses.
 *
 * The kernel sources are compiled for the baseline of the architecture (on AArch64 that has vectors and FMA)
 * and, on x86-64, once more for x86-64-v3 (AVX2, FMA; 32-byte vectors) and x86-64-v4 (AVX-512; 64-byte
 * vectors). All give the same bits, so the choice is one of speed alone: the highest level that the CPU and
 * the operating system support. It is made once; TN_ISA=base, v3 or v4 in the environment forces a level,
 * and a name that this build or CPU does not have is ignored here (a program may refuse it: tn_isa_levels).
 */
#include "tensor/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define BASELINE "baseline"
#elif defined(__aarch64__)
#define BASELINE "aarch64"
#else
#define BASELINE "baseline"
#endif

extern const tn_kernels tn_kernels_f64_base, tn_kernels_f32_base;

static bool has_base(void) { return true; }
#ifdef TN_HAVE_V3
extern const tn_kernels tn_kernels_f64_v3, tn_kernels_f32_v3;
static bool has_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#endif
#ifdef TN_HAVE_V4
extern const tn_kernels tn_kernels_f64_v4, tn_kernels_f32_v4;
static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

typedef struct {
  const char *name; /* in TN_ISA */
  const char *isa;  /* what tn_isa says */
  const char *upto; /* names of this level and those below */
  bool (*here)(void);
  const tn_kernels *f64, *f32;
} level;

static const level levels[] = { /* ascending: a CPU that has one has all before it */
    {"base", BASELINE, "base", has_base, &tn_kernels_f64_base, &tn_kernels_f32_base},
#ifdef TN_HAVE_V3
    {"v3", "x86-64-v3", "base, v3", has_v3, &tn_kernels_f64_v3, &tn_kernels_f32_v3},
#endif
#ifdef TN_HAVE_V4
    {"v4", "x86-64-v4", "base, v3, v4", has_v4, &tn_kernels_f64_v4, &tn_kernels_f32_v4},
#endif
};
enum { LEVELS = sizeof levels / sizeof *levels };

static size_t count_here(void) {
  size_t count = 0;
  while (count < LEVELS && levels[count].here()) ++count;
  return count;
}

static const level *find(const char *name) {
  for (size_t i = 0, here = count_here(); i < here; ++i)
    if (strcmp(levels[i].name, name) == 0) return &levels[i];
  return NULL;
}

static const level *level_in_use(void) {
  static _Atomic(const level *) settled; /* every thread would settle the same */
  const level *now = atomic_load_explicit(&settled, memory_order_relaxed);
  if (!now) {
    const char *wish = getenv("TN_ISA");
    now = wish ? find(wish) : NULL;
    if (!now) now = &levels[count_here() - 1];
    atomic_store_explicit(&settled, now, memory_order_relaxed);
  }
  return now;
}

static const tn_kernels *table(tn_dtype dtype, const level *at) {
  if (!at || !tn_dtype_is_float(dtype)) return NULL;
  return dtype == TN_F64 ? at->f64 : at->f32;
}

const tn_kernels *tn_kernels_of(tn_dtype dtype) { return table(dtype, level_in_use()); }

const tn_kernels *tn_kernels_at(tn_dtype dtype, const char *name) { return table(dtype, find(name)); }

const char *tn_isa(void) { return level_in_use()->isa; }

const char *tn_isa_levels(void) { return levels[count_here() - 1].upto; }

/* By points costs transpositions of z, which pay from some rows on; columns that do not fill whole lane
 * vectors would be idle work. By lanes costs the folds, and rereads both operands. */
bool tn_outer_by_points(tn_dtype dtype, size_t k, size_t n) {
  size_t lanes = TN_LANE_BYTES / (dtype == TN_F64 ? sizeof(double) : sizeof(float));
  return k >= 16 && n >= lanes && n % lanes == 0;
}
