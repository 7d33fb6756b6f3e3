/* export_c.c: a trained solution as C source that needs nothing but <math.h>.
 *
 * The items are lowered as for `pinn eval`, derivatives are expanded by repeated reverse mode of the network (no jets, so
 * that the operations left are the plain ones), and the program is written out for one point: a value of k numbers at a
 * point is an array of k doubles, an operation a loop. Operations between the same two sets of numbers are done in the
 * order of the program; functions are those of <math.h>, so values agree with `pinn eval` to some 1e-14 of their terms
 * and not to the bit. A sum over points does not occur, but for means over the domain, which are refused: their points are
 * not part of the file.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/export.h"
#include "pinn/files.h"
#include "pinn/text.h"

typedef struct writer {
  pn_model *model;
  const double *theta;
  uint32_t needed;
  pn_scope scope;
  tn_program *program;
  pn_text out;
} writer;

/* ---- Functions --------------------------------------------------------------------------------- */

/* Operations of one argument as C; x is the argument. */
static const struct {
  tn_op_id id;
  const char *text;
} functions[] = {
    {TN_OP_neg, "-x"},
    {TN_OP_recip, "1/x"},
    {TN_OP_square, "x*x"},
    {TN_OP_sqrt, "sqrt(x)"},
    {TN_OP_exp, "exp(x)"},
    {TN_OP_expm1, "expm1(x)"},
    {TN_OP_log, "log(x)"},
    {TN_OP_log1p, "log1p(x)"},
    {TN_OP_log10, "log10(x)"},
    {TN_OP_dlog10, "0.43429448190325182765/x"},
    {TN_OP_sin, "sin(x)"},
    {TN_OP_cos, "cos(x)"},
    {TN_OP_tan, "tan(x)"},
    {TN_OP_asin, "asin(x)"},
    {TN_OP_acos, "acos(x)"},
    {TN_OP_atan, "atan(x)"},
    {TN_OP_sinh, "sinh(x)"},
    {TN_OP_cosh, "cosh(x)"},
    {TN_OP_tanh, "tanh(x)"},
    {TN_OP_sech2, "pinn_sech2(x)"},
    {TN_OP_erf, "erf(x)"},
    {TN_OP_derf, "1.1283791670955125739*exp(-x*x)"},
    {TN_OP_normal_pdf, "0.39894228040143267794*exp(-0.5*x*x)"},
    {TN_OP_normal_cdf, "0.5*erfc(-0.70710678118654752440*x)"},
    {TN_OP_sigmoid, "pinn_sigmoid(x)"},
    {TN_OP_dsigmoid, "0.25*pinn_sech2(0.5*x)"},
    {TN_OP_softplus, "(x > 0 ? x : 0) + log1p(exp(-fabs(x)))"},
    {TN_OP_silu, "x*pinn_sigmoid(x)"},
    {TN_OP_gelu, "x*(0.5*erfc(-0.70710678118654752440*x))"},
    {TN_OP_relu, "x <= 0 ? 0 : x"},
    {TN_OP_step, "x > 0 ? 1 : 0"},
    {TN_OP_relu2, "x <= 0 ? 0 : x*x"},
    {TN_OP_relu3, "x <= 0 ? 0 : x*x*x"},
    {TN_OP_abs, "fabs(x)"},
    {TN_OP_sign, "(x > 0) - (x < 0)"},
    {TN_OP_not, "x == 0"},
};

static const char *binary_text(tn_op_id id) {
  switch (id) {
  case TN_OP_add:
    return "x + y";
  case TN_OP_sub:
    return "x - y";
  case TN_OP_mul:
    return "x*y";
  case TN_OP_div:
    return "x/y";
  case TN_OP_pow:
    return "pow(x, y)";
  case TN_OP_atan2:
    return "atan2(x, y)";
  case TN_OP_min:
    return "x <= y ? x : y";
  case TN_OP_max:
    return "x >= y ? x : y";
  case TN_OP_lt:
    return "x < y";
  case TN_OP_le:
    return "x <= y";
  case TN_OP_gt:
    return "x > y";
  case TN_OP_ge:
    return "x >= y";
  case TN_OP_eq:
    return "x == y";
  case TN_OP_ne:
    return "x != y";
  case TN_OP_both:
    return "x != 0 && y != 0";
  case TN_OP_either:
    return "x != 0 || y != 0";
  default:
    return NULL;
  }
}

