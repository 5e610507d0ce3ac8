/* libbraid-client: launches models on a Braid daemon (`braid serve`, docs/client.md), from programs that need nothing
 * else of Braid. It stands on libc alone, and this header on no other; for TLS it loads GnuTLS when that is asked for.
 *
 * A client is a connection. Its functions may be called by any number of threads at a time, except for close. What a
 * connection owns at the daemon (buffers, shared memory, compiled models, cores) goes with it. Functions return a
 * status; the sentence that belongs to a failure is braid_client_error()'s, per thread. */
#ifndef BRAID_CLIENT_H
#define BRAID_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define BRAID_CLIENT_API extern "C" __attribute__((visibility("default")))
#else
#define BRAID_CLIENT_API __attribute__((visibility("default")))
#endif

/* X(id, number, text): below 100 of this side, from 400 on the daemon's, whose numbers are HTTP's. */
#define BRAID_CLIENT_STATUS_MAP(X)                                                                                     \
  X(OK, 0, "success")                                                                                                  \
  X(ARGUMENT, 1, "invalid argument")                                                                                   \
  X(NO_MEMORY, 2, "out of memory")                                                                                     \
  X(LOST, 3, "no connection")                                                                                          \
  X(TIMEOUT, 4, "timed out")                                                                                           \
  X(PROTOCOL, 5, "not Braid's protocol")                                                                               \
  X(INVALID, 400, "refused: invalid")                                                                                  \
  X(UNAUTHORIZED, 401, "refused: no tenant's token")                                                                   \
  X(FORBIDDEN, 403, "refused: not allowed")                                                                            \
  X(UNKNOWN, 404, "refused: not found")                                                                                \
  X(TOO_LARGE, 413, "refused: too large")                                                                              \
  X(OVER_QUOTA, 429, "refused: over the quota")                                                                        \
  X(CANCELLED, 499, "cancelled")                                                                                       \
  X(FAILED, 500, "failed")                                                                                             \
  X(UNAVAILABLE, 503, "not available")                                                                                 \
  X(LATE, 504, "over the deadline")

typedef enum braid_client_status {
#define BRAID_CLIENT_STATUS_ENUM(id, number, text) BRAID_CLIENT_##id = number,
  BRAID_CLIENT_STATUS_MAP(BRAID_CLIENT_STATUS_ENUM)
#undef BRAID_CLIENT_STATUS_ENUM
} braid_client_status;

/* "over the quota"; never NULL. */
BRAID_CLIENT_API const char *braid_client_status_text(braid_client_status status);
/* What the last function that failed on this thread has to say; "" before. Valid until the next one fails. */
BRAID_CLIENT_API const char *braid_client_error(void);

/* Element types; numbers of the protocol. */
typedef enum braid_client_dtype {
  BRAID_CLIENT_BOOL = 1,
  BRAID_CLIENT_U8,
  BRAID_CLIENT_U16,
  BRAID_CLIENT_U32,
  BRAID_CLIENT_U64,
  BRAID_CLIENT_I8,
  BRAID_CLIENT_I16,
  BRAID_CLIENT_I32,
  BRAID_CLIENT_I64,
  BRAID_CLIENT_F16,
  BRAID_CLIENT_F32,
  BRAID_CLIENT_F64,
  BRAID_CLIENT_BF16
} braid_client_dtype;
BRAID_CLIENT_API size_t braid_client_dtype_bytes(braid_client_dtype dtype); /* of an element; 0: there is none such */
BRAID_CLIENT_API const char *braid_client_dtype_name(braid_client_dtype dtype); /* KServe's: "FP32" */

enum { BRAID_CLIENT_MAX_RANK = 8, BRAID_CLIENT_MAX_TENSORS = 64 };

/* --- connections ---------------------------------------------------------------------------------------------------
 */
typedef struct braid_client braid_client;

/* All zero is the default. */
typedef struct braid_client_options {
  const char *token;   /* of the tenant; NULL: none */
  const char *name;    /* of this program, up to 127 bytes; NULL: "libbraid-client" */
  int64_t connect_ms;  /* to connect and be welcomed; 0: 5000 */
  int64_t call_ms;     /* for an answer to come; 0: 60000; less than 0: no limit */
  int64_t spin_us;     /* how long a wait looks for its answer before it sleeps: a CPU's time for latency; 0: not */
  uint64_t max_answer; /* bytes of an answer that are taken; 0: 1 GiB */
  /* PEM files, of tls:HOST:PORT alone (else ARGUMENT), read while it connects. */
  const char *authority;         /* who signs for the daemon; NULL: the system's authorities */
  const char *certificate, *key; /* our own, where the daemon asks for one; NULL: none. Both or none */
} braid_client_options;

