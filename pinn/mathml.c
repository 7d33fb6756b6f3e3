/* mathml.c: trees as presentation MathML, for report.html.
 *
 * Quotients are fractions, powers superscripts, derivatives subscripts, square roots roots;
 * products have no sign except before a number. Names of Greek letters become the letters; a name
 * of several letters is upright. Everything is ASCII: other characters are numeric references.
 */
#include "pinn/print.h"

#include <string.h>

typedef struct printer {
  pn_text w;
  const char *const *coordinates;
} printer;

static const struct {
  const char *name;
  unsigned code;
} greek[] = {
    {"alpha", 0x3B1},  {"beta", 0x3B2},  {"gamma", 0x3B3}, {"delta", 0x3B4}, {"epsilon", 0x3B5},
    {"eps", 0x3B5},    {"zeta", 0x3B6},  {"eta", 0x3B7},   {"theta", 0x3B8}, {"kappa", 0x3BA},
    {"lambda", 0x3BB}, {"mu", 0x3BC},    {"nu", 0x3BD},    {"xi", 0x3BE},    {"pi", 0x3C0},
    {"rho", 0x3C1},    {"sigma", 0x3C3}, {"tau", 0x3C4},   {"phi", 0x3C6},   {"chi", 0x3C7},
    {"psi", 0x3C8},    {"omega", 0x3C9}, {"Gamma", 0x393}, {"Delta", 0x394}, {"Theta", 0x398},
    {"Lambda", 0x39B}, {"Phi", 0x3A6},   {"Psi", 0x3A8},   {"Omega", 0x3A9}};

static void name(printer *p, const char *text) {
  for (size_t i = 0; i < sizeof greek / sizeof greek[0]; ++i)
    if (strcmp(text, greek[i].name) == 0) {
      pn_putf(&p->w, "<mi>&#%u;</mi>", greek[i].code);
      return;
    }
  const char *bar = strchr(text, '_'); /* before resolving: u_xx */
  if (bar) {
    pn_putf(&p->w, "<msub><mi>%.*s</mi><mi>%s</mi></msub>", (int)(bar - text), text, bar + 1);
    return;
  }
  pn_putf(&p->w, "<mi>%s</mi>", text);
}

static void write_node(printer *p, const pn_expr *e);

static void sign(printer *p, const char *text) { pn_putf(&p->w, "<mo>%s</mo>", text); }

static void row(printer *p, const pn_expr *e, int strength) {
  bool brackets = pn_expr_strength(e) < strength;
  pn_put(&p->w, "<mrow>");
  if (brackets)
    sign(p, "(");
  write_node(p, e);
  if (brackets)
    sign(p, ")");
  pn_put(&p->w, "</mrow>");
}

static void arguments(printer *p, const pn_expr *e, const char *open, const char *close) {
  sign(p, open);
  for (size_t i = 0; i < e->n; ++i) {
    if (i)
      sign(p, ",");
    write_node(p, e->args[i]);
  }
  sign(p, close);
}

static const char *operator_text(pn_kind kind) {
  switch (kind) {
  case PN_ADD:
    return "+";
  case PN_SUBTRACT:
    return "&#8722;";
  case PN_EQUAL:
    return "=";
  case PN_LESS_EQUAL:
    return "&#8804;";
  case PN_GREATER_EQUAL:
    return "&#8805;";
  case PN_LESS:
    return "&lt;";
  case PN_GREATER:
    return "&gt;";
  case PN_AND:
    return "and";
  case PN_OR:
    return "or";
  default:
    return NULL;
  }
}

/* Name and arguments of what is printed as an operator before brackets. */
static const char *prefix(const pn_expr *e) {
  switch (e->kind) {
  case PN_CALL:
  case PN_EXTERNAL:
    return e->name;
  case PN_FUNCTION:
    return pn_function_name((pn_function)e->index);
  case PN_GRAD:
    return "&#8711;";
  case PN_DIVERGENCE:
    return "&#8711;&#8901;";
  case PN_LAPLACE:
    return "&#8710;";
  case PN_CURL:
    return "&#8711;&#215;";
  case PN_MEAN:
    return "mean";
  case PN_WHERE:
    return "where";
  default:
    return NULL;
  }
}

static void subscript(printer *p, const pn_expr *base, const pn_expr *axes_of) {
  bool simple = pn_expr_strength(base) == 5;
  pn_put(&p->w, "<msub>");
  row(p, base, simple ? 5 : 6);
  pn_put(&p->w, "<mrow>");
  for (size_t i = 0; i < axes_of->n_axes; ++i)
    name(p, p->coordinates ? p->coordinates[axes_of->axes[i]] : "?");
  pn_put(&p->w, "</mrow></msub>");
}

static void at(printer *p, const pn_expr *e) {
  write_node(p, e->args[0]);
  sign(p, "(");
  for (size_t i = 0; i < e->n_axes; ++i) {
    if (i)
      sign(p, ",");
    name(p, p->coordinates ? p->coordinates[e->axes[i]] : "?");
    sign(p, "=");
    write_node(p, e->args[1 + i]);
  }
  sign(p, ")");
}

static void product(printer *p, const pn_expr *e) {
  const pn_expr *b = e->args[1];
  row(p, e->args[0], 2);
  sign(p, pn_expr_strength(b) == 3 || b->kind == PN_NUMBER ? "&#183;" : "&#8290;");
  row(p, b, pn_expr_strength(b) == 3 ? 4 : 3);
}

