/* problem.h: the checked problem: what a file says once every name, type and number is known.
 *
 * pn_problem_load reads TOML, applies --set overrides, checks keys against keys.def, evaluates the
 * constants, parses and resolves every expression, and turns predicates into pieces of the box.
 * What comes out is read-only and complete except for what depends on sizes (point counts, network
 * widths, default stages): there 0, NaN or NULL mean "auto" and the solver decides.
 */
#ifndef PINN_PROBLEM_H
#define PINN_PROBLEM_H

#include "pinn/expr.h"
#include "pinn/precision.h"
#include "pinn/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PN_MAX_COORDINATES 16
#define PN_NONE ((size_t)-1) /* "no index" */

/* What the space coordinates mean, in their order; see scalar_metric.c. */
typedef enum pn_metric { PN_CARTESIAN, PN_POLAR, PN_AXISYMMETRIC, PN_SPHERICAL } pn_metric;

typedef enum pn_role { PN_SPACE, PN_TIME, PN_PARAMETER } pn_role;

typedef struct pn_coordinate {
  const char *name;
  pn_role role;  /* t is PN_TIME unless said otherwise */
  double lo, hi; /* lo < hi, finite */
  bool periodic; /* exact embedding; no faces in `boundary` */
  bool log_spacing;
  bool has_net_range;    /* networks scale by this range and not by [lo, hi]: their weights come from */
  double net_lo, net_hi; /* a run on another box (warm.c) */
  size_t lo_unknown, hi_unknown; /* an end that moves; PN_NONE: it does not. If one does: */
  double end[2];                 /* ends that are numbers; lo and hi are 0 and 1 then (moving.c) */
  double expected[2], shown[2];  /* about where it lies, by conditions; by the exact solution as well.
                                    lo and hi where nothing moves */
  size_t unknown;  /* an argument that is an unknown (behind the n_coordinates); PN_NONE: a coordinate */
  const char *key; /* of its entry in [domain]: its name, or x of x3 */
  pn_place place;  /* of that key */
} pn_coordinate;

/* Coordinates that one entry of [domain] declares by `count`: name1, name2, ... */
typedef struct pn_counted {
  const char *name;
  size_t first, n; /* coordinate indices */
  pn_place place;
} pn_counted;

typedef struct pn_constant {
  const char *name;
  double value;
  pn_expr *expr; /* NULL if a plain number */
  int state;     /* the evaluator's: 0 not seen, 1 being evaluated, 2 done */
  pn_place place;
} pn_constant;

typedef struct pn_parameter { /* a number to be found (parameter.c) */
  const char *name;
  double start;
  double lo, hi; /* bounds; -INFINITY and INFINITY: none */
  bool log;      /* searched on a logarithmic scale */
  double exact;  /* from [exact]; NaN: not known */
  double accept; /* largest relative error; NaN: none asked */
  pn_place place, exact_place;
} pn_parameter;

typedef struct pn_body pn_body; /* geometry.h */

/* A shape of [shapes]. Faces that a primitive makes carry its number as their tag through unions and
 * cuts; a shape made of others has the tags of all of them. */
typedef struct pn_shape {
  const char *name;
  const pn_body *body;
  uint64_t tags; /* bit i: faces made by shape i; bit PN_BOX_TAG: by the box of the coordinates */
  int state;     /* the reader's: 0 not seen, 1 being made, 2 done */
  const struct pn_toml *entry;
  pn_place place;
  bool from_file; /* a surface or a cloud: known as well as its numbers are written */
} pn_shape;
enum { PN_MAX_SHAPES = 62, PN_NAMELESS_TAG = 62, PN_BOX_TAG = 63 };

