/* hard.c: conditions met by construction.
 *
 *   u = lift + distance * P       P: network, scale, ansatz, parity
 *
 * A condition can be exact if it gives the value on a whole face of the box (an end of a space coordinate or
 * of the time), or u_t at the start of the time beside the value there. The lift interpolates all these data
 * by a Boolean sum (Gordon 1971; Coons patch): coordinate after coordinate,
 *
 *   L <- L + sum over the ends of c:  blend * (g - L on that end)  [+ (t - t0) (h - L_t at t0)]
 *
 * with linear blends that are 1 on their end and 0 on the other. After its turn a coordinate's data hold
 * exactly; later turns leave them alone if the data agree where faces meet (g of one face, taken on the
 * other, is g of the other): then the gap that they interpolate is 0 there. Where data disagree the later
 * turn would win and the earlier condition be missed on its whole face, not only at the edge, because the
 * blend carries the gap inwards. So hard data that disagree are refused, also when one of them has
 * wins = true, which says who keeps a corner and cannot save the rest of the other's face.
 *
 * distance is the product over the coordinates of 4 (x - lo)(hi - x)/(hi - lo)^2 (both ends),
 * (x - lo)/(hi - lo) or (hi - x)/(hi - lo) (one end), ((t - t0)/(t1 - t0))^2 (value and velocity): at most
 * 1, and 0 to rounding exactly on the faces. Data 0 cost nothing.
 *
 * An unknown with a parity about x that is given at one end of x has the mirrored value at the other.
 */
#include "pinn/hard_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/sobol.h"

typedef pn_hard_end end;
typedef pn_hard_axis axis;
typedef struct pn_hard plan;

/* More axes with data would make too large a sum: it has 3^axes parts. */
enum { MOST_AXES = 8 };

static const tn_value NOTHING = {0}; /* stands for 0 */

/* ---- Reading the conditions --------------------------------------------------------------------- */

tn_status pn_hard_refuse(const pn_term *term, const char *unknown, const char *why) {
  return pn_fail_at(
      TN_EUNSUPPORTED, term->place, strlen(term->name),
      "condition `%s` cannot be met by construction%s%s%s: %s. What can be hard: the value "
      "of an unknown (u = ...) on whole faces or at an end of the time, and "
      "u_t = ... at the start of the time beside the value there. Leave hard away, or "
      "write an ansatz",
      term->name, unknown ? " for `" : "", unknown ? unknown : "", unknown ? "`" : "", why);
}

/* Is e the unknown itself, or its first derivative along the time? */
static bool is_subject(const pn_problem *p, const pn_expr *e, size_t *unknown, bool *velocity) {
  *velocity =
      e->kind == PN_DERIVATIVE && e->n_axes == 1 && p->coordinates[e->axes[0]].role == PN_TIME;
  if (*velocity)
    e = e->args[0];
  if (e->kind != PN_UNKNOWN)
    return false;
  *unknown = e->index;
  return true;
}

static bool mentions_table(const pn_problem *p, const pn_expr *e) {
  if (e->kind == PN_TABLE)
    return true;
  if (e->kind == PN_DEFINITION)
    return mentions_table(p, p->definitions[e->index].value);
  for (size_t i = 0; i < e->n; ++i)
    if (mentions_table(p, e->args[i]))
      return true;
  return false;
}

/* Moves everything but the one unknown from `from` to the other side `*to`: u + g = h becomes u = h - g. A side
 * that is no such sum is left alone. */
