#include "train/ledger/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/try.h"
#include "base/vector.h"

static const size_t kMostBytes = (size_t)4 << 30;
static const char kModel[] = "model: ", kChain[] = " chain ";

/* --- lines ---------------------------------------------------------------------------------------------------------
 */
static bool is_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool take_word(const char **at, const char *word) {
  size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

/* Exactly `count` digits, and then a blank or the end. */
static bool take_digits(const char **at, size_t count, const char **out) {
  *out = *at;
  for (size_t i = 0; i < count; i++)
    if (!is_digit((*at)[i])) return false;
  *at += count;
  return **at == ' ' || **at == '\0';
}

static bool take_token(const char **at, const char **out, size_t *length) {
  *out = *at;
  *length = strspn(*at, "0123456789.e+-");
  *at += *length;
  return *length > 0;
}

static bool take_step(const char **at, int64_t *out) {
  enum { kMostDigits = 18 };
  size_t length = strspn(*at, "0123456789");
  if (length < 1 || length > kMostDigits || (length > 1 && **at == '0')) return false;
  *out = strtoll(*at, NULL, 10);
  *at += length;
  return true;
}

bool braid_ledger_split(const char *text, size_t values, size_t parameters, int64_t *step, braid_ledger_parts *out) {
  *out = (braid_ledger_parts){.rate = NULL};
  if (!take_word(&text, "step ") || !take_step(&text, step)) return false;
  if (*step > 0) {
    if (!take_word(&text, " rate ") || !take_token(&text, &out->rate, &out->rate_length)) return false;
    if (!take_word(&text, " order ") || !take_digits(&text, BRAID_LEDGER_ORDER, &out->order)) return false;
    if (!take_word(&text, " labels ") || !take_digits(&text, BRAID_LEDGER_ORDER, &out->labels)) return false;
    if (!take_word(&text, " loss ") || !take_token(&text, &out->loss, &out->loss_length)) return false;
    if (!take_word(&text, " values ") || !take_digits(&text, values * BRAID_LEDGER_NUMBER, &out->values)) return false;
  }
  if (!take_word(&text, " parameters ")) return false;
  if (!take_digits(&text, parameters * BRAID_LEDGER_NUMBER, &out->parameters)) return false;
  return take_word(&text, " state ") && take_digits(&text, BRAID_SHA256_HEX, &out->state) && !*text;
}

size_t braid_ledger_other_number(const char *a, const char *b, size_t count) {
  size_t i = 0;
  while (i < count && (b[i * BRAID_LEDGER_NUMBER] == '-' ||
                       memcmp(a + i * BRAID_LEDGER_NUMBER, b + i * BRAID_LEDGER_NUMBER, BRAID_LEDGER_NUMBER) == 0))
    i++;
  return i;
}

void braid_ledger_begin_chain(const char *head, char out[BRAID_SHA256_HEX + 1]) {
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256 hash;
  braid_sha256_begin(&hash);
  for (const char *end; *head; head = end) {
    const char *feed = strchr(head, '\n');
    end = feed ? feed + 1 : head + strlen(head);
    if (strncmp(head, kModel, strlen(kModel)) != 0) braid_sha256_add(&hash, head, (size_t)(end - head));
  }
  braid_sha256_end(&hash, sum);
  braid_sha256_text(sum, sizeof sum, out);
}

void braid_ledger_chain(char chain[BRAID_SHA256_HEX + 1], const char *text) {
  uint8_t sum[BRAID_SHA256_BYTES];
  braid_sha256 hash;
  braid_sha256_begin(&hash);
  braid_sha256_add(&hash, chain, BRAID_SHA256_HEX);
  braid_sha256_add(&hash, text, strlen(text));
  braid_sha256_end(&hash, sum);
  braid_sha256_text(sum, sizeof sum, chain);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status refuse(const braid_ledger *ledger, size_t line, const char *what) {
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu: %s", ledger->path, line, what);
}

static braid_status take_head_line(braid_ledger *ledger, const char *line, size_t number) {
  if (number == 1) {
    char *end = NULL;
    size_t length = strlen(BRAID_LEDGER_FIRST);
    if (strncmp(line, BRAID_LEDGER_FIRST, length) != 0)
      return braid_fail(BRAID_INVALID_FILE, "%s: is not a ledger (does not begin with \"%s\" and a version)",
                        ledger->path, BRAID_LEDGER_FIRST);
    long version = strtol(line + length, &end, 10);
    if (line[strlen(line) - 1] == '\r')
      return refuse(ledger, number, "ends in a carriage return: a ledger's lines end in a line feed alone");
    if (*end || version != BRAID_LEDGER_VERSION)
      return braid_fail(BRAID_INVALID_FILE, "%s: line 1: a ledger of version %.20s, this Braid reads version %d",
                        ledger->path, line + length, BRAID_LEDGER_VERSION);
  } else if (!strstr(line, ": ")) {
    return refuse(ledger, number, "a setting (\"name: value\") or the line of step 0 is expected");
  }
  if (strncmp(line, kModel, strlen(kModel)) == 0) {
    if (ledger->model_line) return refuse(ledger, number, "the model is named twice");
    ledger->model_line = number;
    ledger->model = braid_strdup(ledger->allocator, line + strlen(kModel));
    return ledger->model ? BRAID_OK : BRAID_NO_MEMORY;
  }
  size_t capacity = ledger->head_capacity;
  const char **head = braid_grow(ledger->allocator, ledger->head, ledger->head_count, &capacity, sizeof *head);
  if (!head) return BRAID_NO_MEMORY;
  ledger->head = head;
  capacity = ledger->head_capacity;
  size_t *lines = braid_grow(ledger->allocator, ledger->head_lines, ledger->head_count, &capacity, sizeof *lines);
  if (!lines) return BRAID_NO_MEMORY;
  ledger->head_lines = lines;
  ledger->head_capacity = capacity;
  head[ledger->head_count] = line;
  lines[ledger->head_count++] = number;
  ledger->values += strncmp(line, "value: ", 7) == 0;
  ledger->parameters += strncmp(line, "parameter: ", 11) == 0;
  return BRAID_OK;
}

/* `chain`: of the line before, becomes that of this one. */
static braid_status take_step_line(braid_ledger *ledger, char *line, size_t number, size_t end,
                                   char chain[BRAID_SHA256_HEX + 1]) {
  braid_ledger_parts parts;
  size_t length = strlen(line), tail = strlen(kChain) + BRAID_SHA256_HEX;
  char *mark = length > tail ? line + length - tail : line;
  const char *digits = mark + strlen(kChain), *given;
  int64_t step = 0;
  if (mark == line || strncmp(mark, kChain, strlen(kChain)) != 0 || !take_digits(&digits, BRAID_SHA256_HEX, &given))
    return refuse(ledger, number, "does not end with \" chain \" and 64 digits of a hash");
  *mark = '\0';
  if (!braid_ledger_split(line, ledger->values, ledger->parameters, &step, &parts))
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: line %zu: is not the line of a step with %zu values and %zu parameters, of which the head "
                      "tells",
                      ledger->path, number, ledger->values, ledger->parameters);
  if (step != (int64_t)ledger->line_count)
    return braid_fail(BRAID_INVALID_FILE, "%s: line %zu: is of step %" PRId64 "; step %zu is expected", ledger->path,
                      number, step, ledger->line_count);
  braid_ledger_chain(chain, line);
  if (memcmp(chain, given, BRAID_SHA256_HEX) != 0)
    return braid_fail(BRAID_INVALID_FILE,
                      "%s: line %zu: its chain is not the hash of the lines before it and of itself: this line or one "
                      "before it was changed after it had been written",
                      ledger->path, number);
  braid_ledger_line *lines =
      braid_grow(ledger->allocator, ledger->lines, ledger->line_count, &ledger->line_capacity, sizeof *lines);
  if (!lines) return BRAID_NO_MEMORY;
  ledger->lines = lines;
  lines[ledger->line_count++] = (braid_ledger_line){line, step, number, end, given};
  return BRAID_OK;
}

static braid_status parse_lines(braid_ledger *ledger) {
  char chain[BRAID_SHA256_HEX + 1] = "", *at = ledger->text, *stop = at + ledger->bytes;
  bool in_head = true;
  for (size_t number = 1; at < stop; number++) {
    char *feed = memchr(at, '\n', (size_t)(stop - at));
    if (memchr(at, '\0', (size_t)((feed ? feed : stop) - at))) return refuse(ledger, number, "holds a byte 0");
    ledger->torn = !feed;
    if (!feed) break;
    if (in_head && strncmp(at, "step ", 5) == 0) {
      char kept = *at;
      if (number == 1) return take_head_line(ledger, at, number);
      *at = '\0'; /* the head's end */
      braid_ledger_begin_chain(ledger->text, chain);
      *at = kept;
      for (size_t i = 0; i < ledger->bytes && ledger->text + i < at; i++)
        if (ledger->text[i] == '\n') ledger->text[i] = '\0';
      char *line = ledger->text;
      for (size_t i = 1; i < number; i++, line += strlen(line) + 1) BRAID_TRY(take_head_line(ledger, line, i));
      in_head = false;
    }
    if (!in_head) {
      *feed = '\0';
      BRAID_TRY(take_step_line(ledger, at, number, (size_t)(feed + 1 - ledger->text), chain));
    }
    at = feed + 1;
  }
  if (!in_head) return BRAID_OK;
  if (strncmp(ledger->text, BRAID_LEDGER_FIRST, strlen(BRAID_LEDGER_FIRST)) != 0) return take_head_line(ledger, "", 1);
  return braid_fail(BRAID_INVALID_FILE, "%s: ends within its head: the line of step 0 is missing", ledger->path);
}

braid_status braid_ledger_parse(const braid_allocator *allocator, const char *path, char *text, size_t bytes,
                                braid_ledger **out) {
  *out = NULL;
  braid_ledger *ledger = braid_zalloc(allocator, sizeof *ledger);
  if (!ledger) {
    braid_free(allocator, text);
    return BRAID_NO_MEMORY;
  }
  ledger->allocator = allocator;
  ledger->text = text;
  ledger->bytes = bytes;
  ledger->path = braid_strdup(allocator, path);
  braid_status status = ledger->path ? parse_lines(ledger) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = ledger;
  else
    braid_ledger_close(ledger);
  return status;
}

braid_status braid_ledger_open(const braid_allocator *allocator, const char *path, braid_ledger **out) {
  *out = NULL;
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, path, kMostBytes, &view));
  size_t bytes = view.bytes;
  char *text = braid_alloc(allocator, bytes + 1);
  if (text) {
    if (bytes) memcpy(text, view.data, bytes);
    text[bytes] = '\0';
  }
  braid_file_close(&view);
  return text ? braid_ledger_parse(allocator, path, text, bytes, out) : BRAID_NO_MEMORY;
}

