/* script.c: options, the log of calls, scripted failures and faults of the emulated device.
 *
 * EMULATED_CUDA_FAIL scripts a program that runs no code of the test: entries name:n=code, or
 * name:n+=code for the n-th call and all later ones, or name:n=hang, with commas between.
 */
#include "tests/device/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 48, MOST_RULES = 32, MOST_NAMES = 512 };

typedef struct rule {
  char name[NAME];
  size_t nth; /* counted down; 0: past */
  int code;
  bool onwards;
} rule;

typedef struct tally {
  char name[NAME];
  size_t calls;
} tally;

options emulated_options = {.lazy = true, .protect = true, .devices = 1, .memory = 2048};
static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static rule rules[MOST_RULES];
static size_t n_rules;
static tally tallies[MOST_NAMES];
static size_t n_tallies, n_calls;
static const char **log_names; /* point into tallies */
static size_t log_count, log_room;
static size_t n_misuse, n_after_loss, n_handles;
static bool a_free_failed;
static char message[512];

static long number_of(const char *name, long standard) {
  const char *text = getenv(name);
  return text && *text ? strtol(text, NULL, 10) : standard;
}

static void rules_read(const char *text) {
  while (text && *text) {
    size_t length = strcspn(text, ",");
    char entry[128], name[NAME];
    unsigned long nth = 0;
    snprintf(entry, sizeof entry, "%.*s", (int)length, text);
    char *colon = strchr(entry, ':'), *equals = strchr(entry, '=');
    if (colon && equals && colon < equals && (nth = strtoul(colon + 1, NULL, 10)) > 0) {
      snprintf(name, sizeof name, "%.*s", (int)(colon - entry), entry);
      int code = strcmp(equals + 1, "hang") == 0 ? EMULATE_HANG : (int)strtol(equals + 1, NULL, 10);
      emulate_fail(name, nth, code, equals[-1] == '+');
    } else {
      fprintf(stderr, "emulated device: EMULATED_CUDA_FAIL: `%s` is not name:n=code\n", entry);
    }
    text += length + (text[length] == ',');
  }
}

static void report(void) {
  emulate_alive alive;
  emulate_count(&alive);
  fprintf(stderr,
          "emulated device: %zu calls, %zu faults; alive: %zu blocks (%zu bytes), %zu pinned, %zu "
          "contexts\n",
          n_calls, n_misuse, alive.blocks, alive.bytes, alive.pinned, alive.contexts);
}

static void begin(void) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&mutex, &recursive);
  pthread_mutexattr_destroy(&recursive);
  options *o = &emulated_options;
  const char *streams = getenv("EMULATED_CUDA_STREAMS");
  o->lazy = !streams || strcmp(streams, "eager") != 0;
  o->protect = number_of("EMULATED_CUDA_PROTECT", 1) != 0;
  o->report = number_of("EMULATED_CUDA_REPORT", 0) != 0;
  o->shuffle = number_of("EMULATED_CUDA_SHUFFLE", 0);
  o->devices = number_of("EMULATED_CUDA_DEVICES", 1);
  o->memory = number_of("EMULATED_CUDA_MEMORY", 2048);
  rules_read(getenv("EMULATED_CUDA_FAIL"));
  if (o->report)
    atexit(report);
}

void emulated_lock(void) {
  pthread_once(&once, begin);
  pthread_mutex_lock(&mutex);
}
void emulated_unlock(void) { pthread_mutex_unlock(&mutex); }

void emulate_set(const char *option, long value) {
  emulated_lock();
  options *o = &emulated_options;
  if (strcmp(option, "lazy") == 0)
    o->lazy = value != 0;
  else if (strcmp(option, "shuffle") == 0)
    o->shuffle = value;
  else if (strcmp(option, "devices") == 0)
    o->devices = value;
  else if (strcmp(option, "memory") == 0)
    o->memory = value;
  else if (strcmp(option, "protect") == 0)
    o->protect = value != 0;
  emulated_unlock();
}

