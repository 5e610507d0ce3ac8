/* Designs of the overlay (braid/overlay.h): their figures, as files have them. */
#ifndef BRAID_OVERLAY_DESIGN_H
#define BRAID_OVERLAY_DESIGN_H

#include "braid/overlay.h"

/* The figures of a design, each a member of it and a key of its file with a value and a source.
 * X(name, kind, whole, least, most, text)
 * kind: which designs have it: EVERY, CONVOLUTIONAL, RECURRENT, or MAYBE: every one may, else it is NAN. Bounds are
 * those of the instructions' fields (docs/isa.md), where these have some. */
#define BRAID_OVERLAY_FIGURE_LIST(X)                                                                                   \
  X(cores, EVERY, true, 1, BRAID_OVERLAY_MOST_CORES, "cores")                                                          \
  X(clock_mhz, EVERY, false, 1, 10000, "clock, MHz")                                                                   \
  X(pixels, CONVOLUTIONAL, true, 1, 1024, "PP, rows of a result at once")                                              \
  X(channels_in, CONVOLUTIONAL, true, 1, 1024, "ICP, channels of the input at once")                                   \
  X(channels_out, CONVOLUTIONAL, true, 1, 1024, "OCP, channels of the result at once")                                 \
  X(side_bytes, CONVOLUTIONAL, true, 1, 65536, "bytes that MISC takes in a cycle")                                     \
  X(rows, RECURRENT, true, 1, 1024, "HP, rows of a matrix at once")                                                    \
  X(columns, RECURRENT, true, 1, 1024, "WP, columns of a matrix at once")                                              \
  X(side_numbers, RECURRENT, true, 1, 65536, "numbers that ELE takes in a cycle")                                      \
  X(feature_bytes, CONVOLUTIONAL, true, 16, 16777216, "memory of a core for feature maps, bytes")                      \
  X(weight_bytes, EVERY, true, 16, 16777216, "memory of a core for weights, bytes")                                    \
  X(bias_bytes, EVERY, true, 16, 1048576, "memory of a core for biases, bytes")                                        \
  X(sum_bytes, EVERY, true, 16, 16777216, "memory of a core for sums, bytes")                                          \
  X(vector_bytes, RECURRENT, true, 16, 262144, "memory of a tenant for vectors, bytes")                                \
  X(queue_depth, EVERY, true, 1, 65536, "instructions that wait before a module")                                      \
  X(instruction_bytes, EVERY, true, 16, 1073741824, "memory of the card for instructions, bytes")                      \
  X(port_bits, EVERY, true, 128, 8192, "port of a core, bits")                                                         \
  X(bank_bits, EVERY, true, 128, 8192, "port of a bank, bits")                                                         \
  X(banks, EVERY, true, 1, BRAID_OVERLAY_MOST_BANKS, "banks of DDR")                                                   \
  X(bank_bytes, EVERY, true, 16, 1099511627776, "bytes of a bank")                                                     \
  X(burst_bytes, EVERY, true, 16, 4096, "burst that requests are split into, bytes")                                   \
  X(outstanding, EVERY, true, 1, 64, "bursts of a port under way")                                                     \
  X(latency_cycles, EVERY, true, 0, 100000, "cycles to the first byte of a burst")                                     \
  X(efficiency, EVERY, false, 0.01, 1, "share of a bank's cycles that carry data")                                     \
  X(host_gigabytes_per_second, EVERY, false, 0.001, 1000, "from the host, GB/s")                                       \
  X(host_latency_us, EVERY, false, 0, 1000000, "latency from the host, microseconds")                                  \
  X(idle_watts, MAYBE, false, 0, 10000, "power without work, W")                                                       \
  X(picojoules_per_operation, MAYBE, false, 0, 1000000, "energy of an operation, pJ")                                  \
  X(picojoules_per_ddr_byte, MAYBE, false, 0, 1000000, "energy of a byte to or from DDR, pJ")

/* Files of the source tree that the build puts into the library (cmake/embed.cmake). */
typedef struct braid_overlay_file {
  const char *name; /* without its ending */
  const char *text;
  size_t bytes;
} braid_overlay_file;
extern const braid_overlay_file braid_overlay_design_files[];
extern const size_t braid_overlay_design_file_count;
/* Networks of the evaluation, from models/. */
extern const braid_overlay_file braid_overlay_network_files[];
extern const size_t braid_overlay_network_file_count;

#endif
