/* The exporting thread: takes what waits, a second after the last time or when half the room is taken, and gives it to
 * the file and the collector. A collector that is away is asked again after a while, ever longer; meanwhile records
 * wait, up to the room that there is. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "serve/trace/record.h"

static const int64_t kPeriod = 1000000000, kLongest = 30000000000; /* nanoseconds */
static const int64_t kStep = 1000000;                              /* a clock that was set, not slewed */

/* Spans of one trace keep their order although the two clocks differ a little each time. */
static void look_at_clock(braid_serve_tracer *tracer) {
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  int64_t epoch = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec - braid_now_ns();
  int64_t moved = epoch - tracer->epoch_ns;
  if (moved > kStep || moved < -kStep) tracer->epoch_ns = epoch;
}

static void warn_once(braid_serve_tracer *tracer, const char *what, const char *why) {
  if (!tracer->failing) braid_log_write(tracer->log, BRAID_LOG_WARNING, "trace: %s: %s", what, why);
  tracer->failing = true;
}

static void count(braid_serve_tracer *tracer, uint64_t exported, uint64_t dropped, uint64_t failures) {
  pthread_mutex_lock(&tracer->lock);
  tracer->counts.exported += exported;
  tracer->counts.dropped_failed += dropped;
  tracer->counts.failures += failures;
  pthread_mutex_unlock(&tracer->lock);
}

/* Until the time, or the daemon stops; returns whether it stops. */
static bool sleep_until(braid_serve_tracer *tracer, int64_t until) {
  struct timespec time = {until / 1000000000, until % 1000000000};
  pthread_mutex_lock(&tracer->lock);
  while (!tracer->stops && braid_now_ns() < until) (void)pthread_cond_timedwait(&tracer->changed, &tracer->lock, &time);
  bool stops = tracer->stops;
  pthread_mutex_unlock(&tracer->lock);
  return stops;
}

/* Posts until it is taken or refused, or the daemon stops; returns whether it was taken. */
static bool post_line(braid_serve_tracer *tracer, const braid_text *line, uint64_t *out_rejected) {
  char why[BRAID_SERVE_DETAIL];
  int64_t pause = kPeriod;
  for (;;) {
    trace_posted posted =
        braid_trace_post_send(tracer->post, line->data, line->length, &tracer->stop_ns, why, out_rejected);
    if (posted == TRACE_TAKEN) {
      if (tracer->failing) braid_log_write(tracer->log, BRAID_LOG_INFO, "trace: the collector takes spans again");
      tracer->failing = false;
      if (*out_rejected) warn_once(tracer, "the collector leaves spans out", why);
      return true;
    }
    count(tracer, 0, 0, 1);
    warn_once(tracer, "the collector does not take spans", why);
    if (posted == TRACE_REFUSED || sleep_until(tracer, braid_now_ns() + pause)) return false;
    pause = 2 * pause < kLongest ? 2 * pause : kLongest;
  }
}

static void export_chunk(braid_serve_tracer *tracer, const trace_record *records, size_t record_count) {
  braid_text line;
  uint64_t rejected = 0;
  bool taken = true;
  braid_text_init(&line, NULL);
  size_t spans = braid_trace_write(&line, &tracer->settings, records, record_count, tracer->epoch_ns);
  braid_text_add(&line, "\n");
  if (line.failed) {
    count(tracer, 0, record_count, 0);
    braid_text_deinit(&line);
    return;
  }
  if (tracer->file && braid_trace_file_add(tracer->file, line.data, line.length) != BRAID_OK) {
    warn_once(tracer, "the file", braid_error_detail());
    taken = tracer->post != NULL;
  }
  if (tracer->post) taken = post_line(tracer, &line, &rejected);
  count(tracer, taken && rejected < spans ? spans - rejected : 0, taken ? 0 : record_count, 0);
  braid_text_deinit(&line);
}

/* What waits, as one batch: the two arrays change places. Returns how many. */
static size_t take_waiting(braid_serve_tracer *tracer, bool *out_stops) {
  int64_t until = braid_now_ns() + kPeriod;
  struct timespec time = {until / 1000000000, until % 1000000000};
  pthread_mutex_lock(&tracer->lock);
  while (!tracer->stops && tracer->waiting_count < TRACE_RECORDS / 2 && braid_now_ns() < until)
    (void)pthread_cond_timedwait(&tracer->changed, &tracer->lock, &time);
  *out_stops = tracer->stops;
  size_t taken = tracer->waiting_count;
  trace_record *records = tracer->waiting;
  tracer->waiting = tracer->leaving;
  tracer->leaving = records;
  tracer->waiting_count = 0;
  pthread_mutex_unlock(&tracer->lock);
  return taken;
}

void *braid_trace_export_main(void *context) {
  braid_serve_tracer *tracer = context;
  for (bool stops = false; !stops;) {
    size_t taken = take_waiting(tracer, &stops);
    look_at_clock(tracer);
    for (size_t at = 0; at < taken; at += TRACE_CHUNK)
      export_chunk(tracer, tracer->leaving + at, taken - at < TRACE_CHUNK ? taken - at : TRACE_CHUNK);
  }
  return NULL;
}