/* `address`: unix:PATH, or HOST:PORT ([ADDRESS]:PORT for IPv6), or tls:HOST:PORT, over TLS: the daemon shows a
 * certificate for HOST by the authority, or it is not spoken to. LOST: nobody listens there, or TLS was not agreed on.
 * UNAUTHORIZED: the token is nobody's. OVER_QUOTA, UNAVAILABLE: the tenant, or all, have too many connections. INVALID:
 * the daemon speaks another version of the protocol. `options` may be NULL. How long a name of a host takes to be
 * looked up is the C library's to say. */
BRAID_CLIENT_API braid_client_status braid_client_connect(const char *address, const braid_client_options *options,
                                                          braid_client **out);
/* After every other call has returned and every call object and memory is released. NULL is allowed. */
BRAID_CLIENT_API void braid_client_close(braid_client *client);
BRAID_CLIENT_API const char *braid_client_tenant(const braid_client *client); /* who the daemon takes us for */
BRAID_CLIENT_API const char *braid_client_server(const braid_client *client); /* "braid 0.9.0" */
BRAID_CLIENT_API bool braid_client_may_compile(const braid_client *client);
BRAID_CLIENT_API bool braid_client_has_memory(const braid_client *client); /* whether memory can be shared: unix:PATH */

/* What went over the connection. One message is one call of the daemon and its answer. */
typedef struct braid_client_counters {
  uint64_t messages;                   /* of all kinds, the hello among them */
  uint64_t launches, launch_messages;  /* that ended well; sent for them and for all others, so 1 each after set-up */
  uint64_t bytes_sent, bytes_received; /* not what is in shared memory */
} braid_client_counters;
BRAID_CLIENT_API braid_client_counters braid_client_count(braid_client *client);

/* --- models --------------------------------------------------------------------------------------------------------
 */
typedef struct braid_client_port {
  char name[128];
  braid_client_dtype dtype;
  int rank;
  int64_t dims[BRAID_CLIENT_MAX_RANK]; /* -1: any */
} braid_client_port;

typedef enum braid_client_state {
  BRAID_CLIENT_UNLOADED = 0,
  BRAID_CLIENT_LOADING,
  BRAID_CLIENT_READY,
  BRAID_CLIENT_BROKEN
} braid_client_state;

typedef struct braid_client_model {
  char name[128], version[128];
  braid_client_state state;
  char reason[512];                 /* why it is not ready; of a compiled one what was found of batches */
  uint64_t max_batch;               /* rows that requests may share a run with */
  uint64_t handle;                  /* of a compiled model; else 0 */
  size_t input_count, output_count; /* 0 while it is not ready */
  braid_client_port inputs[BRAID_CLIENT_MAX_TENSORS], outputs[BRAID_CLIENT_MAX_TENSORS];
} braid_client_model;

/* The models that the tenant may use, or the one of this name (UNKNOWN: there is none); freed with free(). */
BRAID_CLIENT_API braid_client_status braid_client_models(braid_client *client, const char *name,
                                                         braid_client_model **out, size_t *out_count);
/* Has the daemon compile an ONNX model (without external data) for the connection, on the device of this name (NULL:
 * its first), for up to `max_batch` rows in a run (0: 1). FORBIDDEN: the tenant may not. Seconds; freed with free(). */
BRAID_CLIENT_API braid_client_status braid_client_compile(braid_client *client, const char *name, const void *onnx,
                                                          size_t bytes, const char *device, int max_batch,
                                                          braid_client_model **out);
BRAID_CLIENT_API braid_client_status braid_client_forget(braid_client *client, uint64_t handle);

/* --- data ----------------------------------------------------------------------------------------------------------
 */
/* Memory that this program and the daemon share: what is launched from it and into it is not copied through the socket.
 */
typedef struct braid_client_memory braid_client_memory;
/* Of unix:PATH connections; else ARGUMENT. Zeros, page-aligned. OVER_QUOTA: more than the tenant may have. */
BRAID_CLIENT_API braid_client_status braid_client_memory_create(braid_client *client, size_t bytes,
                                                                braid_client_memory **out);
