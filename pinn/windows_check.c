/* windows_check.c: [time] windows: what a file must be like to be solved window by window.
 *
 * A window is the same file with a part of the time's range, and what holds at its start is given by the window
 * before. That is the same problem if everything that the file says can be said of a part of the time: equations
 * and boundary conditions can, because they hold at every moment. A condition at the end, a mean over the time, a
 * value u(t = 1/2), a number to be found or an unknown without time belong to all windows at once, so they are
 * refused with the reason instead of being given another meaning.
 */
#include "pinn/windows.h"

#include <string.h>

#include "pinn/data.h"
#include "pinn/read.h"

enum { MOST_WINDOWS = 1000, MOST_CHUNKS = 64 };

size_t pn_time_axis(const pn_problem *p) {
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if (p->coordinates[c].role == PN_TIME)
      return c;
  return PN_NONE;
}

void pn_window_range(const pn_coordinate *time, size_t w, size_t n, double range[2]) {
  double length = time->hi - time->lo;
  range[0] = time->lo + length * (double)(w - 1) / (double)n;
  range[1] = w == n ? time->hi : time->lo + length * (double)w / (double)n;
}

tn_status pn_windows_read(pn_problem *p, const pn_toml *table) {
  const pn_toml *node = pn_toml_find(table, "windows");
  p->windows = 1;
  p->causal = pn_read_flag(pn_toml_find(table, "causal"), false);
  TN_TRY(pn_read_count(p, pn_toml_find(table, "chunks"), NULL, 32, &p->chunks));
  if (p->chunks < 2 || p->chunks > MOST_CHUNKS)
    return pn_fail_at(TN_EINPUT, pn_toml_find(table, "chunks")->place, 1,
                      "time.chunks = %zu; expected 2 to %d", p->chunks, MOST_CHUNKS);
  size_t t = pn_time_axis(p);
  if (p->causal && (t == PN_NONE || p->coordinates[t].periodic || pn_moves(&p->coordinates[t])))
    return pn_fail_at(TN_EINPUT, pn_toml_find(table, "causal")->place, 1,
                      "time.causal asks for a time coordinate with a start and an end%s",
                      t == PN_NONE ? "; there is none" : "");
  if (!node)
    return TN_OK;
  TN_TRY(pn_read_count(p, node, NULL, 1, &p->windows));
  p->windows_place = node->place;
  if (p->windows < 1 || p->windows > MOST_WINDOWS)
    return pn_fail_at(TN_EINPUT, node->place, 1, "time.windows = %zu; expected 1 to %d", p->windows,
                      MOST_WINDOWS);
  return TN_OK;
}

/* -1, 0, 1: the piece holds at the start, at a moment between, at the end; 2: all the time. */
static int moment(const pn_piece *piece, size_t t) {
  for (size_t i = 0; i < piece->n_fixed; ++i)
    if (piece->fixed[i] == t)
      return piece->side[i];
  return 2;
}

bool pn_starts_time(const pn_problem *p, const pn_term *term) {
  size_t t = pn_time_axis(p);
  return term->where == PN_ON && term->n_pieces > 0 && moment(&term->pieces[0], t) == -1;
}

static void find_order(const pn_problem *p, const pn_expr *e, size_t t, size_t unknown,
                       size_t above, size_t *most) {
  size_t here = above;
  if (e->kind == PN_DERIVATIVE)
    for (size_t i = 0; i < e->n_axes; ++i)
      here += e->axes[i] == t;
  if (e->kind == PN_UNKNOWN && e->index == unknown && here > *most)
    *most = here;
  if (e->kind == PN_DEFINITION && p->definitions[e->index].value)
    find_order(p, p->definitions[e->index].value, t, unknown, here, most);
  for (size_t i = 0; i < e->n; ++i)
    find_order(p, e->args[i], t, unknown, here, most);
}

size_t pn_order_in_time(const pn_problem *p, size_t unknown) {
  size_t most = 0, t = pn_time_axis(p);
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
      find_order(p, p->equations[i].relations[r].lhs, t, unknown, 0, &most);
      find_order(p, p->equations[i].relations[r].rhs, t, unknown, 0, &most);
    }
  return most;
}

/* ---- What is refused ------------------------------------------------------------------------- */

