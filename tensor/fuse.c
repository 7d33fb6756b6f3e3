/* fuse.c: finds fused kernels, and writes their source.
 *
 * The text is C in the vocabulary of kernels_vector.h, from strip.def's own expressions: the kernel of a
 * program rounds exactly as the interpreter does. Registers become variables in single assignment.
 */
#include "tensor/fuse.h"

#include <stdio.h>
#include <string.h>

#include "tensor/exec.h"
#include "tensor/stream.h"

enum { LEAST = 4 }; /* instructions that are worth a kernel */

#define FUSED_KEYS
#include "tensor/fused.inc"

/* ---- Finding ---- */

static bool is_row(const tn_strip_instruction *x) {
  return x->code == TN_STRIP_CELL || x->code == TN_STRIP_BINARY || x->code == TN_STRIP_CELLS;
}

tn_fused_key tn_fused_part(size_t count, const tn_strip_instruction *code, size_t n_operands,
                           size_t n_results) {
  size_t first = count;
  while (first > 0 && !is_row(&code[first - 1])) --first;
  return (tn_fused_key){count - first, (int)n_operands, (int)n_results, code + first};
}

static bool is_same(const tn_strip_instruction *a, const tn_strip_instruction *b) {
  int ra[TN_STRIP_MAX_READS], rb[TN_STRIP_MAX_READS];
  int n = tn_strip_reads(a, ra);
  return a->code == b->code && a->y == b->y && tn_strip_reads(b, rb) == n &&
         memcmp(ra, rb, (size_t)n * sizeof *ra) == 0;
}

/* Up to the numbers k and l. */
static bool is_equal(const tn_fused_key *a, const tn_fused_key *b) {
  if (a->count != b->count || a->first_result != b->first_result || a->n_results != b->n_results)
    return false;
  for (size_t i = 0; i < a->count; ++i)
    if (!is_same(&a->code[i], &b->code[i])) return false;
  return true;
}

tn_fused_fn tn_fused_find(tn_dtype dtype, const tn_fused_key *key) {
  const tn_fused_fn *table = tn_kernels_of(dtype)->fused;
  for (size_t i = 0; key->count >= LEAST && i < sizeof keys / sizeof *keys; ++i)
    if (is_equal(&keys[i], key)) return table[i];
  return NULL;
}

/* ---- Writing ---- */

typedef struct writer {
  char *text;
  size_t used, capacity;
  tn_status status;
} writer;

static void put(writer *w, const char *format, ...) TN_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
  va_list args;
  if (w->status != TN_OK) return;
  if (w->capacity - w->used < 512) {
    w->status = tn_grow(&w->text, w->capacity, 2 * w->capacity + 4096, 1);
    if (w->status != TN_OK) return;
    w->capacity = 2 * w->capacity + 4096;
  }
  va_start(args, format);
  w->used += (size_t)vsnprintf(w->text + w->used, w->capacity - w->used, format, args);
  va_end(args);
}

static const char *const values[TN_STRIP_CODES] = {
#define STRIP(name, reads, value) [TN_STRIP_##name] = #value,
#include "tensor/strip.def"
};
static const char *const names[TN_STRIP_CODES] = {
#define STRIP(name, reads, value) [TN_STRIP_##name] = #name,
#include "tensor/strip.def"
};

/* strip.def's expression with variables for its letters; K, FMA and other words stay. */
static void put_value(writer *w, const tn_strip_instruction *x, size_t i, const int *variable) {
  const int16_t field[] = {x->a, x->b, x->c, x->d, x->e, x->f};
  for (const char *c = values[x->code]; *c; ++c) {
    if (*c >= 'a' && *c <= 'f') put(w, "v%d", variable[field[*c - 'a']]);
    else if (*c == 'k' || *c == 'l') put(w, "%c%zu", *c, i);
    else put(w, "%c", *c);
  }
}

/* Loads of what is read before it is written: the program's operands, and results of function rows. */
static void put_loads(writer *w, const tn_fused_key *key, int *variable, int *n) {
  for (size_t i = 0; i < key->count; ++i) {
    int reads[TN_STRIP_MAX_READS], m = tn_strip_reads(&key->code[i], reads);
    for (int j = 0; j < m; ++j) {
      if (variable[reads[j]] >= 0) continue;
      put(w, "    V v%d = load((const T *)r[%d] + i);\n", *n, reads[j]);
      variable[reads[j]] = (*n)++;
    }
    if (variable[key->code[i].y] < 0) variable[key->code[i].y] = 0; /* written: no load */
  }
}

