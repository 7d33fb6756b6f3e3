/* version.c: the version of the program and of the libraries it runs with. */
#include <cblas.h>
#include <hdf5.h>
#include <stdio.h>

#include "pinn/pinn.h"

const char *pn_version(void) { return PINN_VERSION; }

const char *pn_hdf5_version(void) {
  static _Thread_local char text[48];
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0)
    return "unknown";
  snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
  return text;
}

const char *pn_blas_name(void) { return openblas_get_config(); }
