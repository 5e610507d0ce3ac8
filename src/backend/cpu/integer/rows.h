/* Windows of images in layout BHWC laid out as rows of bytes, as products (../dot) take them. */
#ifndef BRAID_BACKEND_CPU_INTEGER_ROWS_H
#define BRAID_BACKEND_CPU_INTEGER_ROWS_H

#include "backend/cpu/integer/sweep.h"

typedef struct braid_integer_rows {
  const int8_t *images;    /* the group's first channel of the first pixel */
  int64_t height, width;   /* of an image */
  int64_t pixel, channels; /* bytes from one pixel to the next; those of the group */
  const braid_integer_sweep *sweep;
  uint8_t flip; /* what each byte is combined with (exclusive or): 0x80 adds 128; padding is 0 so combined */
} braid_integer_rows;

/* Rows first to first + count - 1, `step` bytes apart: one for each place of the sweep, image by image, line by line;
 * in a row the channels of one tap after another. What is left of `step` stays as it is. */
void braid_integer_lay_rows(const braid_integer_rows *rows, int64_t first, int64_t count, uint8_t *to, int64_t step);

#endif
