/* builtin:glyphs: small colour pictures of ten shapes, each made from (seed, split, index) alone.
 *
 * A shape is a distance function (negative inside). Place, size, turn, stretch and colours vary, the paper has a
 * gradient, strokes cross the picture, a patch covers a part of it and noise lies over everything: pixels alone say
 * little (a linear classifier finds one shape in five), a small convolutional network finds nearly all.
 *
 * Only additions, products, divisions and square roots are used, which IEEE 754 rounds the same everywhere: the same
 * bits on every machine. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "train/data/dataset.h"

enum {
  kSide = 32,
  kPlane = kSide * kSide,
  kTrainSamples = 20000,
  kTestSamples = 4000,
  kStrokes = 2,
  /* Streams of random numbers; the splits have their own, so they share no picture. */
  kTrainStream = 0x6701,
  kTestStream = 0x6702,
  kNoise = 0x1000,
};

static const char *const kNames[] = {"ring",  "square", "triangle", "cross", "star",
                                     "heart", "moon",   "arrow",    "bars",  "bolt"};
enum { kShapes = sizeof kNames / sizeof *kNames };

typedef struct glyphs {
  const braid_allocator *allocator;
  uint64_t seed;
  uint32_t stream;
} glyphs;

/* Without the rules of fminf about NaN, so that they are one instruction. */
static inline float least(float a, float b) {
  return a < b ? a : b;
}
static inline float most(float a, float b) {
  return a > b ? a : b;
}
static inline float norm(float x, float y) {
  return sqrtf(x * x + y * y);
}

/* --- distances, for shapes that fill about -1..1; y points down -----------------------------------------------------
 */
static float box(float x, float y, float width, float height) {
  return most(fabsf(x) - width, fabsf(y) - height);
}

static float segment(float x, float y, float ax, float ay, float bx, float by) {
  float px = x - ax, py = y - ay, vx = bx - ax, vy = by - ay;
  float t = least(1, most(0, (px * vx + py * vy) / (vx * vx + vy * vy)));
  return norm(px - t * vx, py - t * vy);
}

/* Five points: folded at the axes of symmetry onto half a point, whose edge is one segment. */
static float star(float x, float y) {
  static const float kCosine = 0.809017f, kSine = 0.587785f, kInner = 0.45f; /* of 36 degrees */
  x = fabsf(x), y = -y;
  float over = 2 * most(kCosine * x - kSine * y, 0);
  x -= over * kCosine, y += over * kSine;
  over = 2 * most(-kCosine * x - kSine * y, 0);
  x += over * kCosine, y += over * kSine;
  x = fabsf(x), y -= 1;
  float ex = kInner * kSine, ey = kInner * kCosine - 1;
  float t = least(1, most(0, (x * ex + y * ey) / (ex * ex + ey * ey)));
  float away = norm(x - t * ex, y - t * ey);
  return y * ex - x * ey > 0 ? away : -away;
}

static float heart(float x, float y) {
  x = fabsf(x);
  float lobe = norm(x - 0.45f, y + 0.35f) - 0.5f;
  return least(lobe, most(x * 0.74f + y * 0.67f - 0.56f, -y - 0.35f));
}

static float bolt(float x, float y) {
  float upper = segment(x, y, 0.35f, -0.9f, -0.35f, 0.05f), middle = segment(x, y, -0.35f, 0.05f, 0.4f, -0.05f);
  return least(least(upper, middle), segment(x, y, 0.4f, -0.05f, -0.3f, 0.9f)) - 0.17f;
}

static float distance(int shape, float x, float y) {
  switch (shape) {
  case 0:
    return fabsf(norm(x, y) - 0.75f) - 0.2f;
  case 1:
    return fabsf(box(x, y, 0.7f, 0.7f)) - 0.18f;
  case 2:
    return most(fabsf(x) * 0.87f - (y + 0.9f) * 0.5f, y - 0.7f);
  case 3:
    return least(box(x, y, 0.9f, 0.26f), box(x, y, 0.26f, 0.9f));
  case 4:
    return star(x, y);
  case 5:
    return heart(x, y);
  case 6:
    return most(norm(x, y) - 0.95f, 0.75f - norm(x - 0.45f, y));
  case 7:
    return least(box(x + 0.3f, y, 0.65f, 0.2f), most(fabsf(y) * 0.87f + (x - 0.95f) * 0.5f, 0.1f - x));
  case 8:
    return most(fabsf(fabsf(y) - 0.55f) - 0.2f, fabsf(x) - 0.85f);
  default:
    return bolt(x, y);
  }
}

/* --- one picture ---------------------------------------------------------------------------------------------------
 */
typedef struct scene {
  int shape;
  float x, y, cosine, sine, stretch, size;      /* of the shape, in pixels */
  float ink[3], paper[3], slope[2];             /* colours 0..255; how the paper brightens along x and y */
  float strokes[kStrokes][5], pencil[3];        /* lines across: two ends, half a width */
  float patch_x, patch_y, patch_half, cover[3]; /* a square that hides what is below */
  float noise;
} scene;

/* The numbers of one sample, taken one after the other. */
typedef struct numbers {
  const glyphs *set;
  uint64_t next;
} numbers;

