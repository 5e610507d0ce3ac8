#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static void (*log_sink)(void *context, braid_log_level level, const char *message);
static void *log_context;

void braid_log_set_sink(void (*sink)(void *context, braid_log_level level, const char *message), void *context) {
  log_sink = sink;
  log_context = context;
}

void braid_log_write(braid_log_level level, const char *format, ...) {
  if (!log_sink) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  log_sink(log_context, level, message);
}
