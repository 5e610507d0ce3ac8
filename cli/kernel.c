#include "kernels.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Ranks the configurations of an OpenCL kernel for FPGAs (compute units, SIMD width, work-group size, unrolling) by "
    "the latency indicator of He et al. (2021), without building them: LI = 1024 * multiply-accumulates / (work-group "
    "size * Fmax). With --device real kernels are built and measured instead, and it is said how well the indicator "
    "ranks them."
    "\vExamples:\n"
    "  braid explore kernel --op MatMul --size 2048x1024x1024 --fmax-table hype-training\n"
    "  braid explore kernel --op MatMul --size 1024x1024x1024 --chip alveo-u250\n"
    "  braid explore kernel --op Conv --size 32x64x56x56 --filters 64 --window 3 --pad 1 --fmax-table mine.csv\n"
    "  braid explore kernel --op MatMul --size 512x512x512 --report 2,1,64=mm/acl_quartus_report.txt\n"
    "  braid explore kernel --op MatMul --size 256x256x256 --device opencl0\n"
    "\n--size: rows x inner x columns of MatMul; batch x channels x height x width of the input of Conv and MaxPool. "
    "Without --fmax-table and --report Fmax is modelled from the chip's file, which is an assumption. Indicators are "
    "modelled, times with --device are measured. What the paper leaves open is in docs/explore.md.\n";

enum {
  KEY_OP = CLI_FIRST_KEY,
  KEY_SIZE,
  KEY_FILTERS,
  KEY_WINDOW,
  KEY_STRIDE,
  KEY_PAD,
  KEY_CHIP,
  KEY_TABLE,
  KEY_REPORT,
  KEY_MODEL,
  KEY_UNITS,
  KEY_SIMD,
  KEY_GROUPS,
  KEY_UNROLL,
  KEY_TOP,
  KEY_KERNELS,
  KEY_DEVICE,
  KEY_RUNS,
  KEY_CLOCK
};

/* --- options -------------------------------------------------------------------------------------------------------
 */
static void parse_op(struct argp_state *state, const char *text, cli_kernel_options *o) {
  for (int op = 0; op < BRAID_KERNEL_OPS; op++) {
    if (strcasecmp(text, braid_kernel_op_name((braid_kernel_op)op)) != 0) continue;
    o->problem.op = (braid_kernel_op)op;
    o->op = text;
    return;
  }
  argp_error(state, "--op: MatMul, Conv or MaxPool is expected, not \"%s\"", text);
}

static void parse_choices(struct argp_state *state, const char *option, char *text, cli_kernel_choices *list) {
  list->count = 0;
  for (char *word = text, *next; word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    if (list->count == BRAID_KERNEL_CHOICES) argp_error(state, "%s: more than %d", option, BRAID_KERNEL_CHOICES);
    int64_t value = cli_integer(state, option, word, 1, BRAID_KERNEL_MOST);
    if (list->count && value <= list->values[list->count - 1])
      argp_error(state, "%s: ascending numbers are expected, not %" PRId64 " after %" PRId64, option, value,
                 list->values[list->count - 1]);
    list->values[list->count++] = value;
  }
}

/* The number behind "cu" in ".../mm_cu2_simd1/...": 0 if there is none. */
static int64_t number_in_path(const char *path, const char *word) {
  size_t length = strlen(word);
  for (const char *at = path; *at; at++) {
    if (strncasecmp(at, word, length) != 0 || !isdigit((unsigned char)at[length])) continue;
    if (at > path && isalpha((unsigned char)at[-1])) continue;
    long long value = strtoll(at + length, NULL, 10);
    return value >= 1 && value <= BRAID_KERNEL_MOST ? value : 0;
  }
  return 0;
}

