/* comm.c: ranks: time limits, names, and the rules that all kinds of communicators share.
 *
 * A class (comm.h) starts an operation and polls it. Here every wait has a limit. When it has passed, a roll call
 * asks which ranks still answer; the others are named, and from then on nothing more is sent: what a lost rank has
 * left half done cannot be repaired, so each later call fails at once with the same text, and the run is taken up
 * again from its checkpoint. A rank that waits in another call than the rest answers, too; then the ranks have lost
 * step, and the text says that.
 *
 * Waiting: polls for some tens of microseconds, as long as a message takes on one machine, then gives the core away
 * between polls, and sleeps longer and longer up to a millisecond, so that ranks may outnumber cores.
 */
#include "tensor/comm.h"
#include "tensor/backend.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_SECONDS = 60, TEXT = 512 };
#define ROLL_CALL_SECONDS 1.0
#define MOST_SECONDS 1e7 /* four months */

typedef struct post { /* a message on its way */
  struct post *next;
  void *request;
  void *data; /* owned */
} post;

struct tn_comm {
  const tn_comm_class *class_;
  void *context;
  size_t rank, size;
  char **names;  /* owned */
  double limit;  /* seconds */
  tn_status failed;
  char text[TEXT]; /* of the failure */
  post *posts;     /* oldest first */
  bool *present;   /* room for roll calls, and below for small gathers, which so never lack memory */
  size_t *parts;
  uint64_t *words;
  double seconds;  /* spent */
  uint64_t bytes, calls;
};

/* ---- Life ---- */

static bool is_limit(double seconds) { return seconds > 0 && seconds <= MOST_SECONDS; }

/* Digits and one point, so that no locale matters. */
static tn_status limit_of_environment(double *limit) {
  const char *wish = getenv("PINN_COMM_SECONDS");
  *limit = DEFAULT_SECONDS;
  if (!wish || !wish[0]) return TN_OK;
  double value = 0, unit = 0;
  const char *c = wish;
  for (; (*c >= '0' && *c <= '9') || (*c == '.' && unit == 0); ++c) {
    if (*c == '.') unit = 1;
    else if (unit == 0) value = 10 * value + (*c - '0');
    else value += (*c - '0') * (unit /= 10);
  }
  if (*c || !is_limit(value))
    return TN_FAIL(TN_EINPUT, "PINN_COMM_SECONDS: `%s`, expected a number of seconds above 0 and up to %.0f, as 60 or 2.5",
                   wish, MOST_SECONDS);
  *limit = value;
  return TN_OK;
}

tn_status tn_comm_new(const tn_comm_class *class_, void *context, size_t rank, size_t size,
                      const char *const *names, tn_comm **out) {
  tn_comm *comm = NULL;
  *out = NULL;
  tn_status status = rank < size ? TN_OK : TN_FAIL(TN_ERANGE, "ranks: number %zu of %zu", rank, size);
  if (status == TN_OK) status = TN_NEW(1, &comm);
  if (status != TN_OK) {
    class_->free(context, true);
    return status;
  }
  comm->class_ = class_;
  comm->context = context;
  comm->rank = rank;
  comm->size = size;
  status = limit_of_environment(&comm->limit);
  if (status == TN_OK) status = TN_NEW(size, &comm->present);
  if (status == TN_OK) status = TN_NEW(size, &comm->parts);
  if (status == TN_OK) status = TN_NEW(size, &comm->words);
  if (status == TN_OK) status = TN_NEW(size, &comm->names);
  for (size_t r = 0; r < size && status == TN_OK; ++r) status = tn_copy_text(names[r], &comm->names[r]);
  if (status != TN_OK) {
    comm->failed = status; /* the others are not waited for */
    tn_comm_free(&comm);
  }
  *out = comm;
  return status;
}

static void drop(post **first) {
  post *gone = *first;
  *first = gone->next;
  tn_free(&gone->data);
  tn_free(&gone);
}

static tn_status push_posts(tn_comm *comm) { /* forgets those that have arrived */
  for (post **p = &comm->posts; *p;) {
    bool done = false;
    TN_TRY(comm->class_->poll(comm->context, &(*p)->request, &done));
    if (done) drop(p);
    else p = &(*p)->next;
  }
  return TN_OK;
}

