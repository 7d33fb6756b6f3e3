/* cmd_validate.c: `pinn validate`: accuracy measured against arithmetic of multiple precision.
 *
 *   ops       every row of the op table: values and derivatives, rules, f64 and f32
 *   problem   the numbers of a training step of a problem: unknowns, derivatives, residuals, loss,
 * gradients
 */
#include <stdio.h>
#include <string.h>

#include "pinn/cli/options.h"
#include "pinn/pinn.h"
#include "validate/validate.h"

typedef struct request {
  vd_options options;
  const char *json, *markdown, *weights, *dtype, *only;
  size_t points;
  cli_seed seed;
  cli_texts sets;
  bool all;
} request;

/* Report to the terminal and to files; 1 if a row failed. */
static int deliver(const request *r, const vd_report *report, const char *title) {
  char *text = NULL;
  int status = 0;
  tn_status done = vd_report_markdown(report, title, !r->all, &text);
  if (done != TN_OK)
    return cli_failed(done);
  status = cli_write(NULL, text);
  tn_free(&text);
  if (status == 0 && r->markdown != NULL) {
    done = vd_report_markdown(report, title, false, &text);
    status = done == TN_OK ? cli_write(r->markdown, text) : cli_failed(done);
    tn_free(&text);
  }
  if (status == 0 && r->json != NULL) {
    done = vd_report_json(report, title, &text);
    status = done == TN_OK ? cli_write(r->json, text) : cli_failed(done);
    tn_free(&text);
  }
  return status == 0 && vd_report_failures(report) > 0 ? 1 : status;
}

static int validate_ops(request *r) {
  vd_report *report = NULL;
  if (r->points > 0)
    r->options.points = r->points;
  if (r->seed.given)
    r->options.seed = r->seed.value;
  if (r->only != NULL && tn_op_find(r->only) == NULL) {
    return cli_failed(
        TN_FAIL(TN_EINPUT, "pinn validate ops: there is no operation `%s`; `pinn ops` lists them",
                r->only));
  }
  r->options.only = r->only;
  tn_status done = vd_report_new(&report);
  if (done == TN_OK)
    done = vd_audit_rules(&r->options, report);
  if (done == TN_OK)
    done = vd_audit_ops(&r->options, report);
  int status = done == TN_OK ? deliver(r, report, "Operations against MPFR") : cli_failed(done);
  vd_report_free(&report);
  return status;
}

static tn_status audit(const request *r, const pn_audit_set *set, tn_dtype dtype,
                       vd_report *report) {
  vd_binding *bindings = NULL;
  const char **names = NULL;
  tn_status status = TN_NEW(set->n_leaves, &bindings);
  if (status == TN_OK)
    status = TN_NEW(set->n_outputs, &names);
  for (size_t i = 0; status == TN_OK && i < set->n_leaves; ++i)
    bindings[i] = (vd_binding){set->leaves[i], set->buffers[i], set->numbers[i]};
  for (size_t i = 0; status == TN_OK && i < set->n_outputs; ++i)
    names[i] = set->names[i];
  if (status == TN_OK)
    status =
        vd_audit_program(set->program, NULL, set->n_leaves, bindings, names, &r->options, report);
  /* Formulas do not depend on the dtype that runs: the gradient's are judged once, in f64. */
  for (size_t i = 0; status == TN_OK && dtype == TN_F64 && i < set->n_gradients; ++i)
    status =
        vd_audit_gradient(set->program, set->n_leaves, bindings, set->loss, set->first_gradient + i,
                          set->leaves[i], set->names[set->first_gradient + i], &r->options, report);
  tn_free(&bindings);
  tn_free(&names);
  return status;
}

