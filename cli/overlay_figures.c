/* Figures 12 to 20: published and ours. */
#include <math.h>
#include <string.h>

#include "overlay_evaluation.h"

static cli_overlay_section *begin(cli_overlay *o, int figure, const char *title, const char *subject,
                                  const char *columns) {
  cli_overlay_section *s = &o->sections[CLI_OVERLAY_TABLES + figure - CLI_OVERLAY_FIRST_FIGURE];
  s->title = title;
  s->subject = subject;
  s->columns = columns;
  return s;
}

static bool is_wanted(const cli_overlay *o, int figure) {
  return o->wanted[CLI_OVERLAY_TABLES + figure - CLI_OVERLAY_FIRST_FIGURE];
}

static const char *name_of(size_t network) {
  return braid_overlay_published_networks()[network].name;
}

/* --- Figs. 12 to 14 ------------------------------------------------------------------------------------------------
 */
static void add_deviations(cli_overlay *o, cli_overlay_section *s, size_t first, size_t end, bool bank,
                           braid_overlay_span published) {
  for (size_t n = first; n < end; n++) {
    if (!o->networks[n]) continue;
    const cli_overlay_isolation *i = bank ? &o->of[n].bank : &o->of[n].cards;
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s", name_of(n));
    for (size_t c = 0; c < CLI_OVERLAY_USER_SHARES; c++) {
      line->published[c] = published;
      line->ours[c] = cli_overlay_one(i->deviation[c]);
    }
    line = cli_overlay_add(s, "modelled", "%s, also against nobody else", name_of(n));
    for (size_t c = 0; c < CLI_OVERLAY_USER_SHARES; c++) line->ours[c] = cli_overlay_one(i->alone[c]);
  }
}

static const char kDeviation[] =
    "By how much the user's least throughput is below its greatest, over the ways in which one to three others divide "
    "the rest (all of it, halves, three to one, one half and two quarters) and run the same network or the one that "
    "moves most (MobileNet, LSTM_1500).";

static void make_isolation(cli_overlay *o) {
  const braid_overlay_published_text *t = braid_overlay_published_texts();
  if (is_wanted(o, 12)) {
    cli_overlay_section *s =
        begin(o, 12, "Figure 12: deviation of a user of 16 cores, CNN, %", "network", "75%|50%|25%");
    add_deviations(o, s, 0, BRAID_OVERLAY_CNNS, false, t->cnn_deviation);
    cli_overlay_line *gpu = cli_overlay_add(s, NULL, "V100 with MPS");
    for (size_t c = 0; c < CLI_OVERLAY_USER_SHARES; c++) gpu->published[c] = t->gpu_deviation[c];
    snprintf(s->note, sizeof s->note,
             "%s Ranges are published, over networks; GPUs are not modelled here. A quarter of the cores is a bank of "
             "DDR: what is left to deviate is the decoder that all share.",
             kDeviation);
  }
  if (is_wanted(o, 13)) {
    cli_overlay_section *s =
        begin(o, 13, "Figure 13: deviation of a user of 16 cores, LSTM, %", "network", "75%|50%|25%");
    add_deviations(o, s, BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, false, t->lstm_deviation);
    for (size_t n = BRAID_OVERLAY_CNNS; n < BRAID_OVERLAY_NETWORKS; n++) {
      braid_overlay_span range = braid_overlay_published_networks()[n].gpu_deviation;
      if (!o->networks[n] || isnan(range.low)) continue;
      cli_overlay_line *gpu = cli_overlay_add(s, NULL, "%s, V100 with MPS", name_of(n));
      for (size_t c = 0; c < CLI_OVERLAY_USER_SHARES; c++) gpu->published[c] = range;
    }
    snprintf(s->note, sizeof s->note, "%s Cores of 16 multipliers; a query is one step.", kDeviation);
  }
  if (is_wanted(o, 14)) {
    cli_overlay_section *s =
        begin(o, 14, "Figure 14: deviation of a user of one DDR bank, CNN, %", "network", "75%|50%|25%");
    add_deviations(o, s, 0, BRAID_OVERLAY_CNNS, true, t->bank_deviation);
    snprintf(
        s->note, sizeof s->note,
        "The four cores at one bank: a user of three, two or one of them, others on the rest, each with the same "
        "network or MobileNet. With one core for others there is one way to divide it. Ports of four cores ask for "
        "512 bits a cycle at most, of which the assumed efficiency of DDR4 leaves 85%%: that is why who is alone is "
        "faster.");
  }
}

