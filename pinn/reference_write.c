/* reference_write.c: what `pinn reference` prints, and its files.
 *
 * The CSV file opens with lines of '#', which [tables] and other readers skip: the method and, for each unknown, the
 * estimate of the largest error at the points. HDF5 has the same as attributes. Where the problem file knows the
 * solution, the true error is printed beside the estimate, but it is no part of the file.
 */
#include "pinn/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/store.h"
#include "pinn/table.h"
#include "pinn/text.h"
#include "pinn/values.h"

/* ---- The known solution --------------------------------------------------------------------------------- */

static tn_status compare(pn_ref_run *r, size_t unknown) {
  pn_item item = {.kind = PN_ITEM_EXACT, .unknown = unknown};
  pn_values *values = NULL;
  double *exact = NULL, *theta = NULL;
  const double *column[PN_MAX_COORDINATES];
  for (size_t x = 0; x < PN_MAX_COORDINATES; ++x)
    column[x] = r->grid.column[x];
  tn_status status = TN_NEW(r->grid.n, &exact);
  if (status == TN_OK)
    status = TN_NEW(r->rows.model->n_theta, &theta);
  if (status == TN_OK)
    status = pn_values_new(r->rows.model, NULL, r->grid.bits, 1, &item, &values);
  if (status == TN_OK)
    status = pn_values_at(values, theta, r->grid.n, column, exact);
  r->known[unknown] = 0;
  for (size_t i = 0; status == TN_OK && i < r->grid.n; ++i) {
    double d = fabs(r->best->values[unknown * r->grid.n + i] - exact[i]);
    if (d > r->known[unknown]) /* where a table has no value there is nothing to compare */
      r->known[unknown] = d;
  }
  pn_values_free(&values);
  tn_free(&exact);
  tn_free(&theta);
  return status;
}

tn_status pn_ref_known(pn_ref_run *r) {
  for (size_t u = 0; u < r->problem->n_unknowns; ++u) {
    r->known[u] = NAN;
    if (r->problem->unknowns[u].exact)
      TN_TRY(compare(r, u));
  }
  return TN_OK;
}

/* ---- Words ----------------------------------------------------------------------------------------------- */

static void method(const pn_ref_run *r, char *out, size_t size) {
  char axes[256] = "";
  for (size_t x = 0; x < r->problem->n_coordinates; ++x) {
    const pn_coordinate *c = &r->problem->coordinates[x];
    size_t used = strlen(axes);
    if (r->marching && r->way.coordinate == x)
      continue;
    snprintf(axes + used, sizeof axes - used, "%s%zu %s in %.40s", used ? ", " : "", r->n,
             c->periodic ? "waves" : "Chebyshev polynomials", c->name);
  }
  if (r->marching)
    snprintf(out, size, "%s%sRadau IIA of order %d, %zu steps in %s", axes, axes[0] ? "; " : "",
             r->problem->n_coordinates > 1 ? 9 : 13, r->steps,
             r->problem->coordinates[r->way.coordinate].name);
  else
    snprintf(out, size, "%s; collocation, Newton and least squares", axes);
}

void pn_ref_report(const pn_ref_run *r, FILE *out) {
  char text[512];
  method(r, text, sizeof text);
  fprintf(out, "method     %s\n", text);
  if (r->best->null)
    fprintf(out, "note       %zu combination%s of coefficients that no equation and no condition sees; set to 0\n",
            r->best->null, r->best->null == 1 ? "" : "s");
  if (r->best->left > 1e-7 && r->relative > r->tolerance)
    fprintf(out, "note       equations and conditions are met to %.1e only: is there a solution?\n", r->best->left);
  if (r->late && r->relative > r->tolerance)
    fprintf(out, "note       stopped by the time allowed (--seconds)\n");
  for (size_t u = 0; u < r->problem->n_unknowns; ++u) {
    char known[64] = "";
    if (!isnan(r->known[u]))
      snprintf(known, sizeof known, "; against [exact]: %.1e", r->known[u]);
    fprintf(out, "%-10s %s: error about %.1e, largest value %.6g%s\n", u ? "" : "estimate",
            r->problem->unknowns[u].name, r->error[u], r->largest[u], known);
  }
  fprintf(out, "%-10s %.1e relative, asked for %.1e\n", r->relative <= r->tolerance ? "REACHED" : "MISSED",
          r->relative, r->tolerance);
}

