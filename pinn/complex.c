/* complex.c: which trees are complex, and what may be done with them.
 *
 * A complex unknown h is two real ones, h.re and h.im, which stand one behind the other. In a tree it
 * is a node PN_COMPLEX over the two, so that whoever asks what a tree depends on finds both; `net` in
 * its ansatz likewise is a pair of outputs. Every node knows whether its value is complex; this file
 * decides that when the node is resolved, and refuses what has no meaning: an order, a complex place
 * or limit, functions that are real. scalar_complex.c then writes each part out as a real tree, and
 * nothing behind that knows of complex numbers.
 */
#include "pinn/names.h"
#include "pinn/read.h"

#include <string.h>

/* ---- Declarations ---------------------------------------------------------------------------- */

tn_status pn_declare_complex(pn_problem *p, const pn_unknown *whole, size_t *n) {
  char *part[2] = {NULL, NULL};
  TN_TRY(pn_arena_format(p->arena, &part[0], "%s.re", whole->name));
  TN_TRY(pn_arena_format(p->arena, &part[1], "%s.im", whole->name));
  for (int i = 0; i < 2; ++i) {
    pn_unknown *u = &p->unknowns[*n + (size_t)i];
    *u = *whole;
    u->pair = whole->name;
    u->part = i ? PN_IMAGINARY_PART : PN_REAL_PART;
    u->name = part[i];
  }
  *n += 2;
  p->has_complex = true;
  return TN_OK;
}

void pn_copy_pair(pn_problem *p, size_t u) {
  const pn_unknown *re = &p->unknowns[u];
  pn_unknown *im = &p->unknowns[u + 1];
  pn_unknown copy = *re;
  copy.name = im->name;
  copy.part = im->part;
  copy.ansatz = im->ansatz;
  copy.exact = im->exact;
  *im = copy;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* e becomes the pair of the unknowns index and index + 1, or of two outputs of its network. */
tn_status pn_make_pair(pn_problem *p, pn_expr *e, pn_kind kind, size_t index) {
  TN_TRY(PN_TAKE(p->arena, 2, &e->args));
  for (size_t i = 0; i < 2; ++i) {
    pn_expr *part = NULL;
    TN_TRY(pn_expr_make(p->arena, kind, e, 0, NULL, &part));
    part->index = kind == PN_NET ? 1 + i : index + i;
    part->name = kind == PN_NET ? "net" : p->unknowns[index + i].name;
    e->args[i] = part;
  }
  e->name = kind == PN_NET ? "net" : p->unknowns[index].pair;
  e->kind = PN_COMPLEX;
  e->n = 2;
  e->height = 2;
  e->components = 1;
  e->is_complex = true;
  return TN_OK;
}

/* i */
tn_status pn_resolve_unit(const pn_naming *s, pn_expr *e) {
  if (s->no_definitions)
    return pn_expr_fail(TN_EINPUT, e, "`i` is the imaginary unit; %s cannot use it", s->what);
  e->kind = PN_IMAGINARY_UNIT;
  return pn_set_complex(s->problem, e);
}

/* h.re or h.im. */
tn_status pn_resolve_part(pn_naming *s, pn_expr *e) {
  size_t index = 0;
  pn_sort sort = pn_lookup(s->problem, e->name, &index);
  bool imaginary = e->index == PN_END_IM;
  if (sort != PN_IS_UNKNOWN || !s->problem->unknowns[index].pair)
    return pn_expr_fail(TN_EINPUT, e,
                        "`%s` is no complex unknown and has no .re and .im; re(...) and im(...) take "
                        "the parts of an expression",
                        e->name);
  if (!s->unknowns)
    return pn_expr_fail(TN_EINPUT, e, "`%s` is an unknown; %s cannot use it", e->name, s->what);
  e->kind = PN_UNKNOWN;
  e->index = index + imaginary;
  e->name = s->problem->unknowns[e->index].name;
  e->components = 1;
  return TN_OK;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static const pn_expr *first_complex(const pn_expr *e, size_t from) {
  for (size_t i = from; i < e->n; ++i)
    if (e->args[i]->is_complex)
      return e->args[i];
  return NULL;
}

static tn_status real_from(const pn_expr *e, size_t from, const char *what) {
  const pn_expr *bad = first_complex(e, from);
  return bad ? pn_expr_fail(TN_EINPUT, bad, "%s is a real number, and this is complex", what) : TN_OK;
}

static tn_status complex_function(pn_expr *e) {
  if (!first_complex(e, 0))
    return TN_OK;
  switch ((pn_function)e->index) {
  case PN_FN_abs:
  case PN_FN_re:
  case PN_FN_im:
    return TN_OK;
  case PN_FN_sqrt:
  case PN_FN_exp:
  case PN_FN_log:
  case PN_FN_log10:
  case PN_FN_sin:
  case PN_FN_cos:
  case PN_FN_tan:
  case PN_FN_sinh:
  case PN_FN_cosh:
  case PN_FN_tanh:
  case PN_FN_conj:
    e->is_complex = true;
    return TN_OK;
  default:
    return pn_expr_fail(TN_EINPUT, e,
                        "`%s` takes real numbers, and this one is complex: take re(...), im(...) or "
                        "abs(...) of it",
                        pn_function_name((pn_function)e->index));
  }
}

tn_status pn_set_complex(const pn_problem *p, pn_expr *e) {
  switch (e->kind) {
  case PN_COMPLEX:
  case PN_IMAGINARY_UNIT:
    e->is_complex = true;
    return TN_OK;
  case PN_DEFINITION:
    e->is_complex = p->definitions[e->index].value->is_complex;
    return TN_OK;
  case PN_FUNCTION:
    return complex_function(e);
  case PN_LESS:
  case PN_GREATER:
  case PN_LESS_EQUAL:
  case PN_GREATER_EQUAL:
    if (first_complex(e, 0))
      return pn_expr_fail(TN_EINPUT, e,
                          "complex numbers have no order: compare re(...), im(...) or abs(...)");
    return TN_OK;
  case PN_NORM:
    return TN_OK;
  case PN_AT:
    TN_TRY(real_from(e, 1, "a place"));
    e->is_complex = e->args[0]->is_complex;
    return TN_OK;
  case PN_INTEGRAL_OF:
    TN_TRY(real_from(e, 1, "a limit of an integral"));
    e->is_complex = e->args[0]->is_complex;
    return TN_OK;
  case PN_MEAN:
    e->is_complex = e->args[0]->is_complex;
    return TN_OK;
  case PN_WHERE:
    e->is_complex = first_complex(e, 1) != NULL;
    return TN_OK;
  default:
    e->is_complex = first_complex(e, 0) != NULL;
    return TN_OK;
  }
}

tn_status pn_must_be_real(const pn_expr *e, const char *what) {
  if (!e->is_complex)
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e, "%s is real, and this is complex: take re(...), im(...) or abs(...)",
                      what);
}

size_t pn_parts_of(const pn_expr *e) { return e->components * (e->is_complex ? 2 : 1); }

size_t pn_part_of(const pn_expr *e, size_t k) {
  if (!e->is_complex)
    return k;
  return k / 2 | (k % 2 ? PN_IMAGINARY : 0);
}
