/* Rows of many elements: what transposing, slicing and repeating move, beside plain index arithmetic, that it takes no
 * memory that grows with them, and that threads share the work. */
#include "backend/cpu/movement/map.h"

#include <omp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "graph/graph.h"

extern const braid_cpu_table braid_cpu_movement_movement;

enum { kLong = 100003, kMostBytes = 4096 };

static const braid_cpu_kernel *find_kernel(const char *op) {
  for (size_t i = 0; i < braid_cpu_movement_movement.count; i++)
    if (strcmp(braid_cpu_movement_movement.kernels[i].op, op) == 0)
      return braid_cpu_movement_movement.kernels[i].implementation;
  fail_msg("there is no kernel for %s", op);
  return NULL;
}

static size_t allocated; /* bytes, by the allocator of the tests */

static void *count_allocate(void *context, size_t bytes, size_t alignment) {
  const braid_allocator *heap = braid_allocator_default();
  (void)context;
  allocated += bytes;
  return heap->allocate(heap->context, bytes, alignment);
}

static void count_release(void *context, void *pointer) {
  const braid_allocator *heap = braid_allocator_default();
  (void)context;
  heap->release(heap->context, pointer);
}

static const braid_allocator kCounting = {NULL, count_allocate, count_release};

static braid_operand operand(braid_dtype dtype, int rank, const int64_t *dims, const void *constant) {
  braid_operand result = {.present = true, .constant = constant};
  assert_int_equal(braid_desc_init(&result.desc, dtype, rank, dims), BRAID_OK);
  return result;
}

static braid_operand list(const int64_t *values, int64_t count) {
  return operand(BRAID_I64, 1, &count, values);
}

/* Runs the op over bytes that differ from those beside them. The caller frees both. */
static void move_by(const braid_attrs *attrs, const char *op, const braid_operand *inputs, size_t count,
                    const braid_operand *output, uint8_t **from, uint8_t **to) {
  const braid_cpu_kernel *kernel = find_kernel(op);
  const braid_node_desc node = {.op = op,
                                .name = op,
                                .attrs = attrs,
                                .input_count = count,
                                .output_count = 1,
                                .inputs = inputs,
                                .outputs = output};
  size_t bytes = braid_desc_bytes(&inputs[0].desc), room = braid_desc_bytes(&output->desc);
  braid_prepared_info info = {0};
  void *state;
  *from = malloc(bytes);
  *to = calloc(1, room);
  assert_true(*from && *to);
  for (size_t i = 0; i < bytes; i++) (*from)[i] = (uint8_t)(i * 131 + i / 256 * 7);
  allocated = 0;
  assert_int_equal(kernel->create(&kCounting, &node, &state, &info), BRAID_OK);
  if (allocated > kMostBytes) fail_msg("%s of %zu bytes keeps %zu", op, room, allocated);
  const braid_cpu_args args = {.inputs = (const void *[]){*from}, .outputs = (void *[]){*to}};
  assert_int_equal(kernel->run(&node, state, &args), BRAID_OK);
  kernel->destroy(&kCounting, state);
}

static void move(const char *op, const braid_operand *inputs, size_t count, const braid_operand *output, uint8_t **from,
                 uint8_t **to) {
  move_by(NULL, op, inputs, count, output, from, to);
}

/* Element i of each of `rows` is element from[i] of the input's row, which has `width`. */
static void check(const char *op, size_t size, int64_t rows, int64_t count, int64_t width, int64_t start, int64_t step,
                  int64_t period, const uint8_t *from, const uint8_t *to) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < count; i++)
      if (memcmp(to + (size_t)(r * count + i) * size, from + (size_t)(r * width + start + i % period * step) * size,
                 size) != 0)
        fail_msg("%s of elements of %zu bytes: element %lld of row %lld", op, size, (long long)i, (long long)r);
}

static const braid_dtype kTypes[] = {BRAID_U8, BRAID_F16, BRAID_F32, BRAID_I64};
enum { kTypeCount = sizeof kTypes / sizeof *kTypes };

static void slices(void **context) {
  static const struct {
    int64_t rows, start, end, step;
  } kCases[] = {{1, 5, kLong - 7, 1}, {3, 0, kLong, 3}, {2, kLong - 1, -kLong - 1, -1}, {1, -2, 1, -2}};
  (void)context;
  for (int t = 0; t < kTypeCount; t++)
    for (size_t i = 0; i < sizeof kCases / sizeof *kCases; i++) {
      const int64_t axis = 1, step = kCases[i].step, start = kCases[i].start + (kCases[i].start < 0 ? kLong : 0);
      const int64_t end = kCases[i].end < 0 ? -1 : kCases[i].end;
      const int64_t count = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
      const braid_operand inputs[] = {operand(kTypes[t], 2, (int64_t[]){kCases[i].rows, kLong}, NULL),
                                      list(&kCases[i].start, 1), list(&kCases[i].end, 1), list(&axis, 1),
                                      list(&step, 1)};
      const braid_operand output = operand(kTypes[t], 2, (int64_t[]){kCases[i].rows, count}, NULL);
      uint8_t *from, *to;
      move("Slice", inputs, 5, &output, &from, &to);
      check("Slice", braid_dtype_size(kTypes[t]), kCases[i].rows, count, kLong, start, step, count, from, to);
      free(from);
      free(to);
    }
}

