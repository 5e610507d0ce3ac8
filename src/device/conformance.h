/* The conformance suite: tests the contract on one device of a backend. Results of kernels are compared with those of
 * an evaluator given by the caller (src/runtime: the CPU's reference kernels), because this folder does not depend on a
 * backend. */
#ifndef BRAID_DEVICE_CONFORMANCE_H
#define BRAID_DEVICE_CONFORMANCE_H

#include "device/conformance_samples.h"
#include "device/kernel_index.h"
#include "device/queue.h"

typedef enum braid_suite_result { BRAID_SUITE_PASSED, BRAID_SUITE_FAILED, BRAID_SUITE_NOT_CLAIMED } braid_suite_result;

typedef struct braid_suite {
  /* given */
  const braid_backend *backend;
  void *self;
  const braid_device_info *info;
  const braid_evaluator *evaluator;
  uint64_t seed;
  int64_t patience_ns; /* time limit of a task, after which the device is considered hung */
  const char *only;    /* runs only the cases whose name has this from the beginning of a word on; NULL: all */
  void (*report)(void *context, const char *name, braid_suite_result result, const char *detail);
  bool (*cancelled)(void *context); /* no further case is to be run */
  void *context;
  /* the suite's own */
  braid_queue queues[2], *queue, *second; /* the same if the device has one queue */
  size_t counts[BRAID_SUITE_NOT_CLAIMED + 1];
  bool stopped; /* a task did not end: the memory that it may still access is not freed, and no further case is run */
  bool lost;    /* the device says so, since a case that failed: no further case is run */
  bool passed_over;
} braid_suite;

/* Fails only if no queue can be created, or the device is lost; all other failures are reported. */
BRAID_MUST_CHECK braid_status braid_suite_run(braid_suite *suite);

/* --- for cases -----------------------------------------------------------------------------------------------------
 */
enum { kSuiteDetail = 768 };
/* Records why the case fails and returns false. */
bool braid_suite_fail(char *detail, const char *format, ...) BRAID_PRINTF(2, 3);
#define SUITE_CHECK(condition, ...)                                                                                    \
  do {                                                                                                                 \
    if (!(condition)) return braid_suite_fail(detail, __VA_ARGS__);                                                    \
  } while (0)
/* Records why the device cannot run the case, which then counts as not claimed; returns true. */
bool braid_suite_pass_over(braid_suite *suite, char *detail, const char *format, ...) BRAID_PRINTF(3, 4);
/* No further case is to be run. */
bool braid_suite_over(const braid_suite *suite);
/* Is it one of the cases that `only` names? */
bool braid_suite_names(const braid_suite *suite, const char *name);
bool braid_suite_wants(const braid_suite *suite, const char *name);
void braid_suite_tell(braid_suite *suite, const char *name, braid_suite_result result, const char *detail);
void braid_suite_case(braid_suite *suite, const char *name, bool (*run)(braid_suite *suite, char *detail));

/* Waits for a task within the suite's time limit, and returns the status of its run. */
braid_status braid_suite_wait(braid_suite *suite, const braid_queue *queue, const braid_task *task);
/* Submits a copy of the task as a run of its own, and waits for its end. */
braid_status braid_suite_do(braid_suite *suite, braid_queue *queue, const braid_task *task);
braid_status braid_suite_write(braid_suite *suite, void *buffer, size_t offset, const void *host, size_t bytes);
braid_status braid_suite_read(braid_suite *suite, void *buffer, size_t offset, void *host, size_t bytes);
/* The largest buffer to ask for: `bytes`, or an eighth of a small device's memory. */
size_t braid_suite_at_most(const braid_suite *suite, size_t bytes);
size_t braid_suite_host_memory(void); /* in use by this program; 0: its malloc does not count */
size_t braid_suite_align(size_t bytes, size_t alignment);
void braid_suite_fill(uint8_t *bytes, size_t count, uint32_t seed); /* bytes that differ from seed to seed */

/* Many tasks, each a run of its own, and a buffer with a slot per task: the tasks write 1, 2, 3 ... */
enum { kLoadTasks = 300 };
typedef struct braid_load {
  braid_suite *suite;
  void *buffer, *other; /* `other` as large */
  size_t stride;
  size_t count;
  braid_timeline *gate; /* the host's, raised by one when it opens */
  uint64_t opened;
  braid_point points[kLoadTasks], several[3]; /* waits: one of a task each, and of one task */
  braid_task tasks[kLoadTasks];
  braid_verdict verdicts[kLoadTasks];
  braid_queue *in[kLoadTasks]; /* where it was submitted; NULL: it was not */
  uint64_t values[kLoadTasks], results[kLoadTasks];
} braid_load;
/* Runs a case that works on a load. */
bool braid_suite_with_load(braid_suite *suite, char *detail, bool (*run)(braid_load *load, char *detail));
bool braid_load_submit(braid_load *load, braid_queue *queue, size_t i, char *detail);
/* Submits tasks[0] to tasks[count - 1]. */
bool braid_load_submit_first(braid_load *load, braid_queue *queue, size_t count, char *detail);
/* Task i, that was submitted: its point, whether it has ended, how. */
braid_point braid_load_point(const braid_load *load, size_t i);
bool braid_load_ended(const braid_load *load, size_t i);
braid_status braid_load_wait(braid_load *load, size_t i);
/* Has task i wait for this point alone; for the gate, before it opens next. */
void braid_load_await(braid_load *load, size_t i, braid_point point);
void braid_load_await_gate(braid_load *load, size_t i);
void braid_load_open(braid_load *load);
/* Waits a short time, in tests that something does not happen. */
void braid_suite_linger(void);

