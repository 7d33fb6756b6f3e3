/* store.c: writing result files: an HDF5 file built in memory, sealed, and put on the disk by us.
 *
 * HDF5 must not write the disk itself: on a full disk version 1.10 crashes at exit and leaves a
 * file that nobody can open. So the core driver without backing store makes the file in memory,
 * H5Fget_file_image copies it out, and files.c writes it atomically with the checksum trailer of
 * store_seal.c behind it.
 *
 * Equal content gives equal bytes: object times are off, objects are made in the order of the
 * calls, nothing is compressed, types are little-endian whatever the machine, and all bytes of a
 * dataset are written, so that no fill value is needed.
 */
#include "pinn/store.h"

#define H5_USE_110_API /* later versions map the same names to other signatures otherwise */
#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/store_seal.h"

struct pn_store {
  hid_t file;   /* in memory */
  hid_t links;  /* link creation: groups on the way are made */
  hid_t object; /* dataset creation: no times, space at once, no fill */
};

enum { CORE_STEP = 1 << 20 }; /* bytes by which the image grows */

/* The innermost description on HDF5's error stack, for error texts. */
static herr_t describe(unsigned n, const H5E_error2_t *error, void *out) {
  (void)n;
  if (error->desc) {
    char *text = out;
    strncpy(text, error->desc, 199);
  }
  return 1; /* the first visited is the innermost */
}

static tn_status hdf_fail(const char *what, const char *path) {
  char text[200] = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, describe, text);
  return TN_FAIL(TN_EIO, "HDF5 cannot %s `%s`: %s", what, path, text);
}

/* ---- Life ------------------------------------------------------------------------------------ */

void pn_store_free(pn_store **store) {
  pn_store *s = *store;
  if (!s)
    return;
  if (s->object > 0)
    H5Pclose(s->object);
  if (s->links > 0)
    H5Pclose(s->links);
  if (s->file > 0)
    H5Fclose(s->file); /* nothing reaches a disk: no backing store */
  tn_free(store);
}

static tn_status open_memory(pn_store *s) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);
  tn_status status = TN_OK;
  char name[48]; /* HDF5 takes two open files of one name for the same */
  snprintf(name, sizeof name, "pinn-memory-%p", (void *)s);
  if (access < 0 || create < 0 || H5Pset_fapl_core(access, CORE_STEP, 0) < 0 ||
      H5Pset_obj_track_times(create, 0) < 0)
    status = hdf_fail("prepare", "a file in memory");
  if (status == TN_OK)
    s->file = H5Fcreate(name, H5F_ACC_TRUNC, create, access);
  if (status == TN_OK && s->file < 0)
    status = hdf_fail("make", "a file in memory");
  if (access >= 0)
    H5Pclose(access);
  if (create >= 0)
    H5Pclose(create);
  return status;
}

