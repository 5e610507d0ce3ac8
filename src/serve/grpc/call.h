/* The gRPC front end's calls, and the server that they come to. Private to this folder:
 *
 *   server.c      listens; two threads take what the completion queue reports
 *   call.c        one call: its messages in and out, its end
 *   message.c     a message's bytes, as they came or inflated
 *   methods.c     which methods there are
 *   describe.c, repository.c, memory.c   methods that answer at once
 *   infer.c       inference; infer_read.c, infer_fill.c and infer_write.c know its messages
 *   worker.c      methods that take long (a model is loaded)
 *
 * Reference counts keep a call: each batch that gRPC has, each request that the scheduler has, and each job of the
 * worker hold one. */
#ifndef BRAID_SERVE_GRPC_CALL_H
#define BRAID_SERVE_GRPC_CALL_H

#include <grpc/grpc.h>

#include "base/arena.h"
#include "base/thread.h"
#include "serve/grpc/wire.h"
#include "serve/server.h"

enum {
  BRAID_GRPC_THREADS = 2,
  BRAID_GRPC_CALLS = 4096, /* open at a time */
  BRAID_GRPC_WATCHES = 64, /* of these, calls of Watch, which end with the client and need no token */
  BRAID_GRPC_CALLS_A_CHANNEL = 1024,
  BRAID_GRPC_STREAMED = 64,                /* requests of a stream that wait for their answers, before it is read on */
  BRAID_GRPC_JOBS = 64,                    /* that wait for the worker */
  BRAID_GRPC_SMALL_BYTES = 64 << 10,       /* of a message that is no inference */
  BRAID_GRPC_PERIOD_NS = 250 * 1000 * 1000 /* between looks at calls that are slow or watch */
};

typedef struct braid_grpc_call braid_grpc_call;
typedef struct braid_serve_grpc braid_serve_grpc;

/* --- messages -------------------------------------------------------------------------------------------------------
 */
typedef struct braid_grpc_message {
  grpc_byte_buffer *buffer; /* owned */
  braid_wire_piece *pieces; /* of the buffer's slices, or of what is inflated */
  void *inflated;
  braid_wire wire; /* all of it */
} braid_grpc_message;

/* Takes the buffer, whatever is returned. A compressed message becomes at most `most` bytes. Other verdicts than DONE
 * have their sentence in `detail` (BRAID_SERVE_DETAIL bytes). */
braid_serve_verdict braid_grpc_message_open(grpc_byte_buffer *buffer, size_t most, braid_grpc_message *out,
                                            char *detail);
void braid_grpc_message_close(braid_grpc_message *message);

/* --- methods --------------------------------------------------------------------------------------------------------
 */
/* What a method that answers with one message is asked, and its answer. */
typedef struct braid_grpc_asked {
  struct braid_server *server;
  braid_serve_tenant *tenant; /* who asks; NULL: unknown, only in methods for everybody */
  const void *message;        /* protobuf-c's struct; NULL where the method's requests have no fields that matter */
  braid_arena *arena;         /* what the answer is made in */
} braid_grpc_asked;
typedef struct braid_grpc_reply {
  grpc_status_code code;
  char detail[BRAID_SERVE_DETAIL]; /* where the code is not OK */
  const void *message;             /* protobuf-c's struct; NULL: a message without fields */
} braid_grpc_reply;
typedef void braid_grpc_answer(const braid_grpc_asked *asked, braid_grpc_reply *reply);

typedef enum braid_grpc_kind {
  BRAID_GRPC_ANSWERED, /* at once */
  BRAID_GRPC_WORKED,   /* by the worker */
  BRAID_GRPC_INFERRED,
  BRAID_GRPC_STREAM, /* ModelStreamInfer */
  BRAID_GRPC_WATCHED /* Health's Watch: an answer now, and whenever it changes */
} braid_grpc_kind;

typedef struct braid_grpc_method {
  const char *path;
  braid_grpc_kind kind;
  bool for_all; /* not only for tenants */
  braid_grpc_answer *answer;
  const void *request; /* protobuf-c's descriptor of what it takes; NULL: as in asked.message */
} braid_grpc_method;

/* NULL: there is none. */
const braid_grpc_method *braid_grpc_method_find(const char *path, size_t length);
/* Asks the method with the call's message and sends its answer: of kinds ANSWERED and WORKED, after which the call
 * ends, and of WATCHED, after which it does not. Takes the buffer. */
void braid_grpc_method_ask(braid_grpc_call *call, grpc_byte_buffer *buffer);
/* Whether a watched answer has changed, which is then sent. */
void braid_grpc_method_watch(braid_grpc_call *call);

grpc_status_code braid_grpc_code(braid_serve_verdict verdict);
/* Records a code with its sentence. */
void braid_grpc_refuse(braid_grpc_reply *reply, grpc_status_code code, const char *format, ...) BRAID_PRINTF(3, 4);

