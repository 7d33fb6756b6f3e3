/* support_comm.c: ranks as threads; see support_comm.h. */
#include "tests/support_comm.h"

#include "tensor/comm.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Allocations of the harness are not the library's: plain calloc, so that injected faults hit the code under test. */
static void *room(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p)
    abort();
  return p;
}

typedef struct message {
  struct message *next;
  size_t bytes;
  const void *data; /* the sender's, or own */
  void *own;
  double ready; /* when it arrives */
  bool taken, owned_by_sender;
} message;

enum { COLLECTIVE, DIRECT, CHANNELS };

struct ranks_world {
  pthread_mutex_t lock;
  size_t ranks;
  message **first;       /* [channel][from][to] */
  bool *silent, *absent; /* absent: by the verdict of a rank that gave up */
  double *delay;
  uint64_t *beats; /* polls of each rank */
  size_t *calls;
  size_t judge; /* who gave up first; SIZE_MAX: nobody */
  int aborted;
};

typedef struct member {
  ranks_world *world;
  size_t rank;
  struct request *requests; /* under way */
} member;

typedef struct request {
  struct request *next;
  size_t channel, n; /* n: parts, of ranks from[] */
  size_t *from, *bytes;
  char **into;
  bool *seen;
  message *sent; /* of a direct message */
} request;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static message **queue(ranks_world *w, size_t channel, size_t from, size_t to) {
  return &w->first[(channel * w->ranks + from) * w->ranks + to];
}

static message *push(ranks_world *w, size_t channel, size_t from, size_t to, size_t bytes,
                     const void *data) {
  message *m = room(sizeof *m), **last = queue(w, channel, from, to);
  m->bytes = bytes;
  m->ready = now() + w->delay[from];
  m->data = data;
  if (channel == COLLECTIVE) {
    m->data = m->own = room(bytes);
    if (bytes)
      memcpy(m->own, data, bytes);
  }
  while (*last)
    last = &(*last)->next;
  *last = m;
  return m;
}

/* Takes a message if there is one: 1; sizes differ: -1. */
static int pop(ranks_world *w, size_t channel, size_t from, size_t to, size_t bytes, void *into) {
  message **first = queue(w, channel, from, to), *m = *first;
  if (!m || m->ready > now())
    return 0;
  if (m->bytes != bytes)
    return -1;
  if (bytes)
    memcpy(into, m->data, bytes);
  *first = m->next;
  m->taken = true;
  if (!m->owned_by_sender) {
    free(m->own);
    free(m);
  }
  return 1;
}

static request *request_new(member *m, size_t channel, size_t parts) {
  request *r = room(sizeof *r);
  *r = (request){.next = m->requests, .channel = channel, .n = parts};
  m->requests = r;
  r->from = room(parts * sizeof *r->from);
  r->bytes = room(parts * sizeof *r->bytes);
  r->into = room(parts * sizeof *r->into);
  r->seen = room(parts);
  return r;
}

static void request_free(member *m, request *r) {
  request **p = &m->requests;
  while (*p != r)
    p = &(*p)->next;
  *p = r->next;
  free(r->from);
  free(r->bytes);
  free(r->into);
  free(r->seen);
  free(r);
}

static void expect(request *r, size_t k, size_t from, size_t bytes, void *into) {
  r->from[k] = from;
  r->bytes[k] = bytes;
  r->into[k] = into;
}

static tn_status gather(void *context, const size_t *bytes, const void *send, void *recv,
                        void **out) {
  member *m = context;
  ranks_world *w = m->world;
  request *r = request_new(m, COLLECTIVE, w->ranks);
  char *to = recv;
  pthread_mutex_lock(&w->lock);
  ++w->calls[m->rank];
  for (size_t k = 0; k < w->ranks; to += bytes[k++]) {
    expect(r, k, k, bytes[k], to);
    if (k == m->rank) {
      if (bytes[k])
        memcpy(to, send, bytes[k]);
      r->seen[k] = true;
    } else if (!w->silent[m->rank])
      push(w, COLLECTIVE, m->rank, k, bytes[m->rank], send);
  }
  pthread_mutex_unlock(&w->lock);
  *out = r;
  return TN_OK;
}

