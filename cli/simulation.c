#include "simulation.h"

#include "files.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { kOrders = 4 }; /* adversarial ones of --check */

typedef struct simulation {
  const cli_simulation *how;
  const braid_overlay_design *design;
  braid_overlay_package *package;
  size_t input_count, output_count;
  braid_tensor **inputs, **outputs, **again;
  bool computed;
  int64_t clipped; /* of a recurrent network's inputs */
} simulation;

/* --- results -------------------------------------------------------------------------------------------------------
 */
/* The names of all ports of a kind, cut where there are many. */
static void list_ports(const simulation *s, bool outputs, char *text, size_t bytes) {
  size_t count = braid_overlay_package_port_count(s->package, outputs), at = 0;
  for (size_t i = 0; i < count && at < bytes; i++) {
    int written = snprintf(text + at, bytes - at, "%s%s", i ? ", " : "",
                           braid_overlay_package_get_port(s->package, outputs, i).name);
    at += written > 0 ? (size_t)written : 0;
  }
  if (at >= bytes) snprintf(text + bytes - 4, 4, "...");
}

/* The port that --input or --output names; a single one needs no name. */
static braid_status find_port(const simulation *s, bool outputs, const char *name, size_t *index) {
  size_t count = braid_overlay_package_port_count(s->package, outputs);
  const char *kind = outputs ? "output" : "input";
  char all[200];
  *index = 0;
  if (count == 0) return braid_fail(BRAID_INVALID_ARGUMENT, "the package has no %s", kind);
  if (!name && count == 1) return BRAID_OK;
  for (size_t i = 0; name && i < count; i++)
    if (strcmp(braid_overlay_package_get_port(s->package, outputs, i).name, name) == 0) {
      *index = i;
      return BRAID_OK;
    }
  list_ports(s, outputs, all, sizeof all);
  if (!name)
    return braid_fail(BRAID_INVALID_ARGUMENT, "the package has %zu %ss, %s: --%s NAME=FILE says which", count, kind,
                      all, kind);
  return braid_fail(BRAID_INVALID_ARGUMENT, "the package has no %s %s; it has %s", kind, name, all);
}

static braid_status read_inputs(simulation *s) {
  for (size_t i = 0; i < s->how->inputs.count; i++) {
    size_t port;
    braid_status status = find_port(s, false, s->how->inputs.names[i], &port);
    if (status != BRAID_OK) return status;
    if (s->inputs[port])
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s: its input has a file", s->how->inputs.values[i]);
    status = braid_npy_load(NULL, s->how->inputs.values[i], &s->inputs[port]);
    if (status != BRAID_OK) return status;
  }
  for (size_t i = 0; i < s->input_count; i++)
    if (!s->inputs[i])
      return braid_fail(BRAID_INVALID_ARGUMENT, "input %s has no file: --input NAME=FILE",
                        braid_overlay_package_get_port(s->package, false, i).name);
  return BRAID_OK;
}

/* Of a recurrent network: numbers beyond those of 16 bits, which the model itself does not limit. */
static void count_clipped(simulation *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    braid_overlay_port_info port = braid_overlay_package_get_port(s->package, false, i);
    const braid_desc *desc = braid_tensor_desc(s->inputs[i]);
    int64_t clipped = 0, count = braid_desc_count(desc);
    if (port.bits != 16 || desc->dtype != BRAID_F32) continue;
    const float *numbers = braid_tensor_const_data(s->inputs[i]);
    for (int64_t n = 0; n < count; n++) {
      double q = rint(ldexp((double)numbers[n], -port.exponent));
      clipped += q < INT16_MIN || q > INT16_MAX;
    }
    s->clipped += clipped;
    if (!clipped) continue;
    fprintf(stderr, "braid simulate: input ");
    cli_print_escaped(stderr, port.name);
    fprintf(stderr, ": %" PRId64 " of %" PRId64 " numbers are beyond %g and are clipped\n", clipped, count,
            ldexp(1, port.exponent + 15));
  }
}

