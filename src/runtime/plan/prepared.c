#include "runtime/plan/prepared.h"

#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "runtime/key.h"

enum { kPreparedBuckets = 512, kMostConstantBytes = 64 << 10 };

struct braid_prepared_cache {
  const braid_allocator *allocator;
  pthread_mutex_t lock; /* of all that follows and of what it lists; not held while a kernel is prepared */
  pthread_cond_t made;
  braid_prepared *buckets[kPreparedBuckets];
};

/* --- keys ----------------------------------------------------------------------------------------------------------
 */
typedef struct prepared_use {
  const braid_plan *plan;
  const braid_step *step;
  bool alike; /* nodes of other plans may be the same; else the step is one of a kind */
} prepared_use;

/* Prepare may look at the contents of constants that are not packed. */
static bool looks_at(const braid_step *step, size_t input) {
  return step->desc->inputs[input].constant && !braid_step_packing(step, input);
}

/* Of the contents of a constant, which are plain whatever the layout. */
static size_t constant_bytes(const braid_desc *desc) {
  return (size_t)braid_desc_count(desc) * braid_dtype_size(desc->dtype);
}

static bool is_comparable(const braid_step *step) {
  size_t bytes = 0;
  for (size_t i = 0; i < step->desc->input_count; i++)
    if (looks_at(step, i)) bytes += constant_bytes(&step->desc->inputs[i].desc);
  return !step->desc->region && bytes <= kMostConstantBytes;
}

static void key_operands(braid_key *key, const braid_step *step, const braid_operand *operands, size_t count) {
  bool inputs = operands == step->desc->inputs;
  braid_key_number(key, (int64_t)count);
  for (size_t i = 0; i < count; i++) {
    const braid_operand *operand = &operands[i];
    bool seen = inputs && operand->present && looks_at(step, i);
    braid_key_number(key, !operand->present ? 0 : !operand->constant ? 1 : seen ? 2 : 3);
    if (!operand->present) continue;
    braid_key_desc(key, &operand->desc);
    if (seen) {
      braid_digest digest = braid_digest_contents(operand->constant, constant_bytes(&operand->desc));
      braid_key_put(key, &digest, sizeof digest);
    }
  }
}

