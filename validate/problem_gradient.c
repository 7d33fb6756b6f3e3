/* problem_gradient.c: how much of the gradient is noise, over many points.
 *
 * Over few points the gradient of a trained network is not small, because it is that of these points alone;
 * what an optimizer sees is the gradient over all of its points, which nearly vanishes, and whose noise
 * therefore counts. Hence thousands of points, for which MPFR is too slow, and the f64 gradient serves for
 * the right one: formats with u >= 2^-24 differ from it by far more than its own rounding.
 */
#include <math.h>

#include "validate/problem.h"

static tn_status run_engine(const vd_problem_format *f, tn_exec *exec) {
  for (size_t i = 0; i < f->n_bindings; ++i)
    if (f->bindings[i].buffer)
      TN_TRY(tn_exec_bind(exec, f->bindings[i].leaf, f->bindings[i].buffer));
    else
      TN_TRY(tn_exec_set(exec, f->bindings[i].leaf, f->bindings[i].number));
  return tn_exec_run(exec);
}

/* Numbers in all blocks of the gradient. */
static tn_status gradient_size(const vd_problem *q, tn_exec *exec, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < q->n_outputs; ++i) {
    tn_buffer *buffer = NULL;
    if (q->formats[0].outputs[i].part != VD_GRADIENT)
      continue;
    TN_TRY(tn_exec_output(exec, i, &buffer));
    *n += tn_buffer_count(buffer);
  }
  return TN_OK;
}

/* The loss and all blocks of the gradient, one behind the other; *gradient is made. */
static tn_status read_gradient(const vd_problem *q, tn_exec *exec, double **gradient, size_t *n,
                               double *loss) {
  size_t used = 0;
  TN_TRY(gradient_size(q, exec, n));
  TN_TRY(TN_NEW(*n, gradient));
  for (size_t i = 0; i < q->n_outputs; ++i) {
    tn_buffer *buffer = NULL;
    if (q->formats[0].outputs[i].part == VD_LOSS)
      TN_TRY(tn_exec_read(exec, i, 1, loss));
    if (q->formats[0].outputs[i].part != VD_GRADIENT)
      continue;
    TN_TRY(tn_exec_output(exec, i, &buffer));
    TN_TRY(tn_exec_read(exec, i, tn_buffer_count(buffer), *gradient + used));
    used += tn_buffer_count(buffer);
  }
  return TN_OK;
}

static double distance(size_t n, const double *g, const double *master) {
  double error = 0, size = 0;
  for (size_t k = 0; k < n; ++k) {
    error += (g[k] - master[k]) * (g[k] - master[k]);
    size += master[k] * master[k];
  }
  return size > 0 ? sqrt(error / size) : 0;
}

tn_status vd_gradient_noise(const vd_problem *q, double *loss, double *noise) {
  double *master = NULL;
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < q->n_formats; ++i) {
    double *gradient = NULL;
    tn_exec *exec = NULL;
    size_t n = 0;
    status = tn_exec_new(q->formats[i].program, NULL, &exec);
    if (status == TN_OK)
      status = run_engine(q->formats + i, exec);
    if (status == TN_OK)
      status = read_gradient(q, exec, i == 0 ? &master : &gradient, &n, loss + i);
    if (status == TN_OK)
      noise[i] = i == 0 ? 0 : distance(n, gradient, master);
    tn_free(&gradient);
    tn_exec_free(&exec);
  }
  tn_free(&master);
  return status;
}
