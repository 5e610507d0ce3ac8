/* What the programs of a package take on a card, as braid/overlay.h has it. */
#include "overlay/sim/package_time.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/try.h"
#include "overlay/compiler/dynamic.h"

const char *braid_overlay_unit_name(braid_overlay_unit unit) {
  static const char *const names[] = {"load", "save", "compute", "side"};
  return (unsigned)unit < BRAID_OVERLAY_UNITS ? names[unit] : "";
}

const char *braid_overlay_idle_name(braid_overlay_idle idle) {
  static const char *const names[] = {"fetch", "decoder", "queue", "drain", "sync", "over"};
  return (unsigned)idle < BRAID_OVERLAY_IDLES ? names[idle] : "";
}

static int64_t card_bytes(const braid_overlay_design *design) {
  return design->bank_bytes * design->banks;
}

braid_status braid_package_fits(const braid_package *package, const braid_overlay_design *design, int cores) {
  uint8_t fingerprint[BRAID_SHA256_BYTES];
  braid_design_fingerprint(design, fingerprint);
  bool same = memcmp(fingerprint, package->design, sizeof fingerprint) == 0;
  if (!same && strcmp(design->name, package->design_name) == 0)
    return braid_fail(
        BRAID_INVALID_ARGUMENT,
        "the package is compiled for another %s (cores, their memories and ports, the memory controller, "
        "their share of the banks or the clock differ) or for instructions of another version: compile it again",
        design->name);
  if (!same)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the package is compiled for cores of %s, and those of %s differ",
                      package->design_name, design->name);
  if (cores < 1 || cores > design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores: %s has 1 to %d", cores, design->name, design->cores);
  int64_t left = card_bytes(design);
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    if (package->bytes[s] > left)
      return braid_fail(BRAID_INVALID_ARGUMENT, "the package needs more memory than a card of %s has", design->name);
    left -= package->bytes[s];
  }
  return BRAID_OK;
}

/* --- what is told --------------------------------------------------------------------------------------------------
 */
_Static_assert((int)BRAID_OVERLAY_IDLES == (int)BRAID_TIMING_IDLES, "the same reasons");

static void add_unit(const braid_timing_module *m, uint64_t latency, double all, braid_overlay_unit_time *out) {
  out->busy += (double)m->busy / all;
  out->waits += (double)m->waits / all;
  for (int i = 0; i < BRAID_OVERLAY_IDLES; i++) out->idle[i] += (double)m->idle[i] / all;
  if (!m->bytes) return;
  uint64_t first = m->instructions * latency, rest = m->busy - m->moves;
  if (first > rest) first = rest;
  out->carries += (double)m->moves / all;
  out->latency += (double)first / all;
  out->turns += (double)(rest - first) / all;
}

static void tell_energy(const braid_overlay_design *design, braid_overlay_simulated *out) {
  double byte = design->picojoules_per_ddr_byte * 1e-12;
  braid_overlay_energy *e = &out->energy;
  e->idle = design->idle_watts * out->seconds;
  e->operations = design->picojoules_per_operation * (double)out->operations * 1e-12;
  e->read = byte * (double)out->read_bytes;
  e->written = byte * (double)out->written_bytes;
  e->fetched = byte * (double)out->fetched_bytes;
  out->joules = e->idle + e->operations + e->read + e->written + e->fetched;
}

static void tell_time(const braid_timing_result *result, const braid_overlay_design *design, int64_t macs,
                      braid_overlay_simulated *out) {
  out->cycles = (int64_t)(result->ended - result->began);
  out->seconds = (double)out->cycles / (design->clock_mhz * 1e6);
  double all = (double)(out->cycles ? out->cycles : 1) * (double)result->core_count;
  for (size_t c = 0; c < result->core_count; c++) {
    const braid_timing_core *core = &result->cores[c];
    for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
      add_unit(&core->modules[m], (uint64_t)design->latency_cycles, all, &out->units[m]);
    out->synchronizing += (double)core->synchronizing / all;
    out->read_bytes += (int64_t)core->modules[BRAID_ISA_IN].bytes;
    out->written_bytes += (int64_t)core->modules[BRAID_ISA_OUT].bytes;
    out->fetched_bytes += (int64_t)core->fetched_bytes;
    out->operations += (int64_t)core->operations;
  }
  double bytes = (double)(out->read_bytes + out->written_bytes + out->fetched_bytes), operations = 2 * (double)macs;
  braid_overlay_roofline roofline;
  braid_overlay_get_roofline(design, (int)result->core_count, &roofline);
  out->operations_per_second = out->seconds > 0 ? operations / out->seconds : 0;
  double least = fmax(operations / roofline.operations_per_second, bytes / roofline.bytes_per_second);
  least = fmax(least, (bytes - (double)out->written_bytes) / roofline.one_way_bytes_per_second);
  least = fmax(least, (double)out->written_bytes / roofline.one_way_bytes_per_second);
  out->bound_per_second = operations > 0 ? operations / least : roofline.operations_per_second;
  out->transfer_seconds =
      design->host_latency_us * 1e-6 + (double)out->program_bytes / (design->host_gigabytes_per_second * 1e9);
  tell_energy(design, out);
}