/* A node's name is not looked at. */
static void key_fill(braid_key *key, const void *context) {
  const prepared_use *use = context;
  const braid_step *step = use->step;
  const braid_node_desc *node = step->desc;
  if (!use->alike) {
    braid_key_put(key, &use->plan, sizeof use->plan);
    braid_key_put(key, &step, sizeof step);
    return;
  }
  braid_key_number(key, step->device);
  braid_key_put(key, &step->kernel, sizeof step->kernel);
  braid_key_put(key, &node->custom, sizeof node->custom);
  braid_key_text(key, node->op);
  braid_key_number(key, (int64_t)node->threads << 2 | (int64_t)node->training << 1 | (int64_t)node->packed);
  size_t attrs = node->attrs ? node->attrs->count : 0;
  braid_key_number(key, (int64_t)attrs);
  for (size_t i = 0; i < attrs; i++) braid_key_attr(key, &node->attrs->items[i]);
  key_operands(key, step, node->inputs, node->input_count);
  key_operands(key, step, node->outputs, node->output_count);
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 * A copy that lives as long as what was prepared for it. */
static void *copy_list(braid_arena *arena, const void *items, size_t count, size_t item_bytes) {
  void *copy = braid_arena_alloc(arena, count ? count * item_bytes : 1); /* they lie in memory: no overflow */
  if (copy && count) memcpy(copy, items, count * item_bytes);
  return copy;
}

static char *copy_text(braid_arena *arena, const char *text) {
  return braid_arena_text(arena, text, strlen(text));
}

static const char *const *copy_texts(braid_arena *arena, const char *const *texts, size_t count) {
  const char **copy = braid_arena_alloc(arena, (count + 1) * sizeof *copy);
  for (size_t i = 0; copy && i < count; i++)
    if (!(copy[i] = copy_text(arena, texts[i]))) return NULL;
  return copy;
}

/* The copy holds the tensor if this returns true. */
static bool copy_attr(braid_arena *arena, const braid_attr *from, braid_attr *to) {
  *to = *from;
  if (!(to->name = copy_text(arena, from->name))) return false;
  switch (from->kind) {
  case BRAID_ATTR_INT:
  case BRAID_ATTR_FLOAT:
    return true;
  case BRAID_ATTR_STRING:
    return (to->s = copy_text(arena, from->s)) != NULL;
  case BRAID_ATTR_INTS:
    return (to->ints = copy_list(arena, from->ints, from->count, sizeof *from->ints)) != NULL;
  case BRAID_ATTR_FLOATS:
    return (to->floats = copy_list(arena, from->floats, from->count, sizeof *from->floats)) != NULL;
  case BRAID_ATTR_STRINGS:
    return (to->strings = copy_texts(arena, from->strings, from->count)) != NULL;
  case BRAID_ATTR_TENSOR:
    braid_tensor_retain(to->tensor);
    return true;
  }
  return false;
}

static braid_status copy_attrs(braid_arena *arena, const braid_attrs *from, const braid_attrs **out) {
  braid_attrs *to = braid_arena_alloc(arena, sizeof *to);
  *out = to;
  if (!to || !from) return to ? BRAID_OK : BRAID_NO_MEMORY;
  to->items = braid_arena_alloc(arena, (from->count + 1) * sizeof *to->items);
  if (!to->items) return BRAID_NO_MEMORY;
  for (; to->count < from->count; to->count++)
    if (!copy_attr(arena, &from->items[to->count], &to->items[to->count])) return BRAID_NO_MEMORY;
  return BRAID_OK;
}

static void release_attrs(const braid_attrs *attrs) {
  for (size_t i = 0; attrs && i < attrs->count; i++)
    if (attrs->items[i].kind == BRAID_ATTR_TENSOR) braid_tensor_release(attrs->items[i].tensor);
}

static braid_status copy_node(const braid_allocator *allocator, const braid_node_desc *from, braid_prepared *to) {
  BRAID_TRY(braid_arena_create(allocator, &to->arena));
  braid_arena *arena = to->arena;
  to->node = *from;
  to->node.attrs = NULL;
  to->node.op = to->node.name = copy_text(arena, from->op);
  to->node.inputs = copy_list(arena, from->inputs, from->input_count, sizeof *from->inputs);
  to->node.outputs = copy_list(arena, from->outputs, from->output_count, sizeof *from->outputs);
  if (!to->node.op || !to->node.inputs || !to->node.outputs) return BRAID_NO_MEMORY;
  return copy_attrs(arena, from->attrs, &to->node.attrs);
}

/* What is prepared does not look at constants any more, which may be gone. */
static void forget_constants(const braid_prepared *prepared) {
  braid_operand *inputs = (braid_operand *)prepared->node.inputs; /* the copy */
  for (size_t i = 0; i < prepared->node.input_count; i++) inputs[i].constant = NULL;
}

/* --- making --------------------------------------------------------------------------------------------------------
 */
static void prepared_free(braid_prepared *prepared) {
  braid_machine_discard(prepared->machine, prepared->device, prepared->self);
  if (prepared->arena) release_attrs(prepared->node.attrs);
  braid_arena_destroy(prepared->arena);
  braid_free(prepared->machine->allocator, prepared);
}

static braid_status prepared_new(const braid_plan *plan, const braid_step *step, const braid_key *key,
                                 braid_prepared **out) {
  size_t bytes = key ? key->bytes : 0;
  braid_prepared *prepared = *out = braid_zalloc(plan->machine->allocator, sizeof *prepared + bytes);
  if (!prepared) return BRAID_NO_MEMORY;
  prepared->machine = plan->machine;
  prepared->device = step->device;
  prepared->users = 1;
  if (key) memcpy(prepared->key, key->data, bytes);
  prepared->key_bytes = bytes;
  return BRAID_OK;
}

static braid_status prepared_make(const prepared_use *use, braid_prepared *prepared) {
  const braid_step *step = use->step;
  if (use->alike) BRAID_TRY(copy_node(prepared->machine->allocator, step->desc, prepared));
  BRAID_TRY(braid_machine_prepare(prepared->machine, step->device, step->kernel,
                                  use->alike ? &prepared->node : step->desc, &prepared->self, &prepared->info));
  if (use->alike) forget_constants(prepared);
  return BRAID_OK;
}

/* --- the cache -----------------------------------------------------------------------------------------------------
 * All of these with the lock held. */
static braid_prepared **prepared_find(braid_prepared_cache *cache, const uint8_t *key, size_t bytes, uint64_t hash) {
  braid_prepared **link = &cache->buckets[hash % kPreparedBuckets];
  while (*link && ((*link)->hash != hash || (*link)->key_bytes != bytes || memcmp((*link)->key, key, bytes) != 0))
    link = &(*link)->next;
  return link;
}

static void prepared_unlist(braid_prepared_cache *cache, const braid_prepared *prepared) {
  braid_prepared **link = &cache->buckets[prepared->hash % kPreparedBuckets];
  while (*link != prepared) link = &(*link)->next;
  *link = prepared->next;
}

/* The one that is there, once it is ready, or a new one to be made by the caller, for whom others wait. */
static braid_status prepared_claim(braid_prepared_cache *cache, const prepared_use *use, const braid_key *key,
                                   braid_prepared **out) {
  uint64_t hash = braid_key_hash(key);
  braid_prepared **link;
  while (*(link = prepared_find(cache, key->data, key->bytes, hash)) && !(*link)->ready)
    pthread_cond_wait(&cache->made, &cache->lock);
  if ((*out = *link)) {
    (*out)->users++;
    return BRAID_OK;
  }
  BRAID_TRY(prepared_new(use->plan, use->step, key, out));
  (*out)->hash = hash;
  (*out)->listed = true;
  *link = *out;
  return BRAID_OK;
}

static braid_status prepared_share(braid_prepared_cache *cache, const prepared_use *use, braid_prepared **out) {
  braid_key key;
  *out = NULL;
  BRAID_TRY(braid_key_init(&key, cache->allocator, key_fill, use));
  pthread_mutex_lock(&cache->lock);
  braid_status status = prepared_claim(cache, use, &key, out);
  pthread_mutex_unlock(&cache->lock);
  braid_key_deinit(&key);
  if (status != BRAID_OK || (*out)->ready) return status;
  status = prepared_make(use, *out);
  pthread_mutex_lock(&cache->lock);
  (*out)->ready = status == BRAID_OK;
  if (status != BRAID_OK) prepared_unlist(cache, *out);
  pthread_cond_broadcast(&cache->made);
  pthread_mutex_unlock(&cache->lock);
  return status;
}

braid_status braid_prepared_get(const braid_plan *plan, const braid_step *step, braid_prepared **out) {
  bool shares = plan->devices[step->device].backend->shares_prepared;
  const prepared_use use = {plan, step, shares && is_comparable(step)};
  braid_status status;
  if (shares) {
    status = prepared_share(plan->machine->prepared, &use, out);
  } else {
    status = prepared_new(plan, step, NULL, out);
    if (status == BRAID_OK) status = prepared_make(&use, *out);
  }
  if (status == BRAID_OK) return BRAID_OK;
  if (*out) prepared_free(*out);
  *out = NULL;
  return status;
}

void braid_prepared_release(braid_prepared *prepared) {
  if (!prepared) return;
  bool last = true;
  if (prepared->listed) {
    braid_prepared_cache *cache = prepared->machine->prepared;
    pthread_mutex_lock(&cache->lock);
    last = --prepared->users == 0;
    if (last) prepared_unlist(cache, prepared);
    pthread_mutex_unlock(&cache->lock);
  }
  if (last) prepared_free(prepared);
}

braid_status braid_prepared_cache_create(const braid_allocator *allocator, braid_prepared_cache **out) {
  braid_prepared_cache *cache = *out = braid_zalloc(allocator, sizeof *cache);
  if (!cache) return BRAID_NO_MEMORY;
  cache->allocator = allocator;
  pthread_mutex_init(&cache->lock, NULL);
  pthread_cond_init(&cache->made, NULL);
  return BRAID_OK;
}

void braid_prepared_cache_destroy(braid_prepared_cache *cache) {
  if (!cache) return;
  for (int i = 0; i < kPreparedBuckets; i++) BRAID_ASSERT(!cache->buckets[i]);
  pthread_mutex_destroy(&cache->lock);
  pthread_cond_destroy(&cache->made);
  braid_free(cache->allocator, cache);
}
