#include "probe.h"

#include <stdio.h>
#include <string.h>

#include "braid/session.h"
#include "piece.h"
#include "try.h"

enum { MAX_OPERANDS = 4096 };
static const int64_t kTriedSize = 8; /* even: halves of it are whole */

bool braid_ort_may_be_given(braid_dtype dtype, int rank, const int64_t *dims) {
  if (rank < 0 || rank > 1 || (dtype != BRAID_F32 && dtype != BRAID_I32 && dtype != BRAID_I64)) return false;
  int64_t most = dtype == BRAID_F32 ? BRAID_ORT_GIVEN_REALS : BRAID_ORT_GIVEN_MAX;
  return rank == 0 || (dims[0] >= 0 && dims[0] <= most);
}

/* Random numbers are the framework's: its seeds give its numbers. */
static bool is_random(const char *op) {
  static const char *const kRandom[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                        "RandomUniformLike", "Multinomial",      "Bernoulli"};
  for (size_t i = 0; i < sizeof kRandom / sizeof *kRandom; i++)
    if (strcmp(op, kRandom[i]) == 0) return true;
  return false;
}

static braid_status operand_check(const braid_ort_value *value, bool output) {
  const char *what = output ? "output" : "input";
  if (value->data) return BRAID_OK;
  if (value->type == 0)
    return braid_fail(BRAID_UNSUPPORTED, "%s %s is no tensor, or its type is not known", what, value->name);
  if (braid_ort_type_packed(value->type))
    return braid_fail(BRAID_UNSUPPORTED, "%s %s is of %s, packed: only constants may be", what, value->name,
                      braid_ort_type_name(value->type));
  if (!braid_ort_type_carried(value->type))
    return braid_fail(BRAID_UNSUPPORTED, "%s %s is of %s", what, value->name, braid_ort_type_name(value->type));
  if (value->too_deep)
    return braid_fail(BRAID_UNSUPPORTED, "%s %s has more than %d dimensions", what, value->name, BRAID_MAX_RANK);
  if (!output && value->rank < 0)
    return braid_fail(BRAID_UNSUPPORTED, "input %s has no known number of dimensions", value->name);
  return BRAID_OK;
}

/* What needs no plan to be refused. */
static braid_status node_check(const braid_ort_view *view, const braid_ort_node *node) {
  if (node->graph_count) return braid_fail(BRAID_UNSUPPORTED, "it has graphs of its own, whose nodes are asked about");
  if (view->inlined)
    return braid_fail(BRAID_UNSUPPORTED,
                      "it is in the body of a SequenceMap, which ONNX Runtime makes a loop of afterwards: it "
                      "then refuses nodes of plug-in providers");
  if (is_random(node->op)) return braid_fail(BRAID_UNSUPPORTED, "random numbers are those of the framework");
  if (node->input_count + node->output_count > MAX_OPERANDS)
    return braid_fail(BRAID_UNSUPPORTED, "%zu inputs", node->input_count);
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 0) TRY(operand_check(&view->values[node->inputs[i]], false));
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) TRY(operand_check(&view->values[node->outputs[i]], true));
  return BRAID_OK;
}

typedef struct probe_question {
  braid_ort_view *view;
  braid_machine *machine;
  const braid_plan_options *options;
  const braid_ort_node *node;
  braid_ort_piece piece;
  bool open;   /* an input has an open dimension */
  bool shaped; /* the contents of its results follow from shapes */
  int *known;  /* inputs whose contents are known when a plan is made */
  size_t known_count;
} probe_question;

/* --- what ONNX Runtime could not infer ---
 * Before opset 14 it gives up at each Reshape to sizes that are computed. What the tried plan has instead is taken
 * where it is the same whatever the open dimensions are. */

static bool named(const char *op, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(op, names[i]) == 0) return true;
  return false;
}

/* An input that says with how many elements it has how many dimensions the results have; -1: none does. */
static int rank_list(const braid_ort_node *node) {
  static const char *const kSecond[] = {"Reshape", "Expand", "Unsqueeze", "Squeeze", "AffineGrid"};
  size_t place = strcmp(node->op, "ConstantOfShape") != 0;
  if (place && !named(node->op, kSecond, sizeof kSecond / sizeof *kSecond) && strncmp(node->op, "Reduce", 6) != 0)
    return -1;
  return place < node->input_count ? node->inputs[place] : -1;
}

