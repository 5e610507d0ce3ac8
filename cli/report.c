/* Messages of all commands: failures, warnings, progress. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* Whether a progress line is on the terminal, which other output has to clear first. */
static volatile sig_atomic_t line_shown;

static void clear_line(void) {
  if (line_shown) fputs("\r\033[K", cli_bars());
  line_shown = false;
}

int cli_exit_code(braid_status status) {
  switch (status) {
  case BRAID_OK:
    return CLI_OK;
  case BRAID_INVALID_ARGUMENT:
  case BRAID_INVALID_FILE:
  case BRAID_INVALID_GRAPH:
  case BRAID_UNSUPPORTED:
  case BRAID_NOT_FOUND:
  case BRAID_OUT_OF_RANGE:
    return CLI_USAGE;
  case BRAID_CANCELLED:
    return CLI_INTERRUPTED;
  default:
    return CLI_FAILED;
  }
}

void cli_print_error_json(const char *kind, const char *detail) {
  cli_json json;
  if (!cli_json_begin(&json)) return;
  cli_json_object(&json, "error");
  cli_json_string(&json, "status", kind);
  cli_json_string(&json, "detail", detail);
  cli_json_close(&json, '}');
  cli_json_end(&json);
}

void cli_print_escaped(FILE *file, const char *text) {
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    size_t length = cli_utf8_length(s);
    bool plain =
        length == 1 ? (*s >= ' ' && *s != 0x7f) || *s == '\n' || *s == '\t' : length && (*s != 0xc2 || s[1] > 0x9f);
    if (!length) length = 1;
    for (size_t i = 0; i < length; i++) fprintf(file, plain ? "%c" : "\\x%02x", s[i]);
    s += length;
  }
}

static void print_failure(const cli_common *common, const char *command, const char *kind, const char *detail) {
  clear_line();
  fprintf(stderr, "braid %s: ", command);
  cli_print_escaped(stderr, detail[0] ? detail : kind);
  fputc('\n', stderr);
  if (common->json) cli_print_error_json(kind, detail);
}

braid_status cli_no_memory(void) {
  return braid_fail(BRAID_NO_MEMORY, "%s", braid_status_text(BRAID_NO_MEMORY));
}

int cli_fail(const cli_common *common, const char *command, braid_status status) {
  print_failure(common, command, braid_status_text(status), braid_error_detail());
  return cli_exit_code(status);
}

int cli_fail_text(const cli_common *common, const char *command, int code, const char *format, ...) {
  char detail[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  print_failure(common, command,
                code == CLI_USAGE         ? "invalid argument"
                : code == CLI_INTERRUPTED ? "cancelled"
                                          : "failed",
                detail);
  return code;
}

static braid_log command_log;
static bool log_informs; /* without --verbose too */

static void print_log(void *context, braid_log_level level, const char *message) {
  const cli_common *common = context;
  if (level > (log_informs ? BRAID_LOG_INFO : BRAID_LOG_WARNING) && !common->verbose) return;
  clear_line();
  fprintf(stderr, "braid: %s", level == BRAID_LOG_WARNING ? "warning: " : "");
  cli_print_escaped(stderr, message);
  fputc('\n', stderr);
}

void cli_log_inform(void) {
  log_informs = true;
}

void cli_start_log(const cli_common *common) {
  command_log = (braid_log){print_log, (void *)(uintptr_t)common};
}

void cli_mute_log(void) {
  command_log = (braid_log){0};
}

const braid_log *cli_log(void) {
  return &command_log;
}

static volatile sig_atomic_t interrupted;

/* No bar is to be left in the line of the shell that follows. In handlers of signals. */
static void clear_line_at_once(void) {
  static const char kClear[] = "\r\033[K";
  if (line_shown) (void)!write(STDERR_FILENO, kClear, sizeof kClear - 1);
}

/* The second one ends the program. */
static void on_interrupt(int signal_number) {
  if (interrupted) {
    clear_line_at_once();
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number); /* comes when this handler has returned */
  }
  interrupted = 1;
}

