/* run.h: one run of `pinn solve`, as its writers see it: terminal, result.h5, summary.json,
 * report.html. Inside pinn/ only. */
#ifndef PINN_RUN_H
#define PINN_RUN_H

#include "pinn/train.h"

typedef struct pn_run {
  const pn_solve_options *options;
  pn_problem *problem;
  pn_model *model;
  tn_pool *pool;
  pn_ranks ranks;
  FILE *terminal; /* of the first rank; NULL: nothing is printed */
  pn_training *training;
  char *folder;    /* of the results; owned; on all ranks */
  int lock;        /* the descriptor that keeps other runs out of it, of the first rank; -1: none */
  char sha256[65]; /* of the problem file's text */
  uint64_t seed;
  double limit;   /* seconds of training; 0: none */
  char *checked;  /* the words of the check; NULL: not checked; owned */
  char *warnings; /* of the file and the check, lines; owned */
  bool resumed;
  size_t resumed_step;
  char *failure;       /* the explanation of a value that is not finite; owned */
  double floor;        /* what rounding leaves of relative L2; NaN: not known */
  double seconds;      /* from the start of the program's work to now, at the end */
  double printed;      /* time of the last line of the progress table, */
  size_t printed_step; /* and its step */
} pn_run;

/* Seconds on a clock that only goes forward. */
double pn_clock(void);
/* The largest memory of the process so far, in MiB. */
double pn_peak_mib(void);

#endif
