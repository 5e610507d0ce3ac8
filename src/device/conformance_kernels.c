/* Conformance: every kernel of the device, on every node of the samples that it takes: in all types and sizes, with
 * constants folded or bound, in every layout that it asks for, with results over each input where it says it may, again
 * with other data at other places, and beside a call of the same kernel that was prepared for another node. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "device/conformance_trial.h"

enum { kHeld = 64 };

typedef struct tally {
  size_t offered, taken;
  uint32_t dtypes;                  /* bits of those taken */
  bool together, replayed, refused; /* tried */
  bool wanted, failed;
  char detail[kSuiteDetail];
} tally;

/* A graph, and for each kernel that took a node of it the first call prepared. */
typedef struct sheet {
  braid_sample_graph sample;
  braid_trial *trials[kHeld];
  size_t trial_count;
  struct held {
    const braid_kernel *kernel;
    braid_trial_run *run;
  } held[kHeld];
  size_t held_count;
} sheet;

typedef struct judge {
  braid_suite *suite;
  const braid_kernel *const *kernels;
  size_t count;
  tally *tallies;
  sheet *now, *before;
} judge;

static void sheet_free(braid_suite *suite, sheet *s) {
  if (!s || suite->stopped) return;
  for (size_t i = 0; i < s->held_count; i++) braid_trial_discard(suite, s->held[i].run);
  for (size_t i = 0; i < s->trial_count; i++) braid_free(NULL, s->trials[i]);
  braid_sample_free(&s->sample);
  braid_free(NULL, s);
}

/* --- a node as a trial ---------------------------------------------------------------------------------------------
 */
static void describe_operand(braid_trial *trial, size_t operand, const braid_sample_graph *sample, braid_value_id id) {
  trial->same[operand] = operand;
  trial->bounds[operand] = -1;
  if (id < 0) return;
  for (size_t i = 0; i < sample->leaf_count; i++)
    if (sample->leaves[i].value == id) trial->bounds[operand] = sample->leaves[i].bound;
  const braid_value *value = &sample->graph->values[id];
  const void *constant = value->kind == BRAID_VALUE_CONSTANT ? braid_tensor_const_data(value->tensor) : NULL;
  trial->operands[operand] = (braid_operand){true, value->desc, constant};
  for (uint32_t data = 0; data < BRAID_SAMPLE_DATA; data++) trial->data[data][operand] = sample->data[data][id];
}

static bool is_one_of(const char *name, const char *const *names) {
  while (*names && strcmp(name, *names) != 0) names++;
  return *names;
}

/* Quantizing rounds numbers that two right computations may see on either side of a half, unless all are exact. What
 * ops over bytes compute is said to the bit (docs/quantization.md), but for activations that are no bounds. */
static bool is_rounded(const braid_sample_graph *sample, const braid_node *node) {
  static const char *const kOps[] = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", NULL};
  static const char *const kBounds[] = {"", "Relu", "Clip", NULL};
  for (size_t i = 0; i < sample->leaf_count; i++)
    if (sample->leaves[i].range == '/') return false;
  bool activates = !is_one_of(braid_attr_string(&node->attrs, "activation", ""), kBounds);
  return is_one_of(node->op->name, kOps) || (strcmp(node->op->name, "QLinearActivation") == 0 && activates);
}

static void describe_text(braid_trial *trial, const braid_sample_graph *sample) {
  static const char *const kSizes[BRAID_SAMPLE_SIZES] = {"tiny", "middle", "large", "empty", "special", "shape"};
  size_t count, used = 0;
  const braid_sample *table = braid_samples(&count);
  char desc[96];
  for (size_t i = 0; i < trial->node.input_count && used < sizeof trial->text; i++)
    used += (size_t)snprintf(trial->text + used, sizeof trial->text - used, "%s%s", i ? ", " : "(",
                             trial->operands[i].present ? braid_desc_format(&trial->operands[i].desc, desc, sizeof desc)
                                                        : "-");
  const char *attrs = table[sample->draw.sample].attrs;
  if (used < sizeof trial->text)
    snprintf(trial->text + used, sizeof trial->text - used, ")%s%s, sample %u %s %u, seed %llu", *attrs ? " " : "",
             attrs, (unsigned)sample->draw.sample, kSizes[sample->draw.size], (unsigned)sample->draw.shape,
             (unsigned long long)sample->draw.seed);
}