void cli_catch_interrupt(void) {
  struct sigaction action = {.sa_handler = on_interrupt};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static char last_words[64], last_document[128];

static void on_interrupt_end(int signal_number) {
  (void)signal_number;
  clear_line_at_once();
  (void)!write(STDERR_FILENO, last_words, strlen(last_words));
  (void)!write(STDOUT_FILENO, last_document, strlen(last_document));
  _exit(CLI_INTERRUPTED);
}

void cli_end_on_interrupt(const cli_common *common, const char *command) {
  snprintf(last_words, sizeof last_words, "braid %s: interrupted\n", command);
  if (common->json)
    snprintf(last_document, sizeof last_document, "{\"error\":{\"status\":\"%s\",\"detail\":\"interrupted\"}}\n",
             braid_status_text(BRAID_CANCELLED));
  sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt_end}, NULL);
}

bool cli_interrupted(void) {
  return interrupted;
}

braid_status cli_go_on(braid_status status) {
  return interrupted && status != BRAID_CANCELLED ? braid_fail(BRAID_CANCELLED, "interrupted") : status;
}

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void cli_progress_begin(cli_progress *progress, const char *label) {
  *progress = (cli_progress){.started = cli_seconds(), .terminal = cli_can_draw(), .label = label};
}

/* Seconds before a bar is shown, and between updates. */
static const double first_shown = 2, interval = 0.1;

void cli_progress_update(cli_progress *progress, int64_t done, int64_t total, const char *note) {
  double now = cli_seconds();
  if (!progress->terminal || now - progress->started < first_shown || now - progress->drawn < interval) return;
  progress->drawn = now;
  double part = total > 0 ? (double)done / (double)total : 0;
  char left[32] = "", text[192];
  if (!note && part > 0) cli_format_seconds((now - progress->started) * (1 - part) / part, left, sizeof left);
  snprintf(text, sizeof text, " %" PRId64 "/%" PRId64 " %s%s", done, total, note ? note : left, left[0] ? " left" : "");
  /* The last column stays free: writing into it moves some terminals to the next line. */
  FILE *file = cli_bars();
  int columns = (int)cli_columns(file) - 1, label = (int)strlen(progress->label) + 1;
  int room = columns - label - (int)strlen(text), width = room > 40 ? 40 : room < 4 ? 0 : room;
  int full = (int)(part * width + 0.5);
  fprintf(file, "\r%.*s", columns, progress->label);
  if (columns > label) fputc(' ', file);
  for (int i = 0; i < width; i++) fputs(i < full ? "\xe2\x94\x81" : "\xe2\x94\x80", file);
  if (columns > label) fprintf(file, "%.*s", columns - label - width, text + !width);
  fputs("\033[K", file);
  fflush(file);
  line_shown = progress->shown = true;
}

void cli_progress_end(cli_progress *progress) {
  if (progress->shown) clear_line();
  progress->shown = false;
}

static void show_prepared(void *context, const char *what, size_t done, size_t total) {
  cli_progress *progress = context;
  if (!done) cli_progress_begin(progress, what);
  cli_progress_update(progress, (int64_t)done, (int64_t)total, NULL);
  if (done == total) cli_progress_end(progress);
}

const braid_progress *cli_prepare_progress(void) {
  static cli_progress bar;
  static const braid_progress progress = {show_prepared, &bar};
  return &progress;
}

char *cli_format_seconds(double seconds, char *buffer, size_t bytes) {
  if (!isfinite(seconds) || seconds < 0 || seconds > 1e8) {
    snprintf(buffer, bytes, "?");
    return buffer;
  }
  int whole = (int)(seconds + 0.5);
  if (whole >= 3600)
    snprintf(buffer, bytes, "%dh%02dm", whole / 3600, whole / 60 % 60);
  else if (whole >= 60)
    snprintf(buffer, bytes, "%dm%02ds", whole / 60, whole % 60);
  else
    snprintf(buffer, bytes, "%ds", whole);
  return buffer;
}

char *cli_format_bytes(double bytes_count, char *buffer, size_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes_count >= 1024 && unit < 4) bytes_count /= 1024, unit++;
  snprintf(buffer, bytes, unit ? "%.1f %s" : "%.0f %s", bytes_count, units[unit]);
  return buffer;
}

char *cli_format_count(double count, char *buffer, size_t bytes) {
  static const char *const units[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  while (count >= 1000 && unit < 4) count /= 1000, unit++;
  snprintf(buffer, bytes, unit ? "%.2f%s" : "%.0f%s", count, units[unit]);
  return buffer;
}
