/* findings.c: what `pinn doctor` says about GPUs.
 *
 * The libraries are loaded as a run would load them, the devices asked as gpu_open asks them, so what is printed is
 * what will happen. On top of that it looks for what makes such things go wrong in practice: two different files of
 * one library on the search path, a file there that hides the toolkit's, a stub of the driver, switches of NVIDIA's
 * libraries in the environment that change numbers.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/context.h"

typedef struct {
  size_t n;
  gpu_finding *list;
} findings;

/* Appends a finding; texts follow by found_text and advise. */
static tn_status add(findings *f, const char *name, gpu_state state, gpu_finding **out) {
  TN_TRY(tn_grow(&f->list, f->n, f->n + 1, sizeof *f->list));
  gpu_finding *x = &f->list[f->n++];
  x->name = name;
  x->state = state;
  *out = x;
  return TN_OK;
}

/* Adds to a text of 512 bytes. */
static void TN_PRINTF(2, 3) append(char *text, const char *format, ...) {
  const size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, 512 - length, format, arguments);
  va_end(arguments);
}

/* ---- Architectures ----------------------------------------------------------------------------- */

const char *gpu_architectures(void) {
  static _Thread_local char text[512];
  const gpu_nvrtc *nvrtc = NULL;
  int n = 0, list[64] = {0}, most = 0, major = 0, minor = 0;
  text[0] = '\0';
  if (gpu_need_nvrtc(&nvrtc) != TN_OK) {
    append(text, "none, for want of NVRTC, which compiles kernels when a program runs");
    return text;
  }
  if (nvrtc->nvrtcGetNumSupportedArchs(&n) != NVRTC_SUCCESS || n <= 0 || n > 64 ||
      nvrtc->nvrtcGetSupportedArchs(list) != NVRTC_SUCCESS ||
      nvrtc->nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) {
    append(text, "not known, NVRTC does not say what it compiles for");
    return text;
  }
  for (int i = 0; i < n; ++i) {
    append(text, "%ssm_%d", i > 0 ? " " : "", list[i]);
    most = list[i] > most ? list[i] : most;
  }
  append(text, ", newer ones by PTX of compute_%d (compiled at run time by NVRTC %d.%d)", most, major, minor);
  return text;
}

/* ---- Libraries --------------------------------------------------------------------------------- */

static const char *const names[GPU_LIBRARIES] = {"driver",   "NVRTC", "cuBLASLt", "cuBLAS",
                                                 "cuSOLVER", "cuDNN", "NCCL"};

/* Major versions must agree for NVIDIA's promise of compatibility; the driver's may be newer. */
static bool majors_differ(const gpu_library_facts *facts) {
  const size_t built = strcspn(facts->built, "."), loaded = strcspn(facts->loaded, ".");
  return loaded > 0 && built > 0 && (built != loaded || strncmp(facts->built, facts->loaded, built) != 0);
}

static tn_status library(findings *f, gpu_library which, bool driver_found) {
  gpu_library_facts facts;
  gpu_finding *x = NULL;
  const tn_status status = gpu_library_about(which, &facts);
  char reason[400];
  snprintf(reason, sizeof reason, "%s", tn_error_text());
  TN_TRY(add(f, names[which], GPU_FINE, &x));
  if (status == TN_EUNSUPPORTED) {
    x->state = GPU_ABSENT;
    append(x->found, "not in this build, its header was missing");
  } else if (status != TN_OK && facts.found) {
    x->state = GPU_BROKEN;
    append(x->found, "%s", reason);
    append(x->advice, "remove or replace this file; then %s", facts.package);
  } else if (status != TN_OK) {
    x->state = GPU_ABSENT;
    append(x->found, "no %s was found (built with %s)", gpu_library_file(which, 0), facts.built);
    if (which == GPU_DRIVER) {
      append(x->advice, "without it everything runs on the CPU; for a GPU, %s", facts.package);
    } else if (driver_found) { /* on a machine without GPU nothing is missed */
      append(x->advice, "%s, or name its folder in PINN_CUDA_PATH", facts.package);
    }
  } else {
    append(x->found, "%s%s (built with %s), %s", which == GPU_DRIVER ? "CUDA " : "",
           facts.loaded[0] != '\0' ? facts.loaded : "version not known", facts.built, facts.path);
    if (which == GPU_DRIVER && atoi(facts.loaded) < 12) {
      x->state = GPU_BROKEN;
      append(x->advice, "it runs CUDA %s; update it to one that runs 12.0 or newer", facts.loaded);
    } else if (which != GPU_DRIVER && majors_differ(&facts)) {
      append(x->advice, "another major version than this program was built with; it is used as far as it goes");
    }
  }
  return TN_OK;
}

