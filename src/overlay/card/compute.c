/* What jobs compute, in an image of the card's memory. */
#include <string.h>

#include "base/try.h"
#include "overlay/card/internal.h"

/* The image has addresses up to the last that was ever used. Banks that hold the same constants are one here. */
braid_status card_reserve(braid_card *card, uint64_t bytes) {
  if (bytes <= card->ddr_bytes || card->options.times_only) return BRAID_OK;
  uint64_t room = bytes > card->ddr_bytes + card->ddr_bytes / 2 ? bytes : card->ddr_bytes + card->ddr_bytes / 2;
  uint8_t *ddr = braid_zalloc_array(card->allocator, room, 1);
  if (!ddr) return braid_fail(BRAID_NO_MEMORY, "no memory for %llu bytes of the card's", (unsigned long long)room);
  if (card->ddr_bytes) memcpy(ddr, card->ddr, card->ddr_bytes);
  braid_free(card->allocator, card->ddr);
  card->ddr = ddr;
  card->ddr_bytes = room;
  return BRAID_OK;
}

braid_status card_compute(braid_card *card, card_context *context, const size_t *from, const size_t *to) {
  if (card->options.times_only) return BRAID_OK;
  braid_overlay_image image = {.ddr = card->ddr, .bytes = card->ddr_bytes};
  braid_functional_options options = {.from = from, .to = to, .vectors = context->vectors};
  uint64_t first = context->range.first;
  for (int s = 0; s < BRAID_OVERLAY_SEGMENTS; s++) {
    image.segments[s] = (braid_overlay_segment){first, context->bytes[s], context->read_only[s]};
    first += context->bytes[s];
  }
  return braid_functional_once(card->design, context->programs.cores, context->programs.code, &image, &options,
                               card->allocator, NULL);
}
