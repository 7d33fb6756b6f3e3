/* support_gpu_samples.c: see support_gpu_samples.h. Losses of networks with their gradients and residuals, every row of
 * the table, structural operations with and without points. */
#include "tests/support_gpu_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Losses ---- */

/* Loss, residuals, gradients by all parameters. */
static size_t with_gradients(net *n, size_t count, tn_value *residual, tn_value *out) {
  tn_value parameters[2 * NET_LAYERS], loss = net_loss(residual[0]);
  for (size_t i = 1; i < count; ++i) loss = tn_add(loss, net_loss(residual[i]));
  out[0] = loss;
  memcpy(out + 1, residual, count * sizeof *out);
  good(net_resolve(n, count + 1, out, NULL, NULL));
  size_t n_parameters = net_parameters(n, parameters);
  good(ag_grad(out[0], n_parameters, parameters, out + count + 1));
  return count + 1 + n_parameters;
}

static size_t burgers(net *n, tn_value *out) { return with_gradients(n, 1, (tn_value[]){net_burgers(n)}, out); }

static size_t kdv(net *n, tn_value *out) {
  tn_value r = tn_add(net_d(n, 0, "y"), tn_mul(tn_mul(net_k(n, 6), net_d(n, 0, "")), net_d(n, 0, "x")));
  return with_gradients(n, 1, (tn_value[]){tn_add(r, net_d(n, 0, "xxx"))}, out);
}

static size_t helmholtz(net *n, tn_value *out) {
  tn_value source = tn_mul(tn_sin(tn_mul(net_k(n, 3), n->x[0])), tn_cos(n->x[1]));
  tn_value laplacian = tn_add(net_d(n, 0, "xx"), net_d(n, 0, "yy"));
  tn_value r = tn_sub(tn_add(laplacian, tn_mul(net_k(n, 16), net_d(n, 0, ""))), source);
  return with_gradients(n, 1, &r, out);
}

static size_t allen_cahn(net *n, tn_value *out) {
  tn_value u = net_d(n, 0, ""), reaction = tn_mul(net_k(n, 5), tn_sub(tn_powi(u, 3), u));
  tn_value r = tn_add(tn_sub(net_d(n, 0, "y"), tn_mul(net_k(n, 0x1p-13), net_d(n, 0, "xx"))), reaction);
  return with_gradients(n, 1, &r, out);
}

/* u, v, p on x, y, z = t: two momentum equations and continuity. */
static size_t navier_stokes(net *n, tn_value *out) {
  tn_value r[3], u = net_d(n, 0, ""), v = net_d(n, 1, ""), nu = net_k(n, 0x1p-5);
  for (size_t q = 0; q < 2; ++q) {
    tn_value flow = tn_add(tn_mul(u, net_d(n, q, "x")), tn_mul(v, net_d(n, q, "y")));
    tn_value push = tn_sub(net_d(n, 2, q ? "y" : "x"), tn_mul(nu, tn_add(net_d(n, q, "xx"), net_d(n, q, "yy"))));
    r[q] = tn_add(tn_add(net_d(n, q, "z"), flow), push);
  }
  r[2] = tn_add(net_d(n, 0, "x"), net_d(n, 1, "y"));
  return with_gradients(n, 3, r, out);
}

/* ---- Rows ---- */

/* Every elementwise row over points and without points; x is in (-1, 1), so that some leave their domain. */
static size_t rows(net *n, tn_value *out) {
  size_t count = 0;
  tn_value x = n->x[0], y = n->x[1], w = n->b[0];
  for (int id = 0; id < TN_OPS; ++id) {
    const tn_op *op = tn_op_row((tn_op_id)id);
    bool power = id == TN_OP_powi || id == TN_OP_powr;
    if (op->class_ == TN_COMPARISON) { /* a mask goes out through a selection */
      tn_value mask = id == TN_OP_lt   ? tn_lt(x, y)
                      : id == TN_OP_le ? tn_le(x, y)
                      : id == TN_OP_gt ? tn_gt(x, y)
                      : id == TN_OP_ge ? tn_ge(x, y)
                      : id == TN_OP_eq ? tn_eq(x, x)
                                       : tn_ne(x, y);
      out[count++] = tn_where(mask, x, net_k(n, 2));
    } else if (op->arity == 2 && tn_dtype_is_float(n->dtype)) {
      out[count++] = tn_binary((tn_op_id)id, x, y);
    } else if (op->arity == 1) {
      tn_value far = id == TN_OP_sin || id == TN_OP_cos ? tn_mul(net_k(n, 0x1p18), x) : x;
      out[count++] = tn_unary((tn_op_id)id, far, power ? -3 : 0);
      if (count % 3 == 0) out[count++] = tn_unary((tn_op_id)id, w, power ? 5 : 0);
    }
  }
  assert_true(count + 2 <= SAMPLE_OUTPUTS);
  out[count++] = tn_tanh(x);
  out[count++] = tn_sech2(x); /* a family */
  return count;
}

/* ---- Structure ---- */

