#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "braid/explore.h"
#include "hybrid.h"

static void cell_number(cli_table *table, const char *format, double value) {
  if (isnan(value))
    cli_table_cell(table, "-");
  else
    cli_table_cell(table, format, value); // NOLINT: formats are literals of this file
}

/* Energy per sample, from what is gained in samples per joule. */
static double energy_of(double efficiency) {
  return 100 * (1 / (1 + efficiency / 100) - 1);
}

typedef struct mean {
  double sum, count;
} mean;

static double add_to(mean *m, double value) {
  m->sum += value, m->count++;
  return value;
}

static double mean_of(const mean *m) {
  return m->count > 0 ? m->sum / m->count : NAN;
}

static double samples_per_second(size_t model, const cli_hybrid_run *run) {
  return (double)braid_hybrid_models()[model].batch / run->summary.seconds;
}

/* What reasons stand under a table: only where ours is far from what was published. */
static const char *when_far(double ours, double published, const char *reason) {
  return fabs(ours - published) > 5 ? reason : "";
}

/* --- Figs. 4 and 5, and those of two GPUs --------------------------------------------------------------------------
 */
static const char kComparedHead[] =
    "model|figures are|samples/s|to GPUs|system W|to GPUs|GPU W|dynamic W|peak W|samples/J|J a sample|exposed moves|"
    "GPU ops faster";

static void published_row(cli_table *table, const char *model, double throughput, double power, double efficiency,
                          double movement, double left) {
  cli_table_cell(table, "%s", model);
  cli_table_cell(table, "published");
  cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", throughput);
  cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", power);
  for (int i = 0; i < 3; i++) cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", efficiency);
  cell_number(table, "%+.1f%%", energy_of(efficiency));
  cell_number(table, "%+.1f%%", movement);
  cell_number(table, "%+.1f%%", left);
}

typedef struct means {
  mean throughput, power, efficiency, movement;
} means;

static void modelled_row(cli_table *table, size_t model, const cli_hybrid_run *run, const cli_hybrid_run *base,
                         means *sum) {
  double efficiency = add_to(&sum->efficiency, cli_hybrid_efficiency(run, base));
  double movement = cli_hybrid_gain(run->summary.exposed_seconds, base->summary.exposed_seconds);
  cli_table_cell(table, "%s", braid_hybrid_models()[model].name);
  cli_table_cell(table, "modelled, %s", run->policy);
  cell_number(table, "%.1f", samples_per_second(model, run));
  cell_number(table, "%+.1f%%", add_to(&sum->throughput, cli_hybrid_throughput(run, base)));
  cell_number(table, "%.1f", run->summary.average_watts);
  cell_number(table, "%+.1f%%", add_to(&sum->power, cli_hybrid_power(run, base)));
  cell_number(table, "%.1f", run->gpu_watts);
  cell_number(table, "%.1f", run->dynamic_watts);
  cell_number(table, "%.1f", run->summary.peak_watts);
  cell_number(table, "%+.1f%%", efficiency);
  cell_number(table, "%+.1f%%", energy_of(efficiency));
  cell_number(table, "%+.1f%%", add_to(&sum->movement, movement));
  cli_table_cell(table, "not modelled");
}

/* What was published are averages over the six models: they stand beside ours over the same six, and are left out
 * otherwise. */
static const char kOnlyAverages[] =
    " Only averages over all six models were published: nothing can be held against a part of them.";

static void mean_row(cli_table *table, const char *policy, const means *sum) {
  cli_table_cell(table, "average");
  cli_table_cell(table, "modelled, %s", policy);
  cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", mean_of(&sum->throughput));
  cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", mean_of(&sum->power));
  for (int i = 0; i < 3; i++) cli_table_cell(table, "-");
  cell_number(table, "%+.1f%%", mean_of(&sum->efficiency));
  cell_number(table, "%+.1f%%", energy_of(mean_of(&sum->efficiency)));
  cell_number(table, "%+.1f%%", mean_of(&sum->movement));
  cli_table_cell(table, "not modelled");
}

