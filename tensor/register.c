/* register.c: operations of users.
 *
 * A description (tn_custom) becomes a descriptor (tn_op) with the user's name and the id TN_OP_custom, so that no
 * table and no switch grows with what users add. The address of the descriptor is part of a node's identity. There
 * are three ways to compute: by a meaning in operations, which is expanded where it is applied and leaves no node
 * of its own; by a function of scalars; by a callback on whole arrays. The last has a second descriptor for the
 * node that computes its cotangents, and none for derivatives of that: what an opaque operation does not say, a
 * pass refuses by name.
 *
 * The list of descriptors is the one mutable global here: names are unique in the process, as rows are.
 */
#include "tensor/graph.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct registered {
  tn_custom custom; /* first: a descriptor's tn_op.custom leads back here */
  tn_op op, vjp;
  struct registered *next;
  char *name, *doc, *vjp_name; /* owned */
} registered;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static registered *list;

static const registered *entry_of(const tn_op *op) { return (const registered *)(const void *)op->custom; }

bool tn_op_is_vjp(const tn_op *op) { return op->custom && op == &entry_of(op)->vjp; }

const tn_op *tn_registered_find(const char *name) {
  const tn_op *found = NULL;
  pthread_mutex_lock(&lock);
  for (const registered *r = list; r && !found; r = r->next)
    if (strcmp(r->name, name) == 0) found = &r->op;
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- Registering ---- */

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return name && *name && strlen(name) < 64 && strspn(name, letters) == strlen(name);
}

static tn_status check(const tn_custom *c) {
  if (!is_name(c->name))
    return TN_FAIL(TN_EINPUT, "register: name `%s`, expected up to 63 letters, digits and _",
                   c->name ? c->name : "");
  if (!c->meaning && !c->f64 && !c->forward)
    return TN_FAIL(TN_EINPUT, "register `%s`: no way to compute it, expected a meaning, f64 or forward", c->name);
  if (c->forward && (c->f64 || c->meaning))
    return TN_FAIL(TN_EINPUT, "register `%s`: forward beside %s; an opaque operation has nothing else", c->name,
                   c->f64 ? "f64" : "a meaning");
  if (!c->f64 && (c->f32 || c->derivative))
    return TN_FAIL(TN_EINPUT, "register `%s`: %s without f64", c->name, c->f32 ? "f32" : "a derivative");
  if (!c->forward && (c->shape || c->vjp))
    return TN_FAIL(TN_EINPUT, "register `%s`: %s without forward", c->name, c->shape ? "a shape" : "a vjp");
  size_t most = c->f64 ? 2 : TN_CUSTOM_INPUTS;
  if (!c->n_inputs || c->n_inputs > most)
    return TN_FAIL(TN_EINPUT, "register `%s`: %zu inputs, expected 1 to %zu", c->name, c->n_inputs, most);
  return TN_OK;
}

static void release(registered **r) {
  if (!*r) return;
  tn_free(&(*r)->name);
  tn_free(&(*r)->doc);
  tn_free(&(*r)->vjp_name);
  tn_free(r);
}

static tn_status fill_in(registered *r, const tn_custom *custom) {
  size_t n = strlen(custom->name);
  TN_TRY(tn_copy_text(custom->name, &r->name));
  TN_TRY(tn_copy_text(custom->doc ? custom->doc : "", &r->doc));
  TN_TRY(TN_NEW(n + 5, &r->vjp_name));
  snprintf(r->vjp_name, n + 5, "%s_vjp", custom->name);
  r->custom = *custom;
  r->custom.name = r->name;
  r->custom.doc = r->doc;
  r->op = *tn_op_row(TN_OP_custom);
  r->op.name = r->name;
  r->op.doc = r->doc;
  r->op.custom = &r->custom;
  r->vjp = r->op;
  r->vjp.name = r->vjp_name;
  return TN_OK;
}

tn_status tn_op_register(const tn_custom *custom, const tn_op **out) {
  registered *r = NULL;
  *out = NULL;
  TN_TRY(check(custom));
  for (size_t i = 0; i < TN_OPS; ++i)
    if (strcmp(tn_op_row((tn_op_id)i)->name, custom->name) == 0)
      return TN_FAIL(TN_EINPUT, "register `%s`: there is a row of this name", custom->name);
  TN_TRY(TN_NEW(1, &r));
  tn_status status = fill_in(r, custom);
  pthread_mutex_lock(&lock);
  for (const registered *other = list; other && status == TN_OK; other = other->next)
    if (strcmp(other->name, custom->name) == 0)
      status = TN_FAIL(TN_EINPUT, "register `%s`: there is an operation of this name", custom->name);
  if (status == TN_OK) {
    r->next = list;
    list = r;
    *out = &r->op;
  }
  pthread_mutex_unlock(&lock);
  if (status != TN_OK) release(&r);
  return status;
}

