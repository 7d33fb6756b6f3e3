/* read_shapes.c: [shapes] and domain.region.
 *
 * A shape is one of the kinds below, moved if asked for, or a predicate of other shapes. Shapes may stand in
 * any order: each body is made when it is first asked for, and one that is asked for while it is being made
 * contains itself. Faces carry the number of the shape that made them through every union and cut, so the
 * name of a hole is the name of its rim.
 */
#include <math.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/read.h"
#include "pinn/region.h"
#include "pinn/table.h"

enum { MOST_CORNERS = 10000 };

typedef struct reading {
  pn_problem *problem;
  const pn_toml *entry;
  size_t tag, d;
} reading;

/* ---- Values ------------------------------------------------------------------------------------- */

static tn_status missing(const reading *r, const char *key) {
  const pn_toml *kind = pn_toml_find(r->entry, "kind");
  return pn_fail_at(TN_EINPUT, r->entry->key_place, strlen(r->entry->key),
                    "shape `%s`: a %s needs `%s`", r->entry->key, kind->string, key);
}

static tn_status numbers(const reading *r, const pn_toml *node, size_t d, double *out) {
  if (node->n != d)
    return pn_fail_at(TN_EINPUT, node->place, 1,
                      "`%s` of `%s` has %zu number%s; there %s %zu space coordinate%s",
                      node->key[0] ? node->key : "a point", r->entry->key, node->n,
                      node->n == 1 ? "" : "s", d == 1 ? "is" : "are", d, d == 1 ? "" : "s");
  for (size_t i = 0; i < d; ++i)
    TN_TRY(pn_read_number(r->problem, node->items[i], NULL, 0, &out[i]));
  return TN_OK;
}

static tn_status vector(const reading *r, const char *key, double *out) {
  const pn_toml *node = pn_toml_find(r->entry, key);
  return node ? numbers(r, node, r->d, out) : missing(r, key);
}

static tn_status length(const reading *r, const char *key, bool required, double *out) {
  const pn_toml *node = pn_toml_find(r->entry, key);
  if (!node && required)
    return missing(r, key);
  return pn_read_number(r->problem, node, NULL, 0, out);
}

/* ---- Kinds -------------------------------------------------------------------------------------- */

static tn_status make_box(const reading *r, pn_body **out) {
  double from[PN_BODY_DIMENSIONS], to[PN_BODY_DIMENSIONS];
  TN_TRY(vector(r, "from", from));
  TN_TRY(vector(r, "to", to));
  return pn_body_box(r->problem->arena, r->d, from, to, r->tag, out);
}

static tn_status make_ball(const reading *r, pn_body **out) {
  double center[PN_BODY_DIMENSIONS], radius = 0;
  TN_TRY(vector(r, "center", center));
  TN_TRY(length(r, "radius", true, &radius));
  return pn_body_ball(r->problem->arena, r->d, center, radius, r->tag, out);
}

static tn_status make_annulus(const reading *r, pn_body **out) {
  double center[PN_BODY_DIMENSIONS], outer = 0, inner = 0;
  pn_body *a = NULL, *b = NULL;
  TN_TRY(vector(r, "center", center));
  TN_TRY(length(r, "radius", true, &outer));
  TN_TRY(length(r, "radius2", true, &inner));
  if (!(inner > 0 && inner < outer))
    return TN_FAIL(TN_EINPUT, "radius2 is %g; it lies between 0 and radius, %g", inner, outer);
  TN_TRY(pn_body_ball(r->problem->arena, r->d, center, outer, r->tag, &a));
  TN_TRY(pn_body_ball(r->problem->arena, r->d, center, inner, r->tag, &b));
  return pn_body_join(r->problem->arena, PN_DIFFERENCE, a, b, out);
}

static tn_status make_ellipse(const reading *r, pn_body **out) {
  double center[PN_BODY_DIMENSIONS], axes[PN_BODY_DIMENSIONS];
  TN_TRY(vector(r, "center", center));
  TN_TRY(vector(r, "axes", axes));
  return pn_body_ellipsoid(r->problem->arena, r->d, center, axes, r->tag, out);
}

