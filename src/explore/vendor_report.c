/* Reports of vendors' tools about one kernel: the clock that it reaches and how much of the chip it takes. Formats are
 * told apart by their lines; docs/explore.md lists them. Nothing of a text is trusted. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "braid/explore.h"
#include "explore/lines.h"

enum { kReportBytes = 64 << 20, kClocks = 64, kClockName = 64, kWords = 16 };
static const double kLeastMhz = 0.001, kMostMhz = 1e5;

typedef enum format {
  FORMAT_NONE,
  FORMAT_QUARTUS,   /* acl_quartus_report.txt */
  FORMAT_ESTIMATES, /* aoc -rtl -report */
  FORMAT_XCLBIN,    /* NAME.xclbin.info */
  FORMAT_TIMING,    /* report_timing_summary of Vivado */
  FORMAT_LINK,      /* log of v++ -l */
} format;

static const char *const kFormats[] = {"none",        "acl_quartus_report.txt", "aoc -report",
                                       "xclbin.info", "Vivado timing summary",  "v++ link log"};

typedef struct report_clock {
  char name[kClockName];
  double period_ns, slack_ns; /* NAN: not there */
} report_clock;

typedef struct report_reader {
  const char *file;
  braid_lines lines;
  format format;
  braid_vendor_report out;
  /* What the lines before this one say of it. */
  bool kernel_clock; /* XCLBIN: the clock's name is that of a kernel's */
  enum { OUTSIDE, OF_CLOCKS, OF_SLACKS } section;
  report_clock clocks[kClocks];
  size_t clock_count;
} report_reader;

#define REFUSE(r, ...)                                                                                                 \
  braid_fail_prefix(braid_fail(BRAID_INVALID_FILE, __VA_ARGS__), "%.200s, line %zu", (r)->file, (r)->lines.number)

static void take_format(report_reader *r, format found) {
  if (r->format == FORMAT_NONE) r->format = found;
}

/* --- numbers -------------------------------------------------------------------------------------------------------
 */
/* "1,234.5" at the beginning of the text; *end: behind it. */
static bool read_number(const char *text, double *out, const char **end) {
  char digits[48];
  size_t used = 0;
  text += strspn(text, " \t");
  const char *at = text;
  for (; isdigit((unsigned char)*at) || (*at && strchr("+-.,", *at)); at++) {
    if (*at == ',') continue;
    if (used + 1 == sizeof digits) return false;
    digits[used++] = *at;
  }
  digits[used] = '\0';
  *end = at;
  return used && braid_parse_f64(digits, out);
}

static braid_status read_mhz(const report_reader *r, const char *what, const char *text, double *out) {
  const char *end;
  if (read_number(text, out, &end) && *out >= kLeastMhz && *out <= kMostMhz) {
    end += strspn(end, " \t");
    if (!*end || strncasecmp(end, "MHz", 3) == 0) return BRAID_OK;
  }
  return REFUSE(r, "%s is \"%.40s\", expected MHz from %g to %g", what, text + strspn(text, " \t"), kLeastMhz,
                kMostMhz);
}

static void keep_least(double *into, double value) {
  if (!(*into <= value)) *into = value;
}

static const char *after(const char *line, const char *key) {
  size_t length = strlen(key);
  return strncasecmp(line, key, length) == 0 ? line + length : NULL;
}

/* --- Intel FPGA SDK for OpenCL -------------------------------------------------------------------------------------
 * "Logic utilization: 123,456 / 933,120 ( 13 % )", "Kernel fmax: 241.03" */
static braid_status read_share(const report_reader *r, const char *what, const char *text, double *out) {
  double used, all;
  const char *end;
  if (!read_number(text, &used, &end) || used < 0) return REFUSE(r, "%s \"%.60s\": expected USED / ALL", what, text);
  end += strspn(end, " \t");
  if (*end != '/') return BRAID_OK; /* a count alone */
  if (!read_number(end + 1, &all, &end) || all <= 0) return REFUSE(r, "%s \"%.60s\": expected USED / ALL", what, text);
  *out = used / all;
  return BRAID_OK;
}

static braid_status read_quartus(report_reader *r) {
  const char *line = r->lines.text, *value;
  if ((value = after(line, "Kernel fmax:"))) {
    take_format(r, FORMAT_QUARTUS);
    return read_mhz(r, "Kernel fmax", value, &r->out.fmax_mhz);
  }
  const struct {
    const char *key;
    double *share;
  } lines[] = {{"Logic utilization:", &r->out.logic}, {"DSP blocks:", &r->out.dsps}, {"RAM blocks:", &r->out.rams}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    if (!(value = after(line, lines[i].key))) continue;
    take_format(r, FORMAT_QUARTUS);
    return read_share(r, lines[i].key, value, lines[i].share);
  }
  return BRAID_OK;
}

