/* Saved plans at the command line: look at one, compare two. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "values.h"

bool cli_is_plan(const char *path) {
  static const char kMagic[] = "braidpln";
  char start[sizeof kMagic - 1];
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false; /* a pipe would be emptied by looking */
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  bool is = fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, kMagic, sizeof start) == 0;
  fclose(file);
  return is;
}

static braid_status print_differences(const char *path, const char *against, const char *text, bool json) {
  cli_json document;
  if (!json) {
    printf("%s", text[0] ? text : "no differences\n");
    return BRAID_OK;
  }
  if (!cli_json_begin(&document)) return cli_no_memory();
  cli_json_string(&document, "plan", path);
  cli_json_string(&document, "against", against);
  cli_json_array(&document, "differences");
  for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    cli_json_string(&document, NULL, line);
  }
  cli_json_close(&document, ']');
  cli_json_end(&document);
  return BRAID_OK;
}

/* Columns of the terminal that the text goes to, or those asked for; 0: no end, as files and pipes have none. */
static size_t columns(void) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
  const char *asked = getenv("COLUMNS");
  return asked ? strtoul(asked, NULL, 10) : 0;
}

/* Where lines that continue this one begin: under its text, which follows a word and at least two spaces, unless that
 * leaves too little room. */
static size_t hanging_indent(const char *line, size_t width) {
  size_t indent = strspn(line, " "), word = strcspn(line + indent, " \n"), gap = strspn(line + indent + word, " ");
  size_t text = gap > 1 ? indent + word + gap : indent + 2;
  return 3 * text <= width ? text : 3 * (indent + 2) <= width ? indent + 2 : 0;
}

/* Breaks lines between words; of a word that has no room in a line of its own, where the line ends. */
static void print_wrapped(const char *text, size_t width) {
  for (; *text; text += *text == '\n') {
    size_t indent = hanging_indent(text, width), used = 0;
    while (*text && *text != '\n') {
      size_t spaces = strspn(text, " "), word = strcspn(text + spaces, " \n");
      bool breaks = used > indent && used + spaces + word > width;
      if (breaks) {
        text += spaces;
        used = (size_t)printf("\n%*s", (int)indent, "") - 1;
        spaces = 0;
      }
      size_t part = used + spaces + word > width && width > used + spaces ? width - used - spaces : word;
      used += (size_t)printf("%.*s", (int)(spaces + part), text);
      text += spaces + part;
    }
    putchar('\n');
  }
}

braid_status cli_inspect_plan(const char *path, const char *against, bool json) {
  char *text = NULL;
  braid_status status =
      against ? braid_plan_file_compare(path, against, NULL, &text) : braid_plan_file_print(path, json, NULL, &text);
  if (status == BRAID_OK && against)
    status = print_differences(path, against, text, json);
  else if (status == BRAID_OK && !json && columns())
    print_wrapped(text, columns());
  else if (status == BRAID_OK)
    printf("%s", text);
  braid_free(NULL, text);
  return status;
}
