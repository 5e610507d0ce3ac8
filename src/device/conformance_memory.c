/* Conformance: buffers and transfers. */
#include <string.h>

#include "device/conformance.h"

static void fill(uint8_t *bytes, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(seed >> 24);
  }
}

enum { kBytes = 10007, kPieces = 3 };

static bool case_sizes(braid_suite *suite, char *detail) {
  static const size_t kSizes[] = {1, 63, 64, 4097, 1 << 20};
  void *buffers[sizeof kSizes / sizeof *kSizes] = {NULL};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) {
    braid_status status = suite->backend->buffer_create(suite->self, kSizes[i], &buffers[i]);
    if (status != BRAID_OK) {
      while (i-- > 0) suite->backend->buffer_destroy(suite->self, buffers[i]);
      return braid_suite_fail(detail, "no buffer of some bytes: %s", braid_error_detail());
    }
  }
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; i++) suite->backend->buffer_destroy(suite->self, buffers[i]);
  return true;
}

static bool case_full(braid_suite *suite, char *detail) {
  void *buffer = NULL;
  braid_status status = suite->backend->buffer_create(suite->self, SIZE_MAX / 2, &buffer);
  if (status == BRAID_OK) suite->backend->buffer_destroy(suite->self, buffer);
  SUITE_CHECK(status == BRAID_NO_MEMORY, "a buffer of %zu bytes gives \"%s\"", SIZE_MAX / 2, braid_status_text(status));
  SUITE_CHECK(!buffer, "a refused buffer is not NULL");
  status = suite->backend->buffer_create(suite->self, 256, &buffer);
  SUITE_CHECK(status == BRAID_OK, "after a refusal nothing can be had: %s", braid_error_detail());
  suite->backend->buffer_destroy(suite->self, buffer);
  return true;
}

