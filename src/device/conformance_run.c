/* Conformance: one kernel for one node. All operands lie in one piece of memory with guards between them; everything
 * but the results and the workspace must come back as it was. What a kernel may not rely on (results before they are
 * written, the workspace, constants after prepare) is spoilt, differently at each place. */
#include <string.h>

#include "device/conformance_trial.h"
#include "tensor/layout.h"

enum { kGuard = 256 };
enum { CALL_WRITE, CALL_KERNEL, CALL_READ, CALL_TASKS };

/* How a binding says where an operand lies. On unified memory the runtime gives an address, with buffer and offset
 * beside it where the address is a buffer's; transfers between devices give buffer and offset alone. */
typedef enum address_form { BUFFER_ALONE, BUFFER_AND_HOST, HOST_ALONE, FORMS } address_form;

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

/* --- memory --------------------------------------------------------------------------------------------------------
 * The number of the packing that stands in place of the operand; kTrialOperands: none does. */
static size_t packing_of(const braid_trial_run *run, size_t operand) {
  for (size_t i = 0; i < run->needs.packing_count; i++)
    if (run->needs.packings[i].input == operand) return i;
  return kTrialOperands;
}

static bool is_folded(const braid_trial_run *run, size_t operand) {
  return operand < 32 && operand < run->node.input_count && (run->info.constants_folded >> operand & 1);
}

static int lies_over(const braid_trial_run *run, size_t operand) {
  size_t inputs = run->node.input_count;
  return operand >= inputs && operand - inputs < 4 ? run->way.over[operand - inputs] : -1;
}

