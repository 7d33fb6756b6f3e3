/* backends.c: the one place that knows which devices a build has.
 *
 * A further backend is one more row here and its folder; everything else meets it as a tn_device. Nothing is loaded
 * or asked before somebody wishes for a device or ranks.
 */
#include "pinn/cli/backends.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/comm_mpi.h"
#if PINN_HAVE_CUDA
#include "cuda/cuda_backend.h"
#endif

static tn_status open_cpu(tn_device **out) {
  *out = NULL;
  return TN_OK;
}

#if PINN_HAVE_CUDA
/* The rank among those of this node, as launchers tell it; 0 if none does. */
static size_t local_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                      "PALS_LOCAL_RANKID", "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const char *text = getenv(names[i]);
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9')
      continue;
    const unsigned long rank = strtoul(text, &end, 10);
    if (*end == '\0')
      return (size_t)rank;
  }
  return 0;
}

static tn_status open_cuda(tn_device **out) {
  const size_t count = gpu_count(); /* 0: opening number 0 says why */
  return gpu_open(count > 0 ? local_rank() % count : 0, out);
}
#else
static tn_status open_cuda(tn_device **out) {
  *out = NULL;
  return TN_FAIL(TN_EENV, "cuda: this build has no CUDA backend, so no driver was looked for and there is no code "
                          "for any compute capability; build it where CMake finds a CUDA toolkit (12 or newer)");
}
#endif

static const struct {
  const char *name;
  tn_status (*open)(tn_device **out);
} devices[] = {{"cpu", open_cpu}, {"cuda", open_cuda}};
enum { DEVICES = sizeof devices / sizeof *devices };

tn_status cli_device_named(const char *name) {
  for (size_t i = 0; i < DEVICES; ++i) {
    if (name == NULL || strcmp(name, devices[i].name) == 0)
      return TN_OK;
  }
  return TN_FAIL(TN_EINPUT, "--device is `%s`, expected `cpu` or `cuda`", name);
}

tn_status cli_device(const char *name, tn_device **out) {
  *out = NULL;
  TN_TRY(cli_device_named(name));
  for (size_t i = 0; name != NULL && i < DEVICES; ++i) {
    if (strcmp(name, devices[i].name) == 0)
      return devices[i].open(out);
  }
  return TN_OK;
}

tn_status cli_ranks(tn_comm **out) {
  *out = NULL;
  return tn_mpi_launched() ? tn_comm_mpi(out) : TN_OK;
}
