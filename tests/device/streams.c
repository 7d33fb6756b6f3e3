/* streams.c: streams and events of the emulated device.
 *
 * A stream is a queue. What is put in is done when something asks for it: synchronising the stream,
 * an event or the context, freeing memory, a copy that waits; a query does one piece. So a program
 * that reads a result or changes a source too early sees it (option lazy; without it all is done at
 * once). The other order of two streams is that of their events alone. The stream NULL does its
 * work at once, after that of all blocking streams.
 *
 * The works of a capture go to a graph instead, in the order of the calls, which is one order that
 * its edges allow.
 */
#include "tests/device/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static stream *streams; /* all ever made */
static event *events;
static const double patience =
    20; /* seconds until a wait for work that hangs gives up; a real one never does */

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void rest(void) {
  struct timespec nap = {0, 50000};
  emulated_unlock();
  nanosleep(&nap, NULL);
  emulated_lock();
}

stream *stream_new(context *c, bool blocking) {
  stream *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  *s = (stream){.magic = STREAM, .context = c, .blocking = blocking, .next = streams};
  streams = s;
  return s;
}

CUresult stream_of(CUstream handle, stream **out) {
  context *c = context_now();
  *out = handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD ? c->plain
                                                                                        : handle;
  if ((*out)->magic == STREAM && (*out)->context == c)
    return CUDA_SUCCESS;
  emulated_fault((*out)->magic == STREAM ? "a stream of another context is used"
                                         : "a stream is used after its end");
  return CUDA_ERROR_INVALID_HANDLE;
}

void works_free(work *first) {
  for (work *w = first, *next; w; w = next) {
    next = w->next;
    free(w->data);
    free(w);
  }
}

work *work_copy(const work *w) {
  work *copy = malloc(sizeof *copy);
  void *data = malloc(w->bytes ? w->bytes : 1);
  if (!copy || !data) {
    free(copy);
    free(data);
    return NULL;
  }
  *copy = *w;
  copy->next = NULL;
  copy->data = data;
  if (w->bytes)
    memcpy(data, w->data, w->bytes);
  return copy;
}

static void stream_drop(stream *s) {
  works_free(s->first);
  s->first = s->last = NULL;
}

static void lose(context *c, CUresult code) {
  c->lost = code;
  for (stream *s = streams; s; s = s->next)
    if (s->context == c)
      stream_drop(s);
}

static void pop(stream *s) {
  work *w = s->first;
  s->first = w->next;
  if (!s->first)
    s->last = NULL;
  w->next = NULL;
  works_free(w);
}

static CUresult run_work(work *w) {
  if (!w->asked) {
    int code = script_of_work(w->name);
    w->asked = true;
    w->hangs = code == EMULATE_HANG;
    if (code && !w->hangs)
      return (CUresult)code;
  }
  if (w->hangs)
    return CUDA_ERROR_NOT_READY;
  memory_open();
  CUresult result = w->run(w->data);
  memory_close();
  return result;
}

/* Does the first work of a stream, or what it waits for: CUDA_SUCCESS if something was done,
 * _NOT_READY if nothing can be done now, else the error that has ended the context. */
static CUresult step(stream *s) {
  work *w = s->first;
  if (!w)
    return CUDA_SUCCESS;
  if (w->kind == WORK_WAIT) {
    if (w->event->done < w->ticket && w->event->stream && w->event->stream != s)
      return w->event->stream->first ? step(w->event->stream) : CUDA_ERROR_NOT_READY;
  } else if (w->kind == WORK_RECORD) {
    w->event->done = w->ticket > w->event->done ? w->ticket : w->event->done;
    w->event->seconds = seconds_now();
  } else {
    CUresult result = run_work(w);
    if (result == CUDA_ERROR_NOT_READY)
      return result;
    if (result) {
      lose(s->context, result);
      return result;
    }
  }
  pop(s);
  return CUDA_SUCCESS;
}

/* Steps until `event` has its ticket, or, without one, until the stream is empty. */
static CUresult steps_until(stream *s, const event *e, uint64_t ticket) {
  context *c = s->context;
  double begin = seconds_now();
  while (e ? e->done < ticket : s->first != NULL) {
    if (c->lost)
      return c->lost;
    CUresult result = step(s);
    if (result == CUDA_ERROR_NOT_READY) {
      if (seconds_now() - begin > patience) {
        emulated_fault("work in a stream never ends");
        lose(c, CUDA_ERROR_LAUNCH_TIMEOUT);
        return CUDA_ERROR_LAUNCH_TIMEOUT;
      }
      rest();
    } else if (result) {
      return result;
    }
  }
  return c->lost;
}

CUresult stream_drain(stream *s) { return steps_until(s, NULL, 0); }

static CUresult drain_those(context *c, bool blocking_only) {
  for (stream *s = streams; s; s = s->next)
    if (s->magic == STREAM && s->context == c && (s->blocking || !blocking_only)) {
      CUresult result = stream_drain(s);
      if (result)
        return result;
    }
  return c->lost;
}
CUresult context_drain(context *c) { return drain_those(c, false); }

