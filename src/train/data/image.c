#include "train/data/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/try.h"

/* --- JPEG ----------------------------------------------------------------------------------------------------------
 */
typedef struct jpeg_trouble {
  struct jpeg_error_mgr manager; /* first: libjpeg hands it back */
  jmp_buf back;
  char message[JMSG_LENGTH_MAX];
} jpeg_trouble;

static void jpeg_failed(j_common_ptr info) {
  jpeg_trouble *trouble = (jpeg_trouble *)info->err;
  info->err->format_message(info, trouble->message);
  longjmp(trouble->back, 1);
}

/* A warning is corrupt data that libjpeg fills in: refused like an error, for grey patches are no picture. Those about
 * odd headers and bytes between segments, which cameras write, lose no pixel. */
static void jpeg_warned(j_common_ptr info, int level) {
  int code = info->err->msg_code;
  bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM;
  if (level < 0 && !harmless) jpeg_failed(info);
}

static void jpeg_open(struct jpeg_decompress_struct *info, jpeg_trouble *trouble) {
  info->err = jpeg_std_error(&trouble->manager);
  trouble->manager.error_exit = jpeg_failed;
  trouble->manager.emit_message = jpeg_warned;
}

static braid_status too_large(const char *name, unsigned long width, unsigned long height) {
  return braid_fail(BRAID_INVALID_FILE, "%s: a picture of %lu x %lu, sides of 1 to %d are read", name, width, height,
                    BRAID_IMAGE_MAX_SIDE);
}

static bool size_allowed(unsigned long width, unsigned long height) {
  return width >= 1 && height >= 1 && width <= BRAID_IMAGE_MAX_SIDE && height <= BRAID_IMAGE_MAX_SIDE;
}

/* `out` is in memory of the caller's, so it is whole after a longjmp. */
static braid_status decode_jpeg(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                                bool header_only, braid_image *out) {
  struct jpeg_decompress_struct info;
  jpeg_trouble trouble;
  jpeg_open(&info, &trouble);
  if (setjmp(trouble.back)) {
    jpeg_destroy_decompress(&info);
    return braid_fail(BRAID_INVALID_FILE, "%s: %s", name, trouble.message);
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, data, bytes);
  jpeg_read_header(&info, TRUE);
  out->height = (int)info.image_height;
  out->width = (int)info.image_width;
  braid_status status = BRAID_OK;
  if (!size_allowed(info.image_width, info.image_height)) status = too_large(name, info.image_width, info.image_height);
  if (status == BRAID_OK && !header_only) {
    info.out_color_space = info.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&info);
    out->channels = info.output_components;
    out->pixels = braid_zalloc_array(allocator, (size_t)out->height * (size_t)out->width, (size_t)out->channels);
    if (!out->pixels) status = BRAID_NO_MEMORY;
    while (status == BRAID_OK && info.output_scanline < info.output_height) {
      JSAMPROW row = out->pixels + (size_t)info.output_scanline * (size_t)out->width * (size_t)out->channels;
      jpeg_read_scanlines(&info, &row, 1);
    }
    if (status == BRAID_OK) jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return status;
}

/* --- PNG: libpng's simplified interface, which never jumps ---------------------------------------------------------
 */
static braid_status decode_png(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                               bool header_only, braid_image *out) {
  png_image info = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_memory(&info, data, bytes))
    return braid_fail(BRAID_INVALID_FILE, "%s: %s", name, info.message);
  braid_status status = BRAID_OK;
  out->height = (int)info.height;
  out->width = (int)info.width;
  if (!size_allowed(info.width, info.height)) status = too_large(name, info.width, info.height);
  if (status == BRAID_OK && !header_only) {
    out->channels = info.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    info.format = out->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    out->pixels = braid_zalloc_array(allocator, (size_t)out->height * (size_t)out->width, (size_t)out->channels);
    png_color black = {0};
    if (!out->pixels)
      status = BRAID_NO_MEMORY;
    else if (!png_image_finish_read(&info, &black, out->pixels, 0, NULL))
      status = braid_fail(BRAID_INVALID_FILE, "%s: %s", name, info.message);
  }
  png_image_free(&info);
  return status;
}

