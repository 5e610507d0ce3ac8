/* `braid evaluate hybrid`: the forecasts of Hype-training's evaluation (hybrid.c), and the tables that hold them
 * against what was published (hybrid_tables.c). */
#ifndef BRAID_CLI_HYBRID_H
#define BRAID_CLI_HYBRID_H

#include "braid/planning.h"
#include "table.h"

/* The forecasts of each model. */
enum {
  CLI_HYBRID_ONE,        /* one V100 */
  CLI_HYBRID_THREE,      /* with three Stratix 10, hybrid-energy */
  CLI_HYBRID_THREE_OURS, /* slack-energy */
  CLI_HYBRID_TWO,        /* two V100 */
  CLI_HYBRID_SIX,        /* with six Stratix 10, hybrid-energy */
  CLI_HYBRID_SIX_OURS,
  CLI_HYBRID_1F, /* one V100 with one, two, four Stratix 10; first hybrid-energy, then slack-energy */
  CLI_HYBRID_1F_OURS,
  CLI_HYBRID_2F,
  CLI_HYBRID_2F_OURS,
  CLI_HYBRID_4F,
  CLI_HYBRID_4F_OURS,
  CLI_HYBRID_CAPS, /* under 210, 230, 250 W: one V100 by dvfs, with three Stratix 10 by hybrid-cap */
  CLI_HYBRID_RUNS = CLI_HYBRID_CAPS + 6,
  CLI_HYBRID_VARIATIONS = 7,
  CLI_HYBRID_TABLES = 9,
};
double cli_hybrid_cap(size_t index); /* 0, 1, 2 */

typedef struct cli_hybrid_run {
  const char *platform, *policy;
  braid_forecast_summary summary;
  double gpu_watts, dynamic_watts;  /* on average: of the GPUs; without what all draw doing nothing */
  double offloaded, offloaded_time; /* shares of operations, and of their time on the GPU, that run elsewhere */
  char ops[160];                    /* the offloaded kinds of operation, most time first */
} cli_hybrid_run;

/* What results depend on, of three FPGAs against none; `what` is the same for all models. */
typedef struct cli_hybrid_variation {
  const char *what;
  double efficiency, ours, throughput; /* hybrid-energy's samples/J, slack-energy's, hybrid-energy's least samples/s */
  double two_gpus;                     /* samples/s of two GPUs against one */
} cli_hybrid_variation;

typedef struct cli_hybrid {
  bool wanted[BRAID_HYBRID_MODELS];
  bool all; /* all are: averages over the six, which is mostly what was published, can be compared */
  cli_hybrid_run runs[BRAID_HYBRID_MODELS][CLI_HYBRID_RUNS];
  cli_hybrid_variation variations[BRAID_HYBRID_MODELS][CLI_HYBRID_VARIATIONS];
  char notes[CLI_HYBRID_TABLES][1200];
  braid_modelled_machine *machine; /* for its assumptions: one V100 and three Stratix 10 */
  braid_modelled_machine *pair;    /* two V100 and six */
} cli_hybrid;

/* `models`: names separated by commas; NULL: all. NOT_FOUND lists them. */
braid_status cli_hybrid_select(const char *models, cli_hybrid *out);
braid_status cli_hybrid_make(cli_hybrid *out);
/* Over all models: means, and the least samples/s. */
cli_hybrid_variation cli_hybrid_mean_variation(const cli_hybrid *hybrid, size_t index);
void cli_hybrid_end(cli_hybrid *hybrid);

/* Their notes are in `hybrid`. */
void cli_hybrid_tables(cli_hybrid *hybrid, cli_table tables[CLI_HYBRID_TABLES]);
braid_status cli_hybrid_json(const cli_hybrid *hybrid);
/* "a / b - 1" in percent; samples/s, samples/J and watts of `run` against `base`. */
double cli_hybrid_gain(double a, double b);
double cli_hybrid_throughput(const cli_hybrid_run *run, const cli_hybrid_run *base);
double cli_hybrid_efficiency(const cli_hybrid_run *run, const cli_hybrid_run *base);
double cli_hybrid_power(const cli_hybrid_run *run, const cli_hybrid_run *base);

#endif
