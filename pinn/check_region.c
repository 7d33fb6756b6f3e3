/* check_region.c: what is asked of a boundary that is not a box.
 *
 * The rule of check_counts.c for faces (floor(m/2) conditions for an order m, summed over unknowns that are
 * coupled) holds on every part of any boundary. Here a few points are placed on each face of the region, or of
 * the part that the unknowns live in, and the conditions that hold there are counted. Interfaces are boundaries
 * of parts, so what joins two materials counts for both.
 *
 * For a Laplacian with nothing but dn(u) given all around, the source must be what flows out (check_flux.c says
 * why); the two integrals are means over points here, good to some 1e-3.
 */
#include "pinn/check.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/sobol.h"

enum { PROBES = 24, MOST_FACES = 64, FLUX_POINTS = 2048 };

/* ---- Counting ----------------------------------------------------------------------------------- */

/* A face point as a point of the problem; what is not space is in the middle of its range. */
static void lift(const pn_problem *p, const double *x, double *point) {
  for (size_t c = 0, s = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *axis = &p->coordinates[c];
    point[c] = axis->role == PN_SPACE ? x[s++] : 0.5 * (axis->lo + axis->hi);
  }
}

static bool repeats_there(const pn_problem *p, const double *point) {
  double slack = pn_space_slack(p);
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *axis = &p->coordinates[c];
    if (axis->role == PN_SPACE && axis->periodic &&
        (fabs(point[c] - axis->lo) <= slack || fabs(point[c] - axis->hi) <= slack))
      return true;
  }
  return false;
}

/* u = u(x=2) on x = 0 says something about x = 2 too: does the relation look at this point from one of the
 * pieces? */
static tn_status looks_at(pn_problem *p, const pn_term *t, const pn_relation *r,
                          const double *point, bool *out) {
  enum { MOST = 300 };
  pn_expr *nodes[MOST];
  double from[PN_MAX_COORDINATES], value = 0;
  size_t n = pn_check_nodes(p, r->whole, MOST, nodes);
  for (size_t i = 0; i < n && !*out; ++i) {
    size_t x = nodes[i]->n_axes == 1 ? nodes[i]->axes[0] : 0;
    if (nodes[i]->kind != PN_AT || nodes[i]->n_axes != 1 ||
        !pn_expr_unknowns(p, nodes[i]->args[0]) ||
        pn_evaluate(p, nodes[i]->args[1], NULL, &value) != TN_OK ||
        fabs(value - point[x]) > pn_space_slack(p))
      continue;
    for (size_t k = 0; k < t->n_pieces && !*out; ++k)
      for (size_t j = 0; j < t->pieces[k].n_fixed && !*out; ++j) {
        if (t->pieces[k].fixed[j] != x)
          continue;
        memcpy(from, point, sizeof from);
        from[x] = t->pieces[k].value[j];
        TN_TRY(pn_piece_holds(p, &t->pieces[k], from, NULL, out));
      }
  }
  tn_error_clear();
  return TN_OK;
}

static tn_status count_there(pn_problem *p, uint64_t members, const double *point, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    const pn_term *t = &p->conditions[i];
    bool here = false;
    for (size_t k = 0; k < t->n_pieces && t->where == PN_ON && !here; ++k)
      TN_TRY(pn_piece_holds(p, &t->pieces[k], point, NULL, &here));
    for (size_t r = 0; r < t->n_relations && t->where == PN_ON; ++r) {
      bool linked = here;
      if ((pn_expr_unknowns(p, t->relations[r].whole) & members) == 0)
        continue;
      if (!here)
        TN_TRY(looks_at(p, t, &t->relations[r], point, &linked));
      *n += linked;
    }
  }
  return TN_OK;
}

static const pn_body *body_of(const pn_problem *p, uint64_t members) {
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if ((members >> u & 1u) && p->unknowns[u].in)
      return p->unknowns[u].in;
  return p->region ? p->region : p->box;
}

