/* precision.h: in which number formats a stage computes. Inside pinn/ only.
 *
 *   compute          graph    products   weights between steps
 *   f64              f64      f64        f64
 *   f32              f32      f32        f64 or f32
 *   tf32 bf16 f16    f32      low        f64 or f32        mixed
 *   bf16 f16         low      low        the same format   pure
 *
 * Mixed: what is multiplied in matrix products is rounded to the low format, products accumulate in f32, and all
 * else (ladders, residuals, sums, losses) is f32. With three products for one, of high and low parts, the loss is as
 * smooth as in f32, which line searches need. Pure: every number of the loss and its gradient is of the low
 * format, and the weights are rounded to it after each step.
 */
#ifndef PINN_PRECISION_H
#define PINN_PRECISION_H

#include "pinn/pinn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pn_precision {
  tn_dtype model;  /* of the graph, its leaves and the loss: f64 or f32 */
  tn_dtype low;    /* of what matrix products multiply; `model` if there is no low format */
  tn_dtype master; /* of the weights between steps: f64, f32; `low` if pure */
  bool pure;
  unsigned products; /* mixed: 1, or 3 of the low format for one (ag_split); otherwise 1 */
} pn_precision;

/* By names as in the file, short or long. Refuses what does not go together and says why. */
tn_status pn_precision_of(const char *compute, const char *master, pn_precision *out) TN_MUST_USE;
/* compute = dtype with weights in f64 and one product. */
tn_status pn_precision_of_dtype(tn_dtype dtype, pn_precision *out) TN_MUST_USE;

bool pn_precision_equal(const pn_precision *a, const pn_precision *b);
bool pn_precision_low(const pn_precision *p);    /* mixed or pure */
bool pn_precision_scales(const pn_precision *p); /* its gradients need a loss scale: mixed f16 */
tn_dtype pn_precision_compute(const pn_precision *p); /* the word of the file: low, else model */

/* "float64"; "float32, weights float64"; "float16 products, else float32, weights float64"; "triple float16
 * products, ..."; "pure float16". Returns text. */
enum { PN_PRECISION_TEXT = 128 };
const char *pn_precision_text(const pn_precision *p, char text[PN_PRECISION_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
