/* objective_inside.h: what objective.c, objective_rows.c and objective_explain.c share. */
#ifndef PINN_OBJECTIVE_INSIDE_H
#define PINN_OBJECTIVE_INSIDE_H

#include "pinn/objective.h"

typedef struct pn_row { /* one relation at one site */
  size_t m, r, site;
  size_t n;                       /* residuals bound now: points, or 1 */
  bool batched;                   /* has a value a point */
  tn_value raw_value, raw_weight; /* F and W with calls of fields; W: graph NULL: 1 */
  tn_value value;                 /* F, resolved */
  tn_value weight;                /* W; graph NULL: 1 */
  tn_value scaled;                /* F / s */
} pn_row;

typedef struct pn_loss_term {
  double weight; /* w_m */
  size_t count;  /* C_m */
  size_t n_relations;
  double *scale;     /* s, one a relation */
  tn_value *inverse; /* 1 / s: run-time numbers of the model's dtype */
  tn_value factor;   /* w_m / C_m: a run-time number, f64 */
  double factor_value;
  tn_value sum; /* S_m, f64 */
} pn_loss_term;

typedef struct pn_program {
  tn_program *program;
  tn_exec *exec;
} pn_program;

enum { PN_PROGRAMS = 8 }; /* of a loss, without those of the rows */

typedef struct pn_qr pn_qr; /* objective_qr.c: rows of J and their factorisation */

/* objective_low.c */
typedef struct pn_work { /* FLOPs in matrix products */
  double low, total;
} pn_work;
typedef struct pn_product {
  tn_axis axis; /* of the points; 0: none */
  double flops; /* a point */
  bool low;     /* what is multiplied is of a low format */
} pn_product;
typedef struct pn_products { /* of a program */
  size_t n;
  pn_product *list; /* owned */
} pn_products;

struct pn_loss {
  pn_scopes *scopes; /* borrowed, as the next three */
  pn_model *model;
  pn_sites *sites;
  tn_pool *pool;
  pn_objective objective;
  size_t n_terms, n_rows;
  size_t *order; /* terms by name */
  pn_loss_term *terms;
  pn_row *rows;
  tn_value loss;
  ag_resolve_report channels;
  pn_weights_buffer theta;
  pn_feed feed;
  bool bound;
  double *last, *sums; /* L_m and S_m of the last evaluation */
  pn_program gradient, value;
  /* Made on demand by objective_rows.c. */
  pn_program residual, forward, backward, second, sizes, several;
  size_t sizes_site;
  tn_value *weighted;  /* [n_rows] sqrt(w_m / C_m W) F / s */
  tn_value *direction; /* [n_blocks] inputs: v, of forward and second */
  tn_value *cotangent; /* [n_rows] inputs: w */
  pn_weights_buffer v;
  pn_weights_buffer *set; /* [PN_SETS] thetas of `several` */
  pn_qr *qr;
  pn_precision precision;
  tn_value loss_scale; /* S: a run-time number, f64; graph NULL: not in the programs */
  pn_scaler *scaler;   /* borrowed; NULL: S = 1 */
  bool counts;         /* work */
  pn_products gradient_products, value_products; /* none unless it counts */
  pn_work gradient_work, value_work;             /* a run, at the points bound now */
  pn_work done;                                  /* so far */
  size_t zeros;                                  /* of the last gradient */
  size_t n_channels;
  pn_channel *channel;
  size_t n_chunks; /* of the time, for causal weights; 0: none */
  tn_value *chunk; /* [n_chunks] their weights: run-time numbers of the model's dtype */
  double *chunk_weight;
  pn_program chunks; /* F / s of all rows, for the sums of chunks */
};

/* Copies of the loss in the program of several losses. */
enum { PN_SETS = 4 };

