#include "launch/stage.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "launch/move.h"
#include "tensor/half.h"

int64_t braid_launch_stage_count(const braid_launch_stage *stage) {
  int64_t count = 1;
  for (int i = 0; i < stage->axis_count; i++)
    if (!braid_mul_i64(count, stage->axes[i].size, &count)) return -1;
  return count;
}

/* A piece of another type than the operand's is of whole numbers, or of float16. */
static void add_types(braid_launch_planner *p, const braid_launch_stage *stage) {
  if (stage->as == stage->type) {
    braid_launch_option(p, "-DT=%s -DP=%s", braid_launch_move_type(stage->type), braid_launch_move_type(stage->type));
  } else if (stage->as == BRAID_F16) {
    braid_launch_option(p, "-DHALF -DT=float -DP=ushort");
  } else {
    braid_launch_option(p, "-DFIXED -DT=float -DP=%s", braid_launch_type(stage->as));
  }
}

void braid_launch_add_stage(braid_launch_planner *p, const braid_launch_stage *stage) {
  int64_t count = braid_launch_stage_count(stage);
  int packed = 0;
  /* at the end, where the kernel begins; those before are of one step of the first axis */
  struct braid_launch_piece_axis axes[BRAID_STAGE_AXES];
  int unused = BRAID_STAGE_AXES - stage->axis_count;
  for (int i = 0; i < unused; i++) axes[i] = (struct braid_launch_piece_axis){0, 0, 1};
  memcpy(axes + unused, stage->axes, (size_t)stage->axis_count * sizeof *axes);
  if (count > INT32_MAX / 2) p->wide = true;
  braid_launch_begin(p, "stage", stage->input ? "stage_in" : "stage_out");
  add_types(p, stage);
  if (stage->input) braid_launch_input(p, stage->index);
  braid_launch_workspace(p, stage->piece);
  if (!stage->input) braid_launch_output(p, stage->index);
  braid_launch_index(p, count);
  braid_launch_index(p, stage->from);
  for (int i = 0; i < BRAID_STAGE_AXES; i++) packed |= (int)((unsigned)axes[i].axis << 4 * i);
  braid_launch_int(p, packed);
  braid_launch_float(p, ldexp(1, stage->input ? stage->fraction : -stage->fraction));
  for (int i = 0; i < BRAID_STAGE_AXES; i++) braid_launch_index(p, axes[i].size);
  for (int i = 0; i < BRAID_STAGE_AXES; i++) braid_launch_index(p, axes[i].step);
  for (int i = 0; i < BRAID_MAX_RANK; i++) braid_launch_index(p, i < stage->rank ? stage->dims[i] : 1);
  braid_launch_range(p, count);
}

/* --- on the host ---------------------------------------------------------------------------------------------------
 */
static int64_t round_to_fixed(float x, float scale, double least, double most) {
  if (isnan(x)) return 0;
  double rounded = rint((double)(x * scale));
  return (int64_t)(rounded < least ? least : rounded > most ? most : rounded);
}

/* `count` elements of the operand, `step` elements apart, one after the other. */
static void pack_fixed(const braid_launch_stage *stage, const float *from, int64_t step, int64_t count, uint8_t *to) {
  size_t bytes = braid_dtype_size(stage->as);
  bool is_signed = stage->as == BRAID_I8 || stage->as == BRAID_I16 || stage->as == BRAID_I32;
  double most = ldexp(1, 8 * (int)bytes - is_signed) - 1, least = is_signed ? -most - 1 : 0;
  float scale = (float)ldexp(1, stage->fraction);
  for (int64_t i = 0; i < count; i++, to += bytes) {
    int64_t value = round_to_fixed(from[i * step], scale, least, most);
    if (bytes == 1)
      *to = (uint8_t)value;
    else if (bytes == 2)
      memcpy(to, &(uint16_t){(uint16_t)value}, bytes);
    else
      memcpy(to, &(uint32_t){(uint32_t)value}, bytes);
  }
}

