/* expand.c: one group of calls becomes one jet of the field's body.
 *
 * The group's derivatives and folds are the requests of an algebra (algebra.h); its terms become a structure
 * table, its seeds the channels of the arguments, and the body is carried through in jets. Opaque factors of
 * folds are inputs of the jet nodes, so a viscosity may change from run to run.
 *
 * Channel scales. If channel a carries v_a = 2^-s_a u_a, the product rule u_a = sum of factor u_b u_c reads
 *     v_a = sum of factor 2^(s_b + s_c - s_a) v_b v_c,
 * a table like any other; seeds are multiplied by 2^-s_a and results by 2^s_a where the residual reads them.
 * Powers of two round nothing, so while nothing leaves the range of the format every number is the unscaled one
 * times its power, and adjoints of channel a carry 2^s_a: their products in weight gradients have the same bits.
 * The value channel is the point at which functions are expanded: it has no scale.
 */
#include "autograd/resolve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SCALE = 20 }; /* three of them in a factor of the table stay within 64 bits */

typedef struct plan {
  ag_pass *p;
  size_t g;
  ag_group *group;
  ag_algebra *algebra;
  size_t n_opaques;
  tn_value *opaques;      /* owned, like all below */
  ag_symbol_term *symbols;
  ag_top *tops;
  ag_monomial *monomials;
  tn_jet *args, *out;
  int *scale; /* of channels */
} plan;

static ag_monomial monomial_of(const tn_node *node) {
  ag_monomial m = {{0}};
  memcpy(m.power, node->call->power, sizeof m.power);
  return m;
}

static tn_status opaque_index(plan *x, tn_value v, int *out) {
  *out = -1;
  if (!ag_present(v)) return TN_OK;
  for (size_t i = 0; i < x->n_opaques; ++i)
    if (tn_same(x->opaques[i], v)) {
      *out = (int)i;
      return TN_OK;
    }
  TN_TRY(tn_grow(&x->opaques, x->n_opaques, x->n_opaques + 1, sizeof *x->opaques));
  *out = (int)x->n_opaques;
  x->opaques[x->n_opaques++] = v;
  return TN_OK;
}

static tn_status make_algebra(plan *x) {
  ag_pass *p = x->p;
  size_t n_monomials = 0, n_symbols = 0;
  TN_TRY(TN_NEW(p->n_atoms, &x->monomials));
  TN_TRY(TN_NEW(p->n_summands, &x->symbols));
  TN_TRY(TN_NEW(x->group->n_folds, &x->tops));
  for (size_t i = 0; i < p->n_atoms; ++i)
    if (p->atoms[i].group == x->g && p->atoms[i].required)
      x->monomials[n_monomials++] = monomial_of(tn_node_at(p->graph, p->atoms[i].node));
  for (size_t f = 0; f < x->group->n_folds; ++f) {
    x->tops[f].terms = x->symbols + n_symbols;
    for (size_t i = 0; i < p->n_summands; ++i) {
      const ag_summand *s = &p->summands[i];
      if (!s->call || s->top != f || p->atoms[s->atom].group != x->g) continue;
      ag_symbol_term *term = &x->symbols[n_symbols++];
      *term = (ag_symbol_term){monomial_of(tn_node_of(s->value)), s->factor, -1};
      TN_TRY(opaque_index(x, s->opaque, &term->opaque));
      ++x->tops[f].n_terms;
    }
  }
  return ag_algebra_new(x->group->field->n_args, n_monomials, x->monomials, x->group->n_folds,
                        x->tops, AG_FOLDED, &x->algebra);
}

/* ---- Labels and scales ---- */

/* The label of a channel as reports have it, with the names of run-time factors. *out: tn_free. */
static tn_status label_of(const plan *x, size_t channel, char **out) {
  char names[16][32];
  const char *opaque_names[16];
  size_t n = x->n_opaques < 16 ? x->n_opaques : 16;
  for (size_t i = 0; i < n; ++i) {
    const tn_node *node = tn_node_of(x->opaques[i]);
    if (node->name && node->name[0]) snprintf(names[i], sizeof names[i], "%.31s", node->name);
    else if (node->op->id == TN_OP_constant) snprintf(names[i], sizeof names[i], "%.6g", node->number);
    else snprintf(names[i], sizeof names[i], "c%zu", i);
    opaque_names[i] = names[i];
  }
  ag_names labels = {x->group->field->name, x->group->field->labels, opaque_names, n};
  return ag_algebra_label(x->algebra, (int)channel, &labels, out);
}

