/* Log: warnings and information for users, passed to a sink that the program sets. Without a sink they are dropped. */
#ifndef BRAID_LOG_H
#define BRAID_LOG_H
#include "braid/status.h"
typedef enum braid_log_level { BRAID_LOG_WARNING, BRAID_LOG_INFO, BRAID_LOG_DEBUG } braid_log_level;
/* `sink` is called from any thread, possibly from several at once; NULL: none. Set it before other calls of the
 * library. */
BRAID_API void braid_log_set_sink(void (*sink)(void *context, braid_log_level level, const char *message),
                                  void *context);
#endif