static int validate_problem(request *r, const char *path) {
  pn_audit_options options = {.weights = r->weights, .dtype = TN_F64, .points = r->points};
  pn_problem *problem = NULL;
  pn_audit_set *set = NULL;
  vd_report *report = NULL;
  char title[256];
  if (r->seed.given)
    options.seed = r->options.seed = r->seed.value;
  if (r->dtype != NULL && strcmp(r->dtype, "f64") != 0 && strcmp(r->dtype, "f32") != 0) {
    return cli_failed(TN_FAIL(
        TN_EINPUT, "pinn validate problem: --dtype is `%s`, expected f64 or f32", r->dtype));
  }
  tn_status done = r->dtype != NULL ? tn_dtype_of_name(r->dtype, &options.dtype) : TN_OK;
  if (done == TN_OK)
    done = pn_problem_load(path, r->sets.n, r->sets.text, &problem);
  if (done == TN_OK)
    done = pn_audit_new(problem, &options, &set);
  if (done == TN_OK)
    done = vd_report_new(&report);
  if (done == TN_OK)
    done = audit(r, set, options.dtype, report);
  r->all = true;
  snprintf(title, sizeof title, "%.120s in %s, %s weights, against MPFR", path,
           tn_dtype_name(options.dtype), r->weights != NULL ? "trained" : "fresh");
  int status = done == TN_OK ? deliver(r, report, title) : cli_failed(done);
  vd_report_free(&report);
  pn_audit_free(&set);
  pn_problem_free(&problem);
  return status;
}

static const char help[] =
    "pinn validate ops           needs no file: every operation of the program, its values, its\n"
    "                            derivatives and their rules, at random and at awkward points\n"
    "pinn validate problem FILE  a training step of this problem: unknowns, derivatives, residuals,\n"
    "                            loss and gradients, recomputed with 256 bits\n"
    "\nExit status: 1 if a row misses its bound.\n";

static int run(const cli_command *self, int argc, char **argv) {
  request r = {.options = vd_options_default()};
  const cli_option options[] = {
      {"points", "n", CLI_COUNT, &r.points,
       "random points a row (ops), or of each set (problem; 64)"},
      {"seed", "n", CLI_SEED, &r.seed, "of the points and of fresh weights"},
      {"only", "NAME", CLI_TEXT, &r.only, "ops: this operation alone, as in `pinn ops`"},
      {"weights", "RESULT", CLI_TEXT, &r.weights,
       "problem: trained weights, an out folder or result.h5"},
      {"dtype", "f64|f32", CLI_TEXT, &r.dtype, "problem: number format of the program (f64)"},
      {"set", "path=value", CLI_TEXTS, &r.sets, "problem: change a key of the file"},
      {"json", "FILE", CLI_TEXT, &r.json, "write every row as JSON"},
      {"markdown", "FILE", CLI_TEXT, &r.markdown, "write every row as a Markdown table"},
      {"all", NULL, CLI_FLAG, &r.all, "ops: print every row, not only those that fail"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, help, argc, argv, 1, 2,
                         "what to validate, `ops` or `problem FILE`,", words, &n);
  if (status < 0) {
    if (strcmp(words[0], "ops") == 0 && n == 1)
      status = validate_ops(&r);
    else if (strcmp(words[0], "problem") == 0 && n == 2)
      status = validate_problem(&r, words[1]);
    else if (strcmp(words[0], "problem") == 0)
      status = cli_failed(TN_FAIL(TN_EINPUT,
                                  "pinn validate problem: the problem file is missing\n"
                                  "usage: pinn validate problem FILE [--weights RESULT]"));
    else
      status =
          cli_failed(TN_FAIL(TN_EINPUT, "pinn validate: `%s%s%s`: expected `ops` or `problem FILE`",
                             words[0], n > 1 ? " " : "", n > 1 ? words[1] : ""));
  }
  tn_free(&r.sets.text);
  return status;
}

const cli_command cli_validate = {
    "validate",
    "ops | problem FILE [--weights RESULT] [--dtype f64|f32] [--points n] [--json FILE]",
    "Measures rounding errors and derivatives against arithmetic of multiple precision.", run};
