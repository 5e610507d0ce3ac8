#include "serve/files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/try.h"
#include "braid/allocator.h"
#include "model/model.h"

static bool is_onnx(const char *path) {
  size_t length = strlen(path);
  return length < 4 || strcmp(path + length - 4, ".cfg") != 0;
}

/* `name` in the folder of `path`. */
static char *path_beside(const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add_bytes(&text, path, slash ? (size_t)(slash - path) + 1 : 0);
  braid_text_add(&text, name);
  char *beside = text.failed ? NULL : braid_strdup(NULL, text.data);
  braid_text_deinit(&text);
  return beside;
}

/* As braid_model_load looks for it; NULL: no memory. */
static char *find_beside(const char *path, const char *name) {
  char target[PATH_MAX];
  char *beside = path_beside(path, name);
  if (!beside || access(beside, F_OK) == 0 || !realpath(path, target)) return beside;
  char *linked = path_beside(target, name);
  if (linked && access(linked, F_OK) == 0) {
    braid_free(NULL, beside);
    return linked;
  }
  braid_free(NULL, linked);
  return beside;
}

braid_status braid_serve_files_find(const braid_serve_model_config *config, const char *model, braid_serve_files *out) {
  braid_model_locations locations = {0};
  *out = (braid_serve_files){0};
  if (is_onnx(config->path)) {
    braid_status status = braid_onnx_locations(NULL, model ? model : config->path, &locations);
    if (status != BRAID_OK) braid_model_locations_deinit(NULL, &locations);
    if (status != BRAID_OK && status != BRAID_INVALID_FILE) return status;
  }
  out->external = config->weights ? 2 : 1;
  out->paths = braid_zalloc_array(NULL, out->external + locations.count, sizeof *out->paths);
  bool good = out->paths != NULL;
  if (good) out->count = out->external + locations.count;
  for (size_t i = 0; i < out->count && good; i++) {
    out->paths[i] = i == 0              ? braid_strdup(NULL, config->path)
                    : i < out->external ? braid_strdup(NULL, config->weights)
                                        : find_beside(config->path, locations.names[i - out->external]);
    good = out->paths[i] != NULL;
  }
  braid_model_locations_deinit(NULL, &locations);
  return good ? BRAID_OK : BRAID_NO_MEMORY;
}

void braid_serve_files_free(braid_serve_files *files) {
  for (size_t i = 0; i < files->count; i++) braid_free(NULL, files->paths[i]);
  braid_free(NULL, files->paths);
  *files = (braid_serve_files){0};
}
