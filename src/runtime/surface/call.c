/* Calls of single ops. What is prepared for one is a plan of one node and executions of it: an execution is what a
 * kernel's arguments, workspace and staging are in, so each thread that calls takes a free one, or makes one. */
#include "runtime/surface/call.h"

#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "runtime/execution/execution.h"
#include "runtime/key.h"
#include "runtime/surface/single.h"

enum { kKept = 256, kBuckets = 512, kIdle = 16, kMostConstantBytes = 64 << 10, kMostOperands = 32 };

typedef struct call_entry {
  struct call_entry *next;          /* in its bucket */
  struct call_entry *newer, *older; /* by use */
  uint64_t hash;
  size_t key_bytes, users, idle_count;
  bool listed; /* else its last user destroys it */
  braid_plan *plan;
  braid_execution *idle[kIdle];
  uint8_t key[];
} call_entry;

struct braid_calls {
  const braid_allocator *allocator;
  pthread_mutex_t lock; /* of all that follows, for a few instructions */
  call_entry *buckets[kBuckets];
  call_entry *newest, *oldest;
  braid_call_stats stats;
};

/* --- keys ----------------------------------------------------------------------------------------------------------
 */
static void call_key_fill(braid_key *key, const void *context) {
  const braid_op_call *call = context;
  braid_key_text(key, call->op);
  braid_key_number(key, call->device != NULL);
  if (call->device) braid_key_text(key, call->device);
  braid_key_number(key, (int64_t)(call->output_count << 32 | call->input_count << 16 | call->attr_count));
  for (size_t i = 0; i < call->attr_count; i++) braid_key_attr(key, &call->attrs[i]);
  for (size_t i = 0; i < call->input_count; i++) {
    const braid_buffer *input = call->inputs[i];
    bool constant = call->constants >> i & 1;
    uint8_t what = input ? constant ? 2 : 1 : 0;
    braid_key_put(key, &what, 1);
    if (input) braid_key_desc(key, &input->desc);
    if (input && constant) braid_key_put(key, braid_buffer_host(input), input->bytes);
  }
}

/* --- entries -------------------------------------------------------------------------------------------------------
 * What is kept in a machine must not keep the machine: the references that plans and their weights take are given back,
 * and taken again before they go. Whoever calls has one of his own meanwhile. */
static void lend(braid_machine *machine, uint32_t count) {
  __atomic_sub_fetch(&machine->references, count, __ATOMIC_RELAXED);
}

static void take_back(braid_machine *machine, uint32_t count) {
  __atomic_add_fetch(&machine->references, count, __ATOMIC_RELAXED);
}

static braid_status execution_make(const call_entry *entry, braid_execution **out) {
  BRAID_TRY(braid_execution_create(entry->plan, NULL, out));
  lend(entry->plan->machine, 1); /* of its weights */
  return BRAID_OK;
}

static void execution_free(braid_execution *execution) {
  take_back(execution->machine, 1);
  braid_execution_destroy(execution);
}

static void entry_free(const braid_allocator *allocator, call_entry *entry) {
  while (entry->idle_count) execution_free(entry->idle[--entry->idle_count]);
  take_back(entry->plan->machine, 1);
  braid_plan_release(entry->plan);
  braid_free(allocator, entry);
}

static void unlink_use(braid_calls *calls, call_entry *entry) {
  *(entry->newer ? &entry->newer->older : &calls->newest) = entry->older;
  *(entry->older ? &entry->older->newer : &calls->oldest) = entry->newer;
}

static void link_newest(braid_calls *calls, call_entry *entry) {
  entry->newer = NULL;
  entry->older = calls->newest;
  *(calls->newest ? &calls->newest->newer : &calls->oldest) = entry;
  calls->newest = entry;
}

/* All of these with the lock held. */
static call_entry *entry_find(braid_calls *calls, const braid_key *key, uint64_t hash) {
  for (call_entry *entry = calls->buckets[hash % kBuckets]; entry; entry = entry->next) {
    if (entry->hash != hash || entry->key_bytes != key->bytes || memcmp(entry->key, key->data, key->bytes) != 0)
      continue;
    if (calls->newest != entry) {
      unlink_use(calls, entry);
      link_newest(calls, entry);
    }
    entry->users++;
    return entry;
  }
  return NULL;
}

