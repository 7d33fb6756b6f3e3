/* print.c: trees back to text, in a canonical form: "u_t + u*u_x = nu*u_xx".
 *
 * Law: parsing the text gives the tree again (for written trees node by node, for resolved trees
 * after resolving). So brackets stand exactly where the grammar would group otherwise, numbers
 * carry as many digits as they need, and derivatives of names are written as names (u_xx; u_r_theta
 * when a coordinate has more than one letter), of anything else as a suffix on brackets.
 */
#include "pinn/print.h"

#include "pinn/integral.h"

#include <string.h>

tn_status pn_text_into(pn_text *w, pn_arena *arena, char **out) {
  tn_status status = pn_text_status(w);
  if (status == TN_OK)
    status = pn_arena_text(arena, w->text ? w->text : "", w->n, out);
  pn_text_free(w);
  return status;
}

int pn_expr_strength(const pn_expr *e) {
  switch (e->kind) {
  case PN_OR:
    return -3;
  case PN_AND:
    return -2;
  case PN_NOT:
    return -1;
  case PN_EQUAL:
  case PN_LESS_EQUAL:
  case PN_GREATER_EQUAL:
  case PN_LESS:
  case PN_GREATER:
    return 0;
  case PN_ADD:
  case PN_SUBTRACT:
    return 1;
  case PN_MULTIPLY:
  case PN_DIVIDE:
    return 2;
  case PN_NEGATE:
    return 3;
  case PN_NUMBER:
    return e->number < 0 ? 3 : 5;
  case PN_POWER:
    return 4;
  default:
    return 5;
  }
}

/* ---- Printing ------------------------------------------------------------------------------- */

typedef struct printer {
  pn_text w;
  const char *const *coordinates; /* NULL before resolving */
} printer;

static void print(printer *p, const pn_expr *e);

static void print_at_least(printer *p, const pn_expr *e, int strength) {
  bool brackets = pn_expr_strength(e) < strength;
  if (brackets)
    pn_put(&p->w, "(");
  print(p, e);
  if (brackets)
    pn_put(&p->w, ")");
}

/* a op b; the right side of a left-associative operator binds tighter, and a sign there is
 * bracketed. */
static void print_binary(printer *p, const pn_expr *e, const char *op) {
  int strength = pn_expr_strength(e), right = strength + 1;
  if (strength > 0 && pn_expr_strength(e->args[1]) == 3)
    right = 4;
  print_at_least(p, e->args[0], e->kind == PN_POWER ? 5 : strength);
  pn_putf(&p->w, "%s", op);
  print_at_least(p, e->args[1], e->kind == PN_POWER ? 3 : right);
}

static void print_list(printer *p, const char *name, const pn_expr *e) {
  pn_putf(&p->w, "%s(", name);
  for (size_t i = 0; i < e->n; ++i) {
    if (i)
      pn_put(&p->w, ", ");
    print(p, e->args[i]);
  }
  pn_put(&p->w, ")");
}

static const char *coordinate(const printer *p, size_t index) {
  return p->coordinates ? p->coordinates[index] : "?";
}

/* "xx", or "r_theta" if a name is longer than a letter. */
static void print_axes(printer *p, const pn_expr *e) {
  bool letters = true;
  for (size_t i = 0; i < e->n_axes; ++i)
    letters &= strlen(coordinate(p, e->axes[i])) == 1;
  for (size_t i = 0; i < e->n_axes; ++i)
    pn_putf(&p->w, "%s%s", i && !letters ? "_" : "", coordinate(p, e->axes[i]));
}

static bool is_field_name(const pn_expr *e) {
  return e->kind == PN_UNKNOWN || e->kind == PN_DEFINITION || e->kind == PN_TABLE ||
         e->kind == PN_NET || (e->kind == PN_COMPLEX && e->name);
}

static void print_derivative(printer *p, const pn_expr *e) {
  bool bare = is_field_name(e->args[0]) || e->args[0]->kind == PN_AT;
  if (!bare)
    pn_put(&p->w, "(");
  print(p, e->args[0]);
  pn_put(&p->w, bare ? "_" : ")_");
  print_axes(p, e);
}

static void print_at(printer *p, const pn_expr *e) {
  print(p, e->args[0]);
  pn_put(&p->w, "(");
  for (size_t i = 0; i < e->n_axes; ++i) {
    pn_putf(&p->w, "%s%s=", i ? ", " : "", coordinate(p, e->axes[i]));
    print(p, e->args[1 + i]);
  }
  pn_put(&p->w, ")");
}

