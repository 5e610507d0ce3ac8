/* The timing simulator, which goes from event to event, against plain loops that look at every cycle: a core that
 * loads, computes, pools and waits, with instructions that are there or fetched, in random programs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "overlay/sim/timing_fixture.h"

enum { kMostBursts = 4096, kMostCycles = 400000, kParts = 1 << 16 };

/* What a port asked for: `left` bursts of `bytes`, the last one shorter. */
typedef struct reader {
  int64_t lines;    /* not asked for */
  uint64_t first;   /* line of the next burst */
  int under_way;    /* asked for and not there */
  int64_t asked[8]; /* lines of bursts that wait for the bank, oldest first */
  int waiting;
} reader;

typedef struct plain {
  const braid_overlay_design *design;
  const program *p;
  uint64_t now;
  size_t next;
  uint64_t handed_out_at; /* the instruction before `next` comes to its module, or stands as SYSTEM */
  bool coming, stands;
  uint64_t goes_on_at; /* behind sync */
  size_t queues[BRAID_ISA_MODULES][64];
  int waiting[BRAID_ISA_MODULES], tokens[BRAID_ISA_MODULES][BRAID_ISA_MODULES];
  bool busy[BRAID_ISA_MODULES];
  size_t runs[BRAID_ISA_MODULES];
  uint64_t until[BRAID_ISA_MODULES];
  reader ports[2]; /* of LOAD, of instructions: both over the same wires */
  int last_port;
  uint64_t bank_free, wires_free; /* in parts of a cycle; in cycles */
  struct {
    uint64_t at;
    int port;
  } arrivals[kMostBursts];
  int arriving;
  uint64_t instruction_lines, taken, there, on_their_way; /* fetched; lines */
  bool fetches, ended, failed;
} plain;

static int words_of(const braid_instruction *in) {
  return braid_isa_form_of(in->opcode)->words;
}

static bool idle(const plain *s) {
  for (int m = 0; m < BRAID_ISA_MODULES; m++)
    if (s->busy[m] || s->waiting[m]) return false;
  return true;
}

/* --- the bank ------------------------------------------------------------------------------------------------------
 */
static bool ask(plain *s) {
  bool moved = false;
  int64_t block = s->design->burst_bytes / 16;
  for (int p = 0; p < 2; p++) {
    reader *r = &s->ports[p];
    while (r->lines && r->under_way < s->design->outstanding) {
      int64_t room = block - (int64_t)(r->first % (uint64_t)block), lines = r->lines < room ? r->lines : room;
      r->asked[r->waiting++] = lines;
      r->first += (uint64_t)lines;
      r->lines -= lines;
      r->under_way++;
      moved = true;
    }
  }
  return moved;
}

static bool serve_bank(plain *s) {
  if (s->bank_free >= (s->now + 1) * kParts || !(s->ports[0].waiting + s->ports[1].waiting)) return false;
  int p = s->ports[1 - s->last_port].waiting ? 1 - s->last_port : s->last_port;
  reader *r = &s->ports[p];
  uint64_t bytes = (uint64_t)r->asked[0] * 16, starts = s->now + (uint64_t)s->design->latency_cycles;
  memmove(r->asked, r->asked + 1, sizeof r->asked - sizeof *r->asked);
  r->waiting--;
  s->last_port = p;
  if (s->bank_free < s->now * kParts) s->bank_free = s->now * kParts;
  s->bank_free += (uint64_t)ceil((double)bytes * kParts / (s->design->bank_bits / 8.0 * s->design->efficiency));
  uint64_t given = (s->bank_free + kParts - 1) / kParts + (uint64_t)s->design->latency_cycles;
  if (s->wires_free < starts) s->wires_free = starts;
  s->wires_free += (bytes + 15) / 16;
  assert_true(s->arriving < kMostBursts);
  s->arrivals[s->arriving].at = s->wires_free > given ? s->wires_free : given;
  s->arrivals[s->arriving++].port = p;
  return true;
}

static bool receive(plain *s) {
  for (int i = 0; i < s->arriving; i++) {
    if (s->arrivals[i].at != s->now) continue;
    int p = s->arrivals[i].port;
    s->arrivals[i] = s->arrivals[--s->arriving];
    s->ports[p].under_way--;
    if (p == 1 && !s->ports[1].under_way && !s->ports[1].lines) {
      s->there += s->on_their_way;
      s->on_their_way = 0;
    }
    return true;
  }
  return false;
}

