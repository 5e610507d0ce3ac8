/* What tests of `braid train` have in common. */
#ifndef BRAID_TESTS_CLI_TRAIN_FIXTURE_H
#define BRAID_TESTS_CLI_TRAIN_FIXTURE_H

#include "clicheck.h"

#define SHORT "train " GLYPHS " --no-test --batch 32 --threads 1 "
#define DATA "--data builtin:glyphs,limit=64 "

/* Runs a line, checks its code, and that what it said on standard error holds `detail`. */
static void expect(const char *line, int code, const char *detail) {
  outcome o = run(line);
  if (o.code != code) fail_msg("braid %s: code %d, not %d: %s", line, o.code, code, o.err);
  if (!strstr(o.err, detail)) fail_msg("braid %s: \"%s\" is not in: %s", line, detail, o.err);
  discard(&o);
}

static inline bool exists(const char *path) {
  return access(in_folder(path), F_OK) == 0;
}

#endif
