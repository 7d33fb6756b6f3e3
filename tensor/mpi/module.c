/* module.c: the module pinn_mpi.so: MPI behind the functions of table.h. The one file that includes mpi.h.
 *
 * All work goes over a copy of MPI_COMM_WORLD by nonblocking calls, so that the caller can give up waiting. Errors
 * return. Messages above CHUNK bytes are cut (counts are int in MPI): a gather then is one broadcast from each rank.
 *
 * A second copy is for control. A rank whose wait has passed its limit asks all (QUERY); ranks answer while they poll
 * (HERE), and hear at last who is missing (VERDICT), so that they need not wait for their own limits. A rank that has
 * died, was stopped or computes without end does not answer. Control messages are small and are never waited for.
 */
#include "tensor/mpi/table.h"

#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 30, QUERY = 1, HERE, VERDICT, WORK, POLLS_A_PROBE = 16 };

typedef struct request {
  struct request *next;
  int n;
  MPI_Request *list;
  int *counts, *offsets; /* of a gather: MPI reads them until it is done */
} request;

struct pinn_mpi_world {
  MPI_Comm work, control;
  int rank, size;
  size_t chunk;
  char *names;                /* PINN_MPI_NAME bytes a rank */
  unsigned char *here, *verdict; /* of each rank: answered; what the judge says, then what we said */
  int judge;                  /* who gave up first, as far as is known here; -1: nobody */
  unsigned polls;
  request *requests; /* under way */
};

/* ---- Errors and memory ---- */

