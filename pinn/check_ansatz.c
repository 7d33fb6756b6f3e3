/* check_ansatz.c: what an ansatz says whatever the network does.
 *
 * The ansatz a(x, net) of an unknown is evaluated with numbers in place of the network. If two of them give the same
 * value on a face, the value there is fixed: x*(1 - x)*net is 0 at both ends. If a wide range of them gives values
 * of one sign at some point, the unknown cannot be 0 there: exp(net) nowhere, 0.5 + t*net not at t = 0.
 */
#include "pinn/check.h"

#include <math.h>
#include <string.h>

enum { MOST = 200, SAMPLES = 8 };

bool pn_check_ansatz(pn_problem *p, size_t u, const double *point, double net, double *value) {
  pn_expr *nodes[MOST], *e = p->unknowns[u].ansatz;
  size_t n = pn_check_nodes(p, e, MOST, nodes);
  for (size_t i = 0; i < n; ++i)
    if (nodes[i]->kind == PN_NET) {
      nodes[i]->kind = PN_NUMBER;
      nodes[i]->number = net;
      nodes[i]->n_axes = 1; /* a mark: numbers have none */
    }
  bool known = pn_evaluate(p, e, point, value) == TN_OK;
  for (size_t i = 0; i < n; ++i)
    if (nodes[i]->kind == PN_NUMBER && nodes[i]->n_axes == 1) {
      nodes[i]->kind = PN_NET;
      nodes[i]->n_axes = 0;
    }
  tn_error_clear();
  return known;
}

bool pn_check_ansatz_fixes(pn_problem *p, size_t u, size_t x, int side, const double *at) {
  double point[PN_MAX_COORDINATES], value[2] = {0, 1};
  if (!p->unknowns[u].ansatz)
    return false;
  memcpy(point, at, sizeof point);
  point[x] = side < 0 ? p->coordinates[x].lo : p->coordinates[x].hi;
  for (int k = 0; k < 2; ++k)
    if (!pn_check_ansatz(p, u, point, 0.3 + k, &value[k]))
      return false;
  return fabs(value[0] - value[1]) < 1e-12;
}

/* Is the ansatz of one sign at this point, for whatever the network may be? */
static bool one_sign(pn_problem *p, size_t u, const double *point) {
  static const double nets[] = {-30, -3, -0.3, 0, 0.3, 3, 30};
  double first = 0;
  for (size_t k = 0; k < sizeof nets / sizeof *nets; ++k) {
    double value = 0;
    if (!pn_check_ansatz(p, u, point, nets[k], &value) || value == 0 || (k > 0 && value * first < 0))
      return false;
    first = value;
  }
  return true;
}

bool pn_check_never_zero(pn_problem *p, size_t u) {
  double point[PN_MAX_COORDINATES];
  if (!p->unknowns[u].ansatz)
    return false;
  for (size_t x = 0; x < p->n_coordinates; ++x)
    for (size_t i = 0; i <= SAMPLES; ++i) { /* along x from end to end, the others off their middle */
      for (size_t k = 0; k < p->n_coordinates; ++k)
        point[k] = p->coordinates[k].lo + 0.37 * (p->coordinates[k].hi - p->coordinates[k].lo);
      point[x] = p->coordinates[x].lo +
                 (double)i / SAMPLES * (p->coordinates[x].hi - p->coordinates[x].lo);
      if (one_sign(p, u, point))
        return true;
    }
  return false;
}
