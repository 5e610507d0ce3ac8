/* The options of `braid train`. */
#ifndef BRAID_CLI_TRAIN_OPTIONS_H
#define BRAID_CLI_TRAIN_OPTIONS_H
#include "cli.h"
#include "steering.h"

enum { TRAIN_MOST_GROUPS = 64, TRAIN_MOST_CLASSES = 1000 };

typedef struct train_options {
  cli_common common;
  cli_place place;
  cli_source source;
  cli_steering steering;
  const char *data, *test;
  const char *tenant, *token; /* of a daemon: its address; NULL: none */
  braid_train_options train;
  bool no_test, replace_head, whiten, raw_columns, idle;
  braid_parameter_group groups[TRAIN_MOST_GROUPS];
  double class_weights[TRAIN_MOST_CLASSES], positive_weights[TRAIN_MOST_CLASSES];
  uint64_t given; /* one bit for each option */
  bool loss_given;
  bool find_rate; /* instead of training */
  braid_rate_options rates;
  braid_group *group; /* of processes that train together; NULL: one trains */
  bool agreed;        /* all of them have begun to train, or know that one cannot */
  char *made_out;     /* the default folder, removed if training does not start */
  char *own_devices;  /* --device, where names without numbers are those of this process; NULL: as it is */
} train_options;

extern const struct argp train_argp; /* input: train_options */
#endif
