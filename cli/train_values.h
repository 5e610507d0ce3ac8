/* Options of `braid train` that are more than one number; what is wrong with one is a usage error. */
#ifndef BRAID_CLI_TRAIN_VALUES_H
#define BRAID_CLI_TRAIN_VALUES_H
#include "train_options.h"

/* A group of its own for `pattern`, with a rate of 1. */
braid_parameter_group *train_add_group(struct argp_state *state, train_options *o, const char *pattern);
/* PATTERN:lr=X,decay=X. */
void train_parse_group(struct argp_state *state, train_options *o, char *text);
/* A/B/..., one number per class; returns how many. */
size_t train_parse_weights(struct argp_state *state, const char *option, char *text, double out[TRAIN_MOST_CLASSES]);
/* MIN..MAX. */
void train_parse_range(struct argp_state *state, char *text, braid_rate_options *out);
/* N[:A[..B]]. */
void train_parse_lookahead(struct argp_state *state, braid_train_options *t, char *text);
/* W,A,G,E. */
void train_parse_bits(struct argp_state *state, braid_train_options *t, char *text);
#endif
