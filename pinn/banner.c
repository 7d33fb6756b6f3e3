/* banner.c: what pinn solve prints, in 80 columns.
 *
 * First everything that was chosen (nothing is silent), then a table with one line for about a
 * tenth of a stage, then why it stopped, what fresh points say, and the verdict. A watched terminal
 * also gets a line after two seconds of silence.
 */
#include "pinn/banner.h"
#include "pinn/found.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = PN_LABEL };

static tn_status flush_text(FILE *out, pn_text *text) {
  tn_status status = pn_text_status(text);
  if (status == TN_OK && text->text != NULL)
    fputs(text->text, out);
  pn_text_free(text);
  return status;
}

static void put_wrapped(FILE *out, const char *label, size_t indent, const char *text) {
  pn_text lines = {0};
  pn_put_wrapped(&lines, label, indent, text);
  if (lines.text != NULL)
    fputs(lines.text, out);
  pn_text_free(&lines);
}

static tn_status put_text(FILE *out, const char *label, pn_text *text) {
  tn_status status = pn_text_status(text);
  if (status == TN_OK)
    put_wrapped(out, label, LABEL, text->text != NULL ? text->text : "");
  pn_text_free(text);
  return status;
}

/* ---- Before the first step ------------------------------------------------------------------- */

static tn_status put_constants(const pn_run *run, FILE *out) {
  const pn_problem *p = run->problem;
  pn_text text = {0};
  for (size_t i = 0; i < p->n_constants; ++i) {
    char number[32];
    snprintf(number, sizeof number, "%.6g", p->constants[i].value);
    pn_putf(&text, "%s%s = %s", i > 0 ? ", " : "", p->constants[i].name, number);
  }
  return p->n_constants > 0 ? put_text(out, "constants", &text) : TN_OK;
}

static tn_status put_scales(const pn_run *run, FILE *out) {
  const pn_problem *p = run->problem;
  const char *const *texts = NULL;
  size_t n = pn_training_scales(run->training, &texts);
  pn_text text = {0};
  pn_put_input_maps(&text, p);
  for (size_t i = 0; i < n; ++i) {
    if (texts[i] != NULL && texts[i][0] != '\0')
      pn_putf(&text, "; %s", texts[i]);
  }
  return put_text(out, "scaled", &text);
}

static void put_duration(pn_text *text, double seconds) {
  if (seconds < 99.5)
    pn_putf(text, "%d s", (int)ceil(seconds));
  else
    pn_putf(text, "%d min", (int)ceil(seconds / 60));
}

static bool is_low(const pn_run *run) {
  pn_precision p;
  return pn_training_low(run->training, &p);
}

/* Only where one word does not say it. */
static tn_status put_precision_line(const pn_run *run, FILE *out) {
  const pn_plan *plan = pn_training_plan(run->training);
  const pn_precision *p = &plan->stages[0].precision;
  pn_text text = {0};
  if (!plan->mixed && p->low == TN_F64)
    return TN_OK;
  pn_put_precision(&text, run);
  return put_text(out, "precision", &text);
}

static tn_status put_plan_line(const pn_run *run, FILE *out) {
  const pn_plan *plan = pn_training_plan(run->training);
  const pn_loss *loss = pn_training_loss(run->training);
  double steps = 0, bytes = (double)pn_loss_bytes(loss);
  double n = (double)run->model->n_theta;
  bool costly = false; /* then a step's time says little of a run's */
  for (size_t i = 0; i < plan->n; ++i) {
    costly = costly || plan->stages[i].class_->flags & PN_OPT_COSTLY;
    steps += (double)plan->stages[i].stage.steps;
    if (plan->stages[i].class_->flags & PN_OPT_DENSE)
      bytes += 8 * n * n;
  }
  pn_text text = {0};
  pn_put_plan(&text, plan);
  pn_put(&text, "; ");
  pn_put_machine(&text, run);
  pn_putf(&text, ", %s, seed %llu",
          pn_precision_name(pn_training_plan(run->training)->stages[0].precision.low),
          (unsigned long long)run->seed);
  double seconds = costly ? INFINITY : steps * pn_training_step_seconds(run->training);
  if (run->limit > 0 && run->limit < seconds)
    seconds = run->limit;
  if (run->problem->causal)
    pn_putf(&text, "; causal, %zu chunks", run->problem->chunks);
  if (isfinite(seconds)) {
    pn_put(&text, "; up to ");
    put_duration(&text, seconds);
  }
  if (!costly)
    pn_putf(&text, ", %d MiB", (int)ceil(bytes / (1 << 20)));
  return put_text(out, "plan", &text);
}