/* Into the part of a small device's memory that the suite allows itself: what does not is no fault of its kernels. */
static bool fits(const braid_suite *suite, const braid_trial *trial) {
  size_t bytes = 0;
  for (size_t i = 0; i < trial->node.input_count + trial->node.output_count; i++)
    if (trial->operands[i].present) bytes += braid_desc_bytes(&trial->operands[i].desc);
  return braid_suite_at_most(suite, bytes) == bytes;
}

/* NULL: no memory, or the node has too many operands. */
static braid_trial *trial_describe(const braid_sample_graph *sample, const braid_node *node) {
  size_t inputs = node->input_count, count = inputs + node->output_count;
  braid_trial *trial = count <= kTrialOperands ? braid_zalloc(NULL, sizeof *trial) : NULL;
  if (!trial) return NULL;
  for (size_t i = 0; i < count; i++)
    describe_operand(trial, i, sample, i < inputs ? node->inputs[i] : node->outputs[i - inputs]);
  for (size_t i = 0; i < inputs; i++)
    for (size_t j = i; j-- > 0;)
      if (node->inputs[i] >= 0 && node->inputs[j] == node->inputs[i]) trial->same[i] = j;
  trial->node = (braid_node_desc){.op = node->op->name,
                                  .name = "conformance",
                                  .attrs = &node->attrs,
                                  .input_count = inputs,
                                  .output_count = node->output_count,
                                  .inputs = trial->operands,
                                  .outputs = trial->operands + inputs,
                                  .training = sample->draw.gradient};
  trial->elementwise = node->op->flags & BRAID_OP_ELEMENTWISE;
  trial->rounded = is_rounded(sample, node);
  describe_text(trial, sample);
  return trial;
}

/* --- one kernel, one node ------------------------------------------------------------------------------------------
 */
static braid_trial_run *find_held(const sheet *s, const braid_kernel *kernel) {
  for (size_t i = 0; s && i < s->held_count; i++)
    if (s->held[i].kernel == kernel) return s->held[i].run;
  return NULL;
}

static bool try_plainly(judge *j, const braid_trial *trial, const braid_kernel *kernel, bool first, char *detail) {
  braid_trial_run *run, *earlier = find_held(j->before, kernel);
  bool passed = braid_trial_prepare(j->suite, trial, kernel, &braid_trial_plainly, &run, detail);
  if (passed) passed = braid_trial_execute(j->suite, run, 0, detail);
  if (passed && earlier) passed = braid_trial_beside(j->suite, run, earlier, detail);
  if (passed && !earlier) passed = braid_trial_execute(j->suite, run, 1, detail);
  if (passed && first && j->suite->backend->shares_prepared) passed = braid_trial_share(j->suite, run, detail);
  if (passed && first)
    passed = braid_trial_await(j->suite, run, detail) && braid_trial_overrun(j->suite, run, detail) &&
             braid_trial_repeat(j->suite, run, detail) && braid_way_discarded(j->suite, trial, kernel, detail);
  if (passed && j->now->held_count < kHeld && !find_held(j->now, kernel))
    j->now->held[j->now->held_count++] = (struct held){kernel, run};
  else
    braid_trial_discard(j->suite, run);
  return passed;
}

static bool try_kernel(judge *j, const braid_trial *trial, const braid_kernel *kernel, tally *t, char *detail) {
  braid_suite *suite = j->suite;
  braid_sample_size size = j->now->sample.draw.size;
  if (!try_plainly(j, trial, kernel, t->taken == 1, detail)) return false;
  if (size == BRAID_SAMPLE_LARGE && !t->together) {
    t->together = true;
    if (!braid_way_together(suite, trial, kernel, detail)) return false;
  }
  if (size != BRAID_SAMPLE_MIDDLE) return true;
  if (!t->replayed && suite->backend->record) {
    t->replayed = true;
    if (!braid_way_replay(suite, trial, kernel, detail)) return false;
  }
  if (!t->refused && braid_way_indices_of(trial) >= 0) {
    t->refused = true;
    if (!braid_way_indices(suite, trial, kernel, detail)) return false;
  }
  return braid_way_in_place(suite, trial, kernel, detail) && braid_way_layouts(suite, trial, kernel, detail) &&
         braid_way_constants(suite, trial, kernel, detail);
}

