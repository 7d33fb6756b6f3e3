/* library.c: a list of problem files: what each solves, teaches and is measured by.
 *
 * All of it comes from the files. Title, equations (as the program prints them) and [accept] are read; what a file
 * teaches and where its solution comes from stand in the comment on its top, in paragraphs that begin with a label:
 *
 *   # Teaches: one or more lines
 *   #          of text
 *   # Reference: the same
 *
 * In Markdown files are grouped by folder, and what a folder's README.md says below its heading comes first.
 */
#include "pinn/banner.h"
#include "pinn/pinn.h"
#include "pinn/problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Comments ------------------------------------------------------------------------------------------ */

static const char *line_end(const char *line) {
  const char *end = strchr(line, '\n');
  return end ? end : line + strlen(line);
}

/* The text of a comment line behind "# "; NULL: the comment is over. */
static const char *comment_line(const char *line, size_t *n) {
  if (*line != '#')
    return NULL;
  const char *text = line + 1, *end = line_end(line);
  text += *text == ' ';
  *n = end > text ? (size_t)(end - text) : 0;
  return text;
}

static bool starts_with(const char *text, size_t n, const char *label) {
  size_t length = strlen(label);
  return n >= length && memcmp(text, label, length) == 0;
}

/* Does the line open a paragraph: empty, or a word and a colon? */
static bool is_label(const char *text, size_t n) {
  size_t i = 0;
  while (i < n && ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')))
    ++i;
  return n == 0 || (i > 0 && i < n && text[i] == ':' && text[0] <= 'Z');
}

static void put_words(pn_text *out, const char *text, size_t n) {
  while (n > 0 && *text == ' ') {
    ++text;
    --n;
  }
  pn_put(out, out->n > 0 && n > 0 ? " " : "");
  pn_put_bytes(out, text, n);
}

/* The paragraph with this label at the start of a line. */
static void labelled(const char *comment, const char *label, pn_text *out) {
  bool inside = false;
  size_t n = 0;
  for (const char *line = comment, *text; (text = comment_line(line, &n)) != NULL;) {
    if (inside && is_label(text, n))
      return;
    if (inside) {
      put_words(out, text, n);
    } else if (starts_with(text, n, label)) {
      inside = true;
      put_words(out, text + strlen(label), n - strlen(label));
    }
    line = line_end(line);
    line += *line == '\n';
  }
}

/* Without the full stop at its end; "" is nothing. */
static void put_label(const pn_problem *p, const char *label, pn_text *out) {
  labelled(p->source.text, label, out);
  if (out->n > 0 && out->text[out->n - 1] == '.')
    out->text[--out->n] = '\0';
}

/* ---- Columns ------------------------------------------------------------------------------------------- */

static tn_status put_equations(pn_problem *p, pn_text *out, const char *between) {
  const char *before = "";
  for (size_t i = 0; i < p->n_equations; ++i)
    for (size_t r = 0; r < p->equations[i].n_relations; ++r) {
      char *text = NULL;
      TN_TRY(pn_relation_text(p, &p->equations[i].relations[r], &text));
      if (strcmp(text, before) == 0) /* a vector that cannot be taken apart */
        continue;
      pn_put(out, *before ? between : "");
      pn_put(out, text);
      before = text;
    }
  return TN_OK;
}

/* "error 1e-3" if all unknowns have the same; each by name else; "residual 1e-2" where no error is asked. */
static void put_accept(const pn_problem *p, pn_text *out) {
  double first = NAN;
  bool same = true;
  char number[24];
  for (size_t u = 0; u < p->n_unknowns; ++u) {
    double x = p->unknowns[u].accept;
    if (isnan(x))
      continue;
    same = same && (isnan(first) || x == first);
    first = isnan(first) ? x : first;
  }
  if (isnan(first)) {
    pn_putf(out, "residual %s", pn_threshold(p->accept_residual, number));
    return;
  }
  if (same) {
    pn_putf(out, "error %s", pn_threshold(first, number));
    return;
  }
  pn_put(out, "error");
  for (size_t u = 0; u < p->n_unknowns; ++u)
    if (!isnan(p->unknowns[u].accept))
      pn_putf(out, " %s %s", p->unknowns[u].name, pn_threshold(p->unknowns[u].accept, number));
}

/* ---- Pages --------------------------------------------------------------------------------------------- */

static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) : 0;
}

