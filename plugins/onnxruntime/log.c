#include "log.h"

#include <stdarg.h>
#include <stdio.h>

static void log_send(const OrtLogger *logger, int level, const char *message) {
  if (!logger) return;
  OrtStatus *status = braid_ort.Logger_LogMessage(logger, level, message, "braid", 0, "braid");
  if (status) braid_ort.ReleaseStatus(status);
}

void braid_ort_say(const OrtLogger *logger, int level, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log_send(logger, level, text);
}

static void log_write(void *context, braid_log_level level, const char *message) {
  static const int kLevels[] = {BRAID_ORT_LOG_WARNING, BRAID_ORT_LOG_INFO, BRAID_ORT_LOG_VERBOSE};
  log_send(context, level <= BRAID_LOG_DEBUG ? kLevels[level] : BRAID_ORT_LOG_VERBOSE, message);
}

braid_log braid_ort_log(const OrtLogger *logger) {
  /* The library only hands it back to log_write, which does not change it. */
  union {
    const OrtLogger *from;
    void *to;
  } context = {.from = logger};
  return (braid_log){log_write, context.to};
}
