/* pieces.c: faces of bodies as pieces of a condition.
 *
 * A face that lies across a coordinate, and that the predicate names by it (x = 2) or that the box made,
 * becomes a piece that fixes this coordinate, with a normal along it, like a face of a box; what is left
 * of it after cuts is found when its points are placed. All other faces of a condition are one piece on
 * which all space coordinates vary and every point has its own normal, so that a polygon of a hundred
 * edges is one set of points.
 *
 * Which faces lie on the boundary at all, and on which side of them the region is, is found by placing
 * a few points on each.
 */
#include "pinn/names.h"
#include "pinn/region.h"

#include <math.h>
#include <string.h>

#include "pinn/sobol.h"
#include "pinn/text.h"

enum { PROBES = 64, MOST_FACES = 4096 };

typedef struct work {
  pn_problem *problem;
  const pn_faces_wanted *wanted;
  const pn_piece *like;
  const pn_body *whole;
  size_t d, space[PN_MAX_COORDINATES];
  const pn_face *face;
  double slack;
} work;

/* ---- Questions about a face --------------------------------------------------------------------- */

/* The space axis (0 .. d - 1) that the face lies across, with its value; PN_NONE. */
static size_t across(const work *w, const pn_face *f, double *value) {
  size_t axis = PN_NONE;
  for (size_t i = 0; i < w->d && f->flat; ++i) {
    if (fabs(fabs(f->normal[i]) - 1) < 1e-12)
      axis = i;
    else if (fabs(f->normal[i]) > 1e-12)
      return PN_NONE;
  }
  if (axis != PN_NONE)
    *value = f->offset / f->normal[axis];
  return axis;
}

/* Is any of it on the boundary, and with which signs of the outward normal along `axis`? */
static tn_status probe(const work *w, size_t index, size_t axis, bool *some, int *sign) {
  double u[PROBES * PN_BODY_DIMENSIONS], x[PROBES * PN_BODY_DIMENSIONS];
  double normal[PROBES * PN_BODY_DIMENSIONS];
  bool on[PROBES];
  *some = false;
  *sign = 0;
  TN_TRY(pn_sobol(w->d, tn_stream_of(0, "probe"), 0, PROBES, u));
  TN_TRY(pn_faces_place(w->whole, 1, &index, PROBES, u, x, normal, on));
  for (size_t i = 0; i < PROBES; ++i) {
    if (!on[i])
      continue;
    int here = axis == PN_NONE ? 0 : normal[i * w->d + axis] > 0 ? 1 : -1;
    if (*some && here != *sign)
      here = 0; /* two sides: it is no plain face */
    *sign = here;
    *some = true;
  }
  return TN_OK;
}

static bool is_wanted(const work *w, const pn_face *f) {
  const pn_faces_wanted *want = w->wanted;
  uint64_t tag = UINT64_C(1) << f->tag;
  return want->interface != PN_NONE || ((tag & want->made_by) && !(tag & want->not_by));
}

/* Left out by `not x = c`, or the end of a coordinate that repeats. */
static bool is_left_out(const work *w, size_t axis, double value) {
  const pn_coordinate *c = &w->problem->coordinates[w->space[axis]];
  if (c->periodic && (fabs(value - c->lo) <= w->slack || fabs(value - c->hi) <= w->slack))
    return true;
  for (size_t k = 0; k < w->wanted->n_not; ++k)
    if (w->wanted->not_axis[k] == w->space[axis] &&
        fabs(w->wanted->not_value[k] - value) <= w->slack)
      return true;
  return false;
}

/* The plane that the predicate fixes among the space axes; PN_NONE. */
static size_t fixed_plane(const work *w, double *value) {
  for (size_t j = 0; j < w->like->n_fixed; ++j)
    for (size_t i = 0; i < w->d; ++i)
      if (w->space[i] == w->like->fixed[j]) {
        *value = w->like->value[j];
        return i;
      }
  return PN_NONE;
}

/* ---- Names -------------------------------------------------------------------------------------- */

static const char *tag_name(const work *w, size_t tag) {
  return tag < w->problem->n_shapes ? w->problem->shapes[tag].name
         : tag == PN_BOX_TAG        ? "box"
                                    : "region";
}

static int compare(const work *w, size_t a, size_t b) {
  int order = strcmp(tag_name(w, w->face[a].tag), tag_name(w, w->face[b].tag));
  if (order)
    return order;
  return w->face[a].part < w->face[b].part ? -1 : w->face[a].part > w->face[b].part;
}

