/* objective.c: the loss of a problem, its gradient and its residual as programs over theta.
 *
 *   row (m, r, site):  q = F / s_mr at every point of the site,   F = lhs - rhs of relation r of
 *   term m
 *   sum S_m = sum over rows and points of W q^2,   L = sum_m (w_m / C_m) S_m,   C_m = rows times
 *   points
 *
 * All residuals go through one ag_resolve, so that equations at the same points share their jets.
 * Terms and rows are built and added in the order of the terms' names, so the order in the file
 * changes no bit. 1 / s_mr, w_m / C_m and the unknowns' scales are run-time numbers. Sums are
 * taken in the model's dtype and combined in f64.
 *
 * Programs: L, S and gradient; L and S alone (line searches; same nodes, hence same bits); and,
 * made when first asked for, the residual, J v, J^T w, second derivatives along v, L at several
 * theta, rows of J (objective_qr.c), and the sizes that refinement wants.
 * Gradients of single terms come from a program of their own, in one pass over the points.
 */
#include "pinn/objective.h"

#include <math.h>
#include <string.h>

#include "pinn/data.h"
#include "pinn/objective_inside.h"
#include "pinn/vector.h"

/* ---- Order of terms -------------------------------------------------------------------------- */

static int by_name(const pn_sites *sites, size_t a, size_t b) {
  const pn_term *x = sites->terms[a].term, *y = sites->terms[b].term;
  int order = strcmp(x->name, y->name);
  return order ? order : (int)x->is_condition - (int)y->is_condition;
}

static void sort_terms(const pn_sites *sites, size_t *order) {
  for (size_t m = 0; m < sites->n_terms; ++m) {
    size_t at = m;
    for (; at > 0 && by_name(sites, m, order[at - 1]) < 0; --at)
      order[at] = order[at - 1];
    order[at] = m;
  }
}

/* ---- Building -------------------------------------------------------------------------------- */

static tn_status add_row(pn_loss *l, size_t m, size_t r, size_t site) {
  const pn_term *term = l->sites->terms[m].term;
  pn_scope *scope = NULL;
  TN_TRY(tn_grow(&l->rows, l->n_rows, l->n_rows + 1, sizeof *l->rows));
  pn_row *row = &l->rows[l->n_rows++];
  row->m = m;
  row->r = r;
  row->site = site;
  TN_TRY(pn_scopes_at(l->scopes, site, &scope));
  TN_TRY(pn_lower_relation(scope, &term->relations[r], &row->raw_value));
  if (term->weight)
    TN_TRY(pn_lower(scope, term->weight, &row->raw_weight));
  if (term->data && term->data->share) { /* by the sigma of each row */
    tn_value share = {0};
    TN_TRY(pn_scope_column(scope, PN_SHARE, "share", &share));
    row->raw_weight = row->raw_weight.graph ? tn_mul(row->raw_weight, share) : share;
  }
  if (l->model->problem->causal && !term->is_condition)
    TN_TRY(pn_causal_row(l, row, scope));
  return pn_scopes_mean(l->scopes, site);
}

static tn_status lower_rows(pn_loss *l) {
  for (size_t i = 0; i < l->n_terms; ++i) {
    size_t m = l->order[i];
    const pn_term_sites *term = &l->sites->terms[m];
    for (size_t k = 0; k < term->n_sites; ++k)
      for (size_t r = 0; r < term->term->n_relations; ++r)
        TN_TRY(add_row(l, m, r, term->site[k]));
  }
  return TN_OK;
}

/* Residuals and weight expressions without calls of fields. */
tn_status pn_loss_resolve(pn_loss *l, bool scaled, tn_value **values, ag_resolve_report *report) {
  const ag_resolve_options options = {.scale = pn_loss_exponent, .scale_context = l};
  tn_value *roots = NULL;
  size_t n = 0;
  TN_TRY(TN_NEW(2 * l->n_rows, &roots));
  tn_status status = TN_NEW(2 * l->n_rows, values);
  for (size_t i = 0; i < l->n_rows; ++i) {
    roots[n++] = l->rows[i].raw_value;
    if (l->rows[i].raw_weight.graph)
      roots[n++] = l->rows[i].raw_weight;
  }
  if (status == TN_OK)
    status = ag_resolve(l->model->graph, n, roots, scaled ? &options : NULL, roots, report);
  n = 0;
  for (size_t i = 0; status == TN_OK && i < l->n_rows; ++i) {
    (*values)[2 * i] = roots[n++];
    if (l->rows[i].raw_weight.graph)
      (*values)[2 * i + 1] = roots[n++];
  }
  tn_free(&roots);
  return status;
}