void tn_comm_free(tn_comm **pointer) {
  if (!pointer || !*pointer) return;
  tn_comm *comm = *pointer;
  if (comm->size > 1 && comm->failed == TN_OK) /* nobody leaves while others may still want an answer */
    comm->failed = tn_comm_barrier(comm, "the end");
  comm->class_->free(comm->context, comm->failed != TN_OK);
  while (comm->posts) drop(&comm->posts); /* after the class, which may still read them */
  for (size_t r = 0; comm->names && r < comm->size; ++r) tn_free(&comm->names[r]);
  tn_free(&comm->names);
  tn_free(&comm->present);
  tn_free(&comm->parts);
  tn_free(&comm->words);
  tn_free(pointer);
}

size_t tn_comm_rank(const tn_comm *comm) { return comm ? comm->rank : 0; }
size_t tn_comm_size(const tn_comm *comm) { return comm ? comm->size : 1; }
const char *tn_comm_kind(const tn_comm *comm) { return comm ? comm->class_->kind : "self"; }
const char *tn_comm_name(const tn_comm *comm, size_t rank) {
  return comm && rank < comm->size ? comm->names[rank] : "rank 0";
}

double tn_comm_seconds(const tn_comm *comm, uint64_t *bytes, uint64_t *calls) {
  if (bytes) *bytes = comm ? comm->bytes : 0;
  if (calls) *calls = comm ? comm->calls : 0;
  return comm ? comm->seconds : 0;
}

tn_status tn_comm_limit(tn_comm *comm, double seconds) {
  if (!is_limit(seconds))
    return TN_FAIL(TN_ERANGE, "ranks: a limit of %g seconds, expected above 0 and up to %g", seconds, MOST_SECONDS);
  if (comm) comm->limit = seconds;
  return TN_OK;
}

void tn_comm_abort(tn_comm *comm, int exit_status) {
  if (comm && comm->size > 1) comm->class_->abort(comm->context, exit_status);
}

/* ---- Failing ---- */

/* "rank 2 (node7, process 4711), rank 3 (...)": those that do not answer. Their number. */
static size_t name_absent(const tn_comm *comm, size_t room, char *text) {
  size_t absent = 0, used = 0;
  text[0] = 0;
  for (size_t r = 0; r < comm->size; ++r) {
    if (comm->present[r] || r == comm->rank) continue;
    ++absent;
    if (used + 10 + strlen(comm->names[r]) < room)
      used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", comm->names[r]);
    else { /* no room for more names */
      snprintf(text + used, room - used, "%s...", used ? ", " : "");
      room = used;
    }
  }
  return absent;
}

/* How many ranks do not answer, and their names. */
static size_t call_roll(const tn_comm *comm, size_t room, char *absent) {
  for (size_t r = 0; r < comm->size; ++r) comm->present[r] = false;
  if (comm->class_->roll_call(comm->context, ROLL_CALL_SECONDS, comm->present) != TN_OK)
    for (size_t r = 0; r < comm->size; ++r) comm->present[r] = true; /* nothing is known */
  return name_absent(comm, room, absent);
}

/* The communicator is of no use any more. cause: what the class said, or NULL if the limit has passed. */
static tn_status give_up(tn_comm *comm, const char *what, tn_status code, const char *cause, double limit) {
  char absent[TEXT / 2], said[TEXT / 4] = "";
  if (cause) snprintf(said, sizeof said, "%s", cause);
  size_t n = call_roll(comm, sizeof absent, absent);
  if (n)
    snprintf(comm->text, sizeof comm->text, "%s: no answer from %s within %g s%s%s", what, absent, limit,
             cause ? ": " : "", said);
  else if (cause)
    snprintf(comm->text, sizeof comm->text, "%s: %s", what, said);
  else
    snprintf(comm->text, sizeof comm->text,
             "%s: not all ranks came to this call within %g s, though all of them answer: they are in different calls",
             what, limit);
  comm->failed = n || !cause ? TN_EPEER : code;
  return TN_FAIL(comm->failed, "%s", comm->text);
}

