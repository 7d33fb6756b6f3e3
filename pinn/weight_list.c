/* weight_list.c: the list of ways to weigh the terms of the loss, and the one that does nothing.
 *
 * To add one: write pinn/weight_<name>.c that ends in one pn_weight_class, and add one line to
 * LIST.
 */
#include "pinn/objective.h"

#include <stdio.h>
#include <string.h>

static tn_status leave(pn_loss *loss, const double *theta, double *weight) {
  (void)loss;
  (void)theta;
  (void)weight;
  return TN_OK;
}

const pn_weight_class pn_weight_none = {"none", "the factors of the file", leave};

#define LIST(ROW) ROW(balance) ROW(none)

#define ROW(name) extern const pn_weight_class pn_weight_##name;
LIST(ROW)
#undef ROW

static const pn_weight_class *const classes[] = {
#define ROW(name) &pn_weight_##name,
    LIST(ROW)
#undef ROW
};

enum { CLASSES = sizeof classes / sizeof *classes };

const pn_weight_class *const *pn_weight_classes(size_t *count) {
  *count = CLASSES;
  return classes;
}

tn_status pn_weight_find(const char *name, const pn_weight_class **out) {
  for (size_t i = 0; i < CLASSES; ++i)
    if (strcmp(name, classes[i]->name) == 0) {
      *out = classes[i];
      return TN_OK;
    }
  return TN_FAIL(TN_EINPUT, "weights `%s` are not known; there are: balance, none", name);
}