typedef struct pn_network {
  const char *kind;       /* "mlp", "modified", "resnet", "pirate" */
  size_t width, depth;    /* hidden units and layers; 0 = auto */
  const char *activation; /* "tanh", "sin", ... */
  size_t fourier;         /* random features; 0 = none */
  bool factorised;
  const char *from; /* result file or folder to start from; NULL = none */
  double gain;      /* factor on first-layer weights; NaN = by activation */
  const char *init; /* "glorot", "glorot_uniform", "he", "siren" */
  bool shared;      /* unknowns of the same coordinates share one; of [network] only */
  bool normalise;   /* inputs are mapped to [-1, 1] */
  bool normalise_given;
  double omega;     /* factor inside activations; NaN = 30 for siren, else 1 */
  const char *adaptive;   /* trained slopes: "none", "layer", "unit" */
  double adaptive_factor; /* n of the slope n a */
  double factor_mean, factor_spread;     /* of factorised weights' s at first */
  size_t n_scales, n_time_scales;        /* bands of Fourier features; 0 = one of its own kind */
  const double *scales, *time_scales;    /* deviations of B */
  double period[PN_MAX_COORDINATES];     /* of each coordinate; 0 = as [domain] says */
  bool learn_period;
  size_t n_inputs;
  pn_expr **inputs; /* expressions in place of the coordinates; at most PN_MAX_COORDINATES */
  pn_place place;
} pn_network;

/* The parts of a complex unknown h are two unknowns, h.re and h.im, the second behind the first. */
typedef enum pn_pair_part { PN_WHOLE, PN_REAL_PART, PN_IMAGINARY_PART } pn_pair_part;
/* In the component index of pn_scalar: the imaginary part. */
#define PN_IMAGINARY ((size_t)1 << 20)

typedef struct pn_unknown {
  const char *name;
  const char *pair; /* of a part: the name in the file; NULL */
  pn_pair_part part;
  size_t entry; /* of [unknowns] */
  size_t n_of;
  size_t of[PN_MAX_COORDINATES]; /* coordinate indices, in the order of `of`; of b(u) those of u */
  size_t n_arguments;            /* of its network: */
  size_t argument[PN_MAX_COORDINATES]; /* `of`, but with the argument u of b(u), from n_coordinates on */
  pn_expr *ansatz;               /* with PN_NET; NULL = the network itself */
  int parity;                    /* 1 even, -1 odd, 0 neither, about the middle of */
  size_t parity_coordinate;      /* this coordinate; PN_NONE if parity is 0 */
  double scale;                  /* NaN = auto */
  const char *scale_source;      /* where it comes from if not from the file; NULL */
  pn_network *network;           /* its own network; NULL = shared with others of the same `of` */
  pn_expr *exact;                /* from [exact]; NULL = none */
  double accept;                 /* largest relative L2 error; NaN = none asked */
  const pn_body *in;             /* it lives there only; NULL = in the whole domain */
  const char *in_text;           /* as written; NULL = nothing */
  pn_expr *in_where;             /* the predicate */
  pn_place place, exact_place;
} pn_unknown;

typedef struct pn_definition {
  const char *name;
  pn_expr *value;  /* resolved; a vector if value->components > 1. For a function: unresolved */
  size_t n_of;     /* 0: a macro. Else a function: calls were expanded, no node refers to it */
  const char **of; /* names of the arguments */
  const char *library; /* of a function in a shared library, which has no value; else NULL */
  void *external;      /* that function (external.c) */
  pn_expr *scalar; /* value (real) after pn_scalar: what a reference lowers to; NULL for vectors, functions
                      and what needs a normal (pn_scalar writes those out where they are used) */
  uint32_t depends;  /* bit i: coordinate i matters (also through unknowns) */
  uint64_t unknowns; /* bit i: unknown i occurs in it */
  uint64_t parameters; /* bit i: parameter i occurs in it */
  bool has_normal;   /* dn or normal_x occurs in it */
  size_t integrals;  /* inside each other in it */
  int state;         /* the resolver's: 0 not seen, 1 being resolved, 2 done */
  pn_place place;
} pn_definition;

typedef struct pn_table_entry {
  const char *name, *file, *column, *method; /* file: relative to the problem file's folder */
  size_t n_of;
  size_t of[PN_MAX_COORDINATES];
  pn_place place;
} pn_table_entry; /* of [tables] */

enum { PN_MAX_SIDES = 8 };

/* A part of a box on which some coordinates are fixed; with bodies (region.h), also a part of one, or faces
 * of one. Faces that lie across a coordinate fix it and have `normal`; on others all space coordinates vary
 * and every point has a normal of its own. */