/* --- Figs. 15 and 16 -----------------------------------------------------------------------------------------------
 */
static void add_scaling(cli_overlay_section *s, size_t network, const char *what, const cli_overlay_counted *ours,
                        const cli_overlay_counted *single, const double *published, double loss) {
  cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s, %s", name_of(network), what);
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) {
    line->ours[i] = cli_overlay_one(ours->of[i]);
    if (published) line->published[i] = cli_overlay_one(published[i]);
  }
  line->published[5] = cli_overlay_one(loss);
  if (single) line->ours[5] = cli_overlay_one(cli_overlay_loss(ours, single));
}

static void make_single(cli_overlay *o) {
  const braid_overlay_published_scaling *t = braid_overlay_published_scalings();
  cli_overlay_section *s = begin(o, 15, "Figure 15: images a second, one task", "network",
                                 "1 core|2 cores|4 cores|8 cores|16 cores|average loss %");
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++) {
    const braid_overlay_published_network *p = &braid_overlay_published_networks()[n];
    const cli_overlay_network *ours = &o->of[n];
    bool known = n == BRAID_OVERLAY_RESNET50; /* by Table 3 */
    if (!o->networks[n]) continue;
    add_scaling(s, n, "by width", &ours->width, &ours->single, known ? t[0].images : NULL, known ? t[0].loss : NAN);
    add_scaling(s, n, "by channels", &ours->channels, &ours->single, known ? t[1].images : NULL,
                known ? t[1].loss : NAN);
    add_scaling(s, n, "optimized", &ours->optimized, &ours->single, known ? t[2].images : NULL, p->loss);
    add_scaling(s, n, "all our tilings", &ours->ours, &ours->single, NULL, NAN);
    add_scaling(s, n, "single core", &ours->single, NULL, known ? t[3].images : NULL, NAN);
    add_scaling(s, n, "bound of operations", &ours->bound, NULL, NULL, NAN);
    if (isnan(p->doubled_loss)) continue;
    add_scaling(s, n, "2 x bandwidth", &ours->doubled, &ours->doubled_single, NULL, p->doubled_loss);
    add_scaling(s, n, "2 x bandwidth, single", &ours->doubled_single, NULL, NULL, NAN);
  }
  snprintf(
      s->note, sizeof s->note,
      "Table 3 has the definitions. Curves but ResNet-50's were not published. Weights are drawn, which is right for "
      "times. All networks take pictures of 224 x 224, as the paper's: Inception-v3, made for 299 x 299, then has "
      "maps of 5 x 5 at its end, and its second classifier is left out; ResNet-50 has its stride in the 3 x 3 "
      "convolutions (4.09 G multiply-accumulates, 6%% more than with it in the 1 x 1 ones). A negative loss: "
      "sixteen cores are faster than the one large core, which leaves more of its parallelism idle.");
}

static void make_shares(cli_overlay *o) {
  cli_overlay_section *s = begin(o, 16, "Figure 16: share of the time that each module is busy on one core of 512, %",
                                 "network", "Load|Save|Conv|Misc");
  for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++) {
    const braid_overlay_published_network *p = &braid_overlay_published_networks()[n];
    if (!o->networks[n]) continue;
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s", p->name);
    line->published[0] = cli_overlay_one(p->load_share);
    line->published[2] = cli_overlay_one(p->compute_share);
    line->published[3] = cli_overlay_one(p->side_share);
    for (int u = 0; u < BRAID_OVERLAY_UNITS; u++) line->ours[u] = cli_overlay_one(o->of[n].busy[u]);
  }
  snprintf(s->note, sizeof s->note,
           "Shares of the whole time; modules work side by side, so that ours add up to more than 100%%. What the text "
           "has of the figure is beside them. Our MISC has less to do: sums of two maps and activations are part of "
           "CONV, concatenations of SAVE.");
}

/* --- Figs. 17 and 18 -----------------------------------------------------------------------------------------------
 */
static const char kLstmColumns[] = "1 core|2 cores|4 cores|8 cores|16 cores|average loss %";

