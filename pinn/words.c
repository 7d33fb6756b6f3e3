/* words.c: the sentences about a run that both the terminal and the report use. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"
#include "pinn/net_layers.h"
#include "tensor/factor.h"

const char *pn_brief(double x, char text[24]) {
  if (!isfinite(x)) {
    snprintf(text, 24, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    return text;
  }
  if (x == 0) {
    snprintf(text, 24, "0");
    return text;
  }
  if (fabs(x) >= 0.995 && fabs(x) < 999.5) {
    snprintf(text, 24, fabs(x) < 9.95 ? "%.1f" : "%.0f", x);
    return text;
  }
  char raw[32];
  snprintf(raw, sizeof raw, "%.1e", x);
  char *e = strchr(raw, 'e');
  int power = 0;
  bool minus = e[1] == '-';
  for (const char *c = e + 2; *c != '\0'; ++c)
    power = 10 * power + (*c - '0');
  *e = '\0';
  snprintf(text, 24, "%.12se%s%d", raw, minus ? "-" : "", power);
  return text;
}

const char *pn_threshold(double x, char text[24]) {
  pn_brief(x, text);
  char *zero = strstr(text, ".0");
  if (zero != NULL)
    memmove(zero, zero + 2, strlen(zero + 2) + 1);
  return text;
}

const char *pn_grouped(size_t n, char text[32]) {
  char digits[24];
  int count = snprintf(digits, sizeof digits, "%zu", n), at = 0;
  for (int i = 0; i < count; ++i) {
    if (i > 0 && (count - i) % 3 == 0)
      text[at++] = ' ';
    text[at++] = digits[i];
  }
  text[at] = '\0';
  return text;
}

void pn_put_machine(pn_text *text, const pn_run *run) {
  tn_device *device = run->options->device;
  char words[80];
  if (device)
    pn_putf(text, "%s (%s), ", tn_device_name(device), tn_device_text(device));
  pn_putf(text, "cpu (%s), %s", tn_isa(),
          pn_ranks_words(run->ranks.comm, tn_pool_threads(run->pool), words));
  if (run->ranks.comm && run->options->split_layers)
    pn_putf(text, ", layers divided");
}

void pn_put_place(pn_text *text, const pn_problem *problem, const double *point) {
  bool first = true;
  for (size_t c = 0; c < problem->n_coordinates; ++c) {
    char number[32];
    if (!isfinite(point[c]))
      continue;
    snprintf(number, sizeof number, "%.3g", point[c]);
    pn_putf(text, "%s%s = %s", first ? "" : ", ", problem->coordinates[c].name, number);
    first = false;
  }
}

/* ---- Equations ------------------------------------------------------------------------------- */

/* If the product starts with a minus sign, the same without it; else NULL in *out. */
static tn_status without_minus(pn_arena *arena, pn_expr *e, pn_expr **out) {
  *out = NULL;
  if (e->kind == PN_NEGATE) {
    *out = e->args[0];
    return TN_OK;
  }
  if (e->kind != PN_MULTIPLY && e->kind != PN_DIVIDE)
    return TN_OK;
  pn_expr *left = NULL;
  TN_TRY(without_minus(arena, e->args[0], &left));
  if (left == NULL)
    return TN_OK;
  pn_expr *args[2] = {left, e->args[1]};
  return pn_expr_make(arena, e->kind, e, 2, args, out);
}

/* *sum + x or *sum - x, written without brackets. */
static tn_status append(pn_arena *arena, pn_expr **sum, pn_expr *x, bool minus) {
  if (x->kind == PN_ADD || x->kind == PN_SUBTRACT) {
    TN_TRY(append(arena, sum, x->args[0], minus));
    return append(arena, sum, x->args[1], minus != (x->kind == PN_SUBTRACT));
  }
  if (x->kind == PN_NUMBER && x->number == 0)
    return TN_OK;
  pn_expr *plain = NULL;
  TN_TRY(without_minus(arena, x, &plain));
  if (plain != NULL)
    return append(arena, sum, plain, !minus);
  pn_expr *args[2] = {*sum, x};
  return pn_expr_make(arena, minus ? PN_SUBTRACT : PN_ADD, x, 2, args, sum);
}