typedef struct pn_piece {
  size_t n_fixed;                   /* 0 for a volume (`in`) */
  size_t fixed[PN_MAX_COORDINATES]; /* coordinate indices, ascending */
  double value[PN_MAX_COORDINATES]; /* of each */
  int side[PN_MAX_COORDINATES];     /* -1 the low end, 1 the high end, 0 inside the range */
  size_t normal; /* coordinate of the outward normal; PN_NONE unless exactly one space coordinate is
                    fixed, at an end */
  int sign;      /* of the normal: -1 or 1 */
  pn_expr *filter; /* predicate that points must fulfil too (pn_predicate_holds); NULL = all */
  const pn_body *body;   /* points lie in it; NULL: in the box */
  const pn_body *whole;  /* points lie on these faces of it; NULL: no faces of a body */
  size_t n_faces;
  const size_t *faces;
  const char *surface;   /* names of what made the faces, in a fixed order */
  double extent;         /* length, area or volume of its part of space; 0: not known yet */
  bool inner;            /* an interface: points lie inside the domain, not on its boundary */
  size_t n_sides;        /* parts of the domain that the surface must touch: its unknowns live there */
  const pn_body *sides[PN_MAX_SIDES];
} pn_piece;

typedef struct pn_relation {
  pn_kind op;         /* PN_EQUAL, PN_LESS_EQUAL, PN_GREATER_EQUAL */
  pn_expr *lhs, *rhs; /* resolved; vectors give one relation for each component */
  size_t component;   /* pass it to pn_scalar for both sides; with PN_IMAGINARY the imaginary part */
  pn_expr *whole;     /* the node that holds both, for printing and places */
} pn_relation;

typedef enum pn_where {
  PN_ON,      /* conditions on pieces */
  PN_IN,      /* in the volume (all equations; conditions with `in`) */
  PN_INTEGRAL, /* no point set: every coordinate is fixed or averaged away */
  PN_DATA      /* at the rows of its data */
} pn_where;

typedef struct pn_data pn_data; /* data.h */

typedef struct pn_term { /* an equation or a condition */
  const char *name;
  bool is_condition;
  size_t n_relations;
  pn_relation *relations;
  pn_where where;
  size_t n_pieces;
  pn_piece *pieces;     /* PN_ON: at least 1; PN_IN: one volume; PN_INTEGRAL: 0 */
  const char *region;   /* text of on or in as written; NULL = everywhere */
  const char *part;     /* names of the parts that its unknowns live in; NULL = the whole domain */
  pn_expr *weight;      /* resolved scalar; NULL = weight_number */
  double weight_number; /* 1 by default */
  bool weight_given;    /* the file or --set says it */
  size_t points;        /* 0 = auto */
  bool hard, wins;      /* conditions */
  bool is_check;        /* measured and not trained */
  double accept;        /* of a check: the largest relative residual that passes; NaN: any */
  pn_data *data;        /* PN_DATA: its rows; NULL otherwise */
  uint32_t coordinates; /* bit i: the term varies along coordinate i (through unknowns too) */
  pn_place place;       /* of its key */
} pn_term;

typedef struct pn_points {
  size_t interior;     /* 0 = auto */
  const char *sampler; /* "sobol", "uniform", "grid", "halton", "lhs" */
  const char *refine;  /* "none", "rad" */
  size_t every;        /* steps between refinements */
  size_t batch;        /* 0 = all */
  bool keep_corners;
} pn_points;

typedef struct pn_weights {
  const char *scheme; /* "balance", "none" */
} pn_weights;

typedef struct pn_stage {
  const char *optimizer; /* "adam", ...; "auto": the solver decides */
  size_t steps;          /* 0 = auto */
  double rate;           /* NaN = the optimizer's own */
  const char *schedule;  /* "constant", "cosine", "exponential" */
  size_t warmup;         /* steps of rising rate */
  double half_life;      /* exponential: steps in which the rate halves; NaN = auto */
  double clip;           /* largest gradient norm; 0 = none */
  double clip_value;     /* largest |entry| of the gradient; 0 = none */
  double decay;          /* weight decay of adam and adamw; NaN = the optimizer's own */
  size_t stall;        /* stop when the loss has not fallen below stall_factor times its value so */
  double stall_factor; /* many steps ago; 0 steps = never */
  double seconds;      /* 0 = no limit */
  const char *precision; /* "f64", "f32", "tf32", "bf16", "f16" */
  size_t memory;         /* pairs kept by lbfgs; 0 = auto */
  size_t refine_every;   /* 0 = as [points] every */
  pn_place place;
} pn_stage;

