#include "launch/widened.h"

#include <string.h>

#include "base/try.h"
#include "launch/planner.h"

enum { kMostOperands = 32 };

/* A node as if its 16-bit operands were float32. */
typedef struct wide_node {
  braid_node_desc desc;
  braid_operand operands[kMostOperands];
  size_t count;
} wide_node;

static bool is_half_operand(const braid_operand *operand) {
  return operand->present && braid_dtype_is_half(operand->desc.dtype);
}

static const braid_operand *operand_at(const braid_node_desc *node, size_t i) {
  return i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
}

/* False: none is, or there are too many. */
static bool widen(const braid_node_desc *node, wide_node *out) {
  bool any = false;
  out->count = node->input_count + node->output_count;
  if (out->count > kMostOperands) return false;
  out->desc = *node;
  out->desc.inputs = out->operands;
  out->desc.outputs = out->operands + node->input_count;
  for (size_t i = 0; i < out->count; i++) {
    out->operands[i] = *operand_at(node, i);
    if (!is_half_operand(&out->operands[i])) continue;
    any = true;
    out->operands[i].desc.dtype = BRAID_F32;
    out->operands[i].constant = NULL;
  }
  return any;
}

/* --- recipes -------------------------------------------------------------------------------------------------------
 */
static void add_conversion(braid_launch_planner *p, size_t operand, braid_launch_piece piece) {
  const braid_desc *desc = &operand_at(p->node, operand)->desc;
  bool input = operand < p->node->input_count;
  const char *half = braid_launch_element_type(desc->dtype);
  int64_t count = braid_desc_count(desc);
  braid_launch_begin(p, "elementwise", "flat_eight");
  braid_launch_option(p, "-DARITY=1 -DT=float -DTO=%s -DEIGHT%s -DT0=%s -DV0=x -DE0=1 -DEXPRESSION=x",
                      input ? "float" : half, p->traits->aligned ? " -DALIGNED" : "", input ? half : "float");
  if (input) braid_launch_input(p, operand);
  braid_launch_workspace(p, piece);
  if (!input) braid_launch_output(p, operand - p->node->input_count);
  braid_launch_float(p, 0);
  braid_launch_float(p, 0);
  braid_launch_index(p, count);
  braid_launch_range(p, braid_launch_ceil_div(count, 8));
}

/* What pointed at operands points at their pieces. */
static void redirect(braid_launch *launch, const braid_launch_piece *pieces, const bool *converted) {
  for (size_t i = 0; i < launch->argument_count; i++) {
    braid_launch_argument *argument = &launch->arguments[i];
    if (argument->kind != BRAID_LAUNCH_OPERAND || !converted[argument->index]) continue;
    const braid_launch_piece *piece = &pieces[argument->index];
    argument->kind = BRAID_LAUNCH_WORKSPACE;
    argument->offset += piece->offset;
    if (!argument->bytes) argument->bytes = piece->bytes;
  }
}

static braid_status append(braid_launch_recipe *recipe, const braid_launch *launch) {
  braid_launch *copy = braid_launch_recipe_add(recipe);
  if (!copy) return BRAID_NO_MEMORY;
  *copy = *launch;
  return BRAID_OK;
}

static braid_status plan_wide(const braid_launch_traits *traits, const braid_node_desc *node, const wide_node *wide,
                              const braid_launch_recipe *inner, braid_launch_recipe *recipe) {
  braid_launch_planner p;
  braid_launch_piece pieces[kMostOperands];
  bool converted[kMostOperands] = {false};
  recipe->workspace_bytes = inner->workspace_bytes;
  braid_launch_plan_begin(&p, traits, node, recipe);
  for (size_t i = 0; i < wide->count; i++) {
    converted[i] = is_half_operand(operand_at(node, i));
    if (!converted[i]) continue;
    pieces[i] = braid_launch_reserve(&p, braid_desc_count(&wide->operands[i].desc), 1, sizeof(float));
    if (i < node->input_count) add_conversion(&p, i, pieces[i]);
  }
  for (size_t i = 0; i < inner->launch_count; i++) {
    BRAID_TRY(append(recipe, &inner->launches[i]));
    redirect(&recipe->launches[recipe->launch_count - 1], pieces, converted);
  }
  for (size_t i = node->input_count; i < wide->count; i++)
    if (converted[i]) add_conversion(&p, i, pieces[i]);
  return braid_launch_plan_end(&p);
}

braid_status braid_launch_plan(const braid_launch_traits *traits, const braid_launch_kernel *kernel,
                               const braid_node_desc *node, braid_launch_recipe *recipe) {
  wide_node wide;
  if (!kernel->widens) return kernel->plan(traits, node, recipe);
  if (!widen(node, &wide)) return braid_fail(BRAID_INTERNAL, "a node without 16-bit operands was matched");
  const braid_launch_kernel *inner = kernel->widens->implementation;
  braid_launch_recipe own = {.allocator = recipe->allocator, .workspace_bytes = recipe->workspace_bytes};
  braid_status status = inner->plan(traits, &wide.desc, &own);
  if (status == BRAID_OK) status = plan_wide(traits, node, &wide, &own, recipe);
  braid_launch_recipe_deinit(&own);
  return status;
}

bool braid_launch_match_widened(const braid_node_desc *node, char *why, size_t why_bytes) {
  wide_node wide;
  return widen(node, &wide) || braid_launch_refuse(why, why_bytes, "for 16-bit operands");
}

bool braid_launch_match(const braid_launch_traits *traits, const braid_launch_kernel *kernel,
                        const braid_node_desc *node, char *why, size_t why_bytes) {
  wide_node wide;
  if (!kernel->widens) return !kernel->match || kernel->match(traits, node, why, why_bytes);
  const braid_launch_kernel *inner = kernel->widens->implementation;
  if (!widen(node, &wide)) return braid_launch_refuse(why, why_bytes, "for 16-bit operands");
  if (kernel->widens->match && !kernel->widens->match(&wide.desc, why, why_bytes)) return false;
  return !inner->match || inner->match(traits, &wide.desc, why, why_bytes);
}