/* ---- Files ----------------------------------------------------------------------------------------------- */

static void put_head(const pn_ref_run *r, pn_text *out) {
  char text[512];
  method(r, text, sizeof text);
  pn_putf(out, "# %s: reference solution by pinn %s\n", r->problem->title, pn_version());
  pn_putf(out, "# %s\n", text);
  for (size_t u = 0; u < r->problem->n_unknowns; ++u)
    pn_putf(out, "# %s: error about %.1e, largest value %.6g\n", r->problem->unknowns[u].name, r->error[u],
            r->largest[u]);
}

static tn_status write_csv(const pn_ref_run *r, const char *path) {
  const char *names[PN_MAX_COORDINATES + 64];
  size_t n = 0, length = 0;
  pn_table *table = NULL;
  pn_text head = {0};
  char *body = NULL;
  if (r->problem->n_unknowns > 64)
    return TN_FAIL(TN_EUNSUPPORTED, "a table of more than 64 unknowns");
  for (size_t j = 0; j < r->grid.n_axes; ++j)
    names[n++] = r->problem->coordinates[r->grid.coordinate[j]].name;
  for (size_t u = 0; u < r->problem->n_unknowns; ++u)
    names[n++] = r->problem->unknowns[u].name;
  TN_TRY(pn_table_new("reference", n, names, r->grid.n, &table));
  for (size_t k = 0; k < n; ++k)
    memcpy(pn_table_data(table, k),
           k < r->grid.n_axes ? r->grid.column[r->grid.coordinate[k]]
                              : r->best->values + (k - r->grid.n_axes) * r->grid.n,
           r->grid.n * sizeof(double));
  put_head(r, &head);
  tn_status status = head.status;
  if (status == TN_OK)
    status = pn_table_text(table, &body, &length);
  if (status == TN_OK) {
    pn_bytes parts[2] = {{head.text, strlen(head.text)}, {body, length}};
    status = pn_write_atomic_parts(path, 2, parts);
  }
  tn_free(&body);
  pn_text_free(&head);
  pn_table_free(&table);
  return status;
}

static tn_status write_store(const pn_ref_run *r, const char *path) {
  pn_store *store = NULL;
  char text[512];
  TN_TRY(pn_store_new(&store));
  method(r, text, sizeof text);
  tn_status status = pn_store_attribute(store, "", "method", text);
  if (status == TN_OK)
    status = pn_store_attribute(store, "", "title", r->problem->title);
  for (size_t j = 0; j < r->grid.n_axes && status == TN_OK; ++j)
    status = pn_store_f64(store, r->problem->coordinates[r->grid.coordinate[j]].name, 1, &r->grid.extent[j],
                          r->grid.axis[j]);
  for (size_t u = 0; u < r->problem->n_unknowns && status == TN_OK; ++u) {
    const char *name = r->problem->unknowns[u].name;
    bool whole = r->grid.n_axes <= PN_STORE_RANK;
    status = pn_store_f64(store, name, whole ? r->grid.n_axes : 1, whole ? r->grid.extent : &r->grid.n,
                          r->best->values + u * r->grid.n);
    snprintf(text, sizeof text, "%.3e", r->error[u]);
    if (status == TN_OK)
      status = pn_store_attribute(store, name, "error", text);
  }
  if (status == TN_OK)
    status = pn_store_save(store, path);
  pn_store_free(&store);
  return status;
}

tn_status pn_ref_write(const pn_ref_run *r, const char *path) {
  size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".h5") == 0 ? write_store(r, path) : write_csv(r, path);
}
