/* A manifest's entry for one node or chain: does it fit, and what to launch. Operands that it wants in another order,
 * size or type are copied into the workspace before its launches, and out of it behind them, or packed (staging.h). */
#include <endian.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/kernel.h"
#include "backend/opencl/staging.h"
#include "base/text.h"
#include "base/try.h"
#include "graph/graph.h"
#include "launch/attribute.h"

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
braid_dtype braid_cl_find_dtype(const char *name) {
  for (int i = BRAID_NONE + 1; i < BRAID_DTYPE_COUNT; i++)
    if (strcmp(braid_dtype_name((braid_dtype)i), name) == 0) return (braid_dtype)i;
  return BRAID_NONE;
}

braid_dtype braid_cl_find_scalar(const char *name, uint32_t *lanes) {
  static const struct {
    const char *name;
    braid_dtype dtype;
  } kScalars[] = {
#define ROW(name, dtype) {#name, BRAID_##dtype},
      BRAID_CL_SCALARS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof kScalars / sizeof *kScalars; i++) {
    size_t length = strlen(kScalars[i].name);
    if (strncmp(kScalars[i].name, name, length) != 0) continue;
    *lanes = name[length] ? (uint32_t)strtoul(name + length, NULL, 10) : 1;
    static const char *const kLanes[] = {"", "2", "3", "4", "8", "16"};
    for (size_t k = 0; k < sizeof kLanes / sizeof *kLanes; k++)
      if (strcmp(name + length, kLanes[k]) == 0) return kScalars[i].dtype;
  }
  return BRAID_NONE;
}

const char *braid_cl_number_text(const braid_cl_entry_argument *a, braid_dtype *dtype) {
#define TEXT(name, type)                                                                                               \
  if (a->of_##name) {                                                                                                  \
    *dtype = BRAID_##type;                                                                                             \
    return a->of_##name;                                                                                               \
  }
  BRAID_CL_SCALARS(TEXT)
#undef TEXT
  return NULL;
}

/* The attribute as a number, whole or not. */
static double read_attribute_number(const braid_attrs *attrs, const char *name, double otherwise) {
  double number = braid_attr_float(attrs, name, otherwise);
  int64_t whole = braid_attr_int(attrs, name, INT64_MIN);
  return whole == INT64_MIN ? number : (double)whole;
}

braid_status braid_cl_real(const char *text, const braid_launch_scope *scope, double *out) {
  if (braid_parse_f64(text, out)) return BRAID_OK;
  char name[64];
  int end = 0, node = 0;
  bool of_node = sscanf(text, " attr ( node%3d . %63[A-Za-z0-9_] , %lf ) %n", &node, name, out, &end) == 3;
  if (!of_node || !end || text[end]) {
    end = node = 0;
    if (sscanf(text, " attr ( %63[A-Za-z0-9_] , %lf ) %n", name, out, &end) != 2) end = 0;
  }
  if (end && !text[end] && node >= 0 && (size_t)node < scope->node_count) {
    const braid_node_desc *of = scope->nodes ? scope->nodes[node] : NULL;
    BRAID_TRY(braid_launch_ask(scope, (size_t)node, name));
    if (of) *out = read_attribute_number(of->attrs, name, *out);
    return BRAID_OK;
  }
  int64_t whole;
  braid_status status = braid_launch_formula(text, scope, &whole);
  *out = (double)whole;
  if (status != BRAID_INVALID_FILE) return status;
  return braid_fail_prefix(status, "\"%.60s\": expected a number, attr(NAME, NUMBER) or a formula", text);
}

braid_launch_scope braid_cl_entry_scope(const braid_cl_entry *entry, const char *names[BRAID_CL_NUMBERS + 1]) {
  size_t count = 0;
  for (unsigned i = 0; i < entry->numbers_count && i < BRAID_CL_NUMBERS; i++) names[count++] = entry->numbers[i];
  if (entry->repeat) names[count++] = "turn";
  return (braid_launch_scope){
      .node_count = entry->chain_count ? entry->chain_count : 1, .names = names, .name_count = count};
}

braid_launch_scope braid_cl_subject_scope(const braid_cl_subject *subject) {
  braid_launch_scope scope = braid_cl_entry_scope(subject->entry, (const char **)subject->names);
  scope.nodes = subject->nodes;
  scope.values = subject->values;
  scope.asked = subject->asked;
  return scope;
}

