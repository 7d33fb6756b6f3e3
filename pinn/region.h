/* region.h: shapes and regions of a problem: bodies by name, points and pieces on them. Inside pinn/ only.
 *
 * geometry.h knows bodies and numbers; here are their names, the coordinates of the problem that they
 * lie in (the space ones, in order), and which pieces of a condition they make.
 */
#ifndef PINN_REGION_H
#define PINN_REGION_H

#include "pinn/geometry.h"
#include "pinn/points.h"
#include "pinn/problem.h"
#include "pinn/toml.h"

/* read_shapes.c. Names first, then, when constants and ranges are known, bodies and the region. */
tn_status pn_declare_shapes(pn_problem *problem, const pn_toml *table) TN_MUST_USE;
tn_status pn_read_shapes(pn_problem *problem, const pn_toml *root) TN_MUST_USE;
/* The body of a shape, made when first asked for; cycles are errors. */
tn_status pn_shape_body(pn_problem *problem, size_t index) TN_MUST_USE;

/* region.c */
/* problem->box, made if there is none. */
tn_status pn_space_box(pn_problem *problem) TN_MUST_USE;
/* Where a predicate of space coordinates holds. */
tn_status pn_formula_body(pn_problem *problem, const pn_expr *predicate, size_t tag,
                          pn_body **out) TN_MUST_USE;
/* Cuts off what reaches out of the box. */
tn_status pn_body_in_box(pn_problem *problem, const pn_body **body, uint64_t *tags) TN_MUST_USE;
/* A resolved predicate made of shapes (and comparisons of space coordinates) as a body in the box;
 * *out NULL: it is none. */
tn_status pn_predicate_body(pn_problem *problem, const pn_expr *predicate, const pn_body **out,
                            uint64_t *tags) TN_MUST_USE;
/* The part that unknown u lives in, from the text of `in`. */
tn_status pn_read_part(pn_problem *problem, const pn_toml *node, pn_unknown *unknown) TN_MUST_USE;
/* After the relations of a term are known: where its unknowns live restricts its pieces. */
tn_status pn_term_parts(pn_problem *problem, pn_term *term) TN_MUST_USE;

/* The space coordinates of a point of the problem; false if one of them has no value. */
bool pn_space_point(const pn_problem *problem, const double *point, double *x);
/* 1e-9 of the longest range of a space coordinate: what counts as on the boundary. */
double pn_space_slack(const pn_problem *problem);
/* Does the point lie in the body or on its boundary? Coordinates without a value: true. */
bool pn_body_holds(const pn_problem *problem, const pn_body *body, const double *point);
bool pn_shape_holds(const pn_problem *problem, size_t shape,
                    const double *point); /* PN_NONE: domain */
/* In the region (or the box), and for an unknown in its part. */
bool pn_domain_holds(const pn_problem *problem, const double *point);
bool pn_unknown_lives(const pn_problem *problem, size_t unknown, const double *point);
/* check_partner.c: across the region from a point of its boundary along a coordinate, where the region ends;
 * false: it does not go on from there. */
bool pn_region_partner(const pn_problem *problem, const double *point, size_t axis, double *out);
/* Every space coordinate varies on it and every point has its own normal. */
bool pn_piece_curved(const pn_piece *piece);
/* Is the point on that piece (fixed coordinates, faces, body, filter)? The outward normal there, if there is
 * one, in normal[] by coordinate; may be NULL. */
tn_status pn_piece_holds(const pn_problem *problem, const pn_piece *piece, const double *point,
                         double *normal, bool *out) TN_MUST_USE;
/* Points of a surface must touch these bodies: x is one of them, n a normal there. */
bool pn_sides_hold(const pn_problem *problem, const pn_piece *piece, const double *x,
                   const double *normal);

/* pieces.c: the pieces that faces of bodies make. */
typedef struct pn_faces_wanted {
  const char *condition;
  uint64_t made_by, not_by; /* tags */
  bool named;               /* a shape or `boundary` says that faces are meant */
  bool boundary;
  size_t interface; /* a shape; PN_NONE */
  size_t n_not;     /* planes to leave out */
  const size_t *not_axis;
  const double *not_value;
} pn_faces_wanted;
/* Pieces of faces that lie in the planes of `like` (fixed space coordinates) or anywhere; at most
 * 2 n_coordinates + 2 are appended to out[*n]. None: *n stays. */
tn_status pn_pieces_of_faces(pn_problem *problem, const pn_faces_wanted *wanted,
                             const pn_piece *like, size_t *n, pn_piece *out) TN_MUST_USE;
/* a takes in the faces of b (of the same body, on the same planes, both without filters). */
tn_status pn_piece_join(pn_problem *problem, pn_piece *a, const pn_piece *b,
                        bool *joined) TN_MUST_USE;
bool pn_piece_same(const pn_piece *a, const pn_piece *b);

/* points_body.c */
bool pn_site_bodied(const pn_problem *problem,
                    const pn_site *site); /* are its points those of a body? */
size_t pn_site_numbers(const pn_problem *problem, const pn_site *site); /* unit numbers a point */
/* Maps n candidates to points; keeps those that are on (or in) the body and that the piece lets
 * through, up to `most` in the site. *hit counts those that were on the body. */
tn_status pn_body_keep(const pn_problem *problem, size_t n, const double *u, pn_site *site,
                       size_t most, size_t *hit) TN_MUST_USE;
/* Is there a point that the piece lets through, as far as some thousand candidates can tell? */
tn_status pn_piece_reachable(const pn_problem *problem, const pn_term *term, const pn_piece *piece,
                             bool *out) TN_MUST_USE;
/* Measures a bodied piece once and for all. */
tn_status pn_piece_measure(const pn_problem *problem, const pn_term *term, pn_piece *piece) TN_MUST_USE;
/* The measure of a bodied site, filters counted in: relative to the longest range of space, and in units of
 * the file. */
tn_status pn_body_site_measure(const pn_problem *problem, const pn_site *site, double *relative,
                               double *extent) TN_MUST_USE;

#endif