/* ---- Devices ----------------------------------------------------------------------------------- */

static tn_status device(findings *f, const gpu_driver *driver, const gpu_nvrtc *nvrtc, int index) {
  static const char *const device_names[] = {"device 0", "device 1", "device 2", "device 3", "device 4",
                                             "device 5", "device 6", "device 7", "device 8 and on"};
  gpu_finding *x = NULL;
  CUdevice d = 0;
  int major = 0, minor = 0, architecture = 0;
  size_t bytes = 0;
  bool ptx = false;
  char name[96] = "";
  TN_TRY(add(f, device_names[index < 8 ? index : 8], GPU_FINE, &x));
  if (driver->cuDeviceGet(&d, index) != CUDA_SUCCESS ||
      driver->cuDeviceGetName(name, sizeof name, d) != CUDA_SUCCESS ||
      driver->cuDeviceTotalMem(&bytes, d) != CUDA_SUCCESS ||
      driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d) != CUDA_SUCCESS ||
      driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d) != CUDA_SUCCESS) {
    x->state = GPU_BROKEN;
    append(x->found, "the driver does not answer for it");
    append(x->advice, "look at `nvidia-smi`");
    return TN_OK;
  }
  append(x->found, "%s, %.0f GiB, compute capability %d.%d", name, (double)bytes / (1 << 30), major, minor);
  if (major < 7) {
    x->state = GPU_BROKEN;
    append(x->advice, "capability 7.0 or more is needed");
  } else if (nvrtc == NULL) {
    x->state = GPU_BROKEN;
    append(x->found, ", no code without NVRTC");
  } else if (gpu_architecture_for(nvrtc, 10 * major + minor, &architecture, &ptx) != TN_OK) {
    x->state = GPU_BROKEN;
    append(x->advice, "this NVRTC makes no code for it: %s", gpu_architectures());
  } else {
    append(x->found, ", code %s_%d", ptx ? "PTX of compute" : "sm", architecture);
  }
  return TN_OK;
}

static tn_status devices(findings *f) {
  const gpu_driver *driver = NULL;
  const gpu_nvrtc *nvrtc = NULL;
  gpu_finding *x = NULL;
  int count = 0;
  if (gpu_need_driver(&driver) != TN_OK)
    return TN_OK; /* said already */
  CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && count == 0)
    result = CUDA_ERROR_NO_DEVICE;
  if (result != CUDA_SUCCESS) {
    const char *name = NULL;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
      name = "an error without a name";
    TN_TRY(add(f, "devices", result == CUDA_ERROR_NO_DEVICE ? GPU_ABSENT : GPU_BROKEN, &x));
    append(x->found, "%s (%d)", name, (int)result);
    append(x->advice, "%s", gpu_advice(result));
    return TN_OK;
  }
  if (gpu_need_nvrtc(&nvrtc) != TN_OK)
    nvrtc = NULL;
  for (int i = 0; i < count && i <= 8; ++i)
    TN_TRY(device(f, driver, nvrtc, i));
  return TN_OK;
}

/* ---- Search path ------------------------------------------------------------------------------- */

enum { MOST_FILES = 16, PATH_BYTES = 512 };

typedef struct {
  char path[PATH_BYTES];
  dev_t device;
  ino_t inode;
} place;

