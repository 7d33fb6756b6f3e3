/* audit.c: the audit of a problem's training step in several number formats, for `pinn validate problem` and for the
 * last words of `pinn solve`.
 *
 * The step is built once in each format: f64 with the weights themselves, f32, f32 with matrix products in tf32,
 * bf16 and f16 (pure: everything in bf16 and f16), and with three products for one (x3). Rows of the report are
 * about the format judged; the others go into the comparison and the advice. Formulas do not depend on the
 * format: gradients are held against differences of the loss once, in f64.
 */
#include <math.h>
#include <stdio.h>

#include "pinn/cli/audit.h"

enum {
  CHANNELS = 4096,
  MANY = 2048 /* points, for the gradient that training sees */
};

const cli_format cli_formats[CLI_FORMATS] = {{"f64", "float64", NULL, TN_F64, 1},
                                             {"f32", "float32", NULL, TN_F32, 1},
                                             {"tf32", "tf32", NULL, TN_TF32, 1},
                                             {"bf16", "bfloat16", "pure bf16", TN_BF16, 1},
                                             {"f16", "float16", "pure f16", TN_F16, 1},
                                             {"tf32x3", "tf32 x 3", NULL, TN_TF32, 3},
                                             {"bf16x3", "bfloat16 x 3", NULL, TN_BF16, 3},
                                             {"f16x3", "float16 x 3", NULL, TN_F16, 3}};

/* One format's set, and what validate/ wants to know of it. */
typedef struct part {
  pn_audit_set *set;
  vd_binding *bindings;
  vd_problem_output *outputs;
} part;

static void part_free(part *x) {
  tn_free(&x->bindings);
  tn_free(&x->outputs);
  pn_audit_free(&x->set);
}

static tn_status describe(part *x, const cli_format *known, bool pure, vd_problem_format *format) {
  static const vd_part parts[] = {[PN_AUDIT_UNKNOWN] = VD_UNKNOWN,
                                  [PN_AUDIT_DERIVATIVE] = VD_DERIVATIVE,
                                  [PN_AUDIT_RESIDUAL] = VD_RESIDUAL,
                                  [PN_AUDIT_LOSS] = VD_LOSS,
                                  [PN_AUDIT_GRADIENT] = VD_GRADIENT};
  const pn_audit_set *s = x->set;
  TN_TRY(TN_NEW(s->n_leaves, &x->bindings));
  TN_TRY(TN_NEW(s->n_outputs, &x->outputs));
  for (size_t i = 0; i < s->n_leaves; ++i)
    x->bindings[i] = (vd_binding){s->leaves[i], s->buffers[i], s->numbers[i]};
  for (size_t i = 0; i < s->n_outputs; ++i) {
    x->outputs[i] = (vd_problem_output){s->names[i], parts[s->kinds[i]], s->orders[i], s->weights[i], {0}};
    if (s->kinds[i] == PN_AUDIT_GRADIENT)
      x->outputs[i].leaf = s->leaves[i - s->first_gradient];
  }
  *format = (vd_problem_format){.name = pure ? known->pure_name : known->name,
                                .dtype = known->dtype,
                                .program = s->program,
                                .n_bindings = s->n_leaves,
                                .bindings = x->bindings,
                                .outputs = x->outputs};
  return TN_OK;
}

/* The names of the channels of every group, "; " between groups. */
static void channel_names(const pn_audit_set *set, char *text) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < set->channels.n_groups && i < 32 && used < CHANNELS; ++i)
    used += (size_t)snprintf(text + used, CHANNELS - used, "%s%s", i > 0 ? "; " : "",
                             set->channels.group[i].labels);
}

static tn_status check_formulas(const cli_audit *a, const part *x, vd_report *report) {
  const pn_audit_set *s = x->set;
  for (size_t i = 0; i < s->n_gradients; ++i)
    TN_TRY(vd_audit_gradient(s->program, s->n_leaves, x->bindings, s->loss, s->first_gradient + i,
                             s->leaves[i], s->names[s->first_gradient + i], a->options, report));
  return TN_OK;
}

