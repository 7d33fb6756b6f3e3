/* strip.c: improving strip programs and giving their registers places.
 *
 * What an instruction costs is the traffic of its operands and results with the first cache, two loads and one
 * store a cycle, and hardly its arithmetic. So a product, a scaled register or an FMA that one instruction alone
 * reads moves into that instruction, if strip.def has the shape; a scaled register moves into each of its
 * readers. Rows that share an exponential become one instruction. Everything keeps its roundings.
 *
 * Merging goes through the program once, producers before readers, so an operand's producer already has its own
 * final shape. The merged instruction stands where the reader stood; a family stands where its first row stood.
 */
#include "tensor/strip.h"

#include <string.h>

enum { A = 1, B = 2, C = 4, D = 8, E = 16, F = 32, DEAD = TN_STRIP_CODES };

/* Operand letters of each code. */
static const uint8_t operands[TN_STRIP_CODES + 1] = {
    [TN_STRIP_CELL] = A,
    [TN_STRIP_BINARY] = A | B,
    [TN_STRIP_CELLS] = A,
#define STRIP(name, reads, value) [TN_STRIP_##name] = reads,
#include "tensor/strip.def"
};

/* Rows of each family; TN_OPS: none. */
static const uint8_t families[TN_FAMILIES][3] = {
#define PAIR(first, second) {TN_OP_##first, TN_OP_##second, TN_OPS},
#define TRIPLE(first, second, third) {TN_OP_##first, TN_OP_##second, TN_OP_##third},
    TN_FAMILY_LIST(PAIR, TRIPLE)
#undef PAIR
#undef TRIPLE
};

/* ---- Looking at instructions ---- */

/* The fields that hold the operands of x; the number of them. */
static int operand_fields(tn_strip_instruction *x, int16_t **fields) {
  int16_t *all[TN_STRIP_MAX_READS] = {&x->a, &x->b, &x->c, &x->d, &x->e, &x->f};
  int n = 0;
  for (int i = 0; i < TN_STRIP_MAX_READS; ++i)
    if (operands[x->code] >> i & 1) fields[n++] = all[i];
  return n;
}

static int result_fields(tn_strip_instruction *x, int16_t **fields) {
  int n = 0;
  if (x->code == DEAD) return 0;
  if (x->code != TN_STRIP_CELLS || x->y >= 0) fields[n++] = &x->y;
  if (x->code == TN_STRIP_CELLS && x->y2 >= 0) fields[n++] = &x->y2;
  if (x->code == TN_STRIP_CELLS && x->y3 >= 0) fields[n++] = &x->y3;
  return n;
}

int tn_strip_reads(const tn_strip_instruction *x, int *reads) {
  tn_strip_instruction copy = *x;
  int16_t *fields[TN_STRIP_MAX_READS];
  int n = operand_fields(&copy, fields);
  for (int i = 0; i < n; ++i) reads[i] = *fields[i];
  return n;
}

int tn_strip_writes(const tn_strip_instruction *x, int *writes) {
  tn_strip_instruction copy = *x;
  int16_t *fields[TN_STRIP_MAX_WRITES];
  int n = result_fields(&copy, fields);
  for (int i = 0; i < n; ++i) writes[i] = *fields[i];
  return n;
}

void tn_strip_renumber(tn_strip_instruction *x, const int *map) {
  int16_t *fields[TN_STRIP_MAX_READS + TN_STRIP_MAX_WRITES];
  int n = operand_fields(x, fields);
  n += result_fields(x, fields + n);
  for (int i = 0; i < n; ++i) *fields[i] = (int16_t)map[*fields[i]];
}

/* ---- Merging ---- */

typedef struct optimiser {
  size_t count;
  tn_strip_instruction *code;
  const uint8_t *kept;
  size_t n_registers;
  int *writer;  /* a register's instruction; -1: given or unknown */
  int *readers; /* how many operands name it */
} optimiser;

