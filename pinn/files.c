/* files.c: whole files, folders and their names, SHA-256.
 *
 * A result must survive a full disk, a kill and a power cut: a reader sees the old file or the new
 * one, never a part. POSIX gives that only in this order: write a temporary file in the same folder
 * (rename does not cross file systems), fsync it (else the rename may reach the disk before the
 * data), close it and look at the result (network file systems report there), rename, fsync the
 * folder (else the rename itself may be lost). O_EXCL keeps two writers and planted links apart.
 *
 * Temporary names are ".NAME.PID-K.tmp": hidden, in no glob of results, and recognisable when a
 * killed run left one behind.
 */
#include "pinn/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 100, MAX_FOLDERS = 100000 };

static tn_status io_fail(const char *what, const char *path) {
  int reason = errno;
  return TN_FAIL(TN_EIO, "%s: cannot %s: %s", path, what, strerror(reason));
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool pn_path_exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0; /* a dangling link is in the way too */
}

bool pn_path_is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

const char *pn_path_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static tn_status copy_bytes(const char *text, size_t n, char **out) {
  TN_TRY(tn_new(n + 1, 1, out));
  memcpy(*out, text, n);
  return TN_OK;
}

tn_status pn_path_join(const char *folder, const char *name, char **out) {
  size_t n = strlen(folder), size = n + strlen(name) + 2;
  if (!n || name[0] == '/')
    return tn_copy_text(name, out);
  TN_TRY(tn_new(size, 1, out));
  snprintf(*out, size, "%s%s%s", folder, folder[n - 1] == '/' ? "" : "/", name);
  return TN_OK;
}

tn_status pn_path_folder(const char *path, char **out) {
  size_t n = (size_t)(pn_path_name(path) - path);
  if (!n)
    return tn_copy_text(".", out);
  while (n > 1 && path[n - 1] == '/')
    --n;
  return copy_bytes(path, n, out);
}

tn_status pn_path_stem(const char *path, char **out) {
  const char *name = pn_path_name(path);
  const char *dot = strrchr(name, '.');
  return copy_bytes(name, dot && dot > name ? (size_t)(dot - name) : strlen(name), out);
}

tn_status pn_path_named(const char *path, const char *ending, char **out) {
  char *stem = NULL;
  TN_TRY(pn_path_stem(path, &stem));
  size_t n = strlen(stem) + strlen(ending) + 1;
  tn_status status = TN_NEW(n, out);
  if (status == TN_OK)
    snprintf(*out, n, "%s%s", stem, ending);
  tn_free(&stem);
  return status;
}

