/* A design of the overlay: what a core can do, how many there are, and what they share. Designs are data
 *. After sections 2.3, 2.4, 4 and 7.1 of Zeng et al. 2021. */
#ifndef BRAID_OVERLAY_DESIGN_H
#define BRAID_OVERLAY_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/allocator.h"
#include "braid/status.h"

enum { BRAID_OVERLAY_MOST_CORES = 64, BRAID_OVERLAY_MOST_BANKS = 16 };

typedef struct braid_overlay_design {
  char *name, *summary;
  bool recurrent; /* cores run MVM and ELE; else CONV and MISC */
  int cores;
  double clock_mhz;

  /* of a core for convolutional networks: multiply-accumulates a cycle are their product (equation 2, half of it) */
  int pixels, channels_in, channels_out; /* PP, ICP, OCP: rows of a result, channels in, channels out at once */
  int side_bytes;                        /* that MISC takes in a cycle */
  /* of a core for recurrent networks (equation 4) */
  int rows, columns; /* HP, WP */
  int side_numbers;  /* that ELE takes in a cycle */

  /* memories of a core, in bytes */
  int64_t feature_bytes, weight_bytes, bias_bytes;
  int64_t sum_bytes;    /* sums that stay from CONV to CONV, or MVM to MVM */
  int64_t vector_bytes; /* for all cores of a tenant */

  int queue_depth;           /* instructions that wait before a module */
  int64_t instruction_bytes; /* that the card keeps of all tenants */

  /* memory of the card */
  int port_bits, bank_bits, banks; /* of a core's port, of a bank's; core c is at bank c * banks / cores */
  int64_t bank_bytes;
  int burst_bytes;    /* what the bus equalizer splits a request into (section 4.3.1) */
  int outstanding;    /* such parts of one port that may be under way */
  int latency_cycles; /* of a part, from its being asked for to its first byte */
  double efficiency;  /* of a bank: the share of its cycles that carry data (equation 6) */
  double host_gigabytes_per_second, host_latency_us; /* from the host to the card: instructions, contexts */

  /* modelled power; NAN: nobody says */
  double idle_watts, picojoules_per_operation, picojoules_per_ddr_byte;
} braid_overlay_design;

#endif
