/* bench_model.c: what a training step takes on R ranks, from parts that were measured on one.
 *
 *   T(R) = fixed + max over ranks of  sum over loops  seconds_i n_i(r) / G_i  +  gathers a ceil(log2 R)
 *          + (R - 1) / R  sum over loops  S_i parts(G_i, R) / b
 *
 * Loop i over points has G_i slots (tn_slot_count), of which rank r owns n_i(r) = floor((r + 1) G / R) - floor(r G / R).
 * A gather is modelled as the doubling algorithm does it: ceil(log2 R) hops of latency a, and every rank receives the
 * parts of the others at b bytes a second; parts(G, R) whole subtrees of slots (tn_gathered_sums) of S_i bytes each.
 * With weak scaling there are R times as many points, and G_i is that of so many.
 *
 * What it leaves out stands in docs/scaling-model.md; above all, ranks that wait for a slower one, and that the
 * fixed part is the same on every rank only if its machine is.
 */
#include <math.h>
#include <string.h>

#include "pinn/cli/bench_model.h"

/* ---- Parts --------------------------------------------------------------------------------------- */

static model_loop *loop_of(model *m, size_t stage[MODEL_LOOPS], const tn_profile_row *row,
                           size_t index, size_t parameters) {
  while (m->n_loops <= index && m->n_loops < MODEL_LOOPS) {
    stage[m->n_loops] = row->stage;
    m->loop[m->n_loops++] = (model_loop){.trainable = parameters};
  }
  model_loop *loop = &m->loop[index < MODEL_LOOPS ? index : MODEL_LOOPS - 1];
  loop->points = row->points;
  loop->lanes = tn_dtype_compute(row->dtype) == TN_F64 ? 8 : 16;
  return loop;
}

static void add_row(model *m, size_t stage[MODEL_LOOPS], const tn_profile_row *row,
                    size_t parameters) {
  if (row->work == TN_WORK_FIXED) {
    m->fixed += row->seconds;
    return;
  }
  model_loop *loop = loop_of(m, stage, row, row->loop, parameters);
  loop->seconds += row->seconds;
  if (row->work == TN_WORK_WEIGHTS || row->work == TN_WORK_SUMS)
    loop->sum_bytes += (double)row->width * (double)tn_dtype_size(tn_dtype_compute(row->dtype));
}

/* Loops of one stage send their sums together. */
static size_t count_gathers(const model *m, const size_t stage[MODEL_LOOPS]) {
  size_t n = 0;
  for (size_t i = 0; i < m->n_loops; ++i) {
    bool seen = m->loop[i].sum_bytes <= 0;
    for (size_t k = 0; k < i && !seen; ++k)
      seen = m->loop[k].sum_bytes > 0 && stage[k] == stage[i];
    n += !seen;
  }
  return n;
}

void model_scale(model *m, double seconds) {
  double total = m->fixed;
  for (size_t i = 0; i < m->n_loops; ++i)
    total += m->loop[i].seconds;
  if (!(total > 0))
    return;
  m->fixed *= seconds / total;
  for (size_t i = 0; i < m->n_loops; ++i)
    m->loop[i].seconds *= seconds / total;
}

/* The least time of each row in several profiles: whatever else runs on the machine only lengthens them. */
static tn_status least_profile(tn_exec *exec, size_t *n, tn_profile_row **out) {
  enum { TIMES = 8, RUNS = 2 };
  *n = 0;
  *out = NULL;
  for (int i = 0; i < TIMES; ++i) {
    tn_profile_row *rows = NULL;
    tn_status status = tn_exec_profile(exec, RUNS, n, &rows);
    if (status != TN_OK) {
      tn_free(out);
      return status;
    }
    for (size_t k = 0; *out && k < *n; ++k)
      rows[k].seconds = fmin(rows[k].seconds, (*out)[k].seconds);
    tn_free(out);
    *out = rows;
  }
  return TN_OK;
}

tn_status model_measure(const bench_step *step, double seconds, model *out) {
  tn_profile_row *rows = NULL;
  size_t n = 0, stage[MODEL_LOOPS] = {0};
  *out = (model){.latency = -1};
  tn_status status = least_profile(step->exec, &n, &rows);
  if (status == TN_EUNSUPPORTED) {
    out->n_loops = 1;
    out->gathers = 1;
    out->loop[0] =
        (model_loop){.points = step->points,
                     .lanes = step->dtype == TN_F64 ? 8 : 16,
                     .trainable = step->parameters,
                     .seconds = seconds,
                     .sum_bytes = (double)(step->parameters * tn_dtype_size(tn_dtype_compute(step->dtype)))};
    return TN_OK;
  }
  TN_TRY(status);
  for (size_t i = 0; i < n; ++i)
    add_row(out, stage, &rows[i], step->parameters);
  tn_free(&rows);
  out->gathers = count_gathers(out, stage);
  model_scale(out, seconds);
  return TN_OK;
}

/* ---- Fit ------------------------------------------------------------------------------------------ */

static double hops(size_t ranks) { return ceil(log2((double)ranks)); }

/* Least squares of relative errors: minimise sum ((a + B c - t) / t)^2. */
void model_fit(size_t ranks, size_t n, const double *bytes, const double *seconds, model *m) {
  double ww = 0, wb = 0, bb = 0, wt = 0, bt = 0, least = INFINITY;
  for (size_t i = 0; i < n; ++i) {
    double w = 1 / seconds[i], b = bytes[i] / seconds[i];
    ww += w * w;
    wb += w * b;
    bb += b * b;
    wt += w;
    bt += b;
    least = fmin(least, seconds[i]);
  }
  double det = ww * bb - wb * wb;
  double a = (wt * bb - bt * wb) / det, c = (ww * bt - wb * wt) / det;
  if (!(a > 0))
    a = least;
  if (!(c > 0))
    c = seconds[n - 1] / bytes[n - 1];
  double r = (double)ranks;
  m->latency = a / hops(ranks);
  m->bandwidth = (r - 1) / r / c;
}

/* ---- A step --------------------------------------------------------------------------------------- */

static size_t slots_of(const model_loop *loop, size_t ranks, bool weak) {
  return tn_slot_count(loop->points * (weak ? ranks : 1), loop->lanes, loop->trainable);
}

/* Of the rank that has most to do. */
static double points_of_slowest(const model *m, size_t ranks, bool weak) {
  double most = 0;
  size_t slots[MODEL_LOOPS];
  for (size_t i = 0; i < m->n_loops; ++i)
    slots[i] = slots_of(&m->loop[i], ranks, weak);
  for (size_t r = 0; r < ranks; ++r) {
    double seconds = 0;
    for (size_t i = 0; i < m->n_loops; ++i) {
      size_t own = (r + 1) * slots[i] / ranks - r * slots[i] / ranks;
      seconds += m->loop[i].seconds * (weak ? (double)ranks : 1) * (double)own / (double)slots[i];
    }
    most = fmax(most, seconds);
  }
  return most;
}

double model_step(const model *m, size_t ranks, bool weak, double *talk) {
  double bytes = 0, r = (double)ranks;
  *talk = 0;
  if (ranks > 1) {
    for (size_t i = 0; i < m->n_loops; ++i)
      bytes += m->loop[i].sum_bytes *
               (double)tn_gathered_sums(slots_of(&m->loop[i], ranks, weak), ranks);
    *talk = (double)m->gathers * m->latency * hops(ranks) + (r - 1) / r * bytes / m->bandwidth;
  }
  return m->fixed + points_of_slowest(m, ranks, weak) + *talk;
}