BRAID_CLIENT_API void *braid_client_memory_data(braid_client_memory *memory);
/* Launches that use it keep it alive at the daemon. NULL is allowed. */
BRAID_CLIENT_API void braid_client_memory_destroy(braid_client_memory *memory);

/* A tensor: row-major, in one of three places. As an output that is wanted it has a name, and memory with an offset and
 * `bytes` of room, or nothing else: then it comes with the answer. */
typedef struct braid_client_tensor {
  const char *name;
  braid_client_dtype dtype;
  int rank;
  int64_t dims[BRAID_CLIENT_MAX_RANK];
  const void *data; /* the caller's; not used after the function has returned */
  size_t bytes;
  const char *buffer; /* not NULL: the connection's buffer of this name has type, shape and data. Inputs only */
  braid_client_memory *memory; /* not NULL: the data are there, `offset` bytes from its beginning */
  size_t offset;
} braid_client_tensor;

/* Sends a tensor once, which later launches name as `buffer`; one of the same name is replaced. */
BRAID_CLIENT_API braid_client_status braid_client_data(braid_client *client, const braid_client_tensor *tensor);
BRAID_CLIENT_API braid_client_status braid_client_drop(braid_client *client, const char *name);

/* --- cores ---------------------------------------------------------------------------------------------------------
 */
typedef struct braid_client_cores {
  uint64_t handle;
  uint32_t granted;       /* instances that run this tenant's launches only, until they are released; of a card cores */
  uint32_t instances;     /* of the device; of a card its cores */
  uint32_t held;          /* of these, by all tenants */
  uint32_t overlay_cores; /* cores of the overlay that were granted: 0 of devices that are no public card */
  char note[512];         /* the daemon's sentence of what was given */
} braid_client_cores;
/* Instances of a device (NULL: the first), or cores of a public card, for the tenant alone. OVER_QUOTA: more than its
 * share. UNAVAILABLE: held by others, or none would stay for all. INVALID: of a private card. */
BRAID_CLIENT_API braid_client_status braid_client_request_cores(braid_client *client, const char *device,
                                                                uint32_t count, braid_client_cores *out);
BRAID_CLIENT_API braid_client_status braid_client_release_cores(braid_client *client, uint64_t handle);

/* --- training beside ------------------------------------------------------------------------------------------------
 * A process that computes while the daemon's devices are idle, and rests while a request waits or runs. */
typedef struct braid_client_harvest braid_client_harvest;
/* Over unix:PATH only. FORBIDDEN: the tenant may not train. One for a connection at a time. */
BRAID_CLIENT_API braid_client_status braid_client_harvest_begin(braid_client *client, braid_client_harvest **out);
/* OK as soon as the process may compute: at once, where the devices are idle. To be called before each piece of work,
 * which should take a few milliseconds at most: requests that come meanwhile do not wait for it, but share the machine
 * with it. A thread computes until it calls this again; the process rests when all that have computed do. TIMEOUT: not
 * within `timeout_ms` (less than 0: no limit). LOST: the daemon has gone. */
BRAID_CLIENT_API braid_client_status braid_client_harvest_wait(braid_client_harvest *harvest, int64_t timeout_ms);
BRAID_CLIENT_API void
braid_client_harvest_end(braid_client_harvest *harvest); /* waits half a second at most; NULL is allowed */
/* Whether the other side still holds the connection, as far as this machine knows; asks nobody. */
BRAID_CLIENT_API bool braid_client_is_connected(braid_client *client);
/* OK: the daemon answers. TIMEOUT: not within `timeout_ms` (less than 0: no limit). */
BRAID_CLIENT_API braid_client_status braid_client_ping(braid_client *client, int64_t timeout_ms);

/* --- launches ------------------------------------------------------------------------------------------------------
 */
typedef struct braid_client_launch_options {
  const char *model, *version;                 /* of the daemon's configuration; version NULL: any */
  uint64_t compiled;                           /* not 0: the handle of a compiled model, and `model` is not used */
  const braid_client_tensor *inputs, *outputs; /* outputs: NULL: all, with the answer */
  size_t input_count, output_count;
  int64_t deadline_us; /* from the arrival at the daemon; 0: the model's, or none */
  int priority;        /* 1 to 9; 0: the tenant's */
  /* W3C trace context of whoever asks, as the HTTP headers of these names; NULL: none. What breaks its rules, or is
   * longer than 127 and 512 bytes, is left out, and so are both towards a daemon that does not know of them. */
  const char *traceparent, *tracestate;
} braid_client_launch_options;

