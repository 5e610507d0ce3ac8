/* One application over several daemons: a thread for each keeps launches under way there, what a lost daemon had goes
 * to the others, and results are taken in order. A launch that takes much longer than others did is given to another
 * daemon as well, and the first answer counts: a run has no effect but its result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/channel.h"

enum { AT_ONCE = 4, MOST_AT_ONCE = 64, LOST_MS = 30000, LOOK_MS = 50, PAUSE_MS = 100, AHEAD = 4 };
/* A launch is overdue after so long at least, and after twice the time that few exceed: the mean and four mean
 * deviations, as TCP has it (RFC 6298). A result whose other copy is still being sent waits for that so long. */
enum { OVERDUE_MS = 1000, SENDING_MS = 200 };
/* Launches with a deadline that all daemons have refused for so long are refused for good. */
enum { REFUSED_MS = 2000 };
#define NOBODY SIZE_MAX

/* A connection, kept while results that came by it are not taken yet. */
typedef struct spread_link {
  braid_client *client;
  size_t results;
  bool retired;
} spread_link;

/* A launch, from when it is given to a daemon until its result is taken. */
typedef struct spread_result {
  braid_client_call *call; /* NULL: it is not there */
  spread_link *link;
  size_t copies;            /* under way */
  int64_t sent_ms, came_ms; /* the last copy; the result */
} spread_result;

typedef struct spread {
  const braid_client_spread_options *options;
  const braid_client_work *work;
  braid_client_options connection;
  size_t at_once, window;
  struct spread_daemon *daemons;
  int over;             /* atomic: as `stop`, for those that connect */
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  size_t next, taken;      /* the first that nobody has; the first whose result is not taken */
  size_t *again, returned; /* those that came back */
  spread_result *results;  /* of `window` from `taken` on, by index % window */
  int64_t progress_ms;
  double mean_ms, deviation_ms; /* of answered launches; 0: none has been */
  bool stop, deadline;          /* deadline: launches have one */
  braid_client_status status;
  char why[BRAID_WIRE_DETAIL], trouble[BRAID_WIRE_DETAIL]; /* of the end; of a daemon that does not answer */
  size_t retried;
} spread;

/* A daemon, and what is under way there, the oldest first: its thread's, which changes `flight` and what follows
 * `sent_ms` with the lock, since others look at them. */
typedef struct spread_daemon {
  spread *s;
  const char *address;
  pthread_t thread;
  spread_link *link; /* NULL: none */
  braid_client_call *calls[MOST_AT_ONCE];
  size_t indexes[MOST_AT_ONCE], flight;
  int64_t sent_ms[MOST_AT_ONCE];
  bool overtaken; /* another has answered what is under way here: nothing more is given to it until it answers */
  size_t sending; /* what is being sent; NOBODY */
  size_t answered;
  bool reached;       /* there was a connection */
  int64_t refused_ms; /* since when it has refused all that it was given; 0: it does not */
  braid_client_status refusal;
  char why[BRAID_WIRE_DETAIL]; /* of the refusal, or why there is no connection; "": it has not been tried yet */
} spread_daemon;

/* --- with the lock -------------------------------------------------------------------------------------------------
 */
static void spread_end(spread *s, braid_client_status status, const char *why) {
  if (!s->stop) {
    s->status = status;
    snprintf(s->why, sizeof s->why, "%s", why);
  }
  s->stop = true;
  __atomic_store_n(&s->over, 1, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&s->changed);
}

/* Whether something is under way at a daemon that does not refuse all it is given. */
static bool spread_works(const spread *s) {
  for (size_t i = 0; i < s->options->address_count; i++)
    if (s->daemons[i].flight && !s->daemons[i].refused_ms) return true;
  return false;
}

/* Whether every daemon has refused launches with a deadline for a while, or cannot be reached. */
static bool spread_is_refused(const spread *s) {
  size_t refusing = 0;
  int64_t now = client_now_ms();
  for (size_t i = 0; s->deadline && i < s->options->address_count; i++) {
    const spread_daemon *d = &s->daemons[i];
    if (d->refused_ms && now > d->refused_ms + REFUSED_MS)
      refusing++;
    else if (d->link || !d->why[0])
      return false;
  }
  return refusing > 0;
}

/* Ends it as a daemon refuses it, or because none answers. */
static void spread_give_up(spread *s) {
  const spread_daemon *refuses = NULL;
  for (size_t i = 0; i < s->options->address_count && !refuses; i++)
    if (s->daemons[i].refused_ms) refuses = &s->daemons[i];
  if (refuses)
    spread_end(s, refuses->refusal, refuses->why);
  else
    spread_end(s, BRAID_CLIENT_UNAVAILABLE, s->trouble[0] ? s->trouble : "no daemon answers");
}