static tn_status make_polygon(const reading *r, pn_body **out) {
  const pn_toml *points = pn_toml_find(r->entry, "points");
  double *corner = NULL;
  if (!points)
    return missing(r, "points");
  if (points->n > MOST_CORNERS)
    return TN_FAIL(TN_EINPUT, "%zu corners; at most %d", points->n, (int)MOST_CORNERS);
  if (strcmp(pn_toml_find(r->entry, "kind")->string, "triangle") == 0 && points->n != 3)
    return TN_FAIL(TN_EINPUT, "a triangle has 3 corners, not %zu", points->n);
  TN_TRY(TN_NEW(2 * points->n, &corner));
  tn_status status = TN_OK;
  for (size_t i = 0; i < points->n && status == TN_OK; ++i)
    status = numbers(r, points->items[i], 2, corner + 2 * i);
  if (status == TN_OK)
    status = pn_body_polygon(r->problem->arena, points->n, corner, r->tag, out);
  tn_free(&corner);
  return status;
}

static tn_status make_halfspace(const reading *r, pn_body **out) {
  double point[PN_BODY_DIMENSIONS], normal[PN_BODY_DIMENSIONS];
  TN_TRY(vector(r, "point", point));
  TN_TRY(vector(r, "normal", normal));
  return pn_body_halfspace(r->problem->arena, r->d, point, normal, r->tag, out);
}

static tn_status make_cone(const reading *r, pn_body **out) {
  double from[3], to[3], radius = 0, radius2 = 0;
  bool cylinder = strcmp(pn_toml_find(r->entry, "kind")->string, "cylinder") == 0;
  TN_TRY(vector(r, "from", from));
  TN_TRY(vector(r, "to", to));
  TN_TRY(length(r, "radius", true, &radius));
  TN_TRY(length(r, "radius2", false, &radius2));
  return pn_body_cone(r->problem->arena, from, to, radius, cylinder ? radius : radius2, r->tag,
                      out);
}

static tn_status make_torus(const reading *r, pn_body **out) {
  double center[3], axis[3], radius = 0, tube = 0;
  TN_TRY(vector(r, "center", center));
  TN_TRY(vector(r, "axis", axis));
  TN_TRY(length(r, "radius", true, &radius));
  TN_TRY(length(r, "tube", true, &tube));
  return pn_body_torus(r->problem->arena, center, axis, radius, tube, r->tag, out);
}

/* ---- Predicates --------------------------------------------------------------------------------- */

static tn_status read_predicate(pn_problem *p, const pn_toml *node, pn_expr **out) {
  pn_naming scope = {.problem = p, .what = "a shape", .coordinates = true, .no_definitions = true};
  return pn_read_predicate(&scope, node, out);
}

static tn_status make_implicit(const reading *r, pn_body **out) {
  const pn_toml *inside = pn_toml_find(r->entry, "inside");
  pn_expr *predicate = NULL;
  if (!inside)
    return missing(r, "inside");
  TN_TRY(read_predicate(r->problem, inside, &predicate));
  return pn_formula_body(r->problem, predicate, r->tag, out);
}

/* ---- Files -------------------------------------------------------------------------------------- */

/* The path of `file`, beside the problem file; tn_free. */
static tn_status path_of(const reading *r, char **path) {
  const pn_toml *file = pn_toml_find(r->entry, "file");
  const char *from = r->problem->source.file;
  char *folder = NULL;
  if (!file)
    return missing(r, "file");
  tn_status status = pn_path_folder(from ? from : "", &folder);
  if (status == TN_OK)
    status = pn_path_join(folder, file->string, path);
  tn_free(&folder);
  return status;
}

static tn_status make_surface(const reading *r, pn_body **out) {
  char *path = NULL;
  double *vertices = NULL;
  size_t n = 0;
  TN_TRY(path_of(r, &path));
  tn_status status = pn_stl_read(path, &n, &vertices);
  if (status == TN_OK)
    status = pn_body_surface(r->problem->arena, n, vertices, r->tag, out);
  tn_free(&vertices);
  tn_free(&path);
  return status;
}

