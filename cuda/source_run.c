/* source_run.c: strip programs as straight-line text for one element.
 *
 * The expressions are strip.def's own with variables for its letters. Registers become variables in single assignment;
 * operands are read at their first use, results are written behind all instructions, so that the compiler may put the
 * reads where it likes.
 */
#include "cuda/source_inside.h"

#include <string.h>

static const char *const values[TN_STRIP_CODES] = {
#define STRIP(name, reads, value) [TN_STRIP_##name] = #value,
#include "tensor/strip.def"
};
static const char *const families[TN_FAMILIES] = {
#define PAIR(first, second) #first,
#define TRIPLE(first, second, third) #first,
    TN_FAMILY_LIST(PAIR, TRIPLE)
#undef PAIR
#undef TRIPLE
};

/* Where an operand comes from: an expression in e (element), u (unit), q (point); scalars are read ahead. */
typedef struct operand {
  tn_operand_kind kind;
  size_t port;
  bool used;
} operand;

typedef struct program { /* of a run, or of a jet node */
  size_t n_operands, n_results, n_registers, count;
  const tn_strip_instruction *code;
  const operand *operands;
  const size_t *results;
} program;

typedef struct translation {
  gpu_maker *m;
  const program *x;
  int *variable; /* of each register; -1: none yet */
  int n;
} translation;

static bool carries_number(const tn_strip_instruction *x) { /* stream.c: set_numbers */
  return x->op == 1 && (x->code == TN_STRIP_SCALE || x->code == TN_STRIP_FMAK);
}

/* The variable that holds register r. */
static int variable_of(translation *t, int r) {
  if (t->variable[r] >= 0) return t->variable[r];
  gpu_writer *w = &t->m->w;
  const operand *o = &t->x->operands[r];
  t->variable[r] = t->n++;
  gpu_put(w, "    const V v%d = ", t->variable[r]);
  switch (o->kind) {
  case TN_OPERAND_TILE: gpu_put(w, "load(o%d + e);\n", r); break;
  case TN_OPERAND_UNITS: gpu_put(w, "load(o%d + u);\n", r); break;
  case TN_OPERAND_SPREAD: gpu_put(w, "load(o%d + q);\n", r); break;
  default: gpu_put(w, "s%d;\n", r);
  }
  return t->variable[r];
}

static void put_constant(translation *t, const tn_strip_instruction *x, double c) {
  if (carries_number(x)) {
    gpu_put(&t->m->w, "s%d", x->d);
    return;
  }
  gpu_put(&t->m->w, "K(");
  gpu_put_number(&t->m->w, c);
  gpu_put(&t->m->w, ")");
}

/* strip.def's expression; K, FMA and other words stay. */
static void put_expression(translation *t, const tn_strip_instruction *x) {
  const int16_t field[] = {x->a, x->b, x->c, x->d, x->e, x->f};
  for (const char *c = values[x->code]; *c; ++c) {
    if (*c >= 'a' && *c <= 'f') gpu_put(&t->m->w, "v%d", t->variable[field[*c - 'a']]);
    else if (*c == 'k') put_constant(t, x, x->k);
    else if (*c == 'l') put_constant(t, x, x->l);
    else gpu_put(&t->m->w, "%c", *c);
  }
}

static void put_family(translation *t, const tn_strip_instruction *x) {
  gpu_writer *w = &t->m->w;
  const int16_t y[] = {x->y, x->y2, x->y3};
  int first = t->n++;
  gpu_put(w, "    V r%d[3];\n    F(rows_%s)(v%d, r%d);\n", first, families[x->op], t->variable[x->a], first);
  for (int j = 0; j < 3; ++j) {
    if (y[j] < 0) continue;
    t->variable[y[j]] = t->n++;
    gpu_put(w, "    const V v%d = r%d[%d];\n", t->variable[y[j]], first, j);
  }
}

static void put_instruction(translation *t, const tn_strip_instruction *x) {
  gpu_writer *w = &t->m->w;
  int reads[TN_STRIP_MAX_READS], n = tn_strip_reads(x, reads);
  for (int j = 0; j < n; ++j) (void)variable_of(t, reads[j]);
  if (x->code == TN_STRIP_CELLS) {
    put_family(t, x);
    return;
  }
  gpu_put(w, "    const V v%d = ", t->n);
  if (x->code == TN_STRIP_CELL) {
    gpu_put(w, "F(cell_%s)(v%d", tn_op_row((tn_op_id)x->op)->name, t->variable[x->a]);
    if (x->op == TN_OP_powi || x->op == TN_OP_powr) {
      gpu_put(w, ", ");
      put_constant(t, x, x->k);
    }
    gpu_put(w, ")");
  } else if (x->code == TN_STRIP_BINARY) {
    gpu_put(w, "F(cell_%s)(v%d, v%d)", tn_op_row((tn_op_id)x->op)->name, t->variable[x->a], t->variable[x->b]);
  } else {
    put_expression(t, x);
  }
  gpu_put(w, ";\n");
  t->variable[x->y] = t->n++;
}

