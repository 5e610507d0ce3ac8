/* Conformance: one kernel for one node. All operands lie in one piece of memory with guards between them; everything
 * but the results and the workspace must come back as it was. What a kernel may not rely on (results before they are
 * written, the workspace, constants after prepare) is full of NaN, a different one at each place. */
#include <string.h>

#include "device/conformance.h"
#include "tensor/layout.h"

enum { kGuard = 256 };
enum { CALL_WRITE, CALL_KERNEL, CALL_READ, CALL_TASKS };

/* How a binding says where an operand lies. On unified memory the runtime gives an address, with buffer and offset
 * beside it where the address is a buffer's; transfers between devices give buffer and offset alone. */
typedef enum address_form { BUFFER_ALONE, BUFFER_AND_HOST, HOST_ALONE, FORMS } address_form;

/* NaN in every floating-point type, whatever the alignment to four bytes. */
static void spoil(uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) bytes[i] = i % 4 ? 0xff : (uint8_t)(i / 4 * 151 >> 1);
}

/* A call of the kernel. On the heap, because a hung one may come back to it. */
typedef struct call {
  braid_task
      tasks[CALL_TASKS]; /* the image goes there, the kernel works, all is read by another queue, which waits for it */
  braid_queue *in[CALL_TASKS]; /* where it was submitted; NULL: it was not */
  braid_point wait;
  braid_verdict verdict;
  braid_binding bindings[kTrialOperands + 1];
  uint32_t data;
  address_form form;
  size_t bytes;              /* of the whole piece */
  uint8_t *image, *got;      /* before and after */
  void *buffer;              /* of the device; NULL with HOST_ALONE */
  uint8_t *host, *host_base; /* HOST_ALONE: where `bytes` lie, and the block around */
} call;

struct braid_trial_run {
  const braid_trial *trial;
  const braid_kernel *kernel;
  braid_trial_way way;
  braid_node_desc node;
  braid_operand operands[kTrialOperands];
  void *constants[kTrialOperands]; /* copies for prepare */
  void *prepared;
  braid_prepared_info info;
  bool asked; /* the device has query */
  braid_query query;
  void *packed[BRAID_PACKINGS];
  uint32_t calls;
};

bool braid_trial_may_share(const braid_trial *trial, size_t output, size_t input) {
  const braid_operand *in = &trial->operands[input], *out = &trial->operands[trial->node.input_count + output];
  return in->present && out->present && !in->constant && braid_layout_same_places(&in->desc, &out->desc);
}

/* The number of the packing that stands in place of the operand; BRAID_PACKINGS: none does. */
static uint32_t packing_of(const braid_trial_run *run, size_t operand) {
  for (uint32_t i = 0; i < run->query.packing_count; i++)
    if (run->query.packings[i].input == operand) return i;
  return BRAID_PACKINGS;
}

static bool is_folded(const braid_trial_run *run, size_t operand) {
  return operand < 32 && operand < run->node.input_count && (run->info.constants_folded >> operand & 1);
}

/* --- prepare -------------------------------------------------------------------------------------------------------
 */
static bool choose_layouts(braid_suite *suite, braid_trial_run *run, char *detail) {
  const braid_backend *backend = suite->backend;
  size_t inputs = run->node.input_count, count = inputs + run->node.output_count;
  braid_layout layouts[kTrialOperands];
  if (!run->kernel->layouts && !backend->layouts) return true;
  for (size_t i = 0; i < count; i++) {
    bool image = i < inputs && run->operands[i].present && !run->operands[i].constant && run->operands[i].desc.rank > 2;
    layouts[i] = image ? run->way.delivered : run->operands[i].desc.layout;
    run->operands[i].desc.layout = layouts[i];
  }
  if (run->kernel->layouts) run->kernel->layouts(&run->node, layouts, layouts + inputs);
  if (backend->layouts) backend->layouts(suite->self, run->kernel, &run->node, layouts, layouts + inputs);
  for (size_t i = 0; i < count; i++) {
    if (!run->operands[i].present) continue;
    SUITE_CHECK(braid_desc_set_layout(&run->operands[i].desc, layouts[i]) == BRAID_OK, "asks for a layout: %s",
                braid_error_detail());
  }
  return true;
}

/* Nobody puts a result over an input that lies in another layout. */
static void keep_apart(braid_trial_run *run) {
  for (size_t i = 0; i < run->node.output_count && i < 4; i++) {
    int over = run->way.over[i];
    if (over >= 0 && !braid_layout_same_places(&run->node.inputs[over].desc, &run->node.outputs[i].desc))
      run->way.over[i] = -1;
  }
}

