/* cmd_doctor.c: `pinn doctor`: what this build has and what this machine offers it. */
#include <stdio.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

static const char *compiler(void) {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown compiler";
#endif
}

static int run(const cli_command *self, int argc, char **argv) {
  const cli_option options[] = {{0}};
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status =
      cli_start(self, options, "Exit status: 3 if something that pinn needs does not work.\n", argc,
                argv, 0, 0, "", words, &n);
  if (status >= 0)
    return status;
  tn_pool *pool = NULL;
  tn_status done = tn_pool_new(0, &pool);
  if (done != TN_OK)
    return cli_failed(done);
  printf("pinn       %s, %s\n", pn_version(), compiler());
  printf("cpu        %s kernels, %zu thread%s\n", tn_isa(), tn_pool_threads(pool),
         tn_pool_threads(pool) == 1 ? "" : "s");
  printf("cuda       not in this build\n");
  printf("operations %d; `pinn validate ops` measures them against MPFR\n", (int)TN_OPS);
  printf("blas       %s\n", pn_blas_name());
  printf("files      HDF5 %s\n", pn_hdf5_version());
  tn_pool_free(&pool);
  done = tn_check_float_environment();
  if (done != TN_OK)
    return cli_failed(done);
  printf("rounding   to nearest, subnormals kept\n");
  return 0;
}

const cli_command cli_doctor = {"doctor", "",
                                "What this build has, and whether this machine serves it.", run};
