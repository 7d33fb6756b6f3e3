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

/* ---- Reports (report.c, report_html.c, report_svg.c) ------------------------------------------ */

/* One line of a report: the worst of `points` comparisons under one measure, and its bound. */
typedef struct vd_row {
  char subject[48]; /* "tanh", "powi 3", "min by a", an output's name */
  char dtype[8];    /* "f64", "f32", "mpfr" */
  char method[12];  /* "kernel", "grad", "jet", "rule", "program", "difference"; "absent"; a provider's name */
  char measure[12]; /* what is judged: "ulp", "c", "digits", "norm2", "absolute" */
  int order;        /* of differentiation; -1: does not apply */
  size_t points;
  double value, bound; /* pass: value <= bound; for digits value >= bound */
  double ulp, c;       /* largest of each, for information; 0 if not measured */
  double norm2;        /* relative norm-2 error, likewise */
  double at;           /* argument, or element index, of the worst case */
  size_t below, cancelled, beyond; /* vd_audit_ops: references below the smallest normal number; points
                                      judged by c alone; points left out for range (ops.c) */
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

/* What the numbers mean for the user: the first line of every form of the report. Copied; a second
 * call adds a sentence. */
TN_API tn_status vd_report_advise(vd_report *report, const char *sentence) TN_MUST_USE;

/* A table with a title, besides the rows: cells[n_rows][n_columns], the heads first. Cells are texts;
 * one that reads as a number stands right-aligned and is a number in JSON. Everything is copied. */
TN_API tn_status vd_report_table(vd_report *report, const char *title, size_t n_columns,
                                 const char *const *heads, size_t n_rows, const char *const *cells)
    TN_MUST_USE;
/* The cells of table i, and which tables there are; for tests and callers that read reports. */
TN_API size_t vd_report_tables(const vd_report *report);
TN_API const char *vd_report_cell(const vd_report *report, size_t table, size_t row,
                                  size_t column); /* NULL: there is none */

/* A picture for the page. Lines: y over x, points joined. Bars: groups side by side, curve[k].y[i]
 * the bar of curve k in group i. Steps: a histogram, y[i] over [x[i], x[i + 1]), the last as wide as
 * the one before it. Copied. */
typedef enum vd_plot_kind { VD_LINES, VD_BARS, VD_STEPS } vd_plot_kind;
typedef struct vd_curve {
  const char *name; /* in the legend */
  size_t n;
  const double *x; /* of bars: unused, may be NULL */
  const double *y; /* what cannot be drawn (not finite; <= 0 on a logarithmic axis) leaves a gap */
  size_t entries;  /* numbers behind the curve, said in the legend; 0: not said */
} vd_curve;
typedef struct vd_plot {
  vd_plot_kind kind;
  const char *title, *x_label, *y_label;
  bool log_y;
  const char *const *groups; /* bars: their names, curve[0].n of them; lines: names of whole x, or NULL */
  size_t n_groups;
  size_t n_curves; /* at most 8 have colours of their own */
  const vd_curve *curve;
} vd_plot;
TN_API tn_status vd_report_plot(vd_report *report, const vd_plot *plot) TN_MUST_USE;

/* The advice, a summary line, the tables and the rows. failures_only leaves out the rows that pass.
 * *out: tn_free. */
TN_API tn_status vd_report_markdown(const vd_report *report, const char *title, bool failures_only,
                                    char **out) TN_MUST_USE;
/* {"title", "advice", "rows": [...], "tables": [{"title", "heads", "cells"}], "failures"};
 * infinities and NaN are null. *out: tn_free. */
TN_API tn_status vd_report_json(const vd_report *report, const char *title, char **out) TN_MUST_USE;
/* One page that needs no network and no script: advice, verdict, pictures, tables, rows. *out:
 * tn_free. */
TN_API tn_status vd_report_html(const vd_report *report, const char *title, char **out) TN_MUST_USE;
/* One picture alone, as an <svg> element. *out: tn_free. */
TN_API tn_status vd_plot_svg(const vd_plot *plot, char **out) TN_MUST_USE;

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
  int min_order;      /* of vd_audit_ops: lower orders are left out */
  unsigned formats;   /* of vd_audit_ops: bit d set: format d (a tn_dtype); 0: every float format */
  bool exhaustive;    /* vd_audit_ops: all 65,536 inputs of rows with one argument in bf16 and f16 */
  tn_pool *pool;      /* vd_audit_ops: where programs run, a device included (borrowed); NULL: this thread */
  const char *provider; /* vd_audit_ops: a library of the pool's device, as "cudnn", to judge beside it; or NULL */
} vd_options;
/* seed 1, 1000 points, 8 rule points, order 3, 256 bits, c 12, norm-2 128 u. */
TN_API vd_options vd_options_default(void);

