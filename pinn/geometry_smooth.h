/* geometry_smooth.h: smooth functions of primitives, as trees. Only the geometry*.c files include it. */
#ifndef PINN_GEOMETRY_SMOOTH_H
#define PINN_GEOMETRY_SMOOTH_H

#include "pinn/geometry_inside.h"

/* Data of a polygon's leaf. */
typedef struct pn_polygon {
  size_t n;
  double *points; /* 2 n, in the arena */
} pn_polygon;
extern const pn_solid pn_solid_triangle;

/* What makes trees: the first error stays, and every later call gives NULL. */
typedef struct pn_smooth {
  pn_arena *arena;
  tn_status status;
  size_t d;
  double size;                     /* of the whole body: lengths far from a face are of this order */
  pn_expr *x[PN_BODY_DIMENSIONS];  /* the problem's coordinates */
  pn_expr *own[PN_BODY_DIMENSIONS]; /* the leaf's own coordinates */
} pn_smooth;

tn_status pn_smooth_box(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);
tn_status pn_smooth_halfspace(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);
tn_status pn_smooth_polygon(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);
tn_status pn_smooth_ellipsoid(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);
tn_status pn_smooth_cone(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);
tn_status pn_smooth_torus(pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier, pn_expr **trim);

#endif
