/* Jobs: they get cores, switch, run, stop, end. */
#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "overlay/card/internal.h"

static card_job *job_of(const card_context *context) {
  return &context->jobs[context->next];
}

static bool has_job(const card_context *context) {
  return context->open && context->next < context->job_count;
}

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
static void release_cores(braid_card *card, card_context *context) {
  if (context->cores) context->last_cores = context->cores;
  card->free |= context->cores;
  context->cores = 0;
}

static void hold_cores(braid_card *card, card_context *context, uint64_t cores) {
  card->free = (card->free | context->cores) & ~cores;
  context->cores = cores;
  for (size_t i = 0; i < card->count; i++)
    if (card->contexts[i] != context && card->contexts[i]->loaded & cores) card->contexts[i]->loaded = 0;
}

/* What a context that keeps its cores has, when it is to have another number: if they are not free, it waits. */
static void resize_kept(braid_card *card, card_context *context) {
  if (!context->request.keeps_cores || context->wanted == card_count(context->cores)) return;
  uint64_t cores = card_choose(card, context, context->wanted);
  if (!cores) return;
  context->last_cores = context->cores;
  hold_cores(card, context, cores);
}

/* --- ends ----------------------------------------------------------------------------------------------------------
 */
/* `why`: copied. */
static braid_status job_finish(braid_card *card, card_context *context, braid_status status, const char *why) {
  card_job *job = job_of(context);
  braid_card_result *r = &job->result;
  braid_card_counters *counters = &context->counters;
  r->done = true;
  r->status = status;
  r->ended = braid_card_now(card);
  r->why = status == BRAID_OK ? NULL : braid_strdup(card->allocator, why ? why : braid_status_text(status));
  if (status != BRAID_OK && !r->why) return BRAID_NO_MEMORY;
  double allowed = context->request.latency_seconds * card->design->clock_mhz * 1e6;
  r->late = allowed > 0 && (double)(r->ended - r->submitted) > allowed;
  counters->command_completions++;
  counters->late += r->late;
  if (status != BRAID_OK) {
    *(status == BRAID_TIMEOUT ? &counters->time_outs : &counters->errors) += 1;
    context->loaded = 0;
  } else if (job->output && !card->options.times_only) {
    uint64_t first = context->range.first;
    for (int s = 0; s < BRAID_SEGMENT_OUTPUTS; s++) first += context->bytes[s];
    memcpy(job->output, card->ddr + first, (size_t)context->bytes[BRAID_SEGMENT_OUTPUTS]);
  }
  braid_free(card->allocator, job->input);
  job->input = NULL;
  context->last_cores = context->cores ? context->cores : context->last_cores;
  if (!context->request.keeps_cores) release_cores(card, context);
  context->state = CARD_IDLE;
  context->begun = context->inside = context->redone = false;
  context->layer = 0;
  context->stop_at = UINT64_MAX;
  context->next++;
  resize_kept(card, context);
  return BRAID_OK;
}

/* Both simulators have to refuse it; what the functional one says is the status, what the timing one says the reason.
 */
static braid_status job_fail(braid_card *card, card_context *context, const char *why) {
  uint64_t most = context->request.most_cycles;
  if (most && job_of(context)->result.ran >= most) return job_finish(card, context, BRAID_TIMEOUT, why);
  braid_status status = card_compute(card, context, context->from, NULL);
  if (status == BRAID_NO_MEMORY) return status;
  return job_finish(card, context, status == BRAID_OK ? BRAID_INVALID_FILE : status, why);
}

/* --- starts --------------------------------------------------------------------------------------------------------
 */
static void put_input(braid_card *card, card_context *context) {
  uint64_t first = context->range.first + context->bytes[0] + context->bytes[1], bytes = context->bytes[2];
  const uint8_t *input = job_of(context)->input;
  if (!card->ddr || !bytes) return;
  if (input)
    memcpy(card->ddr + first, input, (size_t)bytes);
  else
    memset(card->ddr + first, 0, (size_t)bytes);
}

/* Programs of so many cores for what is left of the job: those that it has, if they are for as many; else new ones from
 * its layer on. *compiled: they are new. */