/* ---- The op table --------------------------------------------------------------------------- */

/* Rules against differences, orders 1 to 5: at least 35 decimal digits. options may be NULL. */
TN_API tn_status vd_audit_rules(const vd_options *options, vd_report *report) TN_MUST_USE;

/* Mutants of every differentiable row's rule: a sign, a factor 2, a term dropped, a wrong argument, a constant
 * or exponent off by one, a wrong function of the family, a wrong operation. */
typedef struct vd_mutants {
  size_t rows, total, killed;
  char survivors[512];
} vd_mutants;
TN_API tn_status vd_mutate_rules(uint64_t seed, vd_mutants *out) TN_MUST_USE;

/* Every row in every float format through the engine: values (kernel), nested reverse mode (grad) and
 * univariate jets (jet), comparisons, selection, structure, sums and products, against MPFR on the same
 * stored numbers. Judged in ulp or by c; ops_judge.c has the promises. On a device, values of rows go through its
 * kernels of single rows and all else through executors; what it lacks is a row `absent` without points. Rows of a
 * provider have its name as method and always pass: the promises are not its own. */
TN_API tn_status vd_audit_ops(const vd_options *options, vd_report *report) TN_MUST_USE;

/* What an audit of operations covered. A cell is an operation in a format at an order of
 * differentiation; it is within if every row of the report about it passes. */
typedef struct vd_coverage {
  size_t cells, checked, within, points;
} vd_coverage;
TN_API vd_coverage vd_coverage_of(const vd_options *options, const vd_report *report);
/* Adds two tables: cells, points and worst figures a format and order; and, for each activation, derivatives
 * of order 0 to 4 at 1/2, 1 and 2, with their errors in every format. Advice, too. */
TN_API tn_status vd_summarize_ops(const vd_options *options, vd_report *report) TN_MUST_USE;

/* All pairs of numbers of bf16 or f16 whose first bits are first .. first + count - 1 through add, sub,
 * mul or div: the result must be the exact one rounded once. *wrong: how many are not. */
TN_API tn_status vd_audit_pairs(tn_op_id op, tn_dtype dtype, uint32_t first, uint32_t count,
                                uint64_t *checked, uint64_t *wrong) TN_MUST_USE;

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

/* ---- Running error bounds (running.c) -------------------------------------------------------- */

/* Beside each number of a run, a bound on its rounding error: |engine - replay| <= bound, for every port
 * of every node. Costs a few times the program in f64 arithmetic, at any number of points, and no
 * multiple precision. Infinite where nothing can be said. The program is borrowed. */
typedef struct vd_running vd_running;
TN_API tn_status vd_running_new(const tn_program *program, vd_running **out) TN_MUST_USE;
TN_API void vd_running_free(vd_running **running);
/* exec: a tn_exec_keeping_all of the program, which has run. */
TN_API tn_status vd_running_run(vd_running *running, tn_exec *exec) TN_MUST_USE;
/* The same with errors joined as independent ones: what is to be expected, not a bound. */
TN_API tn_status vd_running_expect(vd_running *running, tn_exec *exec) TN_MUST_USE;
TN_API size_t vd_running_count(const vd_running *running, uint32_t node, uint32_t port);
TN_API double vd_running_value(const vd_running *running, uint32_t node, uint32_t port,
                               size_t element); /* the engine's */