static const char helpers[] = "static double pinn_sech2(double x) {\n"
                              "  double q = exp(-2*fabs(x));\n"
                              "  return 4*q/((1 + q)*(1 + q));\n"
                              "}\n\n"
                              "static double pinn_sigmoid(double x) {\n"
                              "  double q = exp(-fabs(x));\n"
                              "  return x < 0 ? q/(1 + q) : 1/(1 + q);\n"
                              "}\n\n";

/* ---- Shapes ------------------------------------------------------------------------------------ */

/* Numbers of a value at one point. */
static size_t width_of(const tn_shape *s) {
  size_t n = 1;
  for (uint32_t k = 0; k < s->rank; ++k)
    n *= s->axis[k] ? 1 : s->extent[k];
  return n;
}

static void split(const tn_shape *s, size_t axis, size_t *before, size_t *at, size_t *after) {
  *before = *at = *after = 1;
  for (uint32_t k = 0; k < s->rank; ++k) {
    size_t n = s->axis[k] ? 1 : s->extent[k];
    *(k < axis ? before : k == axis ? at : after) *= n;
  }
}

static const tn_shape *shape_in(const writer *w, const tn_node *node, size_t k) {
  return &tn_program_node(w->program, node->inputs[k].node)->shapes[node->inputs[k].port];
}

/* ---- Elementwise ------------------------------------------------------------------------------- */

/* "v7[i]", or "v7[0]" of one number beside many. */
static void put_operand(writer *w, const tn_node *node, size_t k, size_t width) {
  size_t own = width_of(shape_in(w, node, k));
  pn_putf(&w->out, "v%u[%s]", node->inputs[k].node, own == 1 && width > 1 ? "0" : "i");
}

static void put_loop(writer *w, size_t i, size_t width) {
  pn_putf(&w->out, "  double v%zu[%zu];\n  for (int i = 0; i < %zu; ++i) ", i, width, width);
}

/* Puts the text of a function with its arguments in place of x and y. */
static void put_formula(writer *w, const tn_node *node, const char *text, size_t width) {
  for (const char *c = text; *c; ++c) {
    bool name = c > text && (strchr("abcdefghijklmnopqrstuvwxyz_0123456789", c[-1]) != NULL);
    bool more = c[1] && strchr("abcdefghijklmnopqrstuvwxyz_0123456789", c[1]) != NULL;
    if ((*c == 'x' || *c == 'y') && !name && !more)
      put_operand(w, node, *c == 'y', width);
    else
      pn_putf(&w->out, "%c", *c);
  }
}

static tn_status put_elementwise(writer *w, size_t i, const tn_node *node) {
  const size_t width = width_of(&node->shapes[0]);
  const char *text = binary_text(node->op->id);
  for (size_t k = 0; k < sizeof functions / sizeof *functions; ++k)
    if (functions[k].id == node->op->id)
      text = functions[k].text;
  if (node->op->id == TN_OP_powi || node->op->id == TN_OP_powr) {
    put_loop(w, i, width);
    pn_putf(&w->out, "v%zu[i] = pow(", i);
    put_operand(w, node, 0, width);
    pn_putf(&w->out, ", %.17g);\n", node->number);
    return TN_OK;
  }
  if (node->op->id == TN_OP_where) {
    put_loop(w, i, width);
    pn_putf(&w->out, "v%zu[i] = ", i);
    put_operand(w, node, 0, width);
    pn_put(&w->out, " != 0 ? ");
    put_operand(w, node, 1, width);
    pn_put(&w->out, " : ");
    put_operand(w, node, 2, width);
    pn_put(&w->out, ";\n");
    return TN_OK;
  }
  if (!text)
    return TN_FAIL(TN_EUNSUPPORTED, "export to C: the operation `%s` has no form there", node->op->name);
  put_loop(w, i, width);
  pn_putf(&w->out, "v%zu[i] = ", i);
  put_formula(w, node, text, width);
  pn_put(&w->out, ";\n");
  return TN_OK;
}

