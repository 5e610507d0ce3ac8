#include "train/parallel/peers.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/try.h"
#include "braid/group.h"
#include "runtime/surface/session.h"
#include "tensor/layout.h"

braid_status braid_peers_status(const braid_trainer *trainer, braid_status status) {
  return braid_group_agree(trainer->slice.group, status);
}

/* Whether all processes have the same number. */
static braid_status is_same(braid_group *group, uint32_t number, bool *out) {
  int64_t both[2] = {number, -(int64_t)number};
  BRAID_TRY(braid_group_all_reduce(group, both, 2, BRAID_I64, BRAID_REDUCE_MAX));
  *out = both[0] == -both[1];
  return BRAID_OK;
}

static int64_t count_cards(const char *devices) {
  int64_t count = 0;
  for (const char *at = devices; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
    count += strncmp(at, "cuda", 4) == 0;
  return count;
}

braid_status braid_peers_devices(braid_group *group, const char *devices) {
  bool same;
  BRAID_TRY(is_same(group, (uint32_t)count_cards(devices), &same));
  return same ? BRAID_OK : braid_fail(BRAID_INVALID_ARGUMENT, "the processes have different numbers of CUDA devices");
}

/* --- before the first step -----------------------------------------------------------------------------------------
 */
static uint32_t sum_words(uint32_t sum, const void *data, size_t bytes) {
  return (uint32_t)crc32_z(sum, data, bytes);
}

/* Of the collectives in the order in which the plan runs them, and of how their operands lie in memory. */
static uint32_t sum_collectives(const braid_trainer *trainer) {
  const braid_plan *plan = trainer->session->plan;
  uint32_t sum = 0;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    if (step->node < 0 || !(plan->graph->nodes[step->node].op->flags & BRAID_OP_COLLECTIVE)) continue;
    sum = sum_words(sum, step->label, strlen(step->label) + 1);
    for (size_t k = 0; k < step->input_count; k++) {
      const braid_desc *desc = &plan->instances[step->instances[k]].desc;
      uint64_t numbers[] = {desc->dtype, desc->layout, braid_desc_bytes(desc)};
      sum = sum_words(sum, numbers, sizeof numbers);
    }
  }
  return sum;
}

/* MPI takes calls of one thread at a time: whether all collectives are of one queue. */
static bool is_one_queue(const braid_trainer *trainer) {
  const braid_plan *plan = trainer->session->plan;
  int queue = -1;
  for (size_t i = 0; i < plan->steps.count; i++) {
    const braid_step *step = &plan->steps.items[i];
    if (step->node < 0 || !(plan->graph->nodes[step->node].op->flags & BRAID_OP_COLLECTIVE)) continue;
    if (queue >= 0 && step->queue != queue) return false;
    queue = step->queue;
  }
  return true;
}

/* Our first line that process 0 has not at the same place; the path of the data may be another one. */
static braid_status compare_lines(const char *ours, const char *theirs) {
  static const char kPath[] = "data set: ";
  while (*ours || *theirs) {
    size_t own = strcspn(ours, "\n"), other = strcspn(theirs, "\n");
    bool same = own == other && memcmp(ours, theirs, own) == 0;
    bool path = strncmp(ours, kPath, sizeof kPath - 1) == 0 && strncmp(theirs, kPath, sizeof kPath - 1) == 0;
    if (!same && !path)
      return braid_fail(BRAID_INVALID_ARGUMENT, "it trains with \"%.*s\", process 0 with \"%.*s\"",
                        own < 200 ? (int)own : 200, ours, other < 200 ? (int)other : 200, theirs);
    ours += own + (ours[own] != '\0');
    theirs += other + (theirs[other] != '\0');
  }
  return BRAID_OK;
}

static braid_status compare_settings(braid_trainer *trainer) {
  braid_group *group = trainer->slice.group;
  int64_t bytes = (int64_t)strlen(trainer->settings) + 1;
  BRAID_TRY(braid_group_broadcast(group, &bytes, sizeof bytes, 0));
  char *theirs = braid_zalloc(trainer->allocator, (size_t)bytes);
  braid_status status = braid_group_agree(group, theirs ? BRAID_OK : BRAID_NO_MEMORY);
  if (status == BRAID_OK && !trainer->slice.rank) memcpy(theirs, trainer->settings, (size_t)bytes);
  if (status == BRAID_OK) status = braid_group_broadcast(group, theirs, (size_t)bytes, 0);
  if (status == BRAID_OK) status = braid_group_agree(group, compare_lines(trainer->settings, theirs));
  braid_free(trainer->allocator, theirs);
  return status;
}

braid_status braid_peers_check(braid_trainer *trainer) {
  bool same;
  if (!trainer->slice.group) return BRAID_OK;
  BRAID_TRY(compare_settings(trainer));
  BRAID_TRY(braid_group_agree(
      trainer->slice.group,
      is_one_queue(trainer) ? BRAID_OK
                            : braid_fail(BRAID_UNSUPPORTED,
                                         "gradients of several devices of one process are not summed over processes")));
  BRAID_TRY(is_same(trainer->slice.group, sum_collectives(trainer), &same));
  return braid_group_agree(
      trainer->slice.group,
      same
          ? BRAID_OK
          : braid_fail(BRAID_UNSUPPORTED,
                       "the processes chose different kernels, whose gradients lie in memory in different orders; they "
                       "need equal processors, and a batch that %d divides",
                       trainer->slice.size));
}

/* --- state ---------------------------------------------------------------------------------------------------------
 */