static tn_status isolate(pn_problem *p, pn_expr **from, pn_expr **to) {
  for (;;) {
    pn_expr *e = *from, *pair[2];
    if (e->kind == PN_NEGATE) {
      pair[0] = *to;
      TN_TRY(pn_expr_make(p->arena, PN_NEGATE, e, 1, pair, to));
      *from = e->args[0];
      continue;
    }
    bool sum = e->kind == PN_ADD || e->kind == PN_SUBTRACT, product = e->kind == PN_MULTIPLY;
    if ((!sum && !product && e->kind != PN_DIVIDE) ||
        !pn_expr_unknowns(p, e->args[0]) == !pn_expr_unknowns(p, e->args[1]))
      return TN_OK;
    bool first = pn_expr_unknowns(p, e->args[0]) != 0; /* which operand holds the unknown */
    pn_expr *keep = e->args[first ? 0 : 1], *other = e->args[first ? 1 : 0];
    bool number = other->kind == PN_NUMBER && other->number != 0;
    if (!sum && (!number || (e->kind == PN_DIVIDE && !first)))
      return TN_OK; /* u times data may vanish somewhere */
    pair[0] = *to;
    pair[1] = other;
    pn_kind kind = e->kind == PN_ADD        ? PN_SUBTRACT
                   : e->kind == PN_MULTIPLY ? PN_DIVIDE
                                            : PN_MULTIPLY;
    if (e->kind == PN_SUBTRACT) { /* k - g = to: k = to + g; g - k = to: k = g - to */
      kind = first ? PN_ADD : PN_SUBTRACT;
      pair[0] = first ? *to : other;
      pair[1] = first ? other : *to;
    }
    TN_TRY(pn_expr_make(p->arena, kind, e, 2, pair, to));
    *from = keep;
  }
}

/* Splits a relation into its subject and its data. */
tn_status pn_hard_sides(const pn_term *term, const pn_relation *r, pn_problem *p,
                            const pn_piece *piece, size_t *unknown, bool *velocity,
                            pn_expr **data) {
  pn_expr *lhs = NULL, *rhs = NULL;
  if (r->op != PN_EQUAL)
    return pn_hard_refuse(term, NULL, "it is an inequality");
  TN_TRY(pn_scalar(p, r->lhs, r->component, piece, &lhs));
  TN_TRY(pn_scalar(p, r->rhs, r->component, piece, &rhs));
  if (!pn_expr_unknowns(p, lhs) != !pn_expr_unknowns(p, rhs))
    TN_TRY(pn_expr_unknowns(p, lhs) ? isolate(p, &lhs, &rhs) : isolate(p, &rhs, &lhs));
  bool left = is_subject(p, lhs, unknown, velocity);
  if (!left && !is_subject(p, rhs, unknown, velocity))
    return pn_hard_refuse(term, NULL, "neither side is an unknown alone");
  *data = left ? rhs : lhs;
  if (pn_expr_unknowns(p, *data))
    return pn_hard_refuse(term, p->unknowns[*unknown].name, "the other side contains an unknown");
  if (mentions_table(p, *data)) /* the lift is differentiated, and moved to other faces */
    return pn_hard_refuse(term, p->unknowns[*unknown].name, "the other side contains a table");
  return TN_OK;
}

static axis *axis_of(plan *h, size_t coordinate) {
  size_t i = 0;
  while (i < h->n && h->axis[i].coordinate != coordinate)
    ++i;
  if (i == h->n)
    h->axis[h->n++].coordinate = coordinate;
  return &h->axis[i];
}

static tn_status give(end *place, const pn_term *term, const char *unknown, const pn_expr *data) {
  if (place->value)
    return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                      "`%s` is given twice on one face: by `%s` and by `%s`", unknown,
                      place->term->name, term->name);
  *place = (end){.value = data, .term = term};
  return TN_OK;
}

