#include "values.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "statistics.h"

static const char *shown(const char *path) {
  return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* Descriptors that are open already: "-", /dev/stdin, and /dev/fd/N as made by a shell's <(...). -1: another path. */
static int own_descriptor(const char *path) {
  int number, used = 0;
  if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0) return STDIN_FILENO;
  bool own =
      sscanf(path, "/dev/fd/%9d%n", &number, &used) == 1 || sscanf(path, "/proc/self/fd/%9d%n", &number, &used) == 1;
  return own && !path[used] ? number : -1;
}

/* A pipe can be read only once, but the kind of a file is recognized by its first bytes: copies the contents of a pipe
 * to a memory file that replaces it. */
static braid_status make_seekable(int descriptor, const char *path) {
  static const int64_t kMostBytes = (int64_t)2 << 30; /* a pipe may have no end */
  if (lseek(descriptor, 0, SEEK_CUR) >= 0) return BRAID_OK;
  int file = memfd_create("input", MFD_CLOEXEC);
  if (file < 0) return braid_fail(BRAID_IO, "%s: %s", shown(path), strerror(errno));
  char buffer[1 << 16];
  for (int64_t all = 0;;) {
    ssize_t got = read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) break;
    if (got > 0 && (all += got) > kMostBytes) {
      close(file);
      return braid_fail(BRAID_OUT_OF_RANGE, "%s: has more than 2 GiB; write it to a file first", shown(path));
    }
    if (got < 0 || write(file, buffer, (size_t)got) != got) {
      int error = errno;
      close(file);
      return braid_fail(BRAID_IO, "%s: %s", shown(path), strerror(error));
    }
  }
  lseek(file, 0, SEEK_SET);
  dup2(file, descriptor);
  close(file);
  return BRAID_OK;
}

/* Opening a FIFO would wait for a writer. */
static braid_status open_input(const char *path, int *out) {
  int own = own_descriptor(path);
  if (own >= 0) {
    braid_status status = make_seekable(own, path);
    if (status != BRAID_OK) return status;
  }
  *out = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*out < 0)
    return braid_fail(errno == ENOENT ? BRAID_NOT_FOUND : BRAID_IO, "%s: cannot open: %s", shown(path),
                      strerror(errno));
  struct stat about;
  if (own >= 0 || (fstat(*out, &about) == 0 && S_ISREG(about.st_mode))) return BRAID_OK;
  close(*out);
  return braid_fail(BRAID_INVALID_FILE, "%s: is not a regular file", path);
}

static braid_status is_array(const char *path, bool *array) {
  char head[6] = "";
  int file;
  braid_status status = open_input(path, &file);
  if (status != BRAID_OK) return status;
  ssize_t got = pread(file, head, sizeof head, 0);
  close(file);
  if (got == 0) {
    return braid_fail(BRAID_INVALID_FILE, "%s is empty; a .npy array, a JPEG or a PNG is expected", shown(path));
  }
  *array = got == (ssize_t)sizeof head && memcmp(head, "\x93NUMPY", sizeof head) == 0;
  return BRAID_OK;
}

static void release_codes(void *context) {
  braid_tensor_release(context);
}

/* .npy has no names for narrow types: their codes are read as uint8. */
static braid_status read_array(const char *path, const braid_desc *wanted, braid_tensor **out) {
  braid_tensor *codes;
  braid_status status = braid_npy_load(NULL, path, out);
  if (status != BRAID_OK || !braid_dtype_is_narrow(wanted->dtype)) return status;
  braid_desc desc = *braid_tensor_desc(codes = *out);
  if (desc.dtype != BRAID_U8) return BRAID_OK;
  desc.dtype = wanted->dtype;
  status = braid_tensor_wrap(NULL, &desc, braid_tensor_data(codes), release_codes, codes, out);
  if (status != BRAID_OK) braid_tensor_release(codes);
  return status;
}

braid_status cli_read_value(const char *path, const char *input, const braid_desc *wanted, const char *preprocess,
                            bool *image, braid_tensor **out) {
  *out = NULL;
  bool array = false;
  braid_status status = is_array(path, &array);
  if (status != BRAID_OK) return status;
  *image = !array;
  if (array) return read_array(path, wanted, out);
  bool fits = wanted->rank == 4 && wanted->dtype == BRAID_F32;
  for (int i = 1; fits && i < 4; i++) fits = wanted->dims[i] > 0 && wanted->dims[i] <= 1 << 15;
  if (!fits) {
    char text[96];
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s is not a .npy file, so it is read as an image, but input \"%s\" is %s: an image needs "
                      "float32[1,C,H,W] with all dimensions known (--shape fixes open ones)",
                      path, input, braid_desc_format(wanted, text, sizeof text));
  }
  return braid_image_load(NULL, path, (int)wanted->dims[1], (int)wanted->dims[2], (int)wanted->dims[3], preprocess,
                          out);
}

