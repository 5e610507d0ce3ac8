/* Files of models, in pieces, for other daemons of the cluster that have not got them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/wire/wire.h"

/* Reads a piece of a regular file; false, with errno: it cannot be. */
static bool read_piece(const char *path, uint64_t offset, uint8_t *to, size_t room, size_t *out_bytes,
                       uint64_t *out_total) {
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  bool fits = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && offset <= (uint64_t)about.st_size;
  if (!fits) errno = EINVAL;
  ssize_t count = fits ? pread(file, to, room, (off_t)offset) : -1;
  int reason = errno;
  close(file);
  errno = reason;
  if (count < 0) return false;
  *out_bytes = (size_t)count;
  *out_total = (uint64_t)about.st_size;
  return true;
}

static const braid_serve_model_config *find_model(const wire_connection *c, const char *name) {
  const braid_serve_config *config = c->wire->server->config;
  for (unsigned i = 0; i < config->models_count; i++)
    if (strcmp(config->models[i].name, name) == 0) return &config->models[i];
  return NULL;
}

void braid_wire_file_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  char name[BRAID_WIRE_NAME];
  braid_wire_get_text(&reader, name, sizeof name);
  bool weights = braid_wire_get_number(&reader, 1) != 0;
  uint64_t offset = braid_wire_get_number(&reader, 8), total = 0;
  const char *wrong = braid_wire_finish(&reader);
  const braid_serve_model_config *model = wrong ? NULL : find_model(c, name);
  const char *path = !model ? NULL : weights ? model->weights : model->path;
  uint8_t *piece = NULL;
  size_t bytes = 0;
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "file: %s", wrong);
  } else if (!c->peer) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FORBIDDEN, "files of models are for other daemons of the cluster");
  } else if (!path || !braid_serve_tenant_may(c->tenant, name)) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "there is no such file of model \"%.100s\"", name);
  } else if (!(piece = braid_alloc(NULL, BRAID_WIRE_PIECE))) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for a piece of a file");
  } else if (!read_piece(path, offset, piece, BRAID_WIRE_PIECE, &bytes, &total)) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE, "the file of model %.100s cannot be read: %s", name,
                             strerror(errno));
  } else {
    braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, BRAID_SERVE_DONE, "");
    braid_wire_put_number(writer, total, 8);
    braid_wire_put(writer, piece, bytes);
    braid_wire_answer_send(c, writer);
  }
  braid_free(NULL, piece);
}