/* Writes pieces at aligned offsets and reads all back: each in its place, none over its neighbour. */
static bool check_pieces(braid_suite *suite, void *buffer, size_t stride, char *detail) {
  uint8_t sent[kBytes], got[kBytes];
  for (int i = 0; i < kPieces; i++) {
    fill(sent, kBytes, (uint32_t)i);
    SUITE_CHECK(braid_suite_write(suite, suite->queue, buffer, (size_t)i * stride, sent, kBytes) == BRAID_OK,
                "write: %s", braid_error_detail());
  }
  for (int i = 0; i < kPieces; i++) {
    fill(sent, kBytes, (uint32_t)i);
    memset(got, 0, sizeof got);
    SUITE_CHECK(braid_suite_read(suite, suite->queue, buffer, (size_t)i * stride, got, kBytes) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(suite->info->modelled || memcmp(sent, got, kBytes) == 0, "piece %d comes back changed", i);
  }
  return true;
}

static size_t aligned_stride(const braid_suite *suite) {
  return (kBytes + suite->info->alignment - 1) & ~(suite->info->alignment - 1);
}

static bool case_round_trip(braid_suite *suite, char *detail) {
  size_t stride = aligned_stride(suite);
  void *buffer;
  SUITE_CHECK(suite->backend->buffer_create(suite->self, stride * kPieces, &buffer) == BRAID_OK, "buffer: %s",
              braid_error_detail());
  bool passed = check_pieces(suite, buffer, stride, detail);
  suite->backend->buffer_destroy(suite->self, buffer);
  return passed;
}

static bool check_copy(braid_suite *suite, void *from, void *to, size_t offset, char *detail) {
  uint8_t sent[kBytes], got[kBytes] = {0};
  fill(sent, kBytes, 7);
  SUITE_CHECK(braid_suite_write(suite, suite->queue, from, 0, sent, kBytes) == BRAID_OK, "write: %s",
              braid_error_detail());
  braid_task copy = {.kind = BRAID_TASK_COPY,
                     .source = {.buffer = from, .bytes = kBytes},
                     .target = {.buffer = to, .offset = offset, .bytes = kBytes}};
  SUITE_CHECK(braid_suite_do(suite->queue, suite, &copy) == BRAID_OK, "copy: %s", braid_error_detail());
  SUITE_CHECK(braid_suite_read(suite, suite->queue, to, offset, got, kBytes) == BRAID_OK, "read: %s",
              braid_error_detail());
  SUITE_CHECK(suite->info->modelled || memcmp(sent, got, kBytes) == 0, "the copy differs");
  return true;
}

static bool case_copy(braid_suite *suite, char *detail) {
  size_t stride = aligned_stride(suite);
  void *from = NULL, *to = NULL;
  bool passed = suite->backend->buffer_create(suite->self, stride, &from) == BRAID_OK &&
                suite->backend->buffer_create(suite->self, 2 * stride, &to) == BRAID_OK;
  if (passed)
    passed = check_copy(suite, from, to, stride, detail);
  else
    braid_suite_fail(detail, "buffer: %s", braid_error_detail());
  if (to) suite->backend->buffer_destroy(suite->self, to);
  if (from) suite->backend->buffer_destroy(suite->self, from);
  return passed;
}

static bool case_map(braid_suite *suite, char *detail) {
  if (suite->info->memory != BRAID_MEMORY_UNIFIED) {
    braid_suite_fail(detail, "unsupported: memory of its own");
    return true;
  }
  void *buffer;
  uint8_t sent[100];
  fill(sent, sizeof sent, 3);
  SUITE_CHECK(suite->backend->buffer_create(suite->self, sizeof sent, &buffer) == BRAID_OK, "buffer: %s",
              braid_error_detail());
  uint8_t *mapped = suite->backend->buffer_map(suite->self, buffer);
  bool aligned = mapped && (uintptr_t)mapped % suite->info->alignment == 0;
  bool written = aligned && braid_suite_write(suite, suite->queue, buffer, 0, sent, sizeof sent) == BRAID_OK;
  bool same = written && memcmp(mapped, sent, sizeof sent) == 0;
  suite->backend->buffer_destroy(suite->self, buffer);
  SUITE_CHECK(aligned, "a buffer's address is not aligned to %zu", suite->info->alignment);
  SUITE_CHECK(same, "what was written is not seen through the mapping");
  return true;
}

static bool case_peer(braid_suite *suite, char *detail) {
  if (!suite->backend->peer || !suite->backend->peer(suite->self, suite->self)) {
    braid_suite_fail(detail, "unsupported: goes by way of the host");
    return true;
  }
  uint8_t sent[64], got[64] = {0};
  fill(sent, sizeof sent, 5);
  size_t stride = aligned_stride(suite);
  void *buffer;
  SUITE_CHECK(suite->backend->buffer_create(suite->self, 2 * stride, &buffer) == BRAID_OK, "buffer: %s",
              braid_error_detail());
  braid_task copy = {.kind = BRAID_TASK_COPY,
                     .source = {.buffer = buffer, .bytes = sizeof sent},
                     .target = {.buffer = buffer, .offset = stride, .bytes = sizeof sent},
                     .source_device = suite->self};
  bool ran = braid_suite_write(suite, suite->queue, buffer, 0, sent, sizeof sent) == BRAID_OK &&
             braid_suite_do(suite->queue, suite, &copy) == BRAID_OK &&
             braid_suite_read(suite, suite->queue, buffer, stride, got, sizeof got) == BRAID_OK;
  suite->backend->buffer_destroy(suite->self, buffer);
  SUITE_CHECK(ran, "a copy that names its source's device: %s", braid_error_detail());
  SUITE_CHECK(suite->info->modelled || memcmp(sent, got, sizeof sent) == 0, "the copy differs");
  return true;
}

void braid_suite_memory(braid_suite *suite) {
  braid_suite_case(suite, "buffer sizes", case_sizes);
  braid_suite_case(suite, "out of memory", case_full);
  braid_suite_case(suite, "round trip", case_round_trip);
  braid_suite_case(suite, "copy", case_copy);
  braid_suite_case(suite, "mapping", case_map);
  braid_suite_case(suite, "copy between devices", case_peer);
}