static tn_status read_piece(pn_model *m, const pn_term *term, const pn_relation *r,
                            const pn_piece *piece) {
  pn_problem *p = m->problem;
  size_t unknown = 0;
  bool velocity = false;
  pn_expr *data = NULL;
  TN_TRY(pn_hard_sides(term, r, p, piece, &unknown, &velocity, &data));
  const pn_unknown *u = &p->unknowns[unknown];
  if (piece->n_fixed != 1 || piece->filter)
    return pn_hard_refuse(term, u->name, "it holds on a part of a face");
  if (pn_takes_unknowns(p, u))
    return pn_hard_refuse(term, u->name, "the unknown is a function of another one");
  size_t c = piece->fixed[0];
  uint32_t known = 0;
  for (size_t j = 0; j < u->n_of; ++j)
    known |= UINT32_C(1) << u->of[j];
  if (pn_moves(&p->coordinates[c]))
    return pn_hard_refuse(term, u->name, "the ends of that coordinate move");
  if (piece->side[0] == 0)
    return pn_hard_refuse(term, u->name, "it holds inside the domain");
  if (!(known >> c & 1u))
    return pn_hard_refuse(term, u->name, "the unknown does not depend on that coordinate");
  if (pn_expr_depends(p, data) & ~known & ~(UINT32_C(1) << c))
    return pn_hard_refuse(term, u->name, "the other side varies with more coordinates than the unknown");
  if (p->coordinates[c].role == PN_PARAMETER)
    return pn_hard_refuse(term, u->name, "a parameter has no faces");
  bool start = p->coordinates[c].role == PN_TIME && piece->side[0] < 0;
  if (velocity && !start)
    return pn_hard_refuse(term, u->name, "u_t can be exact at the start of the time only");
  axis *a = axis_of(&m->hard[unknown], c);
  return give(velocity ? &a->velocity : piece->side[0] < 0 ? &a->lo : &a->hi, term, u->name, data);
}

static tn_status read_condition(pn_model *m, const pn_term *term) {
  if (term->where != PN_ON)
    return pn_hard_refuse(term, NULL, "it does not stand on faces (on = ...)");
  for (size_t r = 0; r < term->n_relations && pn_hard_on_bodies(term); ++r)
    TN_TRY(pn_hard_surface_read(m, term, &term->relations[r]));
  for (size_t r = 0; r < term->n_relations && !pn_hard_on_bodies(term); ++r)
    for (size_t i = 0; i < term->n_pieces; ++i)
      TN_TRY(read_piece(m, term, &term->relations[r], &term->pieces[i]));
  return TN_OK;
}

/* ---- Ordering and completing a plan -------------------------------------------------------------- */

static tn_status complete(const pn_unknown *u, plan *h) {
  for (size_t i = 0; i < h->n; ++i) {
    axis *a = &h->axis[i];
    const pn_term *term = a->lo.term ? a->lo.term : a->hi.term;
    if (a->velocity.value && !a->lo.value)
      return pn_hard_refuse(a->velocity.term, u->name, "the value at the start is not hard");
    if (a->velocity.value && a->hi.value)
      return pn_hard_refuse(a->velocity.term, u->name, "the value at the end of the time is given too");
    if (u->parity && a->coordinate == u->parity_coordinate && !a->hi.value)
      a->hi = (end){.value = a->lo.value, .term = term, .mirror = u->parity};
    if (u->parity && a->coordinate == u->parity_coordinate && !a->lo.value)
      a->lo = (end){.value = a->hi.value, .term = term, .mirror = u->parity};
  }
  for (size_t i = 1; i < h->n; ++i) {
    axis moved = h->axis[i];
    size_t k = i;
    for (; k > 0 && moved.coordinate < h->axis[k - 1].coordinate; --k)
      h->axis[k] = h->axis[k - 1];
    h->axis[k] = moved;
  }
  return TN_OK;
}

/* ---- Do the data agree where faces meet? -------------------------------------------------------- */

enum { SAMPLES = 8 };                 /* points of an edge */
static const double agreement = 1e-9; /* of the largest datum seen on the two faces */

/* Data are lowered into a graph of their own, in f64 whatever the model's format; the model's graph stays
 * as it is. They contain no unknowns and no tables. */
typedef struct audit {
  pn_problem *problem;
  pn_model shadow;
  double points[SAMPLES * PN_MAX_COORDINATES]; /* all over the box */
} audit;

typedef struct face { /* an end of an axis, and what is asked there */
  const axis *axis;
  const end *end;
  bool high;
} face;

