/* problem_run.c: one training step in one number format, measured.
 *
 * Two replays keep two errors apart:
 *
 *   arithmetic (A)   the engine's result minus the right one on the same stored numbers
 *   stored (B)       the right result on these stored numbers minus that on the master's (f64)
 *
 * Every entry of every value of the program, intermediate ones too, is held against its running bound.
 */
#include <math.h>
#include <string.h>

#include "validate/problem.h"

typedef struct bench {
  const vd_problem *p;
  const vd_problem_format *format;
  vd_replay *replay;
  tn_exec *exec;
  vd_running *running, *expected;
} bench;

static void clear(bench *b) {
  vd_running_free(&b->running);
  vd_running_free(&b->expected);
  tn_exec_free(&b->exec);
  vd_replay_free(&b->replay);
}

static tn_status run_both(bench *b, int bits) {
  const vd_problem_format *f = b->format;
  TN_TRY(vd_replay_new(f->program, bits, &b->replay));
  TN_TRY(tn_exec_keeping_all(f->program, NULL, &b->exec));
  for (size_t i = 0; i < f->n_bindings; ++i) {
    const vd_binding *x = f->bindings + i;
    uint32_t node = 0;
    if (!tn_program_leaf(f->program, x->leaf, &node))
      continue;
    if (x->buffer) {
      TN_TRY(tn_exec_bind(b->exec, x->leaf, x->buffer));
      TN_TRY(vd_replay_bind(b->replay, node, x->buffer));
    } else {
      TN_TRY(tn_exec_set(b->exec, x->leaf, x->number));
      TN_TRY(vd_replay_set(b->replay, node, x->number));
    }
  }
  TN_TRY(tn_exec_run(b->exec));
  TN_TRY(vd_replay_run(b->replay));
  TN_TRY(vd_running_new(f->program, &b->running));
  TN_TRY(vd_running_run(b->running, b->exec));
  TN_TRY(vd_running_new(f->program, &b->expected));
  return vd_running_expect(b->expected, b->exec);
}

/* ---- All values ------------------------------------------------------------------------------- */

/* Counts the entries whose bound is below their error, and the ratios of the others. */
static tn_status hold_bounds(const bench *b, vd_tested *out) {
  size_t n_nodes = tn_program_nodes(b->format->program), room = 0, n = 0;
  double *ratio = NULL;
  for (uint32_t i = 0; i < n_nodes; ++i)
    for (uint32_t k = 0; k < tn_program_node(b->format->program, i)->n_outputs; ++k)
      room += vd_running_count(b->running, i, k);
  TN_TRY(TN_NEW(room, &ratio));
  for (uint32_t i = 0; i < n_nodes; ++i) {
    const tn_node *node = tn_program_node(b->format->program, i);
    if (node->op->class_ == TN_LEAF || !tn_dtype_is_float(node->dtype))
      continue;
    for (uint32_t k = 0; k < node->n_outputs; ++k)
      for (size_t e = 0; e < vd_running_count(b->running, i, k); ++e) {
        double bound = vd_running_bound(b->running, i, k, e);
        double error =
            vd_abs_error(vd_running_value(b->running, i, k, e), vd_replay_at(b->replay, i, k, e));
        ++out->entries;
        out->bounded += isfinite(bound);
        out->misses += !(bound >= error);
        if (error > 0)
          ratio[n++] = bound / error;
      }
  }
  out->ratio = vd_quantile(n, ratio, 0.5);
  tn_free(&ratio);
  return TN_OK;
}

/* ---- Outputs ---------------------------------------------------------------------------------- */

static tn_status room_for_outputs(const bench *b, vd_tested *out) {
  size_t n = b->p->n_outputs;
  TN_TRY(TN_NEW(n + 1, &out->first));
  for (size_t i = 0; i < n; ++i) {
    tn_edge edge = tn_program_output(b->format->program, i);
    out->first[i + 1] = out->first[i] + vd_replay_count(b->replay, edge.node, edge.port);
  }
  TN_TRY(TN_NEW(n, &out->output));
  TN_TRY(TN_NEW(n, &out->represented));
  TN_TRY(TN_NEW(out->first[n], &out->reference));
  TN_TRY(TN_NEW(out->first[n], &out->expected));
  return TN_NEW(out->first[n], &out->c);
}

/* The error that is expected of entry e: by the roundings of the program, or by those of another format. */
static double expected_error(const bench *b, const vd_tested *master, tn_edge edge, size_t i, size_t e,
                             const vd_tested *out) {
  const vd_problem_format *f = b->format;
  const vd_tested *other = master + f->yardstick;
  if (!master || !(f->roundoff > 0))
    return vd_running_bound(b->expected, edge.node, edge.port, e);
  return other->expected[other->first[i] + e] * (out->u / other->u);
}

