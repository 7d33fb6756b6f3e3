/* hard_inside.h: what hard.c and hard_surface.c share. */
#ifndef PINN_HARD_INSIDE_H
#define PINN_HARD_INSIDE_H

#include "pinn/lower.h"

/* What is given at one end of a coordinate; value NULL: nothing. */
typedef struct pn_hard_end {
  const pn_expr *value;
  const pn_term *term;
  int mirror; /* 0; else the value is this sign times the other end's */
} pn_hard_end;

typedef struct pn_hard_axis {
  size_t coordinate;
  pn_hard_end lo, hi;
  pn_hard_end velocity; /* of u_t at lo */
} pn_hard_axis;

/* A condition that is met by construction on faces of a body, or on an end of a coordinate. */
typedef struct pn_hard_surface {
  const pn_expr *distance, *data;
  const pn_term *term;
} pn_hard_surface;
enum { PN_MAX_HARD_SURFACES = 8 };

struct pn_hard { /* the plan of one unknown */
  size_t n;
  pn_hard_axis axis[PN_MAX_COORDINATES];
  size_t n_surfaces; /* with any, the axes have become surfaces too */
  pn_hard_surface surface[PN_MAX_HARD_SURFACES];
};

/* "condition `walls` cannot be met by construction: WHY." */
tn_status pn_hard_refuse(const pn_term *term, const char *unknown, const char *why);
/* Splits a relation into its subject and its data. */
tn_status pn_hard_sides(const pn_term *term, const pn_relation *r, pn_problem *p,
                        const pn_piece *piece, size_t *unknown, bool *velocity,
                        pn_expr **data) TN_MUST_USE;

/* hard_surface.c. Does the condition stand on faces of bodies? Then a relation of it becomes a surface. */
bool pn_hard_on_bodies(const pn_term *term);
tn_status pn_hard_surface_read(pn_model *model, const pn_term *term,
                               const pn_relation *r) TN_MUST_USE;
/* Beside surfaces, ends of coordinates are surfaces. */
tn_status pn_hard_axes_to_surfaces(pn_problem *problem, const pn_unknown *unknown,
                                   struct pn_hard *plan) TN_MUST_USE;
tn_status pn_hard_surface_apply(pn_frame *frame, size_t n, const pn_hard_surface *surfaces,
                                tn_value *value) TN_MUST_USE;

#endif
