/* underflow_text.c: a judged study as Markdown for people and JSON for tools.
 *
 * Markdown says first what to do, then why: the gradient at every loss scale, the channels with the scales that
 * they bear, the worst layers, the updates that vanish, the scaler's way. JSON has every number, with the counts
 * behind each share. Infinities and NaN are null.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/report_text.h"

enum { FEW = 12 }; /* rows of a table that is not asked for whole */

static bool is_scaled(const vd_channel *c) {
  return c->operand == VD_ADJOINT || c->operand == VD_WEIGHT_GRADIENT;
}

/* Index of an exponent among the scales that were run; 0 if it is not there. */
static size_t run_of(const vd_underflow *u, int scale) {
  for (size_t k = 0; k < u->n_scales; ++k)
    if (u->scale[k] == scale)
      return k;
  return 0;
}

static double share(size_t part, size_t whole) {
  return whole > 0 ? (double)part / (double)whole : 0;
}
static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

static const char *window_text(vd_window w, char text[48]) {
  if (w.lo > w.hi)
    snprintf(text, 48, "none");
  else if (w.lo <= -VD_SCALE_MOST && w.hi >= VD_SCALE_MOST)
    snprintf(text, 48, "any");
  else if (w.lo <= -VD_SCALE_MOST)
    snprintf(text, 48, "up to 2^%d", w.hi);
  else if (w.hi >= VD_SCALE_MOST)
    snprintf(text, 48, "from 2^%d", w.lo);
  else
    snprintf(text, 48, "2^%d..2^%d", w.lo, w.hi);
  return text;
}

/* "0", "<0.01 %", "12.3 %" */
static const char *percent(double x, char text[24]) {
  if (x == 0)
    snprintf(text, 24, "0");
  else if (x < 1e-4)
    snprintf(text, 24, "%.0e", x);
  else
    snprintf(text, 24, "%.3g %%", 100 * x);
  return text;
}

/* A number, or a dash for what is none. */
static const char *figure(const char *format, double x, char text[24]) {
  if (isfinite(x))
    snprintf(text, 24, format, x);
  else
    snprintf(text, 24, "-");
  return text;
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static void put_gradients(vd_text *w, const vd_underflow *u) {
  if (u->gradient == NULL)
    return;
  vd_put(w, "\n## Gradient against f64\n\n");
  vd_put(w, "| loss scale | off by | of that by this scale | cosine | zeros | not finite | worst "
            "block | off by |\n");
  vd_put(w, "|---|---:|---:|---:|---:|---:|---|---:|\n");
  for (size_t k = 0; k <= u->n_scales; ++k) {
    if (k == u->n_scales && u->single == NULL)
      break;
    size_t stride = k == u->n_scales ? 1 : u->n_scales;
    const vd_gradient *g = k == u->n_scales ? u->single : u->gradient + k;
    const vd_gradient *whole = &g[u->n_blocks * stride];
    size_t worst = 0;
    for (size_t b = 1; b < u->n_blocks; ++b)
      if (g[b * stride].error > g[worst * stride].error)
        worst = b;
    if (k == u->n_scales)
      vd_put(w, "| f32");
    else
      vd_put(w, "| 2^%d%s", u->scale[k],
             u->scale[k] == u->best && u->window.lo <= u->window.hi ? " (advised)" : "");
    char t[4][24];
    bool moved = u->moved != NULL && k < u->n_scales;
    vd_put(w, " | %s | %s | %s | %zu of %zu | %zu | %s | %s |\n",
           figure("%.2e", whole->error, t[0]), figure("%.1e", moved ? u->moved[k] : NAN, t[1]),
           figure("%.7f", whole->cosine, t[2]), whole->zero, whole->n, whole->nonfinite,
           u->n_blocks > 0 ? u->block[worst] : "",
           figure("%.2e", u->n_blocks > 0 ? g[worst * stride].error : NAN, t[3]));
  }
}

static void put_groups(vd_text *w, const vd_underflow *u) {
  char a[48], z[48];
  if (u->n_groups == 0)
    return;
  vd_put(w, "\n## Channels, all layers together\n\n");
  vd_put(w, "| channel | points | powers of 2 its activations bear | loss scales its adjoints bear "
            "| carry it as |\n");
  vd_put(w, "|---|---|---|---|---|\n");
  for (size_t i = 0; i < u->n_groups; ++i) {
    const vd_group *g = &u->groups[i];
    char shift[32] = "itself";
    if (!g->shiftable)
      snprintf(shift, sizeof shift, "no power does");
    else if (g->shift != 0)
      snprintf(shift, sizeof shift, "2^%d times it", -g->shift);
    vd_put(w, "| `%s` | %s | %s | %s | %s |\n", g->label, g->at, window_text(g->activation, a),
           window_text(g->adjoint, z), shift);
  }
}

typedef struct ranked {
  size_t channel;
  double bad; /* what it loses */
} ranked;

static int by_badness(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->bad != y->bad)
    return x->bad < y->bad ? 1 : -1;
  return x->channel < y->channel ? -1 : x->channel > y->channel;
}

