/* report.c: report.html: one page that says what was solved, how, how well, and how to repeat it.
 *
 * The equations on it are typeset from the parsed tree, not from the file, so a reader sees what
 * was solved and not what was meant. All pictures are inside the page; it needs neither network nor
 * script.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"
#include "pinn/files.h"
#include "pinn/found.h"
#include "pinn/picture.h"
#include "pinn/summary.h"

enum { MAX_CURVES = 12 };

/* A table that grows cell by cell; texts are copied. */
typedef struct cells {
  size_t n, capacity;
  char **text;
  tn_status status;
} cells;

static void add(cells *c, const char *text) {
  if (c->status == TN_OK && c->n == c->capacity) {
    size_t more = 2 * c->capacity + 16;
    c->status = tn_grow(&c->text, c->capacity, more, sizeof *c->text);
    if (c->status == TN_OK)
      c->capacity = more;
  }
  if (c->status == TN_OK)
    c->status = tn_copy_text(text, &c->text[c->n]);
  if (c->status == TN_OK)
    ++c->n;
}

static void add_brief(cells *c, double x) {
  char text[24];
  add(c, pn_brief(x, text));
}

static void add_threshold(cells *c, double x) {
  char text[24];
  add(c, isfinite(x) ? pn_threshold(x, text) : "");
}

static void add_count(cells *c, size_t n) {
  char text[32];
  add(c, pn_grouped(n, text));
}

static void free_cells(cells *c) {
  for (size_t i = 0; i < c->n; ++i)
    tn_free(&c->text[i]);
  tn_free(&c->text);
  *c = (cells){0};
}

static tn_status put_table(pn_report *report, cells *c, size_t columns,
                           const char *const *headers) {
  tn_status status = c->status;
  if (status == TN_OK && c->n > 0)
    pn_report_table(report, columns, headers, c->n / columns, (const char *const *)c->text);
  free_cells(c);
  return status;
}

/* Cells in twos as names and values. */
static tn_status put_pairs(pn_report *report, cells *c) {
  const char **keys = NULL, **values = NULL;
  size_t n = c->n / 2;
  tn_status status = c->status;
  if (status == TN_OK)
    status = TN_NEW(n, &keys);
  if (status == TN_OK)
    status = TN_NEW(n, &values);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    keys[i] = c->text[2 * i];
    values[i] = c->text[2 * i + 1];
  }
  if (status == TN_OK)
    pn_report_pairs(report, n, keys, values);
  tn_free(&keys);
  tn_free(&values);
  free_cells(c);
  return status;
}

/* Name and a text that was written with pn_put. */
static void add_pair(cells *c, const char *name, pn_text *text) {
  if (c->status == TN_OK)
    c->status = pn_text_status(text);
  add(c, name);
  add(c, text->text != NULL ? text->text : "");
  pn_text_free(text);
}

/* ---- Verdict ------------------------------------------------------------------------------------
 * */

static tn_status put_verdict(pn_run *run, pn_report *report) {
  const pn_train_result *r = pn_training_result(run->training);
  pn_text text = {0}, trouble = {0};
  const char *word = run->failure != NULL         ? "NOT FINITE"
                     : r->outcome == PN_CONVERGED ? "CONVERGED"
                     : r->outcome == PN_INTERRUPTED || r->outcome == PN_TERMINATED
                         ? "STOPPED"
                         : "NOT CONVERGED";
  if (run->failure == NULL) {
    pn_put_verdict(&text, run);
    pn_put_trouble(&trouble, run);
  }
  TN_TRY(pn_text_status(&text));
  TN_TRY(pn_text_status(&trouble));
  pn_text line = {0};
  for (const char *c = text.text; c != NULL && *c != '\0'; ++c) {
    if (*c == '\n')
      pn_put(&line, "; ");
    else
      pn_put_bytes(&line, c, 1);
  }
  TN_TRY(pn_text_status(&line));
  pn_report_verdict(report, r->outcome == PN_CONVERGED && run->failure == NULL, word,
                    line.text != NULL ? line.text : "");
  pn_text_free(&line);
  if (run->failure != NULL)
    pn_report_pre(report, run->failure);
  if (trouble.n > 0)
    pn_report_warning(report, trouble.text);
  pn_text_free(&text);
  pn_text_free(&trouble);
  return TN_OK;
}

