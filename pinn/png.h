/* png.h: a PNG encoder for pictures of up to 256 colours. Inside pinn/ only. */
#ifndef PINN_PNG_H
#define PINN_PNG_H

#include "tensor/tensor.h"

/* pixels: height rows of width colour numbers, the top row first; palette: red, green, blue,
 * opacity of each number (255: opaque). The file's bytes are the caller's (tn_free). Extents 1 to
 * 65535. */
tn_status pn_png(size_t width, size_t height, const uint8_t *pixels, uint8_t palette[256][4],
                 uint8_t **png, size_t *n) TN_MUST_USE;

/* The bytes in base 64 (RFC 4648, padded), zero-terminated, the caller's. */
tn_status pn_base64(const uint8_t *bytes, size_t n, char **text) TN_MUST_USE;

#endif