/* Anything that names more of the time than the moment itself. */
static tn_status check_tree(const pn_problem *p, const pn_expr *e, size_t t) {
  const char *name = p->coordinates[t].name, *what = NULL;
  for (size_t i = 0; i < e->n_axes; ++i)
    if (e->axes[i] == t && e->kind == PN_AT)
      what = "a value at another moment";
    else if (e->axes[i] == t && e->kind == PN_INTEGRAL_OF)
      what = "an integral over the time";
  if (e->kind == PN_BOUND && e->index == t)
    what = "an end of the time";
  if (e->kind == PN_MEAN && (pn_expr_depends(p, e->args[0]) >> t & 1u))
    what = "a mean over the time";
  if (what)
    return pn_expr_fail(TN_EINPUT, e,
                        "%s (`%s`) means all windows at once; with time.windows = %zu each is solved "
                        "by itself",
                        what, name, p->windows);
  if (e->kind == PN_DEFINITION && p->definitions[e->index].value)
    TN_TRY(check_tree(p, p->definitions[e->index].value, t));
  for (size_t i = 0; i < e->n; ++i)
    TN_TRY(check_tree(p, e->args[i], t));
  return TN_OK;
}

static tn_status check_pieces(const pn_problem *p, const pn_term *term, size_t t) {
  const char *name = p->coordinates[t].name;
  int first = term->n_pieces > 0 ? moment(&term->pieces[0], t) : 2;
  for (size_t i = 0; i < term->n_pieces; ++i) {
    int m = moment(&term->pieces[i], t);
    if (m == 0 || m == 1)
      return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                        "`%s` holds at %s %s; with time.windows = %zu conditions hold at the start "
                        "of the time or all the time",
                        term->name, m == 1 ? "the end of" : "a fixed", name, p->windows);
    if (m != first)
      return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                        "`%s` holds at the start of `%s` and elsewhere; with time.windows = %zu make "
                        "two conditions of it",
                        term->name, name, p->windows);
  }
  return TN_OK;
}

static tn_status check_terms(const pn_problem *p, const pn_term *terms, size_t n, size_t t) {
  for (size_t i = 0; i < n; ++i) {
    const pn_term *term = &terms[i];
    if (term->where == PN_DATA && term->data->coordinate[t])
      return pn_fail_at(TN_EINPUT, term->place, strlen(term->name),
                        "`%s` has data at several times; with time.windows = %zu conditions hold at "
                        "the start of the time or all the time",
                        term->name, p->windows);
    TN_TRY(check_pieces(p, term, t));
    if (pn_starts_time(p, term))
      continue;
    for (size_t r = 0; r < term->n_relations; ++r) {
      TN_TRY(check_tree(p, term->relations[r].lhs, t));
      TN_TRY(check_tree(p, term->relations[r].rhs, t));
    }
  }
  return TN_OK;
}

static tn_status check_unknowns(const pn_problem *p, size_t t) {
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    const pn_unknown *k = &p->unknowns[u];
    bool has = false;
    for (size_t j = 0; j < k->n_of; ++j)
      has = has || k->of[j] == t;
    const char *why = !has                     ? "does not depend on the time"
                      : k->in                  ? "lives in a part of the domain"
                      : pn_takes_unknowns(p, k) ? "depends on an unknown"
                                               : NULL;
    if (why)
      return pn_fail_at(TN_EINPUT, k->place, strlen(k->name),
                        "`%s` %s; time.windows = %zu asks for unknowns of the whole domain and the "
                        "time",
                        k->name, why, p->windows);
    if (k->ansatz)
      TN_TRY(check_tree(p, k->ansatz, t));
    if (k->exact)
      TN_TRY(check_tree(p, k->exact, t));
  }
  return TN_OK;
}

tn_status pn_windows_check(const pn_problem *p) {
  size_t t = pn_time_axis(p);
  const char *why = NULL;
  if (p->windows <= 1)
    return TN_OK;
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if (pn_moves(&p->coordinates[c]))
      why = "an end of the domain moves, and where it is belongs to all windows";
  if (p->n_parameters > 0)
    why = "[parameters] are one number for all windows";
  if (t == PN_NONE)
    why = "there is no time coordinate";
  else if (p->coordinates[t].periodic)
    why = "the time is periodic";
  if (why)
    return pn_fail_at(TN_EINPUT, p->windows_place, 1, "time.windows = %zu, but %s", p->windows, why);
  TN_TRY(check_unknowns(p, t));
  TN_TRY(check_terms(p, p->equations, p->n_equations, t));
  TN_TRY(check_terms(p, p->conditions, p->n_conditions, t));
  return check_terms(p, p->checks, p->n_checks, t);
}
