/* scopes.c: where values are lowered, and which numbers stand for the points there.
 *
 * A graph has few point axes, and equal nodes are one node, so a site has one scope for all uses:
 * residuals of every equation at the same points share their derivatives, and validation compiles
 * from the same leaves. A feed is the other half: buffers of the model's dtype that an executor
 * binds to those leaves.
 */
#include "pinn/data.h"
#include "pinn/lookup.h"
#include "pinn/moving.h"
#include "pinn/objective.h"
#include "pinn/region.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct pn_scopes {
  pn_model *model;
  pn_sites *sites;
  size_t n;           /* entries of the arrays */
  pn_scope **scope;   /* NULL: not made; owned */
  size_t *mean;       /* site of the points of a mean; PN_NONE */
  pn_lookup **lookup; /* one a table of the problem, read when first used */
};

tn_status pn_scopes_new(pn_model *model, pn_sites *sites, pn_scopes **out) {
  *out = NULL;
  pn_scopes *s = NULL;
  TN_TRY(TN_NEW(1, &s));
  s->model = model;
  s->sites = sites;
  s->n = sites->n_sites;
  tn_status status = TN_NEW(s->n, &s->scope);
  if (status == TN_OK)
    status = TN_NEW(s->n, &s->mean);
  if (status == TN_OK)
    status = TN_NEW(model->problem->n_tables, &s->lookup);
  for (size_t i = 0; status == TN_OK && i < s->n; ++i)
    s->mean[i] = PN_NONE;
  if (status != TN_OK)
    pn_scopes_free(&s);
  *out = s;
  return status;
}

void pn_scopes_free(pn_scopes **scopes) {
  pn_scopes *s = *scopes;
  if (!s)
    return;
  for (size_t i = 0; s->scope && i < s->n; ++i)
    tn_free(&s->scope[i]);
  for (size_t i = 0; s->lookup && i < s->model->problem->n_tables; ++i)
    pn_lookup_free(&s->lookup[i]);
  tn_free(&s->scope);
  tn_free(&s->mean);
  tn_free(&s->lookup);
  tn_free(scopes);
}

pn_model *pn_scopes_model(const pn_scopes *scopes) { return scopes->model; }
pn_sites *pn_scopes_sites(const pn_scopes *scopes) { return scopes->sites; }

tn_status pn_scopes_at(pn_scopes *s, size_t site, pn_scope **out) {
  *out = NULL;
  if (site >= s->n)
    return TN_FAIL(TN_ERANGE, "scope of site %zu of %zu", site, s->n);
  if (!s->scope[site]) {
    const pn_site *at = &s->sites->sites[site];
    pn_scope *scope = NULL;
    TN_TRY(TN_NEW(1, &scope));
    s->scope[site] = scope;
    if (at->data)
      TN_TRY(pn_scope_of_data(s->model, at->key, at->data, at->free_, scope));
    else
      TN_TRY(pn_scope_new(s->model, at->key, at->piece, at->free_, scope));
    if (!at->data) /* whose rows have the coordinate itself */
      TN_TRY(pn_scope_move(scope, false));
  }
  *out = s->scope[site];
  return TN_OK;
}

static uint32_t free_bits(const pn_scope *scope) {
  uint32_t mask = 0;
  for (size_t c = 0; c < PN_MAX_COORDINATES; ++c)
    mask |= (uint32_t)scope->free_[c] << c;
  return mask;
}

tn_status pn_scopes_mean(pn_scopes *s, size_t site) {
  const pn_scope *scope = s->scope[site];
  if (!scope || !scope->mean || s->mean[site] != PN_NONE)
    return TN_OK;
  pn_site *at = &s->sites->sites[site];
  char key[PN_SITE_KEY + 8];
  snprintf(key, sizeof key, "mean:%s", at->key);
  return pn_sites_add(s->sites, key, at->term, s->model->problem->domain, free_bits(scope->mean), s->sites->interior,
                      &s->mean[site]);
}

size_t pn_scopes_mean_site(const pn_scopes *s, size_t site) {
  return site < s->n ? s->mean[site] : PN_NONE;
}

/* ---- Feeds ----------------------------------------------------------------------------------- */

static tn_status add(pn_feed *feed, tn_value leaf, tn_buffer *buffer) {
  tn_status status = tn_grow(&feed->leaf, feed->n, feed->n + 1, sizeof *feed->leaf);
  if (status == TN_OK)
    status = tn_grow(&feed->buffer, feed->n, feed->n + 1, sizeof *feed->buffer);
  if (status != TN_OK) {
    tn_buffer_release(&buffer);
    return status;
  }
  feed->leaf[feed->n] = leaf;
  feed->buffer[feed->n++] = buffer;
  return TN_OK;
}