/* Is the number of dimensions of the results the same? Not that of a GatherND whose places have an open one last, or of
 * a Squeeze without axes. */
static bool rank_follows(const braid_ort_view *view, const braid_ort_node *node) {
  int list = rank_list(node);
  const braid_ort_value *sizes = list < 0 ? NULL : &view->values[list];
  if (sizes && !sizes->data && sizes->rank == 1 && sizes->dims[0] < 0) return false;
  if (strcmp(node->op, "GatherND") == 0) {
    const braid_ort_value *places = &view->values[node->inputs[1]];
    return places->rank > 0 && places->dims[places->rank - 1] >= 0;
  }
  if (strcmp(node->op, "Squeeze") != 0 || sizes) return true;
  size_t attributes = 0; /* `axes` is the only one */
  return braid_ort_check(braid_ort.Node_GetNumAttributes(node->node, &attributes)) == BRAID_OK && attributes;
}

/* Are all dimensions of the results the same? Asked of ops that lists of sizes are computed with. */
static bool dims_follow(const braid_ort_view *view, const braid_ort_node *node) {
  static const char *const kOps[] = {"Add",      "Cast", "Ceil", "Concat", "Div", "Equal", "Floor", "Gather",
                                     "Identity", "Max",  "Min",  "Mul",    "Neg", "Sub",   "Where"};
  bool slices =
      strcmp(node->op, "Slice") == 0 || strcmp(node->op, "Unsqueeze") == 0 || strcmp(node->op, "Squeeze") == 0;
  if (strcmp(node->op, "Shape") == 0) return true; /* as many elements as dimensions */
  if (!slices && !named(node->op, kOps, sizeof kOps / sizeof *kOps)) return false;
  for (size_t i = 0; i < node->input_count; i++) {
    const braid_ort_value *input = node->inputs[i] < 0 ? NULL : &view->values[node->inputs[i]];
    if (!input || input->data) continue;
    if (input->rank < 0 || (slices && i)) return false;
    for (int d = 0; d < input->rank; d++)
      if (input->dims[d] < 0) return false;
  }
  return true;
}

static void take_dims(const braid_ort_view *view, const braid_ort_node *node, const braid_desc *desc,
                      braid_ort_value *value) {
  if (value->rank < 0 && rank_follows(view, node)) {
    value->rank = desc->rank;
    for (int d = 0; d < desc->rank; d++) value->dims[d] = -1;
  }
  for (int d = 0; d < value->rank && value->rank == desc->rank && dims_follow(view, node); d++)
    value->dims[d] = desc->dims[d];
}

/* Notes what the node's results would be. */
static void probe_note(const probe_question *ask, const braid_plan *plan, const braid_graph *graph) {
  for (size_t i = 0; i < ask->piece.output_count; i++) {
    braid_ort_value *value = &ask->view->values[ask->piece.outputs[i]];
    const braid_desc *desc = braid_plan_output(plan, i);
    value->tried = true;
    take_dims(ask->view, ask->node, desc, value);
    value->tried_rank = desc->rank;
    memcpy(value->tried_dims, desc->dims, sizeof value->tried_dims);
    if (!ask->shaped || value->tried_contents || braid_desc_bytes(desc) > BRAID_ORT_CONTENTS) continue;
    braid_value_info info = braid_graph_value(graph, braid_graph_output(graph, i));
    if (!info.tensor || !braid_desc_same_shape(&info.desc, desc)) continue;
    if (braid_tensor_create(NULL, desc, &value->tried_contents) == BRAID_OK)
      memcpy(braid_tensor_data(value->tried_contents), braid_tensor_const_data(info.tensor), braid_desc_bytes(desc));
  }
}

