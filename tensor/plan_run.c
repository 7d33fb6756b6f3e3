/* plan_run.c: nodes of one width as one strip program.
 *
 * Every value that comes from outside is an operand; the nodes' instructions follow in program order, equal
 * ones once. A value that nobody outside the run reads stays in a temporary strip. Two values that are one
 * register share their storage; only a whole array gets a copy.
 */
#include "tensor/emit.h"
#include "tensor/exec.h"
#include "tensor/plan.h"

#include <string.h>

enum { STRIP_CACHE = 24 << 10, SHORTEST = 128 }; /* bytes that the registers of a run may take; elements */

static bool is_repeat(const tn_program *p, const tn_node *node) { /* a fixed value at every point */
  return node->op->id == TN_OP_expand && node->integer[1] &&
         !p->layout[tn_port(p, node->inputs[0])].axis;
}

size_t tn_run_cost(const tn_program *p, size_t i) {
  return p->nodes[i]->n_inputs + p->nodes[i]->n_outputs + (p->plan[i].code ? p->plan[i].count : 1);
}

size_t tn_run_width(const tn_program *p, size_t i) {
  const tn_node *node = p->nodes[i];
  const tn_layout *out = &p->layout[p->port[i]];
  if (!out->axis || !tn_dtype_is_float(node->dtype)) return 0;
  switch (node->op->id) {
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT:
  case TN_OP_fill: return out->width;
  case TN_OP_expand: return is_repeat(p, node) ? out->width : 0;
  case TN_OP_cast: return tn_changes_panels(p, i) ? 0 : out->width;
  case TN_OP_where: return 0;
  default: return node->op->arity > 0 && node->op->class_ != TN_COMPARISON ? out->width : 0;
  }
}

typedef struct builder {
  tn_plan *plan;
  const tn_program *p;
  size_t count;
  const uint32_t *nodes;
  size_t width;
  int *reg;           /* of each port; -1: none yet */
  tn_operand *operands;
  int n_operands;
  tn_emitter e;
} builder;

/* ---- Operands ---- */

static tn_operand_kind kind_of(const builder *b, const tn_node *node, uint32_t k) {
  const tn_layout *layout = &b->p->layout[tn_port(b->p, node->inputs[k])];
  bool coefficient = node->table && k >= node->n_inputs - node->table->n_coefficients;
  if (layout->axis) return layout->width == b->width ? TN_OPERAND_TILE : TN_OPERAND_SPREAD;
  return layout->width == 1 || coefficient ? TN_OPERAND_SCALAR : TN_OPERAND_UNITS;
}

static void collect_operands(builder *b) {
  for (size_t i = 0; i < b->count; ++i) /* results first: they are no operands */
    for (uint32_t k = 0; k < b->p->nodes[b->nodes[i]]->n_outputs; ++k)
      b->reg[b->p->port[b->nodes[i]] + k] = -2;
  for (size_t i = 0; i < b->count; ++i) {
    const tn_node *node = b->p->nodes[b->nodes[i]];
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      size_t port = tn_port(b->p, node->inputs[k]);
      if (b->reg[port] != -1) continue;
      b->operands[b->n_operands] = (tn_operand){.kind = kind_of(b, node, k), .port = port};
      b->reg[port] = b->n_operands++;
    }
  }
}

/* ---- Instructions ---- */

static tn_status emit_node(builder *b, const tn_node *node, int *out) {
  int in[3 * TN_MAX_CHANNELS];
  for (uint32_t k = 0; k < node->n_inputs; ++k) in[k] = b->reg[tn_port(b->p, node->inputs[k])];
  switch (node->op->id) {
  case TN_OP_jet_unary:
  case TN_OP_jet_mul:
  case TN_OP_jet_mulT: return tn_jet_emit(&b->e, node, in, out);
  case TN_OP_fill:
    *out = tn_emit_register(&b->e, tn_emit_number(tn_is_low(node->dtype) ? tn_round(node->dtype, node->number)
                                                                         : node->number));
    break;
  case TN_OP_expand: *out = in[0]; break;
  case TN_OP_cast:
    *out = tn_cast_rounds(b->p->nodes[node->inputs[0].node]->dtype, node->dtype)
               ? tn_emit_round(&b->e, node->dtype, in[0])
               : in[0];
    break;
  default:
    *out = tn_emit_register(&b->e, node->op->arity == 1
                                       ? tn_emit_cell(&b->e, node->op->id, (tn_lazy){1, in[0]}, node->number)
                                       : tn_emit_binary(&b->e, node->op->id, in[0], in[1]));
    if (tn_node_rounds(node)) *out = tn_emit_round(&b->e, node->dtype, *out);
  }
  return b->e.status;
}

static tn_status emit_all(builder *b) {
  b->e.n_given = b->n_operands;
  for (size_t i = 0; i < b->count; ++i) {
    int out[TN_MAX_CHANNELS];
    const tn_node *node = b->p->nodes[b->nodes[i]];
    if (node->n_inputs > 3 * TN_MAX_CHANNELS)
      return TN_FAIL(TN_EUNSUPPORTED, "%s: %u inputs, expected at most %d", node->op->name,
                     node->n_inputs, 3 * TN_MAX_CHANNELS);
    TN_TRY(emit_node(b, node, out));
    for (uint32_t k = 0; k < node->n_outputs; ++k) b->reg[b->p->port[b->nodes[i]] + k] = out[k];
  }
  return TN_OK;
}

/* ---- Results ---- */