static double end_of(const audit *a, const face *f, bool high) {
  const pn_coordinate *c = &a->problem->coordinates[f->axis->coordinate];
  return high ? c->hi : c->lo;
}

static tn_status data_framed(pn_frame *f, const void *what, tn_value *out) {
  return pn_frame_lower(f, what, out);
}

/* The datum of a face at a point without a graph, which is many times faster; false: it is no plain formula. */
static bool datum_is_formula(const audit *a, const face *at, const double *point, double *out) {
  double there[PN_MAX_COORDINATES];
  memcpy(there, point, a->problem->n_coordinates * sizeof *there);
  there[at->axis->coordinate] = end_of(a, at, at->end->mirror ? !at->high : at->high);
  if (pn_expr_unknowns(a->problem, at->end->value) ||
      pn_evaluate(a->problem, at->end->value, there, out) != TN_OK) {
    tn_error_clear();
    *out = NAN;
    return false;
  }
  if (at->end->mirror < 0)
    *out = -*out;
  return true;
}

/* The datum of a face at a point, or its derivative along `along` (PN_NONE: none); NaN where it cannot be
 * known, as that of a mean. */
static tn_status datum(audit *a, const face *at, size_t along, const double *point, double *out) {
  pn_scope scope;
  tn_value value = NOTHING;
  *out = NAN;
  if (along == PN_NONE && datum_is_formula(a, at, point, out))
    return TN_OK;
  TN_TRY(pn_scope_new(&a->shadow, "corner", NULL, 0, &scope));
  pn_frame frame = pn_frame_of(&scope);
  for (size_t c = 0; c < a->problem->n_coordinates; ++c)
    pn_frame_set(&frame, c, pn_frame_number(&frame, point[c]));
  double here = end_of(a, at, at->end->mirror ? !at->high : at->high);
  pn_frame_set(&frame, at->axis->coordinate, pn_frame_number(&frame, here));
  tn_status status = along == PN_NONE ? pn_frame_lower(&frame, at->end->value, &value)
                                      : pn_frame_derivative(&frame, 1, &along, data_framed,
                                                            at->end->value, &value);
  pn_frame_done(&frame);
  if (status == TN_OK && scope.mean)
    return TN_OK;
  if (status == TN_OK)
    status = ag_resolve(a->shadow.graph, 1, &value, NULL, &value, NULL);
  if (status == TN_OK)
    status = tn_eval(1, &value);
  if (status == TN_OK)
    status = tn_read(value, 1, out);
  if (at->end->mirror < 0)
    *out = -*out;
  return status;
}

static tn_status refuse_pair(const audit *a, size_t unknown, const face *x, const face *y,
                             bool velocity, const double *point, const double *value) {
  const pn_problem *p = a->problem;
  const pn_unknown *u = &p->unknowns[unknown];
  const pn_term *s = x->end->term, *t = y->end->term;
  char where[256] = "", advice[320];
  size_t used = 0;
  for (size_t j = 0; j < u->n_of && used < sizeof where; ++j)
    used += (size_t)snprintf(where + used, sizeof where - used, "%s%s = %.6g", j ? ", " : "",
                             p->coordinates[u->of[j]].name, point[u->of[j]]);
  snprintf(advice, sizeof advice, "Leave hard away from one of them");
  if (s->wins != t->wins)
    snprintf(
        advice, sizeof advice,
        "wins = true of `%.60s` cannot help: `%.60s` would be missed on its whole face. Leave hard "
        "away from `%.60s`",
        s->wins ? s->name : t->name, s->wins ? t->name : s->name, s->wins ? t->name : s->name);
  const char *quantity = velocity ? "_t" : "";
  return pn_fail_at(
      TN_EINPUT, t->place, strlen(t->name),
      "hard conditions contradict each other: at %s `%s`%s says %s%s = %.9g, `%s`%s says "
      "%s%s = %.9g. %s",
      where, s->name, x->end->mirror ? " (by parity)" : "", u->name, quantity, value[0], t->name,
      y->end->mirror ? " (by parity)" : "", u->name, quantity, value[1], advice);
}

