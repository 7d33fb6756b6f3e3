/* shim.h: what a kernel text finds on the emulated device; the host's C++ compiler reads it before
 * the text.
 *
 * Words of CUDA C++ become plain C++. A thread of a block is a fiber (fibers.c), and threads take
 * turns: one runs until it waits at a barrier or ends, so a plain `+=` is atomic here, and built-in
 * variables are fields of one record that the scheduler sets before it resumes a fiber. Shared
 * memory is static memory in a section of its own, which the scheduler fills with 0xFF (NaN in
 * every format) before each block, so reading what nobody wrote shows.
 *
 * No header of the host is included: that would double the time of compiling a small kernel.
 */
#ifndef EMULATED_SHIM_H
#define EMULATED_SHIM_H
#define EMULATED_DEVICE 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static __attribute__((section("emulated_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define __grid_constant__
#define GPU_SHARED(type, name) type *name = (type *)emulated_now->shared

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

/* Shared with fibers.c: struct emulated_threads there has the same members in the same order. */
struct emulated_threads {
  uint3 thread, block;
  dim3 block_extent, grid_extent;
  void *shared;                            /* dynamic shared memory of the block */
  int (*barrier)(int predicate, int mode); /* mode: 0 count, 1 and, 2 or */
  void (*warp)(unsigned mask);
  /* `out` gets what lane `from` of the warp put in; a lane outside the mask: the caller's own. */
  void (*exchange)(unsigned mask, const void *in, unsigned bytes, unsigned from, void *out);
  unsigned (*ballot)(unsigned mask, int predicate);
  unsigned (*active)(void);
  void (*trap)(void);
};
static emulated_threads *emulated_now;
extern "C" __attribute__((visibility("default"))) void emulated_attach(emulated_threads *threads) {
  emulated_now = threads;
}
extern "C" {
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
__attribute__((visibility("default"))) void emulated_shared_range(char **first, char **last) {
  *first = __start_emulated_shared;
  *last = __stop_emulated_shared;
}
}

#define threadIdx (emulated_now->thread)
#define blockIdx (emulated_now->block)
#define blockDim (emulated_now->block_extent)
#define gridDim (emulated_now->grid_extent)
static const int warpSize = 32;

/* ---- Calling a kernel with the driver's array of pointers to arguments ----------------------- */
template <class T, T... I> struct emulated_integers {};
#if defined __clang__
template <unsigned long N>
using emulated_indices = __make_integer_seq<emulated_integers, unsigned long, N>;
#else
template <unsigned long N>
using emulated_indices = emulated_integers<unsigned long, __integer_pack(N)...>;
#endif
template <class... A, unsigned long... I>
static inline void emulated_call_by(void (*kernel)(A...), void **arguments,
                                    emulated_integers<unsigned long, I...>) {
  kernel(*(A *)arguments[I]...);
}
template <class... A> static inline void emulated_call(void (*kernel)(A...), void **arguments) {
  emulated_call_by(kernel, arguments, emulated_indices<sizeof...(A)>());
}
/* The sizes of the arguments, and how many there are. */
template <class... A> static inline unsigned emulated_sizes(void (*)(A...), unsigned *bytes) {
  const unsigned size[] = {sizeof(A)..., 0u};
  for (unsigned i = 0; i < sizeof...(A); ++i)
    bytes[i] = size[i];
  return sizeof...(A);
}

