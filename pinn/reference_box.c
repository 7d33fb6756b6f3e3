/* reference_box.c: a problem on the whole box at once, by collocation and Newton's method.
 *
 * Equations of order m along a coordinate hold at n - m inner points there, conditions at n points of their faces,
 * ends included (rectangular collocation: Driscoll and Hale 2016): as many rows as coefficients, give or take
 * corners, where conditions repeat each other and least squares do not mind. A step solves
 *
 *   sum_k dR/dJ_k J_k(delta) = -R
 *
 * and is halved while that does not lessen the norm of the rows, each divided by its largest entry. Near the solution a
 * step squares the error: after a change of 1e-10 rounding is all that is left.
 */
#include "pinn/reference.h"

#include <math.h>
#include <string.h>

enum { MOST_STEPS = 60, MOST_HALVINGS = 12 };

typedef struct system {
  pn_ref_rows *rows;
  const pn_ref_space *space;
  size_t n_blocks, m, n;
  pn_ref_block *block;
  double *A, *b, *scale, *trial;
  bool *dropped; /* rows that contradict another one at a corner */
} system_;

static tn_status evaluate(system_ *s, const double *c, bool slopes) {
  for (size_t k = 0; k < s->n_blocks; ++k) {
    pn_ref_block *b = &s->block[k];
    if (!b->points.n)
      continue;
    for (size_t j = 0; j < b->row->n_calls; ++j)
      pn_ref_sum(s->space, &b->tables[j], c, b->jet[j]);
    TN_TRY(pn_ref_evaluate(s->rows, b->row, &b->points, &b->mean, b->mean_weight, b->jet, b->value,
                           slopes ? b->slope : NULL));
  }
  return TN_OK;
}

/* Row i of block b: one place a point, or all places of a mean. */
static void fill_row(const system_ *s, const pn_ref_block *b, size_t i, size_t at) {
  for (size_t j = 0; j < b->row->n_calls; ++j) {
    const pn_ref_tables *t = &b->tables[j];
    if (!b->row->calls[j].mean) {
      pn_ref_add_row(s->space, t, i, b->slope[j][i], s->A + at, s->m);
      continue;
    }
    for (size_t p = 0; p < t->n; ++p)
      pn_ref_add_row(s->space, t, p, b->slope[j][p], s->A + at, s->m);
  }
}

static void assemble(system_ *s) {
  size_t at = 0;
  memset(s->A, 0, s->m * s->n * sizeof *s->A);
  for (size_t k = 0; k < s->n_blocks; ++k)
    for (size_t i = 0; i < s->block[k].points.n; ++i, ++at) {
      fill_row(s, &s->block[k], i, at);
      s->b[at] = -s->block[k].value[i];
      s->scale[at] = 0;
      for (size_t j = 0; j < s->n; ++j)
        s->scale[at] = fmax(s->scale[at], fabs(s->A[at + j * s->m]));
    }
}

/* Two conditions at one corner that give the same combination of unknowns two values: the one that wins stays, else
 * the one written first. */
static void drop_contradictions(system_ *s) {
  const pn_problem *p = s->rows->problem;
  size_t at = 0, other = 0;
  for (size_t k = 0; k < s->n_blocks; at += s->block[k].points.n, ++k) {
    other = at + s->block[k].points.n;
    for (size_t l = k + 1; l < s->n_blocks; other += s->block[l].points.n, ++l) {
      const pn_ref_block *a = &s->block[k], *b = &s->block[l];
      if (!a->row->piece || !b->row->piece || !a->row->term->is_condition || !b->row->term->is_condition)
        continue;
      for (size_t i = 0; i < a->points.n; ++i)
        for (size_t j = 0; j < b->points.n; ++j) {
          double pa[PN_MAX_COORDINATES], pb[PN_MAX_COORDINATES];
          pn_site sa = a->row->site, sb = b->row->site;
          memcpy(sa.column, a->points.column, sizeof sa.column);
          memcpy(sb.column, b->points.column, sizeof sb.column);
          pn_site_point(p, &sa, i, pa);
          pn_site_point(p, &sb, j, pb);
          bool same = true;
          for (size_t x = 0; x < p->n_coordinates && same; ++x)
            same = pa[x] == pb[x] || (isnan(pa[x]) && isnan(pb[x]));
          double *ra = s->A + at + i, *rb = s->A + other + j;
          double size = s->scale[at + i];
          for (size_t q = 0; same && q < s->n; ++q)
            same = fabs(ra[q * s->m] - rb[q * s->m]) <= 1e-12 * size;
          if (!same || fabs(s->b[at + i] - s->b[other + j]) <= 1e-10 * size)
            continue;
          s->dropped[b->row->term->wins && !a->row->term->wins ? at + i : other + j] = true;
        }
    }
  }
}

