/* The format: NumPy Enhancement Proposal 1 and numpy.lib.format. A file has the magic, a version, the length of the
 * header, the header (a Python dictionary with exactly the keys descr, fortran_order and shape), and the elements. */
#include "tensor/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/try.h"
#include "tensor/read.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they are in memory");

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, HEADER_ALIGNMENT = 64, MAX_HEADER_BYTES = 1 << 16, MAX_DESCR = 31 };

/* Parser position in the text of the header, which ends at `end`. */
typedef struct cursor {
  const char *file;
  const uint8_t *start, *at, *end; /* start: of the file, so that messages name the byte */
} cursor;

typedef struct header {
  char descr[MAX_DESCR + 1];
  bool fortran;
  int rank;
  int64_t dims[BRAID_MAX_RANK];
} header;

static braid_status expected(const cursor *c, const char *what) {
  return braid_fail(BRAID_INVALID_FILE, "%s: byte %td: expected %s in the .npy header", c->file, c->at - c->start,
                    what);
}

static void skip_blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool take(cursor *c, const char *word) {
  skip_blanks(c);
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
  c->at += length;
  return true;
}

static braid_status take_string(cursor *c, char *text, size_t bytes) {
  skip_blanks(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return expected(c, "a quoted string");
  uint8_t quote = *c->at++;
  size_t length = 0;
  for (; c->at < c->end && *c->at != quote; c->at++) {
    if (length + 1 >= bytes || *c->at < 0x20 || *c->at > 0x7e || *c->at == '\\') return expected(c, "a short name");
    text[length++] = (char)*c->at;
  }
  if (c->at == c->end) return expected(c, "a closing quote");
  c->at++;
  text[length] = '\0';
  return BRAID_OK;
}

static braid_status take_dimension(cursor *c, int64_t *dim) {
  skip_blanks(c);
  const uint8_t *first = c->at;
  *dim = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
    if (!braid_mul_i64(*dim, 10, dim) || !braid_add_i64(*dim, *c->at - '0', dim)) {
      return expected(c, "a dimension below 2^63");
    }
  }
  if (c->at == first) return expected(c, "a dimension");
  if (c->at < c->end && *c->at == 'L') c->at++; /* written by Python 2 */
  return BRAID_OK;
}

static braid_status take_shape(cursor *c, header *h) {
  if (!take(c, "(")) return expected(c, "\"(\" before the shape");
  h->rank = 0;
  while (!take(c, ")")) {
    if (h->rank == BRAID_MAX_RANK) {
      return braid_fail(BRAID_UNSUPPORTED, "%s: the array has more than %d dimensions", c->file, BRAID_MAX_RANK);
    }
    braid_status status = take_dimension(c, &h->dims[h->rank++]);
    if (status != BRAID_OK) return status;
    if (take(c, ",")) continue;
    if (!take(c, ")")) return expected(c, "\",\" or \")\" after a dimension");
    break;
  }
  return BRAID_OK;
}

static braid_status take_entry(cursor *c, header *h, unsigned *seen) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  char key[16];
  braid_status status = take_string(c, key, sizeof key);
  if (status != BRAID_OK) return status;
  unsigned which = 0;
  while (which < 3 && strcmp(key, keys[which]) != 0) which++;
  if (which == 3 || (*seen & 1u << which)) return expected(c, "each of descr, fortran_order and shape once");
  *seen |= 1u << which;
  if (!take(c, ":")) return expected(c, "\":\"");
  if (which == 2) return take_shape(c, h);
  if (which == 1) {
    h->fortran = take(c, "True");
    return h->fortran || take(c, "False") ? BRAID_OK : expected(c, "True or False");
  }
  skip_blanks(c);
  if (c->at < c->end && *c->at == '[') {
    return braid_fail(BRAID_UNSUPPORTED, "%s: a structured array; only plain element types are read", c->file);
  }
  return take_string(c, h->descr, sizeof h->descr);
}

static braid_status parse_header(cursor *c, header *h) {
  unsigned seen = 0;
  if (!take(c, "{")) return expected(c, "\"{\"");
  while (!take(c, "}")) {
    braid_status status = take_entry(c, h, &seen);
    if (status != BRAID_OK) return status;
    if (take(c, ",")) continue;
    if (!take(c, "}")) return expected(c, "\",\" or \"}\"");
    break;
  }
  if (seen != 7) return expected(c, "descr, fortran_order and shape");
  skip_blanks(c);
  return c->at == c->end ? BRAID_OK : expected(c, "nothing more");
}

