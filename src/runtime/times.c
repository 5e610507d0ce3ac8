#include "runtime/times.h"

#include <string.h>

#include "graph/graph.h"

void braid_times_init(braid_times *times, const braid_allocator *allocator) {
  *times = (braid_times){.allocator = allocator};
  pthread_mutex_init(&times->lock, NULL);
}

void braid_times_deinit(braid_times *times) {
  for (size_t i = 0; i < kTimeChains; i++)
    while (times->chains[i]) {
      braid_time *next = times->chains[i]->next;
      braid_free(times->allocator, times->chains[i]);
      times->chains[i] = next;
    }
  pthread_mutex_destroy(&times->lock);
}

/* --- keys ----------------------------------------------------------------------------------------------------------
 */
static uint64_t add_word(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9e3779b97f4a7c15u;
  return key ^ key >> 29;
}

static uint64_t add_bytes(uint64_t key, const void *data, size_t bytes) {
  const uint8_t *at = data;
  key = add_word(key, bytes);
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    memcpy(&word, at + i, bytes - i < 8 ? bytes - i : 8);
    key = add_word(key, word);
  }
  return key;
}

static uint64_t add_text(uint64_t key, const char *text) {
  return add_bytes(key, text, strlen(text));
}

static uint64_t add_attr(uint64_t key, const braid_attr *attr) {
  key = add_word(add_text(key, attr->name), attr->kind);
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    return add_word(key, (uint64_t)attr->i);
  case BRAID_ATTR_FLOAT:
    return add_bytes(key, &attr->f, sizeof attr->f);
  case BRAID_ATTR_STRING:
    return add_text(key, attr->s);
  case BRAID_ATTR_INTS:
    return add_bytes(key, attr->ints, attr->count * sizeof *attr->ints);
  case BRAID_ATTR_FLOATS:
    return add_bytes(key, attr->floats, attr->count * sizeof *attr->floats);
  case BRAID_ATTR_STRINGS:
    for (size_t i = 0; i < attr->count; i++) key = add_text(key, attr->strings[i]);
    return key;
  case BRAID_ATTR_TENSOR:
    break;
  }
  return key;
}

static uint64_t add_operands(uint64_t key, const braid_operand *operands, size_t count) {
  key = add_word(key, count);
  for (size_t i = 0; i < count; i++) {
    const braid_desc *desc = &operands[i].desc;
    key = add_word(key, operands[i].present ? 1 + (uint64_t)desc->dtype : 0);
    if (!operands[i].present) continue;
    key = add_word(key, operands[i].constant != NULL);
    if (desc->rank > 0) key = add_bytes(key, desc->dims, (size_t)desc->rank * sizeof *desc->dims);
  }
  return key;
}

static uint64_t add_node(uint64_t key, const braid_node_desc *node) {
  for (size_t i = 0; i < node->attrs->count; i++) key = add_attr(key, &node->attrs->items[i]);
  key = add_operands(key, node->inputs, node->input_count);
  return add_operands(key, node->outputs, node->output_count);
}

uint64_t braid_time_key(int device, const braid_kernel *kernel, const braid_node_desc *node) {
  uint64_t key = add_text(add_word(0x2545f4914f6cdd1du, (uint64_t)device), kernel->name);
  key = add_word(add_text(key, node->op), node->training);
  return add_node(key, node);
}

uint64_t braid_time_region_key(int device, const braid_kernel *kernel, const braid_subgraph *graph,
                               const int32_t *nodes, size_t count, const int32_t *names, int32_t *numbers) {
  uint64_t key = add_text(add_word(0x9fb21c651e98df25u, (uint64_t)device), kernel->name);
  int32_t used = 0;
  for (size_t n = 0; n < count; n++) {
    const braid_subgraph_node *node = &graph->nodes[nodes[n]];
    key = add_node(add_word(add_text(key, node->desc->op), node->desc->training), node->desc);
    for (size_t i = 0; i < node->desc->input_count + node->desc->output_count; i++) {
      bool input = i < node->desc->input_count;
      int32_t id = input ? node->inputs[i] : node->outputs[i - node->desc->input_count];
      if (id >= 0 && !numbers[names[id]]) numbers[names[id]] = ++used;
      key = add_word(key, id < 0 ? 0 : (uint64_t)numbers[names[id]]);
    }
  }
  for (size_t n = 0; n < count; n++) {
    const braid_subgraph_node *node = &graph->nodes[nodes[n]];
    for (size_t i = 0; i < node->desc->input_count + node->desc->output_count; i++) {
      bool input = i < node->desc->input_count;
      int32_t id = input ? node->inputs[i] : node->outputs[i - node->desc->input_count];
      if (id >= 0) numbers[names[id]] = 0;
    }
  }
  return key;
}

/* --- the table -----------------------------------------------------------------------------------------------------
 */
static braid_time *times_find(const braid_times *times, uint64_t key) {
  braid_time *time = times->chains[key % kTimeChains];
  while (time && time->key != key) time = time->next;
  return time;
}

braid_status braid_times_get(braid_times *times, uint64_t key, braid_time **out) {
  pthread_mutex_lock(&times->lock);
  braid_time *time = times_find(times, key);
  bool missing = !time && times->count < kMostTimes;
  if (missing) time = braid_zalloc(times->allocator, sizeof *time);
  if (missing && time) {
    braid_time **chain = &times->chains[key % kTimeChains];
    *time = (braid_time){.key = key, .next = *chain};
    *chain = time;
    times->count++;
  }
  pthread_mutex_unlock(&times->lock);
  *out = time;
  return missing && !time ? BRAID_NO_MEMORY : BRAID_OK;
}

void braid_time_set(braid_times *times, braid_time *time, int64_t ns) {
  if (!time || ns < 0) return;
  __atomic_store_n(&time->ns, ns ? (uint64_t)ns : 1, __ATOMIC_RELAXED);
  __atomic_store_n(&times->filled, true, __ATOMIC_RELAXED);
}

bool braid_times_filled(const braid_times *times) {
  return __atomic_load_n(&times->filled, __ATOMIC_RELAXED);
}

double braid_times_find(braid_times *times, uint64_t key) {
  pthread_mutex_lock(&times->lock);
  const braid_time *time = times_find(times, key);
  uint64_t ns = time ? __atomic_load_n(&time->ns, __ATOMIC_RELAXED) : 0;
  pthread_mutex_unlock(&times->lock);
  return ns ? (double)ns * 1e-9 : -1;
}
