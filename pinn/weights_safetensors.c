/* weights_safetensors.c: the safetensors format.
 *
 *   8 bytes   length h of the header, little endian
 *   h bytes   JSON: {"name": {"dtype": "F64", "shape": [20, 2], "data_offsets": [begin, end]}, "__metadata__": {...}}
 *   the rest  the numbers, row-major, little endian; offsets count from here
 *
 * The parser knows just as much JSON as this needs: objects, strings, arrays of whole numbers. Text in __metadata__
 * is passed over. Arrays may not overlap, and every byte behind the header belongs to one: a file with a hidden part
 * is refused, as the format asks.
 */
#include "pinn/weights.h"

#include <string.h>

enum { LARGEST_HEADER = 16 << 20 };

typedef struct reader {
  pn_tensors *out;
  const char *at, *end; /* of the header */
  const uint8_t *data;
  size_t n_data, used;
} reader;

typedef struct entry {
  char dtype[8];
  size_t rank, extent[PN_TENSOR_RANK];
  size_t begin, finish;
  bool has_type, has_shape, has_offsets;
} entry;

static tn_status bad(const reader *r, const char *what) {
  return TN_FAIL(TN_EINPUT, "%s: no safetensors file: %s", r->out->file, what);
}

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
    ++r->at;
}

static bool take(reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c)
    return false;
  ++r->at;
  return true;
}

/* A string without its quotes, as it stands; escapes are no part of names that can be meant. */
static tn_status take_string(reader *r, const char **text, size_t *length) {
  if (!take(r, '"'))
    return bad(r, "the header is not the JSON that it should be");
  *text = r->at;
  while (r->at < r->end && *r->at != '"') {
    if (*r->at == '\\' && r->at + 1 < r->end)
      ++r->at;
    ++r->at;
  }
  if (r->at >= r->end)
    return bad(r, "a text of the header does not end");
  *length = (size_t)(r->at - *text);
  ++r->at;
  return TN_OK;
}

static tn_status take_number(reader *r, size_t *out) {
  skip_space(r);
  const char *start = r->at;
  size_t value = 0;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
    if (value > (SIZE_MAX - 9) / 10)
      return bad(r, "a number of the header is too large");
    value = value * 10 + (size_t)(*r->at++ - '0');
  }
  if (r->at == start)
    return bad(r, "the header has no whole number where one belongs");
  *out = value;
  return TN_OK;
}

static tn_status take_numbers(reader *r, size_t most, size_t *n, size_t *out) {
  *n = 0;
  if (!take(r, '['))
    return bad(r, "the header has no list where one belongs");
  if (take(r, ']'))
    return TN_OK;
  do {
    if (*n == most)
      return bad(r, "a shape of too many dimensions");
    TN_TRY(take_number(r, &out[(*n)++]));
  } while (take(r, ','));
  return take(r, ']') ? TN_OK : bad(r, "a list of the header does not end");
}

/* {"key": "text", ...} */
static tn_status skip_metadata(reader *r) {
  const char *text = NULL;
  size_t length = 0;
  if (!take(r, '{'))
    return bad(r, "__metadata__ is no object");
  if (take(r, '}'))
    return TN_OK;
  do {
    TN_TRY(take_string(r, &text, &length));
    if (!take(r, ':'))
      return bad(r, "__metadata__ is no object");
    TN_TRY(take_string(r, &text, &length));
  } while (take(r, ','));
  return take(r, '}') ? TN_OK : bad(r, "__metadata__ does not end");
}

static bool is(const char *text, size_t length, const char *word) {
  return strlen(word) == length && memcmp(text, word, length) == 0;
}

static tn_status take_member(reader *r, entry *e) {
  const char *key = NULL, *text = NULL;
  size_t length = 0, n = 0, offsets[2] = {0, 0};
  TN_TRY(take_string(r, &key, &length));
  if (!take(r, ':'))
    return bad(r, "an entry of the header is no object");
  if (is(key, length, "dtype")) {
    TN_TRY(take_string(r, &text, &length));
    if (length >= sizeof e->dtype)
      return bad(r, "a dtype of that name does not exist");
    memcpy(e->dtype, text, length);
    e->dtype[length] = 0;
    e->has_type = true;
  } else if (is(key, length, "shape")) {
    TN_TRY(take_numbers(r, PN_TENSOR_RANK, &e->rank, e->extent));
    e->has_shape = true;
  } else if (is(key, length, "data_offsets")) {
    TN_TRY(take_numbers(r, 2, &n, offsets));
    if (n != 2)
      return bad(r, "data_offsets are not two numbers");
    e->begin = offsets[0];
    e->finish = offsets[1];
    e->has_offsets = true;
  } else {
    return bad(r, "an entry of the header has a key that the format does not know");
  }
  return TN_OK;
}