static void count_readers(optimiser *o) {
  memset(o->readers, 0, o->n_registers * sizeof *o->readers);
  for (size_t i = 0; i < o->n_registers; ++i) o->writer[i] = -1;
  for (size_t i = 0; i < o->count; ++i) {
    int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&o->code[i], regs);
    for (int j = 0; j < n; ++j) ++o->readers[regs[j]];
    n = tn_strip_writes(&o->code[i], regs);
    for (int j = 0; j < n; ++j) o->writer[regs[j]] = (int)i;
  }
}

static bool is_needed(const optimiser *o, int r) { return o->kept[r] || o->readers[r] > 0; }

static void forget(optimiser *o, size_t i) {
  int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&o->code[i], regs);
  for (int j = 0; j < n; ++j) --o->readers[regs[j]];
  o->code[i].code = DEAD;
}

/* A family with one row left is that row. */
static void narrow_family(tn_strip_instruction *x) {
  int16_t y[3] = {x->y, x->y2, x->y3};
  int rows = (y[0] >= 0) + (y[1] >= 0) + (y[2] >= 0);
  for (int j = 0; j < 3; ++j)
    if (rows == 1 && y[j] >= 0)
      *x = (tn_strip_instruction){.code = TN_STRIP_CELL, .op = families[x->op][j], .y = y[j],
                                  .a = x->a};
}

static void drop_dead(optimiser *o) {
  count_readers(o);
  for (size_t i = o->count; i-- > 0;) {
    tn_strip_instruction *x = &o->code[i];
    int16_t *fields[TN_STRIP_MAX_WRITES];
    int n = result_fields(x, fields), needed = 0;
    for (int j = 0; j < n; ++j) needed += is_needed(o, *fields[j]);
    if (needed == 0) {
      if (x->code != DEAD) forget(o, i);
      continue;
    }
    for (int j = 0; j < n && needed < n; ++j)
      if (!is_needed(o, *fields[j])) *fields[j] = -1;
    if (x->code == TN_STRIP_CELLS) narrow_family(x);
  }
  size_t kept = 0;
  for (size_t i = 0; i < o->count; ++i)
    if (o->code[i].code != DEAD) o->code[kept++] = o->code[i];
  o->count = kept;
  count_readers(o);
}

/* Readers of a copy read what it copies; the copy stays for whoever needs it after the program. */
static void read_through_copies(optimiser *o) {
  for (size_t i = 0; i < o->count; ++i) {
    int16_t *fields[TN_STRIP_MAX_READS];
    int n = operand_fields(&o->code[i], fields);
    for (int j = 0; j < n; ++j) {
      int w = o->writer[*fields[j]];
      if (w >= 0 && o->code[w].code == TN_STRIP_COPY) *fields[j] = o->code[w].a;
    }
  }
}

static bool is_row_of(const tn_strip_instruction *x, int argument, unsigned op) {
  return x->code == TN_STRIP_CELL && x->a == argument && x->op == op;
}

/* Joins the rows of one argument, of which instruction `first` is the first, into the family that has most. */
static void join_rows(optimiser *o, size_t first, const size_t *cells, size_t n_cells) {
  tn_strip_instruction *x = &o->code[first];
  int best = -1, most = 1;
  size_t at[3];
  for (int f = 0; f < TN_FAMILIES; ++f) {
    size_t found[3] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    int rows = 0;
    bool own = false; /* the first row belongs to it */
    for (int j = 0; j < 3; ++j) {
      for (size_t c = 0; c < n_cells && found[j] == SIZE_MAX; ++c)
        if (is_row_of(&o->code[cells[c]], x->a, families[f][j])) found[j] = cells[c];
      rows += found[j] != SIZE_MAX;
      own = own || found[j] == first;
    }
    if (!own || rows <= most) continue;
    best = f, most = rows;
    memcpy(at, found, sizeof at);
  }
  if (best < 0) return;
  tn_strip_instruction joined = {.code = TN_STRIP_CELLS, .op = (uint8_t)best, .a = x->a};
  int16_t *y[3] = {&joined.y, &joined.y2, &joined.y3};
  for (int j = 0; j < 3; ++j) {
    *y[j] = at[j] == SIZE_MAX ? -1 : o->code[at[j]].y;
    if (at[j] != SIZE_MAX) o->code[at[j]].code = DEAD;
  }
  o->code[first] = joined;
}