static void put_head(FILE *out, pn_text *line) {
  put_wrapped(out, line->text != NULL ? line->text : "", 0, "");
}

/* How many columns of terms fit beside the errors, and whether one for the largest of the rest
 * follows. */
typedef struct columns {
  size_t errors, terms, parameters;
  bool rest;
  bool scale; /* the loss scale and, behind a slash, skipped steps of the stage */
} columns;

static columns choose_columns(const pn_run *run) {
  const pn_sites *sites = pn_training_sites(run->training);
  columns c = {.terms = sites->n_terms, .parameters = run->problem->n_parameters};
  for (size_t i = 0; i < run->problem->n_unknowns; ++i)
    c.errors += run->problem->unknowns[i].exact != NULL;
  c.scale = is_low(run);
  if (c.parameters > 2)
    c.parameters = 2;
  size_t most = (c.scale ? 4 : 5) - c.parameters;
  if (c.errors > most - 2)
    c.errors = most - 2;
  if (c.errors + c.terms > most) {
    c.terms = most - c.errors - 1;
    c.rest = true;
  }
  return c;
}

static void put_table_head(const pn_run *run, FILE *out) {
  const pn_sites *sites = pn_training_sites(run->training);
  columns c = choose_columns(run);
  fprintf(out, "%-13s%8s%8s", "stage", "step", "loss");
  for (size_t m = 0; m < c.terms; ++m)
    fprintf(out, " %8.8s", sites->terms[m].term->name);
  if (c.rest)
    fprintf(out, " %8s", "others");
  for (size_t i = 0, shown = 0; shown < c.errors; ++i) {
    char head[32];
    if (run->problem->unknowns[i].exact == NULL)
      continue;
    snprintf(head, sizeof head, "error %.2s", run->problem->unknowns[i].name);
    fprintf(out, " %8s", head);
    ++shown;
  }
  for (size_t i = 0; i < c.parameters; ++i)
    fprintf(out, " %8.8s", run->problem->parameters[i].name);
  if (c.scale)
    fprintf(out, " %8s", "scale");
  fprintf(out, "  left\n");
}

tn_status pn_banner_start(pn_run *run, FILE *out) {
  const pn_problem *p = run->problem;
  if (out == NULL)
    return TN_OK;
  pn_text text = {0};
  pn_putf(&text, "pinn %s   %s   %s", pn_version(), p->source.file,
          p->title != NULL ? p->title : "");
  TN_TRY(pn_text_status(&text));
  put_head(out, &text);
  pn_text_free(&text);
  tn_status status = pn_put_networks(&text, run->model);
  if (status == TN_OK)
    status = pn_put_terms(&text, run->model, pn_training_sites(run->training));
  TN_TRY(status == TN_OK ? flush_text(out, &text) : status);
  TN_TRY(put_constants(run, out));
  pn_put_starts(&text, p);
  if (text.n > 0)
    TN_TRY(put_text(out, "parameters", &text));
  pn_put_channels(&text, run->model, pn_loss_channels(pn_training_loss(run->training)));
  TN_TRY(put_text(out, "computes", &text));
  TN_TRY(put_scales(run, out));
  if (run->checked != NULL)
    put_wrapped(out, "checked", LABEL, run->checked);
  TN_TRY(put_precision_line(run, out));
  TN_TRY(put_plan_line(run, out));
  if (run->resumed) {
    char step[32];
    pn_putf(&text, "%s at step %s", run->folder, pn_grouped(run->resumed_step, step));
    TN_TRY(put_text(out, "resumed", &text));
  }
  if (run->warnings != NULL && run->warnings[0] != '\0')
    fprintf(out, "%s\n", run->warnings);
  put_table_head(run, out);
  fflush(out);
  return TN_OK;
}

