/* From a set of nodes to a network: a walk in the order of the graph, during which each value is bytes of a map, real
 * numbers that stand for such bytes, or a draft, what is still to be quantized. */
#include "overlay/lower/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/try.h"
#include "base/vector.h"

typedef braid_overlay_lowering lowering;

braid_status braid_overlay_refuse(lowering *l, braid_node_id node, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(l->why, sizeof l->why, format, arguments);
  va_end(arguments);
  l->refused = node;
  return BRAID_UNSUPPORTED;
}

braid_status braid_overlay_form_of(lowering *l, braid_node_id node, const braid_desc *desc, braid_overlay_form *out) {
  *out = (braid_overlay_form){.batch = 0, .channels = 1, .rows = 1, .columns = 1};
  if (desc->rank < 2 || desc->rank > 4)
    return desc->rank < 0 ? braid_overlay_refuse(l, node, "a shape of it is not known")
                          : braid_overlay_refuse(l, node, "it has values of rank %d, 2 to 4 are possible", desc->rank);
  int64_t numbers = 1;
  for (int i = 0; i < desc->rank; i++) {
    /* what is flat may be a map of any form */
    int64_t most = !i ? INT32_MAX : desc->rank == 2 ? BRAID_OVERLAY_MOST_MAP : BRAID_OVERLAY_MOST_SIDE;
    if (desc->dims[i] < 1 || desc->dims[i] > most)
      return braid_overlay_refuse(l, node, "dimension %d of a value is %lld, 1 to %lld are possible", i,
                                  (long long)desc->dims[i], (long long)most);
    if (i) numbers *= desc->dims[i];
  }
  if (numbers > BRAID_OVERLAY_MOST_MAP)
    return braid_overlay_refuse(l, node, "a value of it has more than 2^28 numbers for an image");
  if (l->batch && l->batch != desc->dims[0])
    return braid_overlay_refuse(l, node, "its batch is %lld, that of others %lld", (long long)desc->dims[0],
                                (long long)l->batch);
  out->batch = desc->dims[0];
  out->channels = (int32_t)desc->dims[1];
  out->columns = desc->rank > 2 ? (int32_t)desc->dims[desc->rank - 1] : 1;
  out->rows = desc->rank > 3 ? (int32_t)desc->dims[2] : 1;
  return BRAID_OK;
}

/* --- a lowering ----------------------------------------------------------------------------------------------------
 */
static bool takes(const lowering *l, size_t node) {
  return !l->takes || l->takes[node];
}

static void lowering_deinit(lowering *l) {
  for (size_t i = 0; i < l->draft_count; i++) braid_free(l->allocator, l->drafts[i].parts);
  braid_free(l->allocator, l->uses);
  braid_free(l->allocator, l->known);
  braid_free(l->allocator, l->drafts);
  braid_free(l->allocator, l->maps);
  braid_free(l->allocator, l->layers);
  braid_free(l->allocator, l->inputs);
  braid_free(l->allocator, l->outputs);
  if (l->arena) braid_arena_destroy(l->arena);
}

static braid_status lowering_init(lowering *l, const braid_graph *graph, const bool *set) {
  *l = (lowering){.graph = graph, .allocator = graph->allocator, .takes = set};
  BRAID_TRY(braid_arena_create(l->allocator, &l->arena));
  l->uses = braid_zalloc_array(l->allocator, graph->value_count + 1, sizeof *l->uses);
  l->known = braid_zalloc_array(l->allocator, graph->value_count + 1, sizeof *l->known);
  if (!l->uses || !l->known) return BRAID_NO_MEMORY;
  return braid_graph_count_uses(graph, l->uses);
}

static braid_status check_node(lowering *l, braid_node_id id) {
  const braid_overlay_op *op = braid_overlay_find_op(l->graph->nodes[id].op->name);
  return op ? op->check(l, id) : braid_overlay_refuse(l, id, "the overlay has no such op");
}

static braid_status walk_node(lowering *l, braid_node_id id) {
  BRAID_TRY(check_node(l, id));
  return braid_overlay_find_op(l->graph->nodes[id].op->name)->walk(l, id);
}

/* What the walk tells of each refusal. */
typedef braid_status refused_function(void *context, const lowering *l);

static braid_status finish_walk(lowering *l, refused_function *refused, void *context) {
  for (size_t i = 0; i < l->draft_count; i++) {
    if (l->drafts[i].done) continue;
    (void)braid_overlay_refuse(l, l->drafts[i].node, "its result is not quantized to int8 by a power of two");
    BRAID_TRY(refused(context, l));
  }
  return BRAID_OK;
}

static braid_status walk(lowering *l, refused_function *refused, void *context) {
  for (size_t i = 0; i < l->graph->node_count; i++) {
    if (!takes(l, i)) continue;
    braid_status status = walk_node(l, (braid_node_id)i);
    if (status == BRAID_UNSUPPORTED) status = refused(context, l);
    BRAID_TRY(status);
  }
  return finish_walk(l, refused, context);
}

