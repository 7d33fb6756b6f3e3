/* series.c: Taylor series of a table row in MPFR, from forward references and derivative rules.
 *
 * With f' = r(x, y, ...) given by the row, the coefficients of y = f(a(t)) follow from those of a
 * and r:
 *
 *   y_0 = f(a_0) by the reference,   y_k = (1/k) sum over j = 1..k of j a_j r_(k-j)
 *
 * and r's coefficient k - 1 needs only what has order k - 1. Rows in the rule are expanded by their
 * own rules (sin by cos by sin), but each only as deep as it is needed, so the expansion ends.
 * Equal expressions are one node, so that it stays small: the whole of tanh to any order is five
 * nodes.
 *
 * The graph of nodes depends on the row and the order alone; it is made once and evaluated at many
 * points, coefficient by coefficient on demand. Nothing here knows a derivative that is not in the
 * table, and the one thing used beyond the rules is the chain rule, so an error against fd.c is an
 * error of the table.
 *
 * Scales. Beside each coefficient goes its condition scale S in double: the same sums with absolute
 * values. An argument that is exact adds nothing to the scale of its function; another adds S_a
 * |f'(a)|, taken as 2^40 |f(a + 2^-40 S_a) - f(a)|, since a scale needs no more than a digit.
 */
#include <math.h>
#include <string.h>

#include "validate/mp.h"

enum { MAX_NODES = 512 };

typedef struct node {
  vd_kind kind;
  tn_op_id op;
  double k; /* a number, or a power's exponent; less `shift` */
  int shift;
  int arg[3];
  int rule[2]; /* of a call, by each argument; -1: not made */
  int needed;  /* highest coefficient wanted; -1: none yet */
  int have;    /* coefficients known at this point */
  bool exact;  /* carries no rounding */
  bool varies; /* depends on the variable */
} node;

struct vd_series {
  vd_series_spec spec;
  node node[MAX_NODES];
  int n, root;
  bool full;        /* more than MAX_NODES */
  vd_array value;   /* [node][order + 1] */
  double *scale;    /* the same */
  vd_array scratch; /* SCRATCH numbers */
};
enum { TERM, EXPONENT, SHIFTED, SCRATCH };

/* ---- Making the graph ----------------------------------------------------------------------- */

static bool is_call(const node *n) { return n->kind == VD_CALL1 || n->kind == VD_CALL2; }

static int make(vd_series *s, node made) {
  made.rule[0] = made.rule[1] = made.needed = -1;
  for (int i = 0; i < s->n; ++i) {
    const node *o = s->node + i;
    if (o->kind == made.kind && o->op == made.op && o->k == made.k && o->shift == made.shift &&
        memcmp(o->arg, made.arg, sizeof made.arg) == 0)
      return i;
  }
  if (s->n == MAX_NODES) {
    s->full = true;
    return 0;
  }
  bool leaf = made.kind == VD_A || made.kind == VD_B;
  made.varies = leaf && (s->spec.along == 2 || (made.kind == VD_B) == (s->spec.along == 1));
  for (int i = 0; i < 3; ++i)
    if (made.arg[i] >= 0)
      made.varies |= s->node[made.arg[i]].varies;
  if (made.kind == VD_LE || made.kind == VD_GE)
    made.varies = false;
  made.exact = leaf || made.kind == VD_K || (made.kind == VD_NEG && s->node[made.arg[0]].exact);
  s->node[s->n] = made;
  return s->n++;
}

static int make_plain(vd_series *s, vd_kind kind, double k, int shift, int a, int b) {
  return make(
      s, (node){.kind = kind, .op = TN_OP_parameter, .k = k, .shift = shift, .arg = {a, b, -1}});
}