/* Takes the one used least lately off; the caller destroys it if it is returned. */
static call_entry *entry_evict(braid_calls *calls) {
  call_entry *entry = calls->oldest, **link = &calls->buckets[entry->hash % kBuckets];
  while (*link != entry) link = &(*link)->next;
  *link = entry->next;
  unlink_use(calls, entry);
  entry->listed = false;
  calls->stats.kept--;
  return entry->users ? NULL : entry;
}

static call_entry *entry_add(braid_calls *calls, call_entry *entry) {
  call_entry **bucket = &calls->buckets[entry->hash % kBuckets];
  entry->next = *bucket;
  *bucket = entry;
  entry->listed = true;
  entry->users = 1;
  link_newest(calls, entry);
  calls->stats.kept++;
  return calls->stats.kept > kKept ? entry_evict(calls) : NULL;
}

/* The entry is made without the lock; who comes second takes the first one's. */
static call_entry *entry_publish(braid_calls *calls, call_entry *made, const braid_key *key) {
  call_entry *unused = NULL;
  pthread_mutex_lock(&calls->lock);
  call_entry *entry = entry_find(calls, key, made->hash);
  if (entry)
    unused = made;
  else
    unused = entry_add(calls, entry = made);
  pthread_mutex_unlock(&calls->lock);
  if (unused) entry_free(calls->allocator, unused);
  return entry;
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
static void call_describe(const braid_op_call *call, braid_operand *operands) {
  for (size_t i = 0; i < call->input_count; i++) {
    const braid_buffer *input = call->inputs[i];
    if (!input) continue;
    operands[i] = (braid_operand){true, input->desc, NULL};
    if (call->constants >> i & 1) operands[i].constant = braid_buffer_host(input);
  }
}

static braid_status plan_make(braid_machine *machine, const braid_op_call *call, braid_plan **out) {
  braid_operand operands[kMostOperands] = {0};
  braid_op_use use = {.op = call->op,
                      .attrs = call->attrs,
                      .attr_count = call->attr_count,
                      .inputs = operands,
                      .input_count = call->input_count,
                      .output_count = call->output_count};
  braid_graph *graph;
  int device;
  char place[32];
  call_describe(call, operands);
  BRAID_TRY(braid_single_device(machine, call->device, &device));
  BRAID_TRY(braid_single_graph(machine->allocator, &use, &graph));
  snprintf(place, sizeof place, "*=%d", device);
  braid_plan_options options = {.device_io = true, .place = device < 0 ? NULL : place, .loose_place = true};
  braid_status status = braid_plan_create(machine, graph, &options, out);
  braid_graph_destroy(graph);
  return status;
}

static braid_status entry_make(braid_machine *machine, const braid_op_call *call, const braid_key *key, uint64_t hash,
                               call_entry **out) {
  const braid_allocator *allocator = machine->allocator;
  braid_plan *plan;
  *out = NULL;
  BRAID_TRY(plan_make(machine, call, &plan));
  call_entry *entry = braid_zalloc(allocator, sizeof *entry + key->bytes);
  if (!entry) {
    braid_plan_release(plan);
    return BRAID_NO_MEMORY;
  }
  entry->plan = plan;
  entry->hash = hash;
  entry->key_bytes = key->bytes;
  memcpy(entry->key, key->data, key->bytes);
  lend(machine, 1); /* of the plan */
  *out = entry;
  return BRAID_OK;
}

static braid_status entry_get(braid_machine *machine, const braid_op_call *call, call_entry **out) {
  braid_calls *calls = machine->calls;
  braid_key key;
  BRAID_TRY(braid_key_init(&key, machine->allocator, call_key_fill, call));
  uint64_t hash = braid_key_hash(&key);
  pthread_mutex_lock(&calls->lock);
  *out = entry_find(calls, &key, hash);
  bool found = *out != NULL;
  calls->stats.hits += found;
  calls->stats.misses += !found;
  pthread_mutex_unlock(&calls->lock);
  braid_status status = found ? BRAID_OK : entry_make(machine, call, &key, hash, out);
  if (!found && *out) *out = entry_publish(calls, *out, &key);
  braid_key_deinit(&key);
  return status;
}

/* --- calling -------------------------------------------------------------------------------------------------------
 */
static braid_status execution_take(braid_calls *calls, call_entry *entry, braid_execution **out) {
  *out = NULL;
  pthread_mutex_lock(&calls->lock);
  if (entry->idle_count) *out = entry->idle[--entry->idle_count];
  pthread_mutex_unlock(&calls->lock);
  return *out ? BRAID_OK : execution_make(entry, out);
}

/* Gives back the entry and, unless NULL, the execution. */
static void entry_leave(braid_calls *calls, call_entry *entry, braid_execution *execution) {
  pthread_mutex_lock(&calls->lock);
  if (execution && !execution->lost && entry->idle_count < kIdle) {
    entry->idle[entry->idle_count++] = execution;
    execution = NULL;
  }
  bool last = --entry->users == 0 && !entry->listed;
  pthread_mutex_unlock(&calls->lock);
  if (execution) execution_free(execution);
  if (last) entry_free(calls->allocator, entry);
}

/* Outputs that the caller leaves to us; undone on failure. */
static braid_status make_outputs(const braid_plan *plan, const braid_op_call *call, uint64_t *made) {
  for (size_t i = 0; i < call->output_count; i++) {
    if (call->outputs[i]) continue;
    BRAID_TRY(braid_buffer_create(plan->machine, braid_plan_output_device(plan, i), braid_plan_output(plan, i),
                                  &call->outputs[i]));
    *made |= (uint64_t)1 << i;
  }
  return BRAID_OK;
}

static braid_status call_run(braid_execution *execution, const braid_op_call *call) {
  braid_buffer *inputs[kMostOperands];
  size_t count = 0;
  uint64_t made = 0;
  for (size_t i = 0; i < call->input_count; i++)
    if (call->inputs[i] && !(call->constants >> i & 1)) inputs[count++] = call->inputs[i];
  braid_status status = make_outputs(execution->plan, call, &made);
  if (status == BRAID_OK) status = braid_ports_lend(execution, inputs, call->outputs);
  if (status == BRAID_OK) status = braid_execution_run(execution, NULL, NULL);
  braid_ports_lend_back(execution);
  for (size_t i = 0; status != BRAID_OK && i < call->output_count; i++) {
    if (!(made >> i & 1)) continue;
    braid_buffer_release(call->outputs[i]);
    call->outputs[i] = NULL;
  }
  return status;
}

static braid_status check_call(const braid_machine *machine, const braid_op_call *call) {
  if (!call->op) return braid_fail(BRAID_INVALID_ARGUMENT, "no op is given");
  if (call->input_count > kMostOperands || call->output_count > kMostOperands || !call->output_count ||
      call->attr_count > UINT16_MAX)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s with %zu inputs, %zu outputs and %zu attributes", call->op,
                      call->input_count, call->output_count, call->attr_count);
  BRAID_TRY(braid_single_check(call->op, call->attrs, call->attr_count));
  for (size_t i = 0; i < call->input_count; i++) {
    const braid_buffer *input = call->inputs[i];
    if (!input) continue;
    if (input->memory->machine != machine)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%.120s: input %zu is of another machine", call->op, i);
    if (!(call->constants >> i & 1)) continue;
    if (!braid_buffer_host(input) || input->bytes > kMostConstantBytes)
      return braid_fail(BRAID_INVALID_ARGUMENT,
                        "%.120s: input %zu is given as a constant: expected host memory of at most %d bytes", call->op,
                        i, kMostConstantBytes);
  }
  return BRAID_OK;
}

