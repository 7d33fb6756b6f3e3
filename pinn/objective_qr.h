/* objective_qr.h: what objective_qr.c and objective_tsqr.c share. Inside pinn/ only. */
#ifndef PINN_OBJECTIVE_QR_H
#define PINN_OBJECTIVE_QR_H

#include "pinn/factor.h"
#include "pinn/objective_inside.h"

typedef struct pn_leaf {
  size_t m;      /* rows */
  size_t first;  /* of its rows in the gathered order */
  size_t height; /* rows of its triangle that are not zero by structure */
  double *A;     /* m x n, by columns: R and the reflectors below it; of own leaves, as tau */
  double *tau;   /* min(m, n) */
  double *C; /* n x n, by columns: R; after its merge into another one, the reflectors of that */
  double *T; /* PN_QR_PANEL x n: block factors of that merge */
  size_t merged; /* rows that this merge had */
  double *q;     /* n: its part of Q^T w */
  tn_status status;
  char text[256]; /* of a failure */
} pn_leaf;

struct pn_qr {
  tn_program *program; /* outputs: of each row i its values, then its rows of J by each block */
  size_t n_workers;
  tn_exec **exec; /* one a worker */
  bool ready;     /* what follows fits the present points */
  size_t n_leaves, per_leaf;
  size_t own_first, own_last; /* leaves of this rank */
  pn_leaf *leaves; /* of the others' only those at the roots of their subtrees have storage: C, T, q */
  pn_feed *share;  /* [n_leaves * per_leaf], of own leaves */
  size_t *at;      /* [n_rows] first entry of row i in r */
  double *r;       /* N, as the residual slot orders it */
  double *gather;  /* N: w in the order of the leaves */
  size_t *todo;    /* [n_leaves] what a level of the tree runs on */
  const tn_factor *factor; /* of leaves */
  tn_factor_work **work;   /* n_workers */
  double *merge_work;      /* n_workers x PN_QR_PANEL n */
  size_t *bytes;           /* [ranks] of a message */
  double *send, *receive;  /* room for messages; NULL: one rank */
  bool factored;           /* Q belongs to the last call of qr */
};

enum { PN_QR_PANEL = 32 /* columns a block of dtpqrt */ };

/* objective_qr.c */
/* Residuals of row i in a share; false: none. */
bool pn_qr_part(const pn_loss *l, size_t i, size_t share, size_t *first, size_t *count);
/* The rows of J of leaf k into its A and of r into q->r. */
tn_status pn_qr_fill(const pn_loss *l, size_t k, tn_exec *exec) TN_MUST_USE;

/* objective_tsqr.c */
/* The leaves of rank `rank` of `ranks`. */
void pn_qr_own(size_t n_leaves, size_t ranks, size_t rank, size_t *first, size_t *last);
/* Leaves of the subtree at leaf k, if a rank owns `last` as the end of its leaves and k is where a subtree begins. */
size_t pn_qr_subtree(size_t k, size_t last);
/* Works and room for messages; the leaves have their sizes. */
tn_status pn_qr_room(pn_loss *l) TN_MUST_USE;
void pn_qr_clear_room(pn_qr *q);
/* Leaves and tree: q->leaves[0].C holds R, q->r the residuals, on every rank. */
tn_status pn_qr_factor(pn_loss *l) TN_MUST_USE;
/* out[n] = the first n entries of Q^T w. */
tn_status pn_qr_apply(pn_loss *l, const double *w, double *out) TN_MUST_USE;

#endif