/* The largest |datum| of both faces at the samples. */
static tn_status size_of_data(audit *a, const face *x, size_t along, const face *y, double *size) {
  double value = 0;
  for (size_t i = 0; i < SAMPLES; ++i) {
    const double *point = &a->points[i * a->problem->n_coordinates];
    TN_TRY(datum(a, x, along, point, &value));
    *size = fmax(*size, fabs(value));
    TN_TRY(datum(a, y, PN_NONE, point, &value));
    *size = fmax(*size, fabs(value));
  }
  return TN_OK;
}

/* velocity: y gives u_t at the start of the time, so x is compared by its derivative there. */
static tn_status compare(audit *a, size_t unknown, const face *x, const face *y, bool velocity) {
  const pn_expr *g = x->end->value, *h = y->end->value;
  size_t along = velocity ? y->axis->coordinate : PN_NONE;
  double size = 0, value[2], point[PN_MAX_COORDINATES];
  if (!g || !h ||
      (g->kind == PN_NUMBER && h->kind == PN_NUMBER && g->number == 0 && h->number == 0))
    return TN_OK;
  TN_TRY(size_of_data(a, x, along, y, &size));
  for (size_t i = 0; i < SAMPLES; ++i) {
    size_t d = a->problem->n_coordinates;
    memcpy(point, &a->points[i * d], d * sizeof *point);
    point[x->axis->coordinate] = end_of(a, x, x->high);
    point[y->axis->coordinate] = end_of(a, y, y->high);
    TN_TRY(datum(a, x, along, point, &value[0]));
    TN_TRY(datum(a, y, PN_NONE, point, &value[1]));
    double gap = fabs(value[0] - value[1]);
    if (isfinite(gap) && gap > agreement * fmax(size, fmax(fabs(value[0]), fabs(value[1]))))
      return refuse_pair(a, unknown, x, y, velocity, point, value);
  }
  return TN_OK;
}

static tn_status compare_axes(audit *a, size_t unknown, const axis *x, const axis *y) {
  for (int i = 0; i < 2; ++i) {
    const face s = {x, i ? &x->hi : &x->lo, i}, r = {y, i ? &y->hi : &y->lo, i};
    for (int k = 0; k < 2; ++k) {
      const face t = {y, k ? &y->hi : &y->lo, k};
      TN_TRY(compare(a, unknown, &s, &t, false));
    }
    const face start[] = {{x, &x->velocity, false}, {y, &y->velocity, false}};
    TN_TRY(compare(a, unknown, &s, &start[1], true));
    TN_TRY(compare(a, unknown, &r, &start[0], true));
  }
  return TN_OK;
}

static tn_status compare_all(audit *a, const plan *plans) {
  for (size_t u = 0; u < a->problem->n_unknowns; ++u)
    for (size_t i = 0; i < plans[u].n; ++i)
      for (size_t k = i + 1; k < plans[u].n; ++k)
        TN_TRY(compare_axes(a, u, &plans[u].axis[i], &plans[u].axis[k]));
  return TN_OK;
}

static tn_status check_agreement(pn_model *model) {
  pn_problem *p = model->problem;
  audit a = {.problem = p, .shadow = *model};
  bool needed = false;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    needed |= model->hard[u].n > 1;
  if (!needed)
    return TN_OK;
  TN_TRY(pn_sobol(p->n_coordinates, tn_stream_of(0, "corners"), 0, SAMPLES, a.points));
  for (size_t i = 0; i < SAMPLES * p->n_coordinates; ++i) {
    const pn_coordinate *c = &p->coordinates[i % p->n_coordinates];
    a.points[i] = c->lo + (c->hi - c->lo) * a.points[i];
  }
  a.shadow.dtype = TN_F64;
  TN_TRY(tn_graph_new(&a.shadow.graph));
  tn_status status = tn_graph_cache(a.shadow.graph, 0, 0); /* one evaluation */
  if (status == TN_OK) status = compare_all(&a, model->hard);
  tn_graph_free(&a.shadow.graph);
  return status;
}

