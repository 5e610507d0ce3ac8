/* The fields of every instruction, in the order in which they stand in its words: the only place that knows them.
 * Encoder, decoder, disassembler, docs/isa.md and the positions of its bits come from these lists.
 *
 * F(name, bits, less, lowest, highest, text): a field of so many bits that holds value - less; values below 0 in two's
 * complement. A line is 16 bytes, the width of a port. Source: sections 2.3, 2.4 and 4.1 of "A Unified FPGA
 * Virtualization Framework for General-Purpose Deep Neural Networks in the Cloud" (Zeng et al. 2021), which names the
 * instructions; their fields are ours. */
#ifndef BRAID_OVERLAY_ISA_FIELDS_H
#define BRAID_OVERLAY_ISA_FIELDS_H

/* Every instruction begins with these. In masks bit 0 is LOAD, 1 SAVE, 2 CONV or MVM, 3 MISC or ELE. */
#define BRAID_ISA_HEADER(F)                                                                                            \
  F(opcode, 4, 0, 1, 7, "which instruction")                                                                           \
  F(core, 6, 0, 0, 63, "index of the tenant's core that runs it")                                                      \
  F(wait, 4, 0, 0, 15, "mask of modules of which it takes a token each before it starts")                              \
  F(signal, 4, 0, 0, 15, "mask of modules that it gives a token each when it is done")

/* Where data lies: planes of rows of lines, apart by pitches. */
#define BRAID_ISA_LOAD(F)                                                                                              \
  F(memory, 2, 0, 0, 3, "memory of the core: 0 features, 1 weights, 2 biases, 3 vectors")                              \
  F(segment, 3, 0, 0, 7, "base register that is added to the address in DDR")                                          \
  F(ddr, 28, 0, 0, (1 << 28) - 1, "first line in DDR")                                                                 \
  F(chip, 20, 0, 0, (1 << 20) - 1, "first line in the memory of the core")                                             \
  F(planes, 12, 1, 1, 1 << 12, "planes")                                                                               \
  F(rows, 12, 1, 1, 1 << 12, "rows of a plane")                                                                        \
  F(lines, 12, 1, 1, 1 << 12, "lines of a row, one after the other")                                                   \
  F(ddr_plane, 24, 0, 0, (1 << 24) - 1, "lines from plane to plane in DDR")                                            \
  F(ddr_row, 20, 0, 0, (1 << 20) - 1, "lines from row to row in DDR")                                                  \
  F(chip_plane, 20, 0, 0, (1 << 20) - 1, "lines from plane to plane in the memory of the core")                        \
  F(chip_row, 14, 0, 0, (1 << 14) - 1, "lines from row to row in the memory of the core")

#define BRAID_ISA_SAVE(F) BRAID_ISA_LOAD(F)

/* A map in the feature memory is planes of 16 channels, of rows of columns; one line is 16 channels of a column. */
#define BRAID_ISA_WINDOW(F)                                                                                            \
  F(input, 20, 0, 0, (1 << 20) - 1, "first line of the input")                                                         \
  F(input_plane, 20, 0, 0, (1 << 20) - 1, "lines from plane to plane of the input")                                    \
  F(input_pitch, 12, 0, 0, (1 << 12) - 1, "lines from row to row of the input")                                        \
  F(input_rows, 10, 0, 0, (1 << 10) - 1, "rows that the input has; others are padding")                                \
  F(input_columns, 12, 0, 0, (1 << 12) - 1, "columns that it has; others are padding")                                 \
  F(first_row, 10, 0, -512, 511, "row under the first row of the window at the first result")                          \
  F(first_column, 10, 0, -512, 511, "column under the first column of the window at the first result")                 \
  F(kernel_rows, 5, 1, 1, 32, "rows of the window")                                                                    \
  F(kernel_columns, 5, 1, 1, 32, "columns of the window")                                                              \
  F(stride_rows, 4, 1, 1, 16, "rows of the input from result to result")                                               \
  F(stride_columns, 4, 1, 1, 16, "columns of the input from result to result")                                         \
  F(dilation_rows, 4, 1, 1, 16, "rows of the input from tap to tap")                                                   \
  F(dilation_columns, 4, 1, 1, 16, "columns of the input from tap to tap")                                             \
  F(output, 20, 0, 0, (1 << 20) - 1, "first line of the result")                                                       \
  F(output_plane, 20, 0, 0, (1 << 20) - 1, "lines from plane to plane of the result")                                  \
  F(output_pitch, 12, 0, 0, (1 << 12) - 1, "lines from row to row of the result")                                      \
  F(output_rows, 10, 1, 1, 1 << 10, "rows of the result; of CONV at most PP")                                          \
  F(output_columns, 12, 1, 1, 1 << 12, "columns of the result")                                                        \
  F(low, 8, 0, -128, 127, "least value of the result; larger than -128 is an activation")                              \
  F(high, 8, 0, -128, 127, "greatest value of the result")

