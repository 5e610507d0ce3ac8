/* What the files of `braid explore kernel` share. */
#ifndef BRAID_CLI_KERNELS_H
#define BRAID_CLI_KERNELS_H

#include "braid/explore.h"
#include "table.h"

enum { CLI_KERNEL_FILES = 256 };
#define CLI_KERNEL_CHIP "stratix10-gx2500" /* the paper's */
#define CLI_KERNEL_CLOCK 1000.0            /* MHz; of a device whose clock no configuration changes */

typedef struct cli_kernel_choices {
  int64_t values[BRAID_KERNEL_CHOICES];
  size_t count; /* 0: not given */
} cli_kernel_choices;

typedef struct cli_kernel_report { /* of one configuration, by a vendor's tool */
  const char *path;
  int64_t units, simd, unroll;
} cli_kernel_report;

typedef struct cli_kernel_options {
  cli_common common;
  const char *op, *size, *chip, *device;
  braid_kernel_problem problem;
  double work;
  const char *tables[CLI_KERNEL_FILES];
  cli_kernel_report reports[CLI_KERNEL_FILES];
  size_t table_count, report_count;
  cli_kernel_choices units, simd, groups;
  int64_t most_unroll, top, kernels, runs; /* 0: not given */
  double clock;                            /* 0: not given */
  bool model;
} cli_kernel_options;

/* "MatMul 2048x1024x1024" */
char *cli_kernel_title(const cli_kernel_options *options, char *buffer, size_t bytes);
/* A latency indicator with at least three digits. */
void cli_kernel_add_indicator(cli_table *table, double li);
void cli_kernel_json_head(cli_json *json, const cli_kernel_options *options);
void cli_kernel_json_design(cli_json *json, const braid_kernel_design *design);

/* Ranks the space by the indicator, and prints it. `table` may be empty. */
braid_status cli_kernel_search(const cli_kernel_options *options, const braid_fmax_table *table);
/* Builds and measures configurations on options->device, and prints how the two rankings agree. */
braid_status cli_kernel_measure(const cli_kernel_options *options, const braid_fmax_table *table);

/* `braid explore kernel`: argv[0] is its title. */
int cli_explore_kernel(int argc, char **argv);

#endif