static void add_queries(cli_overlay_section *s, const char *name, const cli_overlay_counted *ours,
                        const cli_overlay_counted *single, double loss) {
  cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s: queries/s", name);
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) line->ours[i] = cli_overlay_one(ours->of[i]);
  line->published[5] = cli_overlay_one(loss);
  line->ours[5] = cli_overlay_one(cli_overlay_loss(ours, single));
  line = cli_overlay_add(s, "modelled", "%s: single core", name);
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) line->ours[i] = cli_overlay_one(single->of[i]);
}

/* Shares stand in the columns of 1, 2 and 4 cores: their own titles are in the label. */
static void add_busy(cli_overlay_section *s, const char *name, const double busy[BRAID_OVERLAY_UNITS], double load,
                     double side) {
  static const char *const kWhat[] = {"Load", NULL, "MVM", "ELE"};
  for (int u = 0; u < BRAID_OVERLAY_UNITS; u++) {
    if (!kWhat[u]) continue;
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s: %s busy, %%", name, kWhat[u]);
    line->ours[4] = cli_overlay_one(busy[u]);
    line->published[4] = cli_overlay_one(u == BRAID_OVERLAY_LOAD ? load : u == BRAID_OVERLAY_MISC_ELE ? side : NAN);
  }
}

static void make_lstm(cli_overlay *o) {
  cli_overlay_section *s = begin(o, 17, "Figure 17: queries a second of an LSTM layer, one task, 16 x 16 multipliers",
                                 "network", kLstmColumns);
  for (size_t n = BRAID_OVERLAY_CNNS; n < BRAID_OVERLAY_NETWORKS; n++) {
    const braid_overlay_published_network *p = &braid_overlay_published_networks()[n];
    if (!o->networks[n]) continue;
    add_queries(s, p->name, &o->of[n].ours, &o->of[n].single, p->loss);
    add_busy(s, p->name, o->of[n].busy, p->load_share, p->side_share);
  }
  snprintf(s->note, sizeof s->note,
           "A query is one step with as many inputs as states; neither is published, nor are the curves. Weights come "
           "from DDR in each query. Published are no loss, and the shares of the text, which add up to 109.6%% for "
           "LSTM_100. The single core of k x 16 multipliers has the port of k cores, over all four banks; k cores have "
           "the banks that they are at.");
}

static void make_multipliers(cli_overlay *o) {
  static const char *const kNames[CLI_OVERLAY_DESIGNS] = {"16 x 1", "16 x 16", "16 x 64"};
  cli_overlay_section *s =
      begin(o, 18, "Figure 18: queries a second of LSTM_100 by multipliers of a core", "design", kLstmColumns);
  for (size_t d = 0; o->networks[BRAID_OVERLAY_LSTM_100] && d < CLI_OVERLAY_DESIGNS; d++) {
    add_queries(s, kNames[d], &o->multipliers[d].ours, &o->multipliers[d].single, NAN);
    add_busy(s, kNames[d], o->multipliers[d].busy, NAN, NAN);
  }
  snprintf(
      s->note, sizeof s->note,
      "The curves were not published: the first design is bound by computing, the second balanced, the third bound "
      "by memory, and the first is nearest to linear. Shares are of 16 cores.");
}

/* --- Figs. 19 and 20 -----------------------------------------------------------------------------------------------
 */
static void add_many(cli_overlay_section *s, size_t network, const cli_overlay_multi *m) {
  cli_overlay_counted single = cli_overlay_constant(m->single);
  const cli_overlay_counted *const rows[] = {&m->shared, &m->fixed, &single};
  static const char *const kRows[] = {"virtualized", "static multi-core", "static single core"};
  for (size_t r = 0; r < 3; r++) {
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s, %s", name_of(network), kRows[r]);
    for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) line->ours[i] = cli_overlay_one(rows[r]->of[i]);
  }
}

/* What the gain would be if the other points were as good as the best one: if tasks on several cores lost nothing. */
static void add_most(cli_overlay_section *s, size_t network, const cli_overlay_multi *m) {
  double most = NAN;
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) most = fmax(most, m->shared.of[i]);
  cli_overlay_add(s, "modelled", "%s, best point over static single", name_of(network))->ours[5] =
      cli_overlay_one(most / m->single);
}

typedef double quotient(const cli_overlay_counted *a, const cli_overlay_counted *b);