/* `base` and the two after it: GPUs alone, hybrid-energy, slack-energy. */
static void compare_runs(const cli_hybrid *h, const int runs[3], bool per_model, cli_table *table, means sums[2]) {
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    const braid_hybrid_model *p = &braid_hybrid_models()[m];
    means none = {0};
    if (!h->wanted[m]) continue;
    if (per_model) published_row(table, p->name, NAN, NAN, p->efficiency, -p->movement, p->left_on_gpu);
    modelled_row(table, m, &h->runs[m][runs[0]], &h->runs[m][runs[0]], &none);
    modelled_row(table, m, &h->runs[m][runs[1]], &h->runs[m][runs[0]], &sums[0]);
    modelled_row(table, m, &h->runs[m][runs[2]], &h->runs[m][runs[0]], &sums[1]);
  }
}

static const char kWhyLess[] =
    " Ours differ: by the paper's Table 1 the FPGAs are no slower than the GPU only where little data moves, and at "
    "these batches tensors of 100 MB take 9 ms over PCIe and stream at the 14.9 GB/s of a Stratix 10, while the boards "
    "draw idle power that GPUs alone do not have; the sizes of what the paper offloads, its static power and what "
    "operations on the GPU gain when others leave are not published.";

/* Whether any model's efficiency is far from what was published of it. */
static bool is_far(const cli_hybrid *h, int base, int run) {
  bool far = false;
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
    if (h->wanted[m])
      far |= *when_far(cli_hybrid_efficiency(&h->runs[m][run], &h->runs[m][base]), braid_hybrid_models()[m].efficiency,
                       "far") != '\0';
  return far;
}

static void make_three(cli_hybrid *h, cli_table *table) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  means sums[2] = {0};
  cli_table_begin(table, "Figs. 4 and 5: one V100 and three Stratix 10 against one V100", h->notes[0], kComparedHead);
  compare_runs(h, (int[]){CLI_HYBRID_ONE, CLI_HYBRID_THREE, CLI_HYBRID_THREE_OURS}, true, table, sums);
  if (h->all) {
    published_row(table, "average", t->throughput, t->power, t->efficiency, t->movement, t->left_on_gpu);
    mean_row(table, "hybrid-energy", &sums[0]);
    mean_row(table, "slack-energy", &sums[1]);
  }
  snprintf(
      h->notes[0], sizeof h->notes[0],
      "The bars of Fig. 4 were not published as numbers, their averages over six models were%s. samples/J is "
      "efficiency%s. dynamic: without what all devices draw "
      "doing nothing. exposed moves: by how much the step is longer because of transfers; with GPUs alone those of "
      "their samples and of what the host gets back. GPU ops faster: by less interference, which the platforms do not "
      "declare.%s",
      h->all ? "" : ", which are left out here",
      h->all ? ": +44.3% of it, which the abstract calls a reduction of energy, is -30.7% of energy" : "",
      is_far(h, CLI_HYBRID_ONE, CLI_HYBRID_THREE) ? kWhyLess : "");
}

static void make_two(cli_hybrid *h, cli_table *table) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  means sums[2] = {0};
  cli_table_begin(table, "Figs. 6 and 8(a): two V100 and six Stratix 10 against two V100", h->notes[2], kComparedHead);
  compare_runs(h, (int[]){CLI_HYBRID_TWO, CLI_HYBRID_SIX, CLI_HYBRID_SIX_OURS}, false, table, sums);
  if (h->all) {
    published_row(table, "average", t->two_throughput, t->two_power, t->two_efficiency, NAN, NAN);
    mean_row(table, "hybrid-energy", &sums[0]);
    mean_row(table, "slack-energy", &sums[1]);
  }
  snprintf(h->notes[2], sizeof h->notes[2],
           "Data parallel: each GPU has half of the batch and three boards, gradients are exchanged over PCIe.%s%s",
           h->all ? " Only averages were published." : kOnlyAverages,
           !h->all ? ""
                   : when_far(mean_of(&sums[0].efficiency), t->two_efficiency, " Ours differ for the reasons above."));
}

