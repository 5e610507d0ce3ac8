/* One application over several daemons: a thread for each keeps launches under way there, what a lost daemon had goes
 * to the others, and results are taken in order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/channel.h"

enum { AT_ONCE = 4, MOST_AT_ONCE = 64, LOST_MS = 30000, LOOK_MS = 50, PAUSE_MS = 100, AHEAD = 4 };

/* A connection, kept while results that came by it are not taken yet. */
typedef struct spread_link {
  braid_client *client;
  size_t results;
  bool retired;
} spread_link;

typedef struct spread_result {
  braid_client_call *call; /* NULL: it is not there */
  spread_link *link;
} spread_result;

typedef struct spread {
  const braid_client_spread_options *options;
  const braid_client_work *work;
  braid_client_options connection;
  size_t at_once, window;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  size_t next, taken;      /* the first that nobody has; the first whose result is not taken */
  size_t *again, returned; /* those that came back */
  spread_result *results;  /* of `window` from `taken` on, by index % window */
  int64_t progress_ms;
  bool stop;
  braid_client_status status;
  char why[BRAID_WIRE_DETAIL], trouble[BRAID_WIRE_DETAIL]; /* of the end; of a daemon that does not answer */
  size_t retried, flight;                                  /* launches that are under way anywhere */
} spread;

/* A daemon, and what is under way there, the oldest first. */
typedef struct spread_daemon {
  spread *s;
  const char *address;
  pthread_t thread;
  spread_link *link; /* NULL: none */
  braid_client_call *calls[MOST_AT_ONCE];
  size_t indexes[MOST_AT_ONCE], flight;
  int64_t sent_ms[MOST_AT_ONCE];
  size_t answered;
} spread_daemon;

/* --- with the lock -------------------------------------------------------------------------------------------------
 */
static void spread_end(spread *s, braid_client_status status, const char *why) {
  if (!s->stop) {
    s->status = status;
    snprintf(s->why, sizeof s->why, "%s", why);
  }
  s->stop = true;
  pthread_cond_broadcast(&s->changed);
}

static bool spread_is_over(spread *s) {
  if (s->taken == s->work->count) s->stop = true;
  int64_t lost_ms = s->options->lost_ms ? s->options->lost_ms : LOST_MS;
  if (!s->stop && !s->flight && client_now_ms() > s->progress_ms + lost_ms)
    spread_end(s, BRAID_CLIENT_UNAVAILABLE, s->trouble[0] ? s->trouble : "no daemon answers");
  return s->stop;
}

/* The next that is to be launched; false: there is none now. */
static bool spread_pick(spread *s, size_t *out) {
  if (s->returned) {
    *out = s->again[--s->returned];
    return true;
  }
  if (s->next == s->work->count || s->next >= s->taken + s->window) return false;
  *out = s->next++;
  return true;
}

static void spread_wait(spread *s, int ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ms * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

/* Closes it when nothing of it is used any more; the caller has the lock, which a moment's farewell does not need. */
static void link_drop(spread_link *link) {
  if (!link->retired || link->results) return;
  braid_client_close(link->client);
  free(link);
}

/* Hands over what is there, in order, each once. */
static void spread_take(spread *s) {
  while (!s->stop && s->taken < s->work->count && s->results[s->taken % s->window].call) {
    spread_result *result = &s->results[s->taken % s->window];
    bool goes_on = s->work->take(s->work->context, s->taken, result->call);
    braid_client_release(result->call);
    result->call = NULL;
    result->link->results--;
    link_drop(result->link);
    s->taken++;
    s->progress_ms = client_now_ms();
    if (!goes_on) spread_end(s, BRAID_CLIENT_CANCELLED, "whoever takes the results wants no more");
  }
  pthread_cond_broadcast(&s->changed);
}

/* --- a daemon ------------------------------------------------------------------------------------------------------
 */
/* The connection is of no use any more: what was under way comes back. */
static void daemon_lose(spread_daemon *d, const char *why) {
  spread *s = d->s;
  for (size_t i = 0; i < d->flight; i++) braid_client_release(d->calls[i]);
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < d->flight; i++) s->again[s->returned++] = d->indexes[i];
  s->retried += d->flight;
  s->flight -= d->flight;
  snprintf(s->trouble, sizeof s->trouble, "%s", why);
  bool back = d->flight > 0; /* launches, for others to take */
  d->flight = 0;
  if (d->link) {
    d->link->retired = true;
    link_drop(d->link);
  }
  d->link = NULL;
  if (back) pthread_cond_broadcast(&s->changed);
  if (!s->stop) spread_wait(s, PAUSE_MS);
  pthread_mutex_unlock(&s->lock);
}