/* ---- Leaves ------------------------------------------------------------------------------------ */

static void put_numbers(writer *w, size_t i, size_t n, const double *x) {
  pn_putf(&w->out, "  static const double v%zu[%zu] = {", i, n);
  for (size_t k = 0; k < n; ++k)
    pn_putf(&w->out, "%s%.17g", k == 0 ? "\n    " : k % 4 ? ", " : ",\n    ", x[k]);
  pn_put(&w->out, "};\n");
}

/* Which block of theta, or NULL. */
static const pn_block *block_of(const writer *w, size_t i) {
  for (size_t b = 0; b < w->model->n_blocks; ++b) {
    uint32_t node = 0;
    if (tn_program_leaf(w->program, w->model->blocks[b].leaf, &node) && node == i)
      return &w->model->blocks[b];
  }
  return NULL;
}

static double scalar_of(const writer *w, size_t i, double otherwise) {
  for (size_t u = 0; u < w->model->problem->n_unknowns; ++u) {
    uint32_t node = 0;
    if (tn_ok(w->model->unknown_scale_leaf[u]) &&
        tn_program_leaf(w->program, w->model->unknown_scale_leaf[u], &node) && node == i)
      return w->model->unknown_scale[u];
  }
  return otherwise;
}

static tn_status put_input(writer *w, size_t i, const tn_node *node) {
  size_t place = 0;
  for (size_t c = 0; c < w->model->problem->n_coordinates; ++c) {
    uint32_t leaf = 0;
    if (!(w->needed >> c & 1))
      continue;
    if (w->scope.free_[c] && tn_program_leaf(w->program, w->scope.coordinate[c], &leaf) && leaf == i) {
      pn_putf(&w->out, "  const double v%zu[1] = {x[%zu]}; /* %s */\n", i, place,
              w->model->problem->coordinates[c].name);
      return TN_OK;
    }
    ++place;
  }
  return TN_FAIL(TN_EUNSUPPORTED,
                 "export to C: `%s` is known at sampled points only (a table, a column of data or a mean over "
                 "the domain)",
                 node->name ? node->name : "an input");
}

static tn_status put_leaf(writer *w, size_t i, const tn_node *node) {
  const size_t width = width_of(&node->shapes[0]);
  const pn_block *block = NULL;
  double one = node->number;
  switch (node->op->id) {
  case TN_OP_parameter:
    block = block_of(w, i);
    if (!block)
      return TN_FAIL(TN_EINTERNAL, "export to C: a weight without a block");
    put_numbers(w, i, block->count, w->theta + block->offset);
    return TN_OK;
  case TN_OP_input:
    return put_input(w, i, node);
  case TN_OP_array:
    put_numbers(w, i, width, node->data);
    return TN_OK;
  case TN_OP_scalar:
    one = scalar_of(w, i, one);
    put_numbers(w, i, 1, &one);
    return TN_OK;
  case TN_OP_constant:
    put_numbers(w, i, 1, &one);
    return TN_OK;
  case TN_OP_fill:
    put_loop(w, i, width);
    pn_putf(&w->out, "v%zu[i] = %.17g;\n", i, one);
    return TN_OK;
  default:
    return TN_FAIL(TN_EUNSUPPORTED, "export to C: a mean over points of the domain has no form there");
  }
}

/* ---- Structure --------------------------------------------------------------------------------- */

