/* LayoutConvert against positions computed one by one. */
#include <string.h>

#include "backend/opencl/test_node.h"
#include "base/philox.h"
#include "oom.h"
#include "skip.h"

static const uint64_t kSeed = 11;
static uint64_t drawn;

static int64_t draw(int64_t low, int64_t high) {
  return low + braid_random_below(kSeed, 0, 0, drawn++, (uint32_t)(high - low + 1));
}

/* The place of element (b, c, s) in a layout, in elements. */
static size_t place_of(const braid_desc *desc, size_t places, size_t b, size_t c, size_t s) {
  size_t batch = (size_t)desc->dims[0], channels = (size_t)desc->dims[1];
  switch (desc->layout) {
  case BRAID_LAYOUT_PLAIN:
    break;
  case BRAID_LAYOUT_BHWC:
    return (b * places + s) * channels + c;
  case BRAID_LAYOUT_CHWB:
    return (c * places + s) * batch + b;
  case BRAID_LAYOUT_BLOCKED16:
    return ((b * ((channels + 15) / 16) + c / 16) * places + s) * 16 + c % 16;
  }
  return (b * channels + c) * places + s;
}

/* What should come out, padding zeroed. */
static void expect(const braid_desc *from, const braid_desc *to, const uint8_t *x, uint8_t *y) {
  size_t element = braid_dtype_size(to->dtype), places = 1;
  if (from->layout == to->layout || to->rank < 3) {
    memcpy(y, x, braid_desc_bytes(to));
    return;
  }
  memset(y, 0, braid_desc_bytes(to));
  for (int i = 2; i < to->rank; i++) places *= (size_t)to->dims[i];
  for (size_t b = 0; b < (size_t)to->dims[0]; b++)
    for (size_t c = 0; c < (size_t)to->dims[1]; c++)
      for (size_t s = 0; s < places; s++)
        memcpy(y + element * place_of(to, places, b, c, s), x + element * place_of(from, places, b, c, s), element);
}

static void convert(test_node *node, const braid_desc *from, const braid_desc *to) {
  size_t bytes[2] = {braid_desc_bytes(from), braid_desc_bytes(to)};
  uint8_t *x = braid_alloc(NULL, bytes[0]), *y = braid_alloc(NULL, bytes[1]), *expected = braid_alloc(NULL, bytes[1]);
  assert_true(x && y && expected);
  for (size_t i = 0; i < bytes[0]; i++) x[i] = (uint8_t)draw(0, 255);
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
    char texts[2][96];
    fail_msg("%s %s to %s %s", braid_desc_format(from, texts[0], 96), braid_layout_name(from->layout),
             braid_desc_format(to, texts[1], 96), braid_layout_name(to->layout));
  }
  braid_free(NULL, x);
  braid_free(NULL, y);
  braid_free(NULL, expected);
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
  for (int from = 0; from <= BRAID_LAYOUT_BLOCKED16; from++)
    for (int to = 0; to <= BRAID_LAYOUT_BLOCKED16; to++)
      for (int t = 0; t < 4; t++) {
        int rank = (int)draw(from || to ? 3 : 0, 5);
        int64_t dims[5] = {draw(1, 3), draw(1, 37), draw(1, 7), draw(1, 6), draw(1, 4)};
        braid_desc descs[2];
        assert_int_equal(braid_desc_init(&descs[0], kTypes[t], rank, dims), BRAID_OK);
        descs[1] = descs[0];
        descs[0].layout = (braid_layout)from;
        descs[1].layout = (braid_layout)to;
        convert(&node, &descs[0], &descs[1]);
      }
  test_node_close(&node);
  braid_registry_destroy(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
  return skip_run_group_tests(tests, NULL, NULL);
}
