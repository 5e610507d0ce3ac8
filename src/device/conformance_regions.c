/* Conformance: regions. Backends are shown networks; what they claim must be claimed rightly, and each region, prepared
 * as one node, is tried like a kernel: with outputs in the middle that are read outside, constants packed or bound,
 * other data, other memory, in place where it may, from a recording. */
#include <stdio.h>
#include <string.h>

#include "device/conformance_trial.h"

enum { kMostNodes = 64, kMostClaims = 64, kNodeOperands = 16 };
typedef uint64_t node_set; /* bit n: node n */

/* A node as backends see it. */
typedef struct seen_node {
  braid_node_desc desc;
  braid_operand operands[kNodeOperands];
  int32_t values[kNodeOperands];
} seen_node;

typedef struct seen_graph {
  braid_subgraph graph;
  braid_subgraph_node nodes[kMostNodes];
  seen_node seen[kMostNodes];
  int32_t border[kTrialOperands]; /* of a region: its operands */
} seen_graph;

typedef struct region_case {
  braid_suite *suite;
  braid_sample_graph sample;
  seen_graph *view;
  node_set views;             /* nodes that only name memory anew */
  node_set after[kMostNodes]; /* what depends on a node */
  size_t claim_count;
  struct {
    const braid_kernel *kernel;
    node_set nodes; /* without views */
  } claims[kMostClaims];
  bool broken; /* a claim */
  char detail[kSuiteDetail];
} region_case;

static node_set bit(size_t node) {
  return (node_set)1 << node;
}

/* --- the network as the backend sees it ----------------------------------------------------------------------------
 * `numbers` gives the values' numbers in a region; NULL: their own. */
static void see_node(const region_case *c, size_t number, const int32_t *numbers, seen_node *out,
                     braid_subgraph_node *listed) {
  const braid_graph *graph = c->sample.graph;
  const braid_node *node = &graph->nodes[number];
  size_t inputs = node->input_count;
  for (size_t i = 0; i < inputs + node->output_count; i++) {
    braid_value_id id = i < inputs ? node->inputs[i] : node->outputs[i - inputs];
    out->operands[i] = (braid_operand){0};
    out->values[i] = id < 0 || !numbers ? id : numbers[id];
    if (id < 0) continue;
    const braid_value *value = &graph->values[id];
    const void *constant =
        value->kind == BRAID_VALUE_CONSTANT && !numbers ? braid_tensor_const_data(value->tensor) : NULL;
    out->operands[i] = (braid_operand){true, value->desc, constant};
  }
  out->desc = (braid_node_desc){.op = node->op->name,
                                .name = node->name,
                                .attrs = &node->attrs,
                                .input_count = inputs,
                                .output_count = node->output_count,
                                .inputs = out->operands,
                                .outputs = out->operands + inputs,
                                .training = c->sample.draw.gradient};
  *listed = (braid_subgraph_node){&out->desc, out->values, out->values + inputs};
}

static bool is_view(const braid_node *node) {
  static const char *const kOps[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; i++)
    if (strcmp(node->op->name, kOps[i]) == 0) return true;
  return false;
}

static braid_node_id producer_of(const braid_graph *graph, braid_value_id id) {
  return id >= 0 && graph->values[id].kind == BRAID_VALUE_RESULT ? graph->values[id].producer : -1;
}

static bool see_network(region_case *c, char *detail) {
  const braid_graph *graph = c->sample.graph;
  SUITE_CHECK(graph->node_count <= kMostNodes, "a network has too many nodes");
  for (size_t n = 0; n < graph->node_count; n++) {
    const braid_node *node = &graph->nodes[n];
    SUITE_CHECK(node->input_count + node->output_count <= kNodeOperands, "a node has too many operands");
    see_node(c, n, NULL, &c->view->seen[n], &c->view->nodes[n]);
    if (is_view(node)) c->views |= bit(n);
  }
  for (size_t n = graph->node_count; n-- > 0;) /* in topological order */
    for (size_t i = 0; i < graph->nodes[n].input_count; i++) {
      braid_node_id from = producer_of(graph, graph->nodes[n].inputs[i]);
      if (from >= 0) c->after[from] |= bit(n) | c->after[n];
    }
  c->view->graph = (braid_subgraph){.nodes = c->view->nodes,
                                    .node_count = graph->node_count,
                                    .value_count = graph->value_count,
                                    .inputs = graph->inputs,
                                    .outputs = graph->outputs,
                                    .input_count = graph->input_count,
                                    .output_count = graph->output_count};
  return true;
}