/* "; DSP blocks          ;   31%                     ;" */
static braid_status read_estimates(report_reader *r) {
  const char *line = r->lines.text;
  if (*line != ';') return BRAID_OK;
  if (strstr(line, "Estimated Resource Usage Summary")) {
    take_format(r, FORMAT_ESTIMATES);
    return BRAID_OK;
  }
  const struct {
    const char *key;
    double *share;
  } rows[] = {{"Logic utilization", &r->out.logic}, {"Memory blocks", &r->out.rams}, {"DSP blocks", &r->out.dsps}};
  for (size_t i = 0; r->format == FORMAT_ESTIMATES && i < sizeof rows / sizeof *rows; i++) {
    const char *cell = after(line + 1 + strspn(line + 1, " "), rows[i].key), *end;
    double percent;
    if (!cell) continue;
    cell += strspn(cell, " ;+");
    if (!read_number(cell, &percent, &end) || percent < 0 || *end != '%')
      return REFUSE(r, "%s is \"%.30s\", expected a percentage", rows[i].key, cell);
    *rows[i].share = percent / 100;
  }
  return BRAID_OK;
}

/* --- AMD Vitis -----------------------------------------------------------------------------------------------------
 */
/* The clocks that kernels get: DATA_CLK, clk_kernel_in, ulp_ucs_aclk_kernel_00, ... */
static bool is_kernel_clock(const char *name) {
  char lower[kClockName];
  size_t i = 0;
  for (; name[i] && i + 1 < sizeof lower; i++) lower[i] = (char)tolower((unsigned char)name[i]);
  lower[i] = '\0';
  if (strstr(lower, "kernel_01") || strstr(lower, "kernel2")) return false; /* the second one, for RTL kernels */
  return strstr(lower, "kernel") || strstr(lower, "data_clk");
}

static braid_status read_xclbin(report_reader *r) {
  const char *value;
  if ((value = after(r->lines.text, "Name:"))) {
    r->kernel_clock = is_kernel_clock(value);
    return BRAID_OK;
  }
  if (!(value = after(r->lines.text, "Achieved Freq:"))) return BRAID_OK;
  take_format(r, FORMAT_XCLBIN);
  double mhz;
  BRAID_TRY(read_mhz(r, "Achieved Freq", value, &mhz));
  if (r->kernel_clock) keep_least(&r->out.fmax_mhz, mhz);
  return BRAID_OK;
}

/* "... timing paths failed timing targeting 320 MHz for kernel clock 'X'. The frequency is being automatically changed
 * to 307.5 MHz to enable proper functionality" */
static braid_status read_link(report_reader *r) {
  static const char kChanged[] = "frequency is being automatically changed to";
  const char *value = strstr(r->lines.text, kChanged);
  if (!value) return BRAID_OK;
  take_format(r, FORMAT_LINK);
  double mhz;
  BRAID_TRY(read_mhz(r, "the changed frequency", value + strlen(kChanged), &mhz));
  const char *clock = strstr(r->lines.text, " for ");
  if (clock && clock < value && strstr(clock, "system clock")) return BRAID_OK;
  keep_least(&r->out.fmax_mhz, mhz);
  return BRAID_OK;
}

/* --- Vivado's timing summary ---------------------------------------------------------------------------------------
 */
static size_t split_words(char *line, char *words[kWords]) {
  size_t count = 0;
  for (char *rest = NULL, *word = strtok_r(line, " \t", &rest); word && count < kWords;
       word = strtok_r(NULL, " \t", &rest))
    words[count++] = word;
  return count;
}

static report_clock *find_clock(report_reader *r, const char *name) {
  for (size_t i = 0; i < r->clock_count; i++)
    if (strncmp(r->clocks[i].name, name, kClockName - 1) == 0) return &r->clocks[i];
  if (r->clock_count == kClocks) return NULL;
  report_clock *clock = &r->clocks[r->clock_count++];
  *clock = (report_clock){.period_ns = NAN, .slack_ns = NAN};
  strncpy(clock->name, name, kClockName - 1);
  return clock;
}

