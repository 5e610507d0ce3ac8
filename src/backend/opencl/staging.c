#include "backend/opencl/staging.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"

enum { kMostFraction = 64 };

bool braid_cl_read_axis(const char *text, int64_t *axis, char *part, int64_t *size) {
  char first[24];
  size_t length = strcspn(text, "/%");
  *part = text[length] ? text[length] : ' ';
  *size = 1;
  if (length >= sizeof first) return false;
  memcpy(first, text, length);
  first[length] = '\0';
  if (!braid_parse_i64(first, axis) || *axis < 0 || *axis >= BRAID_MAX_RANK) return false;
  return *part == ' ' || (braid_parse_i64(text + length + 1, size) && *size > 0 && *size <= INT32_MAX);
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
braid_status braid_cl_find_operand(const braid_cl_subject *subject, const braid_cl_entry_argument *a,
                                   const braid_operand **out, size_t *index) {
  size_t number = (size_t)(a->in ? *a->in : *a->out), step = a->node ? (size_t)*a->node : 0;
  size_t last = subject->node_count - 1;
  while (last && !subject->nodes[last]) last--;
  const braid_node_desc *node = subject->nodes[a->in ? step : last];
  size_t count = !node ? 0 : a->in ? node->input_count : node->output_count;
  const braid_operand *operands = !node ? NULL : a->in ? node->inputs : node->outputs;
  *out = number < count && operands[number].present ? &operands[number] : NULL;
  char name[32];
  snprintf(name, sizeof name, step ? "node%zu.%s%zu" : "%.0zu%s%zu", step, a->in ? "in" : "out", number);
  if (!*out)
    return braid_fail(BRAID_OUT_OF_RANGE, "%s %zu is not there; say when: present(%s)", a->in ? "in" : "out", number,
                      name);
  int32_t at = a->out ? (int32_t)number : number < BRAID_CL_OPERANDS ? subject->inputs[step][number] : -1;
  *index = (size_t)at;
  return at >= 0 ? BRAID_OK
                 : braid_fail(BRAID_OUT_OF_RANGE, "%s is what the chain itself computes, which lies nowhere", name);
}

static bool is_rearranged(const braid_cl_entry_argument *a) {
  return (a->in || a->out) && (a->order_count || a->shape_count || a->item || a->as);
}

static bool is_packed(const braid_cl_planning *p, size_t input) {
  return p->packed && input < BRAID_CL_OPERANDS && p->packed->inputs[input].packed;
}

/* A constant that one launch takes packed is bound packed for all. */
bool braid_cl_is_staged(const braid_cl_planning *p, const braid_cl_entry_argument *a) {
  const braid_operand *operand;
  size_t index;
  if (is_rearranged(a)) return true;
  return a->in && braid_cl_find_operand(p->subject, a, &operand, &index) == BRAID_OK && is_packed(p, index);
}

/* --- constants -----------------------------------------------------------------------------------------------------
 */
typedef void argument_visitor(braid_cl_planning *p, const braid_cl_entry_argument *a, size_t input);

static void visit_constants(braid_cl_planning *p, argument_visitor *visit) {
  const braid_cl_entry *entry = p->subject->entry;
  const braid_node_desc *whole = p->subject->whole;
  for (unsigned i = 0; i < entry->launches_count; i++)
    for (unsigned k = 0; k < entry->launches[i].arguments_count; k++) {
      const braid_cl_entry_argument *a = &entry->launches[i].arguments[k];
      const braid_operand *operand;
      size_t index;
      if (!a->in || !is_rearranged(a) || braid_cl_find_operand(p->subject, a, &operand, &index) != BRAID_OK) continue;
      if (index < BRAID_CL_OPERANDS && whole->inputs[index].constant && braid_desc_count(&operand->desc))
        visit(p, a, index);
    }
}

static void mark_constant(braid_cl_planning *p, const braid_cl_entry_argument *a, size_t input) {
  (void)a;
  p->packed->inputs[input].packed = true;
}

/* One element after the other goes through one piece, which each turn fills anew. */
static void unmark_items(braid_cl_planning *p, const braid_cl_entry_argument *a, size_t input) {
  if (a->item) p->packed->inputs[input].packed = false;
}

void braid_cl_mark_packed(braid_cl_planning *p) {
  size_t left = p->subject->whole->region ? BRAID_CL_OPERANDS : BRAID_PACKINGS;
  visit_constants(p, mark_constant);
  visit_constants(p, unmark_items);
  for (size_t i = 0; i < BRAID_CL_OPERANDS; i++)
    if (p->packed->inputs[i].packed) {
      p->packed->inputs[i].packed = left > 0;
      left -= left > 0;
    }
}

size_t braid_cl_list_packings(const braid_cl_packed *packed, braid_packing *out) {
  size_t count = 0;
  for (uint32_t input = 0; input < BRAID_CL_OPERANDS; input++) {
    if (!packed->inputs[input].packed) continue;
    uint64_t key = 14695981039346656037u;
    for (size_t i = 0; i < packed->count; i++)
      if (packed->pieces[i].index == input) key = braid_launch_mix_stage(key, &packed->pieces[i]);
    out[count++] = (braid_packing){.input = input, .bytes = packed->inputs[input].bytes, .key = key};
  }
  return count;
}

braid_status braid_cl_pack_input(const braid_cl_packed *packed, uint32_t input, const void *plain, void *out) {
  if (!packed || input >= BRAID_CL_OPERANDS || !packed->inputs[input].packed)
    return braid_fail(BRAID_INVALID_ARGUMENT, "input %u is not packed", input);
  memset(out, 0, packed->inputs[input].bytes); /* between pieces */
  for (size_t i = 0; i < packed->count; i++)
    if (packed->pieces[i].index == input)
      braid_launch_pack_stage(&packed->pieces[i], plain, (uint8_t *)out + packed->pieces[i].piece.offset);
  return BRAID_OK;
}

/* --- pieces --------------------------------------------------------------------------------------------------------
 */
/* The operand's own axes, or those of one item. */
static braid_status describe_part(const braid_cl_planning *p, const braid_cl_entry_argument *a,
                                  const braid_operand *operand, braid_launch_stage *stage) {
  const braid_desc *desc = &operand->desc;
  int64_t item;
  stage->rank = desc->rank;
  memcpy(stage->dims, desc->dims, sizeof stage->dims);
  if (!a->item) return BRAID_OK;
  if (!desc->rank) return braid_fail(BRAID_OUT_OF_RANGE, "item of an operand without axes");
  BRAID_TRY(braid_cl_evaluate(p->subject, a->item, 0, desc->dims[0] - 1, &item));
  stage->dims[0] = 1;
  stage->from = item;
  for (int i = 1; i < desc->rank; i++) stage->from *= desc->dims[i];
  return BRAID_OK;
}

/* One axis as the kernel wants it. It may grow, never shrink. */
static braid_status describe_axis(const braid_cl_planning *p, const braid_cl_entry_argument *a, unsigned i,
                                  braid_launch_stage *stage) {
  struct braid_launch_piece_axis *piece = &stage->axes[i];
  int64_t axis = i, size = 1;
  char part = ' ';
  if (a->order_count && !braid_cl_read_axis(a->order[i], &axis, &part, &size))
    return braid_fail(BRAID_INTERNAL, "order \"%.60s\" was not checked", a->order[i]);
  if (axis >= stage->rank)
    return braid_fail(BRAID_OUT_OF_RANGE, "order or shape has axis %lld, the operand has %d", (long long)axis,
                      stage->rank);
  int64_t whole = stage->dims[axis];
  *piece = (struct braid_launch_piece_axis){.axis = (int)axis, .step = 1, .size = whole};
  if (part == '/') {
    piece->step = size;
    piece->size = braid_launch_ceil_div(whole, size);
  } else if (part == '%') {
    piece->size = size;
  }
  if (!a->shape_count) return BRAID_OK;
  return braid_cl_evaluate(p->subject, a->shape[i], piece->size, part == '%' ? size : INT32_MAX, &piece->size);
}

static braid_status describe_type(const braid_cl_planning *p, const braid_cl_entry_argument *a,
                                  const braid_operand *operand, braid_launch_stage *stage) {
  int64_t fraction = 0;
  stage->type = operand->desc.dtype;
  stage->as = a->as ? braid_cl_find_dtype(a->as) : stage->type;
  if (!a->as) return BRAID_OK;
  if (stage->type != BRAID_F32)
    return braid_fail(BRAID_OUT_OF_RANGE, "as: %s is of float32, and this is %s", a->as, braid_dtype_name(stage->type));
  if (a->frac) BRAID_TRY(braid_cl_evaluate(p->subject, a->frac, -kMostFraction, kMostFraction, &fraction));
  stage->fraction = (int)fraction;
  return BRAID_OK;
}

static braid_status describe_stage(const braid_cl_planning *p, const braid_cl_entry_argument *a,
                                   braid_launch_stage *stage) {
  const braid_operand *operand;
  *stage = (braid_launch_stage){.input = a->in != NULL};
  BRAID_TRY(braid_cl_find_operand(p->subject, a, &operand, &stage->index));
  BRAID_TRY(describe_part(p, a, operand, stage));
  unsigned count = a->order_count ? a->order_count : a->shape_count ? a->shape_count : (unsigned)stage->rank;
  bool seen[BRAID_MAX_RANK] = {false};
  for (unsigned i = 0; i < count; i++) {
    BRAID_TRY(describe_axis(p, a, i, stage));
    seen[stage->axes[i].axis] = true;
  }
  for (int axis = 0; axis < stage->rank; axis++)
    if (!seen[axis])
      return braid_fail(BRAID_OUT_OF_RANGE, "order or shape leaves out axis %d of an operand of %d", axis, stage->rank);
  stage->axis_count = (int)count;
  return describe_type(p, a, operand, stage);
}

static bool same_piece(const braid_launch_stage *a, const braid_launch_stage *b) {
  bool same = a->input == b->input && a->index == b->index && a->as == b->as && a->fraction == b->fraction &&
              a->axis_count == b->axis_count && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
  for (int i = 0; same && i < a->axis_count; i++)
    same =
        a->axes[i].axis == b->axes[i].axis && a->axes[i].step == b->axes[i].step && a->axes[i].size == b->axes[i].size;
  return same;
}

braid_status braid_cl_stage_operand(braid_cl_planning *p, const braid_cl_entry_argument *a, braid_cl_staged **out) {
  braid_launch_stage wanted;
  BRAID_TRY(describe_stage(p, a, &wanted));
  for (size_t i = 0; i < p->staged_count; i++) {
    *out = &p->staged[i];
    if ((*out)->item != (a->item != NULL) || !same_piece(&(*out)->stage, &wanted)) continue;
    (*out)->stage.from = wanted.from;
    return BRAID_OK;
  }
  if (p->staged_count == BRAID_CL_STAGED)
    return braid_fail(BRAID_OUT_OF_RANGE, "more than %d operands in another order, size or type", BRAID_CL_STAGED);
  int64_t count = braid_launch_stage_count(&wanted);
  if (count < 0) return braid_fail(BRAID_OUT_OF_RANGE, "shape overflows");
  bool packed = wanted.input && is_packed(p, wanted.index);
  size_t *end = packed ? &p->packed->inputs[wanted.index].bytes : &p->planner.recipe->workspace_bytes;
  wanted.piece = braid_launch_reserve_in(&p->planner, end, count, 1, braid_dtype_size(wanted.as));
  if (packed) p->packed->pieces[p->packed->count++] = wanted;
  *out = &p->staged[p->staged_count++];
  **out = (braid_cl_staged){.stage = wanted, .packed = packed, .item = a->item != NULL, .turn = -1};
  return BRAID_OK;
}
