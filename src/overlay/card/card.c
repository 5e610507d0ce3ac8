#include "overlay/card/card.h"

#include <math.h>
#include <string.h>

#include "base/invariant.h"
#include "base/try.h"
#include "base/vector.h"
#include "overlay/card/internal.h"

/* --- the card ------------------------------------------------------------------------------------------------------
 */
braid_status braid_card_create(const braid_card_options *options, const braid_allocator *allocator, braid_card **out) {
  *out = NULL;
  const braid_overlay_design *d = options->design;
  if (!(options->compile_seconds >= 0 && isfinite(options->compile_seconds)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%g s to compile; allowed: 0 or more", options->compile_seconds);
  braid_card *card = braid_zalloc(allocator, sizeof *card);
  if (!card) return BRAID_NO_MEMORY;
  card->allocator = allocator;
  card->options = *options;
  card->design = d;
  card->free = d->cores == 64 ? UINT64_MAX : ((uint64_t)1 << d->cores) - 1;
  braid_ranges_init(&card->ranges, options->bank_bytes ? options->bank_bytes : (uint64_t)d->bank_bytes, kCardStep,
                    allocator);
  braid_status status = braid_timing_create(d, allocator, &card->timing);
  if (status == BRAID_OK)
    *out = card;
  else
    braid_card_destroy(card);
  return status;
}

void braid_card_destroy(braid_card *card) {
  if (!card) return;
  for (size_t i = 0; i < card->count; i++) {
    braid_card_close(card, i);
    braid_free(card->allocator, card->contexts[i]);
  }
  braid_free(card->allocator, card->contexts);
  braid_timing_destroy(card->timing);
  braid_ranges_deinit(&card->ranges);
  braid_free(card->allocator, card->ddr);
  braid_free(card->allocator, card);
}

uint64_t braid_card_now(const braid_card *card) {
  return braid_timing_now(card->timing);
}

uint64_t braid_card_free_cores(const braid_card *card) {
  return card->free;
}

uint64_t braid_card_free_bytes(const braid_card *card) {
  return braid_ranges_left(&card->ranges);
}

static card_context *card_find(const braid_card *card, size_t id) {
  return id < card->count && card->contexts[id]->open ? card->contexts[id] : NULL;
}

static braid_status no_context(size_t id) {
  return braid_fail(BRAID_NOT_FOUND, "there is no context %zu", id);
}

/* --- contexts ------------------------------------------------------------------------------------------------------
 */
static braid_status check_package(const braid_card *card, const braid_package *package) {
  uint8_t fingerprint[BRAID_SHA256_BYTES];
  braid_design_fingerprint(card->design, fingerprint);
  if (memcmp(fingerprint, package->design, sizeof fingerprint) == 0) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "the package is compiled for cores of %s, and those of %s differ",
                    package->design_name, card->design->name ? card->design->name : "the card");
}

braid_status card_check_promise(const braid_card *card, const braid_card_request *request, int cores) {
  card_context asks = {.request = *request};
  int most = cores;
  while (most > 0 && !card_could_have(card, &asks, most, true)) most--;
  if (most == cores) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores with %g of a bank each: %s has that for %d", cores,
                    request->bandwidth, card->design->name ? card->design->name : "the card", most);
}

static braid_status check_request(const braid_card *card, const braid_card_request *r) {
  int least = r->package && !r->keeps_cores ? 0 : 1;
  if (!r->package == !r->code)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a context runs a package or code of its own, one of both");
  if (r->cores < least || r->cores > card->design->cores)
    return braid_fail(BRAID_INVALID_ARGUMENT, "%d cores; allowed: %d to %d", r->cores, least, card->design->cores);
  if (!(r->priority >= 0 && isfinite(r->priority)) || !(r->latency_seconds >= 0 && isfinite(r->latency_seconds)))
    return braid_fail(BRAID_INVALID_ARGUMENT, "priority %g and latency %g s; allowed: 0 or more", r->priority,
                      r->latency_seconds);
  if (!(r->bandwidth >= 0 && r->bandwidth <= 1))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%g of a bank; allowed: 0 to 1", r->bandwidth);
  for (int s = 0; r->code && s < BRAID_OVERLAY_SEGMENTS; s++)
    if (r->code->bytes[s] % kCardLine || r->code->bytes[s] > (uint64_t)1 << 44)
      return braid_fail(BRAID_INVALID_ARGUMENT, "segment %d has %llu bytes; multiples of %d are allowed", s,
                        (unsigned long long)r->code->bytes[s], kCardLine);
  BRAID_TRY(card_check_promise(card, r, r->cores));
  return r->package ? check_package(card, r->package) : BRAID_OK;
}

