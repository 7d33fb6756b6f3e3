/* windows.h: [time] windows: a run as a sequence of runs. Inside pinn/ only. */
#ifndef PINN_WINDOWS_H
#define PINN_WINDOWS_H

#include "pinn/run.h"
#include "pinn/toml.h"

/* windows_check.c: reads [time]; later, when all is read, refuses what has no meaning in windows. */
tn_status pn_windows_read(pn_problem *problem, const pn_toml *table) TN_MUST_USE;
tn_status pn_windows_check(const pn_problem *problem) TN_MUST_USE;
/* The time coordinate, or PN_NONE. */
size_t pn_time_axis(const pn_problem *problem);
/* A condition that holds at the start of the time alone. */
bool pn_starts_time(const pn_problem *problem, const pn_term *term);
/* By how often the equations differentiate an unknown by the time. */
size_t pn_order_in_time(const pn_problem *problem, size_t unknown);
/* The range of window w of n, counted from 1. */
void pn_window_range(const pn_coordinate *time, size_t w, size_t n, double range[2]);

/* One of them, for pn_solve_window. */
typedef struct pn_window {
  size_t n_theta; /* weights to start from; 0: none */
  const double *theta;
  /* When the run is written: everything is still there. */
  tn_status (*finish)(void *context, const pn_run *run);
  void *context;
} pn_window;

/* solve.c: a run by itself; window NULL: of a file without windows. */
tn_status pn_solve_window(const pn_solve_options *options, const pn_window *window,
                          pn_outcome *outcome) TN_MUST_USE;
/* Finds and locks the folder of the results: run->folder and run->lock. */
tn_status pn_run_folder(pn_run *run) TN_MUST_USE;
/* windows.c */
tn_status pn_solve_windows(const pn_solve_options *options, pn_problem *problem,
                           pn_outcome *outcome) TN_MUST_USE;
/* FOLDER/window=w, owned. */
tn_status pn_window_folder(const char *folder, size_t w, char **out) TN_MUST_USE;
/* The windows that a folder holds; 0: it is the folder of an ordinary run, or none. */
size_t pn_windows_in(const char *folder);
#define PN_WINDOW_MARK "time.windows=1" /* overrides from here on are those of one window */

#endif
