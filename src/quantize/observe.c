/* Calibration: the float graph runs over samples, with every value that becomes bytes as an output. Where the choice of
 * a range needs a histogram it runs a second time: bins over a range that is known are exact, and do not depend on the
 * order of the samples. Scales that are powers of two take one more turn, in which each candidate's error is added up.
 */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "quantize/internal.h"
#include "quantize/power.h"

enum { MOST_OUTPUT_BYTES = 512 << 20 };

typedef enum observe_turn { TURN_RANGE, TURN_COUNT, TURN_ERROR } observe_turn;

typedef struct observer {
  braid_work *work;
  const braid_selection *selection;
  braid_value_id *values; /* that are observed: roots */
  int *inputs;            /* of each: which input of the model it is, else -1 */
  braid_range *ranges;
  braid_power *powers; /* of powers of two */
  size_t count;
  int64_t batch;
  braid_graph *graph; /* of which the others are outputs */
  braid_probe probe;
  observe_turn turn;
} observer;

static braid_status not_finite(const observer *o, size_t index, int64_t sample) {
  const braid_value *value = &o->selection->graph->values[o->values[index]];
  if (value->kind != BRAID_VALUE_RESULT || value->producer < 0)
    return braid_fail(BRAID_NOT_FINITE, "input %.120s is NaN or infinite near sample %lld of the calibration",
                      value->name, (long long)sample);
  const braid_node *node = &o->selection->graph->nodes[value->producer];
  return braid_fail(BRAID_NOT_FINITE,
                    "node %.120s (%s): its result %.120s is NaN or infinite near sample %lld of the calibration",
                    node->name, node->op->name, value->name, (long long)sample);
}

static braid_status observe_batch(void *context, const braid_feed_batch *batch) {
  observer *o = context;
  BRAID_TRY(braid_session_run(o->probe.session, batch->inputs, o->probe.outputs));
  size_t output = 0;
  for (size_t i = 0; i < o->count; i++) {
    const float *data;
    int64_t count;
    if (o->inputs[i] >= 0) {
      data = batch->inputs[o->inputs[i]];
      count = braid_desc_count(braid_session_input(o->probe.session, (size_t)o->inputs[i])) / o->batch * batch->count;
    } else {
      data = o->probe.outputs[output];
      count = braid_probe_valid(&o->probe, output++, batch->count, o->batch);
    }
    if (o->turn == TURN_COUNT)
      braid_range_count(&o->ranges[i], data, count);
    else if (o->turn == TURN_ERROR)
      braid_power_see(&o->powers[i], data, count);
    else if (braid_range_see(&o->ranges[i], data, count) >= 0)
      return not_finite(o, i, batch->first);
  }
  static const char *const kPhases[] = {"calibrating", "counting", "choosing powers of two"};
  return braid_work_progress(o->work, kPhases[o->turn], batch->first + batch->count, o->work->calibration.samples);
}

static int input_of(const braid_graph *graph, braid_value_id value) {
  for (size_t i = 0; i < graph->input_count; i++)
    if (graph->inputs[i] == value) return (int)i;
  return -1;
}

static braid_status observer_init(observer *o) {
  const braid_graph *graph = o->selection->graph;
  const braid_allocator *allocator = o->work->allocator;
  o->values = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *o->values);
  o->inputs = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *o->inputs);
  o->ranges = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *o->ranges);
  o->powers = braid_zalloc_array(allocator, graph->value_count + 1, sizeof *o->powers);
  if (!o->values || !o->inputs || !o->ranges || !o->powers) return BRAID_NO_MEMORY;
  BRAID_TRY(braid_graph_clone(graph, &o->graph));
  o->graph->output_count = 0;
  for (size_t i = 0; i < graph->value_count; i++) {
    if (o->selection->root[i] != (braid_value_id)i) continue;
    o->values[o->count] = (braid_value_id)i;
    o->inputs[o->count] = input_of(graph, (braid_value_id)i);
    o->ranges[o->count] = BRAID_RANGE_EMPTY;
    if (o->inputs[o->count++] < 0) BRAID_TRY(braid_graph_add_output(o->graph, (braid_value_id)i));
  }
  o->batch = braid_feed_batch_of(&o->work->calibration, graph, o->work->options.batch);
  return braid_probe_create(o->work, &o->work->calibration, o->graph, MOST_OUTPUT_BYTES, &o->batch, &o->probe);
}

static braid_status observe(observer *o) {
  braid_calibration calibration = o->work->options.calibration;
  BRAID_TRY(observer_init(o));
  BRAID_TRY(braid_feed_run(&o->work->calibration, o->graph, o->batch, observe_batch, o));
  if (calibration == BRAID_CALIBRATE_MINMAX) return BRAID_OK;
  for (size_t i = 0; i < o->count; i++) BRAID_TRY(braid_range_open(&o->ranges[i], o->work->allocator, calibration));
  o->turn = TURN_COUNT;
  return braid_feed_run(&o->work->calibration, o->graph, o->batch, observe_batch, o);
}

static braid_status choose(observer *o) {
  int least = o->work->options.signed_activations ? -128 : 0;
  for (size_t i = 0; i < o->count; i++) {
    braid_scale *scale = &o->work->scales[o->values[i]];
    const braid_range *range = &o->ranges[i];
    bool seen = range->least <= range->greatest;
    scale->least = seen ? range->least : 0;
    scale->greatest = seen ? range->greatest : 0;
    BRAID_TRY(braid_range_choose(range, o->work->allocator, o->work->options.calibration, o->work->options.percentile,
                                 &scale->low, &scale->high));
    braid_range_scale(scale->low, scale->high, least, &scale->scale, &scale->zero_point);
    BRAID_TRY(braid_work_progress(o->work, "choosing ranges", (int64_t)i + 1, (int64_t)o->count));
  }
  return BRAID_OK;
}

/* Scales become powers of two, and the ranges what those can hold of the range that was chosen. */
static braid_status choose_powers(observer *o) {
  if (!o->work->options.power_of_two) return BRAID_OK;
  for (size_t i = 0; i < o->count; i++) {
    const braid_scale *scale = &o->work->scales[o->values[i]];
    o->powers[i] = braid_power_begin(scale->low, scale->high, -128, 127);
  }
  o->turn = TURN_ERROR;
  BRAID_TRY(braid_feed_run(&o->work->calibration, o->graph, o->batch, observe_batch, o));
  for (size_t i = 0; i < o->count; i++) {
    braid_scale *scale = &o->work->scales[o->values[i]];
    double step = ldexp(1, braid_power_choose(&o->powers[i]));
    scale->scale = (float)step;
    scale->zero_point = 0;
    scale->low = fmax(scale->low, -128 * step);
    scale->high = fmin(scale->high, 127 * step);
  }
  return BRAID_OK;
}

braid_status braid_observe(braid_work *work, const braid_selection *selection) {
  observer o = {.work = work, .selection = selection};
  braid_status status = observe(&o);
  if (status == BRAID_OK) status = choose(&o);
  if (status == BRAID_OK) status = choose_powers(&o);
  for (size_t i = 0; i < o.count; i++) braid_range_close(&o.ranges[i], work->allocator);
  braid_probe_destroy(&o.probe);
  braid_graph_destroy(o.graph);
  braid_free(work->allocator, o.values);
  braid_free(work->allocator, o.inputs);
  braid_free(work->allocator, o.ranges);
  braid_free(work->allocator, o.powers);
  return status;
}
