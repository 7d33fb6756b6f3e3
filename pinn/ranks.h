/* ranks.h: several processes that train together, as the solver sees them. Inside pinn/ only. */
#ifndef PINN_RANKS_H
#define PINN_RANKS_H

#include "tensor/tensor.h"

/* NULL, and a comm of NULL, stand for one process alone in every function below. */
typedef struct pn_ranks {
  tn_comm *comm; /* borrowed */
  bool known;    /* the last failure of a call below: all ranks return with it */
} pn_ranks;

/* Is this the rank that prints and writes? */
bool pn_ranks_lead(const pn_ranks *ranks);
size_t pn_ranks_size(const pn_ranks *ranks);
/* tn_comm_agree and tn_comm_same. */
tn_status pn_ranks_agree(pn_ranks *ranks, const char *what, tn_status status) TN_MUST_USE;
tn_status pn_ranks_same(pn_ranks *ranks, const char *what, uint64_t digest) TN_MUST_USE;
/* *text of the first rank, NULL or owned, replaces those of the others. */
tn_status pn_ranks_text(pn_ranks *ranks, const char *what, char **text) TN_MUST_USE;
/* *threads of 0: the cores that this process may use, shared with the ranks of its machine that may use them, too; at
 * least 1. All ranks call it, whatever they were told. */
tn_status pn_ranks_threads(pn_ranks *ranks, size_t *threads) TN_MUST_USE;
/* "2 ranks x 1 thread, mpi"; of one process "2 threads". */
const char *pn_ranks_words(const tn_comm *comm, size_t threads, char text[80]);

/* A digest of bytes so far, continued by n bytes; starts at PN_DIGEST. Not cryptographic: it tells copies apart that
 * an error or different settings have made unequal. */
#define PN_DIGEST UINT64_C(0xcbf29ce484222325)
uint64_t pn_digest(uint64_t digest, size_t n, const void *bytes);

#endif
