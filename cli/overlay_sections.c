/* Tables 1 to 3: published and ours. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "overlay_evaluation.h"

cli_overlay_line *cli_overlay_add(cli_overlay_section *section, const char *figures, const char *format, ...) {
  static cli_overlay_line overflow;
  cli_overlay_line *line = section->count < CLI_OVERLAY_LINES ? &section->lines[section->count++]
                                                              : &overflow; /* lists are of known length */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line->label, sizeof line->label, format, arguments);
  va_end(arguments);
  line->figures = figures;
  for (size_t c = 0; c < CLI_OVERLAY_COLUMNS; c++) line->published[c] = line->ours[c] = cli_overlay_one(NAN);
  return line;
}

braid_overlay_span cli_overlay_one(double value) {
  return (braid_overlay_span){value, value};
}

braid_overlay_span cli_overlay_range(const cli_overlay_counted *counted) {
  braid_overlay_span span = {counted->of[0], counted->of[0]};
  for (size_t i = 1; i < BRAID_OVERLAY_SHARES; i++) {
    span.low = fmin(span.low, counted->of[i]);
    span.high = fmax(span.high, counted->of[i]);
  }
  return span;
}

/* --- Table 1 -------------------------------------------------------------------------------------------------------
 */
static void make_resources(cli_overlay *o) {
  cli_overlay_section *s = &o->sections[0];
  s->title = "Table 1: resources of an FPGA";
  s->subject = "design";
  s->columns = "thousand LUTs|thousand FFs|BRAMs|URAMs|DSPs";
  snprintf(
      s->note, sizeof s->note,
      "LUTs and FFs are a linear model that is fitted to this table, so that they agree proves little "
      "(docs/overlay.md has its error on designs left out); blocks of memory and DSPs are counted. The paper's 16 x "
      "256 is 16 x 64 multipliers here, and its 1 x 2,048 is 1 x 1,024. The single-core design of recurrent networks "
      "uses half of the published BRAMs: its memories are assumed.");
  for (size_t i = 0; i < braid_overlay_built_count(); i++) {
    braid_overlay_built built;
    if (braid_overlay_get_built(i, &built) != BRAID_OK) continue;
    cli_overlay_line *line =
        cli_overlay_add(s, built.design ? "estimated" : NULL, "%s, %s", built.fpga, built.published_name);
    for (size_t r = 0; r < BRAID_OVERLAY_RESOURCES; r++) {
      double unit = r == BRAID_OVERLAY_LUTS || r == BRAID_OVERLAY_FFS ? 1e3 : 1;
      line->published[r] = cli_overlay_one(built.published[r] / unit);
      line->ours[r] = cli_overlay_one(built.estimated[r] / unit);
    }
  }
}

/* --- Table 2 -------------------------------------------------------------------------------------------------------
 */
static void make_compilers(cli_overlay *o) {
  cli_overlay_section *s = &o->sections[1];
  s->title = "Table 2: compiling, and switching to 1, 2, 4, 8 or 16 cores";
  s->subject = "network";
  s->columns = "static ms|dynamic ms|transfer ms|switch ms";
  for (size_t n = 0; n < BRAID_OVERLAY_NETWORKS; n++) {
    const braid_overlay_published_network *p = &braid_overlay_published_networks()[n];
    const cli_overlay_network *ours = &o->of[n];
    if (!o->networks[n]) continue;
    cli_overlay_line *line = cli_overlay_add(s, "measured, transfer modelled", "%s", p->name);
    line->published[0] = cli_overlay_one(p->static_ms);
    line->published[1] = p->dynamic_ms;
    line->published[2] = p->transfer_ms;
    line->published[3] = p->switch_ms;
    line->ours[0] = cli_overlay_one(ours->static_ms);
    line->ours[1] = cli_overlay_range(&ours->dynamic_ms);
    line->ours[2] = cli_overlay_range(&ours->transfer_ms);
    line->ours[3] = cli_overlay_range(&ours->switch_ms);
  }
  snprintf(
      s->note, sizeof s->note,
      "Theirs are in Python on a Xeon 4210, ours in C on one thread of this machine (processor time, the least of "
      "some); transfers are modelled by the design's assumed PCIe. Static: from the quantized graph, or an LSTM's "
      "weights in float32, to the package. Programs of an LSTM are of one step; those of longer sequences grow with "
      "the steps.");
}

/* --- Table 3 -------------------------------------------------------------------------------------------------------
 */
static void put_counted(cli_overlay_line *line, const double *published, const cli_overlay_counted *ours) {
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) {
    if (published) line->published[i] = cli_overlay_one(published[i]);
    if (ours) line->ours[i] = cli_overlay_one(ours->of[i]);
  }
}

static void make_scaling(cli_overlay *o) {
  const braid_overlay_published_scaling *p = braid_overlay_published_scalings();
  const cli_overlay_network *n = &o->of[BRAID_OVERLAY_RESNET50];
  cli_overlay_section *s = &o->sections[2];
  cli_overlay_counted linear;
  for (size_t i = 0; i < BRAID_OVERLAY_SHARES; i++) linear.of[i] = n->single.of[0] * cli_overlay_share(i);
  const cli_overlay_counted *const ours[] = {&n->width, &n->channels, &n->optimized, &n->single, &linear};
  s->title = "Table 3: images of ResNet-50 a second, one task";
  s->subject = "design";
  s->columns = "512|2 x 512|4 x 512|8 x 512|16 x 512|average loss %";
  for (size_t i = 0; o->networks[BRAID_OVERLAY_RESNET50] && i < BRAID_OVERLAY_SCALINGS; i++) {
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "%s", p[i].name);
    put_counted(line, p[i].images, ours[i]);
    line->published[5] = cli_overlay_one(p[i].loss);
    if (i < 4) line->ours[5] = cli_overlay_one(cli_overlay_loss(ours[i], &n->single));
  }
  if (o->networks[BRAID_OVERLAY_RESNET50]) {
    cli_overlay_line *line = cli_overlay_add(s, "modelled", "all our tilings");
    put_counted(line, NULL, &n->ours);
    line->ours[5] = cli_overlay_one(cli_overlay_loss(&n->ours, &n->single));
    put_counted(cli_overlay_add(s, "the roofline", "bound of operations"), NULL, &n->bound);
  }
  snprintf(s->note, sizeof s->note,
           "Average loss is the paper's: the signed mean over these five of 1 - cores / single core. Its 7.6 images a "
           "second are 40%% of what 512 operations a cycle at 300 MHz bound; nothing says where the rest goes, and "
           "nothing is fitted to it: our core waits for what the timing simulator knows of, queues, tokens, DDR and "
           "synchronization. One core runs the code of a single core here (section 7.3.4), in whichever row; theirs "
           "loses by tiles even there. Optimized: by width or by channels, as the paper's; all our tilings: by both at "
           "once, too. Single cores of 2 to 8 x 512 are parts of cnn-1x8192; how parallelism and bandwidth are divided "
           "is unpublished, and PP, ICP and OCP, which pictures' sizes and channels do not fill alike, decide much of "
           "the difference.");
}

void cli_overlay_make_sections(cli_overlay *o) {
  if (o->wanted[0]) make_resources(o);
  if (o->wanted[1]) make_compilers(o);
  if (o->wanted[2]) make_scaling(o);
}
