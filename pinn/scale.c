/* scale.c: how large unknowns and equations are, so that units do not decide how training goes.
 *
 * Size of an unknown, in this order:
 *   1. `scale` of the file;
 *   2. rms of its values: the largest over the conditions u = g (g without unknowns) of the rms of
 *   g;
 *   3. balance: the size U at which, in some relation whose other unknowns have sizes, the largest
 *   term
 *      with u is as large as the largest term without it ("source"); the largest such U;
 *   4. 1.
 * Size of a tree: what is free of unknowns is evaluated at the points and its rms taken; an
 * unknown counts as its size U; a derivative of order k along x divides by (half the range of
 * x)^k; products multiply, sums add, functions act on the size. Size of a relation: its largest
 * top-level term, rms over its sites.
 *
 * Factors that enter the training are rounded to powers of two, so that scaling itself rounds
 * nothing: a problem in other units differs from the first by at most sqrt 2 in each factor.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/moving.h"
#include "pinn/objective.h"
#include "pinn/scale.h"

enum { MOST_PARTS = 24, HARD_POINTS = 256 };

/* What a size is measured with. */
typedef struct measure {
  pn_scopes *scopes;
  pn_scope *scope;
  const pn_site *site;
  size_t index;          /* of the site; PN_NONE: it is not one of the scopes' */
  const double *unknown; /* sizes; NaN: not known yet */
  double net;            /* size of `net` in an ansatz */
  pn_scope still;        /* `scope` where ends move: there they are numbers */
  const pn_within *within; /* integrals around the tree, the innermost first */
} measure;

static const pn_problem *problem_of(const measure *c) {
  return pn_scopes_model(c->scopes)->problem;
}

/* An argument that is an unknown reaches two sizes to both sides. */
static double half_range(const measure *c, size_t coordinate) {
  const pn_coordinate *x = &problem_of(c)->coordinates[coordinate];
  return x->unknown != PN_NONE ? 2 * c->unknown[x->unknown] : (x->expected[1] - x->expected[0]) / 2;
}

static double power_of_two(double x) {
  return isfinite(x) && x > 0 ? exp2(floor(log2(x) + 0.5)) : 1;
}

/* ---- Values without unknowns ----------------------------------------------------------------- */

/* The points of the mean that was made in this scope, drawn if they are new; NULL if there is
 * none. */
static tn_status points_of_mean(measure *c, const pn_site **out) {
  pn_sites *sites = pn_scopes_sites(c->scopes);
  const pn_draw draw = {.kind = PN_DRAW_SCALE, .factor = 1};
  *out = NULL;
  if (c->index == PN_NONE || !c->scope->mean)
    return TN_OK;
  TN_TRY(pn_scopes_mean(c->scopes, c->index));
  pn_site *site = &sites->sites[pn_scopes_mean_site(c->scopes, c->index)];
  c->site = &sites->sites[c->index]; /* a new site may have moved all */
  if (site->n == 0)
    TN_TRY(pn_site_draw(sites, site, &draw, site->wanted));
  *out = site;
  return TN_OK;
}

/* Tables and means that were first met in this tree are fed before it is evaluated. */
static tn_status rms_of(measure *c, tn_value value, double *out) {
  pn_feed feed = {0};
  const pn_site *mean = NULL;
  TN_TRY(points_of_mean(c, &mean));
  tn_status status = pn_feed_site(&feed, c->scopes, c->scope, c->site, 0, c->site->n);
  if (status == TN_OK && mean)
    status = pn_feed_site(&feed, c->scopes, c->scope->mean, mean, 0, mean->n);
  if (status == TN_OK)
    status = pn_feed_bind_graph(&feed);
  if (status == TN_OK)
    status = pn_rms_of_value(value, c->site->n, out);
  pn_feed_clear(&feed);
  return status;
}

/* ---- Size of a tree -------------------------------------------------------------------------- */

static tn_status size_of(measure *c, const pn_expr *e, double *out);