/* Clock Summary: "clk  {0.000 1.667}  3.333  300.000"; Intra Clock Table: "clk  0.016  0.000  0  1234 ...". */
static braid_status read_timing(report_reader *r) {
  char *line = r->lines.text;
  if (*line == '|') {
    r->section = strstr(line, "Clock Summary")         ? OF_CLOCKS
                 : strstr(line, "Intra Clock Table")   ? OF_SLACKS
                 : strspn(line, "|- ") == strlen(line) ? r->section
                                                       : OUTSIDE;
    if (r->section != OUTSIDE) take_format(r, FORMAT_TIMING);
    return BRAID_OK;
  }
  if (r->section == OUTSIDE || !*line || strspn(line, "- ") == strlen(line)) return BRAID_OK;
  const char *brace = strchr(line, '}');
  bool of_clocks = r->section == OF_CLOCKS;
  if (of_clocks != (brace != NULL)) return BRAID_OK; /* the head */
  char number[48] = "";
  if (of_clocks) strncpy(number, brace + 1 + strspn(brace + 1, " \t"), sizeof number - 1);
  char *words[kWords], *ends = NULL;
  size_t count = split_words(line, words);
  if (count < 2) return BRAID_OK;
  char *value = of_clocks ? strtok_r(number, " \t", &ends) : words[1];
  double ns;
  if (!value || !braid_parse_f64(value, &ns)) {
    if (!of_clocks) return BRAID_OK; /* the head, or a clock without paths of its own */
    return REFUSE(r, "the period of clock \"%.60s\" is \"%.30s\", expected ns", words[0], value ? value : "");
  }
  report_clock *clock = find_clock(r, words[0]);
  if (!clock) return REFUSE(r, "more than %d clocks", kClocks);
  if (of_clocks && !(ns > 0 && ns <= 1e6)) return REFUSE(r, "a period of %g ns, expected up to 1e6", ns);
  *(of_clocks ? &clock->period_ns : &clock->slack_ns) = ns;
  return BRAID_OK;
}

/* Of the kernel's clocks the slowest; where none is named so, of the only clock that has paths. */
static braid_status end_timing(report_reader *r) {
  size_t timed = 0;
  double only = NAN;
  for (size_t i = 0; i < r->clock_count; i++) {
    const report_clock *clock = &r->clocks[i];
    double ns = clock->period_ns - clock->slack_ns;
    if (isnan(ns)) continue;
    if (!(ns > 0) || 1000 / ns > kMostMhz)
      return REFUSE(r, "clock \"%s\": a slack of %g ns in a period of %g", clock->name, clock->slack_ns,
                    clock->period_ns);
    timed++;
    only = 1000 / ns;
    if (is_kernel_clock(clock->name)) keep_least(&r->out.fmax_mhz, only);
  }
  if (isnan(r->out.fmax_mhz) && timed == 1) r->out.fmax_mhz = only;
  if (!isnan(r->out.fmax_mhz)) return BRAID_OK;
  return REFUSE(r, "%zu clocks with a period and a slack up to here, and none is named as a kernel's", timed);
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static braid_status end_report(report_reader *r) {
  r->out.format = kFormats[r->format];
  bool shares = !isnan(r->out.logic) || !isnan(r->out.dsps) || !isnan(r->out.rams);
  switch (r->format) {
  case FORMAT_NONE:
    return REFUSE(r, "no line up to here is one of a known report: expected \"Kernel fmax:\" (Intel FPGA SDK for "
                     "OpenCL), \"Estimated Resource Usage Summary\" (aoc -report), \"Achieved Freq:\" (xclbin.info), "
                     "\"Intra Clock Table\" (Vivado) or a frequency that v++ changed");
  case FORMAT_ESTIMATES:
    return shares ? BRAID_OK : REFUSE(r, "the report ends here without a row of its table");
  case FORMAT_QUARTUS:
    return isnan(r->out.fmax_mhz) ? REFUSE(r, "the report ends here without \"Kernel fmax:\"") : BRAID_OK;
  case FORMAT_TIMING:
    return end_timing(r);
  default:
    return isnan(r->out.fmax_mhz) ? REFUSE(r, "the report ends here without the frequency of a kernel's clock")
                                  : BRAID_OK;
  }
}

braid_status braid_vendor_report_parse(const char *name, const void *text, size_t bytes, braid_vendor_report *out) {
  braid_status (*const readers[])(report_reader *) = {read_quartus, read_estimates, read_xclbin, read_link,
                                                      read_timing}; /* the last one changes the line */
  const braid_vendor_report unknown = {.fmax_mhz = NAN, .logic = NAN, .dsps = NAN, .rams = NAN};
  *out = unknown;
  report_reader r = {.file = name, .lines = braid_lines_of(text, bytes), .out = unknown};
  while (braid_lines_next(&r.lines))
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) BRAID_TRY(readers[i](&r));
  BRAID_TRY(end_report(&r));
  *out = r.out;
  return BRAID_OK;
}

braid_status braid_vendor_report_load(const braid_allocator *allocator, const char *path, braid_vendor_report *out) {
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, path, kReportBytes, &view));
  braid_status status = braid_vendor_report_parse(path, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}
