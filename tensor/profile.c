/* profile.c: where the time of a run goes, step by step of the streamed executor's loops.
 *
 * Work is counted from the program: a product with a weight matrix [k, n] is 2 k n operations a point and
 * channel, a weight gradient as many a pair; a strip program has an operation for each rounding of its
 * instructions and ops.def's count for functions. Bytes are what a step reads and writes of the tile, the
 * weights of products once a tile: traffic of the caches, not of memory. Time is measured around each step in
 * each tile and added over workers, so with w workers the rows add up to w times the duration of a run.
 */
#include "tensor/exec.h"
#include "tensor/factor.h"
#include "tensor/plan.h"
#include "tensor/stream.h"

#include <string.h>
#include <time.h>

double tn_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Counting ---- */

/* Operations of an expression of strip.def: those written, and two a fused one. */
static double expression_flops(unsigned code) {
  static const char *const values[TN_STRIP_CODES] = {
#define STRIP(name, reads, value) [TN_STRIP_##name] = #value,
#include "tensor/strip.def"
  };
  double n = 0;
  for (const char *c = values[code]; c && *c; ++c)
    n += *c == '*' || *c == '/' || *c == '+' || *c == '-' ? 1 : c[0] == 'F' && c[1] == 'M' ? 2 : 0;
  return n;
}

static double instruction_flops(const tn_strip_instruction *x) {
  int writes[TN_STRIP_MAX_WRITES];
  switch (x->code) {
  case TN_STRIP_CELL:
  case TN_STRIP_BINARY: return tn_op_row((tn_op_id)x->op)->flops;
  case TN_STRIP_CELLS: return 20 + 5 * tn_strip_writes(x, writes); /* one exponential or reduction */
  default: return expression_flops(x->code);
  }
}

static void count_run(const tn_exec *exec, const tn_loop *loop, const tn_run *run, tn_profile_row *row) {
  double elements = (double)exec->extent[loop->axis] * (double)run->width;
  double size = (double)tn_dtype_size(run->dtype);
  row->work = TN_WORK_ELEMENTS;
  row->n_nodes = run->n_nodes;
  row->instructions = run->count;
  row->width = run->width;
  for (size_t i = 0; i < run->count; ++i) row->flops += elements * instruction_flops(&run->code[i]);
  for (size_t k = 0; k < run->n_operands; ++k)
    row->bytes += run->operands[k].kind == TN_OPERAND_TILE ? elements * size : 0;
  row->bytes += (double)run->n_results * elements * size;
}

static double bytes_of(const tn_exec *exec, size_t port) {
  const tn_layout *layout = &exec->program->layout[port];
  double n = layout->axis ? (double)exec->extent[layout->axis] : 0;
  return n * (double)(layout->width * layout->size);
}

static void count_node(const tn_exec *exec, const tn_loop *loop, size_t i, tn_profile_row *row) {
  const tn_program *p = exec->program;
  const tn_node *node = p->nodes[i];
  double n = (double)exec->extent[loop->axis];
  row->n_nodes = 1;
  row->width = p->layout[p->port[i]].width;
  for (uint32_t k = 0; k < node->n_inputs; ++k) row->bytes += bytes_of(exec, tn_port(p, node->inputs[k]));
  for (uint32_t k = 0; k < node->n_outputs; ++k) row->bytes += bytes_of(exec, p->port[i] + k);
  switch (node->op->id) {
  case TN_OP_jet_lin: {
    const tn_edge w = node->inputs[node->n_outputs];
    row->work = TN_WORK_PRODUCTS;
    row->channels = node->n_outputs;
    row->flops = 2 * n * (double)(node->n_outputs * p->layout[tn_port(p, w)].width);
    break;
  }
  case TN_OP_jet_outer:
    row->work = TN_WORK_WEIGHTS;
    row->channels = (size_t)node->integer[0];
    row->flops = 2 * n * (double)row->channels * (double)p->layout[p->port[i]].width;
    break;
  case TN_OP_input:
    row->work = TN_WORK_INPUTS;
    row->bytes *= 2;
    break;
  case TN_OP_sum: {
    row->work = TN_WORK_SUMS;
    row->flops = bytes_of(exec, tn_port(p, node->inputs[0])) / (double)p->layout[p->port[i]].size;
    break;
  }
  default: row->work = TN_WORK_MOVES;
  }
}

/* ---- Measuring ---- */

static void collect(tn_exec *exec, size_t runs, tn_profile_row *rows) {
  tn_streamed *s = exec->streamed;
  const tn_program *p = exec->program;
  size_t at = 0;
  for (size_t i = 0; i < s->plan->n_loops; ++i) {
    const tn_loop *loop = &s->plan->loops[i];
    for (size_t t = 0; t < loop->n_steps; ++t, ++at) {
      tn_profile_row *row = &rows[at];
      const tn_action *step = &loop->steps[t];
      row->node = (uint32_t)step->node;
      row->loop = i;
      row->stage = loop->stage;
      row->points = exec->extent[loop->axis];
      row->dtype = tn_dtype_compute(p->nodes[step->node]->dtype);
      if (step->run) count_run(exec, loop, step->run, row);
      else count_node(exec, loop, step->node, row);
      for (size_t w = 0; w < s->n_workers; ++w)
        row->seconds += s->workers[w].seconds[s->first_step[i] + t] / (double)runs;
    }
  }
  rows[at].work = TN_WORK_FIXED;
  rows[at].n_nodes = s->plan->n_fixed;
  rows[at].seconds = s->fixed_seconds / (double)runs;
}

tn_status tn_exec_profile(tn_exec *exec, size_t runs, size_t *n, tn_profile_row **out) {
  *out = NULL;
  *n = 0;
  tn_streamed *s = exec->streamed;
  if (exec->device)
    return TN_FAIL(TN_EUNSUPPORTED, "profile: this executor runs on the device `%s`, whose loops are one kernel each; "
                   "profile on the CPU", tn_device_name(exec->device));
  if (!s) return TN_FAIL(TN_EUNSUPPORTED, "profile: this is the reference executor");
  size_t steps = s->first_step[s->plan->n_loops];
  TN_TRY(TN_NEW(steps + 1, out));
  tn_status status = TN_OK;
  for (size_t w = 0; w < s->n_workers && status == TN_OK; ++w) {
    tn_free(&s->workers[w].seconds);
    status = TN_NEW(steps + 1, &s->workers[w].seconds);
  }
  s->fixed_seconds = 0;
  for (size_t r = 0; r < runs && status == TN_OK; ++r) status = tn_exec_run(exec);
  if (status == TN_OK) collect(exec, runs, *out);
  for (size_t w = 0; w < s->n_workers; ++w) tn_free(&s->workers[w].seconds);
  *n = steps + 1;
  if (status != TN_OK) tn_free(out);
  return status;
}

const char *tn_work_name(tn_work work) {
  static const char *const names[] = {"products", "weights", "elements", "sums",
                                      "moves",    "inputs",  "fixed"};
  return (unsigned)work < sizeof names / sizeof *names ? names[work] : "?";
}
