/* nvrtc.c: libnvrtc of the emulated device: compiles kernels with the host's C++ compiler.
 *
 * The text gets shim.h in front and, behind, for each `extern "C" __global__ void name(`, two
 * functions by which the driver calls it and learns the sizes of its arguments. The compiler runs
 * as a process of its own, without a shell, and makes a shared object; the "cubin" is that with a
 * header (image.h). Options mean what they mean for NVRTC as far as they touch the numbers: without
 * --fmad=false products and sums are contracted.
 *
 * EMULATED_CUDA_CACHE names a folder that keeps what was compiled, keyed by text, options and shim,
 * so that a test which opens a device a hundred times compiles once. To the program it looks as if
 * each had been compiled.
 */
#include "tests/device/emulator.h"
#include "tests/device/image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_OPTIONS = 48, PATH_ROOM = 512, ALIVE = 0x4e56 };

struct _nvrtcProgram {
  unsigned magic;
  char *text, name[64];
  char *log; /* NULL: empty */
  char *image;
  size_t image_bytes;
};

typedef struct options {
  const char *passed[MOST_OPTIONS]; /* -D.. and -std=.. */
  int n_passed;
  bool contract, fast_math;
  char bad[128]; /* the first that is not known */
} options;

static const int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int code_ = emulated_call(name);                                                               \
    if (code_)                                                                                     \
      return (nvrtcResult)code_;                                                                   \
  } while (0)

EMULATED nvrtcResult nvrtcVersion(int *major, int *minor) {
  CALL("nvrtcVersion");
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

EMULATED nvrtcResult nvrtcGetNumSupportedArchs(int *n) {
  CALL("nvrtcGetNumSupportedArchs");
  *n = (int)(sizeof architectures / sizeof *architectures);
  return NVRTC_SUCCESS;
}

EMULATED nvrtcResult nvrtcGetSupportedArchs(int *out) {
  CALL("nvrtcGetSupportedArchs");
  memcpy(out, architectures, sizeof architectures);
  return NVRTC_SUCCESS;
}

EMULATED const char *nvrtcGetErrorString(nvrtcResult code) {
  static const char *const words[] = {"NVRTC_SUCCESS",
                                      "NVRTC_ERROR_OUT_OF_MEMORY",
                                      "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                      "NVRTC_ERROR_INVALID_INPUT",
                                      "NVRTC_ERROR_INVALID_PROGRAM",
                                      "NVRTC_ERROR_INVALID_OPTION",
                                      "NVRTC_ERROR_COMPILATION",
                                      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
  return (size_t)code < sizeof words / sizeof *words ? words[code] : "NVRTC_ERROR_INTERNAL_ERROR";
}

static bool valid(nvrtcProgram p, const char *call) {
  if (p && p->magic == ALIVE)
    return true;
  emulated_fault("%s: no program (destroyed twice?)", call);
  return false;
}

EMULATED nvrtcResult nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name,
                                        int n_headers, const char *const *headers,
                                        const char *const *names) {
  (void)headers;
  (void)names;
  CALL("nvrtcCreateProgram");
  if (!out || !text || n_headers != 0)
    return NVRTC_ERROR_INVALID_INPUT;
  nvrtcProgram p = calloc(1, sizeof *p);
  char *copy = strdup(text);
  if (!p || !copy) {
    free(p);
    free(copy);
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  p->magic = ALIVE;
  p->text = copy;
  snprintf(p->name, sizeof p->name, "%s", name ? name : "default_program");
  *out = p;
  emulated_handle(1);
  return NVRTC_SUCCESS;
}

EMULATED nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  nvrtcProgram p = *program;
  int code = emulated_call("nvrtcDestroyProgram");
  if (!valid(p, "nvrtcDestroyProgram"))
    return NVRTC_ERROR_INVALID_PROGRAM;
  free(p->text);
  free(p->log);
  free(p->image);
  p->magic = 0;
  free(p);
  *program = NULL;
  emulated_handle(-1);
  return (nvrtcResult)code;
}

/* ---- The text -------------------------------------------------------------------------------- */
/* The name of the next kernel of the text from `at` on; NULL where there is none. */
static const char *next_kernel(const char *text, const char *at, char name[128]) {
  while ((at = strstr(at, "__global__"))) {
    const char *line = at; /* a macro's definition is no kernel */
    while (line > text && line[-1] != '\n')
      --line;
    at += strlen("__global__");
    if (*line == '#')
      continue;
    const char *open = at;
    for (;;) { /* the parenthesis that follows a name other than __launch_bounds__ */
      open += strcspn(open, "(;{");
      const char *end = open;
      while (end > at && isspace((unsigned char)end[-1]))
        --end;
      const char *begin = end;
      while (begin > at && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        --begin;
      if (*open != '(' || begin == end)
        break;
      snprintf(name, 128, "%.*s", (int)(end - begin), begin);
      if (strcmp(name, "__launch_bounds__") != 0)
        return open;
      open += strcspn(open, ")");
    }
  }
  return NULL;
}

static bool write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file)
    return false;
  fputs(text, file);
  fputs("\n", file);
  char name[128];
  for (const char *at = text; (at = next_kernel(text, at, name));)
    fprintf(
        file,
        "extern \"C\" __attribute__((visibility(\"default\"))) void emulated_call_%s(void **a) {"
        " emulated_call(%s, a); }\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) unsigned emulated_sizes_%s(unsigned "
        "*bytes) {"
        " return emulated_sizes(%s, bytes); }\n",
        name, name, name, name);
  return fclose(file) == 0;
}