static bool spread_is_over(spread *s) {
  if (s->taken == s->work->count && !s->stop) spread_end(s, BRAID_CLIENT_OK, "");
  int64_t lost_ms = s->options->lost_ms ? s->options->lost_ms : LOST_MS;
  bool late = !spread_works(s) && client_now_ms() > s->progress_ms + lost_ms;
  if (!s->stop && (late || spread_is_refused(s))) spread_give_up(s);
  return s->stop;
}

static spread_result *spread_slot(spread *s, size_t index) {
  return &s->results[index % s->window];
}

/* Whether its result is there, or taken already. */
static bool spread_has(spread *s, size_t index) {
  return index < s->taken || spread_slot(s, index)->call;
}

/* A copy has not come to a result: the launch is to be made again, unless another copy is under way. */
static void spread_return(spread *s, size_t index) {
  if (index < s->taken) return;
  spread_slot(s, index)->copies--;
  if (spread_has(s, index) || spread_slot(s, index)->copies) return;
  s->again[s->returned++] = index;
  s->retried++;
}

static void spread_learn(spread *s, double ms) {
  double apart = ms > s->mean_ms ? ms - s->mean_ms : s->mean_ms - ms;
  bool first = s->mean_ms == 0;
  s->deviation_ms = first ? ms / 2 : s->deviation_ms + (apart - s->deviation_ms) / 4;
  s->mean_ms = first ? ms : s->mean_ms + (ms - s->mean_ms) / 8;
}

static bool daemon_has(const spread_daemon *d, size_t index) {
  for (size_t i = 0; i < d->flight; i++)
    if (d->indexes[i] == index) return true;
  return false;
}

/* The oldest launch that is overdue where it is; NOBODY: none. */
static size_t spread_overdue(spread *s, const spread_daemon *d) {
  double limit_ms = 2 * (s->mean_ms + 4 * s->deviation_ms);
  if (s->mean_ms == 0) return NOBODY; /* nobody has answered: nobody is slower than others */
  if (limit_ms < OVERDUE_MS) limit_ms = OVERDUE_MS;
  int64_t now = client_now_ms();
  for (size_t index = s->taken; index < s->next; index++) {
    const spread_result *slot = spread_slot(s, index);
    if (!slot->call && slot->copies && (double)(now - slot->sent_ms) > limit_ms && !daemon_has(d, index)) return index;
  }
  return NOBODY;
}

