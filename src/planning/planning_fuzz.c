/* Any text is a platform or a profile within its bounds, or a failure with a sentence; and a network on it has a
 * forecast, or there is a sentence why not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/model.h"
#include "braid/session.h"
#include "planning/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static braid_graph *make_graph(void) {
  braid_graph *graph;
  braid_value_id x, y, z;
  braid_node_id node;
  braid_desc desc;
  const int64_t dims[] = {8, 1000};
  if (braid_graph_create(NULL, "g", &graph) != BRAID_OK) abort();
  if (braid_desc_init(&desc, BRAID_F32, 2, dims) != BRAID_OK) abort();
  if (braid_graph_add_input(graph, "x", &desc, &x) != BRAID_OK) abort();
  if (braid_graph_add_node(graph, "Relu", "a", &x, 1, &y, 1, &node) != BRAID_OK) abort();
  if (braid_graph_add_node(graph, "Add", "b", (braid_value_id[]){x, y}, 2, &z, 1, &node) != BRAID_OK) abort();
  if (braid_graph_add_output(graph, z) != BRAID_OK || braid_resolve(graph) != BRAID_OK) abort();
  return graph;
}

static void forecast(braid_machine_file *file, braid_profile *profile) {
  static braid_graph *graph;
  if (!graph) graph = make_graph();
  braid_modelled_machine machine = {.file = file, .profile = profile};
  for (size_t i = 0; i < braid_planning_policy_count(); i++) {
    braid_forecast_options options = {.policy = braid_planning_policy_name(i),
                                      .replicas = braid_modelled_machine_replicas(&machine)};
    braid_forecast *made;
    if (braid_forecast_create(graph, &machine, &options, NULL, &made) != BRAID_OK) {
      if (made || !braid_error_detail()[0]) abort();
      continue;
    }
    if (!(braid_forecast_get_summary(made).seconds >= 0)) abort();
    braid_forecast_destroy(made);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static braid_profile *known;
  braid_machine_file *file;
  braid_profile *profile;
  if (!known &&
      braid_profile_parse("profile", braid_profile_texts[0].text, braid_profile_texts[0].bytes, &known) != BRAID_OK)
    abort();
  if (braid_machine_file_parse("input", data, bytes, &file) == BRAID_OK) {
    if (braid_machine_device_count(file) < 32) forecast(file, known);
    braid_machine_file_free(file);
  } else if (!braid_error_detail()[0]) {
    abort();
  }
  braid_placement placement;
  if (braid_placement_parse(NULL, "input", data, bytes, &placement) == BRAID_OK && !strchr(placement.place, '='))
    abort();
  braid_placement_deinit(&placement);
  if (braid_profile_parse("input", data, bytes, &profile) == BRAID_OK) {
    braid_profile_row row;
    for (unsigned i = 0; i < profile->rows_count; i++)
      if (!braid_profile_at(profile, profile->rows[i].device, profile->rows[i].devices, profile->rows[i].op, 1e6,
                            &row) ||
          !(row.ms > 0) || !isfinite(row.ms))
        abort();
    braid_profile_free(profile);
  } else if (!braid_error_detail()[0]) {
    abort();
  }
  return 0;
}