/* A | would end the cell. */
static void put_cell(FILE *file, const char *text) {
  for (; text && *text; ++text) {
    if (*text == '|')
      fputc('\\', file);
    fputc(*text, file);
  }
}

/* What the folder's README.md says below its heading. */
static void put_readme(FILE *file, const char *path) {
  char name[1024], line[1024];
  size_t n = folder_length(path);
  if (n + sizeof "/README.md" > sizeof name)
    return;
  snprintf(name, sizeof name, "%.*s/README.md", (int)n, path);
  FILE *readme = fopen(name, "r");
  if (!readme)
    return;
  while (fgets(line, sizeof line, readme))
    if (line[0] != '#')
      fputs(line, file);
  fclose(readme);
}

static void put_heading(FILE *file, const char *path) {
  size_t n = folder_length(path);
  fprintf(file, "\n## %.*s\n", n ? (int)n : 1, n ? path : ".");
  put_readme(file, path);
  fprintf(file, "\n| file | equations | teaches | reference | accepted |\n|---|---|---|---|---|\n");
}

static void put_row(FILE *file, const pn_problem *p, const char *path, const char *equations) {
  pn_text teaches = {0}, reference = {0}, accept = {0};
  const char *name = strrchr(path, '/');
  put_label(p, "Teaches: ", &teaches);
  put_label(p, "Reference: ", &reference);
  put_accept(p, &accept);
  fprintf(file, "| [%s](../%s)<br>%s | `", name ? name + 1 : path, path, p->title ? p->title : "");
  put_cell(file, equations);
  fprintf(file, "` | ");
  put_cell(file, teaches.text);
  fprintf(file, " | ");
  put_cell(file, reference.text);
  fprintf(file, " | %s |\n", accept.text);
  pn_text_free(&teaches);
  pn_text_free(&reference);
  pn_text_free(&accept);
}

static void put_plain(FILE *file, const pn_problem *p, const char *path, const char *equations) {
  pn_text teaches = {0}, lines = {0};
  put_label(p, "Teaches: ", &teaches);
  fprintf(file, "%s   %s\n", path, p->title ? p->title : "");
  pn_put_wrapped(&lines, "  solves", PN_LABEL, equations);
  if (teaches.n > 0)
    pn_put_wrapped(&lines, "  teaches", PN_LABEL, teaches.text);
  fputs(lines.text ? lines.text : "", file);
  pn_text_free(&teaches);
  pn_text_free(&lines);
}

static tn_status put_file(FILE *file, const char *path, bool markdown) {
  pn_problem *p = NULL;
  pn_text equations = {0};
  TN_TRY(pn_problem_load(path, 0, NULL, &p));
  tn_status status = put_equations(p, &equations, markdown ? "`<br>`" : "; ");
  if (status == TN_OK)
    status = pn_text_status(&equations);
  if (status == TN_OK && markdown)
    put_row(file, p, path, equations.text);
  if (status == TN_OK && !markdown)
    put_plain(file, p, path, equations.text);
  pn_text_free(&equations);
  pn_problem_free(&p);
  return status;
}

tn_status pn_library_list(FILE *file, size_t n, const char *const *paths, bool markdown) {
  if (markdown)
    fprintf(file, "# Problems\n\nMade by `./dev doc` from the files: %zu problems, each a file for `pinn "
                  "check` and `pinn solve`.\nEquations stand as the program prints them; `accepted` is "
                  "the relative L2 error, or the relative residual on fresh points,\nat which a run "
                  "counts as converged. [How to add one](howto-add-problem.md).\n",
            n);
  for (size_t i = 0; i < n; ++i) {
    size_t folder = folder_length(paths[i]);
    bool again = i > 0 && folder == folder_length(paths[i - 1]) &&
                 memcmp(paths[i], paths[i - 1], folder) == 0;
    if (markdown && !again)
      put_heading(file, paths[i]);
    TN_TRY(put_file(file, paths[i], markdown));
  }
  if (fflush(file) != 0 || ferror(file))
    return TN_FAIL(TN_EIO, "the list of problems could not be written");
  return TN_OK;
}
