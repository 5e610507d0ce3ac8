/* Models of the daemon: loaded, planned for the batch sizes that runs have, and unloaded.
 *
 * A model is reference counted: requests hold it, so that unloading waits for nobody. Plans are made per shape of a row
 * and per batch (1, 2, 4, ... max_batch) when they are first needed, and share their weights; each instance of a device
 * has an execution of its own. Whether rows may share a run is tried when the model is loaded: rows of random numbers
 * must give the same bits in a batch as alone (config's batch_bits). */
#ifndef BRAID_SERVE_MODEL_H
#define BRAID_SERVE_MODEL_H

#include <pthread.h>

#include "braid/graph.h"
#include "braid/machine.h"
#include "serve/card/packaged.h"
#include "serve/request.h"
#include "serve/serving_config.h"

enum { BRAID_SERVE_PLANS = 64, BRAID_SERVE_INSTANCES = 16 };

/* A device of the configuration: its instances run side by side. A card has no machines: its runs share its cores. */
typedef struct braid_serve_device {
  const braid_serve_device_config *config;
  braid_registry *registry;
  braid_machine *machines[BRAID_SERVE_INSTANCES];
  size_t instance_count;
  bool prompt; /* it computes on this process's CPUs alone, so that a short run cannot take long */
  struct braid_serve_harvest *harvest; /* whose turns trials of models take; NULL: none */
  size_t index;                        /* of the device in the configuration */
  braid_serve_card *card;              /* NULL: it is none. Locked by the device's line */
} braid_serve_device;

/* Measured times of a plan's last runs. */
enum { BRAID_SERVE_TIMES = 64, BRAID_SERVE_OUTLIERS = 2 };
typedef struct braid_serve_times {
  /* Of the last runs without the longest BRAID_SERVE_OUTLIERS of them, which say what else the machine did: the mean,
   * and a quarter of what the longest is above it. */
  double mean_ns, deviation_ns;
  uint64_t runs;
  float last_ns[BRAID_SERVE_TIMES];
} braid_serve_times;

/* A model's plan for inputs of one shape. */
typedef struct braid_serve_plan {
  int64_t batch;                                   /* rows of a run */
  int64_t dims[BRAID_SERVE_PORTS][BRAID_MAX_RANK]; /* of inputs, with the batch first where the model takes batches */
  int ranks[BRAID_SERVE_PORTS];
  braid_plan *plans[BRAID_SERVE_INSTANCES];
  braid_execution *executions[BRAID_SERVE_INSTANCES];
  void *inputs[BRAID_SERVE_INSTANCES][BRAID_SERVE_PORTS]; /* where rows are gathered; NULL until then */
  void *outputs[BRAID_SERVE_INSTANCES][BRAID_SERVE_PORTS];
  braid_serve_times times;
  int64_t used_ns;
  int users; /* runs that use it now */
} braid_serve_plan;

/* Counters of a model since the daemon began, as Triton's statistics have them; added to atomically. */
typedef struct braid_serve_statistics {
  uint64_t done, failed, runs, rows;
  uint64_t queue_ns, compute_ns, total_ns; /* of those that are done */
  uint64_t last_ms;                        /* since the epoch, of the last one */
} braid_serve_statistics;

typedef enum braid_serve_state {
  BRAID_SERVE_UNLOADED = 0,
  BRAID_SERVE_LOADING,
  BRAID_SERVE_READY,
  BRAID_SERVE_BROKEN /* loading failed: `reason` */
} braid_serve_state;

typedef struct braid_serve_port {
  char name[BRAID_SERVE_NAME];
  braid_dtype dtype, other; /* what it takes besides; NONE: nothing */
  int rank;
  int64_t dims[BRAID_MAX_RANK]; /* -1: any; the batch is the first where the model takes batches */
} braid_serve_port;

struct braid_serve_model {
  const braid_serve_model_config *config;
  braid_serve_device *device;
  int references;                 /* atomic; the daemon has one */
  braid_graph *graph;             /* NULL: of a card, whose models are packages */
  braid_serve_packaged *packaged; /* of a card */
  braid_weights *weights[BRAID_SERVE_INSTANCES];
  braid_serve_port inputs[BRAID_SERVE_PORTS], outputs[BRAID_SERVE_PORTS];
  size_t input_count, output_count;
  int64_t max_batch;                  /* 1: rows never share a run */
  int64_t trial_dim;                  /* what dynamic dimensions were while the model was tried */
  bool remote;                        /* of another node of the cluster: it has ports, and nothing to run */
  bool random;                        /* Darknet's without weights: they are drawn, for trials of speed */
  bool batched;                       /* the first dimension of every input and output counts rows */
  char batching[256];                 /* what was found when it was loaded, a sentence */
  braid_serve_statistics *statistics; /* the registry's, which outlives models */
  pthread_mutex_t lock;               /* of the plans */
  braid_serve_plan *plans[BRAID_SERVE_PLANS];
  size_t plan_count;
};

braid_status braid_serve_device_open(const braid_serve_device_config *config, braid_serve_device *out);
void braid_serve_device_close(braid_serve_device *device);

/* Loads and tries it; takes seconds. */
braid_status braid_serve_model_load(const braid_serve_model_config *config, braid_serve_device *device,
                                    braid_serve_statistics *statistics, braid_serve_model **out);
/* The same of a graph that was read already, which the model takes, also on failure. What it points to (config,
 * statistics) has to outlive it. */
braid_status braid_serve_model_make(const braid_serve_model_config *config, braid_serve_device *device,
                                    braid_serve_statistics *statistics, braid_graph *graph, braid_serve_model **out);
void braid_serve_model_retain(braid_serve_model *model);
void braid_serve_model_release(braid_serve_model *model); /* NULL is allowed */
/* Of its weights, packed or not, and of the memory of its plans. */
size_t braid_serve_model_bytes(braid_serve_model *model);

/* Shapes of a request's inputs against the model's ports: sets request->rows. INVALID with a sentence. */
braid_serve_verdict braid_serve_model_check(braid_serve_model *model, braid_serve_request *request);
/* The plan for `batch` rows of the request's shapes; made now where there is none, which takes milliseconds to seconds.
 * Failures are the request's verdict. Held (users) until braid_serve_plan_drop. */
braid_serve_verdict braid_serve_plan_get(braid_serve_model *model, braid_serve_request *request, int64_t batch,
                                         braid_serve_plan **out);
void braid_serve_plan_drop(braid_serve_model *model, braid_serve_plan *plan);
/* Whether runs of such requests have been measured, and took less than `most_ns`. */
bool braid_serve_model_is_short(braid_serve_model *model, const braid_serve_request *like, int64_t most_ns);
/* What a run of `rows` rows of the request's shapes takes, as measured; zeros where there was none. */
braid_serve_times braid_serve_model_times(braid_serve_model *model, const braid_serve_request *like, int64_t rows);
/* The smallest batch that holds the rows. */
int64_t braid_serve_model_batch(const braid_serve_model *model, int64_t rows);
/* Whether rows of both may share a run. */
bool braid_serve_same_shapes(const braid_serve_request *a, const braid_serve_request *b);
/* Runs requests together on an instance: gathers rows, runs, gives each its outputs and its verdict. Cancels the run
 * when *stop (atomic) is not zero, or all clients have gone or their deadlines have passed. `requests`: linked by next.
 * False: the run of several failed for what one of them contains, and none has a verdict; run each by itself. */
bool braid_serve_plan_run(braid_serve_model *model, braid_serve_plan *plan, size_t instance,
                          braid_serve_request *requests, const int *stop);

#endif
