/* metrics_inside.h: what metrics.c and metrics_terms.c share. */
#ifndef PINN_METRICS_INSIDE_H
#define PINN_METRICS_INSIDE_H

#include "pinn/metrics.h"

enum {
  PN_BLOCK = 1024,   /* points a run of a program */
  PN_MOST_PARTS = 24 /* top-level terms of a relation that are told apart */
};

typedef struct pn_group { /* unknowns of the same arguments */
  size_t n_of, of[PN_MAX_COORDINATES];
  size_t extent[2]; /* 0: scattered */
  pn_site points;
  pn_scope scope, exact;
  size_t n;        /* unknowns */
  size_t *unknown; /* which */
  size_t n_blocks; /* of points */
  pn_feed *block;  /* the points of each */
  tn_program *program;
  tn_exec *exec;
} pn_group;

/* Terms that are checked together: those of the loss, or those met by construction. */
typedef struct pn_part {
  pn_scopes *scopes;
  pn_sites *sites; /* validation points */
} pn_part;

enum { PN_TRAINED, PN_BUILT_IN, PN_CHECKED, PN_PARTS };

typedef struct pn_check_row { /* one relation at one site */
  size_t part, m, r, site;
  size_t output; /* F; then n_parts sums of squares */
  size_t n_parts;
  bool batched;
  bool part_batched[PN_MOST_PARTS];
  double noise;           /* sum of (F / sigma_i)^2 */
  double residual, worst; /* sum of F^2 and largest |F| of the last check, and its point */
  size_t worst_at;
  double sum[PN_MOST_PARTS]; /* of squares of the parts; the square where a part is one number */
} pn_check_row;

struct pn_metrics {
  pn_scopes *scopes;
  pn_model *model;
  tn_pool *pool;
  uint64_t seed;
  size_t n_groups;
  pn_group *groups;
  size_t *group_of; /* one an unknown */
  double **exact;   /* one an unknown; NULL without exact solution */
  bool **lives;     /* one an unknown: at which points of its group; NULL: at all */
  double *value;    /* scratch: points times unknowns of a group, the most of all */
  pn_part part[PN_PARTS];
  pn_sites *hard, *checks; /* those of part[PN_BUILT_IN] and part[PN_CHECKED] */
  size_t n_rows, n_outputs;
  pn_check_row *rows;
  size_t n_shares; /* validation points run through the program in so many parts */
  pn_feed *share;
  tn_program *check_program;
  tn_exec *check_exec;
  pn_weights_buffer theta;
};

bool pn_is_batched(tn_value value); /* a value a point? */
void pn_clear_feeds(size_t n, pn_feed **feeds);
/* metrics_terms.c: the program and points of the terms. */
tn_status pn_metrics_compile_terms(pn_metrics *metrics) TN_MUST_USE;

#endif
