/* lines.c: lines of at most 80 columns, and the list of equations and conditions, which `pinn check`
 * and `pinn solve` print in the same words.
 */
#include <stdio.h>
#include <string.h>

#include "pinn/banner.h"
#include "pinn/region.h"

enum { WIDTH = PN_WIDTH, LABEL = PN_LABEL };

static void put_spaces(pn_text *out, size_t n) { pn_putf(out, "%*s", (int)n, ""); }

/* UTF-8: bytes that start a character. */
static size_t columns_of(const char *text, size_t n) {
  size_t columns = 0;
  for (size_t i = 0; i < n; ++i)
    columns += ((unsigned char)text[i] & 0xC0) != 0x80;
  return columns;
}

void pn_put_wrapped(pn_text *out, const char *label, size_t indent, const char *text) {
  size_t column = columns_of(label, strlen(label));
  pn_put(out, label);
  for (; column < LABEL || column < indent; ++column)
    pn_put(out, " ");
  bool first = true;
  while (*text != '\0') {
    size_t n = strcspn(text, " \n"), wide = columns_of(text, n);
    if (!first && column + wide + 1 > WIDTH && n > 0) {
      pn_put(out, "\n");
      put_spaces(out, indent);
      column = indent;
      first = true;
    }
    if (n > 0) {
      pn_put(out, first ? "" : " ");
      pn_put_bytes(out, text, n);
      column += wide + !first;
      first = false;
    }
    text += n;
    if (*text == '\n') {
      pn_put(out, "\n");
      put_spaces(out, indent);
      column = indent;
      first = true;
    }
    if (*text != '\0')
      ++text;
    while (!first && *text == ' ') { /* several spaces stay together */
      pn_put(out, " ");
      ++column;
      ++text;
    }
  }
  pn_put(out, "\n");
}

/* ---- Equations and conditions ------------------------------------------------------------------ */

/* One relation: name, text, where, and (at the right edge) a count of points or another word. */
static void put_relation(pn_text *out, const char *label, size_t name_width, const char *name,
                         const char *text, const char *right) {
  size_t indent = LABEL + name_width + 2, n = columns_of(text, strlen(text)), r = strlen(right);
  if (indent + n + 2 + r <= WIDTH) {
    pn_putf(out, "%-*s%-*s  %s%*s\n", LABEL, label, (int)name_width, name, text,
            (int)(r > 0 ? WIDTH - indent - n : 0), right);
    return;
  }
  char head[96];
  snprintf(head, sizeof head, "%-*s%-*s", LABEL, label, (int)name_width, name);
  pn_put_wrapped(out, head, indent, text);
  if (r > 0)
    pn_putf(out, "%*s\n", WIDTH, right);
}

const char *pn_where_word(const pn_term *term) {
  return term->where == PN_DATA ? "from" : term->where == PN_ON ? "on" : "in";
}

tn_status pn_relation_text(pn_problem *problem, const pn_relation *relation, char **out) {
  pn_expr *zero = NULL;
  TN_TRY(pn_zero_form(problem, relation, &zero));
  return pn_expr_print(problem->arena, zero, problem->coordinate_names, out);
}

/* "built in", "2 048 points", or nothing for an average. */
static void right_of(const pn_model *model, const pn_sites *sites, const pn_term *term,
                     char right[64]) {
  char number[32];
  size_t points = 0;
  *right = '\0';
  if (term->is_check) {
    snprintf(right, 64, "measured");
    return;
  }
  if (pn_model_is_hard(model, term)) {
    snprintf(right, 64, "built in");
    return;
  }
  for (size_t m = 0; m < sites->n_terms; ++m)
    for (size_t k = 0; sites->terms[m].term == term && k < sites->terms[m].n_sites; ++k) {
      const pn_site *site = &sites->sites[sites->terms[m].site[k]];
      points += site->n > 0 ? site->n : site->wanted;
    }
  if (points > 0 && term->where != PN_INTEGRAL)
    snprintf(right, 64, "%s point%s", pn_grouped(points, number), points == 1 ? "" : "s");
}

