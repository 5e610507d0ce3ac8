/* LayoutConvert, the runtime's own op: a tensor rewritten in another layout, so that what another device made can be
 * taken up here. The layouts of activations are braid_strides of (batch, channel block, channel within the block of 16,
 * place); any other is taken apart element by element. */
#include <stdio.h>

#include "launch/families.h"
#include "launch/integer.h"
#include "tensor/layout.h"

enum { kBlock = BRAID_LAYOUT_BLOCK, kFew = 8, kNarrow = 1 << 30, kTurners = 32 };

static bool layout_match(const braid_node_desc *node, char *why, size_t why_bytes) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  if (from->dtype == to->dtype && braid_desc_same_shape(from, to)) return true;
  snprintf(why, why_bytes, "type or shape would change");
  return false;
}

/* The dimension of the launch that counts channels, positions, the batch: neighbours write next to each other. */
static void order_of(braid_layout layout, int *c, int *s, int *b) {
  bool channels_last = layout == BRAID_LAYOUT_BHWC || layout == BRAID_LAYOUT_BLOCKED16;
  *b = layout == BRAID_LAYOUT_CHWB ? 0 : 2;
  *c = channels_last ? 0 : layout == BRAID_LAYOUT_CHWB ? 2 : 1;
  *s = channels_last || layout == BRAID_LAYOUT_CHWB ? 1 : 0;
}

static const char *layout_type(size_t bytes) {
  return bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : bytes == 4 ? "uint" : "ulong";
}

static braid_launch *add_launch(braid_launch_recipe *recipe, const char *function, uint32_t dimensions) {
  braid_launch *launch = braid_launch_recipe_add(recipe);
  if (!launch) return NULL;
  launch->source = "layout";
  launch->function = function;
  launch->dimensions = dimensions;
  for (uint32_t i = 0; i < 2; i++)
    launch->arguments[launch->argument_count++] = (braid_launch_argument){.kind = BRAID_LAUNCH_OPERAND, .index = i};
  return launch;
}

static void add_long(braid_launch *launch, int64_t number) {
  launch->arguments[launch->argument_count++] = (braid_launch_argument){.kind = BRAID_LAUNCH_LONG, .integer = number};
}

/* Do 31 bits count its elements, padding too? */
static bool is_narrow(const braid_desc *desc) {
  return braid_launch_places(desc) < kNarrow;
}

static braid_status plan_image(const braid_desc *from, const braid_desc *to, const braid_strides *in,
                               const braid_strides *out, int64_t batch, int64_t channels, int64_t positions,
                               braid_launch_recipe *recipe) {
  int64_t numbers[9] = {channels, in->b, in->block, in->c, in->s, out->b, out->block, out->c, out->s};
  bool pads = to->layout == BRAID_LAYOUT_BLOCKED16;
  bool narrow = is_narrow(from) && is_narrow(to);
  int c, s, b;
  order_of(to->layout, &c, &s, &b);
  braid_launch *launch = add_launch(recipe, "layout_convert", narrow ? 1 : 3);
  if (!launch) return BRAID_NO_MEMORY;
  snprintf(launch->options, sizeof launch->options, "-DT=%s -DC_DIM=%d -DS_DIM=%d -DB_DIM=%d%s",
           layout_type(braid_dtype_size(to->dtype)), c, s, b, narrow ? " -DNARROW" : "");
  launch->global[c] = (size_t)(pads ? (channels + kBlock - 1) / kBlock * kBlock : channels);
  launch->global[s] = (size_t)positions;
  launch->global[b] = (size_t)batch;
  for (int i = 0; i < 9; i++) add_long(launch, numbers[i]);
  for (int i = 0; i < 2; i++) add_long(launch, (int64_t)launch->global[i]);
  if (narrow) launch->global[0] *= launch->global[1] * launch->global[2];
  return BRAID_OK;
}

static braid_status plan_few(const braid_desc *to, const braid_strides *in, const braid_strides *out, int64_t batch,
                             int64_t channels, int64_t positions, braid_launch_recipe *recipe) {
  int64_t numbers[4] = {in->b, in->c, in->s, out->b};
  braid_launch *launch = add_launch(recipe, "layout_convert_few", 2);
  if (!launch) return BRAID_NO_MEMORY;
  snprintf(launch->options, sizeof launch->options, "-DT=%s -DFEW=%d", layout_type(braid_dtype_size(to->dtype)),
           (int)channels);
  launch->global[0] = (size_t)positions;
  launch->global[1] = (size_t)batch;
  for (int i = 0; i < 4; i++) add_long(launch, numbers[i]);
  return BRAID_OK;
}