/* A launch under way or ended; used by one thread at a time. */
typedef struct braid_client_call braid_client_call;

/* Sends the launch and returns. */
BRAID_CLIENT_API braid_client_status braid_client_submit(braid_client *client,
                                                         const braid_client_launch_options *launch,
                                                         braid_client_call **out);
/* The launch's own status once it has ended, however often it is asked; TIMEOUT: it has not within `timeout_ms` (less
 * than 0: no limit; 0: only looks). */
BRAID_CLIENT_API braid_client_status braid_client_wait(braid_client_call *call, int64_t timeout_ms);
/* Asks the daemon to cancel it: it then ends as CANCELLED, unless it was done. */
BRAID_CLIENT_API braid_client_status braid_client_cancel(braid_client_call *call);
/* Frees it; one that is under way is cancelled, and nobody learns of its end. NULL is allowed. */
BRAID_CLIENT_API void braid_client_release(braid_client_call *call);
/* Submits and waits for as long as the connection's call_ms; then TIMEOUT, and it is cancelled. On failure *out is
 * NULL. */
BRAID_CLIENT_API braid_client_status braid_client_launch(braid_client *client,
                                                         const braid_client_launch_options *launch,
                                                         braid_client_call **out);

/* Of a launch that ended well: its outputs, in the model's order, `data` in the call (to be released after it is used)
 * or in shared memory. */
BRAID_CLIENT_API const braid_client_tensor *braid_client_outputs(const braid_client_call *call, size_t *out_count);
typedef struct braid_client_times {
  uint64_t waited_ns, ran_ns; /* at the daemon: in the queue, in the run */
  uint64_t batch;             /* rows of the run */
} braid_client_times;
BRAID_CLIENT_API braid_client_times braid_client_call_times(const braid_client_call *call);

/* --- several daemons -----------------------------------------------------------------------------------------------
 * A list of launches, spread over daemons that all have the model, or are of a cluster that has (docs/cluster.md). */
typedef struct braid_client_work {
  size_t count; /* launches */
  /* Says what the index-th launches. The lists of inputs and outputs are copied before the next is asked for; names and
   * data stay valid until its result is taken. Asked more than once where a daemon was lost, or takes much longer than
   * others. False: there is nothing, and all ends as CANCELLED. */
  bool (*give)(void *context, size_t index, braid_client_launch_options *out);
  /* Takes a result, once each, in the order of the list; the call is released afterwards. False: all ends. */
  bool (*take)(void *context, size_t index, const braid_client_call *call);
  void *context; /* both are called by several threads, one at a time */
} braid_client_work;

enum { BRAID_CLIENT_SENTENCE = 512 };
/* All zero but for the addresses is the default. */
typedef struct braid_client_spread_options {
  const char *const *addresses; /* as of connect */
  size_t address_count;
  const braid_client_options *connection; /* of all; NULL: the default. A launch without an answer after call_ms is
                                             given to another daemon, and the connection up */
  int at_once;                            /* launches under way at a daemon, up to 64; 0: 4 */
  int64_t lost_ms; /* without any result for so long all ends, as the daemons refuse it or as UNAVAILABLE; 0: 30000 */
  char (*unreached)[BRAID_CLIENT_SENTENCE]; /* of each address, written at the end: why there never was a connection;
                                               "": there was. NULL: not wanted */
} braid_client_spread_options;

/* Until every result is taken, or one launch fails for what it asks (its status), which ends all. What a lost daemon
 * had, and what is refused for the moment (OVER_QUOTA, UNAVAILABLE), is launched again: an inference may run twice, its
 * result is taken once. Launches with a deadline that every daemon within reach has refused for two seconds end all.
 * `out_answered` (one for each address) and `out_retried`: how many; NULL: not wanted. */
BRAID_CLIENT_API braid_client_status braid_client_spread(const braid_client_spread_options *options,
                                                         const braid_client_work *work, size_t *out_answered,
                                                         size_t *out_retried);

#endif