/* Does the list hold every face of that tag? */
static bool is_whole(const work *w, size_t n, const size_t *faces, size_t tag) {
  size_t have = 0, all = 0, total = pn_body_faces(w->whole, &(const pn_face *){NULL});
  for (size_t i = 0; i < n; ++i)
    have += w->face[faces[i]].tag == tag;
  for (size_t i = 0; i < total; ++i)
    all += w->face[i].tag == tag;
  return have == all;
}

/* "hole", "ell.1.2.3": names and, where not all are meant, numbers of faces; order by name. */
static tn_status name_faces(const work *w, size_t n, const size_t *faces, const char **out) {
  pn_text text = {0};
  char *copy = NULL;
  size_t *order = NULL, last = PN_NONE;
  TN_TRY(TN_NEW(n, &order));
  for (size_t i = 0; i < n; ++i) {
    size_t k = i;
    for (; k > 0 && compare(w, faces[i], order[k - 1]) < 0; --k)
      order[k] = order[k - 1];
    order[k] = faces[i];
  }
  if (w->wanted->interface != PN_NONE)
    pn_putf(&text, "interface(%s)", w->problem->shapes[w->wanted->interface].name);
  for (size_t i = 0; i < n && w->wanted->interface == PN_NONE; ++i) {
    const pn_face *f = &w->face[order[i]];
    if (f->tag != last)
      pn_putf(&text, "%s%s", last == PN_NONE ? "" : ",", tag_name(w, f->tag));
    last = f->tag;
    if (!is_whole(w, n, faces, f->tag))
      pn_putf(&text, ".%zu", f->part);
  }
  tn_free(&order);
  tn_status status = pn_text_status(&text);
  if (status == TN_OK)
    status = pn_arena_text(w->problem->arena, text.text, text.n, &copy);
  pn_text_free(&text);
  *out = copy;
  return status;
}

/* ---- Pieces ------------------------------------------------------------------------------------- */

/* Faces that go into one piece. axis PN_NONE: the curved one. */
typedef struct group {
  size_t axis, n;
  double value;
  int sign;
  size_t *faces;
} group;

typedef struct groups {
  size_t n;
  group items[2 * PN_MAX_COORDINATES + 2];
} groups;

static tn_status put(const work *w, groups *all, size_t face, size_t axis, double value, int sign) {
  size_t i = 0;
  while (i < all->n && (all->items[i].axis != axis || all->items[i].sign != sign ||
                        (axis != PN_NONE && fabs(all->items[i].value - value) > w->slack)))
    ++i;
  if (i == sizeof all->items / sizeof all->items[0])
    return TN_FAIL(TN_EINPUT, "condition `%s`: faces in too many planes", w->wanted->condition);
  group *g = &all->items[i];
  if (i == all->n) {
    *g = (group){.axis = axis, .value = value, .sign = sign};
    TN_TRY(PN_TAKE(w->problem->arena, MOST_FACES, &g->faces));
    ++all->n;
  }
  if (g->n == MOST_FACES)
    return TN_FAIL(TN_EINPUT, "condition `%s`: more than %d faces", w->wanted->condition,
                   (int)MOST_FACES);
  g->faces[g->n++] = face;
  return TN_OK;
}

static tn_status sort_face(const work *w, groups *all, size_t index) {
  const pn_face *f = &w->face[index];
  double value = 0, plane = 0;
  size_t axis = across(w, f, &value), fixed = fixed_plane(w, &plane);
  bool some = false;
  int sign = 0;
  if (!is_wanted(w, f) || (axis != PN_NONE && is_left_out(w, axis, value)))
    return TN_OK;
  if (fixed != PN_NONE && (axis != fixed || fabs(value - plane) > w->slack))
    return TN_OK;
  TN_TRY(probe(w, index, axis, &some, &sign));
  if (!some)
    return TN_OK;
  bool plain =
      axis != PN_NONE && sign != 0 && (fixed != PN_NONE || f->tag == PN_BOX_TAG || w->d == 1);
  return plain ? put(w, all, index, axis, value, sign) : put(w, all, index, PN_NONE, 0, 0);
}

static int end_of(const pn_coordinate *c, double value) {
  return c->periodic ? 0 : value == c->lo ? -1 : value == c->hi ? 1 : 0;
}

