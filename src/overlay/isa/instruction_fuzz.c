/* Any bytes are a program, which encodes to the same bytes, or a failure with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "overlay/isa/instruction.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_text text;
  for (size_t at = 0; at < bytes;) {
    braid_instruction instruction;
    uint8_t words[BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD];
    size_t next, length;
    if (braid_isa_decode(data, bytes, at, &instruction, &next) != BRAID_OK) {
      if (!braid_error_detail()[0]) abort();
      break;
    }
    if (braid_isa_encode(&instruction, words, &length) != BRAID_OK || length != next - at) abort();
    if (memcmp(words, data + at, length) != 0) abort();
    at = next;
  }
  braid_text_init(&text, NULL);
  braid_status status = braid_isa_disassemble(data, bytes, &text);
  if (status != BRAID_OK && !braid_error_detail()[0]) abort();
  braid_text_deinit(&text);
  return 0;
}
