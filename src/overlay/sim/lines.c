/* The lines of memory that an instruction touches. */
#include "overlay/sim/program.h"

static int64_t up(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The first and last index of a map of `extent` under taps `first + r * stride + i * dilation`, and the step between
 * those that are touched where there is one tap. false: none lies inside. */
static bool touched(int64_t extent, int64_t first, int64_t count, int64_t stride, int64_t taps, int64_t dilation,
                    int64_t *begin, int64_t *indices, int64_t *step) {
  int64_t low = INT64_MAX, high = -1;
  for (int64_t i = 0; i < taps; i++) {
    int64_t at = first + i * dilation, from = at < 0 ? up(-at, stride) : 0;
    if (at >= extent) break;
    int64_t to = least(count - 1, (extent - 1 - at) / stride);
    if (from > to) continue;
    low = least(low, at + from * stride);
    high = at + to * stride > high ? at + to * stride : high;
  }
  if (high < 0) return false;
  *step = taps == 1 ? stride : 1;
  *begin = low;
  *indices = (high - low) / *step + 1;
  return true;
}

static bool window_lines(const braid_overlay_window *window, int64_t planes, braid_overlay_lines *out) {
  int64_t row, column, rows, columns, row_step, column_step;
  if (!touched(window->input_rows, window->first_row, window->output_rows, window->stride_rows, window->kernel_rows,
               window->dilation_rows, &row, &rows, &row_step) ||
      !touched(window->input_columns, window->first_column, window->output_columns, window->stride_columns,
               window->kernel_columns, window->dilation_columns, &column, &columns, &column_step))
    return false;
  *out = (braid_overlay_lines){.memory = BRAID_ISA_FEATURES,
                               .first = window->input + row * window->input_pitch + column,
                               .planes = planes,
                               .plane_pitch = window->input_plane,
                               .rows = rows,
                               .row_pitch = window->input_pitch * row_step,
                               .columns = columns,
                               .column_pitch = column_step};
  return true;
}

static braid_overlay_lines result_lines(const braid_overlay_window *window, int64_t planes) {
  return (braid_overlay_lines){.memory = BRAID_ISA_FEATURES,
                               .write = true,
                               .first = window->output,
                               .planes = planes,
                               .plane_pitch = window->output_plane,
                               .rows = window->output_rows,
                               .row_pitch = window->output_pitch,
                               .columns = window->output_columns,
                               .column_pitch = 1};
}

/* A map of the result's form that is read. */
static braid_overlay_lines addend_lines(const braid_overlay_lines *result, int64_t first) {
  braid_overlay_lines addend = *result;
  addend.write = false;
  addend.in_place = first == result->first;
  addend.first = first;
  return addend;
}

static braid_overlay_lines contiguous(int memory, int64_t first, int64_t count) {
  return (braid_overlay_lines){
      .memory = memory, .first = first, .planes = 1, .rows = 1, .columns = count, .column_pitch = 1};
}

static int conv_lines(const braid_overlay_design *design, const braid_instruction *instruction,
                      braid_overlay_lines *out) {
  const braid_isa_conv *conv = &instruction->conv;
  braid_overlay_window window = braid_overlay_window_of(instruction);
  int64_t weights =
      up(conv->channels_out, design->channels_out) * design->channels_out * conv->kernel_rows * conv->kernel_columns;
  int count = 0;
  if (!conv->depthwise) weights *= up(conv->channels_in, design->channels_in) * design->channels_in;
  if (window_lines(&window, up(conv->channels_in, 16), &out[count])) count++;
  out[count++] = contiguous(BRAID_ISA_WEIGHTS, conv->weights, up(weights, 16));
  if (conv->start) out[count++] = contiguous(BRAID_ISA_BIASES, conv->biases, up(conv->channels_out, 4));
  if (!conv->finish) return count;
  braid_overlay_lines result = result_lines(&window, up(conv->channels_out, 16));
  if (conv->residual) out[count++] = addend_lines(&result, conv->addend);
  out[count++] = result;
  return count;
}

static int misc_lines(const braid_instruction *instruction, braid_overlay_lines *out) {
  const braid_isa_misc *misc = &instruction->misc;
  braid_overlay_window window = braid_overlay_window_of(instruction);
  braid_overlay_lines result = result_lines(&window, misc->groups);
  int count = 0;
  if (misc->function == BRAID_ISA_SUM || misc->function == BRAID_ISA_COPY)
    window.kernel_rows = window.kernel_columns = 1; /* they take the first tap alone */
  if (window_lines(&window, misc->groups, &out[count])) {
    int64_t place = misc->input + (int64_t)misc->first_row * misc->input_pitch + misc->first_column;
    bool single = window.kernel_rows == 1 && window.kernel_columns == 1;
    out[count++].in_place = single && misc->stride_rows == 1 && misc->stride_columns == 1 && place == misc->output &&
                            (misc->input_pitch == misc->output_pitch || misc->output_rows == 1) &&
                            (misc->input_plane == misc->output_plane || misc->groups == 1);
  }
  if (misc->function == BRAID_ISA_SUM) out[count++] = addend_lines(&result, misc->addend);
  out[count++] = result;
  return count;
}

static int move_lines(const braid_isa_load *move, bool save, braid_overlay_lines *out) {
  out[0] = (braid_overlay_lines){.memory = BRAID_OVERLAY_DDR,
                                 .write = save,
                                 .first = move->ddr,
                                 .planes = move->planes,
                                 .plane_pitch = move->ddr_plane,
                                 .rows = move->rows,
                                 .row_pitch = move->ddr_row,
                                 .columns = move->lines,
                                 .column_pitch = 1};
  out[1] = out[0];
  out[1].memory = move->memory;
  out[1].write = !save;
  out[1].first = move->chip;
  out[1].plane_pitch = move->chip_plane;
  out[1].row_pitch = move->chip_row;
  return 2;
}

static int mvm_lines(const braid_overlay_design *design, const braid_isa_mvm *mvm, braid_overlay_lines *out) {
  int64_t rows = up(mvm->rows, design->rows) * design->rows, columns = up(mvm->columns, design->columns);
  int count = 0;
  out[count++] = contiguous(BRAID_ISA_WEIGHTS, mvm->weights, up(rows * columns * design->columns * 2, 16));
  out[count++] = contiguous(BRAID_ISA_VECTORS, mvm->input, up(mvm->columns, 8));
  if (mvm->start) out[count++] = contiguous(BRAID_ISA_BIASES, mvm->biases, up(mvm->rows, 4));
  if (mvm->finish) {
    out[count] = contiguous(BRAID_ISA_VECTORS, mvm->output, up(mvm->rows, 8));
    out[count++].write = true;
  }
  return count;
}

static int ele_lines(const braid_isa_ele *ele, braid_overlay_lines *out) {
  int count = 0;
  int64_t lines = up(ele->length, 8);
  out[count++] = contiguous(BRAID_ISA_VECTORS, ele->input, lines);
  if (ele->function == BRAID_ISA_ELE_SUM || ele->function == BRAID_ISA_ELE_PRODUCT)
    out[count++] = contiguous(BRAID_ISA_VECTORS, ele->addend, lines);
  for (int i = 0; i < count; i++) out[i].in_place = out[i].first == ele->output;
  out[count] = contiguous(BRAID_ISA_VECTORS, ele->output, lines);
  out[count++].write = true;
  return count;
}

int braid_overlay_lines_of(const braid_overlay_design *design, const braid_instruction *instruction,
                           braid_overlay_lines *out) {
  switch ((braid_isa_opcode)instruction->opcode) {
  case BRAID_ISA_OP_CONV:
    return conv_lines(design, instruction, out);
  case BRAID_ISA_OP_MISC:
    return misc_lines(instruction, out);
  case BRAID_ISA_OP_LOAD:
    return move_lines(&instruction->load, false, out);
  case BRAID_ISA_OP_SAVE: {
    const braid_isa_save *save = &instruction->save;
    braid_isa_load move = {.memory = save->memory,
                           .segment = save->segment,
                           .ddr = save->ddr,
                           .chip = save->chip,
                           .planes = save->planes,
                           .rows = save->rows,
                           .lines = save->lines,
                           .ddr_plane = save->ddr_plane,
                           .ddr_row = save->ddr_row,
                           .chip_plane = save->chip_plane,
                           .chip_row = save->chip_row};
    return move_lines(&move, true, out);
  }
  case BRAID_ISA_OP_MVM:
    return mvm_lines(design, &instruction->mvm, out);
  case BRAID_ISA_OP_ELE:
    return ele_lines(&instruction->ele, out);
  case BRAID_ISA_OP_SYSTEM:
    break;
  }
  return 0;
}
