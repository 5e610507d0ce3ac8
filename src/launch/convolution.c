#include "launch/convolution.h"

enum { kPackPiece = 512 };

bool braid_launch_match_taps(const braid_window *window, braid_launch_taps taps, char *why, size_t why_bytes) {
  const int64_t side = taps == BRAID_LAUNCH_TAPS_1X1 ? 1 : 3, *n = window->kernel;
  if (taps == BRAID_LAUNCH_TAPS_ANY || (n[0] == 1 && n[1] == side && n[2] == side)) return true;
  return braid_launch_refuse(why, why_bytes, "a window of %lld x %lld x %lld", (long long)n[0], (long long)n[1],
                             (long long)n[2]);
}

void braid_launch_add_taps(braid_launch_planner *p, braid_launch_taps taps) {
  if (taps == BRAID_LAUNCH_TAPS_1X1) braid_launch_option(p, "-DTAPS_1x1");
  if (taps == BRAID_LAUNCH_TAPS_3X3) braid_launch_option(p, "-DTAPS_3x3");
}

void braid_launch_add_sizes(braid_launch_planner *p, const braid_convolution *conv) {
  const braid_window *w = &conv->window;
  const int64_t *const indices[] = {w->input, w->output}, *const ints[] = {w->kernel, w->stride, w->dilation, w->begin};
  for (size_t i = 0; i < 2; i++)
    for (int d = 0; d < BRAID_WINDOW_RANK; d++) braid_launch_index(p, indices[i][d]);
  for (size_t i = 0; i < 4; i++)
    for (int d = 0; d < BRAID_WINDOW_RANK; d++) braid_launch_int(p, ints[i][d]);
  braid_launch_index(p, conv->batch);
  braid_launch_int(p, conv->groups);
  braid_launch_int(p, conv->inputs / conv->groups);
  braid_launch_int(p, conv->outputs / conv->groups);
}

bool braid_launch_match_sizes(const braid_convolution *conv, char *why, size_t why_bytes) {
  const braid_window *w = &conv->window;
  for (int d = 0; d < BRAID_WINDOW_RANK; d++)
    if (w->stride[d] > INT16_MAX || w->dilation[d] > INT16_MAX || w->kernel[d] > INT16_MAX)
      return braid_launch_refuse(why, why_bytes, "a window beyond %d", INT16_MAX);
  return true;
}

/* --- flat images ---------------------------------------------------------------------------------------------------
 */
static int64_t phases(const braid_window *w, int d) {
  return w->kernel[d] == 1 ? 1 : w->stride[d];
}

braid_launch_flat braid_launch_flat_of(const braid_convolution *conv, size_t input, int64_t width) {
  const braid_window *w = &conv->window;
  braid_launch_flat flat = {.as_it_is = true, .plane = 1, .place = {.kind = BRAID_LAUNCH_INPUT, .index = input}};
  int64_t count = 1;
  for (int d = 0; d < BRAID_WINDOW_RANK; d++) {
    int64_t seen = (w->output[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
    flat.lines[d] = braid_launch_ceil_div(seen, w->stride[d]);
    flat.as_it_is &= w->begin[d] == 0 && w->stride[d] == 1 && seen == w->input[d];
    flat.plane *= flat.lines[d];
    count *= phases(w, d);
  }
  flat.plane *= count;
  flat.runs = ((w->output[0] - 1) * flat.lines[1] + w->output[1] - 1) * flat.lines[2] + w->output[2];
  flat.total = conv->batch * conv->inputs * flat.plane;
  if (!flat.as_it_is) flat.total += flat.plane + width; /* runs of the last channel end in there */
  return flat;
}

void braid_launch_add_lines(braid_launch_planner *p, const braid_launch_flat *flat) {
  for (int d = 0; d < BRAID_WINDOW_RANK; d++) braid_launch_index(p, flat->lines[d]);
}

void braid_launch_add_flat(braid_launch_planner *p, const braid_convolution *conv, braid_launch_taps taps,
                           braid_launch_flat *flat) {
  if (flat->as_it_is) return;
  braid_launch_place to = {.kind = BRAID_LAUNCH_PIECE, .piece = braid_launch_reserve(p, flat->total, 1, sizeof(float))};
  int64_t lines = flat->lines[2] ? conv->batch * conv->inputs * flat->plane / flat->lines[2] : 0;
  braid_launch_begin(p, "conv", "arrange");
  braid_launch_option(p, "-DARRANGE");
  braid_launch_add_taps(p, taps);
  braid_launch_add_place(p, &flat->place);
  braid_launch_add_place(p, &to);
  braid_launch_add_sizes(p, conv);
  braid_launch_add_lines(p, flat);
  braid_launch_index(p, flat->total);
  braid_launch_index(p, lines);
  braid_launch_range(p, lines + 1);
  flat->place = to;
}

braid_launch_piece braid_launch_pack_weights(braid_launch_planner *p, const braid_convolution *conv, size_t input,
                                             const braid_launch_panel *panel) {
  int64_t lines = conv->outputs / conv->groups, panels = braid_launch_ceil_div(lines, panel->rows);
  int64_t inner = conv->inputs / conv->groups * braid_window_volume(&conv->window);
  braid_launch_piece piece = braid_launch_reserve(p, conv->groups * panels, inner * panel->rows, sizeof(float));
  braid_launch_begin(p, "matmul", "pack");
  braid_launch_add_panel(p, panel);
  braid_launch_input(p, input);
  braid_launch_workspace(p, piece);
  braid_launch_index(p, lines);
  braid_launch_index(p, inner);
  braid_launch_index(p, inner);
  braid_launch_index(p, 1);
  braid_launch_int(p, panel->rows);
  braid_launch_index(p, kPackPiece);
  braid_launch_index(p, 0);
  braid_launch_index(p, 1);
  braid_launch_index(p, lines * inner);
  braid_launch_index(p, 0);
  braid_launch_index(p, panels);
  braid_launch_groups(p, panels, braid_launch_ceil_div(inner, kPackPiece), conv->groups, 1);
  return piece;
}
