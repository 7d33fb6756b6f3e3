/* tensor.h: the public interface of the tensor layer.
 *
 * Status, memory, dtypes, threads and random numbers first, then graphs of tensor operations and the
 * programs made of them. docs/design/000-overview.md has the ideas; docs/ops.md lists the operations.
 *
 * Conventions. Every function that can fail returns tn_status and leaves a text behind (tn_error_text).
 * Builders of graph nodes return a tn_value instead: an error absorbs, and the graph keeps the first one.
 * Extents are size_t, host scalars double, arrays row-major. The library never prints and never exits.
 */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "pinn must not be built with -ffast-math: it changes results and flushes subnormals"
#elif (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#error "pinn must not be built with parts of -ffast-math (finite-math-only, associative-math, reciprocal-math)"
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)
#error "pinn needs arithmetic of float and double in their own precision (FLT_EVAL_METHOD 0), not the x87's"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#define TN_MUST_USE __attribute__((warn_unused_result))
#define TN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TN_API
#define TN_MUST_USE
#define TN_PRINTF(format, first)
#endif

/* ---- Status ------------------------------------------------------------------------------------ */

#define TN_STATUS_LIST(ROW)                                                                        \
  ROW(TN_OK, "ok")                                                                                 \
  ROW(TN_ENOMEM, "out of memory")                                                                  \
  ROW(TN_ERANGE, "value out of range")                                                             \
  ROW(TN_ESHAPE, "shapes do not fit")                                                              \
  ROW(TN_EDTYPE, "dtypes do not fit")                                                              \
  ROW(TN_EHANDLE, "stale or foreign handle")                                                       \
  ROW(TN_EINPUT, "bad input")                                                                      \
  ROW(TN_EIO, "input or output failed")                                                            \
  ROW(TN_EENV, "environment does not provide what was asked for")                                  \
  ROW(TN_ENONFINITE, "non-finite value")                                                           \
  ROW(TN_EUNSUPPORTED, "not supported")                                                            \
  ROW(TN_ESTATE, "call out of order")                                                              \
  ROW(TN_ESTOPPED, "stopped by a signal")                                                          \
  ROW(TN_EPEER, "another rank was lost")                                                           \
  ROW(TN_EINTERNAL, "internal error")

typedef enum tn_status {
#define ROW(code, text) code,
  TN_STATUS_LIST(ROW)
#undef ROW
} tn_status;

/* The name of a code ("TN_ESHAPE") and its general meaning. Static strings. */
TN_API const char *tn_status_name(tn_status code);
TN_API const char *tn_status_text(tn_status code);

/* The last error of this thread: code, the text that TN_FAIL made, and where in the source. The text
 * lives until the next failure in this thread. TN_OK and "" if nothing has failed. */
TN_API tn_status tn_error_code(void);
TN_API const char *tn_error_text(void);
TN_API const char *tn_error_place(void); /* "file.c:123" */
TN_API void tn_error_clear(void);

/* Sets this thread's error record and returns code. Use TN_FAIL, which adds the place. */
TN_API tn_status tn_fail(tn_status code, const char *file, int line, const char *format, ...)
    TN_PRINTF(4, 5);

#define TN_FAIL(code, ...) tn_fail((code), __FILE__, __LINE__, __VA_ARGS__)
#define TN_TRY(call)                                                                               \
  do {                                                                                             \
    tn_status tn_try_status_ = (call);                                                             \
    if (tn_try_status_ != TN_OK) return tn_try_status_;                                            \
  } while (0)

/* Messages that are no errors, as warnings, go to one callback a process, up to level `most`; to nobody while
 * it is NULL, which is the start. The text is the callee's until it returns; callbacks come from any thread. */
typedef enum tn_log_level { TN_LOG_ERROR, TN_LOG_WARNING, TN_LOG_INFO, TN_LOG_DEBUG } tn_log_level;
typedef void (*tn_log_function)(void *context, tn_log_level level, const char *text);
TN_API void tn_log_callback(tn_log_level most, tn_log_function function, void *context);
TN_API void tn_log_write(tn_log_level level, const char *format, ...) TN_PRINTF(2, 3);
TN_API const char *tn_log_level_name(tn_log_level level); /* "warning" */

/* ---- Memory ------------------------------------------------------------------------------------ */

/* All allocation of the library goes through these two. tn_new: *out = count * size zeroed bytes,
 * aligned to 64; count * size is checked; count = 0 gives a valid pointer. tn_free takes the address of
 * a pointer of any type, frees what it points to and nulls it; null-safe. */
TN_API tn_status tn_new(size_t count, size_t size, void *out) TN_MUST_USE;
/* *pointer grows from old_count to new_count elements, new bytes zeroed; on failure it is unchanged. */
TN_API tn_status tn_grow(void *pointer, size_t old_count, size_t new_count, size_t size) TN_MUST_USE;
TN_API tn_status tn_copy_text(const char *text, char **out) TN_MUST_USE; /* strdup; tn_free frees */
TN_API void tn_free(void *pointer);
#define TN_NEW(count, out) tn_new((count), sizeof **(out), (out)) /* TN_NEW(n, &x) for T *x */

/* Bytes held now and at most since the start (or the last tn_memory_reset_peak). */
TN_API size_t tn_memory_now(void);
TN_API size_t tn_memory_peak(void);
TN_API void tn_memory_reset_peak(void);
/* Test hook: the n-th allocation from now fails (0: none); with onward, all later ones too. */
TN_API void tn_fault_at(uint64_t n, bool onward);
TN_API uint64_t tn_fault_count(void); /* allocations since the last tn_fault_at */

/* ---- Dtypes ------------------------------------------------------------------------------------ */

typedef enum tn_dtype {
  TN_F64,
  TN_F32,
  TN_TF32, /* f32 with 10 fraction bits: inputs of matrix products */
  TN_BF16,
  TN_F16,
  TN_BOOL,
  TN_I32,
  TN_I64,
  TN_DTYPES
} tn_dtype;

