/* cmd_validate.c: `pinn validate`: accuracy measured against arithmetic of multiple precision.
 *
 *   ops        every row of the op table: values, derivatives and rules      cmd_validate_ops.c
 *   problem    the numbers of a training step of a problem                   cmd_validate_problem.c
 *   underflow  what a low number format loses of them, and at which scales   cmd_validate_underflow.c
 *
 * Here are the options, which the parts share, and the way from a report to its readers.
 */
#include "pinn/cli/validate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes a text that was made, and frees it; or says why there is none. */
static int write_made(tn_status made, const char *path, char **text) {
  int status = made == TN_OK ? cli_write(path, *text) : cli_failed(made);
  tn_free(text);
  return status;
}

/* The report as JSON, with v->json_head first. */
static tn_status json_of(const cli_validation *v, const vd_report *report, const char *title,
                         char **out) {
  char *text = NULL;
  *out = NULL;
  if (v->json_head == NULL)
    return vd_report_json(report, title, out);
  TN_TRY(vd_report_json(report, title, &text));
  size_t room = strlen(v->json_head) + strlen(text) + 3;
  tn_status status = TN_NEW(room, out);
  if (status == TN_OK)
    snprintf(*out, room, "{%s,%s", v->json_head, text + 1);
  tn_free(&text);
  return status;
}

int cli_deliver(const cli_validation *v, const vd_report *report, const char *title) {
  char *text = NULL;
  int status = write_made(vd_report_markdown(report, title, !v->all, &text), NULL, &text);
  if (status == 0 && v->markdown != NULL)
    status = write_made(vd_report_markdown(report, title, false, &text), v->markdown, &text);
  if (status == 0 && v->json != NULL)
    status = write_made(json_of(v, report, title, &text), v->json, &text);
  if (status == 0 && v->html != NULL)
    status = write_made(vd_report_html(report, title, &text), v->html, &text);
  return status == 0 && vd_report_failures(report) > 0 ? 1 : status;
}

static const char help[] =
    "pinn validate ops             needs no file: every operation of the program, its values, its\n"
    "                              derivatives and their rules, at random and at awkward points\n"
    "pinn validate problem FILE    a training step of this problem: unknowns, derivatives,\n"
    "                              residuals, loss and gradients, recomputed with 256 bits\n"
    "pinn validate underflow FILE  what a 16-bit format would lose of these numbers, by layer and\n"
    "                              order of derivative, and the scales that save most\n"
    "\nFORMAT is f64, f32, tf32, bf16 or f16 for ops (all of them unless given); those or tf32x3,\n"
    "bf16x3, f16x3 (three products of the format for one) for problem (f64 unless given); f16, "
    "bf16\n"
    "or tf32 for underflow (f16 unless given).\n"
    "\nExit status: 1 if a row misses its bound, or the format does not carry the step.\n";

/* The folder of a file that is to be written is there: an audit may take minutes. */
static tn_status check_output(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  char folder[4096];
  if (!path)
    return TN_OK;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
  if (access(folder, W_OK) != 0)
    return TN_FAIL(TN_EIO, "%s: cannot be written: %s", path, strerror(errno));
  return TN_OK;
}

/* Points are held all at once, in multiple precision for `ops` and `problem`. */
static tn_status check_points(const cli_validation *v, const char *part) {
  size_t most = strcmp(part, "underflow") == 0 ? 10000000 : 1000000;
  if (v->points <= most)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "pinn validate %s: --points is %zu, expected at most %zu", part,
                 v->points, most);
}

/* The part that the words name. */
static int dispatch(cli_validation *v, size_t n, const char *const *words) {
  const char *part = words[0];
  bool of_file = strcmp(part, "problem") == 0 || strcmp(part, "underflow") == 0;
  if (strcmp(part, "ops") == 0 && n == 1)
    return cli_validate_ops(v);
  if (of_file && n == 1)
    return cli_failed(TN_FAIL(TN_EINPUT,
                              "pinn validate %s: the problem file is missing\n"
                              "usage: pinn validate %s FILE [--weights RESULT]",
                              part, part));
  if (of_file && (v->device != NULL || v->provider != NULL))
    return cli_failed(TN_FAIL(
        TN_EINPUT, "pinn validate %s: --device and --provider are for `pinn validate ops`", part));
  if (of_file)
    return part[0] == 'p' ? cli_validate_problem(v, words[1]) : cli_validate_underflow(v, words[1]);
  return cli_failed(TN_FAIL(TN_EINPUT,
                            "pinn validate: `%s%s%s`: expected `ops`, `problem FILE` or "
                            "`underflow FILE`",
                            part, n > 1 ? " " : "", n > 1 ? words[1] : ""));
}

static int run(const cli_command *self, int argc, char **argv) {
  cli_validation v = {.options = vd_options_default()};
  const cli_option options[] = {
      {"points", "n", CLI_COUNT, &v.points,
       "random points a row (ops), of each set (problem; 64), of each equation (underflow; 10 "
       "000)"},
      {"steps", "n", CLI_COUNT, &v.steps, "underflow: of training with the loss scaler (200)"},
      {"seed", "n", CLI_SEED, &v.seed, "of the points and of fresh weights"},
      {"only", "NAME", CLI_TEXT, &v.only, "ops: this operation alone, as in `pinn ops`"},
      {"order", "n", CLI_TEXT, &v.order, "ops: this order of differentiation alone, 0 to 3"},
      {"exhaustive", NULL, CLI_FLAG, &v.exhaustive, "ops: every input of the 16-bit formats"},
      {"device", "NAME", CLI_TEXT, &v.device,
       "ops: where they run, cpu or cuda; on a device values alone unless --order is given"},
      {"provider", "NAME", CLI_TEXT, &v.provider,
       "ops: a library of the device to show beside its own kernels: cudnn"},
      {"weights", "RESULT", CLI_TEXT, &v.weights,
       "problem, underflow: trained weights, an out folder or result.h5"},
      {"dtype", "FORMAT", CLI_TEXT, &v.dtype, "the number format, see below"},
      {"pure", NULL, CLI_FLAG, &v.pure,
       "problem, underflow: everything in that format, not only products of matrices"},
      {"set", "path=value", CLI_TEXTS, &v.sets, "problem, underflow: change a key of the file"},
      {"json", "FILE", CLI_TEXT, &v.json, "write every row as JSON"},
      {"markdown", "FILE", CLI_TEXT, &v.markdown, "write every row as a Markdown table"},
      {"html", "FILE", CLI_TEXT, &v.html, "write a page with pictures"},
      {"all", NULL, CLI_FLAG, &v.all, "print every row, not only those that fail"},
      {0},
  };
  const char *words[64];
  size_t n = 0;
  if (argc > 64)
    argc = 64;
  int status = cli_start(self, options, help, argc, argv, 1, 2,
                         "what to validate, `ops`, `problem FILE` or `underflow FILE`,", words, &n);
  if (status < 0) {
    if (v.seed.given)
      v.options.seed = v.seed.value;
    tn_status fits = check_points(&v, words[0]);
    const char *outputs[] = {v.json, v.markdown, v.html};
    for (size_t i = 0; fits == TN_OK && i < 3; ++i)
      fits = check_output(outputs[i]);
    status = fits == TN_OK ? dispatch(&v, n, words) : cli_failed(fits);
  }
  tn_free(&v.sets.text);
  return status;
}

const cli_command cli_validate = {
    "validate",
    "ops | problem FILE | underflow FILE [--weights RESULT] [--dtype FORMAT] [--html FILE]",
    "Measures rounding errors and derivatives against arithmetic of multiple precision.", run};
