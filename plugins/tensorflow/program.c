/* An op with given shapes, prepared: a small graph, its plan on the device's machine, and an execution. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* Work below this, by one thread, runs in the thread that launches it; only the order of magnitude matters. */
static const double kBriefSeconds = 20e-6, kBytesPerSecond = 5e9, kMacsPerSecond = 5e9;

/* What a plan and its execution take beside constants and intermediate results: some 30 KB were measured. */
enum { kProgramBytes = 32 << 10 };

static size_t output_bytes(const fpga_output *output) {
  size_t bytes = braid_dtype_size(fpga_dtype(output->dtype));
  for (int i = 0; i < output->rank; i++) bytes *= (size_t)output->dims[i];
  return bytes;
}

static bool is_brief(const fpga_build *build, const fpga_program *program) {
  double bytes = 0, macs = 0;
  for (size_t i = 0; i < build->input_count; i++) bytes += (double)braid_desc_bytes(&build->inputs[i].desc);
  for (size_t i = 0; i < program->output_count; i++) bytes += (double)program->output_bytes[i];
  for (size_t i = 0; i < braid_graph_node_count(build->graph); i++)
    macs += (double)braid_graph_node_macs(build->graph, (braid_node_id)i);
  return bytes / kBytesPerSecond + macs / kMacsPerSecond <= kBriefSeconds;
}

static bool is_plain(const braid_layout *layouts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (layouts[i] != BRAID_LAYOUT_PLAIN) return false;
  return true;
}

/* Outputs that are computed, in the order of the graph's; what they are called in the op. */
static braid_status add_results(fpga_build *build, fpga_program *program, braid_layout *layouts) {
  for (size_t i = 0; i < build->output_count; i++) {
    if (!build->given[i]) return braid_fail(BRAID_INTERNAL, "output %zu was not made", i);
    program->share[i] = build->share[i];
    program->outputs[i] = build->outputs[i];
    program->output_bytes[i] = output_bytes(&build->outputs[i]);
    if (build->share[i] >= 0) continue;
    if (!program->output_bytes[i]) continue;
    layouts[program->result_count] = build->result_layouts[i];
    program->results[program->result_count++] = (int)i;
    braid_status status = braid_graph_add_output(build->graph, build->results[i]);
    if (status != BRAID_OK) return status;
  }
  program->nothing = program->result_count == 0;
  return BRAID_OK;
}

/* The device had no kernel for a part, and the CPU, which follows it in the machine's list, takes it: said once. */
static void tell_fallback(const fpga_device *device, const fpga_op *op, const braid_plan *plan) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct {
    const fpga_op *op;
    const fpga_device *device;
  } told[128];
  static size_t count;
  for (size_t i = 0; i < braid_plan_line_count(plan); i++) {
    braid_plan_line line = braid_plan_get_line(plan, i);
    if (strcmp(line.device, "cpu") != 0 || strcmp(line.op, "LayoutConvert") == 0) continue;
    bool known = false;
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < count; k++) known |= told[k].op == op && told[k].device == device;
    if (!known && count < sizeof told / sizeof *told) told[count].op = op, told[count++].device = device;
    pthread_mutex_unlock(&lock);
    if (!known)
      fpga_log(FPGA_WARNING, "FPGA:%d (%s) leaves %s of TensorFlow's %s to the CPU: %s", device->ordinal, device->spec,
               line.op, op->name, line.why);
    return;
  }
}

static braid_status make_plan(fpga_device *device, const fpga_op *op, fpga_build *build, fpga_program *program) {
  braid_layout results[FPGA_MAX_OPERANDS];
  braid_status status = add_results(build, program, results);
  if (status != BRAID_OK || program->nothing) return status;
  program->port_count = build->port_count;
  memcpy(program->ports, build->ports, build->port_count * sizeof *program->ports);
  braid_plan_options options = {.callers_thread = true};
  if (!is_plain(build->port_layouts, build->port_count)) options.input_layouts = build->port_layouts;
  if (!is_plain(results, program->result_count)) options.output_layouts = results;
  status = braid_plan_create(device->machine, build->graph, &options, &program->plan);
  if (status != BRAID_OK) return status;
  if (!fpga_device_is_cpu(device->spec)) tell_fallback(device, op, program->plan);
  status = braid_resolve(build->graph);
  if (status == BRAID_OK) program->brief = is_brief(build, program);
  if (status == BRAID_OK) status = braid_weights_create(device->machine, &program->weights);
  if (status == BRAID_OK) status = braid_execution_create(program->plan, program->weights, &program->execution);
  if (status == BRAID_OK)
    program->bytes += (int64_t)(braid_plan_arena_bytes(program->plan) + braid_weights_bytes(program->weights));
  return status;
}

