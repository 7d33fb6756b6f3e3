/* objective.h: the loss of a problem as a pn_objective over theta. Inside pinn/ only.
 *
 *   L(theta) = sum_m w_m / C_m sum_{relations, points} W (F / s)^2
 *
 * F = lhs - rhs of a relation, s its scale, W the weight expression of the term (1 if none), w_m
 * its weight, C_m the number of residuals of the term. s, w and C are run-time numbers, N is bound
 * at run time: new points, weights and scales need no new program.
 */
#ifndef PINN_OBJECTIVE_H
#define PINN_OBJECTIVE_H

#include "pinn/model.h"
#include "pinn/opt.h"
#include "pinn/points.h"
#include "pinn/precision.h"
#include "pinn/scaler.h"

/* ---- Scopes and their points (scopes.c) ------------------------------------------------------ */

/* One scope a site, made when first asked for and shared by the loss, the scales and the
 * validation: the same leaves, bound to other points in another executor. */
typedef struct pn_scopes pn_scopes;
/* Both borrowed. `sites` gains sites for means when pn_scopes_mean is called. */
tn_status pn_scopes_new(pn_model *model, pn_sites *sites, pn_scopes **out) TN_MUST_USE;
void pn_scopes_free(pn_scopes **scopes);
pn_model *pn_scopes_model(const pn_scopes *scopes);
pn_sites *pn_scopes_sites(const pn_scopes *scopes);
tn_status pn_scopes_at(pn_scopes *scopes, size_t site, pn_scope **out) TN_MUST_USE;
/* After lowering in the scope of `site`: if a mean was made, its points become a site too (not
 * drawn). */
tn_status pn_scopes_mean(pn_scopes *scopes, size_t site) TN_MUST_USE;
/* The site of those points; PN_NONE. */
size_t pn_scopes_mean_site(const pn_scopes *scopes, size_t site);

/* Buffers for leaves: coordinates and tables of scopes at some points. */
typedef struct pn_feed {
  size_t n;
  tn_value *leaf;
  tn_buffer **buffer;
} pn_feed;
/* Adds points first .. first + count - 1 of a site as those of a scope (any scope with these
 * coordinates free). */
tn_status pn_feed_site(pn_feed *feed, pn_scopes *scopes, const pn_scope *scope,
                       const pn_site *points, size_t first, size_t count) TN_MUST_USE;
/* Adds all sites of `points` (laid out like the scopes' own), means included. batch > 0: of sites
 * with more points, only `batch` of them, moving on with `step`. */
tn_status pn_feed_all(pn_feed *feed, pn_scopes *scopes, const pn_sites *points, size_t batch,
                      size_t step) TN_MUST_USE;
/* The share-th of `shares` parts of n points in order: *count of them from *first. With fewer points
 * than shares some shares have none: then false, and point 0 stands in. */
bool pn_share(size_t n, size_t share, size_t shares, size_t *first, size_t *count);
/* Adds that share of every site, and all points of means. */
tn_status pn_feed_share(pn_feed *feed, pn_scopes *scopes, const pn_sites *points, size_t share,
                        size_t shares) TN_MUST_USE;
void pn_feed_clear(pn_feed *feed);
tn_status pn_feed_bind(const pn_feed *feed, tn_exec *exec) TN_MUST_USE; /* for a program */
tn_status pn_feed_bind_graph(const pn_feed *feed) TN_MUST_USE;          /* for tn_eval */

/* theta as the parameter leaves of the model: one buffer of its dtype and a view a block. */
typedef struct pn_weights_buffer {
  tn_buffer *whole;
  tn_buffer **block; /* n_blocks views */
} pn_weights_buffer;
tn_status pn_theta_new(const pn_model *model, pn_weights_buffer *out) TN_MUST_USE;
void pn_theta_free(const pn_model *model, pn_weights_buffer *buffer);
tn_status pn_theta_set(const pn_model *model, pn_weights_buffer *buffer,
                       const double *theta) TN_MUST_USE; /* rounds to the dtype */