static tn_status broadcast(void *context, size_t root, size_t bytes, void *data, void **out) {
  member *m = context;
  ranks_world *w = m->world;
  request *r = request_new(m, COLLECTIVE, m->rank == root ? 0 : 1);
  pthread_mutex_lock(&w->lock);
  ++w->calls[m->rank];
  if (m->rank != root)
    expect(r, 0, root, bytes, data);
  else
    for (size_t k = 0; k < w->ranks; ++k)
      if (k != root && !w->silent[root])
        push(w, COLLECTIVE, root, k, bytes, data);
  pthread_mutex_unlock(&w->lock);
  *out = r;
  return TN_OK;
}

static tn_status send_to(void *context, size_t to, size_t bytes, const void *data, void **out) {
  member *m = context;
  request *r = request_new(m, DIRECT, 0);
  pthread_mutex_lock(&m->world->lock);
  if (!m->world->silent[m->rank]) {
    r->sent = push(m->world, DIRECT, m->rank, to, bytes, data);
    r->sent->owned_by_sender = true;
  }
  pthread_mutex_unlock(&m->world->lock);
  *out = r;
  return TN_OK;
}

static tn_status receive(void *context, size_t from, size_t bytes, void *data, void **out) {
  member *m = context;
  request *r = request_new(m, DIRECT, 1);
  expect(r, 0, from, bytes, data);
  *out = r;
  return TN_OK;
}

static tn_status poll_locked(const member *m, request *r, bool *done) {
  ranks_world *w = m->world;
  ++w->beats[m->rank];
  *done = r && (!r->sent || r->sent->taken);
  for (size_t k = 0; r && k < r->n; ++k) {
    if (r->seen[k])
      continue;
    int got = pop(w, r->channel, r->from[k], m->rank, r->bytes[k], r->into[k]);
    if (got < 0)
      return TN_FAIL(TN_ESTATE, "a message of rank %zu is not of %zu bytes", r->from[k],
                     r->bytes[k]);
    r->seen[k] = got > 0;
    *done = *done && got > 0;
  }
  if (!*done && w->judge != SIZE_MAX)
    return TN_FAIL(TN_EPEER, "rank %zu gave up", w->judge);
  return TN_OK;
}

static tn_status poll_request(void *context, void **pointer, bool *done) {
  member *m = context;
  request *r = *pointer;
  tn_status status = TN_OK;
  *done = false;
  pthread_mutex_lock(&m->world->lock);
  if (!m->world->silent[m->rank])
    status = poll_locked(m, r, done);
  pthread_mutex_unlock(&m->world->lock);
  if (!r || (!*done && status == TN_OK))
    return status;
  if (r->sent && !*done)
    return status; /* the message is still in its queue */
  free(r->sent);
  request_free(m, r);
  *pointer = NULL;
  return status;
}

static tn_status roll_call(void *context, double seconds, bool *present) {
  member *m = context;
  ranks_world *w = m->world;
  uint64_t *before = room(w->ranks * sizeof *before);
  double end = now() + seconds;
  pthread_mutex_lock(&w->lock);
  memcpy(before, w->beats, w->ranks * sizeof *before);
  bool judged = w->judge != SIZE_MAX;
  for (size_t all = 0; all < w->ranks && !judged && now() < end;) {
    all = 0;
    if (!w->silent[m->rank])
      ++w->beats[m->rank];
    for (size_t k = 0; k < w->ranks; ++k) {
      present[k] = k == m->rank || w->beats[k] != before[k];
      all += present[k];
    }
    pthread_mutex_unlock(&w->lock);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_lock(&w->lock);
    judged = w->judge != SIZE_MAX;
  }
  for (size_t k = 0; k < w->ranks; ++k) {
    if (judged)
      present[k] = !w->absent[k];
    else
      w->absent[k] = !present[k];
  }
  if (!judged && !w->silent[m->rank])
    w->judge = m->rank;
  pthread_mutex_unlock(&w->lock);
  free(before);
  return TN_OK;
}

static void abort_all(void *context, int exit_status) {
  member *m = context;
  pthread_mutex_lock(&m->world->lock);
  m->world->aborted = exit_status;
  pthread_mutex_unlock(&m->world->lock);
}

/* The sender keeps its data no longer. */
static void leave_copy(message *m) {
  m->own = room(m->bytes);
  if (m->bytes)
    memcpy(m->own, m->data, m->bytes);
  m->data = m->own;
  m->owned_by_sender = false;
}

static void member_free(void *context, bool broken) {
  (void)broken;
  member *m = context;
  pthread_mutex_lock(&m->world->lock);
  while (m->requests) {
    message *sent = m->requests->sent;
    if (sent && sent->taken)
      free(sent);
    else if (sent)
      leave_copy(sent);
    request_free(m, m->requests);
  }
  pthread_mutex_unlock(&m->world->lock);
  free(m);
}

