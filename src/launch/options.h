/* What may follow a device's name, "key=value,...": a table of options says what there is and where it goes. Those of
 * the kernels are the same for every backend that launches them. */
#ifndef BRAID_LAUNCH_OPTIONS_H
#define BRAID_LAUNCH_OPTIONS_H

#include "launch/recipe.h"

typedef struct braid_launch_option braid_launch_option;
struct braid_launch_option {
  const char *key;
  /* Reads `value` into `field`; INVALID_ARGUMENT says what was expected. */
  braid_status (*parse)(const braid_launch_option *option, const char *value, void *field);
  size_t field;        /* offset in what the table fills */
  int64_t least, most; /* of a number; most: bytes of a text with its end */
};

/* A table and the struct that it fills. */
typedef struct braid_launch_option_table {
  const braid_launch_option *options;
  size_t count;
  void *out;
} braid_launch_option_table;

extern const braid_launch_option braid_launch_knob_options[]; /* fill braid_launch_knobs */
extern const size_t braid_launch_knob_option_count;

/* INVALID_ARGUMENT names the option and what was expected. `text` may be NULL. */
BRAID_MUST_CHECK braid_status braid_launch_parse_options(const char *text, const braid_launch_option_table *tables,
                                                         size_t table_count);
/* For tables: a uint32_t, a uint64_t of bytes (no more than INT64_MAX), and a path into a char array. */
braid_status braid_launch_parse_number(const braid_launch_option *option, const char *value, void *field);
braid_status braid_launch_parse_bytes(const braid_launch_option *option, const char *value, void *field);
braid_status braid_launch_parse_path(const braid_launch_option *option, const char *value, void *field);

#endif