/* ---- During -------------------------------------------------------------------------------------
 * */

static bool wanted(const pn_run *run, const pn_progress *g) {
  if (g->step == run->printed_step && g->step > 0)
    return false;
  if (g->stage_end)
    return true;
  size_t tenth = g->stage_steps / 10 > 0 ? g->stage_steps / 10 : 1;
  if (g->recorded && g->stage_step % tenth == 0 && g->stage_step > 0)
    return true;
  return run->options->live && pn_clock() - run->printed >= 2;
}

static void put_left(FILE *out, double seconds) {
  if (!isfinite(seconds) || seconds < 0)
    seconds = 0;
  unsigned long s = (unsigned long)ceil(seconds);
  char text[32];
  if (s < 3600)
    snprintf(text, sizeof text, "%lu:%02lu", s / 60, s % 60);
  else
    snprintf(text, sizeof text, "%lu:%02lu h", s / 3600, s / 60 % 60);
  fprintf(out, " %5s\n", text);
}

/* "2^16", "2^14/2". */
static void put_scale(FILE *out, const pn_progress *g) {
  char text[48] = "", power[24];
  if (!isnan(g->loss_scale)) {
    int n = snprintf(text, sizeof text, "%s", pn_power(g->loss_scale, power));
    if (g->skips)
      snprintf(text + n, sizeof text - (size_t)n, "/%zu", g->skips);
  }
  fprintf(out, " %8.8s", text);
}

/* As many digits as eight columns have room for. */
static void put_parameter(FILE *out, double x) {
  char text[32];
  for (int digits = 6; digits > 0; --digits) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    if (strlen(text) <= 8)
      break;
  }
  fprintf(out, " %8s", text);
}

tn_status pn_banner_progress(pn_run *run, const pn_progress *g, FILE *out) {
  if (out == NULL || !wanted(run, g))
    return TN_OK;
  columns c = choose_columns(run);
  char stage[64], number[32], brief[24];
  double rest = 0;
  run->printed = pn_clock();
  run->printed_step = g->step;
  snprintf(stage, sizeof stage, "%zu/%zu %.9s", g->stage, g->n_stages, g->optimizer);
  fprintf(out, "%-13s%8s%8s", stage, pn_grouped(g->step, number), pn_brief(g->loss, brief));
  for (size_t m = 0; m < g->n_terms; ++m) {
    if (m < c.terms)
      fprintf(out, " %8s", pn_brief(g->relative[m], brief));
    else if (!(g->relative[m] <= rest))
      rest = g->relative[m];
  }
  if (c.rest)
    fprintf(out, " %8s", pn_brief(rest, brief));
  for (size_t i = 0, shown = 0; i < g->n_errors && shown < c.errors; ++i) {
    if (run->problem->unknowns[i].exact == NULL)
      continue;
    fprintf(out, " %8s", isnan(g->errors[i]) ? "" : pn_brief(g->errors[i], brief));
    ++shown;
  }
  for (size_t i = 0; i < c.parameters; ++i)
    put_parameter(out, g->parameters[i]);
  if (c.scale)
    put_scale(out, g);
  put_left(out, g->seconds_left);
  fflush(out);
  return TN_OK;
}

/* ---- After --------------------------------------------------------------------------------------
 * */

static tn_status put_stops(const pn_run *run, FILE *out) {
  const pn_train_result *r = pn_training_result(run->training);
  const pn_plan *plan = pn_training_plan(run->training);
  pn_text text = {0};
  for (size_t i = 0; i < r->n_stages; ++i) {
    if (r->stages[i].reason[0] == '\0')
      continue;
    if (text.n > 0)
      pn_put(&text, "\n");
    pn_putf(&text, "%s: %s", plan->stages[i].class_->name, r->stages[i].reason);
  }
  return text.n > 0 ? put_text(out, "stopped", &text) : TN_OK;
}

