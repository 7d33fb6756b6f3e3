/* audit_set.c: pn_audit_new: the numbers of a training step as one program, for validate/ to judge.
 *
 * Residuals are resolved together, folded and shared, as in training; loss and gradients are built
 * on them with the weights of terms and scales of relations that training has: those of the result that the
 * weights come from, or of the first step. Weights that are expressions of the coordinates are left out. The unknowns and the single derivatives, which training never forms by themselves, are
 * resolved apart and without folding. Points are few: a replay in multiple precision keeps every
 * node.
 *
 * With a low format the whole set goes through ag_cast, as a step's program does. A leaf that is only
 * read through casts to that format is stored rounded to it, which changes no bit of the program: so a
 * replay on the stored data judges arithmetic alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/metrics.h"
#include "pinn/result.h"
#include "pinn/step.h"
#include "pinn/values.h"

enum { STANDARD_POINTS = 64 };

typedef struct audit {
  pn_audit_set set; /* first: what the caller sees */
  pn_model *model;
  pn_sites *sites;
  pn_scopes *scopes;
  pn_feed feed;
  pn_weights_buffer weights;
  tn_value *raw, *out; /* of the outputs, before and after resolving; owned */
  struct row { /* of residuals: which relation, where, and run-time numbers of the loss */
    size_t m, r, site;
    tn_value inverse, factor;
  } *rows; /* one an output, owned */
  size_t capacity;
  pn_step *step; /* whose weights and scales they are */
} audit;

static tn_status add(audit *a, pn_audit_kind what, int order, tn_value value, const char *kind,
                     const char *x, const char *y, size_t k) {
  pn_audit_set *s = &a->set;
  size_t n = s->n_outputs;
  if (n == a->capacity) {
    size_t more = 2 * n + 32;
    TN_TRY(tn_grow(&s->names, n, more, sizeof *s->names));
    TN_TRY(tn_grow(&s->kinds, n, more, sizeof *s->kinds));
    TN_TRY(tn_grow(&s->orders, n, more, sizeof *s->orders));
    TN_TRY(tn_grow(&s->weights, n, more, sizeof *s->weights));
    TN_TRY(tn_grow(&a->rows, n, more, sizeof *a->rows));
    TN_TRY(tn_grow(&a->raw, n, more, sizeof *a->raw));
    TN_TRY(tn_grow(&a->out, n, more, sizeof *a->out));
    a->capacity = more;
  }
  if (k > 0)
    snprintf(s->names[n], sizeof s->names[n], "%s%s %zu", x, y, k);
  else
    snprintf(s->names[n], sizeof s->names[n], "%s%s%s", kind, x, y);
  s->kinds[n] = what;
  s->orders[n] = order;
  a->raw[n] = a->out[n] = value;
  s->n_outputs = n + 1;
  return TN_OK;
}

/* ---- Outputs ------------------------------------------------------------------------------------
 * */

static tn_status add_residuals(audit *a) {
  for (size_t m = 0; m < a->sites->n_terms; ++m) {
    const pn_term_sites *t = &a->sites->terms[m];
    size_t count = 0;
    for (size_t k = 0; k < t->n_sites; ++k) {
      pn_scope *scope = NULL;
      TN_TRY(pn_scopes_at(a->scopes, t->site[k], &scope));
      for (size_t r = 0; r < t->term->n_relations; ++r) {
        tn_value value = {0};
        TN_TRY(pn_lower_relation(scope, &t->term->relations[r], &value));
        bool alone = t->n_sites * t->term->n_relations == 1;
        TN_TRY(add(a, PN_AUDIT_RESIDUAL, -1, value, "", t->term->name, "", alone ? 0 : ++count));
        a->rows[a->set.n_outputs - 1] =
            (struct row){.m = m,
                         .r = r,
                         .site = t->site[k],
                         .inverse = tn_scalar(a->model->graph, "1/scale", a->model->dtype, 1),
                         .factor = tn_scalar(a->model->graph, "factor", TN_F64, 1)};
      }
      TN_TRY(pn_scopes_mean(a->scopes, t->site[k]));
    }
  }
  return TN_OK;
}

/* "net u_xx" of a call of a network. */
static tn_status add_call(audit *a, uint32_t node, const pn_net *net, const tn_call *call) {
  const pn_problem *p = a->model->problem;
  char name[48];
  size_t n = 0;
  int order = 0;
  for (size_t j = 0; j < net->n_in; ++j) {
    order += call->power[j];
    for (unsigned k = 0; k < call->power[j] && n < 40; ++k)
      n += (size_t)snprintf(name + n, sizeof name - n, "%s%.8s", n == 0 ? "_" : "",
                            p->coordinates[net->of[j]].name);
  }
  name[n] = '\0';
  return add(a, PN_AUDIT_DERIVATIVE, order, tn_value_at(a->model->graph, node, 0), "net ",
             p->unknowns[net->unknown[call->output]].name, name, 0);
}

