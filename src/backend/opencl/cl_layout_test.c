/* LayoutConvert against positions computed one by one. */
#include <string.h>

#include "backend/opencl/test_node.h"
#include "base/philox.h"
#include "launch/integer.h"
#include "oom.h"
#include "skip.h"
#include "tensor/layout.h"

static const uint64_t kSeed = 11;
static uint64_t drawn;

static int64_t draw(int64_t low, int64_t high) {
  return low + braid_random_below(kSeed, 0, 0, drawn++, (uint32_t)(high - low + 1));
}

/* Where an element lies, dimension by dimension and by the definition of a block: of dimension d, each block from the
 * innermost on takes the rest of the index by its size. */
static size_t place_of(const braid_desc *desc, const int64_t *index) {
  braid_layout_parts parts = braid_layout_take_apart(desc->layout, desc->rank);
  size_t at = 0, step = 1, left[BRAID_MAX_RANK], size[BRAID_MAX_RANK];
  for (int d = 0; d < desc->rank; d++) left[d] = (size_t)index[d], size[d] = (size_t)desc->dims[d];
  for (int i = parts.block_count; i-- > 0;) {
    size_t n = (size_t)parts.blocks[i].size;
    int d = parts.blocks[i].dim;
    at += left[d] % n * step;
    step *= n;
    left[d] /= n;
    size[d] = (size[d] + n - 1) / n;
  }
  for (int i = desc->rank; i-- > 0; step *= size[parts.order[i]]) at += left[parts.order[i]] * step;
  return at;
}

/* What should come out, padding zeroed. */
static void expect(const braid_desc *from, const braid_desc *to, const uint8_t *x, uint8_t *y) {
  size_t element = braid_dtype_size(to->dtype);
  int64_t index[BRAID_MAX_RANK] = {0};
  memset(y, 0, braid_desc_bytes(to));
  for (int64_t i = 0; i < braid_desc_count(to); i++) {
    memcpy(y + element * place_of(to, index), x + element * place_of(from, index), element);
    for (int d = to->rank; d-- > 0 && ++index[d] == to->dims[d];) index[d] = 0;
  }
}

static void convert(test_node *node, const braid_desc *from, const braid_desc *to) {
  size_t bytes[2] = {braid_desc_bytes(from), braid_desc_bytes(to)};
  uint8_t *numbers = braid_alloc(NULL, bytes[0]), *x = braid_alloc(NULL, bytes[0]), *y = braid_alloc(NULL, bytes[1]),
          *expected = braid_alloc(NULL, bytes[1]);
  assert_true(numbers && x && y && expected);
  braid_desc plain = *from;
  plain.layout = BRAID_LAYOUT_PLAIN;
  for (size_t i = 0; i < braid_desc_bytes(&plain); i++) numbers[i] = (uint8_t)draw(0, 255);
  expect(&plain, from, numbers, x); /* padding is zero */
  braid_operand in = {.present = true, .desc = *from}, out = {.present = true, .desc = *to};
  braid_node_desc desc = node->desc;
  desc.op = "LayoutConvert";
  desc.inputs = &in;
  desc.outputs = &out;
  char why[128];
  braid_prepared_info info;
  const braid_kernel *kernel = braid_device_find_kernel(node->device, &desc, why, sizeof why);
  if (!kernel) fail_msg("%s", why);
  node->backend->discard(node->self, node->prepared);
  assert_int_equal(node->backend->prepare(node->self, kernel, &desc, &node->prepared, &info), BRAID_OK);
  node->task.prepared = node->prepared;
  for (int i = 0; i < 2; i++) node->bindings[i].bytes = bytes[i];
  expect(from, to, x, expected);
  assert_int_equal(test_node_transfer(node, 0, x, true), BRAID_OK);
  assert_int_equal(test_node_do(node, &node->task), BRAID_OK);
  assert_int_equal(test_node_transfer(node, 1, y, false), BRAID_OK);
  if (memcmp(y, expected, bytes[1]) != 0) {
    char text[96], layouts[2][BRAID_LAYOUT_TEXT];
    fail_msg("%s from %s to %s", braid_desc_format(from, text, sizeof text),
             braid_layout_format(from->layout, from->rank, layouts[0], sizeof layouts[0]),
             braid_layout_format(to->layout, to->rank, layouts[1], sizeof layouts[1]));
  }
  braid_free(NULL, numbers);
  braid_free(NULL, x);
  braid_free(NULL, y);
  braid_free(NULL, expected);
}