TN_API const char *tn_dtype_name(tn_dtype dtype); /* "f64" */
TN_API size_t tn_dtype_size(tn_dtype dtype);      /* bytes */
TN_API bool tn_dtype_is_float(tn_dtype dtype);
TN_API double tn_dtype_roundoff(tn_dtype dtype); /* u: 2^-53, 2^-24, 2^-11 (tf32, f16), 2^-8 (bf16); else 0 */
/* The format that an operation of this dtype computes in, before it rounds once: f32 for tf32, bf16 and f16,
 * else the dtype itself. Executors store values in it. */
TN_API tn_dtype tn_dtype_compute(tn_dtype dtype);
TN_API double tn_round(tn_dtype dtype, double x); /* to the nearest number of a float dtype, in one step */
TN_API tn_status tn_dtype_of_name(const char *name, tn_dtype *out) TN_MUST_USE;

/* Round to nearest, ties to even, in one step from double (never through f32); subnormals kept,
 * overflow to infinity, NaN stays a quiet NaN. Widening is exact. */
TN_API uint16_t tn_bf16_of(double x);
TN_API uint16_t tn_f16_of(double x);
TN_API double tn_of_bf16(uint16_t bits);
TN_API double tn_of_f16(uint16_t bits);
/* n elements from one dtype to another. Integers: i64 beyond 2^53 to f64 rounds; a float to an integer
 * truncates and must be in range (TN_ERANGE names the index); bool is x != 0. */
TN_API tn_status tn_convert(size_t n, tn_dtype from, const void *in, tn_dtype to, void *out) TN_MUST_USE;

/* ---- Threads ----------------------------------------------------------------------------------- */

/* A pool of workers; the caller is worker 0. tn_pool_run calls task(context, i, worker) for every
 * i < count, each i once, in any order, and returns when all are done; tasks must not fail (they leave
 * their status in context). Numbers do not depend on the thread count if a task writes only what belongs
 * to i. Workers spin briefly and then sleep. threads = 0: as many as the process may use. */
typedef struct tn_pool tn_pool;
typedef void (*tn_task)(void *context, size_t i, size_t worker);
TN_API tn_status tn_pool_new(size_t threads, tn_pool **out) TN_MUST_USE;
TN_API void tn_pool_free(tn_pool **pool);
TN_API size_t tn_pool_threads(const tn_pool *pool);
TN_API void tn_pool_run(tn_pool *pool, size_t count, tn_task task, void *context);

/* ---- Ranks (comm.c) ---------------------------------------------------------------------------- */

/* Processes that run one program together, numbered from 0. NULL stands for one alone everywhere. Collectives
 * are called by all ranks in the same order with sizes that agree; each has a time limit, after which the ranks
 * that did not come are named (TN_EPEER) and every later call fails at once. `what` is for messages: "sums of
 * the gradient". One thread at a time. */
typedef struct tn_comm tn_comm;
TN_API void tn_comm_free(tn_comm **comm); /* null-safe, nulls; waits for nobody once a peer is lost */
TN_API size_t tn_comm_rank(const tn_comm *comm);
TN_API size_t tn_comm_size(const tn_comm *comm);
TN_API const char *tn_comm_kind(const tn_comm *comm);              /* "self", "mpi" */
TN_API const char *tn_comm_name(const tn_comm *comm, size_t rank); /* "rank 2 (node7, process 4711)" */
TN_API double tn_comm_seconds(const tn_comm *comm, uint64_t *bytes, uint64_t *calls); /* spent so far */
TN_API tn_status tn_comm_limit(tn_comm *comm, double seconds) TN_MUST_USE; /* of each call; default 60 */
/* recv gets the parts of all ranks, bytes[r] from rank r, one after another; send is this rank's part. */
TN_API tn_status tn_comm_gather(tn_comm *comm, const char *what, const size_t *bytes, const void *send,
                                void *recv) TN_MUST_USE;
TN_API tn_status tn_comm_broadcast(tn_comm *comm, const char *what, size_t root, size_t bytes, void *data)
    TN_MUST_USE;
TN_API tn_status tn_comm_barrier(tn_comm *comm, const char *what) TN_MUST_USE;
/* TN_ESTATE, with the ranks and their digests, on all ranks, unless the digest is the same everywhere. */
TN_API tn_status tn_comm_same(tn_comm *comm, const char *what, uint64_t digest) TN_MUST_USE;
/* The status of this rank, or, if it is TN_OK, the first that is not: so that all ranks turn back together. The
 * text of another rank's failure begins with its name. */
TN_API tn_status tn_comm_agree(tn_comm *comm, const char *what, tn_status status) TN_MUST_USE;
/* Point to point, in order between two ranks. post returns at once (the data are copied); fetch waits. */
TN_API tn_status tn_comm_post(tn_comm *comm, const char *what, size_t to, size_t bytes, const void *data)
    TN_MUST_USE;
TN_API tn_status tn_comm_fetch(tn_comm *comm, const char *what, size_t from, size_t bytes, void *data)
    TN_MUST_USE;
/* Ends all ranks now, without cleaning up (MPI_Abort); for a rank that fails where the others cannot know. */
TN_API void tn_comm_abort(tn_comm *comm, int exit_status);

/* Where the executors made with a pool run: shared with other ranks, and on a device (backend.h). Both are
 * borrowed and outlive the pool, or are taken away by NULL first; executors keep what was set when they were
 * made. With ranks, every rank binds the same leaves and runs the same programs in the same order; it computes
 * the slots of points that are its own, sums meet in the same tree, and outputs with points are gathered: the
 * bits are those of one rank alone. */
typedef struct tn_device tn_device;
TN_API void tn_pool_ranks(tn_pool *pool, tn_comm *comm);
TN_API tn_comm *tn_pool_comm(const tn_pool *pool); /* NULL pool: NULL */
TN_API void tn_pool_use(tn_pool *pool, tn_device *device);
TN_API tn_device *tn_pool_device(const tn_pool *pool);
/* What the ranks of a pool share: the points of every loop (the default), or the layers of the networks, for models
 * that do not fit one rank: tn_exec_new then makes tn_exec_pipeline. Same bits. CPU alone. */
