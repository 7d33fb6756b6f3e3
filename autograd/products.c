/* products.c: what the matrix products of a program are.
 *
 *   forward   y_c = h_c W        adjoint   hbar_c = zbar_c W^T        weight   Wbar = sum of outer(h_c, zbar_c)
 *
 * A program has no layers, only jet_lin and jet_outer. A jet_lin belongs to the parameter behind its matrix, looked
 * for through casts and transposes and, where a matrix is computed (a normalised weight), through operations
 * without points. The first product of a matrix has the direction of the layer; one in the other direction is an
 * adjoint. A weight gradient belongs to the matrix whose products read its operands: the layer reads h, its adjoint
 * reads zbar. Layers that share their input and have no adjoint (the gates of a first layer) differ in zbar alone,
 * which is made from the slope at the layer's own result: the layer that is nearest behind zbar is the one.
 */
#include "autograd/autograd.h"

#include <string.h>

typedef struct lin { /* a jet_lin */
  uint32_t node;
  tn_edge base; /* its matrix without casts and transposes */
  bool flipped; /* the base is multiplied transposed */
  uint32_t n;   /* channels */
  const tn_node *op;
} lin;

typedef struct finder {
  const tn_program *program;
  size_t n_lins;
  lin *lins;        /* owned, as all below */
  uint32_t *queue;  /* of nodes */
  uint32_t *seen;   /* of nodes: the search that met it last */
  uint32_t search;
  size_t *score;    /* of lins */
} finder;

static const tn_node *node_at(const finder *f, tn_edge e) { return tn_program_node(f->program, e.node); }

static tn_edge without_casts(const finder *f, tn_edge e) {
  while (node_at(f, e)->op->id == TN_OP_cast) e = node_at(f, e)->inputs[0];
  return e;
}

static tn_edge base_of(const finder *f, tn_edge e, bool *flipped) {
  for (;;) {
    const tn_node *node = node_at(f, e);
    bool transposed = node->op->id == TN_OP_transpose;
    if (!transposed && node->op->id != TN_OP_cast) return e;
    *flipped ^= transposed;
    e = node->inputs[0];
  }
}

static bool equal(tn_edge a, tn_edge b) { return a.node == b.node && a.port == b.port; }

/* ---- Layers ---- */

/* The parameter behind a matrix, nearest first; one of rank 2 before others. */
static const char *name_of(finder *f, tn_edge base) {
  size_t begin = 0, end = 1;
  const char *other = "";
  ++f->search;
  f->queue[0] = base.node;
  f->seen[base.node] = f->search;
  while (begin < end) {
    const tn_node *node = tn_program_node(f->program, f->queue[begin++]);
    if (node->op->id == TN_OP_parameter && node->shapes[0].rank == 2) return node->name;
    if (node->op->id == TN_OP_parameter && !*other) other = node->name;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      tn_edge e = node->inputs[k];
      if (f->seen[e.node] == f->search || tn_shape_batched(&node_at(f, e)->shapes[e.port])) continue;
      f->seen[e.node] = f->search;
      f->queue[end++] = e.node;
    }
  }
  return other;
}

static tn_status collect(finder *f) {
  size_t n = tn_program_nodes(f->program), count = 0;
  for (size_t i = 0; i < n; ++i) count += tn_program_node(f->program, i)->op->id == TN_OP_jet_lin;
  TN_TRY(TN_NEW(count, &f->lins));
  TN_TRY(TN_NEW(count, &f->score));
  TN_TRY(TN_NEW(n + 1, &f->queue));
  TN_TRY(TN_NEW(n + 1, &f->seen));
  for (size_t i = 0; i < n; ++i) {
    const tn_node *node = tn_program_node(f->program, i);
    if (node->op->id != TN_OP_jet_lin) continue;
    lin *l = &f->lins[f->n_lins++];
    *l = (lin){.node = (uint32_t)i, .flipped = node->integer[0] != 0, .n = node->n_outputs, .op = node};
    l->base = base_of(f, node->inputs[l->n], &l->flipped);
  }
  return TN_OK;
}

static bool is_adjoint(const finder *f, const lin *l) {
  const lin *first = f->lins;
  while (!equal(first->base, l->base)) ++first;
  return first->flipped != l->flipped;
}

/* ---- Weight gradients ---- */

static bool reads(const finder *f, const lin *l, tn_edge e) {
  for (uint32_t c = 0; c < l->n; ++c)
    if (equal(without_casts(f, l->op->inputs[c]), e)) return true;
  return false;
}

/* Pairs of the gradient whose operand on the side of l's input is an input of l. */
static size_t pairs_read(const finder *f, const tn_node *outer, const lin *l) {
  size_t pairs = outer->n_inputs / 2, count = 0;
  tn_edge w = l->op->inputs[l->n];
  if (!tn_shape_equal(&node_at(f, w)->shapes[w.port], &outer->shapes[0])) return 0;
  for (size_t i = 0; i < pairs; ++i) /* see the rule of jet_lin in vjp.c */
    count += reads(f, l, without_casts(f, outer->inputs[l->op->integer[0] ? i : pairs + i]));
  return count;
}

/* The first of the lins with the highest score that lies behind the other operand of the gradient; backwards by
 * breadth. */
