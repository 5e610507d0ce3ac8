/* Conformance: a kernel prepared for a node. What a kernel may not rely on (results before they are written, the
 * workspace, constants after prepare) is spoilt, differently at each place. */
#include <string.h>

#include "device/conformance_trial.h"
#include "tensor/layout.h"

void braid_suite_spoil(uint8_t *bytes, size_t count, braid_spoil with) {
  enum { kPeriod = 2048 };
  size_t done = count < kPeriod ? count : kPeriod;
  for (size_t i = 0; i < done; i++) {
    uint8_t upper = with == BRAID_SPOIL_NAN ? 0xff : (uint8_t)(0x7b | (i / 8 % 2 ? 0x80 : 0));
    bytes[i] = i % 4 ? upper : (uint8_t)(i / 4 * 151 >> 1);
  }
  for (size_t more; done < count; done += more) {
    more = count - done < done ? count - done : done;
    memcpy(bytes + done, bytes, more);
  }
}

bool braid_trial_may_share(const braid_trial *trial, size_t output, size_t input) {
  const braid_operand *in = &trial->operands[input], *out = &trial->operands[trial->node.input_count + output];
  return in->present && out->present && !in->constant && braid_layout_same_places(&in->desc, &out->desc);
}

static bool choose_layouts(braid_suite *suite, braid_trial_run *run, char *detail) {
  const braid_backend *backend = suite->backend;
  size_t inputs = run->node.input_count, count = inputs + run->node.output_count;
  braid_layout layouts[kTrialOperands];
  if (!run->kernel->layouts && !backend->layouts) return true;
  for (size_t i = 0; i < count; i++) {
    bool image = i < inputs && run->operands[i].present && !run->operands[i].constant && run->operands[i].desc.rank > 2;
    layouts[i] = image ? run->way.delivered : run->operands[i].desc.layout;
    run->operands[i].desc.layout = layouts[i];
  }
  if (run->kernel->layouts) run->kernel->layouts(&run->node, layouts, layouts + inputs);
  if (backend->layouts) backend->layouts(suite->self, run->kernel, &run->node, layouts, layouts + inputs);
  for (size_t i = 0; i < count; i++) {
    if (!run->operands[i].present) continue;
    SUITE_CHECK(braid_desc_set_layout(&run->operands[i].desc, layouts[i]) == BRAID_OK, "asks for a layout: %s",
                braid_error_detail());
  }
  return true;
}

/* Nobody puts a result over an input that lies in another layout. */
static void keep_apart(braid_trial_run *run) {
  for (size_t i = 0; i < run->node.output_count && i < 4; i++) {
    int over = run->way.over[i];
    if (over >= 0 && !braid_layout_same_places(&run->node.inputs[over].desc, &run->node.outputs[i].desc))
      run->way.over[i] = -1;
  }
}

static bool copy_constants(braid_trial_run *run, char *detail) {
  for (size_t i = 0; i < run->node.input_count; i++) {
    braid_operand *operand = &run->operands[i];
    if (run->way.constants && i > 0 && operand->present) operand->constant = run->trial;
    if (!operand->constant) continue;
    const braid_tensor *tensor = run->trial->data[0][i];
    size_t bytes = braid_desc_bytes(braid_tensor_desc(tensor));
    run->constants[i] = braid_alloc(NULL, bytes + 1);
    SUITE_CHECK(run->constants[i], "no memory for constants");
    memcpy(run->constants[i], braid_tensor_const_data(tensor), bytes);
    operand->constant = run->constants[i];
  }
  return true;
}

/* The nodes of a region see its constants until it is prepared. */
static void set_inner_constants(braid_trial_run *run) {
  const braid_subgraph *region = run->node.region;
  for (size_t n = 0; region && n < region->node_count; n++)
    for (size_t i = 0; i < region->nodes[n].desc->input_count; i++) {
      braid_operand *operand = (braid_operand *)(uintptr_t)&region->nodes[n].desc->inputs[i]; /* the trial's own */
      for (size_t k = 0; k < region->input_count; k++)
        if (region->inputs[k] == region->nodes[n].inputs[i]) operand->constant = run->operands[k].constant;
    }
}

/* After prepare only what is bound may be read. */
static void spoil_constants(braid_trial_run *run) {
  for (size_t i = 0; i < run->node.input_count; i++) {
    if (!run->constants[i]) continue;
    braid_suite_spoil(run->constants[i], braid_desc_bytes(braid_tensor_desc(run->trial->data[0][i])), BRAID_SPOIL_NAN);
    run->operands[i].constant = NULL;
  }
  set_inner_constants(run);
}

static braid_status ask_device(const braid_suite *suite, const braid_trial_run *run, braid_trial_needs *out) {
  const braid_backend *backend = suite->backend;
  *out = (braid_trial_needs){0};
  if (run->node.region)
    return backend->query_region(suite->self, run->kernel, &run->node, &out->workspace_bytes, out->packings,
                                 &out->packing_count);
  braid_query query = {0};
  braid_status status = backend->query(suite->self, run->kernel, &run->node, &query);
  out->workspace_bytes = query.workspace_bytes;
  out->packing_count = query.packing_count;
  for (uint32_t i = 0; i < query.packing_count && i < BRAID_PACKINGS; i++) out->packings[i] = query.packings[i];
  return status;
}

