/* What must hold: each figure that was published as a bound, beside ours. */
#include <math.h>
#include <stdarg.h>

#include "overlay_evaluation.h"

static void add_bound(cli_overlay *o, bool at_least, double wanted, double ours, const char *unit, const char *format,
                      ...) BRAID_PRINTF(6, 7);
static void add_bound(cli_overlay *o, bool at_least, double wanted, double ours, const char *unit, const char *format,
                      ...) {
  if (o->hold_count == CLI_OVERLAY_HOLDS || isnan(ours) || isnan(wanted)) return;
  cli_overlay_hold *hold = &o->holds[o->hold_count++];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(hold->what, sizeof hold->what, format, arguments);
  va_end(arguments);
  hold->wanted = wanted;
  hold->ours = ours;
  hold->unit = unit;
  hold->at_least = at_least;
}

static double worst_of(const double of[CLI_OVERLAY_USER_SHARES]) {
  double worst = of[0];
  for (size_t i = 1; i < CLI_OVERLAY_USER_SHARES; i++) worst = fmax(worst, of[i]);
  return worst;
}

static void hold_gains(cli_overlay *o, size_t network) {
  const braid_overlay_published_text *t = braid_overlay_published_texts();
  const cli_overlay_multi *m = &o->of[network].multi;
  const char *name = braid_overlay_published_networks()[network].name;
  cli_overlay_counted single = cli_overlay_constant(m->single);
  bool cnn = network < BRAID_OVERLAY_CNNS;
  double over_single = cnn ? cli_overlay_sums(&m->shared, &single) : cli_overlay_quotients(&m->shared, &single);
  double over_multi = cnn ? cli_overlay_sums(&m->shared, &m->fixed) : cli_overlay_quotients(&m->shared, &m->fixed);
  add_bound(o, true, cnn ? t->cnn_over_single.low : t->lstm_over_single.low, over_single, "times",
            "%s: several tasks, over the static single core (the least of the published range)", name);
  add_bound(o, true, cnn ? t->cnn_over_multi.low : t->lstm_over_multi.low, over_multi, "times",
            "%s: several tasks, over the static multi-core (the least of the published range)", name);
}

static void hold_network(cli_overlay *o, size_t network) {
  const braid_overlay_published_network *p = &braid_overlay_published_networks()[network];
  const braid_overlay_published_text *t = braid_overlay_published_texts();
  const cli_overlay_network *n = &o->of[network];
  bool cnn = network < BRAID_OVERLAY_CNNS;
  double stops = 0;
  add_bound(o, false, p->loss, cli_overlay_loss(&n->ours, &n->single), "%", "%s: average loss of several cores",
            p->name);
  add_bound(o, false, p->doubled_loss, cli_overlay_loss(&n->doubled, &n->doubled_single), "%",
            "%s: the same with twice the bandwidth", p->name);
  hold_gains(o, network);
  add_bound(o, false, cnn ? t->cnn_deviation.high : t->lstm_deviation.high, worst_of(n->cards.deviation), "%",
            "%s: deviation beside others", p->name);
  add_bound(o, false, t->bank_deviation.high, worst_of(n->bank.deviation), "%",
            "%s: deviation beside others at one bank", p->name);
  if (o->needs[network] & CLI_OVERLAY_COMPILES) {
    add_bound(o, false, 500, n->static_ms, "ms", "%s: static compiler", p->name);
    add_bound(o, false, 0.05, n->dynamic_ms.of[BRAID_OVERLAY_SHARES - 1], "ms", "%s: dynamic compiler, 16 cores",
              p->name);
  }
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) stops = fmax(stops, n->stops[i].worst_us);
  if (cnn && o->needs[network] & CLI_OVERLAY_STOPS)
    add_bound(o, false, 40, stops, "us", "%s: preemption at a tile, worst, of a task that has come further", p->name);
}

/* Ours against another policy, on the same traces. */
static void hold_policy(cli_overlay *o, const cli_overlay_case *c, const char *other) {
  size_t ours = 0, theirs = 0;
  if (braid_overlay_policy_find("lookahead", &ours) != BRAID_OK ||
      braid_overlay_policy_find(other, &theirs) != BRAID_OK)
    return;
  const braid_overlay_shared *a = &c->of[ours], *b = &c->of[theirs];
  add_bound(o, false, b->antt, a->antt, "", "lookahead, %s: ANTT, that of %s", c->name, other);
  add_bound(o, true, b->stp, a->stp, "", "lookahead, %s: STP, that of %s", c->name, other);
  add_bound(o, true, b->within[1], a->within[1], "", "lookahead, %s: SLA 4, that of %s", c->name, other);
  add_bound(o, false, b->p99, a->p99, "", "lookahead, %s: p99 of slowdowns, that of %s", c->name, other);
}

void cli_overlay_make_holds(cli_overlay *o) {
  for (size_t n = 0; n < BRAID_OVERLAY_NETWORKS; n++)
    if (o->networks[n]) hold_network(o, n);
  for (size_t c = 0; c < o->case_count; c++) {
    hold_policy(o, &o->cases[c], "prema");
    hold_policy(o, &o->cases[c], "spatial");
  }
}
