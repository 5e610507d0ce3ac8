/* What goes to a terminal fits it: lines are broken between words, and there is no progress bar where the terminal
 * cannot draw one. Files and pipes get lines as they are. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

/* Where lines that continue this one begin: under its text, which follows a word and at least two spaces, unless that
 * leaves too little room. */
static size_t hanging_indent(const char *line, size_t width) {
  size_t indent = strspn(line, " "), word = strcspn(line + indent, " \n"), gap = strspn(line + indent + word, " ");
  size_t text = gap > 1 ? indent + word + gap : indent + 2;
  return 3 * text <= width ? text : 3 * (indent + 2) <= width ? indent + 2 : 0;
}

/* Breaks lines between words; of a word that has no room in a line of its own, where the line ends. */
void cli_print_wrapped(FILE *file, const char *text, size_t width) {
  for (; *text; text += *text == '\n') {
    size_t indent = hanging_indent(text, width), used = 0;
    while (*text && *text != '\n') {
      size_t spaces = strspn(text, " "), word = strcspn(text + spaces, " \n");
      bool breaks = used > indent && used + spaces + word > width;
      if (breaks) {
        text += spaces;
        used = (size_t)fprintf(file, "\n%*s", (int)indent, "") - 1;
        spaces = 0;
      }
      size_t part = used + spaces + word > width && width > used + spaces ? width - used - spaces : word;
      used += (size_t)fprintf(file, "%.*s", (int)(spaces + part), text);
      text += spaces + part;
    }
    fputc('\n', file);
  }
}

/* --- streams -------------------------------------------------------------------------------------------------------
 */
typedef struct fitted {
  FILE *terminal;
  char *line; /* not ended yet */
  size_t used, capacity;
} fitted;

size_t cli_columns(FILE *terminal) {
  struct winsize size;
  return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

bool cli_can_draw(void) {
  const char *kind = getenv("TERM");
  return isatty(STDERR_FILENO) && kind && kind[0] && strcmp(kind, "dumb") != 0;
}

static ssize_t write_fitted(void *cookie, const char *data, size_t bytes) {
  fitted *f = cookie;
  if (f->used + bytes + 1 > f->capacity) {
    size_t capacity = 2 * (f->used + bytes + 1);
    char *line = realloc(f->line, capacity);
    if (!line) return 0;
    f->line = line;
    f->capacity = capacity;
  }
  memcpy(f->line + f->used, data, bytes);
  f->used += bytes;
  char *newline = memrchr(f->line, '\n', f->used);
  if (!newline) return (ssize_t)bytes;
  size_t whole = (size_t)(newline - f->line) + 1;
  char next = f->line[whole];
  f->line[whole] = '\0';
  cli_print_wrapped(f->terminal, f->line, cli_columns(f->terminal));
  f->line[whole] = next;
  f->used -= whole;
  memmove(f->line, f->line + whole, f->used);
  fflush(f->terminal);
  return ferror(f->terminal) ? 0 : (ssize_t)bytes;
}

/* The stream that takes the place of one to a terminal; itself, if there is no memory. It lasts as long as the program.
 */
static FILE *fit(fitted *f, FILE *terminal) {
  FILE *file = fopencookie(f, "w", (cookie_io_functions_t){.write = write_fitted});
  if (!file) return terminal;
  f->terminal = terminal;
  setvbuf(file, NULL, _IOLBF, 0);
  return file;
}

static FILE *bars; /* standard error as it was */

FILE *cli_bars(void) {
  return bars ? bars : stderr;
}

void cli_fit_terminal(bool json) {
  static fitted errors, output;
  bars = stderr;
  if (isatty(STDERR_FILENO)) stderr = fit(&errors, stderr);
  if (!isatty(STDOUT_FILENO) || json) return;
  size_t columns = cli_columns(stdout);
  char format[64];
  snprintf(format, sizeof format, "rmargin=%zu,opt-doc-col=%d", columns - 1, columns < 60 ? 8 : 29);
  if (columns > 20 && columns < 80) (void)setenv("ARGP_HELP_FMT", format, 0);
  stdout = fit(&output, stdout);
}
