#include "overlay_evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what is asked for ---------------------------------------------------------------------------------------------
 */
static braid_status select_numbers(const char *list, const char *option, int first, int count, bool *wanted) {
  for (const char *at = list; at;) {
    char *end;
    long number = strtol(at, &end, 10);
    if (end == at || (*end && *end != ',') || number < first || number >= first + count)
      return braid_fail(BRAID_NOT_FOUND, "%s: there is no \"%.*s\"; there are %d to %d", option, (int)strcspn(at, ","),
                        at, first, first + count - 1);
    wanted[number - first] = true;
    at = *end ? end + 1 : NULL;
  }
  return BRAID_OK;
}

static braid_status select_models(cli_overlay *o, const char *models) {
  const braid_overlay_published_network *all = braid_overlay_published_networks();
  o->all = !models;
  for (size_t n = 0; n < BRAID_OVERLAY_NETWORKS; n++) o->networks[n] = !models;
  for (const char *at = models; at;) { /* a comma asks for one more name */
    size_t length = strcspn(at, ","), n = 0;
    while (n < BRAID_OVERLAY_NETWORKS && (strlen(all[n].name) != length || strncmp(all[n].name, at, length) != 0)) n++;
    if (n == BRAID_OVERLAY_NETWORKS)
      return braid_fail(BRAID_NOT_FOUND,
                        "--model: there is no \"%.*s\"; there are VGG16, ResNet50, InceptionV3, MobileNet, LSTM_100, "
                        "LSTM_400, LSTM_800 and LSTM_1500",
                        (int)length, at);
    o->networks[n] = true;
    at = at[length] ? at + length + 1 : NULL;
  }
  return BRAID_OK;
}

/* What a section is of: which networks, and what of them. */
static const struct section_rule {
  size_t first, end;
  int needs;
} kRules[CLI_OVERLAY_SECTIONS] = {
    {0, 0, 0},
    {0, BRAID_OVERLAY_NETWORKS, CLI_OVERLAY_COMPILES},
    {BRAID_OVERLAY_RESNET50, BRAID_OVERLAY_RESNET50 + 1, CLI_OVERLAY_SCALES},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_ISOLATES},
    {BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, CLI_OVERLAY_ISOLATES},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_SHARES_BANK},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_SCALES},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_PROFILES},
    {BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, CLI_OVERLAY_SCALES},
    {BRAID_OVERLAY_LSTM_100, BRAID_OVERLAY_LSTM_100 + 1, CLI_OVERLAY_MULTIPLIERS},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_MANY},
    {BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, CLI_OVERLAY_MANY},
    {0, BRAID_OVERLAY_CNNS, CLI_OVERLAY_SHARES_CARD},
};

braid_status cli_overlay_select(cli_overlay *o, const char *tables, const char *figures, bool policies,
                                const char *models) {
  bool everything = !tables && !figures && !policies;
  for (size_t s = 0; s < CLI_OVERLAY_SECTIONS; s++) o->wanted[s] = everything;
  o->wanted[CLI_OVERLAY_POLICIES] = everything || policies;
  braid_status status = select_numbers(tables, "--table", 1, CLI_OVERLAY_TABLES, o->wanted);
  if (status == BRAID_OK)
    status = select_numbers(figures, "--figure", CLI_OVERLAY_FIRST_FIGURE, CLI_OVERLAY_FIGURES,
                            o->wanted + CLI_OVERLAY_TABLES);
  if (status == BRAID_OK) status = select_models(o, models);
  for (size_t s = 0; s < CLI_OVERLAY_SECTIONS; s++)
    for (size_t n = kRules[s].first; o->wanted[s] && n < kRules[s].end; n++)
      if (o->networks[n]) o->needs[n] |= kRules[s].needs;
  for (size_t n = 0; everything && n < BRAID_OVERLAY_CNNS; n++)
    if (o->networks[n]) o->needs[n] |= CLI_OVERLAY_STOPS;
  return status;
}

const char *cli_overlay_name(size_t section, char *buffer, size_t bytes) {
  if (section < CLI_OVERLAY_TABLES)
    snprintf(buffer, bytes, "table %zu", section + 1);
  else if (section == CLI_OVERLAY_POLICIES)
    snprintf(buffer, bytes, "policies");
  else
    snprintf(buffer, bytes, "figure %zu", section - CLI_OVERLAY_TABLES + CLI_OVERLAY_FIRST_FIGURE);
  return buffer;
}

/* --- cards ---------------------------------------------------------------------------------------------------------
 */
braid_status cli_overlay_step(cli_overlay *o, const char *what) {
  cli_progress_update(&o->progress, o->done, o->total, what);
  o->done++;
  return cli_go_on(BRAID_OK);
}

