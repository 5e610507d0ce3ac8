/* The line of a card: who of those that wait begins, and with how many cores. */
#include <stdlib.h>

#include "base/try.h"
#include "serve/line.h"

/* 1, 3 and 9 are the policy's priorities; ours are 1, the most urgent, to 9, and behind all of these those of tenants
 * that are over their share. */
static double priority_of(int rank) {
  return rank > BRAID_SERVE_OVER_SHARE ? (10.0 - (rank - BRAID_SERVE_OVER_SHARE)) / 10 : 10.0 - rank;
}

static braid_status show_jobs(braid_serve_line *l) {
  if (l->job_room < l->seen_count) {
    void *jobs = realloc(l->jobs, 2 * l->seen_count * sizeof *l->jobs);
    if (!jobs) return BRAID_NO_MEMORY;
    l->jobs = jobs;
    l->job_room = 2 * l->seen_count;
  }
  for (size_t i = 0; i < l->seen_count; i++) {
    braid_serve_request *request = l->seen[i].request;
    braid_serve_card_job *job = &request->card;
    job->model = &request->model->packaged->model;
    job->tenant = request->tenant;
    job->priority = priority_of(l->numbers[i].rank);
    job->arrived_ns = request->arrived_ns;
    job->deadline_ns = l->numbers[i].deadline_ns;
    l->jobs[i] = job;
  }
  return BRAID_OK;
}

braid_status braid_serve_line_decide(braid_serve_line *l, int64_t now) {
  BRAID_TRY(braid_serve_line_look(l, now, NULL));
  BRAID_TRY(show_jobs(l));
  return braid_serve_card_decide(l->card, l->jobs, l->seen_count, now);
}

braid_serve_choice braid_serve_line_choose_cores(braid_serve_line *l, int64_t now) {
  braid_serve_choice choice = {0};
  if (show_jobs(l) != BRAID_OK || braid_serve_card_decide(l->card, l->jobs, l->seen_count, now) != BRAID_OK) {
    choice.wake_ns = now + 10000000; /* no memory to decide with: later */
    return choice;
  }
  size_t next = braid_serve_card_next(l->card, l->jobs, l->seen_count);
  if (next == SIZE_MAX) return choice;
  choice.members[choice.count++] = next;
  choice.rows = l->numbers[next].rows;
  return choice;
}

void braid_serve_line_begin_cores(braid_serve_line *l, braid_serve_request *request, int64_t now) {
  braid_serve_card_job *job = &request->card;
  int cores = braid_serve_card_begin(l->card, job, now);
  request->why.cores = cores;
  request->why.card_cores = l->card->cores;
  request->why.running = l->card->running_count;
  request->why.tokens = job->kept[BRAID_SHARE_TOKENS];
  request->why.alone = !l->card->elastic;
  request->why.overdue = job->overdue;
}

void braid_serve_line_end_cores(braid_serve_line *l, braid_serve_request *request, int64_t took, int64_t now) {
  braid_serve_card_end_kind kind = request->verdict == BRAID_SERVE_DONE     ? BRAID_SERVE_CARD_DONE
                                   : request->verdict == BRAID_SERVE_LATE   ? BRAID_SERVE_CARD_LATE
                                   : request->verdict == BRAID_SERVE_FAILED ? BRAID_SERVE_CARD_ERROR
                                                                            : BRAID_SERVE_CARD_DROPPED;
  braid_serve_card_end(l->card, &request->card, kind, took, now);
  pthread_cond_broadcast(&l->changed);
}