/* In integrals: sqrt(int e^2 / int 1), so that the variable takes all its values. */
static tn_status size_of_integrand(measure *c, const pn_expr *e, double *out) {
  pn_expr *square = NULL, *one = NULL;
  tn_value value[2] = {{0}};
  double size[2];
  TN_TRY(pn_within_mean(pn_scopes_model(c->scopes)->problem->arena, c->within, e, &square, &one));
  for (size_t i = 0; i < 2; ++i) {
    TN_TRY(pn_lower(c->scope, i ? one : square, &value[i]));
    TN_TRY(rms_of(c, value[i], &size[i]));
  }
  *out = size[1] > 0 ? sqrt(size[0] / size[1]) : 0;
  return TN_OK;
}

static tn_status size_of_free(measure *c, const pn_expr *e, double *out) {
  tn_value value = {0};
  if (e->kind == PN_NUMBER || e->kind == PN_CONSTANT_REF || e->kind == PN_BOUND) {
    *out = fabs(e->number);
    return TN_OK;
  }
  if (c->within)
    return size_of_integrand(c, e, out);
  TN_TRY(pn_lower(c->scope, e, &value));
  return rms_of(c, value, out);
}

/* The size of the integrand times that of the length. */
static tn_status size_of_integral(measure *c, const pn_expr *e, double *out) {
  pn_expr *length = NULL;
  double size = 0;
  pn_within within = {e, c->within};
  TN_TRY(pn_expr_make(pn_scopes_model(c->scopes)->problem->arena, PN_SUBTRACT, e, 2,
                      (pn_expr *[]){e->args[2], e->args[1]}, &length));
  TN_TRY(size_of(c, length, &size));
  measure inside = *c;
  inside.within = &within;
  TN_TRY(size_of(&inside, e->args[0], out));
  *out *= size;
  return TN_OK;
}

static tn_status size_of_call(measure *c, const pn_expr *e, double *out) {
  double a[16] = {0};
  for (size_t i = 0; i < e->n && i < 16; ++i)
    TN_TRY(size_of(c, e->args[i], &a[i]));
  *out = pn_size_of_function((pn_function)e->index, a, e->n < 16 ? e->n : 16);
  return TN_OK;
}

static tn_status size_of_pair(measure *c, const pn_expr *e, double *out) {
  double a = 0, b = 0;
  TN_TRY(size_of(c, e->args[0], &a));
  TN_TRY(size_of(c, e->args[1], &b));
  switch (e->kind) {
  case PN_MULTIPLY:
    *out = a * b;
    break;
  case PN_DIVIDE:
    *out = b > 0 ? a / b : a;
    break;
  case PN_POWER: {
    bool inverse =
        e->args[1]->kind == PN_NEGATE || (e->args[1]->kind == PN_NUMBER && e->args[1]->number < 0);
    *out = pow(a, inverse ? -b : b);
    break;
  }
  default:
    *out = a + b;
    break;
  }
  return TN_OK;
}

/* What stands in a mean is measured at the points of the mean. */
static tn_status size_of_mean(measure *c, const pn_expr *e, double *out) {
  measure inside = *c;
  tn_value value = {0};
  TN_TRY(pn_lower(c->scope, e, &value));
  TN_TRY(points_of_mean(c, &inside.site));
  if (!inside.site) {
    *out = 1;
    return TN_OK;
  }
  inside.scope = c->scope->mean;
  inside.index = PN_NONE;
  return size_of(&inside, e->args[0], out);
}

static bool has_net(const pn_expr *e) {
  bool found = e->kind == PN_NET;
  for (size_t i = 0; i < e->n && !found; ++i)
    found = has_net(e->args[i]);
  return found;
}

