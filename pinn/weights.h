/* weights.h: named arrays of numbers from files of other programs. Inside pinn/ only.
 *
 * What comes in is foreign: every length is compared with the size of the file before anything is allocated, and
 * every number must be finite. Numbers are widened to f64 without rounding (f64, f32, f16, bf16).
 */
#ifndef PINN_WEIGHTS_H
#define PINN_WEIGHTS_H

#include "tensor/tensor.h"

enum { PN_TENSOR_RANK = 8, PN_TENSOR_NAME = 200 };

typedef struct pn_tensor {
  char name[PN_TENSOR_NAME]; /* "linears.0.weight" */
  size_t rank, extent[PN_TENSOR_RANK];
  size_t count;
  double *data; /* owned; row-major */
} pn_tensor;

typedef struct pn_tensors {
  char *file; /* owned; for errors */
  size_t n;
  pn_tensor *list; /* in the order of the file */
} pn_tensors;

/* By what the file is, not by its name: safetensors or npz. TN_EINPUT says what is wrong with it and where. */
tn_status pn_tensors_read(const char *path, pn_tensors *out) TN_MUST_USE;
tn_status pn_tensors_read_bytes(const char *name, const uint8_t *bytes, size_t n,
                                pn_tensors *out) TN_MUST_USE;
void pn_tensors_free(pn_tensors *tensors);
/* "[20, 3]", "a number". */
void pn_tensor_shape_text(size_t rank, const size_t *extent, char text[120]);

/* ---- For the readers ---------------------------------------------------------------------------- */

/* Number formats of both kinds of files, little endian unless `big`. */
typedef struct pn_number_format {
  char kind; /* 'f' IEEE of 2, 4, 8 bytes; 'b' bf16 */
  size_t size;
  bool big;
} pn_number_format;

/* Appends a tensor with zeroed data. Names are unique. */
tn_status pn_tensors_add(pn_tensors *tensors, const char *name, size_t name_length, size_t rank,
                         const size_t *extent, pn_tensor **out) TN_MUST_USE;
/* Widens count numbers; a NaN or an infinity is TN_EINPUT. */
tn_status pn_tensor_fill(const pn_tensors *tensors, pn_tensor *tensor, const pn_number_format *format,
                         const uint8_t *bytes) TN_MUST_USE;
tn_status pn_safetensors_read(const uint8_t *bytes, size_t n, pn_tensors *out) TN_MUST_USE;
tn_status pn_npz_read(const uint8_t *bytes, size_t n, pn_tensors *out) TN_MUST_USE;

#endif