/* The step in every format, at the trained weights or (NULL) at fresh ones, at `points` of each set. */
static tn_status make_parts(const cli_audit *a, pn_problem *problem, const char *weights, size_t points,
                            part *parts, vd_problem_format *formats) {
  for (size_t i = 0; i < a->n_formats; ++i) {
    const cli_format *known = &cli_formats[a->formats[i]];
    bool low = tn_dtype_compute(known->dtype) != known->dtype;
    bool pure = a->pure && known->pure_name != NULL;
    const pn_audit_options o = {.weights = weights,
                                .dtype = known->dtype == TN_F64 ? TN_F64 : TN_F32,
                                .low = low ? known->dtype : TN_F64,
                                .pure = pure,
                                .products = known->products,
                                .measure = i == 0 && weights != NULL && points < MANY,
                                .points = points,
                                .seed = a->seed};
    TN_TRY(pn_audit_new(problem, &o, &parts[i].set));
    TN_TRY(describe(parts + i, known, pure, formats + i));
    for (size_t k = 1; known->products == 3 && k < i; ++k)
      if (cli_formats[a->formats[k]].dtype == TN_F32) { /* errors of high and low parts cancel: as in f32 */
        double u = tn_dtype_roundoff(known->dtype);
        formats[i].roundoff = 3 * u * u + tn_dtype_roundoff(TN_F32);
        formats[i].yardstick = k;
      }
  }
  return TN_OK;
}

typedef struct parts {
  part few[CLI_FORMATS], many[CLI_FORMATS], start[CLI_FORMATS];
} parts;

static tn_status audit(const cli_audit *a, pn_problem *problem, parts *x, vd_report *report,
                       double *floors) {
  vd_problem_format few[CLI_FORMATS], many[CLI_FORMATS], start[CLI_FORMATS];
  char channels[CHANNELS];
  bool trained = a->weights != NULL;
  TN_TRY(make_parts(a, problem, a->weights, a->points, x->few, few));
  TN_TRY(make_parts(a, problem, a->weights, MANY, x->many, many));
  if (trained)
    TN_TRY(make_parts(a, problem, NULL, MANY, x->start, start));
  channel_names(x->few[0].set, channels);
  size_t n = x->few[0].set->n_outputs;
  const vd_problem all = {.n_outputs = n, .n_formats = a->n_formats, .formats = many};
  const vd_problem fresh = {.n_outputs = n, .n_formats = a->n_formats, .formats = start};
  const vd_problem p = {.n_outputs = n,
                        .n_formats = a->n_formats,
                        .formats = few,
                        .judged = a->judged,
                        .channels = channels,
                        .trained = trained,
                        .error = x->few[0].set->error,
                        .many = &all,
                        .start = trained ? &fresh : NULL,
                        .floors = floors};
  TN_TRY(vd_audit_problem(&p, a->options, report));
  return a->formulas ? check_formulas(a, x->few, report) : TN_OK;
}

tn_status cli_audit_problem(const cli_audit *a, pn_problem *problem, vd_report *report, double *floors) {
  parts *all = NULL;
  TN_TRY(TN_NEW(1, &all));
  tn_status status = audit(a, problem, all, report, floors);
  for (size_t i = 0; i < CLI_FORMATS; ++i) {
    part_free(all->few + i);
    part_free(all->many + i);
    part_free(all->start + i);
  }
  tn_free(&all);
  return status;
}

double cli_floor(void *context, const char *result, tn_dtype low, bool pure, unsigned products) {
  const pn_solve_options *solve = context;
  size_t formats[2] = {0, 0};
  double floors[2] = {NAN, NAN};
  vd_options options = vd_options_default();
  pn_problem *problem = NULL;
  vd_report *report = NULL;
  for (size_t i = 0; i < CLI_FORMATS; ++i)
    if (cli_formats[i].dtype == low && cli_formats[i].products == (pure ? 1 : products))
      formats[1] = i;
  const cli_audit a = {.weights = result,
                       .points = 32,
                       .pure = pure,
                       .options = &options,
                       .n_formats = 2,
                       .formats = formats,
                       .judged = 1};
  options.bits = 128; /* errors of 1e-4 are looked at */
  tn_status status = pn_problem_load(solve->path, solve->n_overrides, solve->overrides, &problem);
  if (status == TN_OK)
    status = vd_report_new(&report);
  if (status == TN_OK)
    status = cli_audit_problem(&a, problem, report, floors);
  if (status != TN_OK)
    tn_error_clear(); /* then it is not known */
  vd_report_free(&report);
  pn_problem_free(&problem);
  return status == TN_OK ? floors[1] : NAN;
}
