/* expr.h: expressions of the problem file: places in the file, the arena, trees, parser, printers.
 *
 * A tree is made by pn_expr_parse (grammar only: names are plain text) and then changed in place by
 * the resolver (names.h) into nodes that refer to the tables of pn_problem by index. Code that
 * lowers trees to graphs sees resolved nodes only, and after pn_scalar (scalar.c) scalar ones only.
 *
 * Every node, string and array lives in the problem's arena and is freed with it, never singly.
 */
#ifndef PINN_EXPR_H
#define PINN_EXPR_H

#include <stdio.h>

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arena ---------------------------------------------------------------------------------- */

typedef struct pn_arena pn_arena;
tn_status pn_arena_new(pn_arena **out) TN_MUST_USE;
void pn_arena_free(pn_arena **arena);
/* count * size zeroed bytes, aligned to 16; they live as long as the arena. */
tn_status pn_arena_take(pn_arena *arena, size_t count, size_t size, void *out) TN_MUST_USE;
/* A copy of length bytes with a 0 behind them. */
tn_status pn_arena_text(pn_arena *arena, const char *text, size_t length, char **out) TN_MUST_USE;
/* A text made by format. */
tn_status pn_arena_format(pn_arena *arena, char **out, const char *format, ...) TN_PRINTF(3, 4);
#define PN_TAKE(arena, count, out) pn_arena_take((arena), (count), sizeof **(out), (out))

/* ---- Places and errors ---------------------------------------------------------------------- */

/* A text that places refer to: the file, or one override (file = "--set", text = "path=value"). */
typedef struct pn_source {
  const char *file; /* as it is printed */
  const char *text; /* whole text */
  size_t length;    /* bytes */
} pn_source;

/* Lines and columns count from 1, columns in characters; line 0: no place. */
typedef struct pn_place {
  const pn_source *source;
  size_t line, column;
} pn_place;

/* Fails with "file:line:column: text", the source line, and `width` carets under it (width 0: one).
 */
tn_status pn_fail_at(tn_status code, pn_place place, size_t width, const char *format, ...)
    TN_PRINTF(4, 5);
/* The same lines as pn_fail_at makes, as a text in the arena (for warnings). */
tn_status pn_place_text(pn_arena *arena, pn_place place, size_t width, const char *message,
                        char **out);

/* ---- Trees ---------------------------------------------------------------------------------- */

/* An expression text and where its first character stands in the file. */
typedef struct pn_phrase {
  const char *text;
  pn_place place; /* of the opening quote (or of the first character of a bare --set value) */
  bool quoted; /* place is that of a TOML quote: escapes and line ends are walked to find columns */
} pn_phrase;

typedef enum pn_kind {
  /* Written and resolved alike. `a`, `b`: args[0], args[1]. */
  PN_NUMBER,        /* number */
  PN_NEGATE,        /* -a */
  PN_ADD,           /* a + b */
  PN_SUBTRACT,      /* a - b */
  PN_MULTIPLY,      /* a * b */
  PN_DIVIDE,        /* a / b */
  PN_POWER,         /* a ^ b */
  PN_TUPLE,         /* (args[0], args[1], ...): a vector */
  PN_EQUAL,         /* a = b: a relation, or a test inside a predicate */
  PN_LESS_EQUAL,    /* a <= b */
  PN_GREATER_EQUAL, /* a >= b */
  PN_LESS,          /* a < b; only in predicates, like all that follow up to PN_NOT */
  PN_GREATER,       /* a > b */
  PN_AND,           /* a and b */
  PN_OR,            /* a or b */
  PN_NOT,           /* not a */
  /* Written only: the resolver replaces them. */
  PN_NAME,    /* name, possibly u_xx */
  PN_CALL,    /* name(args): function, field or definition */
  PN_KEYWORD, /* name = args[0], inside a call */
  PN_SUFFIX,  /* (args[0])_name */
  PN_END,     /* name.min (index 0), name.max (1), name.re (2), name.im (3) */
  /* Resolved only. */
  PN_CONSTANT_REF, /* index in problem->constants; number = its value */
  PN_COORDINATE,   /* index in problem->coordinates */
  PN_UNKNOWN,      /* index in problem->unknowns: the unknown at the point itself */
  PN_COMPLEX,      /* a complex unknown, or net of one: args[0] + i args[1] */
  PN_IMAGINARY_UNIT, /* i */
  PN_NET,          /* the raw network output, only inside an ansatz; index 1, 2: the output of a complex
                      unknown's real, imaginary part, 0: of the unknown itself */
  PN_DEFINITION,   /* index in problem->definitions: a macro; stands for its value tree */
  PN_TABLE,        /* index in problem->tables, at the point itself */
  PN_BOUND,        /* x.min or x.max, which is its name; index = coordinate, number = value */
  PN_DERIVATIVE, /* of args[0]; axes[0..n_axes): coordinates, in the order written; never nested */
  PN_AT,         /* args[0] with coordinate axes[i] replaced by args[1 + i]; the others stay */
  PN_FUNCTION,   /* index: pn_function; args */
  PN_WHERE,      /* where args[0] (predicate) holds args[1], else args[2] */
  PN_MEAN,       /* mean of args[0] over the domain (n = 1), or where the predicate args[1] holds */
  PN_INTEGRAL_OF, /* of args[0] from args[1] to args[2], over the coordinate axes[0], or (n_axes 0) over
                     the variable of level `index`; number: quadrature nodes, 0 = by nesting */
  PN_DUMMY,       /* the variable of the integral of level `index` around it */
  PN_GRAD,
  PN_DIVERGENCE,
  PN_LAPLACE,
  PN_CURL,              /* of args[0], along the space coordinates */
  PN_DOT,               /* a . b */
  PN_NORM,              /* |a|, Euclidean */
  PN_NORMAL_DERIVATIVE, /* dn(a), outward */
  PN_NORMAL,            /* normal_x: index = coordinate */
  PN_BOUNDARY,          /* predicates: on the boundary */
  PN_EVERYWHERE,        /* predicates: `box` or `domain`: true */
  PN_PARAMETER_REF,     /* index in problem->parameters: a number to be found */
  PN_SHAPE,     /* predicates: index in problem->shapes; the part of the boundary it made, or its inside */
  PN_INTERFACE, /* predicates: the surface of shape `index` inside the domain */
  PN_INSIDE,    /* 1 inside shape `index`, else 0; predicates: there. PN_NONE: the domain */
  PN_COLUMN,            /* index in the columns of the condition's data */
  PN_EXTERNAL,  /* a function of a shared library: index in problem->definitions; args */
  PN_KINDS
} pn_kind;

