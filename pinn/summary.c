/* summary.c: summary.json: how a run went, for scripts.
 *
 *   problem, title, sha256     file name, its title, SHA-256 of its text
 *   converged, exit_status     as the program ends
 *   fields                     by unknown: rel_l2, linf, place of linf, accept; null where
 *                              nothing is known
 *   parameters                 by name: value, start, exact, error |value - exact| / |exact|, accept;
 *                              at_bound; trace: its value at each of trace_steps
 *   terms                      by term, on fresh points: relative residual, rms and
 *                              worst |residual|; points and weight are 0 for conditions that are
 *                              met by construction
 *                              noise: of data with sigma, rms of F/sigma
 *   checks                     by check: relative, rms, worst, noise, accept, accepted
 *   loss, steps, seconds       at the end; of training alone, and of the whole run
 *   stop_reasons               a text a stage
 *   warnings                   a text for each warning of the check before the run
 *   weights, weights_sha256    number of trained numbers, and a digest of their bytes: equal
 *                              runs, equal digest
 *   peak_mib, threads, ranks, device, isa, blas, seed, version
 *   precision, precision_weights, precision_errors
 *                              compute and master of the file; what errors are measured in
 *   low                        of runs with a low format: its share of the work in products, loss
 *                              scale (pairs of step and scale), powers of two of channels,
 *                              overflows; floor: what its rounding alone leaves of rel_l2
 *
 * Numbers that are not finite become null.
 */
#include "pinn/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pinn/files.h"
#include "pinn/found.h"
#include "pinn/json.h"
#include "tensor/factor.h"

/* run->warnings is one text; each of its warnings starts a line with this word. */
static tn_status put_warnings(pn_json *json, const pn_run *run) {
  static const char next[] = "\nwarning: ";
  const char *at = run->warnings;
  pn_json_array(json, "warnings");
  while (at != NULL && strncmp(at, next + 1, sizeof next - 2) == 0) {
    at += sizeof next - 2;
    const char *end = strstr(at, next);
    size_t n = end != NULL ? (size_t)(end - at) : strlen(at);
    char *text = NULL;
    TN_TRY(TN_NEW(n + 1, &text));
    memcpy(text, at, n);
    pn_json_string(json, NULL, text);
    tn_free(&text);
    at = end != NULL ? end + 1 : NULL;
  }
  pn_json_end(json);
  return TN_OK;
}

static void put_fields(pn_json *json, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  const pn_problem *p = run->problem;
  pn_json_object(json, "fields");
  for (size_t i = 0; i < r->n_fields; ++i) {
    const pn_field_error *e = &r->fields[i];
    pn_json_object(json, p->unknowns[i].name);
    if (e->known && run->failure == NULL) {
      pn_json_number(json, "rel_l2", e->rel_l2);
      pn_json_number(json, "linf", e->linf);
      pn_json_object(json, "linf_at");
      for (size_t c = 0; c < p->n_coordinates; ++c) {
        if (e->place[c] == e->place[c])
          pn_json_number(json, p->coordinates[c].name, e->place[c]);
      }
      pn_json_end(json);
    } else {
      pn_json_null(json, "rel_l2");
      pn_json_null(json, "linf");
    }
    pn_json_number(json, "accept", p->unknowns[i].accept);
    if (run->failure == NULL) {
      pn_json_number(json, "rms", e->rms);
      pn_json_number(json, "lowest", e->lowest);
      pn_json_number(json, "highest", e->highest);
    }
    pn_json_end(json);
  }
  pn_json_end(json);
}

static void put_terms(pn_json *json, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  const pn_sites *sites = pn_training_sites(run->training);
  pn_json_object(json, "terms");
  for (size_t m = 0; run->failure == NULL && m < r->n_terms; ++m) {
    bool trained = m < sites->n_terms;
    pn_json_object(json, pn_training_checked(run->training, m)->name);
    pn_json_number(json, "relative", r->terms[m].relative);
    pn_json_number(json, "rms", r->terms[m].rms);
    pn_json_number(json, "worst", r->terms[m].worst);
    if (r->terms[m].noise == r->terms[m].noise)
      pn_json_number(json, "noise", r->terms[m].noise);
    pn_json_boolean(json, "accepted", r->terms[m].accepted);
    pn_json_integer(json, "points", trained ? (int64_t)pn_term_points(sites, m) : 0);
    pn_json_number(json, "weight",
                   trained ? pn_loss_weight(pn_training_loss(run->training), m) : 0);
    pn_json_end(json);
  }
  pn_json_end(json);
}

static void put_checks(pn_json *json, const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  pn_json_object(json, "checks");
  for (size_t i = 0; run->failure == NULL && i < r->n_checks; ++i) {
    const pn_term_check *c = &r->checks[i];
    pn_json_object(json, run->problem->checks[i].name);
    pn_json_number(json, "relative", c->relative);
    pn_json_number(json, "rms", c->rms);
    pn_json_number(json, "worst", c->worst);
    pn_json_number(json, "noise", c->noise);
    pn_json_number(json, "accept", c->limit);
    pn_json_boolean(json, "accepted", c->accepted);
    pn_json_end(json);
  }
  pn_json_end(json);
}