/* Every call of a network that is in the graph now, once a name. */
static tn_status add_calls(audit *a, size_t n_nodes) {
  size_t first = a->set.n_outputs;
  for (uint32_t i = 0; i < n_nodes; ++i) {
    const tn_node *node = tn_node_at(a->model->graph, i);
    if (node == NULL || node->call == NULL)
      continue;
    for (size_t k = 0; k < a->model->n_nets; ++k) {
      const pn_net *net = &a->model->nets[k];
      if (node->call->field != net->field)
        continue;
      TN_TRY(add_call(a, i, net, node->call));
      size_t last = a->set.n_outputs - 1;
      for (size_t j = first; j < last; ++j) {
        if (strcmp(a->set.names[j], a->set.names[last]) != 0)
          continue;
        a->set.n_outputs = last; /* known from other points */
        break;
      }
    }
  }
  return TN_OK;
}

static tn_status add_unknowns(audit *a) {
  const pn_problem *p = a->model->problem;
  for (size_t i = 0; i < p->n_unknowns; ++i) {
    for (size_t s = 0; s < a->sites->n_sites; ++s) {
      uint32_t bits = pn_item_depends(p, &(pn_item){.kind = PN_ITEM_UNKNOWN, .unknown = i});
      pn_scope *scope = NULL;
      tn_value value = {0};
      if (a->sites->sites[s].piece != NULL && a->sites->sites[s].piece->n_fixed > 0)
        continue;
      if ((bits & ~a->sites->sites[s].free_) != 0)
        continue;
      TN_TRY(pn_scopes_at(a->scopes, s, &scope));
      TN_TRY(pn_lower_unknown(scope, i, &value));
      TN_TRY(add(a, PN_AUDIT_UNKNOWN, 0, value, "", p->unknowns[i].name, "", 0));
      break;
    }
  }
  return TN_OK;
}

/* The loss of the residuals first .. last - 1 of out, and its gradients. */
static tn_status add_loss(audit *a, size_t first, size_t last) {
  pn_model *m = a->model;
  tn_value loss = tn_const(m->graph, TN_F64, 0), *leaf = NULL, *gradient = NULL;
  for (size_t k = first; k < last; ++k) {
    tn_value sum = tn_sum_all(tn_square(tn_mul(a->out[k], a->rows[k].inverse)));
    loss = tn_add(loss, tn_mul(tn_cast(sum, TN_F64), a->rows[k].factor));
  }
  tn_status status = TN_NEW(m->n_blocks, &leaf);
  if (status == TN_OK)
    status = TN_NEW(m->n_blocks, &gradient);
  for (size_t i = 0; status == TN_OK && i < m->n_blocks; ++i)
    leaf[i] = m->blocks[i].leaf;
  if (status == TN_OK)
    status = ag_grad(loss, m->n_blocks, leaf, gradient);
  a->set.loss = a->set.n_outputs;
  if (status == TN_OK)
    status = add(a, PN_AUDIT_LOSS, -1, loss, "", "loss", "", 0);
  a->set.first_gradient = a->set.n_outputs;
  a->set.n_gradients = m->n_blocks;
  for (size_t i = 0; status == TN_OK && i < m->n_blocks; ++i)
    status = add(a, PN_AUDIT_GRADIENT, -1, gradient[i], "gradient ", m->blocks[i].name, "", 0);
  tn_free(&leaf);
  tn_free(&gradient);
  return status;
}

static tn_status build(audit *a, const pn_audit_options *o) {
  tn_graph *graph = a->model->graph;
  const ag_cast_policy policy = {.low = o->low, .pure = o->pure};
  const ag_resolve_options separate = {.separate = true};
  TN_TRY(add_residuals(a));
  size_t residuals = a->set.n_outputs, n_nodes = tn_graph_nodes(graph);
  TN_TRY(ag_resolve(graph, residuals, a->raw, NULL, a->out, &a->set.channels));
  TN_TRY(add_unknowns(a));
  TN_TRY(add_calls(a, n_nodes));
  size_t n = a->set.n_outputs - residuals;
  TN_TRY(ag_resolve(graph, n, a->raw + residuals, &separate, a->out + residuals, NULL));
  TN_TRY(add_loss(a, 0, residuals));
  if (tn_dtype_compute(o->low) != o->low)
    TN_TRY((o->products == 3 && !o->pure ? ag_split : ag_cast)(graph, &policy, a->set.n_outputs, a->out,
                                                               a->out));
  return tn_compile(graph, a->set.n_outputs, a->out, &a->set.program);
}

