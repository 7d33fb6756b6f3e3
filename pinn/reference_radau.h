/* reference_radau.h: the collocation of Radau's right points, in the form that a march needs. Inside pinn/ only. */
#ifndef PINN_REFERENCE_RADAU_H
#define PINN_REFERENCE_RADAU_H

#include "tensor/tensor.h"

enum { PN_RADAU_MOST = 7 };

/* With the polynomial through (0, y_0), (c_1, y_1), ..., (c_s, y_s), c_s = 1, over a step of length 1:
 * y'(c_i) = sum_j W_ij (y_j - y_0), and W = T diag(lambda) T^-1. Complex numbers as pairs (re, im). */
typedef struct pn_radau {
  size_t s;
  double c[PN_RADAU_MOST], W[PN_RADAU_MOST][PN_RADAU_MOST];
  double lambda[PN_RADAU_MOST][2], T[PN_RADAU_MOST][PN_RADAU_MOST][2], inverse[PN_RADAU_MOST][PN_RADAU_MOST][2];
} pn_radau;
tn_status pn_radau_new(size_t s, pn_radau *out) TN_MUST_USE;
/* Weights of y_0, y_1, ..., y_s in the polynomial's value at x; `start`: of y_0 too, else through the others alone
 * (weight[0] = 0). */
void pn_radau_weights(const pn_radau *radau, double x, bool start, double *weight);

/* ---- Factors of a complex matrix (reference_radau.c) ---- */

/* A [m][n] by columns, complex pairs, taken over (tn_new). LU where it is square and well conditioned, else QR
 * with column pivoting, cut at the rank. */
typedef struct pn_factors {
  size_t m, n, rank;
  bool lu;
  double *A, *tau, *row, *norm; /* row: what rows were divided by; norm: columns */
  int32_t *pivot;
} pn_factors;
tn_status pn_factors_new(size_t m, size_t n, double **A, pn_factors *out) TN_MUST_USE;
/* b[max(m, n)] pairs: in the right side, out the solution. */
tn_status pn_factors_solve(const pn_factors *factors, double *b) TN_MUST_USE;
void pn_factors_free(pn_factors *factors);

#endif