braid_grpc_answer braid_grpc_server_live, braid_grpc_server_ready, braid_grpc_server_metadata, braid_grpc_model_ready,
    braid_grpc_model_metadata, braid_grpc_model_config, braid_grpc_model_statistics, braid_grpc_health,
    braid_grpc_repository_index, braid_grpc_model_load, braid_grpc_model_unload, braid_grpc_memory_status,
    braid_grpc_memory_register, braid_grpc_memory_unregister, braid_grpc_cuda_status, braid_grpc_cuda_register,
    braid_grpc_cuda_unregister, braid_grpc_no_settings;

/* A message of ModelInfer or ModelStreamInfer: becomes a request of the scheduler, or a refusal. Takes the buffer. */
void braid_grpc_call_infer(braid_grpc_call *call, grpc_byte_buffer *buffer);

/* --- calls ----------------------------------------------------------------------------------------------------------
 */
/* What a batch was for: the tag of its event. */
typedef enum braid_grpc_event {
  BRAID_GRPC_BEGUN,  /* a new call */
  BRAID_GRPC_CLOSED, /* it is over, or the client has gone */
  BRAID_GRPC_READ,   /* a message, or the client's end of messages */
  BRAID_GRPC_SENT,
  BRAID_GRPC_EVENTS
} braid_grpc_event;
typedef struct braid_grpc_tag {
  braid_grpc_call *call;
  braid_grpc_event event;
} braid_grpc_tag;

typedef struct braid_grpc_outgoing {
  struct braid_grpc_outgoing *next;
  grpc_byte_buffer *buffer;
} braid_grpc_outgoing;

struct braid_grpc_call {
  braid_serve_grpc *grpc;
  const braid_grpc_method *method; /* NULL: unknown */
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  braid_grpc_tag tags[BRAID_GRPC_EVENTS];
  braid_serve_tenant *tenant; /* by its token; NULL: unknown, only in methods for everybody */
  int64_t deadline_ns;        /* by braid_now_ns(); 0: none */
  int references;             /* atomic */
  int gone;                   /* atomic */
  int cancelled;              /* gRPC's, with CLOSED */
  grpc_byte_buffer *received;
  braid_grpc_call *previous, *next;         /* of the server's list, by its lock */
  pthread_mutex_t lock;                     /* of what follows, and of gRPC's batches */
  braid_grpc_outgoing *first, *last, *sent; /* waiting; with gRPC */
  bool begun, sending, broken;              /* initial metadata sent; a batch is on its way; one failed */
  bool finishing, finished;                 /* a status is set; it is sent */
  grpc_status_code status;
  grpc_slice detail;
  int64_t receive_by_ns;       /* when the message must have come; 0: it has, or may take its time */
  bool reading, taking, ended; /* a message is awaited; one is being taken; there will be none */
  size_t streamed;             /* requests of a stream that have no answer yet */
  bool watching;
  int watched; /* the answer that was sent last */
  char *watched_service;
};

void braid_grpc_call_retain(braid_grpc_call *call);
void braid_grpc_call_release(braid_grpc_call *call);
/* A reference, unless the last one has gone: for those who find the call in the server's list. */
bool braid_grpc_call_find(braid_grpc_call *call);
/* Waits for a new call. */
void braid_grpc_call_await(braid_serve_grpc *grpc);
/* What the completion queue reports. */
void braid_grpc_call_event(braid_grpc_call *call, braid_grpc_event event, bool success);
/* Sends a message after those before it. Takes the buffer; NULL: there was no memory for it, which ends the call. */
void braid_grpc_call_send(braid_grpc_call *call, grpc_byte_buffer *buffer);
/* Ends the call when its messages are sent. Only the first counts. */
void braid_grpc_call_finish(braid_grpc_call *call, grpc_status_code status, const char *detail);
/* An answer of a stream: sends it, and reads on where too many waited for theirs. */
void braid_grpc_call_answer_stream(braid_grpc_call *call, grpc_byte_buffer *buffer);
/* Whether the client waits no more. */
bool braid_grpc_call_is_gone(const braid_grpc_call *call);
/* Ends it if its message has not come in time, tells a watcher what is new. */
void braid_grpc_call_look(braid_grpc_call *call, int64_t now_ns);

/* --- server ---------------------------------------------------------------------------------------------------------
 */
typedef struct braid_grpc_job {
  braid_grpc_call *call;
  grpc_byte_buffer *buffer;
} braid_grpc_job;

struct braid_serve_grpc {
  struct braid_server *server;
  grpc_server *listener;
  grpc_completion_queue *queue;
  int port;
  braid_thread threads[BRAID_GRPC_THREADS];
  size_t thread_count;
  int stopping;         /* atomic */
  int64_t looked_ns;    /* atomic: when calls were looked at last */
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  braid_grpc_call *calls; /* that have begun */
  size_t call_count;
  bool shut; /* gRPC's server has shut down */
  braid_thread worker;
  bool has_worker, worker_stops;
  braid_grpc_job jobs[BRAID_GRPC_JOBS];
  size_t first_job, job_count;
};

/* Hands the call with its message to the worker, which asks the method; refuses it where too many wait. */
void braid_grpc_worker_take(braid_grpc_call *call, grpc_byte_buffer *buffer);
braid_status braid_grpc_worker_start(braid_serve_grpc *grpc);
/* Ends with the job that it has; the others are refused. */
void braid_grpc_worker_stop(braid_serve_grpc *grpc);

#endif
