/* Groups of processes by MPI: plugins/mpi/README.md. */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "braid/group.h"

enum { kMost = 1 << 28, kSmallBytes = 1 << 12, kYields = 50, kFirstSleepNs = 20000, kLastSleepNs = 200000 };

/* There is one world in a process. */
typedef struct mpi_world {
  MPI_Comm comm;
  int rank, size;
  bool initialized; /* by us */
  uint8_t *memory;  /* for pieces of all processes */
  size_t bytes;
  int *counts, *places; /* of each process: elements of its piece, and the first */
} mpi_world;
static mpi_world world;

static braid_status mpi_failed(int code, const char *what) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = '\0';
  return braid_fail(BRAID_DEVICE_LOST, "MPI: %s: %.300s", what, text);
}

/* --- waiting -------------------------------------------------------------------------------------------------------
 */
/* Until the request is done. */
static braid_status mpi_await(MPI_Request *request, const braid_group_patience *patience, const char *what) {
  long sleep_ns = kFirstSleepNs;
  for (int asked = 0;; asked++) {
    int done = 0, code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return mpi_failed(code, what);
    if (done) return BRAID_OK;
    if (asked < kYields) {
      (void)sched_yield();
      continue;
    }
    if (patience->is_over(patience->context))
      return braid_fail(BRAID_DEVICE_LOST, "the other processes do not answer, and this one was told to end");
    (void)nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
    if (sleep_ns < kLastSleepNs) sleep_ns += sleep_ns / 8;
  }
}

static braid_status mpi_begun(int code, MPI_Request *request, const braid_group_patience *patience, const char *what) {
  return code == MPI_SUCCESS ? mpi_await(request, patience, what) : mpi_failed(code, what);
}

/* --- joining -------------------------------------------------------------------------------------------------------
 */
static void mpi_leave(void *context, bool lost) {
  (void)context;
  free(world.memory);
  free(world.counts);
  world.memory = NULL;
  world.counts = NULL;
  world.bytes = 0;
  if (lost) return; /* MPI_Finalize would wait for those who are gone */
  (void)MPI_Comm_free(&world.comm);
  int finalized = 0;
  (void)MPI_Finalized(&finalized);
  if (world.initialized && !finalized) (void)MPI_Finalize();
}

static braid_status mpi_enter(void) {
  int there = 0, finalized = 0, level = MPI_THREAD_SINGLE, code = MPI_Finalized(&finalized);
  if (code == MPI_SUCCESS && (finalized || world.counts))
    return braid_fail(BRAID_UNSUPPORTED, finalized ? "MPI is finalized" : "this process is in its group already");
  if (code == MPI_SUCCESS) code = MPI_Initialized(&there);
  if (code == MPI_SUCCESS && !there) {
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    world.initialized = code == MPI_SUCCESS;
  } else if (code == MPI_SUCCESS) {
    code = MPI_Query_thread(&level);
  }
  if (code != MPI_SUCCESS) return mpi_failed(code, "MPI_Init_thread");
  if (level >= MPI_THREAD_SERIALIZED) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "this MPI takes calls of one thread only (MPI_THREAD_SERIALIZED is needed)");
}