static void make_against_one(cli_hybrid *h, cli_table *table) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  mean throughput = {0}, power = {0}, efficiency = {0}, ours = {0};
  char slower[160] = "";
  cli_table_begin(
      table, "Figs. 7 and 8(b): two V100 against one V100 and one Stratix 10", h->notes[3],
      "model|figures are|two V100: samples/s|1 + 1: samples/s|two faster|two V100: W|1 + 1: W|two draw more|"
      "samples/J of 1 + 1 against two");
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    const cli_hybrid_run *two = &h->runs[m][CLI_HYBRID_TWO], *one = &h->runs[m][CLI_HYBRID_1F];
    if (!h->wanted[m]) continue;
    cli_table_cell(table, "%s", braid_hybrid_models()[m].name);
    cli_table_cell(table, "modelled, %s", one->policy);
    cell_number(table, "%.1f", samples_per_second(m, two));
    cell_number(table, "%.1f", samples_per_second(m, one));
    cell_number(table, "%+.1f%%", add_to(&throughput, cli_hybrid_throughput(two, one)));
    cell_number(table, "%.1f", two->summary.average_watts);
    cell_number(table, "%.1f", one->summary.average_watts);
    cell_number(table, "%+.1f%%", add_to(&power, cli_hybrid_power(two, one)));
    cell_number(table, "%+.1f%%", add_to(&efficiency, cli_hybrid_efficiency(one, two)));
    add_to(&ours, cli_hybrid_efficiency(&h->runs[m][CLI_HYBRID_1F_OURS], two));
    size_t used = strlen(slower);
    if (cli_hybrid_throughput(two, one) < 0)
      snprintf(slower + used, sizeof slower - used, " %s", braid_hybrid_models()[m].name);
  }
  for (int k = 0; k < 3 && h->all; k++) {
    cli_table_cell(table, "average");
    cli_table_cell(table, k == 0 ? "published" : k == 1 ? "modelled, hybrid-energy" : "modelled, slack-energy");
    cli_table_cell(table, "-");
    cli_table_cell(table, "-");
    cell_number(table, "%+.1f%%", k == 0 ? t->against_one_throughput : k == 1 ? mean_of(&throughput) : NAN);
    cli_table_cell(table, "-");
    cli_table_cell(table, "-");
    cell_number(table, "%+.1f%%", k == 0 ? t->against_one_power : k == 1 ? mean_of(&power) : NAN);
    cell_number(table, "%+.1f%%", k == 0 ? t->one_efficiency : k == 1 ? mean_of(&efficiency) : mean_of(&ours));
  }
  bool sign = mean_of(&throughput) > 0 && mean_of(&efficiency) > 0;
  snprintf(h->notes[3], sizeof h->notes[3], "%s", kOnlyAverages + 1);
  if (!h->all) return;
  snprintf(h->notes[3], sizeof h->notes[3], "On average published and ours %s%s%s.%s",
           sign ? "agree in sign: two GPUs are faster, one GPU and one FPGA more efficient" : "differ in sign",
           slower[0] ? "; two are slower, since exchanging gradients over PCIe takes longer than half a step, for" : "",
           slower,
           when_far(mean_of(&power), t->against_one_power,
                    " The paper's 124% more power for twice the GPUs means that its one GPU draws less beside an FPGA; "
                    "ours draws the same, and the FPGA its idle power besides."));
}

/* --- Table 2 -------------------------------------------------------------------------------------------------------
 */
static void make_offloaded(cli_hybrid *h, cli_table *table) {
  mean ours = {0}, published = {0};
  cli_table_begin(table, "Table 2: what is offloaded to the FPGAs", h->notes[1],
                  "model|figures are|% of operations|% of their time on the GPU|operations, most time first");
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    const braid_hybrid_model *p = &braid_hybrid_models()[m];
    if (!h->wanted[m]) continue;
    cli_table_cell(table, "%s", p->name);
    cli_table_cell(table, "published");
    cell_number(table, "%.2f", p->offloaded_operations);
    cell_number(table, "%.2f", add_to(&published, p->offloaded_time));
    cli_table_cell(table, "%s", p->offloaded);
    for (int k = 0; k < 2; k++) {
      const cli_hybrid_run *run = &h->runs[m][k ? CLI_HYBRID_THREE_OURS : CLI_HYBRID_THREE];
      cli_table_cell(table, "%s", p->name);
      cli_table_cell(table, "modelled, %s", run->policy);
      cell_number(table, "%.2f", run->offloaded);
      cell_number(table, "%.2f", k ? run->offloaded_time : add_to(&ours, run->offloaded_time));
      cli_table_cell(table, "%s", run->ops[0] ? run->ops : "none");
    }
  }
  snprintf(h->notes[1], sizeof h->notes[1],
           "Operations are Braid's, and what their counts are of differs from TensorFlow's.%s",
           when_far(mean_of(&ours), mean_of(&published),
                    " Ours offload less: what the simulation finds slower or costlier than the GPU is taken back, "
                    "transfers included."));
}

