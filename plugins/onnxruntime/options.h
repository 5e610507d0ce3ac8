/* What a session's user may choose: provider options. */
#ifndef BRAID_ORT_OPTIONS_H
#define BRAID_ORT_OPTIONS_H

#include "api.h"

#define BRAID_ORT_NAME "BraidExecutionProvider"

enum { BRAID_ORT_TEXT = 1024 };

typedef struct braid_ort_options {
  char device[BRAID_ORT_TEXT];   /* device specs separated by spaces, the first is preferred */
  char platform[BRAID_ORT_TEXT]; /* path of a platform file; "": none */
  char plugins[BRAID_ORT_TEXT];  /* paths of backends in shared objects, separated by ':' */
  char cache[BRAID_ORT_TEXT];    /* folder for built programs */
  char place[BRAID_ORT_TEXT];    /* as braid_session_options.place */
  int threads;                   /* 0: as many as the process may use */
  bool fusion;
  size_t plans; /* of a group, for different shapes, kept at a time */
  size_t least; /* nodes of a group; smaller ones are left to the framework */
} braid_ort_options;

/* Reads the options that a session was created with; what it does not say is the default, `device` of it "cpu".
 * INVALID_ARGUMENT names an unknown option, or a value and what is allowed. */
BRAID_MUST_CHECK braid_status braid_ort_options_read(const OrtSessionOptions *session, const char *device,
                                                     braid_ort_options *options);

#endif