static braid_status mpi_join(void **context, int *rank, int *size) {
  *context = &world;
  braid_status status = mpi_enter();
  if (status != BRAID_OK) return status;
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(world.comm, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(world.comm, &world.rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(world.comm, &world.size);
  if (code != MPI_SUCCESS) return mpi_failed(code, "MPI_Comm_dup");
  world.counts = calloc((size_t)world.size * 2, sizeof *world.counts);
  if (!world.counts) return BRAID_NO_MEMORY;
  world.places = world.counts + world.size;
  *rank = world.rank;
  *size = world.size;
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* pauses are shorter than what is added to them otherwise */
  return BRAID_OK;
}

static void mpi_abort(void *context, int code) {
  (void)context;
  (void)MPI_Abort(world.comm, code);
}

/* --- sums of floating point, in the order of the ranks --------------------------------------------------------------
 */
static uint8_t *room_for(size_t bytes) {
  if (bytes <= world.bytes) return world.memory;
  uint8_t *memory = realloc(world.memory, bytes);
  if (!memory) return NULL;
  world.memory = memory;
  world.bytes = bytes;
  return memory;
}

#define MPI_ADD(type)                                                                                                  \
  static void add_##type(type *restrict sum, const type *restrict more, size_t count) {                                \
    for (size_t i = 0; i < count; i++) sum[i] += more[i];                                                              \
  }
MPI_ADD(float)
MPI_ADD(double)
#undef MPI_ADD

/* `size` times `count` numbers at `parts`, side by side; their sum goes to the first. */
static void add_parts(uint8_t *parts, size_t count, braid_dtype dtype) {
  size_t bytes = count * braid_dtype_size(dtype);
  for (int r = 1; r < world.size; r++) {
    if (dtype == BRAID_F32)
      add_float((float *)(void *)parts, (const float *)(const void *)(parts + (size_t)r * bytes), count);
    else
      add_double((double *)(void *)parts, (const double *)(const void *)(parts + (size_t)r * bytes), count);
  }
}

/* Few numbers: all of them to all. */
static braid_status sum_small(void *data, size_t count, braid_dtype dtype, MPI_Datatype type,
                              const braid_group_patience *patience) {
  size_t bytes = count * braid_dtype_size(dtype);
  uint8_t *all = room_for(bytes * (size_t)world.size);
  MPI_Request request;
  if (!all) return BRAID_NO_MEMORY;
  int code = MPI_Iallgather(data, (int)count, type, all, (int)count, type, world.comm, &request);
  braid_status status = mpi_begun(code, &request, patience, "MPI_Iallgather");
  if (status != BRAID_OK) return status;
  add_parts(all, count, dtype);
  memcpy(data, all, bytes);
  return BRAID_OK;
}

/* Process r adds piece r. */
static braid_status sum_pieces(void *data, size_t count, braid_dtype dtype, MPI_Datatype type,
                               const braid_group_patience *patience) {
  size_t size = (size_t)world.size, own = 0, element = braid_dtype_size(dtype);
  for (size_t r = 0; r < size; r++) {
    world.places[r] = (int)(count * r / size);
    world.counts[r] = (int)(count * (r + 1) / size) - world.places[r];
  }
  own = (size_t)world.counts[world.rank];
  /* behind the pieces: how many come from each, and where they go */
  size_t bytes = own * element * size, begin = (bytes + 63) & ~(size_t)63;
  uint8_t *pieces = room_for(begin + 2 * size * sizeof(int));
  MPI_Request request;
  if (!pieces) return BRAID_NO_MEMORY;
  int *taken = (int *)(void *)(pieces + begin), *at = taken + size;
  for (size_t r = 0; r < size; r++) {
    taken[r] = (int)own;
    at[r] = (int)(own * r);
  }
  int code = MPI_Ialltoallv(data, world.counts, world.places, type, pieces, taken, at, type, world.comm, &request);
  braid_status status = mpi_begun(code, &request, patience, "MPI_Ialltoallv");
  if (status != BRAID_OK) return status;
  add_parts(pieces, own, dtype);
  code = MPI_Iallgatherv(pieces, (int)own, type, data, world.counts, world.places, type, world.comm, &request);
  return mpi_begun(code, &request, patience, "MPI_Iallgatherv");
}

/* --- collectives ---------------------------------------------------------------------------------------------------
 */
static MPI_Datatype type_of(braid_dtype dtype) {
  return dtype == BRAID_I32   ? MPI_INT32_T
         : dtype == BRAID_I64 ? MPI_INT64_T
         : dtype == BRAID_F32 ? MPI_FLOAT
                              : MPI_DOUBLE;
}

static MPI_Op op_of(braid_reduction reduction) {
  return reduction == BRAID_REDUCE_SUM ? MPI_SUM : reduction == BRAID_REDUCE_MAX ? MPI_MAX : MPI_BOR;
}

static braid_status reduce_some(void *data, size_t count, braid_dtype dtype, braid_reduction reduction,
                                const braid_group_patience *patience) {
  MPI_Datatype type = type_of(dtype);
  MPI_Request request;
  bool real = dtype == BRAID_F32 || dtype == BRAID_F64;
  if (real && reduction == BRAID_REDUCE_SUM)
    return (count * braid_dtype_size(dtype) <= kSmallBytes ? sum_small : sum_pieces)(data, count, dtype, type,
                                                                                     patience);
  int code = MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, type, op_of(reduction), world.comm, &request);
  return mpi_begun(code, &request, patience, "MPI_Iallreduce");
}

/* In pieces that an int counts, in all processes the same. */
static braid_status mpi_all_reduce(void *context, void *data, size_t count, braid_dtype dtype,
                                   braid_reduction reduction, const braid_group_patience *patience) {
  (void)context;
  braid_status status = BRAID_OK;
  size_t most = kMost / (size_t)world.size;
  for (size_t at = 0; status == BRAID_OK && at < count; at += most)
    status = reduce_some((uint8_t *)data + at * braid_dtype_size(dtype), count - at < most ? count - at : most, dtype,
                         reduction, patience);
  return status;
}

static braid_status mpi_broadcast(void *context, void *data, size_t bytes, int root,
                                  const braid_group_patience *patience) {
  (void)context;
  braid_status status = BRAID_OK;
  for (size_t at = 0; status == BRAID_OK && at < bytes; at += kMost) {
    MPI_Request request;
    int some = (int)(bytes - at < kMost ? bytes - at : kMost);
    int code = MPI_Ibcast((uint8_t *)data + at, some, MPI_BYTE, root, world.comm, &request);
    status = mpi_begun(code, &request, patience, "MPI_Ibcast");
  }
  return status;
}

static const braid_group_ops kOps = {.abi = BRAID_GROUP_ABI,
                                     .name = "mpi",
                                     .join = mpi_join,
                                     .all_reduce = mpi_all_reduce,
                                     .broadcast = mpi_broadcast,
                                     .abort = mpi_abort,
                                     .leave = mpi_leave};
BRAID_GROUP_MODULE(kOps)