/* --- all kernels, one graph ----------------------------------------------------------------------------------------
 */
static void case_name(const braid_kernel *kernel, char *name, size_t bytes) {
  snprintf(name, bytes, "%s by %s", kernel->op, kernel->name);
}

static void judge_kernel(judge *j, const braid_trial *trial, size_t index) {
  const braid_kernel *kernel = j->kernels[index];
  tally *t = &j->tallies[index];
  char why[kSuiteDetail] = "";
  if (!t->wanted || t->failed || braid_suite_over(j->suite)) return;
  t->offered++;
  if (!braid_kernel_takes(j->suite->backend, j->suite->self, kernel, &trial->node, why, sizeof why)) return;
  t->taken++;
  t->dtypes |= 1u << (trial->operands[0].present ? trial->operands[0].desc.dtype : BRAID_NONE);
  if (try_kernel(j, trial, kernel, t, why)) return;
  t->failed = true;
  snprintf(t->detail, sizeof t->detail, "%.400s: %s", trial->text, why);
}

static void judge_trial(judge *j, braid_trial *trial) {
  if (!trial || j->now->trial_count == kHeld || !fits(j->suite, trial)) {
    braid_free(NULL, trial);
    return;
  }
  j->now->trials[j->now->trial_count++] = trial;
  for (size_t i = 0; i < j->count && !j->suite->stopped; i++)
    if (strcmp(j->kernels[i]->op, trial->node.op) == 0) judge_kernel(j, trial, i);
}

/* One that is to be looked at. */
static bool has_kernel(const judge *j, const char *op) {
  for (size_t i = 0; i < j->count; i++) {
    const tally *t = &j->tallies[i];
    if (t->wanted && !t->failed && strcmp(j->kernels[i]->op, op) == 0) return true;
  }
  return false;
}

/* The sample's own node, and those of its gradient that no sample shows otherwise. */
static bool is_judged(const judge *j, const braid_sample_graph *sample, const braid_node *node) {
  size_t count;
  const char *own = braid_samples(&count)[sample->draw.sample].op, *op = node->op->name;
  return (strcmp(op, own) == 0 || !braid_samples_have(op)) && has_kernel(j, op);
}

static bool has_judged(const judge *j, const braid_sample_graph *sample) {
  for (size_t i = 0; i < sample->graph->node_count; i++)
    if (is_judged(j, sample, &sample->graph->nodes[i])) return true;
  return false;
}

/* Does nothing where there is no such graph: the op does not take the type, or has no gradient. False: the type that is
 * drawn makes no difference to this sample. */
static bool judge_graph(judge *j, const braid_draw *draw) {
  sheet *s = braid_zalloc(NULL, sizeof *s);
  if (!s || braid_sample_make(draw, &s->sample) != BRAID_OK) {
    braid_free(NULL, s);
    return true;
  }
  bool typed = s->sample.typed;
  if (!has_judged(j, &s->sample) || braid_sample_compute(&s->sample, j->suite->evaluator) != BRAID_OK) {
    sheet_free(j->suite, s);
    return typed;
  }
  j->now = s;
  const braid_graph *graph = s->sample.graph;
  for (size_t i = 0; i < graph->node_count && !j->suite->stopped; i++)
    if (is_judged(j, &s->sample, &graph->nodes[i])) judge_trial(j, trial_describe(&s->sample, &graph->nodes[i]));
  sheet_free(j->suite, j->before);
  j->before = s;
  return typed;
}

/* --- all graphs ----------------------------------------------------------------------------------------------------
 * Devices compile a program for each type and form, and some for each size, so the number of graphs has a bound: an
 * op's first sample in every size, the others in middle size and, as the seed draws, in some of the rest; float32, and
 * of the other types, as the seed draws, a few for each sample. */
enum { kLeadingTypes = 4, kTypes = 12, kSizes = 4 }; /* one out of so many */

static bool is_drawn(const braid_draw *draw, uint32_t out_of) {
  uint32_t which = (uint32_t)draw->dtype << 8 | (uint32_t)draw->size;
  return braid_random_below(draw->seed, draw->sample, which, 0, out_of) == 0;
}