static tn_status class_failed(tn_comm *comm, const char *what, tn_status code, double since) {
  char cause[TEXT / 4];
  snprintf(cause, sizeof cause, "%s", tn_error_text());
  return give_up(comm, what, code, cause, ceil(10 * (tn_clock() - since)) / 10);
}

static tn_status check_alive(const tn_comm *comm, const char *what) {
  if (comm->failed == TN_OK) return TN_OK;
  return TN_FAIL(comm->failed, "%s: the ranks are lost already: %s", what, comm->text);
}

/* ---- For collectives of other libraries (backend.h) ---- */

double tn_comm_limit_of(const tn_comm *comm) { return comm ? comm->limit : DEFAULT_SECONDS; }

void tn_comm_attend(tn_comm *comm) {
  void *none = NULL;
  bool done = false;
  if (comm && comm->size > 1 && comm->failed == TN_OK && comm->class_->poll(comm->context, &none, &done) != TN_OK)
    tn_error_clear(); /* a rank that is lost shows in what the caller waits for */
}

tn_status tn_comm_missing(tn_comm *comm, const char *what) {
  char absent[TEXT / 2];
  if (tn_comm_size(comm) == 1) return TN_OK;
  TN_TRY(check_alive(comm, what));
  if (!call_roll(comm, sizeof absent, absent)) return TN_OK;
  snprintf(comm->text, sizeof comm->text, "%s: no answer from %s", what, absent);
  comm->failed = TN_EPEER;
  return TN_FAIL(TN_EPEER, "%s", comm->text);
}

/* ---- Waiting ---- */