static braid_status decode(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                           bool header_only, braid_image *out) {
  *out = (braid_image){0};
  braid_status status;
  if (bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
    status = decode_png(allocator, name, data, bytes, header_only, out);
  else if (bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
    status = decode_jpeg(allocator, name, data, bytes, header_only, out);
  else
    return braid_fail(BRAID_INVALID_FILE, "%s: neither a JPEG nor a PNG file", name);
  if (status == BRAID_OK) return BRAID_OK;
  braid_free(allocator, out->pixels);
  out->pixels = NULL;
  return status;
}

braid_status braid_image_decode(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                                braid_image *out) {
  return decode(allocator, name, data, bytes, false, out);
}

braid_status braid_image_size(const char *name, const uint8_t *data, size_t bytes, int *height, int *width) {
  braid_image image;
  BRAID_TRY(decode(NULL, name, data, bytes, true, &image));
  *height = image.height;
  *width = image.width;
  return BRAID_OK;
}

/* --- one picture for a network -------------------------------------------------------------------------------------
 */
/* Interleaved bytes to planes of floats. */
static void spread(const braid_image *image, float *planes) {
  size_t plane = (size_t)image->height * (size_t)image->width, channels = (size_t)image->channels;
  for (size_t c = 0; c < channels; c++)
    for (size_t i = 0; i < plane; i++) planes[c * plane + i] = image->pixels[i * channels + c];
}

static braid_status make_tensor(const braid_allocator *allocator, const char *name, const braid_image *image,
                                const braid_spec *spec, braid_tensor **out) {
  int channels = spec->channels ? spec->channels : image->channels;
  int height = spec->height ? spec->height : image->height, width = spec->width ? spec->width : image->width;
  if (!braid_image_can_convert(image->channels, channels))
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: a picture of %d channels does not become one of %d", name,
                      image->channels, channels);
  BRAID_TRY(braid_image_check(spec, name, channels));
  size_t plane = (size_t)image->height * (size_t)image->width;
  int most = image->channels > channels ? image->channels : channels;
  float *planes = braid_zalloc_array(allocator, plane * (size_t)most, 2 * sizeof *planes);
  float *scratch = braid_zalloc_array(
      allocator, braid_image_resize_scratch(channels, image->height, image->width, height, width), sizeof *scratch);
  braid_desc desc;
  braid_status status = planes && scratch ? BRAID_OK : BRAID_NO_MEMORY;
  if (status == BRAID_OK) status = braid_desc_init(&desc, BRAID_F32, 3, (int64_t[]){channels, height, width});
  if (status == BRAID_OK) status = braid_tensor_create(allocator, &desc, out);
  if (status == BRAID_OK) {
    float *converted = planes + plane * (size_t)most, *pixels = braid_tensor_data(*out);
    spread(image, planes);
    braid_image_convert(planes, image->channels, converted, channels, plane);
    braid_image_resize(converted, channels, image->height, image->width, pixels, height, width, scratch);
    braid_image_normalize(spec, 1.0 / 255, pixels, channels, (size_t)height * (size_t)width);
  }
  braid_free(allocator, planes);
  braid_free(allocator, scratch);
  return status;
}

/* What the caller wants (0: anything) and what the keys say must agree. */
static braid_status fit_spec(braid_spec *spec, int channels, int height, int width) {
  if (channels && spec->channels && spec->channels != channels)
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: channels=%d: %d are wanted", spec->channels, channels);
  if (height && width && spec->height && (spec->height != height || spec->width != width))
    return braid_fail(BRAID_INVALID_ARGUMENT, "data: size=%dx%d: %dx%d is wanted", spec->height, spec->width, height,
                      width);
  if (channels) spec->channels = channels;
  if (height) spec->height = height;
  if (width) spec->width = width;
  return BRAID_OK;
}

braid_status braid_image_load(const braid_allocator *allocator, const char *path, int channels, int height, int width,
                              const char *preprocess, braid_tensor **out) {
  *out = NULL;
  braid_spec spec;
  BRAID_TRY(braid_spec_parse(allocator, preprocess, true, "test", &spec));
  braid_status status = fit_spec(&spec, channels, height, width);
  const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
  braid_file_view view;
  braid_image image = {0};
  if (status == BRAID_OK) status = braid_file_open(allocator, path, BRAID_IMAGE_MAX_BYTES, &view);
  if (status == BRAID_OK) {
    status = braid_image_decode(allocator, name, view.data, view.bytes, &image);
    braid_file_close(&view);
  }
  if (status == BRAID_OK) status = make_tensor(allocator, name, &image, &spec, out);
  braid_free(allocator, image.pixels);
  braid_spec_deinit(allocator, &spec);
  return status;
}
