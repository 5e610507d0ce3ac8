/* The attributes that ops have are those that the onnx package knows, in every opset (where BRAID_PYTHON names a Python
 * that has it). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx/onnx_import.h"
#include "skip.h"

enum { kMostAttrs = 32 };

static braid_status check_attr(const char *op, int opset, char *name) {
  Onnx__AttributeProto attr = ONNX__ATTRIBUTE_PROTO__INIT, *attrs[] = {&attr};
  Onnx__NodeProto node = ONNX__NODE_PROTO__INIT;
  attr.name = name;
  node.attribute = attrs;
  node.n_attribute = 1;
  return braid_onnx_check_attrs(&(braid_onnx_call){.op = op, .name = "n", .opset = opset}, &node);
}

/* Each is taken, and the refusal of another lists them all. False: the op is not carried. */
static bool check_op(const char *op, int opset, char *const *names, size_t count) {
  char listed[512];
  size_t used = (size_t)snprintf(listed, sizeof listed, "in opset %d; there are", opset);
  for (size_t i = 0; i < count; i++) used += (size_t)snprintf(listed + used, sizeof listed - used, " %s", names[i]);
  if (!count) (void)snprintf(listed + used, sizeof listed - used, " none");
  assert_true(used < sizeof listed);
  if (check_attr(op, opset, (char *)"no such") == BRAID_OK) {
    if (braid_op_find(op)) fail_msg("the attributes of %s are not known", op);
    return false;
  }
  const char *at = strstr(braid_error_detail(), listed);
  if (!at || at[strlen(listed)]) fail_msg("%s, but onnx: %s", braid_error_detail(), listed);
  for (size_t i = 0; i < count; i++)
    if (check_attr(op, opset, names[i]) != BRAID_OK) fail_msg("%s", braid_error_detail());
  return true;
}

static void test_onnx_agrees(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  if (!python || !*python) skip_test("peers", "BRAID_PYTHON names no Python with onnx");
  char command[1024], line[1024];
  snprintf(command, sizeof command, "'%s' '%s/../onnx_attrs.py' %d", python, BRAID_TEST_DATA, BRAID_ONNX_MAX_OPSET);
  FILE *rows = popen(command, "r");
  assert_non_null(rows);
  size_t checked = 0;
  while (fgets(line, sizeof line, rows)) {
    char *rest, *words[kMostAttrs + 2];
    size_t count = 0;
    for (char *word = strtok_r(line, " \n", &rest); word && count < kMostAttrs + 2; word = strtok_r(NULL, " \n", &rest))
      words[count++] = word;
    assert_in_range(count, 2, kMostAttrs + 1);
    checked += check_op(words[0], (int)strtol(words[1], NULL, 10), words + 2, count - 2);
  }
  assert_int_equal(pclose(rows), 0);
  assert_true(checked > 3000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_onnx_agrees)};
  return skip_run_group_tests(tests, NULL, NULL);
}
