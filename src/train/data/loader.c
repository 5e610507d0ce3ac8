/* Threads that make batches ahead of their use, into a ring of slots.
 *
 * Batches are numbered from the loader's start; batch number n goes to slot n % depth, once the consumer has given that
 * back, and the consumer takes slots in order. Threads share a batch: each takes the next rows of it, and who ends the
 * last of them completes it, so that a batch is there in a thread's part of the time. Which sample stands where is a
 * function of (seed, epoch, position) alone, so neither threads nor the point of start change a bit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/pages.h"
#include "base/philox.h"
#include "base/thread.h"
#include "base/try.h"
#include "train/data/augment.h"
#include "train/data/dataset.h"

enum {
  kDefaultDepth = 3,
  kMaxThreads = 64,
  kMostUsualThreads = 8,
  kMaxDepth = 1024,
  kTurns = 4, /* how often a thread takes rows of a batch */
  kRounds = 6,
  kDetailBytes = 512,
  kShuffleStream = 0x5AF,
  kAlignment = 64
};

typedef struct slot {
  float *images;
  uint8_t *targets, *mixed_targets; /* the second with mixup */
  float mix;
  int64_t *indices, number; /* number: of the batch that is in it, -1 none */
  int64_t rows_left;        /* that are not filled yet */
  int64_t failed_row;       /* the first that could not be read */
  braid_status status;
  char detail[kDetailBytes];
} slot;

struct braid_loader {
  const braid_allocator *allocator;
  braid_dataset *dataset;
  braid_loader_options options;
  int64_t samples, steps;
  size_t sample_floats, scratch_floats, target_bytes;
  braid_target_kind target;
  int classes;
  int64_t rows;   /* samples of a batch that are given */
  bool partnered; /* a slice, with mixup: behind them lie the samples that they are mixed with */
  slot *slots;
  uint8_t *memory; /* images and targets of all slots */
  size_t memory_bytes;
  float **scratch; /* one per thread */
  braid_thread threads[kMaxThreads];
  int thread_count, thread_ids;
  pthread_mutex_t lock;
  pthread_cond_t filled, freed;
  int64_t next_fill, next_take; /* batch numbers; what lies before next_take is free */
  int64_t next_row;             /* of next_fill */
  bool held, stopping;          /* held: the consumer still reads batch next_take - 1 */
};

/* --- order ---------------------------------------------------------------------------------------------------------
 * A permutation of 0..n-1 without a table: a Feistel network over the next even power of two, walked until it falls
 * inside. */
static uint64_t mix(uint64_t seed, uint32_t epoch, int bits, uint64_t value) {
  uint64_t mask = ((uint64_t)1 << bits) - 1, left = value >> bits, right = value & mask;
  for (uint64_t round = 0; round < kRounds; round++) {
    uint64_t next = left ^ (braid_random_u32(seed, epoch, kShuffleStream, (right * kRounds + round) * 4) & mask);
    left = right;
    right = next;
  }
  return left << bits | right;
}

static int64_t shuffled(const braid_loader *loader, int64_t epoch, int64_t position) {
  int bits = 1;
  while (bits < 31 && (int64_t)1 << (2 * bits) < loader->samples) bits++;
  uint64_t value = (uint64_t)position;
  do value = mix(loader->options.seed, (uint32_t)epoch, bits, value);
  while (value >= (uint64_t)loader->samples);
  return (int64_t)value;
}

/* --- filling -------------------------------------------------------------------------------------------------------
 */
static bool is_padding(const braid_loader *loader, int64_t step, int64_t within) {
  return step * loader->options.batch + within >= loader->samples;
}

