/* png.c: a PNG encoder for pictures of up to 256 colours (PNG specification, ISO 15948; RFC 1950,
 * 1951).
 *
 * A heat map needs one number a point and a colour map of 255 colours and "nothing", which is what
 * a palette PNG holds: a quarter of RGBA. The stream is one deflate block with the fixed Huffman
 * code and matches found by a table of the last place of each hash of three bytes: no dynamic code,
 * no chains. Fields are smooth, so rows repeat in long runs and that gets most of what zlib would.
 */
#include "pinn/png.h"

#include <string.h>

enum { WINDOW = 32768, HASH_BITS = 15, MIN_MATCH = 3, MAX_MATCH = 258 };

/* Bytes that grow, and the bits of the byte that is not full. */
typedef struct {
  uint8_t *data;
  size_t n, capacity;
  uint32_t bits; /* the lowest comes first */
  int n_bits;
} sink;

static tn_status put(sink *s, const void *bytes, size_t n) {
  if (s->n + n > s->capacity) {
    size_t capacity = 2 * s->capacity + n + 256;
    TN_TRY(tn_grow(&s->data, s->capacity, capacity, 1));
    s->capacity = capacity;
  }
  memcpy(s->data + s->n, bytes, n);
  s->n += n;
  return TN_OK;
}

static tn_status put_bits(sink *s, uint32_t value, int count) {
  s->bits |= value << s->n_bits;
  s->n_bits += count;
  for (; s->n_bits >= 8; s->n_bits -= 8, s->bits >>= 8)
    TN_TRY(put(s, &(uint8_t){(uint8_t)s->bits}, 1));
  return TN_OK;
}

/* Huffman codes are sent with their highest bit first. */
static tn_status put_code(sink *s, uint32_t code, int count) {
  uint32_t turned = 0;
  for (int i = 0; i < count; ++i)
    turned |= ((code >> i) & 1) << (count - 1 - i);
  return put_bits(s, turned, count);
}

/* The fixed code of RFC 1951, 3.2.6. */
static tn_status put_symbol(sink *s, uint32_t symbol) {
  if (symbol < 144)
    return put_code(s, 0x30 + symbol, 8);
  if (symbol < 256)
    return put_code(s, 0x190 + symbol - 144, 9);
  if (symbol < 280)
    return put_code(s, symbol - 256, 7);
  return put_code(s, 0xc0 + symbol - 280, 8);
}

