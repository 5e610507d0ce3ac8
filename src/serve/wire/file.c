/* Files of models, for other daemons of the cluster that have not got them: in pieces, as answers, or to a receiver of
 * UCX's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/bulk/bulk.h"
#include "serve/wire/wire.h"

_Static_assert((int)BRAID_WIRE_NONCE == (int)BRAID_BULK_NONCE && (int)BRAID_WIRE_ADDRESS == (int)BRAID_BULK_ADDRESS,
               "the protocol carries what UCX's programs have");

/* --- which file ----------------------------------------------------------------------------------------------------
 */
static size_t find_model(const wire_connection *c, const char *name) {
  const braid_serve_config *config = c->wire->server->config;
  size_t at = 0;
  while (at < config->models_count && strcmp(config->models[at].name, name) != 0) at++;
  return at;
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Of the model that was asked for last the list is kept, so that not each piece reads the model's file. */
static const char *find_path(wire_connection *c, size_t model, uint32_t file) {
  const braid_serve_model_config *config = &c->wire->server->config->models[model];
  wire_listing *listing = &c->wire->listing;
  struct stat about;
  if (file == 0) return config->path;
  if (stat(config->path, &about) != 0) return NULL;
  if (!listing->files.count || listing->model != model || !is_same(&listing->about, &about)) {
    braid_serve_files_free(&listing->files);
    if (braid_serve_files_find(config, NULL, &listing->files) != BRAID_OK) braid_serve_files_free(&listing->files);
    listing->model = model;
    listing->about = about;
  }
  return file < listing->files.count ? listing->files.paths[file] : NULL;
}

/* The file that a message names, open, and its bytes; -1: it was refused in an answer. */
static int open_file(wire_connection *c, const braid_wire_header *header, const braid_wire_file *file,
                     uint64_t *out_total) {
  struct stat about;
  size_t model = find_model(c, file->model);
  bool known = model < c->wire->server->config->models_count && braid_serve_tenant_may(c->tenant, file->model);
  const char *path = c->peer && known ? find_path(c, model, file->file) : NULL;
  if (!path) {
    braid_wire_answer_status(c, header, c->peer ? BRAID_SERVE_UNKNOWN : BRAID_SERVE_FORBIDDEN,
                             c->peer ? "there is no such file of model \"%.100s\""
                                     : "files of models are for other daemons of the cluster",
                             file->model);
    return -1;
  }
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool fits = opened >= 0 && fstat(opened, &about) == 0;
  if (fits && (!S_ISREG(about.st_mode) || file->offset > (uint64_t)about.st_size)) {
    fits = false;
    errno = EINVAL;
  }
  if (fits) {
    *out_total = (uint64_t)about.st_size;
    return opened;
  }
  braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE, "the file of model %.100s cannot be read: %s",
                           file->model, strerror(errno));
  if (opened >= 0) close(opened);
  return -1;
}

/* --- in answers ----------------------------------------------------------------------------------------------------
 */
static void send_piece(wire_connection *c, const braid_wire_header *header, const braid_wire_file *file, int opened,
                       uint64_t total) {
  uint8_t *piece = braid_alloc(NULL, BRAID_WIRE_PIECE);
  ssize_t count = piece ? pread(opened, piece, BRAID_WIRE_PIECE, (off_t)file->offset) : -1;
  if (!piece) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FAILED, "no memory for a piece of a file");
  } else if (count < 0) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE, "the file of model %.100s cannot be read: %s",
                             file->model, strerror(errno));
  } else {
    braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, BRAID_SERVE_DONE, "");
    braid_wire_put_number(writer, total, 8);
    braid_wire_put(writer, piece, (size_t)count);
    braid_wire_answer_send(c, writer);
  }
  braid_free(NULL, piece);
}

void braid_wire_file_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_wire_file file;
  uint64_t total;
  const char *wrong = braid_wire_get_file(&reader, &file);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "file: %s", wrong);
    return;
  }
  int opened = open_file(c, header, &file, &total);
  if (opened < 0) return;
  send_piece(c, header, &file, opened, total);
  close(opened);
}

/* --- by UCX --------------------------------------------------------------------------------------------------------
 */
void braid_wire_bulk_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_bulk_senders *senders = braid_serve_cluster_senders(c->wire->server->cluster);
  braid_wire_bulk bulk;
  uint64_t total;
  const char *wrong = braid_wire_get_bulk(&reader, &bulk);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "bulk: %s", wrong);
    return;
  }
  int opened = open_file(c, header, &bulk.file, &total);
  if (opened < 0) return;
  braid_bulk_request request = {bulk.nonce, bulk.address, bulk.address_bytes, bulk.file.offset, bulk.total};
  if (!senders)
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE, "this node sends no files by UCX");
  else if (total != bulk.total)
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE,
                             "the file of model %.100s has %llu bytes now, not %llu", bulk.file.model,
                             (unsigned long long)total, (unsigned long long)bulk.total);
  else if (braid_bulk_send(senders, opened, &request) != BRAID_OK)
    braid_wire_answer_status(c, header, BRAID_SERVE_UNAVAILABLE, "%s", braid_error_detail());
  else
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  close(opened);
}

void braid_wire_sending_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_bulk_senders *senders = braid_serve_cluster_senders(c->wire->server->cluster);
  uint8_t nonce[BRAID_WIRE_NONCE];
  char detail[BRAID_BULK_DETAIL] = "";
  braid_wire_get_nonce(&reader, nonce);
  const char *wrong = braid_wire_finish(&reader);
  if (wrong) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "sending: %s", wrong);
  } else if (!c->peer) {
    braid_wire_answer_status(c, header, BRAID_SERVE_FORBIDDEN, "files of models are for other daemons of the cluster");
  } else {
    braid_bulk_state state = senders ? braid_bulk_sender_state(senders, nonce, detail) : BRAID_BULK_UNKNOWN;
    braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, BRAID_SERVE_DONE, "");
    braid_wire_put_number(writer, (uint64_t)state, 1);
    braid_wire_put_text(writer, detail);
    braid_wire_answer_send(c, writer);
  }
}
