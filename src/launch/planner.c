#include "launch/planner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Sub-buffers begin at multiples of a device's alignment: at most 4096 bits are asked for by the drivers there are. */
enum { kPieceAlignment = 4096, kNarrow = 1 << 30 };

/* --- launches ------------------------------------------------------------------------------------------------------
 */
void braid_launch_plan_begin(braid_launch_planner *p, const braid_launch_traits *traits, const braid_node_desc *node,
                             braid_launch_recipe *recipe) {
  *p = (braid_launch_planner){
      .traits = traits, .node = node, .recipe = recipe, .wide = traits->knobs.wide || !braid_launch_is_narrow(node)};
}

static void complain(braid_launch_planner *p, const char *problem) {
  if (!p->problem) p->problem = problem;
}

/* The next launch. What does not fit any more is written to the spare one. */
static braid_launch *next_launch(braid_launch_planner *p) {
  if (p->recipe->launch_count == BRAID_LAUNCHES) complain(p, "more launches than a recipe takes");
  p->launch = p->problem || p->no_memory ? NULL : braid_launch_recipe_add(p->recipe);
  p->no_memory |= !p->problem && !p->launch;
  if (p->launch) return p->launch;
  p->spare = (braid_launch){0};
  return p->launch = &p->spare;
}

void braid_launch_begin(braid_launch_planner *p, const char *source, const char *function) {
  braid_launch *launch = next_launch(p);
  launch->source = source;
  launch->function = function;
  if (p->wide) braid_launch_option(p, "-DWIDE");
  if (p->traits->fpga) braid_launch_option(p, "-DFPGA");
  if (p->traits->fpga && p->traits->knobs.units) braid_launch_option(p, "-DUNITS=%u", p->traits->knobs.units);
  if (p->traits->fpga && p->traits->knobs.simd) braid_launch_option(p, "-DSIMD=%u", p->traits->knobs.simd);
}

void braid_launch_begin_foreign(braid_launch_planner *p, void *module, const char *path, const char *function) {
  braid_launch *launch = next_launch(p);
  launch->source = path;
  launch->module = module;
  launch->function = function;
}

void braid_launch_option(braid_launch_planner *p, const char *format, ...) {
  char *options = p->launch->options;
  size_t length = strlen(options), room = sizeof p->launch->options - length;
  va_list arguments;
  if (length && room > 1) options[length++] = ' ', room--;
  va_start(arguments, format);
  int written = vsnprintf(options + length, room, format, arguments);
  va_end(arguments);
  if (written < 0 || (size_t)written >= room) complain(p, "longer options than a launch takes");
}

/* --- arguments -----------------------------------------------------------------------------------------------------
 */
static void add_argument(braid_launch_planner *p, braid_launch_argument argument) {
  if (p->launch->argument_count == BRAID_LAUNCH_ARGUMENTS)
    complain(p, "more arguments than a launch takes");
  else
    p->launch->arguments[p->launch->argument_count++] = argument;
}

static uint32_t any_operand(const braid_node_desc *node) {
  uint32_t i = 0;
  while (i < node->input_count + node->output_count &&
         !(i < node->input_count ? node->inputs[i].present : node->outputs[i - node->input_count].present))
    i++;
  return i;
}

void braid_launch_input(braid_launch_planner *p, size_t index) {
  uint32_t at = braid_launch_has_input(p->node, index) ? (uint32_t)index : any_operand(p->node);
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_OPERAND, .index = at});
}

void braid_launch_input_part(braid_launch_planner *p, size_t index, size_t offset, size_t bytes) {
  add_argument(p, (braid_launch_argument){
                      .kind = BRAID_LAUNCH_OPERAND, .index = (uint32_t)index, .offset = offset, .bytes = bytes});
}

void braid_launch_output(braid_launch_planner *p, size_t index) {
  bool there = braid_launch_has_output(p->node, index);
  uint32_t at = there ? (uint32_t)(p->node->input_count + index) : any_operand(p->node);
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_OPERAND, .index = at});
}