static bool fetch(plain *s) {
  uint64_t part = (uint64_t)s->design->instruction_bytes / 16, burst = (uint64_t)s->design->burst_bytes / 16;
  uint64_t lines = part / 2 < burst ? part / 2 : burst, asked = s->there + s->on_their_way;
  if (!s->fetches || s->on_their_way || asked == s->instruction_lines) return false;
  if (lines > s->instruction_lines - asked) lines = s->instruction_lines - asked;
  if (lines > burst - asked % burst) lines = burst - asked % burst;
  if (s->there - s->taken + lines > part) return false;
  s->on_their_way = lines;
  s->ports[1].lines = (int64_t)lines;
  s->ports[1].first = asked;
  return true;
}

/* --- the core ------------------------------------------------------------------------------------------------------
 */
static bool start(plain *s, int m) {
  if (s->busy[m] || !s->waiting[m]) return false;
  size_t at = s->queues[m][0];
  const braid_instruction *in = &s->p->items[at];
  for (int from = 0; from < BRAID_ISA_MODULES; from++)
    if (in->wait >> from & 1 && !s->tokens[from][m]) return false;
  for (int from = 0; from < BRAID_ISA_MODULES; from++) s->tokens[from][m] -= in->wait >> from & 1;
  memmove(s->queues[m], s->queues[m] + 1, sizeof s->queues[m] - sizeof s->queues[m][0]);
  s->waiting[m]--;
  s->busy[m] = true;
  s->runs[m] = at;
  if (m == BRAID_ISA_IN)
    s->ports[0].lines = in->load.lines, s->ports[0].first = 0;
  else
    s->until[m] = s->now + braid_timing_cycles(s->design, in);
  return true;
}

static bool finish(plain *s, int m) {
  bool moves = m == BRAID_ISA_IN;
  if (!s->busy[m] || (moves ? s->ports[0].lines || s->ports[0].under_way : s->until[m] > s->now)) return false;
  s->busy[m] = false;
  for (int to = 0; to < BRAID_ISA_MODULES; to++) s->tokens[m][to] += s->p->items[s->runs[m]].signal >> to & 1;
  return true;
}

static bool system_passes(plain *s) {
  if (!s->stands) return false;
  const braid_instruction *in = &s->p->items[s->next - 1];
  if (!braid_isa_is_tile(in) && !idle(s)) return false;
  s->stands = false;
  if (braid_isa_is_tile(in)) return true;
  for (int a = 0; a < BRAID_ISA_MODULES; a++)
    for (int b = 0; b < BRAID_ISA_MODULES; b++) s->failed = s->failed || s->tokens[a][b];
  s->ended = !s->failed && in->system.end;
  if (in->system.sync) s->goes_on_at = s->now + 2;
  return true;
}

static bool hand_out(plain *s) {
  if (s->coming && s->handed_out_at == s->now) {
    braid_isa_module m = braid_isa_form_of(s->p->items[s->next - 1].opcode)->module;
    if (m == BRAID_ISA_DISPATCH)
      s->stands = true;
    else
      s->queues[m][s->waiting[m]++] = s->next - 1;
    s->coming = false;
    return true;
  }
  if (s->coming || s->stands || s->next == s->p->count || s->goes_on_at > s->now) return false;
  const braid_instruction *in = &s->p->items[s->next];
  braid_isa_module m = braid_isa_form_of(in->opcode)->module;
  if (m != BRAID_ISA_DISPATCH && s->waiting[m] >= s->design->queue_depth) return false;
  if (s->fetches && s->there < s->taken + (uint64_t)words_of(in)) return false;
  if (s->fetches) s->taken += (uint64_t)words_of(in);
  s->next++;
  s->coming = true;
  s->handed_out_at = s->now + (uint64_t)words_of(in);
  return true;
}

/* The cycle at which the program ends; 0: it fails, or nothing moves for longer than anything can take. */
static uint64_t run_plain(const braid_overlay_design *d, const program *p, bool fetches) {
  static plain s;
  memset(&s, 0, sizeof s);
  s.design = d;
  s.p = p;
  s.fetches = fetches;
  s.last_port = 1;
  for (size_t i = 0; i < p->count; i++) s.instruction_lines += (uint64_t)words_of(&p->items[i]);
  for (uint64_t still = 0; !s.ended && !s.failed && still < 5000; s.now++, still++) {
    assert_true(s.now < kMostCycles);
    for (bool moved = true; moved && !s.ended && !s.failed;) {
      moved = receive(&s);
      for (int m = 0; m < BRAID_ISA_MODULES; m++) moved = finish(&s, m) || moved;
      for (int m = 0; m < BRAID_ISA_MODULES; m++) moved = start(&s, m) || moved;
      moved = system_passes(&s) || moved;
      if (!s.ended && !s.failed) moved = hand_out(&s) || moved;
      moved = fetch(&s) || moved;
      moved = ask(&s) || moved;
      moved = serve_bank(&s) || moved;
      if (moved) still = 0;
    }
    if (s.ended) return s.now;
  }
  return 0;
}