static tn_status add_numbers(pn_feed *feed, tn_dtype dtype, tn_value leaf, size_t n,
                             const double *x) {
  tn_buffer *buffer = NULL;
  TN_TRY(tn_buffer_new(dtype, 1, &n, &buffer));
  tn_status status = tn_convert(n, TN_F64, x, dtype, tn_map(buffer, TN_WRITE));
  tn_unmap(buffer);
  if (status != TN_OK) {
    tn_buffer_release(&buffer);
    return status;
  }
  return add(feed, leaf, buffer);
}

static tn_status add_table(pn_feed *feed, pn_scopes *s, size_t table, tn_value leaf,
                           const pn_site *points, size_t first, size_t count) {
  const pn_problem *problem = s->model->problem;
  double point[PN_MAX_COORDINATES], *value = NULL;
  tn_status status = TN_OK;
  if (!s->lookup[table])
    TN_TRY(pn_lookup_new(problem, table, &s->lookup[table]));
  TN_TRY(TN_NEW(count, &value));
  for (size_t i = 0; status == TN_OK && i < count; ++i) {
    pn_site_point(problem, points, first + i, point);
    value[i] = pn_lookup_at(s->lookup[table], point);
    if (!isfinite(value[i])) {
      const pn_table_entry *entry = &problem->tables[table];
      const char *name = problem->coordinates[entry->of[0]].name;
      status = pn_fail_at(TN_EINPUT, entry->place, strlen(entry->name),
                          "table `%s` has no value at %s = %g, where `%s` needs it", entry->name,
                          name, point[entry->of[0]],
                          points->term ? points->term->name : "exact");
    }
  }
  if (status == TN_OK)
    status = add_numbers(feed, s->model->dtype, leaf, count, value);
  tn_free(&value);
  return status;
}

static tn_status add_inside(pn_feed *feed, pn_scopes *s, size_t shape, tn_value leaf,
                            const pn_site *points, size_t first, size_t count) {
  double point[PN_MAX_COORDINATES], *value = NULL;
  TN_TRY(TN_NEW(count, &value));
  for (size_t i = 0; i < count; ++i) {
    pn_site_point(s->model->problem, points, first + i, point);
    value[i] = pn_shape_holds(s->model->problem, shape, point);
  }
  tn_status status = add_numbers(feed, s->model->dtype, leaf, count, value);
  tn_free(&value);
  return status;
}

static tn_status add_column(pn_feed *feed, tn_dtype dtype, const pn_scope *scope, size_t k,
                            const pn_site *points, size_t first, size_t count) {
  double *value = NULL;
  TN_TRY(TN_NEW(count, &value));
  pn_data_values(scope->data, scope->column[k], points->stride, first, count, value);
  tn_status status = add_numbers(feed, dtype, scope->column_leaf[k], count, value);
  tn_free(&value);
  return status;
}

tn_status pn_feed_site(pn_feed *feed, pn_scopes *s, const pn_scope *scope, const pn_site *points,
                       size_t first, size_t count) {
  for (size_t c = 0; c < s->model->problem->n_coordinates; ++c) {
    if (!scope->free_[c])
      continue;
    if (!points->column[c])
      return TN_FAIL(TN_ESTATE, "the points of `%s` have no %s", points->key,
                     s->model->problem->coordinates[c].name);
    TN_TRY(
        add_numbers(feed, s->model->dtype, scope->coordinate[c], count, points->column[c] + first));
  }
  for (size_t c = 0; c < s->model->problem->n_coordinates; ++c)
    if (scope->normal[c].graph)
      TN_TRY(add_numbers(feed, s->model->dtype, scope->normal[c], count, points->normal[c] + first));
  for (size_t k = 0; k < scope->n_insides; ++k)
    TN_TRY(add_inside(feed, s, scope->inside[k], scope->inside_leaf[k], points, first, count));
  for (size_t k = 0; k < scope->n_columns; ++k)
    TN_TRY(add_column(feed, s->model->dtype, scope, k, points, first, count));
  for (size_t k = 0; k < scope->n_tables; ++k)
    TN_TRY(add_table(feed, s, scope->table[k], scope->table_leaf[k], points, first, count));
  return TN_OK;
}

