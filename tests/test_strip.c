/* test_strip.c: strip programs.
 *
 * Law of the optimiser and the allocator: a random program in single assignment, run plainly with a buffer of its
 * own for every register, and the same program optimised and placed leave the same bits in every register that is
 * kept; on every level, in both dtypes, for odd lengths, with results over operands. Random numbers include zeros,
 * infinities, NaN and subnormal numbers. Law of families: they give the bits of their rows run one by one. NaNs
 * count as equal: their sign and payload are nobody's promise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/kernels.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 96, N = TN_STRIP };
static const char *const levels[] = {"base", "v3", "v4"};
static const tn_dtype dtypes[] = {TN_F64, TN_F32};

static tn_stream stream;
static uint64_t drawn;
static size_t below(size_t n) { return (size_t)(tn_random_uniform(stream, drawn++) * (double)n) % n; }
static double uniform(void) { return 2 * tn_random_uniform(stream, drawn++) - 1; }

static void good(tn_status status) {
  if (status != TN_OK) fail_msg("%s: %s", tn_error_place(), tn_error_text());
}

static double special(size_t i) {
  const double x[] = {0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1e-310, -1e-42, 1e-300,
                      1e38, -1e300, 1, -1, 0.5, 20, -20, 88.8, -104, 709.9, -745.2, 1e5, 1e6};
  return x[i % (sizeof x / sizeof *x)];
}

static double number(void) {
  return below(40) == 0 ? special(below(64)) : uniform() * exp2(6 * uniform());
}

static double get(const tn_kernels *t, const void *x, size_t i) {
  return t->dtype == TN_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
static void put(const tn_kernels *t, void *x, size_t i, double value) {
  if (t->dtype == TN_F64) ((double *)x)[i] = value;
  else ((float *)x)[i] = (float)value;
}

/* The first element in which x and y differ, n if none. */
static size_t difference(const tn_kernels *t, const void *x, const void *y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    double p = get(t, x, i), q = get(t, y, i);
    if (memcmp(&p, &q, sizeof p) != 0 && !(isnan(p) && isnan(q))) return i;
  }
  return n;
}

static void on_each(void (*body)(const tn_kernels *)) {
  stream = tn_stream_of(11, "strip");
  drawn = 0;
  for (size_t d = 0; d < 2; ++d)
    for (size_t l = 0; l < sizeof levels / sizeof *levels; ++l) {
      const tn_kernels *t = tn_kernels_at(dtypes[d], levels[l]);
      if (t) body(t);
    }
}

/* ---- Random programs ---- */

typedef struct program {
  int n_given;
  size_t count, n_registers;
  tn_strip_instruction code[MOST];
  uint8_t kept[2 * MOST];
} program;

/* Plain instructions, as code generators write them: products, scalings and FMAs most of all; operands are often
 * among the last results, so that producers with one reader are frequent. */
static program random_program(void) {
  static const uint8_t codes[] = {TN_STRIP_MUL,   TN_STRIP_MUL,    TN_STRIP_MUL,  TN_STRIP_FMA,
                                  TN_STRIP_FMA,   TN_STRIP_FMA,    TN_STRIP_FMA,  TN_STRIP_SCALE,
                                  TN_STRIP_SCALE, TN_STRIP_SCALE,  TN_STRIP_ADD,  TN_STRIP_SUB,
                                  TN_STRIP_DIV,   TN_STRIP_FMAK,   TN_STRIP_FILL, TN_STRIP_COPY,
                                  TN_STRIP_CELL,  TN_STRIP_BINARY, TN_STRIP_ROUND_TF32,
                                  TN_STRIP_ROUND_BF16, TN_STRIP_ROUND_F16};
  static const uint8_t rows[] = {TN_OP_tanh,    TN_OP_sech2, TN_OP_sin,      TN_OP_cos,  TN_OP_exp,
                                 TN_OP_sigmoid, TN_OP_silu,  TN_OP_dsigmoid, TN_OP_gelu, TN_OP_square,
                                 TN_OP_expm1};
  static const uint8_t binary[] = {TN_OP_min, TN_OP_max, TN_OP_pow, TN_OP_atan2};
  program p = {.n_given = 1 + (int)below(5), .count = 1 + below(MOST)};
  p.n_registers = (size_t)p.n_given + p.count;
  for (size_t i = 0; i < p.count; ++i) {
    size_t known = (size_t)p.n_given + i;
    tn_strip_instruction *x = &p.code[i];
    int16_t *field[3] = {&x->a, &x->b, &x->c};
    x->code = codes[below(sizeof codes)];
    x->y = (int16_t)known;
    for (int j = 0; j < 3; ++j) {
      size_t near = known < 6 ? known : 6;
      *field[j] = (int16_t)(below(3) ? known - 1 - below(near) : below(known));
    }
    if (x->code == TN_STRIP_CELL) {
      x->op = rows[below(sizeof rows)];
      x->a = (int16_t)below((size_t)p.n_given);
    }
    if (x->code == TN_STRIP_BINARY) x->op = binary[below(sizeof binary)];
    x->k = x->code >= TN_STRIP_SCALE ? uniform() : 0;
    p.kept[known] = below(6) == 0;
  }
  p.kept[p.n_registers - 1] = 1;
  return p;
}

