/* Programs of a context: made, decoded, and what a switch to them takes. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "overlay/card/decode.h"
#include "overlay/card/internal.h"
#include "overlay/recurrent/rnn.h"

static void free_decoded(const braid_card *card, card_programs *programs) {
  for (int c = 0; c < BRAID_OVERLAY_MOST_CORES; c++) {
    braid_free(card->allocator, programs->instructions[c]);
    programs->instructions[c] = NULL;
    programs->counts[c] = 0;
  }
  programs->cores = 0;
}

void card_programs_free(const braid_card *card, card_programs *programs) {
  free_decoded(card, programs);
  braid_programs_deinit(&programs->made);
}

static braid_status find_code(card_context *context, int cores, size_t layer) {
  card_programs *programs = &context->programs;
  const braid_package *package = context->request.package;
  if (package) {
    BRAID_TRY(braid_programs_make(package, cores, layer, &programs->made));
    BRAID_TRY(braid_programs_gather(&programs->made));
  }
  for (int c = 0; c < cores; c++)
    programs->code[c] = package ? (braid_overlay_code){programs->made.core[c].code, programs->made.core[c].bytes}
                                : context->code.programs[c];
  return BRAID_OK;
}

braid_status card_programs_make(braid_card *card, card_context *context, int cores, size_t layer) {
  card_programs *programs = &context->programs;
  if (programs->cores == cores && programs->layer == layer) return BRAID_OK;
  free_decoded(card, programs);
  braid_status status = find_code(context, cores, layer);
  for (int c = 0; status == BRAID_OK && c < cores; c++)
    status = card_decode(programs->code[c].bytes, programs->code[c].count, card->design, c, card->allocator,
                         &programs->instructions[c], &programs->counts[c]);
  if (status == BRAID_OK) {
    programs->cores = cores;
    programs->layer = layer;
  } else {
    free_decoded(card, programs);
  }
  return status;
}

uint64_t card_programs_bytes(const card_programs *programs, int core) {
  return programs->code[core].count;
}

static bool synchronizes(const braid_instruction *in) {
  return in->opcode == BRAID_ISA_OP_SYSTEM && in->system.sync;
}

/* Cores of a recurrent network synchronize before its first step as well, under the same number as behind it. */
size_t card_programs_layers(const card_programs *programs, int core, size_t at) {
  const braid_instruction *before = NULL, *items = programs->instructions[core];
  size_t ended = programs->layer, i = 0;
  for (; i < programs->counts[core] && (i < at || before); i++) {
    if (!synchronizes(&items[i])) continue;
    ended += before && before->system.layer != items[i].system.layer;
    before = i < at ? &items[i] : NULL;
    if (!before) return ended;
  }
  return ended + (before != NULL);
}

bool card_programs_between(const card_programs *programs, const size_t *at) {
  for (int c = 0; c < programs->cores; c++)
    if (at[c] && !synchronizes(&programs->instructions[c][at[c] - 1])) return false;
  return true;
}

braid_status card_programs_room(const braid_card *card, card_context *context, uint64_t *bytes) {
  const braid_package *package = context->request.package;
  int cores = card->design->cores;
  *bytes = package->instruction_bytes + package->tile_count * sizeof package->marks->tile +
           (package->layer_count + 1) * sizeof package->marks->sync * (uint64_t)cores;
  if (!package->rnn) return BRAID_OK;
  for (int k = 1; k <= cores; k++) {
    uint64_t sum = 0;
    BRAID_TRY(braid_programs_make(package, k, 0, &context->programs.made));
    for (int c = 0; c < k; c++) sum += context->programs.made.core[c].bytes;
    if (sum > *bytes) *bytes = sum;
  }
  return BRAID_OK;
}

/* --- switches ------------------------------------------------------------------------------------------------------
 */
static uint64_t cycles_of(const braid_card *card, double seconds) {
  return (uint64_t)ceil(seconds * card->design->clock_mhz * 1e6);
}

/* Maps of a job that goes on at other banks are copied there, at the speed of the slower side. */
static uint64_t copy_cycles(const braid_card *card, const card_context *context, uint64_t cores) {
  const braid_overlay_design *d = card->design;
  int first, last, old_first, old_last;
  card_banks(d, cores, &first, &last);
  card_banks(d, context->last_cores, &old_first, &old_last);
  if (!context->begun || (first == old_first && last == old_last)) return 0;
  int banks = last - first < old_last - old_first ? last - first + 1 : old_last - old_first + 1;
  double bytes = 0;
  for (int s = BRAID_SEGMENT_FEATURES; s < BRAID_PACKAGE_SEGMENTS; s++) bytes += (double)context->bytes[s];
  return (uint64_t)ceil(bytes / (banks * d->bank_bits / 8.0 * d->efficiency));
}

/* Vectors of a step that is half done, which others may have had the cores of meanwhile: to DDR and back, by a port
 * each way (section 4.1.3). */
static uint64_t vector_cycles(const braid_card *card, const card_context *context) {
  const braid_overlay_design *d = card->design;
  const braid_rnn *rnn = context->request.package ? context->request.package->rnn : NULL;
  if (!rnn || !context->inside) return 0;
  double bytes = (double)braid_rnn_vector_bytes(&rnn->cells[context->layer / (size_t)rnn->length]);
  double in_a_cycle = fmin(d->port_bits / 8.0, d->bank_bits / 8.0 * d->efficiency);
  return 2 * ((uint64_t)ceil(bytes / in_a_cycle) + (uint64_t)d->latency_cycles);
}

/* A core's memories are cleared side by side, as many bytes in a cycle as their module takes of them. */
static uint64_t clear_cycles(const braid_overlay_design *d) {
  double longest = 0;
  if (d->recurrent) {
    longest =
        fmax((double)d->weight_bytes / (2.0 * d->rows * d->columns), (double)d->vector_bytes / (2.0 * d->columns));
  } else {
    longest = (double)d->feature_bytes / ((double)d->pixels * d->channels_in);
    longest = fmax(longest, (double)d->weight_bytes / ((double)d->channels_in * d->channels_out));
  }
  return (uint64_t)ceil(longest);
}

uint64_t card_switch_cycles(const braid_card *card, const card_context *context, uint64_t cores, bool compiled) {
  const braid_overlay_design *d = card->design;
  uint64_t send = 0, clear = clear_cycles(d), copy = copy_cycles(card, context, cores);
  double compile = card->options.compile_seconds > 0 ? card->options.compile_seconds : 1e-6 * BRAID_CARD_COMPILE_US;
  double bytes = 0;
  for (int c = 0; c < context->programs.cores; c++) bytes += (double)card_programs_bytes(&context->programs, c);
  if (compiled && context->request.package) send += cycles_of(card, compile);
  if (compiled || context->loaded != cores)
    send += cycles_of(card, d->host_latency_us * 1e-6 + bytes / (d->host_gigabytes_per_second * 1e9));
  return (send > clear ? send : clear) + copy + vector_cycles(card, context);
}