/* e x^(e - 1) with e = k - shift of the call; 0 for e = 0, whatever x. */
static int make_power_rule(vd_series *s, int call) {
  node c = s->node[call];
  if (c.k == c.shift)
    return make_plain(s, VD_K, 0, 0, -1, -1);
  int lower = make(
      s,
      (node){
          .kind = VD_CALL1, .op = c.op, .k = c.k, .shift = c.shift + 1, .arg = {c.arg[0], -1, -1}});
  return make_plain(s, VD_MUL, 0, 0, make_plain(s, VD_K, c.k, c.shift, -1, -1), lower);
}

static int instantiate(vd_series *s, const vd_rule *rule, int i, int call) {
  const vd_rule_node *r = rule->node + i;
  switch (r->kind) {
  case VD_A:
    return s->node[call].arg[0];
  case VD_B:
    return s->node[call].arg[1];
  case VD_Y:
    return call;
  case VD_POWER_RULE:
    return make_power_rule(s, call);
  default:
    break;
  }
  node made = {.kind = r->kind, .op = r->op, .k = r->k, .arg = {-1, -1, -1}};
  for (int j = 0; j < 3; ++j)
    if (r->arg[j] >= 0)
      made.arg[j] = instantiate(s, rule, r->arg[j], call);
  return make(s, made);
}

static tn_status make_rule(vd_series *s, int call, int by) {
  if (s->node[call].rule[by] >= 0)
    return TN_OK;
  vd_rule rule;
  tn_op_id op = s->node[call].op;
  TN_TRY(vd_rule_of(op, by, &rule));
  if (s->spec.mutant && op == s->spec.op && by == s->spec.along)
    rule = *s->spec.mutant;
  int root = instantiate(s, &rule, rule.root, call);
  s->node[call].rule[by] = root;
  return TN_OK;
}

/* Makes what coefficients 0 .. order of node i need. */
static tn_status need(vd_series *s, int i, int order) {
  if (s->full)
    return TN_FAIL(TN_EUNSUPPORTED, "series: more than %d nodes", MAX_NODES);
  if (s->node[i].needed >= order)
    return TN_OK;
  s->node[i].needed = order;
  for (int j = 0; j < 3; ++j)
    if (s->node[i].arg[j] >= 0)
      TN_TRY(need(s, s->node[i].arg[j], order));
  if (!is_call(s->node + i) || order == 0)
    return TN_OK;
  for (int by = 0; by < 2; ++by) {
    int arg = s->node[i].arg[by];
    if (arg < 0 || !s->node[arg].varies)
      continue;
    TN_TRY(make_rule(s, i, by));
    TN_TRY(need(s, s->node[i].rule[by], order - 1));
  }
  return TN_OK;
}

static tn_status build(vd_series *s) {
  int a = make_plain(s, VD_A, 0, 0, -1, -1);
  int b = vd_is_binary(s->spec.op) ? make_plain(s, VD_B, 0, 0, -1, -1) : -1;
  s->root = make(s, (node){.kind = b < 0 ? VD_CALL1 : VD_CALL2,
                           .op = s->spec.op,
                           .k = vd_is_power(s->spec.op) ? s->spec.exponent : 0,
                           .arg = {a, b, -1}});
  TN_TRY(need(s, s->root, s->spec.order));
  size_t count = (size_t)s->n * ((size_t)s->spec.order + 1);
  TN_TRY(vd_array_new(count, s->spec.bits, &s->value));
  TN_TRY(TN_NEW(count, &s->scale));
  return vd_array_new(SCRATCH, s->spec.bits, &s->scratch);
}

tn_status vd_series_new(const vd_series_spec *spec, vd_series **out) {
  *out = NULL;
  bool unary = vd_is_unary(spec->op) && spec->along == 0;
  bool binary = vd_is_binary(spec->op) && spec->along >= 0 && spec->along <= 2;
  if ((!unary && !binary) || spec->order < 0 || spec->bits < 64)
    return TN_FAIL(TN_EINPUT, "series: op %d along argument %d to order %d with %ld bits",
                   (int)spec->op, spec->along, spec->order, (long)spec->bits);
  TN_TRY(TN_NEW(1, out));
  (*out)->spec = *spec;
  tn_status status = build(*out);
  if (status != TN_OK)
    vd_series_free(out);
  return status;
}

