/* points_inside.h: what the files of points share. */
#ifndef PINN_POINTS_INSIDE_H
#define PINN_POINTS_INSIDE_H

#include "pinn/points.h"

size_t pn_points_bits(uint32_t mask); /* set bits: free coordinates */
/* u in [0, 1] to the range of a coordinate. */
double pn_points_place(const pn_coordinate *axis, double u);

#endif