static void leaf(printer *p, const pn_expr *e) {
  switch (e->kind) {
  case PN_NUMBER:
    if (e->name) {
      name(p, e->name);
      return;
    }
    pn_put(&p->w, "<mn>");
    pn_put_number(&p->w, e->number);
    pn_put(&p->w, "</mn>");
    return;
  case PN_END:
    pn_putf(&p->w, "<msub><mi>%s</mi><mi>%s</mi></msub>", e->name,
            e->index == PN_END_MIN   ? "min"
            : e->index == PN_END_MAX ? "max"
            : e->index == PN_END_RE  ? "re"
                                     : "im");
    return;
  case PN_BOUNDARY:
    pn_put(&p->w, "<mi>boundary</mi>");
    return;
  case PN_EVERYWHERE:
    pn_put(&p->w, "<mi>domain</mi>");
    return;
  case PN_IMAGINARY_UNIT:
    pn_put(&p->w, "<mi>i</mi>");
    return;
  case PN_NET:
    pn_put(&p->w, "<mi>net</mi>");
    return;
  case PN_BOUND: /* "x.min" */
    pn_putf(&p->w, "<msub><mi>%.*s</mi><mi>%s</mi></msub>", (int)(strlen(e->name) - 4), e->name,
            e->name + strlen(e->name) - 3);
    return;
  default:
    name(p, e->name ? e->name : "?");
    return;
  }
}

/* Operators with a layout of their own; false if e is none. */
static bool laid_out(printer *p, const pn_expr *e) {
  switch (e->kind) {
  case PN_MULTIPLY:
    product(p, e);
    return true;
  case PN_DIVIDE:
    pn_put(&p->w, "<mfrac>");
    row(p, e->args[0], -9);
    row(p, e->args[1], -9);
    pn_put(&p->w, "</mfrac>");
    return true;
  case PN_POWER:
    pn_put(&p->w, "<msup>");
    row(p, e->args[0], 5);
    row(p, e->args[1], -9);
    pn_put(&p->w, "</msup>");
    return true;
  case PN_NEGATE:
    sign(p, "&#8722;");
    row(p, e->args[0], pn_expr_strength(e->args[0]) == 3 ? 4 : 3);
    return true;
  case PN_NOT:
    sign(p, "not");
    row(p, e->args[0], -1);
    return true;
  case PN_DERIVATIVE:
    subscript(p, e->args[0], e);
    return true;
  case PN_AT:
    at(p, e);
    return true;
  case PN_TUPLE:
    arguments(p, e, "(", ")");
    return true;
  case PN_INTEGRAL_OF:
    pn_put(&p->w, "<msubsup><mo>&#8747;</mo>");
    row(p, e->args[1], -9);
    row(p, e->args[2], -9);
    pn_put(&p->w, "</msubsup>");
    row(p, e->args[0], 2);
    sign(p, "&#8201;");
    sign(p, "d");
    name(p, e->name);
    return true;
  case PN_NORM:
    arguments(p, e, "&#8214;", "&#8214;");
    return true;
  case PN_DOT:
    row(p, e->args[0], 3);
    sign(p, "&#8901;");
    row(p, e->args[1], 3);
    return true;
  case PN_KEYWORD:
    name(p, e->name);
    sign(p, "=");
    write_node(p, e->args[0]);
    return true;
  case PN_SUFFIX:
    pn_put(&p->w, "<msub>");
    row(p, e->args[0], 6);
    pn_putf(&p->w, "<mi>%s</mi></msub>", e->name);
    return true;
  default:
    return false;
  }
}

static void write_node(printer *p, const pn_expr *e) {
  if (laid_out(p, e))
    return;
  const char *op = operator_text(e->kind), *before = prefix(e);
  if (op) {
    int strength = pn_expr_strength(e);
    bool minus = strength > 0 && pn_expr_strength(e->args[1]) == 3;
    row(p, e->args[0], strength);
    sign(p, op);
    row(p, e->args[1], minus ? 4 : strength + 1);
  } else if (e->kind == PN_FUNCTION && e->index == PN_FN_sqrt) {
    pn_put(&p->w, "<msqrt>");
    write_node(p, e->args[0]);
    pn_put(&p->w, "</msqrt>");
  } else if (e->kind == PN_FUNCTION && e->index == PN_FN_abs) {
    arguments(p, e, "|", "|");
  } else if (e->kind == PN_NORMAL_DERIVATIVE) {
    pn_put(&p->w, "<msub><mo>&#8706;</mo><mi>n</mi></msub>");
    arguments(p, e, "(", ")");
  } else if (before) {
    pn_putf(&p->w, "<mi>%s</mi>", before);
    arguments(p, e, "(", ")");
  } else {
    leaf(p, e);
  }
}

tn_status pn_expr_mathml(pn_arena *arena, const pn_expr *expr, const char *const *coordinates,
                         char **out) {
  printer p = {.coordinates = coordinates};
  pn_put(&p.w, "<math xmlns=\"http://www.w3.org/1998/Math/MathML\"><mrow>");
  write_node(&p, expr);
  pn_put(&p.w, "</mrow></math>");
  return pn_text_into(&p.w, arena, out);
}
