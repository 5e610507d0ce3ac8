/* Trials of isolation (braid/overlay_tenants.h): a tenant beside an offender. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "base/try.h"
#include "overlay/card/internal.h"
#include "overlay/card/offences.h"

enum { kJobs = 3, kMostJobs = 50, kCrowd = 33, kRoundCycles = 20000 };

typedef struct trial {
  const braid_overlay_design *design;
  const braid_package *package;
  braid_overlay_beside beside;
  card_offence offence;
  int cores, offenders; /* cores of the tenant, of the offender */
  double gate, offender_gate;
  card_offender offender;
  uint8_t *input, *output, *alone_output;
  braid_overlay_trial *out;
} trial;

/* --- a network of our own ------------------------------------------------------------------------------------------
 */
enum { kLayers = 6, kChannels = 64, kSide = 28 };

static braid_status make_network(const braid_overlay_design *design, braid_package **out) {
  static int8_t weights[kChannels * kChannels * 9];
  static int32_t biases[kChannels];
  braid_overlay_map maps[kLayers + 1];
  braid_overlay_layer layers[kLayers];
  braid_overlay_port input = {.map = 0, .low = -128, .high = 127}, output = {.map = kLayers, .low = -128, .high = 127};
  braid_overlay_network network = {.batch = 1, .maps = maps, .layers = layers, .inputs = &input, .outputs = &output};
  for (size_t i = 0; i < sizeof weights; i++) weights[i] = (int8_t)braid_random_u32(29, 0, 0, i);
  for (int i = 0; i <= kLayers; i++)
    maps[i] =
        (braid_overlay_map){.channels = kChannels, .rows = kSide, .columns = kSide, .exponent = -4, .name = "map"};
  for (int i = 0; i < kLayers; i++) {
    layers[i] =
        (braid_overlay_layer){.kind = BRAID_OVERLAY_CONV, .name = "convolution", .x = i, .other = -1, .y = i + 1};
    layers[i].window = (braid_overlay_window){3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    layers[i].in_channels = layers[i].out_channels = kChannels;
    layers[i].low = -128;
    layers[i].high = 127;
    layers[i].shift = 11;
    layers[i].weights = weights;
    layers[i].biases = biases;
  }
  network.map_count = kLayers + 1;
  network.layer_count = kLayers;
  network.input_count = network.output_count = 1;
  return braid_package_compile(&network, design, NULL, out);
}

/* --- the card ------------------------------------------------------------------------------------------------------
 */
static bool has_own_banks(const trial *t) {
  return t->beside == BRAID_OVERLAY_OWN_BANKS || t->beside == BRAID_OVERLAY_OWN_GATED;
}

/* At each bank so many cores, of the first two banks. */
static braid_status count_cores(trial *t) {
  int at[2] = {0, 0};
  for (int c = 0; c < t->design->cores; c++) {
    int first, count;
    braid_overlay_core_banks(t->design, c, &first, &count);
    if (count == 1 && first < 2) at[first]++;
  }
  if (t->design->banks < 2 || at[0] < 2 || at[1] < 2)
    return braid_fail(BRAID_UNSUPPORTED, "%s has not two cores at each of two banks", t->design->name);
  t->cores = has_own_banks(t) ? at[0] : at[0] / 2;
  t->offenders = has_own_banks(t) ? at[1] : at[0] - t->cores;
  bool gated = t->beside == BRAID_OVERLAY_GATED_BANK || t->beside == BRAID_OVERLAY_OWN_GATED;
  t->gate = gated ? 1.0 / at[0] : 0;
  t->offender_gate = t->beside == BRAID_OVERLAY_GATED_BANK ? t->gate : 0;
  return BRAID_OK;
}

/* Cores at a bank, that nobody else shall have: its owner never runs anything. */
static braid_status block_bank(const trial *t, braid_card *card, int bank, size_t *id) {
  card_offender idle;
  int cores = 0;
  *id = SIZE_MAX;
  for (int c = 0; c < t->design->cores; c++) {
    int first, count;
    braid_overlay_core_banks(t->design, c, &first, &count);
    cores += first == bank;
  }
  if (!cores) return BRAID_OK;
  braid_status status = card_finder_make(&idle, t->design, cores, NULL);
  braid_card_request request = {.name = "idle", .code = &idle.code, .cores = cores, .keeps_cores = true};
  memset(idle.code.bytes, 0, sizeof idle.code.bytes);
  if (status == BRAID_OK) status = braid_card_open(card, &request, id);
  if (status == BRAID_OK) card->contexts[*id]->code.programs = NULL;
  card_offender_free(&idle);
  return status;
}

static braid_status open_tenant(const trial *t, braid_card *card, double gate, size_t *id) {
  braid_card_request request = {
      .name = "tenant", .package = t->package, .cores = t->cores, .keeps_cores = true, .bandwidth = gate};
  return braid_card_open(card, &request, id);
}

/* --- the tenant ----------------------------------------------------------------------------------------------------
 */
/* Alone: cycles of its second job, whose programs are there; *output: what it computes. */
static braid_status run_alone(const trial *t, double gate, uint8_t *output, uint64_t *cycles) {
  braid_card *card;
  braid_card_options options = {.design = t->design, .times_only = !output};
  braid_card_result r = {0};
  size_t id;
  uint64_t sequence;
  BRAID_TRY(braid_card_create(&options, NULL, &card));
  braid_status status = open_tenant(t, card, gate, &id);
  for (int job = 0; status == BRAID_OK && job < (output ? 1 : 2); job++) {
    status = braid_card_submit(card, id, t->input, output, &sequence);
    if (status == BRAID_OK) status = braid_card_wait(card, id, sequence, UINT64_MAX, &r);
    if (status == BRAID_OK && r.status != BRAID_OK)
      status = braid_fail(r.status, "the package does not run alone: %s", r.why);
  }
  if (cycles) *cycles = r.ran;
  braid_card_destroy(card);
  return status;
}

/* --- the offender --------------------------------------------------------------------------------------------------
 */
typedef struct offenders {
  size_t ids[kCrowd];
  size_t count;
  uint64_t last[kCrowd]; /* sequence number of each one's job under way */
  uint64_t urged_at;
  int resized;
} offenders;

static braid_status open_offenders(trial *t, braid_card *card, offenders *all) {
  size_t count = t->offence == CARD_CROWD ? kCrowd : 1;
  braid_card_request request = {.name = "offender",
                                .package = t->offender.uses_package ? t->package : NULL,
                                .code = t->offender.uses_package ? NULL : &t->offender.code,
                                .cores = t->offence == CARD_CROWD ? 1 : t->offenders,
                                .bandwidth = t->offender_gate,
                                .most_cycles = t->offender.most_cycles};
  for (; all->count < count; all->count++) {
    BRAID_TRY(braid_card_open(card, &request, &all->ids[all->count]));
    BRAID_TRY(braid_card_submit(card, all->ids[all->count], NULL, NULL, &all->last[all->count]));
  }
  return BRAID_OK;
}

/* Looks at what became of their jobs, and submits the next ones; a job that is refused at once takes no time. */
static braid_status urge_offenders(trial *t, braid_card *card, offenders *all) {
  bool again = braid_card_now(card) - all->urged_at >= kRoundCycles;
  if (again) all->urged_at = braid_card_now(card);
  for (size_t i = 0; i < all->count; i++) {
    braid_card_result r;
    BRAID_TRY(braid_card_get_result(card, all->ids[i], all->last[i], &r));
    if (!r.done || (r.ended == r.submitted && !again)) continue;
    t->out->offences++;
    t->out->status = r.status;
    snprintf(t->out->why, sizeof t->out->why, "%s", r.why ? r.why : "");
    BRAID_TRY(braid_card_submit(card, all->ids[i], NULL, NULL, &all->last[i]));
  }
  if (t->offence != CARD_RESIZED || !all->count) return BRAID_OK;
  all->resized = all->resized % t->offenders + 1;
  return braid_card_reconfigure(card, all->ids[0], all->resized, BRAID_CARD_AFTER_TILE);
}

/* --- trials --------------------------------------------------------------------------------------------------------
 */
/* The tenant's jobs, one after the other, while the offender does what it does; more of them, until it has done it
 * once.
 */
static braid_status run_tenant(trial *t, braid_card *card, size_t id, offenders *all, uint64_t alone) {
  for (int job = 0; job < kJobs || (!t->out->offences && job < kMostJobs); job++) {
    uint64_t sequence;
    braid_card_result r = {0};
    memset(t->output, 0x5a, (size_t)t->package->bytes[BRAID_SEGMENT_OUTPUTS]);
    BRAID_TRY(braid_card_submit(card, id, t->input, t->output, &sequence));
    while (!r.done) {
      size_t done;
      BRAID_TRY(braid_card_advance(card, braid_card_now(card) + kRoundCycles, &done));
      BRAID_TRY(urge_offenders(t, card, all));
      BRAID_TRY(braid_card_get_result(card, id, sequence, &r));
    }
    t->out->deviation = fmax(t->out->deviation, fabs((double)r.ran / (double)alone - 1));
    t->out->same_bits = t->out->same_bits && r.status == BRAID_OK &&
                        memcmp(t->output, t->alone_output, (size_t)t->package->bytes[BRAID_SEGMENT_OUTPUTS]) == 0;
  }
  return BRAID_OK;
}

/* Another tenant on the offender's cores and memory: it finds 0 everywhere. */
static braid_status look_for_traces(const trial *t, braid_card *card, bool *found) {
  card_offender finder;
  size_t id, bytes = 0;
  uint64_t sequence;
  uint8_t *output = NULL;
  braid_status status = card_finder_make(&finder, t->design, t->offenders, NULL);
  braid_card_request request = {
      .name = "next", .code = &finder.code, .cores = t->offenders, .bandwidth = t->offender_gate};
  braid_card_result r = {0};
  if (status == BRAID_OK) {
    bytes = (size_t)finder.code.bytes[BRAID_SEGMENT_OUTPUTS];
    output = braid_zalloc(NULL, bytes);
    status = output ? braid_card_open(card, &request, &id) : BRAID_NO_MEMORY;
  }
  if (status == BRAID_OK) {
    memset(output, 0x5a, bytes);
    status = braid_card_submit(card, id, NULL, output, &sequence);
    if (status == BRAID_OK) status = braid_card_wait(card, id, sequence, UINT64_MAX, &r);
    braid_card_close(card, id);
  }
  *found = r.status != BRAID_OK;
  for (size_t b = 0; output && b < bytes; b++) *found = *found || output[b];
  braid_free(NULL, output);
  card_offender_free(&finder);
  return status;
}

static braid_status run_beside(trial *t, uint64_t alone) {
  braid_card *card;
  braid_card_options options = {.design = t->design};
  offenders all = {.count = 0};
  size_t id, blocked = SIZE_MAX;
  bool found = true;
  BRAID_TRY(braid_card_create(&options, NULL, &card));
  braid_status status = open_tenant(t, card, t->gate, &id);
  for (int b = has_own_banks(t) ? 2 : 1; status == BRAID_OK && b < t->design->banks; b++)
    status = block_bank(t, card, b, &blocked);
  uint64_t bytes = braid_card_free_bytes(card), cores = braid_card_free_cores(card);
  if (status == BRAID_OK) status = open_offenders(t, card, &all);
  if (status == BRAID_OK) status = run_tenant(t, card, id, &all, alone);
  for (size_t i = 0; i < all.count; i++) braid_card_close(card, all.ids[i]);
  if (status == BRAID_OK) status = look_for_traces(t, card, &found);
  t->out->clean = !found && bytes == braid_card_free_bytes(card) && cores == braid_card_free_cores(card);
  braid_card_destroy(card);
  return status;
}

static braid_status run_trial(trial *t) {
  uint64_t alone, ungated;
  size_t bytes = (size_t)t->package->bytes[BRAID_SEGMENT_OUTPUTS],
         inputs = (size_t)t->package->bytes[BRAID_SEGMENT_INPUTS];
  BRAID_TRY(count_cores(t));
  t->input = braid_zalloc(NULL, inputs + 1);
  t->output = braid_zalloc(NULL, bytes + 1);
  t->alone_output = braid_zalloc(NULL, bytes + 1);
  if (!t->input || !t->output || !t->alone_output) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < inputs; i++) t->input[i] = (uint8_t)braid_random_u32(31, 0, 0, i);
  BRAID_TRY(run_alone(t, t->gate, t->alone_output, NULL));
  BRAID_TRY(run_alone(t, t->gate, NULL, &alone));
  BRAID_TRY(run_alone(t, 0, NULL, &ungated));
  BRAID_TRY(card_offender_make(&t->offender, t->offence, t->design, t->offenders, alone, NULL));
  t->out->cores = t->cores;
  t->out->offender_cores = t->offenders;
  t->out->cycles = (int64_t)alone;
  t->out->gate_cost = (double)alone / (double)ungated - 1;
  t->out->same_bits = true;
  return run_beside(t, alone);
}

braid_status braid_overlay_try_isolation(const braid_overlay_design *design, const braid_overlay_package *package,
                                         size_t offence, braid_overlay_beside beside, braid_overlay_trial *out) {
  braid_package *made = NULL;
  *out = (braid_overlay_trial){0};
  if (offence >= CARD_OFFENCES || (unsigned)beside >= BRAID_OVERLAY_BESIDES)
    return braid_fail(BRAID_INVALID_ARGUMENT, "offence %zu, beside %d: there are %d and %d", offence, (int)beside,
                      CARD_OFFENCES, BRAID_OVERLAY_BESIDES);
  if (!package && design->recurrent)
    return braid_fail(BRAID_UNSUPPORTED, "a design for recurrent networks needs a package: cores of %s have no CONV",
                      design->name);
  if (!package) BRAID_TRY(make_network(design, &made));
  trial t = {.design = design,
             .package = package ? package : made,
             .beside = beside,
             .offence = (card_offence)offence,
             .out = out};
  braid_status status = run_trial(&t);
  braid_free(NULL, t.input);
  braid_free(NULL, t.output);
  braid_free(NULL, t.alone_output);
  card_offender_free(&t.offender);
  braid_package_destroy(made);
  return status;
}