/* ---- Problem ------------------------------------------------------------------------------------
 * */

static tn_status put_expr(pn_run *run, pn_report *report, const pn_expr *expr) {
  char *math = NULL;
  TN_TRY(pn_expr_mathml(run->problem->arena, expr, run->problem->coordinate_names, &math));
  pn_report_math(report, math);
  return TN_OK;
}

static tn_status put_term(pn_run *run, pn_report *report, const pn_term *term) {
  pn_text text = {0};
  pn_put(&text, term->name);
  if (term->region != NULL)
    pn_putf(&text, " %s %s", pn_where_word(term), term->region);
  if (pn_model_is_hard(run->model, term))
    pn_put(&text, " (built into the solution, holds exactly)");
  TN_TRY(pn_text_status(&text));
  pn_report_paragraph(report, text.text);
  pn_text_free(&text);
  for (size_t r = 0; r < term->n_relations; ++r) {
    if (r > 0 && term->relations[r].whole == term->relations[r - 1].whole)
      continue;
    TN_TRY(put_expr(run, report, term->relations[r].whole));
  }
  return TN_OK;
}

/* A number, or the name of the unknown that an end is. */
static void put_end(pn_text *text, const pn_problem *p, const pn_coordinate *x, int high) {
  size_t unknown = high ? x->hi_unknown : x->lo_unknown;
  if (unknown != PN_NONE)
    pn_put(text, p->unknowns[unknown].name);
  else
    pn_put_number(text, pn_moves(x) ? x->end[high] : high ? x->hi : x->lo);
}

static tn_status put_problem(pn_run *run, pn_report *report) {
  const pn_problem *p = run->problem;
  cells c = {0};
  pn_text text = {0};
  pn_report_section(report, "Problem");
  pn_report_heading(report, p->n_equations == 1 ? "Equation" : "Equations");
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(put_term(run, report, &p->equations[i]));
  if (p->n_conditions > 0)
    pn_report_heading(report, "Conditions");
  for (size_t i = 0; i < p->n_conditions; ++i)
    TN_TRY(put_term(run, report, &p->conditions[i]));
  if (p->n_checks > 0)
    pn_report_heading(report, "Checks: measured, not trained");
  for (size_t i = 0; i < p->n_checks; ++i)
    TN_TRY(put_term(run, report, &p->checks[i]));
  pn_report_heading(report, "Names");
  for (size_t i = 0; i < p->n_coordinates; ++i) {
    const pn_coordinate *x = &p->coordinates[i];
    pn_put(&text, "coordinate in [");
    put_end(&text, p, x, 0);
    pn_put(&text, ", ");
    put_end(&text, p, x, 1);
    pn_putf(&text, "]%s%s", x->role == PN_TIME ? ", time" : "", x->periodic ? ", periodic" : "");
    add_pair(&c, x->name, &text);
  }
  for (size_t i = 0; i < p->n_constants; ++i) {
    pn_put_number(&text, p->constants[i].value);
    add_pair(&c, p->constants[i].name, &text);
  }
  TN_TRY(put_pairs(report, &c));
  for (size_t i = 0; i < p->n_definitions; ++i) {
    if (p->definitions[i].n_of > 0 || p->definitions[i].value == NULL)
      continue;
    pn_putf(&text, "%s stands for", p->definitions[i].name);
    TN_TRY(pn_text_status(&text));
    pn_report_paragraph(report, text.text);
    pn_text_free(&text);
    TN_TRY(put_expr(run, report, p->definitions[i].value));
  }
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    if (p->unknowns[i].exact == NULL)
      continue;
    pn_putf(&text, "exact %s, for the error only", p->unknowns[i].name);
    TN_TRY(pn_text_status(&text));
    pn_report_paragraph(report, text.text);
    pn_text_free(&text);
    TN_TRY(put_expr(run, report, p->unknowns[i].exact));
  }
  return TN_OK;
}

/* ---- Choices ------------------------------------------------------------------------------------
 * */

