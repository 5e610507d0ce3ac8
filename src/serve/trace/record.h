/* What waits to be exported, and what exporting is made of. Private to this folder. */
#ifndef BRAID_SERVE_TRACE_RECORD_H
#define BRAID_SERVE_TRACE_RECORD_H

#include "base/text.h"
#include "base/thread.h"
#include "braid/log.h"
#include "serve/trace/tracer.h"

enum {
  TRACE_RECORDS = 1024, /* that wait; as many again are being exported. Of some 3 KiB each */
  TRACE_CHUNK = 64,     /* records of a message to the collector and of a line of the file */
  TRACE_LINKS = 64,     /* a run has at most so many requests */
  TRACE_URL = 1024
};

typedef enum trace_kind { TRACE_REQUEST, TRACE_BATCH, TRACE_FORWARD } trace_kind;

typedef struct trace_link {
  uint8_t trace[BRAID_TRACE_ID], span[BRAID_TRACE_SPAN];
} trace_link;

typedef struct trace_record {
  trace_kind kind;
  braid_trace_protocol protocol;
  trace_link self;
  uint8_t parent[BRAID_TRACE_SPAN]; /* zeros: none */
  bool has_remote_parent;
  char state[BRAID_TRACE_STATE];
  char model[BRAID_SERVE_NAME], tenant[BRAID_SERVE_NAME];
  int64_t began_ns, ended_ns; /* of all of it, by braid_now_ns() */
  /* --- of a request; of a batch what its requests have in common --- */
  int64_t arrived_ns; /* at the scheduler; 0: it came not so far */
  int64_t started_ns; /* to run; 0: it did not */
  int64_t run_ended_ns, device_began_ns, device_ended_ns;
  bool forwarded;
  int status;                      /* HTTP's */
  char detail[BRAID_SERVE_DETAIL]; /* why not, where it is not 200; of a forward why it failed */
  int64_t predicted_ns, deadline_ns, rows, batch;
  braid_serve_why why;
  trace_link links[TRACE_LINKS]; /* of a batch its requests; of a request the batch */
  size_t link_count;
  /* --- of a forward --- */
  char node[BRAID_SERVE_NAME], address[BRAID_SERVE_NAME];
} trace_record;

/* --- settings.c -----------------------------------------------------------------------------------------------------
 */
typedef struct trace_attribute {
  char *key, *value;
} trace_attribute;

typedef struct trace_settings {
  char endpoint[TRACE_URL]; /* where spans are posted; "": nowhere */
  bool endpoint_given;      /* by the configuration, not by the environment */
  const char *file;         /* NULL: none */
  size_t file_bytes;
  double sample;
  const char *service; /* the configuration's, the environment's or "braid" */
  int64_t timeout_ms;
  trace_attribute *attributes, *headers; /* of the resource; of each post */
  size_t attribute_count, header_count;
} trace_settings;
/* Reads both; what the environment has wrong is said in the log and left out. To be freed whatever is returned. */
void braid_trace_settings_read(const braid_serve_trace_config *config, const braid_log *log, trace_settings *out);
void braid_trace_settings_free(trace_settings *settings);
/* "k=v,k2=v2" with %-escapes, as OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS; false: it is no such list, or
 * there is no memory. */
bool braid_trace_read_pairs(const char *text, trace_attribute **out, size_t *out_count);

/* --- otlp.c ---------------------------------------------------------------------------------------------------------
 */
/* Writes a line of OTLP's JSON (ExportTraceServiceRequest) without its line end; returns how many spans it has.
 * `epoch_ns`: since the epoch when braid_now_ns() was 0. */
size_t braid_trace_write(braid_text *text, const trace_settings *settings, const trace_record *records, size_t count,
                         int64_t epoch_ns);

/* --- trace_file.c ---------------------------------------------------------------------------------------------------
 */
typedef struct trace_file trace_file;
/* Appends to the file; one that would become longer than `most` bytes is renamed to PATH.1, over the one before it. */
braid_status braid_trace_file_open(const char *path, size_t most, trace_file **out);
braid_status braid_trace_file_add(trace_file *file, const char *line, size_t bytes);
void braid_trace_file_close(trace_file *file); /* NULL is allowed */

/* --- post.c ---------------------------------------------------------------------------------------------------------
 */
typedef struct trace_post trace_post;
typedef enum trace_posted { TRACE_TAKEN, TRACE_LATER, TRACE_REFUSED } trace_posted; /* LATER: to be tried again */
/* UNSUPPORTED: built without libcurl. The settings must outlive it. */
braid_status braid_trace_post_open(const trace_settings *settings, trace_post **out);
/* Posts and waits; *stop_ns (atomic): when to give up, by braid_now_ns(), 0: not before the time-out. Not taken: why in
 * `why`. *out_rejected: spans that the collector left out of those that it took. */
trace_posted braid_trace_post_send(trace_post *post, const char *text, size_t bytes, const int64_t *stop_ns,
                                   char why[BRAID_SERVE_DETAIL], uint64_t *out_rejected);
void braid_trace_post_close(trace_post *post); /* NULL is allowed */

/* --- export.c -------------------------------------------------------------------------------------------------------
 */
struct braid_serve_tracer {
  trace_settings settings;
  const braid_log *log;
  trace_file *file;     /* NULL: none */
  trace_post *post;     /* NULL: none */
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  trace_record *waiting; /* TRACE_RECORDS of them */
  size_t waiting_count;
  bool stops;
  braid_tracer_counts counts;
  /* --- the exporting thread's --- */
  trace_record *leaving;
  int64_t stop_ns; /* atomic: when to give up; 0: not yet */
  int64_t epoch_ns;
  bool failing; /* the log has said so */
  braid_thread thread;
  bool started;
};
void *braid_trace_export_main(void *tracer);

#endif
