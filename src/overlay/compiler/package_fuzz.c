/* Any bytes are a package, which is written as the same bytes and has programs, or a failure with a sentence. The first
 * eight say how long the tables and the instructions are, and of which kind it is; a header with the right checksum is
 * put before the rest. */
#include <stdlib.h>
#include <string.h>

#include "overlay/compiler/dynamic.h"
#include "overlay/recurrent/rnn_dynamic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void put(uint8_t *to, uint64_t value, int bytes) {
  for (int b = 0; b < bytes; b++) to[b] = (uint8_t)(value >> (8 * b));
}

/* The first and the last steps: sequences may be long. */
static void use_recurrent(const braid_rnn *rnn) {
  size_t all = rnn->cell_count * (size_t)rnn->length, few = all < 3 ? all : 3;
  braid_programs programs;
  braid_programs_init(&programs, NULL);
  if (braid_rnn_make(rnn, 3, 0, few, &programs) != BRAID_OK && !braid_error_detail()[0]) abort();
  if (braid_rnn_make(rnn, 64, all - few, all, &programs) != BRAID_OK && !braid_error_detail()[0]) abort();
  braid_programs_deinit(&programs);
}

static void use(const braid_package *package, const uint8_t *file, size_t bytes) {
  braid_text again, text;
  braid_programs programs;
  braid_text_init(&again, NULL);
  braid_text_init(&text, NULL);
  braid_programs_init(&programs, NULL);
  if (braid_package_save(package, &again) != BRAID_OK || again.length != bytes) abort();
  if (memcmp(again.data, file, bytes) != 0) abort();
  if (braid_package_disassemble(package, &text) != BRAID_OK) abort();
  if (package->rnn)
    use_recurrent(package->rnn);
  else if (braid_programs_make(package, 3, 0, &programs) != BRAID_OK ||
           braid_programs_make(package, 64, package->layer_count / 2, &programs) != BRAID_OK ||
           braid_programs_gather(&programs) != BRAID_OK)
    abort();
  braid_programs_deinit(&programs);
  braid_text_deinit(&again);
  braid_text_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { kHeader = 72, kHashAt = 40 };
  braid_package *package;
  if (bytes < 8) return 0;
  size_t content = bytes - 8, tables, code;
  uint32_t lengths[2];
  memcpy(lengths, data, sizeof lengths);
  tables = lengths[0] % (content + 1);
  code = lengths[1] % (content - tables + 1);
  uint8_t *file = calloc(1, kHeader + content);
  memcpy(file, "BRAIDBPK", 8);
  put(file + 8, 1, 4);
  put(file + 12, lengths[1] >> 31, 4);
  put(file + 16, tables, 8);
  put(file + 24, code, 8);
  put(file + 32, content - tables - code, 8);
  memcpy(file + kHeader, data + 8, content);
  braid_sha256_of(file + kHeader, content, file + kHashAt);
  if (braid_package_load(file, kHeader + content, NULL, &package) == BRAID_OK) {
    use(package, file, kHeader + content);
    braid_package_destroy(package);
  } else if (!braid_error_detail()[0]) {
    abort();
  }
  free(file);
  return 0;
}
