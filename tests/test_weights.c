/* Arrays from files of other programs: what is read, and what is refused before it can do harm. */
#include "pinn/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

/* ---- Writers ------------------------------------------------------------------------------------ */

typedef struct {
  uint8_t byte[1 << 16];
  size_t n;
} file;

static void put(file *f, const void *data, size_t n) {
  assert_true(f->n + n <= sizeof f->byte);
  memcpy(f->byte + f->n, data, n);
  f->n += n;
}

static void put_int(file *f, uint64_t x, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    uint8_t byte = (uint8_t)(x >> (8 * k));
    put(f, &byte, 1);
  }
}

static void safetensors(file *f, const char *header, size_t n, const void *data) {
  f->n = 0;
  put_int(f, strlen(header), 8);
  put(f, header, strlen(header));
  put(f, data, n);
}

static void npy(file *f, int version, const char *header, size_t n, const void *data) {
  f->n = 0;
  put(f, "\x93NUMPY", 6);
  put_int(f, (uint64_t)version, 1);
  put_int(f, 0, 1);
  put_int(f, strlen(header), version == 1 ? 2 : 4);
  put(f, header, strlen(header));
  put(f, data, n);
}

/* An archive of one entry; packed by deflate if asked. claim: the unpacked length it says, 0: the true one. */
static void zip(file *f, const char *name, const file *inside, bool deflated, size_t claim, uint32_t crc_change) {
  uint8_t *packed = malloc(1 << 16);
  size_t n = inside->n;
  memcpy(packed, inside->byte, n);
  if (deflated) {
    z_stream z = {.next_in = (Bytef *)inside->byte, .avail_in = (uInt)inside->n};
    z.next_out = packed;
    z.avail_out = 1 << 16;
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    n = z.total_out;
    deflateEnd(&z);
  }
  uint32_t crc = (uint32_t)crc32(0, inside->byte, (uInt)inside->n) + crc_change;
  size_t size = claim ? claim : inside->n, start = 0;
  f->n = 0;
  for (int central = 0; central < 2; ++central) {
    start = central ? f->n : start;
    put_int(f, central ? 0x02014b50 : 0x04034b50, 4);
    if (central)
      put_int(f, 20, 2);
    put_int(f, 20, 2);
    put_int(f, 0, 2);
    put_int(f, deflated ? 8 : 0, 2);
    put_int(f, 0, 4);
    put_int(f, crc, 4);
    put_int(f, n, 4);
    put_int(f, size, 4);
    put_int(f, strlen(name), 2);
    put_int(f, 0, 2);
    if (central) {
      put_int(f, 0, 2);
      put_int(f, 0, 2);
      put_int(f, 0, 2);
      put_int(f, 0, 4);
      put_int(f, 0, 4);
    }
    put(f, name, strlen(name));
    if (!central)
      put(f, packed, n);
  }
  size_t length = f->n - start;
  put_int(f, 0x06054b50, 4);
  put_int(f, 0, 4);
  put_int(f, 1, 2);
  put_int(f, 1, 2);
  put_int(f, length, 4);
  put_int(f, start, 4);
  put_int(f, 0, 2);
  free(packed);
}

static void expect(const file *f, size_t n, const char *words) {
  uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees reads behind the end */
  pn_tensors t = {0};
  memcpy(exact, f->byte, n);
  size_t before = tn_memory_now();
  tn_status status = pn_tensors_read_bytes("w", exact, n, &t);
  if (words && (status != TN_EINPUT || !strstr(tn_error_text(), words)))
    fail_msg("expected `%s`, found %s: %s", words, tn_status_name(status), tn_error_text());
  if (!words)
    assert_int_equal(status, TN_OK);
  pn_tensors_free(&t);
  assert_int_equal(tn_memory_now(), before);
  free(exact);
}

/* ---- What is read ------------------------------------------------------------------------------- */

static void all_number_formats_are_widened_exactly(void **state) {
  (void)state;
  static file f;
  pn_tensors t;
  double d[2] = {0.1, -5e-324};
  float s[2] = {0.1f, -1e-45f};
  uint16_t h[4] = {0x3c00, 0xc100, 0x0001, 0x7bff}, b[2] = {0x3f80, 0xc049};
  uint8_t data[64];
  memcpy(data, d, 16);
  memcpy(data + 16, s, 8);
  memcpy(data + 24, h, 8);
  memcpy(data + 32, b, 4);
  safetensors(&f,
              "{\"__metadata__\": {\"format\": \"p\\\"t\"}, \"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
              "\"s\":{\"shape\":[1,2],\"dtype\":\"F32\",\"data_offsets\":[16,24]},"
              "\"h\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[24,32]},"
              "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[32,36]}}   ",
              36, data);
  assert_int_equal(pn_tensors_read_bytes("w", f.byte, f.n, &t), TN_OK);
  assert_int_equal(t.n, 4);
  assert_true(t.list[0].data[0] == 0.1 && t.list[0].data[1] == -5e-324);
  assert_true(t.list[1].data[0] == (double)0.1f && t.list[1].data[1] == (double)-1e-45f);
  assert_int_equal(t.list[1].rank, 2);
  assert_true(t.list[2].data[0] == 1 && t.list[2].data[1] == -2.5 && t.list[2].data[2] == 0x1p-24 &&
              t.list[2].data[3] == 65504);
  assert_true(t.list[3].data[0] == 1 && t.list[3].data[1] == -3.140625);
  pn_tensors_free(&t);
}