static tn_status size_of(measure *c, const pn_expr *e, double *out) {
  const pn_problem *problem = problem_of(c);
  if (pn_expr_unknowns(problem, e) == 0 && !has_net(e))
    return size_of_free(c, e, out);
  switch (e->kind) {
  case PN_UNKNOWN:
    *out = c->unknown[e->index];
    return TN_OK;
  case PN_NET:
    *out = c->net;
    return TN_OK;
  case PN_NEGATE:
  case PN_AT:
    return size_of(c, e->args[0], out);
  case PN_MEAN:
    return size_of_mean(c, e, out);
  case PN_INTEGRAL_OF:
    return size_of_integral(c, e, out);
  case PN_ADD:
  case PN_SUBTRACT:
  case PN_MULTIPLY:
  case PN_DIVIDE:
  case PN_POWER:
    return size_of_pair(c, e, out);
  case PN_DEFINITION:
    return size_of(c, problem->definitions[e->index].scalar, out);
  case PN_DERIVATIVE:
    TN_TRY(size_of(c, e->args[0], out));
    for (size_t i = 0; i < e->n_axes; ++i)
      *out /= half_range(c, e->axes[i]);
    return TN_OK;
  case PN_WHERE: {
    double other = 0;
    TN_TRY(size_of(c, e->args[1], out));
    TN_TRY(size_of(c, e->args[2], &other));
    *out = fmax(*out, other);
    return TN_OK;
  }
  case PN_FUNCTION:
    return size_of_call(c, e, out);
  default:
    *out = 1;
    return TN_OK;
  }
}

/* ---- Size of a relation ---------------------------------------------------------------------- */

typedef struct parts { /* lhs - rhs = sum of sign * value */
  size_t n;
  tn_value value[MOST_PARTS];
  pn_expr *expr[MOST_PARTS];
  int sign[MOST_PARTS];
} parts;

static tn_status take_apart(measure *c, const pn_relation *relation, parts *p) {
  return pn_lower_terms(c->scope, relation, MOST_PARTS, &p->n, p->value, p->expr, p->sign);
}

static tn_status look_at(measure *c, size_t site) {
  c->site = &pn_scopes_sites(c->scopes)->sites[site];
  c->index = site;
  TN_TRY(pn_scopes_at(c->scopes, site, &c->scope));
  if (pn_scope_still(c->scope, &c->still))
    c->scope = &c->still;
  return TN_OK;
}

tn_status pn_relation_size(pn_scopes *scopes, size_t m, size_t r, const double *unknown_size,
                           double *size, const pn_expr **largest) {
  const pn_term_sites *term = &pn_scopes_sites(scopes)->terms[m];
  measure c = {.scopes = scopes, .unknown = unknown_size, .net = 1};
  double sum = 0, count = 0, top = -1;
  for (size_t k = 0; k < term->n_sites; ++k) {
    parts p;
    double most = 0;
    TN_TRY(look_at(&c, term->site[k]));
    TN_TRY(take_apart(&c, &term->term->relations[r], &p));
    pn_join_data(problem_of(&c), &p.n, p.value, p.expr, p.sign);
    for (size_t i = 0; i < p.n; ++i) {
      double x = 0;
      bool data = pn_expr_unknowns(problem_of(&c), p.expr[i]) == 0;
      TN_TRY(data ? rms_of(&c, p.value[i], &x) : size_of(&c, p.expr[i], &x));
      if (!isfinite(x))
        continue;
      most = fmax(most, x);
      if (largest && x > top)
        *largest = p.expr[i];
      top = fmax(top, x);
    }
    sum += (double)c.site->n * most * most;
    count += (double)c.site->n;
  }
  *size = count > 0 ? sqrt(sum / count) : 0;
  if (!(*size > 0) || !isfinite(*size))
    *size = 1;
  return TN_OK;
}

/* ---- Unknowns by their values ---------------------------------------------------------------- */

/* Is the relation u = g here? Then the rms of g. */
static tn_status value_of_condition(measure *c, const pn_relation *relation, size_t unknown,
                                    bool *is_value, double *rms) {
  parts p;
  tn_value sum = {0};
  size_t alone = 0, others = 0;
  *is_value = false;
  *rms = 0;
  TN_TRY(take_apart(c, relation, &p));
  for (size_t i = 0; i < p.n; ++i) {
    if (p.expr[i]->kind == PN_UNKNOWN && p.expr[i]->index == unknown) {
      ++alone;
    } else if (pn_expr_unknowns(problem_of(c), p.expr[i])) {
      ++others;
    } else {
      tn_value part = p.sign[i] < 0 ? tn_neg(p.value[i]) : p.value[i];
      sum = sum.graph ? tn_add(sum, part) : part;
    }
  }
  *is_value = alone == 1 && others == 0;
  return *is_value && sum.graph ? rms_of(c, sum, rms) : TN_OK;
}

