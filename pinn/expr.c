/* expr.c: the grammar of expressions and predicates: text to trees.
 *
 *   relation  = sum ("=" | "<=" | ">=") sum
 *   sum       = term {("+" | "-") term}          term  = unary {("*" | "/") unary}
 *   unary     = ("-" | "+") unary | power        power = primary ["^" unary]
 *   primary   = NUMBER | NAME [".min" | ".max"]
 *             | (NAME "(" args ")" | "(" sum {"," sum} ")") ["_" NAME]
 *   predicate = and {"or" and}                   and   = not {"and" not}
 *   not       = "not" not | "(" predicate ")" | sum {("=" | "<" | ">" | "<=" | ">=") sum}
 *
 * So -x^2 = -(x^2), 2^-3 is allowed, a^b^c = a^(b^c), a/b*c = (a/b)*c. One look-ahead token,
 * recursive descent; the only ambiguity, "(" in a predicate, is settled by parsing a predicate and
 * accepting that it may be a bare sum which then goes on (`(x + y) < 1`, `(x < 1) or y = 0`).
 *
 * A name may contain "_" (u_xx): what it means is the resolver's business (names.c). Nesting is
 * limited, so that no input exhausts the stack. What people write from other languages (2x, **, ==,
 * |u|) gets an error that says what to write instead.
 */
#include "pinn/expr.h"
#include "pinn/text.h"

#include <string.h>

typedef enum token {
  END_OF_TEXT,
  NUMBER,
  NAME,
  PLUS,
  MINUS,
  TIMES,
  OVER,
  POWER,
  OPEN,
  CLOSE,
  COMMA,
  DOT,
  EQUAL,
  LESS,
  GREATER,
  LESS_EQUAL,
  GREATER_EQUAL,
  SUFFIX
} token;

enum { MOST_ARGUMENTS = 64 };

typedef struct parser {
  pn_arena *arena;
  const pn_phrase *phrase;
  const char *text;
  token kind;           /* of the token under the cursor */
  size_t start, length; /* its bytes */
  size_t last_end;      /* end of the token before it */
  double number;        /* its value, for NUMBER */
  size_t nesting;
} parser;

static tn_status fail(const parser *p, size_t start, size_t length, const char *format, ...)
    TN_PRINTF(4, 5);
