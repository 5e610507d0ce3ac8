#include "braid/log.h"

#include <stdarg.h>
#include <stdio.h>

void braid_log_write(const braid_log *log, braid_log_level level, const char *format, ...) {
  if (!log || !log->write) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  log->write(log->context, level, message);
}