int cli_overlay_share(size_t index) {
  return 1 << index;
}

int cli_overlay_user_cores(size_t index) {
  return CLI_OVERLAY_CORES * (int)(CLI_OVERLAY_USER_SHARES - index) / 4;
}

void cli_overlay_free_tasks(cli_overlay_tasks *tasks) {
  for (size_t k = 0; k <= CLI_OVERLAY_CORES; k++) {
    braid_overlay_task_destroy(tasks->of[k]);
    tasks->of[k] = NULL;
  }
}

braid_status cli_overlay_rate(const braid_overlay_design *design, const braid_overlay_tenant *tenants, size_t count,
                              double *out) {
  braid_overlay_timed timed[CLI_OVERLAY_CORES];
  *out = NAN;
  braid_status status = braid_overlay_time_tenants(design, tenants, count, timed);
  if (status == BRAID_OK) *out = 1 / timed[0].seconds;
  return status;
}

/* --- what tenants do to each other ---------------------------------------------------------------------------------
 */
enum { kPatterns = 4 };
/* How others divide what the user leaves, in quarters: all of it, halves, three to one, one half and two quarters. */
static const int kParts[kPatterns][3] = {{4, 0, 0}, {2, 2, 0}, {3, 1, 0}, {2, 1, 1}};
/* Of the other cores of a bank of four. */
static const int kBankParts[CLI_OVERLAY_USER_SHARES][kPatterns][3] = {
    {{1, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {{2, 0, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {{3, 0, 0}, {2, 1, 0}, {1, 1, 1}, {0, 0, 0}},
};

static int part_cores(size_t share, size_t pattern, int part, bool bank) {
  if (bank) return kBankParts[share][pattern][part];
  return (CLI_OVERLAY_CORES - cli_overlay_user_cores(share)) * kParts[pattern][part] / 4;
}

typedef struct extremes {
  double least, greatest;
} extremes;

static void widen(extremes *e, double rate) {
  e->least = isnan(e->least) ? rate : fmin(e->least, rate);
  e->greatest = isnan(e->greatest) ? rate : fmax(e->greatest, rate);
}

static double deviation_of(extremes e) {
  return 100 * (1 - e.least / e.greatest);
}

static braid_status with_others(const braid_overlay_design *design, const cli_overlay_tasks *user,
                                const cli_overlay_tasks *others, size_t share, size_t pattern, bool bank, extremes *e) {
  int cores = bank ? CLI_OVERLAY_USER_SHARES - (int)share : cli_overlay_user_cores(share);
  braid_overlay_tenant tenants[4] = {{user->of[cores], 0, 1}};
  size_t count = 1;
  double rate;
  for (int part = 0, at = cores; part < 3; part++) {
    int its = part_cores(share, pattern, part, bank);
    if (!its) continue;
    tenants[count++] = (braid_overlay_tenant){others->of[its], at, 0};
    at += its;
  }
  if (count == 1) return BRAID_OK;
  braid_status status = cli_overlay_rate(design, tenants, count, &rate);
  if (status == BRAID_OK) widen(e, rate);
  return status;
}

braid_status cli_overlay_isolate(const braid_overlay_design *design, const cli_overlay_tasks *user,
                                 const cli_overlay_tasks *const *others, size_t other_count, bool bank,
                                 cli_overlay_isolation *out) {
  for (size_t share = 0; share < CLI_OVERLAY_USER_SHARES; share++) {
    int cores = bank ? CLI_OVERLAY_USER_SHARES - (int)share : cli_overlay_user_cores(share);
    const braid_overlay_tenant alone = {user->of[cores], 0, 1};
    extremes e = {NAN, NAN};
    double rate;
    braid_status status = BRAID_OK;
    for (size_t i = 0; status == BRAID_OK && i < other_count; i++)
      for (size_t pattern = 0; status == BRAID_OK && pattern < kPatterns; pattern++)
        status = with_others(design, user, others[i], share, pattern, bank, &e);
    if (status == BRAID_OK) status = cli_overlay_rate(design, &alone, 1, &rate);
    if (status != BRAID_OK) return status;
    out->deviation[share] = deviation_of(e);
    widen(&e, rate);
    out->alone[share] = deviation_of(e);
  }
  return BRAID_OK;
}

/* `count` tasks of so many cores each, spread over the card; in sum. */
static braid_status side_by_side(const braid_overlay_design *design, const braid_overlay_task *task, size_t count,
                                 double *out) {
  braid_overlay_tenant tenants[CLI_OVERLAY_CORES];
  braid_overlay_timed timed[CLI_OVERLAY_CORES];
  for (size_t t = 0; t < count; t++) tenants[t] = (braid_overlay_tenant){task, (int)(t * CLI_OVERLAY_CORES / count), 2};
  braid_status status = braid_overlay_time_tenants(design, tenants, count, timed);
  *out = 0;
  for (size_t t = 0; status == BRAID_OK && t < count; t++) *out += 1 / timed[t].seconds;
  return status;
}

braid_status cli_overlay_many(const braid_overlay_design *design, const cli_overlay_tasks *tasks, double single,
                              cli_overlay_multi *out) {
  braid_status status = BRAID_OK;
  out->single = single;
  for (size_t i = 0; status == BRAID_OK && i < BRAID_OVERLAY_SHARES; i++) {
    size_t count = (size_t)cli_overlay_share(i);
    status = side_by_side(design, tasks->of[CLI_OVERLAY_CORES / count], count, &out->shared.of[i]);
    if (status == BRAID_OK) status = side_by_side(design, tasks->of[1], count, &out->fixed.of[i]);
  }
  return status;
}

/* --- definitions ---------------------------------------------------------------------------------------------------
 */
double cli_overlay_loss(const cli_overlay_counted *ours, const cli_overlay_counted *single) {
  double sum = 0;
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) sum += 1 - ours->of[i] / single->of[i];
  return 100 * sum / BRAID_OVERLAY_SHARES;
}

double cli_overlay_sums(const cli_overlay_counted *a, const cli_overlay_counted *b) {
  double above = 0, below = 0;
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) above += a->of[i], below += b->of[i];
  return above / below;
}

double cli_overlay_quotients(const cli_overlay_counted *a, const cli_overlay_counted *b) {
  double sum = 0;
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) sum += a->of[i] / b->of[i];
  return sum / BRAID_OVERLAY_SHARES;
}

cli_overlay_counted cli_overlay_constant(double value) {
  return (cli_overlay_counted){{value, value, value, value, value}};
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static const cli_overlay_counted kUnknown = {{NAN, NAN, NAN, NAN, NAN}};

static void clear(cli_overlay_network *n) {
  n->static_ms = n->multi.single = NAN;
  cli_overlay_counted *const all[] = {&n->dynamic_ms, &n->transfer_ms,  &n->switch_ms,  &n->ours,    &n->optimized,
                                      &n->width,      &n->channels,     &n->single,     &n->doubled, &n->doubled_single,
                                      &n->bound,      &n->multi.shared, &n->multi.fixed};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = kUnknown;
  for (size_t u = 0; u < BRAID_OVERLAY_UNITS; u++) n->busy[u] = NAN;
  for (size_t i = 0; i < CLI_OVERLAY_USER_SHARES; i++)
    n->cards.deviation[i] = n->cards.alone[i] = n->bank.deviation[i] = n->bank.alone[i] = NAN;
}

static int steps_of(int needs, size_t network) {
  bool doubled = !isnan(braid_overlay_published_networks()[network].doubled_loss);
  int steps = 0;
  for (int bit = CLI_OVERLAY_COMPILES; bit < CLI_OVERLAY_MULTIPLIERS; bit *= 2) steps += (needs & bit) != 0;
  if (needs & CLI_OVERLAY_SCALES && network < BRAID_OVERLAY_CNNS) steps += doubled ? 6 : 4;
  steps += (needs & CLI_OVERLAY_SHARES_CARD) != 0;
  return steps + (needs & CLI_OVERLAY_MULTIPLIERS ? CLI_OVERLAY_DESIGNS : 0);
}

braid_status cli_overlay_make(cli_overlay *o) {
  for (size_t n = 0; n < BRAID_OVERLAY_NETWORKS; n++) {
    clear(&o->of[n]);
    o->total += steps_of(o->needs[n], n);
  }
  for (size_t d = 0; d < CLI_OVERLAY_DESIGNS; d++) {
    o->multipliers[d].ours = o->multipliers[d].single = kUnknown;
    for (size_t u = 0; u < BRAID_OVERLAY_UNITS; u++) o->multipliers[d].busy[u] = NAN;
  }
  o->total += cli_overlay_policy_steps(o);
  cli_progress_begin(&o->progress, "evaluating");
  braid_status status = cli_overlay_begin_policies(o);
  if (status == BRAID_OK) status = cli_overlay_make_cnn(o);
  if (status == BRAID_OK) status = cli_overlay_make_lstm(o);
  if (status == BRAID_OK) status = cli_overlay_run_policies(o);
  cli_progress_end(&o->progress);
  cli_overlay_end_policies(o);
  if (status != BRAID_OK) return status;
  cli_overlay_make_sections(o);
  cli_overlay_make_figures(o);
  cli_overlay_make_policies(o);
  cli_overlay_make_holds(o);
  return BRAID_OK;
}
