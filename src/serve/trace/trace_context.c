#include "serve/trace/trace_context.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

/* MEMBERS and the bytes of their parts are the specification's. */
enum { MEMBERS = 32, LONG_MEMBER = 128, KEY = 256, TENANT = 241, SYSTEM = 14, VALUE = 256 };

/* --- traceparent ---------------------------------------------------------------------------------------------------
 */
/* Upper case is forbidden. */
static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, uint8_t *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static bool is_zero(const uint8_t *bytes, size_t count) {
  uint8_t any = 0;
  for (size_t i = 0; i < count; i++) any |= bytes[i];
  return !any;
}

bool braid_trace_parse(const char *text, size_t bytes, braid_trace_context *out) {
  enum { VERSION = 0, TRACE = 3, SPAN = 36, FLAGS = 53, END = 55 }; /* where the fields begin */
  uint8_t version, flags;
  *out = (braid_trace_context){0};
  if (bytes < END || text[TRACE - 1] != '-' || text[SPAN - 1] != '-' || text[FLAGS - 1] != '-') return false;
  if (!read_hex(text + VERSION, &version, 1) || version == 0xff) return false;
  if (bytes > END && (version == 0 || text[END] != '-')) return false;
  braid_trace_context context;
  if (!read_hex(text + TRACE, context.trace, BRAID_TRACE_ID) ||
      !read_hex(text + SPAN, context.span, BRAID_TRACE_SPAN) || !read_hex(text + FLAGS, &flags, 1))
    return false;
  if (is_zero(context.trace, BRAID_TRACE_ID) || is_zero(context.span, BRAID_TRACE_SPAN)) return false;
  context.sampled = flags & 1;
  *out = context;
  return true;
}

void braid_trace_hex(const uint8_t *bytes, size_t count, char *out) {
  static const char kDigits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; i++) {
    out[2 * i] = kDigits[bytes[i] >> 4];
    out[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  out[2 * count] = '\0';
}

void braid_trace_format(const braid_trace_context *context, char out[BRAID_TRACE_PARENT]) {
  memcpy(out, "00-", 3);
  braid_trace_hex(context->trace, BRAID_TRACE_ID, out + 3);
  out[35] = '-';
  braid_trace_hex(context->span, BRAID_TRACE_SPAN, out + 36);
  memcpy(out + 52, context->sampled ? "-01" : "-00", 4);
}

/* --- tracestate ----------------------------------------------------------------------------------------------------
 */
typedef struct member {
  const char *text;
  size_t bytes, key; /* key: of these, before '=' */
} member;

static bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}

static bool is_key_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || (c && strchr("_-*/", c));
}

/* NAME, or TENANT@SYSTEM. */
static bool is_key(const char *text, size_t bytes) {
  const char *at = memchr(text, '@', bytes);
  size_t tenant = at ? (size_t)(at - text) : bytes, system = at ? bytes - tenant - 1 : 0;
  if (!bytes || tenant > (at ? TENANT : KEY) || !(is_letter(text[0]) || (text[0] >= '0' && text[0] <= '9')))
    return false;
  if (at && (!tenant || !system || system > SYSTEM || !is_letter(at[1]))) return false;
  for (size_t i = 0; i < bytes; i++)
    if (i != tenant && !is_key_character(text[i])) return false;
  return true;
}

/* KEY=VALUE, between commas and without the space around it. */
static bool member_read(member *m) {
  const char *equals = memchr(m->text, '=', m->bytes);
  if (!equals) return false;
  m->key = (size_t)(equals - m->text);
  size_t value = m->bytes - m->key - 1;
  if (!is_key(m->text, m->key) || !value || value > VALUE) return false;
  for (size_t i = m->key + 1; i < m->bytes; i++)
    if (m->text[i] < 0x20 || m->text[i] > 0x7e || m->text[i] == '=') return false;
  return true;
}

/* Returns how many there are; MEMBERS + 1: it breaks the rules. */
static size_t members_read(const char *text, size_t bytes, member members[MEMBERS]) {
  size_t count = 0;
  for (size_t at = 0; at <= bytes;) {
    const char *comma = memchr(text + at, ',', bytes - at);
    size_t end = comma ? (size_t)(comma - text) : bytes;
    member m = {.text = text + at, .bytes = end - at};
    at = end + 1;
    while (m.bytes && (m.text[0] == ' ' || m.text[0] == '\t')) m.text++, m.bytes--;
    while (m.bytes && (m.text[m.bytes - 1] == ' ' || m.text[m.bytes - 1] == '\t')) m.bytes--;
    if (!m.bytes) continue; /* empty members are allowed */
    if (count == MEMBERS || !member_read(&m)) return MEMBERS + 1;
    for (size_t i = 0; i < count; i++)
      if (members[i].key == m.key && memcmp(members[i].text, m.text, m.key) == 0) return MEMBERS + 1;
    members[count++] = m;
  }
  return count;
}

void braid_trace_state(const char *text, size_t bytes, char out[BRAID_TRACE_STATE]) {
  member members[MEMBERS];
  size_t used = 0, total = 0;
  out[0] = '\0';
  size_t count = text && bytes ? members_read(text, bytes, members) : 0;
  if (count > MEMBERS) return;
  for (size_t i = 0; i < count; i++) total += members[i].bytes + 1;
  bool too_long = total > BRAID_TRACE_STATE; /* the last comma's place is the zero's */
  for (size_t i = 0; i < count; i++) {
    if (too_long && members[i].bytes > LONG_MEMBER) continue;
    if (used + (used > 0) + members[i].bytes >= BRAID_TRACE_STATE) break;
    if (used) out[used++] = ',';
    memcpy(out + used, members[i].text, members[i].bytes);
    used += members[i].bytes;
  }
  out[used] = '\0';
}

/* --- new ids -------------------------------------------------------------------------------------------------------
 * By a generator of each thread (SplitMix64), seeded by the kernel: they have to differ, not to be secret. */
static uint64_t next_random(void) {
  static _Thread_local uint64_t state;
  static _Thread_local bool seeded;
  if (!seeded && getrandom(&state, sizeof state, 0) != (ssize_t)sizeof state) {
    struct timespec now; /* no kernel that runs this comes here */
    clock_gettime(CLOCK_REALTIME, &now);
    state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)(uintptr_t)&state;
  }
  seeded = true;
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static void fill_random(uint8_t *out, size_t count) {
  do {
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
      uint64_t bits = next_random();
      memcpy(out + at, &bits, sizeof bits);
    }
  } while (is_zero(out, count));
}

void braid_trace_new_trace(uint8_t out[BRAID_TRACE_ID]) {
  fill_random(out, BRAID_TRACE_ID);
}

void braid_trace_new_span(uint8_t out[BRAID_TRACE_SPAN]) {
  fill_random(out, BRAID_TRACE_SPAN);
}

bool braid_trace_is_sampled(const uint8_t trace[BRAID_TRACE_ID], double ratio) {
  uint64_t low = 0; /* the last 7 bytes are the random ones */
  for (size_t i = BRAID_TRACE_ID - 7; i < BRAID_TRACE_ID; i++) low = low << 8 | trace[i];
  return ratio >= 1 || (double)low < ratio * 0x1p56;
}
