/* found.c: parameters as words, JSON and a table.
 *
 * Terminals get six digits; summary.json and result.h5 all that a double has, also of the values on
 * the way (trace), so that what single precision would do to a parameter can be seen.
 */
#include "pinn/found.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"

static const pn_parameter_result *found(const pn_run *run, size_t i) {
  return &pn_training_result(run->training)->parameters[i];
}

void pn_put_starts(pn_text *text, const pn_problem *p) {
  for (size_t i = 0; i < p->n_parameters; ++i) {
    const pn_parameter *k = &p->parameters[i];
    pn_putf(text, "%s%s from %.6g", i > 0 ? "; " : "", k->name, k->start);
    if (isfinite(k->lo))
      pn_putf(text, " in [%.6g, %.6g]", k->lo, k->hi);
    if (k->log)
      pn_put(text, ", logarithmic");
  }
}

static void put_one(pn_text *text, const pn_run *run, size_t i) {
  const pn_parameter *k = &run->problem->parameters[i];
  const pn_parameter_result *r = found(run, i);
  char a[24], b[24];
  pn_putf(text, "%s = %.6g", k->name, r->value);
  if (!isnan(k->exact)) {
    pn_putf(text, " (exact %.6g, error %s", k->exact, pn_brief(r->error, a));
    if (!isnan(k->accept) || !r->accepted)
      pn_putf(text, " %s %s", r->accepted ? "<=" : ">", pn_threshold(r->accept, b));
    pn_put(text, ")");
  }
  if (!isnan(r->std))
    pn_putf(text, ", 95 %% in [%.5g, %.5g]", r->low, r->high);
  if (r->at_bound)
    pn_put(text, ", at one of its bounds");
  if (!isnan(r->std) && fabs(r->correlation) > 0.95)
    pn_putf(text, ", correlated with %s (%.3f)", run->problem->parameters[r->with].name,
            r->correlation);
  if (!isnan(r->std) && !r->identified)
    pn_put(text, ": not identifiable, the data leave it open");
}

/* "q: standard deviation 2.1e-3 (median), at most 3e-2 at x = -1; far above it at x = -1, 0, 1". */
static void put_spread(pn_text *text, const pn_run *run, size_t u) {
  const pn_spread *s = &pn_training_result(run->training)->identified.spread[u];
  char a[24], b[24];
  pn_putf(text, "%s: standard deviation %s (median), largest %s at ", run->problem->unknowns[u].name,
          pn_brief(s->median, a), pn_brief(s->largest, b));
  pn_put_place(text, run->problem, s->place);
  for (size_t i = 0; i < s->n_peaks; ++i)
    pn_putf(text, "%s%.3g",
            i ? ", " : "; not identifiable from the data, the network bridges it, near ", s->peak[i]);
}

void pn_put_found(pn_text *text, const pn_run *run) {
  for (size_t i = 0; i < run->problem->n_parameters; ++i) {
    if (i > 0)
      pn_put(text, "\n");
    put_one(text, run, i);
  }
  const pn_identified *known = &pn_training_result(run->training)->identified;
  for (size_t u = 0; known->done && u < run->problem->n_unknowns; ++u) {
    if (!known->spread[u].known)
      continue;
    pn_put(text, text->n > 0 ? "\n" : "");
    put_spread(text, run, u);
  }
  if (known->why[0])
    pn_putf(text, "%s%s", text->n > 0 ? "\n" : "", known->why);
}

/* ---- summary.json ---------------------------------------------------------------------------- */

static tn_status put_trace(pn_json *json, const pn_history *h, size_t i) {
  double *column = NULL;
  TN_TRY(TN_NEW(h->n, &column));
  for (size_t k = 0; k < h->n; ++k)
    column[k] = h->parameter[k * h->n_parameters + i];
  pn_json_numbers(json, "trace", h->n, column);
  tn_free(&column);
  return TN_OK;
}

static void put_hidden(pn_json *json, const pn_run *run) {
  const pn_identified *known = &pn_training_result(run->training)->identified;
  if (!known->done)
    return;
  pn_json_boolean(json, "sigma_known", known->sigma_known);
  pn_json_object(json, "hidden");
  for (size_t u = 0; u < run->problem->n_unknowns; ++u) {
    const pn_spread *s = &known->spread[u];
    if (!s->known)
      continue;
    pn_json_object(json, run->problem->unknowns[u].name);
    pn_json_number(json, "std_median", s->median);
    pn_json_number(json, "std_largest", s->largest);
    pn_json_numbers(json, "not_identifiable_near", s->n_peaks, s->peak);
    pn_json_end(json);
  }
  pn_json_end(json);
}

