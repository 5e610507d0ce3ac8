#include "manycore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "braid/manycore.h"
#include "table.h"

enum { OPS = 40, TABLES = 4, PUBLISHED_TIMES = 45, INPUTS = 3 };

/* Sums over nodes. */
typedef struct sums {
  char op[32]; /* "": of a network */
  int nodes, on_cores;
  double seconds, computing, vectors, scalar, operations, bytes, joules;
} sums;

/* Those that only change how data is seen, or do nothing in inference: a run has no task for them. */
static bool is_view(const char *op) {
  static const char *const kViews[] = {"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Dropout"};
  for (size_t i = 0; i < sizeof kViews / sizeof *kViews; i++)
    if (strcmp(op, kViews[i]) == 0) return true;
  return false;
}

typedef struct network {
  const char *name;
  sums whole, ops[OPS];
  size_t op_count;
} network;

/* Fig. 7: one convolution, 3x3. The first is the example that the paper's text gives, the others are VGG-16's: the
 * sizes of the figure's other bars were not published as numbers. */
typedef struct figure_point {
  int size, inputs, outputs;
  const char *from;
  braid_manycore_estimate estimate;
} figure_point;

typedef struct findings {
  network networks[BRAID_MANYCORE_NETWORKS];
  size_t count;
  figure_point points[16];
  size_t point_count;
} findings;

/* --- estimates -----------------------------------------------------------------------------------------------------
 */
static void add_estimate(sums *to, const braid_manycore_estimate *e) {
  to->nodes++;
  to->on_cores += e->on_cores;
  to->seconds += e->seconds;
  to->computing += e->computing;
  to->vectors += e->management_vectors;
  to->scalar += e->management_scalar;
  to->operations += e->operations;
  to->bytes += e->get_bytes + e->put_bytes;
  to->joules += e->joules;
}

static sums *find_op(network *n, const char *op) {
  for (size_t i = 0; i < n->op_count; i++)
    if (strcmp(n->ops[i].op, op) == 0) return &n->ops[i];
  if (n->op_count == OPS) return NULL;
  sums *made = &n->ops[n->op_count++];
  *made = (sums){.nodes = 0};
  snprintf(made->op, sizeof made->op, "%s", op);
  return made;
}

static braid_status estimate_graph(braid_graph *graph, network *n) {
  for (size_t i = 0; i < braid_graph_node_count(graph); i++) {
    braid_manycore_estimate e;
    if (is_view(braid_graph_node(graph, (braid_node_id)i).op)) continue;
    braid_status status = braid_manycore_estimate_node(graph, (braid_node_id)i, NULL, &e);
    if (status != BRAID_OK) return status;
    add_estimate(&n->whole, &e);
    sums *of_op = find_op(n, braid_graph_node(graph, (braid_node_id)i).op);
    if (of_op) add_estimate(of_op, &e);
  }
  return BRAID_OK;
}

