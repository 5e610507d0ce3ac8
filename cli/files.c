#include "files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Two names in one folder, of files that are not there yet. */
static bool is_one_name(const char *a, const char *b) {
  const char *const paths[] = {a, b}, *names[2];
  char folders[2][PATH_MAX];
  for (int i = 0; i < 2; i++) {
    const char *slash = strrchr(paths[i], '/');
    char folder[PATH_MAX];
    names[i] = slash ? slash + 1 : paths[i];
    int length = slash ? (int)(slash - paths[i]) + 1 : 2;
    if (snprintf(folder, sizeof folder, "%.*s", length, slash ? paths[i] : "./") >= PATH_MAX) return false;
    if (!realpath(folder, folders[i])) return false;
  }
  return strcmp(names[0], names[1]) == 0 && strcmp(folders[0], folders[1]) == 0;
}

static bool is_one_file(const char *a, const char *b) {
  struct stat of_a, of_b;
  bool has_a = stat(a, &of_a) == 0, has_b = stat(b, &of_b) == 0;
  if (has_a && has_b) return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino && S_ISREG(of_a.st_mode);
  return !has_a && !has_b && is_one_name(a, b);
}

braid_status cli_check_files(const cli_file *files, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++) {
      const cli_file *read = files[i].written ? &files[k] : &files[i], *out = files[i].written ? &files[i] : &files[k];
      if (!out->written || !out->path || !read->path || !is_one_file(read->path, out->path)) continue;
      return read->written
                 ? braid_fail(BRAID_INVALID_ARGUMENT, "%s and %s are one file: %s", read->what, out->what, out->path)
                 : braid_fail(BRAID_INVALID_ARGUMENT, "%s %s is %s: another file is expected", out->what, out->path,
                              read->what);
    }
  return BRAID_OK;
}

cli_file cli_design_file(const char *design) {
  const char *dot = design ? strrchr(design, '.') : NULL;
  bool file = design && (strchr(design, '/') || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"))));
  return (cli_file){"the design", file ? design : NULL, false};
}
