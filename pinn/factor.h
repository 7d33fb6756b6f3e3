/* factor.h: who factors matrices for the optimizers. Inside pinn/ only; tensor/factor.h has the table. */
#ifndef PINN_FACTOR_H
#define PINN_FACTOR_H

#include "tensor/factor.h"

/* The table of a device, or LAPACK's if it has none or is NULL. A static object or the device's; it outlives all
 * works of it. LAPACK's functions use the BLAS threads that are set (blas.h) and may be called by several threads
 * with a work each. */
const tn_factor *pn_factor(tn_device *device);

#endif