static tn_status put_kernel(writer *w, const tn_fused_key *key, size_t index) {
  int *variable = NULL, n = 0;
  TN_TRY(TN_NEW((size_t)INT16_MAX + 1, &variable));
  memset(variable, -1, ((size_t)INT16_MAX + 1) * sizeof *variable);
  put(w, "static void F(fused_%zu)(const tn_strip_instruction *code, void *const *r, size_t n) {\n", index);
  for (size_t i = 0; i < key->count; ++i)
    for (const char *c = "kl"; *c; ++c)
      if (strchr(values[key->code[i].code], *c)) put(w, "  const V %c%zu = K(code[%zu].%c);\n", *c, i, i, *c);
  put(w, "  (void)code;\n  for (size_t i = 0; i < n; i += LANES) {\n");
  put_loads(w, key, variable, &n);
  for (size_t i = 0; i < key->count; ++i) {
    put(w, "    V v%d = ", n);
    put_value(w, &key->code[i], i, variable);
    put(w, ";\n");
    variable[key->code[i].y] = n++;
  }
  for (int r = key->first_result; r < key->first_result + key->n_results; ++r) {
    bool written = false;
    for (size_t i = 0; i < key->count; ++i) written = written || key->code[i].y == r;
    if (written) put(w, "    store((T *)r[%d] + i, v%d);\n", r, variable[r]);
  }
  put(w, "  }\n}\n");
  tn_free(&variable);
  return w->status;
}

static void put_key(writer *w, const tn_fused_key *key, size_t index) {
  put(w, "static const tn_strip_instruction code_%zu[] = {\n", index);
  for (size_t i = 0; i < key->count; ++i) {
    const tn_strip_instruction *x = &key->code[i];
    const int16_t field[] = {x->a, x->b, x->c, x->d, x->e, x->f};
    put(w, "    {.code = TN_STRIP_%s, .y = %d", names[x->code], x->y);
    for (int j = 0; j < 6; ++j)
      if (strchr(values[x->code], 'a' + j)) put(w, ", .%c = %d", 'a' + j, field[j]);
    put(w, "},\n");
  }
  put(w, "};\n");
}

static tn_status add_key(tn_fused_key **list, size_t *n, const tn_run *run) {
  tn_fused_key key = tn_fused_part(run->count, run->code, run->n_operands, run->n_results);
  if (key.count < LEAST || run->width == 1) return TN_OK;
  for (size_t i = 0; i < *n; ++i)
    if (is_equal(&(*list)[i], &key)) return TN_OK;
  TN_TRY(tn_grow(list, *n, *n + 1, sizeof **list));
  (*list)[(*n)++] = key;
  return TN_OK;
}

tn_status tn_fuse_text(size_t n_execs, tn_exec *const *execs, char **out) {
  tn_fused_key *list = NULL;
  size_t n = 0;
  writer w = {0};
  *out = NULL;
  tn_status status = TN_NEW(0, &list);
  for (size_t e = 0; e < n_execs && status == TN_OK; ++e) {
    const tn_streamed *s = execs[e]->streamed;
    for (size_t i = 0; s && i < s->plan->n_loops; ++i)
      for (size_t t = 0; t < s->plan->loops[i].n_steps && status == TN_OK; ++t) {
        const tn_run *run = s->plan->loops[i].steps[t].run;
        if (run) status = add_key(&list, &n, run);
      }
  }
  put(&w, "/* fused.inc: made by `./dev fuse` (fuse.h): the arithmetic of common algebras as loops. */\n");
  put(&w, "#ifdef FUSED_KEYS\n");
  for (size_t i = 0; i < n; ++i) put_key(&w, &list[i], i);
  put(&w, "static const tn_fused_key keys[] = {\n");
  for (size_t i = 0; i < n; ++i)
    put(&w, "    {%zu, %d, %d, code_%zu},\n", list[i].count, list[i].first_result, list[i].n_results, i);
  put(&w, "};\n#else\n");
  for (size_t i = 0; i < n && status == TN_OK; ++i) status = put_kernel(&w, &list[i], i);
  put(&w, "const tn_fused_fn X(tn_fused)[] = {\n");
  for (size_t i = 0; i < n; ++i) put(&w, "    F(fused_%zu),\n", i);
  put(&w, "};\n#endif\n");
  tn_free(&list);
  if (status == TN_OK) status = w.status;
  if (status != TN_OK) tn_free(&w.text);
  *out = w.text;
  return status;
}
