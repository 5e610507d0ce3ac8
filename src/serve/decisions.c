#include "serve/decisions.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/model.h"
#include "serve/tenant.h"

struct braid_serve_decisions {
  pthread_mutex_t lock; /* of what follows */
  braid_serve_decision last[BRAID_SERVE_DECISIONS];
  uint64_t count;
};

braid_status braid_serve_decisions_create(braid_serve_decisions **out) {
  *out = braid_zalloc(NULL, sizeof **out);
  if (!*out) return BRAID_NO_MEMORY;
  pthread_mutex_init(&(*out)->lock, NULL);
  return BRAID_OK;
}

void braid_serve_decisions_destroy(braid_serve_decisions *decisions) {
  if (!decisions) return;
  pthread_mutex_destroy(&decisions->lock);
  braid_free(NULL, decisions);
}

void braid_serve_decisions_note(braid_serve_decisions *decisions, const braid_serve_request *request) {
  bool ran = request->started_ns != 0;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  pthread_mutex_lock(&decisions->lock);
  braid_serve_decision *decision = &decisions->last[decisions->count % BRAID_SERVE_DECISIONS];
  *decision = (braid_serve_decision){.number = ++decisions->count,
                                     .at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec,
                                     .verdict = request->verdict,
                                     .rows = request->rows,
                                     .batch = request->batch,
                                     .waited_ns = (ran ? request->started_ns : request->ended_ns) - request->arrived_ns,
                                     .ran_ns = ran ? request->ended_ns - request->started_ns : 0,
                                     .predicted_ns = request->predicted_ns};
  snprintf(decision->model, sizeof decision->model, "%s", request->model->config->name);
  snprintf(decision->tenant, sizeof decision->tenant, "%s", request->tenant->config->name);
  decision->why = request->why;
  if (request->verdict != BRAID_SERVE_DONE) memcpy(decision->refusal, request->detail, sizeof decision->refusal);
  pthread_mutex_unlock(&decisions->lock);
}

size_t braid_serve_decisions_read(braid_serve_decisions *decisions, braid_serve_decision *out, size_t most) {
  pthread_mutex_lock(&decisions->lock);
  size_t count = decisions->count < BRAID_SERVE_DECISIONS ? (size_t)decisions->count : BRAID_SERVE_DECISIONS;
  if (count > most) count = most;
  for (size_t i = 0; i < count; i++) out[i] = decisions->last[(decisions->count - 1 - i) % BRAID_SERVE_DECISIONS];
  pthread_mutex_unlock(&decisions->lock);
  return count;
}
