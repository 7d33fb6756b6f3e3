/* geometry_inside.h: what the geometry*.c files share. Nobody else includes it.
 *
 * A body is a tree of joins over leaves. A leaf is one primitive in coordinates of its own (centred, axes along
 * the coordinates) with an affine map x = A y + b into the problem's coordinates. Motions copy the tree and change
 * the maps; what the map does to the sizes of a primitive is absorbed by the primitive where its kind allows that
 * (an unevenly scaled ball is an ellipsoid), so that `rigid` leaves, A'A = 1, are the rule and distances exact.
 */
#ifndef PINN_GEOMETRY_INSIDE_H
#define PINN_GEOMETRY_INSIDE_H

#include "pinn/geometry.h"

typedef struct pn_leaf pn_leaf;
struct pn_smooth; /* geometry_smooth.c */

/* A face of a primitive in its own coordinates. */
typedef struct pn_part {
  bool flat;
  double proposal; /* points are proposed with density 1 / proposal and kept with probability `keep` (pn_solid.place) */
  double normal[PN_BODY_DIMENSIONS], offset; /* of flat parts */
} pn_part;

/* A kind of primitive. All coordinates are the leaf's own; x and y stand for points there. */
typedef struct pn_solid {
  const char *name;
  bool (*inside)(const pn_leaf *leaf, const double *x);
  double (*distance)(const pn_leaf *leaf, const double *x); /* signed, exact */
  /* Half-widths of a box around the origin are enough for most; world coordinates, may be infinite. */
  void (*bounds)(const pn_leaf *leaf, double *from, double *to);
  /* Point of a face from d - 1 numbers; keep in [0, 1]: 0 on a rim. */
  void (*place)(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                double *keep);
  /* The face next to x, which is within tol of the surface, and its normal there; false within tol of a rim. */
  bool (*at)(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal);
  double (*volume)(const pn_leaf *leaf);                           /* NAN: no closed form */
  void (*fill)(const pn_leaf *leaf, const double *u, double *x); /* uniform inside; NULL: by rejection */
  /* Takes the leaf's map into its sizes as far as it can (may reset the map), then sets the parts. */
  tn_status (*settle)(pn_arena *arena, pn_leaf *leaf);
  /* A function of the leaf's own coordinates that is zero where the surface of the part goes on to, positive inside,
   * with gradient 1 on it; and one that is positive on the part and negative off it (NULL: the part is all of it).
   * NULL: unsupported. */
  tn_status (*smooth)(struct pn_smooth *s, const pn_leaf *leaf, size_t part, pn_expr **carrier,
                      pn_expr **trim);
  bool vague; /* measures are known by sampling alone */
} pn_solid;

struct pn_leaf {
  const pn_solid *solid;
  size_t d, tag;
  bool mapped, rigid;  /* mapped: A, b are not the identity; rigid: lengths stay */
  double *A, *inverse; /* d x d, row-major, in the arena */
  double b[PN_BODY_DIMENSIONS];
  double volume_scale; /* |det A| */
  double least;        /* lengths shrink at most by this factor */
  double size[PN_BODY_DIMENSIONS]; /* half-widths of a box, semi-axes, (radius, radius2, height), (radius, tube) */
  size_t n_parts;
  pn_part *parts;
  const void *data; /* of polygons, surfaces, implicit bodies and clouds */
};

typedef enum pn_node { PN_LEAF, PN_JOINED, PN_COMPLEMENT } pn_node;

struct pn_body {
  pn_node node;
  pn_join how;
  size_t d;
  const pn_leaf *leaf;
  const pn_body *a, *b;
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS]; /* may be infinite */
  size_t n_leaves;
  const pn_leaf **leaves;
  size_t *first; /* face of a leaf's part 0 */
  size_t n_faces;
  pn_face *faces;
  size_t *owner; /* leaf (an index in leaves) of a face */
};

extern const pn_solid pn_solid_box, pn_solid_ellipsoid, pn_solid_halfspace, pn_solid_polygon,
    pn_solid_cone, pn_solid_torus, pn_solid_surface, pn_solid_implicit, pn_solid_cloud;