static void npz_arrays_of_all_versions_and_orders(void **state) {
  (void)state;
  static file f, inside;
  const double x[6] = {1, 2, 3, 4, 5, 6};
  for (int version = 1; version <= 3; ++version)
    for (int fortran = 0; fortran < 2; ++fortran)
      for (int deflated = 0; deflated < 2; ++deflated) {
        char header[128];
        pn_tensors t;
        snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': %s, 'shape': (2, 3), }  \n",
                 fortran ? "True" : "False");
        npy(&inside, version, header, sizeof x, x);
        zip(&f, "a.b.npy", &inside, deflated, 0, 0);
        assert_int_equal(pn_tensors_read_bytes("w", f.byte, f.n, &t), TN_OK);
        assert_string_equal(t.list[0].name, "a.b");
        assert_true(t.list[0].data[1] == (fortran ? 3 : 2) && t.list[0].data[5] == 6);
        pn_tensors_free(&t);
      }
  uint8_t big[8] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0};
  pn_tensors t;
  npy(&inside, 1, "{'descr': '>f8', 'fortran_order': False, 'shape': (), }\n", 8, big);
  zip(&f, "a.npy", &inside, false, 0, 0);
  assert_int_equal(pn_tensors_read_bytes("w", f.byte, f.n, &t), TN_OK);
  assert_true(t.list[0].rank == 0 && t.list[0].count == 1 && t.list[0].data[0] == 1);
  pn_tensors_free(&t);
}

/* ---- What is refused ---------------------------------------------------------------------------- */

static void hostile_safetensors_are_refused(void **state) {
  (void)state;
  static file f;
  static const struct {
    const char *header, *words;
  } rows[] = {
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,16]}}", "16 bytes for 3 numbers"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]}}", "cut off"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[16,0]}}", "cut off"},
      {"{\"a\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]}}", "is of I64"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", "of which the header names 8"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", "claims more"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[99999999999999999999999],\"data_offsets\":[0,16]}}", "too large"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,16]}}", "dimensions"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},\"a\":{\"dtype\":\"F64\",\"shape\":[2],"
       "\"data_offsets\":[0,16]}}", "two arrays"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[-2],\"data_offsets\":[0,16]}}", "no whole number"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2]}}", "lacks"},
      {"{\"a", "does not end"},
      {"{\"a\":[[[[[[", "no object"},
      {"{}", "no arrays"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}x", "behind the header"},
  };
  const double x[2] = {1, 2}, nan[2] = {1, NAN};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    safetensors(&f, rows[i].header, sizeof x, x);
    expect(&f, f.n, rows[i].words);
  }
  safetensors(&f, "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", sizeof nan, nan);
  expect(&f, f.n, "entry 1 of `a` is not a number");
  safetensors(&f, "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", sizeof x, x);
  expect(&f, f.n, NULL);
  for (size_t n = 0; n < f.n; ++n) /* cut off anywhere */
    expect(&f, n, "w: ");
  memset(f.byte, 0xff, 7);
  expect(&f, f.n, "header claims");
}

static void hostile_archives_are_refused(void **state) {
  (void)state;
  static file f, inside;
  const double x[2] = {1, 2};
  static const struct {
    const char *header, *words;
  } rows[] = {
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", "is of <i8"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "is of |O"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "16 bytes for 3"},
      {"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999, 99999999), }", "claims more"},
      {"{'descr': '<f8', 'fortran_order': False, }", "not that of a plain array"},
      {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }", "not that of a plain array"},
      {"", "not that of a plain array"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    npy(&inside, 1, rows[i].header, sizeof x, x);
    zip(&f, "a.npy", &inside, true, 0, 0);
    expect(&f, f.n, rows[i].words);
  }
  npy(&inside, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", sizeof x, x);
  zip(&f, "a.npy", &inside, true, 1000000000, 0); /* a bomb: a gigabyte out of a hundred bytes */
  expect(&f, f.n, "more bytes than deflate can hold");
  zip(&f, "a.npy", &inside, true, inside.n + 1, 0);
  expect(&f, f.n, "does not unpack to the length");
  zip(&f, "a.npy", &inside, true, inside.n - 1, 0);
  expect(&f, f.n, "does not unpack to the length");
  zip(&f, "a.npy", &inside, false, 0, 1);
  expect(&f, f.n, "checksum");
  zip(&f, "archive/data.pkl", &inside, false, 0, 0);
  expect(&f, f.n, "pickle");
  zip(&f, "a.txt", &inside, false, 0, 0);
  expect(&f, f.n, "no .npy array");
  for (int deflated = 0; deflated < 2; ++deflated) {
    zip(&f, "a.npy", &inside, deflated, 0, 0);
    expect(&f, f.n, NULL);
    for (size_t n = 0; n < f.n; ++n)
      expect(&f, n, "w: ");
  }
  /* Any one byte changed: an error or arrays, never a read outside (for sanitizers). */
  for (size_t i = 0; i < f.n; ++i) {
    pn_tensors t = {0};
    f.byte[i] ^= 0x41;
    if (pn_tensors_read_bytes("w", f.byte, f.n, &t) == TN_OK)
      pn_tensors_free(&t);
    f.byte[i] ^= 0x41;
  }
}

static void pickles_are_named(void **state) {
  (void)state;
  static file f;
  f.n = 0;
  put(&f, "\x80\2}q\0.", 6);
  put(&f, "          ", 10);
  expect(&f, f.n, "a pickle");
  f.n = 0;
  put(&f, "\x89HDF\r\n\x1a\n          ", 18);
  expect(&f, f.n, "HDF5");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_number_formats_are_widened_exactly),
      cmocka_unit_test(npz_arrays_of_all_versions_and_orders),
      cmocka_unit_test(hostile_safetensors_are_refused),
      cmocka_unit_test(hostile_archives_are_refused),
      cmocka_unit_test(pickles_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