/* ---- Bindings -----------------------------------------------------------------------------------
 * */

/* The error against [exact] of these weights, on grids or points of the problem's own. */
static tn_status measure(audit *a, const double *theta, uint64_t seed) {
  const pn_problem *p = a->model->problem;
  pn_metrics *metrics = NULL;
  pn_field_error *errors = NULL;
  bool known = false;
  for (size_t i = 0; i < p->n_unknowns; ++i)
    known = known || p->unknowns[i].exact != NULL;
  if (!known)
    return TN_OK;
  TN_TRY(TN_NEW(p->n_unknowns, &errors));
  tn_status status = pn_metrics_new(a->scopes, seed, NULL, &metrics);
  if (status == TN_OK)
    status = pn_metrics_fields(metrics, theta, errors);
  for (size_t i = 0; status == TN_OK && i < p->n_unknowns; ++i)
    if (errors[i].known)
      a->set.error = fmax(a->set.error, errors[i].rel_l2); /* fmax leaves the NaN aside */
  pn_metrics_free(&metrics);
  tn_free(&errors);
  return status;
}

static tn_status set_weights(audit *a, const pn_audit_options *o) {
  double *theta = NULL;
  pn_saved *saved = NULL;
  TN_TRY(TN_NEW(a->model->n_theta, &theta));
  tn_status status =
      o->weights != NULL ? pn_saved_open(o->weights, &saved) : pn_scale_unknowns(a->scopes, NULL);
  if (status == TN_OK)
    status = saved != NULL ? pn_saved_weights(saved, a->model, theta)
                           : pn_model_init(a->model, o->seed, theta);
  if (status == TN_OK)
    status = pn_theta_new(a->model, &a->weights);
  if (status == TN_OK)
    status = pn_theta_set(a->model, &a->weights, theta);
  if (status == TN_OK && o->measure)
    status = measure(a, theta, o->seed);
  pn_saved_free(&saved);
  tn_free(&theta);
  return status;
}

/* Is this node read, and by casts to the low format alone? */
static bool enters_by_casts(const tn_program *program, uint32_t leaf, tn_dtype low) {
  size_t readers = 0;
  for (size_t i = 0; i < tn_program_nodes(program); ++i) {
    const tn_node *node = tn_program_node(program, i);
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      if (node->inputs[k].node != leaf)
        continue;
      if (node->op->id != TN_OP_cast || node->dtype != low)
        return false;
      ++readers;
    }
  }
  for (size_t i = 0; i < tn_program_outputs(program); ++i)
    if (tn_program_output(program, i).node == leaf)
      return false;
  return readers > 0;
}

static void round_leaves(audit *a, tn_dtype low) {
  for (size_t i = 0; i < a->set.n_leaves; ++i) {
    tn_buffer *buffer = a->set.buffers[i];
    uint32_t node = 0;
    if (buffer == NULL || tn_buffer_dtype(buffer) != TN_F32 ||
        !tn_program_leaf(a->set.program, a->set.leaves[i], &node) ||
        !enters_by_casts(a->set.program, node, low))
      continue;
    float *x = tn_map(buffer, TN_READ_WRITE);
    for (size_t k = 0; k < tn_buffer_count(buffer); ++k)
      x[k] = (float)tn_round(low, (double)x[k]);
    tn_unmap(buffer);
  }
}

static void bind_number(pn_audit_set *s, tn_value leaf, double number) {
  s->leaves[s->n_leaves] = leaf;
  s->numbers[s->n_leaves++] = number;
}

/* Residuals that a row has at its points. */
static double count_of(const audit *a, size_t k) {
  tn_shape shape = tn_shape_of(a->out[k]);
  return tn_shape_batched(&shape) ? (double)a->sites->sites[a->rows[k].site].n : 1;
}

/* w / C and 1 / s of every residual: residuals come first among the outputs. */
static void bind_terms(audit *a) {
  pn_audit_set *s = &a->set;
  for (size_t k = 0; k < s->n_outputs && s->kinds[k] == PN_AUDIT_RESIDUAL; ++k) {
    double all = 0, inverse = 1 / pn_loss_scale(a->step->loss, a->rows[k].m, a->rows[k].r);
    for (size_t j = 0; j < s->n_outputs && s->kinds[j] == PN_AUDIT_RESIDUAL; ++j)
      all += a->rows[j].m == a->rows[k].m ? count_of(a, j) : 0;
    double factor = pn_loss_weight(a->step->loss, a->rows[k].m) / all;
    s->weights[k] = factor * count_of(a, k) * inverse * inverse;
    bind_number(s, a->rows[k].inverse, inverse);
    bind_number(s, a->rows[k].factor, factor);
  }
}

