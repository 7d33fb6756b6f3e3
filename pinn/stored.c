/* stored.c: reading result files (declared in store.h).
 *
 * The whole file comes into memory, its checksum is verified, and HDF5 opens the bytes where they
 * are (a core file whose image callbacks hand out our block instead of a copy): HDF5 sees neither
 * the disk nor damaged bytes. What is read is still treated as foreign, because a checksum does not
 * say who made it: only contiguous or compact datasets of the five kinds are accepted, ranks up to
 * 6, no links to other places, and a dataset cannot claim more bytes than the file has, which
 * bounds every allocation.
 */
#include "pinn/store.h"

#define H5_USE_110_API /* later versions map the same names to other signatures otherwise */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/store_seal.h"
#include "pinn/text.h"

struct pn_stored {
  char *name;     /* of the file, for errors */
  uint8_t *bytes; /* the file; HDF5 reads from here until it is closed */
  size_t n;       /* bytes without the trailer */
  hid_t file;
};

/* A dataset that has been looked at. */
typedef struct {
  hid_t set;
  hid_t type; /* in the file */
  pn_store_kind kind;
  size_t rank, extents[PN_STORE_RANK];
  size_t count; /* elements */
  size_t size;  /* bytes of one, in the file and here */
} dataset;

static const char *const kind_names[] = {"f64", "f32", "i64", "u8", "text"};

/* ---- Life ------------------------------------------------------------------------------------ */

void pn_stored_free(pn_stored **stored) {
  pn_stored *s = *stored;
  if (!s)
    return;
  if (s->file > 0)
    H5Fclose(s->file);
  tn_free(&s->bytes);
  tn_free(&s->name);
  tn_free(stored);
}

/* HDF5 asks for memory for its copies of the image: each "copy" is the block itself, which is only
 * read and which pn_stored_free frees. */
static void *image_malloc(size_t size, H5FD_file_image_op_t op, void *stored) {
  (void)op;
  pn_stored *s = stored;
  return size == s->n ? s->bytes : NULL;
}

static void *image_copy(void *to, const void *from, size_t size, H5FD_file_image_op_t op,
                        void *stored) {
  (void)from, (void)op;
  pn_stored *s = stored;
  return to == s->bytes && size == s->n ? to : NULL;
}

static void *image_grow(void *block, size_t size, H5FD_file_image_op_t op, void *stored) {
  (void)block, (void)size, (void)op, (void)stored;
  return NULL; /* the file is open for reading */
}

static herr_t image_free(void *block, H5FD_file_image_op_t op, void *stored) {
  (void)block, (void)op, (void)stored;
  return 0;
}

static void *same_stored(void *stored) { return stored; }

static herr_t keep_stored(void *stored) {
  (void)stored;
  return 0;
}

