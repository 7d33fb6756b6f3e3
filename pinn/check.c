/* check.c: `pinn check`: everything that can be said about a problem without training.
 *
 * Findings are of four kinds: an error is a defect of the file (exit status 2), a warning a likely one, a note
 * a fact worth knowing, a hint a key that may help. The model that the exact solution is evaluated in has all
 * conditions soft, so that a condition that cannot be hard does not hide what else is wrong; the model as it
 * would be trained is made afterwards, for its sizes and channels.
 */
#include "pinn/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tn_status pn_found(pn_checking *c, pn_finding_kind kind, const char *entry, pn_place place,
                   size_t width, const char *format, ...) {
  pn_arena *arena = c->problem->arena;
  char message[2048], *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (place.line)
    TN_TRY(pn_place_text(arena, place, width, message, &text));
  else
    TN_TRY(pn_arena_text(arena, message, strlen(message), &text));
  TN_TRY(tn_grow(&c->finding, c->n_findings, c->n_findings + 1, sizeof *c->finding));
  c->finding[c->n_findings++] = (pn_finding){kind, text, entry};
  c->errors += kind == PN_FOUND_ERROR;
  c->warnings += kind == PN_FOUND_WARNING;
  return TN_OK;
}

/* A failed call as an error of the file. */
static tn_status found_failure(pn_checking *c, const char *entry) {
  char *text = NULL;
  TN_TRY(pn_arena_text(c->problem->arena, tn_error_text(), strlen(tn_error_text()), &text));
  TN_TRY(tn_grow(&c->finding, c->n_findings, c->n_findings + 1, sizeof *c->finding));
  c->finding[c->n_findings++] = (pn_finding){PN_FOUND_ERROR, text, entry};
  ++c->errors;
  return TN_OK;
}

/* ---- The steps in order ------------------------------------------------------------------------------ */

static tn_status take_loader_warnings(pn_checking *c) {
  pn_problem *p = c->problem;
  for (size_t i = 0; i < p->n_warnings; ++i) {
    TN_TRY(tn_grow(&c->finding, c->n_findings, c->n_findings + 1, sizeof *c->finding));
    c->finding[c->n_findings++] = (pn_finding){PN_FOUND_WARNING, p->warnings[i], NULL};
    ++c->warnings;
  }
  return TN_OK;
}

static tn_status soft_model(pn_checking *c) {
  pn_problem *p = c->problem;
  bool *hard = NULL;
  TN_TRY(TN_NEW(p->n_conditions, &hard));
  for (size_t i = 0; i < p->n_conditions; ++i) {
    hard[i] = p->conditions[i].hard;
    p->conditions[i].hard = false;
  }
  tn_status status = pn_model_new(p, TN_F64, &c->model);
  for (size_t i = 0; i < p->n_conditions; ++i)
    p->conditions[i].hard = hard[i];
  tn_free(&hard);
  return status;
}

static tn_status run_steps(pn_checking *c) {
  TN_TRY(take_loader_warnings(c));
  TN_TRY(soft_model(c));
  TN_TRY(pn_check_tables(c));
  if (c->errors > 0)
    return TN_OK; /* nothing can be evaluated */
  TN_TRY(pn_check_start(c));
  TN_TRY(pn_check_reach(c));
  if (c->errors > 0)
    return TN_OK;
  TN_TRY(pn_check_parameters(c));
  TN_TRY(pn_check_units(c));
  TN_TRY(pn_check_exact(c));
  TN_TRY(pn_check_counts(c));
  TN_TRY(pn_check_flux(c));
  TN_TRY(pn_check_direction(c));
  TN_TRY(pn_check_partners(c));
  if (c->errors == 0)
    TN_TRY(pn_check_zero(c));
  return pn_check_conflicts(c);
}

/* ---- What is printed ----------------------------------------------------------------------------------- */