/* With room for as many operands as the op has: most have a few, and some hundreds. */
static fpga_program *program_allocate(const fpga_build *build) {
  size_t outputs = build->output_count, ports = build->port_count;
  size_t each = sizeof(fpga_output) + sizeof(size_t) + 2 * sizeof(int);
  fpga_program *program = calloc(1, sizeof *program + outputs * each + ports * sizeof(int));
  if (!program) return NULL;
  program->outputs = (fpga_output *)(program + 1);
  program->output_bytes = (size_t *)(program->outputs + outputs);
  program->results = (int *)(program->output_bytes + outputs);
  program->share = program->results + outputs;
  program->ports = program->share + outputs;
  return program;
}

braid_status fpga_program_create(fpga_device *device, const fpga_op *op, fpga_build *build, fpga_program **out) {
  *out = NULL;
  build->status = braid_graph_create(NULL, op->name, &build->graph);
  if (build->status != BRAID_OK) return build->status;
  op->build(build);
  fpga_program *program = NULL;
  braid_status status = build->status;
  if (status == BRAID_OK && !(program = program_allocate(build))) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    program->device = device;
    program->users = 1;
    program->bytes = kProgramBytes;
    program->output_count = build->output_count;
    program->divisor = build->divisor;
    if (build->divisor >= 0) program->divisor_count = braid_desc_count(&build->inputs[build->divisor].desc);
    pthread_mutex_init(&program->lock, NULL);
    status = make_plan(device, op, build, program);
  }
  braid_graph_destroy(build->graph);
  if (status == BRAID_OK)
    *out = program;
  else if (program)
    fpga_program_release(program);
  return status == BRAID_OK ? status
                            : braid_fail_prefix(status, "FPGA:%d (%s): %s", device->ordinal, device->spec, op->name);
}

void fpga_program_release(fpga_program *program) {
  if (!program || __atomic_sub_fetch(&program->users, 1, __ATOMIC_ACQ_REL)) return;
  if (program->counted) fpga_memory_let_go(program->device->memory, program->bytes);
  braid_execution_destroy(program->execution);
  braid_weights_release(program->weights);
  braid_plan_release(program->plan);
  pthread_mutex_destroy(&program->lock);
  free(program->key);
  free(program);
}

static braid_status check_divisor(const fpga_program *program, const int64_t *divisor) {
  for (int64_t i = 0; i < program->divisor_count; i++)
    if (divisor[i] == 0) return braid_fail(BRAID_INVALID_ARGUMENT, "Integer division by zero");
  return BRAID_OK;
}

braid_status fpga_program_run(fpga_program *program, const void *const *inputs, void *const *outputs) {
  static const int64_t kNothing[4]; /* where TensorFlow has no memory for a tensor without elements */
  const void *from[FPGA_MAX_OPERANDS];
  void *to[FPGA_MAX_OPERANDS];
  if (program->nothing) return BRAID_OK;
  if (program->divisor >= 0) {
    braid_status divisor = check_divisor(program, inputs[program->divisor]);
    if (divisor != BRAID_OK) return divisor;
  }
  for (size_t i = 0; i < program->port_count; i++) {
    const void *given = inputs[program->ports[i]];
    from[i] = given ? given : kNothing;
  }
  for (size_t i = 0; i < program->result_count; i++) to[i] = outputs[program->results[i]];
  pthread_mutex_lock(&program->lock);
  braid_status status = braid_execution_run(program->execution, from, to);
  pthread_mutex_unlock(&program->lock);
  return status;
}
