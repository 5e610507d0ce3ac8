/* Options of `braid train` that are more than one number. */
#include "train_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

braid_parameter_group *train_add_group(struct argp_state *state, train_options *o, const char *pattern) {
  if (o->train.group_count == TRAIN_MOST_GROUPS)
    argp_error(state, "at most %d of --group and --freeze", TRAIN_MOST_GROUPS);
  braid_parameter_group *group = &o->groups[o->train.group_count++];
  *group = (braid_parameter_group){pattern, 1, NAN};
  o->train.groups = o->groups;
  return group;
}

/* One number per class; returns how many. */
size_t train_parse_weights(struct argp_state *state, const char *option, char *text, double out[TRAIN_MOST_CLASSES]) {
  size_t count = 0;
  for (char *next; text; text = next) {
    next = strchr(text, '/');
    if (next) *next++ = 0;
    if (count == TRAIN_MOST_CLASSES) argp_error(state, "%s: at most %d", option, TRAIN_MOST_CLASSES);
    out[count++] = cli_number(state, option, text, 0, INFINITY);
  }
  return count;
}

/* PATTERN:lr=X,decay=Y. Names may have colons: the last one ends the pattern. */
void train_parse_group(struct argp_state *state, train_options *o, char *text) {
  enum { LR, DECAY };
  char *const keys[] = {[LR] = "lr", [DECAY] = "decay", NULL};
  char *values = strrchr(text, ':'), *value;
  if (!values || values == text || !values[1]) {
    argp_error(state, "--group: PATTERN:lr=X,decay=X is expected, not \"%s\"", text);
    return;
  }
  *values++ = 0;
  braid_parameter_group *group = train_add_group(state, o, text);
  while (*values) {
    const char *key = values;
    switch (getsubopt(&values, keys, &value)) {
    case LR:
      group->rate = cli_number(state, "--group lr", value ? value : "", 0, INFINITY);
      break;
    case DECAY:
      group->weight_decay = cli_number(state, "--group decay", value ? value : "", 0, INFINITY);
      break;
    default:
      argp_error(state, "--group %s: lr= and decay= are known, not \"%s\"", text, key);
      return;
    }
  }
}

void train_parse_range(struct argp_state *state, char *text, braid_rate_options *out) {
  char *most = strstr(text, "..");
  if (!most) {
    argp_error(state, "--find-lr: MIN..MAX is expected, not \"%s\"", text);
    return;
  }
  *most = 0;
  out->least = cli_number(state, "--find-lr", text, 0, INFINITY);
  out->most = cli_number(state, "--find-lr", most + 2, 0, INFINITY);
  if (!(out->least > 0 && out->least < out->most)) argp_error(state, "--find-lr: MIN is above 0 and below MAX");
}

/* W,A,G,E. */
void train_parse_bits(struct argp_state *state, braid_train_options *t, char *text) {
  int *const widths[] = {&t->weight_bits, &t->activation_bits, &t->gradient_bits, &t->error_bits};
  enum { kCount = sizeof widths / sizeof *widths };
  for (size_t i = 0; text && i < kCount; i++) {
    char *next = strchr(text, ',');
    if (next) *next++ = 0;
    if ((i < kCount - 1) != (next != NULL)) argp_error(state, "--bits: W,A,G,E is expected, four numbers");
    *widths[i] = (int)cli_integer(state, "--bits", text, i == 2 ? 8 : 2, i == 2 ? 16 : 8);
    text = next;
  }
}

static double parse_share(struct argp_state *state, const char *text) {
  double share = cli_number(state, "--lookahead", text, 0, 1);
  if (share <= 0) argp_error(state, "--lookahead: a share is above 0 and at most 1, not \"%s\"", text);
  return share;
}

void train_parse_lookahead(struct argp_state *state, braid_train_options *t, char *text) {
  char *share = strchr(text, ':'), *end = share ? strstr(share, "..") : NULL;
  if (end) *end = 0;
  if (share) {
    *share++ = 0;
    t->lookahead_share = t->lookahead_end = parse_share(state, share);
  }
  if (end) t->lookahead_end = parse_share(state, end + 2);
  t->lookahead_steps = cli_integer(state, "--lookahead", text, 1, INT64_MAX);
}
