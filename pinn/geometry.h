/* geometry.h: bodies in R^d, their surfaces, points on and in them. Inside pinn/ only.
 *
 * A body is an immutable tree: primitives joined by union, intersection and difference. A face is a part of a
 * primitive's surface that has one name: an edge of a polygon, a side of a box, a sphere, the mantle of a cylinder.
 * The boundary of a body consists of those points of its primitives' faces that lie on it: a step along the face's normal
 * leads out of (or, where the primitive was taken away, into) the body. So a name given to a primitive survives CSG.
 *
 * Coordinates are d numbers in the order of the problem's space coordinates, in the units of the file. All functions are pure;
 * bodies live in the arena. Errors: TN_EINPUT with what was found and what is expected, without a place (the caller knows it).
 */
#ifndef PINN_GEOMETRY_H
#define PINN_GEOMETRY_H

#include "pinn/expr.h"

enum { PN_BODY_DIMENSIONS = 16 }; /* polygons want d = 2; cylinder, cone, torus, surfaces d = 3 */

typedef struct pn_body pn_body;

/* Primitives. `tag`: the caller's number of the shape, which faces carry on through CSG. */
tn_status pn_body_box(pn_arena *arena, size_t d, const double *from, const double *to, size_t tag, pn_body **out) TN_MUST_USE;
tn_status pn_body_ball(pn_arena *arena, size_t d, const double *center, double radius, size_t tag, pn_body **out) TN_MUST_USE;
tn_status pn_body_ellipsoid(pn_arena *arena, size_t d, const double *center, const double *axes, size_t tag, pn_body **out) TN_MUST_USE;
/* points[2 n], either orientation; refused if it crosses itself. */
tn_status pn_body_polygon(pn_arena *arena, size_t n, const double *points, size_t tag, pn_body **out) TN_MUST_USE;
/* {x: (x - point) . normal < 0}: the normal points out. Unbounded: only as a part of CSG with something bounded. */
tn_status pn_body_halfspace(pn_arena *arena, size_t d, const double *point, const double *normal, size_t tag, pn_body **out) TN_MUST_USE;
/* Radii at the two ends of the axis: equal for a cylinder, one may be 0 for a cone. Faces: mantle, cap at from, cap at to. */
tn_status pn_body_cone(pn_arena *arena, const double *from, const double *to, double radius, double radius2, size_t tag, pn_body **out) TN_MUST_USE;
tn_status pn_body_torus(pn_arena *arena, const double *center, const double *axis, double radius, double tube, size_t tag, pn_body **out) TN_MUST_USE;
/* A closed triangulated surface from an STL file (ASCII or binary), vertices[9 n]; inside by winding number. */
tn_status pn_body_surface(pn_arena *arena, size_t n, const double *vertices, size_t tag, pn_body **out) TN_MUST_USE;
tn_status pn_stl_read(const char *path, size_t *n, double **vertices) TN_MUST_USE; /* tn_free */
/* Where holds(context, x); sampled by rejection in [from, to]; its face is found by root search along rays. */
typedef tn_status (*pn_inside)(const void *context, const double *x, bool *inside);
tn_status pn_body_implicit(pn_arena *arena, size_t d, const double *from, const double *to, pn_inside holds,
                           const void *context, size_t tag, pn_body **out) TN_MUST_USE;
/* A cloud of points: its interior points are points[d n] themselves, drawn evenly (Sobol points, while no more than there are
 * in the cloud, give none more than twice); boundary[d m] with normals[d m] (m may be 0)
 * are those of its one face. inside: on the inner side of the nearest boundary point; m = 0: near an inner point. */
tn_status pn_body_cloud(pn_arena *arena, size_t d, size_t n, const double *points, size_t m, const double *boundary,
                        const double *normals, size_t tag, pn_body **out) TN_MUST_USE;

