/* Streams: jobs in order. A thread of the stream's own, made when it is first needed, runs those that are long; a brief
 * one runs in the thread that brings it if there is nothing before it, since waking another thread takes longer. */
#include <stdlib.h>

#include "plugin.h"

struct SP_Stream_st {
  fpga_device *device;
  fpga_stream *sibling; /* of the same device, under its lock */
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t work, progress;
  fpga_job *first, *last;
  uint64_t put, ended;
  bool running; /* a job is, in some thread */
  bool stopping, has_thread;
  int sleepers; /* threads that wait for progress */
  pthread_t thread;
};

fpga_stream *fpga_stream_create(fpga_device *device) {
  fpga_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->device = device;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->work, NULL);
  pthread_cond_init(&stream->progress, NULL);
  pthread_mutex_lock(&device->lock);
  stream->sibling = device->streams;
  device->streams = stream;
  pthread_mutex_unlock(&device->lock);
  return stream;
}

fpga_device *fpga_stream_device(fpga_stream *stream) {
  return stream->device;
}

static _Thread_local int jobs_here;

bool fpga_stream_is_job(void) {
  return jobs_here > 0;
}

/* With the lock held, which is let go while the job runs. */
static void stream_run(fpga_stream *stream, fpga_job *job) {
  stream->running = true;
  pthread_mutex_unlock(&stream->lock);
  jobs_here++;
  job->run(job);
  jobs_here--;
  pthread_mutex_lock(&stream->lock);
  stream->running = false;
  __atomic_store_n(&stream->ended, stream->ended + 1, __ATOMIC_RELEASE);
  if (stream->sleepers) pthread_cond_broadcast(&stream->progress);
}

static fpga_job *stream_next(fpga_stream *stream) {
  fpga_job *job = stream->first;
  stream->first = job->next;
  if (!stream->first) stream->last = NULL;
  return job;
}

static void *stream_work(void *context) {
  fpga_stream *stream = context;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    if (stream->first && !stream->running)
      stream_run(stream, stream_next(stream));
    else if (stream->stopping && !stream->first)
      break;
    else
      pthread_cond_wait(&stream->work, &stream->lock);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

/* With the lock held. Without a thread the caller runs everything that is queued, in order. */
static void stream_wake(fpga_stream *stream) {
  if (!stream->has_thread) stream->has_thread = pthread_create(&stream->thread, NULL, stream_work, stream) == 0;
  if (stream->has_thread) {
    pthread_cond_signal(&stream->work);
    return;
  }
  while (stream->first && !stream->running) stream_run(stream, stream_next(stream));
}

void fpga_stream_put(fpga_stream *stream, fpga_job *job, bool brief) {
  job->next = NULL;
  pthread_mutex_lock(&stream->lock);
  stream->put++;
  if (brief && !stream->first && !stream->running) {
    stream_run(stream, job);
    if (stream->first) stream_wake(stream);
  } else {
    *(stream->last ? &stream->last->next : &stream->first) = job;
    stream->last = job;
    if (!stream->running) stream_wake(stream);
  }
  pthread_mutex_unlock(&stream->lock);
}

bool fpga_stream_enter(fpga_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  bool idle = !stream->first && !stream->running;
  if (idle) {
    stream->put++;
    stream->running = true;
  }
  pthread_mutex_unlock(&stream->lock);
  return idle;
}

void fpga_stream_leave(fpga_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->running = false;
  __atomic_store_n(&stream->ended, stream->ended + 1, __ATOMIC_RELEASE);
  if (stream->sleepers) pthread_cond_broadcast(&stream->progress);
  if (stream->first) stream_wake(stream);
  pthread_mutex_unlock(&stream->lock);
}

uint64_t fpga_stream_mark(fpga_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  uint64_t mark = stream->put;
  pthread_mutex_unlock(&stream->lock);
  return mark;
}

bool fpga_stream_reached(fpga_stream *stream, uint64_t mark) {
  return __atomic_load_n(&stream->ended, __ATOMIC_ACQUIRE) >= mark;
}

void fpga_stream_wait(fpga_stream *stream, uint64_t mark) {
  if (fpga_stream_reached(stream, mark)) return;
  pthread_mutex_lock(&stream->lock);
  stream->sleepers++;
  while (stream->ended < mark) pthread_cond_wait(&stream->progress, &stream->lock);
  stream->sleepers--;
  pthread_mutex_unlock(&stream->lock);
}

/* Streams come and go only with TensorFlow's devices, not while these are waited for. */
void fpga_device_wait(fpga_device *device) {
  pthread_mutex_lock(&device->lock);
  fpga_stream *stream = device->streams;
  pthread_mutex_unlock(&device->lock);
  for (; stream; stream = stream->sibling) fpga_stream_wait(stream, fpga_stream_mark(stream));
}

typedef struct wait_job {
  fpga_job job;
  fpga_stream *other;
  uint64_t mark;
} wait_job;

static void run_wait(fpga_job *job) {
  wait_job *wait = (wait_job *)job;
  fpga_stream_wait(wait->other, wait->mark);
  free(wait);
}

bool fpga_stream_depend(fpga_stream *stream, fpga_stream *other, uint64_t mark) {
  if (stream == other || fpga_stream_reached(other, mark)) return true;
  wait_job *wait = malloc(sizeof *wait);
  if (!wait) return false;
  *wait = (wait_job){.job.run = run_wait, .other = other, .mark = mark};
  fpga_stream_put(stream, &wait->job, false);
  return true;
}

void fpga_stream_destroy(fpga_stream *stream) {
  if (!stream) return;
  pthread_mutex_lock(&stream->device->lock);
  fpga_stream **link = &stream->device->streams;
  while (*link != stream) link = &(*link)->sibling;
  *link = stream->sibling;
  pthread_mutex_unlock(&stream->device->lock);
  fpga_stream_wait(stream, fpga_stream_mark(stream));
  pthread_mutex_lock(&stream->lock);
  stream->stopping = true;
  pthread_cond_signal(&stream->work);
  pthread_mutex_unlock(&stream->lock);
  if (stream->has_thread) pthread_join(stream->thread, NULL);
  pthread_cond_destroy(&stream->progress);
  pthread_cond_destroy(&stream->work);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}
