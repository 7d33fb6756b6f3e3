/* cache.c: programs of earlier steps, so that a loop which records the same step again compiles it once.
 *
 * A graph keeps its cache over tn_graph_reset. An entry is a program and, while there is room, an executor with its
 * storage. The program that a site (the place set by tn_at, or else the caller's line) ran last is compared first,
 * without a hash; then all entries of equal hash. Equality is of the full structure (recorded.c): a hash finds
 * candidates and decides nothing.
 *
 * Bounds. At most TN_CACHE_PROGRAMS programs, the least recently used one leaves. The storage of all executors,
 * with the buffers still bound to them, stays within `bytes`: beyond it the executors used longest ago are freed,
 * and their programs stay. The executor that ran last is kept in any case, so that a loop over one large step
 * reuses its storage as a captured program would.
 *
 * A site whose last eight steps all missed logs a warning that names the first node that differs from the step
 * before: most often a number that should have been a tn_scalar.
 */
#include "tensor/cache.h"

#include <stdio.h>
#include <string.h>

void tn_cache_drop_storage(tn_cached *entry) {
  tn_exec_free(&entry->exec);
  entry->bytes = 0;
}

void tn_cached_free(tn_cached **entry) {
  if (!*entry)
    return;
  tn_cache_drop_storage(*entry);
  tn_program_free(&(*entry)->program);
  tn_free(&(*entry)->inputs);
  tn_free(&(*entry)->scalars);
  tn_free(entry);
}

/* ---- Sites ---- */

static tn_status site_of(tn_cache *cache, const char *file, int line, tn_site **out) {
  tn_site *oldest = &cache->site[0];
  for (size_t i = 0; i < cache->n_sites; ++i) {
    tn_site *site = &cache->site[i];
    if (site->line == line && strcmp(site->file, file) == 0) {
      *out = site;
      return TN_OK;
    }
    if (site->last_used < oldest->last_used)
      oldest = site;
  }
  char *copy = NULL;
  TN_TRY(tn_copy_text(file, &copy));
  tn_site *site = cache->n_sites < TN_CACHE_SITES ? &cache->site[cache->n_sites++] : oldest;
  tn_free(&site->file);
  *site = (tn_site){.file = copy, .line = line};
  *out = site;
  return TN_OK;
}

static tn_cached *made_at(const tn_cache *cache, uint64_t made) {
  for (size_t i = 0; made && i < cache->n_entries; ++i)
    if (cache->entry[i]->made == made)
      return cache->entry[i];
  return NULL;
}

static const tn_cached *most_recent(const tn_cache *cache) {
  const tn_cached *best = NULL;
  for (size_t i = 0; i < cache->n_entries; ++i)
    if (!best || cache->entry[i]->last_used > best->last_used)
      best = cache->entry[i];
  return best;
}

static void warn(const tn_cache *cache, const tn_site *site, const tn_recorded *step) {
  const tn_cached *before = made_at(cache, site->last);
  if (!before)
    before = most_recent(cache);
  if (!before)
    return;
  char text[1900];
  size_t differs;
  tn_axis_pairs axes;
  if (tn_recorded_equals(step, before->program, &axes, &differs))
    return;
  tn_log_write(TN_LOG_WARNING, "%s:%d: %d evaluations in a row were new programs: %s", site->file,
               site->line, TN_CACHE_MISSES,
               tn_recorded_difference(step, before->program, differs, text, sizeof text));
}

/* ---- Axes without inputs ---- */

/* A program may hold only structural numbers on an axis. Its extent then comes from an input that does not occur,
 * which the program must have noted when it was compiled. */
static bool idle_in_program(const tn_program *p, tn_axis axis) {
  for (size_t k = 0; k < p->n_idle; ++k)
    if (p->idle_axis[k] == axis)
      return true;
  return false;
}

static bool idle_in_step(const tn_recorded *step, tn_axis axis) {
  const tn_graph *graph = step->graph;
  for (size_t i = 0; i < graph->n_nodes; ++i)
    if (!step->index[i] && graph->nodes[i]->op->id == TN_OP_input &&
        graph->nodes[i]->shapes[0].axis[0] == axis)
      return true;
  return false;
}

static bool serves(const tn_cached *entry, const tn_recorded *step, const tn_axis_pairs *axes) {
  for (size_t k = 0; k < entry->n_bare; ++k)
    if (idle_in_step(step, axes->in_graph[entry->bare[k]]) &&
        !idle_in_program(entry->program, entry->bare[k]))
      return false;
  return true;
}

/* ---- Entries ---- */

static bool is_input(const tn_node *node) {
  return node->op->id == TN_OP_parameter || node->op->id == TN_OP_input;
}

/* Leaves, and the axes on which no input lies. */
static tn_status note_leaves(tn_cached *entry) {
  const tn_program *p = entry->program;
  bool used[TN_MAX_AXES + 1] = {false}, has_input[TN_MAX_AXES + 1] = {false};
  for (size_t i = 0; i < p->n_nodes; ++i) {
    entry->n_inputs += is_input(p->nodes[i]);
    entry->n_scalars += p->nodes[i]->op->id == TN_OP_scalar;
    for (uint32_t k = 0; k < p->nodes[i]->n_outputs; ++k) {
      tn_axis axis = p->layout[p->port[i] + k].axis;
      used[axis] = true;
      if (is_input(p->nodes[i]))
        has_input[axis] = true;
    }
    if (p->nodes[i]->op->id == TN_OP_count)
      used[p->nodes[i]->integer[0]] = true;
  }
  TN_TRY(TN_NEW(entry->n_inputs, &entry->inputs));
  TN_TRY(TN_NEW(entry->n_scalars, &entry->scalars));
  for (size_t i = 0, in = 0, s = 0; i < p->n_nodes; ++i) {
    if (is_input(p->nodes[i]))
      entry->inputs[in++] = (uint32_t)i;
    if (p->nodes[i]->op->id == TN_OP_scalar)
      entry->scalars[s++] = (uint32_t)i;
  }
  for (tn_axis axis = 1; axis <= TN_MAX_AXES; ++axis) {
    if (!used[axis] || has_input[axis])
      continue;
    if (entry->n_bare == sizeof entry->bare / sizeof *entry->bare)
      return TN_FAIL(TN_EUNSUPPORTED, "eval: more than %zu point axes without an input on them",
                     entry->n_bare);
    entry->bare[entry->n_bare++] = axis;
  }
  return TN_OK;
}

