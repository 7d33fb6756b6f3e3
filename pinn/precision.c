/* precision.c: number formats by name, and which of them go together.
 *
 * Nothing is widened or narrowed in silence: a combination that would lose what another part computes is refused
 * here, in the words of the file, for `check` and `solve` alike. The refusals:
 *
 *   weights in f32 under f64      every step of an f64 method would be cut to 24 bits
 *   16-bit weights, wider compute the products would be exact and the weights not: neither mixed nor pure
 *   tf32 weights                  it is a format of inputs of products; in memory it is f32
 */
#include "pinn/precision.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *brief, *full;
  tn_dtype dtype;
} names[] = {{"f64", "float64", TN_F64},
             {"f32", "float32", TN_F32},
             {"tf32", "tf32", TN_TF32},
             {"bf16", "bfloat16", TN_BF16},
             {"f16", "float16", TN_F16}};

enum { NAMES = sizeof names / sizeof *names };

tn_status pn_precision_dtype(const char *name, tn_dtype *out) {
  for (size_t i = 0; i < NAMES; ++i)
    if (strcmp(name, names[i].brief) == 0 || strcmp(name, names[i].full) == 0) {
      *out = names[i].dtype;
      return TN_OK;
    }
  return TN_FAIL(TN_EINPUT, "precision `%s` is not known; there are: f64, f32, tf32, bf16, f16",
                 name);
}

const char *pn_precision_name(tn_dtype dtype) {
  for (size_t i = 0; i < NAMES; ++i)
    if (names[i].dtype == dtype)
      return names[i].full;
  return tn_dtype_name(dtype);
}

static bool is_wide(tn_dtype dtype) { return dtype == TN_F64 || dtype == TN_F32; }

tn_status pn_precision_of_dtype(tn_dtype dtype, pn_precision *out) {
  if (!tn_dtype_is_float(dtype))
    return TN_FAIL(TN_EINPUT, "%s is no format to compute in", tn_dtype_name(dtype));
  *out = (pn_precision){
      .model = is_wide(dtype) ? dtype : TN_F32, .low = dtype, .master = TN_F64, .products = 1};
  return TN_OK;
}

tn_status pn_precision_of(const char *compute, const char *master, pn_precision *out) {
  tn_dtype dtype = TN_F64, weights = TN_F64;
  TN_TRY(pn_precision_dtype(compute ? compute : "f64", &dtype));
  TN_TRY(pn_precision_dtype(master ? master : "f64", &weights));
  TN_TRY(pn_precision_of_dtype(dtype, out));
  out->master = weights;
  if (weights == TN_TF32)
    return TN_FAIL(TN_EINPUT,
                   "tf32 is a format of numbers to be multiplied, not of weights to be kept; "
                   "set precision.master = \"f64\" or \"f32\"");
  if (dtype == TN_F64 && weights != TN_F64)
    return TN_FAIL(TN_EINPUT,
                   "precision.master = \"%s\" would cut the weights of what computes in f64; set "
                   "precision.master = \"f64\"",
                   tn_dtype_name(weights));
  if (!is_wide(weights) && weights != dtype)
    return TN_FAIL(
        TN_EINPUT,
        "precision.master = \"%s\" goes with precision.compute = \"%s\" alone (pure), but this "
        "computes in %s; set precision.master = \"f64\"",
        tn_dtype_name(weights), tn_dtype_name(weights), tn_dtype_name(dtype));
  out->pure = !is_wide(weights);
  return TN_OK;
}

bool pn_precision_equal(const pn_precision *a, const pn_precision *b) {
  return a->model == b->model && a->low == b->low && a->master == b->master && a->pure == b->pure &&
         a->products == b->products;
}

bool pn_precision_low(const pn_precision *p) { return p->low != p->model; }

bool pn_precision_scales(const pn_precision *p) { return p->low == TN_F16 && !p->pure; }

tn_dtype pn_precision_compute(const pn_precision *p) { return p->low; }

const char *pn_precision_text(const pn_precision *p, char text[PN_PRECISION_TEXT]) {
  const char *low = pn_precision_name(p->low), *model = pn_precision_name(p->model);
  if (p->pure)
    snprintf(text, PN_PRECISION_TEXT, "pure %s", low);
  else if (pn_precision_low(p))
    snprintf(text, PN_PRECISION_TEXT, "%s%s products, else %s, weights %s",
             p->products == 3 ? "triple " : "", low, model, pn_precision_name(p->master));
  else if (p->master != p->model)
    snprintf(text, PN_PRECISION_TEXT, "%s, weights %s", model, pn_precision_name(p->master));
  else
    snprintf(text, PN_PRECISION_TEXT, "%s", model);
  return text;
}