/* --- ports out -----------------------------------------------------------------------------------------------------
 */
static braid_status add_output(lowering *l, braid_value_id value) {
  braid_overlay_known known = l->known[value];
  if (known.meaning != BRAID_OVERLAY_BYTES && known.meaning != BRAID_OVERLAY_REAL) return BRAID_OK;
  for (size_t i = 0; i < l->output_count; i++)
    if (l->outputs[i].value == value) return BRAID_OK;
  braid_overlay_port *grown =
      braid_grow(l->allocator, l->outputs, l->output_count, &l->output_capacity, sizeof *l->outputs);
  if (!grown) return BRAID_NO_MEMORY;
  l->outputs = grown;
  l->outputs[l->output_count++] = (braid_overlay_port){
      .value = value, .map = known.at, .real = known.meaning == BRAID_OVERLAY_REAL, .low = -128, .high = 127};
  return BRAID_OK;
}

/* What nodes of the set compute and others, or the graph's caller, read. */
static braid_status add_outputs(lowering *l) {
  const braid_graph *graph = l->graph;
  bool *read = braid_zalloc_array(l->allocator, graph->value_count + 1, sizeof *read);
  if (!read) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < graph->output_count; i++) read[graph->outputs[i]] = true;
  for (size_t i = 0; i < graph->node_count; i++)
    for (size_t k = 0; !takes(l, i) && k < graph->nodes[i].input_count; k++)
      if (graph->nodes[i].inputs[k] >= 0) read[graph->nodes[i].inputs[k]] = true;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < graph->value_count; i++) {
    const braid_value *value = &graph->values[i];
    bool ours = value->kind == BRAID_VALUE_RESULT && value->producer >= 0 && takes(l, (size_t)value->producer);
    if (ours && read[i]) status = add_output(l, (braid_value_id)i);
  }
  braid_free(l->allocator, read);
  return status;
}

/* The graph's own, as it has them, then the others as they are. */
static void order_ports(const braid_value_id *values, size_t value_count, braid_overlay_port *ports, size_t count) {
  size_t done = 0;
  for (size_t v = 0; v < value_count; v++)
    for (size_t i = done; i < count; i++) {
      if (ports[i].value != values[v]) continue;
      braid_overlay_port port = ports[i];
      memmove(&ports[done + 1], &ports[done], (i - done) * sizeof *ports);
      ports[done++] = port;
      break;
    }
}

/* --- sets ----------------------------------------------------------------------------------------------------------
 */
/* Nodes stand behind what they read; no path leaves the set and comes back. */
static braid_status check_order(const lowering *l) {
  const braid_graph *graph = l->graph;
  bool *behind = braid_zalloc_array(l->allocator, graph->node_count + 1, sizeof *behind); /* of outside: of the set */
  if (!behind) return BRAID_NO_MEMORY;
  braid_status status = BRAID_OK;
  for (size_t i = 0; status == BRAID_OK && i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    for (size_t k = 0; status == BRAID_OK && k < node->input_count; k++) {
      const braid_value *value = node->inputs[k] < 0 ? NULL : &graph->values[node->inputs[k]];
      if (!value || value->kind != BRAID_VALUE_RESULT || value->producer < 0) continue;
      size_t from = (size_t)value->producer;
      if (from >= i)
        status = braid_fail(BRAID_INVALID_ARGUMENT, "node %.120s (%s) stands before what it reads", node->name,
                            node->op->name);
      else if (takes(l, i) && behind[from])
        status = braid_fail(BRAID_INVALID_ARGUMENT,
                            "node %.120s (%s): a path leaves the nodes of the overlay and comes back to it", node->name,
                            node->op->name);
      else if (!takes(l, i))
        behind[i] = behind[i] || behind[from] || takes(l, from);
    }
  }
  braid_free(l->allocator, behind);
  return status;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
bool braid_overlay_can(const braid_graph *graph, braid_node_id node, char *why, size_t why_bytes) {
  lowering l = {.graph = graph, .allocator = graph->allocator};
  braid_status status = node >= 0 && (size_t)node < graph->node_count
                            ? check_node(&l, node)
                            : braid_overlay_refuse(&l, node, "there is no such node");
  if (status != BRAID_OK && why_bytes) snprintf(why, why_bytes, "%s", l.why);
  return status == BRAID_OK;
}

typedef struct selection {
  bool *takes;
  braid_overlay_refusal *refusals;
  size_t count;
  bool changed;
} selection;

static braid_status select_refused(void *context, const lowering *l) {
  selection *s = context;
  s->changed = true;
  if (!s->takes[l->refused]) return BRAID_OK;
  s->takes[l->refused] = false;
  if (s->refusals) {
    braid_overlay_refusal *refusal = &s->refusals[s->count++];
    refusal->node = l->refused;
    memcpy(refusal->why, l->why, sizeof refusal->why);
  }
  return BRAID_OK;
}

/* Nodes that only hand maps through, which no layer reads or writes, are of no use there. */
static braid_status drop_idle(const lowering *l, selection *s) {
  bool *busy = braid_zalloc_array(l->allocator, l->map_count + 1, sizeof *busy);
  if (!busy) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < l->layer_count; i++) {
    busy[l->layers[i].x] = busy[l->layers[i].y] = true;
    if (l->layers[i].other >= 0) busy[l->layers[i].other] = true;
  }
  for (size_t i = 0; i < l->graph->node_count; i++) {
    const braid_node *node = &l->graph->nodes[i];
    if (!s->takes[i] || node->output_count < 1 || node->outputs[0] < 0) continue;
    braid_overlay_known known = l->known[node->outputs[0]];
    bool map = known.meaning == BRAID_OVERLAY_BYTES || known.meaning == BRAID_OVERLAY_REAL;
    if (!map || busy[known.at]) continue;
    s->takes[i] = false;
    s->changed = true; /* what stood before or behind it may be left alone now */
  }
  braid_free(l->allocator, busy);
  return BRAID_OK;
}