static bool is_worthwhile(const judge *j, const braid_draw *draw) {
  size_t count;
  const braid_sample *all = braid_samples(&count), *sample = &all[draw->sample];
  const braid_op *op = braid_op_find(sample->op);
  bool leading = draw->sample == 0 || strcmp(sample->op, all[draw->sample - 1].op) != 0;
  bool middle = draw->size == BRAID_SAMPLE_MIDDLE, large = draw->size == BRAID_SAMPLE_LARGE;
  bool single = draw->dtype == BRAID_F32, other = draw->dtype == BRAID_BOOL || draw->dtype == BRAID_I32;
  if (!op) return false;
  if (draw->gradient)
    return op->gradient && !sample->forward &&
           (single ? middle || (large && leading) : middle && draw->dtype == BRAID_F64);
  if (!has_kernel(j, op->name)) return false;
  if (draw->size == BRAID_SAMPLE_SPECIAL && !(op->flags & BRAID_OP_ELEMENTWISE)) return false;
  if (single) return middle || leading || is_drawn(draw, kSizes);
  return (middle && is_drawn(draw, leading ? kLeadingTypes : kTypes)) ||
         (large && leading && other); /* ops that take no float32 */
}

/* Are there kernels for nodes that only gradients have? */
static bool wants_gradients(const judge *j) {
  for (size_t i = 0; i < j->count; i++)
    if (!braid_samples_have(j->kernels[i]->op) && has_kernel(j, j->kernels[i]->op)) return true;
  return false;
}

static void judge_sizes(judge *j, uint32_t sample, bool gradients) {
  bool typed = true;
  for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT && typed; dtype++)
    for (int size = 0; size < BRAID_SAMPLE_SHAPE; size++)
      for (int gradient = 0; gradient <= (gradients ? 1 : 0) && !braid_suite_over(j->suite); gradient++) {
        braid_draw draw = {
            .seed = j->suite->seed, .sample = sample, .dtype = (braid_dtype)dtype, .size = (braid_sample_size)size};
        draw.gradient = gradient != 0;
        if (is_worthwhile(j, &draw) && !judge_graph(j, &draw)) typed = false;
      }
}

/* The type that shapes are judged in: the first that the op takes. */
static braid_dtype type_of_shapes(const judge *j, uint32_t sample) {
  for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT; dtype++) {
    braid_sample_graph graph;
    braid_draw draw = {
        .seed = j->suite->seed, .sample = sample, .dtype = (braid_dtype)dtype, .size = BRAID_SAMPLE_MIDDLE};
    if (braid_sample_make(&draw, &graph) != BRAID_OK) continue;
    braid_sample_free(&graph);
    return (braid_dtype)dtype;
  }
  return BRAID_NONE;
}

static void judge_shapes(judge *j, uint32_t sample) {
  size_t count;
  const braid_sample *which = &braid_samples(&count)[sample];
  uint32_t shapes = has_kernel(j, which->op) ? braid_sample_shapes(which) : 0;
  braid_dtype dtype = shapes ? type_of_shapes(j, sample) : BRAID_NONE;
  for (uint32_t i = 0; dtype != BRAID_NONE && i < shapes && !braid_suite_over(j->suite); i++)
    (void)judge_graph(
        j, &(braid_draw){
               .seed = j->suite->seed, .sample = sample, .dtype = dtype, .size = BRAID_SAMPLE_SHAPE, .shape = i});
}

static void judge_sample(judge *j, uint32_t sample, bool gradients) {
  size_t count;
  if (!braid_sample_broadcasts(&braid_samples(&count)[sample])) judge_sizes(j, sample, gradients);
  judge_shapes(j, sample);
}

/* --- conversions of layouts, which no graph has --------------------------------------------------------------------
 */