static void parse_report(struct argp_state *state, const char *text, cli_kernel_options *o) {
  if (o->report_count == CLI_KERNEL_FILES) argp_error(state, "more than %d --report", CLI_KERNEL_FILES);
  cli_kernel_report *report = &o->reports[o->report_count++];
  int used = 0;
  *report = (cli_kernel_report){.path = text};
  if (sscanf(text, "%9" SCNd64 ",%9" SCNd64 ",%9" SCNd64 "=%n", &report->units, &report->simd, &report->unroll,
             &used) == 3 &&
      used) {
    report->path = text + used;
  } else {
    report->units = number_in_path(text, "cu");
    report->simd = number_in_path(text, "simd");
    report->unroll = number_in_path(text, "unroll");
    if (!report->unroll) report->unroll = number_in_path(text, "ul");
  }
  const int64_t sides[] = {report->units, report->simd, report->unroll};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
    if (sides[i] < 1 || sides[i] > BRAID_KERNEL_MOST)
      argp_error(state,
                 "--report \"%s\": of which configuration? COMPUTE_UNITS,SIMD,UNROLL=FILE is expected, or a path with "
                 "cuN, simdN and unrollN",
                 text);
}

static void parse_size(struct argp_state *state, cli_kernel_options *o) {
  int count = o->problem.op == BRAID_KERNEL_MATMUL ? 3 : 4, i = 0;
  const char *at = o->size;
  for (; i < count; i++) {
    char *end;
    if (!isdigit((unsigned char)*at)) break;
    o->problem.dims[i] = strtoll(at, &end, 10);
    if (*end != (i + 1 < count ? 'x' : '\0')) break;
    at = end + 1;
  }
  if (i < count)
    argp_error(state, "--size: %s is expected for %s, not \"%s\"",
               count == 3 ? "ROWSxINNERxCOLUMNS" : "BATCHxCHANNELSxHEIGHTxWIDTH", braid_kernel_op_name(o->problem.op),
               o->size);
  braid_status status = braid_kernel_work(&o->problem, &o->work);
  if (status != BRAID_OK) argp_error(state, "--size %s: %s", o->size, braid_error_detail());
}

static void refuse_if(struct argp_state *state, bool given, const char *option, const char *why) {
  if (given) argp_error(state, "%s has no effect %s", option, why);
}

static void check_options(cli_kernel_options *o, struct argp_state *state) {
  braid_kernel_problem *p = &o->problem;
  if (!o->op) argp_error(state, "--op is expected: MatMul, Conv or MaxPool");
  if (!o->size) argp_error(state, "--size is expected, e.g. 1024x1024x1024 for MatMul");
  bool product = p->op == BRAID_KERNEL_MATMUL;
  refuse_if(state, product && p->window, "--window", "on MatMul");
  refuse_if(state, product && p->stride, "--stride", "on MatMul");
  refuse_if(state, product && p->pad, "--pad", "on MatMul");
  refuse_if(state, p->op != BRAID_KERNEL_CONV && p->filters, "--filters", "except on Conv");
  if (p->op == BRAID_KERNEL_CONV && !p->filters) argp_error(state, "--filters is expected for Conv");
  if (!product && !p->window) argp_error(state, "--window is expected, the side of the window");
  if (!product && !p->stride) p->stride = 1;
  refuse_if(state, o->device && o->chip, "--chip", "with --device");
  refuse_if(state, o->device && o->model, "--fmax-model", "with --device");
  refuse_if(state, o->device && o->top, "--top", "with --device");
  refuse_if(state, o->device && o->kernels, "--kernels", "with --device");
  if (!o->kernels) o->kernels = 1;
  refuse_if(state, !o->device && o->runs, "--runs", "without --device");
  refuse_if(state, !o->device && o->clock > 0, "--clock", "without --device");
  refuse_if(state, o->clock > 0 && o->table_count + o->report_count, "--clock", "with --fmax-table or --report");
  parse_size(state, o);
}