static tn_status put_choices(pn_run *run, pn_report *report) {
  cells c = {0};
  pn_text text = {0};
  const char *const *scales = NULL;
  size_t n_scales = pn_training_scales(run->training, &scales);
  pn_report_section(report, "How it was solved");
  for (size_t i = 0; i < run->model->n_nets; ++i) {
    pn_put_network(&text, run->model, &run->model->nets[i]);
    add_pair(&c, "network", &text);
  }
  pn_put_plan(&text, pn_training_plan(run->training));
  add_pair(&c, "plan", &text);
  for (size_t i = 0; i < n_scales; ++i) {
    if (scales[i] == NULL || scales[i][0] == '\0')
      continue;
    pn_put(&text, scales[i]);
    add_pair(&c, "scaled", &text);
  }
  if (run->checked != NULL) {
    pn_put(&text, run->checked);
    add_pair(&c, "checked", &text);
  }
  pn_put_machine(&text, run);
  add_pair(&c, "ran on", &text);
  pn_put_precision(&text, run);
  add_pair(&c, "precision", &text);
  pn_put_low(&text, run);
  if (text.n > 0)
    add_pair(&c, "low format", &text);
  pn_put_advice(&text, run);
  if (text.n > 0)
    add_pair(&c, "advice", &text);
  TN_TRY(put_pairs(report, &c));
  pn_report_heading(report, "Derivatives");
  pn_report_paragraph(report,
                      "Each group is one pass through a network with all the derivatives that the "
                      "equations need there; derivatives that enter linearly share a channel.");
  const ag_resolve_report *groups = pn_loss_channels(pn_training_loss(run->training));
  static const char *const headers[] = {"network", "line", "channels", "products", "computes"};
  for (size_t g = 0; g < groups->n_groups && g < 32; ++g) {
    const ag_group_report *group = &groups->group[g];
    char line[32];
    snprintf(line, sizeof line, "%d", group->line);
    add(&c, group->field);
    add(&c, line);
    add_count(&c, group->channels);
    add_count(&c, group->terms);
    add(&c, group->labels);
  }
  return put_table(report, &c, sizeof headers / sizeof *headers, headers);
}

/* ---- Numbers ------------------------------------------------------------------------------------
 * */

static tn_status put_errors(pn_run *run, pn_report *report) {
  const pn_train_result *r = pn_training_result(run->training);
  static const char *const headers[] = {"unknown", "relative L2", "accepted below", "largest error",
                                        "at",      "rms",         "lowest",         "highest"};
  cells c = {0};
  for (size_t i = 0; i < r->n_fields; ++i) {
    const pn_field_error *e = &r->fields[i];
    pn_text place = {0};
    add(&c, run->problem->unknowns[i].name);
    if (e->known) {
      pn_put_place(&place, run->problem, e->place);
      add_brief(&c, e->rel_l2);
    } else {
      add(&c, "unknown");
    }
    add_threshold(&c, e->accept);
    if (e->known)
      add_brief(&c, e->linf);
    else
      add(&c, "");
    add(&c, place.text != NULL ? place.text : "");
    pn_text_free(&place);
    add_brief(&c, e->rms);
    add_brief(&c, e->lowest);
    add_brief(&c, e->highest);
  }
  return put_table(report, &c, sizeof headers / sizeof *headers, headers);
}

