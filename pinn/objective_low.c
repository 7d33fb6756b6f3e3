/* objective_low.c: the loss and its gradient in a low precision.
 *
 *   outputs = cast(L, S_m, d(S L)/dtheta)         cast: matrix products on numbers of the low format
 *
 * The loss is multiplied by the run-time number S before it is differentiated, so that adjoints, which are rounded to
 * the low format where products read them, lie within its range; L itself does not carry S. Gradients come out in
 * f32, are widened and divided by S, a power of two, in f64: exactly. Programs of f64 and f32 have no S and keep their
 * bits.
 *
 * Where a line search compares losses, cast means split (ag_split): three products of the low format for one, since a
 * single one makes the loss rough by 1e-4 of its value and more (docs/design/004-mixed-precision.md).
 *
 * A gradient asked for by an optimizer goes through its scaler, step by step; one asked for by a line search takes the
 * frozen scale, and where something overflows the loss is reported as infinite, so that the search looks nearer. The
 * frozen scale is found by trial: whether a scale overflows is monotone in it, since it multiplies every adjoint. It
 * stays 2^10 below the first that overflows: along a search the loss may be far larger than where it starts, and each
 * overflow there costs a shorter step (with 2^4, ssbroyden came to a stand on Burgers).
 */
#include <math.h>

#include "pinn/objective_inside.h"

enum { MOST_EXPONENT = 64, MARGIN_EXPONENT = 10 };

tn_status pn_loss_cast(const pn_loss *l, size_t n, tn_value *outputs) {
  const ag_cast_policy policy = {.low = l->precision.low, .pure = l->precision.pure};
  if (!pn_precision_low(&l->precision))
    return TN_OK;
  if (l->precision.products == 3)
    return ag_split(l->model->graph, &policy, n, outputs, outputs);
  return ag_cast(l->model->graph, &policy, n, outputs, outputs);
}

const pn_precision *pn_loss_precision(const pn_loss *loss) { return &loss->precision; }

void pn_loss_use_scaler(pn_loss *loss, pn_scaler *scaler) { loss->scaler = scaler; }

size_t pn_loss_zeros(const pn_loss *loss) { return loss->zeros; }

