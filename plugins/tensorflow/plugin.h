/* What the files of the TensorFlow plug-in share: devices, their memory and streams, prepared programs, and the
 * description of TensorFlow's ops as graphs of ours.
 *
 *   devices.c   which virtual devices there are, and the machine of each
 *   drivers.c   drivers of OpenCL, loaded so that TensorFlow's symbols do not disturb them
 *   openmp.c    OpenMP, loaded so that its threads do not spin for long
 *   memory.c    memory of a device, in size classes
 *   stream.c    streams, events: a queue each, with a thread for what is long
 *   platform.c  the callbacks of TensorFlow's StreamExecutor over these
 *   program.c   an op with given shapes, prepared: a small graph, its plan and an execution
 *   cache.c     the programs of a kernel, by shape
 *   kernel.c    a TensorFlow kernel: attributes, programs by shape, launching
 *   build.c     helpers for the functions that describe an op as a graph (ops_*.c)
 *   python.c    the part in Python (braid_tensorflow.py), which is run when the library is loaded by Python */
#ifndef BRAID_TENSORFLOW_PLUGIN_H
#define BRAID_TENSORFLOW_PLUGIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TensorFlow's header defines this constant in every file that includes it. */
#pragma weak TF_InputRange_Args_STRUCT_SIZE
#include <tensorflow/c/kernels.h>

#include <braid/braid.h>

#define FPGA_TYPE "FPGA" /* TensorFlow's name for the type: "/FPGA:0" */

enum { FPGA_MAX_DEVICES = 64, FPGA_MAX_OPERANDS = 1024, FPGA_MAX_ATTRS = 12, FPGA_MAX_LIST = 16, FPGA_DETAIL = 600 };

/* TensorFlow's levels and its log. */
typedef enum fpga_log_level { FPGA_INFO, FPGA_WARNING, FPGA_ERROR } fpga_log_level;
void fpga_log(fpga_log_level level, const char *format, ...) BRAID_PRINTF(2, 3);

/* --- memory --------------------------------------------------------------------------------------------------------
 * Host memory, aligned to 256 bytes. What is freed is kept for the next allocation of its size class: work that is
 * still queued may use it until then, and what gets it next is queued behind that. */
typedef struct fpga_memory fpga_memory;
fpga_memory *fpga_memory_create(int64_t limit_bytes); /* 0: no limit. NULL: out of memory */
void fpga_memory_destroy(fpga_memory *memory);
void *fpga_memory_allocate(fpga_memory *memory, uint64_t bytes); /* NULL: out of memory, or over the limit */
void fpga_memory_free(fpga_memory *memory, void *address);
void fpga_memory_trim(fpga_memory *memory); /* gives back what is free; nothing queued may use it any more */
bool fpga_memory_has(fpga_memory *memory, const void *address);
/* Counts memory that others allocated as this one's. False: it would be more than the limit. */
bool fpga_memory_hold(fpga_memory *memory, int64_t bytes);
void fpga_memory_let_go(fpga_memory *memory, int64_t bytes);
typedef struct fpga_memory_stats {
  int64_t allocations, used, peak, largest, reserved, limit;
  int64_t held; /* of `reserved` */
} fpga_memory_stats;
fpga_memory_stats fpga_memory_get_stats(fpga_memory *memory);

/* --- devices -------------------------------------------------------------------------------------------------------
 */
typedef struct fpga_device {
  int ordinal;
  char spec[256]; /* "fpga0.1", "opencl0.0:parts=2", "cpu:threads=1" */
  char hardware[128];
  braid_machine *machine;
  fpga_memory *memory;
  pthread_mutex_t lock; /* of what follows */
  struct SP_Stream_st *streams;
  bool failed;  /* a queued kernel failed, and nobody was told yet */
  TF_Code code; /* of that failure */
  char detail[FPGA_DETAIL];
} fpga_device;

/* Opens them in the first call. Those that cannot be opened are logged, and left out. */
size_t fpga_device_count(void);
void fpga_load_drivers(void); /* drivers.c */
bool fpga_device_is_cpu(const char *spec);
fpga_device *fpga_device_get(size_t ordinal); /* NULL beyond the last */

