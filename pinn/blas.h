/* blas.h: who may use threads. Inside pinn/ only.
 *
 * OpenBLAS splits sums by its number of threads, so factorisations have the same bits everywhere
 * only with one; and its threads must never run beside those of a tn_pool. */
#ifndef PINN_BLAS_H
#define PINN_BLAS_H

/* One BLAS thread from now on, for the whole process; returns how many there were. Call from one
 * thread, outside a pool run. */
int pn_blas_alone(void);
void pn_blas_restore(int threads);

#endif
