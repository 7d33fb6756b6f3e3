/* cmd_doctor.c: `pinn doctor`: what this build has, what this machine offers it, and what to do where
 * the two do not fit.
 *
 * Without options it describes: a machine without GPU is a fine machine, and what is wrong with a
 * library that nobody asked for is told, not punished. With --device it answers whether that device
 * can be used, by opening it as a run does. The same rows go to the terminal and to the JSON file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/cli/backends.h"
#include "pinn/cli/bench.h"
#include "pinn/cli/options.h"
#include "pinn/pinn.h"
#include "tensor/comm_mpi.h"
#include "tensor/factor.h"
#if PINN_HAVE_CUDA
#include "cuda/cuda_backend.h"
#endif

typedef struct {
  bench_text words, json;
  bool broken; /* something that was configured does not work */
} sheet;

/* A row: what was found, how it is, and what to do ("": nothing). */
static void row(sheet *s, const char *name, const char *state, const char *found, const char *advice) {
  char key[64];
  bench_put(&s->words, "%-10s %s%s\n", name, strcmp(state, "broken") == 0 ? "BROKEN: " : "", found);
  if (advice[0] != '\0')
    bench_put(&s->words, "%-10s -> %s\n", "", advice);
  bench_json_text(&s->json, name, found);
  snprintf(key, sizeof key, "%.40s state", name);
  bench_json_text(&s->json, key, state);
  if (advice[0] != '\0') {
    snprintf(key, sizeof key, "%.40s advice", name);
    bench_json_text(&s->json, key, advice);
  }
}

static void fine(sheet *s, const char *name, const char *found) { row(s, name, "fine", found, ""); }

static tn_status machine(sheet *s) {
  char text[256];
  tn_pool *pool = NULL;
  TN_TRY(tn_pool_new(0, &pool));
  const size_t threads = tn_pool_threads(pool);
  tn_pool_free(&pool);
  snprintf(text, sizeof text, "%s, %s", pn_version(), bench_compiler());
  fine(s, "pinn", text);
  snprintf(text, sizeof text, "%s kernels, %zu thread%s", tn_isa(), threads, threads == 1 ? "" : "s");
  fine(s, "cpu", text);
  snprintf(text, sizeof text, "%d; `pinn validate ops` measures them against MPFR", (int)TN_OPS);
  fine(s, "operations", text);
  fine(s, "blas", pn_blas_name());
  snprintf(text, sizeof text, "HDF5 %s", pn_hdf5_version());
  fine(s, "files", text);
  if (tn_check_float_environment() == TN_OK) {
    fine(s, "rounding", "to nearest, subnormals kept");
  } else {
    s->broken = true; /* every result depends on it */
    row(s, "rounding", "broken", tn_error_text(), "start pinn in a process with the default rounding and FTZ, DAZ off");
  }
  return TN_OK;
}

static void ranks(sheet *s) {
  char found[512], advice[512];
  const tn_status status = tn_mpi_about(sizeof found, found, advice);
  const bool wished = tn_mpi_launched();
  row(s, "MPI", status == TN_OK ? "fine" : status == TN_EUNSUPPORTED ? "absent" : "broken", found, advice);
  if (wished && status != TN_OK)
    s->broken = true;
}

#if PINN_HAVE_CUDA
static tn_status gpus(sheet *s) {
  static const char *const states[] = {[GPU_FINE] = "fine", [GPU_ABSENT] = "absent", [GPU_BROKEN] = "broken"};
  size_t n = 0;
  gpu_finding *list = NULL;
  TN_TRY(gpu_findings(&n, &list));
  fine(s, "cuda", "in this build");
  for (size_t i = 0; i < n; ++i) {
    row(s, list[i].name, states[list[i].state], list[i].found, list[i].advice);
    if (list[i].state == GPU_BROKEN && getenv("PINN_CUDA_PATH") != NULL)
      s->broken = true; /* somebody set it up */
  }
  tn_free(&list);
  return TN_OK;
}
#else
static tn_status gpus(sheet *s) {
  row(s, "cuda", "absent", "not in this build", "for `--device cuda`, build it where CMake finds a CUDA toolkit");
  return TN_OK;
}
#endif

/* Opens the device as a run would; its name is the last row. */
static tn_status try_device(sheet *s, const char *name) {
  tn_device *device = NULL;
  TN_TRY(cli_device(name, &device));
  fine(s, "use", tn_device_text(device));
  tn_device_close(&device);
  return TN_OK;
}

static int run(const cli_command *self, int argc, char **argv) {
  const char *device = NULL, *json = NULL, *words[64];
  const cli_option options[] = {
      {"device", "cpu|cuda", CLI_TEXT, &device, "open this device, too; exit 3 if that fails"},
      {"json", "FILE", CLI_TEXT, &json, "the same rows as a JSON object"},
      {0},
  };
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options,
                         "Exit status: 3 if what was asked for (--device), or is configured, does not work.\n"
                         "A machine without GPU is fine without --device.\n",
                         argc, argv, 0, 0, "", words, &n);
  if (status >= 0)
    return status;
  sheet s = {0};
  tn_status done = cli_device_named(device);
  if (done != TN_OK)
    return cli_failed(done);
  done = machine(&s);
  if (done == TN_OK)
    ranks(&s);
  if (done == TN_OK)
    done = gpus(&s);
  if (done == TN_OK && device != NULL)
    done = try_device(&s, device);
  bench_json_number(&s.json, "status", done != TN_OK ? cli_exit_status(done) : s.broken ? 3 : 0);
  bench_json_end(&s.json);
  char reason[1024];
  snprintf(reason, sizeof reason, "%s", tn_error_text());
  status = bench_deliver(&s.words, &s.json, json);
  if (done != TN_OK) {
    fprintf(stderr, "%s\n", reason);
    return cli_exit_status(done);
  }
  return status != 0 ? status : s.broken ? 3 : 0;
}

const cli_command cli_doctor = {"doctor", "[--device cpu|cuda] [--json FILE]",
                                "What this build has, whether this machine serves it, and what to do if not.", run};