/* Gives back what the device's memory keeps free, after all queued work; nothing if this thread can't wait for that. */
void fpga_device_make_room(fpga_device *device);
/* Why there was no memory, as a sentence; returns `text`. */
char *fpga_memory_describe(const fpga_device *device, uint64_t wanted, char *text, size_t bytes);

/* A failure of queued work is told by the next kernel or copy of the device; only the first one is kept. */
void fpga_device_fail(fpga_device *device, TF_Code code, const char *detail);
/* What lies at `address`, in some device's memory, comes from `from`: a failure there that nobody was told yet is one
 * of that device, too. */
void fpga_device_pass_failure(fpga_device *from, const void *address);
bool fpga_device_take_failure(fpga_device *device, TF_Status *status); /* true: there was one, now in *status */

TF_Code fpga_code_of(braid_status status);

/* --- streams -------------------------------------------------------------------------------------------------------
 */
typedef struct SP_Stream_st fpga_stream;
typedef struct fpga_job fpga_job;
struct fpga_job {
  void (*run)(fpga_job *job); /* frees the job */
  fpga_job *next;
};

fpga_stream *fpga_stream_create(fpga_device *device); /* NULL: out of memory */
void fpga_device_wait(fpga_device *device);           /* for all jobs of all its streams so far */
void fpga_stream_destroy(fpga_stream *stream);        /* after its jobs have ended */
fpga_device *fpga_stream_device(fpga_stream *stream);
/* Runs the job in this thread if nothing is queued or running and it is `brief`, else queues it. */
void fpga_stream_put(fpga_stream *stream, fpga_job *job, bool brief);
/* The same without a job: true if nothing is queued or running, and then nothing will be until leave is called. */
bool fpga_stream_enter(fpga_stream *stream);
bool fpga_stream_is_job(void); /* does this thread run a job of a stream's? It can't wait for the device then */
void fpga_stream_leave(fpga_stream *stream);
uint64_t fpga_stream_mark(fpga_stream *stream); /* the number of jobs put so far */
bool fpga_stream_reached(fpga_stream *stream, uint64_t mark);
void fpga_stream_wait(fpga_stream *stream, uint64_t mark);
/* What is put into `stream` from now on waits for what `other` has got so far. False: out of memory. */
bool fpga_stream_depend(fpga_stream *stream, fpga_stream *other, uint64_t mark);

/* Whether kernels may still be running when their launch returns; see docs/tensorflow.md, "Variables". */
bool fpga_is_asynchronous(void);

/* --- describing an op ----------------------------------------------------------------------------------------------
 */
typedef enum fpga_attr_kind {
  FPGA_INT,
  FPGA_FLOAT,
  FPGA_BOOL,
  FPGA_TYPE_ATTR,
  FPGA_STRING,
  FPGA_INTS,
  FPGA_STRINGS
} fpga_attr_kind;

typedef struct fpga_attr {
  const char *name; /* NULL: the end */
  fpga_attr_kind kind;
  union {
    int64_t i;
    float f;
    char s[32];
    int64_t ints[FPGA_MAX_LIST];
    char strings[4][32];
  };
  int count; /* of a list; -1: the op has no such attribute */
} fpga_attr;

enum { FPGA_MAX_WIDE = 16 };

typedef struct fpga_input {
  braid_desc desc; /* of more than BRAID_MAX_RANK dimensions: all elements in a row */
  int rank;
  int64_t dims[FPGA_MAX_WIDE]; /* TensorFlow's */
  const void *host;            /* its contents, if the op has it in host memory; else NULL */
  braid_value_id value;        /* -1: host memory, or not in the graph yet */
} fpga_input;

typedef struct fpga_output {
  int rank;
  int64_t dims[BRAID_MAX_RANK]; /* TensorFlow's, in the order of memory */
  TF_DataType dtype;
} fpga_output;