/* --- one to four FPGAs ---------------------------------------------------------------------------------------------
 */
static const struct {
  int fpgas, runs[2];
} kSweep[] = {{1, {CLI_HYBRID_1F, CLI_HYBRID_1F_OURS}},
              {2, {CLI_HYBRID_2F, CLI_HYBRID_2F_OURS}},
              {3, {CLI_HYBRID_THREE, CLI_HYBRID_THREE_OURS}},
              {4, {CLI_HYBRID_4F, CLI_HYBRID_4F_OURS}}};

/* Of models `from` to `to`: the least throughput and the means of the others. True: throughput is lost. */
static bool sweep_row(const cli_hybrid *h, cli_table *table, size_t row, int k, size_t from, size_t to) {
  mean power = {0}, efficiency = {0};
  double least = NAN;
  for (size_t m = from; m < to; m++) {
    const cli_hybrid_run *run = &h->runs[m][kSweep[row].runs[k]], *base = &h->runs[m][CLI_HYBRID_ONE];
    least = fmin(least, cli_hybrid_throughput(run, base));
    add_to(&power, cli_hybrid_power(run, base));
    add_to(&efficiency, cli_hybrid_efficiency(run, base));
  }
  cli_table_cell(table, to - from > 1 ? "all six" : "%s", braid_hybrid_models()[from].name); // NOLINT: literals
  cli_table_cell(table, "%d", kSweep[row].fpgas);
  cli_table_cell(table, "modelled, %s", k ? "slack-energy" : "hybrid-energy");
  cell_number(table, "%+.1f%%", fabs(least) < 5e-4 ? 0 : least);
  cell_number(table, "%+.1f%%", mean_of(&power));
  cell_number(table, "%+.1f%%", mean_of(&efficiency));
  cell_number(table, "%+.1f%%", energy_of(mean_of(&efficiency)));
  return least < -1e-6;
}

static void make_sweep(cli_hybrid *h, cli_table *table) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  cli_table_begin(table, "Section 5.3: one V100 and one to four Stratix 10 against one V100", h->notes[4],
                  "models|FPGAs|figures are|least samples/s|system W|samples/J|J a sample");
  bool loss = false;
  for (size_t i = 0; i < 4; i++)
    for (int k = 0; k < 2; k++) {
      if (h->all) loss |= sweep_row(h, table, i, k, 0, BRAID_HYBRID_MODELS);
      for (size_t m = 0; m < BRAID_HYBRID_MODELS && !h->all; m++)
        if (h->wanted[m]) loss |= sweep_row(h, table, i, k, m, m + 1);
    }
  if (h->all) {
    cli_table_cell(table, "all six");
    cli_table_cell(table, "4");
    cli_table_cell(table, "published");
    cli_table_cell(table, "no loss");
    cell_number(table, "%+.1f%%", t->four_power);
    cell_number(table, "%+.1f%%", t->four_efficiency);
    cell_number(table, "%+.1f%%", energy_of(t->four_efficiency));
  }
  snprintf(h->notes[4], sizeof h->notes[4], "Throughput%s: published no loss in any model, ours %s.%s",
           h->all ? " is that of the model that loses most" : "", loss ? "some" : "none",
           h->all ? " The paper's two numbers for four FPGAs are an average over models; its 40.4% is taken as "
                    "efficiency, as elsewhere."
                  : kOnlyAverages);
}

/* --- caps ----------------------------------------------------------------------------------------------------------
 */
static const cli_hybrid_run *capped(const cli_hybrid *h, size_t model, size_t cap, bool hybrid) {
  return &h->runs[model][CLI_HYBRID_CAPS + 2 * cap + hybrid];
}

