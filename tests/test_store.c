/* test_store.c: result files come back as they were written, equal content gives equal bytes, other
 * HDF5 readers open them, and no damage goes unnoticed. Runs in a folder of its own under the
 * current one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pinn/files.h"
#include "pinn/store.h"
#include "pinn/store_seal.h"

#define OK(call) assert_int_equal((call), TN_OK)

static char folder[] = "test_store.XXXXXX";

static int setup(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  char *path = NULL;
  OK(pn_path_join(folder, "result.h5", &path));
  unlink(path);
  tn_free(&path);
  return rmdir(folder);
}

static char *result_path(void) {
  char *path = NULL;
  OK(pn_path_join(folder, "result.h5", &path));
  return path;
}

static const double w[2][3] = {{1, -0.0, 1e-310}, {1e300, 0.1, -3}};
static const float f[4] = {1, 2, 0.1f, -4};
static const int64_t n[2] = {INT64_MIN, 7};
static const uint8_t b[3] = {0, 1, 255};
static const char *const names[] = {"u", "", "velocity"};

/* A small result file: `shift` varies one number. */
static pn_store *example(double shift) {
  pn_store *s = NULL;
  OK(pn_store_new(&s));
  OK(pn_store_integer(s, "format", 1));
  OK(pn_store_f64(s, "net/w0", 2, (size_t[]){2, 3}, &w[0][0]));
  OK(pn_store_f32(s, "net/w1", 1, (size_t[]){4}, f));
  OK(pn_store_i64(s, "rng/counter", 1, (size_t[]){2}, n));
  OK(pn_store_u8(s, "mask", 3, (size_t[]){1, 3, 1}, b));
  OK(pn_store_f64(s, "empty", 2, (size_t[]){0, 5}, NULL));
  OK(pn_store_number(s, "loss", 0.25 + shift));
  OK(pn_store_text(s, "problem", "[domain]\nx = [-1, 1] # \xc3\xa9\n"));
  OK(pn_store_texts(s, "fields", 3, names));
  OK(pn_store_group(s, "history"));
  OK(pn_store_attribute(s, "", "program", "pinn"));
  OK(pn_store_attribute(s, "net/w0", "unit", ""));
  return s;
}

static void example_bytes(uint8_t **bytes, size_t *size) {
  pn_store *s = example(0);
  OK(pn_store_bytes(s, bytes, size));
  pn_store_free(&s);
  assert_null(s);
}

static void store_reads_back_what_was_written(void **state) {
  (void)state;
  char *path = result_path();
  pn_store *s = example(0);
  pn_stored *r = NULL;
  OK(pn_store_save(s, path));
  pn_store_free(&s);
  OK(pn_stored_open(path, &r));

  double x[6], number = 0, *fresh = NULL;
  float g[4], *g_fresh = NULL;
  int64_t m[2], integer = 0, *m_fresh = NULL;
  uint8_t c[3], *c_fresh = NULL;
  size_t extents[PN_STORE_RANK], count = 0;
  char *text = NULL, **texts = NULL;
  OK(pn_stored_f64(r, "net/w0", 2, (size_t[]){2, 3}, x));
  assert_memory_equal(x, w, sizeof w);
  OK(pn_stored_f64_new(r, "net/w0", 2, extents, &fresh));
  assert_int_equal(extents[0] * 10 + extents[1], 23);
  assert_memory_equal(fresh, w, sizeof w);
  OK(pn_stored_f32(r, "net/w1", 1, (size_t[]){4}, g));
  OK(pn_stored_f32_new(r, "net/w1", 1, extents, &g_fresh));
  assert_memory_equal(g, f, sizeof f);
  assert_memory_equal(g_fresh, f, sizeof f);
  OK(pn_stored_i64(r, "rng/counter", 1, (size_t[]){2}, m));
  OK(pn_stored_i64_new(r, "rng/counter", 1, extents, &m_fresh));
  assert_memory_equal(m, n, sizeof n);
  assert_memory_equal(m_fresh, n, sizeof n);
  OK(pn_stored_u8(r, "mask", 3, (size_t[]){1, 3, 1}, c));
  OK(pn_stored_u8_new(r, "mask", 3, extents, &c_fresh));
  assert_memory_equal(c, b, sizeof b);
  assert_memory_equal(c_fresh, b, sizeof b);
  OK(pn_stored_f64(r, "empty", 2, (size_t[]){0, 5}, NULL));
  OK(pn_stored_number(r, "loss", &number));
  OK(pn_stored_integer(r, "format", &integer));
  assert_true(number == 0.25 && integer == 1);
  OK(pn_stored_text(r, "problem", &text));
  assert_string_equal(text, "[domain]\nx = [-1, 1] # \xc3\xa9\n");
  tn_free(&text);
  OK(pn_stored_texts(r, "fields", &count, &texts));
  assert_int_equal(count, 3);
  for (size_t i = 0; i < 3; ++i)
    assert_string_equal(texts[i], names[i]);
  pn_texts_free(count, &texts);
  OK(pn_stored_attribute(r, "", "program", &text));
  assert_string_equal(text, "pinn");
  tn_free(&text);
  OK(pn_stored_attribute(r, "net/w0", "unit", &text));
  assert_string_equal(text, "");
  tn_free(&text);
  tn_free(&fresh);
  tn_free(&g_fresh);
  tn_free(&m_fresh);
  tn_free(&c_fresh);
  pn_stored_free(&r);
  tn_free(&path);
}

