/* Files that a command reads and writes: what is written replaces none of them, nor another one that is written. */
#ifndef BRAID_CLI_FILES_H
#define BRAID_CLI_FILES_H

#include "cli.h"

typedef struct cli_file {
  const char *what, *path; /* "the model", or the option that has it; path NULL: there is none */
  bool written;
} cli_file;
/* INVALID_ARGUMENT: two are one file, whatever their paths are, and one of them is written. Devices and pipes may be
 * named twice. */
braid_status cli_check_files(const cli_file *files, size_t count);
/* The design as one, if it is a file and not of the library. */
cli_file cli_design_file(const char *design);

#endif