static void put_precision(pn_json *json, const pn_run *run) {
  const pn_low_result *low = &pn_training_result(run->training)->low;
  pn_precision p;
  pn_json_string(json, "precision", run->problem->numbers.compute);
  pn_json_string(json, "precision_weights", run->problem->numbers.master);
  pn_json_string(json, "precision_errors", tn_dtype_name(run->model->dtype));
  if (!pn_training_low(run->training, &p))
    return;
  pn_json_object(json, "low");
  pn_json_string(json, "format", tn_dtype_name(p.low));
  pn_json_boolean(json, "pure", p.pure);
  pn_json_number(json, "share", low->flops > 0 ? low->flops_low / low->flops : NAN);
  pn_json_integer(json, "skipped_steps", (int64_t)low->skips);
  pn_json_integer(json, "forward_overflows", (int64_t)low->forward);
  pn_json_number(json, "updates_lost", low->moved > 0 ? low->lost / low->moved : 0);
  pn_json_number(json, "gradients_zero", low->entries > 0 ? low->zeros / low->entries : 0);
  pn_json_number(json, "floor", run->floor);
  pn_json_array(json, "loss_scale"); /* step, scale, step, scale, ... */
  for (size_t i = 0; i < low->n_events; ++i) {
    pn_json_number(json, NULL, low->event[i].step);
    pn_json_number(json, NULL, low->event[i].scale);
  }
  pn_json_end(json);
  size_t n = 0;
  const pn_channel *c = pn_loss_channel_list(pn_training_loss(run->training), &n);
  pn_json_object(json, "channels");
  for (size_t i = 0; i < n; ++i) {
    char name[160];
    snprintf(name, sizeof name, "%.40s_%.96s", c[i].field, c[i].label);
    pn_json_object(json, name);
    pn_json_integer(json, "exponent", -c[i].exponent);
    pn_json_number(json, "largest", c[i].largest);
    pn_json_integer(json, "overflows", (int64_t)c[i].overflows);
    pn_json_end(json);
  }
  pn_json_end(json);
  pn_json_end(json);
}

static void put_environment(pn_json *json, const pn_run *run) {
  pn_json_number(json, "peak_mib", pn_peak_mib());
  pn_json_integer(json, "threads", (int64_t)tn_pool_threads(run->pool));
  pn_json_integer(json, "ranks", (int64_t)pn_ranks_size(&run->ranks));
  pn_json_string(json, "device", tn_device_name(run->options->device));
  pn_json_string(json, "isa", tn_isa());
  pn_json_string(json, "blas", pn_blas_name());
  put_precision(json, run);
  pn_json_integer(json, "seed", (int64_t)run->seed);
  pn_json_string(json, "version", pn_version());
}

tn_status pn_summary_write(const pn_run *run) {
  const pn_train_result *r = pn_training_result(run->training);
  size_t n = 0;
  const double *theta = pn_training_theta(run->training, &n);
  char digest[65], *path = NULL;
  pn_json *json = NULL;
  pn_outcome outcome = run->failure != NULL ? PN_NONFINITE : r->outcome;
  pn_sha256_text(theta, n * sizeof *theta, digest);
  TN_TRY(pn_json_new(&json));
  pn_json_object(json, NULL);
  pn_json_string(json, "problem", run->problem->source.file);
  pn_json_string(json, "title", run->problem->title);
  pn_json_string(json, "sha256", run->sha256);
  pn_json_boolean(json, "converged", outcome == PN_CONVERGED);
  pn_json_integer(json, "exit_status", outcome);
  if (run->failure != NULL)
    pn_json_string(json, "failure", run->failure);
  put_fields(json, run);
  tn_status status = pn_json_found(json, run);
  pn_json_number(json, "loss", r->loss);
  put_terms(json, run);
  put_checks(json, run);
  pn_json_number(json, "seconds", run->seconds);
  pn_json_number(json, "training_seconds", r->seconds);
  pn_json_integer(json, "steps", (int64_t)r->steps);
  pn_json_array(json, "stop_reasons");
  for (size_t i = 0; i < r->n_stages; ++i) {
    if (r->stages[i].reason[0] != '\0')
      pn_json_string(json, NULL, r->stages[i].reason);
  }
  pn_json_end(json);
  if (status == TN_OK)
    status = put_warnings(json, run);
  if (r->detector[0] != '\0')
    pn_json_string(json, "detector", r->detector);
  pn_json_integer(json, "weights", (int64_t)n);
  pn_json_string(json, "weights_sha256", digest);
  put_environment(json, run);
  pn_json_end(json);
  if (status == TN_OK)
    status = pn_path_join(run->folder, "summary.json", &path);
  if (status == TN_OK)
    status = pn_json_write(json, path);
  tn_free(&path);
  pn_json_free(&json);
  return status;
}
