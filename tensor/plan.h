/* plan.h: how the streamed executor runs a program.
 *
 * Stages. A sum over points is known when its loop has ended, so what needs it belongs to a later stage:
 *     stage(node) = max over inputs of stage(input) + (1 if the input is a sum over points or changes panels),
 * where a cast of points from or to f64 changes the width of panels.
 * In a stage, nodes without points run first; then one loop for each kind of points (axis, panel width) in
 * which something of this stage is wanted: a sum, an output with points, the operand of such a cast; then casts.
 *
 * Loops. Values with points live in tiles and do not outlast their loop: a later loop computes again what it
 * needs. Only outputs with points and operands and results of such casts lie in whole arrays.
 *
 * Steps. Inside a loop elementwise nodes, casts among f32 and low formats, and jets of one width that can run together become one strip program
 * (strip.h): matrix products, structure and sums stand between them. Values inside a run need no storage.
 */
#ifndef TENSOR_PLAN_H
#define TENSOR_PLAN_H

#include "tensor/fuse.h"
#include "tensor/program.h"
#include "tensor/strip.h"

typedef enum tn_operand_kind {
  TN_OPERAND_TILE,   /* a value with points of the run's width: a part of the tile */
  TN_OPERAND_SCALAR, /* one number without points, repeated over a strip */
  TN_OPERAND_UNITS,  /* a value without points: each unit repeated over the lanes of a panel */
  TN_OPERAND_SPREAD  /* one number a point, repeated over the units */
} tn_operand_kind;

typedef struct tn_operand {
  tn_operand_kind kind;
  size_t port;
  bool idle; /* no instruction reads the strip: numbers that went into instructions */
} tn_operand;

/* Registers: operands, results, temporaries. */
typedef struct tn_run {
  tn_dtype dtype; /* that its instructions compute in */
  size_t width;
  size_t n_operands, n_results, n_temporaries, count;
  tn_operand *operands;
  size_t *results; /* ports */
  tn_strip_instruction *code;
  bool aligned;  /* some operand repeats by panels: strips hold whole panels, or a part of one */
  size_t n_rows; /* instructions up to the last function row; behind them `fused`, if it is there */
  tn_fused_fn fused;
  size_t length; /* elements of a strip: whole lane vectors, at most TN_STRIP */
  size_t constants; /* where its repeated operands begin among the loop's, in bytes */
  size_t n_nodes; /* that it computes */
} tn_run;

typedef struct tn_action {
  size_t node; /* of the program; if run: the first of its nodes */
  tn_run *run; /* or NULL: the node alone */
} tn_action;

#define TN_NOWHERE UINT32_MAX
typedef struct tn_spot { /* a value in a loop */
  uint32_t port, root;   /* the value whose storage it shares, or itself */
  uint32_t place;        /* of the root in the tile, in lane vectors a panel; TN_NOWHERE: a whole array */
} tn_spot;

typedef struct tn_loop {
  size_t stage;
  tn_axis axis;
  size_t lanes;
  size_t n_steps, n_spots, n_sums, n_nodes;
  uint32_t *nodes; /* of the program, in its order */
  tn_action *steps;
  tn_spot *spots;
  uint32_t *sums; /* nodes */
  size_t vectors; /* a panel's share of the tile, in lane vectors */
} tn_loop;

typedef struct tn_plan {
  const tn_program *program;
  tn_arena arena;
  size_t n_stages, n_loops, n_fixed, n_casts;
  uint32_t *stage;  /* of each node */
  uint32_t *fixed;  /* nodes without points, by stage */
  uint32_t *casts;  /* of values with points, and opaque operations of users; by stage */
  tn_loop *loops;   /* by stage */
  bool *whole;      /* of each port */
} tn_plan;

tn_status tn_plan_new(const tn_program *program, tn_plan **out) TN_MUST_USE;
void tn_plan_free(tn_plan **plan);
/* plan_run.c: the strip program of `count` nodes of one width; wanted[port]: somebody outside reads it. The
 * run's results are made the roots of ports that share a register: root[port] is set for every port of the
 * nodes that is wanted. */
tn_status tn_run_new(tn_plan *plan, size_t count, const uint32_t *nodes, const bool *wanted,
                     uint32_t *root, tn_run **out) TN_MUST_USE;
/* Can this node stand in a strip program, and of which width (0: no)? */
size_t tn_run_width(const tn_program *program, size_t node);
/* Its registers and instructions, about. A run takes nodes up to TN_RUN_COST; one node may take more. */
size_t tn_run_cost(const tn_program *program, size_t node);
enum { TN_RUN_COST = 4096 };

#endif