/* Side e of a relation; of vectors the component. What needs a normal (dn of a vector) stays whole. */
static tn_status component_of(pn_problem *problem, const pn_relation *r, pn_expr *e,
                              pn_expr **out) {
  *out = e;
  if (e->components <= 1)
    return TN_OK;
  tn_status status = pn_scalar(problem, e, r->component, NULL, out);
  if (status == TN_ENOMEM)
    return status;
  if (status != TN_OK) {
    tn_error_clear();
    *out = e;
  }
  return TN_OK;
}

tn_status pn_zero_form(pn_problem *problem, const pn_relation *relation, pn_expr **out) {
  pn_expr *args[2] = {NULL, NULL}, *rhs = NULL;
  TN_TRY(component_of(problem, relation, relation->lhs, &args[0]));
  TN_TRY(component_of(problem, relation, relation->rhs, &rhs));
  *out = relation->whole;
  if (relation->op != PN_EQUAL) {
    pn_expr *sides[2] = {args[0], rhs};
    bool same = args[0] == relation->lhs && rhs == relation->rhs;
    return same ? TN_OK
                : pn_expr_make(problem->arena, relation->op, relation->whole, 2, sides, out);
  }
  if (args[0]->components > 1 || rhs->components > 1)
    return TN_OK;
  pn_expr *lhs = args[0];
  TN_TRY(append(problem->arena, &args[0], rhs, true));
  if (args[0] == lhs && lhs == relation->lhs)
    return TN_OK; /* = 0 already */
  TN_TRY(pn_expr_number(problem->arena, 0, relation->rhs, &args[1]));
  return pn_expr_make(problem->arena, PN_EQUAL, relation->whole, 2, args, out);
}

/* ---- Networks and channels ------------------------------------------------------------------- */

/* In the order of the file; the network keeps its own. */
static void put_outputs(pn_text *text, const pn_model *model, const pn_net *net) {
  bool first = true;
  for (size_t u = 0; u < model->problem->n_unknowns; ++u) {
    if (&model->nets[model->unknown_net[u]] != net)
      continue;
    pn_putf(text, "%s%s", first ? "" : ", ", model->problem->unknowns[u].name);
    first = false;
  }
}

void pn_put_network(pn_text *text, const pn_model *model, const pn_net *net) {
  char weights[32];
  size_t n = 0;
  for (size_t i = 0; i < net->n_blocks; ++i)
    n += model->blocks[net->first_block + i].count;
  if (net->n_out > 1)
    pn_put(text, "(");
  put_outputs(text, model, net);
  if (net->n_out > 1)
    pn_put(text, ")");
  for (size_t j = 0; j < net->n_in; ++j)
    pn_putf(text, "%s%s", j > 0 ? ", " : "(", model->problem->coordinates[net->of[j]].name);
  pn_putf(text, ")   %s %zu-%zux%zu-%zu, %s, %s weights", net->class_->name, pn_net_feature_count(net),
          net->options.width, net->options.depth, net->n_out, net->options.activation,
          pn_grouped(n, weights));
  if (net->options.omega != 1)
    pn_putf(text, ", omega %g", net->options.omega);
  if (strcmp(net->options.adaptive, "none") != 0)
    pn_putf(text, ", slopes by %s", net->options.adaptive);
  if (model->problem->warm && net->options.from)
    pn_putf(text, ", from %s", net->options.from);
}

void pn_put_input_maps(pn_text *text, const pn_problem *p) {
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *k = &p->coordinates[c];
    pn_putf(text, "%s%s", c > 0 ? ", " : "", k->name);
    if (p->network.normalise && k->has_net_range)
      pn_putf(text, " of [%g, %g]", k->net_lo, k->net_hi);
  }
  pn_put(text, p->network.normalise ? " to [-1, 1]" : " as they are");
}

