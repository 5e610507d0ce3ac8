/* A graph drawn as SVG, for `braid inspect --svg`. */
#ifndef BRAID_CLI_DRAWING_H
#define BRAID_CLI_DRAWING_H

#include "cli.h"

/* Writes the file atomically. */
braid_status drawing_write(const braid_graph *graph, const char *path);

#endif