static void daemon_connect(spread_daemon *d) {
  braid_client *client;
  braid_client_status status = braid_client_connect(d->address, &d->s->connection, &client);
  spread_link *link = status == BRAID_CLIENT_OK ? calloc(1, sizeof *link) : NULL;
  if (link) {
    link->client = client;
    d->link = link;
    return;
  }
  if (status == BRAID_CLIENT_OK) braid_client_close(client);
  bool ours = status == BRAID_CLIENT_ARGUMENT || status == BRAID_CLIENT_UNAUTHORIZED || status == BRAID_CLIENT_INVALID;
  if (!ours) {
    daemon_lose(d, braid_client_error());
    return;
  }
  pthread_mutex_lock(&d->s->lock);
  spread_end(d->s, status, braid_client_error());
  pthread_mutex_unlock(&d->s->lock);
}

/* Whether another daemon, or this one later, may do what was refused now. */
static bool is_passing(braid_client_status status) {
  return status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL || status == BRAID_CLIENT_TIMEOUT ||
         status == BRAID_CLIENT_UNAVAILABLE || status == BRAID_CLIENT_OVER_QUOTA;
}

/* What to do of a launch that has not ended well. */
static void daemon_fail(spread_daemon *d, size_t index, braid_client_status status, const char *sentence) {
  spread *s = d->s;
  char why[BRAID_WIRE_DETAIL];
  snprintf(why, sizeof why, "number %zu, %.100s: %.350s", index, d->address, sentence);
  pthread_mutex_lock(&s->lock);
  if (is_passing(status)) {
    s->again[s->returned++] = index;
    s->retried++;
  } else {
    spread_end(s, status, why);
  }
  pthread_mutex_unlock(&s->lock);
  bool lost = status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL || status == BRAID_CLIENT_TIMEOUT;
  if (lost) {
    daemon_lose(d, why);
  } else if (is_passing(status)) {
    pthread_mutex_lock(&s->lock);
    snprintf(s->trouble, sizeof s->trouble, "%s", why);
    spread_wait(s, PAUSE_MS);
    pthread_mutex_unlock(&s->lock);
  }
}

static void daemon_send(spread_daemon *d, size_t index) {
  enum { MOST = BRAID_CLIENT_MAX_TENSORS };
  braid_client_launch_options launch = {0};
  braid_client_tensor inputs[MOST], outputs[MOST];
  braid_client_call *call;
  pthread_mutex_lock(&d->s->lock);
  bool given = d->s->work->give(d->s->work->context, index, &launch);
  bool fits = launch.input_count <= MOST && launch.output_count <= MOST;
  if (!given) spread_end(d->s, BRAID_CLIENT_CANCELLED, "whoever gives the inputs has none");
  if (given && !fits) spread_end(d->s, BRAID_CLIENT_ARGUMENT, "a launch has more inputs or outputs than there may be");
  given &= fits;
  if (given) { /* the next that is given may stand in the same place */
    if (launch.input_count) memcpy(inputs, launch.inputs, launch.input_count * sizeof *inputs);
    if (launch.output_count) memcpy(outputs, launch.outputs, launch.output_count * sizeof *outputs);
    launch.inputs = inputs;
    launch.outputs = outputs;
  }
  pthread_mutex_unlock(&d->s->lock);
  if (!given) return;
  braid_client_status status = braid_client_submit(d->link->client, &launch, &call);
  if (status != BRAID_CLIENT_OK) {
    daemon_fail(d, index, status, braid_client_error());
    return;
  }
  d->calls[d->flight] = call;
  d->indexes[d->flight] = index;
  d->sent_ms[d->flight++] = client_now_ms();
  pthread_mutex_lock(&d->s->lock);
  d->s->flight++;
  pthread_mutex_unlock(&d->s->lock);
}