typedef enum tn_split { TN_SPLIT_POINTS, TN_SPLIT_LAYERS } tn_split;
TN_API void tn_pool_split(tn_pool *pool, tn_split split);
TN_API tn_split tn_pool_split_of(const tn_pool *pool); /* NULL pool: points */

TN_API double tn_clock(void); /* seconds, monotonic */
/* TN_OK if rounding is to nearest and subnormals are kept (FTZ and DAZ off) in this thread. */
TN_API tn_status tn_check_float_environment(void) TN_MUST_USE;

/* ---- Random numbers ---------------------------------------------------------------------------- */

/* Counter-based (Philox 4x32-10, Salmon et al. 2011): a value depends only on (seed, stream name, index),
 * never on how many were drawn before. */
typedef struct tn_stream { uint32_t key[2]; } tn_stream;
TN_API tn_stream tn_stream_of(uint64_t seed, const char *name);
TN_API uint64_t tn_random_bits(tn_stream stream, uint64_t index);
TN_API double tn_random_uniform(tn_stream stream, uint64_t index); /* in (0, 1), 53 bits */
TN_API double tn_random_normal(tn_stream stream, uint64_t index);  /* our own inverse CDF: no libm */

/* ---- Buffers ----------------------------------------------------------------------------------- */

/* A refcounted row-major array of a dtype, rank 0 to 4. Buffers outlive graphs and programs. A view
 * shares the storage of its parent (and keeps it alive) from element `offset` on. */
typedef struct tn_buffer tn_buffer;
#define TN_MAX_RANK 4
TN_API tn_status tn_buffer_new(tn_dtype dtype, size_t rank, const size_t *extent, tn_buffer **out)
    TN_MUST_USE; /* zeroed */
TN_API tn_status tn_buffer_view(tn_buffer *parent, size_t offset, size_t rank, const size_t *extent,
                                tn_buffer **out) TN_MUST_USE;
TN_API tn_buffer *tn_buffer_retain(tn_buffer *buffer);
TN_API void tn_buffer_release(tn_buffer **buffer); /* null-safe, nulls */
TN_API tn_dtype tn_buffer_dtype(const tn_buffer *buffer);
TN_API size_t tn_buffer_rank(const tn_buffer *buffer);
TN_API size_t tn_buffer_extent(const tn_buffer *buffer, size_t axis);
TN_API size_t tn_buffer_count(const tn_buffer *buffer); /* elements */
/* Host access; every map is followed by an unmap before the next run that uses the buffer. */
typedef enum tn_access { TN_READ = 1, TN_WRITE = 2, TN_READ_WRITE = 3 } tn_access;
TN_API void *tn_map(tn_buffer *buffer, tn_access access);
TN_API uint64_t tn_buffer_version(const tn_buffer *buffer); /* grows with every map for writing, of a view too */
TN_API void tn_unmap(tn_buffer *buffer);

/* ---- Graphs ------------------------------------------------------------------------------------ */

/* A graph is an arena of nodes. A node is an operation with inputs, attributes and one or more outputs
 * (ports); a tn_value names one output. Nodes never change; equal nodes (same op, inputs, attributes) are
 * one node. A graph belongs to one thread at a time. tn_graph_reset forgets all nodes; values made
 * before are then stale, and using one is TN_EHANDLE. */
typedef struct tn_graph tn_graph;
typedef struct tn_value {
  tn_graph *graph; /* NULL: the absorbing error value */
  uint32_t node, port, generation;
} tn_value;

/* A point axis has an identity and an extent that is bound at run time; other axes have axis = 0 and a
 * fixed extent. A value has at most one point axis, and it is the first. */
typedef uint32_t tn_axis;
typedef struct tn_shape {
  uint32_t rank;                /* 0 to 4 */
  tn_axis axis[TN_MAX_RANK];    /* 0: fixed */
  size_t extent[TN_MAX_RANK];   /* of fixed axes; 0 for point axes */
} tn_shape;

TN_API tn_status tn_graph_new(tn_graph **out) TN_MUST_USE;
TN_API void tn_graph_free(tn_graph **graph);
TN_API void tn_graph_reset(tn_graph *graph);
TN_API tn_axis tn_axis_new(tn_graph *graph, const char *name);
TN_API const char *tn_axis_name(const tn_graph *graph, tn_axis axis);
/* The place that new nodes carry: a file (copied), line and column (from 1; 0: none) and the text of the
 * expression. Nodes made by a pass take the place of the node they come from. */
TN_API void tn_at(tn_graph *graph, const char *file, int line, int column, const char *text);
TN_API void tn_at_like(tn_value value); /* the place of that value's node */
/* The first error of this graph's builders (TN_OK if none), as also kept for tn_eval and tn_compile. Its
 * text goes into the thread's error record. tn_graph_clear_error forgets it. */
TN_API tn_status tn_graph_error(tn_graph *graph);
TN_API void tn_graph_clear_error(tn_graph *graph);
TN_API size_t tn_graph_nodes(const tn_graph *graph);
/* Builders outside tensor/ report their errors through this: keeps the first, returns the error value. */
TN_API tn_value tn_graph_fail(tn_graph *graph, tn_status code, const char *format, ...)
    TN_PRINTF(3, 4);

TN_API tn_shape tn_shape_scalar(void);
TN_API tn_shape tn_shape_points(tn_axis axis);                    /* [N] */
TN_API tn_shape tn_shape_batch(tn_axis axis, size_t extent);      /* [N, extent] */
TN_API tn_shape tn_shape_fixed(size_t rank, const size_t *extent);
TN_API bool tn_shape_equal(const tn_shape *a, const tn_shape *b);
TN_API bool tn_shape_batched(const tn_shape *shape);              /* has a point axis */
TN_API size_t tn_shape_width(const tn_shape *shape);              /* product of the fixed extents */
/* "[points, 20]" into text (capacity bytes). Returns text. */
TN_API const char *tn_shape_text(const tn_graph *graph, const tn_shape *shape, char *text,
                                 size_t capacity);

