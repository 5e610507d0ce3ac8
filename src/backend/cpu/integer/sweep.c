#include "backend/cpu/integer/sweep.h"

/* Along dimension d (0: rows, 1: columns): does tap k reach the places of remainder `phase`, and from where? */
static bool tap_reaches(const braid_window *window, int d, bool backward, int64_t phase, int64_t k, int64_t *at) {
  int i = BRAID_WINDOW_RANK - 2 + d;
  int64_t offset = k * window->dilation[i] - window->begin[i];
  *at = offset;
  if (!backward) return true;
  if ((phase - offset) % window->stride[i] != 0) return false;
  *at = (phase - offset) / window->stride[i];
  return true;
}

static void sweep_add_taps(const braid_window *window, bool backward, braid_integer_sweep *sweep,
                           braid_integer_tap *taps) {
  braid_integer_tap tap;
  sweep->taps = taps;
  for (int64_t y = 0; y < window->kernel[1]; y++)
    for (int64_t x = 0; x < window->kernel[2]; x++) {
      tap.kernel = y * window->kernel[2] + x;
      if (tap_reaches(window, 0, backward, sweep->first[0], y, &tap.at[0]) &&
          tap_reaches(window, 1, backward, sweep->first[1], x, &tap.at[1]))
        taps[sweep->tap_count++] = tap;
    }
}

static void sweep_add_runs(bool joined, braid_integer_sweep *sweep, braid_integer_run *runs) {
  sweep->runs = runs;
  for (int64_t t = 0; t < sweep->tap_count; t++) {
    const braid_integer_tap *tap = &sweep->taps[t];
    braid_integer_run *run = &runs[t > 0 ? sweep->run_count - 1 : 0];
    if (joined && t > 0 && tap->at[0] == run->at[0] && tap->at[1] == run->at[1] + run->taps)
      run->taps++;
    else
      runs[sweep->run_count++] = (braid_integer_run){{tap->at[0], tap->at[1]}, 1};
  }
}

braid_status braid_integer_sweeps_init(const braid_allocator *allocator, const braid_window *window, bool backward,
                                       bool joined, braid_integer_sweeps *out) {
  const int64_t *result = (backward ? window->input : window->output) + 1;
  int64_t phases[2];
  for (int d = 0; d < 2; d++) {
    int64_t stride = window->stride[d + 1];
    phases[d] = !backward ? 1 : stride < result[d] ? stride : result[d];
  }
  *out = (braid_integer_sweeps){.count = phases[0] * phases[1]};
  out->sweeps = braid_zalloc_array(allocator, (size_t)out->count + 1, sizeof *out->sweeps);
  out->taps = braid_zalloc_array(allocator, (size_t)braid_window_volume(window) + 1, sizeof *out->taps);
  out->runs = braid_zalloc_array(allocator, (size_t)braid_window_volume(window) + 1, sizeof *out->runs);
  if (!out->sweeps || !out->taps || !out->runs) {
    braid_integer_sweeps_deinit(allocator, out);
    return BRAID_NO_MEMORY;
  }
  braid_integer_tap *taps = out->taps;
  braid_integer_run *runs = out->runs;
  for (int64_t i = 0; i < out->count; i++) {
    braid_integer_sweep *sweep = &out->sweeps[i];
    for (int d = 0; d < 2; d++) {
      int64_t stride = window->stride[d + 1];
      sweep->first[d] = d ? i % phases[1] : i / phases[1];
      sweep->every[d] = backward ? stride : 1;
      sweep->step[d] = backward ? 1 : stride;
      sweep->count[d] = backward ? (result[d] - sweep->first[d] + stride - 1) / stride : result[d];
    }
    sweep_add_taps(window, backward, sweep, taps);
    taps += sweep->tap_count;
    sweep_add_runs(joined, sweep, runs);
    runs += sweep->run_count;
  }
  return BRAID_OK;
}

void braid_integer_sweeps_deinit(const braid_allocator *allocator, braid_integer_sweeps *sweeps) {
  braid_free(allocator, sweeps->sweeps);
  braid_free(allocator, sweeps->taps);
  braid_free(allocator, sweeps->runs);
  *sweeps = (braid_integer_sweeps){0};
}