static tn_status resolve_rows(pn_loss *l) {
  tn_value *plain = NULL;
  tn_status status = pn_loss_resolve(l, l->n_channels > 0, &plain, &l->channels);
  for (size_t i = 0; status == TN_OK && i < l->n_rows; ++i) {
    l->rows[i].value = plain[2 * i];
    l->rows[i].weight = plain[2 * i + 1];
  }
  tn_free(&plain);
  return status;
}

static tn_status make_scalars(pn_loss *l) {
  tn_graph *graph = l->model->graph;
  if (pn_precision_scales(&l->precision))
    l->loss_scale = tn_scalar(graph, "loss scale", TN_F64, 1);
  for (size_t m = 0; m < l->n_terms; ++m) {
    pn_loss_term *term = &l->terms[m];
    const pn_term *t = l->sites->terms[m].term;
    term->n_relations = t->n_relations;
    term->weight = 1;
    term->factor = tn_scalar(graph, "factor", TN_F64, 1);
    TN_TRY(TN_NEW(t->n_relations, &term->scale));
    TN_TRY(TN_NEW(t->n_relations, &term->inverse));
    for (size_t r = 0; r < t->n_relations; ++r) {
      term->scale[r] = 1;
      term->inverse[r] = tn_scalar(graph, "1/scale", l->model->dtype, 1);
    }
  }
  return tn_graph_error(graph);
}

static tn_value plus(tn_value a, tn_value b) { return a.graph ? tn_add(a, b) : b; }

/* S_m and L; loss stays the error value if there are no rows. */
static tn_status build_sums(pn_loss *l) {
  tn_graph *graph = l->model->graph;
  l->loss = (tn_value){0};
  for (size_t m = 0; m < l->n_terms; ++m)
    l->terms[m].sum = (tn_value){0};
  for (size_t i = 0; i < l->n_rows; ++i) {
    pn_row *row = &l->rows[i];
    pn_loss_term *term = &l->terms[row->m];
    const pn_term *t = l->sites->terms[row->m].term;
    pn_place place = pn_expr_place(t->relations[row->r].whole);
    tn_at(graph, place.source ? place.source->file : NULL, (int)place.line, (int)place.column,
          t->name);
    row->scaled = tn_mul(row->value, term->inverse[row->r]);
    tn_value square = tn_square(row->scaled);
    if (row->weight.graph)
      square = tn_mul(square, row->weight);
    tn_shape shape = tn_shape_of(square);
    row->batched = tn_shape_batched(&shape);
    term->sum = plus(term->sum, tn_cast(row->batched ? tn_sum_all(square) : square, TN_F64));
  }
  for (size_t i = 0; i < l->n_terms; ++i) {
    pn_loss_term *term = &l->terms[l->order[i]];
    l->loss = plus(l->loss, tn_mul(term->sum, term->factor));
  }
  if (!l->loss.graph)
    return TN_FAIL(TN_EINPUT,
                   "there is nothing to train: every condition is met by construction and "
                   "there is no equation");
  return tn_graph_error(graph);
}

/* ---- Programs -------------------------------------------------------------------------------- */

tn_status pn_loss_hand_over(pn_loss *l, tn_exec *exec) {
  TN_TRY(pn_theta_bind(l->model, &l->theta, exec));
  TN_TRY(pn_feed_bind(&l->feed, exec));
  for (size_t m = 0; m < l->n_terms; ++m) {
    const pn_loss_term *term = &l->terms[m];
    TN_TRY(tn_exec_set(exec, term->factor, term->factor_value));
    for (size_t r = 0; r < term->n_relations; ++r)
      TN_TRY(tn_exec_set(exec, term->inverse[r], 1 / term->scale[r]));
  }
  return pn_causal_bind(l, exec);
}

tn_status pn_slot_new(pn_loss *l, size_t n, const tn_value *outputs, pn_program *out) {
  TN_TRY(tn_compile(l->model->graph, n, outputs, &out->program));
  TN_TRY(tn_exec_new(out->program, l->pool, &out->exec));
  return l->bound ? pn_loss_hand_over(l, out->exec) : TN_OK;
}

void pn_slot_free(pn_program *slot) {
  tn_exec_free(&slot->exec);
  tn_program_free(&slot->program);
}