braid_status braid_machine_call(braid_machine *machine, const braid_op_call *call) {
  call_entry *entry;
  braid_execution *execution;
  BRAID_TRY(check_call(machine, call));
  BRAID_TRY(entry_get(machine, call, &entry));
  braid_status status = execution_take(machine->calls, entry, &execution);
  if (status == BRAID_OK) status = call_run(execution, call);
  entry_leave(machine->calls, entry, execution);
  return status;
}

/* --- the object ----------------------------------------------------------------------------------------------------
 */
braid_status braid_calls_create(const braid_allocator *allocator, braid_calls **out) {
  braid_calls *calls = *out = braid_zalloc(allocator, sizeof *calls);
  if (!calls) return BRAID_NO_MEMORY;
  calls->allocator = allocator;
  pthread_mutex_init(&calls->lock, NULL);
  return BRAID_OK;
}

void braid_calls_destroy(braid_calls *calls) {
  if (!calls) return;
  while (calls->oldest) entry_free(calls->allocator, entry_evict(calls));
  pthread_mutex_destroy(&calls->lock);
  braid_free(calls->allocator, calls);
}

braid_call_stats braid_machine_call_stats(braid_machine *machine) {
  pthread_mutex_lock(&machine->calls->lock);
  braid_call_stats stats = machine->calls->stats;
  pthread_mutex_unlock(&machine->calls->lock);
  return stats;
}