/* Over the networks of the figure. */
static void add_gain(cli_overlay *o, cli_overlay_section *s, size_t first, size_t end, bool over_single, quotient *by,
                     const char *how, braid_overlay_span published) {
  braid_overlay_span span = {NAN, NAN};
  for (size_t n = first; n < end; n++) {
    if (!o->networks[n]) continue;
    cli_overlay_counted single = cli_overlay_constant(o->of[n].multi.single);
    double gain = by(&o->of[n].multi.shared, over_single ? &single : &o->of[n].multi.fixed);
    span.low = isnan(span.low) ? gain : fmin(span.low, gain);
    span.high = isnan(span.high) ? gain : fmax(span.high, gain);
  }
  cli_overlay_line *line =
      cli_overlay_add(s, "modelled", "over static %s, %s", over_single ? "single" : "multi-core", how);
  line->published[5] = published;
  line->ours[5] = span;
}

static const char kManyColumns[] = "1 task|2 tasks|4 tasks|8 tasks|16 tasks|gain, times";
static const char kSums[] = "sums", kQuotients[] = "mean of quotients";

static void make_many(cli_overlay *o) {
  const braid_overlay_published_text *t = braid_overlay_published_texts();
  const braid_overlay_span none = {NAN, NAN};
  if (is_wanted(o, 19)) {
    cli_overlay_section *s = begin(o, 19, "Figure 19: images a second of several tasks, CNN", "network", kManyColumns);
    for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++)
      if (o->networks[n]) add_many(s, n, &o->of[n].multi);
    for (size_t n = 0; n < BRAID_OVERLAY_CNNS; n++)
      if (o->networks[n]) add_most(s, n, &o->of[n].multi);
    add_gain(o, s, 0, BRAID_OVERLAY_CNNS, true, cli_overlay_sums, kSums, t->cnn_over_single);
    add_gain(o, s, 0, BRAID_OVERLAY_CNNS, false, cli_overlay_sums, kSums, t->cnn_over_multi);
    add_gain(o, s, 0, BRAID_OVERLAY_CNNS, true, cli_overlay_quotients, kQuotients, none);
    add_gain(o, s, 0, BRAID_OVERLAY_CNNS, false, cli_overlay_quotients, kQuotients, none);
    snprintf(
        s->note, sizeof s->note,
        "n tasks of the same network, each with 16 / n cores (virtualized) or one (static multi-core, spread over "
        "the banks), or one after the other (static single core). How the paper takes its gain over workloads is "
        "not published: by the quotient of sums over these five its Table 3 gives 2.30 and 1.28 for ResNet-50, "
        "within its ranges, by the mean of quotients 5.3 over the multi-core one, outside. If k cores were k times "
        "as fast as one, the quotient of sums would be 80 / 31 = 2.58: more takes cores that gain more than their "
        "number, which ours do not. The best point over the static single core is what the gain would be if tasks on "
        "several cores lost nothing against tasks on one; where that is below the published range, only faster small "
        "cores, or a slower large one, would be within it.");
  }
  if (is_wanted(o, 20)) {
    cli_overlay_section *s = begin(o, 20, "Figure 20: queries a second of several tasks, LSTM, 16 x 16 multipliers",
                                   "network", kManyColumns);
    for (size_t n = BRAID_OVERLAY_CNNS; n < BRAID_OVERLAY_NETWORKS; n++)
      if (o->networks[n]) add_many(s, n, &o->of[n].multi);
    add_gain(o, s, BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, true, cli_overlay_quotients, kQuotients,
             t->lstm_over_single);
    add_gain(o, s, BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, false, cli_overlay_quotients, kQuotients,
             t->lstm_over_multi);
    add_gain(o, s, BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, true, cli_overlay_sums, kSums, none);
    add_gain(o, s, BRAID_OVERLAY_CNNS, BRAID_OVERLAY_NETWORKS, false, cli_overlay_sums, kSums, none);
    snprintf(s->note, sizeof s->note,
             "As Figure 19. 5.67 to 6.18 is near the mean of quotients of cores that scale linearly, (16 + 8 + 4 + 2 + "
             "1) / 5 = 6.2, which sums cannot give (at most 2.58): here the paper seems to take that.");
  }
}

void cli_overlay_make_figures(cli_overlay *o) {
  make_isolation(o);
  if (is_wanted(o, 15)) make_single(o);
  if (is_wanted(o, 16)) make_shares(o);
  if (is_wanted(o, 17)) make_lstm(o);
  if (is_wanted(o, 18)) make_multipliers(o);
  make_many(o);
}