/* Binds the blocks and sets the unknowns' scales. */
tn_status pn_theta_bind(const pn_model *model, const pn_weights_buffer *buffer,
                        tn_exec *exec) TN_MUST_USE;

/* ---- The loss -------------------------------------------------------------------------------- */

typedef struct pn_loss pn_loss;

/* Lowers every residual at the scopes' sites and compiles the programs of loss and gradient. The
 * model's unknown_scale is read at every pn_loss_bind, which must come before the first
 * evaluation. */
tn_status pn_loss_new(pn_scopes *scopes, tn_pool *pool, pn_loss **out) TN_MUST_USE;
/* The same in a precision whose `model` is the model's dtype. Low formats: the loss, its gradient and the gradients
 * of its terms are cast (ag_cast); all other slots stay in the model's dtype, and those of rows are refused. */
tn_status pn_loss_new_in(pn_scopes *scopes, tn_pool *pool, const pn_precision *precision,
                         pn_loss **out) TN_MUST_USE;
void pn_loss_free(pn_loss **loss);
/* The optimizers' view; borrowed. Terms are those of sites->terms, in that order. Slots: loss,
 * gradient, terms, residual, jvp, vjp. */
pn_objective *pn_loss_objective(pn_loss *loss);

/* After new points, weights or scales: hands them to the programs. */
tn_status pn_loss_bind(pn_loss *loss) TN_MUST_USE;
/* The same with at most `batch` points of every site, the next ones at every step; 0: all. */
tn_status pn_loss_bind_batch(pn_loss *loss, size_t batch, size_t step) TN_MUST_USE;
/* Weight and scales of term m; effective from the next pn_loss_bind. Scale r belongs to relation
 * r. */
void pn_loss_set_weight(pn_loss *loss, size_t m, double weight);
double pn_loss_weight(const pn_loss *loss, size_t m);
void pn_loss_set_scale(pn_loss *loss, size_t m, size_t r, double scale);
double pn_loss_scale(const pn_loss *loss, size_t m, size_t r);
size_t pn_loss_relations(const pn_loss *loss, size_t m);
const pn_term *pn_loss_term_of(const pn_loss *loss, size_t m);

/* L_m of the last evaluation of loss or gradient, n_terms numbers. */
const double *pn_loss_last_terms(const pn_loss *loss);
/* sqrt of the mean of W (F / s)^2 of term m there: the residual relative to the term's scale. */
double pn_loss_last_relative(const pn_loss *loss, size_t m);

/* Groups and channels that derivatives were planned into. */
const ag_resolve_report *pn_loss_channels(const pn_loss *loss);
size_t pn_loss_bytes(const pn_loss *loss); /* storage of the programs that exist */
/* The rows r of site `site`'s users as |F / s| combined over terms and relations, on other points
 * of the same site (refinement): size[i] = sqrt(sum of squares). */
tn_status pn_loss_sizes(pn_loss *loss, const double *theta, size_t site, const pn_site *points,
                        double *size) TN_MUST_USE;

/* After a loss that is not finite: an error of code TN_ENONFINITE whose text names the residual,
 * the sub-expression, the point and the step. TN_OK if nothing non-finite is found. */
tn_status pn_objective_explain(pn_loss *loss, const double *theta, size_t step) TN_MUST_USE;

/* ---- Low precision (objective_low.c) --------------------------------------------------------- */

const pn_precision *pn_loss_precision(const pn_loss *loss);
/* Gradients are scaled by it from now on: by begin, backward, reduce, unscale and look, or, while it is frozen, by
 * pn_scaler_closure; then a gradient that is not finite comes with an infinite loss. NULL: no scale. Borrowed. */
void pn_loss_use_scaler(pn_loss *loss, pn_scaler *scaler);
/* Freezes the scaler at 2^-10 of the largest power of two with a finite gradient at theta; at its least scale if
 * there is none. */
tn_status pn_loss_freeze(pn_loss *loss, const double *theta, pn_scaler *scaler) TN_MUST_USE;
/* Counts the FLOPs in matrix products of all losses and gradients from now on, and of those on numbers of a low format
 * (0 before). */