TN_API bool tn_ok(tn_value value); /* not the error value, not stale */
TN_API tn_shape tn_shape_of(tn_value value);
TN_API tn_dtype tn_dtype_of(tn_value value);
TN_API bool tn_same(tn_value a, tn_value b);

/* ---- Operations -------------------------------------------------------------------------------- */

/* Every operation is a row of tensor/ops.def; docs/ops.md is made from it. */
typedef enum tn_class {
  TN_LEAF,       /* input, parameter, constant */
  TN_LINEAR,     /* linear in its float inputs */
  TN_BILINEAR,   /* linear in each of two groups of inputs */
  TN_ANALYTIC,   /* elementwise, one input, derivatives of every order by its row */
  TN_BINARY,     /* elementwise, two inputs, partial derivatives by its row */
  TN_PIECEWISE,  /* elementwise, differentiable but at some points */
  TN_COMPARISON, /* gives a bool */
  TN_FUSED,      /* its meaning is an expression in other operations: jets, rows; and operations of users */
  TN_ATOM        /* a call of a field: has a meaning only after ag_resolve */
} tn_class;

typedef enum tn_op_id {
#define OP_LEAF(name, doc) TN_OP_##name,
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc) TN_OP_##name,
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc) TN_OP_##name,
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc) TN_OP_##name,
#define OP_COMPARE(name, cell, mpfr, doc) TN_OP_##name,
#define OP_SELECT(name, cell, doc) TN_OP_##name,
#define OP_STRUCT(name, class, flops, doc) TN_OP_##name,
#include "tensor/ops.def"
  TN_OPS
} tn_op_id;

typedef struct tn_op {
  const char *name; /* "tanh" */
  const char *doc;
  const char *formula; /* the forward cell, or "" */
  const char *rule;    /* the derivative cell(s), or "" */
  tn_op_id id;
  tn_class class_;
  int arity;         /* float inputs of an elementwise op; -1: see the builder */
  double flops;      /* per element */
  double lo, hi;     /* domain that audits sample */
  double ulp[2];     /* promised error of the value and of the first derivative, in ulp */
  const struct tn_custom *custom; /* of a user's operation (TN_OP_custom), else NULL */
} tn_op;
TN_API const tn_op *tn_op_row(tn_op_id id);
TN_API const tn_op *tn_op_find(const char *name); /* NULL if there is none */
/* y[i] = an elementwise row of a[i] (and b[i]; NULL for unary and power rows), by the kernels that executors
 * use. a, b and y are arrays of tn_dtype_compute(dtype) (y may be a); results are rounded to dtype. */
TN_API tn_status tn_op_apply(tn_op_id id, tn_dtype dtype, size_t n, const void *a, const void *b,
                             double exponent, void *y) TN_MUST_USE;

/* Leaves. A parameter is trainable; an input is data. Both are bound to a buffer of the same dtype and
 * shape at run time. A scalar is a run-time number (rate, weight, coefficient) with a first value; a
 * constant is part of the structure. */
TN_API tn_value tn_parameter(tn_graph *graph, const char *name, tn_dtype dtype, tn_shape shape);
TN_API tn_value tn_input(tn_graph *graph, const char *name, tn_dtype dtype, tn_shape shape);
TN_API tn_value tn_scalar(tn_graph *graph, const char *name, tn_dtype dtype, double value);
TN_API tn_value tn_const(tn_graph *graph, tn_dtype dtype, double value);
TN_API tn_value tn_const_array(tn_graph *graph, tn_dtype dtype, tn_shape shape, const double *data);
TN_API tn_value tn_fill(tn_graph *graph, tn_dtype dtype, tn_shape shape, double value); /* structural */
TN_API tn_value tn_count(tn_graph *graph, tn_dtype dtype, tn_axis axis); /* N as a scalar */

/* Elementwise: shapes equal, or one of them scalar (rank 0). tn_neg(x), tn_tanh(x), tn_add(a, b), ... */
#define OP_LEAF(name, doc)
#define OP_UNARY(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  TN_API tn_value tn_##name(tn_value x);
#define OP_POWER(name, class, cell, derivative, mpfr, flops, lo, hi, ulp0, ulp1, doc)              \
  TN_API tn_value tn_##name(tn_value x, double exponent);
#define OP_BINARY(name, class, cell, da, db, mpfr, flops, lo, hi, ulp0, ulp1, doc)                 \
  TN_API tn_value tn_##name(tn_value a, tn_value b);
#define OP_COMPARE(name, cell, mpfr, doc) TN_API tn_value tn_##name(tn_value a, tn_value b);
#define OP_SELECT(name, cell, doc)
#define OP_STRUCT(name, class, flops, doc)
#include "tensor/ops.def"
TN_API tn_value tn_where(tn_value mask, tn_value a, tn_value b); /* mask: bool; else a or b, selected */
TN_API tn_value tn_not(tn_value mask);
TN_API tn_value tn_both(tn_value a, tn_value b);   /* logical and */
TN_API tn_value tn_either(tn_value a, tn_value b); /* logical or */
TN_API tn_value tn_unary(tn_op_id op, tn_value x, double exponent); /* by id; exponent for powers only */
TN_API tn_value tn_binary(tn_op_id op, tn_value a, tn_value b);

