/* names.h: what names mean (names.c), and trees of names turned into trees of references
 * (resolve.c). */
#ifndef PINN_NAMES_H
#define PINN_NAMES_H

#include "pinn/problem.h"

/* What the one namespace knows about a name. */
typedef enum pn_sort {
  PN_IS_NOTHING,
  PN_IS_COORDINATE,
  PN_IS_CONSTANT,
  PN_IS_UNKNOWN,
  PN_IS_DEFINITION,
  PN_IS_TABLE,
  PN_IS_PARAMETER,
  PN_IS_SHAPE
} pn_sort;

const char *pn_sort_text(pn_sort sort); /* "a coordinate" */
pn_sort pn_lookup(const pn_problem *problem, const char *name, size_t *index);

/* The highest total order of a derivative: AG_MAX_ORDER, which the engine's tables end at. */
enum { PN_MOST_ORDER = 12 };

/* A name read as a derivative: field "_" coordinates. */
typedef struct pn_reading {
  pn_sort sort; /* unknown, definition, table; PN_IS_NOTHING: net */
  size_t index;
  size_t n_axes;
  size_t axes[PN_MOST_ORDER];
} pn_reading;

enum { PN_MAX_READINGS = 8 };
/* All ways (at most PN_MAX_READINGS) to read `name`; with_net also reads net_x. */
size_t pn_readings(const pn_problem *problem, const char *name, bool with_net,
                   pn_reading out[PN_MAX_READINGS]);
/* "u_x_x", written without doubt: coordinates are separated; diff(u, xx) where that is not enough. */
void pn_reading_text(const pn_problem *problem, const pn_reading *reading, char *out, size_t size);
/* Splits "xx" or "r_theta" into coordinates, in every way; returns the number of ways. */
size_t pn_split_axes(const pn_problem *problem, const char *text, pn_reading out[PN_MAX_READINGS]);

/* Checks the declared names: letters, reserved words, repeats, names that read as derivatives. */
tn_status pn_check_names(const pn_problem *problem) TN_MUST_USE;

/* The errors for a name (or a suffix) that means nothing; each always fails. */
tn_status pn_unknown_name(const pn_problem *problem, const pn_expr *expr, const char *name);
tn_status pn_unknown_function(const pn_expr *expr, const char *name);
tn_status pn_no_coordinate(const pn_problem *problem, const pn_expr *expr, const char *name,
                           const char *field, const char *axes);

/* Nodes that all functions of a file may expand to, together: copies of copies grow fast. */
enum { PN_MOST_COPIES = 500000 };

/* The variable of an integral, while its integrand is resolved. */
typedef struct pn_variable {
  const char *name;
  size_t level; /* integrals around its own */
  const struct pn_variable *outer;
} pn_variable;

/* What an expression may use where it stands. */
typedef struct pn_naming {
  pn_problem *problem;
  const char *what; /* "a constant", "the exact solution": for errors */
  bool coordinates, unknowns, net, normal, mean;
  bool complex_net;    /* net is that of a complex unknown */
  bool no_definitions; /* constants */
  bool parameters;     /* numbers to be found */
  const pn_data *data; /* whose columns are names, too; NULL: none */
  size_t n_formals;    /* inside a function's body */
  const char *const *formals;
  pn_expr *const *actuals; /* resolved */
  size_t calls;            /* functions inside functions */
  size_t depth;            /* of the walk, so that it cannot exhaust the stack */
  size_t branch;           /* inside branches of where: one that is not taken may have no value */
  const struct pn_variable *variable; /* of the integrals around it, the innermost first */
  bool ends;           /* a region: x.max, or the unknown that it is, names an end of x that moves */
  size_t arguments_of; /* 1 + the unknown among whose arguments a name may be; 0: none */
  size_t integrals;                   /* around it, those around a function's call included */
  uint32_t over; /* bit i: the function's text integrates over coordinate i here */
} pn_naming;

/* Resolves a tree in place and sets components. pn_resolve for values and relations. */
tn_status pn_resolve(pn_naming *scope, pn_expr *e) TN_MUST_USE;
tn_status pn_resolve_predicate(pn_naming *scope, pn_expr *e) TN_MUST_USE;
/* Resolves definition `index` if that is not done yet; cycles are errors. */
tn_status pn_resolve_definition(pn_problem *problem, size_t index) TN_MUST_USE;
/* The number of components of a node whose arguments are resolved. */
tn_status pn_set_components(const pn_problem *problem, pn_expr *e) TN_MUST_USE;

/* counted.c: the entry of [domain] of that name with a count; NULL. */
const pn_counted *pn_counted_find(const pn_problem *problem, const char *name);
/* sum(e, x), prod(e, x): written out over the coordinates of x. */
tn_status pn_resolve_counted(pn_naming *scope, pn_expr *e, pn_kind join) TN_MUST_USE;

/* argument.c: the argument of unknown u that is the unknown of that name; PN_NONE. */
size_t pn_argument_find(const pn_problem *problem, size_t unknown, const char *name);
/* The coordinates on which the value of unknown u depends where the coordinates and arguments of `fixed`
 * are given (bits). */
uint32_t pn_unknown_depends(const pn_problem *problem, size_t unknown, uint32_t fixed);
/* It, and the unknowns that it depends on. */
uint64_t pn_unknown_bits(const pn_problem *problem, size_t unknown);

bool pn_mentions_column(const pn_expr *e); /* of data; definitions have none */
size_t pn_space_axes(const pn_problem *problem, size_t axes[PN_MAX_COORDINATES]);
/* resolve.c: dn or normal_x in a resolved tree, also behind definitions. */
bool pn_mentions_normal(const pn_problem *problem, const pn_expr *e);
bool pn_unknown_has(const pn_unknown *unknown, size_t coordinate);
tn_status pn_warn(pn_problem *problem, pn_place place, size_t width, const char *format, ...)
    TN_PRINTF(4, 5);

/* predicate.c: an `on` predicate (resolved) as pieces of the box, an `in` predicate as a filter. */
tn_status pn_pieces_on(pn_problem *problem, const char *condition, const pn_expr *predicate,
                       size_t *n, pn_piece **out) TN_MUST_USE;
tn_status pn_pieces_in(pn_problem *problem, const pn_expr *predicate, pn_piece *out) TN_MUST_USE;

/* complex.c. Two unknowns at p->unknowns[*n] for a complex one; what the second copies from the first. */
tn_status pn_declare_complex(pn_problem *p, const pn_unknown *whole, size_t *n) TN_MUST_USE;
void pn_copy_pair(pn_problem *p, size_t u);
/* Makes e the complex unknown at `index` (kind PN_UNKNOWN) or its net (PN_NET). */
tn_status pn_make_pair(pn_problem *p, pn_expr *e, pn_kind kind, size_t index) TN_MUST_USE;
tn_status pn_resolve_unit(const pn_naming *scope, pn_expr *e) TN_MUST_USE;
tn_status pn_resolve_part(pn_naming *scope, pn_expr *e) TN_MUST_USE;
/* Sets e->is_complex by the arguments, which are resolved. */
tn_status pn_set_complex(const pn_problem *p, pn_expr *e) TN_MUST_USE;
tn_status pn_must_be_real(const pn_expr *e, const char *what) TN_MUST_USE;
/* The number of real scalars that e has; the component index of the k-th for pn_scalar. */
size_t pn_parts_of(const pn_expr *e);
size_t pn_part_of(const pn_expr *e, size_t k);

/* constant.c: value of constant `index`, evaluated if that is not done yet; cycles are errors. */
tn_status pn_constant_value(pn_problem *problem, size_t index) TN_MUST_USE;

#endif