#define BRAID_ISA_CONV(F)                                                                                              \
  BRAID_ISA_WINDOW(F)                                                                                                  \
  F(channels_in, 16, 1, 1, 1 << 16, "channels of the input; with depthwise those of the result")                       \
  F(channels_out, 13, 1, 1, 1 << 13, "channels of the result")                                                         \
  F(weights, 20, 0, 0, (1 << 20) - 1, "first line of the weights")                                                     \
  F(biases, 16, 0, 0, (1 << 16) - 1, "first line of the biases, four to a line")                                       \
  F(depthwise, 1, 0, 0, 1, "1: channel c of the result is of channel c of the input alone")                            \
  F(start, 1, 0, 0, 1, "1: sums begin with the biases; 0: with what the CONV before this one left")                    \
  F(finish, 1, 0, 0, 1, "1: sums become results; 0: they are left for the next CONV")                                  \
  F(shift, 6, 0, 0, 63, "bits by which a sum is shifted right and rounded")                                            \
  F(residual, 1, 0, 0, 1, "1: a map of the result's form is added")                                                    \
  F(round_first, 1, 0, 0, 1,                                                                                           \
    "1: sums are rounded to 8 bits by `shift` before the map is added, and by `add_shift` "                            \
    "after")                                                                                                           \
  F(addend, 20, 0, 0, (1 << 20) - 1, "first line of that map, with the pitches of the result")                         \
  F(sum_left, 5, 0, 0, 31, "bits by which a sum is shifted left before the map is added")                              \
  F(addend_left, 5, 0, 0, 31, "bits by which the map is shifted left before")                                          \
  F(add_shift, 5, 0, 0, 31, "bits by which the total is shifted right and rounded, with round_first")                  \
  F(half_up, 1, 0, 0, 1, "1: where the sum is first rounded, a half goes up")

#define BRAID_ISA_MISC(F)                                                                                              \
  BRAID_ISA_WINDOW(F)                                                                                                  \
  F(function, 2, 0, 0, 3, "0 greatest of the window, 1 its mean, 2 sum of two maps, 3 copy")                           \
  F(groups, 12, 1, 1, 1 << 12, "planes of 16 channels")                                                                \
  F(divisor, 16, 1, 1, 1 << 16, "of the mean: what the window's sum is divided by")                                    \
  F(addend, 20, 0, 0, (1 << 20) - 1, "first line of the second map, with the pitches of the result")                   \
  F(left, 5, 0, 0, 31, "bits by which what is computed is shifted left")                                               \
  F(addend_left, 5, 0, 0, 31, "bits by which the second map is shifted left before")                                   \
  F(shift, 5, 0, 0, 31, "bits by which the total is shifted right and rounded")                                        \
  F(half_up, 1, 0, 0, 1, "1: where the result is rounded, a half goes up")