void vd_series_free(vd_series **series) {
  if (!series || !*series)
    return;
  vd_array_free(&(*series)->value);
  vd_array_free(&(*series)->scratch);
  tn_free(&(*series)->scale);
  tn_free(series);
}

/* ---- Evaluation ----------------------------------------------------------------------------- */

static size_t place_of(const vd_series *s, int i, int k) {
  return (size_t)i * ((size_t)s->spec.order + 1) + (size_t)k;
}
static mpfr_ptr coefficient(const vd_series *s, int i, int k) {
  return s->value.v + place_of(s, i, k);
}
static double *scale_of(const vd_series *s, int i, int k) { return s->scale + place_of(s, i, k); }

static void known(vd_series *s, int i, int k);

static void call_value(vd_series *s, const node *n, mpfr_ptr y, mpfr_srcptr a, mpfr_srcptr b) {
  if (n->kind == VD_CALL2) {
    vd_ref_binary(n->op, y, a, b);
    return;
  }
  mpfr_ptr e = s->scratch.v + EXPONENT;
  mpfr_set_d(e, n->k, MPFR_RNDN);
  mpfr_sub_si(e, e, n->shift, MPFR_RNDN);
  vd_ref_unary(n->op, y, a, e);
}

/* |f'| S of argument `by`, by a difference. */
static double spread(vd_series *s, const node *n, int by, mpfr_srcptr y) {
  int arg = n->arg[by];
  double size = *scale_of(s, arg, 0);
  if (s->node[arg].exact || !(size > 0) || isinf(size))
    return 0;
  mpfr_ptr moved = s->scratch.v + SHIFTED, z = s->scratch.v + TERM;
  for (int side = 1; side >= -1; side -= 2) {
    mpfr_srcptr v[2] = {coefficient(s, n->arg[0], 0),
                        n->arg[1] < 0 ? NULL : coefficient(s, n->arg[1], 0)};
    mpfr_set_d(moved, ldexp(side * size, -40), MPFR_RNDN);
    mpfr_add(moved, moved, v[by], MPFR_RNDN);
    v[by] = moved;
    call_value(s, n, z, v[0], v[1]);
    mpfr_sub(z, z, y, MPFR_RNDN);
    if (mpfr_number_p(z))
      return ldexp(fabs(mpfr_get_d(z, MPFR_RNDN)), 40);
  }
  return 0;
}

static void first_of_call(vd_series *s, int i) {
  const node *n = s->node + i;
  mpfr_ptr y = coefficient(s, i, 0);
  call_value(s, n, y, coefficient(s, n->arg[0], 0),
             n->arg[1] < 0 ? NULL : coefficient(s, n->arg[1], 0));
  double size = fabs(mpfr_get_d(y, MPFR_RNDN));
  for (int by = 0; by < 2; ++by)
    if (n->arg[by] >= 0)
      size += spread(s, n, by, y);
  *scale_of(s, i, 0) = size;
}

/* y_k for k >= 1. Terms with a_j = 0 are left out: the rule may be infinite there. */
static void higher_of_call(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  mpfr_ptr y = coefficient(s, i, k), t = s->scratch.v + TERM;
  double size = 0;
  mpfr_set_zero(y, 1);
  for (int by = 0; by < 2; ++by) {
    if (n->rule[by] < 0)
      continue;
    int arg = n->arg[by], rule = n->rule[by];
    for (int j = 1; j <= k; ++j) {
      mpfr_srcptr a = coefficient(s, arg, j);
      if (mpfr_zero_p(a))
        continue;
      known(s, rule, k - j);
      mpfr_mul(t, a, coefficient(s, rule, k - j), MPFR_RNDN);
      mpfr_mul_si(t, t, j, MPFR_RNDN);
      mpfr_add(y, y, t, MPFR_RNDN);
      size += j * *scale_of(s, arg, j) * *scale_of(s, rule, k - j);
    }
  }
  mpfr_div_si(y, y, k, MPFR_RNDN);
  *scale_of(s, i, k) = size / k;
}