static tn_status join_families(optimiser *o) {
  size_t *cells = NULL, n = 0;
  TN_TRY(TN_NEW(o->count + 1, &cells));
  for (size_t i = 0; i < o->count; ++i)
    if (o->code[i].code == TN_STRIP_CELL) cells[n++] = i;
  for (size_t i = 0; i < n; ++i)
    if (o->code[cells[i]].code == TN_STRIP_CELL) join_rows(o, cells[i], cells + i, n - i);
  tn_free(&cells);
  return TN_OK;
}

/* The instruction that made r, if nobody but one reader needs r; NULL else. */
static tn_strip_instruction *own_producer(const optimiser *o, int r) {
  int w = o->writer[r];
  return w < 0 || o->kept[r] || o->readers[r] != 1 ? NULL : &o->code[w];
}

/* The scaling that made r, whoever else reads r; NULL else. */
static tn_strip_instruction *scaling(const optimiser *o, int r) {
  int w = o->writer[r];
  return w < 0 || o->kept[r] || o->code[w].code != TN_STRIP_SCALE ? NULL : &o->code[w];
}

/* One operand of x that named p's result now names p's operands; p goes when that was its last reader. */
static void absorb(optimiser *o, tn_strip_instruction *p) {
  int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(p, regs);
  if (--o->readers[p->y] == 0) {
    p->code = DEAD;
    return;
  }
  for (int j = 0; j < n; ++j) ++o->readers[regs[j]];
}

/* The multiplicand a of fma(a, b, c) as k a, or k (a d) if it is a product of its own; whether it is one. */
static bool merge_multiplicand(optimiser *o, tn_strip_instruction *x) {
  for (int side = 0; side < 2; ++side) {
    int16_t r = side ? x->b : x->a, other = side ? x->a : x->b;
    tn_strip_instruction *p = own_producer(o, r);
    if (!p || (p->code != TN_STRIP_MUL && p->code != TN_STRIP_SCALE_P)) continue;
    x->k = p->code == TN_STRIP_MUL ? 1 : p->k;
    x->a = p->a, x->d = p->b, x->b = other;
    absorb(o, p);
    return true;
  }
  for (int side = 0; side < 2; ++side) {
    int16_t r = side ? x->b : x->a, other = side ? x->a : x->b;
    tn_strip_instruction *p = scaling(o, r);
    if (!p || r == other) continue;
    x->k = p->k;
    x->a = p->a, x->b = other;
    absorb(o, p);
    break;
  }
  return false;
}

/* fma(a, b, c) with what can move into it, in the shape of strip.def that results. */
static void merge_fma(optimiser *o, tn_strip_instruction *x) {
  enum { PLAIN, SCALED, PRODUCT, CHAIN };
  static const uint8_t shape[2][4] = {
      {TN_STRIP_FMA_S, TN_STRIP_FMA_S_S, TN_STRIP_FMA_S_P, TN_STRIP_FMA_S_FMA},
      {TN_STRIP_FMA_P, TN_STRIP_FMA_P_S, TN_STRIP_FMA_P_P, TN_STRIP_FMA_P_FMA}};
  x->k = 1;
  int product = merge_multiplicand(o, x), addend = PLAIN;
  tn_strip_instruction *p = own_producer(o, x->c);
  if (p && (p->code == TN_STRIP_MUL || p->code == TN_STRIP_SCALE_P)) {
    addend = PRODUCT;
    x->l = p->code == TN_STRIP_MUL ? 1 : p->k;
    x->c = p->a, x->e = p->b;
  } else if (p && (p->code == TN_STRIP_FMA || p->code == TN_STRIP_FMA_S)) {
    addend = CHAIN;
    x->l = p->code == TN_STRIP_FMA ? 1 : p->k;
    x->f = p->c, x->c = p->a, x->e = p->b;
  } else if ((p = scaling(o, x->c)) != NULL && x->c != x->a && x->c != x->b && x->c != x->d) {
    addend = SCALED;
    x->l = p->k, x->c = p->a;
  }
  if (addend != PLAIN) absorb(o, p);
  if (!product && addend == PLAIN && x->k == 1) x->k = 0; /* nothing moved */
  else x->code = shape[product][addend];
}