static error_t parse_problem(int key, char *argument, struct argp_state *state, cli_kernel_options *o) {
  switch (key) {
  case KEY_OP:
    parse_op(state, argument, o);
    return 0;
  case KEY_SIZE:
    o->size = argument;
    return 0;
  case KEY_FILTERS:
    o->problem.filters = cli_integer(state, "--filters", argument, 1, INT32_MAX);
    return 0;
  case KEY_WINDOW:
    o->problem.window = cli_integer(state, "--window", argument, 1, INT32_MAX);
    return 0;
  case KEY_STRIDE:
    o->problem.stride = cli_integer(state, "--stride", argument, 1, INT32_MAX);
    return 0;
  case KEY_PAD:
    o->problem.pad = cli_integer(state, "--pad", argument, 0, INT32_MAX);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse_space(int key, char *argument, struct argp_state *state, cli_kernel_options *o) {
  switch (key) {
  case KEY_UNITS:
    parse_choices(state, "--units", argument, &o->units);
    return 0;
  case KEY_SIMD:
    parse_choices(state, "--simd", argument, &o->simd);
    return 0;
  case KEY_GROUPS:
    parse_choices(state, "--groups", argument, &o->groups);
    return 0;
  case KEY_UNROLL:
    o->most_unroll = cli_integer(state, "--most-unroll", argument, 1, BRAID_KERNEL_MOST_UNROLL);
    return 0;
  case KEY_KERNELS:
    o->kernels = cli_integer(state, "--kernels", argument, 1, BRAID_KERNEL_MOST);
    return 0;
  case KEY_TOP:
    o->top = cli_integer(state, "--top", argument, 1, 1000000);
    return 0;
  default:
    return parse_problem(key, argument, state, o);
  }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  cli_kernel_options *o = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &o->common;
    return 0;
  case KEY_CHIP:
    o->chip = argument;
    return 0;
  case KEY_TABLE:
    if (o->table_count == CLI_KERNEL_FILES) argp_error(state, "more than %d --fmax-table", CLI_KERNEL_FILES);
    o->tables[o->table_count++] = argument;
    return 0;
  case KEY_REPORT:
    parse_report(state, argument, o);
    return 0;
  case KEY_MODEL:
    o->model = true;
    return 0;
  case KEY_DEVICE:
    o->device = argument;
    return 0;
  case KEY_RUNS:
    o->runs = cli_integer(state, "--runs", argument, 1, 1000000);
    return 0;
  case KEY_CLOCK:
    o->clock = cli_number(state, "--clock", argument, 0.001, 100000);
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "no argument is expected, not \"%s\"", argument);
    return 0;
  case ARGP_KEY_END:
    check_options(o, state);
    return 0;
  default:
    return parse_space(key, argument, state, o);
  }
}

/* --- what both ways print ------------------------------------------------------------------------------------------
 */
char *cli_kernel_title(const cli_kernel_options *o, char *buffer, size_t bytes) {
  const braid_kernel_problem *p = &o->problem;
  int used = snprintf(buffer, bytes, "%s %s", braid_kernel_op_name(p->op), o->size);
  if (p->op == BRAID_KERNEL_CONV && used > 0 && (size_t)used < bytes)
    used += snprintf(buffer + used, bytes - (size_t)used, ", %" PRId64 " filters", p->filters);
  if (p->op != BRAID_KERNEL_MATMUL && used > 0 && (size_t)used < bytes)
    snprintf(buffer + used, bytes - (size_t)used, ", window %" PRId64 ", stride %" PRId64 ", pad %" PRId64, p->window,
             p->stride, p->pad);
  return buffer;
}

void cli_kernel_add_indicator(cli_table *table, double li) {
  if (isnan(li))
    cli_table_cell(table, "?");
  else
    cli_table_cell(table, li >= 1 ? "%.2f" : "%.3g", li);
}

void cli_kernel_json_head(cli_json *json, const cli_kernel_options *o) {
  const braid_kernel_problem *p = &o->problem;
  cli_json_string(json, "op", braid_kernel_op_name(p->op));
  cli_json_string(json, "size", o->size);
  if (p->op == BRAID_KERNEL_CONV) cli_json_integer(json, "filters", p->filters);
  if (p->op != BRAID_KERNEL_MATMUL) {
    cli_json_integer(json, "window", p->window);
    cli_json_integer(json, "stride", p->stride);
    cli_json_integer(json, "pad", p->pad);
  }
  cli_json_number(json, p->op == BRAID_KERNEL_MAX_POOL ? "comparisons" : "macs", o->work);
  cli_json_string(json, "size_class", braid_kernel_size_class_name(braid_kernel_classify(p)));
}

