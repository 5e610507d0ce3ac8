/* In place of post.c where libcurl was not there when Braid was built. */
#include "serve/trace/record.h"

braid_status braid_trace_post_open(const trace_settings *settings, trace_post **out) {
  (void)settings;
  *out = NULL;
  return braid_fail(BRAID_UNSUPPORTED,
                    "trace: Braid was built without libcurl (libcurl4-gnutls-dev), which spans are posted by; "
                    "`file` needs none");
}

trace_posted braid_trace_post_send(trace_post *post, const char *text, size_t bytes, const int64_t *stop_ns,
                                   char why[BRAID_SERVE_DETAIL], uint64_t *out_rejected) {
  (void)post, (void)text, (void)bytes, (void)stop_ns;
  why[0] = '\0';
  *out_rejected = 0;
  return TRACE_REFUSED;
}

void braid_trace_post_close(trace_post *post) {
  (void)post;
}