/* A formula without a value is likelier a mistake than a condition, and the entry is passed over: said once. */
static braid_status find_value(const braid_cl_subject *subject, const char *formula, int64_t *out) {
  braid_launch_scope scope = braid_cl_subject_scope(subject);
  braid_status status = braid_launch_formula(formula, &scope, out);
  if (status == BRAID_OUT_OF_RANGE && !atomic_exchange(subject->entry->warned, true))
    braid_log_write(subject->entry->device->log, BRAID_LOG_WARNING,
                    "the manifest's kernel %s is passed over for node %.120s: %s", subject->entry->name,
                    subject->nodes[0]->name ? subject->nodes[0]->name : subject->nodes[0]->op, braid_error_detail());
  return status;
}

braid_status braid_cl_evaluate(const braid_cl_subject *subject, const char *formula, int64_t least, int64_t most,
                               int64_t *out) {
  BRAID_TRY(find_value(subject, formula, out));
  if (*out >= least && *out <= most) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "\"%.100s\" is %lld, expected %lld to %lld", formula, (long long)*out,
                    (long long)least, (long long)most);
}

/* --- matching ------------------------------------------------------------------------------------------------------
 */
static bool match_types(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    bool input = i < node->input_count;
    const braid_operand *operand = input ? &node->inputs[i] : &node->outputs[i - node->input_count];
    const char *wanted = !entry->types_count ? "float32" : i < entry->types_count ? entry->types[i] : NULL;
    if (!operand->present) continue;
    if (!wanted) return braid_launch_refuse(why, why_bytes, "more than %u operands", entry->types_count);
    if (strcmp(wanted, braid_dtype_name(operand->desc.dtype)) != 0)
      return braid_launch_refuse(why, why_bytes, "operand %zu is %s, not %s", i, braid_dtype_name(operand->desc.dtype),
                                 wanted);
  }
  return true;
}

bool braid_cl_entry_gives(const braid_cl_entry *entry, size_t output) {
  for (unsigned i = 0; i < entry->launches_count; i++)
    for (unsigned k = 0; k < entry->launches[i].arguments_count; k++) {
      const int64_t *out = entry->launches[i].arguments[k].out;
      if (out && *out == (int64_t)output) return true;
    }
  return false;
}

/* What no launch writes would be whatever lies in memory. */
static bool match_outputs(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && !braid_cl_entry_gives(entry, i))
      return braid_launch_refuse(why, why_bytes, "no launch takes out: %zu, which the node has", i);
  return true;
}

/* What the entry's numbers are for the layer. */
static bool match_layer(braid_cl_subject *subject, char *why, size_t why_bytes) {
  const braid_cl_entry *entry = subject->entry;
  const char *name = subject->nodes[0]->name ? subject->nodes[0]->name : "";
  for (unsigned i = 0; i < entry->layers_count; i++) {
    if (!braid_text_fits(entry->layers[i].node, name)) continue;
    for (unsigned k = 0; k < entry->numbers_count; k++) subject->values[k] = entry->layers[i].values[k];
    return true;
  }
  return !entry->layers_count || braid_launch_refuse(why, why_bytes, "none of its layers is named %.100s", name);
}

static bool match_conditions(const braid_cl_subject *subject, char *why, size_t why_bytes) {
  const braid_cl_entry *entry = subject->entry;
  for (unsigned i = 0; i < entry->when_count; i++) {
    int64_t holds;
    if (find_value(subject, entry->when[i], &holds) != BRAID_OK)
      return braid_launch_refuse(why, why_bytes, "%.150s", braid_error_detail());
    if (!holds) return braid_launch_refuse(why, why_bytes, "not %.100s", entry->when[i]);
  }
  return true;
}

static bool is_ignored(const braid_cl_entry *entry, const char *name) {
  for (unsigned i = 0; i < entry->ignores_count; i++)
    if (strcmp(entry->ignores[i], name) == 0) return true;
  return false;
}

/* A kernel that does not look at an attribute computes as if it were not there. */
static bool match_attributes(const braid_cl_subject *subject, char *why, size_t why_bytes) {
  for (size_t n = 0; n < subject->node_count; n++) {
    const braid_node_desc *node = subject->nodes[n];
    for (size_t i = 0; node && i < (node->attrs ? node->attrs->count : 0); i++) {
      const braid_attr *attr = &node->attrs->items[i];
      bool asked = i < 64 && subject->asked[n] >> i & 1;
      if (!asked && !is_ignored(subject->entry, attr->name) && !braid_launch_attribute_is_neutral(node, attr))
        return braid_launch_refuse(why, why_bytes, "no formula looks at %.60s's attribute %.60s", node->op, attr->name);
    }
  }
  return true;
}

