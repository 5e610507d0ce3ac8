/* Messages to the framework's log. */
#ifndef BRAID_ORT_LOG_H
#define BRAID_ORT_LOG_H

#include "api.h"
#include "braid/log.h"

/* level: BRAID_ORT_LOG_WARNING ... A logger of NULL is silent. */
void braid_ort_say(const OrtLogger *logger, int level, const char *format, ...) BRAID_PRINTF(3, 4);
/* A log of the library that goes to the framework's. */
braid_log braid_ort_log(const OrtLogger *logger);

#endif