static void take_request(card_context *context, const braid_card_request *request) {
  context->request = *request;
  if (request->priority == 0) context->request.priority = 1;
  for (int s = 0; request->package && s < BRAID_PACKAGE_SEGMENTS; s++) {
    context->bytes[s] = (uint64_t)request->package->bytes[s];
    context->read_only[s] = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
  }
  if (request->code) {
    context->code = *request->code;
    memcpy(context->bytes, request->code->bytes, sizeof context->bytes);
    memcpy(context->read_only, request->code->read_only, sizeof context->read_only);
  }
  context->wanted = request->cores;
  context->stop_at = UINT64_MAX;
}

static braid_status give_memory(braid_card *card, card_context *context) {
  uint64_t bytes = 0;
  for (int s = 0; s < BRAID_OVERLAY_SEGMENTS; s++) bytes += context->bytes[s];
  uint64_t code = 0;
  if (context->request.package) BRAID_TRY(card_programs_room(card, context, &code));
  for (int c = 0; context->request.code && c < context->request.cores; c++) code += context->code.programs[c].count;
  BRAID_TRY(braid_ranges_take(&card->ranges, bytes + code, &context->range));
  BRAID_TRY(card_reserve(card, context->range.first + bytes));
  const uint8_t *constants = context->request.package ? context->request.package->constants : context->code.constants;
  if (constants && card->ddr && context->bytes[0])
    memcpy(card->ddr + context->range.first, constants, (size_t)context->bytes[0]);
  return BRAID_OK;
}

static braid_status open_context(braid_card *card, card_context *context, const braid_card_request *request) {
  const char *name = request->name ? request->name : "";
  take_request(context, request);
  braid_programs_init(&context->programs.made, card->allocator);
  context->name = braid_strdup(card->allocator, name);
  if (!context->name) return BRAID_NO_MEMORY;
  BRAID_TRY(give_memory(card, context));
  if (request->package && request->package->rnn && !card->options.times_only) {
    context->vectors = braid_zalloc(card->allocator, (size_t)card->design->vector_bytes);
    if (!context->vectors) return BRAID_NO_MEMORY;
  }
  if (!request->keeps_cores) return BRAID_OK;
  uint64_t cores = card_choose(card, context, request->cores);
  if (!cores)
    return braid_fail(BRAID_BUSY, "%s is to keep %d cores, and %d are free%s", name, request->cores,
                      card_count(card->free), request->bandwidth > 0 ? ", or not with that bandwidth" : "");
  context->cores = cores;
  card->free &= ~cores;
  return BRAID_OK;
}

braid_status braid_card_open(braid_card *card, const braid_card_request *request, size_t *id) {
  *id = SIZE_MAX;
  BRAID_TRY(check_request(card, request));
  card_context **items =
      braid_grow(card->allocator, card->contexts, card->count, &card->capacity, sizeof *card->contexts);
  if (!items) return BRAID_NO_MEMORY;
  card->contexts = items;
  card_context *context = braid_zalloc(card->allocator, sizeof *context);
  if (!context) return BRAID_NO_MEMORY;
  items[card->count++] = context;
  context->open = true;
  context->number = card->count;
  braid_status status = open_context(card, context, request);
  if (status == BRAID_OK) {
    *id = card->count - 1;
  } else {
    braid_card_close(card, card->count - 1);
    braid_free(card->allocator, context);
    card->count--;
  }
  return status;
}

