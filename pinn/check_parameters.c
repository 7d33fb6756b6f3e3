/* check_parameters.c: numbers to be found: can anything find them?
 *
 * A parameter that stands in no equation, condition or ansatz changes no residual; its column of J is
 * zero and its value at the end is its start. One whose exact value is its start makes a run look good
 * that has not moved.
 */
#include "pinn/banner.h"
#include "pinn/check.h"
#include "pinn/found.h"

#include <math.h>
#include <string.h>

static uint64_t occurring(const pn_problem *p, const pn_term *terms, size_t n) {
  uint64_t bits = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t r = 0; r < terms[i].n_relations; ++r)
      bits |= pn_expr_parameters(p, terms[i].relations[r].whole);
  return bits;
}

tn_status pn_check_parameters(pn_checking *c) {
  const pn_problem *p = c->problem;
  uint64_t bits = occurring(p, p->equations, p->n_equations) |
                  occurring(p, p->conditions, p->n_conditions);
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (p->unknowns[u].ansatz)
      bits |= pn_expr_parameters(p, p->unknowns[u].ansatz);
  for (size_t i = 0; i < p->n_parameters; ++i) {
    const pn_parameter *k = &p->parameters[i];
    if (!(bits >> i & 1u))
      TN_TRY(pn_found(c, PN_FOUND_ERROR, k->name, k->place, strlen(k->name),
                      "the parameter `%s` stands in no equation, condition or ansatz: nothing can "
                      "find it. Use it, or make it a constant",
                      k->name));
    else if (k->exact == k->start)
      TN_TRY(pn_found(c, PN_FOUND_NOTE, k->name, k->place, strlen(k->name),
                      "`%s` starts at its exact value %g: that it is there at the end shows little",
                      k->name, k->exact));
  }
  return TN_OK;
}

tn_status pn_check_put_parameters(pn_checking *c) {
  const pn_problem *p = c->problem;
  pn_text text = {0};
  if (p->n_parameters == 0)
    return TN_OK;
  pn_put_starts(&text, p);
  tn_status status = pn_text_status(&text);
  if (status == TN_OK)
    pn_put_wrapped(&c->out, "parameters", PN_LABEL, text.text);
  pn_text_free(&text);
  if (!c->json)
    return status;
  pn_json_object(c->json, "parameters");
  for (size_t i = 0; i < p->n_parameters; ++i)
    pn_json_number(c->json, p->parameters[i].name, p->parameters[i].start);
  pn_json_end(c->json);
  return status;
}