/* Structure. Axis numbers count from 0. */
TN_API tn_value tn_sum(tn_value x, size_t axis);  /* over a fixed axis, or over the points (axis 0) */
TN_API tn_value tn_sum_all(tn_value x);           /* over all axes, points last */
TN_API tn_value tn_mean(tn_value x);              /* tn_sum_all divided by the count */
/* A new axis at position `axis`: a point axis (first position only) or a fixed extent; values repeat. */
TN_API tn_value tn_expand(tn_value x, size_t axis, tn_axis point_axis, size_t extent);
TN_API tn_value tn_broadcast(tn_value x, tn_shape shape); /* scalar, or axes a subsequence of shape's */
TN_API tn_value tn_reshape(tn_value x, tn_shape shape);   /* fixed axes only, same width */
TN_API tn_value tn_transpose(tn_value x, size_t a, size_t b); /* swaps two fixed axes */
TN_API tn_value tn_slice(tn_value x, size_t axis, size_t first, size_t count); /* fixed axis */
TN_API tn_value tn_pad(tn_value x, size_t axis, size_t before, size_t after);  /* zeros; adjoint of slice */
TN_API tn_value tn_concat(size_t n, const tn_value *x, size_t axis);           /* fixed axis */
TN_API tn_value tn_stack(size_t n, const tn_value *x); /* n values of one shape -> a new last axis */
TN_API tn_value tn_cast(tn_value x, tn_dtype dtype);   /* rounds once */
/* Over the last axis, which is fixed, of a value with or without points:
 *   softmax     e / sum e, e = exp(x - max): stable for any finite x. Entries that equal the largest have e = 1,
 *               so a row of equal entries, also of -inf or +inf alone, gives 1/k each; -inf beside others gives 0;
 *               a NaN makes its whole row NaN.
 *   layer_norm  (x - mean) / sqrt(variance + epsilon), mean and variance (the mean square of x - mean) in two
 *               passes; scale and shift are the user's. A constant row gives 0, with epsilon = 0: NaN.
 *   rstd        1 / sqrt(variance + epsilon), without the last axis
 * Sums go along the axis in order, so no bit depends on tile, threads or instruction set. */
TN_API tn_value tn_softmax(tn_value x);
TN_API tn_value tn_layer_norm(tn_value x, double epsilon);
TN_API tn_value tn_rstd(tn_value x, double epsilon);
/* [N, k] or [k] times [k, n] (plus [n] if bias is a value): one FMA chain over k from the bias.
 * transposed: w is [n, k]. tn_matmul(a, b) is the same for [m, k] x [k, n] without points. */
TN_API tn_value tn_linear(tn_value x, tn_value w, tn_value bias, bool transposed);
TN_API tn_value tn_matmul(tn_value a, tn_value b);

/* ---- Jets -------------------------------------------------------------------------------------- */

/* A structure table of an algebra: (fg)_a = sum over terms of factor * coefficient * f_b * g_c, symmetric
 * in b and c. Channel 0 is the value. factor = numerator / denominator exactly; coefficient is an index
 * into the run-time coefficient values (scalar or [N]) that a jet node takes as extra inputs, or -1.
 * order: the largest K with n^K != 0 for a jet n without value. Interned: equal tables are one. */
typedef struct tn_jet_term {
  int16_t a, b, c, coefficient;
  int64_t numerator, denominator;
} tn_jet_term;
typedef struct tn_jet_table {
  uint32_t channels, order, n_coefficients;
  size_t n_terms;
  const tn_jet_term *terms; /* sorted by a, then b, then c: the order of summation */
  uint64_t hash;
} tn_jet_table;
TN_API const tn_jet_table *tn_jet_table_new(tn_graph *graph, uint32_t channels, uint32_t order,
                                            uint32_t n_coefficients, size_t n_terms,
                                            const tn_jet_term *terms); /* NULL: graph error */

/* A bundle: one value a channel; a channel without a value (graph == NULL) is structurally zero. A
 * channel may lack the point axis (invariant). TN_MAX_CHANNELS bounds the algebra. */
#define TN_MAX_CHANNELS 64
typedef struct tn_jet {
  const tn_jet_table *table;           /* NULL: one channel, the value alone */
  const tn_value *coefficients;        /* table->n_coefficients values */
  tn_value channel[TN_MAX_CHANNELS];
} tn_jet;

/* y_a = h_a W (+ bias on channel 0), every channel. */
TN_API tn_status tn_jet_lin(const tn_jet *h, tn_value w, tn_value bias, bool transposed, tn_jet *y)
    TN_MUST_USE;
/* sum over points and pairs i of outer(h_i, z_i): [k, n]. */
TN_API tn_value tn_jet_outer(size_t pairs, const tn_value *z, const tn_value *h);
/* y = the jet of f^(derivative)(z), f an ANALYTIC op (exponent for powers). */
TN_API tn_status tn_jet_unary(tn_op_id op, double exponent, int derivative, const tn_jet *z, tn_jet *y)
    TN_MUST_USE;
TN_API tn_status tn_jet_mul(const tn_jet *a, const tn_jet *b, tn_jet *y) TN_MUST_USE;
/* z_c = sum over terms of factor * coefficient * w_b * ybar_a, for the channels c with wanted[c]. */
TN_API tn_status tn_jet_mulT(const tn_jet *w, const tn_jet *ybar, const bool *wanted, tn_jet *z)
    TN_MUST_USE;

/* ---- Operations of users (register.c) ----------------------------------------------------------- */

/* What an opaque operation sees: a whole array, row-major, the number of points in its place among the extents. */
typedef struct tn_array {
  tn_dtype dtype; /* f64 or f32, whatever the dtype of the node: tn_dtype_compute */
  size_t rank, extent[TN_MAX_RANK], count;
  void *data;
} tn_array;

