#include "overlay/sim/memory.h"

#include <math.h>

enum { kLine = 16, kPorts = 3 * BRAID_OVERLAY_MOST_CORES, kMostOutstanding = 64 };

/* A bank's time is counted in parts of a cycle, since a burst may take less than one; what a burst takes is rounded up,
 * so that no bank gives more than its design says. */
enum { kParts = 1 << 16 };

/* What a port wants of a bank, oldest first. */
typedef struct waiting {
  uint32_t bytes[kMostOutstanding];
  uint8_t first, count;
} waiting;

typedef struct port {
  braid_transfer left; /* what is not asked for yet: of the current row `lines` from `first` on */
  uint64_t plane_start, row_start;
  int64_t lines_of_row, rows_of_plane;
  int first_bank, banks;
  int outstanding;
  uint64_t free_at; /* when its wires have carried what was asked for */
  bool moves;       /* a transfer that was not cancelled */
  bool wakes;       /* an event for its gate is under way */
  bool yields;      /* the gate opens, and it lets the core's others go first */
} port;

/* Of a core: its ports ask for bursts at a rate. */
typedef struct gate {
  uint32_t bytes;    /* in 1,024 cycles; 0: always open */
  uint32_t epoch;    /* counts the gates that the core had: an event of another one means nothing */
  uint32_t last;     /* the port that passed */
  uint64_t owner;    /* whose it is */
  uint64_t opens_at; /* in parts of a cycle */
} gate;

typedef struct bank {
  waiting ports[kPorts];
  uint64_t mask[kPorts / 64]; /* ports that wait */
  uint32_t last[2];           /* the port that had its turn: of those without a gate, with one */
  uint64_t free_at, busy;     /* in parts */
  bool wakes;                 /* an event for its being free is under way */
} bank;

struct braid_memory {
  const braid_allocator *allocator;
  const braid_overlay_design *design;
  braid_event_queue *queue;
  double bank_bytes; /* in a cycle */
  uint64_t port_bytes;
  int64_t burst_lines;
  port ports[kPorts];
  gate gates[BRAID_OVERLAY_MOST_CORES];
  uint64_t gated[kPorts / 64]; /* ports that have one */
  bank *banks;
};

braid_status braid_memory_create(const braid_overlay_design *design, const braid_allocator *allocator,
                                 braid_event_queue *queue, braid_memory **out) {
  *out = NULL;
  braid_memory *made = braid_zalloc(allocator, sizeof *made);
  bank *banks = made ? braid_zalloc_array(allocator, (size_t)design->banks, sizeof *banks) : NULL;
  if (!banks) {
    braid_free(allocator, made);
    return BRAID_NO_MEMORY;
  }
  made->allocator = allocator;
  made->design = design;
  made->queue = queue;
  made->banks = banks;
  made->port_bytes = (uint64_t)design->port_bits / 8;
  made->bank_bytes = design->bank_bits / 8.0 * design->efficiency;
  made->burst_lines = design->burst_bytes / kLine;
  *out = made;
  return BRAID_OK;
}

void braid_memory_destroy(braid_memory *memory) {
  if (!memory) return;
  braid_free(memory->allocator, memory->banks);
  braid_free(memory->allocator, memory);
}

/* --- banks ---------------------------------------------------------------------------------------------------------
 */
/* The next port of those, behind the last one, that waits; there is one. */
static uint32_t next_of(const uint64_t *waits, uint32_t last) {
  for (uint32_t i = 1; i <= kPorts; i++) {
    uint32_t p = (last + i) % kPorts;
    uint64_t word = waits[p / 64] >> p % 64;
    if (!word) {
      i += 63 - p % 64; /* none is left in this word */
      continue;
    }
    return (last + i + (uint32_t)__builtin_ctzll(word)) % kPorts;
  }
  return last;
}

/* Ports take turns, those with gates before others: gates keep them to what they were promised, and so a bank has it
 * for them whatever others ask for. */
static uint32_t next_turn(const braid_memory *m, bank *b) {
  uint64_t promised[kPorts / 64], any = 0;
  for (size_t i = 0; i < kPorts / 64; i++) any |= promised[i] = b->mask[i] & m->gated[i];
  return b->last[any != 0] = next_of(any ? promised : b->mask, b->last[any != 0]);
}

