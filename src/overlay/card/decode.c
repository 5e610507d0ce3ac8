#include "overlay/card/decode.h"

#include "overlay/sim/program.h"

braid_status card_decode(const uint8_t *bytes, size_t size, const braid_overlay_design *design, int core,
                         const braid_allocator *allocator, braid_instruction **out, size_t *count) {
  braid_overlay_program read;
  *out = NULL;
  *count = 0;
  braid_status status = braid_overlay_program_read(bytes, size, design, core, allocator, &read);
  if (status != BRAID_OK) {
    status = braid_fail_prefix(status, "core %d", core);
  } else {
    *out = braid_zalloc_array(allocator, read.count + 1, sizeof **out);
    if (!*out) status = BRAID_NO_MEMORY;
  }
  for (; status == BRAID_OK && *count < read.count; ++*count) (*out)[*count] = read.steps[*count].instruction;
  braid_overlay_program_free(&read);
  return status;
}