/* ---- Barriers, warps, atomics ---------------------------------------------------------------- */
static inline void __syncthreads() { emulated_now->barrier(0, 0); }
static inline int __syncthreads_count(int p) { return emulated_now->barrier(p, 0); }
static inline int __syncthreads_and(int p) { return emulated_now->barrier(p, 1); }
static inline int __syncthreads_or(int p) { return emulated_now->barrier(p, 2); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated_now->warp(mask); }
static inline unsigned __activemask() { return emulated_now->active(); }
static inline unsigned __ballot_sync(unsigned mask, int p) { return emulated_now->ballot(mask, p); }
static inline int __any_sync(unsigned mask, int p) { return emulated_now->ballot(mask, p) != 0; }
static inline int __all_sync(unsigned mask, int p) { return emulated_now->ballot(mask, !p) == 0; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __trap() { emulated_now->trap(); }
static inline void __nanosleep(unsigned) {}

static inline unsigned emulated_lane() {
  const emulated_threads *t = emulated_now;
  return ((t->thread.z * t->block_extent.y + t->thread.y) * t->block_extent.x + t->thread.x) & 31u;
}
template <class T> static inline T emulated_exchange(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  T out;
  emulated_now->exchange(mask, &value, sizeof value, from, &out);
  return out;
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  unsigned lane = emulated_lane(), segment = lane & ~(unsigned)(width - 1);
  return emulated_exchange(mask, value, segment + ((unsigned)from & (unsigned)(width - 1)));
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned lane = emulated_lane(), end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
  return emulated_exchange(mask, value, lane + by < end ? lane + by : lane);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned lane = emulated_lane(), first = lane & ~(unsigned)(width - 1);
  return emulated_exchange(mask, value, lane >= first + by ? lane - by : lane);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
  unsigned lane = emulated_lane(), end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
  unsigned from = lane ^ (unsigned)by;
  return emulated_exchange(mask, value, from < end ? from : lane);
}

template <class T> struct emulated_same { typedef T type; };
#define EMULATED_ATOMIC(name, expression)                                                          \
  template <class T> static inline T name(T *at, typename emulated_same<T>::type value) {          \
    T old = *at;                                                                                   \
    *at = (expression);                                                                            \
    return old;                                                                                    \
  }
EMULATED_ATOMIC(atomicAdd, (T)(old + value))
EMULATED_ATOMIC(atomicSub, (T)(old - value))
EMULATED_ATOMIC(atomicMax, old < value ? value : old)
EMULATED_ATOMIC(atomicMin, value < old ? value : old)
EMULATED_ATOMIC(atomicExch, value)
EMULATED_ATOMIC(atomicOr, (T)(old | value))
EMULATED_ATOMIC(atomicAnd, (T)(old &value))
EMULATED_ATOMIC(atomicXor, (T)(old ^ value))
#undef EMULATED_ATOMIC
template <class T>
static inline T atomicCAS(T *at, typename emulated_same<T>::type expected,
                          typename emulated_same<T>::type value) {
  T old = *at;
  if (old == expected)
    *at = value;
  return old;
}
template <class T> static inline T __ldg(const T *at) { return *at; }
template <class T> static inline T __ldcg(const T *at) { return *at; }
template <class T> static inline T __ldcs(const T *at) { return *at; }
template <class T> static inline void __stcs(T *at, T value) { *at = value; }
template <class T> static inline void __stcg(T *at, T value) { *at = value; }

/* ---- Bits ------------------------------------------------------------------------------------ */
template <class To, class From> static inline To emulated_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
static inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulated_bits<double>(x); }
static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
static inline double __hiloint2double(int high, int low) {
  return emulated_bits<double>(((unsigned long long)(unsigned)high << 32) | (unsigned)low);
}
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i)
    y |= (x >> i & 1u) << (31 - i);
  return y;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __double2float_rn(double a) { return (float)a; }
static inline double __int2double_rn(int a) { return a; }
static inline int __double2int_rn(double a) { return (int)__builtin_rint(a); }

/* The C library's functions: as declared by the host, and once more for float under the name for
 * double. */
#define EMULATED_MATH1(name)                                                                       \
  extern "C" double name(double) noexcept;                                                         \
  extern "C" float name##f(float) noexcept;                                                        \
  static inline float name(float x) { return __builtin_##name##f(x); }
#define EMULATED_MATH2(name)                                                                       \
  extern "C" double name(double, double) noexcept;                                                 \
  extern "C" float name##f(float, float) noexcept;                                                 \
  static inline float name(float x, float y) { return __builtin_##name##f(x, y); }
EMULATED_MATH1(sin)
EMULATED_MATH1(cos)
EMULATED_MATH1(tan)
EMULATED_MATH1(asin)
EMULATED_MATH1(acos)
EMULATED_MATH1(atan)
EMULATED_MATH1(sinh)
EMULATED_MATH1(cosh)
EMULATED_MATH1(tanh)
EMULATED_MATH1(asinh)
EMULATED_MATH1(acosh)
EMULATED_MATH1(atanh)
EMULATED_MATH1(exp)
EMULATED_MATH1(exp2)
EMULATED_MATH1(expm1)
EMULATED_MATH1(log)
EMULATED_MATH1(log2)
EMULATED_MATH1(log10)
EMULATED_MATH1(log1p)
EMULATED_MATH1(sqrt)
EMULATED_MATH1(cbrt)
EMULATED_MATH1(erf)
EMULATED_MATH1(erfc)
EMULATED_MATH1(fabs)
EMULATED_MATH1(floor)
EMULATED_MATH1(ceil)
EMULATED_MATH1(rint)
EMULATED_MATH1(trunc)
EMULATED_MATH1(round)
EMULATED_MATH1(nearbyint)
EMULATED_MATH2(pow)
EMULATED_MATH2(atan2)
EMULATED_MATH2(fmin)
EMULATED_MATH2(fmax)
EMULATED_MATH2(fmod)
EMULATED_MATH2(hypot)
EMULATED_MATH2(copysign)
#undef EMULATED_MATH1
#undef EMULATED_MATH2
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
template <class T> static inline bool isnan(T x) { return x != x; }
template <class T> static inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> static inline bool isfinite(T x) { return __builtin_isfinite(x); }
template <class T> static inline bool signbit(T x) { return __builtin_signbit(x) != 0; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

extern "C" void *memcpy(void *, const void *, unsigned long) noexcept;
extern "C" void *memset(void *, int, unsigned long) noexcept;

#endif