static bool any_waits(const bank *b) {
  uint64_t all = 0;
  for (size_t i = 0; i < kPorts / 64; i++) all |= b->mask[i];
  return all != 0;
}

/* The bytes of a read arrive `latency` after the bank has given them; of writes it is the answer that does, when the
 * bank has taken them. A burst is done when the slower of wires and bank is. */
static void serve(braid_memory *m, uint32_t index, uint64_t now) {
  bank *b = &m->banks[index];
  while (any_waits(b)) {
    if (b->free_at >= (now + 1) * kParts) {
      if (!b->wakes) braid_event_queue_add(m->queue, b->free_at / kParts, BRAID_EVENT_BANK, index, 0);
      b->wakes = true;
      return;
    }
    uint32_t turn = next_turn(m, b);
    waiting *w = &b->ports[turn];
    uint64_t bytes = w->bytes[w->first], latency = (uint64_t)m->design->latency_cycles;
    w->first = (uint8_t)((w->first + 1) % kMostOutstanding);
    if (--w->count == 0) b->mask[turn / 64] &= ~((uint64_t)1 << turn % 64);
    if (b->free_at < now * kParts) b->free_at = now * kParts;
    uint64_t takes = (uint64_t)ceil((double)bytes * kParts / m->bank_bytes);
    b->free_at += takes;
    b->busy += takes;
    bool fetches = turn >= BRAID_MEMORY_FETCH, writes = !fetches && turn % 2;
    port *wires = &m->ports[fetches ? 2 * (turn - BRAID_MEMORY_FETCH) : turn];
    uint64_t later = writes ? 0 : latency, given = (b->free_at + kParts - 1) / kParts + later;
    if (wires->free_at < now + later) wires->free_at = now + later;
    wires->free_at += (bytes + m->port_bytes - 1) / m->port_bytes;
    uint64_t done = (wires->free_at > given ? wires->free_at : given) + (writes ? latency : 0);
    braid_event_queue_add(m->queue, done, BRAID_EVENT_BURST, turn, 0);
  }
}

uint64_t braid_memory_bank_busy(const braid_memory *m, uint32_t index) {
  return m->banks[index].busy / kParts;
}

void braid_memory_bank_free(braid_memory *m, uint32_t index, uint64_t now) {
  m->banks[index].wakes = false;
  serve(m, index, now);
}

/* --- ports ---------------------------------------------------------------------------------------------------------
 */
/* Takes the next burst off what is left; it lies in one block of a bank. */
static int64_t cut_burst(const braid_memory *m, port *p, uint32_t *bank_index) {
  braid_transfer *left = &p->left;
  int64_t block = m->burst_lines, room = block - (int64_t)(left->first % (uint64_t)block);
  int64_t lines = left->lines < room ? left->lines : room;
  *bank_index = (uint32_t)p->first_bank + (uint32_t)(left->first / (uint64_t)block % (uint64_t)p->banks);
  left->first += (uint64_t)lines;
  left->lines -= lines;
  if (left->lines) return lines;
  if (--left->rows) {
    p->row_start += (uint64_t)left->row_pitch;
  } else if (--left->planes) {
    p->plane_start += (uint64_t)left->plane_pitch;
    p->row_start = p->plane_start;
    left->rows = p->rows_of_plane;
  } else {
    return lines;
  }
  left->first = p->row_start;
  left->lines = p->lines_of_row;
  return lines;
}

static uint32_t core_of(uint32_t index) {
  return index < BRAID_MEMORY_FETCH ? index / 2 : index - BRAID_MEMORY_FETCH;
}

/* Whether the port may ask for a burst now; if not, it is told when. */
static bool gate_is_open(braid_memory *m, uint32_t index, uint64_t now) {
  const gate *g = &m->gates[core_of(index)];
  port *p = &m->ports[index];
  if (!g->bytes || g->opens_at < (now + 1) * kParts) return true;
  if (!p->wakes) braid_event_queue_add(m->queue, g->opens_at / kParts, BRAID_EVENT_GATE, index, g->epoch);
  p->wakes = true;
  return false;
}