typedef struct position {
  int64_t epoch, epoch_step, correct, seen, rows, resumed;
  double loss_sum, epoch_seconds;
} position;

static braid_status share_position(braid_trainer *trainer) {
  braid_group *group = trainer->slice.group;
  position p = {
      trainer->epoch,   trainer->epoch_step, trainer->correct,      trainer->seen, (int64_t)trainer->record.count,
      trainer->resumed, trainer->loss_sum,   trainer->epoch_seconds};
  BRAID_TRY(braid_group_broadcast(group, &p, sizeof p, 0));
  trainer->epoch = p.epoch;
  trainer->epoch_step = p.epoch_step;
  trainer->correct = p.correct;
  trainer->seen = p.seen;
  trainer->resumed = p.resumed != 0;
  trainer->loss_sum = p.loss_sum;
  trainer->epoch_seconds = p.epoch_seconds;
  if (!p.rows) return BRAID_OK;
  if (trainer->slice.rank) {
    void *rows = braid_zalloc_array(trainer->allocator, (size_t)p.rows, sizeof *trainer->record.rows);
    if (!rows) return BRAID_NO_MEMORY;
    trainer->record = (braid_record){rows, (size_t)p.rows, (size_t)p.rows};
  }
  return braid_group_broadcast(group, trainer->record.rows, (size_t)p.rows * sizeof *trainer->record.rows, 0);
}

static braid_status share_value(braid_trainer *trainer, const braid_value *value) {
  braid_tensor *tensor;
  BRAID_TRY(braid_tensor_create(trainer->allocator, &value->desc, &tensor));
  braid_status status = trainer->slice.rank ? BRAID_OK : braid_session_read(trainer->session, value->name, tensor);
  if (status == BRAID_OK)
    status = braid_group_broadcast(trainer->slice.group, braid_tensor_data(tensor), braid_desc_bytes(&value->desc), 0);
  if (status == BRAID_OK && trainer->slice.rank) status = braid_session_write(trainer->session, value->name, tensor);
  braid_tensor_release(tensor);
  return status;
}

braid_status braid_peers_state(braid_trainer *trainer) {
  if (!trainer->slice.group) return BRAID_OK;
  BRAID_TRY(share_position(trainer));
  for (size_t i = 0; i < trainer->step->value_count; i++)
    if (braid_value_is_kept(&trainer->step->values[i])) BRAID_TRY(share_value(trainer, &trainer->step->values[i]));
  return trainer->slice.rank ? braid_trainer_seek(trainer) : BRAID_OK;
}

/* Of all processes the same bytes, since their plans keep values in the same layouts; but for what lies between the
 * elements of padded ones. */
static braid_status add_item(void *context, const braid_state_item *item, const void *bytes) {
  uint32_t *sum = context;
  braid_tensor *tensor = NULL;
  size_t count = item->bytes;
  if (braid_desc_is_padded(&item->desc)) {
    BRAID_TRY(braid_tensor_create(NULL, &item->value->desc, &tensor));
    braid_layout_unpack(&item->desc, bytes, braid_tensor_data(tensor));
    bytes = braid_tensor_const_data(tensor);
    count = braid_desc_bytes(&item->value->desc);
  }
  braid_digest digest = braid_digest_of(bytes, count); /* faster than a CRC by far */
  braid_tensor_release(tensor);
  *sum = sum_words(*sum, digest.words, sizeof digest.words);
  return BRAID_OK;
}

braid_status braid_peers_choose(braid_trainer *trainer, bool *choice) {
  int32_t chosen = *choice;
  BRAID_TRY(braid_group_broadcast(trainer->slice.group, &chosen, sizeof chosen, 0));
  *choice = chosen != 0;
  return BRAID_OK;
}

braid_status braid_peers_compare(braid_trainer *trainer) {
  uint32_t sum = 0;
  bool same;
  if (!trainer->slice.group) return BRAID_OK;
  BRAID_TRY(braid_state_copy_visit(trainer, add_item, &sum));
  BRAID_TRY(is_same(trainer->slice.group, sum, &same));
  return braid_group_agree(trainer->slice.group,
                           same ? BRAID_OK
                                : braid_fail(BRAID_INTERNAL, "the parameters of the processes are not the same"));
}

/* --- numbers of steps and epochs -----------------------------------------------------------------------------------
 */
braid_status braid_peers_end_step(braid_trainer *trainer, braid_status status) {
  braid_group *group = trainer->slice.group;
  int64_t sums[3] = {trainer->step_correct, trainer->step_seen, status != BRAID_OK};
  if (!group) return status;
  char detail[1024]; /* the collective clears it */
  snprintf(detail, sizeof detail, "%s", braid_error_detail());
  BRAID_TRY(braid_group_all_reduce(group, sums, 3, BRAID_I64, BRAID_REDUCE_SUM));
  trainer->step_correct = sums[0];
  trainer->step_seen = sums[1];
  if (!sums[2]) return BRAID_OK;
  if (status != BRAID_OK) status = braid_fail(status, "%s", detail);
  status = braid_group_agree(group, status);
  return braid_group_failed_together(group) ? BRAID_OK : status;
}

braid_status braid_peers_begin_step(const braid_trainer *trainer, bool told, braid_status status) {
  braid_group *group = trainer->slice.group;
  return told && !braid_group_failed_together(group) ? BRAID_OK : braid_group_agree(group, status);
}

braid_status braid_peers_row(braid_trainer *trainer) {
  double *row = trainer->record.rows[trainer->record.count - 1];
  return braid_group_broadcast(trainer->slice.group, row, sizeof trainer->record.rows[0], 0);
}
