#include "backend/manycore/sw26010.h"

#include <math.h>
#include <stddef.h>

/* [2], Table 2: bandwidths measured on one core group, in GB/s, by the bytes of each run. */
typedef struct bandwidth {
  int64_t bytes;
  double get, put;
} bandwidth;
static const bandwidth kBandwidths[] = {
    {32, 4.31, 2.56},    {64, 9.00, 9.20},     {128, 17.25, 18.83},  {192, 17.94, 19.82},
    {256, 22.44, 25.80}, {384, 22.88, 24.67},  {512, 27.42, 30.34},  {576, 25.96, 28.91},
    {640, 29.05, 32.00}, {1024, 29.79, 33.44}, {2048, 31.32, 35.19}, {4096, 32.05, 36.01},
};
enum { kCount = sizeof kBandwidths / sizeof *kBandwidths };

/* Between two measured sizes on a line; below the smallest a run takes as long as that one; above the largest it is as
 * fast. */
static double bandwidth_at(int64_t run_bytes, bool put) {
  const bandwidth *b = kBandwidths;
  if (run_bytes <= b[0].bytes) return (put ? b[0].put : b[0].get) * (double)run_bytes / (double)b[0].bytes;
  size_t i = 1;
  while (i < kCount && b[i].bytes < run_bytes) i++;
  if (i == kCount) return put ? b[kCount - 1].put : b[kCount - 1].get;
  double part = (double)(run_bytes - b[i - 1].bytes) / (double)(b[i].bytes - b[i - 1].bytes);
  double low = put ? b[i - 1].put : b[i - 1].get, high = put ? b[i].put : b[i].get;
  return low + part * (high - low);
}

static double transfer_cycles(double bytes, int64_t run_bytes, int cores, bool put) {
  if (bytes <= 0) return 0;
  int sharers = cores > BRAID_SW26010_CORES ? cores : BRAID_SW26010_CORES;
  double own = bandwidth_at(run_bytes < 1 ? 1 : run_bytes, put) * 1e9 / sharers;
  return bytes / own * BRAID_SW26010_HERTZ;
}

double braid_sw26010_get_cycles(double bytes, int64_t run_bytes, int parts, int cores) {
  double part = parts > 1 ? bytes / parts : bytes;
  return transfer_cycles(part, (double)run_bytes > part ? (int64_t)ceil(part) : run_bytes, cores, false);
}

double braid_sw26010_put_cycles(double bytes, int64_t run_bytes, int cores) {
  return transfer_cycles(bytes, run_bytes, cores, true);
}

double braid_sw26010_share_cycles(double bytes) {
  return bytes / 16;
}

/* Sums of a block stay in registers: up to 4 rows by 4 vectors, 16 of the 32 registers. For each step of the inner
 * dimension a block takes a multiply-add per sum, beside them the loads of its row numbers and of its vectors, and
 * never less than the latency of a sum. */
static double block_cycles(int64_t rows, int64_t vectors, int64_t inner) {
  double sums = (double)(rows * vectors), loads = (double)(rows + vectors);
  double cycles = sums > loads ? sums : loads;
  if (cycles < BRAID_SW26010_LATENCY) cycles = BRAID_SW26010_LATENCY;
  return cycles * (double)inner + 2 * sums; /* sums are loaded before, and stored after it */
}

double braid_sw26010_product_cycles(int64_t rows, int64_t columns, int64_t inner) {
  int64_t vectors = (columns + BRAID_SW26010_LANES - 1) / BRAID_SW26010_LANES;
  int64_t whole_rows = rows / 4, rest_rows = rows % 4, whole = vectors / 4, rest = vectors % 4;
  double cycles = (double)(whole_rows * whole) * block_cycles(4, 4, inner);
  if (rest) cycles += (double)whole_rows * block_cycles(4, rest, inner);
  if (rest_rows) cycles += (double)whole * block_cycles(rest_rows, 4, inner);
  if (rest && rest_rows) cycles += block_cycles(rest_rows, rest, inner);
  return cycles;
}

double braid_sw26010_pass_cycles(double vectors, double accesses, double arithmetic) {
  return vectors * (accesses > arithmetic ? accesses : arithmetic);
}

double braid_sw26010_management_seconds(double operations, double bytes, bool vectors) {
  double rate = (vectors ? BRAID_SW26010_MANAGEMENT_MACS : BRAID_SW26010_MANAGEMENT_SCALAR) * BRAID_SW26010_HERTZ;
  double computing = operations / rate, moving = bytes / BRAID_SW26010_MANAGEMENT_BYTES;
  return computing > moving ? computing : moving;
}
