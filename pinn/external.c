/* external.c: functions of shared libraries as operations of the graph.
 *
 * Each derivative of such a function is one operation of a user (tn_op_register), named after the library's place in memory,
 * the function and the orders, made when it is first needed and kept: the same name is the same operation in every graph of the
 * process. Its derivative is the operation of the next order; an order that the library does not have ends the
 * differentiation with an error that names it. A first order of nothing (0, 0) is asked for when the file is read, so that a
 * library of another kind is found there.
 */
#include "pinn/external.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/plugin.h"

enum { MOST_ARGUMENTS = 2 };

typedef struct external { /* the context of an operation; lives as long as the process */
  pinn_plugin *function;
  char name[64];
  size_t n;
  unsigned order[MOST_ARGUMENTS];
} external;

static pinn_plugin *function_of(const pn_definition *d) {
  pinn_plugin *function = NULL;
  memcpy(&function, &d->external, sizeof function); /* ISO C has no cast between the two */
  return function;
}

tn_status pn_external_open(pn_problem *p, pn_definition *d) {
  char *folder = NULL, *path = NULL, symbol[80];
  const unsigned order[MOST_ARGUMENTS] = {0, 0};
  if (d->n_of == 0 || d->n_of > MOST_ARGUMENTS)
    return pn_fail_at(TN_EINPUT, d->place, strlen(d->name),
                      "`%s` of a library has %zu arguments; expected one or two: of = \"a, b\"", d->name, d->n_of);
  TN_TRY(pn_path_folder(p->source.file, &folder));
  tn_status status = pn_path_join(folder, d->library, &path);
  void *library = NULL;
  if (status == TN_OK && strchr(path, '/') == NULL) { /* dlopen would search the system for a bare name */
    char *here = path;
    status = pn_path_join(".", here, &path);
    tn_free(&here);
  }
  if (status == TN_OK) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      status = pn_fail_at(TN_EINPUT, d->place, strlen(d->name), "the library of `%s` cannot be loaded: %s", d->name,
                          dlerror());
  }
  snprintf(symbol, sizeof symbol, "pinn_%s", d->name);
  if (status == TN_OK) {
    d->external = dlsym(library, symbol);
    if (!d->external)
      status = pn_fail_at(TN_EINPUT, d->place, strlen(d->name), "%s has no function `%s` (docs/language.md says of which type)",
                          path, symbol);
  }
  if (status == TN_OK && function_of(d)(0, NULL, order, NULL) != 0)
    status = pn_fail_at(TN_EINPUT, d->place, strlen(d->name), "`%s` of %s does not even give values (order 0)", symbol, path);
  tn_free(&folder);
  tn_free(&path);
  return status;
}

tn_status pn_external_value(const pn_definition *d, const double *args, double *out) {
  const unsigned order[MOST_ARGUMENTS] = {0, 0};
  const double *x[MOST_ARGUMENTS] = {&args[0], &args[d->n_of - 1]};
  if (function_of(d)(1, x, order, out) != 0)
    return TN_FAIL(TN_EINPUT, "`%s` of its library gave no value", d->name);
  return TN_OK;
}

/* ---- Operations -------------------------------------------------------------------------------- */

static double value_of(void *context, const double *args) {
  const external *e = context;
  const double *x[MOST_ARGUMENTS] = {&args[0], &args[e->n - 1]};
  double value = 0;
  if (e->function(1, x, e->order, &value) != 0)
    return 0.0 / 0.0; /* it said that it has this one */
  return value;
}

static tn_status operation(const external *like, const tn_op **out);

static tn_value derivative_of(void *context, size_t by, const tn_value *x, tn_value y) {
  external next = *(const external *)context;
  const tn_op *op = NULL;
  ++next.order[by];
  if (operation(&next, &op) != TN_OK) {
    tn_graph *graph = x[0].graph ? x[0].graph : y.graph;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", tn_error_text());
    return tn_graph_fail(graph, TN_EINPUT, "%s", reason);
  }
  return tn_apply(op, next.n, x);
}

/* The operation of this function and these orders, registered when it is first asked for. */
static tn_status operation(const external *like, const tn_op **out) {
  char name[160];
  uintptr_t at = 0;
  external *context = NULL;
  char second[16] = "";
  if (like->n > 1)
    snprintf(second, sizeof second, "%u", like->order[1]);
  memcpy(&at, &like->function, sizeof at);
  snprintf(name, sizeof name, "plugin_%zx_%s_%u_%u", (size_t)at, like->name, like->order[0], like->order[1]);
  *out = tn_op_find(name);
  if (*out)
    return TN_OK;
  if (like->function(0, NULL, like->order, NULL) != 0)
    return TN_FAIL(TN_EINPUT,
                   "the library of `%s` does not give its derivative of order %u%s%s, which is needed here; training "
                   "needs one order more than the equations show",
                   like->name, like->order[0], like->n > 1 ? ", " : "", second);
  TN_TRY(TN_NEW(1, &context)); /* kept with the operation */
  *context = *like;
  const tn_custom custom = {.name = name,
                            .doc = "function of a shared library",
                            .context = context,
                            .n_inputs = like->n,
                            .f64 = value_of,
                            .derivative = derivative_of};
  tn_status status = tn_op_register(&custom, out);
  if (status != TN_OK)
    tn_free(&context);
  return status;
}

tn_status pn_external_apply(const pn_definition *d, size_t n, const tn_value *args, tn_value *out) {
  external first = {.function = function_of(d), .n = d->n_of};
  const tn_op *op = NULL;
  if (n != d->n_of)
    return TN_FAIL(TN_EINTERNAL, "`%s` with %zu arguments", d->name, n);
  snprintf(first.name, sizeof first.name, "%s", d->name);
  TN_TRY(operation(&first, &op));
  *out = tn_apply(op, n, args);
  return TN_OK;
}