static tn_status bind(audit *a) {
  pn_audit_set *s = &a->set;
  const pn_model *m = a->model;
  size_t n_unknowns = m->problem->n_unknowns;
  size_t capacity = m->n_blocks + a->feed.n + n_unknowns + 2 * s->n_outputs;
  TN_TRY(TN_NEW(capacity, &s->leaves));
  TN_TRY(TN_NEW(capacity, &s->buffers));
  TN_TRY(TN_NEW(capacity, &s->numbers));
  for (size_t i = 0; i < m->n_blocks; ++i) {
    s->leaves[s->n_leaves] = m->blocks[i].leaf;
    s->buffers[s->n_leaves++] = a->weights.block[i];
  }
  for (size_t i = 0; i < a->feed.n; ++i) {
    s->leaves[s->n_leaves] = a->feed.leaf[i];
    s->buffers[s->n_leaves++] = a->feed.buffer[i];
  }
  for (size_t i = 0; i < n_unknowns; ++i) {
    if (tn_ok(m->unknown_scale_leaf[i]))
      bind_number(s, m->unknown_scale_leaf[i], m->unknown_scale[i]);
  }
  bind_terms(a);
  return TN_OK;
}

/* Weights and scales as training has them. */
static tn_status make_step(audit *a, pn_problem *problem, const pn_audit_options *o, size_t points) {
  const pn_step_options as_f64 = {.dtype_given = true, .dtype = TN_F64, .seed = o->seed};
  size_t wanted = 0;
  pn_saved *saved = NULL;
  TN_TRY(pn_step_limited(problem, NULL, &as_f64, points, &wanted, &a->step));
  if (o->weights == NULL)
    return TN_OK;
  TN_TRY(pn_saved_open(o->weights, &saved));
  tn_status status = pn_saved_terms(saved, a->step->loss);
  pn_saved_free(&saved);
  return status;
}

static tn_status fill(audit *a, pn_problem *problem, const pn_audit_options *o) {
  bool *skip = NULL;
  TN_TRY(pn_model_new(problem, o->dtype, &a->model));
  TN_TRY(TN_NEW(problem->n_conditions, &skip));
  for (size_t i = 0; i < problem->n_conditions; ++i)
    skip[i] = pn_model_is_hard(a->model, &problem->conditions[i]);
  tn_status status = pn_sites_new(problem, a->model->n_theta, skip, &a->sites);
  tn_free(&skip);
  TN_TRY(status);
  size_t points = o->points > 0 ? o->points : STANDARD_POINTS;
  for (size_t i = 0; i < a->sites->n_sites; ++i) {
    if (a->sites->sites[i].free_ != 0)
      a->sites->sites[i].wanted = points;
  }
  a->sites->interior = points;
  TN_TRY(pn_scopes_new(a->model, a->sites, &a->scopes));
  TN_TRY(build(a, o));
  const pn_draw draw = {PN_DRAW_CHECK, o->seed, 0, 0, 1};
  TN_TRY(pn_sites_draw(a->sites, &draw));
  TN_TRY(pn_feed_all(&a->feed, a->scopes, a->sites, 0, 0));
  TN_TRY(set_weights(a, o));
  TN_TRY(make_step(a, problem, o, points));
  TN_TRY(bind(a));
  if (tn_dtype_compute(o->low) != o->low)
    round_leaves(a, o->low);
  return TN_OK;
}

tn_status pn_audit_new(pn_problem *problem, const pn_audit_options *options, pn_audit_set **out) {
  audit *a = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &a));
  a->set.error = NAN;
  *out = &a->set;
  tn_status status = fill(a, problem, options);
  if (status != TN_OK)
    pn_audit_free(out);
  return status;
}

void pn_audit_free(pn_audit_set **set) {
  if (*set == NULL)
    return;
  audit *a = (audit *)*set;
  tn_program_free(&a->set.program);
  tn_free(&a->set.names);
  tn_free(&a->set.kinds);
  tn_free(&a->set.orders);
  tn_free(&a->set.weights);
  tn_free(&a->rows);
  pn_step_free(&a->step);
  tn_free(&a->set.leaves);
  tn_free(&a->set.buffers);
  tn_free(&a->set.numbers);
  tn_free(&a->raw);
  tn_free(&a->out);
  pn_feed_clear(&a->feed);
  if (a->model != NULL)
    pn_theta_free(a->model, &a->weights);
  pn_scopes_free(&a->scopes);
  pn_sites_free(&a->sites);
  pn_model_free(&a->model);
  tn_free(set);
}
