/* sweep.h: several runs of `pinn solve` that differ in keys and seeds. */
#ifndef PINN_CLI_SWEEP_H
#define PINN_CLI_SWEEP_H

#include "pinn/cli/options.h"
#include "pinn/pinn.h"

/* Runs the product of all values and seeds one after the other, with the other options of `solve`; sweeps are
 * texts "path=v1,v2,..." (values as in --set), seeds 0: only the seed that `solve` has. Writes
 * DIR/NAME=VALUE/.../seed=K/ and, after each run, DIR/sweep.csv. *outcome: converged if every run was, else the
 * first one that was not; a signal ends all. TN_EINPUT for a text of another form, a used folder. */
tn_status cli_sweep(const pn_solve_options *solve, const cli_texts *sweeps, size_t seeds,
                    pn_outcome *outcome) TN_MUST_USE;

#endif
