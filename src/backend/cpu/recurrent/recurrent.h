/* What the plain recurrent cells and their gradients share. */
#ifndef BRAID_BACKEND_CPU_RECURRENT_RECURRENT_H
#define BRAID_BACKEND_CPU_RECURRENT_RECURRENT_H

#include "backend/cpu/plain/float.h"
#include "graph/recurrent.h"

typedef struct recurrent_state {
  braid_ref_float base;
  braid_recurrent r;
  size_t saved_output; /* which output keeps the gates */
  int64_t extent; /* gradients of what goes into activations, times `hidden`: gates; one more if linear_before_reset */
  int64_t piece;  /* steps of which W x is computed at once */
  int64_t threads;
  int64_t teams;       /* groups of sequences that go through their steps side by side */
  int64_t members;     /* threads that divide the units of one direction and team; above 1 there is one team */
  int64_t panels;      /* 64 bytes of units, the last one filled up */
  int64_t first_gates; /* gates that R is multiplied by h for; a GRU's candidate may have r * h instead */
  bool w_is_packed, r_is_packed; /* the weights are constants, packed before */
  size_t direction_bytes;        /* scratch of one direction */
  /* in elements: between directions, steps and sequences of Y, and between directions and sequences of states */
  int64_t y_direction, y_step, y_row, state_direction, state_row;
  struct {
    size_t x, packed_w, packed_r, packed_candidate, bias, gates, h, next_h, c, part, reset, reset_sums;
    size_t dx, gradients, states, packed, zeros, sums; /* of gradients only */
  } at;                                                /* offsets in the scratch memory, in bytes */
} recurrent_state;

/* Reads sizes and attributes of the node into a state whose braid_ref_float is already filled in. */
BRAID_MUST_CHECK braid_status braid_ref_recurrent_read(const braid_node_desc *node, recurrent_state *s);
/* Takes a place for `count` elements of the type computed in; *fits becomes false on overflow. */
size_t braid_ref_recurrent_place(const braid_node_desc *node, recurrent_state *s, int64_t rows, int64_t columns,
                                 bool *fits);
/* The same for a packed right matrix. */
size_t braid_ref_recurrent_place_packed(const braid_node_desc *node, recurrent_state *s, int64_t inner, int64_t columns,
                                        bool *fits);
BRAID_MUST_CHECK braid_status braid_ref_recurrent_check(bool fits);

/* Has sequence `b` a step `t`? */
static inline bool braid_ref_recurrent_active(const int32_t *lengths, int64_t t, int64_t b) {
  return !lengths || t < lengths[b];
}

#endif
