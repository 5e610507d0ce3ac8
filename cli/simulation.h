/* Simulations of packages of the overlay, and of clusters, for `braid simulate`. */
#ifndef BRAID_CLI_SIMULATION_H
#define BRAID_CLI_SIMULATION_H

#include "cli.h"

typedef struct cli_simulation {
  const char *package, *design;
  int cores; /* 0: as many as the design has */
  bool all;  /* a table of 1, 2, 4 ... cores */
  bool check, json;
  const char *timeline, *trace;    /* files to write, or NULL */
  int steps;                       /* of a recurrent network's sequences; 0: the package's */
  cli_assignments inputs, outputs; /* .npy files, by the names of ports */
} cli_simulation;
/* Simulates, computes and prints what was asked for. */
braid_status cli_simulate_package(const cli_simulation *how);

/* braid simulate cluster: argv begins with it. */
int cli_simulate_cluster(int argc, char **argv);

#endif
