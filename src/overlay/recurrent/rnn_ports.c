#include "overlay/recurrent/rnn_ports.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

/* Vectors of a port: `parts` each, of `part` numbers that begin at a line. */
typedef struct braid_rnn_view {
  int32_t vectors, parts, part, exponent;
} braid_rnn_view;

static braid_rnn_view view_of(const braid_rnn *rnn, const braid_rnn_port *port) {
  if (port->kind == BRAID_RNN_STATE) {
    const braid_rnn_state *state = &rnn->states[port->index];
    return (braid_rnn_view){state->parts, 1, state->part, state->exponent};
  }
  const braid_rnn_sequence *q = &rnn->sequences[port->index];
  if (port->kind == BRAID_RNN_SEQUENCE) return (braid_rnn_view){rnn->steps, q->parts, q->part, q->exponent};
  int32_t exponent = port->kind == BRAID_RNN_LAST_CELL ? BRAID_LSTM_CELL_EXPONENT : q->exponent;
  return (braid_rnn_view){q->parts, 1, q->part, exponent};
}

/* Whether the direction that writes this part of a sequence goes from its end. */
static bool goes_backwards(const braid_rnn *rnn, int32_t sequence, int32_t part) {
  for (size_t i = 0; i < rnn->cell_count; i++)
    if (rnn->cells[i].into == sequence && rnn->cells[i].part == part) return rnn->cells[i].backwards;
  return false;
}

/* The first number of a part of a vector. */
static int16_t *part_at(const braid_rnn *rnn, const braid_rnn_port *port, uint8_t *const *segments, int32_t vector,
                        int32_t part) {
  int32_t segment;
  int64_t line;
  if (port->kind == BRAID_RNN_STATE) {
    const braid_rnn_state *state = &rnn->states[port->index];
    segment = state->segment;
    line = state->line + (int64_t)vector * braid_rnn_lines(state->part);
  } else {
    const braid_rnn_sequence *q = &rnn->sequences[port->index];
    bool all = port->kind == BRAID_RNN_SEQUENCE;
    int32_t last = goes_backwards(rnn, port->index, vector) ? 0 : rnn->length - 1;
    segment = q->segment;
    line = braid_rnn_line_of(q, all ? vector : last, all ? part : vector, port->kind == BRAID_RNN_LAST_CELL);
  }
  return (int16_t *)(void *)(segments[segment] + line * BRAID_ISA_WORD);
}

braid_overlay_port_info braid_rnn_get_port(const braid_rnn *rnn, bool outputs, size_t index) {
  const braid_rnn_port *port = outputs ? &rnn->outputs[index] : &rnn->inputs[index];
  braid_rnn_view view = view_of(rnn, port);
  return (braid_overlay_port_info){.name = port->name,
                                   .channels = view.parts * view.part,
                                   .rows = 1,
                                   .columns = view.vectors,
                                   .exponent = view.exponent,
                                   .real = true,
                                   .bits = 16};
}

static bool rnn_has_shape(const braid_desc *desc, int64_t vectors, int64_t numbers) {
  const int64_t wanted[] = {vectors, numbers};
  int at = 0;
  if (braid_desc_count(desc) != vectors * numbers) return false;
  for (int d = 0; d < desc->rank; d++) {
    if (desc->dims[d] == 1) continue;
    if (desc->dims[d] == vectors * numbers) return true;
    while (at < 2 && wanted[at] == 1) at++;
    if (at == 2 || desc->dims[d] != wanted[at++]) return false;
  }
  return true;
}

braid_status braid_rnn_put_input(const braid_rnn *rnn, size_t index, const braid_tensor *tensor,
                                 uint8_t *const segments[BRAID_PACKAGE_SEGMENTS]) {
  const braid_rnn_port *port = &rnn->inputs[index];
  const braid_desc *desc = braid_tensor_desc(tensor);
  braid_rnn_view view = view_of(rnn, port);
  char text[128];
  bool words = desc->dtype == BRAID_I16;
  if (desc->layout != BRAID_LAYOUT_PLAIN || (!words && desc->dtype != BRAID_F32) ||
      !rnn_has_shape(desc, view.vectors, (int64_t)view.parts * view.part))
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "input %s is %s; expected is float32 or int16 of %d, 1, %d (steps, 1, "
                      "numbers of a step)",
                      port->name, braid_desc_format(desc, text, sizeof text), view.vectors, view.parts * view.part);
  const void *data = braid_tensor_const_data(tensor);
  double scale = ldexp(1, -view.exponent);
  size_t at = 0;
  for (int32_t v = 0; v < view.vectors; v++)
    for (int32_t p = 0; p < view.parts; p++) {
      int16_t *out = part_at(rnn, port, segments, v, p);
      for (int32_t i = 0; i < view.part; i++, at++) {
        double q = words ? ((const int16_t *)data)[at] : rint((double)((const float *)data)[at] * scale);
        if (isnan(q)) return braid_fail(BRAID_INVALID_ARGUMENT, "input %s: number %zu is NaN", port->name, at);
        out[i] = (int16_t)fmax(INT16_MIN, fmin(INT16_MAX, q));
      }
    }
  return BRAID_OK;
}

braid_status braid_rnn_get_output(const braid_rnn *rnn, size_t index, uint8_t *const segments[BRAID_PACKAGE_SEGMENTS],
                                  const braid_allocator *allocator, braid_tensor **out) {
  const braid_rnn_port *port = &rnn->outputs[index];
  braid_rnn_view view = view_of(rnn, port);
  const int64_t dims[] = {view.vectors, 1, (int64_t)view.parts * view.part};
  braid_desc desc;
  BRAID_TRY(braid_desc_init(&desc, BRAID_F32, 3, dims));
  BRAID_TRY(braid_tensor_create(allocator, &desc, out));
  float *data = braid_tensor_data(*out), scale = ldexpf(1, view.exponent);
  for (int32_t v = 0; v < view.vectors; v++)
    for (int32_t p = 0; p < view.parts; p++) {
      const int16_t *from = part_at(rnn, port, segments, v, p);
      for (int32_t i = 0; i < view.part; i++) *data++ = (float)from[i] * scale;
    }
  return BRAID_OK;
}