static int failed(int code, const char *call, char *text) {
  char said[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return 0;
  MPI_Error_string(code, said, &length);
  snprintf(text, PINN_MPI_TEXT, "%.40s: %.200s", call, said);
  return 1;
}
#define TRY(call, name)                                                                            \
  do {                                                                                             \
    if (failed((call), (name), text)) return 1;                                                    \
  } while (0)

static int no_memory(char *text) {
  snprintf(text, PINN_MPI_TEXT, "out of memory for a message");
  return 1;
}

static void request_free(pinn_mpi_world *w, request *r) {
  for (request **p = &w->requests; *p; p = &(*p)->next)
    if (*p == r) {
      *p = r->next;
      break;
    }
  free(r->list);
  free(r->counts);
  free(r->offsets);
  free(r);
}

static request *request_new(pinn_mpi_world *w, size_t n, size_t parts) {
  request *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->next = w->requests;
  w->requests = r;
  r->list = calloc(n ? n : 1, sizeof(MPI_Request));
  r->counts = calloc(parts ? parts : 1, sizeof(int));
  r->offsets = calloc(parts ? parts : 1, sizeof(int));
  if (n <= INT_MAX && r->list && r->counts && r->offsets) {
    for (size_t k = 0; k < n; ++k) r->list[k] = MPI_REQUEST_NULL;
    return r;
  }
  request_free(w, r);
  return NULL;
}

static size_t pieces(const pinn_mpi_world *w, size_t bytes) { return bytes / w->chunk + (bytes % w->chunk != 0); }
static int piece(const pinn_mpi_world *w, size_t bytes, size_t k) {
  size_t left = bytes - k * w->chunk;
  return (int)(left < w->chunk ? left : w->chunk);
}

/* ---- Start and end ---- */

static int make_names(pinn_mpi_world *w, char *text) {
  char host[MPI_MAX_PROCESSOR_NAME + 1] = "", own[PINN_MPI_NAME] = "";
  int length = 0;
  TRY(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  snprintf(own, sizeof own, "%.80s, process %ld", host, (long)getpid());
  TRY(MPI_Allgather(own, PINN_MPI_NAME, MPI_CHAR, w->names, PINN_MPI_NAME, MPI_CHAR, w->work), "MPI_Allgather");
  return 0;
}

static int make_world(pinn_mpi_world *w, char *text) {
  const char *wish = getenv("PINN_MPI_CHUNK"); /* bytes; so that tests need no messages of gigabytes */
  w->judge = -1;
  w->chunk = wish && atol(wish) > 0 && atol(wish) < CHUNK ? (size_t)atol(wish) : CHUNK;
  TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  TRY(MPI_Comm_dup(MPI_COMM_WORLD, &w->work), "MPI_Comm_dup");
  TRY(MPI_Comm_dup(MPI_COMM_WORLD, &w->control), "MPI_Comm_dup");
  TRY(MPI_Comm_set_errhandler(w->work, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  TRY(MPI_Comm_set_errhandler(w->control, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  TRY(MPI_Comm_rank(w->work, &w->rank), "MPI_Comm_rank");
  TRY(MPI_Comm_size(w->work, &w->size), "MPI_Comm_size");
  w->names = calloc((size_t)w->size, PINN_MPI_NAME);
  w->here = calloc((size_t)w->size, 1);
  w->verdict = calloc((size_t)w->size, 1);
  if (!w->names || !w->here || !w->verdict) return no_memory(text);
  return make_names(w, text);
}

static void world_free(pinn_mpi_world *w) {
  while (w->requests) request_free(w, w->requests);
  free(w->names);
  free(w->here);
  free(w->verdict);
  free(w);
}

static pinn_mpi_table table;

static int start(pinn_mpi_world **out, size_t *rank, size_t *size, const char **names, char *text) {
  int before = 0, provided = 0;
  *out = NULL;
  MPI_Initialized(&before);
  if (before) {
    snprintf(text, PINN_MPI_TEXT, "MPI was started before in this process");
    return 1;
  }
  TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) {
    snprintf(text, PINN_MPI_TEXT, "%.100s: MPI_THREAD_SERIALIZED is not to be had", table.library);
    return 1;
  }
  pinn_mpi_world *w = calloc(1, sizeof *w);
  if (!w) return no_memory(text);
  if (make_world(w, text)) {
    world_free(w);
    return 1;
  }
  *rank = (size_t)w->rank;
  *size = (size_t)w->size;
  *names = w->names;
  *out = w;
  return 0;
}

/* Broken: calls that never ended may still look at what is theirs, so it stays until the process ends. */
static void finish(pinn_mpi_world *w, int broken) {
  static pinn_mpi_world *kept;
  if (broken) {
    kept = w;
    (void)kept;
    return;
  }
  MPI_Comm_free(&w->work);
  MPI_Comm_free(&w->control);
  MPI_Finalize();
  world_free(w);
}

static void abort_all(pinn_mpi_world *w, int exit_status) { MPI_Abort(w->work, exit_status); }

/* ---- Operations ---- */

static int gather_in_pieces(pinn_mpi_world *w, const size_t *bytes, const void *send, char *recv, request *r,
                            char *text) {
  for (int from = 0; from < w->size; recv += bytes[from++]) {
    if (from == w->rank && bytes[from]) memcpy(recv, send, bytes[from]);
    for (size_t k = 0; k < pieces(w, bytes[from]); ++k)
      TRY(MPI_Ibcast(recv + k * w->chunk, piece(w, bytes[from], k), MPI_BYTE, from, w->work, &r->list[r->n++]),
          "MPI_Ibcast");
  }
  return 0;
}

static int gather(pinn_mpi_world *w, const size_t *bytes, const void *send, void *recv, void **out, char *text) {
  size_t total = 0, n = 0;
  for (int k = 0; k < w->size; ++k) {
    total += bytes[k];
    n += pieces(w, bytes[k]);
  }
  request *r = request_new(w, n > 0 ? n : 1, (size_t)w->size);
  if (!r) return no_memory(text);
  *out = r;
  if (total > w->chunk) return gather_in_pieces(w, bytes, send, recv, r, text);
  int at = 0;
  for (int k = 0; k < w->size; at += r->counts[k++]) {
    r->counts[k] = (int)bytes[k];
    r->offsets[k] = at;
  }
  r->n = 1;
  TRY(MPI_Iallgatherv(send, r->counts[w->rank], MPI_BYTE, recv, r->counts, r->offsets, MPI_BYTE, w->work, r->list),
      "MPI_Iallgatherv");
  return 0;
}

static int broadcast(pinn_mpi_world *w, size_t root, size_t bytes, void *data, void **out, char *text) {
  request *r = request_new(w, pieces(w, bytes), 0);
  if (!r) return no_memory(text);
  *out = r;
  for (size_t k = 0; k < pieces(w, bytes); ++k)
    TRY(MPI_Ibcast((char *)data + k * w->chunk, piece(w, bytes, k), MPI_BYTE, (int)root, w->work, &r->list[r->n++]),
        "MPI_Ibcast");
  return 0;
}

static int send_to(pinn_mpi_world *w, size_t to, size_t bytes, const void *data, void **out, char *text) {
  size_t n = bytes ? pieces(w, bytes) : 1; /* an empty message is one, too */
  request *r = request_new(w, n, 0);
  if (!r) return no_memory(text);
  *out = r;
  for (size_t k = 0; k < n; ++k)
    TRY(MPI_Isend((const char *)data + k * w->chunk, piece(w, bytes, k), MPI_BYTE, (int)to, WORK, w->work,
                  &r->list[r->n++]),
        "MPI_Isend");
  return 0;
}

static int receive(pinn_mpi_world *w, size_t from, size_t bytes, void *data, void **out, char *text) {
  size_t n = bytes ? pieces(w, bytes) : 1;
  request *r = request_new(w, n, 0);
  if (!r) return no_memory(text);
  *out = r;
  for (size_t k = 0; k < n; ++k)
    TRY(MPI_Irecv((char *)data + k * w->chunk, piece(w, bytes, k), MPI_BYTE, (int)from, WORK, w->work,
                  &r->list[r->n++]),
        "MPI_Irecv");
  return 0;
}

/* ---- Control ---- */

static void tell(pinn_mpi_world *w, int to, int tag, const void *data, int bytes) {
  MPI_Request sent; /* small: it leaves at once or never; the data are static or the world's */
  if (MPI_Isend(data, bytes, MPI_BYTE, to, tag, w->control, &sent) == MPI_SUCCESS) MPI_Request_free(&sent);
}

/* Takes what has come, answers. */
static int look_at_control(pinn_mpi_world *w, char *text) {
  int there = 1;
  while (there) {
    MPI_Status status;
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->control, &there, &status), "MPI_Iprobe");
    if (!there) break;
    int from = status.MPI_SOURCE, tag = status.MPI_TAG;
    unsigned char *into = tag == VERDICT && w->judge < 0 ? w->verdict : w->here; /* of a second judge: any place */
    if (tag == VERDICT) {
      TRY(MPI_Recv(into, w->size, MPI_BYTE, from, tag, w->control, MPI_STATUS_IGNORE), "MPI_Recv");
      if (w->judge < 0) w->judge = from;
    } else {
      TRY(MPI_Recv(NULL, 0, MPI_BYTE, from, tag, w->control, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    w->here[from] = 1;
    if (tag == QUERY) tell(w, from, HERE, NULL, 0);
  }
  return 0;
}

static int poll(pinn_mpi_world *w, void **pointer, int *done, char *text) {
  request *r = *pointer;
  *done = 0;
  if (r) TRY(MPI_Testall(r->n, r->list, done, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (*done) {
    request_free(w, r);
    *pointer = NULL;
    return 0;
  }
  if ((!r || ++w->polls % POLLS_A_PROBE == 0) && look_at_control(w, text)) return 1;
  if (w->judge < 0) return 0;
  snprintf(text, PINN_MPI_TEXT, "rank %d gave up waiting", w->judge);
  return PINN_MPI_LOST;
}

static int all_here(const pinn_mpi_world *w) {
  int n = 0;
  for (int k = 0; k < w->size; ++k) n += w->here[k];
  return n == w->size;
}

static int roll_call(pinn_mpi_world *w, double seconds, unsigned char *present, char *text) {
  double end = MPI_Wtime() + seconds;
  int judged = w->judge >= 0, rc = 0;
  memset(w->here, 0, (size_t)w->size);
  w->here[w->rank] = 1;
  for (int k = 0; k < w->size && !judged; ++k)
    if (k != w->rank) tell(w, k, QUERY, NULL, 0);
  while (!judged && !all_here(w) && MPI_Wtime() < end && rc == 0) {
    rc = look_at_control(w, text);
    judged = w->judge >= 0;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  if (!judged) {
    memcpy(w->verdict, w->here, (size_t)w->size);
    w->judge = w->rank;
    for (int k = 0; k < w->size; ++k)
      if (k != w->rank && w->here[k]) tell(w, k, VERDICT, w->verdict, w->size);
  }
  memcpy(present, w->verdict, (size_t)w->size);
  return rc;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined(OMPI_MAJOR_VERSION)
#define BUILT "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
#define BUILT "MPICH " MPICH_VERSION
#else
#define BUILT "MPI " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif
static pinn_mpi_table table = {.version = PINN_MPI_VERSION,
                               .library = "",
                               .built = BUILT,
                               .start = start,
                               .gather = gather,
                               .broadcast = broadcast,
                               .send = send_to,
                               .receive = receive,
                               .poll = poll,
                               .roll_call = roll_call,
                               .abort = abort_all,
                               .finish = finish};

__attribute__((visibility("default"))) pinn_mpi_table *pinn_mpi(void);
pinn_mpi_table *pinn_mpi(void) {
  static char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(library, &length); /* may be called before MPI is started */
  library[strcspn(library, "\n")] = 0;
  table.library = library;
  return &table;
}
