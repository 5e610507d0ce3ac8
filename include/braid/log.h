/* Messages for people: what the library has to tell beside errors. They go where the program's registry says
 * (braid_registry_set_log in braid/device.h), or nowhere: nothing is printed. */
#ifndef BRAID_LOG_H
#define BRAID_LOG_H
#include "braid/status.h"
typedef enum braid_log_level { BRAID_LOG_WARNING, BRAID_LOG_INFO, BRAID_LOG_DEBUG } braid_log_level;
typedef struct braid_log {
  /* Called from any thread, several at a time; the message lasts for the call. NULL: silent. */
  void (*write)(void *context, braid_log_level level, const char *message);
  void *context;
} braid_log;
/* For backends, and whoever else has something to say. `log` may be NULL: silent. */
BRAID_API void braid_log_write(const braid_log *log, braid_log_level level, const char *format, ...) BRAID_PRINTF(3, 4);
#endif