static tn_status take_entry(reader *r, entry *e) {
  *e = (entry){.rank = 0};
  if (!take(r, '{'))
    return bad(r, "an entry of the header is no object");
  do
    TN_TRY(take_member(r, e));
  while (take(r, ','));
  if (!take(r, '}'))
    return bad(r, "an entry of the header does not end");
  if (!e->has_type || !e->has_shape || !e->has_offsets)
    return bad(r, "an entry of the header lacks dtype, shape or data_offsets");
  return TN_OK;
}

static bool format_of(const char *dtype, pn_number_format *format) {
  static const struct {
    const char *name;
    pn_number_format format;
  } rows[] = {{"F64", {'f', 8, false}},
              {"F32", {'f', 4, false}},
              {"F16", {'f', 2, false}},
              {"BF16", {'b', 2, false}}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i)
    if (strcmp(rows[i].name, dtype) == 0) {
      *format = rows[i].format;
      return true;
    }
  return false;
}

static tn_status add(reader *r, const char *name, size_t length, const entry *e) {
  const char *file = r->out->file;
  pn_number_format format;
  pn_tensor *tensor = NULL;
  int width = length > 80 ? 80 : (int)length;
  size_t count = 1;
  if (!format_of(e->dtype, &format))
    return TN_FAIL(TN_EINPUT, "%s: `%.*s` is of %s; weights are F64, F32, F16 or BF16", file, width,
                   name, e->dtype);
  if (e->begin > e->finish || e->finish > r->n_data)
    return TN_FAIL(TN_EINPUT, "%s: `%.*s` stands at bytes %zu to %zu of %zu: the file is cut off or damaged",
                   file, width, name, e->begin, e->finish, r->n_data);
  for (size_t i = 0; i < e->rank; ++i) {
    if (e->extent[i] && count > r->n_data / e->extent[i])
      return TN_FAIL(TN_EINPUT, "%s: `%.*s` claims more numbers than the file has bytes", file, width,
                     name);
    count *= e->extent[i];
  }
  if ((e->finish - e->begin) / format.size != count || (e->finish - e->begin) % format.size)
    return TN_FAIL(TN_EINPUT, "%s: `%.*s` has %zu bytes for %zu numbers of %s", file, width, name,
                   e->finish - e->begin, count, e->dtype);
  TN_TRY(pn_tensors_add(r->out, name, length, e->rank, e->extent, &tensor));
  r->used += e->finish - e->begin;
  return pn_tensor_fill(r->out, tensor, &format, r->data + e->begin);
}

static tn_status read_entries(reader *r) {
  if (!take(r, '{'))
    return bad(r, "the header is not JSON");
  if (take(r, '}'))
    return bad(r, "it holds no arrays");
  do {
    const char *name = NULL;
    size_t length = 0;
    entry e = {0};
    TN_TRY(take_string(r, &name, &length));
    if (!take(r, ':'))
      return bad(r, "the header is not the JSON that it should be");
    if (is(name, length, "__metadata__")) {
      TN_TRY(skip_metadata(r));
      continue;
    }
    TN_TRY(take_entry(r, &e));
    TN_TRY(add(r, name, length, &e));
  } while (take(r, ','));
  if (!take(r, '}'))
    return bad(r, "the header does not end");
  skip_space(r);
  return r->at == r->end ? TN_OK : bad(r, "something stands behind the header");
}

tn_status pn_safetensors_read(const uint8_t *bytes, size_t n, pn_tensors *out) {
  reader r = {.out = out};
  uint64_t header = 0;
  for (size_t k = 0; k < 8 && n >= 8; ++k)
    header |= (uint64_t)bytes[k] << (8 * k);
  if (n < 10 || header < 2 || bytes[8] != '{')
    return TN_FAIL(TN_EINPUT, "%s: neither a safetensors file nor an npz file", out->file);
  if (header > LARGEST_HEADER || header > n - 8)
    return TN_FAIL(TN_EINPUT, "%s: the header claims %llu bytes of a file of %zu: it is cut off or damaged",
                   out->file, (unsigned long long)header, n);
  r.at = (const char *)bytes + 8;
  r.end = r.at + header;
  r.data = bytes + 8 + header;
  r.n_data = n - 8 - (size_t)header;
  TN_TRY(read_entries(&r));
  if (r.used != r.n_data)
    return TN_FAIL(TN_EINPUT, "%s: %zu bytes of numbers, of which the header names %zu", out->file,
                   r.n_data, r.used);
  return TN_OK;
}
