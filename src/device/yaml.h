/* YAML files that people write (platforms, manifests), read by libcyaml into the structs that a schema describes. */
#ifndef BRAID_DEVICE_YAML_H
#define BRAID_DEVICE_YAML_H

#include <cyaml/cyaml.h>

#include "braid/allocator.h"

enum { BRAID_YAML_BYTES = 1 << 20 }; /* no such file is larger */

/* On success *out is what the schema's top-level mapping describes, to be given back with braid_yaml_free. A failure is
 * INVALID_FILE with the file, as which `name` stands, the line and what was wrong. Aliases and unknown keys are
 * refused. */
BRAID_MUST_CHECK braid_status braid_yaml_parse(const char *name, const void *text, size_t bytes,
                                               const cyaml_schema_value_t *schema, void **out);
/* The line of what a path of keys and numbers leads to ("devices/2/parts"), for refusals of what a schema cannot say;
 * of what encloses it where the text has it not. 0: the text is no YAML. */
size_t braid_yaml_line(const void *text, size_t bytes, const char *path);
void braid_yaml_free(const cyaml_schema_value_t *schema, void *document); /* NULL is allowed */

#endif