/* --- claims --------------------------------------------------------------------------------------------------------
 */
/* No path leaves the set and comes back. */
static bool is_convex(const region_case *c, node_set nodes) {
  node_set behind = 0;
  for (size_t n = 0; n < c->sample.graph->node_count; n++)
    if (nodes & bit(n)) behind |= c->after[n];
  for (size_t n = 0; n < c->sample.graph->node_count; n++)
    if ((behind & ~nodes & ~c->views & bit(n)) && (c->after[n] & nodes)) return false;
  return true;
}

static bool check_claim(region_case *c, const braid_kernel *kernel, const uint32_t *nodes, size_t count, char *detail) {
  SUITE_CHECK(kernel && kernel->name && kernel->op && strcmp(kernel->op, BRAID_REGION_OP) == 0,
              "claims a region for kernel %s, which is none for the op " BRAID_REGION_OP,
              kernel && kernel->name ? kernel->name : "(none)");
  node_set set = 0;
  for (size_t i = 0; i < count; i++) {
    SUITE_CHECK(nodes[i] < c->sample.graph->node_count, "claims node %u of %zu", nodes[i], c->sample.graph->node_count);
    SUITE_CHECK(!(set & bit(nodes[i])), "claims node %u twice in a region", nodes[i]);
    set |= bit(nodes[i]);
  }
  set &= ~c->views;
  SUITE_CHECK(set, "claims a region without a node that computes");
  SUITE_CHECK(is_convex(c, set), "claims a region that is not convex");
  for (size_t i = 0; i < c->claim_count; i++) {
    node_set other = c->claims[i].nodes, both = other & set;
    SUITE_CHECK(!both || both == set || both == other, "claims two regions that have a part in common");
  }
  SUITE_CHECK(c->claim_count < kMostClaims, "claims more than %d regions of a small network", (int)kMostClaims);
  c->claims[c->claim_count].kernel = kernel;
  c->claims[c->claim_count++].nodes = set;
  return true;
}

static braid_status hear_claim(void *context, const braid_kernel *kernel, const uint32_t *nodes, size_t count) {
  region_case *c = context;
  if (c->broken || check_claim(c, kernel, nodes, count, c->detail))
    return c->broken ? BRAID_INVALID_ARGUMENT : BRAID_OK;
  c->broken = true;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s", c->detail);
}

/* --- a region as a trial -------------------------------------------------------------------------------------------
 */
/* With what only names memory anew between its nodes. */
static node_set add_views(const region_case *c, node_set nodes) {
  const braid_graph *graph = c->sample.graph;
  node_set with = nodes;
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; (nodes & bit(n)) && i < graph->nodes[n].input_count; i++) {
      node_set passed = 0;
      braid_node_id at = producer_of(graph, graph->nodes[n].inputs[i]);
      for (; at >= 0 && (c->views & bit((size_t)at)); at = producer_of(graph, graph->nodes[at].inputs[0]))
        passed |= bit((size_t)at);
      if (at >= 0 && (nodes & bit((size_t)at))) with |= passed;
    }
  return with;
}

/* What crosses the border: inputs that members read and do not make, outputs that are read outside. False: too many. */
typedef struct border {
  int32_t *numbers, *inside, *uses; /* per value */
  braid_value_id operands[kTrialOperands];
  size_t inputs, outputs, values;
} border;