void braid_launch_index(braid_launch_planner *p, int64_t value) {
  if (!p->wide && (value > INT32_MAX || value < INT32_MIN)) complain(p, "a number that 32 bits do not hold");
  add_argument(p, (braid_launch_argument){.kind = p->wide ? BRAID_LAUNCH_LONG : BRAID_LAUNCH_INT, .integer = value});
}

void braid_launch_int(braid_launch_planner *p, int64_t value) {
  if (value > INT32_MAX || value < INT32_MIN) complain(p, "a number that 32 bits do not hold");
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_INT, .integer = value});
}

void braid_launch_long(braid_launch_planner *p, int64_t value) {
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_LONG, .integer = value});
}

void braid_launch_local(braid_launch_planner *p, size_t bytes) {
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_LOCAL, .bytes = bytes});
}

void braid_launch_number(braid_launch_planner *p, braid_dtype dtype, uint32_t lanes, const void *bytes) {
  braid_launch_argument argument = {
      .kind = lanes > 1 ? BRAID_LAUNCH_VECTOR : BRAID_LAUNCH_NUMBER, .lanes = lanes, .element = dtype};
  argument.bytes = braid_dtype_size(dtype) * (lanes == 3 ? 4 : lanes); /* three lie in the room of four */
  if (lanes == 1) {
    memcpy(&argument.integer, bytes, argument.bytes);
  } else if (p->launch->vector_count == BRAID_LAUNCH_VECTOR_ARGUMENTS) {
    complain(p, "more vectors than a launch takes");
  } else {
    argument.index = p->launch->vector_count++;
    memcpy(p->launch->vectors[argument.index], bytes, argument.bytes);
  }
  add_argument(p, argument);
}

void braid_launch_fault(braid_launch_planner *p) {
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_FAULT});
}

void braid_launch_float(braid_launch_planner *p, double value) {
  add_argument(p, (braid_launch_argument){.kind = BRAID_LAUNCH_FLOAT, .real = value});
}

braid_launch_piece braid_launch_reserve_in(braid_launch_planner *p, size_t *end, int64_t rows, int64_t columns,
                                           size_t element_bytes) {
  braid_launch_piece piece = {.offset = *end};
  size_t last = 0;
  bool fits = braid_mul_size((size_t)rows, (size_t)columns, &piece.bytes) &&
              braid_mul_size(piece.bytes, element_bytes, &piece.bytes) &&
              braid_add_size(piece.bytes, kPieceAlignment - 1, &last) &&
              braid_add_size(last / kPieceAlignment * kPieceAlignment, piece.offset, &last);
  if (fits)
    *end = last;
  else
    complain(p, "a workspace whose size overflows");
  return piece;
}

braid_launch_piece braid_launch_reserve(braid_launch_planner *p, int64_t rows, int64_t columns, size_t element_bytes) {
  return braid_launch_reserve_in(p, &p->recipe->workspace_bytes, rows, columns, element_bytes);
}

void braid_launch_workspace(braid_launch_planner *p, braid_launch_piece piece) {
  add_argument(p,
               (braid_launch_argument){.kind = BRAID_LAUNCH_WORKSPACE, .offset = piece.offset, .bytes = piece.bytes});
}

void braid_launch_element(braid_launch_planner *p, braid_dtype dtype) {
  if (p->launch->argument_count) p->launch->arguments[p->launch->argument_count - 1].element = dtype;
}

/* --- sizes ---------------------------------------------------------------------------------------------------------
 */
size_t braid_launch_group(const braid_launch_traits *traits) {
  size_t most = traits->max_group ? traits->max_group : 1;
  if (traits->max_item[0] && traits->max_item[0] < most) most = traits->max_item[0];
  size_t group = traits->knobs.group ? traits->knobs.group : traits->tuning->group;
  return group < most ? group : most;
}

