#include "train/ledger/recorder.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/try.h"
#include "braid/group.h"
#include "graph/integer.h"
#include "runtime/surface/session.h"
#include "train/integer/digests.h"
#include "train/ledger/file.h"
#include "train/ledger/header.h"

/* A parameter or state; memory for a copy only where it cannot be read as it lies. */
typedef struct kept {
  const char *name;
  braid_desc desc;
  braid_tensor *copy;
} kept;

struct braid_recorder {
  braid_trainer *trainer;
  kept *kept;
  size_t kept_count;
  uint32_t *digests;
  uint8_t *sums;   /* of a parameter's pieces */
  uint8_t *hashes; /* of all parameters */
  int threads;
  braid_text line, momentums;
  int64_t *indices; /* of the whole batch */
  int32_t *labels;
};

static braid_status make_kept(braid_recorder *recorder) {
  const braid_graph *step = recorder->trainer->step;
  const braid_allocator *allocator = recorder->trainer->allocator;
  size_t most = 0;
  recorder->kept = braid_zalloc_array(allocator, step->value_count + 1, sizeof *recorder->kept);
  if (!recorder->kept) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < step->value_count; i++) {
    const braid_value *value = &step->values[i];
    if (!braid_ledger_hashes(recorder->trainer, value)) continue;
    kept *k = &recorder->kept[recorder->kept_count++];
    k->name = value->name;
    k->desc = value->desc;
    size_t pieces = braid_sha256_pieces(braid_desc_bytes(&value->desc));
    most = pieces > most ? pieces : most;
  }
  recorder->sums = braid_zalloc_array(allocator, most + 1, BRAID_SHA256_BYTES);
  recorder->hashes = braid_zalloc_array(allocator, recorder->kept_count + 1, BRAID_SHA256_BYTES);
  recorder->digests = braid_zalloc_array(allocator, recorder->trainer->digests.count + 1, sizeof *recorder->digests);
  size_t batch = (size_t)recorder->trainer->slice.batch;
  recorder->indices = braid_zalloc_array(allocator, batch, sizeof *recorder->indices);
  recorder->labels = braid_zalloc_array(allocator, batch, sizeof *recorder->labels);
  bool room = recorder->sums && recorder->hashes && recorder->digests && recorder->indices && recorder->labels;
  return room ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_recorder_create(braid_trainer *trainer, braid_recorder **out) {
  *out = NULL;
  braid_recorder *recorder = braid_zalloc(trainer->allocator, sizeof *recorder);
  if (!recorder) return BRAID_NO_MEMORY;
  recorder->trainer = trainer;
  recorder->threads = trainer->options.threads > 0 ? trainer->options.threads : braid_cpu_count();
  braid_text_init(&recorder->line, trainer->allocator);
  braid_text_init(&recorder->momentums, trainer->allocator);
  braid_status status = make_kept(recorder);
  if (status == BRAID_OK)
    *out = recorder;
  else
    braid_recorder_destroy(recorder);
  return status;
}

void braid_recorder_destroy(braid_recorder *recorder) {
  if (!recorder) return;
  const braid_allocator *allocator = recorder->trainer->allocator;
  for (size_t i = 0; i < recorder->kept_count; i++) braid_tensor_release(recorder->kept[i].copy);
  braid_free(allocator, recorder->kept);
  braid_free(allocator, recorder->sums);
  braid_free(allocator, recorder->hashes);
  braid_free(allocator, recorder->digests);
  braid_free(allocator, recorder->indices);
  braid_free(allocator, recorder->labels);
  braid_text_deinit(&recorder->line);
  braid_text_deinit(&recorder->momentums);
  braid_free(allocator, recorder);
}

void *braid_recorder_digests(braid_recorder *recorder) {
  return recorder->digests;
}

const char *braid_recorder_line(const braid_recorder *recorder) {
  return recorder->line.data;
}

/* --- lines ---------------------------------------------------------------------------------------------------------
 */
static void clear_line(braid_recorder *recorder) {
  recorder->line.length = 0;
  if (recorder->line.capacity) recorder->line.data[0] = '\0';
}

/* The first digits of a hash. */
static void add_digits(braid_text *line, const uint8_t *sum, size_t digits) {
  char text[BRAID_SHA256_HEX + 1];
  braid_sha256_text(sum, digits / 2, text);
  braid_text_add_bytes(line, text, digits);
}

static void add_hash(braid_text *line, const void *data, size_t bytes, size_t digits) {
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256_of(data, bytes, sum);
  add_digits(line, sum, digits);
}

static braid_status look_at(braid_recorder *recorder, kept *k, const void **out) {
  braid_session *session = recorder->trainer->session;
  *out = braid_session_look(session, k->name);
  if (*out) return BRAID_OK;
  if (!k->copy) BRAID_TRY(braid_tensor_create(recorder->trainer->allocator, &k->desc, &k->copy));
  *out = braid_tensor_const_data(k->copy);
  return braid_session_read(session, k->name, k->copy);
}

