/* moving.c: ends that move.
 *
 *   x = A(t) + xi (B(t) - A(t)),   0 <= xi <= 1
 *
 * Points are drawn in xi and stay where they are while the ends are trained; x is a value of the graph that
 * follows. To trees it is the coordinate x at the place: derivatives along t keep x and not xi, because a
 * coordinate that depends on others is replaced by a placeholder before anything is differentiated. Networks see
 * xi and not x (Landau's transformation), so that their input stays in its range wherever the ends go, and
 * what ag_d makes of u(xi(x, t), t) holds the terms with s_t.
 */
#include "pinn/moving.h"

#include <math.h>
#include <string.h>

#include "pinn/names.h"
#include "pinn/read.h"

bool pn_moves(const pn_coordinate *c) { return c->lo_unknown != PN_NONE || c->hi_unknown != PN_NONE; }

uint32_t pn_moving_needs(const pn_problem *p, uint32_t bits) {
  uint32_t more = bits;
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *x = &p->coordinates[c];
    if (!(bits >> c & 1u) || !pn_moves(x))
      continue;
    if (x->lo_unknown != PN_NONE)
      more |= pn_unknown_depends(p, x->lo_unknown, 0);
    if (x->hi_unknown != PN_NONE)
      more |= pn_unknown_depends(p, x->hi_unknown, 0);
  }
  return more;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

tn_status pn_moving_read(pn_problem *p, size_t c, const pn_toml *range) {
  pn_coordinate *x = &p->coordinates[c];
  size_t *unknown[2] = {&x->lo_unknown, &x->hi_unknown};
  for (size_t i = 0; i < 2; ++i) {
    const pn_toml *node = range->items[i];
    size_t index = 0;
    if (node->kind == PN_TOML_STRING && pn_lookup(p, node->string, &index) == PN_IS_UNKNOWN &&
        p->unknowns[index].pair)
      return pn_fail_at(TN_EINPUT, node->place, 1, "an end of %s is the complex unknown `%s`; an end is real",
                        x->name, node->string);
    else if (node->kind == PN_TOML_STRING && pn_lookup(p, node->string, &index) == PN_IS_UNKNOWN)
      *unknown[i] = index;
    else
      TN_TRY(pn_read_number(p, node, NULL, 0, &x->end[i]));
  }
  if (!pn_moves(x))
    return TN_OK;
  const char *why = x->role != PN_SPACE ? "is no space coordinate"
                    : x->periodic       ? "is periodic"
                    : x->log_spacing    ? "has spacing = \"log\""
                    : x->key != x->name ? "has a count"
                                        : NULL;
  if (why)
    return pn_fail_at(TN_EINPUT, range->place, 1, "`%s` %s: its ends cannot be unknowns", x->name, why);
  x->lo = 0;
  x->hi = 1;
  return TN_OK;
}

tn_status pn_moving_check(const pn_problem *p) {
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *x = &p->coordinates[c];
    const size_t unknown[2] = {x->lo_unknown, x->hi_unknown};
    for (size_t i = 0; i < 2; ++i) {
      const pn_unknown *u = unknown[i] == PN_NONE ? NULL : &p->unknowns[unknown[i]];
      for (size_t j = 0; u && j < u->n_of; ++j)
        if (p->coordinates[u->of[j]].role == PN_SPACE)
          return pn_fail_at(TN_EINPUT, u->place, strlen(u->name),
                            "`%s` is an end of %s and depends on %s; an end may depend on the time and "
                            "on parameters",
                            u->name, x->name, p->coordinates[u->of[j]].name);
    }
    for (size_t u = 0; pn_moves(x) && u < p->n_unknowns; ++u)
      if (p->unknowns[u].parity && p->unknowns[u].parity_coordinate == c)
        return pn_fail_at(TN_EINPUT, p->unknowns[u].place, strlen(p->unknowns[u].name),
                          "`%s` cannot be even or odd along %s, whose ends move", p->unknowns[u].name,
                          x->name);
  }
  return TN_OK;
}

/* ---- About where ends are -------------------------------------------------------------------------- */

