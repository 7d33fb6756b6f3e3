/* warm.h: first weights from a result or from a file of another program. Inside pinn/ only. */
#ifndef PINN_WARM_H
#define PINN_WARM_H

#include "pinn/model.h"

/* After a problem is loaded from a file: looks at what `from` names, and fits to it what the file leaves open: sizes,
 * the ranges that inputs are scaled by, the seed of fixed waves. What changes the text's meaning goes to
 * problem->overrides, so that a result that keeps text and overrides builds the same networks. */
tn_status pn_warm_prepare(pn_problem *problem) TN_MUST_USE;
/* theta of the networks that have a `from`. Unknowns keep their values, whatever scales the model has now. */
tn_status pn_warm_fill(const pn_model *model, double *theta) TN_MUST_USE;
/* The path that `from` means, owned by the problem: relative to its file. NULL: none. */
tn_status pn_warm_path(pn_problem *problem, const char *from, const char **out) TN_MUST_USE;
bool pn_warm_is_result(const char *path);

/* ---- import_weights.c: arrays of another program as layers ------------------------------------- */

/* The layers of a perceptron, in order; weight is [out, in], or [in, out] if `transposed`. */
typedef struct pn_layers pn_layers;
tn_status pn_layers_read(const char *path, pn_layers **out) TN_MUST_USE;
void pn_layers_free(pn_layers **layers);
size_t pn_layers_count(const pn_layers *layers);
/* Units that layer i makes, if the first takes n_in. */
size_t pn_layers_units(const pn_layers *layers, size_t n_in, size_t i);
/* The blocks of a net; the last layer's rows are the unknowns in the file's order, divided by their scales. */
tn_status pn_layers_fill(const pn_layers *layers, const pn_model *model, const pn_net *net,
                         double *theta) TN_MUST_USE;

#endif
