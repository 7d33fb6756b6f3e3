/* summary.h: summary.json and report.html of a run. Inside pinn/ only. */
#ifndef PINN_SUMMARY_H
#define PINN_SUMMARY_H

#include "pinn/html.h"
#include "pinn/run.h"

tn_status pn_summary_write(const pn_run *run) TN_MUST_USE; /* folder/summary.json */
tn_status pn_report_page(pn_run *run) TN_MUST_USE;         /* folder/report.html */
/* The section of pictures of the solution (report_fields.c). */
tn_status pn_report_fields(pn_run *run, pn_report *report) TN_MUST_USE;

#endif