static void merge_mul(optimiser *o, tn_strip_instruction *x) {
  for (int side = 0; side < 2; ++side) {
    int16_t r = side ? x->b : x->a, other = side ? x->a : x->b;
    tn_strip_instruction *p = own_producer(o, r);
    if (!p || p->code != TN_STRIP_MUL) continue;
    x->code = TN_STRIP_MUL3;
    x->a = p->a, x->b = p->b, x->c = other;
    absorb(o, p);
    return;
  }
  for (int side = 0; side < 2; ++side) {
    int16_t r = side ? x->b : x->a, other = side ? x->a : x->b;
    tn_strip_instruction *p = scaling(o, r);
    if (!p || r == other) continue;
    x->code = TN_STRIP_SMUL;
    x->k = p->k, x->a = p->a, x->b = other;
    absorb(o, p);
    return;
  }
}

static void merge_scale(optimiser *o, tn_strip_instruction *x) {
  tn_strip_instruction *p = own_producer(o, x->a);
  if (!p || p->code != TN_STRIP_MUL) return;
  x->code = TN_STRIP_SCALE_P;
  x->a = p->a, x->b = p->b;
  absorb(o, p);
}

static void merge_into_readers(optimiser *o) {
  for (size_t i = 0; i < o->count; ++i) {
    tn_strip_instruction *x = &o->code[i];
    if (x->code == TN_STRIP_MUL) merge_mul(o, x);
    else if (x->code == TN_STRIP_SCALE) merge_scale(o, x);
    else if (x->code == TN_STRIP_FMA) merge_fma(o, x);
  }
}

/* Every register named is in range and, if not given, written before and once. */
static tn_status check_single_assignment(int n_given, size_t count, const tn_strip_instruction *code,
                                         size_t n_registers, int *writer) {
  for (size_t i = 0; i < n_registers; ++i) writer[i] = (int)i < n_given ? 0 : -1;
  for (size_t i = 0; i < count; ++i) {
    int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&code[i], regs);
    for (int j = 0; j < n; ++j)
      if (regs[j] < 0 || (size_t)regs[j] >= n_registers || writer[regs[j]] < 0)
        return TN_FAIL(TN_EINTERNAL, "strip: instruction %zu reads register %d, not written yet", i,
                       regs[j]);
    n = tn_strip_writes(&code[i], regs);
    for (int j = 0; j < n; ++j) {
      if (regs[j] < 0 || (size_t)regs[j] >= n_registers || writer[regs[j]] >= 0)
        return TN_FAIL(TN_EINTERNAL, "strip: instruction %zu writes register %d, written before", i,
                       regs[j]);
      writer[regs[j]] = (int)i;
    }
  }
  return TN_OK;
}

tn_status tn_strip_optimise(int n_given, size_t *count, tn_strip_instruction *code,
                            const uint8_t *kept, size_t n_registers) {
  optimiser o = {.count = *count, .code = code, .kept = kept, .n_registers = n_registers};
  TN_TRY(TN_NEW(n_registers + 1, &o.writer));
  tn_status status = TN_NEW(n_registers + 1, &o.readers);
  if (status == TN_OK)
    status = check_single_assignment(n_given, o.count, code, n_registers, o.writer);
  if (status == TN_OK) {
    count_readers(&o);
    read_through_copies(&o);
    drop_dead(&o);
    status = join_families(&o);
  }
  if (status == TN_OK) {
    drop_dead(&o);
    merge_into_readers(&o);
    drop_dead(&o);
    *count = o.count;
  }
  tn_free(&o.writer);
  tn_free(&o.readers);
  return status;
}

/* ---- Places ---- */