static braid_status plan_subject(braid_cl_subject *subject, const braid_launch_traits *traits,
                                 braid_launch_recipe *recipe, braid_cl_packed *packed);

static bool subject_fits(braid_cl_subject *subject, const braid_cl_device *device, char *why, size_t why_bytes) {
  const braid_cl_entry *entry = subject->entry;
  for (size_t i = 0; i < subject->node_count; i++)
    if (subject->nodes[i] && !match_types(entry, subject->nodes[i], why, why_bytes)) return false;
  if (!match_outputs(entry, subject->whole, why, why_bytes) || !match_layer(subject, why, why_bytes) ||
      !match_conditions(subject, why, why_bytes))
    return false;
  braid_launch_recipe recipe = {.allocator = device->allocator};
  braid_cl_packed packed = {.count = 0};
  bool fits = plan_subject(subject, &device->traits, &recipe, &packed) == BRAID_OK;
  if (!fits) snprintf(why, why_bytes, "%s", braid_error_detail());
  fits =
      fits && braid_cl_recipe_is_possible(device, &recipe, why, why_bytes) && match_attributes(subject, why, why_bytes);
  braid_launch_recipe_deinit(&recipe);
  return fits;
}

bool braid_cl_subject_fits(braid_cl_subject *subject, const braid_cl_device *device, char *why, size_t why_bytes) {
  uint64_t asked[BRAID_CL_CHAIN] = {0};
  subject->asked = asked;
  bool fits = subject_fits(subject, device, why, why_bytes);
  subject->asked = NULL;
  return fits;
}

static void describe_node(const braid_cl_entry *entry, const braid_node_desc *node, braid_cl_subject *out) {
  *out = (braid_cl_subject){.entry = entry, .whole = node, .nodes = {node}, .node_count = 1};
  for (int i = 0; i < BRAID_CL_OPERANDS; i++) out->inputs[0][i] = i;
}

bool braid_cl_entry_match(const braid_cl_entry *entry, const braid_cl_device *device, const braid_node_desc *node,
                          char *why, size_t why_bytes) {
  braid_cl_subject subject;
  describe_node(entry, node, &subject);
  return braid_cl_subject_fits(&subject, device, why, why_bytes);
}

/* --- workspace ------------------------------------------------------------------------------------------------------
 */
static braid_cl_shared *find_shared(braid_cl_planning *p, const braid_cl_entry_argument *a) {
  for (size_t i = 0; i < p->shared_count; i++)
    if (strcmp(p->shared[i].name, braid_cl_workspace_name(a)) == 0) return &p->shared[i];
  return NULL;
}

static braid_status size_shared(braid_cl_planning *p, const braid_cl_entry_argument *a) {
  int64_t bytes;
  BRAID_TRY(braid_cl_evaluate(p->subject, a->workspace, 1, INT64_MAX / 2, &bytes));
  braid_cl_shared *shared = find_shared(p, a);
  if (!shared) {
    if (p->shared_count == BRAID_CL_WORKSPACES)
      return braid_fail(BRAID_OUT_OF_RANGE, "more than %d names of workspace", BRAID_CL_WORKSPACES);
    shared = &p->shared[p->shared_count++];
    *shared = (braid_cl_shared){.name = braid_cl_workspace_name(a)};
  }
  if (bytes > shared->bytes) shared->bytes = bytes;
  shared->zeroed |= a->zeroed;
  return BRAID_OK;
}

