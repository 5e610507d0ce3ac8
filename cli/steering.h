/* Training by a policy that places operations (braid/steering.h): its options, and what came of it. */
#ifndef BRAID_CLI_STEERING_H
#define BRAID_CLI_STEERING_H
#include "cli.h"

typedef struct cli_steering {
  braid_steering_options options;
  bool given;           /* a policy steers */
  const char *effect;   /* an option that has none without a policy */
  char devices[512];    /* of this machine, where none are named */
  char *measured;       /* allocated: options.measured */
  braid_steering *made; /* while it trains */
} cli_steering;
extern const struct argp cli_steering_argp; /* --policy --profile --power-cap ...; input: cli_steering */

/* The devices of the registry that compute, separated by spaces, in `devices`. */
braid_status cli_steering_devices(cli_steering *steering, braid_registry *registry);
/* Gives the trainer its plan; `out` is the training's folder, where a quick measurement is kept. */
braid_status cli_steering_begin(cli_steering *steering, braid_trainer *trainer, const char *out);
void cli_steering_end(cli_steering *steering);
/* Steps by each plan, events and power. `samples`: of a step. */
void cli_steering_print(FILE *file, const braid_steering *steering, int64_t samples);
void cli_steering_json(cli_json *json, const braid_steering *steering, int64_t samples);
#endif