static hid_t open_in_place(pn_stored *s) {
  H5FD_file_image_callbacks_t callbacks = {image_malloc, image_copy,  image_grow, image_free,
                                           same_stored,  keep_stored, s};
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
  char name[48]; /* HDF5 takes two open files of one name for the same */
  snprintf(name, sizeof name, "pinn-memory-%p", (void *)s);
  if (access < 0)
    return -1;
  if (H5Pset_fapl_core(access, 1 << 20, 0) >= 0 &&
      H5Pset_file_image_callbacks(access, &callbacks) >= 0 &&
      H5Pset_file_image(access, s->bytes, s->n) >= 0)
    file = H5Fopen(name, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

/* Takes over *bytes. */
static tn_status open_image(const char *name, uint8_t **bytes, size_t n, pn_stored **out) {
  pn_stored *s = NULL;
  tn_status status = pn_seal_check(name, *bytes, n);
  if (status == TN_OK)
    status = TN_NEW(1, &s);
  if (status == TN_OK)
    status = tn_copy_text(name, &s->name);
  if (status != TN_OK) {
    tn_free(bytes);
    pn_stored_free(&s);
    return status;
  }
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* HDF5 prints its errors otherwise */
  s->bytes = *bytes;
  s->n = n - PN_STORE_TRAILER;
  *bytes = NULL;
  s->file = open_in_place(s);
  if (s->file < 0) {
    pn_stored_free(&s);
    return TN_FAIL(TN_EINPUT, "%s: the checksum fits, but HDF5 cannot open the content", name);
  }
  *out = s;
  return TN_OK;
}

tn_status pn_stored_open(const char *path, pn_stored **out) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  TN_TRY(pn_read_file(path, PN_STORE_MAX, &bytes, &n));
  return open_image(path, &bytes, n, out);
}

tn_status pn_stored_open_bytes(const char *name, const uint8_t *bytes, size_t n, pn_stored **out) {
  uint8_t *copy = NULL;
  TN_TRY(tn_new(n, 1, &copy));
  if (n)
    memcpy(copy, bytes, n);
  return open_image(name, &copy, n, out);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static const char *or_root(const char *path) { return path[0] ? path : "/"; }

/* H5Lexists wants each step of the way to exist. */
bool pn_stored_has(pn_stored *stored, const char *path) {
  char prefix[1024];
  const char *at = or_root(path);
  if (!strcmp(at, "/"))
    return true;
  for (size_t i = 1; i < sizeof prefix; ++i) {
    if (at[i] && at[i] != '/')
      continue;
    memcpy(prefix, at, i);
    prefix[i] = 0;
    if (H5Lexists(stored->file, prefix, H5P_DEFAULT) <= 0)
      return false;
    if (H5Oexists_by_name(stored->file, prefix, H5P_DEFAULT) <= 0)
      return false;
    if (!at[i])
      return true;
  }
  return false;
}

static void close_dataset(dataset *d) {
  if (d->type > 0)
    H5Tclose(d->type);
  if (d->set > 0)
    H5Dclose(d->set);
}

static bool kind_of(hid_t type, pn_store_kind *kind) {
  static const pn_store_kind numbers[] = {PN_STORE_F64, PN_STORE_F32, PN_STORE_I64, PN_STORE_U8};
  const hid_t types[] = {H5T_IEEE_F64LE, H5T_IEEE_F32LE, H5T_STD_I64LE, H5T_STD_U8LE};
  for (size_t i = 0; i < 4; ++i)
    if (H5Tequal(type, types[i]) > 0) {
      *kind = numbers[i];
      return true;
    }
  *kind = PN_STORE_TEXT;
  return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
}

static tn_status look_at_shape(pn_stored *s, const char *path, dataset *d) {
  hsize_t dims[PN_STORE_RANK] = {0};
  hid_t space = H5Dget_space(d->set);
  int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  tn_status status = TN_OK;
  if (rank < 0 || rank > PN_STORE_RANK)
    status = TN_FAIL(TN_EINPUT, "%s: `%s` has rank %d, expected at most %d", s->name, path, rank,
                     PN_STORE_RANK);
  else if (rank > 0 && H5Sget_simple_extent_dims(space, dims, NULL) != rank)
    status = TN_FAIL(TN_EINPUT, "%s: the shape of `%s` cannot be read", s->name, path);
  if (status == TN_OK && H5Sget_simple_extent_type(space) == H5S_NULL)
    status = TN_FAIL(TN_EINPUT, "%s: `%s` holds nothing", s->name, path);
  if (space >= 0)
    H5Sclose(space);
  TN_TRY(status);
  d->rank = (size_t)rank;
  d->count = 1;
  for (size_t i = 0; i < d->rank; ++i) {
    if (dims[i] && d->count > s->n / dims[i])
      return TN_FAIL(TN_EINPUT, "%s: `%s` claims more entries than the file has bytes (%zu)",
                     s->name, path, s->n);
    d->extents[i] = (size_t)dims[i];
    d->count *= (size_t)dims[i];
  }
  if (d->count > s->n / d->size)
    return TN_FAIL(TN_EINPUT, "%s: `%s` claims %zu entries of %zu bytes in a file of %zu", s->name,
                   path, d->count, d->size, s->n);
  return TN_OK;
}

/* Compact or contiguous data inside the file: nothing to decode and no other file named. */
static bool plain_layout(hid_t set) {
  hid_t list = H5Dget_create_plist(set);
  if (list < 0)
    return false;
  H5D_layout_t layout = H5Pget_layout(list);
  bool plain = (layout == H5D_CONTIGUOUS || layout == H5D_COMPACT) &&
               H5Pget_external_count(list) == 0 && H5Pget_nfilters(list) == 0;
  H5Pclose(list);
  return plain;
}

/* Links to other files are refused, here and on the way. */
static bool hard_links(pn_stored *s, const char *path) {
  char prefix[1024];
  for (size_t i = 1; i < sizeof prefix; ++i) {
    if (path[i] && path[i] != '/')
      continue;
    H5L_info_t info;
    memcpy(prefix, path, i);
    prefix[i] = 0;
    if (H5Lget_info(s->file, prefix, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD)
      return false;
    if (!path[i])
      return true;
  }
  return false;
}

static tn_status look(pn_stored *s, const char *path, dataset *d) {
  *d = (dataset){.set = -1, .type = -1};
  if (!path[0] || path[0] == '/' || !hard_links(s, path))
    return TN_FAIL(TN_EINPUT, "%s: there is no `%s` in the file", s->name, path);
  d->set = H5Dopen2(s->file, path, H5P_DEFAULT);
  if (d->set < 0)
    return TN_FAIL(TN_EINPUT, "%s: `%s` is no dataset", s->name, path);
  d->type = H5Dget_type(d->set);
  tn_status status = TN_OK;
  if (d->type < 0 || !kind_of(d->type, &d->kind) || !plain_layout(d->set))
    status =
        TN_FAIL(TN_EINPUT, "%s: `%s` has a type or layout that pinn does not write", s->name, path);
  else if (!(d->size = H5Tget_size(d->type)))
    status = TN_FAIL(TN_EINPUT, "%s: `%s` has entries of no size", s->name, path);
  else
    status = look_at_shape(s, path, d);
  if (status != TN_OK)
    close_dataset(d);
  return status;
}

tn_status pn_stored_shape(pn_stored *stored, const char *path, pn_store_kind *kind, size_t *rank,
                          size_t extents[PN_STORE_RANK]) {
  dataset d;
  TN_TRY(look(stored, path, &d));
  *kind = d.kind;
  *rank = d.rank;
  memcpy(extents, d.extents, sizeof d.extents);
  close_dataset(&d);
  return TN_OK;
}

static void put_shape(pn_text *w, pn_store_kind kind, size_t rank, const size_t *extents) {
  pn_put(w, kind_names[kind]);
  for (size_t i = 0; i < rank; ++i) {
    pn_put(w, i ? "," : "[");
    if (extents)
      pn_putf(w, "%zu", extents[i]);
    else
      pn_put(w, "*");
  }
  if (rank)
    pn_put(w, "]");
}

/* TN_OK if d is of this kind and shape (extents NULL: any). */
static tn_status expect(pn_stored *s, const char *path, const dataset *d, pn_store_kind kind,
                        size_t rank, const size_t *extents) {
  bool same = d->kind == kind && d->rank == rank;
  for (size_t i = 0; same && extents && i < rank; ++i)
    same = d->extents[i] == extents[i];
  if (same)
    return TN_OK;
  pn_text w = {0};
  put_shape(&w, d->kind, d->rank, d->extents);
  pn_put(&w, ", expected ");
  put_shape(&w, kind, rank, extents);
  tn_status status = pn_text_status(&w);
  if (status == TN_OK)
    status = TN_FAIL(TN_EINPUT, "%s: `%s` is %s", s->name, path, w.text);
  pn_text_free(&w);
  return status;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static hid_t memory_type(pn_store_kind kind) {
  switch (kind) {
  case PN_STORE_F64:
    return H5T_NATIVE_DOUBLE;
  case PN_STORE_F32:
    return H5T_NATIVE_FLOAT;
  case PN_STORE_I64:
    return H5T_NATIVE_INT64;
  default:
    return H5T_NATIVE_UINT8;
  }
}

static tn_status read_data(pn_stored *s, const char *path, const dataset *d, hid_t type,
                           void *out) {
  if (!d->count || H5Dread(d->set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0)
    return TN_OK;
  return TN_FAIL(TN_EINPUT, "%s: HDF5 cannot read `%s`", s->name, path);
}

static tn_status get(pn_stored *s, const char *path, pn_store_kind kind, size_t rank,
                     const size_t *extents, void *out) {
  dataset d;
  TN_TRY(look(s, path, &d));
  tn_status status = expect(s, path, &d, kind, rank, extents);
  if (status == TN_OK)
    status = read_data(s, path, &d, memory_type(kind), out);
  close_dataset(&d);
  return status;
}

/* *out is a pointer to a pointer of the kind's type. */
static tn_status get_new(pn_stored *s, const char *path, pn_store_kind kind, size_t rank,
                         size_t extents[PN_STORE_RANK], void *out) {
  dataset d;
  void *block = NULL;
  TN_TRY(look(s, path, &d));
  tn_status status = expect(s, path, &d, kind, rank, NULL);
  if (status == TN_OK)
    status = tn_new(d.count, d.size, &block);
  if (status == TN_OK)
    status = read_data(s, path, &d, memory_type(kind), block);
  close_dataset(&d);
  if (status != TN_OK) {
    tn_free(&block);
    return status;
  }
  memcpy(extents, d.extents, rank * sizeof *extents);
  memcpy(out, &block, sizeof block);
  return TN_OK;
}

tn_status pn_stored_f64(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        double *x) {
  return get(stored, path, PN_STORE_F64, rank, extents, x);
}
tn_status pn_stored_f32(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        float *x) {
  return get(stored, path, PN_STORE_F32, rank, extents, x);
}
tn_status pn_stored_i64(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        int64_t *x) {
  return get(stored, path, PN_STORE_I64, rank, extents, x);
}
tn_status pn_stored_u8(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                       uint8_t *x) {
  return get(stored, path, PN_STORE_U8, rank, extents, x);
}
tn_status pn_stored_number(pn_stored *stored, const char *path, double *x) {
  return get(stored, path, PN_STORE_F64, 0, NULL, x);
}
tn_status pn_stored_integer(pn_stored *stored, const char *path, int64_t *x) {
  return get(stored, path, PN_STORE_I64, 0, NULL, x);
}
tn_status pn_stored_f64_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], double **x) {
  return get_new(stored, path, PN_STORE_F64, rank, extents, x);
}
tn_status pn_stored_f32_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], float **x) {
  return get_new(stored, path, PN_STORE_F32, rank, extents, x);
}
tn_status pn_stored_i64_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], int64_t **x) {
  return get_new(stored, path, PN_STORE_I64, rank, extents, x);
}
tn_status pn_stored_u8_new(pn_stored *stored, const char *path, size_t rank,
                           size_t extents[PN_STORE_RANK], uint8_t **x) {
  return get_new(stored, path, PN_STORE_U8, rank, extents, x);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

void pn_texts_free(size_t count, char ***texts) {
  if (!*texts)
    return;
  for (size_t i = 0; i < count; ++i)
    tn_free(&(*texts)[i]);
  tn_free(texts);
}

/* Cuts `count` texts of `size` bytes apart. */
static tn_status split(size_t count, size_t size, const char *block, char ***out) {
  char **texts = NULL;
  TN_TRY(TN_NEW(count, &texts));
  for (size_t i = 0; i < count; ++i) {
    const char *end = memchr(block + i * size, 0, size);
    size_t n = end ? (size_t)(end - (block + i * size)) : size;
    tn_status status = tn_new(n + 1, 1, &texts[i]);
    if (status != TN_OK) {
      pn_texts_free(i, &texts);
      return status;
    }
    memcpy(texts[i], block + i * size, n);
  }
  *out = texts;
  return TN_OK;
}

static tn_status get_texts(pn_stored *s, const char *path, size_t rank, size_t *count,
                           char ***texts) {
  dataset d;
  char *block = NULL;
  TN_TRY(look(s, path, &d));
  tn_status status = expect(s, path, &d, PN_STORE_TEXT, rank, NULL);
  if (status == TN_OK)
    status = tn_new(d.count, d.size, &block);
  if (status == TN_OK)
    status = read_data(s, path, &d, d.type, block);
  if (status == TN_OK)
    status = split(d.count, d.size, block, texts);
  if (status == TN_OK)
    *count = d.count;
  tn_free(&block);
  close_dataset(&d);
  return status;
}

tn_status pn_stored_texts(pn_stored *stored, const char *path, size_t *count, char ***texts) {
  return get_texts(stored, path, 1, count, texts);
}

tn_status pn_stored_text(pn_stored *stored, const char *path, char **text) {
  size_t count = 0;
  char **texts = NULL;
  TN_TRY(get_texts(stored, path, 0, &count, &texts));
  *text = texts[0];
  tn_free(&texts);
  return TN_OK;
}

static tn_status read_attribute(pn_stored *s, const char *where, const char *name, hid_t attribute,
                                char **text) {
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  size_t size = type < 0 ? 0 : H5Tget_size(type);
  pn_store_kind kind = PN_STORE_F64;
  char *block = NULL;
  tn_status status = TN_OK;
  if (type < 0 || space < 0 || !size || size > s->n || !kind_of(type, &kind) ||
      kind != PN_STORE_TEXT || H5Sget_simple_extent_type(space) != H5S_SCALAR)
    status =
        TN_FAIL(TN_EINPUT, "%s: attribute `%s` of `%s` is no single text", s->name, name, where);
  if (status == TN_OK)
    status = tn_new(size + 1, 1, &block);
  if (status == TN_OK && H5Aread(attribute, type, block) < 0)
    status =
        TN_FAIL(TN_EINPUT, "%s: HDF5 cannot read attribute `%s` of `%s`", s->name, name, where);
  if (status == TN_OK)
    *text = block;
  else
    tn_free(&block);
  if (space >= 0)
    H5Sclose(space);
  if (type >= 0)
    H5Tclose(type);
  return status;
}

tn_status pn_stored_attribute(pn_stored *stored, const char *path, const char *name, char **text) {
  const char *where = or_root(path);
  hid_t attribute = -1;
  if (!strcmp(where, "/") || hard_links(stored, where))
    attribute = H5Aopen_by_name(stored->file, where, name, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute < 0)
    return TN_FAIL(TN_EINPUT, "%s: there is no attribute `%s` of `%s`", stored->name, name, where);
  tn_status status = read_attribute(stored, where, name, attribute, text);
  H5Aclose(attribute);
  return status;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

typedef struct {
  size_t count;
  char **names;
  tn_status status;
} name_list;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *out) {
  name_list *list = out;
  (void)group;
  (void)info;
  list->status = list->names
                     ? tn_grow(&list->names, list->count, list->count + 1, sizeof *list->names)
                     : TN_NEW(1, &list->names);
  if (list->status == TN_OK)
    list->status = tn_copy_text(name, &list->names[list->count]);
  if (list->status == TN_OK)
    ++list->count;
  return list->status == TN_OK ? 0 : -1;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

tn_status pn_stored_list(pn_stored *stored, const char *path, size_t *count, char ***names) {
  const char *where = or_root(path);
  name_list list = {0};
  hid_t group = -1;
  if (!strcmp(where, "/") || hard_links(stored, where))
    group = H5Gopen2(stored->file, where, H5P_DEFAULT);
  if (group < 0)
    return TN_FAIL(TN_EINPUT, "%s: there is no group `%s`", stored->name, where);
  herr_t walked = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, add_name, &list);
  H5Gclose(group);
  if (walked < 0 && list.status == TN_OK)
    list.status = TN_FAIL(TN_EINPUT, "%s: HDF5 cannot list `%s`", stored->name, where);
  if (list.status == TN_OK && !list.names)
    list.status = TN_NEW(0, &list.names);
  if (list.status != TN_OK) {
    pn_texts_free(list.count, &list.names);
    return list.status;
  }
  if (list.count)
    qsort(list.names, list.count, sizeof *list.names, by_bytes);
  *count = list.count;
  *names = list.names;
  return TN_OK;
}
