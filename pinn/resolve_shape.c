/* resolve_shape.c: names of shapes in expressions: inside(rod), interface(rod), and what to say when there is none.
 */
#include "pinn/keys.h"
#include "pinn/region.h"
#include "pinn/resolve.h"

#include <stdio.h>
#include <string.h>

enum { LIST = 512 };

tn_status pn_no_shape(const pn_problem *p, const pn_expr *e, const char *name) {
  const char *names[PN_MAX_SHAPES + 2] = {"boundary", "domain"};
  char list[LIST] = "boundary, domain";
  size_t n = 2;
  for (size_t i = 0; i < p->n_shapes && n < sizeof names / sizeof names[0]; ++i) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, ", %s", p->shapes[i].name);
    names[n++] = p->shapes[i].name;
  }
  const char *near = pn_nearest(name, n, names);
  return pn_expr_fail(TN_EINPUT, e, "there is no region `%s`.%s%s%s The regions are %s", name,
                      near ? " Did you mean `" : "", near ? near : "", near ? "`?" : "", list);
}

/* The shape that the one argument names; *index PN_NONE: the domain. */
static tn_status shape_argument(pn_naming *s, pn_expr *e, bool domain, size_t *index) {
  const pn_expr *name = e->n == 1 ? e->args[0] : e;
  *index = PN_NONE;
  if (e->n != 1 || name->kind != PN_NAME)
    return pn_expr_fail(TN_EINPUT, e, "`%s` takes the name of a shape, as in %s(rod)", e->name,
                        e->name);
  if (domain && strcmp(name->name, "domain") == 0)
    return TN_OK;
  if (pn_lookup(s->problem, name->name, index) != PN_IS_SHAPE)
    return pn_no_shape(s->problem, name, name->name);
  return pn_shape_body(s->problem, *index);
}

tn_status pn_resolve_shape(pn_naming *s, pn_expr *e, pn_kind kind) {
  size_t index = 0;
  char *text = NULL;
  TN_TRY(shape_argument(s, e, kind == PN_INSIDE, &index));
  TN_TRY(pn_arena_format(s->problem->arena, &text, "%s(%s)", e->name, e->args[0]->name));
  e->name = text;
  e->kind = kind;
  e->index = index;
  e->n = 0;
  e->components = 1;
  return TN_OK;
}

tn_status pn_resolve_inside(pn_naming *s, pn_expr *e) {
  if (!s->coordinates)
    return pn_not_here(s, e, "a question about a point");
  return pn_resolve_shape(s, e, PN_INSIDE);
}
