#include "provider.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "braid/allocator.h"
#include "claim.h"
#include "group.h"
#include "log.h"
#include "try.h"

enum { MAX_SAID = 256 };

typedef struct provider {
  braid_ort_ep_table table; /* first: the framework knows the provider by it */
  braid_ort_options options;
  braid_ort_host *host;
  braid_weights *weights;
  const OrtLogger *logger;
  braid_ort_arena memory; /* of the names */
  const char *
      *checked; /* inputs of the outermost graph, whose shapes the framework checks; of the last that was asked */
  size_t checked_count;    /* 0 for graphs of branches and loops */
  uint64_t said[MAX_SAID]; /* hashes of reasons that were logged: branches and bodies give them again */
  size_t said_count;
} provider;

static const char *provider_name(const void *ep) {
  (void)ep;
  return BRAID_ORT_NAME;
}

static braid_plan_options provider_plan_options(const provider *self) {
  braid_plan_options options = {.no_fusion = !self->options.fusion, .loose_place = true};
  if (self->options.place[0]) options.place = self->options.place;
  options.callers_thread = self->options.threads == 1;
  return options;
}

/* --- which nodes --- */

static braid_status groups_send(const braid_ort_view *view, const braid_ort_claim *claim,
                                OrtEpGraphSupportInfo *support) {
  const OrtNode **nodes = braid_zalloc_array(NULL, view->node_count + 1, sizeof *nodes);
  if (!nodes) return braid_fail(BRAID_NO_MEMORY, "there is no memory to claim nodes");
  braid_status status = BRAID_OK;
  for (size_t group = 0; group < claim->group_count && status == BRAID_OK; group++) {
    braid_ort_fusion fusion = {braid_ort.version, true};
    size_t count = 0;
    for (size_t i = 0; i < view->node_count; i++)
      if (claim->group[i] == (int)group) nodes[count++] = view->nodes[i].node;
    status = braid_ort_check(braid_ort.EpGraphSupportInfo_AddNodesToFuse(support, nodes, count, &fusion));
  }
  braid_free(NULL, nodes);
  return status;
}

static uint64_t text_hash(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
  return hash;
}

/* Once per op and session. */
static bool reason_is_new(provider *self, const braid_ort_reason *reason) {
  uint64_t hash = text_hash(text_hash(UINT64_C(14695981039346656037), reason->domain) + 1, reason->op);
  for (size_t i = 0; i < self->said_count; i++)
    if (self->said[i] == hash) return false;
  if (self->said_count < MAX_SAID) self->said[self->said_count++] = hash;
  return true;
}

static void claim_report(provider *self, const braid_ort_view *view, const braid_ort_claim *claim) {
  size_t claimed = 0, open = 0;
  for (size_t i = 0; i < view->node_count; i++) {
    claimed += claim->group[i] >= 0;
    open += !view->nodes[i].assigned;
  }
  braid_ort_say(self->logger, BRAID_ORT_LOG_INFO, "Braid runs %zu of %zu nodes, in %zu groups", claimed, open,
                claim->group_count);
  for (size_t i = 0; i < claim->reason_count; i++) {
    const braid_ort_reason *reason = &claim->reasons[i];
    if (!reason_is_new(self, reason)) continue;
    braid_ort_say(self->logger, BRAID_ORT_LOG_WARNING, "Braid leaves %zu %s%s%s to ONNX Runtime: %s", reason->count,
                  reason->domain, reason->domain[0] ? "." : "", reason->op, reason->text);
  }
}

/* Shapes that a model declares of other values than its inputs may be those of one run: exporters note what they saw,
 * and nobody checks it. */
