/* What the ops of the lowering share: operands, results, drafts, windows. */
#ifndef BRAID_OVERLAY_OPERANDS_H
#define BRAID_OVERLAY_OPERANDS_H

#include "overlay/lower/internal.h"

const braid_node *braid_overlay_node(const braid_overlay_lowering *l, braid_node_id id);
const braid_value *braid_overlay_value(const braid_overlay_lowering *l, braid_value_id id);
/* A constant, parameter or state; false for -1. */
bool braid_overlay_is_constant(const braid_overlay_lowering *l, braid_value_id id);
braid_overlay_known braid_overlay_known_of(const braid_overlay_lowering *l, braid_node_id id, size_t input);
void braid_overlay_set_known(braid_overlay_lowering *l, braid_node_id id, braid_overlay_meaning meaning, int32_t at);
int64_t braid_overlay_form_count(const braid_overlay_form *form); /* numbers of an image */
bool braid_overlay_same_form(const braid_overlay_map *map, const braid_overlay_form *form);

/* The form of operand `index`, which is no constant, and of type `dtype`. */
BRAID_MUST_CHECK braid_status braid_overlay_operand(braid_overlay_lowering *l, braid_node_id id, size_t index,
                                                    braid_dtype dtype, braid_overlay_form *out);
/* The form of the only result. */
BRAID_MUST_CHECK braid_status braid_overlay_result(braid_overlay_lowering *l, braid_node_id id, braid_dtype dtype,
                                                   braid_overlay_form *out);
/* One real operand and a real result. */
BRAID_MUST_CHECK braid_status braid_overlay_check_plain(braid_overlay_lowering *l, braid_node_id id);
/* The map behind operand `index`. `formed`: the value must have its form, not only its order. */
BRAID_MUST_CHECK braid_status braid_overlay_take_map(braid_overlay_lowering *l, braid_node_id id, size_t index,
                                                     bool formed, int32_t *out);

/* A draft that node `id` begins, in the form of map x; valid until the next one. */
BRAID_MUST_CHECK braid_status braid_overlay_begin_draft(braid_overlay_lowering *l, braid_node_id id,
                                                        braid_overlay_kind kind, int32_t x, braid_overlay_draft **out);
/* One of an operand from outside. */
BRAID_MUST_CHECK braid_status braid_overlay_begin_entry(braid_overlay_lowering *l, braid_node_id id,
                                                        braid_overlay_draft **out);
/* The draft of operand `index`, which node `id` goes on with: nothing else may read the number in between. */
BRAID_MUST_CHECK braid_status braid_overlay_go_on(braid_overlay_lowering *l, braid_node_id id, size_t index,
                                                  braid_overlay_draft **out);
void braid_overlay_take_bias(braid_overlay_draft *draft, braid_value_id bias); /* -1: none */

extern const braid_overlay_window braid_overlay_point; /* 1 x 1 */
/* `inside`: each window must see a number that is no padding. */
BRAID_MUST_CHECK braid_status braid_overlay_take_window(braid_overlay_lowering *l, braid_node_id id,
                                                        const braid_window *window, bool inside,
                                                        braid_overlay_window *out);
/* Refuses with what src/graph/geometry.h said. */
BRAID_MUST_CHECK braid_status braid_overlay_geometry_failed(braid_overlay_lowering *l, braid_node_id id);

/* Of the table in ops.c (pools.c, sums.c, moves.c). */
braid_status braid_overlay_check_move(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_move(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_check_max(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_max(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_check_mean(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_mean(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_check_add(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_add(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_check_concat(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_concat(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_check_clamp(braid_overlay_lowering *l, braid_node_id id);
braid_status braid_overlay_walk_clamp(braid_overlay_lowering *l, braid_node_id id);

#endif
