/* table.h: what the module pinn_mpi.so offers: functions of plain C types. The program knows MPI through this alone,
 * so it is built and starts without any MPI, and whoever has another MPI builds only the module anew.
 *
 * Functions return 0, or another number with the reason in `text` (TEXT bytes). A request is the module's; poll frees
 * it when the operation is done. Data stay where they are, untouched, until then.
 */
#ifndef TENSOR_MPI_TABLE_H
#define TENSOR_MPI_TABLE_H

#include <stddef.h>

enum { PINN_MPI_VERSION = 1, PINN_MPI_TEXT = 256, PINN_MPI_NAME = 128, PINN_MPI_LOST = 2 /* a peer, not this call */ };

typedef struct pinn_mpi_world pinn_mpi_world;
typedef struct pinn_mpi_table {
  unsigned version; /* PINN_MPI_VERSION */
  const char *library; /* "Open MPI v4.1.4, ...": the one that is loaded; filled in by the function below */
  const char *built;   /* "Open MPI 4.1.4": of its header */
  /* Initialises MPI. names: one of PINN_MPI_NAME bytes a rank, "node7, process 4711", owned by the world. */
  int (*start)(pinn_mpi_world **out, size_t *rank, size_t *size, const char **names, char *text);
  int (*gather)(pinn_mpi_world *world, const size_t *bytes, const void *send, void *recv, void **request, char *text);
  int (*broadcast)(pinn_mpi_world *world, size_t root, size_t bytes, void *data, void **request, char *text);
  int (*send)(pinn_mpi_world *world, size_t to, size_t bytes, const void *data, void **request, char *text);
  int (*receive)(pinn_mpi_world *world, size_t from, size_t bytes, void *data, void **request, char *text);
  /* *request NULL: only answers others. PINN_MPI_LOST: another rank has given up; text says which one. */
  int (*poll)(pinn_mpi_world *world, void **request, int *done, char *text);
  /* present[r] = 1 for the ranks that answer within `seconds`; these then hear of the others. */
  int (*roll_call)(pinn_mpi_world *world, double seconds, unsigned char *present, char *text);
  void (*abort)(pinn_mpi_world *world, int exit_status);
  void (*finish)(pinn_mpi_world *world, int broken); /* broken: waits for nobody */
} pinn_mpi_table;

/* The module's one symbol: a function of no arguments that returns the table. */
#define PINN_MPI_SYMBOL "pinn_mpi"
typedef pinn_mpi_table *(*pinn_mpi_function)(void);

#endif