static braid_status checked_read(provider *self, const braid_ort_view *view) {
  braid_ort_arena_free(&self->memory);
  self->checked_count = 0;
  if (view->inner) return BRAID_OK;
  self->checked = braid_ort_arena_take(&self->memory, view->value_count, sizeof *self->checked);
  if (!self->checked) return braid_fail(BRAID_NO_MEMORY, "there is no memory to claim nodes");
  for (size_t i = 0; i < view->value_count; i++) {
    if (!view->values[i].input) continue;
    size_t bytes = strlen(view->values[i].name) + 1;
    char *name = braid_ort_arena_take(&self->memory, bytes, 1);
    if (!name) return braid_fail(BRAID_NO_MEMORY, "there is no memory to claim nodes");
    self->checked[self->checked_count++] = memcpy(name, view->values[i].name, bytes);
  }
  return BRAID_OK;
}

static bool checked_has(const provider *self, const char *name) {
  for (size_t i = 0; i < self->checked_count; i++)
    if (strcmp(self->checked[i], name) == 0) return true;
  return false;
}

static braid_status provider_claim(provider *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  braid_ort_view view;
  braid_ort_claim claim;
  braid_plan_options plan = provider_plan_options(self);
  TRY(braid_ort_view_read(graph, &view));
  braid_status status = checked_read(self, &view);
  if (status == BRAID_OK)
    status = braid_ort_claim_nodes(&view, braid_ort_host_machine(self->host), &plan, self->options.least, &claim);
  if (status == BRAID_OK) status = groups_send(&view, &claim, support);
  if (status == BRAID_OK) claim_report(self, &view, &claim);
  braid_ort_view_free(&view);
  return status;
}

static OrtStatus *provider_get_capability(void *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  return braid_ort_status(provider_claim(ep, graph, support));
}

/* --- groups --- */

/* Inputs and outputs of the group are those of the framework's node, less constants. */
static braid_status piece_operands(braid_ort_view *view, const OrtNode *fused, braid_ort_piece *piece, size_t *places) {
  int *inputs, *outputs;
  size_t input_count, output_count, left = 0, given = 0;
  TRY(braid_ort_view_operands(view, fused, false, &inputs, &input_count));
  TRY(braid_ort_view_operands(view, fused, true, &outputs, &output_count));
  for (size_t i = 0; i < input_count; i++) {
    if (inputs[i] < 0 || view->values[inputs[i]].data) continue;
    places[left] = i;
    inputs[left++] = inputs[i];
  }
  for (size_t i = 0; i < output_count; i++) {
    if (outputs[i] < 0) continue;
    places[left + given] = i;
    outputs[given++] = outputs[i];
  }
  piece->inputs = inputs;
  piece->input_count = left;
  piece->outputs = outputs;
  piece->output_count = given;
  return BRAID_OK;
}

static braid_status group_read(const provider *self, braid_ort_view *view, const OrtNode *fused,
                               braid_ort_group **out) {
  size_t operands = 0, more = 0;
  char name[128];
  TRY_ORT(braid_ort.Node_GetNumInputs(fused, &operands));
  TRY_ORT(braid_ort.Node_GetNumOutputs(fused, &more));
  int *nodes = braid_ort_arena_take(&view->arena, view->node_count, sizeof *nodes);
  size_t *places = braid_ort_arena_take(&view->arena, operands + more, sizeof *places);
  if (!nodes || !places) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a group");
  for (size_t i = 0; i < view->node_count; i++) nodes[i] = (int)i;
  /* Nodes are often without a name: the first one's output has one. */
  const braid_ort_node *first = &view->nodes[0];
  const char *label = view->node_count ? first->name : "";
  if (!label[0] && view->node_count && first->output_count && first->outputs[0] >= 0)
    label = view->values[first->outputs[0]].name;
  snprintf(name, sizeof name, "%s (group of %zu nodes)", label, view->node_count);
  braid_ort_piece piece = {.nodes = nodes, .node_count = view->node_count, .name = name};
  TRY(piece_operands(view, fused, &piece, places));
  braid_ort_group_options options = {self->host, self->weights, provider_plan_options(self), self->options.plans, true};
  for (size_t i = 0; i < piece.input_count; i++)
    options.checked = options.checked && checked_has(self, view->values[piece.inputs[i]].name);
  return braid_ort_group_create(&options, view, &piece, places, out);
}