static void pack_half(const float *from, int64_t step, int64_t count, uint8_t *to) {
  for (int64_t i = 0; i < count; i++)
    memcpy(to + 2 * i, &(uint16_t){braid_f32_to_f16(from[i * step])}, sizeof(uint16_t));
}

static void pack_run(const braid_launch_stage *stage, const void *operand, int64_t element, int64_t step, int64_t count,
                     uint8_t *to) {
  size_t bytes = braid_dtype_size(stage->type);
  const uint8_t *from = (const uint8_t *)operand + (size_t)element * bytes;
  if (stage->as == stage->type && step == 1)
    memcpy(to, from, (size_t)count * bytes);
  else if (stage->as == stage->type)
    for (int64_t i = 0; i < count; i++) memcpy(to + (size_t)i * bytes, from + (size_t)(i * step) * bytes, bytes);
  else if (stage->as == BRAID_F16)
    pack_half((const float *)from, step, count, to);
  else
    pack_fixed(stage, (const float *)from, step, count, to);
}

/* Advances the indices of all axes but the innermost, and the coordinates in the operand with them. */
static void next_row(const braid_launch_stage *stage, int64_t *indices, int64_t *at) {
  for (int i = stage->axis_count - 2; i >= 0; i--) {
    const struct braid_launch_piece_axis *axis = &stage->axes[i];
    at[axis->axis] += axis->step;
    if (++indices[i] < axis->size) return;
    at[axis->axis] -= axis->step * axis->size;
    indices[i] = 0;
  }
}

void braid_launch_pack_stage(const braid_launch_stage *stage, const void *operand, void *piece) {
  static const struct braid_launch_piece_axis kScalar = {0, 1, 1};
  int64_t indices[BRAID_STAGE_AXES] = {0}, at[BRAID_MAX_RANK] = {0}, strides[BRAID_MAX_RANK] = {1};
  const struct braid_launch_piece_axis *inner = stage->axis_count ? &stage->axes[stage->axis_count - 1] : &kScalar;
  size_t row_bytes = (size_t)inner->size * braid_dtype_size(stage->as);
  uint8_t *to = piece;
  for (int i = stage->rank - 1; i >= 0; i--)
    strides[i] = i == stage->rank - 1 ? 1 : strides[i + 1] * stage->dims[i + 1];
  int64_t rows = inner->size ? braid_launch_stage_count(stage) / inner->size : 0;
  for (int64_t row = 0; row < rows; row++, to += row_bytes) {
    int64_t element = stage->from, inside = inner->size;
    for (int i = 0; i < stage->rank; i++) {
      element += at[i] * strides[i];
      if (at[i] >= stage->dims[i]) inside = 0;
    }
    if (inside && stage->rank) {
      int64_t left = braid_launch_ceil_div(stage->dims[inner->axis] - at[inner->axis], inner->step);
      if (inside > left) inside = left;
    }
    size_t bytes = (size_t)inside * braid_dtype_size(stage->as);
    pack_run(stage, operand, element, inner->step * strides[inner->axis], inside, to);
    memset(to + bytes, 0, row_bytes - bytes);
    next_row(stage, indices, at);
  }
}

static uint64_t mix_number(uint64_t key, int64_t number) { /* FNV-1a */
  for (int i = 0; i < 64; i += 8) key = (key ^ ((uint64_t)number >> i & 0xff)) * 1099511628211u;
  return key;
}

uint64_t braid_launch_mix_stage(uint64_t key, const braid_launch_stage *stage) {
  key = mix_number(mix_number(mix_number(key, stage->type), stage->as), stage->fraction);
  key = mix_number(mix_number(mix_number(key, (int64_t)stage->piece.offset), stage->from), stage->rank);
  for (int i = 0; i < stage->rank; i++) key = mix_number(key, stage->dims[i]);
  for (int i = 0; i < stage->axis_count; i++)
    key = mix_number(mix_number(mix_number(key, stage->axes[i].axis), stage->axes[i].step), stage->axes[i].size);
  return key;
}