static void add_zeros(braid_cl_planning *p, const braid_cl_shared *shared) {
  if (shared->bytes > INT32_MAX / 2) p->planner.wide = true;
  braid_launch_begin(&p->planner, "movement", "fill");
  braid_launch_option(&p->planner, "-DT=uchar");
  braid_launch_workspace(&p->planner, shared->piece);
  braid_launch_index(&p->planner, shared->bytes);
  braid_launch_int(&p->planner, 0);
  braid_launch_range(&p->planner, shared->bytes);
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
/* The number as the device reads it: whole numbers within the bounds of their type. */
static braid_status encode_number(const braid_cl_planning *p, const char *text, braid_dtype dtype, uint8_t out[8]) {
  double real;
  int64_t whole, most = INT64_MAX, least = 0;
  size_t bytes = braid_dtype_size(dtype);
  bool is_signed = dtype == BRAID_I8 || dtype == BRAID_I16 || dtype == BRAID_I32 || dtype == BRAID_I64;
  if (braid_dtype_is_float(dtype)) {
    BRAID_TRY(braid_cl_real(text, &p->scope, &real));
    if (bytes == sizeof(float))
      memcpy(out, &(float){(float)real}, bytes);
    else
      memcpy(out, &real, bytes);
    return BRAID_OK;
  }
  if (bytes < sizeof most) most = (INT64_C(1) << (8 * bytes - is_signed)) - 1;
  if (is_signed) least = -most - 1;
  BRAID_TRY(braid_cl_evaluate(p->subject, text, least, most, &whole));
  memcpy(out, &(uint64_t){htole64((uint64_t)whole)}, bytes); /* devices are little-endian */
  return BRAID_OK;
}

static braid_status add_vector(braid_cl_planning *p, const braid_cl_entry_argument *a) {
  uint8_t bytes[BRAID_LAUNCH_VECTOR_BYTES] = {0};
  uint32_t lanes = 1;
  braid_dtype dtype = braid_cl_find_scalar(a->vector, &lanes);
  for (uint32_t i = 0; i < lanes; i++)
    BRAID_TRY(encode_number(p, a->values[a->values_count == 1 ? 0 : i], dtype, bytes + i * braid_dtype_size(dtype)));
  braid_launch_number(&p->planner, dtype, lanes, bytes);
  return BRAID_OK;
}

static braid_status add_operand_argument(braid_cl_planning *p, const braid_cl_entry_argument *a) {
  if (braid_cl_is_staged(p, a)) {
    braid_cl_staged *staged;
    BRAID_TRY(braid_cl_stage_operand(p, a, &staged));
    braid_launch_piece piece = staged->stage.piece;
    if (staged->packed)
      braid_launch_input_part(&p->planner, staged->stage.index, piece.offset, piece.bytes);
    else
      braid_launch_workspace(&p->planner, piece);
    braid_launch_element(&p->planner, staged->stage.as);
    return BRAID_OK;
  }
  const braid_operand *operand;
  size_t index;
  BRAID_TRY(braid_cl_find_operand(p->subject, a, &operand, &index));
  if (a->in)
    braid_launch_input(&p->planner, index);
  else
    braid_launch_output(&p->planner, index);
  braid_launch_element(&p->planner, operand->desc.dtype);
  return BRAID_OK;
}

static braid_status add_entry_argument(braid_cl_planning *p, const braid_cl_entry_argument *a) {
  int64_t value;
  braid_dtype dtype;
  uint8_t bytes[8];
  const char *number = braid_cl_number_text(a, &dtype);
  if (a->in || a->out) return add_operand_argument(p, a);
  if (a->vector) return add_vector(p, a);
  if (number) {
    BRAID_TRY(encode_number(p, number, dtype, bytes));
    braid_launch_number(&p->planner, dtype, 1, bytes);
  } else if (a->local) {
    BRAID_TRY(braid_cl_evaluate(p->subject, a->local, 1, INT32_MAX, &value));
    braid_launch_local(&p->planner, (size_t)value);
  } else {
    braid_launch_workspace(&p->planner, find_shared(p, a)->piece);
  }
  return BRAID_OK;
}

/* No work-items are right where there is nothing to write, and a mistake elsewhere. */
static int64_t least_items(const braid_node_desc *node) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && braid_desc_count(&node->outputs[i].desc)) return 1;
  return 0;
}