tn_status pn_loss_count_work(pn_loss *loss) TN_MUST_USE;
void pn_loss_work(const pn_loss *loss, double *low, double *total);
/* Entries of the last gradient that are exactly zero, of n; for messages about underflow. */
size_t pn_loss_zeros(const pn_loss *loss);

/* ---- Channel scales (objective_channels.c) ------------------------------------------------------ */

/* A derivative of a network as products carry it: 2^-exponent times its value. */
typedef struct pn_channel {
  const char *field; /* of the model */
  char label[96];    /* as in reports: "xx", "t - c0*xx" */
  int exponent;
  double largest;   /* |value| in hidden layers when last measured; 0: never */
  size_t overflows; /* times that it was too large for the low format */
} pn_channel;
/* Measures the channels at theta on at most `points` points of each site (0: all), in the model's dtype and
 * without scales; *over: one of them exceeds the low format as it is scaled now; counted if `count`. */
tn_status pn_loss_measure(pn_loss *loss, const double *theta, size_t points, bool count,
                          bool *over) TN_MUST_USE;
/* Chooses exponents that bring the largest |value| to 2^5 / `margin` and builds the programs anew if one has
 * *changed. margin >= 1. Points stay bound; what executors held is lost. */
tn_status pn_loss_rescale(pn_loss *loss, double margin, bool *changed) TN_MUST_USE;
/* n = 0 before the first measurement. */
const pn_channel *pn_loss_channel_list(const pn_loss *loss, size_t *n);
/* The exponents and counts as a checkpoint sees them; restoring builds the programs anew. */
tn_status pn_loss_visit_channels(pn_loss *loss, pn_state_visitor *visitor) TN_MUST_USE;

/* ---- Causal weights (objective_causal.c) -------------------------------------------------------- */

/* L_k: mean of (F / s)^2 of all equations at the points of chunk k of the time; 0 where there is no point. */
tn_status pn_causal_losses(pn_loss *loss, const double *theta, double *sums) TN_MUST_USE;
/* Weights of the chunks, from the next pn_loss_bind on; [n_chunks]. */
void pn_causal_set(pn_loss *loss, const double *weight);

/* ---- Scales (scale.c) ------------------------------------------------------------------------ */

/* Sets model->unknown_scale (powers of two) and unknown_scale_source. The points of the sites must
 * be drawn. size (may be NULL) gets the sizes before rounding, one an unknown. */
tn_status pn_scale_unknowns(pn_scopes *scopes, double *size) TN_MUST_USE;
/* Sets every relation's scale, a power of two. text[m] (arena of the model, may be NULL): words
 * for the banner, "burgers by 1.1 (u*u_x)", one a term. */
tn_status pn_scale_terms(pn_scopes *scopes, const double *unknown_size, pn_loss *loss,
                         const char **text) TN_MUST_USE;
/* Size of relation r of term m for given sizes of the unknowns; not rounded. `largest` (may be
 * NULL) gets the expression of the largest top-level term. */
tn_status pn_relation_size(pn_scopes *scopes, size_t m, size_t r, const double *unknown_size,
                           double *size, const pn_expr **largest) TN_MUST_USE;

/* data_weights.c: conditions with sigma. The factors of the file times what sigma says of them; and, after a
 * scheme has changed them from `before`, the same change for all of them. Arrays of n terms. */
void pn_data_weigh(const pn_loss *loss, size_t n, double *weight);
void pn_data_join(const pn_loss *loss, size_t n, const double *before, double *weight);

/* ---- Weights: one file weight_<name>.c and a line in weight_list.c --------------------------- */

typedef struct pn_weight_class {
  const char *name;
  const char *doc;
  /* weight[m] (in: the factors of the file) becomes the weights of a stage that starts at theta. */
  tn_status (*start)(pn_loss *loss, const double *theta, double *weight);
} pn_weight_class;
const pn_weight_class *const *pn_weight_classes(size_t *count);
tn_status pn_weight_find(const char *name, const pn_weight_class **out) TN_MUST_USE;

#endif