/* A channel's symbol with the unknown's name: "t - s0*xx" is u_t - s0*u_xx. Only words made of
 * coordinates' names are changed. */
static void put_symbol(pn_text *text, const pn_model *model, const pn_net *net, const char *field,
                       const char *symbol) {
  const char *unknown = model->problem->unknowns[net->unknown[0]].name;
  while (*symbol != '\0') {
    size_t n = strspn(symbol, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    char word[64];
    if (n == 0) {
      pn_put_bytes(text, symbol++, 1);
      continue;
    }
    snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), symbol);
    const char *at = word;
    while (*at != '\0' && !(word[0] >= '0' && word[0] <= '9')) {
      size_t most = 0;
      for (size_t j = 0; j < net->n_in; ++j) {
        const char *name = model->problem->coordinates[net->of[j]].name;
        size_t length = strlen(name);
        if (length > most && strncmp(at, name, length) == 0)
          most = length;
      }
      if (most == 0 && *at == '_')
        most = 1;
      if (most == 0)
        break;
      at += most;
    }
    if (strcmp(word, field) == 0)
      pn_put(text, unknown);
    else if (*at == '\0')
      pn_putf(text, "%s_%s", unknown, word);
    else
      pn_put_bytes(text, symbol, n);
    symbol += n;
  }
}

static const pn_net *net_of_field(const pn_model *model, const char *field) {
  for (size_t i = 0; i < model->n_nets; ++i) {
    if (strcmp(ag_field_name(model->nets[i].field), field) == 0)
      return &model->nets[i];
  }
  return NULL;
}

void pn_put_channel(pn_text *text, const pn_model *model, const char *field, const char *label) {
  const pn_net *net = net_of_field(model, field);
  if (net != NULL && net->n_out == 1)
    put_symbol(text, model, net, field, label);
  else
    pn_putf(text, "%s of %s", label, field);
}

/* The same derivatives at another place: equal labels, or calls of one line as a symmetry makes
 * them. */
static bool alike(const ag_group_report *a, const ag_group_report *b) {
  return strcmp(a->field, b->field) == 0 && a->channels == b->channels &&
         (a->line == b->line || strcmp(a->labels, b->labels) == 0);
}

/* Does an earlier group, or a larger one, say all that this one would? */
static bool shadowed(const ag_resolve_report *report, size_t g, size_t n) {
  const ag_group_report *own = &report->group[g];
  for (size_t i = 0; i < n; ++i) {
    const ag_group_report *other = &report->group[i];
    if (own->channels == 1 && other->channels > 1 && strcmp(other->field, own->field) == 0)
      return true;
    if (i < g && alike(own, other))
      return true;
  }
  return false;
}

void pn_put_channels(pn_text *text, const pn_model *model, const ag_resolve_report *report) {
  size_t n = report->n_groups < 32 ? report->n_groups : 32;
  bool first = true;
  for (size_t g = 0; g < n; ++g) {
    const ag_group_report *group = &report->group[g];
    const pn_net *net = net_of_field(model, group->field);
    if (shadowed(report, g, n))
      continue;
    if (!first)
      pn_put(text, "; ");
    first = false;
    if (net != NULL && net->n_out == 1) {
      put_symbol(text, model, net, group->field, group->labels);
    } else if (net != NULL) {
      put_outputs(text, model, net);
      const char *comma = strchr(group->labels, ',');
      if (comma != NULL)
        pn_putf(text, " and their%s", comma + 1);
    } else {
      pn_put(text, group->labels);
    }
    size_t places = 0;
    for (size_t i = g; i < n; ++i)
      places += alike(group, &report->group[i]);
    pn_putf(text, " (%zu channel%s", group->channels, group->channels == 1 ? "" : "s");
    if (places > 1)
      pn_putf(text, ", at %zu places", places);
    pn_put(text, ")");
  }
}