static float draw(numbers *n, float low, float high) {
  return low + (high - low) * braid_random_uniform(n->set->seed, 0, n->set->stream, n->next++);
}

static void draw_colours(numbers *n, scene *s) {
  bool dark = draw(n, 0, 1) < 0.4f; /* the ink is darker than the paper: in less than half of the pictures */
  for (int c = 0; c < 3; c++) {
    float low = draw(n, 20, 120), high = low + draw(n, 45, 125);
    s->paper[c] = dark ? high : low;
    s->ink[c] = dark ? low : high;
    s->pencil[c] = draw(n, 40, 215);
    s->cover[c] = draw(n, 40, 215);
  }
}

static scene make_scene(const glyphs *g, uint64_t index) {
  numbers n = {g, index << 6}; /* 64 numbers for each */
  scene s = {.shape = (int)(draw(&n, 0, 1) * kShapes)};
  float half = draw(&n, -0.2f, 0.2f); /* tangent of half the turn: up to 23 degrees to both sides */
  s.cosine = (1 - half * half) / (1 + half * half);
  s.sine = 2 * half / (1 + half * half);
  s.size = draw(&n, 7.5f, 12.5f);
  s.stretch = draw(&n, 0.85f, 1.18f);
  s.x = kSide / 2.0f + draw(&n, -4, 4);
  s.y = kSide / 2.0f + draw(&n, -4, 4);
  draw_colours(&n, &s);
  for (int i = 0; i < 2; i++) s.slope[i] = draw(&n, -1.5f, 1.5f);
  for (int i = 0; i < kStrokes; i++) {
    for (int k = 0; k < 4; k++) s.strokes[i][k] = draw(&n, 0, kSide);
    s.strokes[i][4] = draw(&n, 0.2f, 0.8f);
  }
  s.patch_x = draw(&n, 4, kSide - 4);
  s.patch_y = draw(&n, 4, kSide - 4);
  s.patch_half = draw(&n, 1.5f, 4);
  s.noise = draw(&n, 8, 32);
  return s;
}

/* How much of a pixel lies inside, by the distance of its middle. */
static float cover(float pixels) {
  return least(1, most(0, 0.5f - pixels));
}

static float shape_cover(const scene *s, float x, float y) {
  float dx = (x - s->x) / s->size, dy = (y - s->y) / s->size;
  if (dx * dx + dy * dy > 2.25f) return 0; /* no shape reaches so far */
  float u = (dx * s->cosine + dy * s->sine) * s->stretch, v = (dy * s->cosine - dx * s->sine) / s->stretch;
  return cover(distance(s->shape, u, v) * s->size);
}

static float stroke_cover(const scene *s, float x, float y) {
  float covered = 0;
  for (int i = 0; i < kStrokes; i++) {
    const float *line = s->strokes[i];
    covered = most(covered, cover(segment(x, y, line[0], line[1], line[2], line[3]) - line[4]));
  }
  return covered;
}

static void paint(const scene *s, int x, int y, float *pixel) {
  float px = (float)x + 0.5f, py = (float)y + 0.5f;
  float ink = shape_cover(s, px, py), pencil = stroke_cover(s, px, py);
  float patch = cover(box(px - s->patch_x, py - s->patch_y, s->patch_half, s->patch_half));
  float light = s->slope[0] * (px - kSide / 2.0f) + s->slope[1] * (py - kSide / 2.0f);
  for (int c = 0; c < 3; c++) {
    float value = (s->paper[c] + light) * (1 - ink) + s->ink[c] * ink;
    value = value * (1 - pencil) + s->pencil[c] * pencil;
    pixel[c * kPlane] = value * (1 - patch) + s->cover[c] * patch;
  }
}

/* Adds the sum of two uniform bytes per value, and rounds to what a byte holds. One counter gives 16 bytes: 8 values.
 */
static void add_noise(const glyphs *g, uint64_t index, float noise, float *pixels) {
  const uint32_t key[2] = {(uint32_t)g->seed, (uint32_t)(g->seed >> 32)};
  float factor = noise / 255;
  for (uint32_t i = 0; i < 3 * kPlane / 8; i++) {
    const uint32_t counter[4] = {i, (uint32_t)index, (uint32_t)(index >> 32), g->stream + kNoise};
    uint32_t bits[4];
    braid_philox(counter, key, bits);
    for (int k = 0; k < 8; k++) {
      uint32_t two = bits[k / 2] >> (16 * (k % 2));
      float value = pixels[8 * i + (uint32_t)k] + ((float)((two & 255) + (two >> 8 & 255)) - 255) * factor;
      pixels[8 * i + (uint32_t)k] = (float)(int)(least(255, most(0, value)) + 0.5f);
    }
  }
}

static braid_status read_glyph(void *self, int64_t index, const braid_augment *how, float *pixels, void *target) {
  (void)how;
  const glyphs *g = self;
  scene s = make_scene(g, (uint64_t)index);
  *(int32_t *)target = s.shape;
  for (int y = 0; y < kSide; y++)
    for (int x = 0; x < kSide; x++) paint(&s, x, y, pixels + y * kSide + x);
  add_noise(g, (uint64_t)index, s.noise, pixels);
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