static const char *maker_of(const pn_problem *p, size_t tag) {
  return tag < p->n_shapes ? p->shapes[tag].name : tag == PN_BOX_TAG ? "box" : "the region";
}

/* How many of the unknowns have a value there by their ansatz, whatever the network says. */
static size_t count_ansatz(pn_problem *p, uint64_t members, const double *point) {
  size_t n = 0;
  double value[2] = {0, 1};
  for (size_t u = 0; u < p->n_unknowns; ++u)
    n += (members >> u & 1u) && p->unknowns[u].ansatz &&
         pn_check_ansatz(p, u, point, 0.3, &value[0]) &&
         pn_check_ansatz(p, u, point, 1.3, &value[1]) && fabs(value[0] - value[1]) < 1e-12;
  return n;
}

/* What is asked on the boundary, and the place where most is missing. */
typedef struct shortage {
  int (*order)[PN_MAX_COORDINATES];
  size_t given, need, tag;
  uint64_t members;
  double point[PN_MAX_COORDINATES];
} shortage;

/* The highest order of u along any space coordinate. */
static size_t order_in_space(const pn_problem *p, const int *order, size_t *along) {
  size_t most = 0;
  for (size_t x = 0; x < p->n_coordinates; ++x)
    if (p->coordinates[x].role == PN_SPACE && order[x] > (int)most) {
      most = (size_t)order[x];
      *along = x;
    }
  return most;
}

static size_t need_of(const pn_problem *p, uint64_t members, int (*order)[PN_MAX_COORDINATES]) {
  size_t need = 0, along = 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    need += members >> u & 1u ? order_in_space(p, order[u], &along) / 2 : 0;
  return need;
}

/* Unknowns that live just beyond a point, seen from inside of the body. */
static uint64_t beyond(const pn_problem *p, const double *x, const double *normal) {
  double at[PN_BODY_DIMENSIONS], point[PN_MAX_COORDINATES];
  double step = 100 * pn_space_slack(p);
  uint64_t bits = 0;
  for (size_t i = 0; i < pn_body_dimensions(p->box); ++i)
    at[i] = x[i] + step * normal[i];
  lift(p, at, point);
  if (!pn_body_inside(p->region ? p->region : p->box, at))
    return 0;
  for (size_t u = 0; u < p->n_unknowns; ++u)
    bits |= (uint64_t)(p->unknowns[u].in && pn_unknown_lives(p, u, point)) << u;
  return bits;
}

static tn_status look_at_point(pn_problem *p, size_t tag, uint64_t members, const double *point,
                               shortage *worst) {
  size_t n = 0, need = need_of(p, members, worst->order);
  TN_TRY(count_there(p, members, point, &n));
  n += count_ansatz(p, members, point);
  if (n >= need || need - n <= worst->need - worst->given)
    return TN_OK;
  worst->given = n;
  worst->need = need;
  worst->tag = tag;
  worst->members = members;
  memcpy(worst->point, point, sizeof worst->point);
  return TN_OK;
}

static tn_status look_at_face(pn_problem *p, const pn_body *body, size_t face, size_t tag,
                              uint64_t members, shortage *worst) {
  size_t d = pn_body_dimensions(body);
  double u[PROBES * PN_BODY_DIMENSIONS], x[PROBES * PN_BODY_DIMENSIONS];
  double normal[PROBES * PN_BODY_DIMENSIONS], point[PN_MAX_COORDINATES];
  bool on[PROBES];
  TN_TRY(pn_sobol(d, tn_stream_of(0, "faces"), 0, PROBES, u));
  TN_TRY(pn_faces_place(body, 1, &face, PROBES, u, x, normal, on));
  for (size_t i = 0; i < PROBES; ++i) {
    if (!on[i])
      continue;
    lift(p, x + i * d, point);
    if (repeats_there(p, point))
      continue;
    uint64_t others = beyond(p, x + i * d, normal + i * d) & ~members;
    TN_TRY(look_at_point(p, tag, members, point, worst));
    if (others) /* an interface: what joins both sides must do for both */
      TN_TRY(look_at_point(p, tag, members | others, point, worst));
  }
  return TN_OK;
}

