/* emit.c: strip programs in single assignment.
 *
 * Every instruction writes a new register; equal instructions are one. A scale factor travels beside a
 * register until an addition needs it, so that factors of a rule and of 1/k meet in one multiplication.
 */
#include "tensor/emit.h"

#include <string.h>

tn_lazy tn_emit_number(double x) { return (tn_lazy){x, -1}; }
bool tn_lazy_is_zero(tn_lazy a) { return a.reg < 0 && a.factor == 0; }
tn_lazy tn_emit_scale(double k, tn_lazy a) {
  return tn_lazy_is_zero(a) || k == 0 ? TN_ZERO : (tn_lazy){k * a.factor, a.reg};
}

static int append(tn_emitter *e, tn_strip_instruction x) {
  if (e->status != TN_OK) return 0;
  if (e->n_given + e->count >= INT16_MAX) {
    e->status = TN_FAIL(TN_EUNSUPPORTED, "jet: a strip program of %zu instructions is too long",
                        e->count);
    return 0;
  }
  if (e->count == e->capacity) {
    size_t capacity = e->capacity ? 2 * e->capacity : 64;
    e->status = tn_grow(&e->code, e->capacity, capacity, sizeof *e->code);
    if (e->status != TN_OK) return 0;
    e->capacity = capacity;
  }
  x.y = (int16_t)(e->n_given + (int)e->count);
  e->code[e->count++] = x;
  return x.y;
}

static uint64_t bits_of(double k) { /* 0 and -0 are different numbers here */
  uint64_t bits;
  memcpy(&bits, &k, sizeof bits);
  return bits;
}