static const tn_comm_class threads_class = {.kind = "threads",
                                            .gather = gather,
                                            .broadcast = broadcast,
                                            .send = send_to,
                                            .receive = receive,
                                            .poll = poll_request,
                                            .roll_call = roll_call,
                                            .abort = abort_all,
                                            .free = member_free};

/* ---- The world ---- */

static ranks_world *world_new(size_t ranks) {
  ranks_world *w = room(sizeof *w);
  w->ranks = ranks;
  w->judge = SIZE_MAX;
  w->aborted = -1;
  w->first = room(CHANNELS * ranks * ranks * sizeof *w->first);
  w->silent = room(ranks);
  w->absent = room(ranks);
  w->delay = room(ranks * sizeof *w->delay);
  w->beats = room(ranks * sizeof *w->beats);
  w->calls = room(ranks * sizeof *w->calls);
  pthread_mutex_init(&w->lock, NULL);
  return w;
}

static void world_free(ranks_world *w) {
  for (size_t i = 0; i < CHANNELS * w->ranks * w->ranks; ++i)
    while (w->first[i]) {
      message *gone = w->first[i];
      w->first[i] = gone->next;
      free(gone->own);
      free(gone);
    }
  pthread_mutex_destroy(&w->lock);
  free(w->first);
  free(w->silent);
  free(w->absent);
  free(w->delay);
  free(w->beats);
  free(w->calls);
  free(w);
}

typedef struct thread {
  ranks_self self;
  void (*body)(const ranks_self *self);
  double limit;
  const char *const *names;
  bool made;
} thread;

static void *run(void *context) {
  thread *t = context;
  member *m = room(sizeof *m);
  *m = (member){t->self.world, t->self.rank, NULL};
  t->made = tn_comm_new(&threads_class, m, t->self.rank, t->self.size, t->names, &t->self.comm) ==
                TN_OK &&
            tn_comm_limit(t->self.comm, t->limit) == TN_OK;
  if (t->made)
    t->body(&t->self);
  tn_comm_free(&t->self.comm);
  return NULL;
}

void ranks_run(size_t ranks, double limit, void (*body)(const ranks_self *self), void *context) {
  ranks_world *w = world_new(ranks);
  thread *list = room(ranks * sizeof *list);
  pthread_t *id = room(ranks * sizeof *id);
  char **names = room(ranks * sizeof *names);
  for (size_t r = 0; r < ranks; ++r) {
    names[r] = room(64);
    snprintf(names[r], 64, "rank %zu (thread)", r);
  }
  for (size_t r = 0; r < ranks; ++r) {
    list[r] =
        (thread){{w, NULL, r, ranks, context}, body, limit, (const char *const *)names, false};
    if (pthread_create(&id[r], NULL, run, &list[r]) != 0)
      abort();
  }
  bool made = true;
  for (size_t r = 0; r < ranks; ++r) {
    pthread_join(id[r], NULL);
    made = made && list[r].made;
    free(names[r]);
  }
  free(names);
  free(id);
  free(list);
  world_free(w);
  assert_true(made);
}

tn_status ranks_try(void) {
  static const char *const name = "rank 0 (thread)";
  ranks_world *w = world_new(1);
  member *m = room(sizeof *m);
  tn_comm *comm = NULL;
  *m = (member){w, 0, NULL};
  tn_status status = tn_comm_new(&threads_class, m, 0, 1, &name, &comm);
  tn_comm_free(&comm);
  world_free(w);
  return status;
}

void ranks_silence(ranks_world *w, size_t rank) {
  pthread_mutex_lock(&w->lock);
  w->silent[rank] = true;
  pthread_mutex_unlock(&w->lock);
}

void ranks_delay(ranks_world *w, size_t rank, double seconds) {
  pthread_mutex_lock(&w->lock);
  w->delay[rank] = seconds;
  pthread_mutex_unlock(&w->lock);
}

int ranks_aborted(ranks_world *w) {
  pthread_mutex_lock(&w->lock);
  int status = w->aborted;
  pthread_mutex_unlock(&w->lock);
  return status;
}

size_t ranks_calls(ranks_world *w, size_t rank) {
  pthread_mutex_lock(&w->lock);
  size_t n = w->calls[rank];
  pthread_mutex_unlock(&w->lock);
  return n;
}