static void repeats(void **context) {
  static const int64_t kWidths[] = {1, 2, 7, 4096, 16384, 16385, 50000};
  (void)context;
  for (int t = 0; t < kTypeCount; t++)
    for (size_t i = 0; i < sizeof kWidths / sizeof *kWidths; i++)
      for (int expand = 0; expand < (kWidths[i] == 1 ? 2 : 1); expand++) {
        const int64_t times[] = {1, kLong / kWidths[i]}, width = kWidths[i], count = times[1] * width;
        const int64_t shape[] = {2, count};
        const char *op = expand ? "Expand" : "Tile";
        const braid_operand inputs[] = {operand(kTypes[t], 2, (int64_t[]){2, width}, NULL),
                                        list(expand ? shape : times, 2)};
        const braid_operand output = operand(kTypes[t], 2, shape, NULL);
        uint8_t *from, *to;
        move(op, inputs, 2, &output, &from, &to);
        check(op, braid_dtype_size(kTypes[t]), 2, count, width, 0, 1, width, from, to);
        free(from);
        free(to);
      }
}

/* Without `perm` the axes are reversed. */
static void transposes(void **context) {
  (void)context;
  for (int t = 0; t < kTypeCount; t++) {
    const size_t size = braid_dtype_size(kTypes[t]);
    const braid_operand input = operand(kTypes[t], 2, (int64_t[]){kLong, 2}, NULL);
    const braid_operand output = operand(kTypes[t], 2, (int64_t[]){2, kLong}, NULL);
    uint8_t *from, *to;
    move("Transpose", &input, 1, &output, &from, &to);
    for (int64_t r = 0; r < 2; r++)
      check("Transpose", size, 1, kLong, 2, r, 2, kLong, from, to + (size_t)(r * kLong) * size);
    free(from);
    free(to);
  }
}

/* All orders of three axes: of matrices, and of axes that go on as one. */
static void check_order(braid_dtype type, const int64_t *dims, const int64_t *perm) {
  braid_attr attr = {.name = "perm", .kind = BRAID_ATTR_INTS, .count = 3, .ints = perm};
  const braid_attrs attrs = {&attr, 1, 1};
  const int64_t strides[] = {dims[1] * dims[2], dims[2], 1}, turned[] = {dims[perm[0]], dims[perm[1]], dims[perm[2]]};
  const braid_operand input = operand(type, 3, dims, NULL), output = operand(type, 3, turned, NULL);
  const size_t size = braid_dtype_size(type);
  uint8_t *from, *to;
  move_by(&attrs, "Transpose", &input, 1, &output, &from, &to);
  for (int64_t i = 0, at = 0; i < turned[0]; i++)
    for (int64_t j = 0; j < turned[1]; j++)
      for (int64_t k = 0; k < turned[2]; k++, at++) {
        int64_t of = i * strides[perm[0]] + j * strides[perm[1]] + k * strides[perm[2]];
        if (memcmp(to + (size_t)at * size, from + (size_t)of * size, size) != 0)
          fail_msg("%lldx%lldx%lld by %lld %lld %lld: element %lld", (long long)dims[0], (long long)dims[1],
                   (long long)dims[2], (long long)perm[0], (long long)perm[1], (long long)perm[2], (long long)at);
      }
  free(from);
  free(to);
}

static void orders(void **context) {
  static const int64_t kPerms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const int64_t kDims[][3] = {{3, 37, 50}, {1, 16, 16}, {16, 1, 47}, {17, 15, 33}, {2, 3, 200}, {129, 64, 7}};
  (void)context;
  for (int t = 0; t < kTypeCount; t++)
    for (size_t d = 0; d < sizeof kDims / sizeof *kDims; d++)
      for (size_t p = 0; p < sizeof kPerms / sizeof *kPerms; p++) check_order(kTypes[t], kDims[d], kPerms[p]);
}

/* --- threads --------------------------------------------------------------------------------------------------------
 */
enum { kThreads = 4, kSharedColumns = 1 << 16 };

static size_t page_bytes, pages_of[kThreads]; /* pages that a thread was the first to write to */

static void note_writer(int signal, siginfo_t *info, void *context) {
  char *page = (char *)info->si_addr - (uintptr_t)info->si_addr % page_bytes;
  (void)signal;
  (void)context;
  if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) _exit(1); /* it is no page of ours */
  pages_of[omp_get_thread_num()]++;
}

/* Matrices of few rows and of some that are left over: threads write about as much as one another. */
static void sharing(void **context) {
  const struct sigaction noting = {.sa_sigaction = note_writer, .sa_flags = SA_SIGINFO};
  struct sigaction before;
  (void)context;
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  omp_set_num_threads(kThreads);
  for (int64_t rows = 15; rows < 33; rows++) {
    const size_t bytes = (size_t)(rows * kSharedColumns), pages = bytes / page_bytes;
    const int64_t dims[] = {rows, kSharedColumns};
    braid_map *map;
    char *from = calloc(1, bytes);
    char *to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(from && to != MAP_FAILED);
    assert_int_equal(braid_map_create(NULL, 2, dims, 1, &map), BRAID_OK);
    braid_map_line(map, 0, 0, 1);
    braid_map_line(map, 1, 0, rows);
    memset(pages_of, 0, sizeof pages_of);
    assert_int_equal(sigaction(SIGSEGV, &noting, &before), 0);
    braid_map_run(map, from, to, NULL);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    for (int t = 0; t < kThreads; t++)
      if (pages_of[t] > pages / 2) fail_msg("one thread of %d writes %zu of %zu pages", kThreads, pages_of[t], pages);
    braid_map_destroy(NULL, map);
    munmap(to, bytes);
    free(from);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slices), cmocka_unit_test(repeats), cmocka_unit_test(transposes),
                                     cmocka_unit_test(orders), cmocka_unit_test(sharing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