/* --- programs ------------------------------------------------------------------------------------------------------
 */
static void draw_step(program *p, int module, int take, int give) {
  if (module == BRAID_ISA_IN) {
    int most = DRAW(4) ? 60 : 1000;
    add_move(p, false, 1 + DRAW(most), take, give);
  } else if (module == BRAID_ISA_COMPUTE) {
    add_conv(p, take, give)->conv.output_columns = 1 + DRAW(8);
  } else {
    braid_instruction *in = add(p, BRAID_ISA_OP_MISC, take, give);
    in->misc.function = BRAID_ISA_COPY;
    in->misc.output_columns = 1 + DRAW(100);
  }
}

/* Takes every token that is there, until none is left. */
static void draw_takers(program *p, int given[BRAID_ISA_MODULES][BRAID_ISA_MODULES]) {
  for (int to = 0; to < BRAID_ISA_MODULES; to++)
    for (int from = 0; from < BRAID_ISA_MODULES; from++)
      for (; given[from][to] && p->count + 2 < kMost; given[from][to]--) draw_step(p, to, 1 << from, 0);
}

/* Most have tokens in balance; some lack one, or leave one. */
static void draw_program(program *p) {
  static const int kModules[] = {BRAID_ISA_IN, BRAID_ISA_COMPUTE, BRAID_ISA_SIDE};
  int given[BRAID_ISA_MODULES][BRAID_ISA_MODULES] = {{0}};
  bool wrong = DRAW(8) == 0;
  p->count = 0;
  for (int k = 2 + DRAW(24); k > 0 && p->count < kMost - 20; k--) {
    int module = kModules[DRAW(3)], other = kModules[DRAW(3)], take = 0;
    if (DRAW(8) == 0) {
      bool sync = DRAW(3) == 0, tile = DRAW(2);
      if (!tile || sync) draw_takers(p, given);
      add_system(p, sync, false, tile);
      continue;
    }
    bool gives = other != module && DRAW(2), takes = DRAW(3) > 0;
    for (int from = 0; from < BRAID_ISA_MODULES; from++) take |= (given[from][module] && takes) << from;
    for (int from = 0; from < BRAID_ISA_MODULES; from++) given[from][module] -= take >> from & 1;
    if (gives) given[module][other]++;
    if (wrong && DRAW(6) == 0) take ^= 1 << kModules[DRAW(3)];
    draw_step(p, module, take & ~(1 << module), gives ? 1 << other : 0);
  }
  draw_takers(p, given);
  add_system(p, false, true, false);
}

/* Two ports that ask the bank in the same cycle are served in either order, so that fetched programs may be a little
 * apart: 3 % is allowed. */
static void test_every_cycle(void **state) {
  (void)state;
  int ended = 0, failed = 0;
  for (int trial = 0; trial < 4000; trial++) {
    static const int kBursts[] = {64, 256, 1024};
    braid_overlay_design d = design_of(1, 1);
    program p;
    d.queue_depth = 1 + DRAW(8);
    d.outstanding = 1 + DRAW(8);
    d.latency_cycles = DRAW(80);
    d.burst_bytes = kBursts[DRAW(3)];
    d.efficiency = (1 + DRAW(10)) / 10.0;
    int most = DRAW(2) ? 20 : 400;
    d.instruction_bytes = 16 * (4 + DRAW(most));
    bool fetches = DRAW(3) > 0;
    draw_program(&p);
    braid_timing *t;
    size_t id, done;
    braid_timing_program own = {0, p.items, p.count, 0};
    braid_timing_task task = {.programs = &own, .core_count = 1, .code = fetches ? (uint64_t[]){1 << 20} : NULL};
    for (size_t s = 0; s < BRAID_TIMING_SEGMENTS; s++) task.ranges[s] = (braid_timing_range){.lines = 1 << 20};
    ok(braid_timing_create(&d, NULL, &t));
    ok(braid_timing_submit(t, &task, &id));
    ok(braid_timing_advance(t, UINT64_MAX, &done));
    braid_timing_result r = braid_timing_get(t, id);
    uint64_t expected = run_plain(&d, &p, fetches), got = r.state == BRAID_TIMING_ENDED ? r.ended : 0;
    uint64_t apart = expected > got ? expected - got : got - expected;
    if (!expected != !got || (apart && !fetches) || apart * 100 > 3 * got)
      fail_msg("trial %d (%s): %llu cycles, expected %llu: %s", trial, fetches ? "fetched" : "there",
               (unsigned long long)got, (unsigned long long)expected, r.why ? r.why : "");
    ended += got > 0;
    failed += got == 0;
    braid_timing_destroy(t);
  }
  if (ended < 2000 || failed < 100) fail_msg("%d ended, %d failed", ended, failed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cycle)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