tn_status pn_store_new(pn_store **out) {
  pn_store *s = NULL;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* HDF5 prints its errors otherwise */
  TN_TRY(TN_NEW(1, &s));
  tn_status status = open_memory(s);
  if (status == TN_OK) {
    s->links = H5Pcreate(H5P_LINK_CREATE);
    s->object = H5Pcreate(H5P_DATASET_CREATE);
    if (s->links < 0 || s->object < 0 || H5Pset_create_intermediate_group(s->links, 1) < 0 ||
        H5Pset_obj_track_times(s->object, 0) < 0 || H5Pset_layout(s->object, H5D_CONTIGUOUS) < 0 ||
        H5Pset_alloc_time(s->object, H5D_ALLOC_TIME_EARLY) < 0 ||
        H5Pset_fill_time(s->object, H5D_FILL_TIME_NEVER) < 0)
      status = hdf_fail("prepare", "datasets");
  }
  if (status != TN_OK)
    pn_store_free(&s);
  else
    *out = s;
  return status;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Names joined by single slashes, printable ASCII, none "." or "..". */
static bool plain_path(const char *path) {
  size_t start = 0, n = strlen(path);
  for (size_t i = 0; i <= n; ++i) {
    unsigned char c = (unsigned char)path[i];
    if (c && c != '/') {
      if (c <= ' ' || c > '~')
        return false;
      continue;
    }
    size_t length = i - start;
    if (!length || length > 255)
      return false;
    if (path[start] == '.' && (length == 1 || (length == 2 && path[start + 1] == '.')))
      return false;
    start = i + 1;
  }
  return true;
}

static tn_status check_path(const char *path) {
  if (!plain_path(path))
    return TN_FAIL(
        TN_EINPUT,
        "\"%s\" is no name for a result file; expected printable ASCII names joined by /", path);
  return TN_OK;
}

/* Why creating path failed: it is there, something on its way is no group, or HDF5's own reason. */
static tn_status create_fail(pn_store *s, const char *path) {
  char text[200] = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, describe, text); /* before H5Lexists clears it */
  char prefix[1024];
  for (size_t i = 1; i < sizeof prefix; ++i) {
    if (path[i] && path[i] != '/')
      continue;
    memcpy(prefix, path, i);
    prefix[i] = 0;
    if (H5Lexists(s->file, prefix, H5P_DEFAULT) <= 0)
      break;
    if (!path[i])
      return TN_FAIL(TN_EINPUT, "`%s` has been stored already", path);
    H5O_info_t info;
    if (H5Oget_info_by_name(s->file, prefix, &info, H5P_DEFAULT) < 0)
      break;
    if (info.type != H5O_TYPE_GROUP)
      return TN_FAIL(TN_EINPUT, "`%s` cannot be stored: `%s` is no group", path, prefix);
  }
  return TN_FAIL(TN_EIO, "HDF5 cannot store `%s`: %s", path, text);
}

/* ---- Content --------------------------------------------------------------------------------- */

tn_status pn_store_group(pn_store *store, const char *path) {
  TN_TRY(check_path(path));
  hid_t group = H5Gcreate2(store->file, path, store->links, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0)
    return create_fail(store, path);
  H5Gclose(group);
  return TN_OK;
}

/* A dataset of `disk` type in the file from `memory` type here. */
static tn_status put(pn_store *s, const char *path, hid_t disk, hid_t memory, size_t rank,
                     const size_t *extents, const void *data) {
  hsize_t dims[PN_STORE_RANK] = {0};
  tn_status status = TN_OK;
  bool empty = false;
  TN_TRY(check_path(path));
  if (rank > PN_STORE_RANK)
    return TN_FAIL(TN_ESHAPE, "`%s` has rank %zu, a result file holds up to %d", path, rank,
                   PN_STORE_RANK);
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = extents[i];
    empty = empty || !extents[i];
  }
  hid_t space = rank ? H5Screate_simple((int)rank, dims, NULL) : H5Screate(H5S_SCALAR);
  if (space < 0)
    return hdf_fail("make the shape of", path);
  hid_t set = H5Dcreate2(s->file, path, disk, space, s->links, s->object, H5P_DEFAULT);
  if (set < 0)
    status = create_fail(s, path);
  else if (!empty && H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    status = hdf_fail("store", path);
  if (set >= 0)
    H5Dclose(set);
  H5Sclose(space);
  return status;
}

tn_status pn_store_f64(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const double *x) {
  return put(store, path, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, rank, extents, x);
}

tn_status pn_store_f32(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const float *x) {
  return put(store, path, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, rank, extents, x);
}

tn_status pn_store_i64(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const int64_t *x) {
  return put(store, path, H5T_STD_I64LE, H5T_NATIVE_INT64, rank, extents, x);
}

tn_status pn_store_u8(pn_store *store, const char *path, size_t rank, const size_t *extents,
                      const uint8_t *x) {
  return put(store, path, H5T_STD_U8LE, H5T_NATIVE_UINT8, rank, extents, x);
}