void emulate_reset(void) {
  emulated_lock();
  n_rules = n_tallies = n_calls = log_count = n_misuse = n_after_loss = 0;
  a_free_failed = false;
  message[0] = '\0';
  emulated_unlock();
}

void emulate_fail(const char *function, size_t nth, int code, bool onwards) {
  if (n_rules == MOST_RULES)
    return;
  rule *r = &rules[n_rules++];
  snprintf(r->name, sizeof r->name, "%s", function);
  r->nth = nth;
  r->code = code;
  r->onwards = onwards;
}

static int script(const char *name) {
  int code = 0;
  for (size_t i = 0; i < n_rules; ++i) {
    rule *r = &rules[i];
    if (r->nth == 0 || strcmp(r->name, name) != 0)
      continue;
    if (r->nth > 1) {
      --r->nth;
      continue;
    }
    r->nth = r->onwards ? 1 : 0;
    code = code ? code : r->code;
  }
  return code;
}

static tally *tally_of(const char *name) {
  for (size_t i = 0; i < n_tallies; ++i)
    if (strcmp(tallies[i].name, name) == 0)
      return &tallies[i];
  if (n_tallies == MOST_NAMES)
    return &tallies[0];
  tally *t = &tallies[n_tallies++];
  snprintf(t->name, sizeof t->name, "%s", name);
  t->calls = 0;
  return t;
}

int emulated_call(const char *function) {
  emulated_lock();
  tally *t = tally_of(function);
  ++t->calls;
  ++n_calls;
  if (log_count == log_room) {
    size_t room = log_room ? 2 * log_room : 4096;
    const char **grown = realloc(log_names, room * sizeof *grown);
    log_room = grown ? room : log_room;
    log_names = grown ? grown : log_names;
  }
  if (log_count < log_room)
    log_names[log_count++] = t->name;
  int code = script(function);
  if (code && (strstr(function, "Free") || strstr(function, "Destroy") ||
               strstr(function, "Unload") || strstr(function, "Release")))
    a_free_failed = true;
  emulated_unlock();
  return code;
}

int script_of_work(const char *name) { return script(name); }
bool script_failed_a_free(void) { return a_free_failed; }

void script_lost(const char *function) {
  static const char *const gives_work[] = {
      "cuLaunch",   "cuMemcpy",     "cuMemset",           "cuGraphLaunch",
      "cuMemAlloc", "cuModuleLoad", "cuGraphInstantiate", "cuStreamBeginCapture"};
  for (size_t i = 0; i < sizeof gives_work / sizeof *gives_work; ++i)
    n_after_loss += strncmp(function, gives_work[i], strlen(gives_work[i])) == 0;
}

void emulated_fault(const char *format, ...) {
  va_list list;
  emulated_lock();
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  ++n_misuse;
  if (number_of("EMULATED_CUDA_QUIET", 0) == 0)
    fprintf(stderr, "emulated device: %s\n", message);
  emulated_unlock();
}

void emulated_handle(int change) {
  emulated_lock();
  n_handles = (size_t)((long)n_handles + change);
  emulated_unlock();
}

size_t emulate_calls(const char *function) {
  if (!function)
    return n_calls;
  for (size_t i = 0; i < n_tallies; ++i)
    if (strcmp(tallies[i].name, function) == 0)
      return tallies[i].calls;
  return 0;
}
const char *emulate_log(size_t i) { return i < log_count ? log_names[i] : NULL; }
size_t emulate_misuse(void) { return n_misuse; }
const char *emulate_message(void) { return message; }
size_t emulate_after_loss(void) { return n_after_loss; }

void emulate_count(emulate_alive *out) {
  emulated_lock();
  *out = (emulate_alive){.handles = n_handles};
  memory_count(out);
  streams_count(out);
  modules_count(out);
  graphs_count(out);
  contexts_count(out);
  emulated_unlock();
}