static tn_status ask_scales(plan *x) {
  size_t channels = ag_algebra_channels(x->algebra);
  const ag_resolve_options *o = &x->p->options;
  TN_TRY(TN_NEW(channels, &x->scale));
  for (size_t c = 1; o->scale && c < channels; ++c) {
    char *label = NULL;
    TN_TRY(label_of(x, c, &label));
    int s = o->scale(o->scale_context, x->group->field->name, label);
    tn_status status = TN_OK;
    if (s < -MAX_SCALE || s > MAX_SCALE)
      status = TN_FAIL(TN_ERANGE, "field `%s`, channel %s: scale 2^%d, expected an exponent of -%d to %d",
                       x->group->field->name, label, s, MAX_SCALE, MAX_SCALE);
    tn_free(&label);
    TN_TRY(status);
    x->scale[c] = s;
  }
  return TN_OK;
}

/* *factor *= 2^exponent, exactly. */
static tn_status times_power(const plan *x, int exponent, ag_rational *factor) {
  int64_t two = (int64_t)1 << (exponent < 0 ? -exponent : exponent);
  ag_rational power = exponent < 0 ? (ag_rational){1, two} : (ag_rational){two, 1};
  if (!exponent || ag_rational_mul(*factor, power, factor) == TN_OK) return TN_OK;
  return TN_FAIL(TN_EUNSUPPORTED, "field `%s`: scales of its channels differ by 2^%d, too much for the factors of "
                 "its product rule", x->group->field->name, exponent);
}

/* factor * 2^exponent * the run-time factor. */
static tn_value coefficient(const plan *x, ag_rational factor, int exponent, int opaque) {
  double number = ldexp((double)factor.num / (double)factor.den, exponent);
  tn_value k = tn_const(x->p->graph, x->group->field->dtype, number);
  return opaque < 0 ? k : ag_times(k, x->opaques[opaque]);
}

/* ---- Jets ---- */

static tn_status make_table(plan *x, const tn_jet_table **table) {
  size_t n, channels = ag_algebra_channels(x->algebra);
  const ag_term *terms = ag_algebra_terms(x->algebra, &n);
  tn_jet_term *copy = NULL;
  *table = NULL;
  if (channels > TN_MAX_CHANNELS)
    return TN_FAIL(TN_EUNSUPPORTED, "field `%s`: its derivatives need %zu channels, at most %d",
                   x->group->field->name, channels, TN_MAX_CHANNELS);
  if (channels == 1) return TN_OK;
  TN_TRY(TN_NEW(n, &copy));
  tn_status status = TN_OK;
  for (size_t i = 0; i < n && status == TN_OK; ++i) {
    ag_rational factor = terms[i].factor;
    status = times_power(x, x->scale[terms[i].b] + x->scale[terms[i].c] - x->scale[terms[i].a], &factor);
    copy[i] = (tn_jet_term){(int16_t)terms[i].a, (int16_t)terms[i].b, (int16_t)terms[i].c,
                            (int16_t)terms[i].opaque, factor.num, factor.den};
  }
  if (status == TN_OK)
    *table = tn_jet_table_new(x->p->graph, (uint32_t)channels, ag_algebra_order(x->algebra),
                              (uint32_t)x->n_opaques, n, copy);
  tn_free(&copy);
  TN_TRY(status);
  return *table ? TN_OK : tn_graph_error(x->p->graph);
}

static tn_status seed_arguments(plan *x, const tn_jet_table *table) {
  size_t n_args = x->group->field->n_args;
  TN_TRY(TN_NEW(n_args, &x->args));
  for (size_t j = 0; j < n_args; ++j) {
    size_t n;
    const ag_seed *seeds = ag_algebra_seeds(x->algebra, j, &n);
    tn_jet *jet = &x->args[j];
    jet->table = table;
    jet->coefficients = x->opaques;
    jet->channel[0] = x->group->args[j];
    for (size_t i = 0; i < n; ++i) {
      tn_value *c = &jet->channel[seeds[i].channel];
      *c = ag_plus(*c, coefficient(x, seeds[i].factor, -x->scale[seeds[i].channel], seeds[i].opaque));
    }
  }
  return tn_graph_error(x->p->graph);
}

/* A channel of an output in the shape of the call. */
static tn_value channel_value(const plan *x, uint32_t output, int channel, const tn_shape *shape) {
  tn_value v = x->out[output].channel[channel];
  if (!ag_present(v)) v = tn_const(x->p->graph, x->group->field->dtype, 0);
  if (x->scale[channel]) v = ag_times(coefficient(x, (ag_rational){1, 1}, x->scale[channel], -1), v);
  return ag_fit(v, *shape);
}