static int leading_ones(const braid_desc *desc) {
  int ones = 0;
  while (ones < desc->rank && desc->dims[ones] == 1) ones++;
  return ones;
}

braid_status cli_check_value(const char *path, const char *input, const braid_desc *wanted,
                             const braid_tensor *tensor) {
  const braid_desc *given = braid_tensor_desc(tensor);
  int from = leading_ones(wanted), at = leading_ones(given);
  bool same = wanted->dtype == given->dtype && wanted->rank - from == given->rank - at;
  for (int i = from; same && i < wanted->rank; i++) same = wanted->dims[i] == given->dims[i - from + at];
  if (same) return BRAID_OK;
  char a[96], b[96];
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s holds %s, input \"%s\" takes %s", path,
                    braid_desc_format(given, a, sizeof a), input, braid_desc_format(wanted, b, sizeof b));
}

braid_status cli_make_value(const braid_desc *desc, braid_tensor **out) {
  braid_status status = braid_tensor_create(NULL, desc, out);
  if (status != BRAID_OK) return status;
  bool is_float = braid_dtype_is_float(desc->dtype);
  uint32_t random = 12345;
  for (int64_t i = 0, count = braid_desc_count(desc); i < count; i++) {
    random = random * 1664525u + 1013904223u;
    braid_tensor_set_f64(*out, i, is_float ? (random >> 8) * 0x1p-23 - 1 : (double)(random >> 30));
  }
  return BRAID_OK;
}

braid_status cli_buffers_create(const braid_session *session, cli_buffers *buffers) {
  *buffers = (cli_buffers){.input_count = braid_session_input_count(session),
                           .output_count = braid_session_output_count(session)};
  /* one more than needed, since calloc(0) may return NULL */
  buffers->inputs = calloc(buffers->input_count + 1, sizeof *buffers->inputs);
  buffers->outputs = calloc(buffers->output_count + 1, sizeof *buffers->outputs);
  buffers->input_data = calloc(buffers->input_count + 1, sizeof *buffers->input_data);
  buffers->output_data = calloc(buffers->output_count + 1, sizeof *buffers->output_data);
  if (!buffers->inputs || !buffers->outputs || !buffers->input_data || !buffers->output_data) return cli_no_memory();
  for (size_t i = 0; i < buffers->output_count; i++) {
    braid_status status = braid_tensor_create(NULL, braid_session_output(session, i), &buffers->outputs[i]);
    if (status != BRAID_OK) return status;
    buffers->output_data[i] = braid_tensor_data(buffers->outputs[i]);
  }
  return BRAID_OK;
}

void cli_buffers_destroy(cli_buffers *buffers) {
  for (size_t i = 0; buffers->inputs && i < buffers->input_count; i++) braid_tensor_release(buffers->inputs[i]);
  for (size_t i = 0; buffers->outputs && i < buffers->output_count; i++) braid_tensor_release(buffers->outputs[i]);
  free(buffers->inputs);
  free(buffers->outputs);
  free(buffers->input_data);
  free(buffers->output_data);
}

braid_status cli_buffers_run(cli_buffers *buffers, braid_session *session) {
  for (size_t i = 0; i < buffers->input_count; i++)
    buffers->input_data[i] = braid_tensor_const_data(buffers->inputs[i]);
  return braid_session_run(session, buffers->input_data, buffers->output_data);
}

/* Pins the buffers, which are used by many runs. */
static braid_status pin(cli_buffers *buffers, braid_session *session) {
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < buffers->input_count && status == BRAID_OK; i++)
    status = braid_session_pin(session, (void *)braid_tensor_const_data(buffers->inputs[i]),
                               braid_desc_bytes(braid_tensor_desc(buffers->inputs[i])));
  for (size_t i = 0; i < buffers->output_count && status == BRAID_OK; i++)
    status =
        braid_session_pin(session, buffers->output_data[i], braid_desc_bytes(braid_tensor_desc(buffers->outputs[i])));
  return status;
}

