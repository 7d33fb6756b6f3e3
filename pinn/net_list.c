/* net_list.c: the kinds of networks. A new kind is one file net_<kind>.c and one line here. */
#include "pinn/model.h"

#include <string.h>

extern const pn_net_class pn_net_mlp, pn_net_modified, pn_net_resnet, pn_net_pirate;

static const pn_net_class *const classes[] = {
    &pn_net_mlp,
    &pn_net_modified,
    &pn_net_resnet,
    &pn_net_pirate,
};

const pn_net_class *const *pn_net_classes(size_t *count) {
  *count = sizeof classes / sizeof classes[0];
  return classes;
}

tn_status pn_net_find(const char *name, const pn_net_class **out) {
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; ++i)
    if (strcmp(classes[i]->name, name) == 0) {
      *out = classes[i];
      return TN_OK;
    }
  return TN_FAIL(TN_EINPUT, "there is no network kind `%s`; kinds are mlp, modified, resnet, pirate", name);
}