/* Rows with a normal lie on the boundary, the others inside. */
static tn_status split_cloud(const reading *r, const pn_table *table, pn_body **out) {
  size_t rows = pn_table_rows(table), space[PN_MAX_COORDINATES], inner = 0, outer = 0, index = 0;
  const double *x[PN_BODY_DIMENSIONS], *normal[PN_BODY_DIMENSIONS] = {NULL};
  double *points = NULL, *rim = NULL, *out_of = NULL;
  pn_space_axes(r->problem, space);
  for (size_t k = 0; k < r->d; ++k) {
    char name[80];
    const char *axis = r->problem->coordinates[space[k]].name;
    TN_TRY(pn_table_column(table, axis, &x[k]));
    snprintf(name, sizeof name, "normal_%.60s", axis);
    if (pn_table_find(table, name, &index) == TN_OK)
      TN_TRY(pn_table_column(table, name, &normal[k]));
    else if (k > 0 && normal[0])
      return tn_error_code();
  }
  tn_error_clear();
  tn_status status = TN_NEW(rows * r->d, &points);
  if (status == TN_OK)
    status = TN_NEW(rows * r->d, &rim);
  if (status == TN_OK)
    status = TN_NEW(rows * r->d, &out_of);
  for (size_t i = 0; status == TN_OK && i < rows; ++i) {
    double size = 0;
    for (size_t k = 0; k < r->d && normal[0]; ++k)
      size += normal[k][i] * normal[k][i];
    for (size_t k = 0; k < r->d; ++k) {
      if (size > 0)
        out_of[outer * r->d + k] = normal[k][i] / sqrt(size);
      (size > 0 ? rim + outer * r->d : points + inner * r->d)[k] = x[k][i];
    }
    *(size > 0 ? &outer : &inner) += 1;
  }
  if (status == TN_OK)
    status = pn_body_cloud(r->problem->arena, r->d, inner, points, outer, rim, out_of, r->tag, out);
  tn_free(&points);
  tn_free(&rim);
  tn_free(&out_of);
  return status;
}

static tn_status make_cloud(const reading *r, pn_body **out) {
  char *path = NULL;
  pn_table *table = NULL;
  TN_TRY(path_of(r, &path));
  tn_status status = pn_table_read(path, &table);
  if (status == TN_OK)
    status = split_cloud(r, table, out);
  pn_table_free(&table);
  tn_free(&path);
  return status;
}

/* ---- One shape ---------------------------------------------------------------------------------- */

typedef struct kind {
  const char *name, *keys; /* its own keys */
  size_t least, most;      /* space dimensions */
  tn_status (*make)(const reading *r, pn_body **out);
} kind;

static const kind kinds[] = {
    {"box", "from to", 1, 16, make_box},
    {"disc", "center radius", 2, 2, make_ball},
    {"ball", "center radius", 1, 16, make_ball},
    {"ellipse", "center axes", 2, 16, make_ellipse},
    {"polygon", "points", 2, 2, make_polygon},
    {"triangle", "points", 2, 2, make_polygon},
    {"annulus", "center radius radius2", 2, 16, make_annulus},
    {"halfspace", "point normal", 1, 16, make_halfspace},
    {"cylinder", "from to radius", 3, 3, make_cone},
    {"cone", "from to radius radius2", 3, 3, make_cone},
    {"torus", "center axis radius tube", 3, 3, make_torus},
    {"implicit", "inside", 1, 16, make_implicit},
    {"surface", "file", 3, 3, make_surface},
    {"cloud", "file", 1, 16, make_cloud},
};

static bool is_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
      return true;
  return false;
}

/* A key of another kind would be read by nobody. */
static tn_status check_keys(const pn_toml *entry, const kind *k) {
  for (size_t i = 0; i < entry->n; ++i) {
    const pn_toml *v = entry->items[i];
    if (!is_word("kind move rotate scale", v->key) && !is_word(k->keys, v->key))
      return pn_fail_at(TN_EINPUT, v->key_place, strlen(v->key),
                        "`%s` is no key of a %s, whose keys are %s (and move, rotate, scale)",
                        v->key, k->name, k->keys);
  }
  return TN_OK;
}