/* y[o * y_step + y_offset + i] = x[o * x_step + x_offset + i], o < outer, i < count. */
static void put_copy(writer *w, size_t to, size_t from, size_t outer, size_t count, size_t x_step,
                     size_t x_offset, size_t y_step, size_t y_offset) {
  pn_putf(&w->out,
          "  for (int o = 0; o < %zu; ++o)\n    for (int i = 0; i < %zu; ++i)\n"
          "      v%zu[o*%zu + %zu + i] = v%zu[o*%zu + %zu + i];\n",
          outer, count, to, y_step, y_offset, from, x_step, x_offset);
}

static void put_joined(writer *w, size_t i, const tn_node *node) {
  const bool stack = node->op->id == TN_OP_stack;
  const size_t axis = stack ? node->shapes[0].rank - 1 : (size_t)node->integer[0];
  size_t before, at, after, offset = 0;
  split(&node->shapes[0], axis, &before, &at, &after);
  for (uint32_t k = 0; k < node->n_inputs; ++k) {
    size_t b, own = 1, a;
    if (!stack)
      split(shape_in(w, node, k), axis, &b, &own, &a);
    put_copy(w, i, node->inputs[k].node, before, own * after, own * after, 0, at * after, offset * after);
    offset += own;
  }
}

static void put_transposed(writer *w, size_t i, const tn_node *node) {
  const tn_shape *in = shape_in(w, node, 0);
  const size_t a = (size_t)node->integer[0], b = (size_t)node->integer[1];
  size_t before, na, inner, middle = 1, nb, after;
  split(in, a, &before, &na, &inner);
  split(in, b, &inner, &nb, &after);
  for (size_t k = a + 1; k < b; ++k)
    middle *= in->axis[k] ? 1 : in->extent[k];
  pn_putf(&w->out,
          "  for (int o = 0; o < %zu; ++o)\n    for (int a = 0; a < %zu; ++a)\n"
          "      for (int m = 0; m < %zu; ++m)\n        for (int b = 0; b < %zu; ++b)\n"
          "          for (int i = 0; i < %zu; ++i)\n"
          "            v%zu[(((o*%zu + b)*%zu + m)*%zu + a)*%zu + i] = v%u[(((o*%zu + a)*%zu + m)*%zu + b)*%zu + i];\n",
          before, na, middle, nb, after, i, nb, middle, na, after, node->inputs[0].node, na, middle, nb,
          after);
}

static void put_sum(writer *w, size_t i, const tn_node *node) {
  size_t before, at, after;
  split(shape_in(w, node, 0), (size_t)node->integer[0], &before, &at, &after);
  pn_putf(&w->out,
          "  for (int o = 0; o < %zu; ++o)\n    for (int i = 0; i < %zu; ++i) {\n"
          "      v%zu[o*%zu + i] = 0;\n      for (int k = 0; k < %zu; ++k)\n"
          "        v%zu[o*%zu + i] += v%u[(o*%zu + k)*%zu + i];\n    }\n",
          before, after, i, after, at, i, after, node->inputs[0].node, at, after);
}

static void put_expanded(writer *w, size_t i, const tn_node *node) {
  size_t before, at, after;
  const size_t width = width_of(&node->shapes[0]), from = node->inputs[0].node;
  if (node->integer[1]) { /* over points: the same numbers at this one */
    put_copy(w, i, from, 1, width, width, 0, width, 0);
    return;
  }
  split(&node->shapes[0], (size_t)node->integer[0], &before, &at, &after);
  pn_putf(&w->out,
          "  for (int o = 0; o < %zu; ++o)\n    for (int k = 0; k < %zu; ++k)\n      for (int i = 0; i < %zu; ++i)\n"
          "        v%zu[(o*%zu + k)*%zu + i] = v%zu[o*%zu + i];\n",
          before, at, after, i, at, after, from, after);
}

