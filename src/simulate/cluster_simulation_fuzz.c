/* Any scenario that is small ends, with every request accounted for and the cap held, and without a fault. */
#include <stdlib.h>

#include "simulate/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Looks at the placement and requests bounded, so that no input takes long. */
static bool is_small(braid_scenario *s) {
  if (s->requests > 300) s->requests = 300;
  return s->node_count <= 40 && s->seconds / s->period_s <= 50 && s->events_count <= 50;
}

/* The least that can be drawn: all nodes asleep. No placement holds a cap below it. */
static double least_watts(const braid_scenario *s) {
  double watts = 0;
  for (unsigned i = 0; i < s->nodes_count; i++) watts += (double)s->nodes[i].count * s->nodes[i].asleep_watts;
  return watts;
}

static bool is_capped_below(const braid_scenario *s, double watts) {
  bool below = s->cap_watts > 0 && s->cap_watts < watts;
  for (unsigned i = 0; i < s->events_count; i++)
    below |= s->events[i].event == BRAID_EVENT_CAP && s->events[i].watts > 0 && s->events[i].watts < watts;
  return below;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const braid_share_recorded kTrace[] = {{0, 5, 0}, {0.5, 6, 1}, {0.5, 7, 2}, {3, 8, 3}};
  braid_scenario *s;
  braid_cluster_simulated *result;
  if (braid_scenario_parse("input", data, bytes, &s) != BRAID_OK) return 0;
  if (is_small(s)) {
    braid_cluster_simulation how = {.seed = 1, .moves = true};
    braid_status status = braid_world_simulate(s, kTrace, sizeof kTrace / sizeof *kTrace, &how, &result);
    if (status != BRAID_OK && !braid_error_detail()[0]) abort();
    if (status == BRAID_OK) {
      const braid_cluster_requests *all = &result->all;
      if (all->in_time + all->late + all->refused + all->lost != all->requests) abort();
      if (result->cap_violations && !is_capped_below(s, least_watts(s) + 1e-3 * (double)s->node_count)) abort();
      braid_cluster_simulated_destroy(result);
    }
  }
  braid_scenario_free(s);
  return 0;
}