static void read_options(options *o, int n, const char *const *given) {
  static const char *const ignored[] = {"-arch",
                                        "--gpu-architecture",
                                        "-default-device",
                                        "--device-as-default-execution-space",
                                        "-lineinfo",
                                        "--generate-line-info",
                                        "-w",
                                        "--disable-warnings",
                                        "-rdc=false",
                                        "--relocatable-device-code=false",
                                        "--prec-div=true",
                                        "-prec-div=true",
                                        "--prec-sqrt=true",
                                        "-prec-sqrt=true",
                                        "--ftz=false",
                                        "-ftz=false",
                                        "--extra-device-vectorization",
                                        "-opt-info",
                                        "--diag-",
                                        "-diag-",
                                        "--maxrregcount",
                                        "--restrict",
                                        "--split-compile",
                                        "--no-cache",
                                        "-dopt",
                                        "--dopt",
                                        "--no-source-include",
                                        "--minimal",
                                        "-minimal",
                                        "--device-int128"};
  *o = (options){.contract = true};
  for (int i = 0; i < n; ++i) {
    const char *text = given[i];
    bool known = false;
    if (strcmp(text, "--fmad=false") == 0 || strcmp(text, "-fmad=false") == 0) {
      o->contract = false;
      continue;
    }
    if (strcmp(text, "--use_fast_math") == 0 || strcmp(text, "-use_fast_math") == 0) {
      o->fast_math = true;
      continue;
    }
    if (strncmp(text, "-D", 2) == 0 || strncmp(text, "-std=", 5) == 0 ||
        strncmp(text, "--std=", 6) == 0) {
      if (o->n_passed < MOST_OPTIONS)
        o->passed[o->n_passed++] = text + (strncmp(text, "--", 2) == 0);
      continue;
    }
    if (strcmp(text, "--fmad=true") == 0 || strcmp(text, "-fmad=true") == 0)
      continue;
    for (size_t k = 0; k < sizeof ignored / sizeof *ignored && !known; ++k)
      known = strncmp(text, ignored[k], strlen(ignored[k])) == 0;
    if (!known && !o->bad[0])
      snprintf(o->bad, sizeof o->bad, "%s", text);
  }
}

/* ---- The compiler ---------------------------------------------------------------------------- */
static char *read_file(const char *path, size_t head, size_t *bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  char *data = NULL;
  if (file >= 0 && fstat(file, &facts) == 0 && (data = malloc(head + (size_t)facts.st_size + 1))) {
    size_t got = 0;
    ssize_t n;
    while (got < (size_t)facts.st_size &&
           (n = read(file, data + head + got, (size_t)facts.st_size - got)) > 0)
      got += (size_t)n;
    data[head + got] = '\0';
    *bytes = got;
  }
  if (file >= 0)
    close(file);
  return data;
}