static braid_status add_state(braid_recorder *recorder) {
  braid_text *line = &recorder->line;
  braid_text_add(line, " parameters ");
  for (size_t i = 0; i < recorder->kept_count; i++) {
    kept *k = &recorder->kept[i];
    uint8_t *hash = recorder->hashes + i * BRAID_SHA256_BYTES;
    const void *data;
    BRAID_TRY(look_at(recorder, k, &data));
    braid_sha256_of_pieces(data, braid_desc_bytes(&k->desc), recorder->threads, recorder->sums, hash);
    add_digits(line, hash, BRAID_LEDGER_NUMBER);
  }
  braid_text_add(line, " state ");
  add_hash(line, recorder->hashes, recorder->kept_count * BRAID_SHA256_BYTES, BRAID_SHA256_HEX);
  return line->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

braid_status braid_recorder_state(braid_recorder *recorder, const char **text) {
  clear_line(recorder);
  BRAID_TRY(add_state(recorder));
  *text = recorder->line.data;
  return BRAID_OK;
}

/* The state whose next contents a node's second result is. */
static const braid_value *momentum_of(const braid_graph *step, const braid_node *node) {
  for (size_t i = 0; i < step->value_count; i++)
    if (step->values[i].next == node->outputs[1]) return &step->values[i];
  return NULL;
}

/* As IntegerDigest (docs/integer-training.md, "Digest"). */
static uint32_t digest_of(const int16_t *data, const braid_desc *desc) {
  int64_t count = braid_desc_count(desc), rows = desc->rank ? desc->dims[0] : 1;
  uint32_t digest = 0;
  for (int64_t b = 0, i = 0; b < rows; b++) {
    uint32_t sum = 0;
    for (int64_t j = 0; j < count / rows; j++)
      sum += braid_integer_digest_weight(2 * (uint64_t)j) * (uint32_t)data[i++];
    digest += braid_integer_digest_weight(2 * (uint64_t)b + 1) * sum;
  }
  return digest;
}

static void add_number(braid_text *line, uint32_t number) {
  add_digits(line, (const uint8_t[]){number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255},
             BRAID_LEDGER_NUMBER);
}

static braid_status add_momentum(braid_recorder *recorder, const braid_value *value) {
  kept k = {value->name, value->desc, NULL};
  const void *data;
  braid_status status = look_at(recorder, &k, &data);
  if (status == BRAID_OK) add_number(&recorder->momentums, digest_of(data, &k.desc));
  braid_tensor_release(k.copy);
  return status;
}

braid_status braid_recorder_momentums(braid_recorder *recorder, const char **out) {
  const braid_trainer *trainer = recorder->trainer;
  const braid_graph *step = trainer->step;
  braid_text *text = &recorder->momentums;
  text->length = 0;
  braid_node_id next = 0;
  for (size_t i = 0; i < trainer->digests.count; i++) {
    if (strcmp(trainer->digests.items[i].op, "IntegerMomentum") != 0) {
      braid_text_add(text, "--------");
      continue;
    }
    while (strcmp(step->nodes[next].op->name, "IntegerMomentum") != 0) next++;
    const braid_value *value = momentum_of(step, &step->nodes[next++]);
    if (!value) return braid_fail(BRAID_INTERNAL, "a node moves no momentum");
    BRAID_TRY(add_momentum(recorder, value));
  }
  *out = text->length ? text->data : "";
  return text->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* The samples' numbers in the data set and their classes, each in 8 and 4 bytes, the lowest first. */
static void add_samples(braid_recorder *recorder) {
  size_t count = (size_t)recorder->trainer->slice.batch;
  braid_text_add(&recorder->line, " order ");
  add_hash(&recorder->line, recorder->indices, count * sizeof *recorder->indices, BRAID_LEDGER_ORDER);
  braid_text_add(&recorder->line, " labels ");
  add_hash(&recorder->line, recorder->labels, count * sizeof *recorder->labels, BRAID_LEDGER_ORDER);
}

/* What each process has of the batch, from all: samples at their places, and digests, which are sums over samples, or
 * the same everywhere. */
static braid_status gather(braid_recorder *recorder, const braid_batch *batch) {
  const braid_integer_digests *digests = &recorder->trainer->digests;
  const braid_slice *slice = &recorder->trainer->slice;
  size_t all = (size_t)slice->batch, some = (size_t)slice->count;
  memset(recorder->indices, 0, all * sizeof *recorder->indices);
  memset(recorder->labels, 0, all * sizeof *recorder->labels);
  memcpy(recorder->indices + slice->first, batch->indices, some * sizeof *recorder->indices);
  memcpy(recorder->labels + slice->first, batch->labels, some * sizeof *recorder->labels);
  if (!slice->group) return BRAID_OK;
  for (size_t i = 0; slice->rank && i < digests->count; i++)
    if (!digests->items[i].split) recorder->digests[digests->items[i].place] = 0;
  BRAID_TRY(braid_group_all_reduce(slice->group, recorder->indices, all, BRAID_I64, BRAID_REDUCE_SUM));
  BRAID_TRY(braid_group_all_reduce(slice->group, recorder->labels, all, BRAID_I32, BRAID_REDUCE_SUM));
  return braid_group_all_reduce(slice->group, recorder->digests, digests->count, BRAID_I32, BRAID_REDUCE_SUM);
}

braid_status braid_recorder_step(braid_recorder *recorder, const braid_batch *batch, const braid_step_numbers *numbers,
                                 float loss, const char **out) {
  const braid_integer_digests *digests = &recorder->trainer->digests;
  braid_text *line = &recorder->line;
  clear_line(recorder);
  BRAID_TRY(gather(recorder, batch));
  *out = line->data;
  if (recorder->trainer->slice.rank) return BRAID_OK; /* process 0 keeps the ledger */
  braid_text_printf(line, "step %" PRId64 " rate %.9g", numbers->update, ldexp(1, numbers->rate_exponent));
  add_samples(recorder);
  braid_text_printf(line, " loss %.9g values ", (double)loss);
  for (size_t i = 0; i < digests->count; i++) add_number(line, recorder->digests[digests->items[i].place]);
  BRAID_TRY(add_state(recorder));
  *out = line->data;
  return BRAID_OK;
}
