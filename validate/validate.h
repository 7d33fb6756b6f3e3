/* validate.h: the public interface of the oracle layer, which judges numbers by multiple precision.
 *
 * Three questions, three answers.
 *   Are the derivative rules right?  vd_audit_rules holds rules, in MPFR, against differences of
 *       forward values; vd_mutate_rules asks whether a wrong rule would be seen.
 *   Do the kernels round well?       vd_audit_ops: every row, f64 and f32, orders 0 to 3.
 *   Is this program's result right?  vd_audit_program: the very program that runs, replayed in
 *       MPFR; vd_audit_gradient: its gradient, against differences of its value.
 * Each adds rows to a report, which is written as Markdown for people and JSON for tools.
 *
 * No MPFR type appears here. Error measures, ulp and c, are defined in ulp.c, condition scales in
 * replay.c.
 */
#ifndef VALIDATE_VALIDATE_H
#define VALIDATE_VALIDATE_H

#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reports (report.c) --------------------------------------------------------------------- */

/* One line of a report: the worst of `points` comparisons under one measure, and its bound. */
typedef struct vd_row {
  char subject[48]; /* "tanh", "powi 3", "min by a", an output's name */
  char dtype[8];    /* "f64", "f32", "mpfr" */
  char method[12];  /* "kernel", "grad", "jet", "rule", "program", "difference" */
  char measure[12]; /* what is judged: "ulp", "c", "digits", "norm2", "absolute" */
  int order;        /* of differentiation; -1: does not apply */
  size_t points;
  double value, bound; /* pass: value <= bound; for digits value >= bound */
  double ulp, c;       /* largest of each, for information; 0 if not measured */
  double norm2;        /* relative norm-2 error, likewise */
  double at;           /* argument, or element index, of the worst case */
  bool pass;
} vd_row;

typedef struct vd_report vd_report;
TN_API tn_status vd_report_new(vd_report **out) TN_MUST_USE;
TN_API void vd_report_free(vd_report **report);
TN_API tn_status vd_report_add(vd_report *report, const vd_row *row) TN_MUST_USE; /* copies */
TN_API size_t vd_report_rows(const vd_report *report);
TN_API const vd_row *vd_report_row(const vd_report *report,
                                   size_t i);              /* borrowed until the next add */
TN_API size_t vd_report_failures(const vd_report *report); /* rows that do not pass */
/* A table with a summary line. failures_only leaves out the rows that pass. *out: tn_free. */
TN_API tn_status vd_report_markdown(const vd_report *report, const char *title, bool failures_only,
                                    char **out) TN_MUST_USE;
/* {"title", "rows": [...], "failures"}; infinities and NaN are null. *out: tn_free. */
TN_API tn_status vd_report_json(const vd_report *report, const char *title, char **out) TN_MUST_USE;

/* ---- Options -------------------------------------------------------------------------------- */

typedef struct vd_options {
  uint64_t seed;
  size_t points;      /* random points a row and order in vd_audit_ops */
  size_t rule_points; /* points a rule in vd_audit_rules */
  int max_order;      /* of vd_audit_ops, 0 to 3 */
  int bits;           /* MPFR precision of references */
  double c_ceiling;   /* bound on c where ulp does not judge */
  double norm2_ulps;  /* vd_audit_program: bound on relative norm-2 errors, in u of the dtype */
  const char *only;   /* one row's name, for rules and ops; NULL: all */
} vd_options;
/* seed 1, 1000 points, 8 rule points, order 3, 256 bits, c 12, norm-2 128 u. */
TN_API vd_options vd_options_default(void);

/* ---- The op table --------------------------------------------------------------------------- */

/* Rules against differences, orders 1 to 5: at least 35 decimal digits. options may be NULL. */
TN_API tn_status vd_audit_rules(const vd_options *options, vd_report *report) TN_MUST_USE;

/* Mutants of every differentiable row's rule: sign flipped, factor 2, term dropped. */
typedef struct vd_mutants {
  size_t rows, total, killed;
  char survivors[512];
} vd_mutants;
TN_API tn_status vd_mutate_rules(uint64_t seed, vd_mutants *out) TN_MUST_USE;

/* Every row in f64 and f32 through the engine: values (kernel), nested reverse mode (grad) and
 * univariate jets (jet), against MPFR. Orders 0 and 1 are judged in ulp by the row's promise, the
 * rest by c. */
TN_API tn_status vd_audit_ops(const vd_options *options, vd_report *report) TN_MUST_USE;

/* ---- Replay --------------------------------------------------------------------------------- */

/* An executor of programs in MPFR: whole arrays, every node kept. Casts do not round, masks are
 * decided anew in high precision, constants and leaves are what is stored. The program is borrowed.
 * Costs about 1 us and bits / 8 + 40 bytes an element of every node: bind 100 points or so. */
typedef struct vd_replay vd_replay;
TN_API tn_status vd_replay_new(const tn_program *program, int bits, vd_replay **out) TN_MUST_USE;
TN_API void vd_replay_free(vd_replay **replay);
/* Binds a leaf, by its node of the program, to what a buffer holds now (copied when run). */
TN_API tn_status vd_replay_bind(vd_replay *replay, uint32_t node, tn_buffer *buffer) TN_MUST_USE;
TN_API tn_status vd_replay_set(vd_replay *replay, uint32_t node, double value) TN_MUST_USE;
/* leaf = stored + step * direction[element], in MPFR: for differences. NULL takes it back. The
 * direction is borrowed until then and has the leaf's number of elements. */
TN_API tn_status vd_replay_shift(vd_replay *replay, uint32_t node, const double *direction,
                                 double step) TN_MUST_USE;
TN_API tn_status vd_replay_run(vd_replay *replay) TN_MUST_USE;
TN_API size_t vd_replay_count(const vd_replay *replay, uint32_t node, uint32_t port);
TN_API double vd_replay_double(const vd_replay *replay, uint32_t node, uint32_t port,
                               size_t element);
/* The condition scale S of an element: replay.c defines it. */
TN_API double vd_replay_scale(const vd_replay *replay, uint32_t node, uint32_t port,
                              size_t element);

/* ---- Programs ------------------------------------------------------------------------------- */

typedef struct vd_binding {
  tn_value leaf;
  tn_buffer *buffer; /* NULL: a scalar, set to number */
  double number;
} vd_binding;

/* Runs the program on the executor and in MPFR on the same stored data; one report row an output:
 * judged by the relative norm-2 error or, where an output cancels, by c (problem_audit.c); both and
 * ulp are reported. names: one an output, or NULL. pool may be NULL. */
TN_API tn_status vd_audit_program(const tn_program *program, tn_pool *pool, size_t n_bindings,
                                  const vd_binding *bindings, const char *const *names,
                                  const vd_options *options, vd_report *report) TN_MUST_USE;

/* Is output `gradient` of the program the gradient of its scalar output `of` by the leaf? Both in
 * MPFR: the replayed gradient along a random direction against central differences of the replayed
 * output. This sees wrong formulas, which a replay of the gradient alone cannot. One row, in
 * digits. */
TN_API tn_status vd_audit_gradient(const tn_program *program, size_t n_bindings,
                                   const vd_binding *bindings, size_t of, size_t gradient,
                                   tn_value leaf, const char *name, const vd_options *options,
                                   vd_report *report) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