static size_t bytes_of(const braid_trial_run *run, size_t operand) {
  size_t operands = run->node.input_count + run->node.output_count;
  if (operand == operands) return run->info.workspace_bytes;
  if (packing_of(run, operand) < kTrialOperands) return run->needs.packings[packing_of(run, operand)].bytes;
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
    bool packed = packing_of(run, i) < kTrialOperands;
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
  braid_suite_spoil(c->image, c->bytes, run->calls % 2 ? BRAID_SPOIL_NAN : BRAID_SPOIL_LARGE); /* first NaN */
  for (size_t i = 0; i < run->node.input_count; i++)
    if (packing_of(run, i) < kTrialOperands)
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

/* `gate`: what the kernel waits for, with another call, which may not stand behind this one's read in its queue; NULL:
 * nothing but its image. */
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
  c->tasks[CALL_KERNEL].waits = gate;
  c->tasks[CALL_KERNEL].wait_count = gate != NULL;
  if (c->form == HOST_ALONE) return submit_one(c, CALL_KERNEL, queue, detail);
  if (!submit_one(c, CALL_WRITE, queue, detail) || !submit_one(c, CALL_KERNEL, queue, detail)) return false;
  if (gate) return submit_one(c, CALL_READ, queue, detail);
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

/* Of a call that failed, as it should, the results are of no account. */
static bool call_check(const braid_suite *suite, const braid_trial_run *run, call *c, bool failed, char *detail) {
  if (c->form == HOST_ALONE) memcpy(c->got, c->host, c->bytes);
  if (suite->info->modelled) return true;
  size_t offsets[kTrialOperands + 1], operands = run->node.input_count + run->node.output_count;
  for (size_t i = 0; i <= operands; i++) {
    const braid_binding *binding = &c->bindings[i];
    bool address = c->form == HOST_ALONE && binding->host;
    offsets[i] = address ? (size_t)((uint8_t *)binding->host - c->host) : binding->offset;
  }
  return (failed || check_results(run, c, offsets, detail)) && check_around(run, c, offsets, detail);
}

bool braid_trial_execute(braid_suite *suite, braid_trial_run *run, uint32_t data, char *detail) {
  call *c = NULL;
  char unseen[kSuiteDetail];
  bool passed = call_start(suite, run, data, suite->queue, NULL, &c, detail);
  passed = call_wait(suite, c, passed ? detail : unseen) && passed;
  if (suite->stopped) return false;
  if (passed) passed = call_check(suite, run, c, false, detail);
  if (!passed) braid_suite_linger(); /* one that said too early that it is done still needs the memory */
  call_free(suite, c);
  return passed;
}

/* --- many times ----------------------------------------------------------------------------------------------------
 * Inputs alternate, and the results of every run have a place of their own, so that a run that does nothing is seen. */
enum { kRuns = 260 /* more than a byte counts */, kFewRuns = 16, kMostResults = 1 << 20 };

/* On the heap, because a hung task may come back to it. */
typedef struct repetition {
  call *calls[BRAID_SAMPLE_DATA];
  braid_binding bindings[kTrialOperands + 1];
  size_t offsets[kTrialOperands]; /* of the outputs of one run */
  size_t stride, bytes;
  uint32_t runs;
  void *buffer;
  uint8_t *results;
} repetition;

static bool repetition_init(braid_suite *suite, braid_trial_run *run, repetition *r, char *detail) {
  for (uint32_t data = 0; data < BRAID_SAMPLE_DATA; data++) {
    call *c = r->calls[data] = braid_zalloc(NULL, sizeof *c);
    SUITE_CHECK(c, "no memory for the case");
    c->data = data;
    run->calls++;
    place_operands(suite, run, c);
    if (!fill_image(run, c, detail) || !place_image(suite, run, c, detail)) return false;
    SUITE_CHECK(braid_suite_write(suite, c->buffer, 0, c->image, c->bytes) == BRAID_OK, "write: %s",
                braid_error_detail());
  }
  r->bytes = r->runs * r->stride;
  r->results = braid_alloc(NULL, r->bytes);
  SUITE_CHECK(r->results, "no memory for %zu bytes", r->bytes);
  braid_suite_spoil(r->results, r->bytes, BRAID_SPOIL_NAN);
  SUITE_CHECK(suite->backend->buffer_create(suite->self, r->bytes, &r->buffer) == BRAID_OK &&
                  braid_suite_write(suite, r->buffer, 0, r->results, r->bytes) == BRAID_OK,
              "buffer: %s", braid_error_detail());
  return true;
}

static bool repeat_once(braid_suite *suite, const braid_trial_run *run, repetition *r, uint32_t i, char *detail) {
  size_t inputs = run->node.input_count;
  memcpy(r->bindings, r->calls[i % BRAID_SAMPLE_DATA]->bindings, sizeof r->bindings);
  for (size_t k = 0; k < run->node.output_count; k++)
    if (is_placed(run, inputs + k))
      r->bindings[inputs + k] = (braid_binding){
          .buffer = r->buffer, .offset = i * r->stride + r->offsets[k], .bytes = bytes_of(run, inputs + k)};
  const braid_task task = {.kind = BRAID_TASK_KERNEL,
                           .label = run->kernel->name,
                           .prepared = run->prepared,
                           .bindings = r->bindings,
                           .input_count = inputs,
                           .output_count = run->node.output_count};
  SUITE_CHECK(braid_suite_do(suite, suite->queue, &task) == BRAID_OK, "run %u of many: %s", i + 1,
              braid_error_detail());
  return true;
}

static bool repeat_all(braid_suite *suite, braid_trial_run *run, repetition *r, char *detail) {
  char why[kSuiteDetail];
  if (!repetition_init(suite, run, r, detail)) return false;
  for (uint32_t i = 0; i < r->runs; i++)
    if (!repeat_once(suite, run, r, i, detail)) return false;
  SUITE_CHECK(braid_suite_read(suite, r->buffer, 0, r->results, r->bytes) == BRAID_OK, "read: %s",
              braid_error_detail());
  for (uint32_t i = 0; i < r->runs && !suite->info->modelled; i++)
    for (size_t k = 0; k < run->node.output_count; k++) {
      size_t operand = run->node.input_count + k, first = (i % BRAID_SAMPLE_DATA) * r->stride + r->offsets[k];
      const uint8_t *result = r->results + i * r->stride + r->offsets[k];
      if (!is_placed(run, operand) ||
          (i >= BRAID_SAMPLE_DATA && memcmp(result, r->results + first, bytes_of(run, operand)) == 0))
        continue; /* the bits of a run that passed */
      SUITE_CHECK(braid_trial_compare(run->trial, &run->operands[operand].desc, k, i % BRAID_SAMPLE_DATA, result, why),
                  "run %u of many: %.500s", i + 1, why);
    }
  return true;
}

bool braid_trial_repeat(braid_suite *suite, braid_trial_run *run, char *detail) {
  repetition *r = braid_zalloc(NULL, sizeof *r);
  SUITE_CHECK(r, "no memory for the case");
  for (size_t k = 0; k < run->node.output_count; k++) {
    r->offsets[k] = r->stride;
    r->stride += braid_suite_align(bytes_of(run, run->node.input_count + k), suite->info->alignment);
  }
  size_t room = braid_suite_at_most(suite, kMostResults);
  r->runs = !r->stride ? 0 : room / r->stride < kRuns ? (uint32_t)(room / r->stride) : kRuns;
  bool passed = r->runs < kFewRuns || repeat_all(suite, run, r, detail);
  if (suite->stopped) return false;
  if (r->buffer) suite->backend->buffer_destroy(suite->self, r->buffer);
  for (size_t i = 0; i < BRAID_SAMPLE_DATA; i++) call_free(suite, r->calls[i]);
  braid_free(NULL, r->results);
  braid_free(NULL, r);
  return passed;
}

/* --- two at once ---------------------------------------------------------------------------------------------------
 */
typedef struct partner {
  braid_trial_run *run;
  uint32_t data;
  braid_queue *queue;
  const char *blame; /* what to say if it goes wrong */
} partner;

/* None begins before both are submitted. */
static bool run_at_once(braid_suite *suite, const partner *partners, char *detail) {
  call *calls[2] = {NULL};
  char why[kSuiteDetail] = "", unseen[kSuiteDetail];
  braid_point gate = {NULL, 1};
  SUITE_CHECK(braid_timeline_create(NULL, &gate.timeline) == BRAID_OK, "no memory for the case");
  const char *blame = "";
  bool passed = true;
  for (size_t i = 0; passed && i < 2; i++) {
    blame = partners[i].blame;
    passed = call_start(suite, partners[i].run, partners[i].data, partners[i].queue, &gate, &calls[i], why);
  }
  braid_timeline_raise(gate.timeline, 1);
  for (size_t i = 0; i < 2; i++) {
    if (passed) blame = partners[i].blame;
    passed = call_wait(suite, calls[i], passed ? why : unseen) && passed;
  }
  for (size_t i = 0; passed && i < 2; i++) {
    blame = partners[i].blame;
    passed = call_check(suite, partners[i].run, calls[i], false, why);
  }
  if (!passed) braid_suite_fail(detail, "%s%.500s", blame, why);
  if (suite->stopped) return false;
  if (!passed) braid_suite_linger();
  for (size_t i = 0; i < 2; i++) call_free(suite, calls[i]);
  braid_timeline_destroy(gate.timeline);
  return passed;
}

bool braid_trial_beside(braid_suite *suite, braid_trial_run *run, braid_trial_run *other, char *detail) {
  const partner partners[] = {{other, 0, suite->second, "beside another kernel, an earlier one goes wrong: "},
                              {run, 1, suite->queue, "beside a kernel for another node, goes wrong: "}};
  return run_at_once(suite, partners, detail);
}

bool braid_trial_share(braid_suite *suite, braid_trial_run *run, char *detail) {
  const char *blame = "shared by two tasks, goes wrong: ";
  const partner partners[] = {{run, 0, suite->queue, blame}, {run, 1, suite->queue, blame}};
  return run_at_once(suite, partners, detail);
}

bool braid_trial_together(braid_suite *suite, braid_trial_run *run, braid_trial_run *other, char *detail) {
  enum { kTimes = 2 };
  const char *blame = "prepared twice, and run at the same time, goes wrong: ";
  const partner partners[] = {{run, 0, suite->queue, blame}, {other, 1, suite->second, blame}};
  for (int i = 0; i < kTimes; i++)
    if (!run_at_once(suite, partners, detail)) return false;
  return true;
}

/* --- recordings ----------------------------------------------------------------------------------------------------
 */
typedef struct recorded {
  braid_task task, *list;
  braid_verdict verdict;
  braid_binding bindings[kTrialOperands + 1];
  void *recording;
} recorded;

/* One replay of the kernel, with the operands of call `c`. */
static bool replay_call(braid_suite *suite, const braid_trial_run *run, recorded *r, call *c, char *detail) {
  place_operands(suite, run, c);
  if (!fill_image(run, c, detail) || !place_image(suite, run, c, detail)) return false;
  SUITE_CHECK(braid_suite_write(suite, c->buffer, 0, c->image, c->bytes) == BRAID_OK, "write: %s",
              braid_error_detail());
  memcpy(r->bindings, c->bindings, sizeof r->bindings);
  if (!r->recording)
    SUITE_CHECK(suite->backend->record(suite->queue->self, &r->list, 1, &r->recording) == BRAID_OK, "record: %s",
                braid_error_detail());
  braid_verdict_init(&r->verdict);
  r->task.value = suite->queue->last + 1;
  pthread_mutex_lock(&suite->queue->lock);
  braid_status status = braid_queue_replay_locked(suite->queue, r->recording, 1);
  pthread_mutex_unlock(&suite->queue->lock);
  SUITE_CHECK(status == BRAID_OK, "replay: %s", braid_error_detail());
  braid_queue_flush(suite->queue);
  status = braid_suite_wait(suite, suite->queue, &r->task);
  SUITE_CHECK(status == BRAID_OK, "%s: %s", braid_status_text(status), braid_error_detail());
  SUITE_CHECK(braid_suite_read(suite, c->buffer, 0, c->got, c->bytes) == BRAID_OK, "read: %s", braid_error_detail());
  return call_check(suite, run, c, false, detail);
}

bool braid_trial_replay(braid_suite *suite, braid_trial_run *run, char *detail) {
  enum { kTimes = 3 };
  recorded *r = braid_zalloc(NULL, sizeof *r);
  SUITE_CHECK(r, "no memory for the case");
  r->task = (braid_task){.kind = BRAID_TASK_KERNEL,
                         .label = run->kernel->name,
                         .prepared = run->prepared,
                         .bindings = r->bindings,
                         .input_count = run->node.input_count,
                         .output_count = run->node.output_count,
                         .verdict = &r->verdict,
                         .ports = ~(uint64_t)0};
  r->list = &r->task;
  char why[kSuiteDetail] = "";
  call *calls[kTimes] = {NULL}; /* kept until the end: a wrong backend may still work on the first one's memory */
  bool passed = true;
  for (uint32_t i = 0; passed && i < kTimes; i++) {
    calls[i] = braid_zalloc(NULL, sizeof **calls);
    if (calls[i]) calls[i]->data = run->way.constants ? 0 : i % BRAID_SAMPLE_DATA;
    run->calls++;
    passed = calls[i] ? replay_call(suite, run, r, calls[i], why) : braid_suite_fail(why, "no memory for the case");
    if (!passed) braid_suite_fail(detail, "replay %u of a recording: %.500s", i + 1, why);
  }
  for (size_t i = 0; i < kTimes; i++) call_free(suite, calls[i]);
  if (suite->stopped) return false;
  if (r->recording) suite->backend->erase(suite->queue->self, r->recording);
  braid_free(NULL, r);
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

bool braid_trial_refuse(braid_suite *suite, braid_trial_run *run, char *detail) {
  call *c = NULL;
  char unseen[kSuiteDetail] = "";
  bool passed = call_start(suite, run, 0, suite->queue, NULL, &c, detail), ended = call_wait(suite, c, unseen);
  if (suite->stopped) return braid_suite_fail(detail, "%s", unseen);
  braid_status status = c ? braid_verdict_status(&c->verdict) : BRAID_NO_MEMORY;
  if (passed && !suite->info->modelled && (ended || status != BRAID_OUT_OF_RANGE))
    passed = braid_suite_fail(detail, "ends with \"%s\", not \"%s\"", braid_status_text(status),
                              braid_status_text(BRAID_OUT_OF_RANGE));
  if (passed && c->buffer && braid_suite_read(suite, c->buffer, 0, c->got, c->bytes) != BRAID_OK)
    passed = braid_suite_fail(detail, "read: %s", braid_error_detail());
  passed = passed && call_check(suite, run, c, true, detail);
  call_free(suite, c);
  return passed;
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
  if (passed) passed = call_check(suite, run, c, false, detail);
  call_free(suite, c);
  braid_timeline_destroy(gate);
  return passed;
}
