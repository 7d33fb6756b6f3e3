/* reference.h: the inside of `pinn reference`: classical solutions of problem files. Inside pinn/ only.
 *
 * An unknown is a sum of products of basis functions, one factor a coordinate (Chebyshev polynomials, or sines and
 * cosines along a periodic one):
 *
 *   u(x, y) = sum_ij c_ij T_i(x) T_j(y)
 *
 * A relation is a row: at each of its points a number R and its derivatives dR/dJ by the derivatives J of unknowns
 * that it reads, all from the problem's own graph. With J linear in the coefficients, rows give Newton's matrix.
 *
 *   reference_rows.c    relations as programs: R, dR/dJ
 *   reference_ansatz.c  conditions that an ansatz meets
 *   reference_basis.c   basis functions, points, sums
 *   reference_box.c     the whole box at once: Newton and least squares
 *   reference_march.c   step by step in time: Radau's methods
 *   reference.c         refinement, the error estimate, the files
 */
#ifndef PINN_REFERENCE_H
#define PINN_REFERENCE_H

#include "pinn/grid.h"
#include "pinn/objective.h"
#include "pinn/pinn.h"

enum { PN_REF_AXES = 3, PN_REF_CALLS = 512 };

/* ---- Rows (reference_rows.c) ----------------------------------------------------------------------- */

/* A derivative of an unknown that a relation reads, at some place. */
typedef struct pn_ref_call {
  size_t unknown;
  uint8_t order[PN_MAX_COORDINATES];    /* by coordinate */
  bool mean;                            /* at the points of the mean, not of the relation */
  bool own[PN_MAX_COORDINATES];         /* this argument is the point's own coordinate */
  tn_value argument[PN_MAX_COORDINATES]; /* by coordinate; graph NULL: no argument */
  size_t output[PN_MAX_COORDINATES];    /* of the program of places; PN_NONE: a number or own */
  double number[PN_MAX_COORDINATES];
  tn_value leaf; /* stands for it in the residual */
} pn_ref_call;

/* Points: a column for each coordinate of the problem (NULL: no value there). */
typedef struct pn_ref_points {
  size_t n;
  double *column[PN_MAX_COORDINATES]; /* owned */
} pn_ref_points;

/* One relation on one piece. */
typedef struct pn_ref_row {
  const pn_term *term;
  const pn_relation *relation;
  const pn_piece *piece; /* NULL: the box, or no points */
  uint32_t free_;        /* coordinates that vary */
  pn_scope scope;
  pn_site site; /* for feeds: its name and user */
  size_t n_calls;
  pn_ref_call *calls;
  bool batched; /* R is a number a point */
  tn_program *values, *places;
  tn_exec *exec;
  size_t n_places;
  tn_value *place;
  int most[PN_MAX_COORDINATES]; /* highest order along each coordinate; -1: no unknown there */
} pn_ref_row;

typedef struct pn_ref_rows {
  pn_problem *problem;
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  size_t n;
  pn_ref_row *row;
  int (*order)[PN_MAX_COORDINATES]; /* of each unknown, -1: does not depend on it */
  double deadline; /* tn_clock() at which solvers stop, unfinished */
} pn_ref_rows;

/* Lowers every equation and condition. Refuses, with the reason, what is no relation of unknowns at points. */
tn_status pn_ref_rows_new(pn_problem *problem, pn_ref_rows *out) TN_MUST_USE;
void pn_ref_rows_free(pn_ref_rows *rows);
/* Places of call k at the points: one column for each coordinate that the unknown has. */
tn_status pn_ref_places(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                        const pn_ref_points *mean, const double *mean_weight, size_t k,
                        pn_ref_points *out) TN_MUST_USE;
/* value[n], slope[k][count of call k] at points; jet[k]: the numbers J. slope NULL: not wanted. */
tn_status pn_ref_evaluate(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_points *points,
                          const pn_ref_points *mean, const double *mean_weight,
                          double *const *jet, double *value, double *const *slope) TN_MUST_USE;