/* A leaf of a kind with the identity as its map and its centre (NULL: 0) as translation. */
tn_status pn_leaf_new(pn_arena *arena, const pn_solid *solid, size_t d, const double *center,
                      size_t tag, pn_leaf **out) TN_MUST_USE;
/* Parts, zeroed. */
tn_status pn_leaf_parts(pn_arena *arena, pn_leaf *leaf, size_t n) TN_MUST_USE;
/* Replaces A by A diag(1 / s) if the columns of A are orthogonal with lengths s; false: they are not. */
bool pn_leaf_unscale(pn_leaf *leaf, double *s);
void pn_leaf_identity(pn_leaf *leaf);          /* resets the map */
tn_status pn_leaf_prepare(pn_leaf *leaf) TN_MUST_USE; /* inverse, rigid, volume_scale, least from A */
/* settle, and a body of the leaf alone. */
tn_status pn_leaf_body(pn_arena *arena, pn_leaf *leaf, pn_body **out) TN_MUST_USE;

void pn_leaf_local(const pn_leaf *leaf, const double *x, double *y); /* world to own coordinates */
void pn_leaf_world(const pn_leaf *leaf, const double *y, double *x);
/* A normal by the inverse transpose; returns the factor by which areas across it grow. */
double pn_leaf_normal(const pn_leaf *leaf, const double *own, double *normal);
/* World box of a box of half-widths w around the leaf's origin. */
void pn_leaf_box(const pn_leaf *leaf, const double *w, double *from, double *to);

bool pn_leaf_inside(const pn_leaf *leaf, const double *x);
double pn_leaf_distance(const pn_leaf *leaf, const double *x);
bool pn_leaf_at(const pn_leaf *leaf, const double *x, double tol, size_t *part, double *normal);
/* Area of a proposal in world coordinates, and a point of it. */
double pn_leaf_proposal(const pn_leaf *leaf, size_t part);
void pn_leaf_place(const pn_leaf *leaf, size_t part, const double *u, double *x, double *normal,
                   double *keep);
tn_status pn_leaf_measure(const pn_leaf *leaf, size_t part, double *measure) TN_MUST_USE;

/* Lengths below this are nothing: 1e-9 of the body's size, or what rounding leaves. */
double pn_body_tolerance(const pn_body *body);
/* Faces that were chosen to be sampled (geometry_faces.c). */
typedef struct pn_choice {
  const pn_body *whole;
  size_t n;
  const size_t *face;
  double tol;
  double *sum;    /* n + 1 partial sums of the proposals */
  double *frames; /* of half-spaces: n x (center[d], (d - 1) half axes[d]) */
  size_t *order;  /* of each face of the body in `face`, or PN_NO_FACE */
} pn_choice;
#define PN_NO_FACE ((size_t)-1)
tn_status pn_choice_new(const pn_body *whole, size_t n, const size_t *face, pn_choice *out) TN_MUST_USE;
void pn_choice_free(pn_choice *c);
/* The k-th chosen face at u[d - 1]; keep: 0 where the point is not on the boundary of whole or on a rim. */
void pn_choice_place(const pn_choice *c, size_t k, const double *u, double *x, double *normal,
                     double *keep);
/* Are all faces points, lines and curves, whose pieces are known? */
bool pn_body_has_pieces(const pn_body *body);
/* In two dimensions: the pieces of chosen face k that lie on the boundary, as intervals of u[0]. */
tn_status pn_choice_pieces(const pn_choice *c, size_t k, size_t *n, double **ends) TN_MUST_USE;

/* Integrals of 1 and of x . n over what the chosen faces have of the boundary; d = 1 or 2. */
tn_status pn_choice_integrals(const pn_choice *c, double *length, double *flux) TN_MUST_USE;

/* Nodes and weights on [0, 1]. */
enum { PN_GAUSS_NODES = 32 };
void pn_gauss(double node[PN_GAUSS_NODES], double weight[PN_GAUSS_NODES]);
double pn_inner(size_t d, const double *a, const double *b);

#endif