static void judge_conversion(judge *j, const braid_desc *from, const braid_desc *to) {
  static const struct braid_attrs kNone;
  braid_trial *trial = braid_zalloc(NULL, sizeof *trial);
  sheet *s = braid_zalloc(NULL, sizeof *s);
  bool made = trial && s;
  j->now = s;
  for (uint32_t data = 0; made && data < BRAID_SAMPLE_DATA; data++) {
    braid_desc desc = *from;
    desc.layout = BRAID_LAYOUT_PLAIN;
    braid_tensor *tensor = NULL;
    made = braid_tensor_create(NULL, &desc, &tensor) == BRAID_OK;
    if (!made) break;
    for (int64_t i = 0; i < braid_desc_count(&desc); i++)
      braid_tensor_set_f64(tensor, i, (double)((i * 37 + data) % 100));
    trial->data[data][0] = trial->data[data][1] = tensor;
    trial->operands[0] = trial->operands[1] = (braid_operand){true, desc, NULL};
  }
  if (made) {
    trial->same[1] = 1;
    trial->operands[0].desc.layout = from->layout;
    trial->operands[1].desc.layout = to->layout;
    trial->node = (braid_node_desc){.op = "LayoutConvert",
                                    .name = "conformance",
                                    .attrs = &kNone,
                                    .input_count = 1,
                                    .output_count = 1,
                                    .inputs = trial->operands,
                                    .outputs = trial->operands + 1};
    char desc[96], layouts[2][BRAID_LAYOUT_TEXT];
    snprintf(trial->text, sizeof trial->text, "(%s) from %s to %s", braid_desc_format(from, desc, sizeof desc),
             braid_layout_format(from->layout, from->rank, layouts[0], sizeof layouts[0]),
             braid_layout_format(to->layout, to->rank, layouts[1], sizeof layouts[1]));
    for (size_t i = 0; i < j->count && !j->suite->stopped; i++)
      if (strcmp(j->kernels[i]->op, "LayoutConvert") == 0) judge_kernel(j, trial, i);
  }
  for (uint32_t data = 0; trial && !j->suite->stopped && data < BRAID_SAMPLE_DATA; data++)
    braid_tensor_release((braid_tensor *)trial->data[data][0]);
  sheet_free(j->suite, s);
  if (!j->suite->stopped) braid_free(NULL, trial);
}

static void judge_pair_of(judge *j, braid_dtype dtype, int rank, const int64_t *dims, braid_layout from,
                          braid_layout to) {
  braid_desc descs[2];
  if (braid_suite_over(j->suite) || braid_desc_init(&descs[0], dtype, rank, dims) != BRAID_OK) return;
  descs[1] = descs[0];
  if (braid_desc_set_layout(&descs[0], from) == BRAID_OK && braid_desc_set_layout(&descs[1], to) == BRAID_OK)
    judge_conversion(j, &descs[0], &descs[1]);
}

static void judge_pair(judge *j, braid_dtype dtype, int rank, braid_layout from, braid_layout to) {
  judge_pair_of(j, dtype, rank, (const int64_t[]){3, 20, 5, 7, 2}, from, to);
}

/* Images of samples in blocks, of any number of places and of sixteens. */
static void judge_samples(judge *j, braid_dtype dtype) {
  static const int64_t kDims[][4] = {{3, 20, 5, 7}, {3, 20, 4, 8}, {19, 32, 4, 4}};
  braid_layout samples;
  if (braid_layout_parse("Bcda16b", &samples) != BRAID_OK) return;
  for (size_t i = 0; i < sizeof kDims / sizeof *kDims; i++) {
    judge_pair_of(j, dtype, 4, kDims[i], BRAID_LAYOUT_PLAIN, samples);
    judge_pair_of(j, dtype, 4, kDims[i], samples, BRAID_LAYOUT_PLAIN);
  }
}

/* Layouts that weights have, of every rank: from plain, to the next of the list, and to plain. */
static void judge_other_layouts(judge *j, braid_dtype dtype) {
  static const char *const kOthers[] = {"ba",     "AB16b16a", "bca",        "ABc8b8a", "Acdb16a",   "ABcd16b16a",
                                        "aBcd4b", "dcba",     "ABcd16a16b", "Abcd16a", "ABcde8b8a", "Abcde16a"};
  enum { kOtherCount = sizeof kOthers / sizeof *kOthers };
  for (size_t i = 0; i < kOtherCount; i++) {
    braid_layout layout, following;
    int rank = 0;
    while (isalpha((unsigned char)kOthers[i][rank])) rank++;
    if (braid_layout_parse(kOthers[i], &layout) != BRAID_OK ||
        braid_layout_parse(kOthers[(i + 1) % kOtherCount], &following) != BRAID_OK)
      continue;
    judge_pair(j, dtype, rank, BRAID_LAYOUT_PLAIN, layout);
    judge_pair(j, dtype, rank, layout, following);
    judge_pair(j, dtype, rank, layout, BRAID_LAYOUT_PLAIN);
  }
}

