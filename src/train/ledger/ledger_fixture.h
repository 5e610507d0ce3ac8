/* Ledgers of a small training, and their changes. For tests only. */
#ifndef BRAID_TRAIN_LEDGER_FIXTURE_H
#define BRAID_TRAIN_LEDGER_FIXTURE_H

#include "base/file.h"
#include "braid/ledger.h"
#include "train/data/dataset.h"
#include "train/integer/network_fixture.h"
#include "train/ledger/file.h"

static inline const char *path_of(const char *name) {
  static char paths[8][128];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, 128, "%s/%s", folder, name);
  return path;
}

/* The text of a file, ended by a NUL; freed by the caller. */
static inline char *text_of(const char *path, size_t *bytes) {
  braid_file_view view;
  ok(braid_file_open(NULL, path, 0, &view));
  char *text = calloc(view.bytes + 1, 1);
  assert_non_null(text);
  memcpy(text, view.data, view.bytes);
  if (bytes) *bytes = view.bytes;
  braid_file_close(&view);
  return text;
}

static inline void put_text(const char *path, const char *text, size_t bytes) {
  ok(braid_file_write(NULL, path, text, bytes));
}

static inline void expect_same(const char *path, const char *other) {
  size_t bytes, found;
  char *text = text_of(path, &bytes), *again = text_of(other, &found);
  if (bytes != found || memcmp(text, again, bytes) != 0) {
    size_t at = 0;
    while (at < bytes && at < found && text[at] == again[at]) at++;
    fail_msg("%s of %zu bytes and %s of %zu differ at byte %zu", path, bytes, other, found, at);
  }
  free(text);
  free(again);
}

static inline braid_train_options ledger_options(const char *name, const char *ledger) {
  static char path[128];
  braid_train_options options = integer_options(name);
  snprintf(path, sizeof path, "%s", path_of(ledger));
  options.epochs = 3;
  options.checkpoint_steps = 4;
  options.keep_checkpoints = 0;
  options.gradient_bits = 10; /* so that weights are quantized, too */
  options.ledger = path;
  options.ledger_model = "integers";
  return options;
}

/* Makes the chain of a changed text whole again, as a forger would; freed by the caller. */
static inline char *forge(const char *text) {
  char chain[BRAID_SHA256_HEX + 1] = "";
  braid_text out;
  braid_text_init(&out, NULL);
  const char *line = strstr(text, "\nstep 0 ");
  assert_non_null(line);
  braid_text_add_bytes(&out, text, (size_t)(++line - text));
  braid_ledger_begin_chain(out.data, chain);
  for (const char *next; *line; line = next) {
    const char *end = strstr(line, " chain ");
    assert_non_null(end);
    next = strchr(end, '\n') + 1;
    char *words = strndup(line, (size_t)(end - line));
    assert_non_null(words);
    braid_ledger_chain(chain, words);
    braid_text_printf(&out, "%s chain %s\n", words, chain);
    free(words);
  }
  assert_false(out.failed);
  char *forged = strdup(out.data);
  braid_text_deinit(&out);
  assert_non_null(forged);
  return forged;
}

static inline braid_audit_result audit_of(const char *ledger_path, const braid_graph *graph, braid_dataset *data,
                                          braid_audit_options options) {
  braid_ledger *ledger;
  braid_audit_result result;
  options.registry = registry;
  ok(braid_ledger_open(NULL, ledger_path, &ledger));
  ok(braid_audit(ledger, graph, data, &options, NULL, NULL, &result));
  braid_ledger_close(ledger);
  return result;
}

static inline void expect_agrees(braid_audit_result r, int64_t from, int64_t checked) {
  if (!r.steps_agree) fail_msg("step %lld, %s of %s: %s", (long long)r.step, r.operation, r.layer, r.what);
  if (!r.agrees) fail_msg("%s", r.other_data);
  assert_int_equal(r.from, from);
  assert_int_equal(r.checked, checked);
}

static inline void expect_differs(braid_audit_result r, int64_t step, const char *layer, const char *operation) {
  if (r.agrees || r.steps_agree) fail_msg("%s of %s in step %lld is not found", operation, layer, (long long)step);
  if (r.step != step || strcmp(r.layer, layer) != 0 || strcmp(r.operation, operation) != 0)
    fail_msg("step %lld, %s of \"%s\" (%s); step %lld, %s of \"%s\" is right", (long long)r.step, r.operation, r.layer,
             r.what, (long long)step, operation, layer);
}

#endif