tn_status pn_hard_new(pn_model *model) {
  const pn_problem *p = model->problem;
  TN_TRY(PN_TAKE(model->arena, p->n_unknowns, &model->hard));
  for (size_t i = 0; i < p->n_conditions; ++i)
    if (p->conditions[i].hard)
      TN_TRY(read_condition(model, &p->conditions[i]));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    TN_TRY(complete(&p->unknowns[u], &model->hard[u]));
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (model->hard[u].n_surfaces)
      TN_TRY(pn_hard_axes_to_surfaces(model->problem, &p->unknowns[u], &model->hard[u]));
  return check_agreement(model);
}

/* ---- The lift ----------------------------------------------------------------------------------- */

/* A partial lift in some frame: the first `level` axes of a plan. A value without graph is 0. */
typedef struct partial {
  const pn_problem *problem;
  const plan *plan;
  size_t level;
} partial;

static tn_status lift(pn_frame *f, const partial *l, tn_value *out);

static tn_value plus(tn_value a, tn_value b) { return !a.graph ? b : !b.graph ? a : tn_add(a, b); }

static tn_value minus(tn_value a, tn_value b) {
  return !b.graph ? a : !a.graph ? tn_neg(b) : tn_sub(a, b);
}

/* g in the frame; 0 as NOTHING. */
static tn_status data_in(pn_frame *f, const pn_expr *g, tn_value *out) {
  double number = 1;
  TN_TRY(pn_frame_lower(f, g, out));
  if (pn_is_number(*out, &number) && number == 0)
    *out = NOTHING;
  return TN_OK;
}

static pn_frame on_end(const pn_frame *f, size_t coordinate, double value) {
  pn_frame there = pn_frame_copy(f);
  pn_frame_set(&there, coordinate, pn_frame_number(f, value));
  return there;
}

/* g of the end, minus what the partial lift has there. */
static tn_status gap(pn_frame *f, const partial *l, const axis *a, bool high, tn_value *out) {
  const pn_coordinate *c = &l->problem->coordinates[a->coordinate];
  const end *e = high ? &a->hi : &a->lo;
  bool data_high = e->mirror ? !high : high; /* where the data are read */
  pn_frame here = on_end(f, a->coordinate, high ? c->hi : c->lo);
  pn_frame there = on_end(f, a->coordinate, data_high ? c->hi : c->lo);
  tn_value g = NOTHING, old = NOTHING;
  tn_status status = data_in(&there, e->value, &g);
  if (status == TN_OK)
    status = lift(&here, l, &old);
  pn_frame_done(&here);
  pn_frame_done(&there);
  if (g.graph && e->mirror < 0)
    g = tn_neg(g);
  *out = minus(g, old);
  return status;
}

/* lift as a pn_framed: 0 becomes a number, because it is differentiated. */
static tn_status lift_framed(pn_frame *f, const void *what, tn_value *out) {
  TN_TRY(lift(f, what, out));
  if (!out->graph)
    *out = pn_frame_number(f, 0);
  return TN_OK;
}

/* h - L_t at the start of the time. */
static tn_status velocity_gap(pn_frame *f, const partial *l, const axis *a, tn_value *out) {
  pn_frame there = on_end(f, a->coordinate, l->problem->coordinates[a->coordinate].lo);
  tn_value h = NOTHING, old = NOTHING;
  tn_status status = data_in(&there, a->velocity.value, &h);
  if (status == TN_OK)
    status = lift(&there, l, &old);
  if (status == TN_OK && old.graph)
    status = pn_frame_derivative(&there, 1, &a->coordinate, lift_framed, l, &old);
  pn_frame_done(&there);
  *out = minus(h, old);
  return status;
}

