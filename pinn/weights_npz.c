/* weights_npz.c: npz files, which are zip archives of .npy arrays.
 *
 *   zip   ... entries ... central directory (a record each: method, sizes, crc, name, place) ... end record
 *   npy   "\x93NUMPY", version, length of the header, header as a Python literal
 *         {'descr': '<f8', 'fortran_order': False, 'shape': (20, 2), }, numbers
 *
 * The central directory is what counts; the header before an entry only says where its bytes begin. Entries are stored
 * or deflated (zlib). An entry may not claim more than deflate can give (1032 times its bytes), all entries together no
 * more than a gibibyte, and each must give exactly the length and checksum that the directory has: a bomb is refused
 * before it is unpacked.
 */
#include "pinn/weights.h"

#include <string.h>

#include <zlib.h>

enum { MOST_ENTRIES = 4096, END_RECORD = 22, CENTRAL = 46, LOCAL = 30, DEFLATE_MOST = 1032 };
static const size_t LARGEST = (size_t)1 << 30; /* bytes of all entries */

typedef struct entry {
  const char *name;
  size_t name_length, packed, size, offset;
  unsigned method, flags;
  uint32_t crc;
} entry;

static uint32_t get(const uint8_t *at, size_t n) {
  uint32_t x = 0;
  for (size_t k = 0; k < n; ++k)
    x |= (uint32_t)at[k] << (8 * k);
  return x;
}

static tn_status damaged(const pn_tensors *out, const char *what) {
  return TN_FAIL(TN_EINPUT, "%s: no npz file that can be read: %s", out->file, what);
}

/* ---- npy ---------------------------------------------------------------------------------------- */

typedef struct literal {
  const char *at, *end;
} literal;

static void skip(literal *l) {
  while (l->at < l->end && (*l->at == ' ' || *l->at == '\n'))
    ++l->at;
}

static bool take(literal *l, const char *word) {
  size_t n = strlen(word);
  skip(l);
  if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n) != 0)
    return false;
  l->at += n;
  return true;
}

/* (20, 2), (20,) or (). */
static bool take_shape(literal *l, size_t *rank, size_t *extent) {
  *rank = 0;
  if (!take(l, "("))
    return false;
  while (!take(l, ")")) {
    size_t value = 0;
    skip(l);
    const char *start = l->at;
    while (l->at < l->end && *l->at >= '0' && *l->at <= '9' && value < SIZE_MAX / 16)
      value = value * 10 + (size_t)(*l->at++ - '0');
    if (l->at == start || *rank == PN_TENSOR_RANK)
      return false;
    extent[(*rank)++] = value;
    if (!take(l, ",")) {
      if (!take(l, ")"))
        return false;
      return true;
    }
  }
  return true;
}

/* '<f8' */
static bool take_format(literal *l, pn_number_format *format, char text[8]) {
  size_t n = 0;
  if (!take(l, "'"))
    return false;
  while (l->at < l->end && *l->at != '\'' && n < 7)
    text[n++] = *l->at++;
  text[n] = 0;
  if (!take(l, "'"))
    return false;
  *format = (pn_number_format){.kind = 0};
  if (n == 3 && (text[0] == '<' || text[0] == '>') && text[1] == 'f' && strchr("248", text[2]))
    *format = (pn_number_format){'f', (size_t)(text[2] - '0'), text[0] == '>'};
  return true;
}

typedef struct npy {
  pn_number_format format;
  char format_text[8];
  bool fortran;
  size_t rank, extent[PN_TENSOR_RANK], start; /* of the numbers */
} npy;

static bool parse_header(literal *l, npy *a) {
  int seen = 0;
  if (!take(l, "{"))
    return false;
  while (!take(l, "}")) {
    if (take(l, "'descr':")) {
      seen |= 1;
      if (!take_format(l, &a->format, a->format_text))
        return false;
    } else if (take(l, "'fortran_order':")) {
      seen |= 2;
      a->fortran = take(l, "True");
      if (!a->fortran && !take(l, "False"))
        return false;
    } else if (take(l, "'shape':")) {
      seen |= 4;
      if (!take_shape(l, &a->rank, a->extent))
        return false;
    } else {
      return false;
    }
    (void)take(l, ",");
  }
  return seen == 7;
}

