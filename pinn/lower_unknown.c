/* lower_unknown.c: an unknown as a value: network, scale, ansatz, parity, conditions met by construction.
 *
 *   A(x) = ansatz with net = s N(x)            s: the unknown's scale, a run-time number in the field
 *   P(x) = (A(x) +- A(2m - x)) / 2             if even or odd about the middle m of a coordinate
 *   u(x) = lift(x) + distance(x) P(x)          with hard conditions (hard.c)
 *
 * Each line is lowered in the frame of the place where u stands, so N(2m - x), net(x=1) inside an ansatz
 * and u(x=1) of the whole are calls of one field at other arguments. In an exact scope the unknown is its
 * expression from [exact] instead.
 */
#include "pinn/lower.h"
#include "pinn/moving.h"
#include "pinn/names.h"

/* The unknown whose output a node PN_NET means: of a complex one either part. */
static size_t net_of(const pn_frame *f, size_t which) {
  const pn_unknown *u = &f->scope->model->problem->unknowns[f->net];
  return which == 0 ? f->net : f->net - (u->part == PN_IMAGINARY_PART) + (which - 1);
}

tn_status pn_frame_net(pn_frame *f, size_t which, tn_value *out) {
  const pn_model *m = f->scope->model;
  const pn_problem *p = m->problem;
  if (f->net == PN_NONE)
    return TN_FAIL(TN_EINPUT, "`net` outside an ansatz");
  size_t index = net_of(f, which);
  const pn_unknown *u = &p->unknowns[index];
  const pn_net *net = &m->nets[m->unknown_net[index]];
  tn_value args[PN_MAX_COORDINATES];
  uint8_t order[PN_MAX_COORDINATES] = {0};
  for (size_t j = 0; j < u->n_arguments; ++j) {
    TN_TRY(pn_frame_coordinate(f, u->argument[j], &args[j]));
    if (!args[j].graph)
      return TN_FAIL(TN_EINPUT, "`%s` needs a value of `%s`, which has none here", u->name,
                     p->coordinates[u->argument[j]].name);
    TN_TRY(pn_frame_reference(f, u->argument[j], &args[j]));
  }
  *out = ag_call(net->field, m->unknown_output[index], args, order);
  return TN_OK;
}

/* A: the ansatz, or the network itself. */
static tn_status lower_ansatz(pn_frame *f, size_t unknown, tn_value *out) {
  const pn_unknown *u = &f->scope->model->problem->unknowns[unknown];
  pn_frame inner = pn_frame_copy(f);
  inner.net = unknown;
  tn_status status = u->ansatz ? pn_frame_lower(&inner, u->ansatz, out) : pn_frame_net(&inner, 0, out);
  pn_frame_done(&inner);
  return status;
}

/* P: the part of A that has the parity. */
static tn_status lower_parity(pn_frame *f, size_t unknown, tn_value *out) {
  const pn_problem *p = f->scope->model->problem;
  const pn_unknown *u = &p->unknowns[unknown];
  tn_value here = {0}, there = {0};
  TN_TRY(lower_ansatz(f, unknown, &here));
  if (u->parity == 0) {
    *out = here;
    return TN_OK;
  }
  const pn_coordinate *c = &p->coordinates[u->parity_coordinate];
  tn_value x = f->coordinate[u->parity_coordinate];
  double number = 0, twice = c->lo + c->hi;
  pn_frame mirror = pn_frame_copy(f);
  bool fixed = pn_is_number(x, &number);
  /* 2m - x never depends on another coordinate than x: what can be differentiated stays so. */
  mirror.coordinate[u->parity_coordinate] =
      fixed ? pn_frame_number(f, twice - number)
            : (twice == 0 ? tn_neg(x) : tn_sub(pn_frame_number(f, twice), x));
  mirror.variable &= ~(UINT32_C(1) << u->parity_coordinate);
  tn_status status = lower_ansatz(&mirror, unknown, &there);
  pn_frame_done(&mirror);
  TN_TRY(status);
  *out = tn_mul(pn_frame_number(f, 0.5), u->parity > 0 ? tn_add(here, there) : tn_sub(here, there));
  return TN_OK;
}

static tn_status lower_exact(pn_frame *f, size_t unknown, tn_value *out) {
  const pn_unknown *u = &f->scope->model->problem->unknowns[unknown];
  if (!u->exact)
    return TN_FAIL(TN_EINPUT, "`%s` has no exact solution", u->name);
  tn_status status = pn_frame_lower(f, u->exact, out);
  if (status != TN_EINPUT)
    return status;
  const pn_problem *p = f->scope->model->problem;
  uint32_t bits = pn_expr_depends(p, u->exact);
  for (size_t i = 0; i < p->n_coordinates; ++i)
    if ((bits >> i & 1u) && !pn_unknown_has(u, i) && !f->coordinate[i].graph)
      return pn_expr_fail(TN_EINPUT, u->exact,
                          "`%s` stands in the exact solution of `%s`, but `%s` does not depend on "
                          "it: name it among the coordinates of `%s`",
                          p->coordinates[i].name, u->name, u->name, u->name);
  return status;
}

tn_status pn_frame_unknown(pn_frame *f, size_t unknown, tn_value *out) {
  if (unknown >= f->scope->model->problem->n_unknowns)
    return TN_FAIL(TN_ERANGE, "unknown %zu of %zu", unknown, f->scope->model->problem->n_unknowns);
  if (f->scope->exact)
    return lower_exact(f, unknown, out);
  if (f->scope->bare) {
    pn_frame inner = pn_frame_copy(f);
    inner.net = unknown;
    return pn_frame_net(&inner, 0, out);
  }
  TN_TRY(lower_parity(f, unknown, out));
  TN_TRY(pn_hard_apply(f, unknown, out));
  return tn_ok(*out) ? TN_OK : pn_lost_value(f->scope->model->graph);
}
