/* export.c: `pinn export` and `pinn plot`: pn_eval with everything that may be left out filled in.
 *
 * Fields: every unknown. Grid: [output] grid of the file, or the numbers that result.h5 has, over the whole ranges; for
 * more than three coordinates (pictures: two) those that come last in the file stand at the middle of their ranges. File:
 * the result's name with the ending of the format.
 */
#include "pinn/export.h"

#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/result.h"
#include "pinn/text.h"

static const char *const formats[] = {"csv", "h5", "vtk", "c", "svg"};

static tn_status check_format(const char *to) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
    if (strcmp(to, formats[i]) == 0)
      return TN_OK;
  return TN_FAIL(TN_EINPUT, "--to %s: expected csv, h5, vtk, c or svg", to);
}

/* The coordinates that the fields depend on, all of them where an expression is not an unknown. */
static uint32_t coordinates_of(const pn_problem *p, size_t n, const char *const *fields) {
  uint32_t bits = 0;
  for (size_t k = 0; k < n; ++k) {
    size_t u = 0;
    while (u < p->n_unknowns && strcmp(p->unknowns[u].name, fields[k]) != 0)
      ++u;
    for (size_t j = 0; u < p->n_unknowns && j < p->unknowns[u].n_of; ++j)
      bits |= UINT32_C(1) << p->unknowns[u].of[j];
    if (u == p->n_unknowns)
      return (UINT32_C(1) << p->n_coordinates) - 1;
  }
  return bits;
}

/* "x=0:1:121,t=0.5", `most` coordinates varying. */
static tn_status standard_grid(const pn_problem *p, uint32_t bits, size_t most, char **out) {
  pn_text text = {0};
  size_t n = 0, seen = 0;
  for (size_t c = 0; c < p->n_coordinates; ++c)
    n += bits >> c & 1;
  n = n < most ? n : most;
  for (size_t c = 0; c < p->n_coordinates; ++c) {
    const pn_coordinate *x = &p->coordinates[c];
    if (!(bits >> c & 1))
      continue;
    pn_putf(&text, "%s%s=", seen > 0 ? "," : "", x->name);
    if (seen++ >= n) {
      pn_put_number(&text, x->shown[0] + (x->shown[1] - x->shown[0]) / 2);
      continue;
    }
    pn_put_number(&text, x->shown[0]);
    pn_put(&text, ":");
    pn_put_number(&text, x->shown[1]);
    pn_putf(&text, ":%zu", pn_grid_extent(p, c, n));
  }
  return pn_text_take(&text, out, NULL);
}

/* "burgers.vtk" of burgers.out or burgers.out/result.h5. */
static tn_status standard_name(const char *result, const char *to, char **out) {
  char *folder = NULL, *stem = NULL;
  bool file = strcmp(pn_path_name(result), "result.h5") == 0;
  size_t n = strlen(result);
  TN_TRY(file ? pn_path_folder(result, &folder) : tn_copy_text(result, &folder));
  for (n = strlen(folder); n > 1 && folder[n - 1] == '/'; --n)
    folder[n - 1] = 0;
  tn_status status = pn_path_stem(folder, &stem);
  if (status == TN_OK)
    status = TN_NEW(strlen(stem) + strlen(to) + 8, out);
  if (status == TN_OK)
    sprintf(*out, "%s.%s", stem[0] == '.' ? "result" : stem, to);
  tn_free(&folder);
  tn_free(&stem);
  return status;
}

tn_status pn_export(const pn_export_options *options) {
  pn_eval_options eval = {.result = options->result,
                          .points = options->points,
                          .grid = options->grid,
                          .out = options->out,
                          .n_expressions = options->n_expressions,
                          .expressions = options->expressions};
  pn_saved *saved = NULL;
  pn_problem *problem = NULL;
  const char *fields[PN_MAX_COORDINATES * 4];
  char *grid = NULL, *name = NULL;
  const bool picture = strcmp(options->to, "svg") == 0;
  TN_TRY(check_format(options->to));
  tn_status status = pn_saved_open(options->result, &saved);
  if (status == TN_OK)
    status = pn_saved_problem(saved, &problem);
  if (status == TN_OK && eval.n_expressions == 0) {
    for (size_t u = 0; u < problem->n_unknowns && u < sizeof fields / sizeof *fields; ++u)
      fields[eval.n_expressions++] = problem->unknowns[u].name;
    eval.expressions = fields;
  }
  if (status == TN_OK && !eval.grid && !eval.points && strcmp(options->to, "c") != 0) {
    status = standard_grid(problem, coordinates_of(problem, eval.n_expressions, eval.expressions),
                           picture ? 2 : 3, &grid);
    eval.grid = grid;
  }
  if (status == TN_OK && !eval.out) {
    status = standard_name(options->result, options->to, &name);
    eval.out = name;
  }
  if (status == TN_OK) {
    const char *dot = strrchr(pn_path_name(eval.out), '.');
    if (!dot || strcmp(dot + 1, options->to) != 0)
      status = TN_FAIL(TN_EINPUT, "--out %s: the name must end in .%s", eval.out, options->to);
  }
  if (status == TN_OK)
    status = pn_eval(&eval);
  if (status == TN_OK && options->terminal)
    fprintf(options->terminal, "written    %s\n", eval.out);
  tn_free(&grid);
  tn_free(&name);
  pn_problem_free(&problem);
  pn_saved_free(&saved);
  return status;
}
