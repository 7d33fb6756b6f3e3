/* vtk.c: fields on rectangular grids as legacy VTK files.
 *
 * "DATASET RECTILINEAR_GRID", big-endian doubles, as the VTK file formats say (version 3.0). The first axis of VTK
 * runs fastest, that of pn_grid slowest; points are written in VTK's order. A missing axis has one value 0. Names of fields
 * may not hold white space in this format: what is no letter, digit or underscore becomes an underscore; the text as typed
 * is no part of the file.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/export.h"
#include "pinn/files.h"
#include "pinn/text.h"

typedef struct bytes {
  size_t n, room;
  uint8_t *at; /* owned */
} bytes;

static tn_status put(bytes *b, const void *data, size_t n) {
  if (b->n + n > b->room) {
    size_t room = 2 * (b->n + n);
    TN_TRY(tn_grow(&b->at, b->n, room, 1));
    b->room = room;
  }
  memcpy(b->at + b->n, data, n);
  b->n += n;
  return TN_OK;
}

static tn_status put_text(bytes *b, const char *text) { return put(b, text, strlen(text)); }

static tn_status put_number(bytes *b, double x) {
  uint64_t bits = 0;
  uint8_t big[8];
  memcpy(&bits, &x, sizeof bits);
  for (size_t i = 0; i < 8; ++i)
    big[i] = (uint8_t)(bits >> (56 - 8 * i));
  return put(b, big, sizeof big);
}

static tn_status put_axis(bytes *b, const pn_grid *grid, size_t axis) {
  static const char letter[] = "XYZ";
  char line[64];
  size_t n = axis < grid->n_axes ? grid->extent[axis] : 1;
  snprintf(line, sizeof line, "%c_COORDINATES %zu double\n", letter[axis], n);
  TN_TRY(put_text(b, line));
  for (size_t i = 0; i < n; ++i)
    TN_TRY(put_number(b, axis < grid->n_axes ? grid->axis[axis][i] : 0));
  return put_text(b, "\n");
}

/* The point of the grid at place (i, j, k) of VTK. */
static size_t index_of(const pn_grid *grid, const size_t place[3]) {
  size_t at = 0;
  for (size_t axis = 0; axis < grid->n_axes; ++axis)
    at = at * grid->extent[axis] + place[axis];
  return at;
}

/* One field; values NULL: whether all n fields are numbers there. */
static tn_status put_field(bytes *b, const pn_grid *grid, const char *name, size_t n,
                           const double *values, bool inside) {
  char head[160], plain[96];
  size_t extent[3] = {1, 1, 1}, place[3];
  for (size_t a = 0; a < grid->n_axes; ++a)
    extent[a] = grid->extent[a];
  snprintf(plain, sizeof plain, "%s", name);
  for (char *c = plain; *c; ++c)
    *c = isalnum((unsigned char)*c) ? *c : '_';
  snprintf(head, sizeof head, "SCALARS %s double 1\nLOOKUP_TABLE default\n", plain);
  TN_TRY(put_text(b, head));
  for (place[2] = 0; place[2] < extent[2]; ++place[2])
    for (place[1] = 0; place[1] < extent[1]; ++place[1])
      for (place[0] = 0; place[0] < extent[0]; ++place[0]) {
        size_t at = index_of(grid, place);
        bool good = true;
        for (size_t k = 0; inside && k < n; ++k)
          good = good && !isnan(values[k * grid->n + at]);
        TN_TRY(put_number(b, inside ? (double)good : values[at]));
      }
  return put_text(b, "\n");
}

static tn_status write_all(bytes *b, const char *title, const pn_grid *grid, size_t n,
                           const char *const *names, const double *values) {
  char head[512];
  size_t extent[3] = {1, 1, 1};
  bool holes = false;
  for (size_t a = 0; a < grid->n_axes; ++a)
    extent[a] = grid->extent[a];
  snprintf(head, sizeof head,
           "# vtk DataFile Version 3.0\n%.200s\nBINARY\nDATASET RECTILINEAR_GRID\nDIMENSIONS %zu %zu %zu\n",
           title, extent[0], extent[1], extent[2]);
  TN_TRY(put_text(b, head));
  for (size_t axis = 0; axis < 3; ++axis)
    TN_TRY(put_axis(b, grid, axis));
  snprintf(head, sizeof head, "POINT_DATA %zu\n", grid->n);
  TN_TRY(put_text(b, head));
  for (size_t i = 0; i < n * grid->n; ++i)
    holes = holes || isnan(values[i]);
  for (size_t k = 0; k < n; ++k)
    TN_TRY(put_field(b, grid, names[k], 0, values + k * grid->n, false));
  return holes ? put_field(b, grid, "inside", n, values, true) : TN_OK;
}

tn_status pn_vtk_write(const char *path, const char *title, const pn_grid *grid, size_t n,
                       const char *const *names, const double *values) {
  bytes b = {0};
  char line[201];
  if (grid->n_axes == 0 || grid->n_axes > 3)
    return TN_FAIL(TN_EINPUT,
                   "%s: a VTK file holds a grid of 1 to 3 coordinates, this one has %zu; give the others by "
                   "one value each (t=0.5) and write slices",
                   path, grid->n_axes);
  snprintf(line, sizeof line, "%s", title);
  for (char *c = line; *c; ++c) /* the title is one line */
    *c = *c == '\n' || *c == '\r' ? ' ' : *c;
  tn_status status = write_all(&b, line, grid, n, names, values);
  if (status == TN_OK)
    status = pn_write_atomic(path, b.at, b.n);
  tn_free(&b.at);
  return status;
}