static bool is_wanted(const char *models, const char *name) {
  for (const char *at = models; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
    if (strlen(name) == strcspn(at, ",") && strncmp(at, name, strlen(name)) == 0) return true;
  return !models;
}

/* Every name must be one of ours. */
static braid_status check_names(const char *models) {
  for (const char *at = models; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
    const char *name, *text;
    size_t bytes, i = 0;
    while (braid_manycore_network(i, &name, &text, &bytes) &&
           (strlen(name) != strcspn(at, ",") || strncmp(at, name, strlen(name)) != 0))
      i++;
    if (i == BRAID_MANYCORE_NETWORKS)
      return braid_fail(BRAID_NOT_FOUND, "no network %.*s: there are cifarnet, lenet, inception-v3 and resnet50-v2",
                        (int)strcspn(at, ","), at);
  }
  return BRAID_OK;
}

static braid_status estimate_networks(findings *f, const char *models) {
  const char *name, *text;
  size_t bytes;
  for (size_t i = 0; braid_manycore_network(i, &name, &text, &bytes); i++) {
    if (!is_wanted(models, name)) continue;
    network *n = &f->networks[f->count++];
    n->name = name;
    braid_graph *graph = NULL;
    braid_model_memory memory = {.data = text, .bytes = bytes, .format = BRAID_MODEL_DARKNET, .name = name};
    braid_status status = braid_model_parse(NULL, &memory, &graph);
    if (status == BRAID_OK) status = cli_set_batch(graph, 1);
    if (status == BRAID_OK) status = braid_resolve(graph);
    if (status == BRAID_OK) status = estimate_graph(graph, n);
    braid_graph_destroy(graph);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

static braid_status convolution(int size, int inputs, int outputs, braid_graph **out) {
  braid_desc x, w;
  braid_tensor *weights = NULL;
  braid_graph *graph = NULL;
  braid_value_id ids[2], y = 0;
  braid_node_id node;
  *out = NULL;
  braid_status status = braid_desc_init(&x, BRAID_F32, 4, (int64_t[]){1, inputs, size, size});
  if (status == BRAID_OK) status = braid_desc_init(&w, BRAID_F32, 4, (int64_t[]){outputs, inputs, 3, 3});
  if (status == BRAID_OK) status = braid_tensor_create(NULL, &w, &weights);
  if (status == BRAID_OK) status = braid_graph_create(NULL, "figure 7", &graph);
  if (status == BRAID_OK) status = braid_graph_add_input(graph, "x", &x, &ids[0]);
  if (status == BRAID_OK) status = braid_graph_add_tensor(graph, "w", BRAID_VALUE_CONSTANT, weights, &ids[1]);
  if (status == BRAID_OK) status = braid_graph_add_node(graph, "Conv", "conv", ids, 2, &y, 1, &node);
  if (status == BRAID_OK) status = braid_graph_set_ints(graph, node, "pads", (int64_t[]){1, 1, 1, 1}, 4);
  if (status == BRAID_OK) status = braid_graph_add_output(graph, y);
  if (status == BRAID_OK) status = braid_resolve(graph);
  braid_tensor_release(weights);
  if (status == BRAID_OK)
    *out = graph;
  else
    braid_graph_destroy(graph);
  return status;
}

static braid_status estimate_figure(findings *f) {
  static const figure_point kPoints[] = {
      {.size = 224, .inputs = 3, .outputs = 16, .from = "the paper's example"},
      {.size = 224, .inputs = 3, .outputs = 64, .from = "VGG-16"},
      {.size = 224, .inputs = 64, .outputs = 64, .from = "VGG-16"},
      {.size = 112, .inputs = 64, .outputs = 128, .from = "VGG-16"},
      {.size = 112, .inputs = 128, .outputs = 128, .from = "VGG-16"},
      {.size = 56, .inputs = 128, .outputs = 256, .from = "VGG-16"},
      {.size = 56, .inputs = 256, .outputs = 256, .from = "VGG-16"},
      {.size = 28, .inputs = 256, .outputs = 512, .from = "VGG-16"},
      {.size = 28, .inputs = 512, .outputs = 512, .from = "VGG-16"},
      {.size = 14, .inputs = 512, .outputs = 512, .from = "VGG-16"},
  };
  f->point_count = sizeof kPoints / sizeof *kPoints;
  memcpy(f->points, kPoints, sizeof kPoints);
  for (size_t i = 0; i < f->point_count; i++) {
    figure_point *p = &f->points[i];
    braid_graph *graph;
    braid_status status = convolution(p->size, p->inputs, p->outputs, &graph);
    if (status == BRAID_OK) status = braid_manycore_estimate_node(graph, 0, NULL, &p->estimate);
    braid_graph_destroy(graph);
    if (status != BRAID_OK) return status;
  }
  return BRAID_OK;
}

/* --- tables --------------------------------------------------------------------------------------------------------
 */
static void add_times(cli_table *table, double vectors, double scalar, double seconds) {
  cli_table_cell(table, "%.4g", scalar * 1e3);
  cli_table_cell(table, "%.4g", vectors * 1e3);
  cli_table_cell(table, "%.4g", seconds * 1e3);
  cli_table_cell(table, "%.3g", scalar / seconds);
  cli_table_cell(table, "%.3g", vectors / seconds);
}

static void make_figure(const findings *f, cli_table *table) {
  cli_table_begin(
      table, "Fig. 7: one convolution, 3x3, by one core group and by its management core",
      "The paper says \"up to 45 times\"; it does not say whether its management core computed with vectors. 64 cores "
      "have "
      "32 times the arithmetic of a management core with vectors, 128 times that of one without: at the peak of its "
      "vectors 45 is beyond reach. Without them ours goes beyond 45: the paper's cores called a library of matrix "
      "products, and the model has no cost of starting the cores and none of an imperfect schedule of instructions. "
      "The "
      "sizes of the figure's other bars, and all of its times, were not published as numbers.",
      "figures are|input|channels|from|management, scalar ms|management, vectors ms|core group ms|times scalar|times "
      "vectors|waits for");
  cli_table_cell(table, "published");
  for (int i = 0; i < INPUTS; i++) cli_table_cell(table, i == 2 ? "text" : "-");
  for (int i = 0; i < 3; i++) cli_table_cell(table, "-");
  cli_table_cell(table, "up to %d", PUBLISHED_TIMES);
  cli_table_cell(table, "or these");
  cli_table_cell(table, "-");
  for (size_t i = 0; i < f->point_count; i++) {
    const figure_point *p = &f->points[i];
    const braid_manycore_estimate *e = &p->estimate;
    cli_table_cell(table, "modelled");
    cli_table_cell(table, "%d x %d", p->size, p->size);
    cli_table_cell(table, "%d - %d", p->inputs, p->outputs);
    cli_table_cell(table, "%s", p->from);
    add_times(table, e->management_vectors, e->management_scalar, e->seconds);
    cli_table_cell(table, "%s", e->computing > 0.8 * e->seconds ? "arithmetic" : "memory");
  }
}

static void add_sums(cli_table *table, const char *name, const sums *s) {
  cli_table_cell(table, "%s", name);
  cli_table_cell(table, "%d", s->nodes);
  cli_table_cell(table, "%d", s->on_cores);
  cli_table_cell(table, "%.4g", s->operations / 1e6);
  add_times(table, s->vectors, s->scalar, s->seconds);
}

#define SUMS_HEAD                                                                                                      \
  "|nodes|on compute cores|million operations|management, scalar ms|management, vectors ms|core group ms|times "       \
  "scalar|times vectors"

static void make_networks(const findings *f, cli_table *table) {
  cli_table_begin(
      table, "Networks, batch 1, one core group: modelled",
      "Fig. 6's times of these four were not published as numbers. Normalizations are computed, not folded; "
      "what the compute cores have no kernel for runs on the management core. Energy is a quarter of a "
      "node's power under LINPACK, with its share of the machine's network and cooling.",
      "network" SUMS_HEAD "|mJ");
  for (size_t i = 0; i < f->count; i++) {
    add_sums(table, f->networks[i].name, &f->networks[i].whole);
    cli_table_cell(table, "%.4g", f->networks[i].whole.joules * 1e3);
  }
}

static void make_ops(const findings *f, cli_table *table) {
  cli_table_begin(
      table, "Ops of each network, slowest first: modelled",
      "The paper's compute cores have kernels for Conv2D, Softmax and MatMul only; these for its seven ops.",
      "network and op" SUMS_HEAD "|MB moved");
  for (size_t i = 0; i < f->count; i++) {
    network n = f->networks[i];
    while (n.op_count) {
      size_t slowest = 0;
      for (size_t k = 1; k < n.op_count; k++)
        if (n.ops[k].seconds > n.ops[slowest].seconds) slowest = k;
      char name[80];
      snprintf(name, sizeof name, "%s %s", n.name, n.ops[slowest].op);
      add_sums(table, name, &n.ops[slowest]);
      cli_table_cell(table, "%.4g", n.ops[slowest].bytes / 1e6);
      n.ops[slowest] = n.ops[--n.op_count];
    }
  }
}

static void make_constants(cli_table *table) {
  const braid_manycore_constant *constants;
  size_t count = braid_manycore_constants(&constants);
  cli_table_begin(table, "Constants of the model", "None is fitted to the paper.", "what|value|unit|source");
  for (size_t i = 0; i < count; i++) {
    cli_table_cell(table, "%s", constants[i].what);
    cli_table_cell(table, "%.5g", constants[i].value);
    cli_table_cell(table, "%s", constants[i].unit);
    cli_table_cell(table, "%s", constants[i].source);
  }
}

/* --- JSON ----------------------------------------------------------------------------------------------------------
 */
static void json_sums(cli_json *json, const char *key, const char *name, const sums *s) {
  cli_json_object(json, NULL);
  cli_json_string(json, key, name);
  cli_json_integer(json, "nodes", s->nodes);
  cli_json_integer(json, "on_compute_cores", s->on_cores);
  cli_json_number(json, "operations", s->operations);
  cli_json_number(json, "modelled_management_scalar_ms", s->scalar * 1e3);
  cli_json_number(json, "modelled_management_vectors_ms", s->vectors * 1e3);
  cli_json_number(json, "modelled_core_group_ms", s->seconds * 1e3);
  cli_json_number(json, "modelled_mj", s->joules * 1e3);
}

static void json_figure(cli_json *json, const findings *f) {
  cli_json_array(json, "figure_7");
  for (size_t i = 0; i < f->point_count; i++) {
    const figure_point *p = &f->points[i];
    cli_json_object(json, NULL);
    cli_json_integer(json, "size", p->size);
    cli_json_integer(json, "inputs", p->inputs);
    cli_json_integer(json, "outputs", p->outputs);
    cli_json_number(json, "modelled_management_scalar_ms", p->estimate.management_scalar * 1e3);
    cli_json_number(json, "modelled_management_vectors_ms", p->estimate.management_vectors * 1e3);
    cli_json_number(json, "modelled_core_group_ms", p->estimate.seconds * 1e3);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_json(const findings *f) {
  cli_json json;
  cli_json_begin(&json);
  cli_json_integer(&json, "published_times_at_most", PUBLISHED_TIMES);
  json_figure(&json, f);
  cli_json_array(&json, "networks");
  for (size_t i = 0; i < f->count; i++) {
    const network *n = &f->networks[i];
    json_sums(&json, "name", n->name, &n->whole);
    cli_json_array(&json, "ops");
    for (size_t k = 0; k < n->op_count; k++) {
      json_sums(&json, "op", n->ops[k].op, &n->ops[k]);
      cli_json_close(&json, '}');
    }
    cli_json_close(&json, ']');
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  cli_json_end(&json);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status show(const findings *f, bool json, const char *html) {
  cli_table tables[TABLES];
  braid_page_table pages[TABLES];
  braid_status status = BRAID_OK;
  make_figure(f, &tables[0]);
  make_networks(f, &tables[1]);
  make_ops(f, &tables[2]);
  make_constants(&tables[3]);
  for (size_t i = 0; i < TABLES; i++) {
    if (tables[i].failed) status = cli_no_memory();
    pages[i] = cli_table_page(&tables[i]);
  }
  if (status == BRAID_OK && html)
    status = braid_tile_write_html(NULL, html, "Sunway: published, modelled", NULL, NULL, 0, pages, TABLES);
  if (status == BRAID_OK && json) print_json(f);
  if (status == BRAID_OK && !json) {
    puts("TensorFlow on Sunway (Zhao et al. 2018), section 4.3: what was published, and what the model of the device "
         "manycore gives. All of ours is modelled.");
    for (size_t i = 0; i < TABLES; i++) cli_table_print(&tables[i], SIZE_MAX - 1);
  }
  for (size_t i = 0; i < TABLES; i++) cli_table_end(&tables[i]);
  return status;
}

braid_status cli_manycore_evaluate(const char *models, bool json, const char *html) {
  findings *f = calloc(1, sizeof *f);
  braid_status status = f ? check_names(models) : cli_no_memory();
  if (status == BRAID_OK) status = estimate_figure(f);
  if (status == BRAID_OK) status = estimate_networks(f, models);
  if (status == BRAID_OK) status = show(f, json, html);
  free(f);
  return status;
}