/* (x - from) / (to - from): exactly 0 and 1 at the two. */
static tn_value ramp(const pn_frame *f, size_t coordinate, double from, double to) {
  tn_value x = f->coordinate[coordinate], origin = pn_frame_number(f, from);
  tn_value rise = to > from ? tn_sub(x, origin) : tn_sub(origin, x);
  /* The width as the format has it: the quotient is 1 without rounding. */
  tn_value end = pn_frame_number(f, to);
  tn_value width = to > from ? tn_sub(end, origin) : tn_sub(origin, end);
  return tn_div(rise, width);
}

static tn_status lift_axis(pn_frame *f, const partial *l, const axis *a, tn_value *sum) {
  const pn_coordinate *c = &l->problem->coordinates[a->coordinate];
  bool both = a->lo.value && a->hi.value;
  tn_value part = NOTHING;
  for (int high = 0; high < 2; ++high) {
    if (!(high ? a->hi : a->lo).value)
      continue;
    TN_TRY(gap(f, l, a, high, &part));
    if (part.graph && both)
      part = tn_mul(
          high ? ramp(f, a->coordinate, c->lo, c->hi) : ramp(f, a->coordinate, c->hi, c->lo), part);
    *sum = plus(*sum, part);
  }
  if (!a->velocity.value)
    return TN_OK;
  TN_TRY(velocity_gap(f, l, a, &part));
  if (part.graph)
    part = tn_mul(tn_sub(f->coordinate[a->coordinate], pn_frame_number(f, c->lo)), part);
  *sum = plus(*sum, part);
  return TN_OK;
}

static tn_status lift(pn_frame *f, const partial *l, tn_value *out) {
  *out = NOTHING;
  for (size_t i = 0; i < l->level; ++i) {
    partial below = {l->problem, l->plan, i};
    TN_TRY(lift_axis(f, &below, &l->plan->axis[i], out));
  }
  return TN_OK;
}

/* ---- The distance ------------------------------------------------------------------------------- */

static tn_value distance(const pn_frame *f, const pn_problem *p, const plan *h) {
  tn_value product = NOTHING;
  for (size_t i = 0; i < h->n; ++i) {
    const axis *a = &h->axis[i];
    const pn_coordinate *c = &p->coordinates[a->coordinate];
    tn_value up = ramp(f, a->coordinate, c->lo, c->hi), down = ramp(f, a->coordinate, c->hi, c->lo);
    tn_value factor = a->hi.value ? down : up;
    if (a->lo.value && a->hi.value)
      factor = tn_mul(pn_frame_number(f, 4), tn_mul(up, down));
    if (a->velocity.value)
      factor = tn_square(up);
    product = product.graph ? tn_mul(product, factor) : factor;
  }
  return product;
}

static bool has_data(const axis *a) {
  const pn_expr *values[] = {a->lo.value, a->hi.value, a->velocity.value};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i)
    if (values[i] && !(values[i]->kind == PN_NUMBER && values[i]->number == 0))
      return true;
  return false;
}

tn_status pn_hard_apply(pn_frame *f, size_t unknown, tn_value *value) {
  const pn_problem *p = f->scope->model->problem;
  const plan *h = &f->scope->model->hard[unknown];
  if (h->n_surfaces)
    return pn_hard_surface_apply(f, h->n_surfaces, h->surface, value);
  if (h->n == 0)
    return TN_OK;
  size_t n_data = 0;
  for (size_t i = 0; i < h->n; ++i)
    n_data += has_data(&h->axis[i]);
  if (n_data && h->n > MOST_AXES)
    return TN_FAIL(TN_EUNSUPPORTED,
                   "hard conditions of `%s` on %zu coordinates with data other than 0; "
                   "at most %d",
                   p->unknowns[unknown].name, h->n, (int)MOST_AXES);
  partial whole = {p, h, n_data ? h->n : 0};
  tn_value lifted = NOTHING;
  TN_TRY(lift(f, &whole, &lifted));
  *value = plus(lifted, tn_mul(distance(f, p, h), *value));
  return TN_OK;
}
