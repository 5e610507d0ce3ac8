/* Training steps of the network of Luo et al. (2020), Table 2, at batch 128, measured on this machine. */
#ifndef BRAID_CLI_MEASUREMENT_H
#define BRAID_CLI_MEASUREMENT_H

#include "cli.h"

typedef struct cli_measurement {
  const char *name;
  double ms;           /* median of a step; NAN: not measured */
  const char *why_not; /* where it is not */
  int threads;
} cli_measurement;

enum { CLI_MEASURED_FLOAT, CLI_MEASURED_INT8, CLI_MEASURED_PYTORCH, CLI_MEASUREMENTS };
/* Nothing is measured, and why. */
void cli_measurements_init(cli_measurement out[CLI_MEASUREMENTS]);
/* Measures what there is. threads 0: as many as the process may use; `python`: an interpreter that has PyTorch, NULL:
 * none. CANCELLED after Ctrl-C. */
braid_status cli_measure_steps(int threads, int steps, const char *python, cli_measurement out[CLI_MEASUREMENTS]);

#endif