/* A description with exactly one way to compute:
 *
 *   meaning    alone: an expression in operations. It is expanded where it is applied, so derivatives of any order,
 *              jets, tiles and the replay in MPFR come by themselves and programs show its parts.
 *   f64        scalar, of one or two arguments, elementwise (shapes as in tn_binary); a node of the user's name. f32
 *              may be NULL: then f64 rounded once. derivative: the partial derivative by argument `by`, an
 *              elementwise expression of the arguments x and the value y, which differentiates again; f'', ladders
 *              of jets and all else is made of it. NULL: taken from `meaning`, if that is given beside f64; without
 *              both, derivatives are refused by name. `meaning` also serves the replay in MPFR, which else refuses.
 *   forward    opaque: whole arrays, 1 to TN_CUSTOM_INPUTS of them. shape: the result's shape (NULL: that of the
 *              first input); the dtype is that of the inputs. vjp: xbar[i] of the shape of x[i], all of them, to be
 *              written in full; NULL: no derivative. First order only: forward mode, jets, rows of Jacobians and a
 *              second derivative are refused by name. It runs once, between loops over tiles, by the thread that
 *              runs the program, on whole arrays of its inputs and outputs.
 *
 * f64 and f32 are called by many threads at once, in any order, and for more elements than there are points (a
 * last panel is filled up): they depend on their arguments alone. A failure of forward or vjp fails the run with
 * its status and text; what is not finite is a value like any other. tn_op_register copies the description and
 * its texts; the functions and *context are the user's and outlive every graph and program that uses them. */
#define TN_CUSTOM_INPUTS 8
typedef struct tn_custom {
  const char *name, *doc; /* name: letters, digits, _; unlike every row and every other one. doc may be NULL */
  void *context;          /* handed on, never looked at */
  size_t n_inputs;
  tn_value (*meaning)(void *context, const tn_value *x);
  double (*f64)(void *context, const double *x);
  float (*f32)(void *context, const float *x);
  tn_value (*derivative)(void *context, size_t by, const tn_value *x, tn_value y);
  tn_status (*shape)(void *context, const tn_shape *x, tn_shape *y);
  tn_status (*forward)(void *context, const tn_array *x, const tn_array *y);
  tn_status (*vjp)(void *context, const tn_array *x, const tn_array *y, const tn_array *ybar,
                   const tn_array *xbar);
} tn_custom;

/* Adds an operation to the process (from any thread); *out is its identity: nodes are equal only if it is. A name
 * that is taken, functions that do not go together and bad counts are TN_EINPUT. tn_op_find finds it, too. */
TN_API tn_status tn_op_register(const tn_custom *custom, const tn_op **out) TN_MUST_USE;
/* Forgets it; no graph and no program may use it any more (a reset drops nodes, but not the programs that
 * tn_eval keeps: free the graph, or tn_graph_cache(graph, 0, 0)). Null-safe, nulls. */
TN_API void tn_op_unregister(const tn_op **op);
TN_API tn_value tn_apply(const tn_op *op, size_t n, const tn_value *x);
/* The cotangents of the inputs of an opaque operation as a node (ports in the order of inputs). Used by
 * autograd/. */
TN_API tn_status tn_apply_vjp(const tn_op *op, const tn_value *x, tn_value y, tn_value ybar, tn_value *xbar)
    TN_MUST_USE;
TN_API bool tn_op_is_vjp(const tn_op *op); /* is it the operation of such nodes? */

/* ---- Looking at nodes (for passes, audits and reports) ------------------------------------------ */

/* A call of a field, differentiated power[j] times by its argument j (autograd/ makes and removes it). */
#define TN_MAX_SLOTS 16
typedef struct tn_call {
  const void *field;
  uint32_t output;
  uint8_t power[TN_MAX_SLOTS];
} tn_call;

typedef struct tn_edge { uint32_t node, port; } tn_edge;
typedef struct tn_node {
  const tn_op *op;
  tn_dtype dtype;
  uint32_t n_inputs, n_outputs;
  const tn_edge *inputs;
  const tn_shape *shapes; /* one an output */
  double number;          /* const, scalar: value; powers: exponent */
  int64_t integer[4];     /* axis, extent, first, derivative, transposed, ...: see graph.c */
  const double *data;     /* const_array */
  const char *name;       /* leaves */
  const tn_jet_table *table;
  const tn_call *call;
  uint64_t mask[2];       /* jet ops: channels present in the first and second group */
  uint64_t out_mask;      /* jet ops: channels of the outputs */
  uint32_t segment;       /* tn_segment; 0: none */
  uint32_t origin;        /* the node that it computes once more, + 1; 0: none */
  const char *file, *text; /* place; may be NULL */
  int line, column;
} tn_node;
TN_API const tn_node *tn_node_at(const tn_graph *graph, uint32_t node); /* borrowed until reset */
TN_API const tn_node *tn_node_of(tn_value value);                       /* NULL for an error value */
TN_API tn_value tn_value_at(tn_graph *graph, uint32_t node, uint32_t port);
/* The same operation on other inputs (same number); shapes are inferred anew. ports: all outputs. */
TN_API tn_status tn_rebuild(tn_graph *graph, uint32_t node, const tn_value *inputs, tn_value *ports)
    TN_MUST_USE;

/* Segments. Nodes made from now on belong to segment `id` (0, the start: to none); returns the id before. Equal
 * nodes of two segments are two nodes, so what one segment made is computed again by the other; ag_remat_begin
 * says what for. Leaves belong to none; tn_rebuild keeps a node's segment while no other is set. Ids come from
 * tn_segment_new; another number counts as 0. The same base (0: none) and key give the same id; key 0: always a
 * new one (0 itself after a failed allocation, the graph's error). A reset forgets all ids. A node that computes
 * once more what an earlier one computed, in another segment or from inputs that do, names it (tn_node.origin): to
 * passes that differentiate, the two are one. */
TN_API uint32_t tn_segment(tn_graph *graph, uint32_t id);
TN_API uint32_t tn_segment_new(tn_graph *graph, uint32_t base, uint64_t key);

/* Memory that lives as long as the graph's nodes (zeroed), for what passes attach to it. */
TN_API tn_status tn_graph_memory(tn_graph *graph, size_t count, size_t size, void *out) TN_MUST_USE;
/* An atom (op `call`) of n scalar or per-point arguments. Used by autograd/. */
TN_API tn_value tn_call_node(tn_graph *graph, const tn_call *call, tn_dtype dtype, tn_shape shape,
                             size_t n, const tn_value *args);