/* A graph in the making. After a failure all further calls do nothing. */
typedef struct fpga_build {
  const fpga_attr *attrs;
  braid_graph *graph;
  braid_status status;
  size_t input_count, output_count;
  fpga_input inputs[FPGA_MAX_OPERANDS];
  fpga_output outputs[FPGA_MAX_OPERANDS];
  braid_value_id results[FPGA_MAX_OPERANDS]; /* of the outputs */
  int ports[FPGA_MAX_OPERANDS];              /* the inputs of the graph: which of the op's */
  braid_layout port_layouts[FPGA_MAX_OPERANDS];
  size_t port_count;
  braid_layout result_layouts[FPGA_MAX_OPERANDS];
  bool given[FPGA_MAX_OPERANDS]; /* outputs */
  int divisor;                   /* the input, of int64, in which a 0 is an error; -1: none */
  int share[FPGA_MAX_OPERANDS];  /* outputs that are an input under another shape: which; else -1 */
  braid_node_id node;            /* the last one made */
} fpga_build;

typedef struct fpga_op {
  const char *name;
  const char *attrs; /* "strides:ints padding:string"; NULL: none */
  const char *types; /* "T=float,double,half"; several attributes: "T=float U=float"; NULL: any */
  const char *host;  /* operands in host memory, "shape axis"; NULL: none */
  void (*build)(fpga_build *build);
  braid_status (*refuse)(const fpga_attr *attrs); /* attributes that it cannot have; NULL: it takes all */
} fpga_op;

/* The ops, in tables of their files; the last has no name. */
extern const fpga_op fpga_ops_elementwise[], fpga_ops_gradients[], fpga_ops_products[], fpga_ops_windows[],
    fpga_ops_norms[], fpga_ops_reductions[], fpga_ops_movement[], fpga_ops_shapes[];

/* The constants of Selu, as TensorFlow has them. */
#define FPGA_SELU_ALPHA 1.6732632423543772848170429916717
#define FPGA_SELU_SCALE 1.0507009873554804934193349852946

/* build.c */
const fpga_attr *fpga_attr_find(const fpga_attr *attrs, const char *name);
int64_t fpga_attr_int(const fpga_attr *attrs, const char *name, int64_t otherwise);
float fpga_attr_float(const fpga_attr *attrs, const char *name, float otherwise);
const char *fpga_attr_string(const fpga_attr *attrs, const char *name, const char *otherwise);
bool fpga_attr_is(const fpga_attr *attrs, const char *name, const char *value);

braid_dtype fpga_dtype(TF_DataType type); /* BRAID_NONE: none of ours */
TF_DataType fpga_tf_dtype(braid_dtype dtype);

void fpga_fail(fpga_build *b, braid_status status, const char *format, ...) BRAID_PRINTF(3, 4);
/* Element `index` of an input in host memory, int32 or int64. */
int64_t fpga_host_int(fpga_build *b, size_t input, int64_t index);
int64_t fpga_host_count(const fpga_build *b, size_t input);
/* The input as a value, row-major as TensorFlow has it. */
braid_value_id fpga_in(fpga_build *b, size_t index);
/* The same memory seen with other dimensions, and in another layout: `dims` are those that the op sees. */
braid_value_id fpga_in_as(fpga_build *b, size_t index, int rank, const int64_t *dims, const char *layout);
/* A node with one output; -1 after a failure. */
braid_value_id fpga_node(fpga_build *b, const char *op, size_t count, const braid_value_id *inputs);
void fpga_nodes(fpga_build *b, const char *op, size_t count, const braid_value_id *inputs, size_t outputs,
                braid_value_id *out);
#define FPGA_NODE(b, op, ...)                                                                                          \
  fpga_node(b, op, sizeof((braid_value_id[]){__VA_ARGS__}) / sizeof(braid_value_id), (braid_value_id[]){__VA_ARGS__})
