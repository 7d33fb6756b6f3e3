/* store_seal.h: the checksum trailer of result files, shared by store.c and stored.c. */
#ifndef PINN_STORE_SEAL_H
#define PINN_STORE_SEAL_H

#include "pinn/store.h"

/* The 64 bytes that belong behind n bytes of data. */
void pn_seal(const uint8_t *data, size_t n, uint8_t trailer[PN_STORE_TRAILER]);
/* TN_OK if the last 64 of n bytes are the trailer of the bytes before; TN_EINPUT says what is
 * wrong. */
tn_status pn_seal_check(const char *name, const uint8_t *bytes, size_t n) TN_MUST_USE;

#endif
