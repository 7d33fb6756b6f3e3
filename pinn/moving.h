/* moving.h: coordinates whose ends are unknowns of the time, x = [0, "s"]. Inside pinn/ only.
 *
 * The range [lo, hi] of such a coordinate is [0, 1], and points hold its reference number xi in that range;
 * where trees are lowered x is A + xi (B - A) with the ends A and B at the place (moving.c).
 */
#ifndef PINN_MOVING_H
#define PINN_MOVING_H

#include "pinn/lower.h"

/* The coordinates of the scope that move get their values: all, or those alone that the piece fixes (the
 * others are given as they are). After `exact` is set. */
tn_status pn_scope_move(pn_scope *scope, bool fixed_alone) TN_MUST_USE;
/* A copy for sizes, where the ends are numbers: about where they are expected, without any network. false: it has no such
 * coordinate. */
bool pn_scope_still(const pn_scope *scope, pn_scope *out);
/* The end (0 low, 1 high) of coordinate c in a frame. */
tn_status pn_frame_end(pn_frame *frame, size_t c, int high, tn_value *out) TN_MUST_USE;
/* x as a number xi of its range there: what networks see. */
tn_status pn_frame_reference(pn_frame *frame, size_t c, tn_value *inout) TN_MUST_USE;
/* NaN where the scope's coordinates lie beyond their ends; `depends`: of the value (bits). */
tn_status pn_scope_mask(pn_scope *scope, uint32_t depends, tn_value *inout) TN_MUST_USE;

#endif