/* Over the whole range of a coordinate, or with limits. */
static void print_integral(printer *p, const pn_expr *e) {
  pn_put(&p->w, "int(");
  print(p, e->args[0]);
  pn_putf(&p->w, ", %s", e->name);
  for (size_t i = 1; i < e->n && !pn_integral_is_whole(e); ++i) {
    pn_put(&p->w, ", ");
    print(p, e->args[i]);
  }
  pn_put(&p->w, ")");
}

static void print_leaf(printer *p, const pn_expr *e) {
  switch (e->kind) {
  case PN_NUMBER: /* pi keeps its name */
    if (e->name)
      pn_put(&p->w, e->name);
    else
      pn_put_number(&p->w, e->number);
    return;
  case PN_END:
    pn_putf(&p->w, "%s.%s", e->name,
            e->index == PN_END_MIN   ? "min"
            : e->index == PN_END_MAX ? "max"
            : e->index == PN_END_RE  ? "re"
                                     : "im");
    return;
  case PN_BOUNDARY:
    pn_put(&p->w, "boundary");
    return;
  case PN_EVERYWHERE:
    pn_put(&p->w, "domain");
    return;
  case PN_IMAGINARY_UNIT:
    pn_put(&p->w, "i");
    return;
  case PN_NET:
    pn_put(&p->w, "net");
    return;
  default:
    pn_putf(&p->w, "%s", e->name ? e->name : "?");
    return;
  }
}

static const char *operator_text(pn_kind kind) {
  switch (kind) {
  case PN_ADD:
    return " + ";
  case PN_SUBTRACT:
    return " - ";
  case PN_MULTIPLY:
    return "*";
  case PN_DIVIDE:
    return "/";
  case PN_POWER:
    return "^";
  case PN_EQUAL:
    return " = ";
  case PN_LESS_EQUAL:
    return " <= ";
  case PN_GREATER_EQUAL:
    return " >= ";
  case PN_LESS:
    return " < ";
  case PN_GREATER:
    return " > ";
  case PN_AND:
    return " and ";
  case PN_OR:
    return " or ";
  default:
    return NULL;
  }
}

static const char *list_name(const pn_expr *e) {
  switch (e->kind) {
  case PN_TUPLE:
    return "";
  case PN_CALL:
  case PN_EXTERNAL:
    return e->name;
  case PN_FUNCTION:
    return pn_function_name((pn_function)e->index);
  case PN_WHERE:
    return "where";
  case PN_MEAN:
    return "mean";
  case PN_GRAD:
    return "grad";
  case PN_DIVERGENCE:
    return "div";
  case PN_LAPLACE:
    return "lap";
  case PN_CURL:
    return "curl";
  case PN_DOT:
    return "dot";
  case PN_NORM:
    return "norm";
  case PN_NORMAL_DERIVATIVE:
    return "dn";
  default:
    return NULL;
  }
}

static void print(printer *p, const pn_expr *e) {
  const char *op = operator_text(e->kind), *list = list_name(e);
  if (op) {
    print_binary(p, e, op);
  } else if (e->kind == PN_MEAN && e->n == 1) {
    pn_put(&p->w, "mean(");
    print(p, e->args[0]);
    pn_put(&p->w, ", domain)");
  } else if (e->kind == PN_INTEGRAL_OF) {
    print_integral(p, e);
  } else if (list) {
    print_list(p, list, e);
  } else if (e->kind == PN_NEGATE) {
    pn_put(&p->w, "-");
    print_at_least(p, e->args[0], pn_expr_strength(e->args[0]) == 3 ? 4 : 3);
  } else if (e->kind == PN_NOT) {
    pn_put(&p->w, "not ");
    print_at_least(p, e->args[0], -1);
  } else if (e->kind == PN_KEYWORD) {
    pn_putf(&p->w, "%s=", e->name);
    print(p, e->args[0]);
  } else if (e->kind == PN_SUFFIX) {
    bool bare = e->args[0]->kind == PN_CALL;
    if (!bare)
      pn_put(&p->w, "(");
    print(p, e->args[0]);
    pn_putf(&p->w, "%s_%s", bare ? "" : ")", e->name);
  } else if (e->kind == PN_DERIVATIVE) {
    print_derivative(p, e);
  } else if (e->kind == PN_AT) {
    print_at(p, e);
  } else {
    print_leaf(p, e);
  }
}

tn_status pn_expr_print(pn_arena *arena, const pn_expr *expr, const char *const *coordinates,
                        char **out) {
  printer p = {.coordinates = coordinates};
  print(&p, expr);
  return pn_text_into(&p.w, arena, out);
}
