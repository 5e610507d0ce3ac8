/* Shapes that a sample lists: every way in which operands broadcast against each other over a few dimensions, and some
 * over many; and sweeps, in which one letter takes the sizes where tiles, vectors and counters end, and the others are
 * small. Programs that a device compiles are the same for nearly all of them, so a list costs little. */
#include <ctype.h>
#include <string.h>

#include "base/philox.h"
#include "device/conformance_samples.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { kDrawnLeads = 16 /* over any number of dimensions */ };

/* --- random numbers: one after the other, those of a draw's contents are elsewhere --- */
typedef struct source {
  const braid_draw *draw;
  uint64_t next;
} source;

static uint32_t below(source *s, uint32_t bound) {
  return braid_random_below(s->draw->seed, s->draw->sample, UINT32_MAX - s->draw->shape, s->next++, bound);
}

/* --- letters -------------------------------------------------------------------------------------------------------
 */
static const int64_t kEdges[] = {0, 1, 17, 65, 129, 513, 1025};
static const int64_t kEnds[] = {15, 16, 63, 64, 127, 128, 511, 512}; /* two of them for each letter */
static const int64_t kLong[] = {4097, 65537, (1 << 20) + 1};         /* elementwise, of samples with one letter */
enum { kPerLetter = COUNT(kEdges) + 2 };

/* Those of dimensions, in the order in which they appear. */
static uint32_t list_letters(const char *inputs, char letters[26]) {
  uint32_t count = 0;
  for (const char *at = inputs; *at; at++) {
    if (*at == '@') at += strcspn(at, " ");
    if (!*at) break;
    if (islower((unsigned char)*at) && !memchr(letters, *at, count)) letters[count++] = *at;
  }
  return count;
}

static uint32_t count_sweep(const braid_sample *sample) {
  char which[26];
  uint32_t letters = list_letters(sample->inputs, which);
  const braid_op *op = braid_op_find(sample->op);
  bool is_long = letters == 1 && op && (op->flags & BRAID_OP_ELEMENTWISE);
  return letters * kPerLetter + letters * (letters - 1) + (is_long ? (uint32_t)COUNT(kLong) : 0);
}

/* A letter at an edge; or a large one beside one that is 1, for rows and columns alone have kernels of their own. */
static void sweep_letters(source *s, const char *letters, uint32_t count, int64_t *sizes) {
  uint32_t shape = s->draw->shape, alone = count * kPerLetter;
  for (uint32_t i = 0; i < count; i++) sizes[letters[i] - 'a'] = 2 + below(s, 5);
  if (shape < alone) {
    uint32_t edge = shape % kPerLetter, half = COUNT(kEnds) / 2;
    int64_t *size = &sizes[letters[shape / kPerLetter] - 'a'];
    *size = edge < COUNT(kEdges) ? kEdges[edge] : kEnds[(edge - COUNT(kEdges)) * half + below(s, half)];
  } else if (count == 1) {
    sizes[letters[0] - 'a'] = kLong[shape - alone];
  } else {
    uint32_t pair = shape - alone, large = pair / (count - 1), one = pair % (count - 1);
    sizes[letters[large] - 'a'] = kEdges[COUNT(kEdges) - 1 - below(s, 3)];
    sizes[letters[one < large ? one : one + 1] - 'a'] = 1;
  }
}

/* --- leading dimensions --------------------------------------------------------------------------------------------
 * A dimension's state: the operands, as bits, that have its size; the others have 1. */
typedef struct pattern {
  int rank;
  int64_t sizes[BRAID_MAX_RANK];
  uint32_t states[BRAID_MAX_RANK];
  bool cut; /* operands have no leading ones */
} pattern;

static uint32_t count_leads(const char *inputs) {
  uint32_t count = 0;
  for (; *inputs; inputs++) count += *inputs == '?';
  return count;
}

/* Are there other dimensions behind them? */
static bool is_lead_of_more(const char *inputs) {
  return strstr(inputs, "?,") != NULL;
}

