/* weights.c: arrays of other programs: which format a file has, and what the readers of both share. */
#include "pinn/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/text.h"

enum { MOST_TENSORS = 4096 };
static const size_t LARGEST_FILE = (size_t)1 << 30;

void pn_tensor_shape_text(size_t rank, const size_t *extent, char text[120]) {
  size_t n = (size_t)snprintf(text, 120, rank ? "[" : "a number");
  for (size_t i = 0; i < rank && n < 90; ++i)
    n += (size_t)snprintf(text + n, 120 - n, "%s%zu", i ? ", " : "", extent[i]);
  if (rank)
    snprintf(text + n, 120 - n, "]");
}

void pn_tensors_free(pn_tensors *t) {
  for (size_t i = 0; t->list && i < t->n; ++i)
    tn_free(&t->list[i].data);
  tn_free(&t->list);
  tn_free(&t->file);
  t->n = 0;
}

tn_status pn_tensors_add(pn_tensors *t, const char *name, size_t name_length, size_t rank,
                         const size_t *extent, pn_tensor **out) {
  pn_tensor made = {.rank = rank, .count = 1};
  if (name_length >= PN_TENSOR_NAME || memchr(name, 0, name_length))
    return TN_FAIL(TN_EINPUT, "%s: the name of array %zu is not one", t->file, t->n + 1);
  memcpy(made.name, name, name_length);
  if (t->n == MOST_TENSORS)
    return TN_FAIL(TN_EINPUT, "%s: more than %d arrays", t->file, (int)MOST_TENSORS);
  for (size_t i = 0; i < t->n; ++i)
    if (strcmp(t->list[i].name, made.name) == 0)
      return TN_FAIL(TN_EINPUT, "%s: two arrays are called `%s`", t->file, made.name);
  for (size_t i = 0; i < rank; ++i) {
    made.extent[i] = extent[i];
    if (extent[i] && made.count > LARGEST_FILE / extent[i])
      return TN_FAIL(TN_EINPUT, "%s: `%s` claims more numbers than a file may hold", t->file,
                     made.name);
    made.count *= extent[i];
  }
  TN_TRY(tn_grow(&t->list, t->n, t->n + 1, sizeof *t->list));
  TN_TRY(TN_NEW(made.count, &made.data));
  t->list[t->n] = made;
  *out = &t->list[t->n++];
  return TN_OK;
}

static double half_of(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double mantissa = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent == 31)
    return mantissa != 0 ? NAN : sign * INFINITY;
  return exponent ? sign * ldexp(1024 + mantissa, exponent - 25) : sign * ldexp(mantissa, -24);
}

static double number_of(const pn_number_format *format, const uint8_t *at) {
  uint64_t bits = 0;
  for (size_t k = 0; k < format->size; ++k)
    bits |= (uint64_t)at[format->big ? format->size - 1 - k : k] << (8 * k);
  if (format->kind == 'f' && format->size == 2)
    return half_of((uint16_t)bits);
  if (format->size == 8) {
    double x = 0;
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  uint32_t word = (uint32_t)(format->kind == 'b' ? bits << 16 : bits);
  float x = 0;
  memcpy(&x, &word, sizeof x);
  return x;
}

tn_status pn_tensor_fill(const pn_tensors *t, pn_tensor *tensor, const pn_number_format *format,
                         const uint8_t *bytes) {
  for (size_t i = 0; i < tensor->count; ++i) {
    double x = number_of(format, bytes + i * format->size);
    if (!isfinite(x))
      return TN_FAIL(TN_EINPUT, "%s: entry %zu of `%s` is %s: such weights give no values", t->file, i,
                     tensor->name, isnan(x) ? "not a number" : "infinite");
    tensor->data[i] = x;
  }
  return TN_OK;
}

static tn_status read_any(const uint8_t *bytes, size_t n, pn_tensors *out) {
  static const uint8_t pickle[] = {0x80, 2}, hdf5[] = {0x89, 'H', 'D', 'F'};
  if (n >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
    return pn_npz_read(bytes, n, out);
  if (n >= 4 && (memcmp(bytes, pickle, 2) == 0 || memcmp(bytes, hdf5, 4) == 0))
    return TN_FAIL(TN_EINPUT,
                   "%s: %s; write the weights with safetensors.torch.save_file(net.state_dict(), "
                   "\"weights.safetensors\") or numpy.savez",
                   out->file,
                   bytes[0] == 0x80 ? "a pickle, which runs code when it is read"
                                    : "an HDF5 file that pinn did not write");
  return pn_safetensors_read(bytes, n, out);
}

tn_status pn_tensors_read_bytes(const char *name, const uint8_t *bytes, size_t n, pn_tensors *out) {
  *out = (pn_tensors){0};
  TN_TRY(tn_copy_text(name, &out->file));
  tn_status status = read_any(bytes, n, out);
  if (status != TN_OK)
    pn_tensors_free(out);
  return status;
}

tn_status pn_tensors_read(const char *path, pn_tensors *out) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  *out = (pn_tensors){0};
  TN_TRY(pn_read_file(path, LARGEST_FILE, &bytes, &n));
  tn_status status = pn_tensors_read_bytes(path, bytes, n, out);
  tn_free(&bytes);
  return status;
}
