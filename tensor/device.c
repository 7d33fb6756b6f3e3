/* device.c: what the layers above see of an open device (backend.h): names, the table of factorisations, the end.
 * No device is the CPU. */
#include "tensor/backend.h"

const tn_factor *tn_device_factor(tn_device *device) {
  return device && device->backend->factor ? device->backend->factor(device) : NULL;
}

const char *tn_device_text(const tn_device *device) {
  return device && device->backend->describe ? device->backend->describe(device) : tn_device_name(device);
}

const char *tn_device_name(const tn_device *device) { return device ? device->backend->name : "cpu"; }

static tn_status lacks(const tn_device *device, const char *what) {
  return TN_FAIL(TN_EUNSUPPORTED, "%s on device %s: it has no such function", what, tn_device_name(device));
}

tn_status tn_device_apply(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n, const void *a,
                          const void *b, double exponent, void *y) {
  if (!device || !device->backend->apply) return lacks(device, "single operations");
  return device->backend->apply(device, provider, id, dtype, n, a, b, exponent, y);
}

tn_status tn_device_apply_rows(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t rows,
                               size_t width, double epsilon, const void *a, void *y) {
  if (!device || !device->backend->apply_rows) return lacks(device, "single operations on rows");
  return device->backend->apply_rows(device, provider, id, dtype, rows, width, epsilon, a, y);
}

void tn_device_close(tn_device **device) {
  if (!device || !*device) return;
  (*device)->backend->close(*device);
  *device = NULL;
}