static void store_lists_names_and_shapes(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0, count = 0, rank = 9, extents[PN_STORE_RANK];
  char **list = NULL;
  pn_stored *r = NULL;
  pn_store_kind kind = PN_STORE_F64;
  example_bytes(&bytes, &size);
  OK(pn_stored_open_bytes("memory", bytes, size, &r));
  tn_free(&bytes); /* the reader has its own copy */
  OK(pn_stored_list(r, "net", &count, &list));
  assert_int_equal(count, 2);
  assert_string_equal(list[0], "w0");
  assert_string_equal(list[1], "w1");
  pn_texts_free(count, &list);
  OK(pn_stored_list(r, "", &count, &list));
  assert_int_equal(count, 9);
  assert_string_equal(list[0], "empty");
  pn_texts_free(count, &list);
  OK(pn_stored_list(r, "history", &count, &list));
  assert_int_equal(count, 0);
  pn_texts_free(count, &list);
  assert_true(pn_stored_has(r, "net/w0") && pn_stored_has(r, "net") && pn_stored_has(r, ""));
  assert_false(pn_stored_has(r, "net/w2") || pn_stored_has(r, "nets/w0") ||
               pn_stored_has(r, "loss/x"));
  OK(pn_stored_shape(r, "fields", &kind, &rank, extents));
  assert_true(kind == PN_STORE_TEXT && rank == 1 && extents[0] == 3);
  pn_stored_free(&r);
}

static void store_gives_equal_bytes_for_equal_content(void **state) {
  (void)state;
  uint8_t *first = NULL, *second = NULL, *other = NULL;
  size_t n1 = 0, n2 = 0, n3 = 0;
  example_bytes(&first, &n1);
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000},
            NULL); /* HDF5 times count seconds */
  example_bytes(&second, &n2);
  pn_store *s = example(1e-16 + 1);
  OK(pn_store_bytes(s, &other, &n3));
  pn_store_free(&s);
  assert_int_equal(n1, n2);
  assert_memory_equal(first, second, n1);
  assert_int_equal(n1, n3);
  assert_memory_not_equal(first, other, n1);
  tn_free(&first);
  tn_free(&second);
  tn_free(&other);
}

static void store_keeps_files_that_are_open_together_apart(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0;
  pn_stored *r1 = NULL, *r2 = NULL;
  double x = 0, y = 0;
  pn_store *a = example(0), *b = example(1);
  OK(pn_store_bytes(a, &bytes, &size));
  OK(pn_stored_open_bytes("a", bytes, size, &r1));
  tn_free(&bytes);
  OK(pn_store_bytes(b, &bytes, &size));
  OK(pn_stored_open_bytes("b", bytes, size, &r2));
  tn_free(&bytes);
  pn_store_free(&a);
  OK(pn_store_number(b, "more", 1));
  OK(pn_stored_number(r1, "loss", &x));
  pn_stored_free(&r1);
  OK(pn_stored_number(r2, "loss", &y));
  assert_true(x == 0.25 && y == 1.25);
  pn_stored_free(&r2);
  pn_store_free(&b);
}