bool pn_path_ends(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* mkdir of each prefix of path that ends before a slash, then of path itself unless `parents`. */
static tn_status make_folders(const char *path, bool parents) {
  char *copy = NULL;
  tn_status status = TN_OK;
  if (!path[0])
    return TN_FAIL(TN_EINPUT, "a folder's name is empty");
  TN_TRY(tn_copy_text(path, &copy));
  size_t n = strlen(copy);
  while (n > 1 && copy[n - 1] == '/')
    copy[--n] = 0;
  for (size_t i = 1; i <= n && status == TN_OK; ++i) {
    if (copy[i] != '/' && (copy[i] || parents))
      continue;
    char kept = copy[i];
    copy[i] = 0;
    if (mkdir(copy, 0777) != 0 && !pn_path_is_folder(copy))
      status = io_fail("make the folder", copy);
    copy[i] = kept;
  }
  tn_free(&copy);
  return status;
}

tn_status pn_make_folder(const char *path) { return make_folders(path, false); }

tn_status pn_lock_folder(const char *path, int *descriptor) {
  *descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*descriptor < 0)
    return io_fail("open the folder", path);
  if (flock(*descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return TN_OK;
  (void)close(*descriptor);
  *descriptor = -1;
  return TN_FAIL(TN_EINPUT, "%s: another run is writing to this folder", path);
}

tn_status pn_next_free_folder(const char *path, char **out) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    --n;
  TN_TRY(make_folders(path, true));
  char *name = NULL;
  TN_TRY(tn_new(n + 16, 1, &name));
  tn_status status = TN_OK;
  for (int k = 1; k < MAX_FOLDERS; ++k) {
    memcpy(name, path, n);
    name[n] = 0;
    if (k > 1)
      snprintf(name + n, 16, "-%d", k);
    if (mkdir(name, 0777) == 0) { /* makes and reserves in one step */
      *out = name;
      return TN_OK;
    }
    if (errno != EEXIST) {
      status = io_fail("make the folder", name);
      break;
    }
  }
  if (status == TN_OK)
    status = TN_FAIL(TN_EIO, "%s: %d folders of this name exist already", path, MAX_FOLDERS - 1);
  tn_free(&name);
  return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads to the end. *capacity bytes are allocated; one stays free for the closing zero. */
static tn_status read_all(int file, const char *path, size_t max, uint8_t **bytes, size_t *capacity,
                          size_t *n) {
  for (;;) {
    if (*n > max)
      return TN_FAIL(TN_EINPUT, "%s: the file is larger than the %zu bytes allowed here", path,
                     max);
    if (*n + 1 == *capacity) {
      size_t more = *capacity * 2;
      TN_TRY(tn_grow(bytes, *capacity, more, 1));
      *capacity = more;
    }
    ssize_t got = read(file, *bytes + *n, *capacity - 1 - *n);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return io_fail("read", path);
    if (got == 0)
      return TN_OK;
    *n += (size_t)got;
  }
}

tn_status pn_read_file(const char *path, size_t max, uint8_t **bytes, size_t *n) {
  uint8_t *data = NULL;
  size_t size = 0, capacity = 4096;
  struct stat s;
  tn_status status = TN_OK;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return io_fail("open", path);
  if (fstat(file, &s) != 0) {
    status = io_fail("examine", path);
    goto done;
  }
  if (S_ISREG(s.st_mode) && s.st_size > 0) {
    if ((uint64_t)s.st_size > max) {
      status = TN_FAIL(TN_EINPUT, "%s: the file has %lld bytes, more than the %zu allowed here",
                       path, (long long)s.st_size, max);
      goto done;
    }
    capacity = (size_t)s.st_size + 2; /* one to see the end of the file, one for the zero */
  }
  status = tn_new(capacity, 1, &data);
  if (status == TN_OK)
    status = read_all(file, path, max, &data, &capacity, &size);
done:
  close(file);
  if (status != TN_OK) {
    tn_free(&data);
    return status;
  }
  data[size] = 0;
  *bytes = data;
  *n = size;
  return TN_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static tn_status write_all(int file, const char *path, pn_bytes part) {
  const char *at = part.at;
  size_t left = part.n;
  while (left) {
    size_t step =
        left < ((size_t)1 << 30) ? left : (size_t)1 << 30; /* Linux writes 2 GiB at most */
    ssize_t put = write(file, at, step);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return io_fail("write", path);
    at += put;
    left -= (size_t)put;
  }
  return TN_OK;
}

/* Opens a new file beside path and gives its name, owned. */
static tn_status open_temporary(const char *path, char **name, int *file) {
  size_t folder = (size_t)(pn_path_name(path) - path), size = strlen(path) + 48;
  TN_TRY(tn_new(size, 1, name));
  for (int k = 0; k < MAX_TRIES; ++k) {
    snprintf(*name, size, "%.*s.%s.%ld-%d.tmp", (int)folder, path, path + folder, (long)getpid(),
             k);
    *file = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (*file >= 0)
      return TN_OK;
    if (errno != EEXIST)
      break;
  }
  tn_status status = io_fail("create", *name);
  tn_free(name);
  return status;
}

static tn_status sync_folder(const char *path) {
  char *folder = NULL;
  tn_status status = TN_OK;
  TN_TRY(pn_path_folder(path, &folder));
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    status = io_fail("open the folder", folder);
  else if (fsync(file) != 0 && errno != EINVAL &&
           errno != ENOTSUP) /* some file systems have none */
    status = io_fail("flush the folder", folder);
  if (file >= 0)
    close(file);
  tn_free(&folder);
  return status;
}

tn_status pn_write_atomic_parts(const char *path, size_t count, const pn_bytes *parts) {
  char *name = NULL;
  int file = -1;
  tn_status status = TN_OK;
  if (!pn_path_name(path)[0])
    return TN_FAIL(TN_EINPUT, "\"%s\" is no file's name", path);
  TN_TRY(open_temporary(path, &name, &file));
  for (size_t i = 0; i < count && status == TN_OK; ++i)
    status = write_all(file, path, parts[i]);
  if (status == TN_OK && fsync(file) != 0)
    status = io_fail("flush", path);
  if (close(file) != 0 && status == TN_OK)
    status = io_fail("close", path);
  if (status == TN_OK && rename(name, path) != 0)
    status = io_fail("replace", path);
  if (status != TN_OK)
    unlink(name); /* the error to report is the first one */
  tn_free(&name);
  return status == TN_OK ? sync_folder(path) : status;
}

tn_status pn_write_atomic(const char *path, const void *bytes, size_t n) {
  return pn_write_atomic_parts(path, 1, &(pn_bytes){bytes, n});
}

/* ".NAME.PID-K.tmp" */
static bool is_temporary(const char *name) {
  size_t n = strlen(name);
  if (n < 9 || name[0] != '.' || strcmp(name + n - 4, ".tmp"))
    return false;
  size_t i = n - 4, digits[2] = {0, 0};
  for (; i > 1 && name[i - 1] >= '0' && name[i - 1] <= '9'; --i)
    ++digits[0];
  if (name[--i] != '-')
    return false;
  for (; i > 1 && name[i - 1] >= '0' && name[i - 1] <= '9'; --i)
    ++digits[1];
  return digits[0] && digits[1] && i > 2 && name[i - 1] == '.';
}

tn_status pn_remove_temporaries(const char *folder) {
  DIR *dir = opendir(folder);
  tn_status status = TN_OK;
  if (!dir)
    return io_fail("open the folder", folder);
  for (;;) {
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (!entry && errno && status == TN_OK)
      status = io_fail("list the folder", folder);
    if (!entry)
      break;
    if (!is_temporary(entry->d_name))
      continue;
    if (unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != ENOENT && status == TN_OK)
      status = io_fail("remove a temporary file in", folder);
  }
  closedir(dir);
  return status;
}

/* ---- SHA-256 --------------------------------------------------------------------------------- */

static uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

/* One block of 64 bytes into the state h (FIPS 180-4, 6.2.2). */
static void sha_block(uint32_t h[8], const uint8_t *block) {
  /* the first 32 bits of the fractional parts of the cube roots of the first 64 primes */
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};
  uint32_t w[64], s[8];
  for (size_t i = 0; i < 16; ++i)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
           (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (size_t i = 16; i < 64; ++i) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) +
           (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
  }
  memcpy(s, h, sizeof s);
  for (size_t i = 0; i < 64; ++i) {
    uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    uint32_t t1 =
        s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choose + k[i] + w[i];
    uint32_t t2 = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (size_t i = 0; i < 8; ++i)
    h[i] += s[i];
}

void pn_sha256(const void *bytes, size_t n, uint8_t digest[32]) {
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint8_t *at = bytes;
  size_t left = n;
  for (; left >= 64; left -= 64, at += 64)
    sha_block(h, at);
  uint8_t last[128] = {0}; /* the rest, a one bit, zeros, the length in bits: one or two blocks */
  if (left)
    memcpy(last, at, left);
  last[left] = 0x80;
  size_t blocks = left < 56 ? 1 : 2;
  uint64_t bits = (uint64_t)n * 8;
  for (size_t i = 0; i < 8; ++i)
    last[64 * blocks - 1 - i] = (uint8_t)(bits >> (8 * i));
  for (size_t i = 0; i < blocks; ++i)
    sha_block(h, last + 64 * i);
  for (size_t i = 0; i < 32; ++i)
    digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void pn_sha256_text(const void *bytes, size_t n, char text[65]) {
  uint8_t digest[32];
  pn_sha256(bytes, n, digest);
  for (size_t i = 0; i < 32; ++i)
    snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
