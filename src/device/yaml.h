/* YAML files (platforms, manifests), parsed by libcyaml into structs described by a schema. */
#ifndef BRAID_DEVICE_YAML_H
#define BRAID_DEVICE_YAML_H

#include <cyaml/cyaml.h>

#include "braid/allocator.h"

enum { BRAID_YAML_BYTES = 1 << 20 }; /* limit of the file size */

/* On success *out is the struct of the schema's top-level mapping, freed with braid_yaml_free. INVALID_FILE names the
 * file (`name`), the line and the error. Anchors, aliases, control characters (but line breaks and tabs), unknown keys,
 * with those that there are, keys that come twice and what is not as a whole a number in decimal digits are refused. */
BRAID_MUST_CHECK braid_status braid_yaml_parse(const char *name, const void *text, size_t bytes,
                                               const cyaml_schema_value_t *schema, void **out);
/* The line of what a path of keys and numbers leads to ("devices/2/parts"), for refusals of what a schema cannot say;
 * of what encloses it where the text has it not. 0: the text is no YAML. */
size_t braid_yaml_line(const void *text, size_t bytes, const char *path);
void braid_yaml_free(const cyaml_schema_value_t *schema, void *document); /* NULL is allowed */

#endif