static tn_status open_npy(const pn_tensors *out, const char *name, const uint8_t *bytes, size_t n,
                          npy *a) {
  static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (n < 12 || memcmp(bytes, magic, sizeof magic) != 0 || bytes[6] < 1 || bytes[6] > 3)
    return TN_FAIL(TN_EINPUT, "%s: `%s` is no .npy array of version 1, 2 or 3", out->file, name);
  size_t length = bytes[6] == 1 ? get(bytes + 8, 2) : get(bytes + 8, 4);
  size_t first = bytes[6] == 1 ? 10 : 12;
  if (length > n - first)
    return TN_FAIL(TN_EINPUT, "%s: the header of `%s` claims %zu bytes of %zu", out->file, name, length,
                   n - first);
  literal l = {(const char *)bytes + first, (const char *)bytes + first + length};
  if (!parse_header(&l, a))
    return TN_FAIL(TN_EINPUT, "%s: the header of `%s` is not that of a plain array", out->file, name);
  a->start = first + length;
  if (!a->format.kind)
    return TN_FAIL(TN_EINPUT, "%s: `%s` is of %s; weights are f8, f4 or f2", out->file, name,
                   a->format_text);
  size_t count = 1;
  for (size_t i = 0; i < a->rank; ++i) {
    if (a->extent[i] && count > n / a->extent[i])
      return TN_FAIL(TN_EINPUT, "%s: `%s` claims more numbers than it has bytes", out->file, name);
    count *= a->extent[i];
  }
  if ((n - a->start) / a->format.size != count || (n - a->start) % a->format.size)
    return TN_FAIL(TN_EINPUT, "%s: `%s` has %zu bytes for %zu numbers of %s", out->file, name,
                   n - a->start, count, a->format_text);
  return TN_OK;
}

/* Column-major numbers of a matrix, put in rows. */
static tn_status to_rows(pn_tensor *t) {
  size_t rows = t->extent[0], columns = t->extent[1];
  double *copy = NULL;
  TN_TRY(TN_NEW(t->count, &copy));
  memcpy(copy, t->data, t->count * sizeof *copy);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      t->data[i * columns + j] = copy[j * rows + i];
  tn_free(&copy);
  return TN_OK;
}

static tn_status read_npy(pn_tensors *out, const entry *e, const uint8_t *bytes, size_t n) {
  char name[PN_TENSOR_NAME] = "";
  npy a = {.rank = 0};
  pn_tensor *tensor = NULL;
  size_t length = e->name_length - 4;
  memcpy(name, e->name, length < sizeof name ? length : sizeof name - 1);
  TN_TRY(open_npy(out, name, bytes, n, &a));
  if (a.fortran && a.rank > 2)
    return TN_FAIL(TN_EINPUT, "%s: `%s` is a column-major array of rank %zu", out->file, name, a.rank);
  TN_TRY(pn_tensors_add(out, e->name, length, a.rank, a.extent, &tensor));
  TN_TRY(pn_tensor_fill(out, tensor, &a.format, bytes + a.start));
  return a.fortran && a.rank == 2 ? to_rows(tensor) : TN_OK;
}

/* ---- zip ---------------------------------------------------------------------------------------- */

static tn_status inflate_into(const pn_tensors *out, const entry *e, const uint8_t *packed,
                              uint8_t *bytes) {
  z_stream z = {.next_in = (Bytef *)packed, .avail_in = (uInt)e->packed};
  z.next_out = bytes;
  z.avail_out = (uInt)e->size;
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
    return TN_FAIL(TN_ENOMEM, "%s: no memory to unpack it", out->file);
  int result = inflate(&z, Z_FINISH);
  size_t made = z.total_out;
  inflateEnd(&z);
  if (result != Z_STREAM_END || made != e->size)
    return damaged(out, "an entry does not unpack to the length that the directory gives");
  return TN_OK;
}