static void put_channel(vd_text *w, const vd_underflow *u, const vd_channel *c) {
  char t[6][24], window[48];
  const vd_histogram *h = &c->histogram;
  size_t k = is_scaled(c) ? run_of(u, u->best) : 0;
  const vd_tally *first = &c->run[0], *best = &c->run[k];
  vd_put(w, "| %s | %s%s%s | %s | %s%s | %zu | 2^%.1f | %s | %s | %s | %s | %s | %s | %zu | %s |\n",
         c->layer, c->label[0] ? "`" : "", c->label, c->label[0] ? "`" : "", c->at,
         vd_operand_name(c->operand), c->kept ? " (f32)" : "", h->n,
         h->largest > 0 ? log2(h->largest) : 0, percent(share(first->zero, first->n), t[0]),
         percent(share(first->subnormal, first->n), t[1]),
         percent(ratio(c->rounded[0].below, c->rounded[0].mass), t[2]),
         percent(share(best->zero, best->n), t[3]),
         percent(ratio(c->rounded[k].below, c->rounded[k].mass), t[4]),
         percent(ratio(best->lost, best->mass), t[5]), best->overflow + best->nan,
         window_text(c->window, window));
}

static tn_status put_channels(vd_text *w, const vd_underflow *u, bool all) {
  ranked *order = NULL;
  if (u->n_channels == 0)
    return TN_OK;
  TN_TRY(TN_NEW(u->n_channels, &order));
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    size_t k = is_scaled(c) ? run_of(u, u->best) : 0;
    const vd_tally *run = &c->run[k], *first = &c->rounded[0], *best = &c->rounded[k];
    double overflow = share(run->overflow + run->nan, run->n);
    order[i] = (ranked){i, 10 * overflow + ratio(best->below, best->mass) +
                               1e-3 * ratio(first->below, first->mass) - 20 * c->kept};
  }
  qsort(order, u->n_channels, sizeof *order, by_badness);
  size_t n = all || u->n_channels < FEW ? u->n_channels : FEW;
  vd_put(w, "\n## %s, worst first\n\n", all ? "Every operand" : "Operands");
  if (n < u->n_channels)
    vd_put(w, "%zu of %zu; `--all` prints every one.\n\n", n, u->n_channels);
  vd_put(w,
         "| layer | channel | points | kind | numbers | largest | zero at 2^0 | subnormal | lost | "
         "zero at 2^%d | lost | off in the run | overflow | scales |\n",
         u->best);
  vd_put(w, "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n");
  for (size_t i = 0; i < n; ++i)
    put_channel(w, u, &u->channels[order[i].channel]);
  tn_free(&order);
  return TN_OK;
}

static void put_updates(vd_text *w, const vd_underflow *u) {
  char a[24], b[24];
  if (u->n_updates == 0)
    return;
  vd_put(w, "\n## Updates that change nothing\n\n");
  vd_put(w, "| weights kept in | rate | lost | no gradient | of |\n|---|---:|---:|---:|---:|\n");
  for (size_t i = 0; i < u->n_updates; ++i) {
    const vd_updates *x = &u->update[i];
    vd_put(w, "| %s | %.3g | %s | %s | %zu |\n", tn_dtype_name(x->master), x->rate,
           percent(share(x->lost, x->n), a), percent(share(x->still, x->n), b), x->n);
  }
}