/* Attributes of the last node. */
void fpga_set_int(fpga_build *b, const char *name, int64_t value);
void fpga_set_float(fpga_build *b, const char *name, double value);
void fpga_set_ints(fpga_build *b, const char *name, const int64_t *values, size_t count);
void fpga_set_string(fpga_build *b, const char *name, const char *value);
braid_value_id fpga_scalar(fpga_build *b, braid_dtype dtype, double value);
braid_value_id fpga_ints(fpga_build *b, const int64_t *values, size_t count);
braid_value_id fpga_reshape(fpga_build *b, braid_value_id value, int rank, const int64_t *dims);
braid_value_id fpga_cast(fpga_build *b, braid_value_id value, braid_dtype dtype);
braid_desc fpga_desc(fpga_build *b, braid_value_id value);
/* Output `index` is `value`; its dimensions are those of the value, or `dims` where these say otherwise. */
void fpga_out(fpga_build *b, size_t index, braid_value_id value);
void fpga_out_as(fpga_build *b, size_t index, braid_value_id value, int rank, const int64_t *dims, const char *layout);
/* Output `index` is the memory of input `input` with other dimensions: nothing is computed. */
void fpga_out_shared(fpga_build *b, size_t index, size_t input, int rank, const int64_t *dims);

/* --- programs ------------------------------------------------------------------------------------------------------
 */
typedef struct fpga_program {
  struct fpga_program *next;
  fpga_device *device;
  size_t key_bytes;
  int64_t *key;
  size_t output_count, port_count, result_count;
  fpga_output *outputs; /* in the program's own memory, as what follows */
  size_t *output_bytes;
  int *ports, *results; /* results: which of the op's outputs */
  int *share;
  int divisor; /* as in fpga_build, and how many numbers it has */
  int64_t divisor_count;
  bool brief, nothing; /* nothing: no element to compute */
  int64_t bytes;       /* that it keeps, about */
  bool counted;        /* these are held by the device's memory */
  braid_plan *plan;
  braid_weights *weights; /* its constants */
  braid_execution *execution;
  pthread_mutex_t lock; /* of the execution: one run at a time */
  size_t users;         /* atomic: jobs, and the kernel */
} fpga_program;

/* Of `op` with what `build` says of its inputs. The detail of a failure says which op and why. */
braid_status fpga_program_create(fpga_device *device, const fpga_op *op, fpga_build *build, fpga_program **out);
void fpga_program_release(fpga_program *program);
braid_status fpga_program_run(fpga_program *program, const void *const *inputs, void *const *outputs);

/* --- caches of programs --------------------------------------------------------------------------------------------
 */
typedef struct fpga_cache {
  pthread_mutex_t lock;
  fpga_program *programs;
  struct fpga_cache *before, *next; /* of all kernels */
} fpga_cache;

void fpga_cache_init(fpga_cache *cache);
void fpga_cache_deinit(fpga_cache *cache);
/* The caller holds the cache's lock for find and add. NULL: there is none. */
fpga_program *fpga_cache_find(fpga_cache *cache, const fpga_device *device, const int64_t *key, size_t bytes);
void fpga_cache_add(fpga_cache *cache,
                    fpga_program *program); /* takes the reference; drops the one used least lately */
void fpga_cache_remove(fpga_cache *cache, fpga_program *program);
void fpga_caches_drop_idle(const fpga_device *device); /* its programs that nobody is using, of all kernels */

/* Made of braid_tensorflow.py by the build. */
typedef struct fpga_text {
  const char *name, *text;
  size_t bytes;
} fpga_text;
extern const fpga_text fpga_texts[];
extern const size_t fpga_text_count;

/* What the part in Python calls, and TensorFlow; beside SE_InitPlugin, which its headers declare. */
#define FPGA_EXPORT __attribute__((visibility("default")))
FPGA_EXPORT size_t braid_tf_calls(char *text, size_t bytes);
FPGA_EXPORT size_t braid_tf_devices(char *text, size_t bytes);
FPGA_EXPORT int braid_tf_most_at_once(void);
FPGA_EXPORT void braid_tf_updates_are_assignments(void);
FPGA_EXPORT void TF_InitKernel(void);

bool fpga_load_openmp(void); /* before anything else; false: dlerror says why not */
void fpga_register_kernels(void);
void fpga_register_variables(void);
void fpga_run_python(void);

#endif