static tn_status read_entry(pn_tensors *out, const uint8_t *file, size_t n, const entry *e) {
  const uint8_t *at = file + e->offset;
  if (e->offset > n || n - e->offset < LOCAL || get(at, 4) != 0x04034b50)
    return damaged(out, "an entry is not where the directory says");
  size_t start = e->offset + LOCAL + get(at + 26, 2) + get(at + 28, 2);
  if (start > n || e->packed > n - start)
    return damaged(out, "an entry ends behind the end of the file");
  if (e->flags & 1)
    return damaged(out, "it is encrypted");
  if (e->method == 0 && e->packed != e->size)
    return damaged(out, "a stored entry has two lengths");
  if (e->method != 0 && e->method != 8)
    return damaged(out, "an entry is packed by another method than deflate");
  if (e->method == 8 && e->size / DEFLATE_MOST > e->packed)
    return damaged(out, "an entry claims more bytes than deflate can hold");
  uint8_t *bytes = NULL;
  TN_TRY(tn_new(e->size, 1, &bytes));
  tn_status status = TN_OK;
  if (e->method == 8)
    status = inflate_into(out, e, file + start, bytes);
  else if (e->size)
    memcpy(bytes, file + start, e->size);
  if (status == TN_OK && (uint32_t)crc32(0, bytes, (uInt)e->size) != e->crc)
    status = damaged(out, "the checksum of an entry is wrong");
  if (status == TN_OK)
    status = read_npy(out, e, bytes, e->size);
  tn_free(&bytes);
  return status;
}

/* The record at *at of the central directory; *at moves behind it. */
static tn_status next_entry(const pn_tensors *out, const uint8_t *file, size_t n, size_t *at,
                            entry *e) {
  if (*at > n || n - *at < CENTRAL || get(file + *at, 4) != 0x02014b50)
    return damaged(out, "its directory is damaged");
  const uint8_t *p = file + *at;
  *e = (entry){.flags = get(p + 8, 2),
               .method = get(p + 10, 2),
               .crc = get(p + 16, 4),
               .packed = get(p + 20, 4),
               .size = get(p + 24, 4),
               .name_length = get(p + 28, 2),
               .offset = get(p + 42, 4),
               .name = (const char *)p + CENTRAL};
  size_t length = CENTRAL + e->name_length + get(p + 30, 2) + get(p + 32, 2);
  if (length > n - *at)
    return damaged(out, "its directory is damaged");
  *at += length;
  if (e->name_length >= 8 && memcmp(e->name + e->name_length - 8, "data.pkl", 8) == 0)
    return TN_FAIL(TN_EINPUT,
                   "%s: a PyTorch pickle, which runs code when it is read; write the weights with "
                   "safetensors.torch.save_file(net.state_dict(), \"weights.safetensors\")",
                   out->file);
  if (e->name_length < 5 || memcmp(e->name + e->name_length - 4, ".npy", 4) != 0)
    return damaged(out, "it holds something that is no .npy array");
  return TN_OK;
}

tn_status pn_npz_read(const uint8_t *bytes, size_t n, pn_tensors *out) {
  size_t end = n >= END_RECORD ? n - END_RECORD : 0, total = 0;
  size_t last = end > 65535 ? end - 65535 : 0;
  while (end > last && get(bytes + end, 4) != 0x06054b50)
    --end;
  if (n < END_RECORD || get(bytes + end, 4) != 0x06054b50)
    return damaged(out, "it has no directory: it is cut off");
  size_t count = get(bytes + end + 10, 2), at = get(bytes + end + 16, 4);
  if (count > MOST_ENTRIES)
    return damaged(out, "too many entries");
  if (count == 0)
    return damaged(out, "it holds no arrays");
  for (size_t i = 0; i < count; ++i) {
    entry e = {0};
    TN_TRY(next_entry(out, bytes, end, &at, &e));
    total += e.size;
    if (total > LARGEST)
      return damaged(out, "its arrays claim more than a gibibyte");
    TN_TRY(read_entry(out, bytes, n, &e));
  }
  return TN_OK;
}