/* Row `at` of the slot becomes sample `within` of the batch. */
static braid_status fill_sample(braid_loader *loader, slot *s, int64_t epoch, int64_t step, int64_t at, int64_t within,
                                float *scratch) {
  int64_t position = step * loader->options.batch + within;
  float *pixels = s->images + (size_t)at * loader->sample_floats;
  uint8_t *target = s->targets + (size_t)at * loader->target_bytes;
  if (is_padding(loader, step, within)) return BRAID_OK;
  braid_augment how = {loader->options.seed, (uint32_t)epoch, (uint64_t)position};
  s->indices[at] = loader->options.shuffle ? shuffled(loader, epoch, position) : position;
  BRAID_TRY(braid_dataset_read(loader->dataset, s->indices[at], loader->options.augment ? &how : NULL, scratch, pixels,
                               target));
  int32_t *label = (int32_t *)(void *)target;
  if (loader->target == BRAID_TARGET_CLASS)
    *label = braid_augment_label(loader->options.label_noise, how.seed, how.epoch, (uint64_t)s->indices[at], *label,
                                 loader->classes);
  return BRAID_OK;
}

/* Each sample with the one as far from the other end; a pair exchanges its shares. */
static void mix_samples(const braid_loader *loader, slot *s, int64_t epoch, int64_t step) {
  const braid_loader_options *o = &loader->options;
  float mix = (float)braid_augment_mix(o->mixup, o->seed, (uint32_t)epoch, (uint64_t)step);
  s->mix = mix;
  for (int64_t at = 0; at < o->batch; at++)
    memcpy(s->mixed_targets + (size_t)at * loader->target_bytes,
           s->targets + (size_t)(o->batch - 1 - at) * loader->target_bytes, loader->target_bytes);
  for (int64_t at = 0; at < o->batch / 2; at++) {
    float *one = s->images + (size_t)at * loader->sample_floats;
    float *other = s->images + (size_t)(o->batch - 1 - at) * loader->sample_floats;
    for (size_t i = 0; i < loader->sample_floats; i++) {
      float first = one[i], second = other[i];
      one[i] = mix * first + (1 - mix) * second;
      other[i] = mix * second + (1 - mix) * first;
    }
  }
}

/* The same for a slice, whose partners lie behind it; a sample that is its own partner stays. */
static void mix_slice(const braid_loader *loader, slot *s, int64_t epoch, int64_t step) {
  const braid_loader_options *o = &loader->options;
  float mix = (float)braid_augment_mix(o->mixup, o->seed, (uint32_t)epoch, (uint64_t)step);
  size_t rows = (size_t)loader->rows;
  s->mix = mix;
  memcpy(s->mixed_targets, s->targets + rows * loader->target_bytes, rows * loader->target_bytes);
  for (size_t at = 0; at < rows; at++) {
    float *one = s->images + at * loader->sample_floats, *other = one + rows * loader->sample_floats;
    bool own = 2 * (o->slice_first + (int64_t)at) + 1 == o->batch;
    for (size_t i = 0; !own && i < loader->sample_floats; i++) one[i] = mix * one[i] + (1 - mix) * other[i];
  }
}

/* What an incomplete batch lacks is its first sample. */
static void pad_batch(const braid_loader *loader, slot *s, int64_t step) {
  for (int64_t at = 1; at < loader->rows; at++) {
    if (!is_padding(loader, step, at)) continue;
    memcpy(s->images + (size_t)at * loader->sample_floats, s->images, loader->sample_floats * sizeof *s->images);
    memcpy(s->targets + (size_t)at * loader->target_bytes, s->targets, loader->target_bytes);
    s->indices[at] = s->indices[0];
  }
}

/* Once all rows are there. */
static void complete_batch(const braid_loader *loader, slot *s, int64_t number) {
  int64_t epoch = number / loader->steps, step = number % loader->steps;
  if (s->status != BRAID_OK) return;
  if (loader->options.keep_last) pad_batch(loader, s, step);
  if (loader->options.mixup > 0) (loader->partnered ? mix_slice : mix_samples)(loader, s, epoch, step);
}

/* *row: in, the first of `count` rows; out, the one that failed. */
static braid_status fill_rows(braid_loader *loader, slot *s, int64_t number, int64_t *row, int64_t count,
                              float *scratch) {
  int64_t epoch = number / loader->steps, step = number % loader->steps, first = loader->options.slice_first;
  for (int64_t end = *row + count; *row < end; ++*row) {
    BRAID_TRY(fill_sample(loader, s, epoch, step, *row, first + *row, scratch));
    if (loader->partnered)
      BRAID_TRY(
          fill_sample(loader, s, epoch, step, loader->rows + *row, loader->options.batch - 1 - first - *row, scratch));
  }
  return BRAID_OK;
}

