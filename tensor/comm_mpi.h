/* comm_mpi.h: ranks that a launcher of MPI (mpirun, srun) has started. No header of MPI is needed. */
#ifndef TENSOR_COMM_MPI_H
#define TENSOR_COMM_MPI_H

#include "tensor/tensor.h"

/* Has a launcher started more than one rank? Looks at the environment alone. */
TN_API bool tn_mpi_launched(void);
/* The number that the launcher gives this process, by the environment alone; 0 without a launcher. */
TN_API size_t tn_mpi_rank(void);
/* Loads the module that knows MPI, initialises MPI and makes the communicator of all ranks; collective. TN_EENV, with
 * what to do, if the module is missing or does not fit, or MPI does not see the ranks that the launcher says. Once a
 * process. A rank that fails calls tn_comm_abort; tn_comm_free ends MPI. */
TN_API tn_status tn_comm_mpi(tn_comm **out) TN_MUST_USE;
/* For `pinn doctor`: loads the module and initialises nothing. found: "Open MPI v4.1.4, ... (module from /path)", or
 * what is missing; advice: what to do, "" for nothing; `capacity` bytes each. TN_EUNSUPPORTED: this build has no
 * module; TN_EENV: it, or MPI, cannot be loaded. */
TN_API tn_status tn_mpi_about(size_t capacity, char *found, char *advice) TN_MUST_USE;

#endif