#define BRAID_ISA_SYSTEM(F)                                                                                            \
  F(sync, 1, 0, 0, 1, "1: raise sync_local, and wait for sync_global")                                                 \
  F(end, 1, 0, 0, 1, "1: the task ends")                                                                               \
  F(tile, 1, 0, 0, 1, "1: the core may be given to another task here")                                                 \
  F(layer, 16, 0, 0, (1 << 16) - 1, "index of the layer, or operator, that ends here")                                 \
  F(back, 1, 0, 0, 1, "of a tile: 1: a core that has saved nothing behind it goes back to it to stop")                 \
  F(repeat_a, 16, 0, 0, (1 << 16) - 1, "of a tile: words from here back to a LOAD that a task which goes on repeats")  \
  F(repeat_b, 16, 0, 0, (1 << 16) - 1, "the same, after it; 0: none")                                                  \
  F(repeat_c, 16, 0, 0, (1 << 16) - 1, "the same, after it; 0: none")                                                  \
  F(repeat_d, 16, 0, 0, (1 << 16) - 1, "the same, after it; 0: none")

/* A vector is lines of eight numbers of 16 bits in the vector memory. */
#define BRAID_ISA_MVM(F)                                                                                               \
  F(weights, 20, 0, 0, (1 << 20) - 1, "first line of the weights")                                                     \
  F(biases, 16, 0, 0, (1 << 16) - 1, "first line of the biases, four to a line")                                       \
  F(input, 14, 0, 0, (1 << 14) - 1, "first line of the vector")                                                        \
  F(output, 14, 0, 0, (1 << 14) - 1, "first line of the result")                                                       \
  F(rows, 16, 1, 1, 1 << 16, "numbers of the result")                                                                  \
  F(columns, 16, 1, 1, 1 << 16, "numbers of the vector")                                                               \
  F(start, 1, 0, 0, 1, "1: sums begin with the biases; 0: with what the MVM before this one left")                     \
  F(finish, 1, 0, 0, 1, "1: sums become results; 0: they are left for the next MVM")                                   \
  F(shift, 6, 0, 0, 63, "bits by which a sum is shifted right and rounded")

#define BRAID_ISA_ELE(F)                                                                                               \
  F(function, 3, 0, 0, 4, "0 sum, 1 product, 2 sigmoid, 3 tanh, 4 copy")                                               \
  F(length, 16, 1, 1, 1 << 16, "numbers of the result")                                                                \
  F(input, 14, 0, 0, (1 << 14) - 1, "first line of the vector")                                                        \
  F(addend, 14, 0, 0, (1 << 14) - 1, "first line of the second one, of sum and product")                               \
  F(output, 14, 0, 0, (1 << 14) - 1, "first line of the result")                                                       \
  F(left, 5, 0, 0, 31, "bits by which the vector is shifted left")                                                     \
  F(addend_left, 5, 0, 0, 31, "bits by which the second one is shifted left; not of product")                          \
  F(shift, 6, 0, 0, 63, "bits by which the total is shifted right and rounded")

/* I(NAME, name, opcode, words of 16 bytes, module, text) */
#define BRAID_ISA_INSTRUCTIONS(I)                                                                                      \
  I(LOAD, load, 1, 2, BRAID_ISA_IN, "moves lines from DDR to a memory of the core")                                    \
  I(SAVE, save, 2, 2, BRAID_ISA_OUT, "moves lines from a memory of the core to DDR")                                   \
  I(CONV, conv, 3, 3, BRAID_ISA_COMPUTE, "convolves up to PP rows of a result; sums have 32 bits")                     \
  I(MISC, misc, 4, 3, BRAID_ISA_SIDE, "pools, adds two maps, or copies one with another scale or an activation")       \
  I(SYSTEM, system, 5, 1, BRAID_ISA_DISPATCH,                                                                          \
    "waits until all modules of the core have nothing left; synchronizes, ends, or may switch")                        \
  I(MVM, mvm, 6, 1, BRAID_ISA_COMPUTE, "multiplies a matrix and a vector; numbers have 16 bits, sums 48")              \
  I(ELE, ele, 7, 1, BRAID_ISA_SIDE, "adds, multiplies, copies vectors of 16 bits, or takes their sigmoid or tanh")

#endif