static bool find_border(const region_case *c, node_set members, border *b) {
  const braid_graph *graph = c->sample.graph;
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; (members & bit(n)) && i < graph->nodes[n].input_count + graph->nodes[n].output_count; i++) {
      const braid_node *node = &graph->nodes[n];
      bool input = i < node->input_count;
      braid_value_id id = input ? node->inputs[i] : node->outputs[i - node->input_count];
      if (id < 0) continue;
      b->inside[id] += input;
      if (b->numbers[id] >= 0) continue;
      if (input && b->inputs == kTrialOperands) return false;
      b->numbers[id] = (int32_t)b->values++;
      if (input) b->operands[b->inputs++] = id;
    }
  for (size_t n = 0; n < graph->node_count; n++)
    for (size_t i = 0; (members & bit(n)) && i < graph->nodes[n].output_count; i++) {
      braid_value_id id = graph->nodes[n].outputs[i];
      if (id < 0 || b->uses[id] <= b->inside[id]) continue;
      if (b->inputs + b->outputs == kTrialOperands) return false;
      b->operands[b->inputs + b->outputs++] = id;
    }
  return true;
}

static void fill_region(const region_case *c, node_set members, const border *b, seen_graph *region) {
  size_t count = 0;
  for (size_t n = 0; n < c->sample.graph->node_count; n++)
    if (members & bit(n)) {
      see_node(c, n, b->numbers, &region->seen[count], &region->nodes[count]);
      count++;
    }
  for (size_t i = 0; i < b->inputs + b->outputs; i++) region->border[i] = b->numbers[b->operands[i]];
  region->graph = (braid_subgraph){.nodes = region->nodes,
                                   .node_count = count,
                                   .value_count = b->values,
                                   .inputs = region->border,
                                   .outputs = region->border + b->inputs,
                                   .input_count = b->inputs,
                                   .output_count = b->outputs};
}

static void fill_trial(const region_case *c, const border *b, const seen_graph *region, braid_trial *trial) {
  static const struct braid_attrs kNone;
  for (size_t i = 0; i < b->inputs + b->outputs; i++) {
    const braid_value *value = &c->sample.graph->values[b->operands[i]];
    const void *constant = value->kind == BRAID_VALUE_CONSTANT ? braid_tensor_const_data(value->tensor) : NULL;
    trial->operands[i] = (braid_operand){true, value->desc, constant};
    trial->same[i] = i;
    trial->bounds[i] = -1;
    for (uint32_t data = 0; data < BRAID_SAMPLE_DATA; data++)
      trial->data[data][i] = c->sample.data[data][b->operands[i]];
  }
  trial->node = (braid_node_desc){.op = BRAID_REGION_OP,
                                  .name = "conformance",
                                  .attrs = &kNone,
                                  .input_count = b->inputs,
                                  .output_count = b->outputs,
                                  .inputs = trial->operands,
                                  .outputs = trial->operands + b->inputs,
                                  .training = c->sample.draw.gradient,
                                  .region = &region->graph};
  size_t used = 0;
  for (size_t n = 0; n < region->graph.node_count && used < sizeof trial->text; n++)
    used += (size_t)snprintf(trial->text + used, sizeof trial->text - used, "%s%s", n ? ", " : "",
                             region->nodes[n].desc->op);
}

static bool try_region(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail) {
  braid_trial_run *run;
  bool passed = braid_trial_prepare(suite, trial, kernel, &braid_trial_plainly, &run, detail);
  for (uint32_t data = 0; passed && data < BRAID_SAMPLE_DATA; data++)
    passed = braid_trial_execute(suite, run, data, detail);
  if (passed && suite->backend->shares_prepared) passed = braid_trial_share(suite, run, detail);
  passed = passed && braid_trial_await(suite, run, detail) && braid_trial_overrun(suite, run, detail);
  braid_trial_discard(suite, run);
  return passed && braid_way_together(suite, trial, kernel, detail) &&
         (!suite->backend->record || braid_way_replay(suite, trial, kernel, detail)) &&
         braid_way_in_place(suite, trial, kernel, detail) && braid_way_layouts(suite, trial, kernel, detail);
}

