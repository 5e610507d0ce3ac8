/* The memory of a card: ports, bus equalizers and banks (section 4.3). A port moves one transfer at a time. */
#ifndef BRAID_OVERLAY_MEMORY_H
#define BRAID_OVERLAY_MEMORY_H

#include "overlay/design.h"
#include "overlay/sim/events.h"

/* Rows of lines in the card's memory. */
typedef struct braid_transfer {
  uint64_t first;
  int64_t planes, rows, lines, plane_pitch, row_pitch;
} braid_transfer;

typedef struct braid_memory braid_memory;

/* Port 2 * core reads, 2 * core + 1 writes, BRAID_MEMORY_FETCH + core reads instructions, over the wires of the first.
 */
enum { BRAID_MEMORY_FETCH = 2 * BRAID_OVERLAY_MOST_CORES };

/* `queue` takes the events. */
BRAID_MUST_CHECK braid_status braid_memory_create(const braid_overlay_design *design, const braid_allocator *allocator,
                                                  braid_event_queue *queue, braid_memory **out);
void braid_memory_destroy(braid_memory *memory); /* NULL is allowed */
/* A task's data are spread over banks first_bank .. first_bank + banks - 1. */
void braid_memory_start(braid_memory *memory, uint32_t port, const braid_transfer *transfer, int first_bank, int banks,
                        uint64_t now);
/* From now on the core's ports together ask for at most so many bytes in 1,024 cycles, and banks serve them before
 * those of cores without a gate; 0: no limit. A gate of the same owner (not 0) goes on where it was. */
void braid_memory_gate(braid_memory *memory, int core, uint32_t bytes, uint64_t owner, uint64_t now);
/* An event of a gate, which may be one that is gone. */
void braid_memory_gate_opens(braid_memory *memory, uint32_t port, uint32_t epoch, uint64_t now);
/* Nothing more is asked for by this port; what is under way comes to its end. */
void braid_memory_cancel(braid_memory *memory, uint32_t port);
/* Cycles for which bursts have kept it, from its creation on. */
uint64_t braid_memory_bank_busy(const braid_memory *memory, uint32_t bank);
void braid_memory_bank_free(braid_memory *memory, uint32_t bank, uint64_t now);
/* Whether the port's transfer is done with this burst. Bursts of one that was cancelled before come first. */
bool braid_memory_burst_done(braid_memory *memory, uint32_t port, uint64_t now);

#endif