/* "<f4", ">i8", "|u1" to the element type; *swap: elements have the other byte order. */
static braid_dtype find_dtype(const char *descr, bool *swap) {
  static const struct {
    braid_dtype dtype;
    const char *descr;
  } types[] = {
#define NPY_TYPE(id, name, bytes, descr) {BRAID_##id, descr},
      BRAID_WIDE_DTYPE_MAP(NPY_TYPE)
#undef NPY_TYPE
          {BRAID_U8, "|V1"}, /* of a narrow type, which the file does not name */
  };
  if (descr[0] == '\0' || !strchr("<>|=", descr[0])) return BRAID_NONE;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(descr + 1, types[i].descr + 1) != 0) continue;
    *swap = descr[0] == '>' && braid_dtype_size(types[i].dtype) > 1;
    return types[i].dtype;
  }
  return BRAID_NONE;
}

static void swap_bytes(uint8_t *data, size_t bytes, size_t size) {
  for (size_t i = 0; i < bytes; i += size) {
    for (size_t low = 0, high = size - 1; low < high; low++, high--) {
      uint8_t kept = data[i + low];
      data[i + low] = data[i + high];
      data[i + high] = kept;
    }
  }
}

/* Copies elements from Fortran order (first dimension innermost) to row-major order. */
static void reorder(const braid_desc *desc, const uint8_t *source, uint8_t *target) {
  size_t size = braid_dtype_size(desc->dtype);
  int64_t index[BRAID_MAX_RANK] = {0};
  int64_t stride[BRAID_MAX_RANK], offset = 0, count = braid_desc_count(desc);
  for (int i = 0, step = 0; i < desc->rank; i++, step = 1) {
    stride[i] = step ? stride[i - 1] * desc->dims[i - 1] : 1;
  }
  for (int64_t at = 0; at < count; at++, target += size) {
    memcpy(target, source + (size_t)offset * size, size);
    for (int i = desc->rank - 1; i >= 0; i--) {
      offset += stride[i];
      if (++index[i] < desc->dims[i]) break;
      offset -= stride[i] * desc->dims[i];
      index[i] = 0;
    }
  }
}

/* Arrays in Fortran order are read as they are, then reordered. */
static braid_status read_in_order(braid_reader *reader, size_t offset, const header *h, const braid_desc *desc,
                                  const braid_allocator *allocator, braid_tensor **out) {
  braid_tensor *lying;
  if (!h->fortran || h->rank < 2) return braid_tensor_read(allocator, reader, offset, desc, out);
  BRAID_TRY(braid_tensor_read(allocator, reader, offset, desc, &lying));
  braid_status status = braid_tensor_create(allocator, desc, out);
  if (status == BRAID_OK && braid_desc_bytes(desc))
    reorder(desc, braid_tensor_const_data(lying), braid_tensor_data(*out));
  braid_tensor_release(lying);
  return status;
}

static braid_status read_elements(braid_reader *reader, size_t offset, const header *h,
                                  const braid_allocator *allocator, braid_tensor **out) {
  const char *name = braid_reader_name(reader);
  size_t bytes = braid_reader_bytes(reader) - offset;
  bool swap = false;
  braid_dtype dtype = find_dtype(h->descr, &swap);
  if (dtype == BRAID_NONE) {
    return braid_fail(BRAID_UNSUPPORTED,
                      "%s: element type \"%s\" is not supported (float16/32/64, int8..64, "
                      "uint8..64, bool, bfloat16, or bytes of a narrow type)",
                      name, h->descr);
  }
  braid_desc desc;
  if (braid_desc_init(&desc, dtype, h->rank, h->dims) != BRAID_OK) {
    return braid_fail_prefix(BRAID_INVALID_FILE, "%s: shape", name);
  }
  size_t needed = braid_desc_bytes(&desc);
  if (bytes != needed) {
    char text[96];
    return braid_fail(BRAID_INVALID_FILE, "%s: %zu bytes of elements follow the header, %s takes %zu", name, bytes,
                      braid_desc_format(&desc, text, sizeof text), needed);
  }
  BRAID_TRY(read_in_order(reader, offset, h, &desc, allocator, out));
  if (swap) swap_bytes(braid_tensor_data(*out), needed, braid_dtype_size(dtype));
  return BRAID_OK;
}

/* `head` has the first `bytes` bytes of the file, including the header. */
static braid_status read_array(braid_reader *reader, const uint8_t *head, size_t bytes,
                               const braid_allocator *allocator, braid_tensor **out) {
  const char *name = braid_reader_name(reader);
  if (bytes < MAGIC_BYTES + 4 || memcmp(head, magic, MAGIC_BYTES) != 0) {
    return braid_fail(BRAID_INVALID_FILE, "%s: not a .npy file: expected it to begin with \\x93NUMPY", name);
  }
  unsigned version = head[MAGIC_BYTES];
  if (version < 1 || version > 3) {
    return braid_fail(BRAID_INVALID_FILE, "%s: .npy version %u, expected 1, 2 or 3", name, version);
  }
  size_t at = version == 1 ? MAGIC_BYTES + 4 : MAGIC_BYTES + 6;
  size_t length = head[8] | (size_t)head[9] << 8;
  if (version > 1 && bytes >= at) length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
  if (bytes < at || length > bytes - at || length > MAX_HEADER_BYTES) {
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: the header is said to be %zu bytes, the file has %zu and the limit is %d", name, length,
                      bytes < at ? 0 : braid_reader_bytes(reader) - at, MAX_HEADER_BYTES);
  }
  cursor c = {name, head, head + at, head + at + length};
  header h = {.rank = 0};
  BRAID_TRY(parse_header(&c, &h));
  return read_elements(reader, at + length, &h, allocator, out);
}

