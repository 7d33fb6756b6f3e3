/* found.h: what a run found besides the unknowns, as words, JSON and tables: parameters. Inside pinn/ only. */
#ifndef PINN_FOUND_H
#define PINN_FOUND_H

#include "pinn/html.h"
#include "pinn/json.h"
#include "pinn/run.h"
#include "pinn/text.h"

/* "a from 1; b from 0.1 in [0.001, 1], logarithmic"; "" without parameters. */
void pn_put_starts(pn_text *text, const pn_problem *problem);
/* "a = 2.00012 (exact 2, error 6.1e-5)", a line each; "" without parameters. */
void pn_put_found(pn_text *text, const pn_run *run);
/* The object "parameters" of summary.json: by name value, start, exact, error, trace. */
tn_status pn_json_found(pn_json *json, const pn_run *run) TN_MUST_USE;
/* The section of the report; nothing without parameters. */
tn_status pn_report_found(const pn_run *run, pn_report *report) TN_MUST_USE;

#endif
