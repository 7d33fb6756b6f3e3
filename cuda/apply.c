/* apply.c: a row of the operation table over host arrays, on the device: what audits judge number by number.
 *
 * Provider "own" (or none named) is the kernel that programs are made of, for one row; "cudnn" is the library's
 * function of the same name. What a provider lacks is refused by name; no other takes its place.
 */
#include "cuda/context.h"
#include "cuda/source.h"

#include <string.h>

enum { THREADS = 256, BLOCKS = 4096 };

typedef struct row { /* on the device */
  gpu_context *g;
  tn_op_id id;
  tn_dtype dtype;
  size_t n, bytes; /* rows; of an array */
  double exponent;
  CUdeviceptr a, b, y;
} row;

static tn_status launch(row *r) {
  gpu_context *g = r->g;
  char *text = NULL;
  gpu_module *module = NULL;
  CUfunction f = NULL;
  TN_TRY(gpu_source_of_row(r->id, r->dtype, &text));
  tn_status status = gpu_module_of(g, tn_op_row(r->id)->name, text, &module);
  tn_free(&text);
  TN_TRY(status);
  TN_TRY(gpu_function(g, module, "apply", &f));
  unsigned long long n = r->n;
  size_t blocks = (r->n + THREADS - 1) / THREADS;
  void *parameters[] = {&n, &r->a, &r->b, &r->exponent, &r->y};
  GPU_TRY(g, cuLaunchKernel,
          (f, (unsigned)(blocks < BLOCKS ? blocks : BLOCKS), 1, 1, THREADS, 1, 1, 0, g->stream,
           parameters, NULL));
  return TN_OK;
}

static tn_status run(row *r, const void *a, const void *b, void *y) {
  gpu_context *g = r->g;
  TN_TRY(gpu_take(g, r->bytes, &r->a));
  TN_TRY(gpu_take(g, r->bytes, &r->y));
  TN_TRY(gpu_upload(g, false, r->a, a, r->bytes));
  if (b) {
    TN_TRY(gpu_take(g, r->bytes, &r->b));
    TN_TRY(gpu_upload(g, false, r->b, b, r->bytes));
  }
  TN_TRY(launch(r));
  return gpu_download(g, y, r->y, r->bytes);
}

static tn_status by_own_kernel(row *r, const void *a, const void *b, void *y) {
  tn_status status = run(r, a, b, y);
  gpu_give(r->g, &r->a);
  gpu_give(r->g, &r->b);
  gpu_give(r->g, &r->y);
  return status;
}

tn_status gpu_apply(tn_device *device, const char *provider, tn_op_id id, tn_dtype dtype, size_t n,
                    const void *a, const void *b, double exponent, void *y) {
  gpu_context *g = gpu_of(device);
  if ((unsigned)id >= TN_OPS)
    return TN_FAIL(TN_ERANGE, "apply: row %u of %d", (unsigned)id, TN_OPS);
  const tn_op *op = tn_op_row(id);
  if (!tn_dtype_is_float(dtype))
    return TN_FAIL(TN_EDTYPE, "apply %s: %s is not a float dtype", op->name, tn_dtype_name(dtype));
  if ((op->arity == 2) != (b != NULL))
    return TN_FAIL(TN_EINPUT, "apply %s: %d arguments, expected %d", op->name, b ? 2 : 1,
                   op->arity);
  if (!n)
    return TN_OK;
  if (provider && strcmp(provider, "cudnn") == 0)
    return gpu_dnn_apply(g, id, dtype, n, a, y);
  if (provider && strcmp(provider, "own") != 0)
    return TN_FAIL(TN_EUNSUPPORTED,
                   "apply %s: a provider `%s` is not known on this device, expected own or cudnn",
                   op->name, provider);
  row r = {.g = g, .id = id, .dtype = dtype, .n = n, .exponent = exponent};
  r.bytes = n * tn_dtype_size(tn_dtype_compute(dtype));
  return by_own_kernel(&r, a, b, y);
}