static tn_status tell(pn_checking *c, shortage *worst) {
  const pn_problem *p = c->problem;
  size_t whom = 0, along = 0;
  while (!(worst->members >> whom & 1u) || order_in_space(p, worst->order[whom], &along) < 2)
    ++whom;
  const pn_unknown *unknown = &p->unknowns[whom];
  for (size_t k = 0; k < p->n_coordinates; ++k)
    if (p->coordinates[k].role != PN_SPACE)
      worst->point[k] = NAN;
  return pn_found(
      c, PN_FOUND_WARNING, unknown->name, unknown->place, strlen(unknown->name),
      "`%s` needs %zu condition%s for `%s`%s everywhere on the boundary; %zu hold%s at %s, on "
      "the part that `%s` made. Without more the answer is not unique",
      pn_check_derivative(c, whom, along, worst->order[whom][along]), worst->need,
      worst->need == 1 ? "" : "s", unknown->name,
      worst->members & (worst->members - 1) ? " and what is coupled with it" : "", worst->given,
      worst->given == 1 ? "s" : "", pn_check_point(c, worst->point), maker_of(p, worst->tag));
}

tn_status pn_check_surface(pn_checking *c, uint64_t members, int (*order)[PN_MAX_COORDINATES]) {
  pn_problem *p = c->problem;
  const pn_body *body = body_of(p, members);
  const pn_face *face = NULL;
  size_t n = pn_body_faces(body, &face);
  shortage worst = {.order = order};
  if (need_of(p, members, order) == 0)
    return TN_OK;
  for (size_t i = 0; i < n && i < MOST_FACES; ++i)
    TN_TRY(look_at_face(p, body, i, face[i].tag, members, &worst));
  return worst.need ? tell(c, &worst) : TN_OK;
}

/* ---- Flux --------------------------------------------------------------------------------------- */

/* a where e = a dn(u) + (no unknowns), *alone: nothing else with an unknown stands in it. */
static double factor_of(const pn_problem *p, const pn_expr *e, size_t u, double factor,
                        bool *alone) {
  double number = 0;
  if (pn_expr_unknowns(p, e) == 0)
    return 0;
  switch (e->kind) {
  case PN_ADD:
  case PN_SUBTRACT:
  case PN_EQUAL:
    return factor_of(p, e->args[0], u, factor, alone) +
           factor_of(p, e->args[1], u, e->kind == PN_ADD ? factor : -factor, alone);
  case PN_NEGATE:
    return factor_of(p, e->args[0], u, -factor, alone);
  case PN_DEFINITION:
    return factor_of(p, p->definitions[e->index].value, u, factor, alone);
  case PN_NORMAL_DERIVATIVE:
    if (e->args[0]->kind == PN_UNKNOWN && e->args[0]->index == u)
      return factor;
    break;
  case PN_MULTIPLY:
  case PN_DIVIDE:
    for (int k = 0; k < 2; ++k)
      if ((k == 0 || e->kind == PN_MULTIPLY) && pn_expr_unknowns(p, e->args[1 - k]) == 0 &&
          pn_evaluate(p, e->args[1 - k], NULL, &number) == TN_OK)
        return factor_of(p, e->args[k], u, e->kind == PN_DIVIDE ? factor / number : factor * number,
                         alone);
    break;
  default:
    break;
  }
  *alone = false;
  return 0;
}

