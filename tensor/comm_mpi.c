/* comm_mpi.c: the communicator of ranks that a launcher of MPI has started.
 *
 * MPI itself is in a module of its own (mpi/table.h), which is loaded here and only here: from PINN_MPI_MODULE, or
 * from the folder of the running program. The program is thus linked to no MPI, and starts without one.
 */
#include "tensor/comm_mpi.h"
#include "tensor/comm.h"
#include "tensor/mpi/table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Launchers ---- */

/* A count in the environment; -1: none. */
static long count_in(const char *name) {
  const char *text = getenv(name);
  char *end = NULL;
  long n = text && text[0] ? strtol(text, &end, 10) : -1;
  return end && *end == 0 && n >= 0 ? n : -1;
}

/* The number of ranks that a launcher says; 0: it says that there are some, but not how many; -1: no launcher. */
static long ranks_of_launcher(void) {
  static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS",
                                       "SLURM_STEP_NUM_TASKS"};
  long most = -1;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i)
    if (count_in(counts[i]) > most) most = count_in(counts[i]);
  return most < 0 && count_in("PMIX_RANK") >= 0 ? 0 : most;
}

bool tn_mpi_launched(void) {
  long ranks = ranks_of_launcher();
  return ranks == 0 || ranks > 1;
}

size_t tn_mpi_rank(void) {
  static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PMIX_RANK",
                                      "SLURM_PROCID"};
  for (size_t i = 0; tn_mpi_launched() && i < sizeof ranks / sizeof *ranks; ++i)
    if (count_in(ranks[i]) >= 0) return (size_t)count_in(ranks[i]);
  return 0;
}

/* ---- The class ---- */

typedef struct tn_mpi {
  const pinn_mpi_table *table;
  pinn_mpi_world *world;
  size_t size;
} tn_mpi;

static tn_status status_of(int code, const char *text) {
  if (code == 0) return TN_OK;
  return TN_FAIL(code == PINN_MPI_LOST ? TN_EPEER : TN_EENV, "%s", text);
}

static tn_status gather(void *context, const size_t *bytes, const void *send, void *recv, void **request) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  return status_of(m->table->gather(m->world, bytes, send, recv, request, text), text);
}

static tn_status broadcast(void *context, size_t root, size_t bytes, void *data, void **request) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  return status_of(m->table->broadcast(m->world, root, bytes, data, request, text), text);
}

static tn_status send_to(void *context, size_t to, size_t bytes, const void *data, void **request) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  return status_of(m->table->send(m->world, to, bytes, data, request, text), text);
}

static tn_status receive(void *context, size_t from, size_t bytes, void *data, void **request) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  return status_of(m->table->receive(m->world, from, bytes, data, request, text), text);
}

static tn_status poll(void *context, void **request, bool *done) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  int is_done = 0, code = m->table->poll(m->world, request, &is_done, text);
  *done = is_done != 0;
  return status_of(code, text);
}

static tn_status roll_call(void *context, double seconds, bool *present) {
  const tn_mpi *m = context;
  char text[PINN_MPI_TEXT] = "";
  unsigned char *here = NULL;
  TN_TRY(TN_NEW(m->size, &here));
  tn_status status = status_of(m->table->roll_call(m->world, seconds, here, text), text);
  for (size_t r = 0; r < m->size; ++r) present[r] = here[r] != 0;
  tn_free(&here);
  return status;
}

static void abort_all(void *context, int exit_status) {
  const tn_mpi *m = context;
  m->table->abort(m->world, exit_status);
}

static void mpi_free(void *context, bool broken) {
  tn_mpi *m = context;
  m->table->finish(m->world, broken);
  tn_free(&m);
}

static const tn_comm_class mpi_class = {
    .kind = "mpi", .gather = gather, .broadcast = broadcast, .send = send_to, .receive = receive,
    .poll = poll, .roll_call = roll_call, .abort = abort_all, .free = mpi_free};

/* ---- Loading ---- */

enum { PATH = 4096 };
static const char module_name[] = "pinn_mpi.so";