static const lin *nearest(finder *f, const tn_node *outer, size_t best) {
  size_t begin = 0, end = 0, pairs = outer->n_inputs / 2;
  const lin *any = NULL;
  ++f->search;
  for (size_t i = 0; i < f->n_lins && !any; ++i)
    if (f->score[i] == best) any = &f->lins[i];
  for (size_t i = 0; i < pairs; ++i) {
    tn_edge e = outer->inputs[any->op->integer[0] ? pairs + i : i];
    if (f->seen[e.node] == f->search) continue;
    f->seen[e.node] = f->search;
    f->queue[end++] = e.node;
  }
  while (begin < end) {
    uint32_t at = f->queue[begin++];
    const tn_node *node = tn_program_node(f->program, at);
    for (size_t i = 0; node->op->id == TN_OP_jet_lin && i < f->n_lins; ++i)
      if (f->lins[i].node == at && f->score[i] == best) return &f->lins[i];
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      if (f->seen[node->inputs[k].node] == f->search) continue;
      f->seen[node->inputs[k].node] = f->search;
      f->queue[end++] = node->inputs[k].node;
    }
  }
  return any;
}

/* The layer that a weight gradient is of; NULL if none reads its operands. */
static const lin *layer_of(finder *f, const tn_node *outer) {
  size_t best = 0, count = 0;
  const lin *found = NULL;
  for (size_t i = 0; i < f->n_lins; ++i) f->score[i] = pairs_read(f, outer, &f->lins[i]);
  for (size_t i = 0; i < f->n_lins; ++i) /* a matrix has the pairs of all its products, noted at the first */
    for (size_t j = 0; j < i; ++j)
      if (equal(f->lins[i].base, f->lins[j].base)) {
        f->score[j] += f->score[i];
        f->score[i] = 0;
        break;
      }
  for (size_t i = 0; i < f->n_lins; ++i) {
    if (f->score[i] > best) {
      best = f->score[i];
      found = &f->lins[i];
      count = 0;
    }
    count += best && f->score[i] == best;
  }
  return count > 1 ? nearest(f, outer, best) : found;
}

/* ---- Numbers ---- */

/* The format whose numbers a value holds: that of a cast before it came back to f32. */
static bool format_of(const finder *f, tn_edge e, tn_dtype *out) {
  while (node_at(f, e)->op->id == TN_OP_transpose) e = node_at(f, e)->inputs[0];
  const tn_node *node = node_at(f, e);
  if (node->op->id == TN_OP_constant || node->op->id == TN_OP_fill) return false; /* ag_cast rounds its number */
  *out = node->dtype;
  if (node->op->id != TN_OP_cast) return true;
  tn_dtype from = node_at(f, node->inputs[0])->dtype;
  if (from != node->dtype && tn_dtype_compute(from) == node->dtype) *out = from;
  return true;
}

static tn_dtype multiplied(const finder *f, const tn_node *node) {
  tn_dtype common = TN_DTYPES, own;
  uint32_t n = node->op->id == TN_OP_jet_lin ? node->n_outputs + 1 : node->n_inputs;
  for (uint32_t k = 0; k < n; ++k) {
    if (!format_of(f, node->inputs[k], &own)) continue;
    if (common != TN_DTYPES && common != own) return node->dtype;
    common = own;
  }
  return common == TN_DTYPES ? node->dtype : common;
}

static tn_axis axis_of(const finder *f, tn_edge e) {
  const tn_shape *shape = &node_at(f, e)->shapes[e.port];
  return tn_shape_batched(shape) ? shape->axis[0] : 0;
}

static void count_channels(const finder *f, const tn_node *node, ag_product *p) {
  size_t pairs = node->n_inputs / 2;
  if (node->op->id == TN_OP_jet_lin) {
    p->axis = axis_of(f, node->inputs[0]);
    p->channels = p->axis ? node->n_outputs : 0;
    return;
  }
  for (size_t i = 0; i < pairs; ++i) {
    tn_axis z = axis_of(f, node->inputs[i]), h = axis_of(f, node->inputs[pairs + i]);
    p->channels += z && h;
    if (z || h) p->axis = z ? z : h;
  }
}

static ag_product describe(finder *f, size_t i, size_t *next) {
  const tn_node *node = tn_program_node(f->program, i);
  ag_product p = {.node = (uint32_t)i, .weight = "", .dtype = multiplied(f, node)};
  const tn_shape *shape = &node->shapes[0];
  bool flipped = false;
  const lin *l;
  if (node->op->id == TN_OP_jet_lin) {
    tn_edge w = node->inputs[node->n_outputs];
    l = &f->lins[(*next)++];
    shape = &node_at(f, w)->shapes[w.port];
    flipped = node->integer[0] != 0;
    p.kind = is_adjoint(f, l) ? AG_ADJOINT : AG_FORWARD;
  } else {
    l = layer_of(f, node);
    p.kind = AG_WEIGHT;
  }
  if (l) p.weight = name_of(f, l->base);
  count_channels(f, node, &p);
  p.k = shape->extent[flipped];
  p.n = shape->extent[!flipped];
  p.flops = 2.0 * (double)p.k * (double)p.n * (double)p.channels;
  return p;
}

tn_status ag_products(const tn_program *program, size_t *n, ag_product **list) {
  finder f = {.program = program};
  size_t count = 0, next = 0;
  *n = 0;
  *list = NULL;
  for (size_t i = 0; i < tn_program_nodes(program); ++i) {
    tn_op_id id = tn_program_node(program, i)->op->id;
    count += id == TN_OP_jet_lin || id == TN_OP_jet_outer;
  }
  tn_status status = collect(&f);
  if (status == TN_OK) status = TN_NEW(count, list);
  for (size_t i = 0; status == TN_OK && i < tn_program_nodes(program); ++i) {
    tn_op_id id = tn_program_node(program, i)->op->id;
    if (id == TN_OP_jet_lin || id == TN_OP_jet_outer) (*list)[(*n)++] = describe(&f, i, &next);
  }
  tn_free(&f.lins);
  tn_free(&f.score);
  tn_free(&f.queue);
  tn_free(&f.seen);
  return status;
}