static braid_status find_programs(braid_card *card, card_context *context, int count, bool *compiled) {
  const card_programs *programs = &context->programs;
  const braid_package *package = context->request.package;
  /* Those of recurrent networks keep weights and states on the cores, so that others begin behind a step; inside of it
   * they go on with the vectors as they were. */
  bool lost = context->begun && package && package->rnn && !context->inside;
  *compiled = lost || programs->cores != count || (!context->begun && programs->layer != 0);
  if (*compiled || !context->begun) {
    memset(context->from, 0, sizeof context->from);
    if (context->vectors) memset(context->vectors, 0, (size_t)card->design->vector_bytes);
  }
  if (!*compiled) return BRAID_OK;
  job_of(context)->result.redone_layers += context->inside;
  context->redone = context->redone || context->inside;
  context->inside = false;
  return card_programs_make(card, context, count, context->layer);
}

/* Gives the next job these cores; its instructions are on their way. */
static braid_status job_start(braid_card *card, card_context *context, uint64_t cores) {
  card_job *job = job_of(context);
  int count = card_count(cores);
  bool compiled;
  uint64_t now = braid_card_now(card), before = context->last_cores;
  braid_status status = find_programs(card, context, count, &compiled);
  if (status == BRAID_NO_MEMORY) return status;
  hold_cores(card, context, cores);
  if (!context->begun) {
    put_input(card, context);
    job->result.began = now;
  }
  if (status != BRAID_OK) return job_finish(card, context, status, braid_error_detail());
  uint64_t cycles = 0; /* the same programs go on where they were */
  if (compiled || context->loaded != cores || before != cores) {
    cycles = card_switch_cycles(card, context, cores, compiled);
    job->result.switches++;
  }
  if (context->begun && before & ~cores && card_count(before & cores) < count) {
    job->result.migrations++;
    context->counters.migrations++;
  }
  context->loaded = cores;
  context->begun = true;
  context->state = CARD_SWITCHING;
  context->since = now;
  context->ready_at = now + cycles;
  return BRAID_OK;
}

static uint32_t gate_of(const braid_card *card, const card_context *context) {
  const braid_overlay_design *d = card->design;
  int first, count;
  if (context->request.bandwidth <= 0) return 0;
  braid_overlay_core_banks(d, __builtin_ctzll(context->cores), &first, &count);
  double bytes = context->request.bandwidth * count * d->bank_bits / 8.0 * d->efficiency * 1024;
  return bytes < 1 ? 1 : (uint32_t)bytes;
}

/* It is to have fewer cores, or more that are free. */
static bool should_change(const braid_card *card, const card_context *context) {
  int count = card_count(context->cores);
  return context->wanted < count || (context->wanted > count && card_choose(card, context, context->wanted));
}

/* A layer that was begun again for another number of cores is not begun once more for a third one: it would never end
 * where numbers change often. The job might come back with another one, too, when it gives all its cores back. */
static void ask_to_stop(braid_card *card, card_context *context) {
  bool tile = context->place == BRAID_CARD_AFTER_TILE && !context->redone;
  if (context->place == BRAID_CARD_AFTER_TASK || (context->stop_at != UINT64_MAX && !tile)) return;
  if (context->stop_at == UINT64_MAX) context->stop_at = braid_card_now(card);
  braid_timing_stop(card->timing, context->task, tile ? BRAID_TIMING_AT_TILE : BRAID_TIMING_AT_LAYER);
}

