/* vector.h: arithmetic of flat f64 vectors for the optimizers, with bits that depend on nothing but
 * the inputs. Inside pinn/ only. Arrays may not overlap unless a line says so. */
#ifndef PINN_VECTOR_H
#define PINN_VECTOR_H

#include <stdbool.h>
#include <stddef.h>

/* sum_i x_i y_i by the fixed tree of vector.c; x == y is fine. 0 for n = 0. */
double pn_dot(size_t n, const double *x, const double *y);
/* |x|_2 without overflow or underflow of the squares; NaN if an entry is NaN, infinity if one is.
 */
double pn_norm(size_t n, const double *x);
/* max_i |x_i|; NaN if an entry is NaN. */
double pn_norm_max(size_t n, const double *x);
bool pn_all_finite(size_t n, const double *x);

/* y <- y + a x. */
void pn_axpy(size_t n, double a, const double *x, double *y);
/* out <- x + a p; out may be x or p. */
void pn_add_scaled(size_t n, const double *x, double a, const double *p, double *out);
/* out <- x - y; out may be x or y. */
void pn_subtract(size_t n, const double *x, const double *y, double *out);
/* x <- a x. */
void pn_scale(size_t n, double a, double *x);
void pn_copy(size_t n, const double *from, double *to);

/* Scalar functions whose bits do not depend on the machine's libm; relative error below 4 u
 * (absolute for the logarithm near 1 and the cosine near its zeros). log2 wants 0 < x < infinity.
 */
double pn_log2(double x);
double pn_exp2(double x);
double pn_cos_pi(double x); /* cos(pi x), 0 <= x <= 1 */

#endif