/* Structural operations on a value [12] a point, or [2, 12] without points. */
static size_t moved(net *n, tn_value h, tn_value *out) {
  size_t count = 0, last = tn_shape_of(h).rank - 1;
  tn_shape cube = tn_shape_of(h);
  cube.rank = (uint32_t)last + 2;
  cube.extent[last] = 3;
  cube.extent[last + 1] = 4;
  tn_value c = tn_reshape(h, cube), rest = tn_rstd(h, 0x1p-10);
  out[count++] = tn_softmax(h);
  out[count++] = tn_layer_norm(h, 0x1p-10);
  out[count++] = rest;
  out[count++] = tn_transpose(c, last, last + 1);
  out[count++] = tn_slice(c, last, 1, 2);
  out[count++] = tn_pad(h, last, 2, 3);
  out[count++] = tn_concat(2, (tn_value[]){tn_slice(h, last, 0, 5), h}, last);
  out[count++] = tn_stack(2, (tn_value[]){h, tn_square(h)});
  out[count++] = tn_expand(h, last, 0, 5);
  out[count++] = tn_sum(c, last);
  out[count++] = tn_sum(tn_sum(c, last + 1), last);
  tn_value zero = tn_mul(net_k(n, 0), h), mask = tn_both(tn_gt(h, zero), tn_not(tn_lt(tn_square(h), zero)));
  out[count++] = tn_where(tn_either(mask, tn_eq(h, zero)), h, tn_neg(tn_exp(h)));
  return count;
}

static size_t structure(net *n, tn_value *out) {
  tn_value xy = tn_stack(2, n->x), h = tn_tanh(tn_linear(xy, n->w[0], n->b[0], false));
  tn_dtype other = n->dtype == TN_F64 ? TN_F32 : TN_F64;
  size_t count = moved(n, h, out);
  count += moved(n, n->w[0], out + count);
  out[count++] = tn_sum(h, 0);
  out[count++] = tn_sum(tn_pad(h, 1, 20, 30), 0);
  out[count++] = tn_jet_outer(1, &h, &xy);
  out[count++] = tn_matmul(n->w[0], n->w[1]);
  out[count++] = tn_jet_outer(1, &n->b[0], &n->b[0]);
  out[count++] = tn_cast(h, other); /* other panels, and back */
  out[count++] = tn_tanh(tn_cast(tn_square(tn_cast(h, other)), n->dtype));
  out[count++] = tn_cast(n->w[0], TN_F16);
  out[count++] = tn_cast(n->w[0], TN_TF32);
  out[count++] = tn_mul(tn_sum(tn_sum(h, 1), 0), tn_cast(tn_count(n->graph, TN_F64, n->axis), n->dtype));
  tn_value mean = tn_div(tn_sum(h, 0), net_k(n, 8)); /* a sum that comes back to the points */
  out[count++] = tn_sum(tn_sub(h, tn_expand(mean, 0, n->axis, 0)), 0);
  if (n->dtype == TN_F64) { /* a mask without points counts as one of f64 */
    tn_value positive = tn_expand(tn_gt(mean, tn_mul(net_k(n, 0), mean)), 0, n->axis, 0);
    out[count++] = tn_where(positive, h, tn_neg(h));
  }
  return count;
}

const sample samples[] = {
    {"burgers", TN_F64, true, 1, 20, 4, TN_OP_tanh, burgers},
    {"burgers", TN_F32, true, 1, 20, 4, TN_OP_tanh, burgers},
    {"burgers", TN_BF16, true, 1, 20, 3, TN_OP_tanh, burgers},
    {"burgers", TN_F16, false, 1, 20, 4, TN_OP_tanh, burgers},
    {"burgers", TN_TF32, false, 1, 20, 4, TN_OP_silu, burgers},
    {"kdv", TN_F64, false, 1, 50, 4, TN_OP_tanh, kdv},
    {"kdv", TN_F32, false, 1, 24, 4, TN_OP_gelu, kdv},
    {"helmholtz", TN_F64, false, 1, 20, 4, TN_OP_sin, helmholtz},
    {"helmholtz", TN_F32, false, 1, 20, 4, TN_OP_sin, helmholtz},
    {"allen_cahn", TN_F64, false, 1, 32, 4, TN_OP_sigmoid, allen_cahn}, /* sums by points */
    {"allen_cahn", TN_F32, true, 1, 32, 3, TN_OP_softplus, allen_cahn},
    {"allen_cahn", TN_F64, false, 1, 72, 3, TN_OP_tanh, allen_cahn}, /* wide products */
    {"navier_stokes", TN_F64, false, 3, 20, 4, TN_OP_tanh, navier_stokes},
    {"navier_stokes", TN_F32, false, 3, 64, 4, TN_OP_tanh, navier_stokes},
    {"navier_stokes", TN_BF16, false, 3, 20, 4, TN_OP_tanh, navier_stokes},
    {"rows", TN_F64, true, 1, 20, 2, TN_OP_tanh, rows},
    {"rows", TN_F32, false, 1, 20, 2, TN_OP_tanh, rows},
    {"rows", TN_F16, false, 1, 20, 2, TN_OP_tanh, rows},
    {"structure", TN_F64, true, 1, 12, 2, TN_OP_tanh, structure},
    {"structure", TN_F32, false, 1, 12, 2, TN_OP_tanh, structure},
    {"structure", TN_BF16, true, 1, 12, 2, TN_OP_tanh, structure},
};
const size_t n_samples = sizeof samples / sizeof *samples;

size_t sample_open(const sample *s, net *n, tn_value *out) {
  size_t n_in = s->outputs == navier_stokes ? 3 : 2;
  net_open(n, (net_shape){s->dtype, n_in, s->n_out, s->width, s->n_layers, s->activation, true, false});
  size_t count = s->outputs(n, out);
  assert_true(count <= SAMPLE_OUTPUTS);
  for (size_t i = 0; i < count; ++i)
    if (!tn_ok(out[i])) fail_msg("%s: output %zu: %s", s->name, i, tn_error_text());
  return count;
}
