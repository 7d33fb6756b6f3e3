/* objective_channels.c: the range of derivatives inside a network, and the powers of two that keep it in 16 bits.
 *
 * Hidden layers multiply channels: the value, and derivatives by the coordinates, each with a range of its own. In f16
 * numbers beyond 65504 are infinite and below 2^-14 lose digits; second derivatives of a steep layer go beyond the one
 * and those of a flat one below the other, and no loss scale helps against either, since it acts on adjoints only. So
 * channel c is carried as 2^-e_c times its value (ag_resolve), with
 *
 *   e_c = floor(log2 max |channel c|) - 5 + log2(margin)          max over points, layers and groups
 *
 * which puts the largest number near 2^5: a factor 2^11 of room to grow while a stage goes on, and 19 binades below
 * before digits get lost. The value itself is between -1 and 1 after a tanh and is not scaled; nor is a channel that
 * is zero. The numbers come from a run of the residuals alone, in f32, that keeps all its values; the products tell
 * which of them are channels (ag_products).
 *
 * Groups of one field that have a channel of the same name share its exponent. Where a product may belong to several
 * groups, its numbers count for all of them: too large an exponent costs a few binades, too small a one the run.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/objective_inside.h"

enum { AIM = 5, LEAST = -12, MOST = 20 };

const pn_channel *pn_loss_channel_list(const pn_loss *loss, size_t *n) {
  *n = loss->n_channels;
  return loss->channel;
}

static pn_channel *find(pn_loss *l, const char *field, const char *label) {
  for (size_t i = 0; i < l->n_channels; ++i)
    if (strcmp(l->channel[i].field, field) == 0 && strcmp(l->channel[i].label, label) == 0)
      return &l->channel[i];
  return NULL;
}

int pn_loss_exponent(void *context, const char *field, const char *label) {
  char brief[sizeof((pn_channel *)0)->label];
  snprintf(brief, sizeof brief, "%s", label);
  const pn_channel *c = find(context, field, brief);
  return c ? c->exponent : 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool pn_group_label(const ag_group_report *group, size_t k, char *label, size_t size) {
  const char *at = group->labels;
  for (; k > 0 && at; --k) {
    at = strstr(at, ", ");
    at = at ? at + 2 : NULL;
  }
  if (!at || !*at)
    return false;
  const char *end = strstr(at, ", ");
  size_t n = end ? (size_t)(end - at) : strlen(at);
  snprintf(label, size, "%.*s", (int)n, at);
  return true;
}

static size_t groups_of(const ag_resolve_report *report) {
  const size_t most = sizeof report->group / sizeof *report->group;
  return report->n_groups < most ? report->n_groups : most;
}

/* All channels but the values. */
static tn_status list_channels(pn_loss *l, const ag_resolve_report *report) {
  pn_channel c = {.exponent = 0};
  for (size_t g = 0; g < groups_of(report); ++g)
    for (size_t k = 1; k < report->group[g].channels; ++k) {
      c.field = report->group[g].field;
      if (!pn_group_label(&report->group[g], k, c.label, sizeof c.label) || find(l, c.field, c.label))
        continue;
      TN_TRY(tn_grow(&l->channel, l->n_channels, l->n_channels + 1, sizeof c));
      l->channel[l->n_channels++] = c;
    }
  return TN_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static const char *field_of(const pn_loss *l, const char *weight) {
  for (size_t i = 0; i < l->model->n_nets; ++i) {
    const pn_net *net = &l->model->nets[i];
    for (size_t b = 0; b < net->n_blocks; ++b)
      if (strcmp(l->model->blocks[net->first_block + b].name, weight) == 0)
        return ag_field_name(net->field);
  }
  return "";
}

static void note(pn_loss *l, const ag_resolve_report *report, const char *field,
                 const tn_node *node, size_t channel, double largest) {
  char label[sizeof l->channel->label];
  for (size_t g = 0; g < groups_of(report); ++g) {
    const ag_group_report *group = &report->group[g];
    if (strcmp(group->field, field) != 0 || channel >= group->channels ||
        (node->table && node->table->channels != group->channels) ||
        !pn_group_label(group, channel, label, sizeof label))
      continue;
    pn_channel *c = find(l, field, label);
    if (c && !(largest <= c->largest)) /* a NaN is kept */
      c->largest = largest;
  }
}

/* max |.| of the channels that one product reads. */
static tn_status look_at(pn_loss *l, tn_exec *exec, const tn_program *program,
                         const ag_resolve_report *report, const ag_product *product) {
  const tn_node *node = tn_program_node(program, product->node);
  const char *field = field_of(l, product->weight);
  uint64_t mask = node->mask[0];
  for (uint32_t k = 0; mask; ++k, mask &= mask - 1) {
    size_t n = 0, channel = (size_t)__builtin_ctzll(mask);
    double *x = NULL, largest = 0;
    if (channel == 0)
      continue;
    TN_TRY(tn_exec_value_count(exec, node->inputs[k].node, node->inputs[k].port, &n));
    TN_TRY(TN_NEW(n, &x));
    tn_status status = tn_exec_value(exec, node->inputs[k].node, node->inputs[k].port, n, x);
    for (size_t i = 0; status == TN_OK && i < n; ++i)
      if (!(fabs(x[i]) <= largest))
        largest = fabs(x[i]);
    tn_free(&x);
    TN_TRY(status);
    note(l, report, field, node, channel, largest);
  }
  return TN_OK;
}

/* The scalars of the residuals that the model's own binding does not set: none; weights and points. */
static tn_status run_plain(pn_loss *l, const double *theta, size_t points, tn_exec *exec) {
  pn_feed feed = {0};
  TN_TRY(pn_theta_set(l->model, &l->theta, theta));
  TN_TRY(pn_theta_bind(l->model, &l->theta, exec));
  tn_status status = pn_feed_all(&feed, l->scopes, l->sites, points, 0);
  if (status == TN_OK)
    status = pn_feed_bind(&feed, exec);
  if (status == TN_OK)
    status = tn_exec_run(exec);
  pn_feed_clear(&feed);
  return status;
}

static tn_status measure_program(pn_loss *l, const double *theta, size_t points,
                                 const ag_resolve_report *report, const tn_program *program) {
  tn_exec *exec = NULL;
  ag_product *products = NULL;
  size_t n = 0;
  TN_TRY(ag_products(program, &n, &products));
  tn_status status = tn_exec_keeping_all(program, l->pool, &exec);
  if (status == TN_OK)
    status = run_plain(l, theta, points, exec);
  for (size_t i = 0; status == TN_OK && i < n; ++i)
    if (products[i].kind == AG_FORWARD)
      status = look_at(l, exec, program, report, &products[i]);
  tn_exec_free(&exec);
  tn_free(&products);
  return status;
}

static tn_status plain_program(pn_loss *l, ag_resolve_report *report, tn_program **out) {
  tn_value *values = NULL;
  size_t n = 0;
  tn_status status = pn_loss_resolve(l, false, &values, report);
  for (size_t i = 0; status == TN_OK && i < 2 * l->n_rows; ++i)
    if (values[i].graph)
      values[n++] = values[i];
  if (status == TN_OK)
    status = tn_compile(l->model->graph, n, values, out);
  tn_free(&values);
  return status;
}

tn_status pn_loss_measure(pn_loss *l, const double *theta, size_t points, bool count, bool *over) {
  ag_resolve_report report = {0};
  tn_program *program = NULL;
  *over = false;
  TN_TRY(plain_program(l, &report, &program));
  tn_status status = l->n_channels ? TN_OK : list_channels(l, &report);
  for (size_t i = 0; i < l->n_channels; ++i)
    l->channel[i].largest = 0;
  if (status == TN_OK)
    status = measure_program(l, theta, points, &report, program);
  for (size_t i = 0; status == TN_OK && i < l->n_channels; ++i) {
    pn_channel *c = &l->channel[i];
    bool finite = isfinite(tn_round(l->precision.low, ldexp(c->largest, -c->exponent)));
    c->overflows += count && !finite;
    *over = *over || !finite;
  }
  tn_program_free(&program);
  return status;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static int exponent_for(double largest, double margin) {
  int exponent = 0;
  if (!(largest > 0) || !isfinite(largest))
    return 0;
  (void)frexp(largest * margin, &exponent); /* 2^(exponent - 1) <= largest margin */
  exponent -= 1 + AIM;
  return exponent < LEAST ? LEAST : exponent > MOST ? MOST : exponent;
}

tn_status pn_loss_rescale(pn_loss *l, double margin, bool *changed) {
  *changed = false;
  for (size_t i = 0; i < l->n_channels; ++i) {
    int exponent = exponent_for(l->channel[i].largest, margin);
    *changed = *changed || exponent != l->channel[i].exponent;
    l->channel[i].exponent = exponent;
  }
  return *changed ? pn_loss_rebuild(l) : TN_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

tn_status pn_loss_visit_channels(pn_loss *l, pn_state_visitor *v) {
  size_t n = l->n_channels;
  TN_TRY(pn_visit_count(v, "channels", 4096, &n));
  if (v->restores && n && !l->n_channels) { /* their names, from the residuals */
    ag_resolve_report report = {0};
    tn_program *program = NULL;
    TN_TRY(plain_program(l, &report, &program));
    tn_program_free(&program);
    TN_TRY(list_channels(l, &report));
  }
  if (n != l->n_channels)
    return TN_FAIL(TN_EINPUT, "checkpoint: scales of %zu channels, the problem has %zu", n,
                   l->n_channels);
  bool changed = false;
  for (size_t i = 0; i < n; ++i) {
    pn_channel *c = &l->channel[i];
    double number[3] = {c->exponent, (double)c->overflows, c->largest};
    char name[32];
    snprintf(name, sizeof name, "channel.%zu", i + 1);
    TN_TRY(v->doubles(v, name, 3, number));
    if (!(number[0] >= LEAST && number[0] <= MOST && number[1] >= 0 && number[1] < 0x1p50))
      return TN_FAIL(TN_EINPUT, "checkpoint: channel %s has the scale 2^%g", c->label, number[0]);
    changed = changed || (int)number[0] != c->exponent;
    c->exponent = (int)number[0];
    c->overflows = (size_t)number[1];
    c->largest = number[2];
  }
  return v->restores && changed ? pn_loss_rebuild(l) : TN_OK;
}
