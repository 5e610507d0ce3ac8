#include "runtime/plan/snapshot.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <string.h>
#include <sys/auxv.h>

#include "base/try.h"
#include "braid/version.h"

/* --- tables --------------------------------------------------------------------------------------------------------
 */
#define FIELD(field_type, name) {#name, BRAID_FIELD_##field_type, offsetof(ROW, name)},
#define ROW braid_plan_row
static const braid_field kPLAN[] = {BRAID_SNAPSHOT_PLAN(FIELD)};
#undef ROW
#define ROW braid_device_row
static const braid_field kDEVICE[] = {BRAID_SNAPSHOT_DEVICE(FIELD)};
#undef ROW
#define ROW braid_value_row
static const braid_field kVALUE[] = {BRAID_SNAPSHOT_VALUE(FIELD)};
#undef ROW
#define ROW braid_node_row
static const braid_field kNODE[] = {BRAID_SNAPSHOT_NODE(FIELD)};
#undef ROW
#define ROW braid_attribute_row
static const braid_field kATTRIBUTE[] = {BRAID_SNAPSHOT_ATTRIBUTE(FIELD)};
#undef ROW
#define ROW braid_place_row
static const braid_field kPLACE[] = {BRAID_SNAPSHOT_PLACE(FIELD)};
#undef ROW
#define ROW braid_step_row
static const braid_field kSTEP[] = {BRAID_SNAPSHOT_STEP(FIELD)};
#undef ROW
#define ROW braid_storage_row
static const braid_field kSTORAGE[] = {BRAID_SNAPSHOT_STORAGE(FIELD)};
#undef ROW
typedef braid_plan_row row_PLAN;
typedef braid_device_row row_DEVICE;
typedef braid_value_row row_VALUE;
typedef braid_node_row row_NODE;
typedef braid_attribute_row row_ATTRIBUTE;
typedef braid_place_row row_PLACE;
typedef braid_step_row row_STEP;
typedef braid_storage_row row_STORAGE;
#define TABLE(table, row, member)                                                                                      \
  {#row,                                                                                                               \
   BRAID_ROW_##table,                                                                                                  \
   sizeof(row_##table),                                                                                                \
   offsetof(braid_snapshot, member),                                                                                   \
   k##table,                                                                                                           \
   sizeof k##table / sizeof *k##table},
const braid_table braid_snapshot_tables[] = {BRAID_SNAPSHOT_TABLES(TABLE)};

/* --- rows ----------------------------------------------------------------------------------------------------------
 */
static braid_status rows_make(braid_arena *arena, size_t count, size_t row_bytes, braid_rows *out) {
  *out = (braid_rows){braid_arena_alloc(arena, (count + 1) * row_bytes), count};
  return out->items ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status list_make(braid_arena *arena, size_t count, int64_t **items, braid_snapshot_list *out) {
  *items = braid_arena_alloc(arena, (count + 1) * sizeof **items);
  *out = (braid_snapshot_list){*items, count};
  return *items ? BRAID_OK : BRAID_NO_MEMORY;
}

static braid_status list_of_ids(braid_arena *arena, const int32_t *ids, size_t count, braid_snapshot_list *out) {
  int64_t *items;
  BRAID_TRY(list_make(arena, count, &items, out));
  for (size_t i = 0; i < count; i++) items[i] = ids[i];
  return BRAID_OK;
}

static braid_status list_of_sizes(braid_arena *arena, const size_t *sizes, size_t count, braid_snapshot_list *out) {
  int64_t *items;
  BRAID_TRY(list_make(arena, count, &items, out));
  for (size_t i = 0; i < count; i++) items[i] = (int64_t)sizes[i];
  return BRAID_OK;
}

static const char *text_of(const char *text) {
  return text ? text : "";
}

/* --- graphs --------------------------------------------------------------------------------------------------------
 */
static braid_status take_value(const braid_value *value, bool read, braid_arena *arena, braid_value_row *out) {
  const braid_desc *desc = &value->desc;
  int64_t *shape;
  *out = (braid_value_row){.name = value->name, .kind = value->kind, .type = desc->dtype, .next = value->next};
  BRAID_TRY(list_make(arena, desc->rank < 0 ? 1 : (size_t)desc->rank, &shape, &out->shape));
  if (desc->rank < 0) shape[0] = INT64_MIN;
  for (int i = 0; i < desc->rank; i++) shape[i] = desc->dims[i];
  if (value->kind == BRAID_VALUE_CONSTANT && value->tensor && read)
    out->contents = (braid_snapshot_bytes){braid_tensor_const_data(value->tensor), braid_desc_bytes(desc)};
  return BRAID_OK;
}

static braid_status take_absorbed(const braid_node *node, braid_arena *arena, const char **out) {
  size_t bytes = 1;
  for (const braid_alias *alias = node->absorbed; alias; alias = alias->next) bytes += strlen(alias->name) + 1;
  char *text = braid_arena_alloc(arena, bytes), *at = text;
  if (!text) return BRAID_NO_MEMORY;
  for (const braid_alias *alias = node->absorbed; alias; alias = alias->next) {
    size_t length = strlen(alias->name);
    memcpy(at, alias->name, length);
    at += length;
    *at++ = '\n';
  }
  *out = text;
  return BRAID_OK;
}

static braid_status take_strings(const braid_attr *attr, braid_arena *arena, braid_attribute_row *out) {
  size_t bytes = 1;
  for (size_t i = 0; i < attr->count; i++) bytes += strlen(attr->strings[i]) + 1;
  char *text = braid_arena_alloc(arena, bytes), *at = text;
  if (!text) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < attr->count; i++) {
    size_t length = strlen(attr->strings[i]) + 1;
    memcpy(at, attr->strings[i], length);
    at += length;
  }
  out->number = (int64_t)attr->count;
  out->contents = (braid_snapshot_bytes){(const uint8_t *)text, bytes - 1};
  return BRAID_OK;
}

static braid_status take_tensor(const braid_attr *attr, braid_arena *arena, braid_attribute_row *out) {
  const braid_desc *desc = braid_tensor_desc(attr->tensor);
  int64_t *items;
  BRAID_TRY(list_make(arena, (size_t)desc->rank, &items, &out->list));
  for (int i = 0; i < desc->rank; i++) items[i] = desc->dims[i];
  out->number = desc->dtype;
  out->contents = (braid_snapshot_bytes){braid_tensor_const_data(attr->tensor), braid_desc_bytes(desc)};
  return BRAID_OK;
}

static braid_status take_attribute(size_t node, const braid_attr *attr, braid_arena *arena, braid_attribute_row *out) {
  *out = (braid_attribute_row){.node = (int64_t)node, .name = attr->name, .kind = attr->kind, .text = ""};
  switch (attr->kind) {
  case BRAID_ATTR_INT:
    out->number = attr->i;
    break;
  case BRAID_ATTR_FLOAT:
    memcpy(&out->number, &attr->f, sizeof out->number);
    break;
  case BRAID_ATTR_STRING:
    out->text = attr->s;
    break;
  case BRAID_ATTR_INTS:
    out->list = (braid_snapshot_list){attr->ints, attr->count};
    break;
  case BRAID_ATTR_FLOATS:
    out->contents = (braid_snapshot_bytes){(const uint8_t *)attr->floats, attr->count * sizeof *attr->floats};
    break;
  case BRAID_ATTR_STRINGS:
    return take_strings(attr, arena, out);
  case BRAID_ATTR_TENSOR:
    return take_tensor(attr, arena, out);
  }
  return BRAID_OK;
}

/* With the contents of the constants in `read`; NULL: of those that the graph has noted itself. */
static braid_status take_graph(const braid_graph *graph, const braid_read_set *read, braid_arena *arena,
                               braid_rows *values, braid_rows *nodes, braid_rows *attributes) {
  size_t count = 0;
  for (size_t i = 0; i < graph->node_count; i++) count += graph->nodes[i].attrs.count;
  BRAID_TRY(rows_make(arena, graph->value_count, sizeof(braid_value_row), values));
  BRAID_TRY(rows_make(arena, graph->node_count, sizeof(braid_node_row), nodes));
  BRAID_TRY(rows_make(arena, count, sizeof(braid_attribute_row), attributes));
  braid_attribute_row *attribute = attributes->items;
  for (size_t i = 0; i < graph->value_count; i++) {
    bool known = read ? i < read->count && read->items[i] : braid_value_was_read(&graph->values[i]);
    BRAID_TRY(take_value(&graph->values[i], known, arena, (braid_value_row *)values->items + i));
  }
  for (size_t i = 0; i < graph->node_count; i++) {
    const braid_node *node = &graph->nodes[i];
    braid_node_row *row = (braid_node_row *)nodes->items + i;
    *row = (braid_node_row){.name = node->name, .op = node->op->name, .backward = node->backward};
    BRAID_TRY(list_of_ids(arena, node->inputs, node->input_count, &row->inputs));
    BRAID_TRY(list_of_ids(arena, node->outputs, node->output_count, &row->outputs));
    BRAID_TRY(take_absorbed(node, arena, &row->absorbed));
    for (size_t k = 0; k < node->attrs.count; k++)
      BRAID_TRY(take_attribute(i, &node->attrs.items[k], arena, attribute++));
  }
  return BRAID_OK;
}

/* --- machines ------------------------------------------------------------------------------------------------------
 */
/* What kernels may have been chosen by that no device says: the instructions of this processor. */
static const char *take_processor(braid_arena *arena) {
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_printf(&text, "%lx %lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) braid_text_printf(&text, " %x %x", c, d);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) braid_text_printf(&text, " %x %x %x", b, c, d);
#endif
  const char *copy = text.failed ? NULL : braid_arena_text(arena, text.data, text.length);
  braid_text_deinit(&text);
  return copy;
}

/* Which kernels the device has, in their order. */
static int64_t number_of_kernels(const braid_machine_device *device) {
  size_t count;
  uint64_t hash = 0;
  const braid_kernel *const *kernels = device->backend->kernels(device->self, &count);
  for (size_t i = 0; i < count; i++) {
    for (const char *at = kernels[i]->op; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    for (const char *at = kernels[i]->name; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3u + 1;
  }
  return (int64_t)(hash ^ (uint64_t)count << 48);
}

static braid_status take_machine(const braid_machine *machine, braid_arena *arena, braid_rows *out) {
  BRAID_TRY(rows_make(arena, machine->device_count, sizeof(braid_device_row), out));
  for (size_t i = 0; i < machine->device_count; i++) {
    const braid_machine_device *device = &machine->devices[i];
    const braid_device_info *info = device->info;
    ((braid_device_row *)out->items)[i] = (braid_device_row){.name = device->label,
                                                             .backend = device->backend->name,
                                                             .kind = info->kind,
                                                             .description = info->description,
                                                             .software = info->software,
                                                             .threads = info->compute_units,
                                                             .separate_memory = info->memory == BRAID_MEMORY_SEPARATE,
                                                             .queues = info->max_queues,
                                                             .alignment = (int64_t)info->alignment,
                                                             .host_alignment = (int64_t)info->host_alignment,
                                                             .kernels = number_of_kernels(device)};
  }
  return BRAID_OK;
}

/* --- plans ---------------------------------------------------------------------------------------------------------
 */
static braid_status take_places(const braid_plan *plan, braid_arena *arena, braid_rows *out) {
  BRAID_TRY(rows_make(arena, plan->graph->node_count, sizeof(braid_place_row), out));
  for (size_t i = 0; i < out->count; i++) {
    const braid_placement *place = &plan->places[i];
    ((braid_place_row *)out->items)[i] = (braid_place_row){
        .device = place->device, .kernel = place->kernel ? place->kernel->name : "", .why = text_of(place->why)};
  }
  return BRAID_OK;
}

static braid_status take_operands(const braid_plan *plan, const braid_step *step, braid_arena *arena,
                                  braid_step_row *out) {
  size_t count = step->input_count + step->output_count;
  int64_t *storages, *layouts;
  BRAID_TRY(list_make(arena, count + 1, &storages, &out->storages));
  BRAID_TRY(list_make(arena, count, &layouts, &out->layouts));
  for (size_t i = 0; i <= count; i++) { /* the workspace last */
    braid_storage_id id = i == count                ? step->workspace
                          : step->instances[i] >= 0 ? plan->instances[step->instances[i]].storage
                                                    : -1;
    storages[i] = id < 0 ? -1 : braid_plan_find(plan, id);
  }
  for (size_t i = 0; i < count; i++)
    layouts[i] = (int64_t)(step->layouts ? step->layouts[i] : plan->instances[step->instances[i]].desc.layout);
  out->value = step->layouts ? -1 : plan->instances[step->instances[0]].value;
  return BRAID_OK;
}

static braid_status take_storages(const braid_plan *plan, braid_arena *arena, braid_rows *out) {
  BRAID_TRY(rows_make(arena, plan->storage_count, sizeof(braid_storage_row), out));
  for (size_t i = 0; i < out->count; i++) {
    const braid_storage *storage = &plan->storages[i];
    ((braid_storage_row *)out->items)[i] = (braid_storage_row){.kind = storage->kind,
                                                               .space = storage->space,
                                                               .bytes = (int64_t)storage->bytes,
                                                               .offset = (int64_t)storage->offset,
                                                               .part_of = storage->same_as};
  }
  return BRAID_OK;
}

static braid_status take_steps(const braid_plan *plan, const braid_step_list *list, braid_arena *arena,
                               braid_rows *out) {
  BRAID_TRY(rows_make(arena, list->count, sizeof(braid_step_row), out));
  for (size_t i = 0; i < list->count; i++) {
    const braid_step *step = &list->items[i];
    braid_step_row *row = (braid_step_row *)out->items + i;
    int64_t *packings, *waits;
    *row = (braid_step_row){.label = step->label,
                            .op = step->op,
                            .device = step->device,
                            .queue = step->queue,
                            .node = step->node,
                            .kernel = step->kernel ? step->kernel->name : "",
                            .workspace = (int64_t)step->query.workspace_bytes,
                            .folded = step->folded};
    BRAID_TRY(take_operands(plan, step, arena, row));
    BRAID_TRY(list_make(arena, 2 * step->wait_count, &waits, &row->waits));
    for (size_t k = 0; k < step->wait_count; k++) {
      waits[2 * k] = step->waits[k].queue;
      waits[2 * k + 1] = step->waits[k].nth;
    }
    BRAID_TRY(list_make(arena, (size_t)3 * step->query.packing_count, &packings, &row->packings));
    for (uint32_t k = 0; k < step->query.packing_count; k++) {
      const braid_packing *packing = &step->query.packings[k];
      packings[3 * k] = packing->input;
      packings[3 * k + 1] = (int64_t)packing->bytes;
      packings[3 * k + 2] = (int64_t)packing->key;
    }
  }
  return BRAID_OK;
}

/* A graph whose inputs have got other shapes since it was resolved counts as what it was, with those. */
static braid_status take_given(const braid_graph *given, const braid_read_set *read, braid_arena *arena,
                               braid_snapshot *out) {
  braid_plan_row *row = out->plan.items;
  const braid_graph *source = braid_graph_source(given);
  row->precision = given->precision;
  BRAID_TRY(list_of_ids(arena, source->inputs, source->input_count, &row->given_inputs));
  BRAID_TRY(list_of_ids(arena, source->outputs, source->output_count, &row->given_outputs));
  BRAID_TRY(take_graph(source, read, arena, &out->given_values, &out->given_nodes, &out->given_attributes));
  for (size_t i = 0; source != given && i < given->input_count; i++) {
    const braid_value *input = &given->values[given->inputs[i]];
    braid_value_id id = braid_graph_find_value(source, input->name);
    if (id >= 0) BRAID_TRY(take_value(input, false, arena, (braid_value_row *)out->given_values.items + id));
  }
  return BRAID_OK;
}

braid_status braid_snapshot_find_read(const braid_snapshot *snapshot, braid_arena *arena, braid_read_set *out) {
  const braid_rows *rows = &snapshot->given_values;
  *out = (braid_read_set){braid_arena_alloc(arena, rows->count + 1), rows->count};
  if (!out->items) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < rows->count; i++) out->items[i] = ((const braid_value_row *)rows->items)[i].contents.count > 0;
  return BRAID_OK;
}

braid_status braid_snapshot_take_premises(const braid_machine *machine, const braid_graph *given,
                                          const braid_read_set *read, braid_arena *arena, braid_snapshot *out) {
  *out = (braid_snapshot){0};
  BRAID_TRY(rows_make(arena, 1, sizeof(braid_plan_row), &out->plan));
  braid_plan_row *row = out->plan.items;
  row->library = BRAID_VERSION;
  row->processor = take_processor(arena);
  if (!row->processor) return BRAID_NO_MEMORY;
  if (given) BRAID_TRY(take_given(given, read, arena, out));
  return take_machine(machine, arena, &out->devices);
}

braid_status braid_snapshot_take(const braid_plan *plan, const braid_graph *given, braid_arena *arena,
                                 braid_snapshot *out) {
  const braid_graph *graph = plan->graph;
  size_t spaces = (size_t)plan->space_count;
  BRAID_TRY(braid_snapshot_take_premises(plan->machine, given, &plan->read, arena, out));
  braid_plan_row *row = out->plan.items;
  row->training = plan->training;
  row->no_fusion = plan->no_fusion;
  row->no_reuse = plan->no_reuse;
  row->device_io = plan->device_io;
  row->callers_thread = plan->here;
  BRAID_TRY(list_of_ids(arena, graph->inputs, graph->input_count, &row->inputs));
  BRAID_TRY(list_of_ids(arena, graph->outputs, graph->output_count, &row->outputs));
  BRAID_TRY(list_of_ids(arena, plan->order, graph->node_count, &row->order));
  int64_t *homes;
  BRAID_TRY(list_make(arena, graph->value_count, &homes, &row->homes));
  for (size_t i = 0; i < graph->value_count; i++) homes[i] = (int64_t)plan->layouts[i];
  BRAID_TRY(list_of_sizes(arena, plan->arena_bytes, spaces, &row->arena_bytes));
  BRAID_TRY(list_of_sizes(arena, plan->persistent_bytes, spaces, &row->weight_bytes));
  BRAID_TRY(take_graph(graph, NULL, arena, &out->values, &out->nodes, &out->attributes));
  BRAID_TRY(take_places(plan, arena, &out->places));
  BRAID_TRY(take_steps(plan, &plan->setup, arena, &out->setup));
  BRAID_TRY(take_steps(plan, &plan->steps, arena, &out->steps));
  return take_storages(plan, arena, &out->storages);
}

/* --- which graph ---------------------------------------------------------------------------------------------------
 */
static braid_status digest_given(const braid_graph *given, const braid_read_set *read, braid_arena *arena,
                                 braid_digest *out) {
  braid_snapshot snapshot = {0};
  braid_text text;
  BRAID_TRY(rows_make(arena, 1, sizeof(braid_plan_row), &snapshot.plan));
  *(braid_plan_row *)snapshot.plan.items = (braid_plan_row){.library = "", .processor = ""};
  BRAID_TRY(take_given(given, read, arena, &snapshot));
  braid_text_init(&text, given->allocator);
  braid_status status = braid_snapshot_encode(&snapshot, &text);
  if (status == BRAID_OK && text.failed) status = BRAID_NO_MEMORY;
  if (status == BRAID_OK) *out = braid_digest_of(text.data, text.length);
  braid_text_deinit(&text);
  return status;
}

braid_status braid_snapshot_digest(const braid_graph *given, const braid_read_set *read, braid_digest *out) {
  braid_arena *arena;
  BRAID_TRY(braid_arena_create(given->allocator, &arena));
  braid_status status = digest_given(given, read, arena, out);
  braid_arena_destroy(arena);
  return status;
}

braid_status braid_snapshot_check_given(const braid_plan *plan, const braid_graph *given) {
  braid_digest digest;
  BRAID_TRY(braid_snapshot_digest(given, &plan->read, &digest));
  if (digest.words[0] == plan->given.words[0] && digest.words[1] == plan->given.words[1]) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "the plan was made of another graph than %.120s, or that was changed since: nodes, shapes, "
                    "attributes or constants that it depends on differ",
                    given->name[0] ? given->name : "the given one");
}