static uint64_t hash_of(const tn_strip_instruction *x) {
  const uint64_t word[] = {x->code, x->op, (uint16_t)x->a, (uint16_t)x->b, (uint16_t)x->c, bits_of(x->k)};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof word / sizeof *word; ++i) {
    hash = (hash ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  return hash;
}

static bool is_equal(const tn_strip_instruction *x, const tn_strip_instruction *y) {
  return x->code == y->code && x->op == y->op && x->a == y->a && x->b == y->b && x->c == y->c &&
         bits_of(x->k) == bits_of(y->k);
}

/* The place of x in the table: of the equal instruction, or an empty one. */
static int32_t *slot_of(const tn_emitter *e, const tn_strip_instruction *x) {
  size_t i = (size_t)hash_of(x) & (e->table_size - 1);
  while (e->table[i] && !is_equal(&e->code[e->table[i] - 1], x)) i = (i + 1) & (e->table_size - 1);
  return &e->table[i];
}

/* Room for one more instruction in the table, half of which stays empty. */
static tn_status make_room(tn_emitter *e) {
  if (2 * (e->count + 1) <= e->table_size) return TN_OK;
  size_t size = e->table_size ? 2 * e->table_size : 256;
  tn_free(&e->table);
  e->table_size = 0;
  TN_TRY(TN_NEW(size, &e->table));
  e->table_size = size;
  for (size_t i = 0; i < e->count; ++i)
    if (e->code[i].code != TN_STRIP_COPY) *slot_of(e, &e->code[i]) = (int32_t)i + 1;
  return TN_OK;
}

static int emit(tn_emitter *e, tn_strip_code code, int op, int a, int b, int c, double k) {
  tn_strip_instruction x = {.code = (uint8_t)code, .op = (uint8_t)op, .a = (int16_t)a,
                            .b = (int16_t)b, .c = (int16_t)c, .k = k};
  if (e->status == TN_OK) e->status = make_room(e);
  if (e->status != TN_OK) return 0;
  int32_t *slot = slot_of(e, &x);
  if (*slot) return e->code[*slot - 1].y;
  int y = append(e, x);
  if (e->status == TN_OK) *slot = (int32_t)e->count;
  return y;
}

void tn_emitter_free(tn_emitter *e) {
  tn_free(&e->code);
  tn_free(&e->table);
}

int tn_emit_copy(tn_emitter *e, int reg) {
  return append(e, (tn_strip_instruction){.code = TN_STRIP_COPY, .a = (int16_t)reg});
}

int tn_emit_register(tn_emitter *e, tn_lazy a) {
  if (a.reg < 0) return emit(e, TN_STRIP_FILL, 0, 0, 0, 0, a.factor);
  return a.factor == 1 ? a.reg : emit(e, TN_STRIP_SCALE, 0, a.reg, 0, 0, a.factor);
}

int tn_emit_round(tn_emitter *e, tn_dtype dtype, int reg) {
  tn_strip_code code = dtype == TN_TF32   ? TN_STRIP_ROUND_TF32
                       : dtype == TN_BF16 ? TN_STRIP_ROUND_BF16
                                          : TN_STRIP_ROUND_F16;
  if (tn_dtype_compute(dtype) == dtype || e->status != TN_OK) return reg;
  if (reg >= e->n_given && e->code[reg - e->n_given].code == code) return reg; /* rounded already */
  return emit(e, code, 0, reg, 0, 0, 0);
}

tn_lazy tn_emit_mul(tn_emitter *e, tn_lazy a, tn_lazy b) {
  if (tn_lazy_is_zero(a) || tn_lazy_is_zero(b)) return TN_ZERO;
  if (a.reg < 0) return tn_emit_scale(a.factor, b);
  if (b.reg < 0) return tn_emit_scale(b.factor, a);
  return (tn_lazy){a.factor * b.factor, emit(e, TN_STRIP_MUL, 0, a.reg, b.reg, 0, 0)};
}

tn_lazy tn_emit_add(tn_emitter *e, tn_lazy a, tn_lazy b) {
  if (tn_lazy_is_zero(a)) return b;
  if (tn_lazy_is_zero(b)) return a;
  if (a.reg < 0 && b.reg < 0) return tn_emit_number(a.factor + b.factor);
  if (a.reg >= 0 && b.reg >= 0 && a.factor == b.factor)
    return (tn_lazy){a.factor, emit(e, TN_STRIP_ADD, 0, a.reg, b.reg, 0, 0)};
  if (a.reg >= 0 && b.reg >= 0 && a.factor == -b.factor)
    return (tn_lazy){a.factor, emit(e, TN_STRIP_SUB, 0, a.reg, b.reg, 0, 0)};
  if (a.reg < 0 || (a.factor == 1 && b.reg >= 0)) {
    tn_lazy swap = a;
    a = b;
    b = swap;
  }
  return (tn_lazy){1, emit(e, TN_STRIP_FMAK, 0, a.reg, 0, tn_emit_register(e, b), a.factor)};
}

tn_lazy tn_emit_fma(tn_emitter *e, tn_lazy a, tn_lazy b, tn_lazy c) {
  if (tn_lazy_is_zero(a) || tn_lazy_is_zero(b)) return c;
  if (a.reg < 0 || b.reg < 0 || tn_lazy_is_zero(c)) return tn_emit_add(e, tn_emit_mul(e, a, b), c);
  double factor = a.factor * b.factor;
  int left = tn_emit_register(e, (tn_lazy){factor, a.reg});
  return (tn_lazy){1, emit(e, TN_STRIP_FMA, 0, left, b.reg, tn_emit_register(e, c), 0)};
}

tn_lazy tn_emit_div(tn_emitter *e, tn_lazy a, tn_lazy b) {
  if (tn_lazy_is_zero(a)) return TN_ZERO;
  if (b.reg < 0) return tn_emit_scale(1 / b.factor, a);
  double factor = a.factor / b.factor;
  int top = tn_emit_register(e, (tn_lazy){a.reg < 0 ? a.factor : 1, a.reg});
  return (tn_lazy){a.reg < 0 ? 1 / b.factor : factor, emit(e, TN_STRIP_DIV, 0, top, b.reg, 0, 0)};
}

tn_lazy tn_emit_cell(tn_emitter *e, tn_op_id op, tn_lazy a, double k) {
  return (tn_lazy){1, emit(e, TN_STRIP_CELL, op, tn_emit_register(e, a), 0, 0, k)};
}

tn_lazy tn_emit_binary(tn_emitter *e, tn_op_id op, int a, int b) {
  tn_lazy x = {1, a}, y = {1, b};
  switch (op) {
  case TN_OP_add: return tn_emit_add(e, x, y);
  case TN_OP_sub: return tn_emit_add(e, x, tn_emit_scale(-1, y));
  case TN_OP_mul: return tn_emit_mul(e, x, y);
  case TN_OP_div: return tn_emit_div(e, x, y);
  default: return (tn_lazy){1, emit(e, TN_STRIP_BINARY, op, a, b, 0, 0)};
  }
}

tn_status tn_emit_finish(tn_emitter *e, size_t n_outputs, const int *output, size_t *n_temporaries) {
  size_t total = (size_t)e->n_given + e->count;
  uint8_t *kept = NULL;
  int *place = NULL;
  TN_TRY(TN_NEW(total + 1, &kept));
  tn_status status = TN_NEW(total + 1, &place);
  for (size_t i = 0; i < total && status == TN_OK; ++i) place[i] = (int)i < e->n_given ? (int)i : -1;
  for (size_t i = 0; i < n_outputs && status == TN_OK; ++i) {
    kept[output[i]] = 1;
    place[output[i]] = e->n_given + (int)i;
  }
  if (status == TN_OK) status = tn_strip_optimise(e->n_given, &e->count, e->code, kept, total);
  if (status == TN_OK)
    status = tn_strip_allocate(e->n_given, e->count, e->code, place, total,
                               e->n_given + (int)n_outputs, n_temporaries);
  tn_free(&kept);
  tn_free(&place);
  return status;
}
