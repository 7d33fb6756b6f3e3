/* check.h: what the files of `pinn check` share. Inside pinn/ only.
 *
 * A check collects findings in a fixed order: facts, the exact solution in every equation and condition,
 * conditions against orders, conflicts, values at a point. Nothing is trained; a model is made for its graph
 * and its sizes.
 */
#ifndef PINN_CHECK_H
#define PINN_CHECK_H

#include "pinn/json.h"
#include "pinn/lookup.h"
#include "pinn/model.h"
#include "pinn/objective.h"
#include "pinn/pinn.h"
#include "pinn/text.h"

enum {
  PN_CHECK_POINTS = 96,  /* at which a residual is looked at, a piece */
  PN_REPAIR_POINTS = 24, /* at which edits are tried, the first of those */
  PN_CHECK_TERMS = 24    /* terms of a sum that are told apart */
};

typedef enum pn_finding_kind {
  PN_FOUND_ERROR,
  PN_FOUND_WARNING,
  PN_FOUND_NOTE,
  PN_FOUND_HINT
} pn_finding_kind;

typedef struct pn_finding {
  pn_finding_kind kind;
  const char *text;  /* whole lines, with the place if there is one; in the problem's arena */
  const char *entry; /* what it is about; NULL: the file */
} pn_finding;

/* The size of what is left when the exact solution stands in an equation or a condition. */
typedef struct pn_defect {
  const pn_term *term;
  double relative; /* to the terms; NaN: not looked at */
  double limit;    /* above it, it is an error */
} pn_defect;

/* A derivative of a table: a column of numbers that the lowering sees as one more table. */
typedef struct pn_derived {
  size_t table; /* whose derivative; an index below n_tables of the file */
  size_t n_axes;
  size_t axes[PN_MAX_COORDINATES];
} pn_derived;

typedef struct pn_checking {
  pn_problem *problem;
  pn_model *model;
  pn_sites *sites;    /* PN_CHECK_POINTS drawn on each */
  pn_scope **scope;   /* one a site, where unknowns are their exact solutions; NULL: not made */
  pn_site mean;       /* a grid over the whole box, for means */
  pn_lookup **lookup; /* one a table of the file; NULL: not read */
  size_t n_file_tables, n_derived;
  pn_derived *derived; /* derived[i] is table n_file_tables + i */
  double *size;        /* rms of each exact solution; NaN without one */
  size_t n_findings, errors, warnings;
  pn_finding *finding;
  size_t n_defects;
  pn_defect *defect;
  pn_text out;   /* the report as it grows */
  pn_json *json; /* NULL: none asked for */
  double base_mib; /* memory of the process before the check */
} pn_checking;

/* ---- check.c ---------------------------------------------------------------------------------------- */

/* A finding at a place (line 0: none) with `width` carets. */
tn_status pn_found(pn_checking *c, pn_finding_kind kind, const char *entry, pn_place place,
                   size_t width, const char *format, ...) TN_PRINTF(6, 7);
/* "conditions fit the orders; exact solution: defect 4e-15", for the banner of a run; tn_free. */
tn_status pn_check_words(pn_problem *problem, char **text) TN_MUST_USE;
/* For pinn solve: the same words, and the warnings as lines ("" without any); tn_free both. What pinn check
 * calls an error is TN_EINPUT with its texts. */
tn_status pn_check_before_run(pn_problem *problem, char **words, char **warnings) TN_MUST_USE;

/* ---- check_tree.c ----------------------------------------------------------------------------------- */

const char *pn_check_text(pn_checking *c, const pn_expr *e); /* printed; "?" if that fails */
bool pn_check_has(const pn_problem *p, const pn_expr *e, pn_kind kind); /* definitions included */
/* Every node of e and of the definitions it refers to, once each; stops at `capacity`. */
size_t pn_check_nodes(const pn_problem *p, pn_expr *e, size_t capacity, pn_expr **out);
/* Orders along each coordinate of unknown u in a scalar tree; *free_value: u stands undifferentiated
 * somewhere. Arrays of PN_MAX_COORDINATES, updated by maximum. */
void pn_check_orders(const pn_problem *p, const pn_expr *e, size_t u, int *order, bool *free_value);
/* "u_xx": the k-th derivative of an unknown along a coordinate. */
const char *pn_check_derivative(pn_checking *c, size_t unknown, size_t coordinate, int k);
/* a - b, or a where b is the number 0. */
tn_status pn_check_difference(pn_checking *c, const pn_relation *r, const pn_piece *piece,
                              pn_expr **out) TN_MUST_USE;
/* The relation as lhs - rhs = 0, or with <= or >=. */
const char *pn_check_relation_text(pn_checking *c, const pn_relation *r);
/* u = g: the unknown and g (free of unknowns); false if the relation is of another form. */
bool pn_check_given(pn_checking *c, const pn_relation *r, const pn_piece *piece, size_t *unknown,
                    pn_expr **data);
/* "x = 0.25, y = 0.5" of the coordinates that have a value. */
const char *pn_check_point(pn_checking *c, const double *point);
/* The piece whose only fixed coordinate is `coordinate`, at its low (-1) or high (1) end. */
pn_piece pn_check_face(const pn_problem *p, size_t coordinate, int side);

/* ---- check_ansatz.c --------------------------------------------------------------------------------- */