void cli_kernel_json_design(cli_json *json, const braid_kernel_design *design) {
  cli_json_integer(json, "compute_units", design->units);
  cli_json_integer(json, "simd_width", design->simd);
  cli_json_integer(json, "work_group_size", design->group);
  cli_json_integer(json, "unroll", design->unroll);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status add_report(braid_fmax_table *table, const cli_kernel_report *from) {
  braid_vendor_report report;
  braid_status status = braid_vendor_report_load(NULL, from->path, &report);
  if (status != BRAID_OK) return status;
  const braid_fmax_point point = {.units = from->units,
                                  .simd = from->simd,
                                  .unroll = from->unroll,
                                  .mhz = report.fmax_mhz,
                                  .too_large = report.logic > 1 || report.dsps > 1 || report.rams > 1,
                                  .file = from->path};
  return braid_fmax_table_add(table, &point);
}

static braid_status fill_table(const cli_kernel_options *o, braid_fmax_table *table) {
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < o->table_count && status == BRAID_OK; i++) status = braid_fmax_table_load(table, o->tables[i]);
  for (size_t i = 0; i < o->report_count && status == BRAID_OK; i++) status = add_report(table, &o->reports[i]);
  return status;
}

int cli_explore_kernel(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"op", KEY_OP, "OP", 0, "MatMul, Conv or MaxPool", 0},
      {"size", KEY_SIZE, "SIZE", 0, "ROWSxINNERxCOLUMNS, or BATCHxCHANNELSxHEIGHTxWIDTH", 0},
      {"filters", KEY_FILTERS, "N", 0, "Filters of Conv", 0},
      {"window", KEY_WINDOW, "N", 0, "Side of the window of Conv and MaxPool", 0},
      {"stride", KEY_STRIDE, "N", 0, "Its step (default 1)", 0},
      {"pad", KEY_PAD, "N", 0, "Padding at each border (default 0)", 0},
      {"chip", KEY_CHIP, "CHIP", 0,
       "What does not fit this chip is left out: of the library, or a .yaml file (default " CLI_KERNEL_CHIP ")", 0},
      {"kernels", KEY_KERNELS, "N", 0,
       "So many kernels of this size share the chip (default 1; the paper's bitstreams have three for each op)", 0},
      {"fmax-table", KEY_TABLE, "FILE", 0,
       "Fmax of configurations, CSV or YAML, or hype-training, the paper's two (may be repeated)", 0},
      {"report", KEY_REPORT, "[CU,SIMD,UNROLL=]FILE", 0,
       "Fmax and use of the chip as a vendor's tool reports them: acl_quartus_report.txt, aoc -report, xclbin.info, "
       "Vivado's timing summary, v++'s log; without a configuration the path has cuN, simdN and unrollN (may be "
       "repeated)",
       0},
      {"fmax-model", KEY_MODEL, NULL, 0, "Model Fmax where no table and no report has it", 0},
      {"units", KEY_UNITS, "LIST", 0, "Numbers of compute units (default 1,2,3,4)", 0},
      {"simd", KEY_SIMD, "LIST", 0, "SIMD widths (default 1,2,4,8,16)", 0},
      {"groups", KEY_GROUPS, "LIST", 0, "Work-group sizes (default 32,64,128,256; of Conv 16,32,64,128)", 0},
      {"most-unroll", KEY_UNROLL, "N", 0, "Unrolling from 1 to N (default 256)", 0},
      {"top", KEY_TOP, "N", 0, "Show the best N (default 5)", 0},
      {"device", KEY_DEVICE, "DEVICE", 0, "Build and measure configurations on this OpenCL device", 0},
      {"runs", KEY_RUNS, "N", 0, "Measured runs of each in each of three rounds (default 10)", 0},
      {"clock", KEY_CLOCK, "MHZ", 0, "Fmax of every configuration on the device, which orders none (default 1000)", 0},
      {0}};
  static const struct argp_child children[] = {{&cli_common_argp, 0, NULL, 0}, {0}};
  static const struct argp argp = {table, parse, "", doc, children, NULL, NULL};
  static cli_kernel_options o;
  braid_fmax_table *fmax = NULL;
  cli_parse(&argp, argc, argv, &o);
  braid_status status = braid_fmax_table_create(NULL, &fmax);
  if (status == BRAID_OK) status = fill_table(&o, fmax);
  if (status == BRAID_OK) status = o.device ? cli_kernel_measure(&o, fmax) : cli_kernel_search(&o, fmax);
  braid_fmax_table_destroy(fmax);
  return status == BRAID_OK ? CLI_OK : cli_fail(&o.common, "explore kernel", status);
}
