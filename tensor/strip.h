/* strip.h: strip programs, the elementwise work of a graph.
 *
 * A program is a list of instructions over registers; a register is a strip of n numbers of one dtype, an
 * instruction one pass over them. Programs are written in single assignment (every register written once,
 * before it is read; registers below n_given exist before the program), then improved by tn_strip_optimise,
 * then given places by tn_strip_allocate; the kernels run the result (kernels.h: strip). None of this changes
 * a bit of any kept register.
 */
#ifndef TENSOR_STRIP_H
#define TENSOR_STRIP_H

#include "tensor/tensor.h"

typedef enum tn_strip_code {
  TN_STRIP_CELL,   /* y = op(a; k), op a unary or power row of ops.def, k the exponent */
  TN_STRIP_BINARY, /* y = op(a, b), op a binary row */
  TN_STRIP_CELLS,  /* y, y2, y3 = the rows of family op, of a; -1: not wanted */
#define STRIP(name, reads, value) TN_STRIP_##name,
#include "tensor/strip.def"
  TN_STRIP_CODES
} tn_strip_code;

/* Rows of one argument that share their work: y, y2, y3. A row may be in several families; of those that have the
 * most of a program's rows, the first is taken. */
#define TN_FAMILY_LIST(PAIR, TRIPLE)                                                               \
  PAIR(tanh, sech2)                                                                                \
  PAIR(sin, cos)                                                                                   \
  PAIR(exp, expm1)                                                                                 \
  PAIR(sigmoid, dsigmoid)                                                                          \
  TRIPLE(softplus, sigmoid, dsigmoid)                                                              \
  TRIPLE(silu, sigmoid, dsigmoid)                                                                  \
  TRIPLE(gelu, normal_cdf, normal_pdf)
typedef enum tn_family {
#define PAIR(first, second) TN_FAMILY_##first,
#define TRIPLE(first, second, third) TN_FAMILY_##first,
  TN_FAMILY_LIST(PAIR, TRIPLE)
#undef PAIR
#undef TRIPLE
  TN_FAMILIES
} tn_family;

typedef struct tn_strip_instruction {
  uint8_t code;
  uint8_t op;               /* tn_op_id (CELL, BINARY) or tn_family (CELLS); else 0 */
  int16_t y, a, b, c;       /* registers; a result may equal any operand. Unused ones are 0 */
  int16_t y2, y3, d, e, f;
  double k, l;              /* constants; rounded to the dtype once */
} tn_strip_instruction;

enum { TN_STRIP_MAX_READS = 6, TN_STRIP_MAX_WRITES = 3 };
/* Registers read (in the order a .. f, one twice if used twice) and written; the number of them. */
int tn_strip_reads(const tn_strip_instruction *x, int *reads);
int tn_strip_writes(const tn_strip_instruction *x, int *writes);
/* Every register r that x reads or writes becomes map[r]. */
void tn_strip_renumber(tn_strip_instruction *x, const int *map);

/* Improves a program in single assignment, in place: drops what nobody needs, reads through copies, joins
 * rows of one argument into families, and merges instructions into their readers. kept[r] (r < n_registers):
 * register r is read after the program. The result has the same kept registers with the same bits, is in
 * single assignment again, and keeps all register numbers. */
tn_status tn_strip_optimise(int n_given, size_t *count, tn_strip_instruction *code,
                            const uint8_t *kept, size_t n_registers) TN_MUST_USE;

/* Gives the registers of a program in single assignment places, in place: place[r] >= 0 on entry is the place
 * of r, for given registers and those read after the program; place[r] = -1: a temporary (or not used at all),
 * which gets one of first_temporary, first_temporary + 1, ..., shared after its last reader. n_temporaries:
 * how many of these there are. On return place[] is filled for all registers in use.
 * Two registers with one fixed place: their times must not overlap (TN_EINTERNAL). A given register lives up
 * to its last reader, a result with a fixed place from its write to the end. */
tn_status tn_strip_allocate(int n_given, size_t count, tn_strip_instruction *code, int *place,
                            size_t n_registers, int first_temporary, size_t *n_temporaries) TN_MUST_USE;

#endif