static const char *const kTexts[] = {"plain", "BHWC", "CHWB", "aBcd16b", "ba", "ABcd16b16a", "aBcd4b", "Acdb16a"};
static const int kLeastRank[] = {0, 0, 0, 2, 2, 2, 2, 1};
enum { kLayoutCount = sizeof kTexts / sizeof *kTexts };

static void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s", braid_error_detail());
}

static void test_layouts(void **state) {
  (void)state;
  static const braid_dtype kTypes[] = {BRAID_U8, BRAID_F16, BRAID_F32, BRAID_I64};
  braid_registry *registry;
  test_node node;
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  print_message("seed %llu\n", (unsigned long long)kSeed);
  assert_int_equal(braid_registry_create(NULL, &registry), BRAID_OK);
  if (test_node_open(&node, registry, "opencl0:memory=separate", "Relu", 1 << 18) != BRAID_OK)
    fail_msg("%s", braid_error_detail());
  for (size_t from = 0; from < kLayoutCount; from++)
    for (size_t to = 0; to < kLayoutCount; to++)
      for (size_t t = 0; t < 4; t++) {
        int least = kLeastRank[from] > kLeastRank[to] ? kLeastRank[from] : kLeastRank[to];
        int64_t dims[5] = {draw(1, 20), draw(1, 37), draw(1, 7), draw(1, 6), draw(1, 4)};
        if ((from > 3 || to > 3) && ((from + to) % 4 != t || (from > 3 && to > from + 1))) continue;
        braid_desc descs[2];
        braid_layout layout;
        ok(braid_desc_init(&descs[0], kTypes[t], (int)draw(least, 5), dims));
        descs[1] = descs[0];
        ok(braid_layout_parse(kTexts[from], &layout));
        ok(braid_desc_set_layout(&descs[0], layout));
        ok(braid_layout_parse(kTexts[to], &layout));
        ok(braid_desc_set_layout(&descs[1], layout));
        convert(&node, &descs[0], &descs[1]);
      }
  test_node_close(&node);
  braid_registry_destroy(registry);
}

/* Images of samples in blocks, there and back: channels that fill blocks and that do not, one place and many. */
static void test_samples(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t dims[4];
  } kShapes[] = {{2, {5, 48}},       {2, {33, 50}},       {4, {7, 32, 1, 1}},
                 {4, {8, 20, 4, 4}}, {4, {32, 32, 4, 8}}, {4, {3, 17, 3, 2}}};
  static const braid_dtype kTypes[] = {BRAID_U8, BRAID_F32};
  static const char *const kDevices[] = {"opencl0:memory=separate", "opencl0:memory=separate,as=gpu"};
  if (!braid_cl_count()) skip_test("opencl", "there is no OpenCL device");
  for (size_t d = 0; d < 2; d++) {
    braid_registry *registry;
    test_node node;
    ok(braid_registry_create(NULL, &registry));
    ok(test_node_open(&node, registry, kDevices[d], "Relu", 1 << 16));
    for (size_t s = 0; s < sizeof kShapes / sizeof *kShapes; s++)
      for (size_t t = 0; t < 2; t++) {
        braid_desc plain, samples;
        ok(braid_desc_init(&plain, kTypes[t], kShapes[s].rank, kShapes[s].dims));
        samples = plain;
        ok(braid_desc_set_layout(&samples, BRAID_LAUNCH_SAMPLES));
        convert(&node, &plain, &samples);
        convert(&node, &samples, &plain);
      }
    test_node_close(&node);
    braid_registry_destroy(registry);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_samples)};
  return skip_run_group_tests(tests, NULL, NULL);
}