tn_status pn_feed_all(pn_feed *feed, pn_scopes *s, const pn_sites *points, size_t batch,
                      size_t step) {
  for (size_t i = 0; i < s->n; ++i) {
    if (!s->scope[i])
      continue;
    const pn_site *site = &points->sites[i];
    size_t first = 0, count = site->n;
    if (batch && batch < count && !site->data) { /* data are used whole */
      size_t parts = count / batch;
      first = step % parts * batch;
      count = batch;
    }
    TN_TRY(pn_feed_site(feed, s, s->scope[i], site, first, count));
    if (s->mean[i] == PN_NONE)
      continue;
    const pn_site *mean = &points->sites[s->mean[i]];
    TN_TRY(pn_feed_site(feed, s, s->scope[i]->mean, mean, 0, mean->n));
  }
  return TN_OK;
}

bool pn_share(size_t n, size_t share, size_t shares, size_t *first, size_t *count) {
  if (n < shares) { /* a point a share; those beyond them repeat the first */
    *first = share < n ? share : 0;
    *count = n > 0;
    return share < n;
  }
  *first = n / shares * share + (share < n % shares ? share : n % shares);
  *count = n / shares + (share < n % shares);
  return true;
}

tn_status pn_feed_share(pn_feed *feed, pn_scopes *s, const pn_sites *points, size_t share,
                        size_t shares) {
  for (size_t i = 0; i < s->n; ++i) {
    size_t first = 0, count = 0;
    if (!s->scope[i])
      continue;
    (void)pn_share(points->sites[i].n, share, shares, &first, &count);
    TN_TRY(pn_feed_site(feed, s, s->scope[i], &points->sites[i], first, count));
    if (s->mean[i] == PN_NONE)
      continue;
    const pn_site *mean = &points->sites[s->mean[i]];
    TN_TRY(pn_feed_site(feed, s, s->scope[i]->mean, mean, 0, mean->n));
  }
  return TN_OK;
}

void pn_feed_clear(pn_feed *feed) {
  for (size_t i = 0; i < feed->n; ++i)
    tn_buffer_release(&feed->buffer[i]);
  tn_free(&feed->leaf);
  tn_free(&feed->buffer);
  feed->n = 0;
}

tn_status pn_feed_bind(const pn_feed *feed, tn_exec *exec) {
  for (size_t i = 0; i < feed->n; ++i)
    TN_TRY(tn_exec_bind(exec, feed->leaf[i], feed->buffer[i]));
  return TN_OK;
}

tn_status pn_feed_bind_graph(const pn_feed *feed) {
  for (size_t i = 0; i < feed->n; ++i)
    TN_TRY(tn_bind(feed->leaf[i], feed->buffer[i]));
  return TN_OK;
}

/* ---- theta ----------------------------------------------------------------------------------- */

tn_status pn_theta_new(const pn_model *model, pn_weights_buffer *out) {
  *out = (pn_weights_buffer){0};
  TN_TRY(tn_buffer_new(model->dtype, 1, &model->n_theta, &out->whole));
  tn_status status = TN_NEW(model->n_blocks, &out->block);
  for (size_t i = 0; status == TN_OK && i < model->n_blocks; ++i) {
    const pn_block *b = &model->blocks[i];
    status = tn_buffer_view(out->whole, b->offset, b->rank, b->extent, &out->block[i]);
  }
  if (status != TN_OK)
    pn_theta_free(model, out);
  return status;
}

void pn_theta_free(const pn_model *model, pn_weights_buffer *buffer) {
  for (size_t i = 0; buffer->block && i < model->n_blocks; ++i)
    tn_buffer_release(&buffer->block[i]);
  tn_free(&buffer->block);
  tn_buffer_release(&buffer->whole);
}

tn_status pn_theta_set(const pn_model *model, pn_weights_buffer *buffer, const double *theta) {
  void *data = tn_map(buffer->whole, TN_WRITE);
  tn_status status = TN_OK;
  if (model->dtype == TN_F64)
    memcpy(data, theta, model->n_theta * sizeof *theta);
  else
    status = tn_convert(model->n_theta, TN_F64, theta, model->dtype, data);
  tn_unmap(buffer->whole);
  return status;
}

tn_status pn_theta_bind(const pn_model *model, const pn_weights_buffer *buffer, tn_exec *exec) {
  for (size_t i = 0; i < model->n_blocks; ++i)
    TN_TRY(tn_exec_bind(exec, model->blocks[i].leaf, buffer->block[i]));
  for (size_t i = 0; i < model->problem->n_unknowns; ++i)
    if (tn_ok(model->unknown_scale_leaf[i]))
      TN_TRY(tn_exec_set(exec, model->unknown_scale_leaf[i], model->unknown_scale[i]));
  return TN_OK;
}
