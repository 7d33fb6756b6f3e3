/* source_text.c: writing the text of kernels. */
#include "cuda/source_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char *room(gpu_writer *w, size_t n) {
  if (w->status != TN_OK) return NULL;
  if (w->capacity - w->used <= n) {
    size_t capacity = 2 * w->capacity + n + 4096;
    w->status = tn_grow(&w->text, w->capacity, capacity, 1);
    if (w->status != TN_OK) return NULL;
    w->capacity = capacity;
  }
  return w->text + w->used;
}

void gpu_put_bytes(gpu_writer *w, const char *text, size_t n) {
  char *to = room(w, n);
  if (!to) return;
  memcpy(to, text, n);
  to[n] = 0;
  w->used += n;
}

void gpu_put(gpu_writer *w, const char *format, ...) {
  enum { MOST = 1024 };
  va_list args;
  char *to = room(w, MOST);
  if (!to) return;
  va_start(args, format);
  int n = vsnprintf(to, MOST, format, args);
  va_end(args);
  w->used += n < 0 ? 0 : n < MOST ? (size_t)n : MOST - 1;
}

void gpu_put_number(gpu_writer *w, double x) {
  char text[40];
  if (isnan(x)) gpu_put(w, "NAN");
  else if (isinf(x)) gpu_put(w, x > 0 ? "INFINITY" : "-INFINITY");
  else {
    snprintf(text, sizeof text, "%.17g", x);
    gpu_put(w, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
  }
}

const char *gpu_type_of(const tn_layout *layout) {
  return layout->size == 8 ? "double" : layout->size == 4 ? "float" : "uint8_t";
}

const char *gpu_format_name(tn_dtype dtype) {
  return dtype == TN_TF32 ? "F(AS_TF32)" : dtype == TN_BF16 ? "F(AS_BF16)" : dtype == TN_F16 ? "F(AS_F16)" : "F(KEPT)";
}

const char *gpu_format_of(const tn_node *node) {
  return tn_node_rounds(node) ? gpu_format_name(node->dtype) : "F(KEPT)";
}

void gpu_put_dtype(gpu_maker *m, tn_dtype dtype) {
  tn_dtype now = tn_dtype_compute(dtype) == TN_F64 ? TN_F64 : TN_F32;
  bool wide = now == TN_F64;
  if (m->dtype == now) return;
  m->dtype = now;
  gpu_put(&m->w, "#undef DTYPE\n#undef T\n#undef SIGNED\n#undef UNSIGNED\n#undef TN_WIDE\n");
  gpu_put(&m->w, "#define DTYPE %s\n#define T %s\n#define SIGNED %s\n#define UNSIGNED %s\n#define TN_WIDE %d\n",
          wide ? "f64" : "f32", wide ? "double" : "float", wide ? "int64_t" : "int32_t", wide ? "uint64_t" : "uint32_t",
          wide);
}

void gpu_put_node(gpu_maker *m, size_t i) {
  const tn_node *node = m->p->nodes[i];
  const char *file = node->file;
  gpu_put(&m->w, "%s", node->op->name);
  if (!file) return;
  size_t n = strlen(file); /* the end of a long path tells more */
  if (n > 200) file += n - 200;
  gpu_put(&m->w, " of ");
  for (; *file; ++file) gpu_put(&m->w, "%c", strchr("*\\?\n", *file) ? '_' : *file);
  gpu_put(&m->w, ":%d:%d", node->line, node->column);
}

void gpu_put_head(gpu_maker *m, size_t threads, const char *name, const char *arguments) {
  gpu_put(&m->w, "extern \"C\" __global__ void __launch_bounds__(%zu, %zu) %s(%s) {\n", threads,
          (size_t)(2 * GPU_THREADS) / threads, name, arguments);
}

void gpu_put_value(gpu_maker *m, const gpu_site *s, const char *constness, size_t port) {
  const tn_layout *layout = &m->p->layout[port];
  if (layout->axis) gpu_put(&m->w, "TILE(%s%s, %u)", constness, gpu_type_of(layout), (unsigned)s->place[port]);
  else gpu_put(&m->w, "DATA(%s%s, %zu)", constness, gpu_type_of(layout), port);
}
