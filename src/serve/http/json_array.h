/* Arrays of numbers in JSON, read and written without an object for each number: bodies of requests have them by the
 * hundred thousand. All else of JSON is jansson's. */
#ifndef BRAID_SERVE_HTTP_JSON_ARRAY_H
#define BRAID_SERVE_HTTP_JSON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "braid/tensor.h"

/* The texts of the arrays that were taken out of a body, from '[' to ']'. */
enum {
  BRAID_JSON_ARRAYS = 64,
  BRAID_JSON_MOST = 256 << 10
}; /* JSON beside arrays takes 100 times its bytes in memory */
typedef struct braid_json_arrays {
  struct {
    const char *text;
    size_t bytes;
  } items[BRAID_JSON_ARRAYS];
  size_t count;
} braid_json_arrays;

/* Copies a JSON text without the arrays that are the values of members named "data" and have nothing but numbers, true
 * and false in them, at any depth: in their place stands an array with the index in `arrays`, so that every array of
 * one whole number is one of these. False: out of memory, there are more than BRAID_JSON_ARRAYS, or a
 * key has an escape, behind which "data" might hide. Whether the text is
 * JSON is not judged: what is no JSON stays none. The texts point into `json`. */
bool braid_json_take_arrays(const char *json, size_t bytes, braid_text *skeleton, braid_json_arrays *arrays);

/* Reads the numbers of an array (of arrays ...) into `out`, `count` elements of the type, which is none of 16-bit
 * floats. NULL, or what is wrong with element *out_index: it is no number of the type, or there are more or fewer;
 * nested deeper than `depth`. */
const char *braid_json_read_array(const char *text, size_t bytes, braid_dtype dtype, int depth, void *out, size_t count,
                                  size_t *out_index);

/* Appends numbers, with commas between them, so that they read back as the same floats or double; false: NaN or
 * infinity. */
bool braid_json_add_floats(braid_text *text, const float *values, size_t count);
bool braid_json_add_double(braid_text *text, double value);

#endif