typedef struct pn_numbers { /* [precision] */
  const char *compute;      /* "f64", "f32", "tf32", "bf16", "f16" */
  const char *master;       /* "f64", "f32", "bf16", "f16" */
  size_t products;          /* for one product in a low format: 1, 3; 0 = auto */
  double scale;             /* first loss scale; NaN = auto */
  double growth, backoff;   /* of the loss scale */
  size_t interval;          /* good steps before it grows */
  pn_place place;           /* of the table; line 0: none */
} pn_numbers;

typedef struct pn_output {
  size_t n_fields;
  pn_expr **fields; /* resolved expressions to write besides the unknowns */
  size_t n_grid;
  size_t *grid; /* points along each coordinate; n_grid 0 = auto, 1 = the same for all */
} pn_output;

typedef struct pn_problem {
  size_t budget;    /* the resolver's: nodes that functions may still expand to */
  pn_arena *arena;  /* owns everything below */
  pn_source source; /* file name and full text */
  const char *title;
  size_t n_coordinates, n_constants, n_unknowns, n_definitions, n_tables;
  pn_coordinate *coordinates;
  pn_constant *constants;
  pn_unknown *unknowns;
  pn_definition *definitions;
  pn_table_entry *tables;
  size_t n_units;
  struct pn_unit_entry *units; /* of [units], in file order; units.h */
  size_t n_parameters;
  pn_parameter *parameters;
  size_t n_shapes;
  pn_shape *shapes;
  const pn_body *box;      /* of the space coordinates; NULL without shapes */
  const pn_body *region;   /* domain.region; NULL: the box */
  uint64_t region_tags;
  const pn_piece *domain;  /* the region as a volume; NULL: the box */
  const char **coordinate_names; /* for pn_expr_print */
  size_t n_arguments; /* coordinates[n_coordinates ..]: unknowns that unknowns depend on */
  bool has_complex; /* `i` is the imaginary unit */
  pn_metric metric;
  size_t n_counted;
  pn_counted *counted;
  size_t counted_group, counted_at; /* the resolver's: in sum(e, x) the name x stands for the counted_at-th
                                       coordinate of group counted_group - 1; 0: in none */
  size_t n_equations, n_conditions;
  pn_term *equations, *conditions;
  size_t n_checks;
  pn_term *checks; /* is_condition and is_check; no part of the loss */
  double accept_residual; /* largest relative residual of each term on fresh points */
  bool accept_residual_given;
  bool accept_error_given;
  pn_network network;
  pn_points points;
  pn_weights weights;
  size_t n_stages; /* 0: the file has none, the solver makes its plan */
  pn_stage *stages;
  pn_numbers numbers;
  uint64_t seed;
  bool warm;          /* warm.c has looked at `from` of all networks */
  uint64_t wave_seed; /* of fixed Fourier features: seed, unless weights come from a run with another */
  double seconds; /* 0 = no limit */
  size_t windows; /* of the time, solved one after the other; 1: all at once */
  pn_place windows_place;
  bool causal;   /* later times count once earlier ones are solved */
  size_t chunks; /* of the time, for causal */
  pn_output output;
  size_t n_warnings;
  char **warnings; /* whole texts, with place lines */
  size_t n_overrides;
  const char **overrides; /* as given */
} pn_problem;

/* Reads a file. Overrides are "path=value" (pinn solve --set). On failure *out is NULL and
 * tn_error_text() holds all lines of the error: TN_EINPUT bad input, TN_EUNSUPPORTED a key of the
 * format that this version does not have, TN_EIO no such file. */
tn_status pn_problem_load(const char *path, size_t n_overrides, const char *const *overrides,
                          pn_problem **out) TN_MUST_USE;
tn_status pn_problem_parse(const char *file_name, const char *text, size_t n_overrides,
                           const char *const *overrides, pn_problem **out) TN_MUST_USE;