static void put_findings(pn_checking *c, pn_text *out) {
  static const char *const words[] = {"", "warning: ", "note: ", "hint: "};
  for (int kind = PN_FOUND_HINT; kind >= PN_FOUND_ERROR;
       --kind) /* the worst last, where eyes are */
    for (size_t i = 0; i < c->n_findings; ++i) {
      const char *text = c->finding[i].text;
      if ((int)c->finding[i].kind != kind)
        continue;
      pn_putf(out, "%s%s%s", words[kind], text,
              text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    }
}

static double worst_defect(const pn_checking *c, size_t *looked_at) {
  double worst = 0;
  *looked_at = 0;
  for (size_t i = 0; i < c->n_defects; ++i) {
    if (c->defect[i].relative != c->defect[i].relative)
      continue;
    ++*looked_at;
    worst = c->defect[i].relative > worst ? c->defect[i].relative : worst;
  }
  return worst;
}

/* "conditions fit the orders; exact solution: defect 4e-15" */
static void put_words(pn_checking *c, pn_text *out) {
  size_t n = 0;
  double worst = worst_defect(c, &n);
  char number[64];
  if (c->errors + c->warnings == 0)
    pn_put(out, "conditions fit the orders");
  if (c->errors)
    pn_putf(out, "%zu error%s", c->errors, c->errors == 1 ? "" : "s");
  if (c->warnings)
    pn_putf(out, "%s%zu warning%s", c->errors ? ", " : "", c->warnings,
            c->warnings == 1 ? "" : "s");
  snprintf(number, sizeof number, "; exact solution: defect %.1g", worst);
  pn_put(out, n ? number : "; no exact solution to compare with");
}

static void put_json(pn_checking *c) {
  static const char *const kinds[] = {"error", "warning", "note", "hint"};
  pn_json *json = c->json;
  pn_json_array(json, "findings");
  for (size_t i = 0; i < c->n_findings; ++i) {
    pn_json_object(json, NULL);
    pn_json_string(json, "kind", kinds[c->finding[i].kind]);
    pn_json_string(json, "entry", c->finding[i].entry);
    pn_json_string(json, "text", c->finding[i].text);
    pn_json_end(json);
  }
  pn_json_end(json);
  pn_json_array(json, "defects");
  for (size_t i = 0; i < c->n_defects; ++i) {
    pn_json_object(json, NULL);
    pn_json_string(json, "name", c->defect[i].term->name);
    pn_json_number(json, "relative", c->defect[i].relative);
    pn_json_number(json, "limit", c->defect[i].limit);
    pn_json_end(json);
  }
  pn_json_end(json);
  pn_json_integer(json, "errors", (int64_t)c->errors);
  pn_json_integer(json, "warnings", (int64_t)c->warnings);
}

static tn_status report(pn_checking *c, const pn_check_options *options) {
  if (c->json) {
    pn_json_object(c->json, NULL);
    pn_json_string(c->json, "file", c->problem->source.file);
    pn_json_string(c->json, "title", c->problem->title);
  }
  tn_status status = pn_check_facts(c);
  if (status != TN_OK && status != TN_ENOMEM) /* a condition that cannot be hard, and the like */
    status = found_failure(c, NULL);
  TN_TRY(status);
  if (options->at && c->sites)
    TN_TRY(pn_check_at(c, options->at));
  put_findings(c, &c->out);
  pn_put(&c->out, "checked    ");
  put_words(c, &c->out);
  pn_put(&c->out, "\n");
  if (!c->json)
    return TN_OK;
  put_json(c);
  pn_json_end(c->json);
  return pn_json_write(c->json, options->json);
}

/* What there is to tell, also when a step failed. */
static tn_status print(const pn_checking *c, FILE *out) {
  if (!out || !c->out.text)
    return TN_OK;
  if (fwrite(c->out.text, 1, c->out.n, out) != c->out.n || fflush(out) != 0)
    return TN_FAIL(TN_EIO, "the report of `pinn check` could not be written");
  return TN_OK;
}

tn_status pn_check(pn_problem *problem, const pn_check_options *options, FILE *out, size_t *errors,
                   size_t *warnings) {
  pn_checking c = {.problem = problem, .base_mib = pn_peak_mib()};
  tn_status status = TN_OK;
  *errors = *warnings = 0;
  if (options->json)
    TN_TRY(pn_json_new(&c.json));
  c.n_file_tables = problem->n_tables;
  status = run_steps(&c);
  if (status == TN_OK)
    status = report(&c, options);
  if (status == TN_OK)
    status = pn_text_status(&c.out);
  if (status == TN_OK)
    status = print(&c, out);
  *errors = c.errors;
  *warnings = c.warnings;
  pn_check_end(&c);
  pn_json_free(&c.json);
  return status;
}

tn_status pn_check_words(pn_problem *problem, char **text) {
  pn_checking c = {.problem = problem, .n_file_tables = problem->n_tables};
  *text = NULL;
  tn_status status = run_steps(&c);
  if (status == TN_OK) {
    put_words(&c, &c.out);
    status = pn_text_take(&c.out, text, NULL);
  }
  pn_check_end(&c);
  return status;
}

/* The texts of all errors as the error of this call. */
static tn_status fail_by_findings(const pn_checking *c) {
  pn_text text = {0};
  for (size_t i = 0; i < c->n_findings; ++i) {
    if (c->finding[i].kind != PN_FOUND_ERROR && c->finding[i].kind != PN_FOUND_HINT)
      continue;
    size_t n = strlen(c->finding[i].text);
    while (n > 0 && c->finding[i].text[n - 1] == '\n')
      --n;
    pn_put(&text, text.n > 0 ? "\n" : "");
    pn_put(&text, c->finding[i].kind == PN_FOUND_HINT ? "hint: " : "");
    pn_put_bytes(&text, c->finding[i].text, n);
  }
  tn_status status = pn_text_status(&text);
  if (status == TN_OK)
    status = TN_FAIL(TN_EINPUT, "%s", text.text ? text.text : "the check found errors");
  pn_text_free(&text);
  return status;
}

tn_status pn_check_before_run(pn_problem *problem, char **words, char **warnings) {
  pn_checking c = {.problem = problem, .n_file_tables = problem->n_tables};
  pn_text lines = {0};
  *words = *warnings = NULL;
  tn_status status = run_steps(&c);
  if (status == TN_OK && c.errors > 0)
    status = fail_by_findings(&c);
  for (size_t i = 0; status == TN_OK && i < c.n_findings; ++i) {
    if (c.finding[i].kind == PN_FOUND_WARNING)
      pn_putf(&lines, "%swarning: %s", lines.n > 0 ? "\n" : "", c.finding[i].text);
  }
  if (status == TN_OK) {
    put_words(&c, &c.out);
    status = pn_text_take(&c.out, words, NULL);
  }
  if (status == TN_OK)
    status = pn_text_take(&lines, warnings, NULL);
  pn_text_free(&lines);
  pn_check_end(&c);
  return status;
}