static void free_job(const braid_card *card, card_job *job) {
  braid_free(card->allocator, job->input);
  job->input = NULL;
}

void braid_card_close(braid_card *card, size_t id) {
  card_context *context = card_find(card, id);
  if (!context) return;
  if (context->state == CARD_RUNNING) {
    braid_timing_cancel(card->timing, context->task);
    braid_timing_forget(card->timing, context->task);
  }
  card->free |= context->cores;
  for (size_t j = 0; j < context->job_count; j++) {
    free_job(card, &context->jobs[j]);
    braid_free(card->allocator, (void *)(uintptr_t)context->jobs[j].result.why);
  }
  braid_free(card->allocator, context->jobs);
  braid_free(card->allocator, context->name);
  braid_free(card->allocator, context->vectors);
  card_programs_free(card, &context->programs);
  uint64_t end = context->range.first + context->range.size; /* of which the image may lack what has instructions */
  if (end > card->ddr_bytes) end = card->ddr_bytes;
  if (card->ddr && context->range.first < end)
    memset(card->ddr + context->range.first, 0, (size_t)(end - context->range.first));
  braid_ranges_give_back(&card->ranges, context->range);
  memset(context, 0, sizeof *context);
}

braid_status braid_card_get_context(const braid_card *card, size_t id, braid_card_context *out) {
  const card_context *context = card_find(card, id);
  if (!context) return no_context(id);
  *out = (braid_card_context){context->name,        context->counters,   context->cores,
                              context->range.first, context->range.size, context->job_count - context->next};
  return BRAID_OK;
}

/* --- jobs ----------------------------------------------------------------------------------------------------------
 */
braid_status braid_card_submit(braid_card *card, size_t id, const uint8_t *input, uint8_t *output, uint64_t *sequence) {
  card_context *context = card_find(card, id);
  if (!context) return no_context(id);
  card_job *jobs =
      braid_grow(card->allocator, context->jobs, context->job_count, &context->job_capacity, sizeof *context->jobs);
  if (!jobs) return BRAID_NO_MEMORY;
  context->jobs = jobs;
  card_job *job = &jobs[context->job_count];
  uint64_t bytes = context->bytes[BRAID_SEGMENT_INPUTS];
  *job = (card_job){.output = output};
  if (input && bytes) {
    job->input = braid_alloc(card->allocator, (size_t)bytes);
    if (!job->input) return BRAID_NO_MEMORY;
    memcpy(job->input, input, (size_t)bytes);
  }
  *sequence = ++context->job_count;
  job->result.sequence = *sequence;
  job->result.submitted = braid_card_now(card);
  context->counters.command_submissions++;
  return BRAID_OK;
}

braid_status braid_card_get_result(const braid_card *card, size_t id, uint64_t sequence, braid_card_result *result) {
  const card_context *context = card_find(card, id);
  *result = (braid_card_result){0};
  if (!context) return no_context(id);
  if (!sequence || sequence > context->job_count)
    return braid_fail(BRAID_NOT_FOUND, "%s has no job %llu", context->name, (unsigned long long)sequence);
  *result = context->jobs[sequence - 1].result;
  return BRAID_OK;
}

braid_status braid_card_wait(braid_card *card, size_t id, uint64_t sequence, uint64_t most, braid_card_result *result) {
  uint64_t now = braid_card_now(card), until = most > UINT64_MAX - now ? UINT64_MAX : now + most;
  BRAID_TRY(braid_card_get_result(card, id, sequence, result));
  while (!result->done) {
    size_t ended;
    BRAID_TRY(braid_card_advance(card, until, &ended));
    BRAID_TRY(braid_card_get_result(card, id, sequence, result));
    if (result->done) break;
    if (ended == SIZE_MAX)
      return braid_fail(BRAID_TIMEOUT, "job %llu of %s is not done", (unsigned long long)sequence,
                        card->contexts[id]->name);
  }
  return BRAID_OK;
}