/* ---- Running ----------------------------------------------------------------------------------- */

/* Define by run: record, bind leaves, evaluate, read. tn_eval materialises the outputs and what tn_keep named;
 * intermediates are released as soon as they are not needed. tn_read copies a materialised value as f64,
 * row-major; any other value is TN_ESTATE, never computed in silence. docs/engine.md has a complete example.
 *
 * A step that equals an earlier one of the graph, also of before tn_graph_reset, runs the program and storage
 * of that one. Equal means the full structure: nodes, inputs, shapes, dtypes, attributes, numbers of tn_const,
 * tn_fill and tn_const_array, names of leaves, point axes by order of appearance. The number of points, places
 * and the numbers of tn_scalar are no part of it. Eight new programs in a row from one place (of tn_at, else
 * the line of the call) log a warning with the first node that differs. */
TN_API tn_status tn_bind(tn_value leaf, tn_buffer *buffer) TN_MUST_USE; /* retains the buffer */
TN_API tn_status tn_set(tn_value scalar, double value) TN_MUST_USE;
TN_API tn_status tn_keep(tn_value value) TN_MUST_USE; /* each tn_eval until reset materialises it, too */
TN_API tn_status tn_eval(size_t n, const tn_value *outputs) TN_MUST_USE;
TN_API tn_status tn_read(tn_value value, size_t count, double *out) TN_MUST_USE;
/* The same with the caller's line, for messages; the macros below put it in. */
TN_API tn_status tn_eval_from(const char *file, int line, size_t n, const tn_value *outputs) TN_MUST_USE;
TN_API tn_status tn_read_from(const char *file, int line, tn_value value, size_t count, double *out)
    TN_MUST_USE;
#define tn_eval(...) tn_eval_from(__FILE__, __LINE__, __VA_ARGS__)
#define tn_read(...) tn_read_from(__FILE__, __LINE__, __VA_ARGS__)

/* Threads of tn_eval: a pool (borrowed: it outlives the graph, or is taken away by NULL first), or the caller
 * alone. No bit depends on it. */
TN_API tn_status tn_graph_pool(tn_graph *graph, tn_pool *pool) TN_MUST_USE;
/* Debugging: each tn_eval runs every recorded node with storage of its own and stops at the first value that is
 * not finite and is selected (not in the branch that a `where` leaves aside): TN_ENONFINITE, naming node,
 * channel, point, inputs and place. Slow, and memory for all values at once. */
TN_API tn_status tn_graph_debug(tn_graph *graph, bool on) TN_MUST_USE;
/* Bounds of the cache: the programs used last (at most 64, the default), and the storage of their executors with
 * the buffers bound to them (default 256 MiB); the executor that ran last is kept whatever its size. 0, 0 gives
 * everything back after each tn_eval. */
#define TN_CACHE_PROGRAMS 64
#define TN_CACHE_BYTES ((size_t)256 << 20)
TN_API tn_status tn_graph_cache(tn_graph *graph, size_t programs, size_t bytes) TN_MUST_USE;
typedef struct tn_cache_stats {
  uint64_t hits, misses, evictions; /* since the graph was made */
  size_t programs, bytes;           /* held now */
} tn_cache_stats;
TN_API tn_cache_stats tn_graph_cache_stats(const tn_graph *graph);

/* Captured: an immutable program, shareable between threads; an executor has its own storage. */
typedef struct tn_program tn_program;
typedef struct tn_exec tn_exec;
TN_API tn_status tn_compile(tn_graph *graph, size_t n, const tn_value *outputs, tn_program **out)
    TN_MUST_USE;
TN_API void tn_program_free(tn_program **program);
/* Strict capture. Between begin and end the graph only records: a tn_eval or tn_read of one of its values is
 * TN_ESTATE with the place and the node, and breaks the capture, whose end then fails with the same text and
 * gives no program; nothing falls back in silence. Binding and setting leaves is allowed; a reset drops the
 * capture. out = NULL: only checks. tn_capturing: is a capture open and whole? */
TN_API tn_status tn_capture_begin(tn_graph *graph) TN_MUST_USE;
TN_API tn_status tn_capture_end(tn_graph *graph, size_t n, const tn_value *outputs, tn_program **out)
    TN_MUST_USE;
TN_API tn_status tn_capture_begin_from(const char *file, int line, tn_graph *graph) TN_MUST_USE;
#define tn_capture_begin(...) tn_capture_begin_from(__FILE__, __LINE__, __VA_ARGS__)
TN_API bool tn_capturing(const tn_graph *graph);
TN_API size_t tn_program_nodes(const tn_program *program);
TN_API const tn_node *tn_program_node(const tn_program *program, size_t i); /* inputs name program nodes */
TN_API size_t tn_program_outputs(const tn_program *program);
TN_API tn_edge tn_program_output(const tn_program *program, size_t i);
/* The program's node of a leaf of the graph it was compiled from; false if the leaf does not occur. */
TN_API bool tn_program_leaf(const tn_program *program, tn_value leaf, uint32_t *node);

/* The streamed executor: tiles of points go through the whole program in cache; memory does not grow with
 * the number of points beyond inputs and outputs with points. pool: borrowed, may be NULL. */