static void store_can_be_saved_again_after_more_was_added(void **state) {
  (void)state;
  char *path = result_path();
  pn_store *s = example(0);
  pn_stored *r = NULL;
  double late = 0;
  OK(pn_store_save(s, path));
  OK(pn_store_number(s, "history/late", 3));
  OK(pn_store_save(s, path));
  pn_store_free(&s);
  OK(pn_stored_open(path, &r));
  OK(pn_stored_number(r, "history/late", &late));
  assert_true(late == 3);
  pn_stored_free(&r);
  tn_free(&path);
}

static void store_is_readable_by_hdf5_with_the_trailer(void **state) {
  (void)state;
  char *path = result_path();
  pn_store *s = example(0);
  OK(pn_store_save(s, path));
  pn_store_free(&s);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(file >= 0);
  hid_t set = H5Dopen2(file, "net/w0", H5P_DEFAULT);
  double x[6];
  assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
  assert_memory_equal(x, w, sizeof w);
  H5Dclose(set);
  H5Fclose(file);
  tn_free(&path);
}

/* TN_EINPUT and no object. */
static void refused(const uint8_t *bytes, size_t size) {
  pn_stored *r = NULL;
  assert_int_equal(pn_stored_open_bytes("memory", bytes, size, &r), TN_EINPUT);
  assert_null(r);
}

static void store_refuses_every_flipped_byte(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0;
  example_bytes(&bytes, &size);
  tn_stream stream = tn_stream_of(1, "flips");
  for (size_t i = 0; i < 2000 + PN_STORE_TRAILER;
       ++i) { /* all of the trailer, samples of the rest */
    size_t at = i < PN_STORE_TRAILER ? size - 1 - i : tn_random_bits(stream, 2 * i) % size;
    uint8_t change = (uint8_t)(1 + tn_random_bits(stream, 2 * i + 1) % 255);
    bytes[at] ^= change;
    refused(bytes, size);
    bytes[at] ^= change;
  }
  tn_free(&bytes);
}

static void store_refuses_every_truncation_and_extension(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0;
  example_bytes(&bytes, &size);
  for (size_t k = 0; k < size; k += 64)
    refused(bytes, k);
  for (size_t k = 1; k < 130; ++k)
    refused(bytes, size - k);
  OK(tn_grow(&bytes, size, size + 64, 1));
  refused(bytes, size + 1);
  memmove(bytes + size, bytes + size - 64, 64); /* a second trailer */
  refused(bytes, size + 64);
  tn_free(&bytes);
}

static void store_refuses_exchanged_words(void **state) {
  (void)state;
  uint8_t *bytes = NULL, word[8];
  size_t size = 0, tried = 0;
  example_bytes(&bytes, &size);
  for (size_t i = 0; i + 80 < size; i += 8) { /* a sum without order would not see it */
    if (!memcmp(bytes + i, bytes + i + 8, 8))
      continue;
    memcpy(word, bytes + i, 8);
    memmove(bytes + i, bytes + i + 8, 8);
    memcpy(bytes + i + 8, word, 8);
    refused(bytes, size);
    memcpy(word, bytes + i, 8);
    memmove(bytes + i, bytes + i + 8, 8);
    memcpy(bytes + i + 8, word, 8);
    ++tried;
  }
  assert_true(tried > 50);
  tn_free(&bytes);
}

