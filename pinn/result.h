/* result.h: what a result file holds, written by a run and read by --resume, `pinn eval` and
 * audits. Inside pinn/ only. */
#ifndef PINN_RESULT_H
#define PINN_RESULT_H

#include "pinn/run.h"
#include "pinn/store.h"

/* Writes folder/result.h5, atomically. finished: the run is over, and fields on grids go in too. */
tn_status pn_result_write(const pn_run *run, bool finished) TN_MUST_USE;

/* ---- Reading back ---------------------------------------------------------------------------- */

typedef struct pn_saved {
  pn_stored *file;
  char *path;         /* of result.h5 */
  char *problem_file; /* absolute path it had */
  char *text;         /* of the problem */
  char *sha256;
  char *version;
  size_t n_overrides;
  char **overrides;
  uint64_t seed;
  uint64_t data; /* pn_data_digest; 0: none */
  bool finished;
} pn_saved;

/* result: a folder or the file itself. TN_EINPUT if it is damaged or of another format. */
tn_status pn_saved_open(const char *result, pn_saved **out) TN_MUST_USE;
void pn_saved_free(pn_saved **saved);
/* The problem of the file, from its text alone. */
tn_status pn_saved_problem(const pn_saved *saved, pn_problem **out) TN_MUST_USE;
/* Do its networks scale inputs as those of this problem do? TN_EINPUT if not. */
tn_status pn_saved_same_inputs(const pn_saved *saved, const pn_problem *problem) TN_MUST_USE;
/* theta[model->n_theta] and the scales of the unknowns into the model. Blocks must be of the same
 * names and shapes. */
tn_status pn_saved_weights(const pn_saved *saved, pn_model *model, double *theta) TN_MUST_USE;
/* Weights of terms and scales of relations as the training had them at its end, if the result has them. */
tn_status pn_saved_terms(const pn_saved *saved, pn_loss *loss) TN_MUST_USE;
/* Everything that changes during training. */
tn_status pn_saved_training(const pn_saved *saved, pn_training *training) TN_MUST_USE;

#endif