static tn_status put_match(sink *s, size_t length, size_t distance) {
  static const uint16_t lengths[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                     15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                     67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint16_t distances[] = {
      1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
      193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  uint32_t i = 28, k = 29;
  while (lengths[i] > length)
    --i;
  while (distances[k] > distance)
    --k;
  int length_bits = i < 8 || i == 28 ? 0 : (int)(i - 4) / 4;
  int distance_bits = k < 4 ? 0 : (int)(k - 2) / 2;
  TN_TRY(put_symbol(s, 257 + i));
  TN_TRY(put_bits(s, (uint32_t)(length - lengths[i]), length_bits));
  TN_TRY(put_code(s, k, 5));
  return put_bits(s, (uint32_t)(distance - distances[k]), distance_bits);
}

static size_t hash(const uint8_t *p) {
  uint32_t x = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
  return (x * 2654435761u) >> (32 - HASH_BITS);
}

static size_t match_length(const uint8_t *a, const uint8_t *b, size_t most) {
  size_t n = 0;
  while (n < most && a[n] == b[n])
    ++n;
  return n;
}

/* One final block of n bytes; last[h]: 1 + the last place with hash h, 0 for none. */
static tn_status deflate(sink *s, const uint8_t *in, size_t n, size_t *last) {
  TN_TRY(put_bits(s, 1, 1)); /* the last block */
  TN_TRY(put_bits(s, 1, 2)); /* fixed code */
  for (size_t i = 0; i < n;) {
    size_t length = 0, distance = 0, step = 1;
    if (i + MIN_MATCH <= n) {
      size_t before = last[hash(in + i)];
      distance = before ? i + 1 - before : WINDOW + 1;
      if (distance <= WINDOW)
        length = match_length(in + i, in + i - distance, n - i < MAX_MATCH ? n - i : MAX_MATCH);
    }
    if (length >= MIN_MATCH) {
      TN_TRY(put_match(s, length, distance));
      step = length;
    } else {
      TN_TRY(put_symbol(s, in[i]));
    }
    for (size_t end = i + step; i < end; ++i)
      if (i + MIN_MATCH <= n)
        last[hash(in + i)] = i + 1;
  }
  TN_TRY(put_symbol(s, 256)); /* end of block */
  return s->n_bits ? put_bits(s, 0, 8 - s->n_bits) : TN_OK;
}

static void big_endian(uint8_t out[4], uint32_t x) {
  for (int i = 0; i < 4; ++i)
    out[i] = (uint8_t)(x >> (24 - 8 * i));
}

static uint32_t crc32(const uint8_t *p, size_t n) {
  uint32_t table[256], crc = 0xffffffffu;
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int k = 0; k < 8; ++k)
      table[i] = table[i] & 1 ? (table[i] >> 1) ^ 0xedb88320u : table[i] >> 1;
  }
  for (size_t i = 0; i < n; ++i)
    crc = table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

static uint32_t adler32(const uint8_t *p, size_t n) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < n; ++i) {
    a = (a + p[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

static tn_status chunk(sink *s, const char *type, const void *bytes, size_t n) {
  uint8_t word[4];
  big_endian(word, (uint32_t)n);
  TN_TRY(put(s, word, 4));
  size_t start = s->n;
  TN_TRY(put(s, type, 4));
  TN_TRY(put(s, bytes, n));
  big_endian(word, crc32(s->data + start, s->n - start));
  return put(s, word, 4);
}

static tn_status image_data(sink *s, size_t width, size_t height, const uint8_t *pixels) {
  size_t n = (width + 1) * height, *last = NULL;
  uint8_t *rows = NULL, word[4];
  sink z = {0};
  tn_status status = tn_new(n, 1, &rows);
  if (status == TN_OK)
    status = TN_NEW((size_t)1 << HASH_BITS, &last);
  for (size_t i = 0; i < height && status == TN_OK; ++i) /* each row after its filter, 0: none */
    memcpy(rows + i * (width + 1) + 1, pixels + i * width, width);
  if (status == TN_OK)
    status = put(&z, "\x78\x01", 2);
  if (status == TN_OK)
    status = deflate(&z, rows, n, last);
  if (status == TN_OK) {
    big_endian(word, adler32(rows, n));
    status = put(&z, word, 4);
  }
  if (status == TN_OK)
    status = chunk(s, "IDAT", z.data, z.n);
  tn_free(&z.data);
  tn_free(&last);
  tn_free(&rows);
  return status;
}

static tn_status encode(sink *s, size_t width, size_t height, const uint8_t *pixels,
                        uint8_t palette[256][4]) {
  uint8_t header[13] = {0}, colours[768], opacity[256];
  big_endian(header, (uint32_t)width);
  big_endian(header + 4, (uint32_t)height);
  header[8] = 8; /* bits */
  header[9] = 3; /* palette */
  for (size_t i = 0; i < 256; ++i) {
    memcpy(colours + 3 * i, palette[i], 3);
    opacity[i] = palette[i][3];
  }
  TN_TRY(put(s, "\x89PNG\r\n\x1a\n", 8));
  TN_TRY(chunk(s, "IHDR", header, sizeof header));
  TN_TRY(chunk(s, "PLTE", colours, sizeof colours));
  TN_TRY(chunk(s, "tRNS", opacity, sizeof opacity));
  TN_TRY(image_data(s, width, height, pixels));
  return chunk(s, "IEND", "", 0);
}

tn_status pn_png(size_t width, size_t height, const uint8_t *pixels, uint8_t palette[256][4],
                 uint8_t **png, size_t *n) {
  sink s = {0};
  if (!width || !height || width > 65535 || height > 65535)
    return TN_FAIL(TN_ERANGE, "a picture of %zu by %zu pixels; expected 1 to 65535", width, height);
  tn_status status = encode(&s, width, height, pixels, palette);
  if (status != TN_OK) {
    tn_free(&s.data);
    return status;
  }
  *png = s.data;
  *n = s.n;
  return TN_OK;
}

tn_status pn_base64(const uint8_t *bytes, size_t n, char **text) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  TN_TRY(tn_new(n / 3 + 2, 4, text)); /* zeroed: the text ends in one */
  char *out = *text;
  for (size_t i = 0; i < n; i += 3, out += 4) {
    uint32_t x = (uint32_t)bytes[i] << 16;
    if (i + 1 < n)
      x |= (uint32_t)bytes[i + 1] << 8;
    if (i + 2 < n)
      x |= bytes[i + 2];
    out[0] = digits[x >> 18];
    out[1] = digits[(x >> 12) & 63];
    out[2] = i + 1 < n ? digits[(x >> 6) & 63] : '=';
    out[3] = i + 2 < n ? digits[x & 63] : '=';
  }
  return TN_OK;
}