/* Fixes `axis` in the piece, in ascending order, unless the predicate did. */
static void fix(const work *w, const group *g, pn_piece *piece) {
  size_t c = w->space[g->axis], at = 0;
  const pn_coordinate *axis = &w->problem->coordinates[c];
  double value = fabs(g->value - axis->lo) <= w->slack   ? axis->lo
                 : fabs(g->value - axis->hi) <= w->slack ? axis->hi
                                                         : g->value;
  while (at < piece->n_fixed && piece->fixed[at] < c)
    ++at;
  if (at < piece->n_fixed && piece->fixed[at] == c)
    return;
  for (size_t i = piece->n_fixed; i > at; --i) {
    piece->fixed[i] = piece->fixed[i - 1];
    piece->value[i] = piece->value[i - 1];
  }
  piece->fixed[at] = c;
  piece->value[at] = value;
  ++piece->n_fixed;
}

static tn_status make_piece(const work *w, const group *g, pn_piece *out) {
  *out = *w->like;
  out->whole = w->whole;
  out->n_faces = g->n;
  out->faces = g->faces;
  out->body = NULL;
  out->inner = w->wanted->interface != PN_NONE;
  out->normal = PN_NONE;
  out->sign = 0;
  if (g->axis != PN_NONE) {
    fix(w, g, out);
    out->normal = w->space[g->axis];
    out->sign = g->sign;
  }
  for (size_t j = 0; j < out->n_fixed; ++j)
    out->side[j] = end_of(&w->problem->coordinates[out->fixed[j]], out->value[j]);
  return name_faces(w, g->n, g->faces, &out->surface);
}

tn_status pn_pieces_of_faces(pn_problem *p, const pn_faces_wanted *wanted, const pn_piece *like,
                             size_t *n, pn_piece *out) {
  work w = {.problem = p, .wanted = wanted, .like = like, .slack = pn_space_slack(p)};
  groups all = {0};
  if (wanted->interface != PN_NONE)
    w.whole = p->shapes[wanted->interface].body;
  else
    w.whole = p->region ? p->region : p->box;
  w.d = pn_space_axes(p, w.space);
  size_t total = pn_body_faces(w.whole, &w.face);
  for (size_t i = 0; i < total; ++i)
    TN_TRY(sort_face(&w, &all, i));
  for (size_t i = 0; i < all.n; ++i)
    TN_TRY(make_piece(&w, &all.items[i], &out[(*n)++]));
  return TN_OK;
}

bool pn_piece_same(const pn_piece *a, const pn_piece *b) {
  bool same = a->n_fixed == b->n_fixed && a->whole == b->whole && a->sign == b->sign &&
              a->inner == b->inner;
  for (size_t j = 0; same && j < a->n_fixed; ++j)
    same = a->fixed[j] == b->fixed[j] && a->value[j] == b->value[j];
  return same && (!a->whole || strcmp(a->surface, b->surface) == 0);
}

tn_status pn_piece_join(pn_problem *p, pn_piece *a, const pn_piece *b, bool *joined) {
  bool same = a->whole && a->whole == b->whole && a->normal == b->normal && a->sign == b->sign &&
              a->inner == b->inner && !a->filter && !b->filter && a->n_fixed == b->n_fixed;
  size_t *faces = NULL, n = a->n_faces;
  for (size_t j = 0; same && j < a->n_fixed; ++j)
    same = a->fixed[j] == b->fixed[j] && a->value[j] == b->value[j];
  *joined = same;
  if (!same)
    return TN_OK;
  TN_TRY(PN_TAKE(p->arena, a->n_faces + b->n_faces, &faces));
  memcpy(faces, a->faces, a->n_faces * sizeof *faces);
  for (size_t i = 0; i < b->n_faces; ++i) {
    bool known = false;
    for (size_t k = 0; k < a->n_faces; ++k)
      known = known || a->faces[k] == b->faces[i];
    if (!known)
      faces[n++] = b->faces[i];
  }
  pn_faces_wanted wanted = {.condition = "", .interface = PN_NONE};
  work w = {.problem = p, .wanted = &wanted, .whole = a->whole};
  pn_body_faces(w.whole, &w.face);
  a->faces = faces;
  a->n_faces = n;
  return a->inner ? TN_OK : name_faces(&w, n, faces, &a->surface);
}