static void product(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  mpfr_ptr y = coefficient(s, i, k), t = s->scratch.v + TERM;
  double size = 0;
  bool first = true;
  mpfr_set_zero(y, 1);
  for (int j = 0; j <= k; ++j) {
    /* a constant's higher coefficients are no terms: 0 times infinity must not arise */
    if ((j > 0 && !s->node[n->arg[0]].varies) || (j < k && !s->node[n->arg[1]].varies))
      continue;
    mpfr_mul(t, coefficient(s, n->arg[0], j), coefficient(s, n->arg[1], k - j), MPFR_RNDN);
    if (first)
      mpfr_set(y, t, MPFR_RNDN);
    else
      mpfr_add(y, y, t, MPFR_RNDN);
    first = false;
    size += *scale_of(s, n->arg[0], j) * *scale_of(s, n->arg[1], k - j);
  }
  *scale_of(s, i, k) = size;
}

/* q_k = (a_k - sum over j = 1..k of b_j q_(k-j)) / b_0 */
static void quotient(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  mpfr_ptr q = coefficient(s, i, k), t = s->scratch.v + TERM;
  mpfr_srcptr b0 = coefficient(s, n->arg[1], 0);
  double size = *scale_of(s, n->arg[0], k);
  mpfr_set(q, coefficient(s, n->arg[0], k), MPFR_RNDN);
  for (int j = 1; j <= k && s->node[n->arg[1]].varies; ++j) {
    mpfr_mul(t, coefficient(s, n->arg[1], j), coefficient(s, i, k - j), MPFR_RNDN);
    mpfr_sub(q, q, t, MPFR_RNDN);
    size += *scale_of(s, n->arg[1], j) * *scale_of(s, i, k - j);
  }
  mpfr_div(q, q, b0, MPFR_RNDN);
  size /= fabs(mpfr_get_d(b0, MPFR_RNDN));
  if (!s->node[n->arg[1]].exact)
    size += fabs(mpfr_get_d(q, MPFR_RNDN)) * *scale_of(s, n->arg[1], 0) /
            fabs(mpfr_get_d(b0, MPFR_RNDN));
  *scale_of(s, i, k) = size;
}

static void linear(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  mpfr_ptr y = coefficient(s, i, k);
  mpfr_srcptr a = coefficient(s, n->arg[0], k);
  double size = *scale_of(s, n->arg[0], k);
  if (n->kind == VD_NEG) {
    mpfr_neg(y, a, MPFR_RNDN);
  } else {
    mpfr_srcptr b = coefficient(s, n->arg[1], k);
    size += *scale_of(s, n->arg[1], k);
    if (n->kind == VD_ADD)
      mpfr_add(y, a, b, MPFR_RNDN);
    else
      mpfr_sub(y, a, b, MPFR_RNDN);
  }
  *scale_of(s, i, k) = size;
}

static void constant(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  mpfr_ptr y = coefficient(s, i, k);
  mpfr_set_d(y, k == 0 ? n->k : 0, MPFR_RNDN);
  if (k == 0)
    mpfr_sub_si(y, y, n->shift, MPFR_RNDN);
  *scale_of(s, i, k) = fabs(mpfr_get_d(y, MPFR_RNDN));
}

static void selection(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  int chosen = mpfr_zero_p(coefficient(s, n->arg[0], 0)) ? n->arg[2] : n->arg[1];
  known(s, chosen, k);
  mpfr_set(coefficient(s, i, k), coefficient(s, chosen, k), MPFR_RNDN);
  *scale_of(s, i, k) = *scale_of(s, chosen, k);
}

