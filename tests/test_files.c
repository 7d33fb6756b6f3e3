/* test_files.c: atomic writes, whole reads, folder names, and SHA-256 against the values of FIPS
 * 180-4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pinn/files.h"

#define OK(call) assert_int_equal((call), TN_OK)

static char folder[] = "test_files.XXXXXX";

static int setup(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int
teardown(void **state) { /* each test removes what it made, so the folder must be empty */
  (void)state;
  return rmdir(folder);
}

static char *in_folder(const char *name) {
  char *path = NULL;
  OK(pn_path_join(folder, name, &path));
  return path;
}

static size_t entries(void) {
  size_t n = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  while (readdir(dir))
    ++n;
  closedir(dir);
  return n - 2; /* without . and .. */
}

static void expect_content(const char *path, const char *text) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  OK(pn_read_file(path, 1 << 20, &bytes, &n));
  assert_int_equal(n, strlen(text));
  assert_string_equal((char *)bytes, text); /* a zero follows the bytes */
  tn_free(&bytes);
}

static void files_write_and_read_back(void **state) {
  (void)state;
  char *path = in_folder("a.txt");
  const pn_bytes parts[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
  OK(pn_write_atomic(path, "first version", 13));
  expect_content(path, "first version");
  OK(pn_write_atomic_parts(path, 3, parts));
  expect_content(path, "one two");
  OK(pn_write_atomic(path, NULL, 0));
  expect_content(path, "");
  assert_int_equal(entries(), 1); /* no temporary file stays */
  unlink(path);
  tn_free(&path);
}

static void files_read_more_than_one_buffer(void **state) {
  (void)state;
  enum { N = 300000 };
  char *path = in_folder("big"), *data = NULL;
  uint8_t *bytes = NULL;
  size_t n = 0;
  OK(tn_new(N, 1, &data));
  for (size_t i = 0; i < N; ++i)
    data[i] = (char)(i * 7 + i / 1000);
  OK(pn_write_atomic(path, data, N));
  OK(pn_read_file(path, N, &bytes, &n));
  assert_int_equal(n, N);
  assert_memory_equal(bytes, data, N);
  tn_free(&bytes);
  assert_int_equal(pn_read_file(path, N - 1, &bytes, &n), TN_EINPUT);
  assert_null(bytes);
  unlink(path);
  int pipes[2]; /* a file without a size */
  assert_int_equal(pipe(pipes), 0);
  assert_int_equal(write(pipes[1], data, 20000), 20000);
  close(pipes[1]);
  char name[64];
  snprintf(name, sizeof name, "/dev/fd/%d", pipes[0]);
  OK(pn_read_file(name, N, &bytes, &n));
  close(pipes[0]);
  assert_int_equal(n, 20000);
  assert_memory_equal(bytes, data, n);
  tn_free(&bytes);
  tn_free(&data);
  tn_free(&path);
}

static void files_errors_give_path_and_reason(void **state) {
  (void)state;
  uint8_t *bytes = NULL;
  size_t n = 0;
  assert_int_equal(pn_read_file("no/such/file", 10, &bytes, &n), TN_EIO);
  assert_string_equal(tn_error_text(), "no/such/file: cannot open: No such file or directory");
  assert_int_equal(pn_read_file(folder, 10, &bytes, &n), TN_EIO); /* a folder */
  assert_int_equal(pn_write_atomic("no/such/file", "x", 1), TN_EIO);
  assert_non_null(strstr(tn_error_text(), "No such file or directory"));
  assert_int_equal(pn_write_atomic(folder, "x", 1), TN_EIO); /* a folder is not replaced */
  assert_true(pn_path_is_folder(folder));
  assert_int_equal(pn_write_atomic("", "x", 1), TN_EINPUT);
  assert_int_equal(pn_write_atomic("a/", "x", 1), TN_EINPUT);
}

static void files_keep_the_old_content_when_space_ends(void **state) {
  (void)state;
  char *path = in_folder("kept");
  struct rlimit old, small;
  static const char large[5000];
  OK(pn_write_atomic(path, "old", 3));
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 4096; /* the first write is cut short, the second fails */
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  tn_status status = pn_write_atomic(path, large, sizeof large);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(status, TN_EIO);
  expect_content(path, "old");
  assert_int_equal(entries(), 1);
  unlink(path);
  tn_free(&path);
}

static void files_step_over_and_remove_stale_temporaries(void **state) {
  (void)state;
  char *path = in_folder("r.h5"), name[64];
  static const char *const others[] = {".r.h5.tmp", "r.h5.1-0.tmp", ".x-1.tmp", ".a.1-.tmp",
                                       ".a.1-2.tm"};
  snprintf(name, sizeof name, ".r.h5.%ld-0.tmp", (long)getpid());
  char *stale = in_folder(name);
  close(open(stale, O_CREAT | O_WRONLY, 0600));
  OK(pn_write_atomic(path, "new", 3)); /* O_EXCL: the other file is not touched */
  assert_true(pn_path_exists(stale));
  for (size_t i = 0; i < 5; ++i) {
    char *other = in_folder(others[i]);
    close(open(other, O_CREAT | O_WRONLY, 0600));
    tn_free(&other);
  }
  OK(pn_remove_temporaries(folder));
  assert_false(pn_path_exists(stale));
  assert_int_equal(entries(), 6);
  for (size_t i = 0; i < 5; ++i) {
    char *other = in_folder(others[i]);
    assert_int_equal(unlink(other), 0);
    tn_free(&other);
  }
  expect_content(path, "new");
  unlink(path);
  tn_free(&stale);
  tn_free(&path);
}

static void expect_text(char *found, const char *expected) {
  assert_string_equal(found, expected);
  tn_free(&found);
}

static void files_take_paths_apart(void **state) {
  (void)state;
  static const char *const rows[][3] = {/* path, folder, stem */
                                        {"a/b.c", "a", "b"},      {"b.c", ".", "b"},
                                        {"/b", "/", "b"},         {"a/.b", "a", ".b"},
                                        {"a//b.c.d", "a", "b.c"}, {"x.y/b", "x.y", "b"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char *text = NULL;
    OK(pn_path_folder(rows[i][0], &text));
    expect_text(text, rows[i][1]);
    OK(pn_path_stem(rows[i][0], &text));
    expect_text(text, rows[i][2]);
  }
  static const char *const joins[][3] = {
      {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}};
  for (size_t i = 0; i < sizeof joins / sizeof joins[0]; ++i) {
    char *text = NULL;
    OK(pn_path_join(joins[i][0], joins[i][1], &text));
    expect_text(text, joins[i][2]);
  }
}

static void files_next_folder_is_free_and_made(void **state) {
  (void)state;
  char *wanted = in_folder("deep/burgers.out"), *got[3] = {NULL};
  static const char *const names[] = {"burgers.out", "burgers.out-2", "burgers.out-3"};
  for (size_t i = 0; i < 3; ++i) {
    OK(pn_next_free_folder(wanted, &got[i]));
    assert_string_equal(pn_path_name(got[i]), names[i]);
    assert_true(pn_path_is_folder(got[i]));
  }
  OK(pn_make_folder(got[0])); /* exists already */
  char *file = NULL, *below = NULL;
  OK(pn_path_join(got[0], "file", &file));
  OK(pn_write_atomic(file, "", 0));
  OK(pn_path_join(file, "below", &below));
  assert_int_equal(pn_make_folder(below), TN_EIO);
  assert_int_equal(pn_make_folder(file), TN_EIO);
  unlink(file);
  for (size_t i = 0; i < 3; ++i) {
    assert_int_equal(rmdir(got[i]), 0);
    tn_free(&got[i]);
  }
  char *deep = in_folder("deep");
  assert_int_equal(rmdir(deep), 0);
  tn_free(&deep);
  tn_free(&file);
  tn_free(&below);
  tn_free(&wanted);
}

static void sha256_gives_the_published_values(void **state) {
  (void)state;
  char text[65], *million = NULL;
  pn_sha256_text("abc", 3, text);
  assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  pn_sha256_text("", 0, text);
  assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  pn_sha256_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, text);
  assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  OK(tn_new(1000000, 1, &million));
  memset(million, 'a', 1000000);
  pn_sha256_text(million, 1000000, text);
  assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  tn_free(&million);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_write_and_read_back),
      cmocka_unit_test(files_read_more_than_one_buffer),
      cmocka_unit_test(files_errors_give_path_and_reason),
      cmocka_unit_test(files_keep_the_old_content_when_space_ends),
      cmocka_unit_test(files_step_over_and_remove_stale_temporaries),
      cmocka_unit_test(files_take_paths_apart),
      cmocka_unit_test(files_next_folder_is_free_and_made),
      cmocka_unit_test(sha256_gives_the_published_values),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