static bool judge_claim(region_case *c, size_t claim, border *b, seen_graph *region, braid_trial *trial, char *detail) {
  const braid_graph *graph = c->sample.graph;
  node_set members = add_views(c, c->claims[claim].nodes);
  for (size_t i = 0; i < graph->value_count; i++) b->numbers[i] = -1, b->inside[i] = 0;
  SUITE_CHECK(braid_graph_count_uses(graph, b->uses) == BRAID_OK, "no memory for the case");
  if (!find_border(c, members, b)) return true; /* more operands than the suite has room for */
  fill_region(c, members, b, region);
  fill_trial(c, b, region, trial);
  char why[kSuiteDetail] = "";
  if (try_region(c->suite, trial, c->claims[claim].kernel, why)) return true;
  return braid_suite_fail(detail, "region of %.300s by %s: %.400s", trial->text, c->claims[claim].kernel->name, why);
}

static bool judge_claims(region_case *c, char *detail) {
  size_t values = c->sample.graph->value_count + 1;
  bool passed = true;
  for (size_t i = 0; passed && i < c->claim_count; i++) {
    border *b = braid_zalloc(NULL, sizeof *b);
    seen_graph *region = braid_zalloc(NULL, sizeof *region);
    braid_trial *trial = braid_zalloc(NULL, sizeof *trial);
    int32_t *numbers = braid_zalloc_array(NULL, 3 * values, sizeof *numbers);
    passed = b && region && trial && numbers;
    if (passed) {
      *b = (border){.numbers = numbers, .inside = numbers + values, .uses = numbers + 2 * values};
      passed = judge_claim(c, i, b, region, trial, detail);
    } else {
      braid_suite_fail(detail, "no memory for the case");
    }
    if (c->suite->stopped) return false;
    braid_free(NULL, numbers);
    braid_free(NULL, trial);
    braid_free(NULL, region);
    braid_free(NULL, b);
  }
  return passed;
}

/* --- all networks --------------------------------------------------------------------------------------------------
 */
static bool judge_network(region_case *c, size_t index, char *detail) {
  const braid_backend *backend = c->suite->backend;
  SUITE_CHECK(braid_network_make(index, c->suite->seed, &c->sample) == BRAID_OK, "network: %s", braid_error_detail());
  SUITE_CHECK(braid_sample_compute(&c->sample, c->suite->evaluator) == BRAID_OK, "references: %s",
              braid_error_detail());
  if (!see_network(c, detail)) return false;
  braid_status status = backend->claim_regions(c->suite->self, &c->view->graph, hear_claim, c);
  if (c->broken) return braid_suite_fail(detail, "%s", c->detail);
  SUITE_CHECK(status == BRAID_OK, "claim_regions: %s", braid_error_detail());
  if (!c->claim_count) return braid_suite_pass_over(c->suite, detail, "claims nothing of it");
  if (!judge_claims(c, detail)) return false;
  snprintf(detail, kSuiteDetail, "%zu %s of %zu nodes", c->claim_count, c->claim_count == 1 ? "region" : "regions",
           c->sample.graph->node_count);
  return true;
}

void braid_suite_regions(braid_suite *suite) {
  if (!suite->backend->claim_regions) return;
  for (size_t i = 0; i < braid_network_count(); i++) {
    char name[64], detail[kSuiteDetail] = "";
    snprintf(name, sizeof name, "regions of %s", braid_network_name(i));
    if (!braid_suite_wants(suite, name)) continue;
    region_case *c = braid_zalloc(NULL, sizeof *c);
    if (c) c->suite = suite;
    if (c) c->view = braid_zalloc(NULL, sizeof *c->view);
    suite->passed_over = false;
    bool passed = c && c->view ? judge_network(c, i, detail) : braid_suite_fail(detail, "no memory for the case");
    braid_suite_tell(suite, name,
                     !passed              ? BRAID_SUITE_FAILED
                     : suite->passed_over ? BRAID_SUITE_NOT_CLAIMED
                                          : BRAID_SUITE_PASSED,
                     detail);
    if (suite->stopped) return;
    if (c && c->sample.graph) braid_sample_free(&c->sample);
    if (c) braid_free(NULL, c->view);
    braid_free(NULL, c);
  }
}
