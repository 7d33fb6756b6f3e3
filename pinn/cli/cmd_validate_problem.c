/* cmd_validate_problem.c: `pinn validate problem FILE`: the numbers of a training step against MPFR (audit.c).
 */
#include <stdio.h>
#include <string.h>

#include "pinn/cli/audit.h"
#include "pinn/cli/validate.h"

static tn_status refuse_options(const cli_validation *v) {
  if (v->steps > 0)
    return TN_FAIL(TN_EINPUT,
                   "pinn validate problem: --steps is for `pinn validate underflow FILE`");
  if (v->only == NULL && v->order == NULL && !v->exhaustive)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "pinn validate problem: --%s is for `pinn validate ops`",
                 v->only != NULL    ? "only"
                 : v->order != NULL ? "order"
                                    : "exhaustive");
}

static tn_status format_of(const cli_validation *v, size_t *judged) {
  TN_TRY(refuse_options(v));
  const char *name = v->dtype != NULL ? v->dtype : "f64";
  for (*judged = 0; *judged < CLI_FORMATS; ++*judged) {
    const cli_format *f = &cli_formats[*judged];
    if (strcmp(name, f->name) != 0 && strcmp(name, f->long_name) != 0)
      continue;
    if (v->pure && f->pure_name == NULL)
      return TN_FAIL(TN_EINPUT,
                     "pinn validate problem: --pure goes with --dtype bf16 or f16; it is `%s`",
                     name);
    return TN_OK;
  }
  return TN_FAIL(TN_EINPUT,
                 "pinn validate problem: --dtype is `%s`, expected f64, f32, tf32, bf16, f16, tf32x3, "
                 "bf16x3 or f16x3",
                 name);
}

int cli_validate_problem(cli_validation *v, const char *path) {
  static const size_t every[CLI_FORMATS] = {0, 1, 2, 3, 4, 5, 6, 7};
  pn_problem *problem = NULL;
  vd_report *report = NULL;
  size_t judged = 0;
  char title[256];
  tn_status done = format_of(v, &judged);
  if (done == TN_OK)
    done = pn_problem_load(path, v->sets.n, v->sets.text, &problem);
  if (done == TN_OK)
    done = vd_report_new(&report);
  const cli_audit a = {.weights = v->weights,
                       .points = v->points,
                       .seed = v->seed.value,
                       .pure = v->pure,
                       .formulas = judged == 0,
                       .options = &v->options,
                       .n_formats = CLI_FORMATS,
                       .formats = every,
                       .judged = judged};
  if (done == TN_OK)
    done = cli_audit_problem(&a, problem, report, NULL);
  snprintf(title, sizeof title, "%.120s in %s%s, %s weights, against MPFR", path,
           v->pure ? "pure " : "", cli_formats[judged < CLI_FORMATS ? judged : 0].name,
           v->weights != NULL ? "trained" : "fresh");
  int status = done == TN_OK ? cli_deliver(v, report, title) : cli_failed(done);
  vd_report_free(&report);
  pn_problem_free(&problem);
  return status;
}
