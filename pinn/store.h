/* store.h: result files: named arrays and texts in HDF5, sealed by a checksum. Inside pinn/ only.
 *
 * The file is plain HDF5 (version 1.8 and later read it; so do h5py and MATLAB) followed by 64
 * bytes:
 *
 *    0  "PINNSUM1"
 *    8  version 1 and trailer size 64, 32 bits each
 *   16  bytes before the trailer, 64 bits
 *   24  checksum of these bytes, 2 x 64 bits
 *   40  16 zeros
 *   56  checksum of the 56 bytes before, 64 bits
 *
 * all little-endian. HDF5 readers ignore what follows their data. HDF5 is not called from two
 * threads at a time.
 */
#ifndef PINN_STORE_H
#define PINN_STORE_H

#include "tensor/tensor.h"

enum { PN_STORE_RANK = 6, PN_STORE_TRAILER = 64 };
#define PN_STORE_MAX ((size_t)1 << 36) /* bytes of a file that is read: 64 GiB */

typedef enum pn_store_kind {
  PN_STORE_F64,
  PN_STORE_F32,
  PN_STORE_I64,
  PN_STORE_U8,
  PN_STORE_TEXT
} pn_store_kind;

/* ---- Writing --------------------------------------------------------------------------------- */

/* A file in memory. Paths are names joined by '/', printable ASCII without spaces, "net/w0"; groups
 * on the way are made. A name can be written once (TN_EINPUT names it). The same calls in the same
 * order give the same bytes. */
typedef struct pn_store pn_store;
tn_status pn_store_new(pn_store **out) TN_MUST_USE;
void pn_store_free(pn_store **store);

tn_status pn_store_group(pn_store *store, const char *path) TN_MUST_USE;
/* Row-major arrays of rank 0..6; extents may be 0. */
tn_status pn_store_f64(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const double *x) TN_MUST_USE;
tn_status pn_store_f32(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const float *x) TN_MUST_USE;
tn_status pn_store_i64(pn_store *store, const char *path, size_t rank, const size_t *extents,
                       const int64_t *x) TN_MUST_USE;
tn_status pn_store_u8(pn_store *store, const char *path, size_t rank, const size_t *extents,
                      const uint8_t *x) TN_MUST_USE;
tn_status pn_store_number(pn_store *store, const char *path, double x) TN_MUST_USE;   /* rank 0 */
tn_status pn_store_integer(pn_store *store, const char *path, int64_t x) TN_MUST_USE; /* rank 0 */
/* UTF-8, of fixed length, padded with zeros: one, or a list of rank 1. */
tn_status pn_store_text(pn_store *store, const char *path, const char *text) TN_MUST_USE;
tn_status pn_store_texts(pn_store *store, const char *path, size_t count,
                         const char *const *texts) TN_MUST_USE;
/* A text attribute of what stands at path ("" or "/": the file itself). */
tn_status pn_store_attribute(pn_store *store, const char *path, const char *name,
                             const char *text) TN_MUST_USE;

/* The sealed file: written atomically (files.h), or as bytes for the caller, who owns them. More
 * can be stored and saved afterwards. HDF5 never touches the disk. */
tn_status pn_store_save(pn_store *store, const char *path) TN_MUST_USE;
tn_status pn_store_bytes(pn_store *store, uint8_t **bytes, size_t *n) TN_MUST_USE;

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads the file, checks length, trailer and checksum, and only then lets HDF5 see the bytes. A
 * file that is cut off, changed or no result file is TN_EINPUT; what the system refuses is
 * TN_EIO. */
typedef struct pn_stored pn_stored;
tn_status pn_stored_open(const char *path, pn_stored **out) TN_MUST_USE;
/* From bytes, copied; `name` stands for the file in error texts. */
tn_status pn_stored_open_bytes(const char *name, const uint8_t *bytes, size_t n,
                               pn_stored **out) TN_MUST_USE;
void pn_stored_free(pn_stored **stored);

bool pn_stored_has(pn_stored *stored, const char *path); /* a group or dataset */
tn_status pn_stored_shape(pn_stored *stored, const char *path, pn_store_kind *kind, size_t *rank,
                          size_t extents[PN_STORE_RANK]) TN_MUST_USE;
/* Names in a group ("" or "/": the file), sorted by bytes; free with pn_texts_free. */
tn_status pn_stored_list(pn_stored *stored, const char *path, size_t *count,
                         char ***names) TN_MUST_USE;

/* Into the caller's array. Kind, rank and extents must be as given; no conversion. A text like
 * "run.h5: `net/w0` is f32[3,4], expected f64[3,5]" with TN_EINPUT otherwise. */
tn_status pn_stored_f64(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        double *x) TN_MUST_USE;
tn_status pn_stored_f32(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        float *x) TN_MUST_USE;
tn_status pn_stored_i64(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                        int64_t *x) TN_MUST_USE;
tn_status pn_stored_u8(pn_stored *stored, const char *path, size_t rank, const size_t *extents,
                       uint8_t *x) TN_MUST_USE;
tn_status pn_stored_number(pn_stored *stored, const char *path, double *x) TN_MUST_USE;
tn_status pn_stored_integer(pn_stored *stored, const char *path, int64_t *x) TN_MUST_USE;
/* Into new memory (tn_free), with the extents found; the rank must be as given. */
tn_status pn_stored_f64_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], double **x) TN_MUST_USE;
tn_status pn_stored_f32_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], float **x) TN_MUST_USE;
tn_status pn_stored_i64_new(pn_stored *stored, const char *path, size_t rank,
                            size_t extents[PN_STORE_RANK], int64_t **x) TN_MUST_USE;
tn_status pn_stored_u8_new(pn_stored *stored, const char *path, size_t rank,
                           size_t extents[PN_STORE_RANK], uint8_t **x) TN_MUST_USE;
tn_status pn_stored_text(pn_stored *stored, const char *path, char **text) TN_MUST_USE;
tn_status pn_stored_texts(pn_stored *stored, const char *path, size_t *count,
                          char ***texts) TN_MUST_USE; /* free with pn_texts_free */
tn_status pn_stored_attribute(pn_stored *stored, const char *path, const char *name,
                              char **text) TN_MUST_USE;

void pn_texts_free(size_t count, char ***texts);

#endif