/* The different files called `name` in a colon-separated list of folders, in order; links to one file are one. */
static size_t find_files(const char *folders, const char *name, place *places, size_t n) {
  for (const char *at = folders; at != NULL && *at != '\0' && n < MOST_FILES;) {
    const size_t length = strcspn(at, ":");
    place *x = &places[n];
    struct stat facts;
    bool fresh = length > 0 && length < PATH_BYTES - 64 &&
                 snprintf(x->path, sizeof x->path, "%.*s/%s", (int)length, at, name) > 0 && stat(x->path, &facts) == 0;
    for (size_t i = 0; fresh && i < n; ++i)
      fresh = places[i].device != facts.st_dev || places[i].inode != facts.st_ino;
    if (fresh) {
      x->device = facts.st_dev;
      x->inode = facts.st_ino;
      ++n;
    }
    at += length + (at[length] == ':');
  }
  return n;
}

/* Files of one name that differ: which one a run gets depends on the order of folders. */
static void conflicts_of(const char *name, gpu_finding *x) {
  place places[MOST_FILES];
  size_t n = find_files(getenv("PINN_CUDA_PATH"), name, places, 0);
  if (n > 0)
    return; /* a clear wish */
  n = find_files(getenv("LD_LIBRARY_PATH"), name, places, n);
  if (n == 0)
    return;
  const size_t on_path = n;
#ifdef GPU_TOOLKIT_FOLDER
  n = find_files(GPU_TOOLKIT_FOLDER, name, places, n);
#endif
  if (on_path > 1) {
    append(x->advice, "%s%s is taken and differs from %s on LD_LIBRARY_PATH", x->advice[0] != '\0' ? "; " : "",
           places[0].path, places[1].path);
  } else if (n > 1) {
    append(x->advice, "%s%s hides %s of the toolkit that this program was built with",
           x->advice[0] != '\0' ? "; " : "", places[0].path, places[1].path);
  }
}

/* libcuda.so in a folder `stubs`. */
static void stubs_of(const char *variable, gpu_finding *x) {
  const char *folders = getenv(variable);
  for (const char *at = folders; at != NULL && *at != '\0';) {
    const size_t length = strcspn(at, ":");
    char path[PATH_BYTES];
    for (size_t k = 0; k < 2 && length > 0 && length < PATH_BYTES - 64; ++k) {
      snprintf(path, sizeof path, "%.*s/%s", (int)length, at, k == 0 ? "libcuda.so.1" : "libcuda.so");
      if (strstr(path, "/stubs/") == NULL || access(path, F_OK) != 0)
        continue;
      append(x->advice, "%s%s is a stub for linking and no driver: take its folder out of %s",
             x->advice[0] != '\0' ? "; " : "", path, variable);
      break;
    }
    at += length + (at[length] == ':');
  }
}

static tn_status paths(findings *f) {
  const char *own = getenv("PINN_CUDA_PATH"), *system = getenv("LD_LIBRARY_PATH");
  gpu_finding *x = NULL;
  TN_TRY(add(f, "paths", GPU_FINE, &x));
  append(x->found, "PINN_CUDA_PATH %s%.150s, LD_LIBRARY_PATH %s%.250s", own != NULL ? "= " : "not set",
         own != NULL ? own : "", system != NULL ? "= " : "not set", system != NULL ? system : "");
  for (size_t which = 0; which < GPU_LIBRARIES; ++which) {
    const char *file = NULL;
    for (size_t k = 0; (file = gpu_library_file((gpu_library)which, k)) != NULL; ++k)
      conflicts_of(file, x);
  }
  stubs_of("PINN_CUDA_PATH", x);
  stubs_of("LD_LIBRARY_PATH", x);
  for (const char *at = own; at != NULL && *at != '\0';) {
    const size_t length = strcspn(at, ":");
    char folder[PATH_BYTES];
    struct stat facts;
    snprintf(folder, sizeof folder, "%.*s", (int)(length < PATH_BYTES ? length : PATH_BYTES - 1), at);
    if (length > 0 && (stat(folder, &facts) != 0 || !S_ISDIR(facts.st_mode)))
      append(x->advice, "%sPINN_CUDA_PATH names %s, which is no folder", x->advice[0] != '\0' ? "; " : "", folder);
    at += length + (at[length] == ':');
  }
  return TN_OK;
}