void pn_problem_free(pn_problem **problem);

/* The stage that an empty table [[stage]] means. */
pn_stage pn_stage_default(void);

/* A scalar or vector expression typed by the user later (pinn eval, plots): parsed and resolved in
 * the problem's names; lives in the problem's arena. `origin` names it in errors ("--expr"). */
tn_status pn_problem_expression(pn_problem *problem, const char *origin, const char *text,
                                pn_expr **out) TN_MUST_USE;

/* moving.c. Is an end of it an unknown? */
bool pn_moves(const pn_coordinate *coordinate);
/* These coordinates, and those that the ends of moving ones among them depend on (bits). */
uint32_t pn_moving_needs(const pn_problem *problem, uint32_t bits);
/* A point of a site at its place: reference numbers of moving coordinates replaced by the exact solution;
 * false if that is not known. */
bool pn_moving_place(const pn_problem *problem, double *point);
/* Does an unknown depend on unknowns, as b(u)? */
bool pn_takes_unknowns(const pn_problem *problem, const pn_unknown *unknown);
/* The coordinate whose name these `length` characters are; PN_NONE if there is none. */
size_t pn_coordinate_find(const pn_problem *problem, const char *name, size_t length);

/* Which coordinates matter to an expression (bit i), unknowns and definitions included. */
uint32_t pn_expr_depends(const pn_problem *problem, const pn_expr *expr);
/* Which unknowns occur in it (bit i: unknown i; the first 64). */
uint64_t pn_expr_unknowns(const pn_problem *problem, const pn_expr *expr);
/* Which parameters occur in it, behind definitions too (bit i: parameter i). */
uint64_t pn_expr_parameters(const pn_problem *problem, const pn_expr *expr);

/* Value at a point (problem->n_coordinates values; NULL: coordinates are an error) of an expression
 * without unknowns, derivatives and tables: constants, coordinates, functions, where, definitions;
 * a parameter counts as its exact value, or where that is not known as its start.
 */
tn_status pn_evaluate(const pn_problem *problem, const pn_expr *expr, const double *point,
                      double *out) TN_MUST_USE;
/* The same in the row of some data, whose columns have values there. */
tn_status pn_evaluate_row(const pn_problem *problem, const pn_expr *expr, const double *point,
                          const pn_data *data, size_t row, double *out) TN_MUST_USE;
/* The truth of a predicate (piece filter, args[0] of PN_WHERE without unknowns) at a point. */
tn_status pn_predicate_holds(const pn_problem *problem, const pn_expr *predicate,
                             const double *point, bool *out) TN_MUST_USE;

/* Component `k` of an expression (k | PN_IMAGINARY: its imaginary part) as a tree of real scalars: grad, div, lap, curl, dot, norm, dn, normal,
 * tuples and vector definitions are written out, so that only PN_NUMBER .. PN_POWER, comparisons,
 * PN_CONSTANT_REF .. PN_MEAN remain and definitions are scalars. `piece` gives the normal for dn
 * and normal_x (NULL: they are an error). A PN_DEFINITION that is left lowers to its `scalar` tree.
 */
tn_status pn_scalar(pn_problem *problem, const pn_expr *expr, size_t k, const pn_piece *piece,
                    pn_expr **out) TN_MUST_USE;

/* ---- Number formats (settings.c) ------------------------------------------------------------ */

/* Of a stage that computes in `compute` (NULL: as the file); refuses what does not go with the file's master. */
tn_status pn_problem_precision(const pn_problem *problem, const char *compute,
                               pn_precision *out) TN_MUST_USE;
/* The settings of the loss scale. */
tn_status pn_problem_scaler(const pn_problem *problem, pn_scaler_options *out) TN_MUST_USE;

/* ---- The key table -------------------------------------------------------------------------- */

/* Help for one table of the format ("stage"), or all (NULL). TN_EINPUT for an unknown table. */
tn_status pn_keys_text(FILE *file, const char *table) TN_MUST_USE;
tn_status pn_keys_markdown(FILE *file) TN_MUST_USE;
tn_status pn_keys_schema(FILE *file) TN_MUST_USE; /* JSON Schema for editors */

#ifdef __cplusplus
}
#endif

#endif
