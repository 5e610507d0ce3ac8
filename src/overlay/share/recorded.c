#include "overlay/share/recorded.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/try.h"

typedef struct reader {
  const char *at, *end;
  size_t line;
} reader;

/* Digits, at most 9 of them. */
static bool read_number(reader *r, uint32_t *out) {
  const char *start = r->at;
  *out = 0;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - start < 9)
    *out = *out * 10 + (uint32_t)(*r->at++ - '0');
  return r->at > start;
}

static bool skip(reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* Days since 0000-03-01 of the Gregorian calendar. */
static double days_of(uint32_t year, uint32_t month, uint32_t day) {
  uint32_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
  return 365.0 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
}

/* 2023-11-16 18:17:03.9799600 */
static bool read_time(reader *r, double *seconds) {
  uint32_t year, month, day, hour, minute, second, fraction = 0;
  if (!read_number(r, &year) || !skip(r, '-') || !read_number(r, &month) || !skip(r, '-') || !read_number(r, &day))
    return false;
  if (!skip(r, ' ') || !read_number(r, &hour) || !skip(r, ':') || !read_number(r, &minute) || !skip(r, ':') ||
      !read_number(r, &second))
    return false;
  const char *start = r->at + 1;
  if (skip(r, '.') && !read_number(r, &fraction)) return false;
  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
      second > 60)
    return false;
  *seconds = days_of(year, month, day) * 86400 + hour * 3600.0 + minute * 60.0 + second;
  if (r->at > start) *seconds += fraction * pow(10, (double)(start - r->at));
  return true;
}

static bool read_request(reader *r, braid_share_recorded *out) {
  uint32_t asked, generated;
  if (!read_time(r, &out->seconds) || !skip(r, ',') || !read_number(r, &asked) || !skip(r, ',') ||
      !read_number(r, &generated))
    return false;
  out->tokens = (uint64_t)asked + generated;
  (void)skip(r, '\r');
  return r->at == r->end || skip(r, '\n');
}

static braid_status read_requests(reader *r, braid_share_recorded *requests, size_t *count) {
  static const char kHeader[] = "TIMESTAMP,ContextTokens,GeneratedTokens";
  size_t header = sizeof kHeader - 1;
  if ((size_t)(r->end - r->at) < header || memcmp(r->at, kHeader, header) != 0)
    return braid_fail(BRAID_INVALID_FILE, "line 1 is not %s", kHeader);
  r->at += header;
  (void)skip(r, '\r');
  if (r->at < r->end && !skip(r, '\n')) return braid_fail(BRAID_INVALID_FILE, "line 1 is not %s alone", kHeader);
  for (r->line = 2; r->at < r->end; r->line++) {
    braid_share_recorded *next = &requests[*count];
    if (!read_request(r, next))
      return braid_fail(BRAID_INVALID_FILE, "line %zu is not date, time and two numbers of tokens", r->line);
    if (*count && next->seconds < next[-1].seconds)
      return braid_fail(BRAID_INVALID_FILE, "line %zu is earlier than the line before", r->line);
    next->row = (*count)++;
  }
  return BRAID_OK;
}

braid_status braid_share_recorded_parse(const char *text, size_t length, const braid_allocator *allocator,
                                        braid_share_recorded **out, size_t *out_count) {
  size_t lines = 1, count = 0;
  *out = NULL;
  *out_count = 0;
  for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
  if (lines > BRAID_SHARE_TRACE_ROWS + 2)
    return braid_fail(BRAID_INVALID_FILE, "%zu lines; allowed: %d requests", lines, BRAID_SHARE_TRACE_ROWS);
  braid_share_recorded *requests = braid_zalloc_array(allocator, lines, sizeof *requests);
  if (!requests) return BRAID_NO_MEMORY;
  reader r = {text, text + length, 1};
  braid_status status = read_requests(&r, requests, &count);
  if (status != BRAID_OK) {
    braid_free(allocator, requests);
    return status;
  }
  for (size_t i = count; i-- > 0;) requests[i].seconds -= requests[0].seconds;
  *out = requests;
  *out_count = count;
  return BRAID_OK;
}
