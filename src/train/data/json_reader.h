/* Reads JSON (RFC 8259) from memory, value by value, as the caller asks for them:
 *
 *   braid_json_enter(&json, '{');
 *   while (more) { braid_json_key(&json, key, sizeof key, &more); ... a value, or braid_json_skip ... }
 *
 * Every failure is INVALID_FILE with line and column. Values nest up to 64 deep. */
#ifndef BRAID_TRAIN_JSON_READER_H
#define BRAID_TRAIN_JSON_READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/status.h"

typedef struct braid_json {
  const char *name; /* for messages */
  const char *start, *at, *end;
  int depth;
  bool fresh; /* nothing was read of the array or object that was entered last */
} braid_json;

void braid_json_init(braid_json *json, const char *name, const uint8_t *data, size_t bytes);
/* INVALID_FILE with the place of `at`. */
braid_status braid_json_fail_at(const braid_json *json, const char *at, const char *what);
braid_status braid_json_enter(braid_json *json, char bracket); /* '[' or '{' */
/* Whether an array goes on; false: it is left. */
braid_status braid_json_item(braid_json *json, bool *more);
/* The same of an object; `key` gets the next name. */
braid_status braid_json_key(braid_json *json, char *key, size_t bytes, bool *more);
/* As UTF-8, ended by 0. */
braid_status braid_json_string(braid_json *json, char *out, size_t bytes);
braid_status braid_json_number(braid_json *json, double *out);
braid_status braid_json_whole(braid_json *json, int64_t *out);
braid_status braid_json_skip(braid_json *json);   /* any value */
braid_status braid_json_finish(braid_json *json); /* only blanks are left */
#endif