static bool is_end(const pn_expr *e, size_t unknown) {
  const pn_expr *field = e->kind == PN_AT ? e->args[0] : e;
  return field->kind == PN_UNKNOWN && field->index == unknown;
}

/* The value that a condition gives the end, s = c or s(t = 0) = c. */
static bool given(const pn_problem *p, size_t unknown, double *out) {
  bool found = false;
  for (size_t i = 0; i < p->n_conditions && !found; ++i)
    for (size_t r = 0; r < p->conditions[i].n_relations && !found; ++r) {
      const pn_relation *relation = &p->conditions[i].relations[r];
      const pn_expr *a = relation->lhs, *b = relation->rhs;
      if (!is_end(a, unknown)) {
        a = relation->rhs;
        b = relation->lhs;
      }
      if (relation->op != PN_EQUAL || !is_end(a, unknown) || pn_expr_depends(p, b) ||
          pn_expr_unknowns(p, b))
        continue;
      found = pn_evaluate(p, b, NULL, out) == TN_OK;
    }
  if (!found)
    tn_error_clear();
  return found;
}

/* The exact end at a point. */
static bool exact_end(const pn_problem *p, const pn_coordinate *x, int high, const double *point,
                      double *out) {
  size_t unknown = high ? x->hi_unknown : x->lo_unknown;
  *out = x->end[high];
  if (unknown == PN_NONE)
    return true;
  const pn_expr *exact = p->unknowns[unknown].exact;
  if (exact && pn_evaluate(p, exact, point, out) == TN_OK)
    return true;
  tn_error_clear();
  return false;
}

static void extend(const pn_problem *p, pn_coordinate *x, int high) {
  enum { SAMPLES = 65 };
  size_t unknown = high ? x->hi_unknown : x->lo_unknown;
  double point[PN_MAX_COORDINATES], value = 0;
  for (size_t i = 0; i < SAMPLES; ++i) {
    for (size_t c = 0; c < PN_MAX_COORDINATES; ++c)
      point[c] = p->coordinates[c].lo + (p->coordinates[c].hi - p->coordinates[c].lo) * (double)i / (SAMPLES - 1);
    if (unknown == PN_NONE || !exact_end(p, x, high, point, &value))
      return;
    x->shown[high] = i == 0 ? value : high ? fmax(x->shown[1], value) : fmin(x->shown[0], value);
  }
}

void pn_moving_ranges(pn_problem *p) {
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    pn_coordinate *x = &p->coordinates[c];
    if (!pn_moves(x)) {
      x->expected[0] = x->shown[0] = x->lo;
      x->expected[1] = x->shown[1] = x->hi;
      continue;
    }
    double *e = x->expected;
    memcpy(e, x->end, sizeof x->end);
    bool lo = x->lo_unknown == PN_NONE || given(p, x->lo_unknown, &e[0]);
    bool hi = x->hi_unknown == PN_NONE || given(p, x->hi_unknown, &e[1]);
    if (!lo)
      e[0] = hi ? e[1] - 1 : 0;
    if (!hi)
      e[1] = e[0] + 1;
    if (!(e[0] < e[1]))
      e[1] = e[0] + 1;
    memcpy(x->shown, e, sizeof x->shown);
    extend(p, x, 0);
    extend(p, x, 1);
    if (!(x->shown[0] < x->shown[1]))
      memcpy(x->shown, e, sizeof x->shown);
  }
}

bool pn_moving_place(const pn_problem *p, double *point) {
  bool known = true;
  double moved[PN_MAX_COORDINATES];
  memcpy(moved, point, p->n_coordinates * sizeof *point);
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *x = &p->coordinates[c];
    double a = 0, b = 0;
    if (!pn_moves(x) || !isfinite(point[c]))
      continue;
    if (exact_end(p, x, 0, point, &a) && exact_end(p, x, 1, point, &b))
      moved[c] = a + point[c] * (b - a);
    else
      known = false;
  }
  memcpy(point, moved, p->n_coordinates * sizeof *point);
  return known;
}

/* ---- Frames and scopes -------------------------------------------------------------------------------- */

static const pn_coordinate *coordinate(const pn_frame *f, size_t c) {
  return &f->scope->model->problem->coordinates[c];
}