static void unpin(cli_buffers *buffers, braid_session *session) {
  for (size_t i = 0; i < buffers->input_count; i++)
    braid_session_unpin(session, (void *)braid_tensor_const_data(buffers->inputs[i]));
  for (size_t i = 0; i < buffers->output_count; i++) braid_session_unpin(session, buffers->output_data[i]);
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

braid_status cli_measure(cli_buffers *buffers, braid_session *session, int runs, cli_latency *latency) {
  enum { WARM_UP = 2 };
  double *times = calloc((size_t)runs, sizeof *times);
  if (!times) return cli_no_memory();
  braid_status status = pin(buffers, session);
  cli_progress progress;
  cli_progress_begin(&progress, "runs");
  *latency = (cli_latency){.runs = runs};
  for (int i = -WARM_UP; i < runs && status == BRAID_OK; i++) {
    double started = cli_seconds();
    status = cli_buffers_run(buffers, session);
    if (i >= 0) times[i] = (cli_seconds() - started) * 1e3;
    if (i >= 0) latency->mean += times[i] / runs;
    if (cli_interrupted())
      status = braid_fail(BRAID_CANCELLED, "interrupted after %d of %d runs", i < 0 ? 0 : i + 1, runs);
    cli_progress_update(&progress, i + 1, runs, NULL);
  }
  cli_progress_end(&progress);
  unpin(buffers, session);
  qsort(times, (size_t)runs, sizeof *times, compare_doubles);
  latency->least = times[0];
  latency->median = cli_percentile(times, (size_t)runs, 50);
  latency->p90 = cli_percentile(times, (size_t)runs, 90);
  free(times);
  return status;
}

void cli_json_latency(cli_json *json, const char *key, const cli_latency *latency, int64_t batch) {
  cli_json_object(json, key);
  cli_json_integer(json, "runs", latency->runs);
  cli_json_integer(json, "batch", batch);
  cli_json_number(json, "median", latency->median);
  cli_json_number(json, "least", latency->least);
  cli_json_number(json, "p90", latency->p90);
  cli_json_number(json, "mean", latency->mean);
  cli_json_number(json, "per_second", latency->median > 0 ? (double)batch * 1e3 / latency->median : 0);
  cli_json_close(json, '}');
}

braid_status cli_labels_load(const char *path, cli_labels *labels) {
  enum { MOST_BYTES = 1 << 24 };
  *labels = (cli_labels){0};
  int descriptor;
  braid_status status = open_input(path, &descriptor);
  if (status != BRAID_OK) return status;
  FILE *file = fdopen(descriptor, "r");
  if (!file) {
    close(descriptor);
    return cli_no_memory();
  }
  labels->text = malloc(MOST_BYTES + 1);
  size_t bytes = labels->text ? fread(labels->text, 1, MOST_BYTES + 1, file) : 0;
  bool failed = ferror(file);
  fclose(file);
  if (!labels->text) return cli_no_memory();
  if (failed || bytes > MOST_BYTES) {
    return braid_fail(failed ? BRAID_IO : BRAID_INVALID_FILE, "%s: %s", path,
                      failed ? "cannot be read" : "more than 16 MiB: labels are expected, one per line");
  }
  if (memchr(labels->text, 0, bytes))
    return braid_fail(BRAID_INVALID_FILE, "%s: contains a byte of value 0: labels are text, one per line", path);
  labels->text[bytes] = '\0';
  size_t lines = 1;
  for (size_t i = 0; i < bytes; i++) lines += labels->text[i] == '\n';
  labels->lines = calloc(lines, sizeof *labels->lines);
  if (!labels->lines) return cli_no_memory();
  for (char *at = labels->text; *at;) {
    char *end = at + strcspn(at, "\n");
    labels->lines[labels->count++] = at;
    if (end > at && end[-1] == '\r') end[-1] = '\0';
    at = *end ? end + 1 : end;
    *end = '\0';
  }
  return BRAID_OK;
}

void cli_labels_free(cli_labels *labels) {
  free(labels->lines);
  free(labels->text);
  *labels = (cli_labels){0};
}

int64_t cli_top(const braid_tensor *scores, int64_t offset, int64_t classes, cli_guess *guesses, int64_t count) {
  double sum = 0, highest = -INFINITY, exponentials = 0;
  bool probabilities = true;
  for (int64_t i = 0; i < classes; i++) {
    double score = braid_tensor_get_f64(scores, offset + i);
    sum += score;
    if (score > highest) highest = score;
    probabilities = probabilities && score >= 0;
  }
  probabilities = probabilities && fabs(sum - 1) < 1e-2;
  for (int64_t i = 0; i < classes; i++) exponentials += exp(braid_tensor_get_f64(scores, offset + i) - highest);
  int64_t used = 0;
  for (int64_t i = 0; i < classes; i++) {
    double score = braid_tensor_get_f64(scores, offset + i);
    if (isnan(score) || (used == count && !(score > guesses[used - 1].score))) continue;
    int64_t at = used < count ? used++ : count - 1;
    for (; at > 0 && score > guesses[at - 1].score; at--) guesses[at] = guesses[at - 1];
    guesses[at] = (cli_guess){i, score, probabilities ? score : exp(score - highest) / exponentials};
  }
  return used;
}
