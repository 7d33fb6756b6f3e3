/* train_inside.h: what train.c, train_run.c, train_low.c, train_state.c and train_accept.c share. */
#ifndef PINN_TRAIN_INSIDE_H
#define PINN_TRAIN_INSIDE_H

#include "pinn/scaler.h"
#include "pinn/train.h"

/* The problem in one precision: graph, leaves, programs. theta has the same layout in all. */
typedef struct pn_edition {
  pn_precision precision; /* master does not matter */
  pn_model *model;        /* NULL: that of main, with its scopes */
  pn_scopes *scopes;
  pn_loss *loss;
} pn_edition;

struct pn_training {
  pn_problem *problem; /* borrowed, as pool */
  tn_pool *pool;
  pn_train_options options;
  pn_plan plan;
  pn_sites *sites;
  pn_edition main; /* of the problem's precision; its model is borrowed */
  size_t n_others; /* of the precisions of stages that differ; owned */
  pn_edition *others;
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
  pn_loss *loss;                  /* of the present stage: that of an edition */
  bool scaled;                    /* the present stage has a loss scale */
  pn_scaler scaler;               /* then */
  double flops[2];                /* low and all, of earlier parts of a resumed run */
  pn_opt *opt;                    /* of the present stage; NULL between stages */
  size_t stage, stage_step, step; /* stages and steps done */
  size_t round;                   /* refinements in this stage */
  double mark_loss;               /* stall: loss at step mark_step of the stage */
  size_t mark_step;
  double seconds; /* of earlier runs and this one, up to the last look at the clock */
  double stage_seconds;
  double clock;        /* when `seconds` was last brought up to date */
  double saved, shown; /* `seconds` at the last checkpoint and the last progress call */
  size_t look_at;      /* step of the stage before which the ranks next tell each other what they see */
  double step_seconds;
  double *relative; /* [n_terms] scratch of progress calls */
  double *error;    /* [n_unknowns] likewise: the last errors measured */
  double *parameter; /* [n_parameters] likewise: their values */
  size_t causal_level; /* of the ladder of eps */
  double *causal;      /* [problem->chunks] weights of the chunks; NULL: none */
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
/* Low formats (train_low.c). Before the weights of a stage are found: channels, scaler. After: the frozen scale. */
tn_status pn_low_prepare(pn_training *t) TN_MUST_USE;
tn_status pn_low_open(pn_training *t) TN_MUST_USE;
void pn_low_attach(
    pn_training *t); /* the scaler to the loss of the present stage, as t->scaled says */
tn_status pn_low_resampled(pn_training *t) TN_MUST_USE; /* after new points within a stage */
/* After each step of a stage: rounds theta, moves the scale. *again: the step was skipped and training goes on;
 * otherwise a report of something not finite stands. end: reason of an end of the stage or run, or as it was. */
tn_status pn_low_after(pn_training *t, const pn_step_report *report, bool *again,
                       char end[160]) TN_MUST_USE;
/* The loss at theta is not finite between steps: *mended says that channels had outgrown their powers of two and
 * have larger ones now. */
tn_status pn_low_mend(pn_training *t, bool *mended) TN_MUST_USE;
/* Brings result.low up to date. */
void pn_low_sum(pn_training *t);
/* What made a pure or scaled run fail, for the detector; "" if nothing is known. */
void pn_low_detect(const pn_training *t, char *text, size_t size);
tn_status pn_low_visit(pn_training *t, pn_state_visitor *visitor, bool open) TN_MUST_USE;

/* train_causal.c: weights by time from the losses of the chunks at theta; they are handed over. */
tn_status pn_causal_new(pn_training *t) TN_MUST_USE;
tn_status pn_causal_update(pn_training *t) TN_MUST_USE;
/* Between two steps: is it time for it? The optimizer is told. */
tn_status pn_causal_step(pn_training *t) TN_MUST_USE;
tn_status pn_causal_visit(pn_training *t, pn_state_visitor *v) TN_MUST_USE;

/* Replaces the points of the volumes by where the residual is large. */
tn_status pn_training_refine(pn_training *t) TN_MUST_USE;

tn_status pn_history_add(pn_history *history, const pn_progress *progress) TN_MUST_USE;
void pn_history_free(pn_history *history);

/* Does the file ask for something that can end a run early? */
bool pn_training_can_accept(const pn_training *t);
/* Fills the field errors of the result; met: errors and residuals are inside their limits with a
 * margin. */
tn_status pn_training_try(pn_training *t, bool *met) TN_MUST_USE;
/* Between the stages of a plan that begins with lm: is the problem solved well enough to leave out the rest? */
tn_status pn_training_enough(pn_training *t, bool *enough) TN_MUST_USE;
/* How well parameters and hidden fields are determined: result.identified and intervals. */
tn_status pn_training_identify(pn_training *t) TN_MUST_USE;
double pn_student(double dof); /* 97.5 % quantile; 0: of the normal distribution */
/* The verdict on theta. */
tn_status pn_training_judge(pn_training *t) TN_MUST_USE;

#endif
