/* cache.h: what a graph keeps for running: programs of earlier steps, settings, kept values, the open capture. */
#ifndef TENSOR_CACHE_H
#define TENSOR_CACHE_H

#include "tensor/program.h"

/* What a set of outputs needs of a graph: its nodes in graph order, which is the order of a program. */
typedef struct tn_recorded {
  tn_graph *graph;
  const uint32_t *index; /* of each graph node: its number in the step, from 1; 0: not needed */
  const uint32_t *nodes; /* of each number, from 0: the graph node */
  size_t n_nodes, n_outputs;
  const tn_value *outputs;
} tn_recorded;

/* Point axes of a step and of a program that belong together; 0: not met yet. */
typedef struct tn_axis_pairs {
  uint16_t in_program[TN_MAX_AXES + 1]; /* of an axis of the graph */
  uint16_t in_graph[TN_MAX_AXES + 1];   /* of an axis of the program */
} tn_axis_pairs;

/* recorded.c: structure of steps, without the extents of point axes, places and the numbers of scalars. */
uint64_t tn_recorded_hash(const tn_recorded *step);
/* Equal? If not, *differs is the number of the first node that differs (the smaller node count if one step
 * goes on where the other ends, or SIZE_MAX if only the choice of outputs differs). Fills in the axes. */
bool tn_recorded_equals(const tn_recorded *step, const tn_program *program, tn_axis_pairs *axes,
                        size_t *differs);
/* One line about the difference for a message. Returns text. */
const char *tn_recorded_difference(const tn_recorded *step, const tn_program *program,
                                   size_t differs, char *text, size_t capacity);

typedef struct tn_cached {
  uint64_t hash,
      last_used; /* by the cache's clock, which also names the entry: made = clock at insertion */
  uint64_t made;
  tn_program *program;
  tn_exec *exec;     /* NULL: its storage was given back */
  size_t bytes;      /* storage of exec and of the buffers bound to it */
  uint32_t *inputs;  /* program nodes that must be bound */
  uint32_t *scalars; /* program nodes whose number is handed over at each run */
  size_t n_inputs, n_scalars;
  tn_axis bare[8]; /* program axes on which no input of the program lies */
  size_t n_bare;
} tn_cached;

/* Where steps are evaluated: the place that tn_at set, or else the line of the caller. */
typedef struct tn_site {
  char *file; /* owned */
  int line;
  uint64_t last, last_used; /* tn_cached.made of its last program; clock */
  uint32_t misses;          /* in a row */
} tn_site;

enum { TN_CACHE_SITES = 64, TN_CACHE_MISSES = 8 };

typedef struct tn_cache {
  tn_cached *entry[TN_CACHE_PROGRAMS];
  size_t n_entries;
  tn_site site[TN_CACHE_SITES];
  size_t n_sites;
  uint64_t clock;
  size_t programs, bytes; /* limits */
  tn_cache_stats stats;
} tn_cache;

/* The program of a step with its axes, made unless an equal one is there. `file`, `line`: the site. */
tn_status tn_cache_find(tn_cache *cache, const tn_recorded *step, const char *file, int line,
                        tn_axis_pairs *axes, tn_cached **out) TN_MUST_USE;
tn_status tn_cached_new(const tn_recorded *step,
                        tn_cached **out) TN_MUST_USE; /* compiled; no executor */
void tn_cached_free(tn_cached **entry);
void tn_cache_trim(tn_cache *cache, const tn_cached *in_use); /* back within the limits */
void tn_cache_drop_storage(tn_cached *entry);
void tn_cache_clear(tn_cache *cache);

typedef struct tn_capture {
  bool open;
  tn_status broken; /* the first thing that a captured step must not do */
  char text[1024];  /* its error text */
  char began[512];  /* where: "file:line" */
} tn_capture;

typedef struct tn_runtime {
  tn_cache cache;
  tn_pool *pool; /* borrowed */
  bool debug;
  tn_capture capture;
  tn_value *kept; /* owned */
  size_t n_kept;
  uint32_t *index, *nodes; /* storage of a step, owned */
  size_t index_capacity;
} tn_runtime;

tn_status tn_runtime_of(tn_graph *graph,
                        tn_runtime **out) TN_MUST_USE; /* made when first asked for */
/* The nodes that n outputs need. Borrows storage of the runtime. */
tn_status tn_recorded_mark(tn_graph *graph, size_t n, const tn_value *outputs,
                           tn_recorded *out) TN_MUST_USE;
/* Binds all leaves of the entry's executor: buffers and numbers of this recording (eval.c). */
tn_status tn_recorded_bind(tn_cached *entry, const tn_recorded *step,
                           const tn_axis_pairs *axes) TN_MUST_USE;
/* "file:line:column" of the place that tn_at set, or else of the caller. Returns text. */
const char *tn_site_text(const tn_graph *graph, const char *file, int line, char *text,
                         size_t capacity);
/* An error if a capture is open, which is then broken (capture.c). */
tn_status tn_capture_forbids(tn_graph *graph, const char *verb, tn_value value, const char *file,
                             int line) TN_MUST_USE;
/* Runs every node of the step and stops at the first selected value that is not finite (debug.c). */
tn_status tn_recorded_debug(tn_graph *graph, const tn_recorded *step) TN_MUST_USE;

#endif