tn_status pn_ref_points_new(size_t n, uint32_t bits, pn_ref_points *out) TN_MUST_USE;
void pn_ref_points_free(pn_ref_points *points);

/* reference_ansatz.c: what each ansatz fixes on faces, as terms in the problem's arena. */
tn_status pn_ref_ansatz(pn_problem *problem, size_t *n, pn_term **out) TN_MUST_USE;

/* ---- Basis (reference_basis.c) ----------------------------------------------------------------------- */

typedef struct pn_ref_axis {
  size_t coordinate;
  double lo, hi;
  bool periodic;
  size_t n; /* functions of the unknown with the highest order */
} pn_ref_axis;

/* The space of all unknowns: coefficients one after another, the last axis fastest. */
typedef struct pn_ref_space {
  size_t n_axes;
  pn_ref_axis axis[PN_REF_AXES];
  size_t n_unknowns;
  size_t (*count)[PN_REF_AXES]; /* functions of each unknown along each axis; 1: constant */
  size_t *offset;               /* first coefficient of each unknown; n_unknowns + 1 */
} pn_ref_space;

/* The order-th derivatives of the n functions at x. */
void pn_ref_basis(const pn_ref_axis *axis, size_t n, double x, size_t order, double *out);
/* n points along an axis: with both ends (Lobatto), or inside (Gauss); equidistant if periodic. Ascending. */
void pn_ref_nodes(const pn_ref_axis *axis, size_t n, bool ends, double *out);
/* Weights of the n inner points for the mean over the axis. */
void pn_ref_mean_weights(const pn_ref_axis *axis, size_t n, double *out);
tn_status pn_ref_space_new(const pn_ref_rows *rows, size_t n_axes, const pn_ref_axis *axes,
                           pn_ref_space *out) TN_MUST_USE;
void pn_ref_space_free(pn_ref_space *space);
/* Coefficients in a space of other counts: those beyond are 0. */
void pn_ref_prolong(const pn_ref_space *from, const double *c, const pn_ref_space *to, double *out);

/* Tables of basis functions of a call at its places: along each axis count numbers a point. */
typedef struct pn_ref_tables {
  size_t n; /* places */
  size_t unknown;
  double *axis[PN_REF_AXES]; /* [n][count]; NULL: constant there */
} pn_ref_tables;
tn_status pn_ref_tables_new(const pn_ref_space *space, size_t unknown, const uint8_t *order,
                            const pn_ref_points *places, pn_ref_tables *out) TN_MUST_USE;
void pn_ref_tables_free(pn_ref_tables *tables);
/* out[i] = the derivative at place i of coefficients c (of all unknowns). */
void pn_ref_sum(const pn_ref_space *space, const pn_ref_tables *tables, const double *c, double *out);
/* row[first ...] += factor * basis functions at place i, with a stride between columns. */
void pn_ref_add_row(const pn_ref_space *space, const pn_ref_tables *tables, size_t i, double factor,
                    double *row, size_t stride);

/* A row at its points in a space. */
typedef struct pn_ref_block {
  pn_ref_row *row;
  pn_ref_points points, mean;
  double *mean_weight;
  pn_ref_tables *tables; /* one a call */
  double **jet, **slope; /* [call][places] */
  double *value;         /* [points.n] */
} pn_ref_block;
/* without: coordinates that are no axes have this value in every point (the time of a march), or NULL. */
tn_status pn_ref_block_new(pn_ref_rows *rows, pn_ref_row *row, const pn_ref_space *space,
                           const double *without, pn_ref_block *out) TN_MUST_USE;
void pn_ref_block_free(pn_ref_block *block);

/* ---- Linear algebra (reference_linear.c) ------------------------------------------------------------- */

/* Least squares of small norm: x of A x = b, A [m][n] by columns, destroyed, as is b[max(m, n)], which gets x. Rows
 * and columns are scaled to norm 1 first. *null: n - rank. */
tn_status pn_ref_least(size_t m, size_t n, double *A, double *b, size_t *null) TN_MUST_USE;

