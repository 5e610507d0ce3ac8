#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/detail.h"

enum { kDetailBytes = 1024 };
static _Thread_local char detail[kDetailBytes];

const char *braid_status_text(braid_status status) {
  switch (status) {
#define BRAID_STATUS_CASE(name, text)                                                                                  \
  case BRAID_##name:                                                                                                   \
    return text;
    BRAID_STATUS_MAP(BRAID_STATUS_CASE)
#undef BRAID_STATUS_CASE
  }
  return "unknown status";
}

const char *braid_error_detail(void) {
  return detail;
}

void braid_clear_detail(void) {
  detail[0] = '\0';
}

void *braid_refuse_memory(size_t count, size_t size) {
  const char *text = braid_status_text(BRAID_NO_MEMORY);
  if (count == 1)
    (void)braid_fail(BRAID_NO_MEMORY, "%s: %zu bytes requested", text, size);
  else
    (void)braid_fail(BRAID_NO_MEMORY, "%s: %zu times %zu bytes requested", text, count, size);
  return NULL;
}

braid_status braid_fail(braid_status status, const char *format, ...) {
  char message[kDetailBytes]; /* the arguments may point into the old detail */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  memcpy(detail, message, sizeof detail);
  return status;
}

braid_status braid_fail_prefix(braid_status status, const char *format, ...) {
  char message[kDetailBytes];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  const char *rest = *detail ? detail : braid_status_text(status);
  if (length >= 0 && length < kDetailBytes)
    snprintf(message + length, sizeof message - (size_t)length, ": %.*s", kDetailBytes - 1 - length, rest);
  memcpy(detail, message, sizeof detail);
  return status;
}