/* The middle of the bounds; of a half-space its point. */
static tn_status middle_of(const reading *r, const pn_body *body, double *middle) {
  double to[PN_BODY_DIMENSIONS];
  if (!pn_body_bounds(body, middle, to))
    return vector(r, "point", middle);
  for (size_t i = 0; i < r->d; ++i)
    middle[i] = middle[i] / 2 + to[i] / 2;
  return TN_OK;
}

static tn_status turn(const reading *r, const pn_toml *node, pn_body **body) {
  static const double axis[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  double angle[3] = {0}, middle[PN_BODY_DIMENSIONS];
  TN_TRY(middle_of(r, *body, middle));
  if (node->kind != PN_TOML_ARRAY && r->d == 2) {
    TN_TRY(pn_read_number(r->problem, node, NULL, 0, angle));
    return pn_body_rotate(r->problem->arena, *body, angle[0], middle, NULL, body);
  }
  if (node->kind != PN_TOML_ARRAY || r->d != 3)
    return TN_FAIL(TN_EINPUT,
                   "rotate is one angle in 2 space dimensions and three in 3; here are %zu", r->d);
  TN_TRY(numbers(r, node, 3, angle));
  for (size_t i = 0; i < 3; ++i)
    if (angle[i] != 0)
      TN_TRY(pn_body_rotate(r->problem->arena, *body, angle[i], middle, axis[i], body));
  return TN_OK;
}

static tn_status place(const reading *r, pn_body **body) {
  const pn_toml *move = pn_toml_find(r->entry, "move"), *rotate = pn_toml_find(r->entry, "rotate");
  const pn_toml *scale = pn_toml_find(r->entry, "scale");
  double by[PN_BODY_DIMENSIONS], middle[PN_BODY_DIMENSIONS];
  if (scale) {
    TN_TRY(middle_of(r, *body, middle));
    if (scale->kind == PN_TOML_ARRAY)
      TN_TRY(numbers(r, scale, r->d, by));
    else
      TN_TRY(pn_read_number(r->problem, scale, NULL, 1, &by[0]));
    for (size_t i = 1; i < r->d && scale->kind != PN_TOML_ARRAY; ++i)
      by[i] = by[0];
    TN_TRY(pn_body_scale(r->problem->arena, *body, by, middle, body));
  }
  if (rotate)
    TN_TRY(turn(r, rotate, body));
  if (!move)
    return TN_OK;
  TN_TRY(numbers(r, move, r->d, by));
  return pn_body_move(r->problem->arena, *body, by, body);
}

static tn_status make_kind(pn_problem *p, pn_shape *shape, size_t index, const char *name) {
  size_t i = 0;
  reading r = {p, shape->entry, index, pn_body_dimensions(p->box)};
  pn_body *body = NULL;
  while (i + 1 < sizeof kinds / sizeof kinds[0] && strcmp(kinds[i].name, name) != 0)
    ++i;
  if (r.d < kinds[i].least || r.d > kinds[i].most)
    return pn_fail_at(TN_EINPUT, pn_toml_find(shape->entry, "kind")->place, strlen(name) + 2,
                      "a %s lives in %zu%s space dimensions; [domain] has %zu", name,
                      kinds[i].least, kinds[i].most > kinds[i].least ? " and more" : "", r.d);
  TN_TRY(check_keys(shape->entry, &kinds[i]));
  tn_status status = kinds[i].make(&r, &body);
  if (status == TN_OK)
    status = place(&r, &body);
  if (status == TN_EINPUT && !strstr(tn_error_text(), "\n")) { /* a text without a place */
    char *text = NULL;
    TN_TRY(pn_arena_text(p->arena, tn_error_text(), strlen(tn_error_text()), &text));
    return pn_fail_at(status, shape->place, strlen(shape->name), "shape `%s`: %s", shape->name,
                      text);
  }
  shape->body = body;
  shape->from_file = pn_toml_find(shape->entry, "file") != NULL;
  shape->tags = UINT64_C(1) << index;
  return status;
}

static tn_status make_shape(pn_problem *p, pn_shape *shape, size_t index) {
  const pn_toml *kind = pn_toml_find(shape->entry, "kind");
  const pn_toml *inside = pn_toml_find(shape->entry, "inside");
  pn_expr *predicate = NULL;
  if (kind && strcmp(kind->string, "none") != 0)
    return make_kind(p, shape, index, kind->string);
  if (!inside)
    return pn_fail_at(TN_EINPUT, shape->place, strlen(shape->name),
                      "shape `%s` needs kind = \"...\", or a predicate of shapes", shape->name);
  for (size_t i = 0; i < shape->entry->n; ++i)
    if (shape->entry->items[i] != inside && shape->entry->items[i] != kind)
      return pn_fail_at(TN_EINPUT, shape->entry->items[i]->key_place, 1,
                        "`%s` belongs to a shape with a kind; `%s` is a predicate",
                        shape->entry->items[i]->key, shape->name);
  TN_TRY(read_predicate(p, inside, &predicate));
  TN_TRY(pn_predicate_body(p, predicate, &shape->body, &shape->tags));
  if (shape->body)
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, predicate, "shape `%s` is no body: it varies with more than space",
                      shape->name);
}