TN_API double vd_running_bound(const vd_running *running, uint32_t node, uint32_t port,
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

/* ---- Low formats: what they lose (underflow*.c) ---------------------------------------------- */

/* The range of a float format, in exponents of 2. */
typedef struct vd_format {
  tn_dtype dtype;
  int smallest;     /* 2^smallest: the smallest subnormal */
  int normal;       /* 2^normal: the smallest normal number */
  double largest;   /* finite number */
  double overflow;  /* from here on a number rounds to infinity */
  double roundoff;  /* u */
} vd_format;
TN_API vd_format vd_format_of(tn_dtype dtype); /* of a float dtype */

/* Exact numbers by exponent: bin b counts VD_BIN_FIRST + b <= log2 |x| < VD_BIN_FIRST + b + 1; the outer
 * bins take what lies beyond. */
enum { VD_BIN_FIRST = -160, VD_BINS = 300 };
typedef struct vd_histogram {
  size_t n;                /* numbers that are finite and not 0 */
  size_t zeros, nonfinite; /* the others */
  double largest, least;   /* of |x| over those n; 0 if there are none */
  double mass;             /* sum of |x| */
  size_t count[VD_BINS];
  double mass_of[VD_BINS];
} vd_histogram;
TN_API void vd_histogram_add(vd_histogram *histogram, size_t n, const double *x);
/* The share of the mass of 2^scale x that a format loses below its smallest normal number. Computed: what
 * rounds to 0 is lost whole, a subnormal loses a quarter of the spacing, the mean of such roundings. */
TN_API double vd_histogram_lost(const vd_histogram *histogram, const vd_format *format, int scale);

/* What became of numbers in a format: by class of the low number, with the losses. */
typedef struct vd_tally {
  size_t n;         /* entries whose reference is finite and not 0 */
  size_t exact_zero; /* entries whose reference is 0: in none of the following */
  size_t zero, subnormal, edge, normal, overflow, nan; /* edge: the lowest four binades of normal numbers */
  double mass, lost;    /* sum of |reference|; of |reference - low / scale|. Inf and NaN: lost whole */
  double flushed;       /* the part of lost at zeros */
  double below;         /* the part at zeros and subnormals */
  double mass2, lost2, flushed2; /* the same of squares: norms are their roots */
} vd_tally;
/* low[i] stands for 2^scale reference[i] in the format. */
TN_API void vd_tally_add(vd_tally *tally, const vd_format *format, int scale, size_t n,
                         const double *reference, const double *low);
/* The same for 2^scale x rounded once, against reference (x itself: what the format alone does). */
TN_API void vd_tally_round(vd_tally *tally, const vd_format *format, int scale, size_t n,
                           const double *reference, const double *x);

/* A gradient, or a part of it, against the reference; both unscaled. */
typedef struct vd_gradient {
  size_t n, zero, nonfinite; /* entries; 0 where the reference is not; Inf or NaN */
  double norm;               /* of the reference */
  double error;              /* norm of the difference over norm */
  double cosine;
} vd_gradient;
TN_API vd_gradient vd_gradient_of(size_t n, const double *reference, const double *low);

/* Steps that change nothing: weights, rounded to `master`, moved by rate g / (|g| + 1e-8), the first step of
 * adam, and rounded again. */
typedef struct vd_updates {
  tn_dtype master;
  double rate;
  size_t n;
  size_t lost;  /* moved less than half the spacing: the same number again */
  size_t still; /* g = 0: no step to lose */
} vd_updates;
TN_API vd_updates vd_updates_of(tn_dtype master, double rate, size_t n, const double *weights,
                                const double *gradient);

/* Exponents of scales from lo to hi; lo > hi: none. */
typedef struct vd_window {
  int lo, hi;
} vd_window;
#define VD_SCALE_MOST 64 /* windows lie within -64 .. 64 */
/* Where 2^s x overflows nowhere and loses less than `limit` of its mass below the normal numbers. */
TN_API vd_window vd_histogram_window(const vd_histogram *histogram, const vd_format *format,
                                     double limit);

typedef enum vd_operand { /* of a product of matrices */
  VD_ACTIVATION,
  VD_ADJOINT,
  VD_WEIGHT,
  VD_WEIGHT_GRADIENT /* its result; a mixed policy keeps it in f32 */
} vd_operand;
TN_API const char *vd_operand_name(vd_operand operand); /* "activation" */

typedef struct vd_channel {
  char layer[64];   /* "net1.layer2" */
  char label[96];   /* the channel's operator, "t - c0*xx"; "" of weights and their gradients */
  char at[96];      /* its points, "interior"; "" likewise */
  vd_operand operand;
  bool kept;        /* not rounded by the policy: what the format would do to it */
  vd_histogram histogram; /* of the reference */
  vd_tally *run;     /* of real runs: one a scale of adjoints and gradients, else one. Owned by the study */
  vd_tally *rounded; /* likewise, of the reference scaled and rounded once */
  vd_window window; /* vd_underflow_judge */
} vd_channel;

/* The layers of one channel together; vd_underflow_judge makes them. */
typedef struct vd_group {
  char label[96], at[96];
  vd_window activation, adjoint; /* exponents that every layer bears */
  int shift;     /* carried as 2^-shift times its value, all channels share a loss scale; 0 if they do anyway */
  bool shiftable; /* false: no shift does */
} vd_group;

typedef struct vd_scaler_step { /* of a training */
  size_t step;
  double scale, loss;
  size_t tracker; /* steps since the scale last changed */
  bool skipped;
} vd_scaler_step;

/* A study: filled by the caller, judged, written. Zero it first; vd_underflow_free frees what it owns. */
typedef struct vd_underflow {
  char title[200];
  vd_format format;
  bool pure;    /* all numbers are low, not only inputs of products */
  double limit; /* of mass lost below normal; 0: 1e-3 */
  double rate;  /* of the first stage */
  size_t n_facts;
  struct { char key[40], value[400]; } fact[24]; /* for the head of the report */
  size_t n_scales;
  int scale[32]; /* exponents of the loss scales that were run, ascending */
  size_t n_channels;
  vd_channel *channels;
  size_t n_blocks;   /* blocks of weights; the whole gradient stands behind them */
  char (*block)[96];
  vd_gradient *gradient; /* [(n_blocks + 1) * n_scales]: block by block */
  vd_gradient *single;   /* [n_blocks + 1]: of f32 */
  double *moved;         /* [n_scales]: |g - g at `best`| over |g of f64|: what the loss scale does; or NULL */
  size_t n_updates;
  vd_updates update[24];
  size_t n_steps;
  vd_scaler_step *steps; /* of the scaler; NULL: not run */
  /* vd_underflow_judge: */
  size_t n_groups;
  vd_group *groups;
  vd_window window; /* of all channels, within the scales that were run */
  int best;         /* the scale that is advised; shifts of the groups hold for it */
  bool carried;     /* in range at `best` and cosine of the gradient at least 0.99 */
  char advice[1200];
} vd_underflow;
TN_API void vd_underflow_free(vd_underflow *study);
TN_API tn_status vd_underflow_fact(vd_underflow *study, const char *key, const char *format, ...)
    TN_PRINTF(3, 4) TN_MUST_USE;
/* One more channel (n_scales is settled); *out is its index. */
TN_API tn_status vd_underflow_channel(vd_underflow *study, vd_operand operand, const char *layer,
                                      const char *label, const char *at, size_t *out) TN_MUST_USE;
/* More reference numbers of a channel: its histogram and what rounding does to them at every scale. */
TN_API void vd_underflow_reference(vd_underflow *study, size_t channel, size_t n, const double *x);
/* After everything is in: windows, groups, advice. */
TN_API tn_status vd_underflow_judge(vd_underflow *study) TN_MUST_USE;
/* Texts of a judged study (tn_free): Markdown with the worst rows, or all; everything as JSON; a page with
 * pictures that needs neither network nor script. */
TN_API tn_status vd_underflow_markdown(const vd_underflow *study, bool all, char **out) TN_MUST_USE;
TN_API tn_status vd_underflow_json(const vd_underflow *study, char **out) TN_MUST_USE;
TN_API tn_status vd_underflow_html(const vd_underflow *study, char **out) TN_MUST_USE;

/* ---- Problems (problem_*.c) ------------------------------------------------------------------ */

/* What an output of a training step is. */
typedef enum vd_part { VD_UNKNOWN, VD_DERIVATIVE, VD_RESIDUAL, VD_LOSS, VD_GRADIENT } vd_part;
typedef struct vd_problem_output {
  const char *name;
  vd_part part;
  int order;     /* of an unknown (0) or a derivative; else -1 */
  double weight; /* of a residual: what one unit of its mean square adds to the loss */
  tn_value leaf; /* of a gradient: by which leaf, as the format's own graph has it */
} vd_problem_output;

/* The step in one number format: its program and what its leaves are bound to. Every format has the same
 * outputs in the same order; leaves that low formats round on entry are bound to rounded numbers. */
typedef struct vd_problem_format {
  const char *name; /* "f32", "f16" (products of matrices), "pure f16" */
  tn_dtype dtype;   /* the format with the largest roundoff in it */
  /* Of a format whose roundings cancel, as the three products for one do: its roundoff as a whole, and the index of the
   * format whose expected errors, times the ratio of the roundoffs, are the scale that its errors are judged by (an
   * earlier one). 0: by its own. */
  double roundoff;
  size_t yardstick;
  const tn_program *program;
  size_t n_bindings;
  const vd_binding *bindings;
  const vd_problem_output *outputs;
} vd_problem_format;

typedef struct vd_problem {
  size_t n_outputs, n_formats;
  const vd_problem_format *formats; /* the first one: f64, with the weights themselves */
  size_t judged;                    /* the format that the rows are about */
  const char *channels;             /* names of a layer's channels in the residuals' program, "u, x, t - c0*xx";
                                       several networks: "; " between; NULL: numbers */
  bool trained;
  double error; /* relative L2 error of these weights against an exact solution; NaN: not known */
  /* The same formats at many points, run by the engine alone: at the same weights, and (for trained ones) at
   * fresh weights. What training sees is the gradient over all its points. NULL: none. */
  const struct vd_problem *many, *start;
  double *floors; /* n_formats: the relative L2 error that each is predicted to leave, written; NULL: not wanted */
} vd_problem;

/* Audits a training step: rows, tables and pictures for the format judged, a prediction of how far each
 * format carries training (problem_floor.c), and the advice. The report is the caller's. */
TN_API tn_status vd_audit_problem(const vd_problem *problem, const vd_options *options,
                                  vd_report *report) TN_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
