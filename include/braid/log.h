/* Log: what the library tells people, through a sink that the program sets. Silent by default. */
#ifndef BRAID_LOG_H
#define BRAID_LOG_H
#include "braid/status.h"
typedef enum braid_log_level { BRAID_LOG_WARNING, BRAID_LOG_INFO, BRAID_LOG_DEBUG } braid_log_level;
/* `sink` may be called from any thread; NULL silences. Set before anything else runs. */
BRAID_API void braid_log_set_sink(void (*sink)(void *context, braid_log_level level, const char *message),
                                  void *context);
#endif