void pn_put_plan(pn_text *text, const pn_plan *plan) {
  char steps[32];
  for (size_t i = 0; i < plan->n; ++i) {
    const pn_precision *p = &plan->stages[i].precision;
    pn_putf(text, "%s%s %s", i > 0 ? ", " : "", plan->stages[i].class_->name,
            pn_grouped(plan->stages[i].stage.steps, steps));
    if (plan->mixed)
      pn_putf(text, " in %s%s", p->products == 3 ? "triple " : "", pn_precision_name(p->low));
  }
}

/* ---- Verdict --------------------------------------------------------------------------------- */

/* " at x = 0.5"; nothing for what has no place of its own, such as an average. */
static void put_at(pn_text *text, const pn_problem *problem, const double *point) {
  bool placed = false;
  for (size_t c = 0; c < problem->n_coordinates; ++c)
    placed = placed || isfinite(point[c]);
  if (!placed)
    return;
  pn_put(text, " at ");
  pn_put_place(text, problem, point);
}

static void put_error(pn_text *text, const pn_run *run, size_t i) {
  const pn_field_error *e = &pn_training_result(run->training)->fields[i];
  char a[24], b[24], c[24];
  pn_putf(text, "%s: relative L2 %s", run->problem->unknowns[i].name, pn_brief(e->rel_l2, a));
  if (isfinite(e->accept))
    pn_putf(text, " %s %s", e->accepted ? "<=" : ">", pn_threshold(e->accept, b));
  pn_putf(text, ", max %s", pn_brief(e->linf, c));
  put_at(text, run->problem, e->place);
}

static size_t worst_term(const pn_train_result *r) {
  size_t worst = 0;
  for (size_t m = 1; m < r->n_terms; ++m) {
    if (!(r->terms[m].relative <= r->terms[worst].relative))
      worst = m;
  }
  return worst;
}

void pn_put_check(pn_text *text, const pn_run *run, size_t i) {
  const pn_term_check *c = &pn_training_result(run->training)->checks[i];
  char a[24], b[24];
  pn_putf(text, "%s %s", run->problem->checks[i].name, pn_brief(c->relative, a));
  if (!isnan(c->limit))
    pn_putf(text, " %s %s", c->accepted ? "<=" : ">", pn_threshold(c->limit, b));
  if (!isnan(c->noise))
    pn_putf(text, " (%.3g sigma)", c->noise);
}

void pn_put_verdict(pn_text *text, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  bool first = true;
  for (size_t i = 0; i < r->n_fields; ++i) {
    if (!r->fields[i].known)
      continue;
    if (!first)
      pn_put(text, "\n");
    first = false;
    put_error(text, run, i);
  }
  if (first && r->n_terms > 0) {
    char a[24], b[24];
    size_t m = worst_term(r);
    const pn_term_check *t = &r->terms[m];
    pn_putf(text, "no exact solution; largest residual on fresh points: %s %s %s %s",
            pn_training_checked(run->training, m)->name, pn_brief(t->relative, a),
            t->accepted ? "<=" : ">", pn_threshold(run->problem->accept_residual, b));
  }
}

void pn_put_trouble(pn_text *text, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  if (r->outcome == PN_CONVERGED) {
    pn_put(text, r->detector);
    return;
  }
  if (r->n_terms > 0) {
    char a[24], b[24];
    size_t m = worst_term(r);
    const pn_term_check *t = &r->terms[m];
    pn_putf(text, "worst term %s: relative residual %s %s %s, ",
            pn_training_checked(run->training, m)->name, pn_brief(t->relative, a),
            t->accepted ? "<=" : ">", pn_threshold(run->problem->accept_residual, b));
    pn_putf(text, "|residual| %s", pn_brief(t->worst, a));
    put_at(text, run->problem, t->place);
  }
  for (size_t i = 0; i < r->n_checks; ++i) {
    if (r->checks[i].accepted)
      continue;
    pn_put(text, text->n > 0 ? "\ncheck " : "check ");
    pn_put_check(text, run, i);
    put_at(text, run->problem, r->checks[i].place);
  }
  if (r->detector[0] != '\0')
    pn_putf(text, "%s%s", r->n_terms > 0 ? "\n" : "", r->detector);
}