tn_status pn_loss_run(pn_loss *l, const pn_program *slot, const double *theta) TN_MUST_USE;
tn_status pn_slot_new(pn_loss *l, size_t n, const tn_value *outputs, pn_program *out) TN_MUST_USE;
void pn_slot_free(pn_program *slot);
/* Binds theta, points and numbers of the present points to an executor. */
tn_status pn_loss_hand_over(pn_loss *l, tn_exec *exec) TN_MUST_USE;
tn_status pn_loss_one(pn_objective *f, const double *theta, double *loss) TN_MUST_USE;
/* Residuals, sums and programs again, with the channel scales of l->channel. */
tn_status pn_loss_rebuild(pn_loss *l) TN_MUST_USE;
/* Roots without calls of fields: *values[2 i] and [2 i + 1] of row i (graph NULL: no weight); tn_free. scaled: with
 * the channel scales. */
tn_status pn_loss_resolve(pn_loss *l, bool scaled, tn_value **values,
                          ag_resolve_report *report) TN_MUST_USE;
/* L, S and gradient of the last run of the gradient's program, as they are (times S). */
tn_status pn_loss_read_gradient(pn_loss *l, double *loss, double *gradient) TN_MUST_USE;

/* objective_low.c: casts outputs by the precision; in place. The gradient by its scaler. */
tn_status pn_loss_cast(const pn_loss *l, size_t n, tn_value *outputs) TN_MUST_USE;
tn_status pn_loss_set_scale_of(pn_loss *l, tn_exec *exec, double scale) TN_MUST_USE;
tn_status pn_loss_gradient(pn_objective *f, const double *theta, double *loss, double *gradient);
/* The matrix products of a program, and the work of one run of it at the points bound now. */
tn_status pn_products_new(const tn_program *program, pn_products *out) TN_MUST_USE;
void pn_products_free(pn_products *products);
pn_work pn_loss_work_of(const pn_loss *l, const pn_products *products);
/* Both for the programs of loss and gradient, if work is counted. */
tn_status pn_loss_find_products(pn_loss *l) TN_MUST_USE;
void pn_loss_update_work(pn_loss *l);
/* Label k of a group, "t - c0*xx"; false if there is none (reports keep the first 512 characters). */
bool pn_group_label(const ag_group_report *group, size_t k, char *label, size_t size);
/* ag_resolve_options.scale; context: the loss. */
int pn_loss_exponent(void *context, const char *field, const char *label);

/* objective_causal.c: the weight by time of an equation's row, times what the row has; numbers for an executor. */
tn_status pn_causal_row(pn_loss *l, pn_row *row, pn_scope *scope) TN_MUST_USE;
tn_status pn_causal_bind(const pn_loss *l, tn_exec *exec) TN_MUST_USE;

/* Slots of objective_rows.c. */
tn_status pn_loss_residual(pn_objective *f, const double *theta, double *r);
tn_status pn_loss_jvp(pn_objective *f, const double *theta, const double *v, double *out);
tn_status pn_loss_vjp(pn_objective *f, const double *theta, const double *w, double *out);
tn_status pn_loss_second(pn_objective *f, const double *theta, const double *v, double *out);
tn_status pn_loss_losses(pn_objective *f, size_t count, const double *thetas, double *losses);
/* l->weighted, made when first asked for. */
tn_status pn_loss_need_weighted(pn_loss *l) TN_MUST_USE;
void pn_loss_rows_free(pn_loss *l);

/* Slots of objective_qr.c. */
tn_status pn_loss_rows(pn_objective *f, const double *theta, size_t first, size_t count, double *r,
                       double *J);
tn_status pn_loss_qr(pn_objective *f, const double *theta, double *loss, double *R, double *qtr);
tn_status pn_loss_qt(pn_objective *f, const double *w, double *out);
/* New points, weights or scales are bound. */
tn_status pn_qr_bind(pn_loss *l) TN_MUST_USE;
size_t pn_qr_bytes(const pn_loss *l);
void pn_qr_free(pn_loss *l);

#endif
