/* The line of a device: what waits for it, what the policy sees of that, who is admitted and what is taken out. All
 * functions but create and destroy with the line's lock held. */
#ifndef BRAID_SERVE_LINE_H
#define BRAID_SERVE_LINE_H

#include "serve/scheduler.h"
#include "serve/serving_policy.h"

enum { BRAID_SERVE_OVER_SHARE = 10 }; /* added to the rank of tenants that are over their share */

/* What waits for a device, in no order, and what the policy sees of it. */
typedef struct braid_serve_line {
  braid_serve_device *device;
  braid_serve_card *card; /* the device's; NULL: it is none */
  size_t index;           /* of the device */
  size_t all_instances;   /* of all devices */
  braid_serve_supply *supply;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  braid_serve_request **waiting;
  size_t count, capacity;
  /* Of the last look: waiting requests in the policy's order, with their numbers, and one request of each group. */
  struct seen {
    braid_serve_waiting numbers;
    braid_serve_request *request;
  } * seen;
  braid_serve_waiting *numbers;
  braid_serve_request **groups;
  size_t seen_count, room;
  braid_serve_card_job **jobs; /* of a card: those of `seen`, in its order */
  size_t job_room;
  const braid_serve_tenant *holders[BRAID_SERVE_INSTANCES];  /* who has the instance alone; NULL: nobody */
  size_t holds;                                              /* instances that somebody has alone */
  const braid_serve_tenant *runs_for[BRAID_SERVE_INSTANCES]; /* of a card: whose run the instance has; NULL: nobody's */
  int64_t free_ns[BRAID_SERVE_INSTANCES];                    /* when an instance is expected to be free; 0: it is */
  double busy_ns;                                            /* of late, decaying by half each second */
  int64_t busy_at_ns;
  bool lent; /* the only instance: whoever submitted a request runs it */
  braid_serve_margin margin;
  braid_serve_load load;
} braid_serve_line;

void braid_serve_line_init(braid_serve_line *line, braid_serve_device *device, size_t index, size_t all_instances,
                           braid_serve_supply *supply);
void braid_serve_line_deinit(braid_serve_line *line);
/* Brings what the policy sees up to date: what an instance whose holder is `holder` may run (NULL: anything). */
braid_status braid_serve_line_look(braid_serve_line *line, int64_t now_ns, const braid_serve_tenant *holder);
/* The forecast of the policy; `line`: a braid_serve_line that has been looked at. */
braid_serve_span braid_serve_line_forecast(const void *line, size_t group, int64_t rows);
/* Judges the request, and adds it to what waits unless it is refused. */
braid_serve_verdict braid_serve_line_add(braid_serve_line *line, braid_serve_request *request);
/* After a look: takes out what cannot be in time any more, and what has no cores of a public card any more, which is
 * refused, and returns it, linked. */
braid_serve_request *braid_serve_line_take_late(braid_serve_line *line, int64_t now_ns);
/* After a look: takes out the requests of the choice, linked, and says of each why it runs now. */
braid_serve_request *braid_serve_line_take(braid_serve_line *line, const braid_serve_choice *choice, int64_t now_ns);
/* Refuses all that waits, and returns it, linked. */
braid_serve_request *braid_serve_line_take_all(braid_serve_line *line);
/* How a request that has ended kept its deadline. */
void braid_serve_line_note(braid_serve_line *line, const braid_serve_request *request, int64_t now_ns);

/* --- of a card (card/card_line.c, card/model_card.c)
 * --------------------------------------------------------------------------
 */
/* How many cores what runs and what waits is to have. */
braid_status braid_serve_line_decide(braid_serve_line *line, int64_t now_ns);
/* After a look: who begins now, if anybody. */
braid_serve_choice braid_serve_line_choose_cores(braid_serve_line *line, int64_t now_ns);
/* The request, which was taken out, has cores from now on, until the second. `took_ns`: measured; 0: it did not run. */
void braid_serve_line_begin_cores(braid_serve_line *line, braid_serve_request *request, int64_t now_ns);
void braid_serve_line_end_cores(braid_serve_line *line, braid_serve_request *request, int64_t took_ns, int64_t now_ns);
/* Runs it to its end, a layer at a time, and gives it its outputs and its verdict. The line is not locked. */
void braid_serve_card_run(braid_serve_line *line, braid_serve_request *request, const int *stop);

#endif