static tn_status compile_loss(pn_loss *l) {
  size_t n_blocks = l->model->n_blocks, n = 1 + l->n_terms + n_blocks;
  tn_value *outputs = NULL, *leaves = NULL;
  TN_TRY(TN_NEW(n, &outputs));
  tn_status status = TN_NEW(n_blocks, &leaves);
  outputs[0] = l->loss;
  for (size_t m = 0; m < l->n_terms; ++m)
    outputs[1 + m] = l->terms[m].sum;
  for (size_t b = 0; status == TN_OK && b < n_blocks; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  tn_value scaled = l->loss_scale.graph ? tn_mul(l->loss, l->loss_scale) : l->loss;
  if (status == TN_OK)
    status = ag_grad(scaled, n_blocks, leaves, &outputs[1 + l->n_terms]);
  if (status == TN_OK)
    status = pn_loss_cast(l, n, outputs);
  if (status == TN_OK)
    status = pn_slot_new(l, n, outputs, &l->gradient);
  if (status == TN_OK)
    status = pn_slot_new(l, 1 + l->n_terms, outputs, &l->value);
  if (status == TN_OK)
    status = pn_loss_find_products(l);
  tn_free(&outputs);
  tn_free(&leaves);
  return status;
}

static tn_status build(pn_loss *l) {
  TN_TRY(TN_NEW(l->n_terms, &l->order));
  TN_TRY(TN_NEW(l->n_terms, &l->terms));
  TN_TRY(TN_NEW(l->n_terms, &l->last));
  TN_TRY(TN_NEW(l->n_terms, &l->sums));
  TN_TRY(TN_NEW(0, &l->rows));
  sort_terms(l->sites, l->order);
  TN_TRY(make_scalars(l));
  TN_TRY(lower_rows(l));
  TN_TRY(resolve_rows(l));
  TN_TRY(build_sums(l));
  TN_TRY(pn_theta_new(l->model, &l->theta));
  return compile_loss(l);
}

static void free_programs(pn_loss *l) {
  pn_slot_free(&l->gradient);
  pn_slot_free(&l->value);
  pn_slot_free(&l->chunks);
  pn_loss_rows_free(l);
  pn_qr_free(l);
}

tn_status pn_loss_rebuild(pn_loss *l) {
  free_programs(l);
  TN_TRY(resolve_rows(l));
  TN_TRY(build_sums(l));
  return compile_loss(l);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

tn_status pn_loss_run(pn_loss *l, const pn_program *slot, const double *theta) {
  if (!l->bound)
    return TN_FAIL(TN_ESTATE, "the loss has no points yet");
  TN_TRY(pn_theta_set(l->model, &l->theta, theta));
  return tn_exec_run(slot->exec);
}

static tn_status read_loss(pn_loss *l, tn_exec *exec, double *loss) {
  TN_TRY(tn_exec_read(exec, 0, 1, loss));
  for (size_t m = 0; m < l->n_terms; ++m) {
    TN_TRY(tn_exec_read(exec, 1 + m, 1, &l->sums[m]));
    l->last[m] = l->sums[m] * l->terms[m].factor_value;
  }
  return TN_OK;
}

tn_status pn_loss_one(pn_objective *f, const double *theta, double *loss) {
  pn_loss *l = f->context;
  TN_TRY(pn_loss_run(l, &l->value, theta));
  l->done.low += l->value_work.low;
  l->done.total += l->value_work.total;
  return read_loss(l, l->value.exec, loss);
}

tn_status pn_loss_read_gradient(pn_loss *l, double *loss, double *gradient) {
  TN_TRY(read_loss(l, l->gradient.exec, loss));
  for (size_t b = 0; b < l->model->n_blocks; ++b) {
    const pn_block *block = &l->model->blocks[b];
    TN_TRY(
        tn_exec_read(l->gradient.exec, 1 + l->n_terms + b, block->count, gradient + block->offset));
  }
  return TN_OK;
}

static tn_status slot_gradient(pn_objective *f, const double *theta, double *loss,
                               double *gradient) {
  pn_loss *l = f->context;
  TN_TRY(pn_loss_run(l, &l->gradient, theta));
  l->done.low += l->gradient_work.low;
  l->done.total += l->gradient_work.total;
  return pn_loss_read_gradient(l, loss, gradient);
}

/* d(factor_m S_m)/d(block b) for all m and b, as outputs in this order. */
static tn_status build_term_gradients(pn_loss *l, tn_value *outputs) {
  size_t n_blocks = l->model->n_blocks;
  tn_value *leaves = NULL;
  TN_TRY(TN_NEW(n_blocks, &leaves));
  for (size_t b = 0; b < n_blocks; ++b)
    leaves[b] = l->model->blocks[b].leaf;
  tn_status status = TN_OK;
  for (size_t m = 0; m < l->n_terms && status == TN_OK; ++m) {
    tn_value own = tn_mul(l->terms[m].sum, l->terms[m].factor);
    if (l->loss_scale.graph)
      own = tn_mul(own, l->loss_scale);
    status = ag_grad(own, n_blocks, leaves, outputs + m * n_blocks);
  }
  tn_free(&leaves);
  return status == TN_OK ? pn_loss_cast(l, l->n_terms * n_blocks, outputs) : status;
}

static tn_status read_term_gradients(const pn_loss *l, tn_exec *exec, double *gradients) {
  size_t n_blocks = l->model->n_blocks;
  for (size_t m = 0; m < l->n_terms; ++m)
    for (size_t b = 0; b < n_blocks; ++b) {
      const pn_block *block = &l->model->blocks[b];
      TN_TRY(tn_exec_read(exec, m * n_blocks + b, block->count,
                          gradients + m * l->model->n_theta + block->offset));
    }
  return TN_OK;
}

/* The largest scale that no term overflows at is not known: from that of the scaler down. */
static tn_status run_term_gradients(pn_loss *l, const pn_program *slot, const double *theta,
                                    double *gradients) {
  const size_t n = l->n_terms * l->model->n_theta;
  for (double scale = l->scaler ? l->scaler->scale : 1;; scale /= 2) {
    TN_TRY(pn_loss_set_scale_of(l, slot->exec, scale));
    TN_TRY(pn_loss_run(l, slot, theta));
    TN_TRY(read_term_gradients(l, slot->exec, gradients));
    bool finite = pn_all_finite(n, gradients);
    for (size_t i = 0; i < n; ++i)
      gradients[i] /= scale;
    if (finite || !l->scaler || scale <= l->scaler->options.least)
      return TN_OK;
  }
}

/* One pass over the points for all terms. It is wanted once a stage, and its sums take n_terms times the memory
 * of a gradient's, so the program does not outlive the call. */
static tn_status slot_terms(pn_objective *f, const double *theta, double *sums, double *gradients) {
  pn_loss *l = f->context;
  double loss = 0;
  TN_TRY(pn_loss_one(f, theta, &loss));
  memcpy(sums, l->last, l->n_terms * sizeof *sums);
  if (!gradients)
    return TN_OK;
  size_t n = l->n_terms * l->model->n_blocks;
  tn_value *outputs = NULL;
  pn_program slot = {0};
  TN_TRY(TN_NEW(n, &outputs));
  tn_status status = build_term_gradients(l, outputs);
  if (status == TN_OK)
    status = pn_slot_new(l, n, outputs, &slot);
  if (status == TN_OK)
    status = run_term_gradients(l, &slot, theta, gradients);
  pn_slot_free(&slot);
  tn_free(&outputs);
  return status;
}

/* ---- The object ------------------------------------------------------------------------------ */

static void fill_objective(pn_loss *l) {
  l->objective = (pn_objective){.context = l,
                                .n = l->model->n_theta,
                                .n_terms = l->n_terms,
                                .loss = pn_loss_one,
                                .gradient = slot_gradient,
                                .terms = slot_terms,
                                .residual = pn_loss_residual,
                                .jvp = pn_loss_jvp,
                                .vjp = pn_loss_vjp,
                                .rows = pn_loss_rows,
                                .qr = pn_loss_qr,
                                .qt = pn_loss_qt,
                                .second = pn_loss_second,
                                .losses = pn_loss_losses};
  if (!pn_precision_low(&l->precision))
    return;
  l->objective.gradient = pn_loss_gradient;
  l->objective.losses = NULL; /* one after another, with the bits of `loss` */
}

tn_status pn_loss_new(pn_scopes *scopes, tn_pool *pool, pn_loss **out) {
  pn_precision own;
  TN_TRY(pn_precision_of_dtype(pn_scopes_model(scopes)->dtype, &own));
  return pn_loss_new_in(scopes, pool, &own, out);
}

tn_status pn_loss_new_in(pn_scopes *scopes, tn_pool *pool, const pn_precision *precision,
                         pn_loss **out) {
  *out = NULL;
  if (precision->model != pn_scopes_model(scopes)->dtype)
    return TN_FAIL(TN_EDTYPE, "a loss on a model of %s: the model is of %s",
                   tn_dtype_name(precision->model), tn_dtype_name(pn_scopes_model(scopes)->dtype));
  pn_loss *l = NULL;
  TN_TRY(TN_NEW(1, &l));
  l->scopes = scopes;
  l->model = pn_scopes_model(scopes);
  l->sites = pn_scopes_sites(scopes);
  l->pool = pool;
  l->precision = *precision;
  l->n_terms = l->sites->n_terms;
  tn_status status = build(l);
  fill_objective(l);
  if (status != TN_OK)
    pn_loss_free(&l);
  *out = l;
  return status;
}

void pn_loss_free(pn_loss **loss) {
  pn_loss *l = *loss;
  if (!l)
    return;
  free_programs(l);
  pn_products_free(&l->gradient_products);
  pn_products_free(&l->value_products);
  tn_free(&l->channel);
  pn_feed_clear(&l->feed);
  pn_theta_free(l->model, &l->theta);
  for (size_t m = 0; l->terms && m < l->n_terms; ++m) {
    tn_free(&l->terms[m].scale);
    tn_free(&l->terms[m].inverse);
  }
  tn_free(&l->terms);
  tn_free(&l->rows);
  tn_free(&l->order);
  tn_free(&l->last);
  tn_free(&l->sums);
  tn_free(&l->chunk);
  tn_free(&l->chunk_weight);
  tn_free(loss);
}

pn_objective *pn_loss_objective(pn_loss *loss) { return &loss->objective; }

/* C_m and n_rows from the points that are bound now. */
static void count_residuals(pn_loss *l, size_t batch) {
  l->objective.n_rows = 0;
  for (size_t m = 0; m < l->n_terms; ++m)
    l->terms[m].count = 0;
  for (size_t i = 0; i < l->n_rows; ++i) {
    pn_row *row = &l->rows[i];
    size_t n = l->sites->sites[row->site].n;
    bool part = batch && batch < n && !l->sites->sites[row->site].data;
    row->n = !row->batched ? 1 : part ? batch : n;
    l->terms[row->m].count += row->n;
    l->objective.n_rows += row->n;
  }
  for (size_t m = 0; m < l->n_terms; ++m)
    l->terms[m].factor_value = l->terms[m].weight / (double)l->terms[m].count;
}

static void programs_of(const pn_loss *l, const pn_program **out) {
  const pn_program *all[PN_PROGRAMS] = {&l->gradient, &l->value,  &l->residual, &l->forward,
                                        &l->backward, &l->second, &l->sizes,    &l->several};
  memcpy(out, all, sizeof all);
}

tn_status pn_loss_bind_batch(pn_loss *l, size_t batch, size_t step) {
  pn_feed_clear(&l->feed);
  l->bound = false;
  TN_TRY(pn_feed_all(&l->feed, l->scopes, l->sites, batch, step));
  count_residuals(l, batch);
  const pn_program *slots[PN_PROGRAMS];
  programs_of(l, slots);
  for (size_t i = 0; i < PN_PROGRAMS; ++i)
    if (slots[i]->exec)
      TN_TRY(pn_loss_hand_over(l, slots[i]->exec));
  l->bound = true;
  pn_loss_update_work(l);
  return pn_qr_bind(l);
}

tn_status pn_loss_bind(pn_loss *loss) { return pn_loss_bind_batch(loss, 0, 0); }

void pn_loss_set_weight(pn_loss *loss, size_t m, double weight) { loss->terms[m].weight = weight; }
double pn_loss_weight(const pn_loss *loss, size_t m) { return loss->terms[m].weight; }
void pn_loss_set_scale(pn_loss *loss, size_t m, size_t r, double scale) {
  loss->terms[m].scale[r] = scale;
}
double pn_loss_scale(const pn_loss *loss, size_t m, size_t r) { return loss->terms[m].scale[r]; }
size_t pn_loss_relations(const pn_loss *loss, size_t m) { return loss->terms[m].n_relations; }
const pn_term *pn_loss_term_of(const pn_loss *loss, size_t m) { return loss->sites->terms[m].term; }

const double *pn_loss_last_terms(const pn_loss *loss) { return loss->last; }
double pn_loss_last_relative(const pn_loss *loss, size_t m) {
  return sqrt(loss->sums[m] / (double)loss->terms[m].count);
}

const ag_resolve_report *pn_loss_channels(const pn_loss *loss) { return &loss->channels; }

size_t pn_loss_bytes(const pn_loss *l) {
  const pn_program *slots[PN_PROGRAMS];
  size_t bytes = pn_qr_bytes(l);
  programs_of(l, slots);
  for (size_t i = 0; i < PN_PROGRAMS; ++i)
    bytes += slots[i]->exec ? tn_exec_bytes(slots[i]->exec) : 0;
  return bytes;
}