typedef struct allocator {
  int *place, *last; /* of each register: its place, and the last instruction that reads it */
  int *spare;        /* temporaries' places that are free */
  int *holder;       /* of each fixed place: the register in it, or -1 */
  size_t n_spare, n_used;
  int first_temporary;
} allocator;

/* After its last reader a register leaves its place. */
static void leave(allocator *s, int r, uint8_t *fixed) {
  if (!fixed[r]) s->spare[s->n_spare++] = s->place[r];
  else if (s->holder[s->place[r]] == r) s->holder[s->place[r]] = -1;
}

static tn_status enter(allocator *s, int r, const uint8_t *fixed) {
  if (!fixed[r]) {
    s->place[r] = s->n_spare ? s->spare[--s->n_spare] : s->first_temporary + (int)s->n_used++;
    return TN_OK;
  }
  int other = s->holder[s->place[r]];
  if (other >= 0)
    return TN_FAIL(TN_EINTERNAL, "strip: registers %d and %d need place %d at one time", other, r,
                   s->place[r]);
  s->holder[s->place[r]] = r;
  return TN_OK;
}

static tn_status walk(allocator *s, int n_given, size_t count, tn_strip_instruction *code,
                      uint8_t *fixed) {
  for (int r = 0; r < n_given; ++r)
    if (fixed[r] && s->last[r] >= 0) TN_TRY(enter(s, r, fixed));
  for (size_t i = 0; i < count; ++i) {
    int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&code[i], regs);
    for (int j = 0; j < n; ++j) {
      if (s->place[regs[j]] < 0)
        return TN_FAIL(TN_EINTERNAL, "strip: register %d is read and has no place", regs[j]);
      bool again = false;
      for (int k = 0; k < j; ++k) again = again || regs[k] == regs[j];
      if (!again && s->last[regs[j]] == (int)i) leave(s, regs[j], fixed);
    }
    n = tn_strip_writes(&code[i], regs);
    for (int j = 0; j < n; ++j) TN_TRY(enter(s, regs[j], fixed));
    for (int j = 0; j < n; ++j) /* results that nobody reads; only after all have their places */
      if (!fixed[regs[j]] && s->last[regs[j]] < 0) leave(s, regs[j], fixed);
    tn_strip_renumber(&code[i], s->place);
  }
  return TN_OK;
}

tn_status tn_strip_allocate(int n_given, size_t count, tn_strip_instruction *code, int *place,
                            size_t n_registers, int first_temporary, size_t *n_temporaries) {
  allocator s = {.place = place, .first_temporary = first_temporary};
  uint8_t *fixed = NULL;
  int n_places = 0;
  *n_temporaries = 0;
  for (size_t r = 0; r < n_registers; ++r)
    if (place[r] >= n_places) n_places = place[r] + 1;
  TN_TRY(TN_NEW(n_registers + 1, &fixed));
  tn_status status = TN_NEW(n_registers + 1, &s.last);
  if (status == TN_OK) status = TN_NEW(n_registers + 1, &s.spare);
  if (status == TN_OK) status = TN_NEW((size_t)n_places + 1, &s.holder);
  if (status == TN_OK)
    status = check_single_assignment(n_given, count, code, n_registers, s.last);
  if (status != TN_OK) goto done;
  for (int p = 0; p < n_places; ++p) s.holder[p] = -1;
  for (size_t r = 0; r < n_registers; ++r) fixed[r] = place[r] >= 0, s.last[r] = -1;
  for (size_t i = 0; i < count; ++i) {
    int regs[TN_STRIP_MAX_READS], n = tn_strip_reads(&code[i], regs);
    for (int j = 0; j < n; ++j) s.last[regs[j]] = (int)i;
  }
  for (size_t r = (size_t)n_given; r < n_registers; ++r) /* results are read after the program */
    if (fixed[r]) s.last[r] = INT32_MAX;
  status = walk(&s, n_given, count, code, fixed);
  *n_temporaries = s.n_used;
done:
  tn_free(&fixed);
  tn_free(&s.last);
  tn_free(&s.spare);
  tn_free(&s.holder);
  return status;
}
