/* Conformance: buffers and transfers. What lies beside a transfer's target must stay as it is. */
#include <string.h>

#include "base/clock.h"
#include "device/conformance.h"

enum { kMargin = 4096, kFarther = 23456, kBuffers = 7 };
static const size_t kLengths[] = {1, 3, 64, 4097, 10007, (64 << 10) + 5, (3 << 20) + 1};
static const size_t kLargeBlock = (size_t)256 << 20, kTurnovers = 64, kMostCycles = 4000;
/* A sanitizer that marks each byte would take minutes. What is kept is seen without ThreadSanitizer, too. */
#ifdef __SANITIZE_THREAD__
static const int64_t kTurnoversNs = 300000000;
#else
static const int64_t kTurnoversNs = 3000000000;
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool same(const braid_suite *suite, const void *sent, const void *got, size_t bytes) {
  return suite->info->modelled || memcmp(sent, got, bytes) == 0;
}

static bool buffer_create(const braid_suite *suite, size_t bytes, void **buffer, char *detail) {
  braid_status status = suite->backend->buffer_create(suite->self, bytes, buffer);
  if (status != BRAID_OK) *buffer = NULL;
  SUITE_CHECK(status == BRAID_OK, "no buffer of %zu bytes: %s", bytes, braid_error_detail());
  return true;
}

static void destroy(const braid_suite *suite, void *buffer) {
  if (buffer && !suite->stopped) suite->backend->buffer_destroy(suite->self, buffer);
}

/* --- buffers -------------------------------------------------------------------------------------------------------
 * Several at once, each full of its own: none lies in another. */
static size_t length(const braid_suite *suite, size_t index) {
  return braid_suite_at_most(suite, kLengths[index]);
}

