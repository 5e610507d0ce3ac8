/* The list of all families' kernels, as a backend gets it. */
#include "launch/families.h"

#include <string.h>

#include "graph/graph.h"
#include "oom.h"

static const braid_kernel kForeign[] = {{.op = "Relu", .name = "theirs"}};
static const braid_launch_family kFirst = {kForeign, 1, false}, kNone = {NULL, 0, false};

/* Under the backend's own prefix, once for each op, what it puts first in front; all of ops that there are, or of the
 * conversion that plans add. */
static void test_names(void **state) {
  (void)state;
  const braid_kernel **list;
  size_t count;
  assert_int_equal(braid_launch_list_kernels(NULL, "other_", &kFirst, 1, &list, &count), BRAID_OK);
  assert_ptr_equal(list[0], &kForeign[0]);
  assert_true(count > 200);
  for (size_t i = 1; i < count; i++) {
    const braid_launch_kernel *own = list[i]->implementation;
    if (!braid_op_find(list[i]->op) && strcmp(list[i]->op, "LayoutConvert") != 0)
      fail_msg("%s is of %s, which is no op", list[i]->name, list[i]->op);
    if (strncmp(list[i]->name, "other_", 6) != 0 || !list[i]->name[6]) fail_msg("a kernel is called %s", list[i]->name);
    assert_true(own && (own->plan || own->widens) && !own->foreign);
    for (size_t k = 1; k < i; k++)
      if (strcmp(list[i]->op, list[k]->op) == 0 && strcmp(list[i]->name, list[k]->name) == 0)
        fail_msg("%s has %s twice", list[i]->op, list[i]->name);
  }
  braid_free(NULL, list);
}

static braid_status attempt(const braid_allocator *allocator, void *context) {
  (void)context;
  const braid_kernel **list;
  size_t count;
  braid_status status = braid_launch_list_kernels(allocator, "", &kNone, 1, &list, &count);
  if (status == BRAID_OK) braid_free(allocator, list);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  assert_int_equal(oom_sweep(attempt, NULL), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
