/* Ledgers from memory: whatever the bytes, an answer and no harm. Chains are made whole, so that what stands behind
 * them is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/ledger/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_ledger(const uint8_t *data, size_t size) {
  braid_ledger *ledger;
  braid_train_options options;
  char *text = braid_alloc(NULL, size + 1);
  if (!text) return;
  if (size) memcpy(text, data, size);
  text[size] = '\0';
  if (braid_ledger_parse(NULL, "fuzz", text, size, &ledger) != BRAID_OK) return;
  braid_ledger_info info = braid_ledger_get_info(ledger);
  if (info.steps < 0 || strlen(info.chain) < BRAID_SHA256_HEX) abort();
  if (braid_ledger_options(ledger, &options) == BRAID_OK && options.batch < 1) abort();
  braid_ledger_close(ledger);
}

/* Puts a right chain in place of each that a line ends with. */
static void read_chained(const uint8_t *data, size_t size) {
  char chain[BRAID_SHA256_HEX + 1] = "";
  char *text = malloc(size + 2);
  if (!text) return;
  text[0] = '\n';
  if (size) memcpy(text + 1, data, size);
  text[size + 1] = '\0';
  char *line = strlen(text) == size + 1 ? strstr(text, "\nstep ") : NULL;
  if (line) {
    *++line = '\0';
    braid_ledger_begin_chain(text + 1, chain);
    *line = 's';
  }
  while (line && *line) {
    char *end = line + strcspn(line, "\n"), *mark = end - BRAID_SHA256_HEX;
    if (end - line > BRAID_SHA256_HEX + 7 && strncmp(mark - 7, " chain ", 7) == 0) {
      mark[-7] = '\0';
      braid_ledger_chain(chain, line);
      mark[-7] = ' ';
      memcpy(mark, chain, BRAID_SHA256_HEX);
    }
    line = *end ? end + 1 : NULL;
  }
  read_ledger((const uint8_t *)text + 1, size);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_ledger(data, size);
  read_chained(data, size);
  return 0;
}