static void make_capped(cli_hybrid *h, cli_table *table) {
  mean published = {0}, ours = {0};
  cli_table_begin(
      table, "Table 3 and Fig. 9: under a cap of 230 W", h->notes[5],
      "model|figures are|scaled clocks: samples/s|with FPGAs: samples/s|gain|cap less average W|cap less peak W");
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++) {
    const braid_hybrid_model *p = &braid_hybrid_models()[m];
    const cli_hybrid_run *scaled = capped(h, m, 1, false), *hybrid = capped(h, m, 1, true);
    if (!h->wanted[m]) continue;
    cli_table_cell(table, "%s", p->name);
    cli_table_cell(table, "published");
    cell_number(table, "%.0f", p->dvfs);
    cell_number(table, "%.0f", p->capped);
    cell_number(table, "%+.1f%%", add_to(&published, cli_hybrid_gain(p->capped, p->dvfs)));
    cli_table_cell(table, "50 to 70");
    cli_table_cell(table, "-");
    cli_table_cell(table, "%s", p->name);
    cli_table_cell(table, "modelled, dvfs and hybrid-cap");
    cell_number(table, "%.1f", samples_per_second(m, scaled));
    cell_number(table, "%.1f", samples_per_second(m, hybrid));
    cell_number(table, "%+.1f%%", add_to(&ours, cli_hybrid_throughput(hybrid, scaled)));
    cell_number(table, "%.1f", cli_hybrid_cap(1) - hybrid->summary.average_watts);
    cell_number(table, "%.1f", cli_hybrid_cap(1) - hybrid->summary.peak_watts);
  }
  char average[80] = "";
  if (h->all)
    snprintf(average, sizeof average, " Average gain: published %+.1f%%, ours %+.1f%%.", mean_of(&published),
             mean_of(&ours));
  snprintf(
      h->notes[5], sizeof h->notes[5],
      "The curves of Fig. 9 were not published as numbers; of their distance to the cap \"50-70 Watts\" is.%s%s%s",
      average,
      when_far(mean_of(&ours), mean_of(&published),
               " Ours differ: most of Table 1's GPU rows exceed 230 W by themselves, so that keeping the cap at "
               "every instant means low clocks, while dvfs runs near the cap on average, above it much of the time. "
               "Its samples a second differ from the published ones, too: the paper says neither what operations of "
               "its networks' sizes take at which clock, nor how the clocks follow power."),
      h->all ? " The text gives its average as 11.3 %." : "");
}

static bool is_wanted(const cli_hybrid *h, const char *name) {
  for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
    if (h->wanted[m] && strcmp(braid_hybrid_models()[m].name, name) == 0) return true;
  return false;
}

static void make_violations(cli_hybrid *h, cli_table *table) {
  const braid_hybrid_text *t = braid_hybrid_texts();
  double kept = 0, broken = 0;
  cli_table_begin(table, "Section 5.4: violations of caps", h->notes[6],
                  "cap W|model|policy|samples/s|average W|GPU W|peak W|violations a step|% of the time above");
  for (size_t c = 0; c < 3; c++)
    for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
      for (int k = 0; k < 2 && h->wanted[m]; k++) {
        const cli_hybrid_run *run = capped(h, m, c, k);
        if (k)
          kept += run->summary.cap_violations;
        else
          broken += run->summary.cap_violations;
        cli_table_cell(table, "%.0f", cli_hybrid_cap(c));
        cli_table_cell(table, "%s", braid_hybrid_models()[m].name);
        cli_table_cell(table, "%s, %s", run->policy, run->platform);
        cell_number(table, "%.1f", samples_per_second(m, run));
        cell_number(table, "%.1f", run->summary.average_watts);
        cell_number(table, "%.1f", run->gpu_watts);
        cell_number(table, "%.1f", run->summary.peak_watts);
        cell_number(table, "%.4g", run->summary.cap_violations);
        cell_number(table, "%.1f", 100 * run->summary.seconds_above / run->summary.seconds);
      }
  char most[2][80] = {"", ""};
  if (is_wanted(h, "VGG16"))
    snprintf(most[0], sizeof most[0], " %.0f times at 250 W (VGG16, the most),", t->violations_250);
  if (is_wanted(h, "ResNet50"))
    snprintf(most[1], sizeof most[1], " %.0f times at 210 W (ResNet50),", t->violations_210);
  snprintf(h->notes[6], sizeof h->notes[6],
           "Published: %s%s%s with FPGAs none. Ours, in one step: dvfs %.0f, hybrid-cap %.0f. The cap is taken for all "
           "devices together, idle ones included.",
           *most[0] || *most[1] ? "frequency scaling, in an unstated time by an unstated sampling interval,"
                                : "numbers of frequency scaling for VGG16 and ResNet50 alone;",
           most[0], most[1], broken, kept);
}

