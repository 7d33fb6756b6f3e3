/* support_opt.h: functions to minimise, runs of an optimizer and its state, for the tests of
 * optimizers.
 *
 * The functions are classical: minima, gradients and difficulties are known. */
#ifndef TESTS_SUPPORT_OPT_H
#define TESTS_SUPPORT_OPT_H

#include "pinn/opt.h"

/* ---- Functions ------------------------------------------------------------------------------- */

typedef double (*opt_function)(size_t n, const double *x, double *g); /* g is zeroed before */

typedef struct {
  opt_function f;
  double shift;          /* evaluated at x - shift */
  double factor;         /* of the function; 0 stands for 1 */
  size_t calls;          /* of loss or gradient */
  size_t bad_at, bad_to; /* calls bad_at .. bad_to - 1 give NaN */
  size_t fail_at;        /* this call gives TN_EIO; 0: none */
} opt_probe;

/* The slots are loss and gradient; p is borrowed. */
pn_objective opt_objective(opt_probe *p, size_t n);
tn_status opt_gradient(pn_objective *f, const double *theta, double *loss, double *g);

/* Formulas and minima stand at the definitions. */
double opt_quadratic(size_t n, const double *x, double *g);
double opt_rosenbrock(size_t n, const double *x, double *g);
double opt_quartic(size_t n, const double *x, double *g);
double opt_powell(size_t n, const double *x, double *g);

/* The same functions as sums of squares: |r|^2 is the function. r[opt_rows(f, n)], by rows J[. x n]
 * (zeroed before). */
size_t opt_rows(opt_function f, size_t n);
void opt_residual(opt_function f, size_t n, const double *x, double *r, double *J);
/* With the slots residual, qr, qt and second besides. A call of qr counts as one; the Q of the last
 * call of any such objective is kept. */
pn_objective opt_squares(opt_probe *p, size_t n);
/* opt_squares for methods that work on rows (PN_OPT_F64), else opt_objective. */
pn_objective opt_objective_for(const pn_opt_class *class_, opt_probe *p, size_t n);

/* ---- Runs ------------------------------------------------------------------------------------ */

enum { OPT_MOST = 1000 }; /* most parameters */

extern const pn_opt_context opt_serial; /* no pool, rate 0.01 */

/* A new optimizer; an error fails the test. */
pn_opt *opt_of(const char *name, size_t n, const pn_setting *settings, size_t count);
/* Steps until loss <= target, the method stops or `steps` are done; gives the number of steps. What
 * a report promises is checked on the way. f comes from opt_objective. */
size_t opt_descend(pn_opt *opt, pn_objective *f, double *theta, double target, size_t steps,
                   double *loss);

/* ---- State ----------------------------------------------------------------------------------- */

enum { OPT_ENTRIES = 24 };

typedef struct {
  size_t count, next;
  struct {
    char name[16];
    size_t n;
    double *data;
  } entry[OPT_ENTRIES];
} opt_image;

/* Copies the state out of opt into an empty image, or back. */
tn_status opt_exchange(pn_opt *opt, opt_image *m, bool restores);
void opt_drop(opt_image *m);                      /* frees the copies; m is empty again */
double *opt_find(opt_image *m, const char *name); /* by name, or the test fails */

#endif