/* The failure of a batch is that of its first row that fails, whoever comes to it first. */
static void note_failed_row(slot *s, braid_status status, int64_t row) {
  if (status == BRAID_OK || row >= s->failed_row) return;
  s->failed_row = row;
  s->status = status;
  snprintf(s->detail, sizeof s->detail, "%s", braid_error_detail());
}

/* The slot of the batch that the consumer still reads is not free. */
static bool has_rows(const braid_loader *loader) {
  return loader->next_fill - (loader->next_take - loader->held) < loader->options.depth;
}

/* The next rows that are to be filled, of a slot that is free. */
static slot *take_rows(braid_loader *loader, int64_t *number, int64_t *row, int64_t *count) {
  int64_t some = loader->rows / ((int64_t)loader->options.threads * kTurns), left = loader->rows - loader->next_row;
  slot *s = &loader->slots[loader->next_fill % loader->options.depth];
  *number = loader->next_fill;
  *row = loader->next_row;
  *count = some < 1 ? 1 : some < left ? some : left;
  if (!*row) {
    s->status = BRAID_OK;
    s->rows_left = s->failed_row = loader->rows;
  }
  loader->next_row = *count < left ? *row + *count : 0;
  loader->next_fill += *count == left;
  return s;
}

static void *work(void *context) {
  braid_loader *loader = context;
  pthread_mutex_lock(&loader->lock);
  float *scratch = loader->scratch[loader->thread_ids++];
  for (;;) {
    while (!loader->stopping && !has_rows(loader)) pthread_cond_wait(&loader->freed, &loader->lock);
    if (loader->stopping) break;
    int64_t number, row, count;
    slot *s = take_rows(loader, &number, &row, &count);
    if (has_rows(loader)) pthread_cond_signal(&loader->freed); /* threads wake each other: the consumer wakes one */
    if (row < s->failed_row) {
      pthread_mutex_unlock(&loader->lock);
      int64_t reached = row;
      braid_status status = fill_rows(loader, s, number, &reached, count, scratch);
      pthread_mutex_lock(&loader->lock);
      note_failed_row(s, status, reached);
    }
    s->rows_left -= count;
    if (s->rows_left) continue;
    pthread_mutex_unlock(&loader->lock);
    complete_batch(loader, s, number);
    pthread_mutex_lock(&loader->lock);
    s->number = number;
    pthread_cond_signal(&loader->filled);
  }
  pthread_mutex_unlock(&loader->lock);
  return NULL;
}

/* --- creation ------------------------------------------------------------------------------------------------------
 */
static braid_status loader_check(const braid_loader_options *o, int64_t samples) {
  if (o->batch < 1 || o->batch > INT32_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "batch of %" PRId64 ", 1 to %d are expected", o->batch, INT32_MAX);
  if (o->threads < 0 || o->threads > kMaxThreads || o->depth < 0 || o->depth > kMaxDepth)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d loader threads and %d batches ahead, at most %d and %d are expected",
                      o->threads, o->depth, kMaxThreads, kMaxDepth);
  if (!(o->mixup >= 0) || o->mixup > 1e6 || !(o->label_noise >= 0 && o->label_noise <= 1))
    return braid_fail(BRAID_INVALID_ARGUMENT, "mixup must be from 0 to 1e6, label noise from 0 to 1");
  if (o->slice_first < 0 || o->slice_count < 0 || o->slice_first > o->batch - o->slice_count ||
      (!o->slice_count && o->slice_first) || (o->slice_count && o->keep_last))
    return braid_fail(BRAID_INVALID_ARGUMENT, "a slice is of some samples of a whole batch");
  if (o->mixup > 0 && o->keep_last)
    return braid_fail(BRAID_INVALID_ARGUMENT, "mixup is of whole batches: the last one can't be kept");
  if (!o->keep_last && samples < o->batch)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the data set has %" PRId64 " samples, fewer than a batch of %" PRId64,
                      samples, o->batch);
  return BRAID_OK;
}