static braid_status group_compile(const provider *self, const OrtGraph *graph, const OrtNode *fused,
                                  braid_ort_group **out) {
  braid_ort_view view;
  TRY(braid_ort_view_read(graph, &view));
  braid_status status = group_read(self, &view, fused, out);
  braid_ort_view_free(&view);
  return status;
}

static void provider_release_groups(void *ep, braid_ort_compute_table **infos, size_t count) {
  (void)ep;
  for (size_t i = 0; i < count; i++) braid_ort_group_destroy((braid_ort_group *)infos[i]);
}

static OrtStatus *provider_compile(void *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                                   braid_ort_compute_table **infos, OrtNode **context_nodes) {
  const provider *self = ep;
  (void)context_nodes; /* asked for when a compiled model is to be saved: it is then an error that there are none */
  for (size_t i = 0; i < count; i++) {
    braid_ort_group *group = NULL;
    braid_status status = group_compile(self, graphs[i], fused[i], &group);
    if (status != BRAID_OK) {
      OrtStatus *failed = braid_ort_status(status);
      provider_release_groups(ep, infos, i);
      for (size_t k = 0; k < i; k++) infos[k] = NULL;
      return failed;
    }
    infos[i] = braid_ort_group_table(group);
  }
  return NULL;
}

static OrtStatus *provider_is_concurrent(void *ep, bool *supported) {
  (void)ep;
  *supported = true;
  return NULL;
}

/* --- create --- */

static braid_status empty_graph_plan(braid_graph *graph, const provider *self) {
  braid_value_id input;
  braid_plan *plan = NULL;
  braid_plan_options options = provider_plan_options(self);
  TRY(braid_graph_add_input(graph, "x", &(braid_desc){.dtype = BRAID_F32, .rank = 1, .dims = {1}}, &input));
  TRY(braid_graph_add_output(graph, input));
  braid_status status = braid_plan_create(braid_ort_host_machine(self->host), graph, &options, &plan);
  braid_plan_release(plan);
  return status;
}

/* A list of places that is wrong fails for a graph without nodes as well. Asked node by node, it would leave them all
 * to the framework. */
static braid_status places_check(const provider *self) {
  braid_graph *graph = NULL;
  if (!self->options.place[0]) return BRAID_OK;
  TRY(braid_graph_create(NULL, "places", &graph));
  braid_status status = empty_graph_plan(graph, self);
  braid_graph_destroy(graph);
  return status;
}

braid_status braid_ort_provider_create(const braid_ort_options *options, const OrtLogger *lasting,
                                       const OrtLogger *session, void **ep) {
  *ep = NULL;
  provider *self = braid_zalloc(NULL, sizeof *self);
  if (!self) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a provider");
  self->table.version = braid_ort.version;
  self->table.GetName = provider_name;
  self->table.GetCapability = provider_get_capability;
  self->table.Compile = provider_compile;
  self->table.ReleaseNodeComputeInfos = provider_release_groups;
  self->table.IsConcurrentRunSupported = provider_is_concurrent;
  self->options = *options;
  self->logger = session;
  braid_status status = braid_ort_host_open(options, lasting, &self->host);
  if (status == BRAID_OK) status = places_check(self);
  if (status == BRAID_OK) status = braid_weights_create(braid_ort_host_machine(self->host), &self->weights);
  if (status == BRAID_OK)
    *ep = self;
  else
    braid_ort_provider_destroy(self);
  return status;
}

void braid_ort_provider_destroy(void *ep) {
  provider *self = ep;
  if (!self || (self->host && braid_ort_host_foreign(self->host))) return;
  braid_ort_arena_free(&self->memory);
  braid_weights_release(self->weights);
  braid_ort_host_close(self->host);
  braid_free(NULL, self);
}
