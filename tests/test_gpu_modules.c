/* test_gpu_modules.c: compiled kernels, in memory and on disk, over a compiler that is written for it; and a device that
 * many threads use, the emulated one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support_fake_driver.h"

static size_t messages;
static void count_messages(void *context, tn_log_level level, const char *text) {
  (void)text;
  if (level == *(const tn_log_level *)context)
    ++messages;
}

static void cache_in(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", getenv("TEST_DIR") != NULL ? getenv("TEST_DIR") : ".", name);
  setenv("PINN_CUDA_CACHE", path, 1);
}

static const char code[] = "code of something";

static void file_of(const uint64_t key[2], char path[600]) {
  snprintf(path, 600, "%s/%016llx%016llx.cubin", getenv("PINN_CUDA_CACHE"), (unsigned long long)key[0],
           (unsigned long long)key[1]);
}

static size_t read_file(const char *path, unsigned char *bytes, size_t most) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t n = fread(bytes, 1, most, file);
  fclose(file);
  return n;
}

static void write_file(const char *path, const unsigned char *bytes, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  fclose(file);
}

static void assert_no_code(const uint64_t key[2]) {
  size_t n = 1;
  char *data = NULL;
  assert_int_equal(gpu_cache_read(key, &n, &data), TN_OK);
  assert_null(data);
}

static void cache_reads_what_it_wrote_and_nothing_else(void **state) {
  (void)state;
  const uint64_t key[2] = {1, UINT64_MAX}, other[2] = {2, UINT64_MAX};
  unsigned char bytes[256];
  char path[600], *data = NULL;
  size_t n = 0;
  const size_t before = tn_memory_now();
  cache_in("a/b/c");
  assert_no_code(key);
  gpu_cache_write(key, sizeof code, code);
  assert_int_equal(gpu_cache_read(key, &n, &data), TN_OK);
  assert_int_equal(n, sizeof code);
  assert_memory_equal(data, code, n);
  tn_free(&data);
  assert_no_code(other);
  file_of(key, path);
  const size_t length = read_file(path, bytes, sizeof bytes);
  assert_int_equal(length, 64 + sizeof code);
  /* Damaged: one bit anywhere, but in the eight bytes that mean nothing. */
  for (size_t i = 0; i < length; ++i) {
    if (i >= 56 && i < 64)
      continue;
    bytes[i] ^= (unsigned char)(1 << (i % 8));
    write_file(path, bytes, length);
    assert_no_code(key);
    bytes[i] ^= (unsigned char)(1 << (i % 8));
  }
  for (size_t i = 0; i < length; ++i) { /* cut short */
    write_file(path, bytes, i);
    assert_no_code(key);
  }
  write_file(path, bytes, length);
  FILE *file = fopen(path, "ab"); /* longer than it says */
  fputc(0, file);
  fclose(file);
  assert_no_code(key);
  write_file(path, bytes, length); /* of another key, under this name */
  char elsewhere[600];
  file_of(other, elsewhere);
  assert_int_equal(rename(path, elsewhere), 0);
  assert_no_code(other);
  assert_no_code(key);
  gpu_cache_write(other, sizeof code, code); /* over the wrong one */
  assert_int_equal(gpu_cache_read(other, &n, &data), TN_OK);
  assert_non_null(data);
  tn_free(&data);
  assert_int_equal(tn_memory_now(), before);
}

