/* libraries.c: finds NVIDIA's libraries and fills the tables of libraries.h.
 *
 * The names of files carry a major version that is an ABI (libnvrtc.so.13). A toolkit of CUDA 13 needs a driver of
 * CUDA 13, so the driver is looked at first, and of the names of a library only those that it can run are tried, the
 * newest first. Without a driver all are, so that the doctor can still say what is installed.
 *
 * What is loaded belongs to the process, like the libraries themselves: the tables are filled once under a lock and
 * are constant from then on, so callers keep pointers to them. A failure is not kept; the next call tries again.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* dladdr: the file that a function came from */
#endif
#include "cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Tables ------------------------------------------------------------------------------------ */

/* Each row against the vendor's header: a function of another type does not compile. */
#define FUNCTION(result, name, arguments)                                                          \
  _Static_assert(_Generic(&name, result(*) arguments: 1, default: 0),                              \
                 "the row of a function differs from its header: " #name);
#define OPTIONAL FUNCTION
#include "cuda/cublas.def"
#include "cuda/cublaslt.def"
#include "cuda/cusolver.def"
#include "cuda/driver.def"
#include "cuda/nvrtc.def"
#if GPU_HAVE_CUDNN
#include "cuda/cudnn.def"
#endif
#if GPU_HAVE_NCCL
#include "cuda/nccl.def"
#endif
#undef FUNCTION
#undef OPTIONAL

typedef struct {
  const char *name; /* as the library exports it */
  size_t offset;    /* of the pointer in the table */
  bool optional;
} symbol;

static gpu_driver driver;
static gpu_nvrtc nvrtc;
static gpu_cublaslt cublaslt;
static gpu_cublas cublas;
static gpu_cusolver cusolver;
#if GPU_HAVE_CUDNN
static gpu_cudnn cudnn;
#endif
#if GPU_HAVE_NCCL
static gpu_nccl nccl;
#endif

/* The name after the header's macros. */
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define FUNCTION(result, name, arguments) {TEXT(name), offsetof(TABLE, name), false},
#define OPTIONAL(result, name, arguments) {TEXT(name), offsetof(TABLE, name), true},
#define TABLE gpu_driver
static const symbol of_driver[] = {
#include "cuda/driver.def"
    {NULL, 0, false}};
#undef TABLE
#define TABLE gpu_nvrtc
static const symbol of_nvrtc[] = {
#include "cuda/nvrtc.def"
    {NULL, 0, false}};
#undef TABLE
#define TABLE gpu_cublaslt
static const symbol of_cublaslt[] = {
#include "cuda/cublaslt.def"
    {NULL, 0, false}};
#undef TABLE
#define TABLE gpu_cublas
static const symbol of_cublas[] = {
#include "cuda/cublas.def"
    {NULL, 0, false}};
#undef TABLE
#define TABLE gpu_cusolver
static const symbol of_cusolver[] = {
#include "cuda/cusolver.def"
    {NULL, 0, false}};
#undef TABLE
#if GPU_HAVE_CUDNN
#define TABLE gpu_cudnn
static const symbol of_cudnn[] = {
#include "cuda/cudnn.def"
    {NULL, 0, false}};
#undef TABLE
#endif
#if GPU_HAVE_NCCL
#define TABLE gpu_nccl
static const symbol of_nccl[] = {
#include "cuda/nccl.def"
    {NULL, 0, false}};
#undef TABLE
#endif
#undef FUNCTION
#undef OPTIONAL

/* ---- Versions ---------------------------------------------------------------------------------- */

enum { VERSION_BYTES = 32 };

/* CUDA counts 1000 major + 10 minor. */
static void cuda_version(int version, char *text) {
  snprintf(text, VERSION_BYTES, "%d.%d", version / 1000, version % 1000 / 10);
}

static void driver_loaded(char *text) {
  int version = 0;
  if (driver.cuDriverGetVersion(&version) == CUDA_SUCCESS)
    cuda_version(version, text);
}

static void nvrtc_loaded(char *text) {
  int major = 0, minor = 0;
  if (nvrtc.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS)
    snprintf(text, VERSION_BYTES, "%d.%d", major, minor);
}

static void cublaslt_loaded(char *text) {
  const size_t version = cublaslt.cublasLtGetVersion(); /* 10000 major + 100 minor + patch */
  snprintf(text, VERSION_BYTES, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

static void cublas_loaded(char *text) {
  int major = 0, minor = 0, patch = 0;
  if (cublas.cublasGetProperty(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS &&
      cublas.cublasGetProperty(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS &&
      cublas.cublasGetProperty(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS)
    snprintf(text, VERSION_BYTES, "%d.%d.%d", major, minor, patch);
}

static void cusolver_loaded(char *text) {
  int version = 0; /* 1000 major + 100 minor + patch */
  if (cusolver.cusolverGetVersion(&version) == CUSOLVER_STATUS_SUCCESS)
    snprintf(text, VERSION_BYTES, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
}

#if GPU_HAVE_CUDNN
static void cudnn_loaded(char *text) {
  const size_t version = cudnn.cudnnGetVersion(), major = version >= 90000 ? 10000 : 1000;
  snprintf(text, VERSION_BYTES, "%zu.%zu.%zu", version / major, version % major / 100, version % 100);
}
#endif

#if GPU_HAVE_NCCL
static void nccl_loaded(char *text) {
  int version = 0; /* 10000 major + 100 minor + patch since 2.9 */
  if (nccl.ncclGetVersion(&version) == ncclSuccess)
    snprintf(text, VERSION_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}
#endif

#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

/* ---- Libraries --------------------------------------------------------------------------------- */

typedef struct {
  const char *file;
  int cuda; /* major version of CUDA that its driver must have; 0: any */
} candidate;

typedef struct {
  const char *title, *package, *built; /* built NULL: its header was missing; CUDA's own: made of CUDA_VERSION */
  candidate files[4];
  const symbol *symbols;
  void *table;
  void (*version)(char *text);
  void *handle; /* set: the table is filled */
  bool found;   /* in the last search */
  char path[512], loaded[VERSION_BYTES];
} library;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static library libraries[GPU_LIBRARIES] = {
    [GPU_DRIVER] = {.title = "NVIDIA driver",
                    .package = "install the NVIDIA driver of this GPU; in a container, start it with the GPU's "
                               "libraries mounted (--gpus all)",
                    .built = "",
                    .files = {{"libcuda.so.1", 0}},
                    .symbols = of_driver,
                    .table = &driver,
                    .version = driver_loaded},
    [GPU_NVRTC] = {.title = "NVRTC",
                   .package = "install NVRTC of the CUDA toolkit (package cuda-nvrtc, or nvidia-cuda-nvrtc of pip)",
                   .built = "",
                   .files = {{"libnvrtc.so.13", 13}, {"libnvrtc.so.12", 12}},
                   .symbols = of_nvrtc,
                   .table = &nvrtc,
                   .version = nvrtc_loaded},
    [GPU_CUBLASLT] = {.title = "cuBLASLt",
                      .package = "install cuBLAS of the CUDA toolkit (package libcublas, or nvidia-cublas of pip)",
                      .built = DOTTED(CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH),
                      .files = {{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}},
                      .symbols = of_cublaslt,
                      .table = &cublaslt,
                      .version = cublaslt_loaded},
    [GPU_CUBLAS] = {.title = "cuBLAS",
                    .package = "install cuBLAS of the CUDA toolkit (package libcublas, or nvidia-cublas of pip)",
                    .built = DOTTED(CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH),
                    .files = {{"libcublas.so.13", 13}, {"libcublas.so.12", 12}},
                    .symbols = of_cublas,
                    .table = &cublas,
                    .version = cublas_loaded},
    [GPU_CUSOLVER] = {.title = "cuSOLVER",
                      .package = "install cuSOLVER of the CUDA toolkit (package libcusolver, or nvidia-cusolver of "
                                 "pip)",
                      .built = DOTTED(CUSOLVER_VER_MAJOR, CUSOLVER_VER_MINOR, CUSOLVER_VER_PATCH),
                      .files = {{"libcusolver.so.12", 13}, {"libcusolver.so.11", 12}},
                      .symbols = of_cusolver,
                      .table = &cusolver,
                      .version = cusolver_loaded},
    [GPU_CUDNN] = {.title = "cuDNN",
                   .package = "install cuDNN 9 (package cudnn9, or nvidia-cudnn of pip)",
#if GPU_HAVE_CUDNN
                   .built = DOTTED(CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL),
                   .symbols = of_cudnn,
                   .table = &cudnn,
                   .version = cudnn_loaded,
#endif
                   .files = {{"libcudnn.so.9", 0}}},
    [GPU_NCCL] = {.title = "NCCL",
                  .package = "install NCCL 2 (package libnccl2, or nvidia-nccl of pip)",
#if GPU_HAVE_NCCL
                  .built = DOTTED(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
                  .symbols = of_nccl,
                  .table = &nccl,
                  .version = nccl_loaded,
#endif
                  .files = {{"libnccl.so.2", 0}}},
};

const char *gpu_library_file(gpu_library which, size_t k) {
  const library *l = &libraries[which];
  return k < sizeof l->files / sizeof *l->files ? l->files[k].file : NULL;
}

/* ---- Searching --------------------------------------------------------------------------------- */

/* All functions below run under the lock. */

/* CUDA's major version of the loaded driver; 0 without one. */
static int driver_major(void) {
  int version = 0;
  if (libraries[GPU_DRIVER].handle == NULL || driver.cuDriverGetVersion(&version) != CUDA_SUCCESS)
    return 0;
  return version / 1000;
}

/* The k-th file that the driver can run, or NULL. */
static const char *usable(const library *l, size_t k) {
  const int most = driver_major();
  for (size_t i = 0; i < sizeof l->files / sizeof *l->files && l->files[i].file != NULL; ++i) {
    if (most > 0 && l->files[i].cuda > most)
      continue;
    if (k-- == 0)
      return l->files[i].file;
  }
  return NULL;
}

static tn_status unusable(library *l, const char *path, const char *words) {
  l->found = true;
  return TN_FAIL(TN_EENV, "cuda: %s: the file %s cannot be loaded: %s", l->title, path, words);
}

/* dlopen of a name without a folder; *missing: there is no such file, so that another may be tried. */
static tn_status open_by_name(library *l, const char *name, bool *missing) {
  *missing = false;
  l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (l->handle != NULL)
    return TN_OK;
  const char *words = dlerror();
  /* "NAME: cannot open ..." is of this file; of another name: something that it needs is missing. */
  *missing = words == NULL || (strncmp(words, name, strlen(name)) == 0 &&
                               strstr(words, "No such file") != NULL);
  return *missing ? TN_OK : unusable(l, name, words);
}

/* Looks into one folder. */
static tn_status open_in(library *l, const char *folder, size_t length) {
  char path[sizeof l->path];
  const char *name = NULL;
  for (size_t k = 0; l->handle == NULL && (name = usable(l, k)) != NULL; ++k) {
    if (length == 0 || (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name) >= sizeof path ||
        access(path, F_OK) != 0)
      continue;
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (l->handle == NULL)
      return unusable(l, path, dlerror());
  }
  return TN_OK;
}

static tn_status open_file(library *l) {
  const char *folders = getenv("PINN_CUDA_PATH"), *name = NULL;
  for (const char *at = folders; at != NULL && *at != '\0' && l->handle == NULL;) {
    const size_t length = strcspn(at, ":");
    TN_TRY(open_in(l, at, length));
    at += length + (at[length] == ':');
  }
  for (size_t k = 0; l->handle == NULL && (name = usable(l, k)) != NULL; ++k) {
    bool missing = false;
    TN_TRY(open_by_name(l, name, &missing));
  }
#ifdef GPU_TOOLKIT_FOLDER
  if (l->handle == NULL && l != &libraries[GPU_DRIVER]) /* a toolkit has stubs of the driver only */
    TN_TRY(open_in(l, GPU_TOOLKIT_FOLDER, strlen(GPU_TOOLKIT_FOLDER)));
#endif
  if (l->handle != NULL)
    return TN_OK;
  char names[96] = "";
  for (size_t k = 0; (name = usable(l, k)) != NULL; ++k)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k > 0 ? " or " : "", name);
  char only[64] = ""; /* why not the newest */
  if (usable(l, 0) != l->files[0].file)
    snprintf(only, sizeof only, ", and the driver runs nothing beyond CUDA %d", driver_major());
  return TN_FAIL(TN_EENV, "cuda: %s: no %s in %s%s, LD_LIBRARY_PATH or the folders of the system's loader%s; %s",
                 l->title, names[0] != '\0' ? names : l->files[0].file,
                 folders != NULL ? "PINN_CUDA_PATH=" : "PINN_CUDA_PATH (not set)", folders != NULL ? folders : "", only,
                 l->package);
}

/* The file that a function of the library is in. */
static void note_path(library *l, void *address) {
  snprintf(l->path, sizeof l->path, "%s", l->files[0].file);
#ifdef __linux__
  Dl_info info;
  if (dladdr(address, &info) != 0 && info.dli_fname != NULL)
    snprintf(l->path, sizeof l->path, "%s", info.dli_fname);
#else
  (void)address;
#endif
}

static tn_status load(library *l) {
  if (l->handle != NULL)
    return TN_OK;
  l->found = false;
  l->path[0] = l->loaded[0] = '\0';
  if (l->symbols == NULL)
    return TN_FAIL(TN_EUNSUPPORTED, "cuda: %s is not in this build: its header was missing", l->title);
  TN_TRY(open_file(l));
  l->found = true;
  for (const symbol *s = l->symbols; s->name != NULL; ++s) {
    void *address = dlsym(l->handle, s->name);
    if (s == l->symbols && address != NULL)
      note_path(l, address);
    if (address == NULL && !s->optional) {
      const tn_status status =
          TN_FAIL(TN_EENV, "cuda: %s: the file %s lacks the function %s; %s", l->title,
                  l->path[0] != '\0' ? l->path : l->files[0].file, s->name, l->package);
      dlclose(l->handle);
      l->handle = NULL;
      return status;
    }
    memcpy((char *)l->table + s->offset, &address, sizeof address);
  }
  l->version(l->loaded);
  return TN_OK;
}

static tn_status need(gpu_library which) {
  pthread_mutex_lock(&lock);
  /* Without a driver, or with one that cannot be used, the others are still looked for. */
  if (which != GPU_DRIVER && load(&libraries[GPU_DRIVER]) != TN_OK)
    tn_error_clear();
  const tn_status status = load(&libraries[which]);
  pthread_mutex_unlock(&lock);
  return status;
}

#define NEED(name, which)                                                                          \
  tn_status gpu_need_##name(const gpu_##name **out) {                                              \
    *out = NULL;                                                                                   \
    TN_TRY(need(which));                                                                           \
    *out = &name;                                                                                  \
    return TN_OK;                                                                                  \
  }
NEED(driver, GPU_DRIVER)
NEED(nvrtc, GPU_NVRTC)
NEED(cublaslt, GPU_CUBLASLT)
NEED(cublas, GPU_CUBLAS)
NEED(cusolver, GPU_CUSOLVER)
#if GPU_HAVE_CUDNN
NEED(cudnn, GPU_CUDNN)
#endif
#if GPU_HAVE_NCCL
NEED(nccl, GPU_NCCL)
#endif

tn_status gpu_library_about(gpu_library which, gpu_library_facts *out) {
  const tn_status status = need(which);
  pthread_mutex_lock(&lock);
  const library *l = &libraries[which];
  *out = (gpu_library_facts){.title = l->title, .package = l->package, .found = l->found};
  snprintf(out->path, sizeof out->path, "%s", l->path);
  snprintf(out->loaded, sizeof out->loaded, "%s", l->loaded);
  if (l->built != NULL && l->built[0] != '\0') {
    snprintf(out->built, sizeof out->built, "%s", l->built);
  } else if (l->built != NULL) {
    cuda_version(CUDA_VERSION, out->built);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void gpu_libraries_forget(void) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < GPU_LIBRARIES; ++i) {
    library *l = &libraries[i];
    if (l->handle != NULL)
      dlclose(l->handle);
    l->handle = NULL;
    l->found = false;
    l->path[0] = l->loaded[0] = '\0';
  }
  pthread_mutex_unlock(&lock);
}
