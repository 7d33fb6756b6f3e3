/* import_weights.c: arrays of another program as the layers of a perceptron.
 *
 * Names as PyTorch and DeepXDE write them: PREFIX.weight of [out, in] and PREFIX.bias of [out], layers in the natural order
 * of their prefixes (layers.2 before layers.10), or, where that does not chain, in the order of the file. Without such
 * names (arr_0, arr_1, ...) matrices are weights and the vector behind each its bias. Where only [in, out] chains, as
 * Keras and JAX write it, that is taken. Each array must be used: one that no layer takes (a scaling of inputs, an
 * embedding) would have changed the function.
 *
 * Outputs are the network's unknowns in the order of [unknowns], inputs the coordinates in the order of `of`.
 */
#include "pinn/warm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/net_layers.h"
#include "pinn/weights.h"

typedef struct layer {
  const pn_tensor *weight, *bias; /* bias NULL: 0 */
} layer;

struct pn_layers {
  pn_tensors tensors;
  size_t n;
  layer *list;
};

/* ---- Order -------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Numbers inside names compare as numbers. */
static int compare_names(const char *a, const char *b) {
  while (*a && *b) {
    if (is_digit(*a) && is_digit(*b)) {
      while (*a == '0' && is_digit(a[1]))
        ++a;
      while (*b == '0' && is_digit(b[1]))
        ++b;
      size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
      int order = n != m ? (n < m ? -1 : 1) : strncmp(a, b, n);
      if (order)
        return order;
      a += n;
      b += m;
    } else if (*a != *b) {
      return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
    } else {
      ++a;
      ++b;
    }
  }
  return (*a != 0) - (*b != 0);
}

static int compare_layers(const void *a, const void *b) {
  return compare_names(((const layer *)a)->weight->name, ((const layer *)b)->weight->name);
}

static bool ends_in(const char *text, const char *end, size_t *prefix) {
  size_t n = strlen(text), m = strlen(end);
  if (n < m || strcmp(text + n - m, end) != 0 || (n > m && text[n - m - 1] != '.'))
    return false;
  *prefix = n - m;
  return true;
}

static tn_status unused(const pn_layers *l, const pn_tensor *t) {
  char shape[120];
  pn_tensor_shape_text(t->rank, t->extent, shape);
  return TN_FAIL(TN_EINPUT,
                 "%s: `%s`, %s, is neither weight nor bias of a layer: this is more than a perceptron",
                 l->tensors.file, t->name, shape);
}

static tn_status pair_by_names(pn_layers *l) {
  const pn_tensors *t = &l->tensors;
  for (size_t i = 0; i < t->n; ++i) {
    size_t prefix = 0;
    if (ends_in(t->list[i].name, "weight", &prefix) && t->list[i].rank == 2)
      l->list[l->n++].weight = &t->list[i];
  }
  for (size_t i = 0; i < t->n; ++i) {
    const pn_tensor *b = &t->list[i];
    size_t prefix = 0, own = 0, k = 0;
    if (ends_in(b->name, "weight", &prefix) && b->rank == 2)
      continue;
    if (!ends_in(b->name, "bias", &prefix) || b->rank != 1)
      return unused(l, b);
    while (k < l->n && !(ends_in(l->list[k].weight->name, "weight", &own) && own == prefix &&
                         strncmp(l->list[k].weight->name, b->name, prefix) == 0))
      ++k;
    if (k == l->n)
      return unused(l, b);
    l->list[k].bias = b;
  }
  return TN_OK;
}

static int compare_tensors(const void *a, const void *b) {
  return compare_names(((const pn_tensor *)a)->name, ((const pn_tensor *)b)->name);
}

static tn_status pair_by_places(pn_layers *l) {
  qsort(l->tensors.list, l->tensors.n, sizeof *l->tensors.list, compare_tensors);
  for (size_t i = 0; i < l->tensors.n; ++i) {
    const pn_tensor *t = &l->tensors.list[i];
    if (t->rank == 2)
      l->list[l->n++].weight = t;
    else if (t->rank == 1 && l->n > 0 && !l->list[l->n - 1].bias)
      l->list[l->n - 1].bias = t;
    else
      return unused(l, t);
  }
  return TN_OK;
}

static size_t side(const layer *l, bool out, bool transposed) {
  return l->weight->extent[out == transposed];
}

static bool chains(size_t n, const layer *list, size_t n_in, bool transposed) {
  for (size_t i = 0; i < n; ++i) {
    if (side(&list[i], false, transposed) != n_in)
      return false;
    n_in = side(&list[i], true, transposed);
    if (list[i].bias && list[i].bias->extent[0] != n_in)
      return false;
  }
  return true;
}

static bool chain_of_some(size_t n, const layer *list, bool transposed) {
  return n > 0 && chains(n, list, side(&list[0], false, transposed), transposed);
}

/* Natural order, if it chains; else the order of the file, if that does. */
static tn_status sort_layers(pn_layers *l) {
  layer *file = NULL;
  TN_TRY(TN_NEW(l->n, &file));
  memcpy(file, l->list, l->n * sizeof *file);
  qsort(l->list, l->n, sizeof *l->list, compare_layers);
  bool natural = chain_of_some(l->n, l->list, false) || chain_of_some(l->n, l->list, true);
  if (!natural && (chain_of_some(l->n, file, false) || chain_of_some(l->n, file, true)))
    memcpy(l->list, file, l->n * sizeof *file);
  tn_free(&file);
  return TN_OK;
}