/* Places: given registers as numbered, kept ones behind them or, where its last reader has run by then, over a
 * given one; then temporaries. */
static int choose_places(const program *p, int *place) {
  int last[2 * MOST], over = 0, next = p->n_given;
  for (size_t r = 0; r < p->n_registers; ++r) place[r] = (int)r < p->n_given ? (int)r : -1, last[r] = -1;
  for (size_t i = 0; i < p->count; ++i) {
    int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&p->code[i], regs);
    for (int j = 0; j < n; ++j) last[regs[j]] = (int)i;
  }
  for (size_t i = 0; i < p->count; ++i) {
    int regs[TN_STRIP_MAX_WRITES], n = tn_strip_writes(&p->code[i], regs);
    for (int j = 0; j < n; ++j) {
      if (!p->kept[regs[j]]) continue;
      while (over < p->n_given && last[over] > (int)i) ++over;
      place[regs[j]] = over < p->n_given && below(2) ? over++ : next++;
    }
  }
  return next;
}

typedef struct bank { /* registers as buffers of their own */
  void *data[2 * MOST];
} bank;
static void bank_open(const tn_kernels *t, bank *b) {
  for (size_t r = 0; r < 2 * MOST; ++r) {
    good(tn_new(N, t->size, &b->data[r]));
    for (size_t i = 0; i < N; ++i) put(t, b->data[r], i, number());
  }
}
static void bank_close(bank *b) {
  for (size_t r = 0; r < 2 * MOST; ++r) tn_free(&b->data[r]);
}
static void bank_copy(const tn_kernels *t, bank *to, const bank *from, int n) {
  for (int r = 0; r < n; ++r) memcpy(to->data[r], from->data[r], N * t->size);
}

static size_t seen[TN_STRIP_CODES];

static void programs_each(const tn_kernels *t) {
  static const size_t lengths[] = {1, 7, 64, 129, 509, N};
  bank start, plain, placed;
  bank_open(t, &start), bank_open(t, &plain), bank_open(t, &placed);
  for (int round = 0; round < 150; ++round) {
    program p = random_program(), q = p;
    size_t n = lengths[below(sizeof lengths / sizeof *lengths)], temporaries;
    int place[2 * MOST], origin[2 * MOST];
    good(tn_strip_optimise(q.n_given, &q.count, q.code, q.kept, q.n_registers));
    assert_true(q.count <= p.count);
    for (size_t i = 0; i < q.count; ++i) ++seen[q.code[i].code];
    int first = choose_places(&q, place);
    memcpy(origin, place, sizeof origin);
    good(tn_strip_allocate(q.n_given, q.count, q.code, place, q.n_registers, first, &temporaries));
    assert_true((size_t)first + temporaries <= q.n_registers);
    bank_copy(t, &plain, &start, p.n_given);
    bank_copy(t, &placed, &start, p.n_given);
    for (size_t i = 0; i < p.count; ++i) t->strip(1, &p.code[i], plain.data, n);
    t->strip(q.count, q.code, placed.data, n);
    for (size_t r = (size_t)p.n_given; r < p.n_registers; ++r) {
      if (!p.kept[r]) continue;
      assert_int_equal(place[r], origin[r]);
      size_t at = difference(t, plain.data[r], placed.data[place[r]], n);
      if (at < n)
        fail_msg("round %d, register %zu, element %zu of %zu: %a, expected %a", round, r, at, n,
                 get(t, placed.data[place[r]], at), get(t, plain.data[r], at));
    }
  }
  bank_close(&start), bank_close(&plain), bank_close(&placed);
}
static void optimised_programs_keep_their_bits(void **unused) {
  (void)unused;
  memset(seen, 0, sizeof seen);
  on_each(programs_each);
  for (size_t code = 0; code < TN_STRIP_CODES; ++code) /* the programs have shown every instruction */
    if (!seen[code]) fail_msg("instruction %zu never came up", code);
}

