/* table.c: columns of numbers from and to CSV files (RFC 4180 with a header, numbers only).
 *
 * Strict on purpose. A field that is empty, "nan", "1,5" or "0x10" is an error with its line: data
 * with a hole trains a network to nonsense without a word. The text is read once, line by line; a
 * row goes straight into the column arrays, whose capacity doubles. Each row remembers its line, so
 * that a later complaint about a point (outside the domain, say) can name it.
 */
#include "pinn/table.h"

#include <string.h>

#include "pinn/files.h"
#include "pinn/text.h"

enum { MAX_COLUMNS = 4096 };

struct pn_table {
  char *name;        /* of the file */
  size_t columns;    /* number of columns */
  size_t rows;       /* number of rows */
  size_t capacity;   /* rows allocated */
  char **names;      /* columns names */
  double **data;     /* columns arrays of `capacity` numbers */
  size_t *lines;     /* source line of each row */
  size_t first_line; /* the header's line, 1 for a table that was not read */
};

/* A line of the source and where in it the parser stands. */
typedef struct {
  const char *file;   /* for errors */
  size_t line;        /* from 1 */
  const char *at;     /* next byte */
  const char *end;    /* one past the line, without CR and LF */
  const char *unread; /* start of the next line */
  const char *stop;   /* one past the text */
} source;

/* One field: the bytes between commas, or between quotes. */
typedef struct {
  char *text; /* owned copy, zero-terminated */
  size_t n;
} field;

/* ---- Life ------------------------------------------------------------------------------------ */

void pn_table_free(pn_table **table) {
  pn_table *t = *table;
  if (!t)
    return;
  for (size_t i = 0; i < t->columns; ++i) {
    if (t->names)
      tn_free(&t->names[i]);
    if (t->data)
      tn_free(&t->data[i]);
  }
  tn_free(&t->names);
  tn_free(&t->data);
  tn_free(&t->lines);
  tn_free(&t->name);
  tn_free(table);
}

static tn_status add_column(pn_table *t, const char *name) {
  if (t->columns == MAX_COLUMNS)
    return TN_FAIL(TN_EINPUT, "%s:%zu: more than %d columns", t->name, t->first_line, MAX_COLUMNS);
  TN_TRY(tn_grow(&t->names, t->columns, t->columns + 1, sizeof *t->names));
  TN_TRY(tn_grow(&t->data, t->columns, t->columns + 1, sizeof *t->data));
  ++t->columns; /* from here pn_table_free sees the new column */
  TN_TRY(tn_copy_text(name, &t->names[t->columns - 1]));
  return TN_NEW(t->capacity, &t->data[t->columns - 1]);
}

static tn_status start(const char *name, size_t rows, pn_table **out) {
  TN_TRY(TN_NEW(1, out));
  pn_table *t = *out;
  t->capacity = rows ? rows : 1;
  t->first_line = 1;
  TN_TRY(tn_copy_text(name, &t->name));
  TN_TRY(TN_NEW(1, &t->names)); /* tn_grow wants a block to start from */
  TN_TRY(TN_NEW(1, &t->data));
  return TN_NEW(t->capacity, &t->lines);
}

