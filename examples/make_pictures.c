/* Writes generated pictures as PNG files, a folder per class, for docs/tutorial.md: make_pictures FOLDER [COUNT] */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <braid/braid.h>
#include <png.h>

static bool write_picture(braid_dataset *data, const braid_dataset_info *info, int64_t index, const char *folder,
                          uint8_t *rgb, float *pixels) {
  char path[512];
  int32_t label;
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)info->width,
                     .height = (png_uint_32)info->height,
                     .format = PNG_FORMAT_RGB};
  if (braid_dataset_sample(data, index, pixels, &label) != BRAID_OK ||
      braid_dataset_picture(data, index, rgb) != BRAID_OK)
    return false;
  snprintf(path, sizeof path, "%s/%s", folder, info->class_names[label]);
  (void)mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%05lld.png", folder, info->class_names[label], (long long)index);
  return png_image_write_to_file(&image, path, 0, rgb, 0, NULL) != 0;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "pictures";
  char spec[64];
  snprintf(spec, sizeof spec, "builtin:glyphs,limit=%d", argc > 2 ? atoi(argv[2]) : 2000);
  braid_dataset *data = NULL;
  bool done = braid_dataset_open(NULL, spec, "train", &data) == BRAID_OK;
  braid_dataset_info info = done ? braid_dataset_get_info(data) : (braid_dataset_info){0};
  size_t plane = (size_t)info.height * (size_t)info.width;
  uint8_t *rgb = malloc(3 * plane + 1);
  float *pixels = malloc((size_t)info.channels * plane * sizeof *pixels + 1);
  done = done && rgb && pixels;
  (void)mkdir(folder, 0777);
  for (int64_t i = 0; done && i < info.samples; i++) done = write_picture(data, &info, i, folder, rgb, pixels);
  if (!done) fprintf(stderr, "%s: the pictures were not written: %s\n", folder, braid_error_detail());
  free(pixels);
  free(rgb);
  braid_dataset_close(data);
  return !done;
}
