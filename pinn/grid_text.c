/* grid_text.c: a grid as it is written on the command line: x=-1:1:201,t=0.5.
 *
 * Each part names a coordinate and gives either one value or both ends and how many values, ends included. Numbers
 * are expressions of the file's constants.
 */
#include "pinn/grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void coordinate_list(const pn_problem *p, char text[256]) {
  size_t n = 0;
  for (size_t c = 0; c < p->n_coordinates && n < 200; ++c)
    n += (size_t)snprintf(text + n, 256 - n, "%s%.40s", c > 0 ? ", " : "", p->coordinates[c].name);
}

/* A number of --grid: an expression of constants. */
static tn_status grid_number(pn_problem *p, const char *text, size_t length, double *out) {
  char *copy = NULL;
  pn_expr *expr = NULL;
  TN_TRY(pn_arena_text(p->arena, text, length, &copy));
  TN_TRY(pn_problem_expression(p, "--grid", copy, &expr));
  return pn_evaluate(p, expr, NULL, out);
}

/* One part "x=-1:1:201" or "t=0.5". */
static tn_status grid_part(pn_problem *p, const char *part, size_t length, size_t *coordinate,
                           double *lo, double *hi, size_t *extent) {
  const char *equals = memchr(part, '=', length), *end = part + length, *field[4];
  char known[256];
  size_t n_fields = 1, name = equals != NULL ? (size_t)(equals - part) : 0;
  coordinate_list(p, known);
  while (name > 0 && part[0] == ' ') {
    ++part;
    --name;
  }
  *coordinate = name > 0 ? pn_coordinate_find(p, part, name) : PN_NONE;
  if (*coordinate == PN_NONE) {
    return TN_FAIL(TN_EINPUT,
                   "--grid: `%.*s` does not start with `name=`, name one of the coordinates %s",
                   (int)(end - part), part, known);
  }
  field[0] = equals + 1;
  for (const char *c = equals + 1; c < end && n_fields < 4; ++c) {
    if (*c == ':')
      field[n_fields++] = c + 1;
  }
  if (n_fields == 2 || n_fields > 3)
    return TN_FAIL(TN_EINPUT, "--grid: `%.*s`: expected name=from:to:number or name=value",
                   (int)(end - part), part);
  double number = 1;
  TN_TRY(grid_number(p, field[0], (size_t)((n_fields > 1 ? field[1] - 1 : end) - field[0]), lo));
  *hi = *lo;
  if (n_fields == 3) {
    TN_TRY(grid_number(p, field[1], (size_t)(field[2] - 1 - field[1]), hi));
    TN_TRY(grid_number(p, field[2], (size_t)(end - field[2]), &number));
  }
  if (number == 1 && *lo != *hi)
    return TN_FAIL(TN_EINPUT, "--grid: `%.*s`: one value cannot be both ends; write %s=value",
                   (int)(end - part), part, p->coordinates[*coordinate].name);
  if (!(number >= 1 && number <= 1e9) || number != floor(number))
    return TN_FAIL(TN_EINPUT, "--grid: `%.*s`: the number of values must be a whole number from 1",
                   (int)(end - part), part);
  *extent = (size_t)number;
  return TN_OK;
}

tn_status pn_grid_text(pn_problem *p, const char *text, pn_grid *out) {
  size_t coordinate[PN_MAX_COORDINATES], extent[PN_MAX_COORDINATES], n = 0;
  double lo[PN_MAX_COORDINATES], hi[PN_MAX_COORDINATES];
  *out = (pn_grid){0};
  for (const char *part = text; part != NULL;) {
    size_t length = strcspn(part, ",");
    if (n == PN_MAX_COORDINATES)
      return TN_FAIL(TN_EINPUT, "--grid: too many coordinates");
    TN_TRY(grid_part(p, part, length, &coordinate[n], &lo[n], &hi[n], &extent[n]));
    for (size_t j = 0; j < n; ++j) {
      if (coordinate[j] == coordinate[n])
        return TN_FAIL(TN_EINPUT, "--grid: `%s` is given twice", p->coordinates[coordinate[n]].name);
    }
    ++n;
    part = part[length] == ',' ? part + length + 1 : NULL;
  }
  return pn_grid_new(n, coordinate, lo, hi, extent, out);
}