/* A layout's order and blocks as options of one side, X or Y. */
static size_t add_layout(char *text, size_t bytes, char side, const braid_desc *desc) {
  braid_layout_parts parts = braid_layout_take_apart(desc->layout, desc->rank);
  int dims[BRAID_LAYOUT_BLOCKS] = {0}, sizes[BRAID_LAYOUT_BLOCKS] = {1, 1};
  for (int i = 0; i < parts.block_count; i++) dims[i] = parts.blocks[i].dim, sizes[i] = (int)parts.blocks[i].size;
  size_t used = (size_t)snprintf(text, bytes, " -D%c_ORDER=", side);
  for (int i = 0; i < desc->rank; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%d", i ? "," : "", parts.order[i]);
  return used + (size_t)snprintf(text + used, bytes - used, " -D%c_BLOCKS=%d -D%c_BLOCK_DIMS=%d,%d -D%c_SIZES=%d,%d",
                                 side, parts.block_count, side, dims[0], dims[1], side, sizes[0], sizes[1]);
}

static braid_status plan_any(const braid_desc *from, const braid_desc *to, braid_launch_recipe *recipe) {
  size_t element = braid_dtype_size(to->dtype), used;
  braid_launch *launch = add_launch(recipe, "layout_convert_any", 1);
  if (!launch) return BRAID_NO_MEMORY;
  used = (size_t)snprintf(launch->options, sizeof launch->options, "-DT=%s -DRANK=%d%s", layout_type(element),
                          (int)to->rank, is_narrow(from) && is_narrow(to) ? " -DNARROW" : "");
  used += add_layout(launch->options + used, sizeof launch->options - used, 'X', from);
  (void)add_layout(launch->options + used, sizeof launch->options - used, 'Y', to);
  launch->global[0] = braid_desc_bytes(to) / element;
  for (int d = 0; d < BRAID_MAX_RANK; d++) add_long(launch, d < to->rank ? to->dims[d] : 1);
  return BRAID_OK;
}

/* To images of samples in blocks (BRAID_LAUNCH_SAMPLES), a work-item for a block's 16, or back. */
static braid_status plan_samples(const braid_launch_traits *traits, const braid_desc *from, const braid_desc *to,
                                 braid_launch_recipe *recipe) {
  bool there = to->layout == BRAID_LAUNCH_SAMPLES;
  braid_launch *launch = add_launch(recipe, there ? "layout_to_samples" : "layout_from_samples", 1);
  if (!launch) return BRAID_NO_MEMORY;
  bool bytes = braid_dtype_size(to->dtype) == 1, turns = !there && bytes && braid_launch_positions(to) % kBlock == 0;
  bool whole = there && bytes && traits->aligned && braid_launch_positions(to) == 1 && to->dims[1] % kBlock == 0;
  snprintf(launch->options, sizeof launch->options, "-DT=%s -DSAMPLES%s", layout_type(braid_dtype_size(to->dtype)),
           turns   ? " -DTURN"
           : whole ? " -DWHOLE"
                   : "");
  launch->global[0] = (size_t)(there   ? braid_launch_places(to) / kBlock
                               : turns ? braid_launch_places(from) / (kBlock * kBlock)
                                       : braid_launch_places(from));
  /* A work-item that turns has 256 bytes on its way: in small groups all units of a card have some. */
  if (turns && traits->gpu && launch->global[0] % kTurners == 0) launch->local[0] = kTurners;
  add_long(launch, to->dims[0]);
  add_long(launch, to->dims[1]);
  add_long(launch, braid_launch_positions(to));
  return BRAID_OK;
}

/* Either side in samples, the other plain, and few enough that 32 bits count them. */
static bool is_to_or_from_samples(const braid_desc *from, const braid_desc *to) {
  bool there = from->layout == BRAID_LAYOUT_PLAIN && to->layout == BRAID_LAUNCH_SAMPLES;
  bool back = from->layout == BRAID_LAUNCH_SAMPLES && to->layout == BRAID_LAYOUT_PLAIN;
  return (there || back) && is_narrow(from) && is_narrow(to);
}

static braid_status layout_plan(const braid_launch_traits *traits, const braid_node_desc *node,
                                braid_launch_recipe *recipe) {
  const braid_desc *from = &node->inputs[0].desc, *to = &node->outputs[0].desc;
  int64_t batch = 1, channels = 1, positions = (int64_t)(braid_desc_bytes(to) / braid_dtype_size(to->dtype));
  braid_strides in, out;
  if (braid_layout_same_places(from, to)) {
    braid_desc whole = *to; /* as numbers in a row */
    whole.layout = BRAID_LAYOUT_PLAIN;
    (void)braid_layout_strides(BRAID_LAYOUT_PLAIN, batch, channels, positions, &in);
    return plan_image(&whole, &whole, &in, &in, batch, channels, positions, recipe);
  }
  if (is_to_or_from_samples(from, to)) return plan_samples(traits, from, to, recipe);
  if (to->rank >= 3) {
    batch = to->dims[0], channels = to->dims[1], positions = 1;
    for (int i = 2; i < to->rank; i++) positions *= to->dims[i];
  }
  if (to->rank >= 3 && braid_layout_strides(from->layout, batch, channels, positions, &in) &&
      braid_layout_strides(to->layout, batch, channels, positions, &out))
    return to->layout == BRAID_LAYOUT_BHWC && channels <= kFew
               ? plan_few(to, &in, &out, batch, channels, positions, recipe)
               : plan_image(from, to, &in, &out, batch, channels, positions, recipe);
  return plan_any(from, to, recipe);
}

static const braid_launch_kernel kPlan = {.plan = layout_plan};
static const braid_kernel kKernels[] = {
    {.op = "LayoutConvert", .name = "layout", .match = layout_match, .implementation = &kPlan},
};

const braid_launch_family braid_launch_family_layout = {kKernels, sizeof kKernels / sizeof *kKernels, false};