/* Where a loader begins; the number of its first batch. */
static braid_status check_start(int64_t steps, int64_t epoch, int64_t step, int64_t *number) {
  if (epoch < 0 || step < 0 || step >= steps)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "a loader cannot begin at epoch %" PRId64 ", step %" PRId64 ": an epoch has %" PRId64 " steps",
                      epoch, step, steps);
  if (epoch > UINT32_MAX || !braid_mul_i64(epoch, steps, number) || !braid_add_i64(*number, step, number))
    return braid_fail(BRAID_OUT_OF_RANGE, "epoch %" PRId64 " is beyond what can be counted", epoch);
  return BRAID_OK;
}

/* All slots in one piece, so that it can be pinned. */
static braid_status make_slots(braid_loader *loader) {
  const braid_loader_options *o = &loader->options;
  size_t rows = (size_t)loader->rows * (loader->partnered ? 2 : 1), depth = (size_t)o->depth, images = 0, targets = 0,
         all;
  loader->slots = braid_zalloc_array(loader->allocator, depth, sizeof *loader->slots);
  loader->scratch = braid_zalloc_array(loader->allocator, (size_t)o->threads, sizeof *loader->scratch);
  if (!loader->slots || !loader->scratch) return BRAID_NO_MEMORY;
  bool fits = braid_mul_size(rows, loader->sample_floats * sizeof(float), &images) &&
              braid_mul_size(rows, loader->target_bytes, &targets) && braid_add_size(images, kAlignment - 1, &images) &&
              braid_add_size(targets, kAlignment - 1, &targets);
  images &= ~(size_t)(kAlignment - 1);
  targets &= ~(size_t)(kAlignment - 1);
  fits = fits && braid_mul_size(targets, o->mixup > 0 ? 2 : 1, &all) && braid_add_size(all, images, &all) &&
         braid_mul_size(all, depth, &loader->memory_bytes);
  loader->memory = fits ? braid_zalloc_pages(loader->allocator, loader->memory_bytes) : NULL;
  if (!loader->memory) return braid_fail(BRAID_NO_MEMORY, "no room for %d batches of %zu samples", o->depth, rows);
  for (size_t i = 0; i < depth; i++) {
    slot *s = &loader->slots[i];
    uint8_t *at = loader->memory + i * all;
    *s = (slot){.images = (float *)(void *)at, .targets = at + images, .number = -1, .mix = 1};
    if (o->mixup > 0) s->mixed_targets = at + images + targets;
    s->indices = braid_zalloc_array(loader->allocator, rows, sizeof *s->indices);
    if (!s->indices) return BRAID_NO_MEMORY;
  }
  for (int i = 0; i < o->threads; i++) {
    loader->scratch[i] = braid_zalloc_array(loader->allocator, loader->scratch_floats, sizeof(float));
    if (!loader->scratch[i]) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

static braid_status start(braid_loader *loader) {
  BRAID_TRY(make_slots(loader));
  for (; loader->thread_count < loader->options.threads; loader->thread_count++)
    BRAID_TRY(braid_thread_start(&loader->threads[loader->thread_count], "braid loader", work, loader));
  return BRAID_OK;
}

braid_status braid_loader_create(braid_dataset *dataset, const braid_loader_options *options, int64_t first_epoch,
                                 int64_t first_step, braid_loader **out) {
  *out = NULL;
  braid_dataset_info info = braid_dataset_get_info(dataset);
  BRAID_TRY(loader_check(options, info.samples));
  if (options->label_noise > 0 && info.target != BRAID_TARGET_CLASS)
    return braid_fail(BRAID_INVALID_ARGUMENT, "label noise is for targets that are one class");
  int64_t steps = (info.samples + (options->keep_last ? options->batch - 1 : 0)) / options->batch, first;
  BRAID_TRY(check_start(steps, first_epoch, first_step, &first));
  const braid_allocator *allocator = braid_dataset_allocator(dataset);
  braid_loader *loader = braid_zalloc(allocator, sizeof *loader);
  if (!loader) return BRAID_NO_MEMORY;
  *loader = (braid_loader){.allocator = allocator, .dataset = dataset, .options = *options, .samples = info.samples};
  if (!loader->options.threads) loader->options.threads = 1;
  if (!loader->options.depth) loader->options.depth = kDefaultDepth;
  if (loader->options.depth < 2) loader->options.depth = 2; /* one is read while the next is made */
  loader->steps = steps;
  loader->rows = options->slice_count ? options->slice_count : options->batch;
  loader->partnered = options->slice_count && options->mixup > 0;
  loader->sample_floats = (size_t)info.channels * (size_t)info.height * (size_t)info.width;
  loader->scratch_floats = braid_dataset_scratch(dataset);
  loader->target_bytes = braid_dataset_target_bytes(dataset);
  loader->target = info.target;
  loader->classes = info.classes;
  loader->next_fill = loader->next_take = first;
  pthread_mutex_init(&loader->lock, NULL);
  pthread_cond_init(&loader->filled, NULL);
  pthread_cond_init(&loader->freed, NULL);
  braid_status status = start(loader);
  if (status == BRAID_OK)
    *out = loader;
  else
    braid_loader_destroy(loader);
  return status;
}

void braid_loader_destroy(braid_loader *loader) {
  if (!loader) return;
  pthread_mutex_lock(&loader->lock);
  loader->stopping = true;
  pthread_cond_broadcast(&loader->freed);
  pthread_mutex_unlock(&loader->lock);
  for (int i = 0; i < loader->thread_count; i++) braid_thread_join(&loader->threads[i]);
  for (int i = 0; loader->slots && i < loader->options.depth; i++)
    braid_free(loader->allocator, loader->slots[i].indices);
  braid_free(loader->allocator, loader->memory);
  for (int i = 0; loader->scratch && i < loader->options.threads; i++)
    braid_free(loader->allocator, loader->scratch[i]);
  braid_free(loader->allocator, loader->slots);
  braid_free(loader->allocator, loader->scratch);
  pthread_cond_destroy(&loader->freed);
  pthread_cond_destroy(&loader->filled);
  pthread_mutex_destroy(&loader->lock);
  braid_free(loader->allocator, loader);
}

int braid_loader_usual_threads(void) {
  int half = braid_cpu_count() / 2;
  return half < 1 ? 1 : half > kMostUsualThreads ? kMostUsualThreads : half;
}

void *braid_loader_memory(const braid_loader *loader, size_t *bytes) {
  *bytes = loader->memory_bytes;
  return loader->memory;
}

int64_t braid_loader_steps(const braid_loader *loader) {
  return loader->steps;
}

braid_status braid_loader_next(braid_loader *loader, braid_batch *batch) {
  pthread_mutex_lock(&loader->lock);
  int64_t number = loader->next_take++;
  loader->held = true;
  pthread_cond_signal(&loader->freed); /* the batch before is given back */
  slot *s = &loader->slots[number % loader->options.depth];
  while (s->number != number) pthread_cond_wait(&loader->filled, &loader->lock);
  pthread_mutex_unlock(&loader->lock);
  if (s->status != BRAID_OK) return braid_fail(s->status, "%s", s->detail);
  int64_t epoch = number / loader->steps, step = number % loader->steps;
  int64_t left = loader->samples - step * loader->options.batch;
  bool classes = loader->target == BRAID_TARGET_CLASS;
  *batch = (braid_batch){.images = s->images,
                         .labels = classes ? (const int32_t *)(const void *)s->targets : NULL,
                         .mixed_labels = classes ? (const int32_t *)(const void *)s->mixed_targets : NULL,
                         .targets = s->targets,
                         .mixed_targets = s->mixed_targets,
                         .mix = s->mix,
                         .indices = s->indices,
                         .count = left < loader->rows ? left : loader->rows,
                         .epoch = epoch,
                         .step = step};
  return BRAID_OK;
}