static bool copy_constants(braid_trial_run *run, char *detail) {
  for (size_t i = 0; i < run->node.input_count; i++) {
    braid_operand *operand = &run->operands[i];
    if (run->way.constants && i > 0 && operand->present) operand->constant = run->trial;
    if (!operand->constant) continue;
    const braid_tensor *tensor = run->trial->data[0][i];
    size_t bytes = braid_desc_bytes(braid_tensor_desc(tensor));
    run->constants[i] = braid_alloc(NULL, bytes + 1);
    SUITE_CHECK(run->constants[i], "no memory for constants");
    memcpy(run->constants[i], braid_tensor_const_data(tensor), bytes);
    operand->constant = run->constants[i];
  }
  return true;
}

/* After prepare only what is bound may be read. */
static void spoil_constants(braid_trial_run *run) {
  for (size_t i = 0; i < run->node.input_count; i++) {
    if (!run->constants[i]) continue;
    spoil(run->constants[i], braid_desc_bytes(braid_tensor_desc(run->trial->data[0][i])));
    run->operands[i].constant = NULL;
  }
}

/* What a query says must hold without a look at what will be packed, and be what prepare says. */
static bool device_ask(braid_suite *suite, braid_trial_run *run, char *detail) {
  const braid_backend *backend = suite->backend;
  braid_query again = {0};
  run->asked = backend->query != NULL;
  if (!run->asked) return true;
  SUITE_CHECK(backend->query(suite->self, run->kernel, &run->node, &run->query) == BRAID_OK,
              "query refuses what match accepts: %s", braid_error_detail());
  SUITE_CHECK(run->query.packing_count <= BRAID_PACKINGS, "query lists %u packings", run->query.packing_count);
  SUITE_CHECK(!run->query.packing_count || backend->pack, "query lists packings, and there is no pack");
  for (uint32_t i = 0; i < run->query.packing_count; i++) {
    uint32_t input = run->query.packings[i].input;
    SUITE_CHECK(input < run->node.input_count && run->constants[input], "query packs input %u, which is no constant",
                input);
    spoil(run->constants[input], braid_desc_bytes(&run->operands[input].desc));
  }
  run->node.packed = run->query.packing_count > 0;
  SUITE_CHECK(backend->query(suite->self, run->kernel, &run->node, &again) == BRAID_OK, "query: %s",
              braid_error_detail());
  bool same = again.workspace_bytes == run->query.workspace_bytes && again.packing_count == run->query.packing_count;
  for (uint32_t i = 0; same && i < again.packing_count; i++) {
    const braid_packing *one = &run->query.packings[i], *other = &again.packings[i];
    same = one->input == other->input && one->bytes == other->bytes && one->key == other->key;
  }
  SUITE_CHECK(same, "a second query says something else");
  return true;
}

static bool pack_constants(braid_suite *suite, braid_trial_run *run, char *detail) {
  for (uint32_t i = 0; i < run->query.packing_count; i++) {
    const braid_packing *packing = &run->query.packings[i];
    const void *plain = braid_tensor_const_data(run->trial->data[0][packing->input]);
    run->packed[i] = braid_alloc(NULL, packing->bytes);
    SUITE_CHECK(run->packed[i], "no memory for %zu bytes", packing->bytes);
    spoil(run->packed[i], packing->bytes);
    braid_status status = suite->backend->pack(suite->self, run->prepared, packing->input, plain, run->packed[i]);
    SUITE_CHECK(status == BRAID_OK, "pack: %s", braid_error_detail());
  }
  return true;
}

static bool check_prepared(const braid_trial_run *run, char *detail) {
  SUITE_CHECK(!run->asked || run->query.workspace_bytes == run->info.workspace_bytes,
              "query says %zu bytes of workspace, prepare %zu", run->query.workspace_bytes, run->info.workspace_bytes);
  SUITE_CHECK(!run->node.packed || !run->info.constants_folded, "folds a constant that is to be bound packed");
  for (size_t i = 0; i < 32; i++) {
    if (!(run->info.constants_folded >> i & 1)) continue;
    SUITE_CHECK(i < run->node.input_count && run->constants[i], "says that it folded input %zu, which is no constant",
                i);
  }
  return true;
}