/* Exit status; the compiler's words go to the file `log`. */
static int run_compiler(const options *o, const char *source, const char *object, const char *log) {
  const char *arguments[MOST_OPTIONS + 32] = {EMULATED_CXX,
                                              "-x",
                                              "c++",
                                              "-std=c++17",
                                              "-O1",
                                              "-fPIC",
                                              "-shared",
                                              "-nostdlib",
                                              "-fvisibility=hidden",
                                              "-fno-exceptions",
                                              "-fno-rtti",
                                              "-fno-asynchronous-unwind-tables",
                                              "-fno-math-errno",
                                              "-fno-strict-aliasing",
                                              "-w",
                                              "-include",
                                              EMULATED_SHIM,
                                              "-o",
                                              object};
  int n = 0;
  while (arguments[n])
    ++n;
#if defined __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
    arguments[n++] = "-march=x86-64-v3"; /* fma() becomes one instruction */
#endif
#if !defined __clang__
  arguments[n++] = "-fno-gnu-unique";
#endif
  arguments[n++] = o->contract ? "-ffp-contract=fast" : "-ffp-contract=off";
  if (o->fast_math)
    arguments[n++] = "-ffast-math";
  for (int i = 0; i < o->n_passed; ++i)
    arguments[n++] = o->passed[i];
  arguments[n++] = source;
  arguments[n] = NULL;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  int status = -1;
  int failed =
      posix_spawn(&child, EMULATED_CXX, &actions, NULL, (char **)(uintptr_t)arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    return -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool image_of(nvrtcProgram p, const char *object) {
  image_header h = {.magic = IMAGE_MAGIC};
  size_t bytes = 0;
  p->image = read_file(object, sizeof h, &bytes);
  if (!p->image || bytes == 0)
    return false;
  h.bytes = bytes;
  h.sum = image_sum(image_sum_first, p->image + sizeof h, bytes);
  memcpy(p->image, &h, sizeof h);
  p->image_bytes = sizeof h + bytes;
  return true;
}

/* Where the cache keeps it; "" without a cache. */
static void cache_path(const nvrtcProgram p, const options *o, char path[PATH_ROOM]) {
  const char *folder = getenv("EMULATED_CUDA_CACHE");
  path[0] = '\0';
  if (!folder || !*folder)
    return;
  size_t bytes = 0;
  char *shim = read_file(EMULATED_SHIM, 0, &bytes);
  uint64_t sum = image_sum(image_sum_first, p->text, strlen(p->text));
  sum = image_sum(sum, shim ? shim : "", bytes);
  sum = image_sum(sum, EMULATED_CXX, sizeof EMULATED_CXX);
  for (int i = 0; i < o->n_passed; ++i)
    sum = image_sum(sum, o->passed[i], strlen(o->passed[i]) + 1);
  free(shim);
  mkdir(folder, 0777);
  snprintf(path, PATH_ROOM, "%s/%016llx%s%s.so", folder, (unsigned long long)sum,
           o->contract ? "c" : "", o->fast_math ? "f" : "");
}

static nvrtcResult compile(nvrtcProgram p, const options *o) {
  char cached[PATH_ROOM], folder[PATH_ROOM], source[PATH_ROOM + 16], object[PATH_ROOM + 16],
      log[PATH_ROOM + 16];
  cache_path(p, o, cached);
  if (cached[0] && access(cached, R_OK) == 0)
    return image_of(p, cached) ? NVRTC_SUCCESS : NVRTC_ERROR_OUT_OF_MEMORY;
  const char *temporary = getenv("TMPDIR");
  const char *keep = getenv("EMULATED_CUDA_CACHE");
  snprintf(folder, sizeof folder, "%s/emulated-nvrtc-XXXXXX",
           keep && *keep             ? keep
           : temporary && *temporary ? temporary
                                     : "/tmp");
  if (!mkdtemp(folder))
    return NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
  snprintf(source, sizeof source, "%s/kernel.cpp", folder);
  snprintf(object, sizeof object, "%s/kernel.so", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  int status = write_text(source, p->text) ? run_compiler(o, source, object, log) : -1;
  size_t bytes;
  free(p->log);
  p->log = read_file(log, 0, &bytes);
  bool good = status == 0 && image_of(p, object);
  if (good && cached[0])
    rename(object, cached);
  unlink(source);
  unlink(object);
  unlink(log);
  rmdir(folder);
  return good ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

EMULATED nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *given) {
  CALL("nvrtcCompileProgram");
  if (!valid(p, "nvrtcCompileProgram"))
    return NVRTC_ERROR_INVALID_PROGRAM;
  options o;
  read_options(&o, n, given);
  free(p->image);
  p->image = NULL;
  if (o.bad[0]) {
    free(p->log);
    p->log = malloc(256);
    if (p->log)
      snprintf(p->log, 256, "nvrtc: error: unrecognized option %s\n", o.bad);
    return NVRTC_ERROR_INVALID_OPTION;
  }
  return compile(p, &o);
}

EMULATED nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes) {
  CALL("nvrtcGetProgramLogSize");
  if (!valid(p, "nvrtcGetProgramLogSize"))
    return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = (p->log ? strlen(p->log) : 0) + 1;
  return NVRTC_SUCCESS;
}

EMULATED nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) {
  CALL("nvrtcGetProgramLog");
  if (!valid(p, "nvrtcGetProgramLog"))
    return NVRTC_ERROR_INVALID_PROGRAM;
  strcpy(log, p->log ? p->log : "");
  return NVRTC_SUCCESS;
}

static nvrtcResult image_size(nvrtcProgram p, const char *call, size_t *bytes) {
  if (!valid(p, call))
    return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = p->image ? p->image_bytes : 0;
  return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

EMULATED nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes) {
  CALL("nvrtcGetCUBINSize");
  return image_size(p, "nvrtcGetCUBINSize", bytes);
}

EMULATED nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *out) {
  CALL("nvrtcGetCUBIN");
  size_t bytes;
  nvrtcResult result = image_size(p, "nvrtcGetCUBIN", &bytes);
  if (result == NVRTC_SUCCESS)
    memcpy(out, p->image, bytes);
  return result;
}

/* PTX is the same image: the driver here loads either. */
EMULATED nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *bytes) {
  CALL("nvrtcGetPTXSize");
  return image_size(p, "nvrtcGetPTXSize", bytes);
}

EMULATED nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *out) {
  CALL("nvrtcGetPTX");
  size_t bytes;
  nvrtcResult result = image_size(p, "nvrtcGetPTX", &bytes);
  if (result == NVRTC_SUCCESS)
    memcpy(out, p->image, bytes);
  return result;
}