static void find_used(const program *x, operand *operands) {
  for (size_t i = 0; i < x->count; ++i) {
    int reads[TN_STRIP_MAX_READS], n = tn_strip_reads(&x->code[i], reads);
    for (int j = 0; j < n; ++j)
      if (reads[j] < (int)x->n_operands) operands[reads[j]].used = true;
    if (carries_number(&x->code[i])) operands[x->code[i].d].used = true;
  }
}

/* Starts of operands and results, and operands that are the same for all elements. */
static void put_starts(gpu_maker *m, const gpu_site *s, const program *x) {
  for (size_t k = 0; k < x->n_operands; ++k) {
    if (!x->operands[k].used) continue;
    bool scalar = x->operands[k].kind == TN_OPERAND_SCALAR;
    gpu_put(&m->w, scalar ? "  const V s%zu = load(" : "  const T *const o%zu = ", k);
    gpu_put_value(m, s, "const ", x->operands[k].port);
    gpu_put(&m->w, scalar ? ");\n" : ";\n");
  }
  for (size_t k = 0; k < x->n_results; ++k) {
    gpu_put(&m->w, "  T *const y%zu = ", k);
    gpu_put_value(m, s, "", x->results[k]);
    gpu_put(&m->w, ";\n");
  }
}

static tn_status put_program(gpu_maker *m, const gpu_site *s, const program *x, size_t width) {
  translation t = {m, x, NULL, 0};
  TN_TRY(TN_NEW(x->n_registers + 1, &t.variable));
  for (size_t r = 0; r < x->n_registers; ++r) t.variable[r] = -1;
  put_starts(m, s, x);
  gpu_put(&m->w, "  EACH(e, %zu * %zu) {\n    const unsigned u = e / %zu, q = e %% %zu;\n    (void)u, (void)q;\n",
          width, s->points, s->points, s->points);
  for (size_t i = 0; i < x->count; ++i) put_instruction(&t, &x->code[i]);
  for (size_t k = 0; k < x->n_results; ++k)
    gpu_put(&m->w, "    store(y%zu + e, v%d);\n", k, variable_of(&t, (int)(x->n_operands + k)));
  gpu_put(&m->w, "  }\n");
  tn_free(&t.variable);
  return m->w.status;
}

tn_status gpu_put_run(gpu_maker *m, const gpu_site *s, const tn_run *run) {
  operand *operands = NULL;
  TN_TRY(TN_NEW(run->n_operands + 1, &operands));
  program x = {run->n_operands, run->n_results, run->n_operands + run->n_results + run->n_temporaries,
               run->count,      run->code,      operands,
               run->results};
  for (size_t k = 0; k < run->n_operands; ++k)
    operands[k] = (operand){run->operands[k].kind, run->operands[k].port, false};
  find_used(&x, operands);
  tn_status status = put_program(m, s, &x, run->width);
  tn_free(&operands);
  return status;
}

tn_status gpu_put_jet(gpu_maker *m, size_t i) {
  const tn_program *p = m->p;
  const tn_jet_plan *plan = &p->plan[i];
  const gpu_site site = {.points = 1};
  operand *operands = NULL;
  size_t *results = NULL, n = plan->n_inputs + plan->n_coefficients;
  TN_TRY(TN_NEW(n + 1, &operands));
  tn_status status = TN_NEW(plan->n_outputs + 1, &results);
  if (status == TN_OK) {
    program x = {n,        plan->n_outputs, n + plan->n_outputs + plan->n_temporaries, plan->count, plan->code,
                 operands, results};
    for (size_t k = 0; k < n; ++k)
      operands[k] = (operand){k < plan->n_inputs ? TN_OPERAND_UNITS : TN_OPERAND_SCALAR,
                              tn_port(p, p->nodes[i]->inputs[k]), false};
    for (size_t k = 0; k < plan->n_outputs; ++k) results[k] = p->port[i] + k;
    find_used(&x, operands);
    status = put_program(m, &site, &x, p->layout[p->port[i]].width);
  }
  tn_free(&operands);
  tn_free(&results);
  return status;
}