TN_API tn_status tn_exec_new(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;
/* For one worker of a task that runs on a pool: this thread alone, no ranks; on the pool's device, if it has one. */
TN_API tn_status tn_exec_alone(const tn_program *program, const tn_pool *pool, tn_exec **out) TN_MUST_USE;
/* The reference executor: whole arrays, one node after the other. The same bits, more memory and time. */
TN_API tn_status tn_exec_reference(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;
/* The reference executor under the rules of a device with memory of its own: leaves are copied in when a run
 * begins and outputs copied out when it ends, every value has storage of its own, NaN before it is written and
 * again after its last reader. The same bits; what a kernel reads outside its inputs becomes visible. */
TN_API tn_status tn_exec_strict(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;
/* The reference executor that keeps every value of a run, for audits: tn_exec_value reads any of them as f64,
 * row-major as tn_exec_read does. */
TN_API tn_status tn_exec_keeping_all(const tn_program *program, tn_pool *pool, tn_exec **out) TN_MUST_USE;
TN_API tn_status tn_exec_value(tn_exec *exec, uint32_t node, uint32_t port, size_t count, double *out)
    TN_MUST_USE;
TN_API tn_status tn_exec_value_count(const tn_exec *exec, uint32_t node, uint32_t port, size_t *count)
    TN_MUST_USE; /* elements of it at the extents bound now */
/* The executor that splits layers over ranks (pipeline.c): each rank computes the layers that are its own and holds
 * values with points and partial sums of these alone; micro-batches of points follow one another through the ranks.
 * Every rank binds the same leaves and runs the same programs in the same order, and gets all outputs. One thread a
 * rank. comm is borrowed; NULL: alone, which is the reference executor in tiles. The same bits. */
TN_API tn_status tn_exec_pipeline(const tn_program *program, tn_comm *comm, tn_exec **out) TN_MUST_USE;
TN_API void tn_exec_free(tn_exec **exec);
/* A leaf that does not occur in the program is ignored. */
TN_API tn_status tn_exec_bind(tn_exec *exec, tn_value leaf, tn_buffer *buffer) TN_MUST_USE;
TN_API tn_status tn_exec_set(tn_exec *exec, tn_value scalar, double value) TN_MUST_USE;
TN_API tn_status tn_exec_run(tn_exec *exec) TN_MUST_USE;
/* The i-th output of the last run, as a buffer (borrowed until the next run). */
TN_API tn_status tn_exec_output(tn_exec *exec, size_t i, tn_buffer **out) TN_MUST_USE;
TN_API tn_status tn_exec_read(tn_exec *exec, size_t i, size_t count, double *out) TN_MUST_USE;
/* Partial sums that a sum over so many points keeps: the largest power of two <= min(64, groups of 8 panels,
 * 32 MiB / 8 n_trainable), at least 1. lanes: points of a panel, 8 in f64, 16 in f32. */
TN_API size_t tn_slot_count(size_t points, size_t lanes, size_t n_trainable);
/* Partial sums that ranks together send for one sum over so many slots: each sends one for every whole subtree of
 * the tree by index among its own slots. */
TN_API size_t tn_gathered_sums(size_t slots, size_t ranks);
TN_API size_t tn_exec_bytes(const tn_exec *exec); /* storage it holds */
/* Where the time of a run goes (streamed executor): one row a step of its loops, and a last one for all that
 * is not in loops. FLOPs, bytes (of cache traffic) and seconds are of one run; seconds are added over workers.
 * The rows are the caller's (tn_free). runs: how many runs to average. */
typedef enum tn_work {
  TN_WORK_PRODUCTS, /* channels times a weight matrix */
  TN_WORK_WEIGHTS,  /* gradients of weight matrices */
  TN_WORK_ELEMENTS, /* elementwise nodes and jets, as one strip program */
  TN_WORK_SUMS,     /* sums over points */
  TN_WORK_MOVES,    /* slices, stacks, masks, ... */
  TN_WORK_INPUTS,   /* points read into panels */
  TN_WORK_FIXED     /* values without points, sums of slots */
} tn_work;
typedef struct tn_profile_row {
  tn_work work;
  tn_dtype dtype;      /* that it computes in */
  uint32_t node;      /* of the program: the first of its nodes */
  size_t n_nodes, loop, stage, points, width;
  size_t channels;    /* products: channels; weights: pairs */
  size_t instructions; /* elements: of the strip program */
  double flops, bytes, seconds;
} tn_profile_row;
TN_API tn_status tn_exec_profile(tn_exec *exec, size_t runs, size_t *n, tn_profile_row **out) TN_MUST_USE;
TN_API const char *tn_work_name(tn_work work);
/* C source of loops for the strip programs of these executors (tensor/fused.inc); tn_free. */
TN_API tn_status tn_fuse_text(size_t n, tn_exec *const *execs, char **text) TN_MUST_USE;
/* After a run: walks back from output i's first non-finite element to the node that made it from finite
 * inputs, keeping unselected branches of where out of it. found = false if the output is finite. */
typedef struct tn_culprit {
  bool found;
  uint32_t node;     /* of the program */
  size_t point;      /* index along the point axis, or 0 */
  double input[3];   /* the values it was made from */
  double value;
} tn_culprit;
TN_API tn_status tn_exec_explain(tn_exec *exec, size_t i, tn_culprit *out) TN_MUST_USE;

/* The instruction set level in use ("x86-64-v4", "x86-64-v3", "baseline", "aarch64"); TN_ISA = base, v3 or
 * v4 in the environment chooses another. All levels give the same bits. Settled at the first call. */
TN_API const char *tn_isa(void);
/* The names for TN_ISA that this build has and this CPU can run: "base, v3". Other names have no effect. */
TN_API const char *tn_isa_levels(void);

/* ---- What the machine can do (peak.c) ---------------------------------------------------------- */

/* Measured in short bursts within about `seconds`; the best one counts, since whatever else runs on the
 * cores only slows bursts down. On all threads of the pool, or on this one alone (NULL).
 * flops: operations a second of fused multiply-adds (two each) of f64 or f32 in registers, with the vectors
 * of the instruction set in use. */
TN_API tn_status tn_peak_fma(tn_dtype dtype, tn_pool *pool, double seconds, double *flops)
    TN_MUST_USE;
/* Bytes a second, as the program counts them, of loops over arrays of together `bytes` a thread: reading
 * one, writing one, or a[i] = b[i] + k c[i]. */
typedef enum tn_traffic { TN_TRAFFIC_READ, TN_TRAFFIC_WRITE, TN_TRAFFIC_TRIAD } tn_traffic;
TN_API tn_status tn_peak_bytes(tn_traffic kind, size_t bytes, tn_pool *pool, double seconds,
                               double *bytes_a_second) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
