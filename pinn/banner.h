/* banner.h: what pinn solve prints, in 80 columns. Inside pinn/ only. */
#ifndef PINN_BANNER_H
#define PINN_BANNER_H

#include "pinn/run.h"
#include "pinn/text.h"

/* All before the first step; the table of stages; all after the last step. out: the terminal.
 * Nothing is printed when it is NULL. */
tn_status pn_banner_start(pn_run *run, FILE *out) TN_MUST_USE;
tn_status pn_banner_progress(pn_run *run, const pn_progress *progress, FILE *out) TN_MUST_USE;
tn_status pn_banner_end(pn_run *run, FILE *out) TN_MUST_USE;

/* ---- Lines shared with pinn check (lines.c) -------------------------------------------------- */

enum { PN_WIDTH = 80, PN_LABEL = 11 };

/* label in the first PN_LABEL columns, then text broken at spaces, indented by `indent`. */
void pn_put_wrapped(pn_text *out, const char *label, size_t indent, const char *text);
/* "u_t - k*u_xx = 0", in the arena. */
tn_status pn_relation_text(pn_problem *problem, const pn_relation *relation,
                           char **out) TN_MUST_USE;
/* "on", "in" or "from", before term->region. */
const char *pn_where_word(const pn_term *term);
/* Every equation and condition, with where it holds and its points. */
tn_status pn_put_terms(pn_text *out, const pn_model *model, const pn_sites *sites) TN_MUST_USE;
tn_status pn_put_networks(pn_text *out, const pn_model *model) TN_MUST_USE;

/* ---- Words shared with the report ------------------------------------------------------------ */

/* The relation with everything on its left: lhs - rhs = 0, inequalities as they are. Of vectors the
 * relation's component; as they are what needs a normal. */
tn_status pn_zero_form(pn_problem *problem, const pn_relation *relation, pn_expr **out) TN_MUST_USE;
/* "7.1e-4", "2.0e-2", "350", "0", "nan": two digits, short exponent. */
const char *pn_brief(double x, char text[24]);
const char *pn_threshold(double x, char text[24]); /* the same without ".0": "1e-3" */
/* "12 345" */
const char *pn_grouped(size_t n, char text[32]);
/* "2^16" of a power of two, as scales are. Returns text. */
const char *pn_power(double x, char text[24]);
/* Where a run computes: "cpu (x86-64-v3), 2 threads"; "cpu (x86-64-v3), 2 ranks x 1 thread, mpi"; with a device
 * "cuda (NVIDIA H200, ...), cpu (x86-64-v3), 2 threads". */
void pn_put_machine(pn_text *text, const pn_run *run);
/* How a run computes and keeps its numbers, with the loss scale and the scales of channels if it has any. */
void pn_put_precision(pn_text *text, const pn_run *run);
/* What became of the low formats: share of products, loss scale, overflows, lost updates. Lines joined by '\n'; "" if
 * the run had none. */
void pn_put_low(pn_text *text, const pn_run *run);
/* "float16 products carried u to 1.1e-3; rounding alone leaves 4e-4": at the end of such a run. */
void pn_put_advice(pn_text *text, const pn_run *run);
/* "x = 0.004, t = 0.41": the coordinates that are numbers. */
void pn_put_place(pn_text *text, const pn_problem *problem, const double *point);
/* "x, t to [-1, 1]": how coordinates enter the networks. */
void pn_put_input_maps(pn_text *text, const pn_problem *problem);
/* "u(x, t)   mlp 2-32x4-1, tanh, 3 297 weights". */
void pn_put_network(pn_text *text, const pn_model *model, const pn_net *net);
/* "u, u_x, u_t - 0.0031831*u_xx (3 channels)", a group each. */
void pn_put_channels(pn_text *text, const pn_model *model, const ag_resolve_report *report);
/* One channel of a field by its label in reports: "u_xx". */
void pn_put_channel(pn_text *text, const pn_model *model, const char *field, const char *label);
/* "adam 500, lbfgs 10 000"; with the formats where stages differ in them. */
void pn_put_plan(pn_text *text, const pn_plan *plan);
/* Is the outcome "converged", and the lines that say why: "u: relative L2 4.2e-4 <= 1e-3, max
 * 9.7e-3 at x = ..." joined by '\n'. */
void pn_put_verdict(pn_text *text, const pn_run *run);
/* "centreline 3.2e-3 <= 1e-2": check i of the problem. */
void pn_put_check(pn_text *text, const pn_run *run, size_t i);
/* "worst burgers 3.1e-1 > 1e-2 at x = ..." and what a detector found; "" if all is well. */
void pn_put_trouble(pn_text *text, const pn_run *run);

#endif