/* The most dimensions of which every pattern is listed; up to one fewer, both with leading ones and without. */
static int listed_rank(const char *inputs) {
  return count_leads(inputs) > 2 ? 2 : is_lead_of_more(inputs) ? 3 : 4;
}

static uint32_t count_patterns(const char *inputs) {
  uint32_t states = (1u << count_leads(inputs)) - 1, count = 0, power = 1;
  int most = listed_rank(inputs);
  for (int rank = 1; rank <= most; rank++) count += (power *= states) * (rank < most ? 2 : 1);
  return count + kDrawnLeads;
}

static void list_pattern(source *s, const char *inputs, pattern *p) {
  uint32_t states = (1u << count_leads(inputs)) - 1, power = states, index = s->draw->shape;
  int most = listed_rank(inputs);
  for (p->rank = 1; p->rank < most && index >= 2 * power; p->rank++) {
    index -= 2 * power;
    power *= states;
  }
  p->cut = p->rank < most ? index / power : below(s, 2);
  for (int d = 0; d < p->rank; d++, index /= states) p->states[d] = 1 + index % states;
  for (int d = 0; d < p->rank; d++) p->sizes[d] = 2 + below(s, 3);
  static const int64_t kInner[] = {15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129};
  if (p->rank < 4 && !is_lead_of_more(inputs)) p->sizes[below(s, (uint32_t)p->rank)] = kInner[below(s, COUNT(kInner))];
}

static void draw_pattern(source *s, const char *inputs, pattern *p) {
  uint32_t states = (1u << count_leads(inputs)) - 1;
  int most = BRAID_MAX_RANK - (is_lead_of_more(inputs) ? 2 : 0), least = listed_rank(inputs) + 1;
  p->rank = least + (int)below(s, (uint32_t)(most - least + 1));
  p->cut = below(s, 2);
  for (int d = 0; d < p->rank; d++) {
    uint32_t drawn = below(s, 32);
    p->sizes[d] = drawn == 0 ? 0 : drawn < 4 ? 1 : drawn < 22 ? 2 : 3;
    p->states[d] = 1 + below(s, states);
  }
}

static void place_leads(const char *inputs, const pattern *p, braid_shape *out) {
  for (uint32_t i = 0; i < count_leads(inputs) && i < BRAID_SHAPE_LEADS; i++) {
    bool begun = !p->cut;
    for (int d = 0; d < p->rank; d++) {
      bool own = p->states[d] >> i & 1;
      begun |= own;
      if (begun) out->leads[i][out->lead_ranks[i]++] = own ? p->sizes[d] : 1;
    }
  }
}

/* --- both ----------------------------------------------------------------------------------------------------------
 */
bool braid_sample_broadcasts(const braid_sample *sample) {
  return strchr(sample->inputs, '?') != NULL;
}

uint32_t braid_sample_shapes(const braid_sample *sample) {
  if (braid_sample_broadcasts(sample)) return count_patterns(sample->inputs);
  return sample->swept ? count_sweep(sample) : 0;
}

void braid_shape_draw(const braid_draw *draw, braid_shape *out) {
  size_t all;
  const braid_sample *sample = &braid_samples(&all)[draw->sample];
  char letters[26];
  uint32_t count = list_letters(sample->inputs, letters);
  source s = {.draw = draw};
  pattern p = {0};
  *out = (braid_shape){0};
  for (uint32_t i = 0; i < 26; i++) out->letters[i] = -1;
  if (!braid_sample_broadcasts(sample)) {
    sweep_letters(&s, letters, count, out->letters);
    return;
  }
  for (uint32_t i = 0; i < count; i++) out->letters[letters[i] - 'a'] = 1 + below(&s, 5);
  if (draw->shape < count_patterns(sample->inputs) - kDrawnLeads)
    list_pattern(&s, sample->inputs, &p);
  else
    draw_pattern(&s, sample->inputs, &p);
  place_leads(sample->inputs, &p, out);
}