static tn_status read_results(plan *x) {
  ag_pass *p = x->p;
  for (size_t i = 0; i < p->n_atoms; ++i) {
    if (p->atoms[i].group != x->g || !p->atoms[i].required) continue;
    const tn_node *node = tn_node_at(p->graph, p->atoms[i].node);
    ag_monomial m = monomial_of(node);
    int c = ag_algebra_channel_of(x->algebra, &m);
    if (c < 0) return TN_FAIL(TN_EINTERNAL, "field `%s`: a derivative has no channel",
                              x->group->field->name);
    p->atoms[i].result = channel_value(x, node->call->output, c, &node->shapes[0]);
  }
  for (size_t f = 0; f < x->group->n_folds; ++f) {
    size_t n;
    const ag_part *parts = ag_algebra_top(x->algebra, f, &n);
    tn_value sum = {0};
    for (size_t k = 0; k < n; ++k) {
      int c = parts[k].channel;
      tn_value v = x->out[x->group->folds[f].output].channel[c];
      if (!ag_present(v)) continue;
      sum = ag_plus(sum, ag_times(coefficient(x, parts[k].factor, x->scale[c], parts[k].opaque), v));
    }
    if (!ag_present(sum)) sum = tn_const(p->graph, x->group->field->dtype, 0);
    x->group->folds[f].result = sum;
  }
  return tn_graph_error(p->graph);
}

static tn_status describe(const plan *x, ag_resolve_report *report) {
  if (!report) return TN_OK;
  size_t k = report->n_groups++;
  if (k >= sizeof report->group / sizeof *report->group) return TN_OK;
  ag_group_report *r = &report->group[k];
  size_t used = 0;
  r->field = x->group->field->name;
  r->channels = ag_algebra_channels(x->algebra);
  ag_algebra_terms(x->algebra, &r->terms);
  for (size_t i = 0; i < x->p->n_atoms && !r->line; ++i)
    if (x->p->atoms[i].group == x->g) r->line = tn_node_at(x->p->graph, x->p->atoms[i].node)->line;
  for (size_t c = 0; c < r->channels && used + 1 < sizeof r->labels; ++c) {
    char *text = NULL;
    TN_TRY(label_of(x, c, &text));
    used += (size_t)snprintf(r->labels + used, sizeof r->labels - used, "%s%s", c ? ", " : "", text);
    tn_free(&text);
  }
  return TN_OK;
}

/* Every call by itself: the body differentiated by repeated reverse mode, then put at the arguments. */
static tn_status expand_nested(plan *x) {
  ag_pass *p = x->p;
  ag_field *f = x->group->field;
  for (size_t i = 0; i < p->n_atoms; ++i) {
    if (p->atoms[i].group != x->g) continue;
    const tn_node *node = tn_node_at(p->graph, p->atoms[i].node);
    tn_value d = f->outputs[node->call->output];
    for (size_t j = 0; j < f->n_args; ++j)
      for (int k = 0; k < node->call->power[j]; ++k) TN_TRY(ag_grad(d, 1, &f->args[j], &d));
    TN_TRY(ag_substitute(p->graph, f->n_args, f->args, x->group->args, 1, &d, &d));
    p->atoms[i].result = ag_fit(d, node->shapes[0]);
  }
  return tn_graph_error(p->graph);
}

static tn_status expand_jets(plan *x, ag_resolve_report *report) {
  const tn_jet_table *table = NULL;
  ag_field *f = x->group->field;
  TN_TRY(make_algebra(x));
  TN_TRY(ask_scales(x));
  TN_TRY(make_table(x, &table));
  TN_TRY(seed_arguments(x, table));
  TN_TRY(TN_NEW(f->n_out, &x->out));
  TN_TRY(ag_jet(f->n_args, f->args, x->args, f->n_out, f->outputs, x->out));
  TN_TRY(read_results(x));
  return describe(x, report);
}

tn_status ag_expand_group(ag_pass *p, size_t g, ag_resolve_report *report) {
  plan x = {.p = p, .g = g, .group = &p->groups[g]};
  tn_status status = p->options.nested ? expand_nested(&x) : expand_jets(&x, report);
  ag_algebra_free(&x.algebra);
  tn_free(&x.opaques);
  tn_free(&x.symbols);
  tn_free(&x.tops);
  tn_free(&x.monomials);
  tn_free(&x.args);
  tn_free(&x.out);
  tn_free(&x.scale);
  return status;
}