tn_status pn_store_number(pn_store *store, const char *path, double x) {
  return pn_store_f64(store, path, 0, NULL, &x);
}

tn_status pn_store_integer(pn_store *store, const char *path, int64_t x) {
  return pn_store_i64(store, path, 0, NULL, &x);
}

/* A type of `size` bytes (at least one) of UTF-8, padded with zeros. */
static hid_t text_type(size_t size) {
  hid_t type = H5Tcopy(H5T_C_S1);
  if (type < 0)
    return type;
  if (H5Tset_size(type, size ? size : 1) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 &&
      H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0)
    return type;
  H5Tclose(type);
  return -1;
}

static tn_status put_texts(pn_store *s, const char *path, size_t rank, size_t count,
                           const char *const *texts) {
  size_t size = 1;
  char *block = NULL;
  for (size_t i = 0; i < count; ++i)
    size = strlen(texts[i]) > size ? strlen(texts[i]) : size;
  TN_TRY(tn_new(count, size, &block));
  for (size_t i = 0; i < count; ++i)
    memcpy(block + i * size, texts[i], strlen(texts[i]));
  hid_t type = text_type(size);
  tn_status status =
      type < 0 ? hdf_fail("make the type of", path) : put(s, path, type, type, rank, &count, block);
  if (type >= 0)
    H5Tclose(type);
  tn_free(&block);
  return status;
}

tn_status pn_store_text(pn_store *store, const char *path, const char *text) {
  return put_texts(store, path, 0, 1, &text);
}

tn_status pn_store_texts(pn_store *store, const char *path, size_t count,
                         const char *const *texts) {
  return put_texts(store, path, 1, count, texts);
}

tn_status pn_store_attribute(pn_store *store, const char *path, const char *name,
                             const char *text) {
  const char *where = path[0] ? path : "/";
  tn_status status = TN_OK;
  char one[1] = {0}; /* an empty text is one zero */
  TN_TRY(check_path(name));
  if (strcmp(where, "/"))
    TN_TRY(check_path(where));
  hid_t type = text_type(strlen(text)), space = H5Screate(H5S_SCALAR);
  hid_t attribute = -1;
  if (type < 0 || space < 0)
    status = hdf_fail("make an attribute of", where);
  else
    attribute = H5Acreate_by_name(store->file, where, name, type, space, H5P_DEFAULT, H5P_DEFAULT,
                                  H5P_DEFAULT);
  if (status == TN_OK && attribute < 0)
    status = hdf_fail("make an attribute of", where);
  if (status == TN_OK && H5Awrite(attribute, type, text[0] ? text : one) < 0)
    status = hdf_fail("write an attribute of", where);
  if (attribute >= 0)
    H5Aclose(attribute);
  if (space >= 0)
    H5Sclose(space);
  if (type >= 0)
    H5Tclose(type);
  return status;
}

/* ---- The file -------------------------------------------------------------------------------- */

tn_status pn_store_bytes(pn_store *store, uint8_t **bytes, size_t *n) {
  uint8_t *data = NULL;
  if (H5Fflush(store->file, H5F_SCOPE_GLOBAL) < 0)
    return hdf_fail("complete", "a file in memory");
  ssize_t size = H5Fget_file_image(store->file, NULL, 0);
  if (size < 0)
    return hdf_fail("measure", "a file in memory");
  TN_TRY(tn_new((size_t)size + PN_STORE_TRAILER, 1, &data));
  if (H5Fget_file_image(store->file, data, (size_t)size) != size) {
    tn_free(&data);
    return hdf_fail("copy", "a file in memory");
  }
  pn_seal(data, (size_t)size, data + size);
  *bytes = data;
  *n = (size_t)size + PN_STORE_TRAILER;
  return TN_OK;
}

tn_status pn_store_save(pn_store *store, const char *path) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  TN_TRY(pn_store_bytes(store, &bytes, &n));
  tn_status status = pn_write_atomic(path, bytes, n);
  tn_free(&bytes);
  return status;
}