tn_status pn_table_new(const char *name, size_t columns, const char *const *names, size_t rows,
                       pn_table **out) {
  pn_table *t = NULL;
  tn_status status = start(name, rows, &t);
  for (size_t i = 0; i < columns && status == TN_OK; ++i)
    status = add_column(t, names[i]);
  if (status != TN_OK) {
    pn_table_free(&t);
    return status;
  }
  t->rows = rows;
  *out = t;
  return TN_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool is_space(char c) { return c == ' ' || c == '\t'; }

/* The next line that is neither blank nor a comment; false at the end of the text. */
static bool next_line(source *s) {
  while (s->unread < s->stop) {
    const char *feed = memchr(s->unread, '\n', (size_t)(s->stop - s->unread));
    s->at = s->unread;
    s->end = feed ? feed : s->stop;
    s->unread = feed ? feed + 1 : s->stop;
    ++s->line;
    while (s->end > s->at && (s->end[-1] == '\r' || is_space(s->end[-1])))
      --s->end;
    while (s->at < s->end && is_space(*s->at))
      ++s->at;
    if (s->at < s->end && *s->at != '#')
      return true;
  }
  return false;
}

/* The bytes of a quoted field; s->at stands on the opening quote and ends after the closing one. */
static tn_status quoted(source *s, field *f) {
  for (++s->at; s->at < s->end; ++s->at) {
    if (*s->at == '"') {
      if (s->at + 1 == s->end || s->at[1] != '"') {
        ++s->at;
        return TN_OK;
      }
      ++s->at; /* "" is one quote */
    }
    f->text[f->n++] = *s->at;
  }
  return TN_FAIL(TN_EINPUT, "%s:%zu: a quoted field does not end on its line", s->file, s->line);
}

/* One field and the comma behind it; *more tells if another field follows. f->text has room for a
 * line. */
static tn_status next_field(source *s, field *f, bool *more) {
  f->n = 0;
  while (s->at < s->end && is_space(*s->at))
    ++s->at;
  if (s->at < s->end && *s->at == '"') {
    TN_TRY(quoted(s, f));
  } else {
    while (s->at < s->end && *s->at != ',')
      f->text[f->n++] = *s->at++;
    while (f->n && is_space(f->text[f->n - 1]))
      --f->n;
  }
  f->text[f->n] = 0;
  while (s->at < s->end && is_space(*s->at))
    ++s->at;
  *more = s->at < s->end;
  if (*more && *s->at != ',')
    return TN_FAIL(TN_EINPUT, "%s:%zu: found `%c` after a quoted field, expected a comma", s->file,
                   s->line, *s->at);
  if (*more)
    ++s->at;
  return TN_OK;
}

static tn_status read_header(pn_table *t, source *s, field *f) {
  double number = 0;
  bool more = true;
  t->first_line = s->line;
  while (more) {
    TN_TRY(next_field(s, f, &more));
    size_t same = 0;
    while (same < t->columns && strcmp(t->names[same], f->text))
      ++same;
    if (!f->n)
      return TN_FAIL(TN_EINPUT, "%s:%zu: column %zu has no name", s->file, s->line, t->columns + 1);
    if (strlen(f->text) != f->n)
      return TN_FAIL(TN_EINPUT, "%s:%zu: column %zu has a zero byte in its name", s->file, s->line,
                     t->columns + 1);
    if (pn_number_of_text(f->text, f->n, &number))
      return TN_FAIL(
          TN_EINPUT,
          "%s:%zu: the first line must name the columns (as in `x,t,u`); found the number "
          "`%.40s`",
          s->file, s->line, f->text);
    if (same < t->columns)
      return TN_FAIL(TN_EINPUT, "%s:%zu: two columns are called `%.80s`", s->file, s->line,
                     f->text);
    TN_TRY(add_column(t, f->text));
  }
  if (t->columns == 1 && strpbrk(t->names[0], ";\t"))
    return TN_FAIL(TN_EINPUT, "%s:%zu: columns must be separated by commas; found `%.80s`", s->file,
                   s->line, t->names[0]);
  return TN_OK;
}

static tn_status reserve_row(pn_table *t) {
  if (t->rows < t->capacity)
    return TN_OK;
  size_t capacity = 2 * t->capacity;
  for (size_t i = 0; i < t->columns; ++i)
    TN_TRY(tn_grow(&t->data[i], t->capacity, capacity, sizeof **t->data));
  TN_TRY(tn_grow(&t->lines, t->capacity, capacity, sizeof *t->lines));
  t->capacity = capacity; /* arrays that grew before a failure are only larger than needed */
  return TN_OK;
}

static tn_status read_row(pn_table *t, source *s, field *f) {
  bool more = true;
  TN_TRY(reserve_row(t));
  size_t k = 0;
  for (; more; ++k) {
    TN_TRY(next_field(s, f, &more));
    if (k >= t->columns)
      continue; /* counted for the error below */
    if (!pn_number_of_text(f->text, f->n, &t->data[k][t->rows]))
      return TN_FAIL(TN_EINPUT, "%s:%zu: `%.40s` in column `%.80s` is not a finite decimal number",
                     s->file, s->line, f->text, t->names[k]);
  }
  if (k != t->columns)
    return TN_FAIL(TN_EINPUT, "%s:%zu: the line has %zu fields, the header (line %zu) has %zu",
                   s->file, s->line, k, t->first_line, t->columns);
  t->lines[t->rows++] = s->line;
  return TN_OK;
}

static tn_status read_text(pn_table *t, source *s, field *f) {
  if (!next_line(s))
    return TN_FAIL(TN_EINPUT, "%s:1: the file is empty; expected a header", s->file);
  TN_TRY(read_header(t, s, f));
  while (next_line(s))
    TN_TRY(read_row(t, s, f));
  return TN_OK;
}

/* Bytes of the longest line and its zero. */
static size_t longest_line(const char *text, size_t n) {
  size_t longest = 0, length = 0;
  for (size_t i = 0; i < n; ++i) {
    length = text[i] == '\n' ? 0 : length + 1;
    if (length > longest)
      longest = length;
  }
  return longest + 1;
}

tn_status pn_table_parse(const char *name, const char *text, size_t n, pn_table **out) {
  pn_table *t = NULL;
  field f = {0};
  size_t mark = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0; /* byte-order mark */
  source s = {.file = name, .unread = text + mark, .stop = text + n};
  tn_status status = start(name, 64, &t);
  if (status == TN_OK)
    status = tn_new(longest_line(text, n), 1, &f.text);
  if (status == TN_OK)
    status = read_text(t, &s, &f);
  tn_free(&f.text);
  if (status != TN_OK) {
    pn_table_free(&t);
    return status;
  }
  *out = t;
  return TN_OK;
}

tn_status pn_table_read(const char *path, pn_table **out) {
  uint8_t *text = NULL;
  size_t n = 0;
  TN_TRY(pn_read_file(path, (size_t)1 << 30, &text, &n));
  tn_status status = pn_table_parse(path, (const char *)text, n, out);
  tn_free(&text);
  return status;
}

/* ---- Access ---------------------------------------------------------------------------------- */

size_t pn_table_rows(const pn_table *table) { return table->rows; }
size_t pn_table_columns(const pn_table *table) { return table->columns; }
const char *pn_table_name(const pn_table *table) { return table->name; }

const char *pn_table_column_name(const pn_table *table, size_t column) {
  return column < table->columns ? table->names[column] : "";
}

tn_status pn_table_find(const pn_table *table, const char *column, size_t *index) {
  for (size_t i = 0; i < table->columns; ++i)
    if (!strcmp(table->names[i], column)) {
      *index = i;
      return TN_OK;
    }
  pn_text list = {0};
  for (size_t i = 0; i < table->columns && list.n < 400; ++i)
    pn_putf(&list, "%s%s", i ? ", " : "", table->names[i]);
  if (list.n >= 400)
    pn_put(&list, ", ...");
  tn_status status = pn_text_status(&list);
  if (status == TN_OK)
    status = TN_FAIL(TN_EINPUT, "%s:%zu: no column `%s`; columns are %s.", table->name,
                     table->first_line, column, list.text ? list.text : "");
  pn_text_free(&list);
  return status;
}

tn_status pn_table_column(const pn_table *table, const char *column, const double **x) {
  size_t i = 0;
  TN_TRY(pn_table_find(table, column, &i));
  *x = table->data[i];
  return TN_OK;
}

double *pn_table_data(pn_table *table, size_t column) {
  return column < table->columns ? table->data[column] : NULL;
}

size_t pn_table_line(const pn_table *table, size_t row) {
  return row < table->rows ? table->lines[row] : 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_name(pn_text *w, const char *name) {
  size_t n = strlen(name);
  bool quote = !n || strpbrk(name, ",\"#") || is_space(name[0]) || is_space(name[n - 1]);
  if (!quote) {
    pn_put(w, name);
    return;
  }
  pn_put(w, "\"");
  for (; *name; ++name)
    pn_put_bytes(w, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
  pn_put(w, "\"");
}

tn_status pn_table_text(const pn_table *table, char **text, size_t *n) {
  pn_text w = {0};
  for (size_t k = 0; k < table->columns; ++k) {
    if (k)
      pn_put(&w, ",");
    put_name(&w, table->names[k]);
  }
  pn_put(&w, "\n");
  for (size_t i = 0; i < table->rows; ++i)
    for (size_t k = 0; k < table->columns; ++k) {
      pn_put_number(&w, table->data[k][i]);
      pn_put(&w, k + 1 < table->columns ? "," : "\n");
    }
  tn_status status = pn_text_take(&w, text, n);
  pn_text_free(&w);
  return status;
}

tn_status pn_table_write(const pn_table *table, const char *path) {
  char *text = NULL;
  size_t n = 0;
  TN_TRY(pn_table_text(table, &text, &n));
  tn_status status = pn_write_atomic(path, text, n);
  tn_free(&text);
  return status;
}