/* Mean of lhs - rhs with u = 0 over points of a piece, times its measure. */
static tn_status integral(pn_checking *c, const pn_term *t, const pn_relation *r,
                          const pn_piece *piece, double *out, double *size) {
  pn_problem *p = c->problem;
  pn_site site = {.term = t, .piece = piece, .space = pn_space_bits(p)};
  pn_scope scope;
  pn_draw draw = {.kind = PN_DRAW_CHECK, .factor = 1};
  tn_value value = {0};
  double *x = NULL, measure = 0, relative = 0;
  site.free_ = pn_piece_free(p, t, piece) | pn_space_bits(p);
  for (size_t j = 0; j < piece->n_fixed; ++j)
    site.free_ &= ~(UINT32_C(1) << piece->fixed[j]);
  snprintf(site.key, sizeof site.key, "flux:%s", t->name);
  TN_TRY(TN_NEW(FLUX_POINTS, &x));
  tn_status status = pn_scope_new(c->model, "flux", piece, site.free_, &scope);
  scope.exact = true;
  if (status == TN_OK)
    status = pn_site_draw(c->sites, &site, &draw, FLUX_POINTS);
  if (status == TN_OK)
    status = pn_body_site_measure(p, &site, &relative, &measure);
  if (status == TN_OK)
    status = pn_lower_relation(&scope, r, &value);
  if (status == TN_OK)
    status = pn_check_evaluate(c, &scope, &site, site.n, 1, &value, x, NULL, NULL);
  for (size_t i = 0; status == TN_OK && i < site.n; ++i) {
    *out += x[i] * measure / (double)site.n;
    *size += fabs(x[i]) * measure / (double)site.n;
  }
  pn_site_clear(&site);
  tn_free(&x);
  return status;
}

/* The flux of a dn(u) through all of the boundary; *all: every condition is one of dn(u) alone. */
static tn_status outflow(pn_checking *c, size_t u, double a, double *flux, double *size,
                         bool *all) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_conditions; ++i) {
    const pn_term *t = &p->conditions[i];
    for (size_t r = 0; r < t->n_relations && *all; ++r) {
      bool alone = t->relations[r].op == PN_EQUAL;
      double b = factor_of(p, t->relations[r].whole, u, 1, &alone);
      if (t->where == PN_INTEGRAL || !(pn_expr_unknowns(p, t->relations[r].whole) >> u & 1u))
        continue; /* a mean picks one of the solutions, if there are any */
      *all = alone && b != 0 && t->where == PN_ON;
      for (size_t k = 0; k < t->n_pieces && *all; ++k) {
        double part = 0, most = 0;
        TN_TRY(integral(c, t, &t->relations[r], &t->pieces[k], &part, &most));
        *flux -= a * part / b;
        *size += fabs(a / b) * most;
      }
    }
  }
  return TN_OK;
}

static tn_status compare(pn_checking *c, const pn_term *t, size_t u, double a) {
  pn_problem *p = c->problem;
  double source = 0, flux = 0, size = 0;
  bool all = true;
  char numbers[2][48];
  TN_TRY(outflow(c, u, a, &flux, &size, &all));
  if (!all)
    return TN_OK;
  TN_TRY(integral(c, t, &t->relations[0], &t->pieces[0], &source, &size));
  if (fabs(-source - flux) <= 2e-2 * size)
    return TN_OK;
  snprintf(numbers[0], sizeof numbers[0], "%.3g", -source);
  snprintf(numbers[1], sizeof numbers[1], "%.3g", fabs(flux) < 1e-6 * size ? 0 : flux);
  return pn_found(
      c, PN_FOUND_ERROR, t->name, pn_expr_place(t->relations[0].whole),
      t->relations[0].whole->length,
      "no solution: only derivatives of `%s` are given on the whole boundary, but the source of "
      "`%s` integrates to %s (flux %s). Change one, or give %s a value somewhere",
      p->unknowns[u].name, t->name, numbers[0], numbers[1], p->unknowns[u].name);
}

tn_status pn_check_outflow(pn_checking *c, const pn_term *t, size_t u, double a) {
  pn_problem *p = c->problem;
  pn_expr *zero = NULL, *kept = p->unknowns[u].exact;
  TN_TRY(pn_expr_number(p->arena, 0, NULL, &zero));
  p->unknowns[u].exact = zero;
  tn_status status = compare(c, t, u, a);
  p->unknowns[u].exact = kept;
  if (status == TN_OK || status == TN_ENOMEM)
    return status;
  tn_graph_clear_error(c->model->graph); /* tables and the like: no answer */
  return TN_OK;
}