static tn_status make_layers(const char *path, pn_layers *l) {
  bool named = false;
  TN_TRY(pn_tensors_read(path, &l->tensors));
  TN_TRY(TN_NEW(l->tensors.n, &l->list));
  for (size_t i = 0; i < l->tensors.n; ++i) {
    size_t prefix = 0;
    named |= ends_in(l->tensors.list[i].name, "weight", &prefix);
  }
  TN_TRY(named ? pair_by_names(l) : pair_by_places(l));
  if (l->n == 0)
    return TN_FAIL(TN_EINPUT, "%s: no matrix among its arrays", path);
  return named ? sort_layers(l) : TN_OK;
}

tn_status pn_layers_read(const char *path, pn_layers **out) {
  pn_layers *l = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &l));
  tn_status status = make_layers(path, l);
  if (status != TN_OK)
    pn_layers_free(&l);
  *out = l;
  return status;
}

void pn_layers_free(pn_layers **layers) {
  if (!*layers)
    return;
  pn_tensors_free(&(*layers)->tensors);
  tn_free(&(*layers)->list);
  tn_free(layers);
}

size_t pn_layers_count(const pn_layers *l) { return l->n; }

size_t pn_layers_units(const pn_layers *l, size_t n_in, size_t i) {
  bool transposed = !chains(l->n, l->list, n_in, false) && chains(l->n, l->list, n_in, true);
  return side(&l->list[i], true, transposed);
}

/* ---- Into a network ----------------------------------------------------------------------------- */

static tn_status check_kind(const pn_layers *l, const pn_net *net) {
  const pn_network *o = &net->options;
  const char *what = strcmp(o->kind, "mlp") != 0          ? "kind = \"mlp\""
                     : o->fourier                         ? "no `fourier`"
                     : o->factorised                      ? "factorised = false"
                     : strcmp(o->adaptive, "none") != 0   ? "adaptive = \"none\""
                                                          : NULL;
  if (!what)
    return TN_OK;
  return pn_fail_at(TN_EINPUT, o->place, 1, "weights of %s are those of a perceptron: they want %s",
                    l->tensors.file, what);
}

static tn_status wrong_shape(const pn_layers *l, const pn_tensor *t, size_t rank, size_t rows,
                             size_t columns, const char *why) {
  char found[120], expected[120];
  pn_tensor_shape_text(t->rank, t->extent, found);
  pn_tensor_shape_text(rank, (size_t[]){rows, columns}, expected);
  return TN_FAIL(TN_EINPUT, "%s: `%s` is %s, expected %s (%s)", l->tensors.file, t->name, found,
                 expected, why);
}

static tn_status check_shapes(const pn_layers *l, const pn_net *net, bool transposed) {
  const pn_network *o = &net->options;
  size_t rows = pn_net_feature_count(net);
  if (l->n != o->depth + 1)
    return pn_fail_at(TN_EINPUT, o->place, 1,
                      "%s holds %zu layers, and depth = %zu has %zu: write depth = %zu", l->tensors.file,
                      l->n, o->depth, o->depth + 1, l->n - 1);
  for (size_t i = 0; i < l->n; ++i) {
    const layer *k = &l->list[i];
    bool last = i + 1 == l->n;
    size_t columns = last ? net->n_out : o->width;
    char why[160];
    snprintf(why, sizeof why, "%s to %s", i == 0 ? "from the inputs" : "from width",
             last ? "the unknowns" : "width");
    if (side(k, false, transposed) != rows || side(k, true, transposed) != columns)
      return wrong_shape(l, k->weight, 2, transposed ? rows : columns, transposed ? columns : rows,
                         why);
    if (k->bias && k->bias->extent[0] != columns)
      return wrong_shape(l, k->bias, 1, columns, 0, why);
    rows = columns;
  }
  return TN_OK;
}

/* Which row of the last layer an output is: its place among the net's unknowns in the file. */
static size_t place_of(const pn_net *net, size_t output) {
  size_t place = 0;
  for (size_t k = 0; k < net->n_out; ++k)
    place += net->unknown[k] < net->unknown[output];
  return place;
}

static void fill_layer(const layer *l, const pn_model *m, const pn_net *net, const pn_block *weight,
                       bool last, bool transposed, double *theta) {
  size_t rows = weight->extent[0], columns = weight->extent[1];
  double *w = theta + weight->offset, *b = theta + weight[1].offset;
  for (size_t j = 0; j < columns; ++j) {
    size_t from = last ? place_of(net, j) : j;
    double scale = last ? m->unknown_scale[net->unknown[j]] : 1;
    for (size_t i = 0; i < rows; ++i)
      w[i * columns + j] =
          l->weight->data[transposed ? i * columns + from : from * rows + i] / scale;
    b[j] = l->bias ? l->bias->data[from] / scale : 0;
  }
}

tn_status pn_layers_fill(const pn_layers *l, const pn_model *m, const pn_net *net, double *theta) {
  size_t n_in = pn_net_feature_count(net);
  bool transposed = !chains(l->n, l->list, n_in, false) && chains(l->n, l->list, n_in, true);
  TN_TRY(check_kind(l, net));
  TN_TRY(check_shapes(l, net, transposed));
  size_t layer = 0;
  for (size_t i = 0; i < net->n_blocks; ++i) {
    const pn_block *block = &m->blocks[net->first_block + i];
    if (block->kind == PN_BLOCK_WEIGHT) {
      fill_layer(&l->list[layer], m, net, block, layer + 1 == l->n, transposed, theta);
      ++layer;
    }
  }
  return TN_OK;
}