/* y = h W + b, or h W^T; one channel. */
static tn_status put_product(writer *w, size_t i, const tn_node *node) {
  const bool bias = node->integer[1] != 0, transposed = node->integer[0] != 0;
  if (node->n_outputs != 1 || node->n_inputs != (bias ? 3u : 2u))
    return TN_FAIL(TN_EINTERNAL, "export to C: a product of jets");
  const tn_shape *weight = shape_in(w, node, 1);
  const size_t rows = weight->extent[0], columns = weight->extent[1];
  const size_t n = transposed ? rows : columns, k = transposed ? columns : rows;
  const size_t outer = width_of(&node->shapes[0]) / n;
  pn_putf(&w->out, "  for (int o = 0; o < %zu; ++o)\n    for (int j = 0; j < %zu; ++j) {\n", outer, n);
  if (bias)
    pn_putf(&w->out, "      double s = v%u[j];\n", node->inputs[2].node);
  else
    pn_put(&w->out, "      double s = 0;\n");
  pn_putf(&w->out, "      for (int i = 0; i < %zu; ++i) s += v%u[o*%zu + i]*v%u[%s%zu + %s];\n", k,
          node->inputs[0].node, k, node->inputs[1].node, transposed ? "j*" : "i*", columns,
          transposed ? "i" : "j");
  pn_putf(&w->out, "      v%zu[o*%zu + j] = s;\n    }\n", i, n);
  return TN_OK;
}

static tn_status put_structure(writer *w, size_t i, const tn_node *node) {
  const tn_shape *out = &node->shapes[0];
  const size_t width = width_of(out);
  const size_t axis = (size_t)node->integer[0], offset = (size_t)node->integer[1];
  size_t before = 1, at = 1, after = 1, b = 1, own = 1, a = 1;
  pn_putf(&w->out, "  double v%zu[%zu];\n", i, width);
  switch (node->op->id) {
  case TN_OP_reshape:
  case TN_OP_cast:
    put_copy(w, i, node->inputs[0].node, 1, width, width, 0, width, 0);
    return TN_OK;
  case TN_OP_sum:
    put_sum(w, i, node);
    return TN_OK;
  case TN_OP_expand:
    put_expanded(w, i, node);
    return TN_OK;
  case TN_OP_transpose:
    put_transposed(w, i, node);
    return TN_OK;
  case TN_OP_slice:
    split(shape_in(w, node, 0), axis, &before, &at, &after);
    split(out, axis, &b, &own, &a);
    put_copy(w, i, node->inputs[0].node, before, own * after, at * after, offset * after, own * after, 0);
    return TN_OK;
  case TN_OP_pad:
    split(shape_in(w, node, 0), axis, &before, &at, &after);
    split(out, axis, &b, &own, &a);
    pn_putf(&w->out, "  for (int i = 0; i < %zu; ++i) v%zu[i] = 0;\n", width, i);
    put_copy(w, i, node->inputs[0].node, before, at * after, at * after, 0, own * after, offset * after);
    return TN_OK;
  case TN_OP_concat:
  case TN_OP_stack:
    put_joined(w, i, node);
    return TN_OK;
  case TN_OP_jet_lin:
    return put_product(w, i, node);
  default:
    return TN_FAIL(TN_EUNSUPPORTED, "export to C: the operation `%s` has no form there", node->op->name);
  }
}

static tn_status put_node(writer *w, size_t i, const tn_node *node) {
  if (node->n_inputs == 0)
    return put_leaf(w, i, node);
  if (node->op->class_ == TN_FUSED || node->op->id >= TN_OP_sum)
    return put_structure(w, i, node);
  return put_elementwise(w, i, node);
}

/* ---- All --------------------------------------------------------------------------------------- */