/* Bytes over all of their range. */
static braid_status make_inputs(simulation *s) {
  uint64_t state = 1;
  for (size_t i = 0; i < s->input_count; i++) {
    braid_overlay_port_info port = braid_overlay_package_get_port(s->package, false, i);
    const int64_t dims[] = {1, port.channels, port.rows, port.columns}, words[] = {port.columns, 1, port.channels};
    braid_desc desc;
    braid_status status =
        port.bits == 16 ? braid_desc_init(&desc, BRAID_I16, 3, words) : braid_desc_init(&desc, BRAID_I8, 4, dims);
    if (status == BRAID_OK) status = braid_tensor_create(NULL, &desc, &s->inputs[i]);
    if (status != BRAID_OK) return status;
    uint8_t *bytes = braid_tensor_data(s->inputs[i]);
    for (size_t b = 0; b < braid_desc_bytes(&desc); b++) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      bytes[b] = (uint8_t)(state >> 56);
    }
  }
  return BRAID_OK;
}

static void release_tensors(braid_tensor **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++) {
    braid_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static braid_status compare_outputs(const simulation *s, uint64_t seed) {
  for (size_t o = 0; o < s->output_count; o++) {
    size_t bytes = braid_desc_bytes(braid_tensor_desc(s->outputs[o]));
    if (memcmp(braid_tensor_const_data(s->outputs[o]), braid_tensor_const_data(s->again[o]), bytes) != 0)
      return braid_fail(BRAID_INVALID_FILE, "output %s depends on the order of modules: order %" PRIu64 " differs",
                        braid_overlay_package_get_port(s->package, true, o).name, seed);
  }
  return BRAID_OK;
}

/* The plain order, which the outputs are of, and others, all looked at for races. */
static braid_status check_orders(simulation *s, int cores) {
  for (uint64_t seed = 1; seed <= kOrders; seed++) {
    braid_overlay_run_options options = {.seed = seed, .races = true};
    braid_status status = braid_overlay_run(s->package, s->design, cores, &options, s->inputs, NULL, s->again);
    if (status == BRAID_OK) status = compare_outputs(s, seed);
    release_tensors(s->again, s->output_count);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status write_outputs(const simulation *s) {
  for (size_t i = 0; i < s->how->outputs.count; i++) {
    size_t port;
    braid_status status = find_port(s, true, s->how->outputs.names[i], &port);
    if (status == BRAID_OK) status = braid_npy_save(s->how->outputs.values[i], s->outputs[port]);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status compute_outputs(simulation *s, int cores) {
  s->input_count = braid_overlay_package_port_count(s->package, false);
  s->output_count = braid_overlay_package_port_count(s->package, true);
  s->inputs = calloc(s->input_count + 1, sizeof *s->inputs);
  s->outputs = calloc(s->output_count + 1, sizeof *s->outputs);
  s->again = calloc(s->output_count + 1, sizeof *s->again);
  if (!s->inputs || !s->outputs || !s->again) return cli_no_memory();
  braid_overlay_run_options options = {.races = s->how->check};
  braid_status status = s->how->inputs.count ? read_inputs(s) : make_inputs(s);
  if (status == BRAID_OK)
    status = braid_overlay_run(s->package, s->design, cores, &options, s->inputs, NULL, s->outputs);
  if (status == BRAID_OK) count_clipped(s);
  if (status == BRAID_OK && s->how->check) status = check_orders(s, cores);
  if (status == BRAID_OK) status = write_outputs(s);
  s->computed = status == BRAID_OK;
  return status;
}

/* --- what is printed -----------------------------------------------------------------------------------------------
 */
static double percent_over(int64_t number, int64_t of) {
  return 100 * ((double)number / (double)(of ? of : 1) - 1);
}

static double core_cycles_per_second(const braid_overlay_simulated *t, int cores) {
  return (double)t->cycles * cores / (t->host_seconds > 0 ? t->host_seconds : 1e-9);
}

static double operations_per_byte(const braid_overlay_simulated *t) {
  double bytes = (double)(t->read_bytes + t->written_bytes + t->fetched_bytes);
  return bytes > 0 ? t->operations_per_second * t->seconds / bytes : 0;
}

static void print_share(const braid_overlay_simulated *t, const char *name, size_t offset) {
  printf("  %-34s", name);
  for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
    printf(" %7.1f%%", 100 * *(const double *)(const void *)((const char *)&t->units[m] + offset));
  printf("\n");
}

/* What each unit did with the time: one column each. */
static void print_units(const braid_overlay_simulated *t) {
  static const char *const idle[BRAID_OVERLAY_IDLES] = {
      "  instructions not fetched yet",   "  decoder has not handed it out", "  queue of another unit is full",
      "  core waits for its other units", "  core waits for other cores",    "  core is at its end"};
  printf("\n  %-34s", "of the cores' time");
  for (int m = 0; m < BRAID_OVERLAY_UNITS; m++) printf(" %8s", braid_overlay_unit_name((braid_overlay_unit)m));
  printf("\n");
  print_share(t, "runs an instruction", offsetof(braid_overlay_unit_time, busy));
  print_share(t, "  carries bytes", offsetof(braid_overlay_unit_time, carries));
  print_share(t, "  DDR's latency", offsetof(braid_overlay_unit_time, latency));
  print_share(t, "  waits for its turn at port, bank", offsetof(braid_overlay_unit_time, turns));
  print_share(t, "waits for a token", offsetof(braid_overlay_unit_time, waits));
  printf("  has no instruction:\n");
  for (size_t i = 0; i < BRAID_OVERLAY_IDLES; i++)
    print_share(t, idle[i], offsetof(braid_overlay_unit_time, idle) + i * sizeof(double));
}

static void print_energy(const braid_overlay_simulated *t, const char *what) {
  const braid_overlay_energy *e = &t->energy;
  if (isnan(t->joules)) {
    printf("energy: not known, the design lacks figures of its power\n");
    return;
  }
  printf("energy: %.3f mJ %s, modelled, of the whole card: %.3f without work, %.3f operations, DDR %.3f read, %.3f "
         "written, %.3f instructions\n",
         t->joules * 1e3, what, e->idle * 1e3, e->operations * 1e3, e->read * 1e3, e->written * 1e3, e->fetched * 1e3);
}

/* `what`: "an image", "a sequence". */
static void print_one(const braid_overlay_simulated *t, int cores, const char *what) {
  printf("modelled: %" PRId64 " cycles %s on %d core%s, %.3f ms, %.1f %ss/s\n", t->cycles, what, cores,
         cores == 1 ? "" : "s", t->seconds * 1e3, t->seconds > 0 ? 1 / t->seconds : 0, strchr(what, ' ') + 1);
  printf("the compiler expected %" PRId64 " cycles: the simulation has %+.1f%%\n", t->estimate,
         percent_over(t->cycles, t->estimate));
  printf("%.1f GOPS, %.1f%% of the roofline (%.1f GOPS at %.1f operations a byte)\n", t->operations_per_second / 1e9,
         100 * t->operations_per_second / t->bound_per_second, t->bound_per_second / 1e9, operations_per_byte(t));
  printf("DDR: %.2f MB read, %.2f MB written %s, %.2f MB of instructions fetched\n", (double)t->read_bytes / 1e6,
         (double)t->written_bytes / 1e6, what, (double)t->fetched_bytes / 1e6);
  printf("banks of DDR busy:");
  for (int b = 0; b < t->banks; b++) printf(" %.1f%%", 100 * t->bank_busy[b]);
  printf("\n");
  print_energy(t, what);
  printf("another number of cores: programs of %.2f MB, %.3f ms from the host, modelled\n",
         (double)t->program_bytes / 1e6, t->transfer_seconds * 1e3);
  print_units(t);
  printf("\nmeasured here: programs made in %.3f ms; simulated in %.3f s of a CPU, %.1f M cycles/s, summed over cores "
         "%.1f M (ONNXim shows 0.31 and 1.2 M, of other cores on another machine)\n",
         t->compile_microseconds / 1e3, t->host_seconds, core_cycles_per_second(t, cores) / 1e6 / cores,
         core_cycles_per_second(t, cores) / 1e6);
}

static void print_row(const braid_overlay_simulated *t, int cores, int64_t single, bool sequences) {
  if (cores == 1)
    printf("%5s %12s %9s %9s %8s %8s %9s %8s %7s %10s\n", "cores", "cycles", "ms", sequences ? "seqs/s" : "images/s",
           "speed-up", "estimate", "roofline", "compute", "sync", "compile us");
  printf("%5d %12" PRId64 " %9.3f %9.1f %8.2f %+7.1f%% %8.1f%% %7.1f%% %6.1f%% %10.1f\n", cores, t->cycles,
         t->seconds * 1e3, t->seconds > 0 ? 1 / t->seconds : 0, (double)single / (double)(t->cycles ? t->cycles : 1),
         percent_over(t->cycles, t->estimate), 100 * t->operations_per_second / t->bound_per_second,
         100 * t->units[BRAID_OVERLAY_CONV_MVM].busy, 100 * t->synchronizing, t->compile_microseconds);
}

static void write_unit(cli_json *json, const char *name, const braid_overlay_unit_time *u) {
  cli_json_object(json, name);
  cli_json_number(json, "busy", u->busy);
  cli_json_number(json, "carries", u->carries);
  cli_json_number(json, "latency", u->latency);
  cli_json_number(json, "turns", u->turns);
  cli_json_number(json, "waits", u->waits);
  cli_json_object(json, "idle");
  for (int i = 0; i < BRAID_OVERLAY_IDLES; i++)
    cli_json_number(json, braid_overlay_idle_name((braid_overlay_idle)i), u->idle[i]);
  cli_json_close(json, '}');
  cli_json_close(json, '}');
}

static void write_energy(cli_json *json, const braid_overlay_energy *e) {
  cli_json_object(json, "modelled_joules_of");
  cli_json_number(json, "idle", e->idle);
  cli_json_number(json, "operations", e->operations);
  cli_json_number(json, "read", e->read);
  cli_json_number(json, "written", e->written);
  cli_json_number(json, "fetched", e->fetched);
  cli_json_close(json, '}');
}

static void write_run(cli_json *json, const braid_overlay_simulated *t, int cores) {
  cli_json_object(json, NULL);
  cli_json_integer(json, "cores", cores);
  cli_json_integer(json, "modelled_cycles", t->cycles);
  cli_json_integer(json, "estimated_cycles", t->estimate);
  cli_json_number(json, "modelled_seconds", t->seconds);
  cli_json_number(json, "modelled_joules", t->joules);
  cli_json_number(json, "modelled_fps", t->seconds > 0 ? 1 / t->seconds : (double)NAN);
  write_energy(json, &t->energy);
  cli_json_number(json, "modelled_operations_per_second", t->operations_per_second);
  cli_json_number(json, "roofline_operations_per_second", t->bound_per_second);
  cli_json_number(json, "operations_per_byte", operations_per_byte(t));
  cli_json_integer(json, "operations_of_cores", t->operations);
  cli_json_integer(json, "read_bytes", t->read_bytes);
  cli_json_integer(json, "written_bytes", t->written_bytes);
  cli_json_integer(json, "fetched_bytes", t->fetched_bytes);
  cli_json_array(json, "banks_busy");
  for (int b = 0; b < t->banks; b++) cli_json_number(json, NULL, t->bank_busy[b]);
  cli_json_close(json, ']');
  cli_json_object(json, "modules");
  for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
    write_unit(json, braid_overlay_unit_name((braid_overlay_unit)m), &t->units[m]);
  cli_json_close(json, '}');
  cli_json_number(json, "synchronizing", t->synchronizing);
  cli_json_integer(json, "program_bytes", t->program_bytes);
  cli_json_number(json, "modelled_transfer_seconds", t->transfer_seconds);
  cli_json_number(json, "compile_ms", t->compile_microseconds / 1e3);
  cli_json_number(json, "measured_simulation_seconds", t->host_seconds);
  cli_json_number(json, "measured_core_cycles_per_second", core_cycles_per_second(t, cores));
  cli_json_close(json, '}');
}

static braid_status save_record(const simulation *s, const braid_overlay_record *record) {
  const char *title = strrchr(s->how->package, '/') ? strrchr(s->how->package, '/') + 1 : s->how->package;
  braid_status status = BRAID_OK;
  if (s->how->timeline) status = braid_overlay_record_save_html(record, title, s->how->timeline);
  if (status == BRAID_OK && s->how->trace) status = braid_overlay_record_save_trace(record, s->how->trace);
  return status;
}

/* Simulates, and writes what is to be drawn. */
static braid_status time_cores(const simulation *s, int cores, braid_overlay_simulated *t) {
  if (!s->how->timeline && !s->how->trace) return braid_overlay_simulate(s->package, s->design, cores, t);
  braid_overlay_record *record;
  braid_status status = braid_overlay_record_make(s->package, s->design, cores, NULL, t, &record);
  if (status == BRAID_OK) status = save_record(s, record);
  braid_overlay_record_info info = {.whole = true};
  if (status == BRAID_OK) info = braid_overlay_record_get_info(record);
  if (!info.whole)
    fprintf(stderr, "braid simulate: the timeline ends at cycle %" PRId64 ": %d instructions and stalls are the most\n",
            info.until, BRAID_OVERLAY_MOST_SPANS);
  braid_overlay_record_destroy(record);
  return status;
}

static braid_status tell_time(const simulation *s, int cores, cli_json *json) {
  bool sequences = braid_overlay_package_get_info(s->package).steps > 0;
  int64_t single = 0;
  int last = cores;
  if (json) cli_json_array(json, "runs");
  for (cores = s->how->all ? 1 : last;; cores = cores * 2 < last ? cores * 2 : last) {
    braid_overlay_simulated t;
    braid_status status = time_cores(s, cores, &t);
    if (status != BRAID_OK) return status;
    if (cores == 1) single = t.cycles;
    if (json)
      write_run(json, &t, cores);
    else if (s->how->all)
      print_row(&t, cores, single, sequences);
    else
      print_one(&t, cores, sequences ? "a sequence" : "an image");
    if (cores == last) break;
  }
  if (json) cli_json_close(json, ']');
  return BRAID_OK;
}

static void print_results(const simulation *s) {
  if (s->how->check)
    printf("\nchecked: the plain order and %d adversarial ones give the same bits, no races (%s)\n", kOrders,
           s->how->inputs.count ? "these inputs" : "random inputs");
  for (size_t i = 0; i < s->how->outputs.count; i++) {
    printf("%swritten: ", i || s->how->check ? "" : "\n");
    cli_print_escaped(stdout, s->how->outputs.values[i]);
    printf("\n");
  }
}

static void print_drawn(const simulation *s) {
  const char *const files[] = {s->how->timeline, s->how->trace};
  for (int i = 0; i < 2; i++) {
    if (!files[i]) continue;
    printf("written: ");
    cli_print_escaped(stdout, files[i]);
    printf("\n");
  }
}

static braid_status print_json(const simulation *s, int cores) {
  cli_json json;
  if (!cli_json_begin(&json)) return cli_no_memory();
  cli_json_string(&json, "design", s->design->name);
  int steps = braid_overlay_package_get_info(s->package).steps;
  if (steps) cli_json_integer(&json, "steps", steps);
  if (s->computed && s->how->check) cli_json_integer(&json, "orders_checked", kOrders + 1);
  if (s->computed && steps && s->how->inputs.count) cli_json_integer(&json, "clipped_inputs", s->clipped);
  braid_status status = tell_time(s, cores, &json);
  if (status != BRAID_OK) {
    cli_json_discard(&json);
    return status;
  }
  return cli_json_end(&json) ? BRAID_OK : braid_fail(BRAID_IO, "standard output: the document could not be written");
}

static braid_status simulate_package(simulation *s) {
  int cores = s->how->cores ? s->how->cores : s->design->cores;
  braid_status status = BRAID_OK;
  if (s->how->check || s->how->inputs.count) status = compute_outputs(s, cores);
  if (status != BRAID_OK) return status;
  if (s->how->json) return print_json(s, cores);
  status = tell_time(s, cores, NULL);
  if (status == BRAID_OK && s->computed) print_results(s);
  if (status == BRAID_OK) print_drawn(s);
  return status;
}

static braid_status check_files(const cli_simulation *how) {
  cli_file files[4 + 2 * CLI_MAX_ASSIGNMENTS] = {{"the package", how->package, false},
                                                 cli_design_file(how->design),
                                                 {"--timeline", how->timeline, true},
                                                 {"--trace", how->trace, true}};
  size_t count = 4;
  for (size_t i = 0; i < how->inputs.count; i++)
    files[count++] = (cli_file){"an array of --input", how->inputs.values[i], false};
  for (size_t o = 0; o < how->outputs.count; o++) files[count++] = (cli_file){"--output", how->outputs.values[o], true};
  return cli_check_files(files, count);
}

braid_status cli_simulate_package(const cli_simulation *how) {
  simulation s = {.how = how};
  braid_status status = check_files(how);
  if (status == BRAID_OK) status = braid_overlay_design_load(NULL, how->design, &s.design);
  if (status == BRAID_OK) status = braid_overlay_package_read(NULL, how->package, &s.package);
  if (status == BRAID_OK && how->steps) status = braid_overlay_package_set_steps(s.package, how->steps);
  if (status == BRAID_OK) status = simulate_package(&s);
  release_tensors(s.inputs, s.input_count);
  release_tensors(s.outputs, s.output_count);
  free(s.inputs);
  free(s.outputs);
  free(s.again);
  braid_overlay_package_destroy(s.package);
  braid_overlay_design_destroy(s.design);
  return status;
}