/* The ansatz of unknown u at a point with a number in place of the network; false: it has no value. */
bool pn_check_ansatz(pn_problem *p, size_t u, const double *point, double net, double *value);
/* Does it give the value on the low (-1) or high (1) face of x at a point, whatever the network says? */
bool pn_check_ansatz_fixes(pn_problem *p, size_t u, size_t x, int side, const double *at);
/* Is there a place where it cannot be 0? */
bool pn_check_never_zero(pn_problem *p, size_t u);

/* ---- check_values.c --------------------------------------------------------------------------------- */

tn_status pn_check_start(pn_checking *c) TN_MUST_USE; /* sites, points, sizes */
void pn_check_end(pn_checking *c);
/* An exact solution by quadrature costs a thousand times a formula's: fewer points, fewer edits. */
bool pn_check_is_slow(const pn_problem *p);
bool pn_check_has_exact(const pn_checking *c, const pn_relation *r);
bool pn_check_by_table(const pn_checking *c, const pn_relation *r);
/* The exact scope of a site. */
tn_status pn_check_scope(pn_checking *c, size_t site, pn_scope **out) TN_MUST_USE;
/* The relation with derivatives of tabled solutions as tables; unchanged where there are none.
 * TN_EUNSUPPORTED: it cannot be evaluated. */
tn_status pn_check_prepare(pn_checking *c, const pn_relation *r, const pn_piece *piece,
                           pn_relation *out) TN_MUST_USE;
/* out[k * count + i]: value k at point i of the first `count` points. culprit (may be NULL): text of the
 * sub-expression that made the first number that is not finite, with its point in *where; NULL if all are. */
tn_status pn_check_evaluate(pn_checking *c, pn_scope *scope, const pn_site *points, size_t count,
                            size_t n, const tn_value *values, double *out, const char **culprit,
                            size_t *where) TN_MUST_USE;

/* ---- The steps --------------------------------------------------------------------------------------- */

/* A relation that the exact solution does not fulfil. */
typedef struct pn_failure {
  const pn_term *term;
  const pn_relation *relation;
  size_t site;
  const pn_piece *piece;
  double scale; /* of its terms */
  double limit; /* of the relative residual */
  double residual[PN_CHECK_POINTS];
  size_t n, n_terms, worst; /* points, terms, the worst point */
  double *terms;            /* [n_terms][n], signs included */
  pn_expr **exprs;
} pn_failure;

/* check_parameters.c: those that nothing can find; a line of the facts. */
tn_status pn_check_parameters(pn_checking *c) TN_MUST_USE;
tn_status pn_check_put_parameters(pn_checking *c) TN_MUST_USE;
tn_status pn_check_facts(pn_checking *c) TN_MUST_USE; /* check_facts.c: prints them */
/* check_cost.c: runs a step and predicts time and memory; prints nothing if there is no step to run. */
tn_status pn_check_cost(pn_checking *c) TN_MUST_USE;
/* check_table.c: can every table be read; does it reach as far as it is used. */
tn_status pn_check_tables(pn_checking *c) TN_MUST_USE;
tn_status pn_check_reach(pn_checking *c) TN_MUST_USE;
tn_status pn_check_units(pn_checking *c) TN_MUST_USE; /* check_units.c */
tn_status pn_check_exact(pn_checking *c) TN_MUST_USE; /* check_exact.c */
/* a prod cos(1.3 (x - lo)/(hi - lo) + 0.7) over the coordinates of u: neither it nor its slope is 0
 * on a face. */
tn_status pn_check_wave(pn_checking *c, size_t u, double a, pn_expr **out) TN_MUST_USE;
/* check_repair.c: the single edit that lets the exact solution fit, as words ("With `u_yy` for `u_xy`
 * it leaves 3e-17"); NULL if none was found. *node: the part of the text that it replaces, or NULL. */
tn_status pn_check_repair(pn_checking *c, const pn_failure *f, const char **words,
                          const pn_expr **node) TN_MUST_USE;
tn_status
pn_check_counts(pn_checking *c) TN_MUST_USE;         /* check_counts.c: conditions against orders */
/* check_region.c: conditions of coupled unknowns on the boundary of what they live in; and for
 * a lap(u) + source = 0 (equation t) there, the source against the flux. */
tn_status pn_check_surface(pn_checking *c, uint64_t members,
                           int (*order)[PN_MAX_COORDINATES]) TN_MUST_USE;
tn_status pn_check_outflow(pn_checking *c, const pn_term *t, size_t u, double a) TN_MUST_USE;
/* check_partner.c: do values taken elsewhere, and periods, stay in the region? */
tn_status pn_check_partners(pn_checking *c) TN_MUST_USE;
tn_status pn_check_flux(pn_checking *c) TN_MUST_USE; /* check_flux.c: sources against fluxes */
tn_status pn_check_direction(pn_checking *c) TN_MUST_USE; /* check_direction.c: the way of the time */
tn_status pn_check_conflicts(pn_checking *c) TN_MUST_USE; /* check_conflict.c */
/* check_met.c: does the ansatz fulfil a condition whatever its network says? */
tn_status pn_check_met(pn_checking *c, const pn_term *condition, bool *met) TN_MUST_USE;
tn_status
pn_check_zero(pn_checking *c) TN_MUST_USE; /* check_exact.c: does u = 0 fulfil everything? */
tn_status pn_check_at(pn_checking *c, const char *at) TN_MUST_USE; /* check_at.c */

#endif
