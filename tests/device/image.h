/* image.h: what the emulated NVRTC gives as a cubin and the emulated driver loads: a header, then
 * the bytes of a shared object of the host. The header ends what a loader without a length must
 * know, and damage is seen by its sum. */
#ifndef EMULATED_IMAGE_H
#define EMULATED_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct image_header {
  char magic[8];
  uint64_t bytes; /* that follow */
  uint64_t sum;   /* of them */
} image_header;
#define IMAGE_MAGIC "EMUCUBIN"

static inline uint64_t image_sum(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; ++i)
    sum = (sum ^ at[i]) * 1099511628211u; /* FNV-1a */
  return sum;
}
static const uint64_t image_sum_first = 14695981039346656037u;

#endif
