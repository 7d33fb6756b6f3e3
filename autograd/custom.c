/* custom.c: derivatives of operations that users register.
 *
 * A scalar operation says its first partial derivatives as expressions; the rest is made of them. Reverse and
 * forward mode multiply by them and differentiate them like any expression, so whatever an expression reads, the
 * value y among it, is followed: nothing saved is taken for a constant. Without expressions they come from the
 * meaning, by forward mode.
 *
 * Jets. With a = a_0 + m and b = b_0 + n,  f(a, b) = sum of f_ij(a_0, b_0) / (i! j!) m^i n^j  over i + j up to the
 * order of the algebra, f_ij by forward mode along the values a_0 and b_0.
 *
 * An opaque operation has a node that computes the cotangents of its inputs, and no derivative of that node.
 */
#include "autograd/rowwise.h"

#include <string.h>

bool ag_is_opaque(const tn_op *op) { return op->custom && op->custom->forward; }

/* The derivative of an elementwise expression along one of the arguments, the others held. */
static tn_value along(tn_value e, size_t n, const tn_value *x, size_t by) {
  tn_value dot[2] = {{0}, {0}}, out = {0}, one = ag_constant_like(x[by], 1);
  dot[by] = tn_shape_of(x[by]).rank ? tn_fill(e.graph, tn_dtype_of(e), tn_shape_of(x[by]), 1) : one;
  tn_status status = ag_jvp(n, x, dot, 1, &e, &out);
  return status == TN_OK ? out : tn_graph_fail(e.graph, status, "%s", tn_error_text());
}

/* f(x, x): the second argument gets a name of its own while slots are told apart. */
static bool tell_apart(size_t n, tn_value *x) {
  if (n < 2 || !tn_same(x[0], x[1])) return false;
  x[1] = tn_input(x[0].graph, "", tn_dtype_of(x[0]), tn_shape_of(x[0]));
  return true;
}

static tn_value put_back(tn_value e, tn_value from, tn_value to) {
  tn_value out = {0};
  if (!ag_present(e)) return e;
  tn_status status = ag_substitute(e.graph, 1, &from, &to, 1, &e, &out);
  return status == TN_OK ? out : tn_graph_fail(to.graph, status, "%s", tn_error_text());
}

static tn_value partial_of_meaning(const tn_custom *c, const tn_value *x, size_t by) {
  tn_value own[2] = {x[0], c->n_inputs > 1 ? x[1] : x[0]};
  bool apart = tell_apart(c->n_inputs, own);
  tn_value e = c->meaning(c->context, own);
  if (!ag_present(e)) return e;
  tn_value d = along(e, c->n_inputs, own, by);
  return apart ? put_back(d, own[1], x[1]) : d;
}

tn_value ag_custom_partial(tn_graph *graph, const tn_op *op, const tn_value *x, tn_value y, size_t by) {
  const tn_custom *c = op->custom;
  if (!c->derivative && !c->meaning)
    return tn_graph_fail(graph, TN_EUNSUPPORTED, "%s: no derivative, it was registered without one", op->name);
  tn_value d = c->derivative ? c->derivative(c->context, by, x, y) : partial_of_meaning(c, x, by);
  if (tn_graph_error(graph) != TN_OK) return (tn_value){0};
  if (!tn_ok(d) || d.graph != graph)
    return tn_graph_fail(graph, TN_EHANDLE, "%s: its derivative by argument %zu is no value of this graph", op->name,
                         by);
  tn_shape got = tn_shape_of(d), want = tn_shape_of(y), arg = tn_shape_of(x[by]);
  char text[96], expected[96];
  if (got.rank && !tn_shape_equal(&got, &want) && !tn_shape_equal(&got, &arg))
    return tn_graph_fail(graph, TN_ESHAPE, "%s: its derivative by argument %zu has shape %s, expected %s or a scalar",
                         op->name, by, tn_shape_text(graph, &got, text, sizeof text),
                         tn_shape_text(graph, &want, expected, sizeof expected));
  if (tn_dtype_of(d) != tn_dtype_of(y))
    return tn_graph_fail(graph, TN_EDTYPE, "%s: its derivative by argument %zu is %s, expected %s", op->name, by,
                         tn_dtype_name(tn_dtype_of(d)), tn_dtype_name(tn_dtype_of(y)));
  return d;
}

/* ---- Jets ---- */

static bool is_empty(const tn_jet *jet) {
  for (uint32_t c = 0; c < jet->table->channels; ++c)
    if (ag_present(jet->channel[c])) return false;
  return true;
}