CUresult work_add(stream *s, work *w) {
  context *c = s->context;
  if (s == c->plain) {
    CUresult result = drain_those(c, true);
    if (result) {
      works_free(w);
      return result;
    }
  }
  *(s->last ? &s->last->next : &s->first) = w;
  s->last = w;
  if (s == c->plain)
    return stream_drain(s);
  if (!emulated_options.lazy)
    while (s->first && !c->lost && step(s) == CUDA_SUCCESS)
      ;
  return CUDA_SUCCESS; /* its errors show later */
}

CUresult emulated_queue(CUstream handle, const char *name, emulated_work run, const void *data,
                        size_t bytes) {
  emulated_lock();
  stream *s;
  context *c = context_now();
  if (!c || c->magic != CONTEXT || c->lost)
    LEAVE(c && c->lost ? c->lost : CUDA_ERROR_INVALID_CONTEXT);
  CUresult result = stream_of(handle, &s);
  if (result)
    LEAVE(result);
  work like = {
      .kind = WORK_RUN, .name = name, .run = run, .data = (void *)(uintptr_t)data, .bytes = bytes};
  work *w = work_copy(&like);
  if (!w)
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  if (s->capturing) {
    graph_append(s->capturing, w);
    s->unjoined = !s->origin;
    LEAVE(CUDA_SUCCESS);
  }
  LEAVE(work_add(s, w));
}

/* ---- Streams --------------------------------------------------------------------------------- */
EMULATED CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  context *c;
  ENTER("cuStreamCreate", &c);
  *out = stream_new(c, !(flags & CU_STREAM_NON_BLOCKING));
  LEAVE(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EMULATED CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  (void)priority;
  return cuStreamCreate(out, flags);
}

#define ENTER_STREAM(call, handle, s)                                                              \
  context *c;                                                                                      \
  ENTER(call, &c);                                                                                 \
  stream *s;                                                                                       \
  CUresult stream_ = stream_of(handle, &s);                                                        \
  if (stream_)                                                                                     \
  LEAVE(stream_)

EMULATED CUresult cuStreamDestroy(CUstream handle) {
  ENTER_STREAM("cuStreamDestroy", handle, s);
  CUresult result = s == c->plain ? CUDA_ERROR_INVALID_HANDLE : stream_drain(s);
  if (s != c->plain)
    s->magic = DEAD;
  LEAVE(result);
}

/* A wait that a capture does not allow breaks the capture. */
static bool broken_capture(stream *s) {
  if (s->capturing)
    s->capturing->broken = true;
  return s->capturing != NULL;
}

EMULATED CUresult cuStreamSynchronize(CUstream handle) {
  ENTER_STREAM("cuStreamSynchronize", handle, s);
  if (broken_capture(s))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUresult result = s == c->plain ? drain_those(c, true) : CUDA_SUCCESS;
  LEAVE(result ? result : stream_drain(s));
}