/* The next that is to be launched; false: there is none now. */
static bool spread_pick(spread *s, const spread_daemon *d, size_t *out) {
  size_t index = NOBODY;
  if (s->returned) {
    index = s->again[--s->returned];
  } else if (s->next < s->work->count && s->next < s->taken + s->window) {
    index = s->next++;
  } else if ((index = spread_overdue(s, d)) != NOBODY) {
    s->retried++;
  }
  if (index == NOBODY) return false;
  spread_slot(s, index)->copies++;
  spread_slot(s, index)->sent_ms = client_now_ms();
  *out = index;
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

/* So long, whatever others have to tell, but for the end. */
static void spread_pause(spread *s) {
  int64_t until = client_now_ms() + PAUSE_MS;
  for (int64_t now; !s->stop && (now = client_now_ms()) < until;) spread_wait(s, (int)(until - now));
}

/* Closes it when nothing of it is used any more. */
static void link_drop(spread_link *link) {
  if (!link->retired || link->results) return;
  braid_client_close(link->client);
  free(link);
}

/* Whether a copy of it is still being sent, out of memory that is the application's until the result is taken. A daemon
 * that does not take it for a while loses its connection. */
static bool spread_is_sending(spread *s, size_t index) {
  bool sending = false;
  for (size_t i = 0; i < s->options->address_count; i++) {
    spread_daemon *d = &s->daemons[i];
    if (d->sending != index) continue;
    sending = true;
    if (d->link && client_now_ms() > spread_slot(s, index)->came_ms + SENDING_MS)
      client_break(d->link->client, "the daemon does not take what another has answered");
  }
  return sending;
}

/* Hands over what is there, in order, each once. */
static void spread_take(spread *s) {
  while (!s->stop && s->taken < s->work->count && spread_slot(s, s->taken)->call && !spread_is_sending(s, s->taken)) {
    spread_result *result = spread_slot(s, s->taken);
    bool goes_on = s->work->take(s->work->context, s->taken, result->call);
    braid_client_release(result->call);
    spread_link *link = result->link;
    *result = (spread_result){0};
    link->results--;
    link_drop(link);
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
  if (d->link) client_break(d->link->client, why); /* no farewell is waited for: it may hang */
  for (size_t i = 0; i < d->flight; i++) braid_client_release(d->calls[i]);
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < d->flight; i++) spread_return(s, d->indexes[i]);
  d->overtaken = false;
  d->refused_ms = 0;
  if (!s->stop) snprintf(d->why, sizeof d->why, "%s", why);
  snprintf(s->trouble, sizeof s->trouble, "%s", why);
  bool back = d->flight > 0; /* launches, for others to take */
  d->flight = 0;
  if (d->link) {
    d->link->retired = true;
    link_drop(d->link);
  }
  d->link = NULL;
  if (back) pthread_cond_broadcast(&s->changed);
  spread_pause(s);
  pthread_mutex_unlock(&s->lock);
}

static void daemon_connect(spread_daemon *d) {
  braid_client *client;
  braid_client_status status = client_connect(d->address, &d->s->connection, &d->s->over, &client);
  spread_link *link = status == BRAID_CLIENT_OK ? calloc(1, sizeof *link) : NULL;
  if (link) {
    link->client = client;
    pthread_mutex_lock(&d->s->lock);
    d->link = link;
    d->reached = true;
    pthread_mutex_unlock(&d->s->lock);
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
  bool passes = is_passing(status) || spread_has(s, index); /* what another has answered is no failure here */
  if (passes)
    spread_return(s, index);
  else
    spread_end(s, status, why);
  pthread_mutex_unlock(&s->lock);
  bool lost = status == BRAID_CLIENT_LOST || status == BRAID_CLIENT_PROTOCOL || status == BRAID_CLIENT_TIMEOUT;
  if (lost) {
    daemon_lose(d, why);
  } else if (is_passing(status)) {
    pthread_mutex_lock(&s->lock);
    if (!d->refused_ms) d->refused_ms = client_now_ms();
    d->refusal = status;
    snprintf(d->why, sizeof d->why, "%s", why);
    if (d->flight)
      spread_wait(s, PAUSE_MS);
    else
      spread_pause(s);
    pthread_mutex_unlock(&s->lock);
  }
}

static void daemon_send(spread_daemon *d, size_t index) {
  enum { MOST = BRAID_CLIENT_MAX_TENSORS };
  braid_client_launch_options launch = {0};
  braid_client_tensor inputs[MOST], outputs[MOST];
  braid_client_call *call;
  pthread_mutex_lock(&d->s->lock);
  if (spread_has(d->s, index)) { /* another has answered since it was picked */
    spread_return(d->s, index);
    pthread_mutex_unlock(&d->s->lock);
    return;
  }
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
    d->sending = index;
    d->s->deadline |= launch.deadline_us > 0;
  }
  pthread_mutex_unlock(&d->s->lock);
  if (!given) return;
  braid_client_status status = braid_client_submit(d->link->client, &launch, &call);
  pthread_mutex_lock(&d->s->lock);
  d->sending = NOBODY;
  pthread_mutex_unlock(&d->s->lock);
  if (status != BRAID_CLIENT_OK) {
    daemon_fail(d, index, status, braid_client_error());
    return;
  }
  d->calls[d->flight] = call;
  d->indexes[d->flight] = index;
  d->sent_ms[d->flight] = client_now_ms();
  pthread_mutex_lock(&d->s->lock);
  d->flight++;
  pthread_mutex_unlock(&d->s->lock);
}

/* Whether another daemon has answered what is the oldest here: then that is cancelled, and its answer, which still
 * comes if the daemon lives, is dropped. */
static void daemon_overtake(spread_daemon *d) {
  pthread_mutex_lock(&d->s->lock);
  bool overtaken = spread_has(d->s, d->indexes[0]);
  pthread_mutex_unlock(&d->s->lock);
  if (!overtaken || d->overtaken) return;
  d->overtaken = true;
  client_cancel_soon(d->calls[0]);
}

/* Looks after the oldest launch. */
static void daemon_wait(spread_daemon *d) {
  spread *s = d->s;
  braid_client_call *call = d->calls[0];
  size_t index = d->indexes[0];
  braid_client_status status = braid_client_wait(call, LOOK_MS);
  if (status == BRAID_CLIENT_TIMEOUT) {
    daemon_overtake(d);
    if (d->link->client->call_ms < 0 || client_now_ms() < d->sent_ms[0] + d->link->client->call_ms) return;
    daemon_lose(d, "a daemon does not answer in time");
    return;
  }
  int64_t took_ms = client_now_ms() - d->sent_ms[0];
  pthread_mutex_lock(&s->lock);
  d->overtaken = false;
  d->flight--;
  if (status == BRAID_CLIENT_OK) d->refused_ms = 0;
  pthread_mutex_unlock(&s->lock);
  memmove(d->calls, d->calls + 1, d->flight * sizeof *d->calls);
  memmove(d->indexes, d->indexes + 1, d->flight * sizeof *d->indexes);
  memmove(d->sent_ms, d->sent_ms + 1, d->flight * sizeof *d->sent_ms);
  if (status != BRAID_CLIENT_OK) {
    char sentence[BRAID_WIRE_DETAIL];
    snprintf(sentence, sizeof sentence, "%.500s", braid_client_error());
    braid_client_release(call);
    daemon_fail(d, index, status, sentence);
    return;
  }
  pthread_mutex_lock(&s->lock);
  spread_result *slot = spread_slot(s, index);
  if (spread_has(s, index)) {
    spread_return(s, index);
    braid_client_release(call);
  } else {
    *slot = (spread_result){.call = call, .link = d->link, .copies = slot->copies - 1, .came_ms = client_now_ms()};
    d->link->results++;
    d->answered++;
    spread_learn(s, (double)took_ms + 1);
  }
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
    bool free = !over && d->link && d->flight < s->at_once && !d->overtaken;
    bool sends = free && spread_pick(s, d, &index);
    spread_take(s); /* what waited for a copy that was being sent */
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
  s->daemons = calloc(daemons, sizeof *s->daemons);
  for (size_t i = 0; s->daemons && i < daemons; i++)
    s->daemons[i] = (spread_daemon){.s = s, .address = s->options->addresses[i], .sending = NOBODY};
  s->progress_ms = client_now_ms();
  return s->again && s->results && s->daemons;
}

/* At the end nobody waits for a daemon that does not answer, nor take what it is sent. */
static void spread_cut(spread *s) {
  pthread_mutex_lock(&s->lock);
  while (!s->stop) pthread_cond_wait(&s->changed, &s->lock);
  for (size_t i = 0; i < s->options->address_count; i++) {
    spread_daemon *d = &s->daemons[i];
    if (d->link && d->sending != NOBODY) client_break(d->link->client, "all is done");
  }
  pthread_mutex_unlock(&s->lock);
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
  free(s->daemons);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
}

static void say_unreached(const spread_daemon *d, char *out) {
  out[0] = '\0';
  if (d->reached) return;
  if (d->why[0])
    snprintf(out, BRAID_CLIENT_SENTENCE, "%s", d->why);
  else
    snprintf(out, BRAID_CLIENT_SENTENCE, "%.200s: there was no answer before all was done", d->address);
}

braid_client_status braid_client_spread(const braid_client_spread_options *options, const braid_client_work *work,
                                        size_t *out_answered, size_t *out_retried) {
  spread s = {.options = options, .work = work, .at_once = AT_ONCE};
  if (!options->address_count || options->at_once < 0 || options->at_once > MOST_AT_ONCE)
    return client_fail(BRAID_CLIENT_ARGUMENT, "at least one address, and up to %d launches at once are expected",
                       MOST_AT_ONCE);
  if (options->connection) s.connection = *options->connection;
  if (options->at_once) s.at_once = (size_t)options->at_once;
  size_t started = 0;
  bool made = spread_make(&s, options->address_count);
  for (; made && started < options->address_count; started++)
    if (pthread_create(&s.daemons[started].thread, NULL, daemon_main, &s.daemons[started]) != 0) break;
  bool whole = made && started == options->address_count;
  if (!whole) {
    pthread_mutex_lock(&s.lock);
    spread_end(&s, BRAID_CLIENT_NO_MEMORY, "no memory or threads for so many daemons");
    pthread_mutex_unlock(&s.lock);
  }
  if (made) spread_cut(&s);
  for (size_t i = 0; i < started; i++) {
    pthread_join(s.daemons[i].thread, NULL);
    if (out_answered) out_answered[i] = s.daemons[i].answered;
    if (options->unreached) say_unreached(&s.daemons[i], options->unreached[i]);
  }
  if (out_retried) *out_retried = s.retried;
  spread_free(&s);
  return s.status == BRAID_CLIENT_OK ? BRAID_CLIENT_OK : client_fail(s.status, "%s", s.why);
}