static tn_status put_fresh(const pn_run *run, FILE *out) {
  const pn_train_result *r = pn_training_result(run->training);
  pn_text text = {0};
  char brief[24];
  if (r->n_terms == 0)
    return TN_OK;
  for (size_t m = 0; m < r->n_terms; ++m) {
    pn_putf(&text, "%s%s %s", m > 0 ? ",  " : "", pn_training_checked(run->training, m)->name,
            pn_brief(r->terms[m].relative, brief));
    if (!isnan(r->terms[m].noise))
      pn_putf(&text, " (%.3g sigma)", r->terms[m].noise);
  }
  pn_put(&text, "  (relative)");
  return put_text(out, "fresh pts", &text);
}

static tn_status put_checks(const pn_run *run, FILE *out) {
  pn_text text = {0};
  if (run->problem->n_checks == 0)
    return TN_OK;
  for (size_t i = 0; i < run->problem->n_checks; ++i) {
    pn_put(&text, i > 0 ? ",  " : "");
    pn_put_check(&text, run, i);
  }
  pn_put(&text, "  (relative)");
  return put_text(out, "checks", &text);
}

static const char *outcome_word(const pn_run *run) {
  if (run->failure != NULL)
    return "NOT FINITE";
  switch (pn_training_result(run->training)->outcome) {
  case PN_CONVERGED:
    return "CONVERGED";
  case PN_INTERRUPTED:
  case PN_TERMINATED:
    return "STOPPED";
  default:
    return "NOT CONVERGED";
  }
}

/* Warnings from before the first step have scrolled away; what converged may be one of many. */
static tn_status put_note(const pn_run *run, FILE *out) {
  static const char word[] = "warning: ";
  size_t n = 0;
  for (const char *line = run->warnings; line != NULL && *line != '\0';) {
    n += strncmp(line, word, sizeof word - 1) == 0;
    line = strchr(line, '\n');
    line = line != NULL ? line + 1 : NULL;
  }
  if (n == 0 || run->failure != NULL)
    return TN_OK;
  pn_text text = {0};
  pn_putf(&text, "%zu warning%s of the check stand%s above; the answer may not be unique", n,
          n == 1 ? "" : "s", n == 1 ? "s" : "");
  return put_text(out, "note", &text);
}

tn_status pn_banner_end(pn_run *run, FILE *out) {
  if (out == NULL)
    return TN_OK;
  const pn_train_result *r = pn_training_result(run->training);
  pn_text text = {0};
  TN_TRY(put_stops(run, out));
  if (run->failure == NULL) {
    TN_TRY(put_fresh(run, out));
    TN_TRY(put_checks(run, out));
    pn_put_found(&text, run);
    if (text.n > 0)
      TN_TRY(put_text(out, "found", &text));
    pn_putf(&text, "%s  ", outcome_word(run));
    size_t indent = text.n;
    char head[32];
    snprintf(head, sizeof head, "%.20s", text.text != NULL ? text.text : "");
    pn_text_free(&text);
    pn_put_verdict(&text, run);
    if (r->outcome != PN_INTERRUPTED && r->outcome != PN_TERMINATED) {
      pn_text trouble = {0};
      pn_put_trouble(&trouble, run);
      if (trouble.n > 0)
        pn_putf(&text, "\n%s", trouble.text);
      TN_TRY(pn_text_status(&trouble));
      pn_text_free(&trouble);
    }
    TN_TRY(pn_text_status(&text));
    put_wrapped(out, head, indent, text.text != NULL ? text.text : "");
    pn_text_free(&text);
  }
  pn_put_low(&text, run);
  if (text.n > 0)
    TN_TRY(put_text(out, "precision", &text));
  pn_put_advice(&text, run);
  if (text.n > 0)
    TN_TRY(put_text(out, "advice", &text));
  TN_TRY(put_note(run, out));
  pn_putf(&text, "%s: result.h5 summary.json report.html    %d s, %d MiB", run->folder,
          (int)ceil(run->seconds), (int)ceil(pn_peak_mib()));
  TN_TRY(put_text(out, "written", &text));
  fflush(out);
  return TN_OK;
}
