/* Tenants with random networks, for tests of the card. */
#ifndef BRAID_OVERLAY_CARD_FIXTURE_H
#define BRAID_OVERLAY_CARD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/card/card.h"
#include "overlay/compiler/compiler_fixture.h"
#include "overlay/reference.h"

static inline void ok(braid_status status) {
  if (status != BRAID_OK) fail_msg("%s: %s", braid_status_text(status), braid_error_detail());
}

typedef struct tenant {
  drawn_network network;
  braid_package *package;
  uint8_t *input, *output, *expected; /* segments */
  bool *counts;                       /* bytes of the output that are of a map */
  size_t input_bytes, output_bytes;
} tenant;

/* A map's numbers to their lines. */
static inline void put_map(const braid_package_map *map, uint8_t *segment, const int8_t *numbers, bool *counts) {
  int64_t places = (int64_t)map->rows * map->columns;
  for (int32_t c = 0; c < map->channels; c++)
    for (int64_t p = 0; p < places; p++) {
      int64_t byte = (map->line + (int64_t)(c / 16) * places + p) * 16 + c % 16;
      segment[byte] = (uint8_t)numbers[c * places + p];
      if (counts) counts[byte] = true;
    }
}

/* False: the design can't run it. What it is to compute is said by the reference. */
static inline bool tenant_compile(tenant *t, const braid_overlay_design *design) {
  int8_t *numbers[2], *expected[kMostMaps];
  if (braid_package_compile(&t->network.network, design, NULL, &t->package) != BRAID_OK) return false;
  const braid_package *p = t->package;
  t->input_bytes = (size_t)p->bytes[BRAID_SEGMENT_INPUTS];
  t->output_bytes = (size_t)p->bytes[BRAID_SEGMENT_OUTPUTS];
  t->input = calloc(t->input_bytes + 1, 1);
  t->output = malloc(t->output_bytes + 1);
  t->expected = calloc(t->output_bytes + 1, 1);
  t->counts = calloc(t->output_bytes + 1, sizeof *t->counts);
  for (size_t i = 0; i < p->input_count; i++) {
    int64_t bytes = braid_overlay_map_bytes(&t->network.maps[t->network.inputs[i].map]);
    numbers[i] = malloc((size_t)bytes);
    for (int64_t b = 0; b < bytes; b++) numbers[i][b] = (int8_t)draw(-128, 127);
    put_map(&p->maps[p->inputs[i].map], t->input, numbers[i], NULL);
  }
  for (size_t o = 0; o < p->output_count; o++)
    expected[o] = malloc((size_t)braid_overlay_map_bytes(&t->network.maps[t->network.outputs[o].map]));
  ok(braid_overlay_reference(&t->network.network, (const int8_t *const *)numbers, expected, NULL));
  for (size_t o = 0; o < p->output_count; o++) {
    const braid_package_map *map = &p->maps[p->outputs[o].map];
    assert_int_equal(map->segment, BRAID_SEGMENT_OUTPUTS);
    put_map(map, t->expected, expected[o], t->counts);
    free(expected[o]);
  }
  for (size_t i = 0; i < p->input_count; i++) free(numbers[i]);
  return true;
}

static inline void tenant_draw(tenant *t, const braid_overlay_design *design) {
  do {
    memset(t, 0, sizeof *t);
    draw_network(&t->network);
    if (tenant_compile(t, design)) return;
    drawn_free(&t->network);
  } while (true);
}

/* Convolutions of 3 x 3 that keep the form: a task of some length. */
static inline void tenant_convolutions(tenant *t, const braid_overlay_design *design, int layers, int32_t channels,
                                       int32_t side) {
  memset(t, 0, sizeof *t);
  drawn_begin(&t->network, channels, side, side);
  for (int i = 0; i < layers; i++) {
    int32_t x = (int32_t)t->network.network.map_count - 1, y = drawn_map(&t->network, channels, side, side);
    braid_overlay_layer *layer = drawn_layer(&t->network, BRAID_OVERLAY_CONV, x, y);
    layer->window = (braid_overlay_window){3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    draw_weights(layer);
    layer->shift = 11;
  }
  drawn_end(&t->network);
  assert_true(tenant_compile(t, design));
}

/* Before a job: what its output is if nobody writes it. */
static inline void tenant_reset(tenant *t) {
  memset(t->output, 0x5a, t->output_bytes);
}

static inline void tenant_expect_untouched(const tenant *t) {
  for (size_t b = 0; b < t->output_bytes; b++) assert_int_equal(t->output[b], 0x5a);
}

static inline void tenant_expect_right(const tenant *t) {
  for (size_t b = 0; b < t->output_bytes; b++)
    if (t->counts[b] && t->output[b] != t->expected[b])
      fail_msg("byte %zu is %d, not %d", b, t->output[b], t->expected[b]);
}

static inline void tenant_free(tenant *t) {
  braid_package_destroy(t->package);
  drawn_free(&t->network);
  free(t->input);
  free(t->output);
  free(t->expected);
  free(t->counts);
}

/* 16 cores at 4 banks, like the library's cnn-16x512. */
static inline braid_overlay_design card_design(void) {
  return (braid_overlay_design){.name = "card",
                                .cores = 16,
                                .clock_mhz = 300,
                                .pixels = 4,
                                .channels_in = 8,
                                .channels_out = 8,
                                .side_bytes = 32,
                                .feature_bytes = 1 << 16,
                                .weight_bytes = 1 << 16,
                                .bias_bytes = 1 << 12,
                                .sum_bytes = 1 << 16,
                                .queue_depth = 16,
                                .instruction_bytes = 1 << 20,
                                .port_bits = 128,
                                .bank_bits = 512,
                                .banks = 4,
                                .bank_bytes = INT64_C(1) << 34,
                                .burst_bytes = 1024,
                                .outstanding = 8,
                                .latency_cycles = 60,
                                .efficiency = 0.85,
                                .host_gigabytes_per_second = 12,
                                .host_latency_us = 10};
}

static inline size_t open_tenant(braid_card *card, const tenant *t, int cores) {
  braid_card_request request = {.name = "tenant", .package = t->package, .cores = cores};
  size_t id;
  ok(braid_card_open(card, &request, &id));
  return id;
}

#endif