tn_status pn_json_found(pn_json *json, const pn_run *run) {
  const pn_problem *p = run->problem;
  const pn_history *h = pn_training_history(run->training);
  pn_json_object(json, "parameters");
  for (size_t i = 0; i < p->n_parameters; ++i) {
    const pn_parameter *k = &p->parameters[i];
    const pn_parameter_result *r = found(run, i);
    pn_json_object(json, k->name);
    pn_json_number(json, "value", run->failure ? NAN : r->value);
    pn_json_number(json, "start", k->start);
    pn_json_number(json, "exact", k->exact);
    pn_json_number(json, "error", run->failure ? NAN : r->error);
    pn_json_number(json, "accept", k->accept);
    pn_json_number(json, "std", r->std);
    pn_json_number(json, "low", r->low);
    pn_json_number(json, "high", r->high);
    pn_json_number(json, "correlation", r->correlation);
    pn_json_boolean(json, "identified", !isnan(r->std) && r->identified);
    pn_json_boolean(json, "at_bound", r->at_bound);
    TN_TRY(put_trace(json, h, i));
    pn_json_end(json);
  }
  pn_json_end(json);
  if (p->n_parameters)
    pn_json_numbers(json, "trace_steps", h->n, h->step);
  put_hidden(json, run);
  return TN_OK;
}

/* ---- report.html ----------------------------------------------------------------------------- */

enum { COLUMNS = 6, CELL = 64 };

static void fill_row(const pn_run *run, size_t i, char (*cell)[CELL]) {
  const pn_parameter *k = &run->problem->parameters[i];
  const pn_parameter_result *r = found(run, i);
  snprintf(cell[0], CELL, "%.63s", k->name);
  snprintf(cell[1], CELL, "%.10g%s", r->value, r->at_bound ? ", at a bound" : "");
  if (isfinite(k->lo))
    snprintf(cell[2], CELL, "%.6g in [%.6g, %.6g]%s", k->start, k->lo, k->hi, k->log ? ", log" : "");
  else
    snprintf(cell[2], CELL, "%.6g%s", k->start, k->log ? ", log" : "");
  if (!isnan(r->std))
    snprintf(cell[5], CELL, "%.5g to %.5g%s", r->low, r->high, r->identified ? "" : ", open");
  if (isnan(k->exact))
    return;
  char brief[24];
  snprintf(cell[3], CELL, "%.10g", k->exact);
  snprintf(cell[4], CELL, "%s", pn_brief(r->error, brief));
}

/* What the terminal says, of fields that no data show. */
static tn_status put_words(const pn_run *run, pn_report *report) {
  const pn_identified *known = &pn_training_result(run->training)->identified;
  for (size_t u = 0; known->done && u < run->problem->n_unknowns; ++u) {
    pn_text text = {0};
    if (!known->spread[u].known)
      continue;
    put_spread(&text, run, u);
    TN_TRY(pn_text_status(&text));
    pn_report_paragraph(report, text.text);
    pn_text_free(&text);
  }
  return TN_OK;
}

tn_status pn_report_found(const pn_run *run, pn_report *report) {
  static const char *const headers[COLUMNS] = {"parameter", "value", "start", "exact",
                                               "relative error", "95 %"};
  size_t n = run->problem->n_parameters * COLUMNS;
  char(*cell)[CELL] = NULL;
  const char **text = NULL;
  TN_TRY(put_words(run, report));
  if (n == 0)
    return TN_OK;
  TN_TRY(TN_NEW(n, &cell));
  tn_status status = TN_NEW(n, &text);
  for (size_t i = 0; status == TN_OK && i < run->problem->n_parameters; ++i)
    fill_row(run, i, cell + i * COLUMNS);
  for (size_t i = 0; status == TN_OK && i < n; ++i)
    text[i] = cell[i];
  if (status == TN_OK) {
    pn_report_heading(report, "Parameters");
    pn_report_table(report, COLUMNS, headers, n / COLUMNS, text);
  }
  tn_free(&text);
  tn_free(&cell);
  return status;
}
