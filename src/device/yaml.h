/* YAML files that people write (platforms, manifests), read by libcyaml into the structs that a schema describes. */
#ifndef BRAID_DEVICE_YAML_H
#define BRAID_DEVICE_YAML_H

#include <cyaml/cyaml.h>

#include "braid/allocator.h"

/* On success *out is what the schema's top-level mapping describes, to be given back with braid_yaml_free. A failure is
 * INVALID_FILE (or IO, NOT_FOUND, OUT_OF_RANGE beyond a mebibyte) with the file, the line and what was wrong. Aliases
 * and unknown keys are refused. */
BRAID_MUST_CHECK braid_status braid_yaml_load(const braid_allocator *allocator, const char *path,
                                              const cyaml_schema_value_t *schema, void **out);
/* The same for text in memory; `name` stands for the file in messages. */
BRAID_MUST_CHECK braid_status braid_yaml_parse(const char *name, const void *text, size_t bytes,
                                               const cyaml_schema_value_t *schema, void **out);
void braid_yaml_free(const cyaml_schema_value_t *schema, void *document); /* NULL is allowed */

#endif