void braid_launch_groups(braid_launch_planner *p, int64_t groups, int64_t second, int64_t third, size_t group) {
  braid_launch_option(p, "-DGROUP=%zu", group);
  p->launch->dimensions = 3;
  p->launch->global[0] = (size_t)groups * group;
  p->launch->global[1] = (size_t)second;
  p->launch->global[2] = (size_t)third;
  p->launch->local[0] = group;
  p->launch->local[1] = p->launch->local[2] = 1;
}

void braid_launch_sizes(braid_launch_planner *p, uint32_t dimensions, const size_t *global, const size_t *local) {
  p->launch->dimensions = dimensions;
  memcpy(p->launch->global, global, sizeof p->launch->global);
  memcpy(p->launch->local, local, sizeof p->launch->local);
}

void braid_launch_range(braid_launch_planner *p, int64_t count) {
  int64_t group = (int64_t)braid_launch_group(p->traits);
  braid_launch_groups(p, count / group + (count % group != 0), 1, 1, (size_t)group);
}

braid_status braid_launch_plan_end(const braid_launch_planner *p) {
  if (p->no_memory) return BRAID_NO_MEMORY;
  if (!p->problem) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "needs %s", p->problem);
}

/* --- for match functions -------------------------------------------------------------------------------------------
 */
bool braid_launch_has_input(const braid_node_desc *node, size_t index) {
  return index < node->input_count && node->inputs[index].present;
}

bool braid_launch_has_output(const braid_node_desc *node, size_t index) {
  return index < node->output_count && node->outputs[index].present;
}

bool braid_launch_refuse(char *why, size_t why_bytes, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(why, why_bytes, format, arguments);
  va_end(arguments);
  return false;
}

bool braid_launch_match_float(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    bool input = i < node->input_count;
    size_t index = input ? i : i - node->input_count;
    const braid_operand *operand = input ? &node->inputs[index] : &node->outputs[index];
    if (operand->present && operand->desc.dtype != BRAID_F32)
      return braid_launch_refuse(why, why_bytes, "%s %zu is %s, not float32", input ? "input" : "output", index,
                                 braid_dtype_name(operand->desc.dtype));
  }
  return true;
}

bool braid_launch_match_real(const braid_node_desc *node, char *why, size_t why_bytes) {
  braid_dtype first = node->inputs[0].desc.dtype;
  if (!braid_launch_is_real(first))
    return braid_launch_refuse(why, why_bytes, "input 0 is %s, neither float32 nor a 16-bit type",
                               braid_dtype_name(first));
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    bool input = i < node->input_count;
    size_t index = input ? i : i - node->input_count;
    const braid_operand *operand = input ? &node->inputs[index] : &node->outputs[index];
    if (operand->present && operand->desc.dtype != first)
      return braid_launch_refuse(why, why_bytes, "%s %zu is %s, not %s", input ? "input" : "output", index,
                                 braid_dtype_name(operand->desc.dtype), braid_dtype_name(first));
  }
  return true;
}

bool braid_launch_is_narrow(const braid_node_desc *node) {
  for (size_t i = 0; i < node->input_count; i++)
    if (node->inputs[i].present && braid_desc_count(&node->inputs[i].desc) > kNarrow) return false;
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && braid_desc_count(&node->outputs[i].desc) > kNarrow) return false;
  return true;
}

const char *braid_launch_type(braid_dtype dtype) {
  static const char *const kTypes[BRAID_DTYPE_COUNT] = {
      [BRAID_F32] = "float", [BRAID_I8] = "char",   [BRAID_I16] = "short",  [BRAID_I32] = "int",
      [BRAID_I64] = "long",  [BRAID_U8] = "uchar",  [BRAID_U16] = "ushort", [BRAID_U32] = "uint",
      [BRAID_U64] = "ulong", [BRAID_BOOL] = "uchar"};
  return kTypes[dtype];
}

const char *braid_launch_element_type(braid_dtype dtype) {
  return dtype == BRAID_F16 ? "fp16" : dtype == BRAID_BF16 ? "bf16" : braid_launch_type(dtype);
}