typedef struct finding { /* the largest value of an unknown so far */
  double rms;
  const char *source;
} finding;

static tn_status look_at_term(measure *c, const pn_term *term, double *sum, double *count,
                              size_t unknown) {
  for (size_t r = 0; r < term->n_relations; ++r) {
    bool is_value = false;
    double rms = 0;
    if (term->relations[r].op != PN_EQUAL)
      continue;
    TN_TRY(value_of_condition(c, &term->relations[r], unknown, &is_value, &rms));
    if (!is_value)
      continue;
    *sum += rms * rms * (double)c->site->n;
    *count += (double)c->site->n;
  }
  return TN_OK;
}

static void keep_larger(finding *best, double sum, double count, const char *name) {
  double rms = count > 0 ? sqrt(sum / count) : 0;
  if (rms > best->rms)
    *best = (finding){rms, name};
}

/* Conditions met by construction have no site: some points of their own. */
static tn_status hard_condition(pn_scopes *scopes, const pn_term *term, size_t unknown,
                                finding *best) {
  pn_sites *sites = pn_scopes_sites(scopes);
  pn_model *model = pn_scopes_model(scopes);
  double sum = 0, count = 0;
  for (size_t k = 0; term->where == PN_ON && k < term->n_pieces; ++k) {
    const pn_piece *piece = &term->pieces[k];
    pn_site site = {.term = term, .piece = piece, .space = pn_space_bits(model->problem)};
    pn_scope scope;
    site.free_ = pn_piece_free(model->problem, term, piece);
    snprintf(site.key, sizeof site.key, "%s:%zu", term->name, k);
    tn_status status = pn_scope_new(model, "values", piece, site.free_, &scope);
    const pn_draw draw = {.kind = PN_DRAW_SCALE, .factor = 1};
    if (status == TN_OK)
      status = pn_site_draw(sites, &site, &draw, HARD_POINTS);
    measure c = {.scopes = scopes, .scope = &scope, .site = &site, .index = PN_NONE};
    if (status == TN_OK && pn_scope_still(&scope, &c.still))
      c.scope = &c.still;
    if (status == TN_OK)
      status = look_at_term(&c, term, &sum, &count, unknown);
    pn_site_clear(&site);
    TN_TRY(status);
  }
  keep_larger(best, sum, count, term->name);
  return TN_OK;
}

static tn_status by_values(pn_scopes *scopes, size_t unknown, finding *best) {
  const pn_sites *sites = pn_scopes_sites(scopes);
  const pn_model *model = pn_scopes_model(scopes);
  const pn_problem *problem = model->problem;
  measure c = {.scopes = scopes};
  for (size_t m = 0; m < sites->n_terms; ++m) {
    const pn_term_sites *term = &sites->terms[m];
    double sum = 0, count = 0;
    for (size_t k = 0; term->term->is_condition && k < term->n_sites; ++k) {
      TN_TRY(look_at(&c, term->site[k]));
      TN_TRY(look_at_term(&c, term->term, &sum, &count, unknown));
    }
    keep_larger(best, sum, count, term->term->name);
  }
  for (size_t i = 0; i < problem->n_conditions; ++i) {
    const pn_term *term = &problem->conditions[i];
    bool occurs = false;
    for (size_t r = 0; r < term->n_relations; ++r)
      occurs = occurs || pn_expr_unknowns(problem, term->relations[r].whole) >> unknown & 1;
    if (occurs && pn_model_is_hard(model, term))
      TN_TRY(hard_condition(scopes, term, unknown, best));
  }
  return TN_OK;
}

/* ---- Unknowns by balance --------------------------------------------------------------------- */

/* The largest term with unknown u when its size is x. */
static tn_status largest_with(measure *c, const parts *p, size_t u, double *sizes, double x,
                              double *out) {
  *out = 0;
  sizes[u] = x;
  for (size_t i = 0; i < p->n; ++i) {
    double size = 0;
    if (!(pn_expr_unknowns(problem_of(c), p->expr[i]) >> u & 1))
      continue;
    TN_TRY(size_of(c, p->expr[i], &size));
    if (isfinite(size))
      *out = fmax(*out, size);
  }
  sizes[u] = NAN;
  return TN_OK;
}