static braid_status add_launch(braid_cl_planning *p, const braid_cl_entry_launch *from) {
  braid_launch_planner *planner = &p->planner;
  const braid_cl_entry *entry = p->subject->entry;
  braid_launch_begin_foreign(planner, entry->module, braid_cl_module_path(entry->module), from->function);
  planner->launch->together = from->together;
  if (entry->common_options) braid_launch_option(planner, "%s", entry->common_options);
  if (from->options) braid_launch_option(planner, "%s", from->options);
  for (unsigned i = 0; i < from->arguments_count; i++) {
    braid_status status = add_entry_argument(p, &from->arguments[i]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", from->function, i);
  }
  size_t global[3] = {1, 1, 1}, local[3] = {0, 0, 0};
  int64_t least = least_items(p->subject->whole);
  for (unsigned i = 0; i < from->global_count; i++) {
    int64_t value;
    BRAID_TRY(braid_cl_evaluate(p->subject, from->global[i], least, INT64_MAX / 2, &value));
    global[i] = (size_t)value;
    if (!from->local_count) continue;
    BRAID_TRY(braid_cl_evaluate(p->subject, from->local[i], 1, INT32_MAX, &value));
    local[i] = (size_t)value;
  }
  braid_launch_sizes(planner, from->global_count, global, local);
  return BRAID_OK;
}

/* --- turns ---------------------------------------------------------------------------------------------------------
 */
static void begin_turn(braid_cl_planning *p, int64_t turn) {
  p->subject->values[p->subject->entry->numbers_count] = turn;
}

/* The pieces of a turn, before any launch is written: copies in stand before the launches, and what launches share is
 * as large as the largest asks. */
static braid_status reserve_turn(braid_cl_planning *p) {
  const braid_cl_entry *entry = p->subject->entry;
  for (unsigned i = 0; i < entry->launches_count; i++) {
    const braid_cl_entry_launch *launch = &entry->launches[i];
    for (unsigned k = 0; k < launch->arguments_count; k++) {
      const braid_cl_entry_argument *a = &launch->arguments[k];
      braid_cl_staged *ignored;
      braid_status status = braid_cl_is_staged(p, a) ? braid_cl_stage_operand(p, a, &ignored)
                            : a->workspace           ? size_shared(p, a)
                                                     : BRAID_OK;
      if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", launch->function, k);
    }
  }
  return BRAID_OK;
}

/* Copies of items in this turn, into their pieces or out of them. */
static braid_status copy_items(braid_cl_planning *p, bool inputs, int64_t turn) {
  const braid_cl_entry *entry = p->subject->entry;
  for (unsigned i = 0; i < entry->launches_count; i++)
    for (unsigned k = 0; k < entry->launches[i].arguments_count; k++) {
      const braid_cl_entry_argument *a = &entry->launches[i].arguments[k];
      if (!a->item || (a->in != NULL) != inputs) continue;
      braid_cl_staged *staged;
      BRAID_TRY(braid_cl_stage_operand(p, a, &staged));
      if (staged->turn == turn) continue;
      staged->turn = turn;
      braid_launch_add_stage(&p->planner, &staged->stage);
    }
  return BRAID_OK;
}

static braid_status add_turn(braid_cl_planning *p, int64_t turn) {
  const braid_cl_entry *entry = p->subject->entry;
  begin_turn(p, turn);
  BRAID_TRY(copy_items(p, true, turn));
  for (size_t i = 0; i < p->shared_count; i++)
    if (p->shared[i].zeroed) add_zeros(p, &p->shared[i]);
  for (unsigned i = 0; i < entry->launches_count; i++) BRAID_TRY(add_launch(p, &entry->launches[i]));
  return copy_items(p, false, turn);
}

static braid_status plan_subject(braid_cl_subject *subject, const braid_launch_traits *traits,
                                 braid_launch_recipe *recipe, braid_cl_packed *packed) {
  const braid_cl_entry *entry = subject->entry;
  braid_cl_planning p = {.subject = subject, .packed = packed, .scope = braid_cl_subject_scope(subject)};
  int64_t turns = 1;
  braid_launch_plan_begin(&p.planner, traits, subject->whole, recipe);
  begin_turn(&p, 0);
  if (packed) braid_cl_mark_packed(&p);
  if (entry->repeat)
    BRAID_TRY(braid_cl_evaluate(subject, entry->repeat, least_items(subject->whole), BRAID_CL_ENTRY_REPEATS, &turns));
  for (int64_t turn = 0; turn < turns; turn++) {
    begin_turn(&p, turn);
    BRAID_TRY(reserve_turn(&p));
  }
  for (size_t i = 0; i < p.shared_count; i++)
    p.shared[i].piece = braid_launch_reserve(&p.planner, p.shared[i].bytes, 1, 1);
  for (size_t i = 0; i < p.staged_count; i++)
    if (p.staged[i].stage.input && !p.staged[i].item && !p.staged[i].packed)
      braid_launch_add_stage(&p.planner, &p.staged[i].stage);
  for (int64_t turn = 0; turn < turns; turn++) BRAID_TRY(add_turn(&p, turn));
  for (size_t i = 0; i < p.staged_count; i++)
    if (!p.staged[i].stage.input && !p.staged[i].item) braid_launch_add_stage(&p.planner, &p.staged[i].stage);
  return braid_launch_plan_end(&p.planner);
}

braid_status braid_cl_entry_plan(const braid_cl_entry *entry, const braid_launch_traits *traits,
                                 const braid_node_desc *node, braid_launch_recipe *recipe, braid_cl_packed *packed) {
  braid_cl_subject subject;
  char why[256];
  if (node->region)
    BRAID_TRY(braid_cl_subject_of_region(entry, node, &subject));
  else
    describe_node(entry, node, &subject);
  if (!match_layer(&subject, why, sizeof why)) return braid_fail(BRAID_OUT_OF_RANGE, "%s", why);
  return plan_subject(&subject, traits, recipe, packed);
}
