/* The opset that a saved node needs: some forms by hand, and all that the onnx package knows (where BRAID_PYTHON names
 * a Python that has it). */
#include "model/onnx/onnx_opset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/onnx_dtype.h"
#include "skip.h"

/* A node that needs no inference: only its names, types and attributes count. */
enum { OPERANDS = 24 };
typedef struct sample {
  braid_graph graph;
  braid_value values[2 * OPERANDS]; /* inputs, then outputs */
  braid_value_id inputs[OPERANDS], outputs[OPERANDS];
  braid_attr attr;
  braid_node node;
} sample;

static bool begin(sample *s, const char *op) {
  *s = (sample){.node = {.op = braid_op_find(op), .inputs = s->inputs, .outputs = s->outputs}};
  s->graph.values = s->values;
  for (int i = 0; i < OPERANDS; i++) {
    s->inputs[i] = i;
    s->outputs[i] = OPERANDS + i;
  }
  return s->node.op != NULL;
}

static int opset_of(sample *s) {
  return braid_onnx_opset_of(&s->graph, &s->node);
}

static void set_text(sample *s, const char *name, const char *value) {
  s->attr = (braid_attr){.name = name, .kind = BRAID_ATTR_STRING, .s = value};
  s->node.attrs = (braid_attrs){.items = &s->attr, .count = 1};
}

static void test_types(void **state) {
  (void)state;
  static const struct {
    const char *op;
    int input; /* -1: the output */
    braid_dtype dtype;
    int opset;
  } cases[] = {
      {"Relu", 0, BRAID_BF16, 17},
      {"QuantizeLinear", 2, BRAID_I8, 17},
      {"QuantizeLinear", 2, BRAID_I16, 21},
      {"QuantizeLinear", -1, BRAID_U16, 21},
      {"QuantizeLinear", 0, BRAID_I32, 17},
      {"QuantizeLinear", 1, BRAID_I32, 19},
      {"QuantizeLinear", 0, BRAID_F16, 19},
      {"DequantizeLinear", 0, BRAID_I16, 21},
      {"DequantizeLinear", 0, BRAID_I32, 17},
      {"IsInf", 0, BRAID_F64, 17},
      {"IsInf", 0, BRAID_F16, 20},
      {"QLinearMatMul", 1, BRAID_F16, 21},
      {"ReduceMax", 0, BRAID_BOOL, 20},
      {"ReduceMin", 0, BRAID_BOOL, 20},
      {"ReduceProd", 0, BRAID_I32, 17},
      {"Range", 0, BRAID_F16, 27},
      {"Range", 0, BRAID_F32, 17},
      {"Conv", 1, BRAID_BF16, 22},
      {"Conv", 1, BRAID_F16, 17},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sample s;
    assert_true(begin(&s, cases[i].op));
    s.node.input_count = cases[i].input < 0 ? 1 : (size_t)cases[i].input + 1;
    s.node.output_count = 1;
    if (strncmp(cases[i].op, "Reduce", 6) == 0) assert_int_equal(s.node.input_count, 1);
    s.values[cases[i].input < 0 ? OPERANDS : cases[i].input].desc.dtype = cases[i].dtype;
    if (opset_of(&s) != cases[i].opset)
      fail_msg("%s, operand %d of %s: opset %d, expected %d", cases[i].op, cases[i].input,
               braid_dtype_name(cases[i].dtype), opset_of(&s), cases[i].opset);
  }
}

/* Values of attributes, which ONNX's schemas do not list. */
static void test_values(void **state) {
  (void)state;
  static const struct {
    const char *op, *attr, *value;
    int opset;
  } cases[] = {
      {"Pad", "mode", "reflect", 17},
      {"Pad", "mode", "wrap", 19},
      {"ScatterND", "reduction", "add", 17},
      {"ScatterND", "reduction", "max", 18},
      {"ScatterElements", "reduction", "min", 18},
      {"Resize", "coordinate_transformation_mode", "half_pixel", 17},
      {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sample s;
    assert_true(begin(&s, cases[i].op));
    set_text(&s, cases[i].attr, cases[i].value);
    assert_int_equal(opset_of(&s), cases[i].opset);
  }
  sample s;
  braid_attr fmod = {.name = "fmod", .kind = BRAID_ATTR_INT, .count = 1, .i = 1};
  assert_true(begin(&s, "Mod"));
  s.node.input_count = 2;
  assert_int_equal(opset_of(&s), 17);
  s.values[0].desc.dtype = BRAID_F32;
  assert_int_equal(opset_of(&s), 28); /* the floored remainder */
  s.node.attrs = (braid_attrs){&fmod, 1, 1};
  assert_int_equal(opset_of(&s), 17);
}

static braid_dtype dtype_of(const char *name) {
  for (int64_t number = 1; number <= 28; number++) {
    braid_dtype dtype = braid_dtype_from_onnx(number);
    if (dtype != BRAID_NONE && strcmp(braid_dtype_name(dtype), name) == 0) return dtype;
  }
  return BRAID_NONE;
}

/* One line of onnx_opsets.py; false if it is about a type that we do not carry, or that our op does not take. */
static bool check_line(const char *line) {
  char op[64], role[16], what[64], type[32];
  int first, since;
  assert_int_equal(sscanf(line, "%63s %d %15s %63s %31s %d", op, &first, role, what, type, &since), 6);
  sample s;
  assert_true(begin(&s, op));
  size_t index = (size_t)strtoul(what, NULL, 10);
  if (strcmp(role, "attribute") == 0) {
    set_text(&s, what, "");
  } else if (strcmp(role, "inputs") == 0) {
    s.node.input_count = index;
  } else {
    braid_dtype dtype = dtype_of(type);
    bool input = strcmp(role, "input") == 0;
    if (dtype == BRAID_NONE) return false;
    if (braid_dtype_is_narrow(dtype) && !(s.node.op->flags & BRAID_OP_NARROW)) return false;
    *(input ? &s.node.input_count : &s.node.output_count) = index + 1;
    s.values[input ? index : OPERANDS + index].desc.dtype = dtype;
  }
  braid_attr fmod = {.name = "fmod", .kind = BRAID_ATTR_INT, .count = 1, .i = 1}; /* without it: test_values */
  if (strcmp(op, "Mod") == 0) s.node.attrs = (braid_attrs){&fmod, 1, 1};
  if (opset_of(&s) != since) fail_msg("opset %d: %s", opset_of(&s), line);
  return true;
}

static size_t add_ops(char *command, size_t used, size_t bytes, const char *python) {
  used += (size_t)snprintf(command + used, bytes - used, "'%s' '%s/../onnx_opsets.py'", python, BRAID_TEST_DATA);
  for (size_t i = 0; i < braid_op_count(); i++) {
    sample s;
    const char *op = braid_op_at(i)->name;
    begin(&s, op);
    int first = opset_of(&s);
    if (first) used += (size_t)snprintf(command + used, bytes - used, " %s:%d", op, first);
    assert_true(used < bytes);
  }
  return used;
}

static void test_onnx_agrees(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  if (!python || !*python) skip_test("peers", "BRAID_PYTHON names no Python with onnx");
  static char command[16384], line[256];
  add_ops(command, 0, sizeof command, python);
  FILE *rows = popen(command, "r");
  assert_non_null(rows);
  size_t checked = 0;
  while (fgets(line, sizeof line, rows)) checked += check_line(line);
  assert_int_equal(pclose(rows), 0);
  assert_true(checked > 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_onnx_agrees),
  };
  return skip_run_group_tests(tests, NULL, NULL);
}