/* ---- Solvers ------------------------------------------------------------------------------------------ */

/* The whole box in `space` by Newton from c (in: the start, out: the solution). *converged: to rounding. */
typedef struct pn_ref_newton {
  bool converged;
  size_t steps, null;
  double change; /* of the last step, relative */
  double noise;  /* of it, what rounding makes, relative */
  double left;   /* of the rows at the end, relative: 0 unless they contradict each other */
} pn_ref_newton;
tn_status pn_ref_box(pn_ref_rows *rows, const pn_ref_space *space, double *c,
                     pn_ref_newton *out) TN_MUST_USE;

/* How a march goes: coordinate, from where to where, highest order of each unknown in it. */
typedef struct pn_ref_way {
  size_t coordinate;
  double from, to;
  int *order; /* borrowed */
} pn_ref_way;
/* Can it be solved step by step? *reason (static or NULL) says why not. */
bool pn_ref_way_of(const pn_ref_rows *rows, pn_ref_way *way, int *order, const char **reason);
/* In `steps` equal steps. at[n_times] ascending in the direction of the march; out[k] gets the coefficients at
 * at[k], of all unknowns. *converged = false: Newton's method failed at some step. */
tn_status pn_ref_march(pn_ref_rows *rows, const pn_ref_space *space, const pn_ref_way *way,
                       size_t steps, size_t n_times, const double *at, double *const *out,
                       bool *converged) TN_MUST_USE;

/* ---- Levels (reference_level.c) ------------------------------------------------------------------------ */

/* A solution at one resolution, at the points of the grid. */
typedef struct pn_ref_level {
  size_t n, steps; /* functions along each axis; steps of a march (0: the box) */
  bool solved;     /* Newton's method converged everywhere */
  double *values;  /* [n_unknowns][grid points], owned */
  double noise;    /* rounding, relative */
  double left;     /* of a box's rows, relative */
  size_t columns, null;
} pn_ref_level;

typedef struct pn_ref_run {
  pn_problem *problem;
  pn_ref_rows rows;
  pn_grid grid;
  bool marching;
  pn_ref_way way;
  int *order;
  const char *reason; /* why not marching; NULL */
  double tolerance;
  double begin, until; /* tn_clock() after which no level begins */
  bool late;          /* that time came */
  size_t most;        /* functions along an axis; 0: by the size of the matrix */
  size_t n_levels;
  pn_ref_level **level;
  pn_ref_space last;  /* of the last box that was solved, and its coefficients: a start for the next */
  double *c;
  /* The outcome. */
  const pn_ref_level *best;
  size_t n, steps; /* of the best, in words */
  double *error;      /* of each unknown: the estimate, of the largest error at the points */
  double *largest;    /* of each unknown */
  double *known;      /* largest error against [exact]; NaN: none */
  double relative;    /* the largest error / largest */
  char text[512];     /* the method in words */
} pn_ref_run;
/* The level of this size, solved or found among those that are; *out NULL: it is too large. */
tn_status pn_ref_level_of(pn_ref_run *run, size_t n, size_t steps, const pn_ref_level **out) TN_MUST_USE;
/* a + b - c as a level of its own: finer in two ways where a and b are each in one. */
tn_status pn_ref_combine(pn_ref_run *run, const pn_ref_level *a, const pn_ref_level *b, const pn_ref_level *c,
                         const pn_ref_level **out) TN_MUST_USE;
size_t pn_ref_next(const pn_ref_run *run, size_t n); /* the next resolution; of 0, the first */
/* Largest difference at the points, of each unknown (out may be NULL); the largest relative one is returned. */
double pn_ref_difference(const pn_ref_run *run, const pn_ref_level *a, const pn_ref_level *b, double *out);

/* ---- Files (reference_write.c) --------------------------------------------------------------------------- */

tn_status pn_ref_known(pn_ref_run *run) TN_MUST_USE;
tn_status pn_ref_write(const pn_ref_run *run, const char *path) TN_MUST_USE;
void pn_ref_report(const pn_ref_run *run, FILE *out);

#endif
