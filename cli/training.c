/* Lists the trainable tensors of a model, and the reasons why others are not trainable. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

typedef struct kind_total {
  const char *what; /* NULL: trains */
  size_t tensors;
  int64_t numbers;
  const char *example;
} kind_total;

enum { MOST_KINDS = 16 };
typedef struct totals {
  kind_total kinds[MOST_KINDS]; /* 0: trains, 1: running statistics, then each reason to stay fixed */
  size_t count;
} totals;

static const char kStatistics[] = "a running statistic", kFrozen[] = "frozen";

static bool is_listed(const braid_value_info *value) {
  return value->kind == BRAID_VALUE_PARAMETER || value->kind == BRAID_VALUE_STATE || value->fixed;
}

/* Why it does not train; NULL: it does. `options` may be NULL. */
static const char *what_of(const braid_value_info *value, const braid_train_options *options) {
  const braid_parameter_group *group = options && !value->fixed ? braid_train_group(options, value->name) : NULL;
  if (value->kind == BRAID_VALUE_STATE) return kStatistics;
  return group && group->rate == 0 ? kFrozen : value->fixed;
}

static void totals_add(totals *sum, const braid_value_info *value, const char *what) {
  size_t i = 0;
  while (i < sum->count &&
         (what && sum->kinds[i].what ? strcmp(what, sum->kinds[i].what) != 0 : what != sum->kinds[i].what))
    i++;
  if (i == MOST_KINDS) return;
  if (i == sum->count) sum->kinds[sum->count++] = (kind_total){.what = what, .example = value->name};
  sum->kinds[i].tensors++;
  sum->kinds[i].numbers += braid_desc_count(&value->desc);
}

static totals sum_up(const braid_graph *graph, const braid_train_options *options) {
  totals sum = {.kinds = {{NULL, 0, 0, NULL}, {kStatistics, 0, 0, NULL}}, .count = 2};
  for (size_t i = 0; i < braid_graph_value_count(graph); i++) {
    braid_value_info value = braid_graph_value(graph, (braid_value_id)i);
    if (is_listed(&value)) totals_add(&sum, &value, what_of(&value, options));
  }
  return sum;
}

static void print_totals(FILE *file, const totals *sum) {
  fprintf(file, "trains: %zu tensors, %" PRId64 " numbers", sum->kinds[0].tensors, sum->kinds[0].numbers);
  if (sum->kinds[1].tensors)
    fprintf(file, "; running statistics: %zu tensors, %" PRId64 " numbers", sum->kinds[1].tensors,
            sum->kinds[1].numbers);
  fputc('\n', file);
  for (size_t i = 2; i < sum->count; i++) {
    const kind_total *kind = &sum->kinds[i];
    fprintf(file, "stays fixed: %zu tensor%s, %" PRId64 " number%s: %s (%s%s)\n", kind->tensors,
            kind->tensors == 1 ? "" : "s", kind->numbers, kind->numbers == 1 ? "" : "s", kind->what, kind->example,
            kind->tensors == 1 ? "" : ", ...");
  }
}

static void print_each(const braid_graph *graph) {
  printf("\n%-44s %-22s %s\n", "constant", "shape", "trains");
  for (size_t i = 0; i < braid_graph_value_count(graph); i++) {
    braid_value_info value = braid_graph_value(graph, (braid_value_id)i);
    char shape[96];
    if (!is_listed(&value)) continue;
    const char *what = what_of(&value, NULL);
    printf("%-44s %-22s %s%s\n", value.name, braid_desc_format(&value.desc, shape, sizeof shape), what ? "no: " : "yes",
           what ? what : "");
  }
}

static void json_each(cli_json *json, const braid_graph *graph, const totals *sum) {
  cli_json_object(json, "training");
  cli_json_integer(json, "tensors", (int64_t)sum->kinds[0].tensors);
  cli_json_integer(json, "numbers", sum->kinds[0].numbers);
  cli_json_array(json, "constants");
  for (size_t i = 0; i < braid_graph_value_count(graph); i++) {
    braid_value_info value = braid_graph_value(graph, (braid_value_id)i);
    if (!is_listed(&value)) continue;
    cli_json_object(json, NULL);
    cli_json_string(json, "name", value.name);
    cli_json_string(json, "type", braid_dtype_name(value.desc.dtype));
    cli_json_dims(json, "shape", &value.desc);
    cli_json_bool(json, "trains", value.kind == BRAID_VALUE_PARAMETER);
    if (what_of(&value, NULL)) cli_json_string(json, "why_not", what_of(&value, NULL));
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
  cli_json_close(json, '}');
}

braid_status training_summarize(const braid_trainer *trainer, const braid_train_options *options) {
  braid_graph *graph;
  braid_status status = braid_trainer_parameters(trainer, &graph);
  if (status != BRAID_OK) return status;
  totals sum = sum_up(graph, options);
  print_totals(stderr, &sum);
  braid_graph_destroy(graph);
  return BRAID_OK;
}

braid_status training_list(const braid_graph *model, cli_json *json) {
  braid_graph *graph;
  braid_status status = braid_trainable_copy(model, &graph);
  if (status != BRAID_OK) return status;
  totals sum = sum_up(graph, NULL);
  if (json) {
    json_each(json, graph, &sum);
  } else {
    print_each(graph);
    print_totals(stdout, &sum);
  }
  braid_graph_destroy(graph);
  return BRAID_OK;
}
