/* Any bytes are a picture that can be read to its last pixel, or a failure with a sentence. */
#include <stdlib.h>

#include "train/data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { kMaxPixels = 1 << 20 }; /* what is larger is right, but slow */
  int height, width;
  if (braid_image_size("fuzz", data, bytes, &height, &width) != BRAID_OK) {
    if (!braid_error_detail()[0]) abort();
    return 0;
  }
  if (height < 1 || width < 1 || height > BRAID_IMAGE_MAX_SIDE || width > BRAID_IMAGE_MAX_SIDE) abort();
  if ((int64_t)height * width > kMaxPixels) return 0;
  braid_image image;
  if (braid_image_decode(NULL, "fuzz", data, bytes, &image) != BRAID_OK) {
    if (image.pixels || !braid_error_detail()[0]) abort();
    return 0;
  }
  if (image.height != height || image.width != width || (image.channels != 1 && image.channels != 3)) abort();
  size_t count = (size_t)height * (size_t)width * (size_t)image.channels;
  unsigned sum = 0;
  for (size_t i = 0; i < count; i++) sum += image.pixels[i];
  volatile unsigned read = sum; /* so that no pixel is left unread */
  (void)read;
  braid_free(NULL, image.pixels);
  return 0;
}
