/* builtin:glyphs: small colour pictures of ten shapes, each made from (seed, split, index) alone.
 *
 * A shape is a distance function (negative inside); position, size, turn, stretch and colours vary, the background has
 * a gradient, strokes cross the picture, noise covers it, and colours may come close to each other: a network has to
 * find the shape, and does not find all of them. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "train/dataset.h"

enum {
  kSide = 32,
  kTrainSamples = 20000,
  kTestSamples = 4000,
  kNumbers = 64,
  kTrainStream = 0x6701,
  kTestStream = 0x6702
};

static const char *const kNames[] = {"ring",  "square", "triangle", "cross", "star",
                                     "heart", "moon",   "arrow",    "bars",  "bolt"};
enum { kShapes = sizeof kNames / sizeof *kNames };

typedef struct glyphs {
  const braid_allocator *allocator;
  uint64_t seed;
  uint32_t stream;
} glyphs;

/* --- distances, for shapes that fill about -1..1 -------------------------------------------------------------------
 */
static float box(float x, float y, float width, float height) {
  float dx = fabsf(x) - width, dy = fabsf(y) - height;
  return fmaxf(dx, dy);
}

static float segment(float x, float y, float ax, float ay, float bx, float by) {
  float px = x - ax, py = y - ay, vx = bx - ax, vy = by - ay;
  float t = fminf(1, fmaxf(0, (px * vx + py * vy) / (vx * vx + vy * vy)));
  return hypotf(px - t * vx, py - t * vy);
}

static float star(float x, float y) {
  static const float kPoints = 5, kInner = 0.42f;
  float step = 3.14159265f / kPoints, angle = fabsf(fmodf(atan2f(x, -y) + 31 * step, 2 * step) - step);
  float radius = hypotf(x, y), px = radius * cosf(angle), py = radius * sinf(angle);
  float ex = kInner * cosf(step) - 1, ey = kInner * sinf(step), length = hypotf(ex, ey);
  return ((px - 1) * ey - py * ex) / length * -1;
}

static float heart(float x, float y) {
  x = fabsf(x);
  float lobe = hypotf(x - 0.45f, y + 0.35f) - 0.5f;
  float point = fmaxf((x * 0.74f + y * 0.67f) - 0.56f, -y - 0.35f);
  return fminf(lobe, point);
}

static float distance(int shape, float x, float y) {
  switch (shape) {
  case 0:
    return fabsf(hypotf(x, y) - 0.75f) - 0.2f;
  case 1:
    return fabsf(box(x, y, 0.7f, 0.7f)) - 0.18f;
  case 2:
    return fmaxf(fabsf(x) * 0.87f - (y + 0.9f) * 0.5f, y - 0.7f);
  case 3:
    return fminf(box(x, y, 0.9f, 0.26f), box(x, y, 0.26f, 0.9f));
  case 4:
    return star(x, y);
  case 5:
    return heart(x, y);
  case 6:
    return fmaxf(hypotf(x, y) - 0.95f, 0.75f - hypotf(x - 0.45f, y));
  case 7:
    return fminf(box(x + 0.3f, y, 0.65f, 0.2f), fmaxf(fabsf(y) * 0.87f + (x - 0.95f) * 0.5f, 0.1f - x));
  case 8:
    return fmaxf(fabsf(fabsf(y) - 0.55f) - 0.2f, fabsf(x) - 0.85f);
  default:
    return fminf(fminf(segment(x, y, 0.35f, -0.9f, -0.35f, 0.05f), segment(x, y, -0.35f, 0.05f, 0.4f, -0.05f)),
                 segment(x, y, 0.4f, -0.05f, -0.3f, 0.9f)) -
           0.17f;
  }
}

/* --- one picture ---------------------------------------------------------------------------------------------------
 */
typedef struct scene {
  int shape;
  float x, y, cosine, sine, stretch, size; /* of the shape, in pixels */
  float ink[3], paper[3], slope[2];        /* colours 0..255; how the paper brightens along x and y */
  float strokes[2][5];                     /* lines across: two ends, half a width */
  float noise;
} scene;

/* Number `at` of a sample, uniform in [low, high). */
static float draw(const glyphs *g, uint64_t index, uint32_t at, float low, float high) {
  return low + (high - low) * braid_random_uniform(g->seed, 0, g->stream, index * kNumbers + at);
}