void tn_op_unregister(const tn_op **op) {
  registered *gone = NULL;
  if (!op || !*op) return;
  pthread_mutex_lock(&lock);
  for (registered **at = &list; *at && !gone; at = &(*at)->next)
    if (&(*at)->op == *op) {
      gone = *at;
      *at = gone->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  release(&gone);
  *op = NULL;
}

/* ---- Applying ---- */

static tn_value by_meaning(tn_graph *graph, const tn_custom *c, const tn_value *x) {
  tn_value y = c->meaning(c->context, x);
  if (tn_ok(y) && y.graph == graph) return y;
  if (tn_graph_error(graph) != TN_OK) return (tn_value){0};
  return tn_graph_fail(graph, TN_EHANDLE, "%s: its meaning gave no value of this graph", c->name);
}

static bool is_axis_of(tn_axis axis, size_t n, const tn_shape *shapes) {
  for (size_t i = 0; i < n; ++i)
    if (tn_shape_batched(&shapes[i]) && shapes[i].axis[0] == axis) return true;
  return false;
}

/* The shape of an opaque operation's result; false: an error of the graph. */
static bool opaque_shape(tn_graph *graph, const tn_custom *c, const tn_value *x, tn_shape *out) {
  tn_shape shapes[TN_CUSTOM_INPUTS];
  for (size_t i = 0; i < c->n_inputs; ++i) shapes[i] = tn_shape_of(x[i]);
  *out = shapes[0];
  if (c->shape) {
    memset(out, 0, sizeof *out);
    tn_error_clear();
    tn_status status = c->shape(c->context, shapes, out);
    if (status != TN_OK) {
      tn_graph_fail(graph, status, "%s: no shape for these inputs: %.400s", c->name,
                    tn_error_text()[0] ? tn_error_text() : tn_status_text(status));
      return false;
    }
  }
  if (!tn_shape_settle(graph, c->name, out)) return false;
  if (!tn_shape_batched(out) || is_axis_of(out->axis[0], c->n_inputs, shapes)) return true;
  tn_graph_fail(graph, TN_ESHAPE, "%s: its result has points of axis `%s`, which no input has", c->name,
                tn_axis_name(graph, out->axis[0]));
  return false;
}

tn_value tn_apply(const tn_op *op, size_t n, const tn_value *x) {
  tn_graph *graph = tn_common_graph(n, x);
  tn_value bad = {0};
  if (!graph) return bad;
  const tn_custom *c = op ? op->custom : NULL;
  if (!c || tn_op_is_vjp(op))
    return tn_graph_fail(graph, TN_EHANDLE, "apply: %s is not an operation that tn_op_register gave",
                         op ? op->name : "NULL");
  if (n != c->n_inputs)
    return tn_graph_fail(graph, TN_ESHAPE, "%s of %zu inputs, expected %zu", c->name, n, c->n_inputs);
  tn_edge edges[TN_CUSTOM_INPUTS];
  for (size_t i = 0; i < n; ++i) {
    if (!tn_dtype_is_float(tn_dtype_of(x[i])) || tn_dtype_of(x[i]) != tn_dtype_of(x[0]))
      return tn_graph_fail(graph, TN_EDTYPE, "%s: input %zu is %s, expected one float dtype for all", c->name, i,
                           tn_dtype_name(tn_dtype_of(x[i])));
    edges[i] = tn_edge_of(x[i]);
  }
  if (!c->f64 && !c->forward) return by_meaning(graph, c, x);
  tn_shape shape = tn_shape_of(x[0]);
  if (c->forward ? !opaque_shape(graph, c, x, &shape)
                 : n == 2 && !tn_shapes_join(graph, c->name, x[0], x[1], &shape))
    return bad;
  tn_node node = {.op = op, .dtype = tn_dtype_of(x[0]), .n_inputs = (uint32_t)n, .inputs = edges,
                  .n_outputs = 1, .shapes = &shape};
  return tn_node_make(graph, &node);
}

tn_status tn_apply_vjp(const tn_op *op, const tn_value *x, tn_value y, tn_value ybar, tn_value *xbar) {
  const registered *r = entry_of(op);
  size_t n = r->custom.n_inputs;
  tn_value all[TN_CUSTOM_INPUTS + 2];
  tn_edge edges[TN_CUSTOM_INPUTS + 2];
  tn_shape shapes[TN_CUSTOM_INPUTS], result = tn_shape_of(y), given = tn_shape_of(ybar);
  for (size_t i = 0; i < n + 2; ++i) all[i] = i < n ? x[i] : i == n ? y : ybar;
  tn_graph *graph = tn_common_graph(n + 2, all);
  if (!graph) return TN_FAIL(TN_EHANDLE, "%s_vjp: bad inputs: %s", r->name, tn_error_text());
  if (!r->custom.vjp) {
    tn_graph_fail(graph, TN_EUNSUPPORTED, "%s: an opaque operation without a vjp has no derivative", r->name);
    return TN_EUNSUPPORTED;
  }
  if (!tn_shape_equal(&result, &given) || tn_dtype_of(y) != tn_dtype_of(ybar)) {
    tn_graph_fail(graph, TN_ESHAPE, "%s_vjp: the cotangent does not fit the value", r->name);
    return TN_ESHAPE;
  }
  for (size_t i = 0; i < n + 2; ++i) {
    edges[i] = tn_edge_of(all[i]);
    if (i < n) shapes[i] = tn_shape_of(all[i]);
  }
  tn_node node = {.op = &r->vjp, .dtype = tn_dtype_of(y), .n_inputs = (uint32_t)n + 2, .inputs = edges,
                  .n_outputs = (uint32_t)n, .shapes = shapes};
  tn_value v = tn_node_make(graph, &node);
  if (!v.graph) return tn_graph_error(graph);
  for (size_t i = 0; i < n; ++i) xbar[i] = tn_value_at(graph, v.node, (uint32_t)i);
  return TN_OK;
}

tn_status tn_rebuild_custom(tn_graph *graph, const tn_node *node, const tn_value *in, tn_value *ports) {
  if (tn_op_is_vjp(node->op)) {
    size_t n = node->op->custom->n_inputs;
    return tn_apply_vjp(&entry_of(node->op)->op, in, in[n], in[n + 1], ports);
  }
  ports[0] = tn_apply(node->op, node->n_inputs, in);
  return ports[0].graph ? TN_OK : tn_graph_error(graph);
}