static void cache_does_without_a_folder(void **state) {
  (void)state;
  const uint64_t key[2] = {3, 4};
  tn_log_level level = TN_LOG_WARNING;
  char folder[600];
  setenv("PINN_CUDA_CACHE", "", 1);
  gpu_cache_folder(folder, sizeof folder);
  assert_string_equal(folder, "");
  gpu_cache_write(key, sizeof code, code);
  assert_no_code(key);
  cache_in("file");
  FILE *file = fopen(getenv("PINN_CUDA_CACHE"), "w");
  assert_non_null(file);
  fclose(file);
  cache_in("file/below"); /* no folder can be made there, by nobody */
  messages = 0;
  tn_log_callback(TN_LOG_WARNING, count_messages, &level);
  gpu_cache_write(key, sizeof code, code);
  tn_log_callback(TN_LOG_ERROR, NULL, NULL);
  assert_int_equal(messages, 1);
  assert_no_code(key);
  /* Where it is by default. */
  unsetenv("PINN_CUDA_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  gpu_cache_folder(folder, sizeof folder);
  assert_string_equal(folder, "/xdg/pinn");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/x", 1);
  gpu_cache_folder(folder, sizeof folder);
  assert_string_equal(folder, "/home/x/.cache/pinn");
  gpu_cache_folder(folder, 8); /* longer than there is room */
  assert_string_equal(folder, "");
}

/* One device's life with one kernel; how many compilations it took. */
static size_t compile_one(const char *text, const char *options) {
  gpu_context g;
  gpu_module *module = NULL, *again = NULL;
  CUfunction f = NULL;
  size_t compiled = 0, cached = 0;
  fake_cc.compiled = 0;
  const bool reject = fake.reject_images;
  fake_start(&g, 64 * MIB, false);
  fake.reject_images = reject;
  assert_int_equal(gpu_modules_new(&g), TN_OK);
  assert_int_equal(gpu_module_of(&g, "kernel", text, &module), TN_OK);
  assert_int_equal(gpu_module_of(&g, "kernel", text, &again), TN_OK);
  assert_ptr_equal(module, again);
  assert_int_equal(fake.n_modules, 1);
  assert_int_equal(gpu_function(&g, module, "known", &f), TN_OK);
  assert_int_equal(gpu_function(&g, module, "unknown", &f), TN_EINTERNAL);
  assert_non_null(strstr(tn_error_text(), "`unknown`"));
  gpu_modules_counts(&g, &compiled, &cached);
  assert_int_equal(compiled, fake_cc.compiled);
  assert_true(compiled == 1 || cached == 1);
  if (options != NULL && compiled > 0)
    assert_non_null(strstr(fake_cc.options, options));
  fake_end(&g);
  return compiled;
}

static void module_is_compiled_once(void **state) {
  (void)state;
  cache_in("modules");
  assert_int_equal(compile_one("one", "--gpu-architecture=sm_90 "), 1);
  assert_non_null(strstr(fake_cc.options, "--fmad=false"));
  assert_non_null(strstr(fake_cc.options, "--ftz=false"));
  assert_null(strstr(fake_cc.options, "fast"));
  assert_int_equal(compile_one("one", NULL), 0); /* the next process */
  assert_int_equal(compile_one("two", NULL), 1);
  fake_cc.minor = 1; /* another NVRTC */
  assert_int_equal(compile_one("one", NULL), 1);
  fake_cc.minor = 0;
  fake_version = 13010; /* another driver */
  assert_int_equal(compile_one("one", NULL), 1);
  fake_version = 13000;
  assert_int_equal(compile_one("one", NULL), 0);
  fake.reject_images = true; /* a driver that does not want what is there */
  assert_int_equal(compile_one("one", NULL), 1);
  assert_int_equal(compile_one("one", NULL), 0);
  setenv("PINN_CUDA_CACHE", "", 1);
  assert_int_equal(compile_one("one", NULL), 1);
}

static void module_of_a_newer_device_is_ptx(void **state) {
  (void)state;
  int architecture = 0;
  bool ptx = false;
  setenv("PINN_CUDA_CACHE", "", 1);
  assert_int_equal(gpu_architecture_for(&fake_nvrtc, 90, &architecture, &ptx), TN_OK);
  assert_true(architecture == 90 && !ptx);
  assert_int_equal(gpu_architecture_for(&fake_nvrtc, 120, &architecture, &ptx), TN_OK);
  assert_true(architecture == 90 && ptx);
  assert_int_equal(gpu_architecture_for(&fake_nvrtc, 86, &architecture, &ptx), TN_OK);
  assert_true(architecture == 80 && ptx);
  assert_int_equal(gpu_architecture_for(&fake_nvrtc, 70, &architecture, &ptx), TN_EENV);
  assert_non_null(strstr(tn_error_text(), "sm_75 and newer, not for compute capability 7.0"));
  fake_cc.architectures[2] = 89;
  assert_int_equal(compile_one("three", "--gpu-architecture=compute_89 "), 1);
  fake_cc.architectures[2] = 90;
}

static void module_that_does_not_compile_says_why(void **state) {
  (void)state;
  gpu_context g;
  gpu_module *module = NULL;
  setenv("PINN_CUDA_CACHE", "", 1);
  fake_start(&g, 64 * MIB, false);
  assert_int_equal(gpu_modules_new(&g), TN_OK);
  assert_int_equal(gpu_module_of(&g, "step", "an error", &module), TN_EINTERNAL);
  assert_null(module);
  assert_non_null(strstr(tn_error_text(), "kernel step for sm_90: NVRTC 13.0: NVRTC_ERROR_COMPILATION"));
  assert_non_null(strstr(tn_error_text(), "line 7: no such thing"));
  fake.fail_at = fake.calls + 1;
  fake.fail_with = CUDA_ERROR_OUT_OF_MEMORY;
  assert_int_equal(gpu_module_of(&g, "step", "good", &module), TN_ENOMEM);
  assert_int_equal(gpu_module_of(&g, "step", "good", &module), TN_OK); /* nothing half-made is left */
  fake_end(&g);
}

static void module_survives_each_failure_of_the_host(void **state) {
  (void)state;
  cache_in("oom");
  for (uint64_t n = 1, reached = 1; reached; ++n) {
    gpu_context g;
    gpu_module *module = NULL;
    char text[32];
    snprintf(text, sizeof text, "text %d", (int)n);
    fake_start(&g, 64 * MIB, false);
    tn_fault_at(n, false);
    tn_status status = gpu_modules_new(&g);
    if (status == TN_OK)
      status = gpu_module_of(&g, "kernel", text, &module);
    reached = tn_fault_count() >= n;
    tn_fault_at(0, false);
    assert_int_equal(status, reached ? TN_ENOMEM : TN_OK);
    fake_end(&g);
  }
}

/* ---- Threads, on the emulated device ----------------------------------------------------------- */

typedef struct {
  const gpu_driver *drivers[64];
  tn_status status[64];
  gpu_context *g;
} crowd;

static void load_driver(void *context, size_t i, size_t worker) {
  crowd *c = context;
  (void)worker;
  c->status[i] = gpu_need_driver(&c->drivers[i]);
}

static tn_status copy_and_compare(gpu_context *g, size_t i) {
  CUdeviceptr at = 0;
  unsigned char x[3000], y[3000];
  fake_fill(x, sizeof x, (unsigned)i);
  TN_TRY(gpu_take(g, sizeof x, &at));
  tn_status status = gpu_upload(g, i % 2 == 0, at, x, sizeof x);
  if (status == TN_OK)
    status = gpu_download(g, y, at, sizeof y);
  gpu_give(g, &at);
  TN_TRY(status);
  return memcmp(x, y, sizeof x) == 0 ? TN_OK : TN_FAIL(TN_EINTERNAL, "the data differ");
}

static void use_device(void *context, size_t i, size_t worker) {
  crowd *c = context;
  (void)worker;
  tn_status status = gpu_enter(c->g);
  if (status == TN_OK)
    status = gpu_enter(c->g); /* nested */
  if (status == TN_OK)
    status = copy_and_compare(c->g, i);
  gpu_leave(c->g);
  gpu_leave(c->g);
  c->status[i] = status;
}

static void device_serves_many_threads(void **state) {
  (void)state;
  crowd c = {0};
  tn_pool *pool = NULL;
  tn_device *device = NULL;
  gpu_memory facts;
  const size_t before = tn_memory_now();
  setenv("PINN_CUDA_PATH", EMULATED_CUDA_DIR, 1);
  assert_int_equal(tn_pool_new(4, &pool), TN_OK);
  tn_pool_run(pool, 64, load_driver, &c);
  for (size_t i = 0; i < 64; ++i) {
    assert_int_equal(c.status[i], TN_OK);
    assert_ptr_equal(c.drivers[i], c.drivers[0]);
  }
  assert_int_equal(gpu_open(0, &device), TN_OK);
  c.g = gpu_of(device);
  tn_pool_run(pool, 64, use_device, &c);
  for (size_t i = 0; i < 64; ++i)
    assert_int_equal(c.status[i], TN_OK);
  assert_int_equal(gpu_memory_of(device, &facts), TN_OK);
  assert_int_equal(facts.requests, 64);
  assert_int_equal(facts.used, 0);
  assert_int_equal(gpu_memory_of(NULL, &facts), TN_EINPUT);
  assert_int_equal(gpu_open(gpu_count(), &device), TN_EENV);
  assert_null(device);
  assert_non_null(strstr(tn_error_text(), "was asked for"));
  device = &c.g->base;
  device->backend->close(device);
  tn_pool_free(&pool);
  gpu_libraries_forget();
  setenv("PINN_CUDA_PATH", "/", 1);
  gpu_library_facts about;
  if (gpu_library_about(GPU_DRIVER, &about) != TN_OK) /* a machine without a driver of its own */
    assert_false(about.found);
  unsetenv("PINN_CUDA_PATH");
  gpu_libraries_forget();
  assert_int_equal(tn_memory_now(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cache_reads_what_it_wrote_and_nothing_else),
      cmocka_unit_test(cache_does_without_a_folder),
      cmocka_unit_test(module_is_compiled_once),
      cmocka_unit_test(module_of_a_newer_device_is_ptx),
      cmocka_unit_test(module_that_does_not_compile_says_why),
      cmocka_unit_test(module_survives_each_failure_of_the_host),
      cmocka_unit_test(device_serves_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
