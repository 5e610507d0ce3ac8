/* Log: messages for users, passed to a sink that the program sets; without a sink they are dropped. */
#ifndef BRAID_BASE_LOG_H
#define BRAID_BASE_LOG_H
#include "braid/log.h"
void braid_log_write(braid_log_level level, const char *format, ...) BRAID_PRINTF(2, 3);
#endif