static bool fill_buffers(braid_suite *suite, void **buffers, uint8_t *sent, uint8_t *got, char *detail) {
  for (uint32_t i = 0; i < kBuffers; i++) {
    if (!buffer_create(suite, length(suite, i), &buffers[i], detail)) return false;
    braid_suite_fill(sent, length(suite, i), i);
    SUITE_CHECK(braid_suite_write(suite, buffers[i], 0, sent, length(suite, i)) == BRAID_OK, "write: %s",
                braid_error_detail());
  }
  for (uint32_t i = 0; i < kBuffers; i++) {
    braid_suite_fill(sent, length(suite, i), i);
    SUITE_CHECK(braid_suite_read(suite, buffers[i], 0, got, length(suite, i)) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(same(suite, sent, got, length(suite, i)), "a buffer of %zu bytes comes back changed", length(suite, i));
  }
  return true;
}

static bool case_buffers(braid_suite *suite, char *detail) {
  void *buffers[kBuffers] = {NULL};
  size_t most = kLengths[kBuffers - 1];
  uint8_t *sent = braid_alloc(NULL, 2 * most);
  SUITE_CHECK(sent, "no memory for the case");
  bool passed = fill_buffers(suite, buffers, sent, sent + most, detail);
  for (size_t i = 0; i < kBuffers; i++) destroy(suite, buffers[i]);
  if (!suite->stopped) braid_free(NULL, sent);
  return passed;
}

static bool case_full(braid_suite *suite, char *detail) {
  void *buffer = NULL;
  braid_status status = suite->backend->buffer_create(suite->self, SIZE_MAX / 2, &buffer);
  if (status == BRAID_OK) suite->backend->buffer_destroy(suite->self, buffer);
  SUITE_CHECK(status == BRAID_NO_MEMORY, "a buffer of %zu bytes gives \"%s\"", SIZE_MAX / 2, braid_status_text(status));
  SUITE_CHECK(!buffer, "a refused buffer is not NULL");
  SUITE_CHECK(strlen(braid_error_detail()) > 0, "a refusal without a sentence");
  if (!buffer_create(suite, 256, &buffer, detail)) return false;
  suite->backend->buffer_destroy(suite->self, buffer);
  return true;
}

/* Many times all of the memory as far as time allows, one buffer after the other: what each keeps, be it a part, adds
 * up. */
static bool case_returned(braid_suite *suite, char *detail) {
  uint64_t total = suite->info->memory_bytes;
  size_t block = total / 4 > kLargeBlock ? kLargeBlock : (size_t)(total / 4);
  if (block < suite->info->alignment)
    return braid_suite_pass_over(suite, detail, "does not say how much memory it has");
  uint64_t cycles = total / block * kTurnovers;
  int64_t end = braid_now_ns() + kTurnoversNs;
  for (uint64_t i = 0; i < cycles && i < kMostCycles && !braid_suite_over(suite) && braid_now_ns() < end; i++) {
    void *buffer;
    if (!buffer_create(suite, block, &buffer, detail)) return false;
    suite->backend->buffer_destroy(suite->self, buffer);
  }
  return true;
}

/* --- transfers -----------------------------------------------------------------------------------------------------
 * A binding as kernels and copies get it: on unified memory with the address beside buffer and offset. */
static braid_binding bind(const braid_suite *suite, void *buffer, size_t offset, size_t bytes, bool with_host) {
  braid_binding binding = {.buffer = buffer, .offset = offset, .bytes = bytes};
  if (with_host && suite->info->memory == BRAID_MEMORY_UNIFIED)
    binding.host = (uint8_t *)suite->backend->buffer_map(suite->self, buffer) + offset;
  return binding;
}

typedef struct transfer_check {
  braid_suite *suite;
  void *from, *to;
  size_t bytes, room, offset; /* what is moved, of how much, and to where */
  bool with_host;
  uint8_t *sent, *around, *got;
} transfer_check;

static bool transfer(transfer_check *c, braid_task_kind kind, void *host, char *detail) {
  braid_suite *suite = c->suite;
  static const char *const kNames[] = {
      [BRAID_TASK_WRITE] = "write", [BRAID_TASK_READ] = "read", [BRAID_TASK_COPY] = "copy"};
  braid_task task = {.kind = kind, .host = host};
  if (kind != BRAID_TASK_WRITE)
    task.source = bind(suite, kind == BRAID_TASK_READ ? c->to : c->from, kind == BRAID_TASK_READ ? c->offset : 0,
                       c->bytes, c->with_host);
  if (kind != BRAID_TASK_READ) task.target = bind(suite, c->to, c->offset, c->bytes, c->with_host);
  SUITE_CHECK(braid_suite_do(suite, suite->queue, &task) == BRAID_OK, "%s of %zu bytes: %s", kNames[kind], c->bytes,
              braid_error_detail());
  return true;
}

/* The whole target: `around` with `sent` in its place. */
static bool check_target(transfer_check *c, const char *what, char *detail) {
  braid_suite *suite = c->suite;
  memset(c->got, 0, c->room);
  SUITE_CHECK(braid_suite_read(suite, c->to, 0, c->got, c->room) == BRAID_OK, "read: %s", braid_error_detail());
  SUITE_CHECK(same(suite, c->sent, c->got + c->offset, c->bytes), "a %s of %zu bytes to offset %zu arrives changed",
              what, c->bytes, c->offset);
  memcpy(c->got + c->offset, c->around + c->offset, c->bytes);
  SUITE_CHECK(same(suite, c->around, c->got, c->room), "a %s of %zu bytes to offset %zu changes what lies beside it",
              what, c->bytes, c->offset);
  return true;
}

static bool check_transfers(transfer_check *c, char *detail) {
  braid_suite *suite = c->suite;
  braid_suite_fill(c->around, c->room, 99);
  braid_suite_fill(c->sent, c->bytes, (uint32_t)c->bytes);
  SUITE_CHECK(braid_suite_write(suite, c->to, 0, c->around, c->room) == BRAID_OK, "write: %s", braid_error_detail());
  if (!transfer(c, BRAID_TASK_WRITE, c->sent, detail) || !check_target(c, "write", detail)) return false;
  memset(c->got, 0, c->room);
  if (!transfer(c, BRAID_TASK_READ, c->got + kMargin, detail)) return false;
  SUITE_CHECK(same(suite, c->sent, c->got + kMargin, c->bytes), "a read of %zu bytes from offset %zu is wrong",
              c->bytes, c->offset);
  for (size_t i = 0; i < kMargin; i++)
    SUITE_CHECK(!c->got[i] && !c->got[kMargin + c->bytes + i], "a read of %zu bytes writes beside its target",
                c->bytes);
  braid_suite_fill(c->sent, c->bytes, (uint32_t)c->bytes + 1);
  SUITE_CHECK(braid_suite_write(suite, c->from, 0, c->sent, c->bytes) == BRAID_OK, "write: %s", braid_error_detail());
  return transfer(c, BRAID_TASK_COPY, NULL, detail) && check_target(c, "copy", detail);
}

static bool run_transfers(transfer_check *c, char *detail) {
  braid_suite *suite = c->suite;
  c->room = c->offset + c->bytes + kMargin;
  c->sent = braid_alloc(NULL, c->bytes);
  c->around = braid_alloc(NULL, c->room);
  c->got = braid_alloc(NULL, c->room + kMargin);
  SUITE_CHECK(c->sent && c->around && c->got, "no memory for the case");
  return buffer_create(suite, c->bytes, &c->from, detail) && buffer_create(suite, c->room, &c->to, detail) &&
         check_transfers(c, detail);
}

static bool check_lengths(braid_suite *suite, bool with_host, char *detail) {
  bool passed = true;
  for (size_t i = 0; passed && i < COUNT(kLengths); i++) {
    transfer_check c = {.suite = suite, .bytes = length(suite, i), .with_host = with_host};
    c.offset = braid_suite_align(kMargin + i * kFarther, suite->info->alignment);
    passed = run_transfers(&c, detail);
    destroy(suite, c.from);
    destroy(suite, c.to);
    if (suite->stopped) return false;
    braid_free(NULL, c.sent);
    braid_free(NULL, c.around);
    braid_free(NULL, c.got);
  }
  return passed;
}

static bool case_transfers(braid_suite *suite, char *detail) {
  return check_lengths(suite, false, detail);
}

static bool case_addresses(braid_suite *suite, char *detail) {
  if (suite->info->memory != BRAID_MEMORY_UNIFIED) return braid_suite_pass_over(suite, detail, "memory of its own");
  return check_lengths(suite, true, detail);
}

/* From one place of a buffer to another. */
static bool run_within(braid_suite *suite, void *buffer, size_t stride, char *detail) {
  uint8_t sent[10007], got[10007];
  braid_suite_fill(sent, sizeof sent, 5);
  SUITE_CHECK(braid_suite_write(suite, buffer, stride, sent, sizeof sent) == BRAID_OK, "write: %s",
              braid_error_detail());
  bool peer = suite->backend->peer && suite->backend->peer(suite->self, suite->self);
  for (int named = 0; named <= (peer ? 1 : 0); named++) {
    size_t to = named ? 0 : 2 * stride;
    memset(got, 0, sizeof got);
    braid_task copy = {.kind = BRAID_TASK_COPY,
                       .source = {.buffer = buffer, .offset = stride, .bytes = sizeof sent},
                       .target = {.buffer = buffer, .offset = to, .bytes = sizeof sent},
                       .source_device = named ? suite->self : NULL};
    SUITE_CHECK(braid_suite_do(suite, suite->queue, &copy) == BRAID_OK &&
                    braid_suite_read(suite, buffer, to, got, sizeof got) == BRAID_OK,
                "a copy within a buffer%s: %s", named ? ", its source's device named" : "", braid_error_detail());
    SUITE_CHECK(same(suite, sent, got, sizeof sent), "a copy within a buffer%s arrives changed",
                named ? ", its source's device named" : "");
  }
  return true;
}

static bool case_within(braid_suite *suite, char *detail) {
  size_t stride = braid_suite_align(10007, suite->info->alignment);
  void *buffer;
  if (!buffer_create(suite, 3 * stride, &buffer, detail)) return false;
  bool passed = run_within(suite, buffer, stride, detail);
  destroy(suite, buffer);
  return passed;
}

/* --- bounds --------------------------------------------------------------------------------------------------------
 */
static bool run_bounds(braid_suite *suite, void *small, void *large, uint8_t *host, char *detail) {
  size_t alignment = suite->info->alignment, bytes = 4 * alignment;
  const braid_binding over = {.buffer = small, .offset = alignment, .bytes = bytes};
  const braid_binding far = {.buffer = small, .offset = 64 * bytes, .bytes = 1};
  const braid_binding wrapped = {.buffer = small, .offset = SIZE_MAX & ~(alignment - 1), .bytes = bytes};
  const braid_binding right = {.buffer = large, .bytes = bytes};
  const braid_task tasks[] = {{.kind = BRAID_TASK_WRITE, .target = over, .host = host},
                              {.kind = BRAID_TASK_READ, .source = over, .host = host},
                              {.kind = BRAID_TASK_COPY, .source = right, .target = over},
                              {.kind = BRAID_TASK_COPY, .source = over, .target = right},
                              {.kind = BRAID_TASK_WRITE, .target = far, .host = host},
                              {.kind = BRAID_TASK_READ, .source = far, .host = host},
                              {.kind = BRAID_TASK_READ, .source = wrapped, .host = host}};
  for (size_t i = 0; i < COUNT(tasks); i++) {
    braid_status status = braid_suite_do(suite, suite->queue, &tasks[i]);
    if (suite->stopped) return braid_suite_fail(detail, "%s", braid_error_detail());
    SUITE_CHECK(status != BRAID_OK, "a %s of %zu bytes at offset %zu of a buffer of %zu bytes succeeds",
                tasks[i].kind == BRAID_TASK_WRITE  ? "write"
                : tasks[i].kind == BRAID_TASK_READ ? "read"
                                                   : "copy",
                bytes, over.offset, bytes);
  }
  return true;
}

static bool case_bounds(braid_suite *suite, char *detail) {
  size_t bytes = 4 * suite->info->alignment;
  void *small = NULL, *large = NULL;
  uint8_t *host = braid_zalloc(NULL, bytes);
  bool passed = host && buffer_create(suite, bytes, &small, detail) && buffer_create(suite, bytes, &large, detail) &&
                run_bounds(suite, small, large, host, detail);
  destroy(suite, large);
  destroy(suite, small);
  if (!suite->stopped) braid_free(NULL, host);
  return passed;
}

/* --- mapping -------------------------------------------------------------------------------------------------------
 */
static bool run_map(braid_suite *suite, void *buffer, size_t stride, char *detail) {
  uint8_t sent[100], got[100] = {0};
  uint8_t *mapped = suite->backend->buffer_map(suite->self, buffer);
  SUITE_CHECK(mapped && (uintptr_t)mapped % suite->info->alignment == 0, "a buffer's address is not aligned to %zu",
              suite->info->alignment);
  SUITE_CHECK(suite->backend->buffer_map(suite->self, buffer) == mapped, "a buffer's address changes");
  for (uint32_t i = 0; i < 2; i++) {
    braid_suite_fill(sent, sizeof sent, i);
    SUITE_CHECK(braid_suite_write(suite, buffer, i * stride, sent, sizeof sent) == BRAID_OK, "write: %s",
                braid_error_detail());
    SUITE_CHECK(memcmp(mapped + i * stride, sent, sizeof sent) == 0,
                "what was written at offset %zu is not seen through the mapping", i * stride);
    braid_suite_fill(mapped + i * stride, sizeof sent, i + 7);
    SUITE_CHECK(braid_suite_read(suite, buffer, i * stride, got, sizeof got) == BRAID_OK, "read: %s",
                braid_error_detail());
    SUITE_CHECK(memcmp(mapped + i * stride, got, sizeof got) == 0,
                "what the host wrote at offset %zu of the mapping is not read", i * stride);
  }
  return true;
}

static bool case_map(braid_suite *suite, char *detail) {
  if (suite->info->memory != BRAID_MEMORY_UNIFIED) return braid_suite_pass_over(suite, detail, "memory of its own");
  size_t stride = braid_suite_align(128, suite->info->alignment);
  void *buffer;
  if (!buffer_create(suite, 2 * stride, &buffer, detail)) return false;
  bool passed = run_map(suite, buffer, stride, detail);
  destroy(suite, buffer);
  return passed;
}

void braid_suite_memory(braid_suite *suite) {
  braid_suite_case(suite, "buffers", case_buffers);
  braid_suite_case(suite, "out of memory", case_full);
  braid_suite_case(suite, "memory comes back", case_returned);
  braid_suite_case(suite, "transfers", case_transfers);
  braid_suite_case(suite, "transfers by address", case_addresses);
  braid_suite_case(suite, "copies within a buffer", case_within);
  braid_suite_case(suite, "bounds of transfers", case_bounds);
  braid_suite_case(suite, "mapping", case_map);
}