tn_status pn_frame_end(pn_frame *f, size_t c, int high, tn_value *out) {
  const pn_coordinate *x = coordinate(f, c);
  size_t unknown = high ? x->hi_unknown : x->lo_unknown;
  if (unknown != PN_NONE)
    return pn_frame_unknown(f, unknown, out);
  *out = pn_frame_number(f, pn_moves(x) ? x->end[high] : high ? x->hi : x->lo);
  return TN_OK;
}

/* b - a, and whether a is 0 */
static tn_status ends(pn_frame *f, size_t c, tn_value *a, tn_value *b, tn_value *width, bool *from_0) {
  double low = 0;
  TN_TRY(pn_frame_end(f, c, 0, a));
  TN_TRY(pn_frame_end(f, c, 1, b));
  *from_0 = pn_is_number(*a, &low) && low == 0;
  *width = *from_0 ? *b : tn_sub(*b, *a);
  return TN_OK;
}

tn_status pn_frame_reference(pn_frame *f, size_t c, tn_value *inout) {
  tn_value a = {0}, b = {0}, width = {0};
  bool from_0 = false;
  if (!pn_moves(coordinate(f, c)))
    return TN_OK;
  TN_TRY(ends(f, c, &a, &b, &width, &from_0));
  *inout = tn_div(from_0 ? *inout : tn_sub(*inout, a), width);
  return TN_OK;
}

static tn_status move(pn_scope *s, pn_frame *f, size_t c) {
  tn_value a = {0}, b = {0}, width = {0}, xi = s->coordinate[c];
  double number = 0;
  bool from_0 = false;
  if (pn_is_number(xi, &number) && (number == 0 || number == 1))
    return pn_frame_end(f, c, number == 1, &s->moved[c]);
  TN_TRY(ends(f, c, &a, &b, &width, &from_0));
  tn_value step = tn_mul(xi, width);
  s->moved[c] = from_0 ? step : tn_add(a, step);
  return TN_OK;
}

tn_status pn_scope_move(pn_scope *s, bool fixed_alone) {
  const pn_problem *p = s->model->problem;
  pn_frame frame = pn_frame_of(s);
  tn_status status = TN_OK;
  for (size_t c = 0; c < p->n_coordinates && status == TN_OK; ++c)
    if (pn_moves(&p->coordinates[c]) && s->coordinate[c].graph && !(fixed_alone && s->free_[c]))
      status = move(s, &frame, c);
  pn_frame_done(&frame);
  return status;
}

bool pn_scope_still(const pn_scope *s, pn_scope *out) {
  const pn_problem *p = s->model->problem;
  tn_graph *graph = s->model->graph;
  bool moves = false;
  *out = *s;
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const double *e = p->coordinates[c].expected;
    if (!pn_moves(&p->coordinates[c]) || !s->coordinate[c].graph)
      continue;
    moves = true;
    out->moved[c] = tn_add(tn_const(graph, s->model->dtype, e[0]),
                             tn_mul(s->coordinate[c], tn_const(graph, s->model->dtype, e[1] - e[0])));
  }
  return moves;
}

tn_status pn_scope_mask(pn_scope *s, uint32_t depends, tn_value *inout) {
  const pn_problem *p = s->model->problem;
  pn_frame f = pn_frame_of(s);
  tn_status status = TN_OK;
  for (size_t c = 0; c < p->n_coordinates && status == TN_OK; ++c) {
    tn_value a = {0}, b = {0}, x = s->coordinate[c];
    if (!(depends >> c & 1u) || !pn_moves(&p->coordinates[c]) || !s->free_[c])
      continue;
    if (pn_moving_needs(p, UINT32_C(1) << c) & ~depends)
      continue; /* the time is not given */
    status = pn_frame_end(&f, c, 0, &a);
    if (status == TN_OK)
      status = pn_frame_end(&f, c, 1, &b);
    tn_value zero = pn_frame_number(&f, 0);
    if (status == TN_OK)
      *inout = tn_where(tn_both(tn_ge(x, a), tn_le(x, b)), *inout, tn_div(zero, zero));
  }
  pn_frame_done(&f);
  return status;
}