static void put_steps(vd_text *w, const vd_underflow *u) {
  if (u->n_steps == 0)
    return;
  double least = INFINITY, most = 0;
  size_t skips = 0;
  for (size_t i = 0; i < u->n_steps; ++i) {
    least = fmin(least, u->steps[i].scale);
    most = fmax(most, u->steps[i].scale);
    skips += u->steps[i].skipped;
  }
  const vd_scaler_step *first = &u->steps[0], *last = &u->steps[u->n_steps - 1];
  vd_put(w, "\n## The scaler in %zu steps of training\n\n", u->n_steps);
  vd_put(w, "| scale at first | lowest | highest | at last | tracker | skipped | loss at first | "
            "at last |\n");
  vd_put(w, "|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  vd_put(w, "| 2^%g | 2^%g | 2^%g | 2^%g | %zu | %zu | %.3e | %.3e |\n", log2(first->scale),
         log2(least), log2(most), log2(last->scale), last->tracker, skips, first->loss, last->loss);
}

static void put_reading(vd_text *w, const vd_underflow *u) {
  vd_put(w, "\n## How to read this\n\n");
  vd_put(w,
         "- The reference is the same step in f64 on the same stored weights and points. Run: the "
         "%s program at each"
         " loss scale; its gradients, its zeros, subnormals and overflows, and by how much of the "
         "mass it is off, which"
         " holds the rounding of everything before. Computed from the reference, whose adjoints a "
         "loss scale only"
         " shifts: windows, exponents, and the mass that one rounding of S g loses.\n",
         tn_dtype_name(u->format.dtype));
  vd_put(w,
         "- Most of a gradient's error is rounding, which no scale changes. What a scale does is "
         "the distance to the"
         " gradient at 2^%d, in lengths of the f64 one: `of that by this scale`.\n",
         u->best);
  vd_put(w,
         "- Mass is sum |x|; lost is sum |x - round(S x) / S| over sum |x|, of numbers that fall "
         "below 2^%d, where the"
         " format runs out of digits. A scale is borne where nothing overflows and less than %.1g "
         "of the mass is lost"
         " so.\n",
         u->format.normal, u->limit);
  vd_put(w,
         u->pure ? "- Every number is %s here, weights and their gradients too.\n"
                 : "- What matrix products multiply is %s; sums, activations' functions, residuals "
                   "and the loss are"
                   " f32, and so are gradients of weights (marked f32: what the format would do to "
                   "them).\n",
         tn_dtype_name(u->format.dtype));
  if (u->n_updates > 0)
    vd_put(w, "- An update is lost if the weight, rounded after a first adam step of this rate, is "
              "the number that it"
              " was.\n");
}