static tn_status measure_output(const bench *b, const vd_tested *master, size_t i, double *engine,
                                vd_tested *out) {
  tn_edge edge = tn_program_output(b->format->program, i);
  size_t n = out->first[i + 1] - out->first[i];
  double *bounds = engine + n, *expected = bounds + n;
  vd_compared x = {.replay = b->replay,
                   .node = edge.node,
                   .port = edge.port,
                   .n = n,
                   .dtype = tn_program_node(b->format->program, edge.node)->dtype,
                   .u = out->u,
                   .values = engine,
                   .bounds = bounds,
                   .expected = expected};
  for (size_t e = 0; e < n; ++e) {
    engine[e] = vd_running_value(b->running, edge.node, edge.port, e);
    bounds[e] = vd_running_bound(b->running, edge.node, edge.port, e);
    expected[e] = expected_error(b, master, edge, i, e, out);
    out->expected[out->first[i] + e] = expected[e];
    out->reference[out->first[i] + e] = vd_replay_double(b->replay, edge.node, edge.port, e);
  }
  return vd_figures_of(&x, out->c + out->first[i], out->output + i);
}

/* Sums of squares over the entries of one output. */
typedef struct against {
  double engine, stored, size, dot,
      engine_size; /* (engine - master)^2, (right - master)^2, master^2, ... */
} against;

static against against_master(const vd_tested *t, const vd_tested *master, size_t i,
                              const double *engine) {
  against a = {0};
  for (size_t e = 0; e < t->first[i + 1] - t->first[i]; ++e) {
    double m = master->reference[master->first[i] + e], r = t->reference[t->first[i] + e];
    a.engine += (engine[e] - m) * (engine[e] - m);
    a.stored += (r - m) * (r - m);
    a.size += m * m;
    a.dot += engine[e] * m;
    a.engine_size += engine[e] * engine[e];
  }
  return a;
}

static void add_against(against *sum, const against *a) {
  sum->engine += a->engine;
  sum->stored += a->stored;
  sum->size += a->size;
  sum->dot += a->dot;
  sum->engine_size += a->engine_size;
}

static double relative(double error, double size) { return sqrt(size > 0 ? error / size : error); }

static tn_status measure_outputs(const bench *b, const vd_tested *master, double *engine,
                                 vd_tested *out) {
  const vd_problem_output *outputs = b->format->outputs;
  against gradient = {0};
  for (size_t i = 0; i < b->p->n_outputs; ++i) {
    size_t n = out->first[i + 1] - out->first[i];
    TN_TRY(measure_output(b, master, i, engine, out));
    against a = against_master(out, master ? master : out, i, engine);
    const vd_figures *f = out->output + i;
    out->represented[i] = relative(a.stored, a.size);
    if (outputs[i].part == VD_GRADIENT)
      add_against(&gradient, &a);
    if (outputs[i].part == VD_UNKNOWN)
      out->unknowns = fmax(out->unknowns, relative(a.engine, a.size));
    if (outputs[i].part == VD_LOSS)
      out->loss = out->reference[out->first[i]];
    if (outputs[i].part == VD_RESIDUAL) {
      out->noise += outputs[i].weight * f->error2 * f->error2 / (double)n;
      out->stored += outputs[i].weight * a.stored / (double)n;
    }
  }
  out->gradient_noise = relative(gradient.engine, gradient.size);
  out->cosine = gradient.dot / sqrt(gradient.size * gradient.engine_size);
  return TN_OK;
}

static tn_status measure(const bench *b, const vd_tested *master, vd_tested *out) {
  double *engine = NULL;
  TN_TRY(hold_bounds(b, out));
  TN_TRY(room_for_outputs(b, out));
  TN_TRY(TN_NEW(3 * out->first[b->p->n_outputs], &engine)); /* of one output: values, bounds, ... */
  tn_status status = measure_outputs(b, master, engine, out);
  tn_free(&engine);
  if (status == TN_OK)
    status = vd_test_layers(b->p, b->format, out->u, b->replay, b->running, b->expected, out);
  return status;
}

tn_status vd_test_format(const vd_problem *p, size_t format, int bits, const vd_tested *master,
                         vd_tested *out) {
  bench b = {.p = p, .format = p->formats + format};
  out->u = b.format->roundoff > 0 ? b.format->roundoff : tn_dtype_roundoff(b.format->dtype);
  tn_status status = run_both(&b, bits);
  if (status == TN_OK)
    status = measure(&b, master, out);
  clear(&b);
  return status;
}

void vd_tested_free(vd_tested *tested) {
  tn_free(&tested->output);
  tn_free(&tested->represented);
  tn_free(&tested->reference);
  tn_free(&tested->first);
  tn_free(&tested->c);
  tn_free(&tested->expected);
  tn_free(&tested->channel);
}