/* Wanted ports get a root each: the operand or the earlier result whose register they are, or themselves. */
static tn_status find_results(builder *b, const bool *wanted, uint32_t *root, tn_run *run) {
  size_t room = 0;
  for (size_t i = 0; i < b->count; ++i) room += b->p->nodes[b->nodes[i]]->n_outputs;
  TN_TRY(tn_arena_take(&b->plan->arena, room, sizeof *run->results, &run->results));
  for (size_t i = 0; i < b->count; ++i)
    for (uint32_t k = 0; k < b->p->nodes[b->nodes[i]]->n_outputs; ++k) {
      size_t port = b->p->port[b->nodes[i]] + k;
      if (!wanted[port]) continue;
      int r = b->reg[port];
      bool whole = b->plan->whole[port], given = r < b->n_operands, taken = given;
      root[port] = (uint32_t)port;
      if (given && b->operands[r].kind == TN_OPERAND_TILE && !whole) {
        root[port] = root[b->operands[r].port];
        continue;
      }
      for (size_t j = 0; j < run->n_results && !taken; ++j) {
        if (b->reg[run->results[j]] != r) continue;
        taken = true;
        if (!whole) root[port] = root[run->results[j]];
      }
      if (root[port] != port) continue;
      if (taken) b->reg[port] = tn_emit_copy(&b->e, r);
      run->results[run->n_results++] = port;
    }
  return b->e.status;
}

/* Multiplications by a number without points need no strip of it: its value goes into the instruction. */
static void take_numbers(tn_run *run) {
  for (size_t i = 0; i < run->count; ++i) {
    tn_strip_instruction *x = &run->code[i];
    if (x->code != TN_STRIP_MUL && x->code != TN_STRIP_FMA) continue;
    int n = (int)run->n_operands;
    bool a = x->a < n && run->operands[x->a].kind == TN_OPERAND_SCALAR;
    bool b = x->b < n && run->operands[x->b].kind == TN_OPERAND_SCALAR;
    if (!a && !b) continue;
    int16_t number = a ? x->a : x->b;
    x->a = a ? x->b : x->a;
    x->b = 0;
    x->d = number; /* read by tn_run_numbers before each run of the loop */
    x->code = x->code == TN_STRIP_MUL ? TN_STRIP_SCALE : TN_STRIP_FMAK;
    x->op = 1;
  }
  for (size_t j = 0; j < run->n_operands; ++j) run->operands[j].idle = true;
  for (size_t i = 0; i < run->count; ++i) {
    int reads[TN_STRIP_MAX_READS], n = tn_strip_reads(&run->code[i], reads);
    for (int j = 0; j < n; ++j)
      if (reads[j] < (int)run->n_operands) run->operands[reads[j]].idle = false;
  }
}

static tn_status finish(builder *b, tn_run *run) {
  int *output = NULL;
  TN_TRY(TN_NEW(run->n_results, &output));
  for (size_t j = 0; j < run->n_results; ++j) output[j] = b->reg[run->results[j]];
  tn_status status = tn_emit_finish(&b->e, run->n_results, output, &run->n_temporaries);
  if (status == TN_OK)
    status = tn_arena_copy(&b->plan->arena, b->e.code, b->e.count, sizeof *b->e.code, &run->code);
  run->count = b->e.count;
  tn_free(&output);
  return status;
}

/* Strips are as long as the registers' share of the first cache allows. */
static void choose_length(tn_run *run, size_t lanes) {
  size_t registers = run->n_operands + run->n_results + run->n_temporaries;
  size_t length = STRIP_CACHE / (registers * tn_dtype_size(run->dtype));
  if (length > TN_STRIP) length = TN_STRIP;
  if (length < SHORTEST) length = SHORTEST;
  size_t panel = run->width * lanes;
  if (run->aligned && panel <= length) length = length / panel * panel;
  run->length = length / lanes * lanes;
}

static tn_status build(builder *b, const bool *wanted, uint32_t *root, tn_run *run) {
  collect_operands(b);
  TN_TRY(emit_all(b));
  TN_TRY(find_results(b, wanted, root, run));
  TN_TRY(tn_arena_copy(&b->plan->arena, b->operands, (size_t)b->n_operands, sizeof *b->operands,
                       &run->operands));
  run->n_operands = (size_t)b->n_operands;
  run->n_nodes = b->count;
  TN_TRY(finish(b, run));
  for (size_t i = 0; i < run->n_operands; ++i)
    run->aligned = run->aligned || run->operands[i].kind == TN_OPERAND_UNITS ||
                   run->operands[i].kind == TN_OPERAND_SPREAD;
  choose_length(run, b->p->layout[b->p->port[b->nodes[0]]].lanes);
  take_numbers(run);
  tn_fused_key part = tn_fused_part(run->count, run->code, run->n_operands, run->n_results);
  run->fused = tn_fused_find(run->dtype, &part);
  run->n_rows = run->fused ? run->count - part.count : run->count;
  return TN_OK;
}

tn_status tn_run_new(tn_plan *plan, size_t count, const uint32_t *nodes, const bool *wanted,
                     uint32_t *root, tn_run **out) {
  const tn_program *p = plan->program;
  builder b = {.plan = plan, .p = p, .count = count, .nodes = nodes};
  size_t inputs = 0;
  for (size_t i = 0; i < count; ++i) inputs += p->nodes[nodes[i]]->n_inputs;
  TN_TRY(tn_arena_take(&plan->arena, 1, sizeof **out, out));
  (*out)->dtype = tn_dtype_compute(p->nodes[nodes[0]]->dtype);
  (*out)->width = b.width = p->layout[p->port[nodes[0]]].width;
  TN_TRY(TN_NEW(p->n_ports, &b.reg));
  tn_status status = TN_NEW(inputs + 1, &b.operands);
  for (size_t port = 0; port < p->n_ports; ++port) b.reg[port] = -1;
  if (status == TN_OK) status = build(&b, wanted, root, *out);
  tn_free(&b.reg);
  tn_free(&b.operands);
  tn_emitter_free(&b.e);
  return status;
}