/* U with largest_with(U) = target, by bisection of log2 U; 0 if there is none. */
static tn_status balance(measure *c, const parts *p, size_t u, double *sizes, double target,
                         double *out) {
  double low = -200, high = 200, at_low = 0, at_high = 0;
  *out = 0;
  TN_TRY(largest_with(c, p, u, sizes, exp2(low), &at_low));
  TN_TRY(largest_with(c, p, u, sizes, exp2(high), &at_high));
  if (!(at_low < target && at_high > target))
    return TN_OK;
  for (size_t i = 0; i < 40; ++i) {
    double middle = (low + high) / 2, size = 0;
    TN_TRY(largest_with(c, p, u, sizes, exp2(middle), &size));
    if (size < target)
      low = middle;
    else
      high = middle;
  }
  *out = exp2((low + high) / 2);
  return TN_OK;
}

static tn_status balance_in(measure *c, const pn_relation *relation, size_t u, double *sizes,
                            double *out) {
  const pn_problem *problem = problem_of(c);
  parts p;
  double target = 0;
  *out = 0;
  TN_TRY(take_apart(c, relation, &p));
  for (size_t i = 0; i < p.n; ++i) {
    uint64_t in = pn_expr_unknowns(problem, p.expr[i]);
    double size = 0;
    for (size_t v = 0; v < problem->n_unknowns; ++v)
      if (v != u && in >> v & 1 && isnan(sizes[v]))
        return TN_OK; /* another unknown has no size yet */
    if (in >> u & 1)
      continue;
    TN_TRY(size_of(c, p.expr[i], &size));
    if (isfinite(size))
      target = fmax(target, size);
  }
  return target > 0 ? balance(c, &p, u, sizes, target, out) : TN_OK;
}

static tn_status by_balance(pn_scopes *scopes, size_t u, double *sizes, finding *best) {
  const pn_sites *sites = pn_scopes_sites(scopes);
  measure c = {.scopes = scopes, .unknown = sizes, .net = 1};
  for (size_t m = 0; m < sites->n_terms; ++m) {
    const pn_term *term = sites->terms[m].term;
    for (size_t r = 0; r < term->n_relations; ++r) {
      double size = 0;
      if (!(pn_expr_unknowns(problem_of(&c), term->relations[r].whole) >> u & 1))
        continue;
      TN_TRY(look_at(&c, sites->terms[m].site[0]));
      TN_TRY(balance_in(&c, &term->relations[r], u, sizes, &size));
      if (size > best->rms)
        *best = (finding){size, term->name};
    }
  }
  return TN_OK;
}

/* ---- All unknowns ---------------------------------------------------------------------------- */

/* The factor on `net` that gives the unknown its size: 1 inside a function, U over what multiplies
 * it. */
static tn_status factor_of_ansatz(pn_scopes *scopes, const pn_expr *ansatz, double size,
                                  double *out) {
  measure c = {.scopes = scopes, .net = 1};
  double one = 0, two = 0;
  *out = size;
  for (const pn_expr *e = ansatz; e->kind == PN_FUNCTION || e->kind == PN_NEGATE; e = e->args[0])
    if (e->kind == PN_FUNCTION) {
      *out = 1;
      return TN_OK;
    }
  TN_TRY(look_at(&c, pn_scopes_sites(scopes)->terms[0].site[0]));
  TN_TRY(size_of(&c, ansatz, &one));
  c.net = 2;
  TN_TRY(size_of(&c, ansatz, &two));
  if (one > 0 && isfinite(one) && fabs(two - 2 * one) <= 1e-9 * one)
    *out = size / one;
  return TN_OK;
}

/* Sizes of unknowns that only relations among themselves determine: name by name, the first by 1.
 */
