#include "tests/support_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void must(tn_status status) {
  if (status != TN_OK)
    fail_msg("%s: %s", tn_status_name(status), tn_error_text());
}

void model_open(model_case *c, const char *text, tn_dtype dtype, uint64_t seed) {
  memset(c, 0, sizeof *c);
  must(pn_problem_parse("test.toml", text, 0, NULL, &c->problem));
  must(pn_model_new(c->problem, dtype, &c->model));
  must(TN_NEW(c->model->n_theta, &c->theta));
  must(pn_model_init(c->model, seed, c->theta));
  for (int exact = 0; exact < 2; ++exact) {
    uint32_t all = (UINT32_C(1) << c->problem->n_coordinates) - 1;
    must(pn_scope_new(c->model, "box", NULL, all, &c->box[exact]));
    c->box[exact].exact = exact;
  }
}

void model_close(model_case *c) {
  tn_free(&c->theta);
  pn_model_free(&c->model);
  pn_problem_free(&c->problem);
}

tn_status model_error(const char *text) {
  pn_problem *problem = NULL;
  pn_model *model = NULL;
  must(pn_problem_parse("test.toml", text, 0, NULL, &problem));
  tn_status status = pn_model_new(problem, TN_F64, &model);
  assert_true(status == TN_OK || model == NULL);
  pn_model_free(&model);
  pn_problem_free(&problem);
  return status;
}

static void bind(tn_value leaf, tn_dtype dtype, size_t rank, const size_t *extent, size_t n,
                 const double *data) {
  tn_buffer *buffer = NULL;
  must(tn_buffer_new(dtype, rank, extent, &buffer));
  must(tn_convert(n, TN_F64, data, dtype, tn_map(buffer, TN_WRITE)));
  tn_unmap(buffer);
  must(tn_bind(leaf, buffer));
  tn_buffer_release(&buffer);
}

static void bind_coordinates(const model_case *c, const pn_scope *scope, size_t n,
                             const double *point) {
  double *column = NULL;
  size_t stride = c->problem->n_coordinates;
  must(TN_NEW(n, &column));
  for (size_t j = 0; j < stride; ++j) {
    if (!scope->free_[j])
      continue;
    for (size_t i = 0; i < n; ++i)
      column[i] = point[i * stride + j];
    bind(scope->coordinate[j], c->model->dtype, 1, &n, n, column);
  }
  tn_free(&column);
}

void model_values(model_case *c, const pn_scope *scope, tn_value value, size_t n,
                  const double *point, double *out) {
  tn_value resolved = {0};
  must(tn_graph_error(c->model->graph));
  must(ag_resolve(c->model->graph, 1, &value, NULL, &resolved, NULL));
  bind_coordinates(c, scope, n, point);
  if (scope->mean)
    bind_coordinates(c, scope->mean, n, point);
  for (size_t i = 0; i < c->model->n_blocks; ++i) {
    const pn_block *b = &c->model->blocks[i];
    bind(b->leaf, c->model->dtype, b->rank, b->extent, b->count, c->theta + b->offset);
  }
  must(tn_eval(1, &resolved));
  tn_shape shape = tn_shape_of(resolved);
  size_t count = tn_shape_batched(&shape) ? n : 1;
  must(tn_read(resolved, count, out));
  for (size_t i = count; i < n; ++i)
    out[i] = out[0];
}

void model_at_points(model_case *c, const char *expr, bool exact, size_t n, const double *point,
                     double *out) {
  pn_expr *tree = NULL;
  tn_value value = {0};
  must(pn_problem_expression(c->problem, "test", expr, &tree));
  must(pn_lower(&c->box[exact], tree, &value));
  model_values(c, &c->box[exact], value, n, point, out);
}

double model_at(model_case *c, const char *expr, const double *point) {
  double out = 0;
  model_at_points(c, expr, false, 1, point, &out);
  return out;
}

void model_relation(model_case *c, const pn_term *term, size_t piece, size_t relation, size_t n,
                    const double *point, double *out) {
  pn_scope scope;
  tn_value value = {0};
  const pn_piece *where = term->n_pieces ? &term->pieces[piece] : NULL;
  must(pn_scope_new(c->model, term->name, where, term->coordinates, &scope));
  must(pn_lower_relation(&scope, &term->relations[relation], &value));
  model_values(c, &scope, value, n, point, out);
}
