/* files.h: whole files, folders and their names, SHA-256. Inside pinn/ only. */
#ifndef PINN_FILES_H
#define PINN_FILES_H

#include "tensor/tensor.h"

typedef struct pn_bytes {
  const void *at;
  size_t n;
} pn_bytes;

/* The file at path holds these bytes afterwards, or, on any failure, what it held before: temporary
 * file in the same folder, all written, fsync, close, rename, fsync of the folder. Errors are
 * TN_EIO with the path and the system's reason. The parts follow one another without a copy. */
tn_status pn_write_atomic(const char *path, const void *bytes, size_t n) TN_MUST_USE;
tn_status pn_write_atomic_parts(const char *path, size_t count, const pn_bytes *parts) TN_MUST_USE;
/* Removes what interrupted pn_write_atomic calls left in a folder (names ".NAME.PID-K.tmp"). Only
 * for the one owner of an output folder, at its start. */
tn_status pn_remove_temporaries(const char *folder) TN_MUST_USE;

/* The whole file, owned by the caller, followed by one zero byte that *n does not count. More than
 * `max` bytes is TN_EINPUT, anything of the system TN_EIO. Folders are refused. */
tn_status pn_read_file(const char *path, size_t max, uint8_t **bytes, size_t *n) TN_MUST_USE;

bool pn_path_exists(const char *path);
bool pn_path_is_folder(const char *path);
/* folder/name, without a second slash; name alone if folder is "" or name starts with a slash.
 * Owned. */
tn_status pn_path_join(const char *folder, const char *name, char **out) TN_MUST_USE;
tn_status pn_path_folder(const char *path, char **out) TN_MUST_USE; /* "a" of a/b.c, "." of b.c */
tn_status pn_path_stem(const char *path, char **out) TN_MUST_USE;   /* "b" of a/b.c, ".b" of .b */
/* "b" and the ending: "b.out" of a/b.c and ".out". Owned. */
tn_status pn_path_named(const char *path, const char *ending, char **out) TN_MUST_USE;
bool pn_path_ends(const char *path, const char *ending); /* and has something before it */
const char *pn_path_name(const char *path);                         /* "b.c" of a/b.c, borrowed */

/* Makes a folder and its parents; one that exists already is fine. */
tn_status pn_make_folder(const char *path) TN_MUST_USE;
/* Claims a folder for this process until the descriptor is closed; TN_EINPUT if another process has
 * it. File systems without locks let everyone in. */
tn_status pn_lock_folder(const char *path, int *descriptor) TN_MUST_USE;
/* Makes the first of path, path-2, path-3, ... that does not exist (parents too) and gives its
 * name, owned. Two programs that ask at the same time get two folders. */
tn_status pn_next_free_folder(const char *path, char **out) TN_MUST_USE;

/* SHA-256 (FIPS 180-4) of n bytes, as 32 bytes or 64 lower-case hexadecimal digits. */
void pn_sha256(const void *bytes, size_t n, uint8_t digest[32]);
void pn_sha256_text(const void *bytes, size_t n, char text[65]);

#endif