static void pause_for(double waited) {
  if (waited < 50e-6) return;
  if (waited < 2e-3) {
    sched_yield();
    return;
  }
  long ns = waited < 0.1 ? 50000 : 1000000;
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Until the operation that `status` says was started is done. */
static tn_status finish(tn_comm *comm, const char *what, tn_status status, void *request, size_t bytes) {
  double start = tn_clock(), waited = 0;
  bool done = false;
  ++comm->calls;
  comm->bytes += bytes;
  while (status == TN_OK) {
    status = comm->class_->poll(comm->context, &request, &done);
    if (status == TN_OK && !done) status = push_posts(comm);
    if (status != TN_OK || done) break;
    waited = tn_clock() - start;
    if (waited > comm->limit) break;
    pause_for(waited);
  }
  if (status != TN_OK) status = class_failed(comm, what, status, start);
  else if (!done) status = give_up(comm, what, TN_EPEER, NULL, comm->limit);
  comm->seconds += tn_clock() - start;
  return status;
}

/* ---- Calls ---- */

tn_status tn_comm_gather(tn_comm *comm, const char *what, const size_t *bytes, const void *send, void *recv) {
  void *request = NULL;
  size_t total = 0;
  if (tn_comm_size(comm) == 1) {
    if (bytes[0] && recv != send) memmove(recv, send, bytes[0]);
    return TN_OK;
  }
  TN_TRY(check_alive(comm, what));
  for (size_t r = 0; r < comm->size; ++r) total += bytes[r];
  tn_status status = comm->class_->gather(comm->context, bytes, send, recv, &request);
  return finish(comm, what, status, request, total);
}

tn_status tn_comm_broadcast(tn_comm *comm, const char *what, size_t root, size_t bytes, void *data) {
  void *request = NULL;
  if (root >= tn_comm_size(comm))
    return TN_FAIL(TN_ERANGE, "%s: broadcast from rank %zu of %zu", what, root, tn_comm_size(comm));
  if (tn_comm_size(comm) == 1) return TN_OK;
  TN_TRY(check_alive(comm, what));
  tn_status status = comm->class_->broadcast(comm->context, root, bytes, data, &request);
  return finish(comm, what, status, request, bytes);
}

/* A word of each rank, in comm->words. */
static tn_status gather_words(tn_comm *comm, const char *what, uint64_t own) {
  for (size_t r = 0; r < comm->size; ++r) comm->parts[r] = sizeof own;
  return tn_comm_gather(comm, what, comm->parts, &own, comm->words);
}

tn_status tn_comm_barrier(tn_comm *comm, const char *what) {
  return tn_comm_size(comm) == 1 ? TN_OK : gather_words(comm, what, 0);
}

tn_status tn_comm_same(tn_comm *comm, const char *what, uint64_t digest) {
  char list[TEXT] = "";
  if (tn_comm_size(comm) == 1) return TN_OK;
  TN_TRY(gather_words(comm, what, digest));
  const uint64_t *all = comm->words;
  size_t differ = 0, used = 0;
  for (size_t r = 1; r < comm->size; ++r) differ += all[r] != all[0];
  for (size_t r = 0; r < comm->size && used + 100 < sizeof list; ++r)
    if (r == 0 || all[r] != all[0])
      used += (size_t)snprintf(list + used, sizeof list - used, "%srank %zu %016llx", used ? ", " : "", r,
                               (unsigned long long)all[r]);
  if (!differ) return TN_OK;
  return TN_FAIL(TN_ESTATE, "%s: not the same on all ranks: %zu of %zu differ from rank 0: %s", what, differ,
                 comm->size, list);
}

/* The failure of rank r, in its words. */
static tn_status share_text(tn_comm *comm, const char *what, size_t r, tn_status own) {
  char text[TEXT] = "";
  tn_status code = (tn_status)comm->words[r];
  if (comm->rank == r && tn_error_code() == own) snprintf(text, sizeof text, "%s", tn_error_text());
  TN_TRY(tn_comm_broadcast(comm, what, r, sizeof text, text));
  text[sizeof text - 1] = 0;
  if (own != TN_OK) return own;
  return TN_FAIL(code, "%s: %s", comm->names[r], text[0] ? text : tn_status_text(code));
}

tn_status tn_comm_agree(tn_comm *comm, const char *what, tn_status own) {
  char text[TEXT];
  if (tn_comm_size(comm) == 1) return own;
  snprintf(text, sizeof text, "%s", own != TN_OK ? tn_error_text() : "");
  tn_status status = gather_words(comm, what, (uint64_t)own);
  for (size_t r = 0; r < comm->size && status == TN_OK; ++r)
    if (comm->words[r] != TN_OK) {
      status = share_text(comm, what, r, own);
      break;
    }
  if (own == TN_OK || status == own) return status;
  return TN_FAIL(own, "%s", text); /* the ranks are lost as well; the cause, not what it led to */
}

/* ---- Point to point ---- */

static tn_status check_other(const tn_comm *comm, const char *what, size_t other) {
  if (other >= tn_comm_size(comm) || other == tn_comm_rank(comm))
    return TN_FAIL(TN_ERANGE, "%s: a message between rank %zu and rank %zu of %zu", what, tn_comm_rank(comm), other,
                   tn_comm_size(comm));
  return check_alive(comm, what);
}

tn_status tn_comm_post(tn_comm *comm, const char *what, size_t to, size_t bytes, const void *data) {
  post *p = NULL, **last = NULL;
  double start = tn_clock();
  TN_TRY(check_other(comm, what, to));
  TN_TRY(TN_NEW(1, &p));
  tn_status status = tn_new(bytes, 1, &p->data);
  if (status != TN_OK) {
    tn_free(&p);
    return status;
  }
  if (bytes) memcpy(p->data, data, bytes);
  ++comm->calls;
  comm->bytes += bytes;
  for (last = &comm->posts; *last;) last = &(*last)->next;
  *last = p; /* kept also if it fails: the class may have its data */
  status = comm->class_->send(comm->context, to, bytes, p->data, &p->request);
  if (status == TN_OK) status = push_posts(comm);
  if (status != TN_OK) status = class_failed(comm, what, status, start);
  comm->seconds += tn_clock() - start;
  return status;
}

tn_status tn_comm_fetch(tn_comm *comm, const char *what, size_t from, size_t bytes, void *data) {
  void *request = NULL;
  TN_TRY(check_other(comm, what, from));
  tn_status status = comm->class_->receive(comm->context, from, bytes, data, &request);
  return finish(comm, what, status, request, bytes);
}