void braid_suite_memory(braid_suite *suite);  /* buffers and transfers */
void braid_suite_queues(braid_suite *suite);  /* order and waits */
void braid_suite_once(braid_suite *suite);    /* comes first: what could not be trusted afterwards */
void braid_suite_ends(braid_suite *suite);    /* end of tasks: failures, cancellation, times; memory kept */
void braid_suite_replays(braid_suite *suite); /* recordings, runs in the calling thread */
void braid_suite_kernels(braid_suite *suite); /* results */
void braid_suite_regions(braid_suite *suite); /* claims, and results of what is claimed */

/* --- a node and what it should give --------------------------------------------------------------------------------
 */
enum { kTrialOperands = 64, kTrialText = 384 };

typedef struct braid_trial {
  braid_node_desc node;
  braid_operand operands[kTrialOperands];                      /* inputs, then outputs */
  const braid_tensor *data[BRAID_SAMPLE_DATA][kTrialOperands]; /* contents, and results as they should be */
  size_t same[kTrialOperands];                                 /* the first input that is the same value */
  int64_t bounds[kTrialOperands]; /* of inputs that are indices: from -bound to bound - 1; else -1 */
  bool elementwise, rounded /* to whole numbers: one more or less is right */;
  char text[kTrialText];
} braid_trial;

/* How a kernel is tried. */
typedef struct braid_trial_way {
  braid_layout delivered; /* of inputs that are images */
  bool constants;         /* all inputs but the first are known beforehand */
  int over[4];            /* the input that an output lies over; -1: memory of its own */
} braid_trial_way;

typedef struct braid_trial_run braid_trial_run; /* a kernel prepared for a trial; the trial must outlive it */

/* Each returns false, with the reason in `detail`, if the kernel does wrong. */
bool braid_trial_prepare(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel,
                         const braid_trial_way *way, braid_trial_run **out, char *detail);
void braid_trial_discard(braid_suite *suite, braid_trial_run *run);
/* Runs it, with bindings that change from call to call, and looks at all memory around. */
bool braid_trial_execute(braid_suite *suite, braid_trial_run *run, uint32_t data, char *detail);
/* Runs it many times, its data alternating. */
bool braid_trial_repeat(braid_suite *suite, braid_trial_run *run, char *detail);
/* Runs it with the second data while `other`, of another trial, runs on another queue. */
bool braid_trial_beside(braid_suite *suite, braid_trial_run *run, braid_trial_run *other, char *detail);
/* Two tasks of it are in the queue at once, with other data in other memory: of a backend that shares_prepared. */
bool braid_trial_share(braid_suite *suite, braid_trial_run *run, char *detail);
/* Runs it and a second one of the same trial at the same time, on two queues. */
bool braid_trial_together(braid_suite *suite, braid_trial_run *run, braid_trial_run *other, char *detail);
/* Recorded once, it is replayed with other data in other memory: of a backend that records. */
bool braid_trial_replay(braid_suite *suite, braid_trial_run *run, char *detail);
/* Fails with OUT_OF_RANGE, and changes nothing but its results: the trial's first data have a bad index. */
bool braid_trial_refuse(braid_suite *suite, braid_trial_run *run, char *detail);
/* Fails, with a status, if an output reaches beyond its buffer; nothing else happens. */
bool braid_trial_overrun(braid_suite *suite, braid_trial_run *run, char *detail);
/* Does not begin before what it waits for, of another queue. */
bool braid_trial_await(braid_suite *suite, braid_trial_run *run, char *detail);
/* May output `output` lie over input `input`, whatever the kernel says? */
bool braid_trial_may_share(const braid_trial *trial, size_t output, size_t input);

/* --- contents ------------------------------------------------------------------------------------------------------
 * From memory in the layout of `desc` to plain. False if padding is not zero. */
bool braid_suite_unpack(const braid_desc *desc, const void *packed, void *plain);
/* `output` in memory as it should be? */
bool braid_trial_compare(const braid_trial *trial, const braid_desc *desc, size_t output, uint32_t data,
                         const void *packed, char *detail);

#endif
