/* log.c: messages that are no errors go to a callback, or nowhere.
 *
 * One callback a process. It is read under a lock and called outside it, so a callback may log and may set another
 * one; a thread that is just logging may still call the old callback after tn_log_callback has returned.
 */
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdio.h>

static struct {
  pthread_mutex_t lock;
  tn_log_level most;
  tn_log_function function;
  void *context;
} target = {PTHREAD_MUTEX_INITIALIZER, TN_LOG_ERROR, NULL, NULL};

void tn_log_callback(tn_log_level most, tn_log_function function, void *context) {
  pthread_mutex_lock(&target.lock);
  target.most = most;
  target.function = function;
  target.context = context;
  pthread_mutex_unlock(&target.lock);
}

void tn_log_write(tn_log_level level, const char *format, ...) {
  pthread_mutex_lock(&target.lock);
  tn_log_function function = level <= target.most ? target.function : NULL;
  void *context = target.context;
  pthread_mutex_unlock(&target.lock);
  if (!function)
    return;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  function(context, level, text);
}

const char *tn_log_level_name(tn_log_level level) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  return (unsigned)level < sizeof names / sizeof *names ? names[level] : "?";
}