static double norm_of(const system_ *s) {
  double sum = 0;
  size_t at = 0;
  for (size_t k = 0; k < s->n_blocks; ++k)
    for (size_t i = 0; i < s->block[k].points.n; ++i, ++at) {
      double r = s->scale[at] > 0 && !s->dropped[at] ? s->block[k].value[i] / s->scale[at] : 0;
      sum += r * r;
    }
  return sqrt(sum);
}

static tn_status begin(system_ *s) {
  TN_TRY(TN_NEW(s->rows->n, &s->block));
  s->n = s->space->offset[s->space->n_unknowns];
  for (size_t k = 0; k < s->rows->n; ++k, ++s->n_blocks) {
    TN_TRY(pn_ref_block_new(s->rows, &s->rows->row[k], s->space, NULL, &s->block[k]));
    s->m += s->block[k].points.n;
  }
  TN_TRY(TN_NEW(s->m * s->n, &s->A));
  TN_TRY(TN_NEW(s->m > s->n ? s->m : s->n, &s->b));
  TN_TRY(TN_NEW(s->m, &s->scale));
  TN_TRY(TN_NEW(s->n, &s->trial));
  return TN_NEW(s->m, &s->dropped);
}

static void end(system_ *s) {
  for (size_t k = 0; s->block && k < s->rows->n; ++k)
    pn_ref_block_free(&s->block[k]);
  tn_free(&s->block);
  tn_free(&s->A);
  tn_free(&s->b);
  tn_free(&s->scale);
  tn_free(&s->trial);
  tn_free(&s->dropped);
}

/* One step from c; `before`: the norm there. */
static tn_status step(system_ *s, double *c, double before, pn_ref_newton *out) {
  double size = 0, change = 0, share = 1, after = INFINITY;
  for (size_t i = 0; i < s->m; ++i)
    for (size_t j = 0; s->dropped[i] && j < s->n; ++j)
      s->A[i + j * s->m] = s->b[i] = 0;
  TN_TRY(pn_ref_least(s->m, s->n, s->A, s->b, &out->null));
  for (size_t j = 0; j < s->n; ++j) {
    size = fmax(size, fabs(c[j]));
    change = fmax(change, fabs(s->b[j]));
  }
  out->change = change / fmax(fmax(size, change), 1e-300);
  for (size_t halvings = 0; halvings < MOST_HALVINGS; ++halvings, share /= 2) {
    for (size_t j = 0; j < s->n; ++j)
      s->trial[j] = c[j] + share * s->b[j];
    TN_TRY(evaluate(s, s->trial, false));
    after = norm_of(s);
    if (after < before || out->change < 1e-6)
      break;
  }
  if (after <= before || out->change < 1e-6)
    memcpy(c, s->trial, s->n * sizeof *c);
  else
    out->change = INFINITY; /* no way down */
  return TN_OK;
}

/* Where an equation has no value at u = 0, as 1/u: a start from 1. */
static tn_status first_values(system_ *s, double *c) {
  bool zero = true;
  for (size_t j = 0; j < s->n; ++j)
    zero &= c[j] == 0;
  TN_TRY(evaluate(s, c, true));
  for (size_t k = 0; zero && k < s->n_blocks; ++k)
    for (size_t i = 0; i < s->block[k].points.n; ++i) {
      bool finite = isfinite(s->block[k].value[i]);
      for (size_t j = 0; j < s->block[k].row->n_calls && finite; ++j)
        finite = s->block[k].row->calls[j].mean || isfinite(s->block[k].slope[j][i]);
      for (size_t u = 0; !finite && u < s->space->n_unknowns; ++u)
        c[s->space->offset[u]] = 1;
    }
  return TN_OK;
}

static tn_status newton(system_ *s, double *c, pn_ref_newton *out) {
  double last = INFINITY;
  TN_TRY(first_values(s, c));
  for (out->steps = 0; out->steps < MOST_STEPS && !out->converged; ++out->steps) {
    if (tn_clock() > s->rows->deadline)
      return TN_OK;
    TN_TRY(evaluate(s, c, true));
    assemble(s);
    if (out->steps == 0)
      drop_contradictions(s);
    TN_TRY(step(s, c, norm_of(s), out));
    if (!isfinite(out->change))
      return TN_OK;
    out->converged = out->change < 1e-10 || (out->change < 1e-7 && out->change > last / 4);
    out->noise = out->change > last * last ? out->change : 1e-14; /* more than a square: rounding */
    last = out->change;
  }
  double size = 0;
  for (size_t j = 0; j < s->n; ++j)
    size = fmax(size, fabs(c[j]));
  out->left = norm_of(s) / sqrt((double)s->m) / fmax(size, 1e-300);
  return TN_OK;
}

tn_status pn_ref_box(pn_ref_rows *rows, const pn_ref_space *space, double *c, pn_ref_newton *out) {
  system_ s = {.rows = rows, .space = space};
  *out = (pn_ref_newton){0};
  tn_status status = begin(&s);
  if (status == TN_OK)
    status = newton(&s, c, out);
  end(&s);
  return status;
}
