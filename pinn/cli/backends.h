/* backends.h: where a command runs: a device by its name, ranks by how the program was started. */
#ifndef PINN_CLI_BACKENDS_H
#define PINN_CLI_BACKENDS_H

#include "tensor/tensor.h"

/* "cpu" or NULL: *out = NULL. "cuda": the device of this process, which is number (rank on this node) modulo the
 * devices of the node, so ranks spread over them. TN_EINPUT: another name. TN_EENV: no such device, or this build has
 * no backend for it; the text says what is missing. Never another device in its place. Closed by tn_device_close. */
tn_status cli_device(const char *name, tn_device **out) TN_MUST_USE;
/* Is this a name for --device? TN_EINPUT if not; opens nothing. */
tn_status cli_device_named(const char *name) TN_MUST_USE;
/* The ranks that a launcher of MPI started this process among; *out = NULL if none did. Collective. Freed by
 * tn_comm_free, after everything that runs with it. */
tn_status cli_ranks(tn_comm **out) TN_MUST_USE;

#endif