/* The functions of the language that act point by point; functions.def has one row each. */
typedef enum pn_function {
#define FUNCTION(name, least, most, available, meaning) PN_FN_##name,
#include "pinn/functions.def"
#undef FUNCTION
  PN_FUNCTIONS
} pn_function;

typedef struct pn_expr pn_expr;
struct pn_expr {
  pn_kind kind;
  double number;
  const char *name; /* as written, of names, calls and what they became; NULL for operators */
  size_t index;     /* in the table that kind says */
  size_t n;         /* arguments */
  pn_expr **args;
  size_t n_axes;
  size_t *axes;            /* coordinate indices */
  size_t components;       /* after resolving: 1 for a scalar, else the length of the vector */
  bool is_complex;         /* after resolving: its value is complex */
  size_t height;           /* 1 + the largest of the arguments */
  const pn_phrase *phrase; /* the text it stands in */
  size_t start, length;    /* its bytes there */
};

/* What PN_END's index says. */
enum { PN_END_MIN, PN_END_MAX, PN_END_RE, PN_END_IM };

/* Limits that turn hostile input into errors; recursion over a tree may rely on them. */
#define PN_MAX_NESTING 200 /* brackets, signs and powers inside each other */
#define PN_MAX_HEIGHT 2000 /* of a tree */

/* The three entry points of the grammar. The phrase must outlive the tree (give it arena memory).
 */
tn_status pn_parse_relation(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) TN_MUST_USE;
tn_status pn_parse_value(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) TN_MUST_USE;
tn_status pn_parse_predicate(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) TN_MUST_USE;

/* A node that the program itself makes, with the place of `like` (may be NULL); args copied.
 * components is 1 and height is set; TN_EINPUT when the tree would be higher than PN_MAX_HEIGHT. */
tn_status pn_expr_make(pn_arena *arena, pn_kind kind, const pn_expr *like, size_t n,
                       pn_expr *const *args, pn_expr **out) TN_MUST_USE;
tn_status pn_expr_number(pn_arena *arena, double value, const pn_expr *like,
                         pn_expr **out) TN_MUST_USE;

/* Where a node stands in the file. `offset` bytes into a phrase. */
pn_place pn_phrase_place(const pn_phrase *phrase, size_t offset);
pn_place pn_expr_place(const pn_expr *expr);
/* pn_fail_at with the node's place and length. */
tn_status pn_expr_fail(tn_status code, const pn_expr *expr, const char *format, ...)
    TN_PRINTF(3, 4);

/* Canonical text ("u_t + u*u_x = nu*u_xx"), before or after resolving; `coordinates` are the names
 * for PN_DERIVATIVE and PN_AT (NULL before resolving). Parsing it again gives the same tree. */
tn_status pn_expr_print(pn_arena *arena, const pn_expr *expr, const char *const *coordinates,
                        char **out) TN_MUST_USE;
/* Presentation MathML, one <math> element. */
tn_status pn_expr_mathml(pn_arena *arena, const pn_expr *expr, const char *const *coordinates,
                         char **out) TN_MUST_USE;

const char *pn_function_name(pn_function function);
typedef struct pn_arity {
  size_t least, most; /* arguments */
  bool available;     /* in this version */
} pn_arity;
pn_arity pn_function_arity(pn_function function);
bool pn_function_find(const char *name, pn_function *out);

#ifdef __cplusplus
}
#endif

#endif
