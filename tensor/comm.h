/* comm.h: what a kind of communicator provides to comm.c, which adds time limits, names and the rules.
 *
 * Calls of a class start an operation and poll it; comm.c waits, with the limit, and asks for the ranks that did not
 * come when it has passed. Nothing here knows about points or sums.
 */
#ifndef TENSOR_COMM_H
#define TENSOR_COMM_H

#include "tensor/tensor.h"

typedef struct tn_comm_class {
  const char *kind; /* "mpi" */
  /* Starts an operation; *request stands for it until poll has set *done. The data stay untouched meanwhile. */
  tn_status (*gather)(void *context, const size_t *bytes, const void *send, void *recv, void **request);
  tn_status (*broadcast)(void *context, size_t root, size_t bytes, void *data, void **request);
  tn_status (*send)(void *context, size_t to, size_t bytes, const void *data, void **request);
  tn_status (*receive)(void *context, size_t from, size_t bytes, void *data, void **request);
  tn_status (*poll)(void *context, void **request, bool *done); /* *request NULL: only answers roll calls of others */
  /* present[r]: rank r answers within `seconds`; called by a rank whose operation passed its limit. */
  tn_status (*roll_call)(void *context, double seconds, bool *present);
  void (*abort)(void *context, int exit_status);
  void (*free)(void *context, bool broken); /* broken: must not wait for others */
} tn_comm_class;

/* names: of all ranks, copied. context belongs to the communicator from now on, also if this fails. */
TN_API tn_status tn_comm_new(const tn_comm_class *class_, void *context, size_t rank, size_t size,
                             const char *const *names, tn_comm **out) TN_MUST_USE;

#endif