static tn_status compile(writer *w, size_t n, const pn_item *items) {
  const ag_resolve_options options = {.nested = true};
  tn_value *out = NULL;
  TN_TRY(pn_scope_new(w->model, "export", NULL, w->needed, &w->scope));
  TN_TRY(TN_NEW(n, &out));
  tn_status status = TN_OK;
  for (size_t k = 0; status == TN_OK && k < n; ++k)
    status = items[k].kind == PN_ITEM_EXACT
                 ? TN_FAIL(TN_EINPUT, "export to C: an exact solution is in the problem file")
                 : pn_item_lower(&items[k], &w->scope, NULL, &out[k]);
  if (status == TN_OK && w->scope.mean)
    status = TN_FAIL(TN_EUNSUPPORTED, "export to C: a mean over points of the domain has no form there");
  if (status == TN_OK)
    status = ag_resolve(w->model->graph, n, out, &options, out, NULL);
  if (status == TN_OK)
    status = tn_compile(w->model->graph, n, out, &w->program);
  tn_free(&out);
  return status;
}

/* The function's name: the file's, as an identifier. */
static tn_status function_name(const char *path, char *out, size_t size) {
  char *stem = NULL;
  TN_TRY(pn_path_stem(path, &stem));
  snprintf(out, size, "%s%s", stem[0] >= '0' && stem[0] <= '9' ? "p" : "", stem);
  for (char *c = out; *c; ++c)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *c))
      *c = '_';
  tn_free(&stem);
  return TN_OK;
}

/* Inside a comment no text may end it. */
static void put_comment(pn_text *out, const char *text) {
  for (const char *c = text; *c; ++c) {
    if (*c == '\n')
      pn_put(out, "\n * ");
    else if (c[0] == '*' && c[1] == '/')
      pn_put(out, "* ");
    else
      pn_putf(out, "%c", *c);
  }
}

static void put_head(writer *w, size_t n, const char *const *names, const char *name, const char *note) {
  const pn_problem *p = w->model->problem;
  size_t place = 0;
  pn_put(&w->out, "/* ");
  put_comment(&w->out, note);
  pn_putf(&w->out, "\n *\n * void %s(const double *x, double *out);\n *\n", name);
  for (size_t c = 0; c < p->n_coordinates; ++c)
    if (w->needed >> c & 1)
      pn_putf(&w->out, " *   x[%zu]    %s, trained in [%.17g, %.17g]\n", place++, p->coordinates[c].name,
              p->coordinates[c].lo, p->coordinates[c].hi);
  for (size_t k = 0; k < n; ++k) {
    pn_putf(&w->out, " *   out[%zu]  ", k);
    put_comment(&w->out, names[k]);
    pn_put(&w->out, "\n");
  }
  pn_put(&w->out, " *\n * C99; no state, safe to call from several threads. Link with -lm. */\n#include <math.h>\n\n");
  pn_put(&w->out, helpers);
}

static tn_status write_all(writer *w, size_t n, const char *const *names, const char *note, const char *path) {
  char name[96];
  TN_TRY(function_name(path, name, sizeof name));
  put_head(w, n, names, name, note);
  pn_putf(&w->out, "void %s(const double *x, double *out) {\n", name);
  for (size_t i = 0; i < tn_program_nodes(w->program); ++i)
    TN_TRY(put_node(w, i, tn_program_node(w->program, i)));
  for (size_t k = 0; k < n; ++k)
    pn_putf(&w->out, "  out[%zu] = v%u[0];\n", k, tn_program_output(w->program, k).node);
  pn_put(&w->out, "  (void)x;\n  (void)pinn_sech2;\n  (void)pinn_sigmoid;\n}\n");
  TN_TRY(pn_text_status(&w->out));
  return pn_write_atomic(path, w->out.text, strlen(w->out.text));
}

tn_status pn_export_c(pn_model *model, const double *theta, uint32_t needed, size_t n, const pn_item *items,
                      const char *const *names, const char *note, const char *path) {
  writer w = {.model = model, .theta = theta, .needed = needed};
  tn_status status = compile(&w, n, items);
  if (status == TN_OK)
    status = write_all(&w, n, names, note, path);
  tn_program_free(&w.program);
  pn_text_free(&w.out);
  return status;
}
