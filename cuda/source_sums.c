/* source_sums.c: what follows a loop with sums: slots take up their parts, subtrees of slots are added up, the tree is
 * ended. Then come the pairs of outer products without points, and the rounding. */
#include "cuda/source_inside.h"

#include <stdio.h>

static void put_finish(gpu_maker *m, const gpu_site *s, size_t k) {
  size_t node = s->loop->sums[k], port = m->p->port[node];
  const tn_node *x = m->p->nodes[node];
  gpu_put(&m->w, "  /* ");
  gpu_put_node(m, node);
  gpu_put(&m->w, " */\n  EACH(e, %zu) {\n    V s = V(F(root_of)(a, %zu + e * sizeof(T)));\n", m->p->layout[port].width,
          s->out->offset[k]);
  if (x->op->id == TN_OP_jet_outer) {
    gpu_put(&m->w, "    const unsigned i = e / %zuu, j = e %% %zuu;\n    (void)i, (void)j;\n", x->shapes[0].extent[1],
            x->shapes[0].extent[1]);
    gpu_put_fixed_pairs(m, node, "a.data");
  }
  gpu_put(&m->w, "    ((T *)a.data[%zu])[e] = F(stored)(s, %s);\n  }\n", port, gpu_format_of(x));
}

static void put_head(gpu_maker *m, const gpu_site *s, const char *kind, const char *arguments) {
  char name[48];
  snprintf(name, sizeof name, "%s_%zu", kind, s->index);
  gpu_put_head(m, GPU_THREADS, name, arguments);
}

tn_status gpu_put_sums(gpu_maker *m, const gpu_site *s) {
  gpu_put(&m->w, "\n");
  if (s->out->by_groups || s->out->n_cuts) {
    put_head(m, s, "slots", "gpu_slots_args a");
    gpu_put(&m->w, "  F(slots)(a);\n}\n");
  }
  put_head(m, s, "tree", "gpu_tree_args a");
  gpu_put(&m->w, "  F(trees)(a);\n}\n");
  put_head(m, s, "finish", "gpu_finish_args a");
  gpu_put(&m->w, "  gpu_place p;\n  p.thread = blockIdx.x * THREADS + threadIdx.x, p.threads = gridDim.x * THREADS;\n");
  for (size_t k = 0; k < s->loop->n_sums; ++k) put_finish(m, s, k);
  gpu_put(&m->w, "}\n");
  return m->w.status;
}
