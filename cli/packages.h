/* Packages of the overlay, for `braid compile`. */
#ifndef BRAID_CLI_PACKAGES_H
#define BRAID_CLI_PACKAGES_H

#include "cli.h"

typedef struct cli_compilation {
  const char *model;   /* a model, or a package (.bpk) */
  const char *design;  /* for a model */
  const char *out;     /* file to write; NULL: none */
  const char *samples; /* of a recurrent network's input, an .npy file; NULL: none */
  double greatest;     /* magnitude of its inputs; 0: not given */
  cli_assignments shapes;
  int cores, steps; /* 0: not given */
  bool disassemble, json;
} cli_compilation;
bool cli_names_package(const char *path); /* it ends in .bpk */
/* Compiles the model, or reads the package; prints what it is, and what some cores take. */
braid_status cli_compile_model(const cli_compilation *how);

#endif