EMULATED CUresult cuStreamQuery(CUstream handle) {
  ENTER_STREAM("cuStreamQuery", handle, s);
  if (broken_capture(s))
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUresult result = step(s);
  LEAVE(result ? result : s->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

/* ---- Capture --------------------------------------------------------------------------------- */
bool capture_forbids(context *c, const char *what) {
  (void)what;
  for (stream *s = streams; s; s = s->next) {
    if (!s->capturing || s->context != c || !s->origin || s->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
      continue;
    if (s->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        !pthread_equal(s->capturer, pthread_self()))
      continue;
    s->capturing->broken = true;
    return true;
  }
  return false;
}

EMULATED CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  ENTER_STREAM("cuStreamBeginCapture", handle, s);
  if (s == c->plain || s->capturing)
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  s->capturing = graph_new(c);
  s->mode = mode;
  s->capturer = pthread_self();
  s->origin = true;
  LEAVE(s->capturing ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EMULATED CUresult cuStreamEndCapture(CUstream handle, CUgraph *out) {
  *out = NULL;
  ENTER_STREAM("cuStreamEndCapture", handle, s);
  graph *g = s->capturing;
  if (!g || !s->origin)
    LEAVE(g ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED : CUDA_ERROR_ILLEGAL_STATE);
  bool unjoined = false;
  for (stream *each = streams; each; each = each->next)
    if (each->capturing == g) {
      unjoined = unjoined || each->unjoined;
      each->capturing = NULL;
      each->origin = each->unjoined = false;
    }
  if (g->broken || unjoined) {
    g->magic = DEAD;
    works_free(g->first);
    g->first = g->last = NULL;
    LEAVE(g->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
  *out = g;
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  ENTER_STREAM("cuStreamIsCapturing", handle, s);
  *status = !s->capturing          ? CU_STREAM_CAPTURE_STATUS_NONE
            : s->capturing->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  LEAVE(CUDA_SUCCESS);
}

/* ---- Events ---------------------------------------------------------------------------------- */
EMULATED CUresult cuEventCreate(CUevent *out, unsigned flags) {
  context *c;
  ENTER("cuEventCreate", &c);
  event *e = *out = calloc(1, sizeof *e);
  if (!e)
    LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
  *e = (event){
      .magic = EVENT, .context = c, .timing = !(flags & CU_EVENT_DISABLE_TIMING), .next = events};
  events = e;
  LEAVE(CUDA_SUCCESS);
}

static CUresult event_of(CUevent e) {
  if (e && e->magic == EVENT)
    return CUDA_SUCCESS;
  emulated_fault("an event is used after its end");
  return CUDA_ERROR_INVALID_HANDLE;
}

#define ENTER_EVENT(call, e)                                                                       \
  context *c;                                                                                      \
  ENTER(call, &c);                                                                                 \
  if (event_of(e))                                                                                 \
  LEAVE(CUDA_ERROR_INVALID_HANDLE)

EMULATED CUresult cuEventDestroy(CUevent e) {
  ENTER_EVENT("cuEventDestroy", e);
  e->magic = DEAD;
  LEAVE(CUDA_SUCCESS);
}

static CUresult add_event_work(stream *s, work_kind kind, event *e, uint64_t ticket) {
  work like = {.kind = kind, .name = "event", .event = e, .ticket = ticket};
  work *w = work_copy(&like);
  return w ? work_add(s, w) : CUDA_ERROR_OUT_OF_MEMORY;
}

EMULATED CUresult cuEventRecord(CUevent e, CUstream handle) {
  ENTER_EVENT("cuEventRecord", e);
  stream *s;
  CUresult result = stream_of(handle, &s);
  if (result)
    LEAVE(result);
  e->stream = s;
  e->captured = s->capturing;
  if (s->capturing)
    LEAVE(CUDA_SUCCESS);
  LEAVE(add_event_work(s, WORK_RECORD, e, ++e->recorded));
}

EMULATED CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned flags) {
  (void)flags;
  ENTER_EVENT("cuStreamWaitEvent", e);
  stream *s;
  CUresult result = stream_of(handle, &s);
  if (result)
    LEAVE(result);
  bool of_capture = e->captured && e->stream->capturing == e->captured;
  if (s->capturing && !of_capture && e->recorded > 0) {
    s->capturing->broken = true;
    LEAVE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (of_capture && !s->capturing) {
    s->capturing = e->captured;
    s->unjoined = true;
  } else if (of_capture) {
    e->stream->unjoined = false;
  } else if (!s->capturing && e->done < e->recorded && e->stream != s) {
    LEAVE(add_event_work(s, WORK_WAIT, e, e->recorded));
  }
  LEAVE(CUDA_SUCCESS);
}

EMULATED CUresult cuEventSynchronize(CUevent e) {
  ENTER_EVENT("cuEventSynchronize", e);
  if (e->captured)
    LEAVE(CUDA_ERROR_CAPTURED_EVENT);
  LEAVE(e->stream ? steps_until(e->stream, e, e->recorded) : CUDA_SUCCESS);
}

EMULATED CUresult cuEventQuery(CUevent e) {
  ENTER_EVENT("cuEventQuery", e);
  if (e->captured)
    LEAVE(CUDA_ERROR_CAPTURED_EVENT);
  CUresult result = e->done < e->recorded ? step(e->stream) : CUDA_SUCCESS;
  LEAVE(result ? result : e->done < e->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

EMULATED CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  ENTER_EVENT("cuEventElapsedTime", start);
  if (event_of(end) || !start->timing || !end->timing || !start->recorded || !end->recorded)
    LEAVE(CUDA_ERROR_INVALID_HANDLE);
  if (start->done < start->recorded || end->done < end->recorded)
    LEAVE(CUDA_ERROR_NOT_READY);
  *milliseconds = (float)(1e3 * (end->seconds - start->seconds));
  LEAVE(CUDA_SUCCESS);
}

/* ---- Accounts -------------------------------------------------------------------------------- */
static bool counts(const stream *s) { return s->magic == STREAM && s != s->context->plain; }

void streams_count(emulate_alive *out) {
  for (const stream *s = streams; s; s = s->next)
    out->streams += counts(s);
  for (const event *e = events; e; e = e->next)
    out->events += e->magic == EVENT;
}

size_t streams_alive_of(const context *c) {
  size_t n = 0;
  for (const stream *s = streams; s; s = s->next)
    n += s->context == c && counts(s);
  for (const event *e = events; e; e = e->next)
    n += e->context == c && e->magic == EVENT;
  return n;
}

void streams_end_of(context *c) {
  for (stream *s = streams; s; s = s->next)
    if (s->context == c) {
      stream_drop(s);
      s->magic = DEAD;
    }
  for (event *e = events; e; e = e->next)
    if (e->context == c)
      e->magic = DEAD;
}