tn_status pn_loss_set_scale_of(pn_loss *l, tn_exec *exec, double scale) {
  return l->loss_scale.graph ? tn_exec_set(exec, l->loss_scale, scale) : TN_OK;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static tn_status run_at(pn_loss *l, const double *theta, double scale, double *loss,
                        double *gradient) {
  TN_TRY(pn_loss_set_scale_of(l, l->gradient.exec, scale));
  TN_TRY(pn_loss_run(l, &l->gradient, theta));
  l->done.low += l->gradient_work.low;
  l->done.total += l->gradient_work.total;
  TN_TRY(pn_loss_read_gradient(l, loss, gradient));
  l->zeros = 0;
  for (size_t i = 0; i < l->model->n_theta; ++i)
    l->zeros += gradient[i] == 0;
  return TN_OK;
}

static tn_status frozen(pn_loss *l, const double *theta, double *loss, double *gradient) {
  double scale = 1;
  bool finite = true;
  TN_TRY(pn_scaler_closure(l->scaler, &scale));
  TN_TRY(run_at(l, theta, scale, loss, gradient));
  for (size_t i = 0; i < l->model->n_theta; ++i) {
    finite = finite && isfinite(gradient[i]);
    gradient[i] /= scale;
  }
  if (!finite)
    *loss = INFINITY;
  return TN_OK;
}

tn_status pn_loss_gradient(pn_objective *f, const double *theta, double *loss, double *gradient) {
  pn_loss *l = f->context;
  double scale = 1;
  if (!l->scaler)
    return run_at(l, theta, 1, loss, gradient);
  if (l->scaler->frozen)
    return frozen(l, theta, loss, gradient);
  TN_TRY(pn_scaler_begin(l->scaler, &scale));
  TN_TRY(run_at(l, theta, scale, loss, gradient));
  TN_TRY(pn_scaler_backward(l->scaler));
  TN_TRY(pn_scaler_reduce(l->scaler, false)); /* one process: its own gradient is looked at below */
  TN_TRY(pn_scaler_unscale(l->scaler, l->model->dtype, l->model->n_theta, gradient));
  return pn_scaler_look(l->scaler, *loss);
}

static tn_status finite_at(pn_loss *l, const double *theta, int exponent, double *gradient,
                           bool *finite) {
  double loss = 0;
  TN_TRY(run_at(l, theta, ldexp(1, exponent), &loss, gradient));
  *finite = isfinite(loss);
  for (size_t i = 0; *finite && i < l->model->n_theta; ++i)
    *finite = isfinite(gradient[i]);
  return TN_OK;
}

tn_status pn_loss_freeze(pn_loss *l, const double *theta, pn_scaler *scaler) {
  int least = 0, low, high = MOST_EXPONENT;
  double *gradient = NULL;
  bool finite = false;
  (void)frexp(scaler->options.least, &least);
  low = least -= 1;
  TN_TRY(TN_NEW(l->model->n_theta, &gradient));
  tn_status status = TN_OK;
  while (status == TN_OK && high - low > 1) { /* 2^low is thought finite, 2^high not */
    int middle = low + (high - low) / 2;
    status = finite_at(l, theta, middle, gradient, &finite);
    *(finite ? &low : &high) = middle;
  }
  tn_free(&gradient);
  TN_TRY(status);
  int chosen = low - MARGIN_EXPONENT > least ? low - MARGIN_EXPONENT : least;
  return pn_scaler_freeze(scaler, ldexp(1, chosen));
}

/* ---- Work ------------------------------------------------------------------------------------ */

static tn_axis axis_of(const tn_program *program, const tn_node *node) {
  const tn_edge *e = node->inputs; /* of a product: h, of a weight gradient: z */
  const tn_shape *shape = &tn_program_node(program, e->node)->shapes[e->port];
  if (node->op->id == TN_OP_jet_lin)
    shape = &node->shapes[0];
  return tn_shape_batched(shape) ? shape->axis[0] : 0;
}

tn_status pn_products_new(const tn_program *program, pn_products *out) {
  ag_product *list = NULL;
  size_t n = 0;
  *out = (pn_products){0};
  TN_TRY(ag_products(program, &n, &list));
  tn_status status = TN_NEW(n, &out->list);
  for (size_t i = 0; status == TN_OK && i < n; ++i) {
    const tn_node *node = tn_program_node(program, list[i].node);
    out->list[out->n++] = (pn_product){.axis = axis_of(program, node),
                                       .flops = list[i].flops,
                                       .low = tn_dtype_compute(list[i].dtype) != list[i].dtype};
  }
  tn_free(&list);
  return status;
}

void pn_products_free(pn_products *products) {
  tn_free(&products->list);
  products->n = 0;
}

static double points_on(const pn_loss *l, tn_axis axis) {
  for (size_t i = 0; axis && i < l->feed.n; ++i) {
    tn_shape shape = tn_shape_of(l->feed.leaf[i]);
    if (tn_shape_batched(&shape) && shape.axis[0] == axis)
      return (double)tn_buffer_extent(l->feed.buffer[i], 0);
  }
  return 0;
}

pn_work pn_loss_work_of(const pn_loss *l, const pn_products *products) {
  pn_work work = {0};
  for (size_t i = 0; i < products->n; ++i) {
    double flops = products->list[i].flops * points_on(l, products->list[i].axis);
    work.total += flops;
    work.low += products->list[i].low ? flops : 0;
  }
  return work;
}

void pn_loss_update_work(pn_loss *l) {
  l->gradient_work = pn_loss_work_of(l, &l->gradient_products);
  l->value_work = pn_loss_work_of(l, &l->value_products);
}

tn_status pn_loss_find_products(pn_loss *l) {
  pn_products_free(&l->gradient_products);
  pn_products_free(&l->value_products);
  if (!l->counts)
    return TN_OK;
  TN_TRY(pn_products_new(l->gradient.program, &l->gradient_products));
  TN_TRY(pn_products_new(l->value.program, &l->value_products));
  if (l->bound)
    pn_loss_update_work(l);
  return TN_OK;
}

tn_status pn_loss_count_work(pn_loss *loss) {
  loss->counts = true;
  return pn_loss_find_products(loss);
}

void pn_loss_work(const pn_loss *loss, double *low, double *total) {
  *low = loss->done.low;
  *total = loss->done.total;
}