/* --- a run ---------------------------------------------------------------------------------------------------------
 */
/* The package's segments lie one behind the other from the card's first byte on, and behind them the programs, each
 * from the begin of a burst on. Those that fit have been fetched with an image before. */
static braid_status lay_out(const braid_package *package, const braid_overlay_design *design,
                            const braid_programs *made, braid_timing_task *task, uint64_t *code) {
  uint64_t first = 0, block = (uint64_t)design->burst_bytes / BRAID_ISA_WORD;
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    uint64_t lines = (uint64_t)package->bytes[s] / BRAID_ISA_WORD;
    bool read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    task->ranges[s] = (braid_timing_range){first, lines, read_only};
    first += lines;
  }
  for (size_t c = 0; c < task->core_count; c++) {
    bool fits = made->core[c].bytes <= braid_timing_instruction_part(design);
    first = (first + block - 1) / block * block;
    code[c] = fits ? BRAID_TIMING_RESIDENT : first;
    first += made->core[c].bytes / BRAID_ISA_WORD;
  }
  if (first > (uint64_t)card_bytes(design) / BRAID_ISA_WORD)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the package and its programs need more memory than a card of %s has",
                      design->name);
  task->code = code;
  return BRAID_OK;
}

static braid_status run_timing(const braid_overlay_package *package, const braid_overlay_design *design,
                               const braid_timing_task *task, braid_timing *timing, braid_overlay_simulated *out) {
  size_t id, done;
  int64_t begin = braid_thread_ns();
  BRAID_TRY(braid_timing_submit(timing, task, &id));
  BRAID_TRY(braid_timing_advance(timing, UINT64_MAX, &done));
  out->host_seconds = (double)(braid_thread_ns() - begin) / 1e9;
  braid_timing_result result = braid_timing_get(timing, id);
  if (result.state != BRAID_TIMING_ENDED)
    return braid_fail(BRAID_INVALID_FILE, "the card refuses the programs: %s", result.why ? result.why : "no end");
  tell_time(&result, design, braid_overlay_package_get_info(package).macs, out);
  out->banks = design->banks;
  for (int b = 0; b < design->banks; b++)
    out->bank_busy[b] = (double)braid_timing_bank_busy(timing, b) / (double)(out->cycles ? out->cycles : 1);
  return BRAID_OK;
}

static braid_status time_programs(const braid_overlay_package *package, const braid_overlay_design *design,
                                  const braid_programs *made, const braid_package_watch *watch,
                                  braid_overlay_simulated *out) {
  braid_timing_program programs[BRAID_OVERLAY_MOST_CORES] = {{0}};
  uint64_t code[BRAID_OVERLAY_MOST_CORES];
  braid_timing_task task = {.programs = programs, .core_count = (size_t)made->cores};
  braid_timing *timing = NULL;
  braid_status status = lay_out(package, design, made, &task, code);
  for (int c = 0; status == BRAID_OK && c < made->cores; c++) {
    status = braid_timing_read(made->core[c].code, made->core[c].bytes, design, c, NULL, &programs[c]);
    out->program_bytes += (int64_t)made->core[c].bytes;
  }
  if (status == BRAID_OK) status = braid_timing_create(design, NULL, &timing);
  if (status == BRAID_OK && watch) {
    braid_timing_listen(timing, watch->listener, watch->user);
    if (watch->begin) status = watch->begin(watch->user, programs, made->cores);
  }
  if (status == BRAID_OK) status = run_timing(package, design, &task, timing, out);
  braid_timing_destroy(timing);
  for (int c = 0; c < made->cores; c++) braid_timing_program_free(&programs[c], NULL);
  return status;
}

/* The second time is measured: the first has to ask for memory, which whoever shares a card does once. */
static braid_status make_twice(const braid_overlay_package *package, int cores, braid_programs *programs, double *us) {
  BRAID_TRY(braid_programs_make(package, cores, 0, programs));
  int64_t begin = braid_now_ns();
  BRAID_TRY(braid_programs_make(package, cores, 0, programs));
  *us = (double)(braid_now_ns() - begin) / 1e3;
  return BRAID_OK;
}

braid_status braid_package_time(const braid_package *package, const braid_overlay_design *design, int cores,
                                const braid_package_watch *watch, braid_overlay_simulated *out) {
  braid_programs programs;
  *out = (braid_overlay_simulated){0};
  BRAID_TRY(braid_package_fits(package, design, cores));
  braid_programs_init(&programs, NULL);
  braid_status status = make_twice(package, cores, &programs, &out->compile_microseconds);
  out->estimate = (int64_t)programs.cycles;
  if (status == BRAID_OK) status = braid_programs_gather(&programs);
  if (status == BRAID_OK) status = time_programs(package, design, &programs, watch, out);
  braid_programs_deinit(&programs);
  return status;
}

braid_status braid_overlay_simulate(const braid_overlay_package *package, const braid_overlay_design *design, int cores,
                                    braid_overlay_simulated *out) {
  return braid_package_time(package, design, cores, NULL, out);
}