/* What a query says must hold without a look at what will be packed, and be what prepare says. */
static bool device_ask(braid_suite *suite, braid_trial_run *run, char *detail) {
  const braid_backend *backend = suite->backend;
  size_t most = run->node.region ? run->node.input_count : BRAID_PACKINGS;
  braid_trial_needs again;
  run->asked = run->node.region || backend->query;
  if (!run->asked) return true;
  SUITE_CHECK(ask_device(suite, run, &run->needs) == BRAID_OK, "query refuses what match accepts: %s",
              braid_error_detail());
  SUITE_CHECK(run->needs.packing_count <= most, "query lists %zu packings", run->needs.packing_count);
  SUITE_CHECK(!run->needs.packing_count || backend->pack, "query lists packings, and there is no pack");
  for (size_t i = 0; i < run->needs.packing_count; i++) {
    uint32_t input = run->needs.packings[i].input;
    SUITE_CHECK(input < run->node.input_count && run->constants[input], "query packs input %u, which is no constant",
                input);
    braid_suite_spoil(run->constants[input], braid_desc_bytes(&run->operands[input].desc), BRAID_SPOIL_NAN);
  }
  run->node.packed = run->needs.packing_count > 0;
  SUITE_CHECK(ask_device(suite, run, &again) == BRAID_OK, "query: %s", braid_error_detail());
  bool same = again.workspace_bytes == run->needs.workspace_bytes && again.packing_count == run->needs.packing_count;
  for (size_t i = 0; same && i < again.packing_count; i++) {
    const braid_packing *one = &run->needs.packings[i], *other = &again.packings[i];
    same = one->input == other->input && one->bytes == other->bytes && one->key == other->key;
  }
  SUITE_CHECK(same, "a second query says something else");
  return true;
}

static bool pack_constants(braid_suite *suite, braid_trial_run *run, char *detail) {
  for (size_t i = 0; i < run->needs.packing_count; i++) {
    const braid_packing *packing = &run->needs.packings[i];
    const void *plain = braid_tensor_const_data(run->trial->data[0][packing->input]);
    run->packed[i] = braid_alloc(NULL, packing->bytes);
    SUITE_CHECK(run->packed[i], "no memory for %zu bytes", packing->bytes);
    braid_suite_spoil(run->packed[i], packing->bytes, BRAID_SPOIL_NAN);
    braid_status status = suite->backend->pack(suite->self, run->prepared, packing->input, plain, run->packed[i]);
    SUITE_CHECK(status == BRAID_OK, "pack: %s", braid_error_detail());
  }
  return true;
}

static bool check_prepared(const braid_trial_run *run, char *detail) {
  SUITE_CHECK(!run->asked || run->needs.workspace_bytes == run->info.workspace_bytes,
              "query says %zu bytes of workspace, prepare %zu", run->needs.workspace_bytes, run->info.workspace_bytes);
  SUITE_CHECK(!run->node.packed || !run->info.constants_folded, "folds a constant that is to be bound packed");
  SUITE_CHECK(!run->node.region || !run->info.constants_folded, "a region folds no constants");
  for (size_t i = 0; i < 32; i++) {
    if (!(run->info.constants_folded >> i & 1)) continue;
    SUITE_CHECK(i < run->node.input_count && run->constants[i], "says that it folded input %zu, which is no constant",
                i);
  }
  return true;
}

bool braid_trial_prepare(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel,
                         const braid_trial_way *way, braid_trial_run **out, char *detail) {
  braid_trial_run *run = *out = braid_zalloc(NULL, sizeof *run);
  SUITE_CHECK(run, "no memory for the case");
  *run = (braid_trial_run){.trial = trial, .kernel = kernel, .way = *way, .node = trial->node};
  memcpy(run->operands, trial->operands, sizeof run->operands);
  run->node.inputs = run->operands;
  run->node.outputs = run->operands + run->node.input_count;
  if (!copy_constants(run, detail) || !choose_layouts(suite, run, detail)) return false;
  set_inner_constants(run);
  keep_apart(run);
  if (!device_ask(suite, run, detail)) return false;
  braid_status status = suite->backend->prepare(suite->self, kernel, &run->node, &run->prepared, &run->info);
  if (status != BRAID_OK) run->prepared = NULL;
  SUITE_CHECK(status == BRAID_OK, "prepare refuses what match accepts: %s: %s", braid_status_text(status),
              braid_error_detail());
  if (!pack_constants(suite, run, detail)) return false;
  spoil_constants(run);
  return check_prepared(run, detail);
}

void braid_trial_discard(braid_suite *suite, braid_trial_run *run) {
  if (!run || suite->stopped) return;
  if (run->prepared) suite->backend->discard(suite->self, run->prepared);
  for (size_t i = 0; i < kTrialOperands; i++) {
    braid_free(NULL, run->constants[i]);
    braid_free(NULL, run->packed[i]);
  }
  braid_free(NULL, run);
}