tn_status vd_underflow_markdown(const vd_underflow *u, bool all, char **out) {
  vd_text w = {0};
  *out = NULL;
  vd_put(&w, "# %s\n\n**%s**\n\n", u->title, u->advice);
  if (u->n_facts > 0)
    vd_put(&w, "| | |\n|---|---|\n");
  for (size_t i = 0; i < u->n_facts; ++i)
    vd_put(&w, "| %s | %s |\n", u->fact[i].key, u->fact[i].value);
  put_gradients(&w, u);
  put_groups(&w, u);
  tn_status status = put_channels(&w, u, all);
  put_updates(&w, u);
  put_steps(&w, u);
  put_reading(&w, u);
  if (w.status == TN_OK)
    w.status = status;
  return vd_text_finish(&w, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(vd_text *w, const char *key, const char *value) {
  vd_put(w, "\"%s\": \"", key);
  for (; *value; ++value) {
    unsigned char c = (unsigned char)*value;
    if (c == '"' || c == '\\')
      vd_put(w, "\\%c", c);
    else if (c < 0x20)
      vd_put(w, "\\u%04x", c);
    else
      vd_put_plain(w, value, 1);
  }
  vd_put(w, "\"");
}

static void put_value(vd_text *w, double x) {
  if (isfinite(x))
    vd_put(w, "%.9g", x);
  else
    vd_put(w, "null");
}

static void put_number(vd_text *w, const char *key, double x) {
  vd_put(w, ", \"%s\": ", key);
  put_value(w, x);
}

static void put_window(vd_text *w, const char *key, vd_window x) {
  if (x.lo > x.hi)
    vd_put(w, ", \"%s\": null", key);
  else
    vd_put(w, ", \"%s\": [%d, %d]", key, x.lo, x.hi);
}

static void put_histogram(vd_text *w, const vd_histogram *h, const vd_format *f) {
  int first = VD_BINS, last = -1;
  for (int b = 0; b < VD_BINS; ++b)
    if (h->count[b] > 0) {
      first = first < b ? first : b;
      last = b;
    }
  vd_put(w, ",\n     \"reference\": {\"numbers\": %zu, \"zeros\": %zu", h->n, h->zeros);
  put_number(w, "largest", h->largest);
  put_number(w, "least", h->least);
  put_number(w, "headroom", h->n > 0 ? log2(f->largest / h->largest) : NAN);
  put_number(w, "margin", h->n > 0 ? log2(h->least) - f->normal : NAN);
  vd_put(w, ", \"first_exponent\": %d, \"counts\": [", last < 0 ? 0 : VD_BIN_FIRST + first);
  for (int b = first; b <= last; ++b)
    vd_put(w, "%s%zu", b > first ? ", " : "", h->count[b]);
  vd_put(w, "]}");
}

static void put_tally(vd_text *w, const vd_underflow *u, const vd_channel *c, const vd_tally *list,
                      size_t k) {
  const vd_tally *t = &list[k];
  int scale = is_scaled(c) ? u->scale[k] : 0;
  vd_put(w,
         "%s\n      {\"scale\": %d, \"numbers\": %zu, \"zero\": %zu, \"subnormal\": %zu, \"edge\": "
         "%zu, "
         "\"normal\": %zu, \"overflow\": %zu, \"nan\": %zu",
         k > 0 ? "," : "", scale, t->n, t->zero, t->subnormal, t->edge, t->normal, t->overflow,
         t->nan);
  put_number(w, "flushed", ratio(t->flushed, t->mass));
  put_number(w, "below_normal", ratio(t->below, t->mass));
  put_number(w, "lost", ratio(t->lost, t->mass));
  put_number(w, "flushed_norm2", sqrt(ratio(t->flushed2, t->mass2)));
  put_number(w, "lost_norm2", sqrt(ratio(t->lost2, t->mass2)));
  vd_put(w, "}");
}

static void put_json_channels(vd_text *w, const vd_underflow *u) {
  vd_put(w, ",\n  \"channels\": [");
  for (size_t i = 0; i < u->n_channels; ++i) {
    const vd_channel *c = &u->channels[i];
    vd_put(w, "%s\n    {", i > 0 ? "," : "");
    put_string(w, "layer", c->layer);
    vd_put(w, ", ");
    put_string(w, "channel", c->label);
    vd_put(w, ", ");
    put_string(w, "points", c->at);
    vd_put(w, ", ");
    put_string(w, "kind", vd_operand_name(c->operand));
    vd_put(w, ", \"rounded\": %s", c->kept ? "false" : "true");
    put_window(w, "window", c->window);
    put_histogram(w, &c->histogram, &u->format);
    for (size_t part = 0; part < 2; ++part) {
      vd_put(w, ",\n     \"%s\": [", part == 0 ? "runs" : "rounded");
      for (size_t k = 0; k < (is_scaled(c) ? u->n_scales : 1); ++k)
        put_tally(w, u, c, part == 0 ? c->run : c->rounded, k);
      vd_put(w, "]");
    }
    vd_put(w, "}");
  }
  vd_put(w, "]");
}

static void put_json_gradient(vd_text *w, const vd_gradient *g) {
  vd_put(w, "\"numbers\": %zu, \"zero\": %zu, \"not_finite\": %zu", g->n, g->zero, g->nonfinite);
  put_number(w, "norm", g->norm);
  put_number(w, "error", g->error);
  put_number(w, "cosine", g->cosine);
  vd_put(w, "}");
}

static void put_json_gradients(vd_text *w, const vd_underflow *u) {
  vd_put(w, ",\n  \"gradient\": [");
  for (size_t b = 0; u->gradient != NULL && b <= u->n_blocks; ++b) {
    vd_put(w, "%s\n    {", b > 0 ? "," : "");
    put_string(w, "block", b < u->n_blocks ? u->block[b] : "whole");
    if (u->single != NULL) {
      vd_put(w, ", \"f32\": {");
      put_json_gradient(w, &u->single[b]);
    }
    vd_put(w, ", \"runs\": [");
    for (size_t k = 0; k < u->n_scales; ++k) {
      vd_put(w, "%s\n      {\"scale\": %d, ", k > 0 ? "," : "", u->scale[k]);
      put_json_gradient(w, &u->gradient[b * u->n_scales + k]);
    }
    vd_put(w, "]}");
  }
  vd_put(w, "]");
}

static void put_json_groups(vd_text *w, const vd_underflow *u) {
  vd_put(w, ",\n  \"groups\": [");
  for (size_t i = 0; i < u->n_groups; ++i) {
    const vd_group *g = &u->groups[i];
    vd_put(w, "%s\n    {", i > 0 ? "," : "");
    put_string(w, "channel", g->label);
    vd_put(w, ", ");
    put_string(w, "points", g->at);
    put_window(w, "activations", g->activation);
    put_window(w, "adjoints", g->adjoint);
    if (g->shiftable)
      vd_put(w, ", \"channel_scale\": %d}", g->shift);
    else
      vd_put(w, ", \"channel_scale\": null}");
  }
  vd_put(w, "],\n  \"updates\": [");
  for (size_t i = 0; i < u->n_updates; ++i) {
    const vd_updates *x = &u->update[i];
    vd_put(w, "%s\n    {\"master\": \"%s\"", i > 0 ? "," : "", tn_dtype_name(x->master));
    put_number(w, "rate", x->rate);
    vd_put(w, ", \"weights\": %zu, \"lost\": %zu, \"still\": %zu}", x->n, x->lost, x->still);
  }
  vd_put(w, "],\n  \"scaler\": [");
  for (size_t i = 0; i < u->n_steps; ++i) {
    const vd_scaler_step *s = &u->steps[i];
    vd_put(w, "%s\n    {\"step\": %zu", i > 0 ? "," : "", s->step);
    put_number(w, "scale", s->scale);
    put_number(w, "loss", s->loss);
    vd_put(w, ", \"tracker\": %zu, \"skipped\": %s}", s->tracker, s->skipped ? "true" : "false");
  }
  vd_put(w, "]");
}

tn_status vd_underflow_json(const vd_underflow *u, char **out) {
  vd_text w = {0};
  const vd_format *f = &u->format;
  *out = NULL;
  vd_put(&w, "{\n  ");
  put_string(&w, "title", u->title);
  vd_put(&w, ",\n  ");
  put_string(&w, "advice", u->advice);
  vd_put(&w, ",\n  \"carried\": %s, \"best_scale\": %d", u->carried ? "true" : "false", u->best);
  put_window(&w, "window", u->window);
  put_number(&w, "limit", u->limit);
  vd_put(&w, ",\n  \"format\": {\"name\": \"%s\", \"pure\": %s, \"smallest\": %d, \"normal\": %d",
         tn_dtype_name(f->dtype), u->pure ? "true" : "false", f->smallest, f->normal);
  put_number(&w, "largest", f->largest);
  put_number(&w, "roundoff", f->roundoff);
  vd_put(&w, "},\n  \"facts\": {");
  for (size_t i = 0; i < u->n_facts; ++i) {
    vd_put(&w, "%s", i > 0 ? ", " : "");
    put_string(&w, u->fact[i].key, u->fact[i].value);
  }
  vd_put(&w, "},\n  \"scales\": [");
  for (size_t k = 0; k < u->n_scales; ++k)
    vd_put(&w, "%s%d", k > 0 ? ", " : "", u->scale[k]);
  vd_put(&w, "]");
  vd_put(&w, ",\n  \"moved_by_scale\": [");
  for (size_t k = 0; u->moved != NULL && k < u->n_scales; ++k) {
    vd_put(&w, "%s", k > 0 ? ", " : "");
    put_value(&w, u->moved[k]);
  }
  vd_put(&w, "]");
  put_json_gradients(&w, u);
  put_json_groups(&w, u);
  put_json_channels(&w, u);
  vd_put(&w, "\n}\n");
  return vd_text_finish(&w, out);
}