/* A burst passes: the next one has to wait for as long as this one takes at the gate's rate. */
static void pass_gate(braid_memory *m, uint32_t index, uint64_t bytes, uint64_t now) {
  gate *g = &m->gates[core_of(index)];
  if (!g->bytes) return;
  if (g->opens_at < now * kParts) g->opens_at = now * kParts;
  g->opens_at += bytes * 1024 * kParts / g->bytes;
  g->last = index;
}

static void issue(braid_memory *m, uint32_t index, uint64_t now) {
  port *p = &m->ports[index];
  int most = m->design->outstanding < kMostOutstanding ? m->design->outstanding : kMostOutstanding;
  while (p->outstanding < most && p->left.lines && gate_is_open(m, index, now)) {
    uint32_t at;
    int64_t lines = cut_burst(m, p, &at);
    pass_gate(m, index, (uint64_t)(lines * kLine), now);
    bank *b = &m->banks[at];
    waiting *w = &b->ports[index];
    w->bytes[(w->first + w->count++) % kMostOutstanding] = (uint32_t)(lines * kLine);
    b->mask[index / 64] |= (uint64_t)1 << index % 64;
    p->outstanding++;
    serve(m, at, now);
  }
}

void braid_memory_start(braid_memory *m, uint32_t index, const braid_transfer *transfer, int first_bank, int banks,
                        uint64_t now) {
  port *p = &m->ports[index];
  braid_transfer t = *transfer;
  if (t.row_pitch == t.lines) t.lines *= t.rows, t.rows = 1;
  if (t.rows == 1 && t.plane_pitch == t.lines) t.lines *= t.planes, t.planes = 1;
  p->left = t;
  p->plane_start = p->row_start = t.first;
  p->lines_of_row = t.lines;
  p->rows_of_plane = t.rows;
  p->first_bank = first_bank;
  p->banks = banks;
  p->moves = true;
  issue(m, index, now);
}

enum { kPortsOfCore = 3 };
static uint32_t port_of(uint32_t core, int nth) {
  return nth < 2 ? 2 * core + (uint32_t)nth : BRAID_MEMORY_FETCH + core;
}

static bool another_waits(const braid_memory *m, uint32_t index) {
  for (int i = 0; i < kPortsOfCore; i++) {
    uint32_t other = port_of(core_of(index), i);
    if (other != index && m->ports[other].wakes) return true;
  }
  return false;
}

void braid_memory_gate(braid_memory *m, int core, uint32_t bytes, uint64_t owner, uint64_t now) {
  const gate *before = &m->gates[core];
  bool same = owner && owner == before->owner && before->opens_at > now * kParts;
  m->gates[core] = (gate){
      .bytes = bytes, .epoch = before->epoch + 1, .owner = owner, .opens_at = same ? before->opens_at : now * kParts};
  for (int i = 0; i < kPortsOfCore; i++) {
    uint32_t index = port_of((uint32_t)core, i);
    m->ports[index].wakes = m->ports[index].yields = false;
    m->gated[index / 64] &= ~((uint64_t)1 << index % 64);
    if (bytes) m->gated[index / 64] |= (uint64_t)1 << index % 64;
  }
}

/* The ports of a core take turns at its gate. */
void braid_memory_gate_opens(braid_memory *m, uint32_t index, uint32_t epoch, uint64_t now) {
  port *p = &m->ports[index];
  const gate *g = &m->gates[core_of(index)];
  if (g->epoch != epoch) return;
  if (!p->yields && g->last == index && another_waits(m, index)) {
    p->yields = true;
    braid_event_queue_add(m->queue, now, BRAID_EVENT_GATE, index, epoch);
    return;
  }
  p->wakes = p->yields = false;
  issue(m, index, now);
}

void braid_memory_cancel(braid_memory *m, uint32_t index) {
  m->ports[index].left = (braid_transfer){0};
  m->ports[index].moves = false;
}

bool braid_memory_burst_done(braid_memory *m, uint32_t index, uint64_t now) {
  port *p = &m->ports[index];
  p->outstanding--;
  issue(m, index, now);
  if (!p->moves || p->outstanding || p->left.lines) return false;
  p->moves = false;
  return true;
}