static void judge_conversions(judge *j) {
  if (!has_kernel(j, "LayoutConvert")) return;
  bool narrow = false; /* all of them are bytes: one stands for the others */
  for (int dtype = BRAID_NONE + 1; dtype < BRAID_DTYPE_COUNT && !narrow; dtype++) {
    narrow = braid_dtype_is_narrow((braid_dtype)dtype);
    for (size_t from = 0; from < BRAID_IMAGE_LAYOUTS; from++)
      for (size_t to = 0; to < BRAID_IMAGE_LAYOUTS; to++)
        judge_pair(j, (braid_dtype)dtype, 4, braid_image_layouts[from], braid_image_layouts[to]);
    judge_samples(j, (braid_dtype)dtype);
    judge_other_layouts(j, (braid_dtype)dtype);
  }
}

/* --- what came of it -----------------------------------------------------------------------------------------------
 */
static void list_dtypes(uint32_t dtypes, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = BRAID_NONE + 1; i < BRAID_DTYPE_COUNT && used < bytes; i++)
    if (dtypes >> i & 1)
      used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", braid_dtype_name((braid_dtype)i));
}

static void tell_kernel(judge *j, size_t index) {
  const tally *t = &j->tallies[index];
  char name[128], dtypes[320], text[384];
  if (!t->wanted) return;
  case_name(j->kernels[index], name, sizeof name);
  list_dtypes(t->dtypes, dtypes, sizeof dtypes);
  if (t->taken)
    snprintf(text, sizeof text, "%zu of %zu nodes (%s)", t->taken, t->offered, dtypes);
  else
    snprintf(text, sizeof text, t->offered ? "takes none of %zu nodes" : "no sample has a node for it", t->offered);
  braid_suite_tell(j->suite, name,
                   t->failed  ? BRAID_SUITE_FAILED
                   : t->taken ? BRAID_SUITE_PASSED
                              : BRAID_SUITE_NOT_CLAIMED,
                   t->failed ? t->detail : text);
}

/* Ops without a kernel. */
static void tell_rest(judge *j) {
  for (size_t i = 0; i < braid_op_count(); i++) {
    const char *op = braid_op_at(i)->name;
    bool there = false;
    for (size_t k = 0; k < j->count && !there; k++) there = strcmp(j->kernels[k]->op, op) == 0;
    if (!there && braid_suite_wants(j->suite, op)) braid_suite_tell(j->suite, op, BRAID_SUITE_NOT_CLAIMED, "no kernel");
  }
}

void braid_suite_kernels(braid_suite *suite) {
  if (suite->stopped) return;
  judge j = {.suite = suite};
  size_t samples;
  braid_samples(&samples);
  j.kernels = suite->backend->kernels(suite->self, &j.count);
  j.tallies = braid_zalloc_array(NULL, j.count + 1, sizeof *j.tallies);
  if (!j.tallies) {
    braid_suite_tell(suite, "kernels", BRAID_SUITE_FAILED, "no memory for the cases");
    return;
  }
  bool some = false;
  for (size_t i = 0; i < j.count; i++) {
    char name[128];
    case_name(j.kernels[i], name, sizeof name);
    some |= j.tallies[i].wanted = braid_suite_names(suite, name);
  }
  bool gradients = wants_gradients(&j);
  for (uint32_t i = 0; some && i < samples && !braid_suite_over(suite); i++) judge_sample(&j, i, gradients);
  sheet_free(suite, j.before);
  j.before = NULL;
  judge_conversions(&j);
  bool cancelled = !suite->stopped && braid_suite_over(suite); /* then no kernel has passed: some were judged in part */
  for (size_t i = 0; i < j.count; i++)
    if (!cancelled || j.tallies[i].failed) tell_kernel(&j, i);
  tell_rest(&j);
  braid_free(NULL, j.tallies);
}
