/* store_seal.c: the checksum trailer of result files (layout in store.h).
 *
 * HDF5 1.10 reads most flipped bits back without an error and can crash on a damaged file, so a
 * file is checked as a whole before HDF5 sees it. Two sums of 64 bits run over the data in words of
 * 8 bytes:
 *
 *   s <- (rotate(s, r) xor word) * odd constant      mod 2^64
 *
 * For a fixed s this is a bijection of the word and for a fixed word a bijection of s, so two files
 * of one length that differ in one word have different sums, always; other damage passes with
 * probability about 2^-128. That is a guard against accidents, not against forgery. At 2 GB/s or
 * more, a 30-second save interval does not feel it. The trailer guards itself by a third sum and
 * must have no other bits set.
 */
#include "pinn/store_seal.h"

#include <string.h>

static const char magic[8] = {'P', 'I', 'N', 'N', 'S', 'U', 'M', '1'};

static uint64_t rotate(uint64_t x, int n) { return (x << n) | (x >> (64 - n)); }

static uint64_t load(const uint8_t *at, size_t n) {
  uint64_t x = 0;
  for (size_t i = 0; i < n; ++i)
    x |= (uint64_t)at[i] << (8 * i);
  return x;
}

/* The same for 8 bytes, written out: compilers make one instruction of this form. */
static uint64_t load8(const uint8_t *at) {
  return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
         (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 |
         (uint64_t)at[7] << 56;
}

static void store(uint8_t *at, size_t n, uint64_t x) {
  for (size_t i = 0; i < n; ++i)
    at[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t finish(uint64_t x) {
  x ^= x >> 29;
  x *= 0x9fb21c651e98df25u;
  return x ^ (x >> 32);
}

static void sums(const uint8_t *data, size_t n, uint64_t sum[2]) {
  uint64_t a = 0x243f6a8885a308d3u ^ n, b = 0x13198a2e03707344u + n; /* digits of pi */
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word = load8(data + i);
    a = (rotate(a, 23) ^ word) * 0x9e3779b97f4a7c15u;
    b = (rotate(b, 41) ^ word) * 0xd6e8feb86659fd93u;
  }
  if (i < n) { /* the rest, zeros behind it; n itself is in the start values */
    uint64_t word = load(data + i, n - i);
    a = (rotate(a, 23) ^ word) * 0x9e3779b97f4a7c15u;
    b = (rotate(b, 41) ^ word) * 0xd6e8feb86659fd93u;
  }
  sum[0] = finish(a);
  sum[1] = finish(b);
}

void pn_seal(const uint8_t *data, size_t n, uint8_t trailer[PN_STORE_TRAILER]) {
  uint64_t sum[2], own[2];
  sums(data, n, sum);
  memset(trailer, 0, PN_STORE_TRAILER);
  memcpy(trailer, magic, sizeof magic);
  store(trailer + 8, 4, 1);
  store(trailer + 12, 4, PN_STORE_TRAILER);
  store(trailer + 16, 8, n);
  store(trailer + 24, 8, sum[0]);
  store(trailer + 32, 8, sum[1]);
  sums(trailer, 56, own);
  store(trailer + 56, 8, own[0]);
}

tn_status pn_seal_check(const char *name, const uint8_t *bytes, size_t n) {
  if (n < PN_STORE_TRAILER)
    return TN_FAIL(TN_EINPUT, "%s: %zu bytes are too few for a result file", name, n);
  size_t length = n - PN_STORE_TRAILER;
  const uint8_t *found = bytes + length;
  uint8_t expected[PN_STORE_TRAILER];
  if (memcmp(found, magic, sizeof magic))
    return TN_FAIL(TN_EINPUT,
                   "%s: no checksum at the end; the file is cut off, or no result file of pinn",
                   name);
  if (load(found + 8, 4) != 1)
    return TN_FAIL(TN_EINPUT, "%s: its checksum has version %llu, this program knows 1", name,
                   (unsigned long long)load(found + 8, 4));
  if (load(found + 16, 8) != length)
    return TN_FAIL(TN_EINPUT, "%s: the file has %zu bytes of data, its checksum says %llu", name,
                   length, (unsigned long long)load(found + 16, 8));
  pn_seal(bytes, length, expected);
  if (memcmp(found, expected, PN_STORE_TRAILER))
    return TN_FAIL(TN_EINPUT, "%s: the checksum does not fit; the file is damaged", name);
  return TN_OK;
}