static void store_errors_name_dataset_found_and_expected(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0;
  pn_stored *r = NULL;
  double x[30], *fresh = NULL;
  char *text = NULL;
  example_bytes(&bytes, &size);
  OK(pn_stored_open_bytes("run.h5", bytes, size, &r));
  assert_int_equal(pn_stored_f64(r, "net/w0", 2, (size_t[]){3, 5}, x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: `net/w0` is f64[2,3], expected f64[3,5]");
  assert_int_equal(pn_stored_f64(r, "net/w1", 1, (size_t[]){4}, x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: `net/w1` is f32[4], expected f64[4]");
  assert_int_equal(pn_stored_f64_new(r, "net/w0", 1, (size_t[PN_STORE_RANK]){0}, &fresh),
                   TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: `net/w0` is f64[2,3], expected f64[*]");
  assert_int_equal(pn_stored_number(r, "net/w9", x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: there is no `net/w9` in the file");
  assert_int_equal(pn_stored_number(r, "net", x), TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: `net` is no dataset");
  assert_int_equal(pn_stored_text(r, "loss", &text), TN_EINPUT);
  assert_string_equal(tn_error_text(), "run.h5: `loss` is f64, expected text");
  assert_int_equal(pn_stored_attribute(r, "loss", "unit", &text), TN_EINPUT);
  pn_stored_free(&r);
  tn_free(&bytes);
}

static void store_refuses_bad_and_repeated_names(void **state) {
  (void)state;
  pn_store *s = example(0);
  static const char *const bad[] = {"", "/a", "a/", "a//b", "a b", "a\nb", "a/../b", ".", "a/."};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i)
    assert_int_equal(pn_store_number(s, bad[i], 1), TN_EINPUT);
  assert_int_equal(pn_store_number(s, "net/w0", 1), TN_EINPUT);
  assert_string_equal(tn_error_text(), "`net/w0` has been stored already");
  assert_int_equal(pn_store_number(s, "loss/first", 1), TN_EINPUT);
  assert_string_equal(tn_error_text(), "`loss/first` cannot be stored: `loss` is no group");
  assert_int_equal(pn_store_f64(s, "deep", 7, (size_t[]){1, 1, 1, 1, 1, 1, 1}, w[0]), TN_ESHAPE);
  OK(pn_store_number(s, "a.b/..c", 1));
  pn_store_free(&s);
}

/* A contiguous or other dataset that our writer never makes, of `count` numbers. */
static void foreign(hid_t file, const char *name, hsize_t count, hid_t list) {
  hid_t space = H5Screate_simple(1, &count, NULL);
  hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(set >= 0);
  H5Dclose(set);
  H5Sclose(space);
  if (list != H5P_DEFAULT)
    H5Pclose(list);
}

/* A seal does not say who made the file. */
static void store_refuses_foreign_layouts_behind_a_true_seal(void **state) {
  (void)state;
  char *path = result_path();
  pn_store *s = NULL;
  uint8_t *bytes = NULL;
  size_t size = 0, extents[PN_STORE_RANK];
  pn_stored *r = NULL;
  double *fresh = NULL;
  s = example(0);
  OK(pn_store_f64(s, "v", 1, (size_t[]){3}, w[0]));
  OK(pn_store_save(s, path)); /* a target for links to other files */
  pn_store_free(&s);
  OK(pn_store_new(&s));
  OK(pn_store_f64(s, "v", 1, (size_t[]){3}, w[0]));
  hid_t file = *(const hid_t *)(const void *)s; /* the struct's first member is the file's handle */
  assert_true(H5Lcreate_external(path, "/", file, "out", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  assert_true(H5Lcreate_soft("/v", file, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, (hsize_t[]){4});
  foreign(file, "chunked", 4, list);
  list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(list, path, 0, 32);
  foreign(file, "external", 4, list);
  foreign(file, "late", 2000, H5P_DEFAULT); /* claims 16000 bytes and has none */
  OK(pn_store_bytes(s, &bytes, &size));
  pn_store_free(&s);
  assert_true(size > 2000 && size < 16000);
  OK(pn_stored_open_bytes("foreign", bytes, size, &r));
  static const char *const bad[] = {"out/v", "soft", "chunked", "external", "late"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    assert_int_equal(pn_stored_f64_new(r, bad[i], 1, extents, &fresh), TN_EINPUT);
    assert_null(fresh);
  }
  OK(pn_stored_f64_new(r, "v", 1, extents, &fresh));
  assert_memory_equal(fresh, w, 24);
  tn_free(&fresh);
  pn_stored_free(&r);
  tn_free(&bytes);
  tn_free(&path);
}

static void seal_sees_each_byte_of_every_length(void **state) {
  (void)state;
  uint8_t bytes[40 + PN_STORE_TRAILER];
  for (size_t n = 0; n <= 40; ++n) {
    for (size_t i = 0; i < n; ++i)
      bytes[i] = (uint8_t)(31 * i);
    pn_seal(bytes, n, bytes + n);
    OK(pn_seal_check("b", bytes, n + PN_STORE_TRAILER));
    for (size_t i = 0; i < n + PN_STORE_TRAILER; ++i) {
      bytes[i] ^= 1;
      assert_int_equal(pn_seal_check("b", bytes, n + PN_STORE_TRAILER), TN_EINPUT);
      bytes[i] ^= 1;
    }
  }
  assert_int_equal(pn_seal_check("b", bytes + 1, 39 + PN_STORE_TRAILER), TN_EINPUT);
  assert_string_equal(tn_error_text(), "b: the file has 39 bytes of data, its checksum says 40");
}

static void store_leaves_the_old_file_when_the_disk_is_full(void **state) {
  (void)state;
  char *path = result_path(), *text = NULL;
  struct rlimit old, small;
  uint8_t *before = NULL, *after = NULL;
  size_t n1 = 0, n2 = 0;
  pn_store *s = example(0);
  OK(pn_store_save(s, path));
  OK(pn_read_file(path, 1 << 20, &before, &n1));
  OK(pn_store_f64(s, "large", 1, (size_t[]){6}, &w[0][0]));
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 1000;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  tn_status status = pn_store_save(s, path);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(status, TN_EIO);
  assert_non_null(strstr(tn_error_text(), path)); /* with the system's reason behind it */
  assert_non_null(strstr(tn_error_text(), "cannot write: "));
  pn_store_free(&s);
  OK(pn_read_file(path, 1 << 20, &after, &n2));
  assert_int_equal(n1, n2);
  assert_memory_equal(before, after, n1);
  tn_free(&before);
  tn_free(&after);
  tn_free(&path);
  tn_free(&text); /* the folder must hold result.h5 alone: teardown's rmdir fails otherwise */
}

static void store_survives_each_failed_allocation(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t size = 0, failures = 0;
  example_bytes(&bytes, &size);
  for (uint64_t k = 1;; ++k) {
    pn_stored *r = NULL;
    pn_store *s = NULL;
    char **texts = NULL;
    size_t count = 0;
    tn_fault_at(k, false);
    tn_status status = pn_stored_open_bytes("memory", bytes, size, &r);
    if (status == TN_OK)
      status = pn_stored_texts(r, "fields", &count, &texts);
    pn_texts_free(count, &texts);
    if (status == TN_OK)
      status = pn_stored_list(r, "", &count, &texts);
    pn_texts_free(status == TN_OK ? count : 0, &texts);
    if (status == TN_OK)
      status = pn_store_new(&s);
    if (status == TN_OK)
      status = pn_store_texts(s, "fields", 3, names);
    pn_stored_free(&r);
    pn_store_free(&s);
    tn_fault_at(0, false);
    if (status == TN_OK)
      break;
    assert_int_equal(status, TN_ENOMEM);
    ++failures;
  }
  assert_true(failures > 10);
  tn_free(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(store_reads_back_what_was_written),
      cmocka_unit_test(store_lists_names_and_shapes),
      cmocka_unit_test(store_gives_equal_bytes_for_equal_content),
      cmocka_unit_test(store_keeps_files_that_are_open_together_apart),
      cmocka_unit_test(store_can_be_saved_again_after_more_was_added),
      cmocka_unit_test(store_is_readable_by_hdf5_with_the_trailer),
      cmocka_unit_test(store_refuses_every_flipped_byte),
      cmocka_unit_test(store_refuses_every_truncation_and_extension),
      cmocka_unit_test(store_refuses_exchanged_words),
      cmocka_unit_test(store_errors_name_dataset_found_and_expected),
      cmocka_unit_test(store_refuses_bad_and_repeated_names),
      cmocka_unit_test(store_refuses_foreign_layouts_behind_a_true_seal),
      cmocka_unit_test(seal_sees_each_byte_of_every_length),
      cmocka_unit_test(store_leaves_the_old_file_when_the_disk_is_full),
      cmocka_unit_test(store_survives_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
