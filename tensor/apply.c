/* apply.c: a row of the operation table over arrays, outside any graph, by the kernels that executors use: the same
 * bits as a node of that row gives. For audits, which judge rows number by number. */
#include "tensor/kernels.h"

tn_status tn_op_apply(tn_op_id id, tn_dtype dtype, size_t n, const void *a, const void *b,
                      double exponent, void *y) {
  if ((unsigned)id >= TN_OPS)
    return TN_FAIL(TN_ERANGE, "apply: row %u of %d", (unsigned)id, TN_OPS);
  const tn_op *row = tn_op_row(id);
  const tn_kernels *kernels = tn_kernels_of(dtype);
  if (!kernels)
    return TN_FAIL(TN_EDTYPE, "apply %s: %s is not a float dtype", row->name, tn_dtype_name(dtype));
  if (!kernels->cell[id])
    return TN_FAIL(TN_EUNSUPPORTED, "apply %s: expected an elementwise row of float results",
                   row->name);
  if ((row->arity == 2) != (b != NULL))
    return TN_FAIL(TN_EINPUT, "apply %s: %d arguments, expected %d", row->name, b ? 2 : 1,
                   row->arity);
  kernels->cell[id](n, y, a, b, exponent);
  if (kernels->round[dtype])
    kernels->round[dtype](n, y, y);
  return TN_OK;
}
