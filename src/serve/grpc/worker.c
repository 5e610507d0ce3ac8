/* A thread for methods that take long: loading a model takes seconds, and must not keep others' calls waiting. */
#include <grpc/byte_buffer.h>

#include "serve/grpc/call.h"

static void *worker_main(void *context) {
  braid_serve_grpc *grpc = context;
  pthread_mutex_lock(&grpc->lock);
  for (;;) {
    while (!grpc->job_count && !grpc->worker_stops) pthread_cond_wait(&grpc->changed, &grpc->lock);
    if (!grpc->job_count) break;
    braid_grpc_job job = grpc->jobs[grpc->first_job];
    bool stops = grpc->worker_stops;
    grpc->first_job = (grpc->first_job + 1) % BRAID_GRPC_JOBS;
    grpc->job_count--;
    pthread_mutex_unlock(&grpc->lock);
    if (stops || braid_grpc_call_is_gone(job.call)) {
      grpc_byte_buffer_destroy(job.buffer);
      braid_grpc_call_finish(job.call, GRPC_STATUS_UNAVAILABLE, "the daemon is stopping");
    } else {
      braid_grpc_method_ask(job.call, job.buffer);
    }
    braid_grpc_call_release(job.call);
    pthread_mutex_lock(&grpc->lock);
  }
  pthread_mutex_unlock(&grpc->lock);
  return NULL;
}

void braid_grpc_worker_take(braid_grpc_call *call, grpc_byte_buffer *buffer) {
  braid_serve_grpc *grpc = call->grpc;
  braid_grpc_call_retain(call);
  pthread_mutex_lock(&grpc->lock);
  bool taken = grpc->job_count < BRAID_GRPC_JOBS && !grpc->worker_stops;
  if (taken) grpc->jobs[(grpc->first_job + grpc->job_count++) % BRAID_GRPC_JOBS] = (braid_grpc_job){call, buffer};
  pthread_cond_broadcast(&grpc->changed);
  pthread_mutex_unlock(&grpc->lock);
  if (taken) return;
  grpc_byte_buffer_destroy(buffer);
  braid_grpc_call_finish(call, GRPC_STATUS_UNAVAILABLE, "too many models wait to be loaded or unloaded");
  braid_grpc_call_release(call);
}

braid_status braid_grpc_worker_start(braid_serve_grpc *grpc) {
  braid_status status = braid_thread_start(&grpc->worker, "braid-grpc-work", worker_main, grpc);
  grpc->has_worker = status == BRAID_OK;
  return status;
}

void braid_grpc_worker_stop(braid_serve_grpc *grpc) {
  pthread_mutex_lock(&grpc->lock);
  grpc->worker_stops = true;
  pthread_cond_broadcast(&grpc->changed);
  pthread_mutex_unlock(&grpc->lock);
  if (grpc->has_worker) braid_thread_join(&grpc->worker);
  grpc->has_worker = false;
}
