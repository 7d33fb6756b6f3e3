/* cache.c: compiled kernels on disk, so that the second run of a program does not compile.
 *
 * A file is named by 128 bits of hash of all that its content depends on (module.c), so nothing in it is ever out of
 * date: another driver or another text is another name. It begins with a header of 64 bytes, magic, the key once more,
 * length and checksum; a file that is cut short, damaged, or of something else is as good as none and is written anew.
 * It is written under a name of its own first and then renamed: readers, and other ranks that compile the same text,
 * see a whole file or none. The folder may be deleted at any time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/context.h"

enum { PATH_BYTES = 1024 };

typedef struct {
  char magic[16];
  uint64_t key[2], bytes, checksum[2], unused;
} header;
_Static_assert(sizeof(header) == 64, "the header of a file in the cache has 64 bytes");

static const char magic[16] = "pinn kernel 1\n";

/* Two streams: FNV-1a, and multiply and rotate. No defence against an adversary, who could write the file itself. */
void gpu_hash(uint64_t h[2], size_t bytes, const void *data) {
  const unsigned char *x = data;
  for (size_t i = 0; i < bytes; ++i) {
    h[0] = (h[0] ^ x[i]) * UINT64_C(0x100000001b3);
    const uint64_t mixed = (h[1] + x[i] + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h[1] = mixed << 27 | mixed >> 37;
  }
}

static void checksum_of(size_t bytes, const char *data, uint64_t sum[2]) {
  sum[0] = UINT64_C(0xcbf29ce484222325);
  sum[1] = bytes;
  gpu_hash(sum, bytes, data);
}

void gpu_cache_folder(char *folder, size_t capacity) {
  const char *own = getenv("PINN_CUDA_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = 0;
  if (own != NULL) {
    n = snprintf(folder, capacity, "%s", own);
  } else if (xdg != NULL && xdg[0] == '/') {
    n = snprintf(folder, capacity, "%s/pinn", xdg);
  } else if (home != NULL && home[0] == '/') {
    n = snprintf(folder, capacity, "%s/.cache/pinn", home);
  } else {
    folder[0] = '\0';
  }
  if (n < 0 || (size_t)n >= capacity)
    folder[0] = '\0'; /* no folder has so long a name */
}

/* The file of a key in `folder`; false if there is no folder. */
static bool file_of(const uint64_t key[2], char folder[PATH_BYTES], char path[PATH_BYTES + 64]) {
  gpu_cache_folder(folder, PATH_BYTES);
  if (folder[0] == '\0')
    return false;
  snprintf(path, PATH_BYTES + 64, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key[0],
           (unsigned long long)key[1]);
  return true;
}

/* The payload of an open file with a whole, sound header and content; else *data stays NULL. */
static tn_status read_payload(FILE *file, const uint64_t key[2], size_t *bytes, char **data) {
  header h;
  struct stat facts;
  if (fread(&h, sizeof h, 1, file) != 1 || memcmp(h.magic, magic, sizeof magic) != 0 || h.key[0] != key[0] ||
      h.key[1] != key[1] || fstat(fileno(file), &facts) != 0 || (uint64_t)facts.st_size - sizeof h != h.bytes)
    return TN_OK;
  uint64_t sum[2];
  TN_TRY(tn_new(h.bytes + 1, 1, data)); /* PTX is read as a text, up to its zero */
  if (fread(*data, 1, h.bytes, file) != h.bytes) {
    tn_free(data);
    return TN_OK;
  }
  checksum_of(h.bytes, *data, sum);
  if (sum[0] != h.checksum[0] || sum[1] != h.checksum[1])
    tn_free(data);
  *bytes = h.bytes;
  return TN_OK;
}

tn_status gpu_cache_read(const uint64_t key[2], size_t *bytes, char **data) {
  char folder[PATH_BYTES], path[PATH_BYTES + 64];
  *data = NULL;
  *bytes = 0;
  FILE *file = file_of(key, folder, path) ? fopen(path, "rb") : NULL;
  if (file == NULL)
    return TN_OK;
  const tn_status status = read_payload(file, key, bytes, data);
  fclose(file);
  if (status == TN_OK && *data == NULL)
    tn_log_write(TN_LOG_INFO, "cuda: %s is damaged or of something else; it is written anew", path);
  return status;
}

/* The folder and those above it. */
static bool make_folder(const char *folder) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s", folder);
  for (char *at = path + 1;; ++at) {
    const char kept = *at;
    if (kept != '/' && kept != '\0')
      continue;
    *at = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
      return false;
    if (kept == '\0')
      return true;
    *at = kept;
  }
}

static bool write_whole(int file, const void *data, size_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    const ssize_t n = write(file, at, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

static bool write_file(const char *folder, const char *path, const header *h, const char *data) {
  char temporary[PATH_BYTES + 64];
  snprintf(temporary, sizeof temporary, "%s/new.XXXXXX", folder);
  if (!make_folder(folder))
    return false;
  const int file = mkstemp(temporary);
  if (file < 0)
    return false;
  bool good = write_whole(file, h, sizeof *h) && write_whole(file, data, h->bytes) && fchmod(file, 0644) == 0;
  good = close(file) == 0 && good;
  good = good && rename(temporary, path) == 0;
  if (!good) {
    const int reason = errno;
    unlink(temporary);
    errno = reason;
  }
  return good;
}

void gpu_cache_write(const uint64_t key[2], size_t bytes, const char *data) {
  char folder[PATH_BYTES], path[PATH_BYTES + 64];
  if (!file_of(key, folder, path))
    return;
  header h = {.key = {key[0], key[1]}, .bytes = bytes};
  memcpy(h.magic, magic, sizeof magic);
  checksum_of(bytes, data, h.checksum);
  if (!write_file(folder, path, &h, data)) {
    tn_log_write(TN_LOG_WARNING, "cuda: compiled kernels cannot be kept in %s (%s), so each run compiles them; "
                                 "PINN_CUDA_CACHE names another folder",
                 folder, strerror(errno));
  }
}