static tn_status put_terms(pn_run *run, pn_report *report) {
  const pn_train_result *r = pn_training_result(run->training);
  const pn_sites *sites = pn_training_sites(run->training);
  const pn_loss *loss = pn_training_loss(run->training);
  const double *weighted = pn_loss_last_terms(loss);
  static const char *const headers[] = {"term",   "points",         "loss, raw",
                                        "weight", "loss, weighted", "relative, fresh",
                                        "rms",    "largest",        "at"};
  cells c = {0};
  for (size_t m = 0; m < r->n_terms; ++m) {
    bool trained = m < sites->n_terms; /* else met by construction: no part of the loss */
    double weight = trained ? pn_loss_weight(loss, m) : 0;
    pn_text place = {0};
    pn_put_place(&place, run->problem, r->terms[m].place);
    add(&c, pn_training_checked(run->training, m)->name);
    if (trained) {
      add_count(&c, pn_term_points(sites, m));
      add_brief(&c, weighted[m] / weight);
      add_brief(&c, weight);
      add_brief(&c, weighted[m]);
    } else {
      add(&c, "built in");
      for (size_t k = 0; k < 3; ++k)
        add(&c, "");
    }
    add_brief(&c, r->terms[m].relative);
    add_brief(&c, r->terms[m].rms);
    add_brief(&c, r->terms[m].worst);
    add(&c, place.text != NULL ? place.text : "");
    pn_text_free(&place);
  }
  for (size_t i = 0; i < r->n_checks; ++i) {
    const pn_term_check *t = &r->checks[i];
    pn_text place = {0};
    pn_put_place(&place, run->problem, t->place);
    add(&c, run->problem->checks[i].name);
    add(&c, t->accepted ? isnan(t->limit) ? "check" : "check, passed" : "check, failed");
    for (size_t k = 0; k < 3; ++k)
      add(&c, "");
    add_brief(&c, t->relative);
    add_brief(&c, t->rms);
    add_brief(&c, t->worst);
    add(&c, place.text != NULL ? place.text : "");
    pn_text_free(&place);
  }
  TN_TRY(put_table(report, &c, sizeof headers / sizeof *headers, headers));
  pn_report_paragraph(
      report, "Raw: mean square of the residual over its scale, on the training points. "
              "Relative, rms and largest: on fresh points, four times as many, the residual "
              "over the size of its own terms and in units of the file.");
  return TN_OK;
}

static tn_status put_accuracy(pn_run *run, pn_report *report) {
  pn_report_section(report, "Accuracy");
  TN_TRY(put_errors(run, report));
  TN_TRY(pn_report_found(run, report));
  return put_terms(run, report);
}

/* ---- Training -----------------------------------------------------------------------------------
 * */

/* Columns of the history as curves, and the marks where stages start. */
static tn_status put_curves(pn_run *run, pn_report *report) {
  const pn_history *h = pn_training_history(run->training);
  const pn_sites *sites = pn_training_sites(run->training);
  const pn_plan *plan = pn_training_plan(run->training);
  size_t n = h->n, n_marks = 0, n_terms = h->n_terms < MAX_CURVES ? h->n_terms : MAX_CURVES,
         n_errors = 0;
  double *columns = NULL;
  char *svg = NULL;
  pn_curve losses[MAX_CURVES + 1], errors[MAX_CURVES];
  pn_mark marks[32];
  TN_TRY(TN_NEW(n * (n_terms + h->n_unknowns), &columns));
  losses[0] = (pn_curve){"loss", n, h->step, h->loss, PN_DASHED};
  for (size_t m = 0; m < n_terms; ++m) {
    for (size_t i = 0; i < n; ++i)
      columns[m * n + i] = h->relative[i * h->n_terms + m];
    losses[m + 1] = (pn_curve){sites->terms[m].term->name, n, h->step, columns + m * n, PN_LINE};
  }
  for (size_t u = 0; u < h->n_unknowns && n_errors < MAX_CURVES; ++u) {
    double *to = columns + (n_terms + u) * n;
    for (size_t i = 0; i < n; ++i)
      to[i] = h->error[i * h->n_unknowns + u];
    if (run->problem->unknowns[u].exact != NULL)
      errors[n_errors++] = (pn_curve){run->problem->unknowns[u].name, n, h->step, to, PN_LINE};
  }
  for (size_t i = 0; i < n && n_marks < 32; ++i) {
    if (i > 0 && h->stage[i] == h->stage[i - 1])
      continue;
    size_t stage = (size_t)h->stage[i];
    if (stage >= 1 && stage <= plan->n)
      marks[n_marks++] =
          (pn_mark){i > 0 ? h->step[i - 1] : h->step[i], plan->stages[stage - 1].class_->name};
  }
  pn_plot plots[2] = {{.title = "relative residuals and loss",
                       .x_label = "step",
                       .log_y = true,
                       .n_curves = n_terms + 1,
                       .curves = losses,
                       .n_marks = n_marks,
                       .marks = marks,
                       .width = 420},
                      {.title = "relative L2 error",
                       .x_label = "step",
                       .log_y = true,
                       .n_curves = n_errors,
                       .curves = errors,
                       .n_marks = n_marks,
                       .marks = marks,
                       .width = 420}};
  tn_status status = pn_plots_svg(n_errors > 0 ? 2 : 1, plots, 2, &svg);
  if (status == TN_OK)
    pn_report_figure(report, svg, NULL);
  tn_free(&svg);
  tn_free(&columns);
  return status;
}