/* CSG and motions (bodies stay as they are; the result is new). angle in degrees, counter-clockwise (d = 2), or about an axis (d = 3). */
typedef enum pn_join { PN_UNION, PN_INTERSECTION, PN_DIFFERENCE } pn_join;
tn_status pn_body_join(pn_arena *arena, pn_join how, const pn_body *a, const pn_body *b, pn_body **out) TN_MUST_USE;
tn_status pn_body_complement(pn_arena *arena, const pn_body *a, pn_body **out) TN_MUST_USE;
tn_status pn_body_move(pn_arena *arena, const pn_body *a, const double *by, pn_body **out) TN_MUST_USE;
tn_status pn_body_rotate(pn_arena *arena, const pn_body *a, double angle, const double *center, const double *axis,
                         pn_body **out) TN_MUST_USE;
tn_status pn_body_scale(pn_arena *arena, const pn_body *a, const double *factors, const double *center, pn_body **out) TN_MUST_USE;

/* ---- Questions ---------------------------------------------------------------------------------------------- */

size_t pn_body_dimensions(const pn_body *body);
bool pn_body_bounds(const pn_body *body, double *from, double *to); /* false: unbounded */
bool pn_body_inside(const pn_body *body, const double *x);          /* interior; on the boundary either */
/* Signed distance, < 0 inside. Exact for primitives that are not scaled unevenly; for CSG the usual min/max bound: exact zero set and sign. */
double pn_body_distance(const pn_body *body, const double *x);
/* Length, area, volume: closed form for primitives and polygons, else from 2^17 Sobol points (*exact false). */
tn_status pn_body_measure(const pn_body *body, double *measure, bool *exact) TN_MUST_USE;

/* ---- Faces -------------------------------------------------------------------------------------------------- */

typedef struct pn_face {
  size_t tag;       /* of the shape whose primitive it belongs to */
  size_t part;      /* which face of the primitive: edges of a polygon in order, 2 i and 2 i + 1 the low and high side of axis i of a box */
  bool flat;        /* lies in the plane normal . x = offset; normal is outward of the primitive */
  double normal[PN_BODY_DIMENSIONS], offset;
  double measure;   /* of the whole face of the primitive; infinite for a half-space that nothing bounds */
} pn_face;
/* All faces of all primitives, in the order in which they were joined; borrowed from the body. */
size_t pn_body_faces(const pn_body *body, const pn_face **faces);

/* Points on the chosen faces: u[n d] are numbers in [0, 1); d - 1 of them place the point, the last one chooses the face (by measure). x[n d],
 * normal[n d] outward of `whole`; on[i]: the point lies on the boundary of `whole` (others are to be dropped). Never a corner or an edge:
 * points within 1e-9 of the size of the face's rim are not `on`, so a normal is always that of one face. d = 1: the face is a point. */
tn_status pn_faces_place(const pn_body *whole, size_t n_faces, const size_t *face, size_t n, const double *u, double *x,
                         double *normal, bool *on) TN_MUST_USE;
/* Measure of the part of the faces that lies on the boundary of `whole`: closed form where nothing is cut, else from 2^15 points. */
tn_status pn_faces_measure(const pn_body *whole, size_t n_faces, const size_t *face, double *measure, bool *exact) TN_MUST_USE;
/* Outward normal at a point on (within tolerance of) the boundary, PN_NONE-like false where there is none (edges, corners, far away). */
bool pn_body_normal(const pn_body *body, const double *x, double *normal);

/* Points inside: u[n d] in [0, 1) mapped into the bounds; in[i] says whether it is inside. Balls, boxes and simplices are mapped without loss. */
tn_status pn_body_place(const pn_body *body, size_t n, const double *u, double *x, bool *in) TN_MUST_USE;

/* A smooth function as an expression tree of the coordinates axis[0..d): positive inside, zero on the chosen faces, |gradient| = 1 there, twice
 * differentiable off corners (R-functions and normalised distances; Rvachev, Shapiro, Sukumar). TN_EUNSUPPORTED for STL surfaces and clouds. */
tn_status pn_faces_distance(pn_arena *arena, const pn_body *whole, size_t n_faces, const size_t *face,
                            const size_t *axis, pn_expr **out) TN_MUST_USE;

#endif