tn_status pn_shape_body(pn_problem *p, size_t index) {
  pn_shape *shape = &p->shapes[index];
  if (shape->state == 2)
    return TN_OK;
  if (shape->state == 1)
    return pn_fail_at(TN_EINPUT, shape->place, strlen(shape->name), "shape `%s` contains itself",
                      shape->name);
  if (!p->box)
    return pn_fail_at(TN_EINPUT, shape->place, strlen(shape->name),
                      "shape `%s` has no place here: ranges are known before shapes", shape->name);
  shape->state = 1;
  TN_TRY(make_shape(p, shape, index));
  shape->state = 2;
  return TN_OK;
}

/* ---- All of them -------------------------------------------------------------------------------- */

tn_status pn_declare_shapes(pn_problem *p, const pn_toml *table) {
  size_t count = table ? table->n : 0;
  TN_TRY(pn_read_limit(table, PN_MAX_SHAPES, "shapes"));
  TN_TRY(PN_TAKE(p->arena, count, &p->shapes));
  for (size_t i = 0; i < count; ++i)
    p->shapes[i] = (pn_shape){.name = table->items[i]->key,
                              .place = table->items[i]->key_place,
                              .entry = table->items[i]};
  p->n_shapes = count;
  return TN_OK;
}

static tn_status read_region(pn_problem *p, const pn_toml *node) {
  pn_expr *predicate = NULL;
  pn_piece *piece = NULL;
  TN_TRY(read_predicate(p, node, &predicate));
  if (predicate->kind == PN_EVERYWHERE)
    return TN_OK;
  TN_TRY(pn_predicate_body(p, predicate, &p->region, &p->region_tags));
  if (!p->region)
    return pn_expr_fail(TN_EINPUT, predicate, "the region varies with more than space");
  TN_TRY(pn_body_in_box(p, &p->region, &p->region_tags));
  TN_TRY(PN_TAKE(p->arena, 1, &piece));
  *piece = (pn_piece){.normal = PN_NONE, .body = p->region};
  bool exact = false;
  TN_TRY(pn_body_measure(p->region, &piece->extent, &exact));
  p->domain = piece;
  return TN_OK;
}

tn_status pn_read_shapes(pn_problem *p, const pn_toml *root) {
  const pn_toml *region = pn_toml_find(pn_toml_find(root, "domain"), "region");
  if (p->n_shapes == 0 && !region)
    return TN_OK;
  if (p->metric != PN_CARTESIAN)
    return TN_FAIL(TN_EUNSUPPORTED, "%s: shapes need metric = \"cartesian\"", p->source.file);
  TN_TRY(pn_space_box(p));
  for (size_t i = 0; i < p->n_shapes; ++i)
    TN_TRY(pn_shape_body(p, i));
  return region ? read_region(p, region) : TN_OK;
}