/* Its instructions are there. */
static braid_status job_run(braid_card *card, card_context *context) {
  braid_timing_program programs[BRAID_OVERLAY_MOST_CORES];
  braid_timing_task task = {.programs = programs, .gate = gate_of(card, context), .gate_owner = context->number};
  uint64_t first = context->range.first / kCardLine, now = braid_card_now(card);
  braid_card_result *r = &job_of(context)->result;
  for (uint64_t left = context->cores; left; left &= left - 1) {
    size_t c = task.core_count++;
    programs[c] = (braid_timing_program){__builtin_ctzll(left), context->programs.instructions[c],
                                         context->programs.counts[c], context->from[c]};
  }
  for (int s = 0; s < BRAID_OVERLAY_SEGMENTS; s++) {
    uint64_t lines = context->bytes[s] / kCardLine;
    task.ranges[s] = (braid_timing_range){first, lines, context->read_only[s]};
    first += lines;
  }
  uint64_t code[BRAID_OVERLAY_MOST_CORES],
      part = (uint64_t)card->design->instruction_bytes / (uint64_t)card->design->cores;
  for (size_t c = 0; c < task.core_count; c++) { /* what fits stays on the chip, the rest is fetched */
    uint64_t bytes = card_programs_bytes(&context->programs, (int)c);
    code[c] = bytes <= part ? BRAID_TIMING_RESIDENT : first;
    first += bytes / kCardLine;
  }
  task.code = code;
  if (context->request.most_cycles)
    task.most_cycles = context->request.most_cycles > r->ran ? context->request.most_cycles - r->ran : 1;
  r->switching += now - context->since;
  context->since = now;
  braid_status status = braid_timing_submit(card->timing, &task, &context->task);
  if (status == BRAID_NO_MEMORY) return status;
  context->state = CARD_RUNNING;
  if (status != BRAID_OK) return job_finish(card, context, BRAID_INVALID_FILE, braid_error_detail());
  if (should_change(card, context)) ask_to_stop(card, context);
  return BRAID_OK;
}

/* --- stops ---------------------------------------------------------------------------------------------------------
 */
/* It goes on with what it is to have, or as much of it as there is. */
static braid_status go_on(braid_card *card, card_context *context) {
  card_job *job = job_of(context);
  context->state = CARD_IDLE;
  context->stop_at = UINT64_MAX;
  context->last_cores = context->cores;
  if (!context->wanted) {
    job->result.preemptions++;
    context->counters.preemptions++;
    release_cores(card, context);
    return BRAID_OK;
  }
  uint64_t cores = 0;
  for (int count = context->wanted; !cores && count > 0; count--) cores = card_choose(card, context, count);
  return job_start(card, context, cores ? cores : context->cores);
}

static braid_status job_stopped(braid_card *card, card_context *context, const braid_timing_result *result) {
  size_t to[BRAID_OVERLAY_MOST_CORES], most = 0;
  size_t layer = context->layer;
  context->layer = SIZE_MAX;
  for (size_t c = 0; c < result->core_count; c++) {
    to[c] = result->cores[c].stopped_at;
    size_t ended = card_programs_layers(&context->programs, (int)c, to[c]);
    if (ended < context->layer) context->layer = ended;
    if (ended > most) most = ended;
  }
  BRAID_ASSERT(most == context->layer); /* they synchronize together */
  if (context->layer != layer) context->redone = false;
  braid_status status = card_compute(card, context, context->from, to);
  if (status == BRAID_NO_MEMORY) return status;
  if (status != BRAID_OK) return job_finish(card, context, status, braid_error_detail());
  context->inside = !card_programs_between(&context->programs, to);
  memcpy(context->from, to, result->core_count * sizeof *to);
  return go_on(card, context);
}

/* Its task does not run any more. */
static braid_status job_goes_on(braid_card *card, card_context *context) {
  braid_timing_result result = braid_timing_get(card->timing, context->task);
  braid_card_result *r = &job_of(context)->result;
  uint64_t ran = result.ended - context->since;
  r->ran += ran;
  context->counters.core_cycles += ran * result.core_count;
  if (context->stop_at != UINT64_MAX) r->draining += result.ended - context->stop_at;
  if (result.state == BRAID_TIMING_STOPPED) return job_stopped(card, context, &result);
  if (result.state == BRAID_TIMING_FAILED) return job_fail(card, context, result.why);
  braid_status status = card_compute(card, context, context->from, NULL);
  if (status == BRAID_NO_MEMORY) return status;
  return job_finish(card, context, status, status == BRAID_OK ? NULL : braid_error_detail());
}

static braid_status job_settle(braid_card *card, card_context *context) {
  size_t task = context->task;
  BRAID_TRY(job_goes_on(card, context));
  braid_timing_forget(card->timing, task);
  return BRAID_OK;
}

/* --- time ----------------------------------------------------------------------------------------------------------
 */
static bool goes_before(const card_context *a, const card_context *b) {
  if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
  return job_of(a)->result.submitted < job_of(b)->result.submitted;
}