static braid_status probe_attempt(probe_question *ask, const braid_ort_trial *trial) {
  braid_graph *graph = NULL;
  braid_plan *plan = NULL;
  ask->piece.trial = trial;
  TRY(braid_ort_piece_parse(ask->view, &ask->piece, &graph));
  braid_status status = ask->shaped ? braid_resolve(graph) : BRAID_OK;
  if (status == BRAID_OK) status = braid_plan_create(ask->machine, graph, ask->options, &plan);
  if (status == BRAID_OK && trial->tried) probe_note(ask, plan, graph);
  braid_plan_release(plan);
  braid_graph_destroy(graph);
  return status;
}

/* An op that is not implemented stays so whatever the sizes are; a shape may fit with others. */
static bool worth_another(braid_status status) {
  return status != BRAID_OK && status != BRAID_NO_MEMORY;
}

/* Sizes for open dimensions that suit most ops: 1 divides and broadcasts, the others leave room for windows. */
static braid_status probe_sizes(probe_question *ask, size_t known, braid_ort_fill fill, char *first, size_t bytes) {
  static const int64_t kSizes[] = {8, 1, 64, 512};
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < (ask->open ? sizeof kSizes / sizeof *kSizes : 1); i++) {
    status = probe_attempt(ask, &(braid_ort_trial){kSizes[i], false, ask->known, known, fill});
    if (status != BRAID_OK && !first[0]) snprintf(first, bytes, "%s", braid_error_detail());
    if (!worth_another(status)) return status;
  }
  return status;
}

/* First as the node would stand in the graph if every open dimension of the graph's inputs had one size, with the
 * contents that would follow; then with sizes and contents by themselves, which may suit this node where those do not.
 */
static braid_status probe_run(probe_question *ask) {
  char first[1024] = "";
  braid_status status = probe_attempt(ask, &(braid_ort_trial){kTriedSize, true, NULL, 0, BRAID_ORT_ONES});
  if (status == BRAID_OK) return status;
  snprintf(first, sizeof first, "%s", braid_error_detail());
  if (worth_another(status) && (ask->open || ask->known_count))
    status = probe_sizes(ask, 0, BRAID_ORT_ONES, first, sizeof first);
  for (int fill = 0; fill < BRAID_ORT_FILLS && ask->known_count && worth_another(status); fill++)
    status = probe_sizes(ask, ask->known_count, (braid_ort_fill)fill, first, sizeof first);
  return status == BRAID_OK || status == BRAID_NO_MEMORY ? status : braid_fail(status, "%s", first);
}

static int *ints(braid_ort_view *view, size_t count) {
  return braid_ort_arena_take(&view->arena, count, sizeof(int));
}

braid_status braid_ort_probe_node(braid_ort_view *view, int index, const braid_ort_class *classes,
                                  braid_machine *machine, const braid_plan_options *options) {
  const braid_ort_node *node = &view->nodes[index];
  TRY(node_check(view, node));
  probe_question ask = {.view = view, .node = node, .machine = machine, .options = options};
  int *inputs = ints(view, node->input_count), *outputs = ints(view, node->output_count);
  ask.known = ints(view, node->input_count);
  if (!inputs || !outputs || !ask.known) return braid_fail(BRAID_NO_MEMORY, "there is no memory to read the graph");
  ask.piece =
      (braid_ort_piece){.nodes = &index, .node_count = 1, .inputs = inputs, .outputs = outputs, .name = node->op};
  for (size_t i = 0; i < node->input_count; i++) {
    int value = node->inputs[i];
    bool again = value < 0 || view->values[value].data;
    for (size_t k = 0; k < ask.piece.input_count && !again; k++) again = inputs[k] == value;
    if (again) continue;
    const braid_ort_value *operand = &view->values[value];
    inputs[ask.piece.input_count++] = value;
    for (int d = 0; d < operand->rank; d++) ask.open = ask.open || operand->dims[d] < 0;
    if (classes[value] != BRAID_ORT_DATA &&
        braid_ort_may_be_given(braid_ort_dtype(operand->type), operand->rank, operand->dims))
      ask.known[ask.known_count++] = value;
  }
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i] >= 0) {
      outputs[ask.piece.output_count++] = node->outputs[i];
      ask.shaped = ask.shaped || classes[node->outputs[i]] == BRAID_ORT_SHAPED;
    }
  return probe_run(&ask);
}
