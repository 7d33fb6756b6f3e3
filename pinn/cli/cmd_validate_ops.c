/* cmd_validate_ops.c: `pinn validate ops`: every row of the op table against MPFR.
 *
 * Rules against differences first, unless a format or order was asked for: rules are formulas and have no
 * format. Then values and derivatives in each format. --exhaustive replaces the sample of bf16 and f16 by all
 * their numbers, and adds all pairs of them through + - * /. The JSON object begins with "cells", "checked",
 * "within" and "points".
 *
 * With --device the same numbers come from the device. A program is compiled for every function, format and order
 * there, so only values are audited unless --order asks for derivatives; rules, which have no device, and
 * pairs are left to the CPU. --provider shows a library of the device beside its own kernels.
 */
#include "pinn/cli/backends.h"
#include "pinn/cli/validate.h"
#include "pinn/pinn.h"
#include "tensor/factor.h"

#include <stdio.h>
#include <string.h>

enum { POINTS = 4000 }; /* unless --points is given: half a minute on one core */

static tn_status read_request(cli_validation *v) {
  vd_options *o = &v->options;
  o->points = v->points > 0 ? v->points : POINTS;
  o->only = v->only;
  o->exhaustive = v->exhaustive;
  if (v->only != NULL && tn_op_find(v->only) == NULL)
    return TN_FAIL(TN_EINPUT,
                   "pinn validate ops: there is no operation `%s`; `pinn ops` lists them", v->only);
  if (v->weights != NULL || v->pure || v->sets.n > 0)
    return TN_FAIL(TN_EINPUT,
                   "pinn validate ops: --weights, --pure and --set are about problem files");
  if (v->steps > 0)
    return TN_FAIL(TN_EINPUT, "pinn validate ops: --steps is for `pinn validate underflow FILE`");
  if (v->dtype != NULL) {
    tn_dtype dtype = TN_F64;
    if (pn_precision_dtype(v->dtype, &dtype) != TN_OK)
      return TN_FAIL(TN_EINPUT,
                     "pinn validate ops: --dtype is `%s`, expected f64, f32, tf32, bf16 or f16",
                     v->dtype);
    o->formats = 1U << dtype;
  }
  if (v->order != NULL) {
    if (strlen(v->order) != 1 || v->order[0] < '0' || v->order[0] > '3')
      return TN_FAIL(TN_EINPUT, "pinn validate ops: --order is `%s`, expected 0, 1, 2 or 3",
                     v->order);
    o->min_order = o->max_order = v->order[0] - '0';
  }
  if (v->provider != NULL && strcmp(v->provider, "cudnn") != 0)
    return TN_FAIL(TN_EINPUT, "pinn validate ops: --provider is `%s`, expected cudnn", v->provider);
  if (v->provider != NULL && (v->device == NULL || strcmp(v->device, "cpu") == 0))
    return TN_FAIL(TN_EINPUT,
                   "pinn validate ops: --provider is a library of a device: add --device cuda");
  o->provider = v->provider;
  return TN_OK;
}

/* Opens the device that was asked for; *pool: NULL for the CPU. */
static tn_status open_device(cli_validation *v, tn_device **device, tn_pool **pool) {
  vd_options *o = &v->options;
  TN_TRY(cli_device(v->device, device));
  if (*device == NULL)
    return TN_OK;
  TN_TRY(tn_pool_new(1, pool));
  tn_pool_use(*pool, *device);
  o->pool = *pool;
  if (v->order == NULL)
    o->max_order = 0;
  return TN_OK;
}

/* All pairs of 16-bit numbers through the four operations: a row each. */
static tn_status audit_pairs(const cli_validation *v, vd_report *report) {
  static const tn_op_id ops[] = {TN_OP_add, TN_OP_sub, TN_OP_mul, TN_OP_div};
  static const tn_dtype dtypes[] = {TN_BF16, TN_F16};
  for (size_t i = 0; i < 8; ++i) {
    const char *name = tn_op_row(ops[i / 2])->name;
    tn_dtype dtype = dtypes[i % 2];
    uint64_t checked = 0, wrong = 0;
    if ((v->only != NULL && strcmp(v->only, name) != 0) || v->options.min_order > 0 ||
        (v->options.formats != 0 && !(v->options.formats >> dtype & 1)))
      continue;
    TN_TRY(vd_audit_pairs(ops[i / 2], dtype, 0, 65536, &checked, &wrong));
    vd_row row = {.method = "all pairs",
                  .measure = "wrong",
                  .points = (size_t)checked,
                  .value = (double)wrong,
                  .pass = wrong == 0};
    snprintf(row.subject, sizeof row.subject, "%s", name);
    snprintf(row.dtype, sizeof row.dtype, "%s", tn_dtype_name(dtype));
    TN_TRY(vd_report_add(report, &row));
  }
  return TN_OK;
}

static tn_status audit(const cli_validation *v, vd_report *report) {
  bool here = v->options.pool == NULL;
  if (here && v->dtype == NULL && v->order == NULL)
    TN_TRY(vd_audit_rules(&v->options, report));
  TN_TRY(vd_audit_ops(&v->options, report));
  if (here && v->exhaustive)
    TN_TRY(audit_pairs(v, report));
  return vd_summarize_ops(&v->options, report);
}

static int deliver(cli_validation *v, const tn_device *device, const vd_report *report) {
  char head[200], title[320] = "Operations against MPFR";
  if (device != NULL)
    snprintf(title, sizeof title, "Operations on %.250s against MPFR", tn_device_text(device));
  vd_coverage c = vd_coverage_of(&v->options, report);
  snprintf(head, sizeof head, "\"cells\":%zu,\"checked\":%zu,\"within\":%zu,\"points\":%zu",
           c.cells, c.checked, c.within, c.points);
  v->json_head = head;
  int status = cli_deliver(v, report, title);
  v->json_head = NULL;
  return status;
}

int cli_validate_ops(cli_validation *v) {
  vd_report *report = NULL;
  tn_device *device = NULL;
  tn_pool *pool = NULL;
  tn_status done = read_request(v);
  if (done == TN_OK)
    done = open_device(v, &device, &pool);
  if (done == TN_OK)
    done = vd_report_new(&report);
  if (done == TN_OK)
    done = audit(v, report);
  int status = done == TN_OK ? deliver(v, device, report) : cli_failed(done);
  vd_report_free(&report);
  tn_pool_free(&pool);
  tn_device_close(&device);
  return status;
}
