/* validate.h: what the parts of `pinn validate` share: one request, one way to deliver a report. */
#ifndef PINN_CLI_VALIDATE_H
#define PINN_CLI_VALIDATE_H

#include "pinn/cli/options.h"
#include "validate/validate.h"

/* The command line. Every option is read for every part; a part refuses what has no meaning for it. */
typedef struct cli_validation {
  vd_options options;                 /* seed set from the command line, if given */
  const char *json, *markdown, *html; /* files; NULL: not wanted */
  const char *weights;                /* problem, underflow: trained weights; NULL: fresh */
  const char *dtype;                  /* NULL: the part's own choice */
  const char *only;                   /* ops: one operation */
  const char *order;                  /* ops: one order of differentiation, as text; NULL: all */
  const char *device;                 /* ops: "cuda"; NULL: the CPU */
  const char *provider;               /* ops: a library of the device to judge beside it; NULL: none */
  const char *json_head;              /* members for the head of the JSON object; NULL: none */
  size_t points;                      /* 0: the part's own choice */
  size_t steps;                       /* underflow: of training with a scaler; 0: 200 */
  cli_seed seed;
  cli_texts sets;
  bool all, pure, exhaustive;
} cli_validation;

/* Each runs one part and returns the exit status. `path`: the problem file. */
int cli_validate_ops(cli_validation *v);
int cli_validate_problem(cli_validation *v, const char *path);
int cli_validate_underflow(cli_validation *v, const char *path);

/* The report to the terminal (rows that fail, or every row with v->all) and, whole, to the files asked
 * for. Returns an exit status: 1 if a row failed. */
int cli_deliver(const cli_validation *v, const vd_report *report, const char *title);

#endif