static scene make_scene(const glyphs *g, uint64_t index) {
  scene s = {.shape = (int)braid_random_below(g->seed, 0, g->stream, index * kNumbers, kShapes)};
  float turn = draw(g, index, 1, -0.45f, 0.45f);
  s.cosine = cosf(turn), s.sine = sinf(turn);
  s.size = draw(g, index, 2, 6, 12);
  s.stretch = draw(g, index, 3, 0.8f, 1.25f);
  s.x = kSide / 2.0f + draw(g, index, 4, -1, 1) * (kSide / 2.0f - s.size);
  s.y = kSide / 2.0f + draw(g, index, 5, -1, 1) * (kSide / 2.0f - s.size);
  float contrast = 0;
  for (int c = 0; c < 3; c++) {
    s.paper[c] = draw(g, index, 6 + (uint32_t)c, 30, 225);
    s.ink[c] = draw(g, index, 9 + (uint32_t)c, 0, 255);
    contrast += fabsf(s.ink[c] - s.paper[c]);
  }
  /* Too faint a shape is no question that could be answered: its colour is turned over. */
  for (int c = 0; c < 3 && contrast < 150; c++) s.ink[c] = s.paper[c] > 127 ? s.paper[c] - 70 : s.paper[c] + 70;
  for (int i = 0; i < 2; i++) s.slope[i] = draw(g, index, 12 + (uint32_t)i, -2.5f, 2.5f);
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 4; k++) s.strokes[i][k] = draw(g, index, 14 + (uint32_t)(4 * i + k), 0, kSide);
    s.strokes[i][4] = draw(g, index, 22 + (uint32_t)i, 0.2f, 1.1f);
  }
  s.noise = draw(g, index, 24, 6, 30);
  return s;
}

/* How much of a pixel lies inside, by the distance of its middle. */
static float cover(float pixels) {
  return fminf(1, fmaxf(0, 0.5f - pixels));
}

static float glyph_cover(const scene *s, float x, float y) {
  float dx = (x - s->x) / s->size, dy = (y - s->y) / s->size;
  float u = (dx * s->cosine + dy * s->sine) * s->stretch, v = (dy * s->cosine - dx * s->sine) / s->stretch;
  return cover(distance(s->shape, u, v) * s->size);
}

static braid_status read_glyph(void *self, int64_t index, float *pixels, int32_t *label) {
  const glyphs *g = self;
  scene s = make_scene(g, (uint64_t)index);
  *label = s.shape;
  for (int y = 0; y < kSide; y++)
    for (int x = 0; x < kSide; x++) {
      float px = (float)x + 0.5f, py = (float)y + 0.5f, ink = glyph_cover(&s, px, py), stroke = 0;
      for (int i = 0; i < 2; i++) {
        const float *line = s.strokes[i];
        stroke = fmaxf(stroke, cover(segment(px, py, line[0], line[1], line[2], line[3]) - line[4]));
      }
      float light = s.slope[0] * (px - kSide / 2.0f) + s.slope[1] * (py - kSide / 2.0f);
      /* the sum of two uniform numbers per channel */
      const uint32_t counter[4] = {(uint32_t)(y * kSide + x), (uint32_t)index, (uint32_t)((uint64_t)index >> 32),
                                   g->stream + 1000};
      const uint32_t key[2] = {(uint32_t)g->seed, (uint32_t)(g->seed >> 32)};
      uint32_t bits[4];
      braid_philox(counter, key, bits);
      for (int c = 0; c < 3; c++) {
        float noise = ((float)(bits[c] & 0xffff) + (float)(bits[c] >> 16)) * 0x1p-16f - 1;
        float value = (s.paper[c] + light) * (1 - ink) + s.ink[c] * ink;
        value = value * (1 - stroke) + (s.ink[c] + s.paper[2 - c]) / 2 * stroke + noise * s.noise;
        pixels[(c * kSide + y) * kSide + x] = roundf(fminf(255, fmaxf(0, value)));
      }
    }
  return BRAID_OK;
}

static void close_glyphs(void *self) {
  glyphs *g = self;
  braid_free(g->allocator, g);
}

braid_status braid_source_glyphs(const braid_allocator *allocator, const braid_spec *spec, braid_source *out) {
  if (strcmp(spec->path, "glyphs") != 0)
    return braid_fail(BRAID_NOT_FOUND, "builtin:%.40s: there is builtin:glyphs", spec->path);
  glyphs *g = braid_zalloc(allocator, sizeof *g);
  if (!g) return BRAID_NO_MEMORY;
  bool test = strcmp(spec->split, "test") == 0;
  *g = (glyphs){allocator, spec->seed, test ? kTestStream : kTrainStream};
  *out = (braid_source){.self = g,
                        .samples = test ? kTestSamples : kTrainSamples,
                        .channels = 3,
                        .height = kSide,
                        .width = kSide,
                        .classes = kShapes,
                        .class_names = kNames,
                        .read = read_glyph,
                        .close = close_glyphs};
  return BRAID_OK;
}
