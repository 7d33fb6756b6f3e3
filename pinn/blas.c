/* blas.c: the number of OpenBLAS threads, set around factorisations. The setting is global and
 * changing it is cheap: threads that are not used sleep. */
#include "pinn/blas.h"

#include <cblas.h>

int pn_blas_alone(void) {
  int threads = openblas_get_num_threads();
  if (threads != 1)
    openblas_set_num_threads(1);
  return threads;
}

void pn_blas_restore(int threads) {
  if (threads != 1)
    openblas_set_num_threads(threads);
}