/* Looks after the oldest launch. */
static void daemon_wait(spread_daemon *d) {
  spread *s = d->s;
  braid_client_call *call = d->calls[0];
  size_t index = d->indexes[0];
  braid_client_status status = braid_client_wait(call, LOOK_MS);
  if (status == BRAID_CLIENT_TIMEOUT) {
    if (d->link->client->call_ms < 0 || client_now_ms() < d->sent_ms[0] + d->link->client->call_ms) return;
    daemon_lose(d, "a daemon does not answer in time");
    return;
  }
  d->flight--;
  memmove(d->calls, d->calls + 1, d->flight * sizeof *d->calls);
  memmove(d->indexes, d->indexes + 1, d->flight * sizeof *d->indexes);
  memmove(d->sent_ms, d->sent_ms + 1, d->flight * sizeof *d->sent_ms);
  pthread_mutex_lock(&s->lock);
  s->flight--;
  pthread_mutex_unlock(&s->lock);
  if (status != BRAID_CLIENT_OK) {
    char sentence[BRAID_WIRE_DETAIL];
    snprintf(sentence, sizeof sentence, "%.500s", braid_client_error());
    braid_client_release(call);
    daemon_fail(d, index, status, sentence);
    return;
  }
  pthread_mutex_lock(&s->lock);
  s->results[index % s->window] = (spread_result){call, d->link};
  d->link->results++;
  d->answered++;
  spread_take(s);
  pthread_mutex_unlock(&s->lock);
}

static void *daemon_main(void *context) {
  spread_daemon *d = context;
  spread *s = d->s;
  for (;;) {
    size_t index = 0;
    pthread_mutex_lock(&s->lock);
    bool over = spread_is_over(s);
    bool sends = !over && d->link && d->flight < s->at_once && spread_pick(s, &index);
    if (!over && d->link && !sends && !d->flight) spread_wait(s, LOOK_MS);
    pthread_mutex_unlock(&s->lock);
    if (over) break;
    if (!d->link)
      daemon_connect(d);
    else if (sends)
      daemon_send(d, index);
    else if (d->flight)
      daemon_wait(d);
  }
  if (d->link) daemon_lose(d, "");
  return NULL;
}

/* --- all of it -----------------------------------------------------------------------------------------------------
 */
static bool spread_make(spread *s, size_t daemons) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&s->lock, NULL);
  s->window = AHEAD * s->at_once * daemons;
  s->again = calloc(s->window, sizeof *s->again);
  s->results = calloc(s->window, sizeof *s->results);
  s->progress_ms = client_now_ms();
  return s->again && s->results;
}

/* Results that came and are not taken, after a failure. */
static void spread_free(spread *s) {
  for (size_t i = 0; s->results && i < s->window; i++) {
    spread_result *result = &s->results[i];
    if (!result->call) continue;
    braid_client_release(result->call);
    result->link->results--;
    link_drop(result->link);
  }
  free(s->again);
  free(s->results);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
}

braid_client_status braid_client_spread(const braid_client_spread_options *options, const braid_client_work *work,
                                        size_t *out_answered, size_t *out_retried) {
  spread s = {.options = options, .work = work, .at_once = AT_ONCE};
  if (!options->address_count || options->at_once < 0 || options->at_once > MOST_AT_ONCE)
    return client_fail(BRAID_CLIENT_ARGUMENT, "at least one address, and up to %d launches at once are expected",
                       MOST_AT_ONCE);
  if (options->connection) s.connection = *options->connection;
  if (options->at_once) s.at_once = (size_t)options->at_once;
  spread_daemon *daemons = calloc(options->address_count, sizeof *daemons);
  size_t started = 0;
  bool made = spread_make(&s, options->address_count) && daemons;
  for (; made && started < options->address_count; started++) {
    spread_daemon *d = &daemons[started];
    d->s = &s;
    d->address = options->addresses[started];
    if (pthread_create(&d->thread, NULL, daemon_main, d) != 0) break;
  }
  bool whole = made && started == options->address_count;
  if (!whole) {
    pthread_mutex_lock(&s.lock);
    spread_end(&s, BRAID_CLIENT_NO_MEMORY, "no memory or threads for so many daemons");
    pthread_mutex_unlock(&s.lock);
  }
  for (size_t i = 0; i < started; i++) {
    pthread_join(daemons[i].thread, NULL);
    if (out_answered) out_answered[i] = daemons[i].answered;
  }
  if (out_retried) *out_retried = s.retried;
  spread_free(&s);
  free(daemons);
  return s.status == BRAID_CLIENT_OK ? BRAID_CLIENT_OK : client_fail(s.status, "%s", s.why);
}