static braid_status read_npy(const braid_allocator *allocator, braid_reader *reader, braid_tensor **out) {
  enum { MOST_HEAD = MAX_HEADER_BYTES + MAGIC_BYTES + 6 };
  *out = NULL;
  size_t bytes = braid_reader_bytes(reader);
  if (bytes > MOST_HEAD) bytes = MOST_HEAD;
  uint8_t *head = braid_alloc(allocator, bytes);
  if (!head) return BRAID_NO_MEMORY;
  braid_status status = braid_reader_get(reader, 0, head, bytes);
  if (status == BRAID_OK) status = read_array(reader, head, bytes, allocator, out);
  braid_free(allocator, head);
  return status;
}

braid_status braid_npy_parse(const braid_allocator *allocator, const char *name, const uint8_t *data, size_t bytes,
                             braid_tensor **out) {
  *out = NULL;
  braid_reader *reader;
  BRAID_TRY(braid_reader_wrap(allocator, name, data, bytes, &reader));
  braid_status status = read_npy(allocator, reader, out);
  braid_reader_close(reader);
  return status;
}

braid_status braid_npy_load(const braid_allocator *allocator, const char *path, braid_tensor **out) {
  *out = NULL;
  braid_reader *reader;
  BRAID_TRY(braid_reader_open(allocator, path, 0, &reader));
  braid_status status = read_npy(allocator, reader, out);
  if (status == BRAID_OK) status = braid_reader_check(reader);
  braid_reader_close(reader);
  if (status == BRAID_OK) return BRAID_OK;
  braid_tensor_release(*out);
  *out = NULL;
  return status;
}

static const char *descr_of(braid_dtype dtype) {
  switch (dtype) {
#define NPY_DESCR(id, name, bytes, descr)                                                                              \
  case BRAID_##id:                                                                                                     \
    return descr;
    BRAID_DTYPE_MAP(NPY_DESCR)
#undef NPY_DESCR
  default:
    return "";
  }
}

/* Formats magic, version, length and header of a version 1 file, padded to a multiple of 64 bytes. The length of a
 * header of rank 8 fits in 16 bits. */
static void format_head(braid_text *text, const braid_desc *desc) {
  braid_text_add_bytes(text, "\x93NUMPY\1\0\0\0", MAGIC_BYTES + 4);
  braid_text_printf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(desc->dtype));
  for (int i = 0; i < desc->rank; i++) {
    braid_text_printf(text, i ? ", %" PRId64 : "%" PRId64, desc->dims[i]);
  }
  braid_text_add(text, desc->rank == 1 ? ",), }" : "), }");
  while (!text->failed && (text->length + 1) % HEADER_ALIGNMENT != 0) braid_text_add(text, " ");
  braid_text_add(text, "\n");
  if (text->failed) return;
  size_t length = text->length - MAGIC_BYTES - 4;
  text->data[8] = (char)(length & 0xff);
  text->data[9] = (char)(length >> 8);
}

braid_status braid_npy_save(const char *path, const braid_tensor *tensor) {
  const braid_desc *desc = braid_tensor_desc(tensor);
  if (desc->layout != BRAID_LAYOUT_PLAIN) {
    char layout[BRAID_LAYOUT_TEXT];
    return braid_fail(BRAID_INVALID_ARGUMENT, "%s: a tensor in layout %s cannot be saved, convert it to plain first",
                      path, braid_layout_format(desc->layout, desc->rank, layout, sizeof layout));
  }
  braid_text head;
  braid_text_init(&head, NULL);
  format_head(&head, desc);
  braid_writer *writer = NULL;
  braid_status status = head.failed ? BRAID_NO_MEMORY : braid_writer_open(NULL, path, &writer);
  if (status == BRAID_OK) status = braid_writer_put(writer, head.data, head.length);
  if (status == BRAID_OK) status = braid_writer_put(writer, braid_tensor_const_data(tensor), braid_desc_bytes(desc));
  if (status == BRAID_OK)
    status = braid_writer_commit(writer);
  else
    braid_writer_abort(writer);
  braid_text_deinit(&head);
  return status;
}