/* *power *= n, both without a value; the result may be zero by structure. */
static tn_status raise(tn_jet *power, const tn_jet *n) {
  tn_jet out;
  if (is_empty(power)) return TN_OK;
  TN_TRY(tn_jet_mul(power, n, &out));
  *power = out;
  return TN_OK;
}

static void add_scaled(tn_jet *y, tn_value f, double factor, const tn_jet *power) {
  f = ag_times(ag_constant_like(f, factor), f);
  for (uint32_t c = 1; c < y->table->channels; ++c)
    if (ag_present(power->channel[c])) y->channel[c] = ag_plus(y->channel[c], ag_times(f, power->channel[c]));
}

typedef struct expansion {
  const tn_op *op;
  uint32_t order;
  tn_value x[2], y; /* values; arguments told apart */
  tn_jet n[2];      /* the rest of the arguments */
} expansion;

/* Terms of m^i with all powers of n; f: f_i0, or y itself for i = 0. power: m^i (i = 0: absent). */
static tn_status add_column(expansion *e, uint32_t i, tn_value f, const tn_jet *power, double factor, tn_jet *y) {
  size_t n_in = e->op->custom->n_inputs;
  tn_jet term;
  if (i) add_scaled(y, f, factor, power);
  if (n_in < 2 || is_empty(&e->n[1])) return tn_graph_error(e->y.graph);
  for (uint32_t j = 1; i + j <= e->order; ++j) {
    f = j == 1 && i == 0 ? ag_custom_partial(e->y.graph, e->op, e->x, e->y, 1) : along(f, n_in, e->x, 1);
    if (!ag_present(f)) return tn_graph_error(e->y.graph);
    factor /= j;
    if (j == 1 && i == 0) {
      term = e->n[1];
    } else if (j == 1) {
      term = *power;
      TN_TRY(raise(&term, &e->n[1]));
    } else {
      TN_TRY(raise(&term, &e->n[1]));
    }
    if (is_empty(&term) || ag_is_zero(f)) break;
    add_scaled(y, f, factor, &term);
  }
  return tn_graph_error(e->y.graph);
}

static tn_status expand(expansion *e, tn_jet *y) {
  tn_value f = e->y;
  tn_jet power = e->n[0];
  double factor = 1;
  TN_TRY(add_column(e, 0, f, &power, 1, y));
  for (uint32_t i = 1; i <= e->order && !is_empty(&power); ++i) {
    f = i == 1 ? ag_custom_partial(e->y.graph, e->op, e->x, e->y, 0) : along(f, e->op->custom->n_inputs, e->x, 0);
    if (!ag_present(f)) return tn_graph_error(e->y.graph);
    if (ag_is_zero(f)) break;
    factor /= i;
    TN_TRY(add_column(e, i, f, &power, factor, y));
    TN_TRY(raise(&power, &e->n[0]));
  }
  return TN_OK;
}

tn_status ag_custom_jet(tn_graph *graph, const tn_op *op, tn_jet *const *x, tn_jet *y) {
  const tn_custom *c = op->custom;
  const tn_jet_table *table = x[0]->table;
  if (ag_is_opaque(op)) {
    tn_graph_fail(graph, TN_EUNSUPPORTED, "%s: an opaque operation has first derivatives by reverse mode only, "
                  "none inside a field that is differentiated", op->name);
    return TN_EUNSUPPORTED;
  }
  expansion e = {.op = op, .order = table ? table->order : 0};
  tn_value value[2] = {x[0]->channel[0], c->n_inputs > 1 ? x[1]->channel[0] : x[0]->channel[0]};
  tn_value plain = tn_apply(op, c->n_inputs, value);
  memset(y->channel, 0, sizeof y->channel);
  memcpy(e.x, value, sizeof value);
  bool apart = tell_apart(c->n_inputs, e.x);
  e.y = apart ? tn_apply(op, c->n_inputs, e.x) : plain;
  y->channel[0] = plain;
  if (!ag_present(e.y) || !table) return tn_graph_error(graph);
  tn_shape shape = tn_shape_of(plain), fixed = shape;
  if (tn_shape_batched(&shape)) fixed = tn_shape_fixed(shape.rank - 1, shape.extent + 1);
  for (size_t k = 0; k < c->n_inputs; ++k) {
    e.n[k] = *x[k];
    e.n[k].channel[0] = (tn_value){0};
    ag_jet_widen(&e.n[k], fixed);
  }
  TN_TRY(expand(&e, y));
  for (uint32_t k = 1; apart && k < table->channels; ++k) y->channel[k] = put_back(y->channel[k], e.x[1], value[1]);
  return tn_graph_error(graph);
}