static tn_status fail(const parser *p, size_t start, size_t length, const char *format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return pn_fail_at(TN_EINPUT, pn_phrase_place(p->phrase, start), length, "%s", message);
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* A node over the bytes from `start` to the end of the last token. */
static tn_status make(parser *p, pn_kind kind, size_t start, size_t n, pn_expr *const *args,
                      pn_expr **out) {
  pn_expr like = {.phrase = p->phrase, .start = start, .length = p->last_end - start};
  return pn_expr_make(p->arena, kind, &like, n, args, out);
}

/* ---- Tokens --------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_word(char c) { return is_digit(c) || is_letter(c) || c == '_'; }

/* The value of a number token. */
static tn_status read_number(parser *p) {
  const char *s = p->text + p->start;
  size_t n = 0;
  while (is_digit(s[n]))
    ++n;
  if (s[n] == '.')
    ++n;
  while (is_digit(s[n]))
    ++n;
  if (s[n] == 'e' || s[n] == 'E') {
    size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
    if (is_digit(s[n + 1 + sign])) {
      n += 1 + sign;
      while (is_digit(s[n]))
        ++n;
    }
  }
  p->length = n;
  if (!pn_number_of_text(s, n, &p->number))
    return fail(p, p->start, n, "the number is too large");
  if (is_word(s[n])) {
    size_t more = 0;
    while (is_word(s[n + more]))
      ++more;
    return fail(p, p->start, n + more, "`%.*s%.*s`: a product needs its sign: write %.*s*%.*s",
                (int)n, s, (int)more, s + n, (int)n, s, (int)more, s + n);
  }
  return TN_OK;
}

/* A name, or the suffix "_xy" behind a bracket. */
static tn_status read_name(parser *p) {
  const char *s = p->text + p->start;
  while (is_word(s[p->length]))
    ++p->length;
  for (size_t i = 0; i + 1 < p->length; ++i)
    if (s[i] == '_' && s[i + 1] == '_')
      return fail(p, p->start, p->length,
                  "`%.*s`: two underscores in a row; a derivative is u_x or "
                  "u_x_y",
                  (int)p->length, s);
  if (s[p->length - 1] == '_')
    return fail(p, p->start, p->length, "`%.*s` ends in an underscore; a derivative is u_x",
                (int)p->length, s);
  return TN_OK;
}

/* A character that is no sign of the language. */
static tn_status wrong_sign(const parser *p, const char *s) {
  switch (*s) {
  case '|':
    return fail(p, p->start, 1, "`|`: an absolute value is abs(u), a length norm(w)");
  case '!':
    return fail(p, p->start, 1, "`!`: write `not`, as in not x = 0");
  case '&':
    return fail(p, p->start, 1, "`&`: write `and`");
  case '[':
  case '{':
    return fail(p, p->start, 1, "`%c`: brackets are round: (a, b) is a vector", *s);
  case '\'':
    return fail(p, p->start, 1, "`'`: a derivative is u_x");
  default:
    break;
  }
  size_t bytes = 1;
  while (((unsigned char)s[bytes] & 0xC0u) == 0x80u)
    ++bytes;
  return fail(p, p->start, 1, "unexpected character `%.*s`", (int)bytes, s);
}

static tn_status read_sign(parser *p) {
  const char *s = p->text + p->start;
  p->length = 1;
  switch (*s) {
  case '+':
    p->kind = PLUS;
    return TN_OK;
  case '-':
    p->kind = MINUS;
    return TN_OK;
  case '/':
    p->kind = OVER;
    return TN_OK;
  case '^':
    p->kind = POWER;
    return TN_OK;
  case '(':
    p->kind = OPEN;
    return TN_OK;
  case ')':
    p->kind = CLOSE;
    return TN_OK;
  case ',':
    p->kind = COMMA;
    return TN_OK;
  case '.':
    p->kind = DOT;
    return TN_OK;
  case '*':
    if (s[1] == '*')
      return fail(p, p->start, 2, "`**`: a power is written ^");
    p->kind = TIMES;
    return TN_OK;
  case '=':
    if (s[1] == '=')
      return fail(p, p->start, 2, "`==`: an equation has one = sign");
    p->kind = EQUAL;
    return TN_OK;
  case '<':
  case '>':
    p->length = s[1] == '=' ? 2 : 1;
    p->kind = *s == '<' ? (p->length == 2 ? LESS_EQUAL : LESS)
                        : (p->length == 2 ? GREATER_EQUAL : GREATER);
    return TN_OK;
  default:
    return wrong_sign(p, s);
  }
}

/* Moves to the next token. "_" belongs to a bracket only without a space between. */
static tn_status next(parser *p) {
  p->last_end = p->start + p->length;
  size_t at = p->last_end;
  bool after_bracket = p->kind == CLOSE;
  while (p->text[at] == ' ' || p->text[at] == '\t' || p->text[at] == '\n' || p->text[at] == '\r')
    ++at;
  bool spaced = at != p->last_end;
  char c = p->text[at];
  p->start = at;
  p->length = 0;
  if (!c) {
    p->kind = END_OF_TEXT;
    return TN_OK;
  }
  if (is_digit(c) || (c == '.' && is_digit(p->text[at + 1]))) {
    p->kind = NUMBER;
    return read_number(p);
  }
  if (c == '_' && (!after_bracket || spaced))
    return fail(p, at, 1, "a name starts with a letter; a derivative is u_x or (k*u)_x");
  if (is_letter(c) || c == '_') {
    p->kind = c == '_' ? SUFFIX : NAME;
    return read_name(p);
  }
  return read_sign(p);
}

static bool is_word_token(const parser *p, const char *word) {
  return p->kind == NAME && p->length == strlen(word) &&
         memcmp(p->text + p->start, word, p->length) == 0;
}

static tn_status take_name(parser *p, size_t skip, const char **out) {
  char *copy = NULL;
  TN_TRY(pn_arena_text(p->arena, p->text + p->start + skip, p->length - skip, &copy));
  *out = copy;
  return TN_OK;
}

/* ---- Expressions ---------------------------------------------------------------------------- */

static tn_status sum(parser *p, pn_expr **out);
static tn_status predicate(parser *p, pn_expr **out);
static tn_status unary(parser *p, pn_expr **out);

static tn_status deeper(parser *p) {
  if (++p->nesting > PN_MAX_NESTING)
    return fail(p, p->start, 1, "more than %d brackets, signs or powers inside each other",
                PN_MAX_NESTING);
  return TN_OK;
}

static tn_status expected(const parser *p, const char *what) {
  if (p->kind == END_OF_TEXT)
    return fail(p, p->start, 1, "the text ends where %s should follow", what);
  return fail(p, p->start, p->length, "`%.*s` where %s should stand", (int)p->length,
              p->text + p->start, what);
}

static tn_status expect(parser *p, token kind, const char *what) {
  if (p->kind != kind)
    return expected(p, what);
  return next(p);
}

/* One argument of a call: a value, x = value, or for `first` of where a predicate. */
static tn_status argument(parser *p, bool is_predicate, pn_expr **out) {
  size_t start = p->start;
  TN_TRY(is_predicate ? predicate(p, out) : sum(p, out));
  if (is_predicate || p->kind != EQUAL)
    return TN_OK;
  if ((*out)->kind != PN_NAME)
    return fail(p, start, p->start - start, "left of = in a call stands the name of a coordinate");
  const char *name = (*out)->name;
  TN_TRY(next(p));
  pn_expr *value = NULL;
  TN_TRY(sum(p, &value));
  TN_TRY(make(p, PN_KEYWORD, start, 1, &value, out));
  (*out)->name = name;
  return TN_OK;
}

/* The arguments that are regions: where(P, ...), mean(e, P), int(e, P), inside(P), interface(P). */
static bool takes_predicate(const char *name, size_t i) {
  if (i == 0)
    return strcmp(name, "where") == 0 || strcmp(name, "inside") == 0 ||
           strcmp(name, "interface") == 0;
  return i == 1 && (strcmp(name, "mean") == 0 || strcmp(name, "int") == 0);
}

static tn_status call(parser *p, const char *name, size_t start, pn_expr **out) {
  pn_expr *args[MOST_ARGUMENTS];
  size_t n = 0;
  TN_TRY(deeper(p));
  TN_TRY(next(p)); /* the bracket */
  while (p->kind != CLOSE) {
    if (n == MOST_ARGUMENTS)
      return fail(p, start, p->start - start, "more than 64 arguments");
    TN_TRY(argument(p, takes_predicate(name, n), &args[n]));
    ++n;
    if (p->kind == COMMA) {
      TN_TRY(next(p));
      if (p->kind == CLOSE)
        return expected(p, "an argument");
    } else if (p->kind != CLOSE) {
      return expected(p, "`,` or `)`");
    }
  }
  TN_TRY(next(p));
  --p->nesting;
  if (n == 0)
    return fail(p, start, p->last_end - start, "`%s()` has no arguments", name);
  TN_TRY(make(p, PN_CALL, start, n, args, out));
  (*out)->name = name;
  return TN_OK;
}

/* Brackets: a value, a vector, or in predicates a whole predicate. */
static tn_status bracket(parser *p, bool in_predicate, pn_expr **out) {
  pn_expr *items[MOST_ARGUMENTS];
  size_t start = p->start, n = 0;
  TN_TRY(deeper(p));
  TN_TRY(next(p));
  TN_TRY(in_predicate ? predicate(p, &items[n]) : sum(p, &items[n]));
  ++n;
  while (p->kind == COMMA) {
    if (n == MOST_ARGUMENTS)
      return fail(p, start, p->start - start, "more than 64 components");
    TN_TRY(next(p));
    TN_TRY(sum(p, &items[n]));
    ++n;
  }
  TN_TRY(expect(p, CLOSE, "`)`"));
  --p->nesting;
  *out = items[0];
  return n > 1 ? make(p, PN_TUPLE, start, n, items, out) : TN_OK;
}

static bool is_predicate_kind(pn_kind kind) { return kind >= PN_EQUAL && kind <= PN_NOT; }

static tn_status no_predicate(const pn_expr *e) {
  if (!is_predicate_kind(e->kind))
    return TN_OK;
  return pn_expr_fail(TN_EINPUT, e, "a comparison has no value that can be used in arithmetic");
}

static tn_status suffix(parser *p, size_t start, pn_expr **inout) {
  if (p->kind != SUFFIX)
    return TN_OK;
  const char *name = NULL;
  TN_TRY(no_predicate(*inout));
  TN_TRY(take_name(p, 1, &name));
  TN_TRY(next(p));
  TN_TRY(make(p, PN_SUFFIX, start, 1, (pn_expr *[]){*inout}, inout));
  (*inout)->name = name;
  return TN_OK;
}

/* x.min, x.max, h.re, h.im: the name is read, the dot is under the cursor. */
static tn_status end_of_range(parser *p, const char *name, size_t start, pn_expr **out) {
  TN_TRY(next(p));
  static const char *const words[] = {"min", "max", "re", "im"};
  size_t which = 0;
  while (which < 4 && !is_word_token(p, words[which]))
    ++which;
  if (which == 4)
    return expected(p, "min or max, or re or im of a complex unknown");
  TN_TRY(next(p));
  TN_TRY(make(p, PN_END, start, 0, NULL, out));
  (*out)->name = name;
  (*out)->index = which;
  return TN_OK;
}

static bool is_reserved_word(const parser *p) {
  return is_word_token(p, "and") || is_word_token(p, "or") || is_word_token(p, "not");
}

static tn_status primary(parser *p, bool in_predicate, pn_expr **out) {
  size_t start = p->start;
  if (p->kind == NUMBER) {
    double number = p->number;
    TN_TRY(next(p));
    TN_TRY(make(p, PN_NUMBER, start, 0, NULL, out));
    (*out)->number = number;
    return TN_OK;
  }
  if (p->kind == OPEN) {
    TN_TRY(bracket(p, in_predicate, out));
    return suffix(p, start, out);
  }
  if (p->kind != NAME || is_reserved_word(p))
    return expected(p, "a number, a name or `(`");
  const char *name = NULL;
  TN_TRY(take_name(p, 0, &name));
  TN_TRY(next(p));
  if (p->kind == DOT)
    return end_of_range(p, name, start, out);
  if (p->kind == OPEN) {
    TN_TRY(call(p, name, start, out));
    return suffix(p, start, out);
  }
  TN_TRY(make(p, PN_NAME, start, 0, NULL, out));
  (*out)->name = name;
  return TN_OK;
}

/* power = primary ["^" unary]; a bracket may hold a predicate if nothing arithmetic follows it. */
static tn_status power(parser *p, bool in_predicate, pn_expr **out) {
  size_t start = p->start;
  TN_TRY(primary(p, in_predicate, out));
  pn_function function;
  if ((*out)->kind == PN_NAME && (p->kind == NUMBER || p->kind == NAME) && !is_reserved_word(p) &&
      pn_function_find((*out)->name, &function))
    return fail(p, start, p->start + p->length - start, "a function needs brackets: write %s(%.*s)",
                (*out)->name, (int)p->length, p->text + p->start);
  if (p->kind == NUMBER || p->kind == OPEN || (p->kind == NAME && !is_reserved_word(p)))
    return fail(p, start, p->start + p->length - start,
                "a product needs its sign: write `*` between `%.*s` and `%.*s`",
                (int)(p->last_end - start < 40 ? p->last_end - start : 40), p->text + start,
                (int)p->length, p->text + p->start);
  if (p->kind != POWER)
    return TN_OK;
  TN_TRY(no_predicate(*out));
  TN_TRY(deeper(p));
  TN_TRY(next(p));
  pn_expr *args[2] = {*out, NULL};
  TN_TRY(unary(p, &args[1]));
  --p->nesting;
  return make(p, PN_POWER, start, 2, args, out);
}

static tn_status unary_in(parser *p, bool in_predicate, pn_expr **out) {
  size_t start = p->start;
  if (p->kind != MINUS && p->kind != PLUS)
    return power(p, in_predicate, out);
  bool negative = p->kind == MINUS;
  TN_TRY(deeper(p));
  TN_TRY(next(p));
  TN_TRY(unary(p, out));
  --p->nesting;
  return negative ? make(p, PN_NEGATE, start, 1, (pn_expr *[]){*out}, out) : TN_OK;
}

static tn_status unary(parser *p, pn_expr **out) { return unary_in(p, false, out); }

/* Left-associative chains of one level; in_predicate holds for the first operand only. */
static tn_status chain(parser *p, bool product, bool in_predicate, pn_expr **out) {
  size_t start = p->start;
  TN_TRY(product ? unary_in(p, in_predicate, out) : chain(p, true, in_predicate, out));
  token plus = product ? TIMES : PLUS, minus = product ? OVER : MINUS;
  while (p->kind == plus || p->kind == minus) {
    bool first = p->kind == plus;
    pn_kind kind = product ? (first ? PN_MULTIPLY : PN_DIVIDE) : (first ? PN_ADD : PN_SUBTRACT);
    TN_TRY(no_predicate(*out));
    TN_TRY(next(p));
    pn_expr *args[2] = {*out, NULL};
    TN_TRY(product ? unary(p, &args[1]) : chain(p, true, in_predicate, &args[1]));
    if (!in_predicate || product)
      TN_TRY(no_predicate(args[1]));
    TN_TRY(make(p, kind, start, 2, args, out));
  }
  return TN_OK;
}

static tn_status sum(parser *p, pn_expr **out) { return chain(p, false, false, out); }

/* ---- Predicates ----------------------------------------------------------------------------- */

static bool comparison(token t, pn_kind *kind) {
  switch (t) {
  case EQUAL:
    *kind = PN_EQUAL;
    return true;
  case LESS:
    *kind = PN_LESS;
    return true;
  case GREATER:
    *kind = PN_GREATER;
    return true;
  case LESS_EQUAL:
    *kind = PN_LESS_EQUAL;
    return true;
  case GREATER_EQUAL:
    *kind = PN_GREATER_EQUAL;
    return true;
  default:
    return false;
  }
}

/* sum {op sum}: 0 < x < 1 becomes (0 < x) and (x < 1). */
static tn_status comparisons(parser *p, pn_expr **out) {
  size_t start = p->start;
  pn_kind kind = PN_EQUAL;
  TN_TRY(chain(p, false, true, out));
  if (!comparison(p->kind, &kind))
    return TN_OK;
  TN_TRY(no_predicate(*out));
  pn_expr *left = *out, *whole = NULL;
  while (comparison(p->kind, &kind)) {
    pn_expr *right = NULL, *pair = NULL;
    TN_TRY(next(p));
    TN_TRY(sum(p, &right));
    TN_TRY(make(p, kind, start, 2, (pn_expr *[]){left, right}, &pair));
    if (whole)
      TN_TRY(make(p, PN_AND, start, 2, (pn_expr *[]){whole, pair}, &whole));
    else
      whole = pair;
    left = right;
  }
  *out = whole;
  return TN_OK;
}

static tn_status negation(parser *p, pn_expr **out) {
  size_t start = p->start;
  if (!is_word_token(p, "not"))
    return comparisons(p, out);
  TN_TRY(deeper(p));
  TN_TRY(next(p));
  TN_TRY(negation(p, out));
  --p->nesting;
  return make(p, PN_NOT, start, 1, (pn_expr *[]){*out}, out);
}

static tn_status conjunction(parser *p, bool any, pn_expr **out) {
  size_t start = p->start;
  TN_TRY(any ? conjunction(p, false, out) : negation(p, out));
  while (is_word_token(p, any ? "or" : "and")) {
    pn_expr *right = NULL;
    TN_TRY(next(p));
    TN_TRY(any ? conjunction(p, false, &right) : negation(p, &right));
    TN_TRY(make(p, any ? PN_OR : PN_AND, start, 2, (pn_expr *[]){*out, right}, out));
  }
  return TN_OK;
}

static tn_status predicate(parser *p, pn_expr **out) { return conjunction(p, true, out); }

/* ---- Entry points --------------------------------------------------------------------------- */

static tn_status begin(parser *p, pn_arena *arena, const pn_phrase *phrase) {
  *p = (parser){.arena = arena, .phrase = phrase, .text = phrase->text};
  return next(p);
}

static tn_status finish(const parser *p) {
  if (p->kind == END_OF_TEXT)
    return TN_OK;
  if (p->kind == CLOSE)
    return fail(p, p->start, 1, "`)` without its `(`");
  pn_kind kind = PN_EQUAL;
  if (comparison(p->kind, &kind))
    return fail(p, p->start, p->length, "a second or misplaced `%.*s`", (int)p->length,
                p->text + p->start);
  return expected(p, "an operator or the end");
}

tn_status pn_parse_value(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) {
  parser p;
  TN_TRY(begin(&p, arena, phrase));
  TN_TRY(sum(&p, out));
  if (p.kind == EQUAL)
    return fail(&p, p.start, 1, "an expression is asked for here, not an equation");
  return finish(&p);
}

tn_status pn_parse_predicate(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) {
  parser p;
  TN_TRY(begin(&p, arena, phrase));
  TN_TRY(predicate(&p, out));
  return finish(&p);
}

tn_status pn_parse_relation(pn_arena *arena, const pn_phrase *phrase, pn_expr **out) {
  parser p;
  pn_kind kind = PN_EQUAL;
  pn_expr *sides[2] = {NULL, NULL};
  TN_TRY(begin(&p, arena, phrase));
  TN_TRY(sum(&p, &sides[0]));
  if (p.kind == END_OF_TEXT)
    return fail(&p, 0, p.last_end, "an equation needs a right side: write `= 0` behind it");
  if (p.kind == LESS || p.kind == GREATER)
    return fail(&p, p.start, 1, "a relation has =, <= or >=");
  if (!comparison(p.kind, &kind))
    return finish(&p);
  TN_TRY(next(&p));
  TN_TRY(sum(&p, &sides[1]));
  TN_TRY(finish(&p));
  return make(&p, kind, 0, 2, sides, out);
}
