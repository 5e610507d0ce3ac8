/* docs/ops.md is generated from the ops table, and is current. `ops_reference_test FILE` writes it.
 *
 * Numbers of operands, attributes, gradients and sources come from the table; names, defaults and types of operands
 * from onnx.txt (what the onnx package says, written by onnx_schemas.py) and own.txt, whose rows come first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/text.h"
#include "graph/graph.h"
#include "graph/known_attrs.h"
#include "skip.h"

enum { kMostOps = 512, kMostLine = 4096, kFields = 5 };
enum { NAME, OPERANDS, RESULTS, ATTRIBUTES, TYPES };

typedef struct row {
  char text[kMostLine];
  char *fields[kFields];
} row;

static row rows[kMostOps];
static size_t row_count;

static void read_rows(const char *name) {
  char path[512];
  snprintf(path, sizeof path, BRAID_OPS "/%s", name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s cannot be read", path);
  while (fgets(rows[row_count].text, kMostLine, file)) {
    row *r = &rows[row_count++];
    assert_true(row_count < kMostOps && strchr(r->text, '\n'));
    char *at = r->text;
    r->text[strcspn(r->text, "\n")] = '\0';
    for (int f = 0; f < kFields; f++) {
      r->fields[f] = at;
      if (!at) fail_msg("%s: %s: %d fields are expected", path, r->text, kFields);
      at = strchr(at, '|');
      if (at) *at++ = '\0';
    }
  }
  fclose(file);
}

static const row *find_row(const char *op) {
  for (size_t i = 0; i < row_count; i++)
    if (strcmp(rows[i].fields[NAME], op) == 0) return &rows[i];
  return NULL;
}

/* Calls visit for each word between blanks. */
static void each_word(const char *text, void (*visit)(void *context, const char *word), void *context) {
  char word[kMostLine];
  for (const char *at = text; *at; at += at[0] == ' ') {
    size_t length = strcspn(at, " ");
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    visit(context, word);
    at += length;
  }
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
typedef struct counted {
  int least, most; /* -1: any number */
  braid_text *text;
  bool more, narrow; /* narrow types are taken */
} counted;

/* Underscores stand for blanks. */
static void add_plain(braid_text *text, const char *words, size_t length) {
  for (size_t i = 0; i < length; i++)
    braid_text_printf(text, words[i] == ',' ? "%c " : "%c", words[i] == '_' ? ' ' : words[i]);
}

static void add_operand(void *context, const char *word) {
  counted *c = context;
  const char *colon = strrchr(word, ':');
  assert_non_null(colon);
  char mark = word[strlen(word) - 1];
  if (mark == '*') c->most = -1;
  if (c->most >= 0) c->most++;
  if (mark != '?' && mark != '*') c->least = c->most;
  bool marked = mark == '?' || mark == '*';
  braid_text_printf(c->text, "%s`%.*s` ", c->more ? ", " : "", (int)(colon - word), word);
  add_plain(c->text, colon + 1, strlen(colon + 1) - marked);
  braid_text_add(c->text, mark == '?' ? ", optional" : mark == '*' ? ", any number" : "");
  c->more = true;
}

/* --- types ---------------------------------------------------------------------------------------------------------
 */
static const char *const kFloats = "bfloat16,float16,float32,float64",
                         *const kIntegers = "int16,int32,int64,int8,uint16,uint32,uint64,uint8";

static bool is_carried(const char *name, size_t length, bool narrow) {
  for (int t = BRAID_NONE + 1; t < BRAID_DTYPE_COUNT; t++)
    if (strlen(braid_dtype_name((braid_dtype)t)) == length && braid_dtype_is_narrow((braid_dtype)t) == narrow &&
        strncmp(braid_dtype_name((braid_dtype)t), name, length) == 0)
      return true;
  return false;
}

/* Those of the list that Braid has, in their order, wide or narrow ones. */
static size_t keep_types(const char *list, bool narrow, char *kept, size_t bytes) {
  size_t count = 0;
  *kept = '\0';
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (is_carried(at, strcspn(at, ","), narrow))
      snprintf(kept + strlen(kept), bytes - strlen(kept), "%s%.*s", count++ ? "," : "", (int)strcspn(at, ","), at);
  return count;
}

/* Those that Braid has; a set that has a name, by it. */
static void add_type(void *context, const char *word) {
  enum { kNarrowTypes = 10 };
  counted *c = context;
  const char *colon = strchr(word, ':');
  char kept[512], all[256], narrow[256];
  assert_non_null(colon);
  (void)keep_types(colon + 1, false, kept, sizeof kept);
  snprintf(all, sizeof all, "bfloat16,bool,float16,float32,float64,%s", kIntegers);
  const char *shown = !kept[0]                       ? colon + 1
                      : strcmp(kept, all) == 0       ? "all"
                      : strcmp(kept, kFloats) == 0   ? "floating-point"
                      : strcmp(kept, kIntegers) == 0 ? "integer"
                                                     : kept;
  char numbers[256];
  snprintf(numbers, sizeof numbers, "%s,%s", kFloats, kIntegers);
  if (strcmp(kept, numbers) == 0) shown = "number";
  braid_text_printf(c->text, "%s%.*s: ", c->more ? "; " : "", (int)(colon - word), word);
  add_plain(c->text, shown, strlen(shown));
  size_t count = c->narrow ? keep_types(colon + 1, true, narrow, sizeof narrow) : 0;
  if (count) braid_text_add(c->text, ", ");
  if (count) add_plain(c->text, count == kNarrowTypes ? "narrow" : narrow, count == kNarrowTypes ? 6 : strlen(narrow));
  c->more = true;
}

/* --- attributes ----------------------------------------------------------------------------------------------------
 */
typedef struct attributes {
  const char *defaults;
  braid_text *text;
  bool more;
} attributes;

static const char *kind_of(const char *name) {
  const char *given, *expected;
  braid_attr attr = {.name = name, .kind = BRAID_ATTR_TENSOR};
  return braid_known_attr_differs(&attr, true, &given, &expected) ? expected : "a tensor";
}

static void add_attribute(void *context, const char *name) {
  attributes *a = context;
  size_t length = strlen(name);
  braid_text_printf(a->text, "%s`%s` %s", a->more ? ", " : "", name, kind_of(name));
  for (const char *at = a->defaults; at && *at; at += strcspn(at, " "), at += *at == ' ') {
    if (strncmp(at, name, length) != 0) continue;
    if (at[length] == '!') braid_text_add(a->text, ", required");
    if (at[length] == '=') braid_text_printf(a->text, " = %.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
  }
  a->more = true;
}

static void add_attributes(braid_text *text, const braid_op *op, const row *r) {
  char names[1024];
  attributes a = {.defaults = r ? r->fields[ATTRIBUTES] : NULL, .text = text};
  assert_true(braid_op_attrs(op->name, names, sizeof names));
  each_word(names, add_attribute, &a);
}

/* --- the page ------------------------------------------------------------------------------------------------------
 */
typedef enum part { MODELS, LOSSES, OPTIMIZERS, INTEGERS, GRADIENTS, PARTS } part;

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length > tail && strcmp(text + length - tail, end) == 0;
}

static part part_of(size_t index) {
  const char *name = braid_op_at(index)->name, *family = braid_op_family_name(index);
  if (strcmp(family, "integer") == 0) return INTEGERS;
  if (ends_with(name, "Grad") || strstr(name, "Grad") || strcmp(name, "BiasGrad") == 0) return GRADIENTS;
  return strcmp(family, "loss") == 0 ? LOSSES : strcmp(family, "optimizer") == 0 ? OPTIMIZERS : MODELS;
}

static void check_count(const char *op, const char *what, const counted *c, int least, int most) {
  /* the table may allow more: what a fused node or a gradient needs besides */
  if ((c->most >= 0 && c->least < least) || (c->most >= 0 && most >= 0 && c->most > most) || (c->most < 0 && most >= 0))
    fail_msg("%s: the row has %d to %d %s, the ops table %d to %d", op, c->least, c->most, what, least, most);
}

static void add_op(braid_text *text, size_t index) {
  const braid_op *op = braid_op_at(index);
  const row *r = find_row(op->name);
  if (!r) fail_msg("%s is in neither tests/ops/onnx.txt (written by onnx_schemas.py) nor tests/ops/own.txt", op->name);
  counted in = {.text = text}, out = {.text = text}, types = {.text = text, .narrow = op->flags & BRAID_OP_NARROW};
  braid_text_printf(text, "| %s | ", op->name);
  each_word(r->fields[OPERANDS], add_operand, &in);
  braid_text_add(text, " | ");
  each_word(r->fields[RESULTS], add_operand, &out);
  braid_text_add(text, " | ");
  add_attributes(text, op, r);
  braid_text_add(text, " | ");
  each_word(r->fields[TYPES], add_type, &types);
  braid_text_printf(text, " | %s | %s |\n", op->gradient || op->flags & BRAID_OP_FUNCTION ? "yes" : "",
                    braid_op_family_name(index));
  check_count(op->name, "operands", &in, op->min_inputs, op->max_inputs);
}

static void add_backward(braid_text *text, size_t index) {
  const braid_op *op = braid_op_at(index);
  char inputs[32], outputs[32];
  snprintf(inputs, sizeof inputs, op->min_inputs == op->max_inputs ? "%d" : "%d to %d", op->min_inputs, op->max_inputs);
  snprintf(outputs, sizeof outputs, op->min_outputs == op->max_outputs ? "%d" : "%d to %d", op->min_outputs,
           op->max_outputs);
  braid_text_printf(text, "| %s | %s | %s | ", op->name, inputs, outputs);
  add_attributes(text, op, NULL);
  braid_text_printf(text, " | %s |\n", braid_op_family_name(index));
}

static int compare_names(const void *a, const void *b) {
  return strcmp(braid_op_at(*(const size_t *)a)->name, braid_op_at(*(const size_t *)b)->name);
}

static const char kHead[] =
    "# Ops\n"
    "What `braid_graph_add_node` accepts. This page is generated from the ops table (`src/graph/ops/`) by\n"
    "`build/tests/ops_reference_test docs/ops.md`; a test compares the two.\n\n"
    "Ops of models mean what [ONNX](https://onnx.ai/onnx/operators/) says of them in its newest opset; models of "
    "older\n"
    "ones are converted when they are read. Operands stand in their order, each with the name of its type; an "
    "attribute\n"
    "without `=` has no default, or one that follows from the operands. Types are those of ONNX that Braid has: *all* "
    "are\n"
    "bool, *integer* (8 to 64 bits, with and without sign) and *floating-point* (float16, bfloat16, float32, "
    "float64);\n"
    "*number* is all but bool; *narrow* are float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0,\n"
    "float4e2m1, int4, uint4, int2 and uint2, each a byte in memory. Whether a device has a kernel for an op and type\n"
    "is what `braid_machine_supports` (`braid/op.h`) says. *Gradient*: `braid_graph_gradients` goes through the op; "
    "the\n"
    "last column is the file under `src/graph/ops/` that the op is defined in. Ops of your own: `braid/custom.h`.\n";

static void make_page(braid_text *text) {
  static const char *const kTitles[PARTS] = {"Ops of models", "Losses", "Optimizers", "Training in integers",
                                             "Gradients, which `braid_graph_gradients` adds"};
  static const char *const kAfter[PARTS] = {
      [LOSSES] = "\n`braid_train_options.loss` chooses `CrossEntropyLoss` (on the scores before a final Softmax) or\n"
                 "`SquaredErrorLoss`; formulas are in [training.md](training.md).\n",
      [OPTIMIZERS] = "\n`braid_train_options.optimizer` chooses SGD (`SgdUpdate`), Adam or AdamW (`AdamUpdate`, "
                     "`decoupled` = 1).\n"
                     "The result becomes the parameter's next value by `braid_graph_update_state`. `guard` is the "
                     "loss: if it is not\n"
                     "finite, nothing changes.\n",
      [INTEGERS] = "\nWhat they compute, to the bit: [integer-training.md](integer-training.md).\n"};
  size_t order[kMostOps], count = braid_op_count();
  assert_true(count <= kMostOps);
  for (size_t i = 0; i < count; i++) order[i] = i;
  qsort(order, count, sizeof *order, compare_names);
  braid_text_add(text, kHead);
  for (int p = 0; p < PARTS; p++) {
    braid_text_printf(text, "\n## %s\n", kTitles[p]);
    braid_text_add(text, p == GRADIENTS
                             ? "| op | operands | results | attributes | source |\n| --- | --- | --- | --- | --- |\n"
                             : "| op | operands | results | attributes | types | gradient | source |\n"
                               "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < count; i++)
      if (part_of(order[i]) == (part)p) (p == GRADIENTS ? add_backward : add_op)(text, order[i]);
    if (kAfter[p]) braid_text_add(text, kAfter[p]);
  }
  assert_false(text->failed);
}

static const char *target; /* where to write the page; NULL: it is compared */

static void test_page(void **state) {
  (void)state;
  braid_text text;
  braid_text_init(&text, NULL);
  make_page(&text);
  if (target) {
    assert_int_equal(braid_file_write(NULL, target, text.data, text.length), BRAID_OK);
  } else {
    braid_file_view view;
    assert_int_equal(braid_file_open(NULL, BRAID_DOCS "/ops.md", 0, &view), BRAID_OK);
    if (view.bytes != text.length || memcmp(view.data, text.data, view.bytes) != 0)
      fail_msg("docs/ops.md is not what the ops table says: run build/tests/ops_reference_test docs/ops.md");
    braid_file_close(&view);
  }
  braid_text_deinit(&text);
}

/* onnx.txt is what the onnx package says of the ops in it. */
static void test_schemas(void **state) {
  (void)state;
  const char *python = getenv("BRAID_PYTHON");
  if (!python) skip_test("peers", "BRAID_PYTHON names no python with the onnx package");
  char command[1024];
  snprintf(command, sizeof command, "'%s' %s/onnx_schemas.py | diff %s/onnx.txt -", python, BRAID_OPS, BRAID_OPS);
  assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
  target = argc > 1 ? argv[1] : NULL;
  read_rows("own.txt");
  read_rows("onnx.txt");
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_page), cmocka_unit_test(test_schemas)};
  return skip_run_group_tests(tests, NULL, NULL);
}
