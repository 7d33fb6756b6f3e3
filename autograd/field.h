/* field.h: the inside of a field. */
#ifndef AUTOGRAD_FIELD_H
#define AUTOGRAD_FIELD_H

#include "autograd/structure.h"

struct ag_field {
  tn_graph *graph;
  const char *name;
  tn_axis axis; /* of the placeholders */
  tn_dtype dtype;
  size_t n_args, n_out;
  tn_value *args;    /* placeholders [axis] */
  const char **labels; /* names of the arguments, for reports */
  tn_value *outputs; /* [axis] */
};

#endif
