/* Log: messages for people, to a sink the program sets; silent by default (a library does not print). */
#ifndef BRAID_BASE_LOG_H
#define BRAID_BASE_LOG_H
#include "braid/log.h"
void braid_log_write(braid_log_level level, const char *format, ...) BRAID_PRINTF(2, 3);
#endif
