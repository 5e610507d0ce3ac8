/* Posts to a collector: OTLP over HTTP, by libcurl. */
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "serve/trace/record.h"

enum { ANSWER_BYTES = 64 << 10, CONNECT_MS = 2000 };

struct trace_post {
  CURL *curl;
  struct curl_slist *headers;
  const int64_t *stop_ns; /* of the post under way */
  char answer[ANSWER_BYTES];
  size_t answer_bytes;
};

static size_t take_answer(char *data, size_t size, size_t count, void *context) {
  trace_post *post = context;
  size_t bytes = size * count, room = sizeof post->answer - post->answer_bytes;
  if (bytes > room) return 0; /* no collector answers so much: the post fails */
  memcpy(post->answer + post->answer_bytes, data, bytes);
  post->answer_bytes += bytes;
  return bytes;
}

static int is_over(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  const trace_post *post = context;
  (void)a, (void)b, (void)c, (void)d;
  int64_t stop = __atomic_load_n(post->stop_ns, __ATOMIC_ACQUIRE);
  return stop && braid_now_ns() > stop;
}

static bool add_header(trace_post *post, const char *line) {
  struct curl_slist *more = curl_slist_append(post->headers, line);
  if (more) post->headers = more;
  return more != NULL;
}

static bool add_headers(trace_post *post, const trace_settings *settings) {
  bool added = add_header(post, "Content-Type: application/json") && add_header(post, "Expect:");
  for (size_t i = 0; i < settings->header_count && added; i++) {
    braid_text line;
    braid_text_init(&line, NULL);
    braid_text_printf(&line, "%s: %s", settings->headers[i].key, settings->headers[i].value);
    added = !line.failed && add_header(post, line.data);
    braid_text_deinit(&line);
  }
  return added;
}

static bool set_options(trace_post *post, const trace_settings *settings) {
  CURL *curl = post->curl;
#if LIBCURL_VERSION_NUM >= 0x075700
  /* Else the end waits for the thread that resolves a name, as long as its server says nothing. An older library than
   * these headers does not know it. */
  (void)curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
#endif
  return curl_easy_setopt(curl, CURLOPT_URL, settings->endpoint) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_HTTPHEADER, post->headers) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)settings->timeout_ms) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_WRITEDATA, post) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_over) == CURLE_OK &&
         curl_easy_setopt(curl, CURLOPT_XFERINFODATA, post) == CURLE_OK;
}

braid_status braid_trace_post_open(const trace_settings *settings, trace_post **out) {
  *out = NULL;
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return braid_fail(BRAID_INTERNAL, "libcurl does not start");
  trace_post *post = braid_zalloc(NULL, sizeof *post);
  if (post) post->curl = curl_easy_init();
  if (post && post->curl && add_headers(post, settings) && set_options(post, settings)) {
    *out = post;
    return BRAID_OK;
  }
  if (post)
    braid_trace_post_close(post);
  else
    curl_global_cleanup();
  return braid_fail(BRAID_NO_MEMORY, "no memory for posts to a collector");
}

/* {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "..."}} */
static uint64_t read_rejected(const trace_post *post, char *why) {
  json_t *root = json_loadb(post->answer, post->answer_bytes, 0, NULL);
  const json_t *partial = json_object_get(root, "partialSuccess"), *count = json_object_get(partial, "rejectedSpans");
  const char *message = json_string_value(json_object_get(partial, "errorMessage"));
  int64_t rejected = json_integer_value(count);
  if (json_is_string(count) && !braid_parse_i64(json_string_value(count), &rejected)) rejected = 0;
  snprintf(why, BRAID_SERVE_DETAIL, "%.400s", message ? message : "");
  json_decref(root);
  return rejected > 0 ? (uint64_t)rejected : 0;
}

trace_posted braid_trace_post_send(trace_post *post, const char *text, size_t bytes, const int64_t *stop_ns,
                                   char why[BRAID_SERVE_DETAIL], uint64_t *out_rejected) {
  long status = 0;
  *out_rejected = 0;
  post->stop_ns = stop_ns;
  post->answer_bytes = 0;
  if (is_over(post, 0, 0, 0, 0)) {
    snprintf(why, BRAID_SERVE_DETAIL, "the daemon stops");
    return TRACE_LATER;
  }
  (void)curl_easy_setopt(post->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
  (void)curl_easy_setopt(post->curl, CURLOPT_POSTFIELDS, text); /* not copied */
  CURLcode code = curl_easy_perform(post->curl);
  if (code != CURLE_OK) {
    snprintf(why, BRAID_SERVE_DETAIL, "%s", curl_easy_strerror(code));
    return TRACE_LATER;
  }
  (void)curl_easy_getinfo(post->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) {
    *out_rejected = read_rejected(post, why);
    return TRACE_TAKEN;
  }
  snprintf(why, BRAID_SERVE_DETAIL, "it answers with status %ld", status);
  bool later = status == 429 || status == 502 || status == 503 || status == 504; /* those that OTLP says */
  return later ? TRACE_LATER : TRACE_REFUSED;
}

void braid_trace_post_close(trace_post *post) {
  if (!post) return;
  if (post->curl) curl_easy_cleanup(post->curl);
  curl_slist_free_all(post->headers);
  braid_free(NULL, post);
  curl_global_cleanup();
}