static void find_module(char path[PATH]) {
  const char *wish = getenv("PINN_MPI_MODULE");
  if (wish && wish[0]) {
    snprintf(path, PATH, "%s", wish);
    return;
  }
  ssize_t n = readlink("/proc/self/exe", path, PATH - sizeof module_name - 1);
  path[n > 0 ? n : 0] = 0;
  char *slash = strrchr(path, '/');
  snprintf(slash ? slash + 1 : path, sizeof module_name, "%s", module_name);
}

static tn_status load(const pinn_mpi_table **out) {
  char path[PATH];
  pinn_mpi_function function = NULL;
  find_module(path);
  /* Open MPI's own plugins look for its symbols among the global ones. Never unloaded: MPI cannot start twice. */
  void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!module) {
    const char *why = dlerror();
    return TN_FAIL(TN_EENV, "ranks were started, but the module for MPI cannot be loaded (%s): %s. It is built with the "
                   "program where MPI is found (Debian: libopenmpi-dev); PINN_MPI_MODULE names one elsewhere", path,
                   why ? why : "no reason given");
  }
  *(void **)(&function) = dlsym(module, PINN_MPI_SYMBOL); /* as POSIX has it */
  const pinn_mpi_table *table = function ? function() : NULL;
  if (!table || table->version != PINN_MPI_VERSION)
    return TN_FAIL(TN_EENV, "the module for MPI %s is not one for this program (version %u, expected %d): build both anew",
                   path, table ? table->version : 0, PINN_MPI_VERSION);
  *out = table;
  return TN_OK;
}

static tn_status make(tn_mpi *m, size_t rank, const char *names, tn_comm **out) {
  size_t size = m->size;
  char **list = NULL;
  tn_status status = TN_NEW(size, &list);
  for (size_t r = 0; r < size && status == TN_OK; ++r) {
    status = tn_new(PINN_MPI_NAME + 32, 1, &list[r]);
    if (status == TN_OK)
      snprintf(list[r], PINN_MPI_NAME + 32, "rank %zu (%s)", r, names + r * PINN_MPI_NAME);
  }
  if (status == TN_OK) status = tn_comm_new(&mpi_class, m, rank, size, (const char *const *)list, out);
  else mpi_free(m, true);
  for (size_t r = 0; list && r < size; ++r) tn_free(&list[r]);
  tn_free(&list);
  return status;
}

tn_status tn_comm_mpi(tn_comm **out) {
  const pinn_mpi_table *table = NULL;
  pinn_mpi_world *world = NULL;
  const char *names = NULL;
  char text[PINN_MPI_TEXT] = "";
  size_t rank = 0, size = 1;
  *out = NULL;
  TN_TRY(load(&table));
  if (table->start(&world, &rank, &size, &names, text))
    return TN_FAIL(TN_EENV, "MPI (%s) cannot be started: %s", table->library, text);
  long said = ranks_of_launcher();
  if (said > 1 && size == 1) {
    table->finish(world, 0);
    return TN_FAIL(TN_EENV, "the launcher has started %ld ranks, but %s sees one alone: start with the mpirun of that "
                   "MPI (srun: --mpi=pmix), or name a module for the launcher's in PINN_MPI_MODULE", said, table->library);
  }
  tn_mpi *m = NULL;
  tn_status status = TN_NEW(1, &m);
  if (status != TN_OK) {
    table->finish(world, 1);
    return status;
  }
  *m = (tn_mpi){table, world, size};
  return make(m, rank, names, out);
}

tn_status tn_mpi_about(size_t capacity, char *found, char *advice) {
  char path[PATH];
  const pinn_mpi_table *table = NULL;
  find_module(path);
  found[0] = advice[0] = 0;
  if (access(path, F_OK) != 0) {
    snprintf(found, capacity, "no module for ranks (%s)", path);
    if (tn_mpi_launched())
      snprintf(advice, capacity, "build pinn where CMake finds MPI, or name a module in PINN_MPI_MODULE");
    return TN_FAIL(TN_EUNSUPPORTED, "ranks: there is no module for MPI, %s", path);
  }
  tn_status status = load(&table);
  if (status != TN_OK) {
    snprintf(found, capacity, "%s", tn_error_text());
    snprintf(advice, capacity, "install the MPI that the module was built with, or build it anew");
    return status;
  }
  snprintf(found, capacity, "%.200s (built with %s), %s", table->library, table->built, path);
  return TN_OK;
}
