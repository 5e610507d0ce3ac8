/* A call over HTTP: its body, the tenant that makes it, and its answer. */
#ifndef BRAID_SERVE_HTTP_CALL_H
#define BRAID_SERVE_HTTP_CALL_H

#include <jansson.h>
#include <microhttpd.h>

#include "base/text.h"
#include "serve/http/json_array.h"
#include "serve/server.h"

/* Where an output of an inference goes. */
typedef struct braid_http_output {
  size_t port;
  bool binary;
  char region[BRAID_SERVE_NAME]; /* shared memory; "": the answer itself */
  uint64_t offset, bytes;
} braid_http_output;

typedef struct braid_http_call {
  braid_server *server;
  struct MHD_Connection *connection;
  const char *method, *path; /* MHD's, valid while the call is */
  braid_serve_tenant *tenant;
  uint8_t *body;
  size_t bytes, capacity; /* the capacity is counted against the tenant's quota */
  int64_t began_ns;
  int *open;              /* calls whose answer is not sent yet, this among them (atomic); NULL: not counted */
  const char *allow;      /* with status 405: the methods that there are; NULL: none is listed */
  bool closes;            /* the connection ends with the answer */
  bool answered, waiting; /* an answer is queued; the scheduler has the request */
  int socket;
  /* --- a model to be loaded or unloaded, which takes seconds: by a thread --- */
  pthread_t loader;
  bool loading, load; /* the thread is there; to load, else to unload */
  char model[BRAID_SERVE_NAME];
  /* --- an inference --- */
  braid_serve_request *request;
  char id[BRAID_SERVE_NAME];
  braid_http_output outputs[BRAID_SERVE_PORTS];
  size_t output_count;
  bool binary_outputs, explain;
  /* --- the answer --- */
  int status;
  char detail[BRAID_SERVE_DETAIL]; /* of a refusal */
  braid_text text;                 /* JSON, or what content_type says */
  size_t header_bytes;             /* of the JSON before binary data; 0: no binary data */
  const char *content_type;        /* NULL: JSON */
} braid_http_call;

/* The answer becomes {"error": "..."} (printf), with the verdict's status. */
void braid_http_refuse(braid_http_call *call, braid_serve_verdict verdict, const char *format, ...) BRAID_PRINTF(3, 4);

/* The methods that the path takes, as a header Allow lists them; NULL: there is no such path (paths.c). */
const char *braid_http_methods(const char *path);

/* Makes room for `bytes` of body in all, of the tenant's quota; false: refused (http.c). */
bool braid_http_reserve_body(braid_http_call *call, size_t bytes);
/* The body, compressed as gzip or zlib, becomes what it was; false: refused (inflate.c). */
bool braid_http_inflate(braid_http_call *call);

/* --- inference (infer.c) --- */
/* Reads the body, whose first bytes are JSON, into the call's request; false: refused. */
bool braid_http_read_request(braid_http_call *call, size_t json_bytes);
/* Reads the body for a request of the model and submits it: true; the connection is suspended first and resumed by its
 * end. False: the answer is a refusal. */
bool braid_http_infer(braid_http_call *call, const char *model, const char *version);
/* Writes the answer of the request that has ended. */
void braid_http_answer_inference(braid_http_call *call);
/* Fills a request's input from the array that `data` stands for (json_array.h); false, with the request's refusal
 * (json_data.c). */
bool braid_http_read_data(braid_serve_request *request, const braid_serve_tensor *tensor,
                          const braid_json_arrays *arrays, const json_t *data);
/* Appends a tensor's numbers as a flat JSON array; false: JSON has not all of them (NaN, infinity, 16-bit floats). */
bool braid_http_write_data(braid_text *text, const braid_serve_tensor *tensor);

/* --- what is asked of the server and its models (info.c, metrics.c, control.c) --- */
void braid_http_server_metadata(braid_http_call *call);
void braid_http_model_metadata(braid_http_call *call, const char *model, const char *version);
void braid_http_model_config(braid_http_call *call, const char *model, const char *version);
void braid_http_model_ready(braid_http_call *call, const char *model, const char *version);
void braid_http_statistics(braid_http_call *call, const char *model); /* NULL: of all */
void braid_http_index(braid_http_call *call);
/* As braid_http_infer: true where the connection is suspended until braid_http_answer_load. */
bool braid_http_load(braid_http_call *call, const char *model, bool load);
void braid_http_answer_load(braid_http_call *call);
void braid_http_metrics(braid_http_call *call);
void braid_http_decisions(braid_http_call *call);
void braid_http_page(braid_http_call *call);
void braid_http_status(braid_http_call *call);
/* Of cards: their part of the status and of the metrics, and tenants' counters as fdinfo (cards.c). */
void braid_http_add_cards(braid_http_call *call);
void braid_http_add_card_metrics(braid_http_call *call);
void braid_http_fdinfo(braid_http_call *call);
/* action: "status", "register", "unregister"; `region` NULL: all. */
void braid_http_shared_memory(braid_http_call *call, const char *region, const char *action);

#endif