tn_status tn_cached_new(const tn_recorded *step, tn_cached **out) {
  tn_cached *entry = NULL;
  *out = NULL;
  TN_TRY(TN_NEW(1, &entry));
  tn_status status = tn_compile(step->graph, step->n_outputs, step->outputs, &entry->program);
  if (status == TN_OK)
    status = note_leaves(entry);
  if (status != TN_OK)
    tn_cached_free(&entry);
  *out = entry;
  return status;
}

static tn_status add(tn_cache *cache, const tn_recorded *step, uint64_t hash, tn_cached **out) {
  tn_cached *entry = NULL;
  *out = NULL;
  TN_TRY(tn_cached_new(step, &entry));
  entry->hash = hash;
  if (cache->n_entries == TN_CACHE_PROGRAMS) { /* room for one more */
    size_t limit = cache->programs;
    cache->programs = TN_CACHE_PROGRAMS - 1;
    tn_cache_trim(cache, NULL);
    cache->programs = limit;
  }
  entry->made = ++cache->clock;
  cache->entry[cache->n_entries++] = entry;
  *out = entry;
  return TN_OK;
}

/* An entry equal to the step; axes belong to it. */
static tn_cached *look(const tn_cache *cache, const tn_recorded *step, uint64_t hash,
                       tn_axis_pairs *axes) {
  size_t differs;
  for (size_t i = 0; i < cache->n_entries; ++i) {
    tn_cached *entry = cache->entry[i];
    if (entry->hash == hash && tn_recorded_equals(step, entry->program, axes, &differs) &&
        serves(entry, step, axes))
      return entry;
  }
  return NULL;
}

tn_status tn_cache_find(tn_cache *cache, const tn_recorded *step, const char *file, int line,
                        tn_axis_pairs *axes, tn_cached **out) {
  tn_site *site = NULL;
  size_t differs;
  TN_TRY(site_of(cache, file, line, &site));
  tn_cached *entry = made_at(cache, site->last);
  if (!entry || !tn_recorded_equals(step, entry->program, axes, &differs) ||
      !serves(entry, step, axes)) {
    uint64_t hash = tn_recorded_hash(step);
    entry = look(cache, step, hash, axes);
    if (!entry) {
      ++cache->stats.misses;
      if (++site->misses == TN_CACHE_MISSES)
        warn(cache, site, step);
      TN_TRY(add(cache, step, hash, &entry));
      tn_recorded_equals(step, entry->program, axes, &differs); /* pairs the axes */
      entry->last_used = cache->clock;
      site->last = entry->made;
      site->last_used = cache->clock;
      *out = entry;
      return TN_OK;
    }
  }
  ++cache->stats.hits;
  site->misses = 0;
  site->last = entry->made;
  entry->last_used = site->last_used = ++cache->clock;
  *out = entry;
  return TN_OK;
}

/* ---- Bounds ---- */

static size_t least_recent(const tn_cache *cache, const tn_cached *in_use, bool with_storage) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < cache->n_entries; ++i) {
    const tn_cached *entry = cache->entry[i];
    if (entry == in_use || (with_storage && !entry->exec))
      continue;
    if (best == SIZE_MAX || entry->last_used < cache->entry[best]->last_used)
      best = i;
  }
  return best;
}

static size_t storage(const tn_cache *cache) {
  size_t bytes = 0;
  for (size_t i = 0; i < cache->n_entries; ++i)
    bytes += cache->entry[i]->bytes;
  return bytes;
}

void tn_cache_trim(tn_cache *cache, const tn_cached *in_use) {
  while (cache->n_entries > cache->programs) {
    size_t i = least_recent(cache, cache->programs ? in_use : NULL, false);
    tn_cached_free(&cache->entry[i]);
    cache->entry[i] = cache->entry[--cache->n_entries];
    cache->entry[cache->n_entries] = NULL;
    ++cache->stats.evictions;
  }
  for (size_t bytes = storage(cache); bytes > cache->bytes;) {
    size_t i = least_recent(cache, in_use, true);
    if (i == SIZE_MAX)
      break;
    bytes -= cache->entry[i]->bytes;
    tn_cache_drop_storage(cache->entry[i]);
  }
  cache->stats.programs = cache->n_entries;
  cache->stats.bytes = storage(cache);
}

void tn_cache_clear(tn_cache *cache) {
  for (size_t i = 0; i < cache->n_entries; ++i)
    tn_cached_free(&cache->entry[i]);
  for (size_t i = 0; i < cache->n_sites; ++i)
    tn_free(&cache->site[i].file);
  cache->n_entries = cache->n_sites = 0;
  memset(cache->site, 0, sizeof cache->site);
  cache->stats.programs = cache->stats.bytes = 0;
}
