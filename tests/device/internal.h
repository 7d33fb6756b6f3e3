/* internal.h: what the sources of the emulated libcuda share. Everything is under one lock
 * (emulated_lock). */
#ifndef EMULATED_INTERNAL_H
#define EMULATED_INTERNAL_H

#include "tests/device/emulator.h"

#include <pthread.h>
#include <stdint.h>

/* Objects are never freed before the process ends, so that use after destruction is seen: `magic`
 * tells. */
enum { CONTEXT = 0x1c0de001, STREAM, EVENT, MODULE, FUNCTION, GRAPH, GRAPH_EXEC, DEAD };

typedef struct CUctx_st context;
typedef struct CUstream_st stream;
typedef struct CUevent_st event;
typedef struct CUmod_st module;
typedef struct CUfunc_st function;
typedef struct CUgraph_st graph;
typedef struct CUgraphExec_st graph_exec;

struct CUctx_st {
  unsigned magic;
  CUdevice device;
  unsigned uses; /* of a primary context */
  bool primary;
  CUresult lost; /* an error after which every call fails with it */
  stream *plain; /* the stream NULL */
  context *next; /* all that were ever made */
};

typedef enum work_kind { WORK_RUN, WORK_RECORD, WORK_WAIT } work_kind;
typedef struct work {
  struct work *next;
  work_kind kind;
  const char *name; /* static */
  emulated_work run;
  void *data; /* owned */
  size_t bytes;
  event *event;
  uint64_t ticket;   /* of the event's record */
  bool asked, hangs; /* the script was asked for it; it never ends */
} work;

struct CUstream_st {
  unsigned magic;
  context *context;
  bool blocking; /* waits for the stream NULL, and it for this */
  work *first, *last;
  graph *capturing; /* or NULL */
  CUstreamCaptureMode mode;
  pthread_t capturer;
  bool origin;   /* began the capture */
  bool unjoined; /* joined a capture by an event, and the origin has not waited for it since */
  stream *next;
};

struct CUevent_st {
  unsigned magic;
  context *context;
  bool timing;
  stream *stream; /* of the last record */
  uint64_t recorded, done;
  double seconds; /* when `done` was reached */
  graph *captured;
  event *next;
};

struct CUgraph_st {
  unsigned magic;
  context *context;
  work *first, *last;
  size_t count;
  bool broken; /* the capture was invalidated */
  graph *next;
};

struct CUgraphExec_st {
  unsigned magic;
  context *context;
  graph *graph; /* a copy */
  graph_exec *next;
};

struct CUmod_st {
  unsigned magic;
  context *context;
  void *library;
  void (*shared_range)(char **first, char **last); /* of static shared memory */
  function *functions;
  module *next;
};

enum { MOST_PARAMETERS = 32 };
struct CUfunc_st {
  unsigned magic;
  module *module;
  char name[128];
  void (*call)(void **arguments);
  unsigned n_parameters, bytes[MOST_PARAMETERS];
  int shared_most; /* dynamic shared memory that a launch may ask for */
  int shared_static;
  function *next;
};

/* Options; script.c. */
typedef struct options {
  bool lazy, protect, report;
  long shuffle, devices, memory;
} options;
extern options emulated_options;
void options_read(void); /* from the environment, once */
/* The script's code for the n-th work of a name, 0 for none. Any thread that holds the lock. */
int script_of_work(const char *name);
void script_lost(const char *function); /* a call came after the context was lost */
bool script_failed_a_free(void);

/* driver.c */
context *context_now(void);
void contexts_count(emulate_alive *out);
/* Is this an error after which a context is lost? */
bool loses_context(CUresult code);

/* memory.c */
void memory_open(void); /* the host may touch device memory; nests */
void memory_close(void);
bool device_block(const void *pointer, size_t bytes,
                  size_t *left); /* left: bytes from pointer to the block's end */
bool pinned(const void *pointer, size_t bytes);
void memory_count(emulate_alive *out);
void memory_free_of(CUdevice device);

/* streams.c */
stream *stream_new(context *c, bool blocking);
/* Does a stream's work up to its end. Releases the lock while it waits for other threads. */
CUresult stream_drain(stream *s);
CUresult context_drain(context *c);
CUresult stream_of(CUstream handle,
                   stream **out); /* NULL, legacy and per-thread are the plain one */
bool capture_forbids(context *c,
                     const char *what); /* a call that would synchronise breaks a capture */
void works_free(work *first);
CUresult work_add(stream *s, work *w);
double seconds_now(void);
void streams_end_of(
    context *c); /* the context ends: drops what is queued, its streams and events are dead */
size_t streams_alive_of(const context *c);

work *work_copy(const work *w);
void streams_count(emulate_alive *out);

/* graphs.c */
graph *graph_new(context *c);
void graphs_end_of(context *c);
void graph_append(graph *g, work *w);
void graphs_count(emulate_alive *out);

/* modules.c */
void modules_end_of(context *c);
size_t modules_alive_of(const context *c);
void modules_count(emulate_alive *out);

/* fibers.c: runs all blocks of a kernel; CUDA_SUCCESS, or CUDA_ERROR_ILLEGAL_ADDRESS,
 * _LAUNCH_FAILED, with a fault. */
typedef struct launch {
  function *function;
  unsigned grid[3], block[3];
  size_t shared;
  void **arguments;
} launch;
CUresult launch_run(const launch *l);
void *fibers_attachment(void); /* the record that a module's emulated_attach takes */

/* Begins a call of the API: lock, log, script. ENTER returns a scripted code; each path out unlocks
 * by LEAVE. */
#define LEAVE(result)                                                                              \
  do {                                                                                             \
    CUresult leave_ = (result);                                                                    \
    emulated_unlock();                                                                             \
    return leave_;                                                                                 \
  } while (0)
CUresult enter(const char *function,
               context **out); /* with a context, that is not lost, if out is given */
#define ENTER(name, c)                                                                             \
  do {                                                                                             \
    CUresult enter_ = enter(name, c);                                                              \
    if (enter_ != CUDA_SUCCESS)                                                                    \
      LEAVE(enter_);                                                                               \
  } while (0)

#endif
