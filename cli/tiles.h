/* What `braid explore tiles` and `braid evaluate tiles` share. */
#ifndef BRAID_CLI_TILES_H
#define BRAID_CLI_TILES_H

#include "braid/explore.h"
#include "table.h"

#define CLI_TILES_CLOCK 200.0 /* MHz, the paper's */

/* The positional argument: `tiles`, once. */
error_t cli_tiles_subject(struct argp_state *state, const char *argument, const char **subject);

/* The one step whose time the paper publishes: its network at batch 128, T_B = 128, T_I = 32, 200 MHz, on its chip. */
typedef struct cli_tiles_check {
  braid_tile_result result;
  double macs, published_ms, published_dsps;
} cli_tiles_check;
braid_status cli_tiles_make_check(cli_tiles_check *out);
void cli_tiles_print_check(const cli_tiles_check *check);
void cli_tiles_json_check(cli_json *json, const cli_tiles_check *check);
/* "+5.9%" */
char *cli_tiles_deviation(double value, double from, char *buffer, size_t bytes);

/* A row: T_B, T_I, ms of the step, products, auxiliary, waits, DSPs, BRAMs, LUTs, GB/s, nearest limit. */
void cli_tiles_add_design(cli_table *table, const braid_tile_result *result);
void cli_tiles_json_design(cli_json *json, const char *key, const braid_tile_result *result);
/* The chip's figures with their sources. */
void cli_tiles_make_figures(const braid_chip *chip, cli_table *table);
void cli_tiles_json_chip(cli_json *json, const braid_chip *chip);

#endif
