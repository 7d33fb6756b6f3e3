/* geometry_stl.c: triangles from STL files.
 *
 * A binary file is 80 bytes of anything, a little-endian count n and n records of 50 bytes: a normal, three corners (12
 * float32), two bytes of anything; it is recognised by its length, because some start with "solid" as text files do. A text
 * file is a list of words, of which `vertex` and the three numbers after it matter. Normals are not read: the order of the
 * corners says as much (geometry_surface.c).
 */
#include "pinn/geometry.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 84, RECORD = 50, MOST_BYTES = 1 << 30 };

static tn_status read_all(const char *path, char **text, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return TN_FAIL(TN_EIO, "%s: cannot be opened for reading", path);
  tn_status status = TN_OK;
  size_t capacity = 0;
  *length = 0;
  do {
    size_t larger = capacity ? 2 * capacity : 65536;
    if (larger > MOST_BYTES)
      status = TN_FAIL(TN_EINPUT, "%s: more than %d bytes", path, (int)MOST_BYTES / 2);
    else
      status = tn_grow(text, capacity, larger, 1);
    if (status != TN_OK)
      break;
    capacity = larger;
    *length += fread(*text + *length, 1, capacity - 1 - *length, file);
  } while (*length == capacity - 1);
  if (status == TN_OK && ferror(file))
    status = TN_FAIL(TN_EIO, "%s: cannot be read", path);
  fclose(file);
  return status;
}

static uint32_t little(const char *bytes) {
  const unsigned char *b = (const unsigned char *)bytes;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static tn_status read_binary(const char *path, const char *text, size_t n, double *v) {
  for (size_t i = 0; i < 9 * n; ++i) {
    uint32_t bits = little(text + HEADER + RECORD * (i / 9) + 12 + 4 * (i % 9));
    float number = 0;
    memcpy(&number, &bits, sizeof number);
    if (!isfinite(number))
      return TN_FAIL(TN_EINPUT, "%s: triangle %zu has a coordinate %g; expected finite numbers", path,
                     i / 9 + 1, (double)number);
    v[i] = (double)number;
  }
  return TN_OK;
}

static tn_status read_text(const char *path, const char *text, size_t *n, double **v) {
  size_t corners = 0, capacity = 0;
  for (const char *at = strstr(text, "vertex"); at; at = strstr(at, "vertex")) {
    at += strlen("vertex");
    if (3 * corners + 3 > capacity) {
      TN_TRY(tn_grow(v, capacity, 2 * capacity + 96, sizeof **v));
      capacity = 2 * capacity + 96;
    }
    for (size_t k = 0; k < 3; ++k) {
      char *end = NULL;
      double number = strtod(at, &end);
      if (end == at || !isfinite(number))
        return TN_FAIL(TN_EINPUT, "%s: corner %zu of triangle %zu has \"%.*s\" as a coordinate; expected "
                                  "three finite numbers after `vertex`",
                       path, corners % 3 + 1, corners / 3 + 1, (int)strcspn(at + strspn(at, " \t"), " \t\r\n"),
                       at + strspn(at, " \t"));
      (*v)[3 * corners + k] = number;
      at = end;
    }
    ++corners;
  }
  if (corners % 3)
    return TN_FAIL(TN_EINPUT, "%s: %zu corners; expected three for each triangle", path, corners);
  *n = corners / 3;
  return TN_OK;
}

tn_status pn_stl_read(const char *path, size_t *n, double **vertices) {
  char *text = NULL;
  size_t length = 0;
  *n = 0;
  *vertices = NULL;
  tn_status status = read_all(path, &text, &length);
  if (status == TN_OK && length >= HEADER &&
      length == HEADER + (uint64_t)RECORD * little(text + HEADER - 4)) {
    *n = little(text + HEADER - 4);
    status = TN_NEW(9 * *n + 1, vertices);
    if (status == TN_OK)
      status = read_binary(path, text, *n, *vertices);
  } else if (status == TN_OK)
    status = read_text(path, text, n, vertices);
  if (status == TN_OK && *n == 0)
    status = TN_FAIL(TN_EINPUT, "%s: no triangles in %zu bytes; expected an STL file, text or binary", path,
                     length);
  tn_free(&text);
  if (status != TN_OK)
    tn_free(vertices);
  return status;
}
