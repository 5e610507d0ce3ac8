/* What instructions of compute and side take (docs/isa.md). */
#include "overlay/sim/timing_internal.h"

static uint64_t parts(int64_t whole, int64_t part) {
  return (uint64_t)((whole + part - 1) / part);
}

static uint64_t conv_cycles(const braid_overlay_design *d, const braid_isa_conv *c) {
  uint64_t in = c->depthwise ? 1 : parts(c->channels_in, d->channels_in);
  return in * parts(c->channels_out, d->channels_out) * (uint64_t)c->kernel_rows * (uint64_t)c->kernel_columns *
         (uint64_t)c->output_columns;
}

static uint64_t misc_cycles(const braid_overlay_design *d, const braid_isa_misc *m) {
  bool window = m->function == BRAID_ISA_MAX || m->function == BRAID_ISA_MEAN;
  uint64_t taps = window                         ? (uint64_t)m->kernel_rows * (uint64_t)m->kernel_columns
                  : m->function == BRAID_ISA_SUM ? 2
                                                 : 1;
  uint64_t lines = (uint64_t)m->groups * (uint64_t)m->output_rows * (uint64_t)m->output_columns * taps;
  return parts((int64_t)(lines * BRAID_ISA_WORD), d->side_bytes);
}

uint64_t braid_timing_cycles(const braid_overlay_design *d, const braid_instruction *in) {
  switch (in->opcode) {
  case BRAID_ISA_OP_CONV:
    return conv_cycles(d, &in->conv);
  case BRAID_ISA_OP_MISC:
    return misc_cycles(d, &in->misc);
  case BRAID_ISA_OP_MVM:
    return parts(in->mvm.rows, d->rows) * parts(in->mvm.columns, d->columns);
  case BRAID_ISA_OP_ELE:
    return parts(in->ele.length, d->side_numbers);
  default:
    return 0;
  }
}

uint64_t braid_timing_operations(const braid_instruction *in) {
  if (in->opcode == BRAID_ISA_OP_MVM) return 2 * (uint64_t)in->mvm.rows * (uint64_t)in->mvm.columns;
  if (in->opcode != BRAID_ISA_OP_CONV) return 0;
  const braid_isa_conv *c = &in->conv;
  return 2 * (uint64_t)c->output_rows * (uint64_t)c->output_columns * (uint64_t)c->channels_out *
         (uint64_t)(c->depthwise ? 1 : c->channels_in) * (uint64_t)c->kernel_rows * (uint64_t)c->kernel_columns;
}