/* The next context whose job waits for cores that could be free some day. */
static card_context *next_waiting(const braid_card *card) {
  card_context *best = NULL;
  for (size_t i = 0; i < card->count; i++) {
    card_context *context = card->contexts[i];
    if (!has_job(context) || context->state != CARD_IDLE || !context->wanted) continue;
    if (best && !goes_before(context, best)) continue;
    if (card_could_have(card, context, context->wanted, false)) best = context;
  }
  return best;
}

static braid_status start_waiting(braid_card *card) {
  for (size_t i = 0; i < card->count; i++) { /* those that have cores wait for nobody */
    card_context *context = card->contexts[i];
    while (has_job(context) && context->request.keeps_cores && context->state == CARD_IDLE)
      BRAID_TRY(job_start(card, context, context->cores));
  }
  for (card_context *context; (context = next_waiting(card)) != NULL;) {
    uint64_t cores = card_choose(card, context, context->wanted);
    if (!cores) break;
    BRAID_TRY(job_start(card, context, cores));
  }
  for (size_t i = 0; i < card->count; i++) {
    card_context *context = card->contexts[i];
    if (context->open && context->state == CARD_RUNNING && should_change(card, context)) ask_to_stop(card, context);
  }
  return BRAID_OK;
}

static size_t take_done(braid_card *card) {
  for (size_t i = 0; i < card->count; i++)
    if (card->contexts[i]->open && card->contexts[i]->done < card->contexts[i]->next) {
      card->contexts[i]->done++;
      return i;
    }
  return SIZE_MAX;
}

/* When the next switch ends, at most `until`. *any: something is under way. */
static uint64_t next_switch(const braid_card *card, uint64_t until, bool *any) {
  for (size_t i = 0; i < card->count; i++) {
    const card_context *context = card->contexts[i];
    *any = *any || (context->open && context->state != CARD_IDLE);
    if (context->open && context->state == CARD_SWITCHING && context->ready_at < until) until = context->ready_at;
  }
  return until;
}

/* *changed: a context has another state. */
static braid_status handle_jobs(braid_card *card, bool *changed) {
  *changed = false;
  for (size_t i = 0; i < card->count; i++) {
    card_context *context = card->contexts[i];
    card_state before = context->state;
    if (!context->open) continue;
    if (context->state == CARD_RUNNING && braid_timing_get(card->timing, context->task).state != BRAID_TIMING_RUNS)
      BRAID_TRY(job_settle(card, context));
    if (context->state == CARD_SWITCHING && context->ready_at <= braid_card_now(card))
      BRAID_TRY(job_run(card, context));
    *changed = *changed || context->state != before;
  }
  return BRAID_OK;
}

braid_status braid_card_advance(braid_card *card, uint64_t until, size_t *id) {
  *id = take_done(card);
  while (*id == SIZE_MAX) {
    bool any = false, changed = true;
    size_t task;
    while (changed) { /* a task may have stopped at once, and others get its cores */
      BRAID_TRY(start_waiting(card));
      BRAID_TRY(handle_jobs(card, &changed));
    }
    uint64_t next = next_switch(card, until, &any);
    if ((*id = take_done(card)) != SIZE_MAX) break;
    if (!any && until == UINT64_MAX) break;
    BRAID_TRY(braid_timing_advance(card->timing, next, &task));
    BRAID_TRY(handle_jobs(card, &changed));
    *id = take_done(card);
    if (*id == SIZE_MAX && braid_card_now(card) >= until) break;
  }
  return BRAID_OK;
}

braid_status braid_card_reconfigure(braid_card *card, size_t id, int cores, braid_card_place place) {
  if (id >= card->count || !card->contexts[id]->open) return braid_fail(BRAID_NOT_FOUND, "there is no context %zu", id);
  card_context *context = card->contexts[id];
  int least = context->request.keeps_cores ? 1 : 0;
  if (cores < least || cores > card->design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; allowed: %d to %d", cores, least, card->design->cores);
  if (context->request.code && cores != context->request.cores)
    return braid_fail(BRAID_UNSUPPORTED, "%s has code for %d cores", context->name, context->request.cores);
  BRAID_TRY(card_check_promise(card, &context->request, cores));
  context->wanted = cores;
  context->place = place;
  if (context->state == CARD_IDLE)
    resize_kept(card, context);
  else if (context->state == CARD_RUNNING && should_change(card, context))
    ask_to_stop(card, context);
  return BRAID_OK;
}