void braid_ledger_close(braid_ledger *ledger) {
  if (!ledger) return;
  braid_free(ledger->allocator, ledger->path);
  braid_free(ledger->allocator, ledger->text);
  braid_free(ledger->allocator, ledger->head);
  braid_free(ledger->allocator, ledger->head_lines);
  braid_free(ledger->allocator, ledger->model);
  braid_free(ledger->allocator, ledger->lines);
  braid_free(ledger->allocator, ledger->groups);
  braid_free(ledger->allocator, ledger);
}

/* --- what it says --------------------------------------------------------------------------------------------------
 */
const char *braid_ledger_setting(const braid_ledger *ledger, const char *name, size_t *line) {
  size_t length = strlen(name);
  for (size_t i = 1; i < ledger->head_count; i++) {
    const char *text = ledger->head[i];
    if (strncmp(text, name, length) != 0 || strncmp(text + length, ": ", 2) != 0) continue;
    if (line) *line = ledger->head_lines[i];
    return text + length + 2;
  }
  return NULL;
}

braid_ledger_info braid_ledger_get_info(const braid_ledger *ledger) {
  return (braid_ledger_info){.model = ledger->model,
                             .steps = (int64_t)ledger->line_count - 1,
                             .values = ledger->values,
                             .parameters = ledger->parameters,
                             .chain = ledger->lines[ledger->line_count - 1].chain,
                             .torn = ledger->torn};
}