/* --- Table 4 -------------------------------------------------------------------------------------------------------
 */
enum { EXAMPLE_ROWS = 2048, EXAMPLE_INNER = 1024, EXAMPLE_COLUMNS = 1024 };

static void make_kernels(cli_hybrid *h, cli_table *table) {
  const double work = (double)EXAMPLE_ROWS * EXAMPLE_INNER * EXAMPLE_COLUMNS;
  const braid_hybrid_kernel *kernels = braid_hybrid_kernels();
  bool ordered = true;
  cli_table_begin(table, "Table 4: kernels and their latency indicator", h->notes[7],
                  "op|compute units|SIMD|work group|unrolled|published ms|published LI|our LI|MHz that it implies");
  for (size_t i = 0; i < BRAID_HYBRID_KERNELS; i++) {
    const braid_hybrid_kernel *k = &kernels[i];
    bool product = strcmp(k->op, "MatMul") == 0;
    bool again = i && strcmp(kernels[i - 1].op, k->op) == 0;
    ordered &= !again || (kernels[i - 1].ms < k->ms && kernels[i - 1].indicator < k->indicator);
    cli_table_cell(table, "%s", k->op);
    cli_table_cell(table, "%d", k->compute_units);
    cli_table_cell(table, "%d", k->simd);
    cli_table_cell(table, "%d", k->group);
    cli_table_cell(table, "%d", k->unroll);
    cell_number(table, "%.3f", k->ms);
    cell_number(table, "%.2f", k->indicator);
    cell_number(table, "%.2f", k->mhz > 0 ? braid_kernel_latency_indicator(work, k->group, k->mhz) : NAN);
    cell_number(table, "%.0f",
                product ? braid_kernel_latency_indicator(work, k->group, 1) / k->indicator
                        : NAN); /* LI * MHz is fixed */
  }
  snprintf(
      h->notes[7], sizeof h->notes[7],
      "MatMul is 2048 x 1024 by 1024 x 1024, by section 3.3, which gives two clocks; the inputs of Conv2D and MaxPool "
      "are not published, so only their order counts: by the published indicators it is %sthat of the published "
      "times. `braid explore kernel` searches the space.",
      ordered ? "" : "not ");
}

/* --- what results depend on ----------------------------------------------------------------------------------------
 */
static void variation_row(cli_table *table, const char *model, const cli_hybrid_variation *v) {
  cli_table_cell(table, "%s", v->what);
  cli_table_cell(table, "%s", model);
  cell_number(table, "%+.1f%%", v->efficiency);
  cell_number(table, "%+.1f%%", v->ours);
  cell_number(table, "%+.1f%%", fabs(v->throughput) < 5e-4 ? 0 : v->throughput);
  cell_number(table, "%+.1f%%", v->two_gpus);
}

static void make_variations(cli_hybrid *h, cli_table *table) {
  cli_table_begin(
      table, h->all ? "What the assumptions change: averages over the models" : "What the assumptions change",
      h->notes[8],
      "assumption|models|hybrid-energy: samples/J|slack-energy: samples/J|least samples/s|two V100: samples/s");
  for (size_t i = 0; i < CLI_HYBRID_VARIATIONS; i++) {
    cli_hybrid_variation average = cli_hybrid_mean_variation(h, i);
    if (h->all) variation_row(table, "all six", &average);
    for (size_t m = 0; m < BRAID_HYBRID_MODELS; m++)
      if (!h->all && h->wanted[m]) variation_row(table, braid_hybrid_models()[m].name, &h->variations[m][i]);
  }
  snprintf(
      h->notes[8], sizeof h->notes[8],
      "Three Stratix 10 beside one V100 against one V100 alone, and two V100 against one. Nothing is chosen by these "
      "results.");
}

void cli_hybrid_tables(cli_hybrid *h, cli_table tables[CLI_HYBRID_TABLES]) {
  make_three(h, &tables[0]);
  make_offloaded(h, &tables[1]);
  make_two(h, &tables[2]);
  make_against_one(h, &tables[3]);
  make_sweep(h, &tables[4]);
  make_capped(h, &tables[5]);
  make_violations(h, &tables[6]);
  make_kernels(h, &tables[7]);
  make_variations(h, &tables[8]);
}