static braid_status select_once(const braid_graph *graph, selection *s) {
  lowering l;
  braid_status status = lowering_init(&l, graph, s->takes);
  s->changed = false;
  if (status == BRAID_OK) status = walk(&l, select_refused, s);
  if (status == BRAID_OK && !s->changed) status = drop_idle(&l, s);
  lowering_deinit(&l);
  return status;
}

braid_status braid_overlay_select(const braid_graph *graph, bool *set, braid_overlay_refusal *refusals,
                                  size_t *refusal_count) {
  selection s = {.takes = set, .refusals = refusals};
  braid_status status;
  do {
    status = select_once(graph, &s);
  } while (status == BRAID_OK && s.changed);
  if (refusal_count) *refusal_count = s.count;
  return status;
}

static braid_status lower_refused(void *context, const lowering *l) {
  (void)context;
  const braid_node *node = &l->graph->nodes[l->refused];
  return braid_fail(BRAID_UNSUPPORTED, "node %.120s (%s) cannot run on the overlay: %s", node->name, node->op->name,
                    l->why);
}

static braid_status keep_ports(const braid_graph *graph, const braid_overlay_port *from, size_t count,
                               struct braid_arena *arena, const braid_overlay_port **out) {
  braid_overlay_port *ports = braid_arena_alloc(arena, (count + 1) * sizeof *ports);
  *out = ports;
  if (!ports) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const char *name = graph->values[from[i].value].name;
    ports[i] = from[i];
    ports[i].name = braid_arena_text(arena, name, strlen(name));
    if (!ports[i].name) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

/* The network's arrays and names lie in its arena. */
static braid_status keep(lowering *l, braid_overlay_network **out) {
  struct braid_arena *arena = l->arena;
  braid_overlay_network *network = braid_arena_alloc(arena, sizeof *network);
  braid_overlay_layer *layers = braid_arena_alloc(arena, (l->layer_count + 1) * sizeof *layers);
  braid_overlay_map *maps = braid_arena_alloc(arena, (l->map_count + 1) * sizeof *maps);
  const braid_overlay_port *inputs, *outputs;
  if (!network || !layers || !maps) return BRAID_NO_MEMORY;
  BRAID_TRY(keep_ports(l->graph, l->inputs, l->input_count, arena, &inputs));
  BRAID_TRY(keep_ports(l->graph, l->outputs, l->output_count, arena, &outputs));
  for (size_t i = 0; i < l->layer_count; i++) {
    layers[i] = l->layers[i];
    layers[i].name = braid_arena_text(arena, layers[i].name, strlen(layers[i].name));
    if (!layers[i].name) return BRAID_NO_MEMORY;
  }
  for (size_t i = 0; i < l->map_count; i++) {
    maps[i] = l->maps[i];
    maps[i].name = braid_arena_text(arena, maps[i].name, strlen(maps[i].name));
    if (!maps[i].name) return BRAID_NO_MEMORY;
  }
  *network = (braid_overlay_network){l->batch,       layers,       maps,           inputs,          outputs,
                                     l->layer_count, l->map_count, l->input_count, l->output_count, arena};
  l->arena = NULL;
  *out = network;
  return BRAID_OK;
}

static braid_status lower(lowering *l, const braid_graph *graph, const bool *set, braid_overlay_network **out) {
  BRAID_TRY(lowering_init(l, graph, set));
  BRAID_TRY(check_order(l));
  BRAID_TRY(walk(l, lower_refused, NULL));
  BRAID_TRY(add_outputs(l));
  order_ports(graph->inputs, graph->input_count, l->inputs, l->input_count);
  order_ports(graph->outputs, graph->output_count, l->outputs, l->output_count);
  BRAID_TRY(braid_overlay_fuse(l));
  return keep(l, out);
}

braid_status braid_overlay_lower(const braid_graph *graph, const bool *set, braid_overlay_network **out) {
  *out = NULL;
  lowering l;
  braid_status status = lower(&l, graph, set, out);
  lowering_deinit(&l);
  return status;
}
