/* The ops table: the families in one list, found by name through a hash built once. */
#include <pthread.h>
#include <string.h>

#include "graph/custom.h"

/* One line per family; each is defined in ops/<family>.c. */
#define BRAID_OP_FAMILIES(X)                                                                                           \
  X(unary)                                                                                                             \
  X(binary)                                                                                                            \
  X(reduce)                                                                                                            \
  X(select)                                                                                                            \
  X(control)                                                                                                           \
  X(function)                                                                                                          \
  X(attention)                                                                                                         \
  X(einsum)                                                                                                            \
  X(shape)                                                                                                             \
  X(movement)                                                                                                          \
  X(gather)                                                                                                            \
  X(resize)                                                                                                            \
  X(recurrent)                                                                                                         \
  X(quantize)                                                                                                          \
  X(qlinear)                                                                                                           \
  X(conv)                                                                                                              \
  X(pool)                                                                                                              \
  X(norm)                                                                                                              \
  X(loss)                                                                                                              \
  X(optimizer)                                                                                                         \
  X(matmul)                                                                                                            \
  X(softmax)                                                                                                           \
  X(grid)                                                                                                              \
  X(linear_attention)                                                                                                  \
  X(suppression)                                                                                                       \
  X(columns)                                                                                                           \
  X(determinant)                                                                                                       \
  X(fourier)                                                                                                           \
  X(roi)                                                                                                               \
  X(unique)                                                                                                            \
  X(dropout)                                                                                                           \
  X(group)                                                                                                             \
  X(integer)

#define DECLARE(family) extern const braid_op_family braid_ops_##family;
BRAID_OP_FAMILIES(DECLARE)
#undef DECLARE

static const braid_op_family *const kFamilies[] = {
#define ENTRY(family) &braid_ops_##family,
    BRAID_OP_FAMILIES(ENTRY)
#undef ENTRY
        NULL};

static const char *const kFamilyNames[] = {
#define ENTRY(family) #family,
    BRAID_OP_FAMILIES(ENTRY)
#undef ENTRY
};

enum { kSlots = 1024 }; /* a power of two, more than twice the number of ops */
static const braid_op *slots[kSlots];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t hash(const char *name) {
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
  return h & (kSlots - 1);
}

static void ops_fill(void) {
  for (size_t f = 0; kFamilies[f]; f++)
    for (size_t i = 0; i < kFamilies[f]->count; i++) {
      size_t slot = hash(kFamilies[f]->ops[i].name);
      while (slots[slot]) slot = (slot + 1) & (kSlots - 1);
      slots[slot] = &kFamilies[f]->ops[i];
    }
}

const braid_op *braid_op_find_built_in(const char *name) {
  pthread_once(&once, ops_fill);
  for (size_t slot = hash(name); slots[slot]; slot = (slot + 1) & (kSlots - 1))
    if (strcmp(slots[slot]->name, name) == 0) return slots[slot];
  return NULL;
}

const braid_op *braid_op_find(const char *name) {
  const braid_op *found = braid_op_find_built_in(name);
  return found ? found : braid_custom_ops_find(NULL, name);
}

size_t braid_op_count(void) {
  size_t count = 0;
  for (size_t f = 0; kFamilies[f]; f++) count += kFamilies[f]->count;
  return count;
}

const braid_op *braid_op_at(size_t index) {
  for (size_t f = 0; kFamilies[f]; f++) {
    if (index < kFamilies[f]->count) return &kFamilies[f]->ops[index];
    index -= kFamilies[f]->count;
  }
  return NULL;
}

const char *braid_op_family_name(size_t index) {
  size_t f = 0;
  for (; kFamilies[f] && index >= kFamilies[f]->count; f++) index -= kFamilies[f]->count;
  return kFamilies[f] ? kFamilyNames[f] : NULL;
}