static tn_status fill_by_balance(pn_scopes *scopes, double *sizes, const char **source) {
  pn_model *model = pn_scopes_model(scopes);
  const pn_problem *problem = model->problem;
  for (;;) {
    size_t first = PN_NONE;
    bool found = false;
    for (size_t u = 0; u < problem->n_unknowns; ++u) {
      finding best = {0, NULL};
      if (!isnan(sizes[u]))
        continue;
      TN_TRY(by_balance(scopes, u, sizes, &best));
      if (best.rms > 0) {
        char *words = NULL;
        TN_TRY(pn_arena_format(model->arena, &words, "balance of %s", best.source));
        sizes[u] = best.rms;
        source[u] = words;
        found = true;
      } else if (first == PN_NONE ||
                 strcmp(problem->unknowns[u].name, problem->unknowns[first].name) < 0) {
        first = u;
      }
    }
    if (!found && first == PN_NONE)
      return TN_OK;
    if (!found) {
      sizes[first] = 1;
      source[first] = "nothing known";
    }
  }
}

static tn_status find_sizes(pn_scopes *scopes, double *sizes, const char **source) {
  const pn_problem *problem = pn_scopes_model(scopes)->problem;
  for (size_t u = 0; u < problem->n_unknowns; ++u) {
    finding best = {0, NULL};
    sizes[u] = problem->unknowns[u].scale;
    source[u] = "file";
    if (!isnan(sizes[u]))
      continue;
    TN_TRY(by_values(scopes, u, &best));
    if (best.rms > 0) {
      sizes[u] = best.rms;
      source[u] = best.source;
    }
  }
  for (size_t u = 0; u + 1 < problem->n_unknowns; ++u) { /* a complex unknown has one size */
    if (problem->unknowns[u].part != PN_REAL_PART || !(isnan(sizes[u]) != isnan(sizes[u + 1]) || sizes[u] != sizes[u + 1]))
      continue;
    size_t from = isnan(sizes[u]) || sizes[u + 1] > sizes[u] ? u + 1 : u, to = from == u ? u + 1 : u;
    sizes[to] = sizes[from];
    source[to] = source[from];
  }
  return fill_by_balance(scopes, sizes, source);
}

tn_status pn_scale_unknowns(pn_scopes *scopes, double *size) {
  pn_model *model = pn_scopes_model(scopes);
  const pn_problem *problem = model->problem;
  double *sizes = NULL;
  TN_TRY(TN_NEW(problem->n_unknowns, &sizes));
  tn_status status = find_sizes(scopes, sizes, model->unknown_scale_source);
  for (size_t u = 0; status == TN_OK && u < problem->n_unknowns; ++u) {
    const pn_unknown *unknown = &problem->unknowns[u];
    double factor = sizes[u];
    if (unknown->ansatz && isnan(unknown->scale))
      status = factor_of_ansatz(scopes, unknown->ansatz, sizes[u], &factor);
    model->unknown_scale[u] = power_of_two(factor);
    if (size)
      size[u] = sizes[u];
  }
  tn_free(&sizes);
  return status;
}

tn_status pn_scale_terms(pn_scopes *scopes, const double *unknown_size, pn_loss *loss,
                         const char **text) {
  pn_model *model = pn_scopes_model(scopes);
  const pn_sites *sites = pn_scopes_sites(scopes);
  for (size_t m = 0; m < sites->n_terms; ++m) {
    const pn_term *term = sites->terms[m].term;
    for (size_t r = 0; r < term->n_relations; ++r) {
      double size = 1;
      const pn_expr *largest = NULL;
      char *words = NULL, *whole = NULL;
      TN_TRY(pn_relation_size(scopes, m, r, unknown_size, &size, &largest));
      pn_loss_set_scale(loss, m, r, power_of_two(size));
      if (!text)
        continue;
      TN_TRY(pn_expr_print(model->arena, largest ? largest : term->relations[r].lhs,
                           model->problem->coordinate_names, &words));
      TN_TRY(pn_arena_format(model->arena, &whole, "%s%s%s by %.2g (%s)", r ? text[m] : "",
                             r ? ", " : "", term->name, size, words));
      text[m] = whole;
    }
  }
  return TN_OK;
}
