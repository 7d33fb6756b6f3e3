/* train_inside.h: what train.c, train_run.c, train_state.c and train_accept.c share. */
#ifndef PINN_TRAIN_INSIDE_H
#define PINN_TRAIN_INSIDE_H

#include "pinn/train.h"

/* The problem in one precision: graph, leaves, programs. theta has the same layout in all. */
typedef struct pn_edition {
  pn_model *model;
  pn_scopes *scopes;
  pn_loss *loss;
} pn_edition;

struct pn_training {
  pn_problem *problem; /* borrowed, as pool */
  tn_pool *pool;
  pn_train_options options;
  pn_plan plan;
  pn_sites *sites;
  pn_edition main;  /* of the problem's precision; its model is borrowed */
  pn_edition other; /* of the other precision, if a stage asks for it; owned */
  pn_metrics *metrics;
  const pn_weight_class *scheme;
  size_t n;         /* parameters */
  double *theta;    /* [n] */
  double *good;     /* [n] the last theta whose loss is known to be finite */
  double *incoming; /* [n] scratch */
  double *weight;   /* [n_terms] of the present stage */
  size_t n_scales;
  double *scale;                  /* of all relations of all terms, one after another */
  double *size;                   /* [n_unknowns] before rounding */
  pn_loss *loss;                  /* of the present stage: main.loss or other.loss */
  pn_opt *opt;                    /* of the present stage; NULL between stages */
  size_t stage, stage_step, step; /* stages and steps done */
  size_t round;                   /* refinements in this stage */
  double mark_loss;               /* stall: loss at step mark_step of the stage */
  size_t mark_step;
  double seconds; /* of earlier runs and this one, up to the last look at the clock */
  double stage_seconds;
  double clock;        /* when `seconds` was last brought up to date */
  double saved, shown; /* `seconds` at the last checkpoint and the last progress call */
  double step_seconds;
  double *relative; /* [n_terms] scratch of progress calls */
  double *error;    /* [n_unknowns] likewise: the last errors measured */
  pn_history history;
  pn_train_result result;
  const char **texts; /* n_unknowns + n_terms, in the model's arena */
};

double pn_training_clock(void); /* seconds, monotonic */
/* Draws points and hands scales and weights to the loss of the present stage. */
tn_status pn_training_draw(pn_training *t) TN_MUST_USE;
tn_status pn_training_apply(pn_training *t) TN_MUST_USE;
/* t->loss for the precision of stage s. */
tn_status pn_training_choose(pn_training *t, size_t s) TN_MUST_USE;
tn_status pn_training_optimizer(pn_training *t, size_t s) TN_MUST_USE;
/* Replaces the points of the volumes by where the residual is large. */
tn_status pn_training_refine(pn_training *t) TN_MUST_USE;

tn_status pn_history_add(pn_history *history, const pn_progress *progress) TN_MUST_USE;
void pn_history_free(pn_history *history);

/* Does the file ask for something that can end a run early? */
bool pn_training_can_accept(const pn_training *t);
/* Fills the field errors of the result; met: errors and residuals are inside their limits with a
 * margin. */
tn_status pn_training_try(pn_training *t, bool *met) TN_MUST_USE;
/* The verdict on theta. */
tn_status pn_training_judge(pn_training *t) TN_MUST_USE;

#endif