bool braid_trial_prepare(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel,
                         const braid_trial_way *way, braid_trial_run **out, char *detail) {
  braid_trial_run *run = *out = braid_zalloc(NULL, sizeof *run);
  SUITE_CHECK(run, "no memory for the case");
  *run = (braid_trial_run){.trial = trial, .kernel = kernel, .way = *way, .node = trial->node};
  memcpy(run->operands, trial->operands, sizeof run->operands);
  run->node.inputs = run->operands;
  run->node.outputs = run->operands + run->node.input_count;
  if (!copy_constants(run, detail) || !choose_layouts(suite, run, detail)) return false;
  keep_apart(run);
  if (!device_ask(suite, run, detail)) return false;
  braid_status status = suite->backend->prepare(suite->self, kernel, &run->node, &run->prepared, &run->info);
  if (status != BRAID_OK) run->prepared = NULL;
  SUITE_CHECK(status == BRAID_OK, "prepare refuses what match accepts: %s: %s", braid_status_text(status),
              braid_error_detail());
  if (!pack_constants(suite, run, detail)) return false;
  spoil_constants(run);
  return check_prepared(run, detail);
}

void braid_trial_discard(braid_suite *suite, braid_trial_run *run) {
  if (!run || suite->stopped) return;
  if (run->prepared) suite->backend->discard(suite->self, run->prepared);
  for (size_t i = 0; i < kTrialOperands; i++) braid_free(NULL, run->constants[i]);
  for (uint32_t i = 0; i < BRAID_PACKINGS; i++) braid_free(NULL, run->packed[i]);
  braid_free(NULL, run);
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */
static int lies_over(const braid_trial_run *run, size_t operand) {
  size_t inputs = run->node.input_count;
  return operand >= inputs && operand - inputs < 4 ? run->way.over[operand - inputs] : -1;
}

static size_t bytes_of(const braid_trial_run *run, size_t operand) {
  size_t operands = run->node.input_count + run->node.output_count;
  if (operand == operands) return run->info.workspace_bytes;
  if (packing_of(run, operand) < BRAID_PACKINGS) return run->query.packings[packing_of(run, operand)].bytes;
  return run->operands[operand].present ? braid_desc_bytes(&run->operands[operand].desc) : 0;
}

/* Where operands lie in the piece; they move from call to call. */
static void place_operands(const braid_suite *suite, const braid_trial_run *run, call *c) {
  size_t operands = run->node.input_count + run->node.output_count, end = kGuard;
  for (size_t i = 0; i <= operands; i++) {
    braid_binding *binding = &c->bindings[i];
    bool present = i == operands ? run->info.workspace_bytes > 0 : run->operands[i].present;
    *binding = (braid_binding){.bytes = bytes_of(run, i)};
    if (!present || is_folded(run, i)) continue;
    int over = lies_over(run, i);
    bool packed = packing_of(run, i) < BRAID_PACKINGS;
    size_t twin = i < run->node.input_count && !packed ? run->trial->same[i] : i;
    if (over >= 0 || twin != i) {
      *binding = c->bindings[over >= 0 ? (size_t)over : twin];
      continue;
    }
    size_t alignment = suite->info->alignment;
    if (c->form == HOST_ALONE && i < operands && !packed) { /* no better aligned than it must be */
      size_t element = braid_dtype_size(run->operands[i].desc.dtype), host = suite->info->host_alignment;
      size_t step = element > host ? element : host;
      binding->offset = braid_suite_align(end, 2 * step) + step;
    } else {
      binding->offset = braid_suite_align(end, alignment) + alignment * ((run->calls + i) % 3);
    }
    end = binding->offset + binding->bytes + kGuard;
  }
  c->bytes = end;
}

static bool is_placed(const braid_trial_run *run, size_t operand) {
  size_t operands = run->node.input_count + run->node.output_count;
  if (operand == operands) return run->info.workspace_bytes > 0;
  return run->operands[operand].present && !is_folded(run, operand);
}

static bool fill_image(const braid_trial_run *run, call *c, char *detail) {
  c->image = braid_alloc(NULL, c->bytes);
  c->got = braid_alloc(NULL, c->bytes);
  SUITE_CHECK(c->image && c->got, "no memory for %zu bytes", c->bytes);
  spoil(c->image, c->bytes);
  for (size_t i = 0; i < run->node.input_count; i++)
    if (packing_of(run, i) < BRAID_PACKINGS)
      memcpy(c->image + c->bindings[i].offset, run->packed[packing_of(run, i)], bytes_of(run, i));
    else if (is_placed(run, i))
      braid_layout_pack(&run->operands[i].desc,
                        braid_tensor_const_data(run->trial->data[run->constants[i] ? 0 : c->data][i]),
                        c->image + c->bindings[i].offset);
  return true;
}

/* The image goes to where the device finds it, and the bindings say where that is. */
static bool place_image(braid_suite *suite, const braid_trial_run *run, call *c, char *detail) {
  uint8_t *base = NULL;
  if (c->form == HOST_ALONE) {
    size_t alignment = suite->info->alignment > kGuard ? suite->info->alignment : kGuard; /* offsets mean it, too */
    c->host_base = braid_alloc(NULL, c->bytes + 2 * alignment);
    SUITE_CHECK(c->host_base, "no memory for %zu bytes", c->bytes);
    c->host = c->host_base + (-(uintptr_t)c->host_base & (alignment - 1));
    memcpy(base = c->host, c->image, c->bytes);
  } else {
    SUITE_CHECK(suite->backend->buffer_create(suite->self, c->bytes, &c->buffer) == BRAID_OK, "buffer: %s",
                braid_error_detail());
    if (c->form == BUFFER_AND_HOST) base = suite->backend->buffer_map(suite->self, c->buffer);
  }
  size_t operands = run->node.input_count + run->node.output_count;
  for (size_t i = 0; i <= operands; i++) {
    braid_binding *binding = &c->bindings[i];
    if (!is_placed(run, i)) {
      *binding = (braid_binding){0};
      continue;
    }
    binding->buffer = c->buffer;
    if (base) binding->host = base + binding->offset;
    if (c->form == HOST_ALONE) binding->offset = 0;
  }
  return true;
}

/* --- a call --------------------------------------------------------------------------------------------------------
 */
static void call_free(braid_suite *suite, call *c) {
  if (!c || suite->stopped) return;
  if (c->buffer) suite->backend->buffer_destroy(suite->self, c->buffer);
  braid_free(NULL, c->host_base);
  braid_free(NULL, c->image);
  braid_free(NULL, c->got);
  braid_free(NULL, c);
}

static bool submit_one(call *c, int which, braid_queue *queue, char *detail) {
  c->tasks[which].verdict = &c->verdict;
  SUITE_CHECK(braid_queue_submit(queue, &c->tasks[which]) == BRAID_OK, "submit: %s", braid_error_detail());
  c->in[which] = queue;
  braid_queue_flush(queue);
  return true;
}

/* The task waits for one that was submitted. */
static void await_one(call *c, int which, int other) {
  c->wait = braid_queue_point(c->in[other], &c->tasks[other]);
  c->tasks[which].waits = &c->wait;
  c->tasks[which].wait_count = 1;
}

/* `gate`: what the first task waits for; NULL: nothing. */
static bool submit_all(braid_suite *suite, const braid_trial_run *run, call *c, braid_queue *queue,
                       const braid_point *gate, char *detail) {
  const braid_binding whole = {.buffer = c->buffer, .bytes = c->bytes};
  c->tasks[CALL_WRITE] =
      (braid_task){.kind = BRAID_TASK_WRITE, .label = "conformance", .target = whole, .host = c->image};
  c->tasks[CALL_KERNEL] = (braid_task){.kind = BRAID_TASK_KERNEL,
                                       .label = run->kernel->name,
                                       .prepared = run->prepared,
                                       .bindings = c->bindings,
                                       .input_count = run->node.input_count,
                                       .output_count = run->node.output_count};
  c->tasks[CALL_READ] = (braid_task){.kind = BRAID_TASK_READ, .label = "conformance", .source = whole, .host = c->got};
  braid_task *first = &c->tasks[c->form == HOST_ALONE ? CALL_KERNEL : CALL_WRITE];
  first->waits = gate;
  first->wait_count = gate != NULL;
  if (c->form == HOST_ALONE) return submit_one(c, CALL_KERNEL, queue, detail);
  if (!submit_one(c, CALL_WRITE, queue, detail) || !submit_one(c, CALL_KERNEL, queue, detail)) return false;
  await_one(c, CALL_READ, CALL_KERNEL);
  return submit_one(c, CALL_READ, queue == suite->queue ? suite->second : suite->queue, detail);
}

static bool call_start(braid_suite *suite, braid_trial_run *run, uint32_t data, braid_queue *queue,
                       const braid_point *gate, call **out, char *detail) {
  call *c = *out = braid_zalloc(NULL, sizeof *c);
  SUITE_CHECK(c, "no memory for the case");
  c->data = data;
  if (suite->info->memory == BRAID_MEMORY_UNIFIED) c->form = (address_form)(run->calls % FORMS);
  run->calls++;
  place_operands(suite, run, c);
  return fill_image(run, c, detail) && place_image(suite, run, c, detail) &&
         submit_all(suite, run, c, queue, gate, detail);
}

/* Waits for what was submitted, all of it. */
static bool call_wait(braid_suite *suite, call *c, char *detail) {
  static const char *const kNames[CALL_TASKS] = {"write: ", "", "read: "};
  braid_status status = BRAID_OK;
  for (int i = 0; c && i < CALL_TASKS && !suite->stopped; i++)
    if (c->in[i]) status = braid_suite_wait(suite, c->in[i], &c->tasks[i]);
  if (status == BRAID_OK) return true;
  const char *name = c->verdict.task ? kNames[c->verdict.task - c->tasks] : "";
  return braid_suite_fail(detail, "%s%s: %s", name, braid_status_text(status), braid_error_detail());
}

/* All but the results and the workspace is as it was. */
static bool check_around(const braid_trial_run *run, call *c, const size_t *offsets, char *detail) {
  size_t operands = run->node.input_count + run->node.output_count;
  for (size_t i = run->node.input_count; i <= operands; i++)
    if (is_placed(run, i)) memcpy(c->image + offsets[i], c->got + offsets[i], bytes_of(run, i));
  if (memcmp(c->image, c->got, c->bytes) == 0) return true;
  size_t at = 0, nearest = 0;
  while (c->image[at] == c->got[at]) at++;
  for (size_t i = 0; i <= operands; i++)
    if (is_placed(run, i) && offsets[i] <= at && offsets[i] >= offsets[nearest]) nearest = i;
  if (is_placed(run, nearest) && nearest < run->node.input_count && at - offsets[nearest] < bytes_of(run, nearest))
    return braid_suite_fail(detail, "changes its input %zu", nearest);
  return braid_suite_fail(detail, "writes outside of its operands, %lld bytes after the beginning of %s %zu",
                          (long long)at - (long long)offsets[nearest],
                          nearest < run->node.input_count ? "input"
                          : nearest < operands            ? "output"
                                                          : "workspace, operand",
                          nearest < run->node.input_count ? nearest : nearest - run->node.input_count);
}

static bool check_results(const braid_trial_run *run, call *c, const size_t *offsets, char *detail) {
  for (size_t i = 0; i < run->node.output_count; i++) {
    size_t operand = run->node.input_count + i;
    if (run->operands[operand].present &&
        !braid_trial_compare(run->trial, &run->operands[operand].desc, i, c->data, c->got + offsets[operand], detail))
      return false;
  }
  return true;
}

static bool call_check(const braid_suite *suite, const braid_trial_run *run, call *c, char *detail) {
  if (c->form == HOST_ALONE) memcpy(c->got, c->host, c->bytes);
  if (suite->info->modelled) return true;
  size_t offsets[kTrialOperands + 1], operands = run->node.input_count + run->node.output_count;
  for (size_t i = 0; i <= operands; i++) {
    const braid_binding *binding = &c->bindings[i];
    bool address = c->form == HOST_ALONE && binding->host;
    offsets[i] = address ? (size_t)((uint8_t *)binding->host - c->host) : binding->offset;
  }
  return check_results(run, c, offsets, detail) && check_around(run, c, offsets, detail);
}

bool braid_trial_execute(braid_suite *suite, braid_trial_run *run, braid_trial_run *other, uint32_t data,
                         char *detail) {
  call *own = NULL, *beside = NULL;
  char unseen[kSuiteDetail] = "";
  bool kept = !other || call_start(suite, other, 0, suite->second, NULL, &beside, unseen);
  bool passed = call_start(suite, run, data, suite->queue, NULL, &own, detail);
  passed = call_wait(suite, own, passed ? detail : unseen) && passed;
  if (other && !suite->stopped) kept = call_wait(suite, beside, unseen) && kept;
  if (suite->stopped) return false;
  if (passed) passed = call_check(suite, run, own, detail);
  if (passed && other) kept = kept && call_check(suite, other, beside, unseen);
  if (passed && !kept)
    passed = braid_suite_fail(detail, "beside another kernel, an earlier one goes wrong: %.500s", unseen);
  call_free(suite, own);
  call_free(suite, beside);
  return passed;
}

bool braid_trial_share(braid_suite *suite, braid_trial_run *run, char *detail) {
  call *calls[BRAID_SAMPLE_DATA] = {NULL};
  char unseen[kSuiteDetail];
  braid_point gate = {NULL, 1}; /* nothing begins before all is there */
  SUITE_CHECK(braid_timeline_create(NULL, &gate.timeline) == BRAID_OK, "no memory for the case");
  bool passed = true;
  for (uint32_t i = 0; passed && i < BRAID_SAMPLE_DATA; i++)
    passed = call_start(suite, run, i, suite->queue, &gate, &calls[i], detail);
  braid_timeline_raise(gate.timeline, 1);
  for (uint32_t i = 0; i < BRAID_SAMPLE_DATA; i++)
    passed = call_wait(suite, calls[i], passed ? detail : unseen) && passed;
  if (suite->stopped) return false;
  for (uint32_t i = 0; passed && i < BRAID_SAMPLE_DATA; i++) {
    passed = call_check(suite, run, calls[i], unseen);
    if (!passed) (void)braid_suite_fail(detail, "shared by two tasks, goes wrong: %.500s", unseen);
  }
  for (uint32_t i = 0; i < BRAID_SAMPLE_DATA; i++) call_free(suite, calls[i]);
  braid_timeline_destroy(gate.timeline);
  return passed;
}

/* --- what it must refuse, and wait for -----------------------------------------------------------------------------
 */
bool braid_trial_overrun(braid_suite *suite, braid_trial_run *run, char *detail) {
  call *c = braid_zalloc(NULL, sizeof *c);
  SUITE_CHECK(c, "no memory for the case");
  size_t output = run->node.input_count;
  char unseen[kSuiteDetail];
  place_operands(suite, run, c);
  bool passed = fill_image(run, c, detail) && place_image(suite, run, c, detail);
  bool possible = passed && run->node.output_count && is_placed(run, output) && c->bindings[output].bytes;
  if (possible) {
    size_t alignment = suite->info->alignment;
    c->bindings[output].offset = braid_suite_align(c->bytes - c->bindings[output].bytes + 1, alignment);
    bool submitted = submit_all(suite, run, c, suite->queue, NULL, unseen);
    bool ended = call_wait(suite, c, unseen);
    if (!suite->stopped && submitted && ended)
      passed = braid_suite_fail(detail, "succeeds although output 0 reaches beyond its buffer");
  }
  call_free(suite, c);
  return passed && !suite->stopped;
}

/* The image is not there until another queue has brought it, and that waits for the host. */
bool braid_trial_await(braid_suite *suite, braid_trial_run *run, char *detail) {
  call *c = braid_zalloc(NULL, sizeof *c);
  braid_timeline *gate = NULL;
  SUITE_CHECK(c && braid_timeline_create(NULL, &gate) == BRAID_OK, "no memory for the case");
  place_operands(suite, run, c);
  bool passed = fill_image(run, c, detail) && place_image(suite, run, c, detail);
  const braid_binding whole = {.buffer = c->buffer, .bytes = c->bytes};
  c->tasks[CALL_WRITE] = (braid_task){.kind = BRAID_TASK_WRITE,
                                      .label = "conformance",
                                      .target = whole,
                                      .host = c->image,
                                      .waits = &(const braid_point){gate, 1},
                                      .wait_count = 1};
  c->tasks[CALL_KERNEL] = (braid_task){.kind = BRAID_TASK_KERNEL,
                                       .label = run->kernel->name,
                                       .prepared = run->prepared,
                                       .bindings = c->bindings,
                                       .input_count = run->node.input_count,
                                       .output_count = run->node.output_count};
  c->tasks[CALL_READ] = (braid_task){.kind = BRAID_TASK_READ, .label = "conformance", .source = whole, .host = c->got};
  passed = passed && submit_one(c, CALL_WRITE, suite->second, detail);
  if (passed) await_one(c, CALL_KERNEL, CALL_WRITE);
  passed = passed && submit_one(c, CALL_KERNEL, suite->queue, detail) && submit_one(c, CALL_READ, suite->queue, detail);
  braid_suite_linger();
  if (passed && braid_queue_ended(suite->queue, &c->tasks[CALL_KERNEL]))
    passed = braid_suite_fail(detail, "does not wait for what it names");
  braid_timeline_raise(gate, 1);
  char unseen[kSuiteDetail];
  passed = call_wait(suite, c, passed ? detail : unseen) && passed;
  if (suite->stopped) return false;
  if (passed) passed = call_check(suite, run, c, detail);
  call_free(suite, c);
  braid_timeline_destroy(gate);
  return passed;
}