static tn_status put_training(pn_run *run, pn_report *report) {
  const pn_train_result *r = pn_training_result(run->training);
  const pn_plan *plan = pn_training_plan(run->training);
  static const char *const headers[] = {"stage", "method", "steps", "seconds", "loss", "ended"};
  cells c = {0};
  pn_report_section(report, "Training");
  if (pn_training_history(run->training)->n > 0)
    TN_TRY(put_curves(run, report));
  for (size_t i = 0; i < r->n_stages && i < plan->n; ++i) {
    char number[32];
    snprintf(number, sizeof number, "%zu", i + 1);
    add(&c, number);
    add(&c, plan->stages[i].class_->name);
    add_count(&c, r->stages[i].steps);
    snprintf(number, sizeof number, "%.1f", r->stages[i].seconds);
    add(&c, number);
    if (r->stages[i].steps > 0)
      add_brief(&c, r->stages[i].loss);
    else
      add(&c, "");
    add(&c, r->stages[i].reason[0] != '\0' ? r->stages[i].reason : "not reached");
  }
  return put_table(report, &c, sizeof headers / sizeof *headers, headers);
}

/* ---- Repeating it -------------------------------------------------------------------------------
 * */

static tn_status put_repeat(pn_run *run, pn_report *report) {
  const pn_problem *p = run->problem;
  cells c = {0};
  pn_text text = {0};
  pn_report_section(report, "Repeating it");
  if (run->options->command != NULL)
    pn_report_pre(report, run->options->command);
  pn_putf(&text, "%llu", (unsigned long long)run->seed);
  add_pair(&c, "seed", &text);
  pn_putf(&text, "pinn %s, HDF5 %s, %s", pn_version(), pn_hdf5_version(), pn_blas_name());
  add_pair(&c, "versions", &text);
  pn_put_fixed(&text, run->seconds, 1);
  pn_put(&text, " s, ");
  pn_put_fixed(&text, pn_peak_mib(), 0);
  pn_put(&text, " MiB at most");
  add_pair(&c, "took", &text);
  pn_put(&text, p->source.file);
  add_pair(&c, "file", &text);
  pn_put(&text, run->sha256);
  add_pair(&c, "SHA-256 of it", &text);
  for (size_t i = 0; i < p->n_overrides; ++i) {
    size_t length = strlen(p->overrides[i]);
    pn_put_bytes(&text, p->overrides[i], length < 200 ? length : 200);
    if (length >= 200)
      pn_put(&text, " ...");
    add_pair(&c, "--set", &text);
  }
  TN_TRY(put_pairs(report, &c));
  pn_report_folded(report, "The problem file", p->source.text);
  return TN_OK;
}

static tn_status put_all(pn_run *run, pn_report *report) {
  TN_TRY(put_verdict(run, report));
  if (run->warnings != NULL && run->warnings[0] != '\0')
    pn_report_warning(report, run->warnings);
  TN_TRY(put_problem(run, report));
  if (run->failure == NULL) {
    TN_TRY(put_accuracy(run, report));
    TN_TRY(pn_report_fields(run, report));
  }
  TN_TRY(put_training(run, report));
  TN_TRY(put_choices(run, report));
  return put_repeat(run, report);
}

tn_status pn_report_page(pn_run *run) {
  pn_report *report = NULL;
  char *path = NULL;
  const char *title = run->problem->title != NULL ? run->problem->title : run->problem->source.file;
  TN_TRY(pn_report_new(title, &report));
  tn_status status = put_all(run, report);
  if (status == TN_OK)
    status = pn_path_join(run->folder, "report.html", &path);
  if (status == TN_OK)
    status = pn_report_write(report, path);
  tn_free(&path);
  pn_report_free(&report);
  return status;
}
