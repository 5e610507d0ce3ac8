/* Messages for people: what the library has to tell beside errors. They go where the program's registry says
 * (braid_registry_set_log in braid/device.h), or nowhere: nothing is printed. */
#ifndef BRAID_LOG_H
#define BRAID_LOG_H
#include <stddef.h>

#include "braid/status.h"
typedef enum braid_log_level { BRAID_LOG_WARNING, BRAID_LOG_INFO, BRAID_LOG_DEBUG } braid_log_level;
typedef struct braid_log {
  /* Called from any thread, several at a time, also while the library holds locks: it must call nothing of the library
   * that takes a machine, plan or device. The message lasts for the call. NULL: silent. */
  void (*write)(void *context, braid_log_level level, const char *message);
  void *context;
} braid_log;
/* How far work is that takes long the first time: kernels that are prepared, which drivers may compile. */
typedef struct braid_progress {
  /* Called by any thread, one call at a time for each plan: first with done 0, last with done = total, unless the work
   * fails. `what` lasts for the call. NULL: nobody is told. */
  void (*report)(void *context, const char *what, size_t done, size_t total);
  void *context;
} braid_progress;
/* For backends, and whoever else has something to say. `log` may be NULL: silent. */
BRAID_API void braid_log_write(const braid_log *log, braid_log_level level, const char *format, ...) BRAID_PRINTF(3, 4);
#endif
