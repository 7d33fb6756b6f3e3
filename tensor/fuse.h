/* fuse.h: the arithmetic of strip programs as compiled loops.
 *
 * A fused kernel is the part of a strip program behind its last function row, written out as C: operands are
 * loaded once, everything between stays in vector registers. tensor/fused.inc holds the kernels of common
 * algebras, made by `./dev fuse` from the programs themselves; they are found by structure, whatever the
 * width, the problem and the numbers are. Function rows stay with the interpreter, whose loops mix several
 * vectors (design note 002).
 */
#ifndef TENSOR_FUSE_H
#define TENSOR_FUSE_H

#include "tensor/kernels.h"

/* Registers first_result .. first_result + n_results - 1 are read after the program. */
typedef struct tn_fused_key {
  size_t count;
  int first_result, n_results;
  const tn_strip_instruction *code;
} tn_fused_key;

/* The part of a program that can be fused; count 0: none. */
tn_fused_key tn_fused_part(size_t count, const tn_strip_instruction *code, size_t n_operands,
                           size_t n_results);
/* Its kernel for the instruction set in use, or NULL. */
tn_fused_fn tn_fused_find(tn_dtype dtype, const tn_fused_key *key);

#endif
