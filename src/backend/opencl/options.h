/* What may follow the name of a device: "opencl0:memory=separate,cache=off". */
#ifndef BRAID_BACKEND_OPENCL_OPTIONS_H
#define BRAID_BACKEND_OPENCL_OPTIONS_H

#include "launch/recipe.h"

typedef struct braid_cl_options {
  bool separate;            /* memory=separate: copies even where memory is the host's */
  uint64_t arena_bytes;     /* arena=BYTES: the device's memory to use, all of it; 0: as it has */
  uint32_t part, parts;     /* part=I,parts=N: one of N shares; parts 0: whole */
  uint32_t deadline_ms;     /* of a task; 0: none */
  char cache[256];          /* cache=DIR: built programs; "off": nowhere; "": where the registry says */
  char bitstream[256];      /* bitstream=FILE: a program built before; "": none */
  char manifest[256];       /* manifest=FILE: kernels of somebody else; "": none */
  braid_launch_knobs knobs; /* of the kernels */
} braid_cl_options;

/* `text`: "key=value,..." or NULL. INVALID_ARGUMENT names the option and what was expected. */
BRAID_MUST_CHECK braid_status braid_cl_parse_options(const char *text, braid_cl_options *out);

#endif