static tn_status put_term(pn_text *out, const pn_model *model, const pn_sites *sites,
                          const char *label, const pn_term *term, size_t name_width) {
  char right[64], *text = NULL;
  const char *before = "";
  for (size_t r = 0; r < term->n_relations; ++r) {
    pn_text line = {0};
    TN_TRY(pn_relation_text(model->problem, &term->relations[r], &text));
    bool again = strcmp(text, before) == 0; /* a vector that cannot be taken apart */
    before = text;
    if (again)
      continue;
    pn_put(&line, text);
    if (term->region != NULL)
      pn_putf(&line, "   %s %s", pn_where_word(term), term->region);
    *right = '\0';
    if (r == 0)
      right_of(model, sites, term, right);
    tn_status status = pn_text_status(&line);
    if (status == TN_OK)
      put_relation(out, r == 0 ? label : "", name_width, r == 0 ? term->name : "", line.text,
                   right);
    pn_text_free(&line);
    TN_TRY(status);
  }
  return TN_OK;
}

static size_t widest(size_t n, const pn_term *terms, size_t width) {
  for (size_t i = 0; i < n; ++i)
    if (strlen(terms[i].name) > width)
      width = strlen(terms[i].name);
  return width;
}

/* "domain 0.8036505, outer 4, hole 1.570796": how large the parts are, where there are shapes. */
static tn_status put_measures(pn_text *out, const pn_problem *p, const pn_sites *sites) {
  pn_text line = {0};
  char number[48];
  double size = 0;
  bool exact = false;
  if (!p->box)
    return TN_OK;
  if (p->domain)
    size = p->domain->extent;
  else
    TN_TRY(pn_body_measure(p->box, &size, &exact));
  snprintf(number, sizeof number, "domain %.7g", size);
  pn_put(&line, number);
  for (size_t m = 0; m < sites->n_terms; ++m) {
    double extent = 0;
    for (size_t k = 0; k < sites->terms[m].n_sites; ++k)
      extent += sites->sites[sites->terms[m].site[k]].extent;
    if (extent == 0 || sites->terms[m].term->where != PN_ON)
      continue;
    snprintf(number, sizeof number, " %.7g", extent);
    pn_putf(&line, ", %s%s", sites->terms[m].term->name, number);
  }
  tn_status status = pn_text_status(&line);
  if (status == TN_OK)
    pn_put_wrapped(out, "measures", LABEL, line.text);
  pn_text_free(&line);
  return status;
}

tn_status pn_put_terms(pn_text *out, const pn_model *model, const pn_sites *sites) {
  const pn_problem *p = model->problem;
  size_t width = widest(p->n_conditions, p->conditions, widest(p->n_equations, p->equations, 8));
  width = widest(p->n_checks, p->checks, width);
  if (width > 24)
    width = 24;
  for (size_t i = 0; i < p->n_equations; ++i)
    TN_TRY(put_term(out, model, sites, i == 0 ? "equation" : "", &p->equations[i], width));
  for (size_t i = 0; i < p->n_conditions; ++i)
    TN_TRY(put_term(out, model, sites, i == 0 ? "condition" : "", &p->conditions[i], width));
  for (size_t i = 0; i < p->n_checks; ++i)
    TN_TRY(put_term(out, model, sites, i == 0 ? "check" : "", &p->checks[i], width));
  return put_measures(out, p, sites);
}

tn_status pn_put_networks(pn_text *out, const pn_model *model) {
  for (size_t i = 0; i < model->n_nets; ++i) {
    pn_text line = {0};
    pn_put_network(&line, model, &model->nets[i]);
    pn_putf(&line, ", %s", pn_precision_name(model->dtype));
    tn_status status = pn_text_status(&line);
    if (status == TN_OK)
      pn_put_wrapped(out, i == 0 ? "network" : "", LABEL, line.text);
    pn_text_free(&line);
    TN_TRY(status);
  }
  return TN_OK;
}
