#include "backend/opencl/slot.h"

static braid_cl_slot *create(braid_cl_context *context) {
  braid_cl_slot *slot = braid_zalloc(NULL, sizeof *slot);
  if (!slot) return NULL;
  pthread_mutex_init(&slot->lock, NULL);
  slot->context = context;
  slot->all = context->slots;
  context->slots = slot;
  return slot;
}

static void release_left(const braid_cl_context *context, braid_cl_slot *slot) {
  if (slot->left_queue) context->cl->ReleaseCommandQueue(slot->left_queue);
  slot->left_queue = NULL;
}

braid_cl_slot *braid_cl_slots_take(braid_cl_context *context, size_t count) {
  braid_cl_slot *list = NULL;
  pthread_mutex_lock(&context->lock);
  for (size_t i = 0; i < count; i++) {
    braid_cl_slot *slot = context->free_slots;
    if (slot)
      context->free_slots = slot->next;
    else if (!(slot = create(context)))
      break;
    release_left(context, slot);
    slot->next = list;
    list = slot;
  }
  pthread_mutex_unlock(&context->lock);
  return list;
}

void braid_cl_slots_give(braid_cl_context *context, braid_cl_slot *list) {
  pthread_mutex_lock(&context->lock);
  while (list) {
    braid_cl_slot *next = list->next;
    list->next = context->free_slots;
    context->free_slots = list;
    list = next;
  }
  pthread_mutex_unlock(&context->lock);
}

bool braid_cl_slot_keep_queue(braid_cl_slot *slot, cl_command_queue queue) {
  pthread_mutex_lock(&slot->lock);
  bool keep = slot->orphan && !slot->finished;
  if (keep) slot->left_queue = queue;
  pthread_mutex_unlock(&slot->lock);
  return keep;
}

void braid_cl_slots_release(braid_cl_context *context) {
  while (context->slots) {
    braid_cl_slot *slot = context->slots;
    context->slots = slot->all;
    release_left(context, slot);
    pthread_mutex_destroy(&slot->lock);
    braid_free(NULL, slot);
  }
}