static void comparison(vd_series *s, int i) {
  const node *n = s->node + i;
  tn_op_id op = n->kind == VD_LE ? TN_OP_le : TN_OP_ge;
  bool holds = vd_ref_compare(op, coefficient(s, n->arg[0], 0), coefficient(s, n->arg[1], 0));
  mpfr_set_ui(coefficient(s, i, 0), holds, MPFR_RNDN);
  *scale_of(s, i, 0) = holds;
}

static void compute(vd_series *s, int i, int k) {
  const node *n = s->node + i;
  if (!n->varies && k > 0) {
    mpfr_set_zero(coefficient(s, i, k), 1);
    *scale_of(s, i, k) = 0;
    return;
  }
  int n_args = n->kind == VD_WHERE ? 1 : 3; /* of the branches only the chosen one is looked at */
  for (int j = 0; j < n_args; ++j)
    if (n->arg[j] >= 0)
      known(s, n->arg[j], k);
  switch (n->kind) {
  case VD_K:
    constant(s, i, k);
    break;
  case VD_NEG:
  case VD_ADD:
  case VD_SUB:
    linear(s, i, k);
    break;
  case VD_MUL:
    product(s, i, k);
    break;
  case VD_DIV:
    quotient(s, i, k);
    break;
  case VD_WHERE:
    selection(s, i, k);
    break;
  case VD_LE:
  case VD_GE:
    comparison(s, i);
    break;
  case VD_CALL1:
  case VD_CALL2:
    if (k == 0)
      first_of_call(s, i);
    else
      higher_of_call(s, i, k);
    break;
  default:
    break; /* the variables, set by vd_series_at */
  }
}

static void known(vd_series *s, int i, int k) {
  while (s->node[i].have <= k) {
    compute(s, i, s->node[i].have);
    ++s->node[i].have;
  }
}

static void set_variable(vd_series *s, int i, mpfr_srcptr at) {
  int order = s->spec.order;
  double rate = !s->node[i].varies                              ? 0
                : s->node[i].kind == VD_B && s->spec.along == 2 ? s->spec.slope
                                                                : 1;
  for (int k = 0; k <= order; ++k) {
    mpfr_set_d(coefficient(s, i, k), k == 1 ? rate : 0, MPFR_RNDN);
    *scale_of(s, i, k) = k == 1 ? fabs(rate) : 0;
  }
  mpfr_set(coefficient(s, i, 0), at, MPFR_RNDN);
  *scale_of(s, i, 0) = fabs(mpfr_get_d(at, MPFR_RNDN));
  s->node[i].have = order + 1;
}

void vd_series_at(vd_series *series, mpfr_srcptr a, mpfr_srcptr b) {
  for (int i = 0; i < series->n; ++i)
    series->node[i].have = 0;
  set_variable(series, 0, a);
  if (vd_is_binary(series->spec.op))
    set_variable(series, 1, b);
  known(series, series->root, series->spec.order);
}

mpfr_srcptr vd_series_coefficient(const vd_series *series, int m) {
  return coefficient(series, series->root, m);
}
double vd_series_scale(const vd_series *series, int m) {
  return *scale_of(series, series->root, m);
}

void vd_series_reach(const vd_series *series, int m, long *lowest, long *highest) {
  *lowest = 1L << 40;
  *highest = -(1L << 40);
  for (int i = 0; i < series->n; ++i)
    for (int k = 0; k <= m && k < series->node[i].have; ++k) {
      mpfr_srcptr t = coefficient(series, i, k);
      long e = mpfr_inf_p(t) ? 1L << 30 : mpfr_regular_p(t) ? (long)mpfr_get_exp(t) : 0;
      if (e > *highest)
        *highest = e;
      if (e < *lowest)
        *lowest = e;
    }
}