/* ---- Families ---- */

static const struct {
  tn_family family;
  tn_op_id row[3];
} families[] = {
#define PAIR(first, second) {TN_FAMILY_##first, {TN_OP_##first, TN_OP_##second, TN_OP_##second}},
#define TRIPLE(first, second, third)                                                               \
  {TN_FAMILY_##first, {TN_OP_##first, TN_OP_##second, TN_OP_##third}},
    TN_FAMILY_LIST(PAIR, TRIPLE)
#undef PAIR
#undef TRIPLE
};

static void families_each(const tn_kernels *t) {
  void *in = NULL, *y[4] = {NULL};
  good(tn_new(N, t->size, &in));
  for (size_t j = 0; j < 4; ++j) good(tn_new(N, t->size, &y[j]));
  for (size_t round = 0; round < 60; ++round)
    for (size_t f = 0; f < TN_FAMILIES; ++f)
      for (unsigned wanted = 1; wanted < 8; ++wanted) {
        if ((wanted & 4) && families[f].row[1] == families[f].row[2]) continue;
        size_t n = N - (round + wanted) % 9;
        double spread = exp2((double)(round % 12) - 4);
        for (size_t i = 0; i < N; ++i)
          put(t, in, i, i < 64 ? special(i + round) : uniform() * spread);
        /* Register 0 is the argument; results in 1 .. 3, the last of them over the argument. */
        void *registers[4] = {y[0], y[1], y[2], y[3]};
        memcpy(y[0], in, N * t->size);
        tn_strip_instruction x = {.code = TN_STRIP_CELLS, .op = (uint8_t)families[f].family,
                                  .y = wanted & 1 ? 1 : -1, .y2 = wanted & 2 ? 2 : -1,
                                  .y3 = wanted & 4 ? 3 : -1};
        int16_t *result[3] = {&x.y, &x.y2, &x.y3};
        int in_place = wanted & 4 ? 2 : wanted & 2 ? 1 : 0;
        if (round % 2) *result[in_place] = 0;
        t->strip(1, &x, registers, n);
        for (int j = 0; j < 3; ++j) {
          if (!(wanted >> j & 1)) continue;
          void *got = registers[*result[j]], *one = NULL;
          good(tn_new(N, t->size, &one));
          t->cell[families[f].row[j]](n, one, in, NULL, 0);
          size_t at = difference(t, one, got, n);
          if (at < n)
            fail_msg("family %zu, row %d, at %a: %a, alone %a", f, j, get(t, in, at), get(t, got, at),
                     get(t, one, at));
          tn_free(&one);
        }
      }
  tn_free(&in);
  for (size_t j = 0; j < 4; ++j) tn_free(&y[j]);
}
static void families_have_the_bits_of_their_rows(void **unused) { (void)unused, on_each(families_each); }

/* ---- What an instruction reads and writes ---- */

/* Registers that are not named are no memory at all: a kernel that touched one would crash. */
static void operands_each(const tn_kernels *t) {
  bank b;
  bank_open(t, &b);
  for (int code = 0; code < TN_STRIP_CODES; ++code) {
    tn_strip_instruction x = {.code = (uint8_t)code, .y = 1, .a = 2, .b = 3, .c = 4, .y2 = 5, .y3 = 6,
                              .d = 7, .e = 8, .f = 9, .k = 0.5, .l = 0.25};
    x.op = code == TN_STRIP_CELL ? TN_OP_square : code == TN_STRIP_BINARY ? TN_OP_max
                                                 : code == TN_STRIP_CELLS ? TN_FAMILY_gelu : 0;
    int reads[TN_STRIP_MAX_READS], writes[TN_STRIP_MAX_WRITES];
    int n_reads = tn_strip_reads(&x, reads), n_writes = tn_strip_writes(&x, writes);
    void *registers[10] = {NULL};
    for (int j = 0; j < n_reads; ++j) registers[reads[j]] = b.data[reads[j]];
    for (int j = 0; j < n_writes; ++j) registers[writes[j]] = b.data[writes[j]];
    t->strip(1, &x, registers, 100);
    int map[10];
    for (int r = 0; r < 10; ++r) map[r] = 20 - r;
    tn_strip_renumber(&x, map);
    int moved[TN_STRIP_MAX_READS];
    assert_int_equal(tn_strip_reads(&x, moved), n_reads);
    for (int j = 0; j < n_reads; ++j) assert_int_equal(moved[j], 20 - reads[j]);
    assert_int_equal(tn_strip_writes(&x, moved), n_writes);
    for (int j = 0; j < n_writes; ++j) assert_int_equal(moved[j], 20 - writes[j]);
  }
  bank_close(&b);
}
static void instructions_touch_what_they_name(void **unused) { (void)unused, on_each(operands_each); }

/* ---- The optimiser, by example ---- */

static size_t optimised(tn_strip_instruction *code, size_t count, int n_given, int kept) {
  uint8_t wanted[16] = {0};
  wanted[kept] = 1;
  good(tn_strip_optimise(n_given, &count, code, wanted, 16));
  return count;
}

static void readers_swallow_their_producers(void **unused) {
  (void)unused;
  /* The second channel of an activation's jet: fma(2 (a b c), b, d e), in two instructions of seven. */
  tn_strip_instruction jet[] = {{.code = TN_STRIP_MUL, .y = 5, .a = 0, .b = 1},
                                {.code = TN_STRIP_MUL, .y = 6, .a = 5, .b = 2},
                                {.code = TN_STRIP_MUL, .y = 7, .a = 6, .b = 3},
                                {.code = TN_STRIP_SCALE, .y = 8, .a = 7, .k = 2},
                                {.code = TN_STRIP_MUL, .y = 9, .a = 4, .b = 1},
                                {.code = TN_STRIP_COPY, .y = 10, .a = 2},
                                {.code = TN_STRIP_FMA, .y = 11, .a = 8, .b = 10, .c = 9},
                                {.code = TN_STRIP_ADD, .y = 12, .a = 11, .b = 0}};
  assert_int_equal(optimised(jet, 8, 5, 11), 2);
  assert_int_equal(jet[0].code, TN_STRIP_MUL3);
  assert_int_equal(jet[1].code, TN_STRIP_FMA_P_P);
  /* A scaling moves into all its readers, a product with two readers into none. */
  tn_strip_instruction shared[] = {{.code = TN_STRIP_MUL, .y = 2, .a = 0, .b = 1},
                                   {.code = TN_STRIP_SCALE, .y = 3, .a = 2, .k = 3},
                                   {.code = TN_STRIP_FMA, .y = 4, .a = 3, .b = 1, .c = 2},
                                   {.code = TN_STRIP_FMA, .y = 5, .a = 3, .b = 0, .c = 4}};
  assert_int_equal(optimised(shared, 4, 2, 5), 2);
  assert_int_equal(shared[0].code, TN_STRIP_MUL);
  assert_int_equal(shared[1].code, TN_STRIP_FMA_S_FMA);
  /* A register that is kept stays. */
  tn_strip_instruction kept[] = {{.code = TN_STRIP_MUL, .y = 2, .a = 0, .b = 1},
                                 {.code = TN_STRIP_MUL, .y = 3, .a = 2, .b = 1}};
  uint8_t both[4] = {0, 0, 1, 1};
  size_t count = 2;
  good(tn_strip_optimise(2, &count, kept, both, 4));
  assert_int_equal(count, 2);
}

static void rows_of_one_argument_become_a_family(void **unused) {
  (void)unused;
  tn_strip_instruction code[] = {{.code = TN_STRIP_CELL, .op = TN_OP_sigmoid, .y = 2, .a = 0},
                                 {.code = TN_STRIP_CELL, .op = TN_OP_tanh, .y = 3, .a = 1},
                                 {.code = TN_STRIP_CELL, .op = TN_OP_silu, .y = 4, .a = 0},
                                 {.code = TN_STRIP_CELL, .op = TN_OP_sech2, .y = 5, .a = 0},
                                 {.code = TN_STRIP_CELL, .op = TN_OP_softplus, .y = 6, .a = 1}};
  uint8_t kept[8] = {0, 0, 1, 1, 1, 1, 1};
  size_t count = 5;
  good(tn_strip_optimise(2, &count, code, kept, 8));
  assert_int_equal(count, 4);
  assert_int_equal(code[0].code, TN_STRIP_CELLS);
  assert_int_equal(code[0].op, TN_FAMILY_silu);
  assert_int_equal(code[0].y, 4);
  assert_int_equal(code[0].y2, 2);
  assert_int_equal(code[0].y3, -1);
}

/* ---- What is refused ---- */

static void broken_programs_are_refused(void **unused) {
  (void)unused;
  uint8_t kept[4] = {0, 0, 0, 1};
  int place[4] = {0, 1, 2, 0};
  size_t count = 2, temporaries;
  tn_strip_instruction twice[] = {{.code = TN_STRIP_COPY, .y = 2, .a = 0},
                                  {.code = TN_STRIP_COPY, .y = 2, .a = 1}};
  assert_int_equal(tn_strip_optimise(2, &count, twice, kept, 4), TN_EINTERNAL);
  tn_strip_instruction early[] = {{.code = TN_STRIP_COPY, .y = 2, .a = 3},
                                  {.code = TN_STRIP_COPY, .y = 3, .a = 1}};
  assert_int_equal(tn_strip_optimise(2, &count, early, kept, 4), TN_EINTERNAL);
  assert_int_equal(tn_strip_allocate(2, 2, early, place, 4, 4, &temporaries), TN_EINTERNAL);
  tn_strip_instruction overlap[] = {{.code = TN_STRIP_COPY, .y = 3, .a = 1},
                                    {.code = TN_STRIP_COPY, .y = 2, .a = 0}};
  assert_int_equal(tn_strip_allocate(2, 2, overlap, place, 4, 4, &temporaries), TN_EINTERNAL);
  tn_strip_instruction fits[] = {{.code = TN_STRIP_ADD, .y = 3, .a = 0, .b = 1},
                                 {.code = TN_STRIP_COPY, .y = 2, .a = 1}};
  good(tn_strip_allocate(2, 2, fits, place, 4, 4, &temporaries));
  assert_int_equal(fits[0].y, 0);
}

static void failed_allocations_leave_nothing_behind(void **unused) {
  (void)unused;
  size_t before = tn_memory_now(), temporaries;
  tn_status status = TN_ENOMEM;
  for (uint64_t at = 1; status != TN_OK; ++at) {
    program p = random_program();
    int place[2 * MOST];
    for (size_t r = 0; r < p.n_registers; ++r) place[r] = (int)r < p.n_given || p.kept[r] ? (int)r : -1;
    tn_fault_at(at, false);
    status = tn_strip_optimise(p.n_given, &p.count, p.code, p.kept, p.n_registers);
    if (status == TN_OK)
      status = tn_strip_allocate(p.n_given, p.count, p.code, place, p.n_registers, 2 * MOST, &temporaries);
    tn_fault_at(0, false);
    assert_true(status == TN_OK || status == TN_ENOMEM);
    assert_int_equal(tn_memory_now(), before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimised_programs_keep_their_bits),
      cmocka_unit_test(families_have_the_bits_of_their_rows),
      cmocka_unit_test(instructions_touch_what_they_name),
      cmocka_unit_test(readers_swallow_their_producers),
      cmocka_unit_test(rows_of_one_argument_become_a_family),
      cmocka_unit_test(broken_programs_are_refused),
      cmocka_unit_test(failed_allocations_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