/* ---- Numbers, cache ---------------------------------------------------------------------------- */

/* Switches of NVIDIA's libraries by which they, not the problem, choose the arithmetic of products. */
static const char *const switches[] = {"NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
                                       "CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATION_STRATEGY"};

static tn_status numbers(findings *f) {
  gpu_finding *x = NULL;
  TN_TRY(add(f, "TF32", GPU_FINE, &x));
  append(x->found, "off; only where a problem's precision asks for it");
  for (size_t i = 0; i < sizeof switches / sizeof *switches; ++i) {
    const char *value = getenv(switches[i]);
    if (value == NULL)
      continue;
    append(x->found, "; %s=%.16s", switches[i], value);
    append(x->advice, "%sunset %s", x->advice[0] != '\0' ? ", " : "", switches[i]);
  }
  if (x->advice[0] != '\0')
    append(x->advice, ": it lets NVIDIA's libraries decide how products are computed, not the problem");
  TN_TRY(add(f, "FTZ", GPU_FINE, &x));
  append(x->found, "off on devices: subnormals are kept (--ftz=false), products and sums are not contracted "
                   "(--fmad=false)");
  return TN_OK;
}

/* Files of compiled kernels in a folder, and their bytes. */
static size_t count_files(const char *folder, double *bytes) {
  size_t n = 0;
  *bytes = 0;
  DIR *handle = opendir(folder);
  for (const struct dirent *entry = NULL; handle != NULL && (entry = readdir(handle)) != NULL;) {
    const size_t length = strlen(entry->d_name);
    char path[2048];
    struct stat facts;
    if (length < 6 || strcmp(entry->d_name + length - 6, ".cubin") != 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &facts) != 0)
      continue;
    *bytes += (double)facts.st_size;
    ++n;
  }
  if (handle != NULL)
    closedir(handle);
  return n;
}

/* Can files be made in the folder, or the folder in the first one above it that exists? */
static bool can_write(const char *folder) {
  char path[1024];
  snprintf(path, sizeof path, "%s", folder);
  while (access(path, F_OK) != 0) {
    char *slash = strrchr(path, '/');
    if (slash == NULL)
      return access(".", W_OK) == 0;
    slash[slash == path] = '\0';
  }
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && access(path, W_OK | X_OK) == 0;
}

static tn_status cache(findings *f) {
  char folder[1024];
  gpu_finding *x = NULL;
  double bytes = 0;
  gpu_cache_folder(folder, sizeof folder);
  TN_TRY(add(f, "kernels", GPU_FINE, &x));
  append(x->found, "%s", gpu_architectures());
  TN_TRY(add(f, "cache", GPU_FINE, &x));
  if (folder[0] == '\0') {
    append(x->found, "none: each run compiles its kernels");
    return TN_OK;
  }
  const size_t n = count_files(folder, &bytes);
  append(x->found, "%.300s, %zu file%s, %.1f MiB", folder, n, n == 1 ? "" : "s", bytes / (1 << 20));
  if (!can_write(folder))
    append(x->advice, "it cannot be written, so each run compiles its kernels; PINN_CUDA_CACHE names another folder");
  return TN_OK;
}

tn_status gpu_findings(size_t *n, gpu_finding **list) {
  findings f = {0};
  const gpu_driver *driver = NULL;
  *n = 0;
  *list = NULL;
  const bool driver_found = gpu_need_driver(&driver) == TN_OK;
  tn_status status = TN_OK;
  for (size_t i = 0; status == TN_OK && i < GPU_LIBRARIES; ++i)
    status = library(&f, (gpu_library)i, driver_found);
  if (status == TN_OK)
    status = devices(&f);
  if (status == TN_OK)
    status = paths(&f);
  if (status == TN_OK)
    status = numbers(&f);
  if (status == TN_OK)
    status = cache(&f);
  if (status != TN_OK) {
    tn_free(&f.list);
    return status;
  }
  tn_error_clear(); /* what was reported is no error of this call */
  *n = f.n;
  *list = f.list;
  return TN_OK;
}
