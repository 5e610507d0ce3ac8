/* The files of a model of the configuration: its own, Darknet's weights, and those that an ONNX file names for its
 * external data. Daemons of a cluster tell each other of them by their number in this order. */
#ifndef BRAID_SERVE_FILES_H
#define BRAID_SERVE_FILES_H

#include "serve/serving_config.h"

typedef struct braid_serve_files {
  char **paths; /* the model's own first */
  size_t count;
  size_t external; /* the first of those that the model's own file names */
} braid_serve_files;

/* `model`: where the model's own file is read, NULL: at its path. The others are in the folder of its path, or, where
 * they are not there, in that of the file to which the path links. A file that is no model names none: who loads it
 * says what is wrong with it. NOT_FOUND or IO: it cannot be read. *out is freed with free, also on failure. */
BRAID_MUST_CHECK braid_status braid_serve_files_find(const braid_serve_model_config *config, const char *model,
                                                     braid_serve_files *out);
void braid_serve_files_free(braid_serve_files *files);

#endif
