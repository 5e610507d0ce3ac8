#include "backend/cpu/onednn/program.h"

#include <fenv.h>
#include <omp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/onednn/winograd.h"
#include "backend/cpu/vectorized.h"
#include "base/try.h"
#include "base/vector.h"

static const size_t kAlignment = 64, kTeamBytes = 4 << 20;

typedef struct memory {
  dnnl_memory_t handle;
  braid_dnnl_place place;
  size_t index;  /* operand, or offset in the workspace */
  size_t offset; /* from there: a part */
} memory;

/* How a part of the packed input comes from the constant. */
typedef struct packing {
  dnnl_memory_desc_t from;
  size_t offset; /* in the constant */
  int to;        /* memory */
} packing;

typedef enum step_kind { STEP_PRIMITIVE, STEP_COPY, STEP_SUM } step_kind;

typedef struct step {
  step_kind kind;
  dnnl_primitive_desc_t description; /* of the primitive that is not made yet */
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[BRAID_DNNL_ARGS];
  int count;
  int group;             /* 0: alone, with all threads; else steps of one group run side by side, one thread each */
  dnnl_memory_t scratch; /* of a step in a group: it lies where the thread's is */
  size_t from, to;       /* copy: operands; sum: `from` is a memory */
  size_t bytes, parts;   /* copy and sum: of one part; sum: how many */
  int activated;         /* the memory that the activation goes over; -1: none */
  /* The primitive has the activation in it, and this is the same without: made if it comes to that. */
  dnnl_primitive_desc_t unfused;
  dnnl_primitive_t unfused_primitive;
} step;

struct braid_dnnl {
  const braid_allocator *allocator;
  dnnl_stream_t stream;
  memory *memories;
  step *steps;
  size_t memory_count, memory_capacity, step_count, step_capacity;
  int group, groups; /* the open one, 0: none; all so far */
  int threads;       /* those there is scratch memory for */
  size_t workspace, scratch_bytes;
  braid_activation activation;
  packing *packings; /* of one input */
  size_t packing_count, packing_capacity, packed_bytes;
  uint32_t packed_input;
};

/* --- engine --------------------------------------------------------------------------------------------------------
 */
static dnnl_engine_t engine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_engine(void) {
  if (!braid_dnnl_load() || DNNL(engine_create)(&engine, dnnl_cpu, 0) != dnnl_success) engine = NULL;
}

dnnl_engine_t braid_dnnl_engine(void) {
  pthread_once(&once, make_engine);
  return engine;
}

braid_status braid_dnnl_status(dnnl_status_t status, const char *what) {
  switch (status) {
  case dnnl_success:
    return BRAID_OK;
  case dnnl_out_of_memory:
    return braid_fail(BRAID_NO_MEMORY, "oneDNN: %s: out of memory", what);
  case dnnl_unimplemented:
    return braid_fail(BRAID_UNSUPPORTED, "oneDNN: %s: not implemented", what);
  default:
    return braid_fail(BRAID_INTERNAL, "oneDNN: %s: status %d", what, (int)status);
  }
}

/* --- program -------------------------------------------------------------------------------------------------------
 */
braid_status braid_dnnl_create(const braid_allocator *allocator, braid_dnnl **out) {
  *out = NULL;
  if (!braid_dnnl_engine()) return braid_fail(BRAID_UNSUPPORTED, "oneDNN has no engine for this CPU");
  braid_dnnl *program = braid_zalloc(allocator, sizeof *program);
  if (!program) return BRAID_NO_MEMORY;
  program->allocator = allocator;
  program->threads = omp_get_max_threads();
  braid_status status =
      braid_dnnl_status(DNNL(stream_create)(&program->stream, engine, dnnl_stream_default_flags), "a stream");
  if (status == BRAID_OK)
    *out = program;
  else
    braid_dnnl_destroy(allocator, program);
  return status;
}

void braid_dnnl_destroy(const braid_allocator *allocator, void *state) {
  braid_dnnl *program = state;
  if (!program) return;
  for (size_t i = 0; i < program->step_count; i++) {
    if (program->steps[i].description) DNNL(primitive_desc_destroy)(program->steps[i].description);
    if (program->steps[i].primitive) DNNL(primitive_destroy)(program->steps[i].primitive);
    if (program->steps[i].scratch) DNNL(memory_destroy)(program->steps[i].scratch);
    if (program->steps[i].unfused) DNNL(primitive_desc_destroy)(program->steps[i].unfused);
    if (program->steps[i].unfused_primitive) DNNL(primitive_destroy)(program->steps[i].unfused_primitive);
  }
  for (size_t i = 0; i < program->memory_count; i++)
    if (program->memories[i].handle) DNNL(memory_destroy)(program->memories[i].handle);
  if (program->stream) DNNL(stream_destroy)(program->stream);
  braid_free(allocator, program->memories);
  braid_free(allocator, program->packings);
  braid_free(allocator, program->steps);
  braid_free(allocator, program);
}

static size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static size_t reserve(braid_dnnl *program, size_t bytes) {
  size_t offset = program->workspace;
  program->workspace += aligned(bytes);
  return offset;
}

size_t braid_dnnl_workspace(const braid_dnnl *program) {
  return program->workspace + (size_t)program->threads * program->scratch_bytes;
}

static memory *add_memory(braid_dnnl *program) {
  memory *grown = braid_grow(program->allocator, program->memories, program->memory_count, &program->memory_capacity,
                             sizeof *grown);
  if (!grown) return NULL;
  program->memories = grown;
  return &grown[program->memory_count];
}

static step *add_step(braid_dnnl *program) {
  step *grown =
      braid_grow(program->allocator, program->steps, program->step_count, &program->step_capacity, sizeof *grown);
  if (!grown) return NULL;
  program->steps = grown;
  return &grown[program->step_count];
}

braid_status braid_dnnl_memory(braid_dnnl *program, const dnnl_memory_desc_t *desc, braid_dnnl_place place,
                               size_t index, int *out) {
  memory *m = add_memory(program);
  if (!m) return BRAID_NO_MEMORY;
  *m = (memory){.place = place, .index = index};
  size_t bytes = DNNL(memory_desc_get_size)(desc);
  if (place == BRAID_DNNL_WORKSPACE) m->index = reserve(program, bytes);
  *out = (int)program->memory_count++;
  return braid_dnnl_status(DNNL(memory_create)(&m->handle, desc, engine, DNNL_MEMORY_NONE), "a memory");
}

braid_status braid_dnnl_packed(braid_dnnl *program, uint32_t input, const dnnl_memory_desc_t *from, size_t offset,
                               const dnnl_memory_desc_t *wanted, int *out) {
  packing *grown = braid_grow(program->allocator, program->packings, program->packing_count, &program->packing_capacity,
                              sizeof *grown);
  if (!grown) return BRAID_NO_MEMORY;
  program->packings = grown;
  BRAID_TRY(braid_dnnl_memory(program, wanted, BRAID_DNNL_PACKED, input, out));
  program->memories[*out].offset = program->packed_bytes;
  program->packed_input = input;
  program->packed_bytes += aligned(DNNL(memory_desc_get_size)(wanted));
  grown[program->packing_count++] = (packing){*from, offset, *out};
  return BRAID_OK;
}

braid_status braid_dnnl_part(braid_dnnl *program, int whole, const dnnl_memory_desc_t *desc, size_t offset, int *out) {
  memory *m = add_memory(program);
  if (!m) return BRAID_NO_MEMORY;
  const memory *of = &program->memories[whole];
  *m = (memory){.place = of->place, .index = of->index, .offset = of->offset + offset};
  *out = (int)program->memory_count++;
  return braid_dnnl_status(DNNL(memory_create)(&m->handle, desc, engine, DNNL_MEMORY_NONE), "a part of a memory");
}

void braid_dnnl_begin_group(braid_dnnl *program) {
  program->group = ++program->groups;
}

void braid_dnnl_end_group(braid_dnnl *program) {
  program->group = 0;
}

static braid_status make_scratch(braid_dnnl *program, const dnnl_memory_desc_t *desc, step *s) {
  size_t bytes = desc ? DNNL(memory_desc_get_size)(desc) : 0;
  if (bytes == 0) return BRAID_OK;
  if (s->group) {
    BRAID_TRY(braid_dnnl_status(DNNL(memory_create)(&s->scratch, desc, engine, DNNL_MEMORY_NONE), "scratch memory"));
    s->args[s->count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratch};
    if (program->scratch_bytes < aligned(bytes)) program->scratch_bytes = aligned(bytes);
    return BRAID_OK;
  }
  int number;
  BRAID_TRY(braid_dnnl_memory(program, desc, BRAID_DNNL_WORKSPACE, 0, &number));
  s->args[s->count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, program->memories[number].handle};
  return BRAID_OK;
}

static dnnl_status_t make_primitive(dnnl_primitive_desc_t primitive_desc, bool single, dnnl_primitive_t *out) {
  int before = omp_get_max_threads();
  omp_set_num_threads(single ? 1 : braid_dnnl_threads_of(primitive_desc)); /* also the key of oneDNN's cache */
  dnnl_status_t status = DNNL(primitive_create)(out, primitive_desc);
  omp_set_num_threads(before);
  return status;
}

braid_status braid_dnnl_step(braid_dnnl *program, dnnl_primitive_desc_t primitive_desc, const braid_dnnl_arg *args,
                             size_t count) {
  step *s = add_step(program);
  braid_status status = s ? BRAID_OK : BRAID_NO_MEMORY;
  if (s && count + 1 > BRAID_DNNL_ARGS) status = braid_fail(BRAID_INTERNAL, "too many arguments");
  if (status == BRAID_OK) {
    *s = (step){.kind = STEP_PRIMITIVE, .group = program->group, .activated = -1, .description = primitive_desc};
    program->step_count++;
    for (size_t i = 0; i < count; i++)
      s->args[s->count++] = (dnnl_exec_arg_t){args[i].arg, program->memories[args[i].memory].handle};
    return make_scratch(program, DNNL(primitive_desc_query_md)(primitive_desc, dnnl_query_scratchpad_md, 0), s);
  }
  DNNL(primitive_desc_destroy)(primitive_desc);
  return status;
}

braid_status braid_dnnl_finish(void *state) {
  const braid_dnnl *program = state;
  for (size_t i = 0; i < program->step_count; i++) {
    step *s = &program->steps[i];
    if (!s->description) continue;
    BRAID_TRY(braid_dnnl_status(make_primitive(s->description, s->group != 0, &s->primitive), "a primitive"));
    DNNL(primitive_desc_destroy)(s->description);
    s->description = NULL;
  }
  return BRAID_OK;
}

static braid_status describe_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                                     dnnl_primitive_desc_t *out) {
  dnnl_primitive_attr_t attr;
  BRAID_TRY(braid_dnnl_status(DNNL(primitive_attr_create)(&attr), "attributes"));
  dnnl_status_t status = DNNL(primitive_attr_set_scratchpad_mode)(attr, dnnl_scratchpad_mode_user);
  if (status == dnnl_success) status = DNNL(reorder_primitive_desc_create)(out, from, engine, to, engine, attr);
  DNNL(primitive_attr_destroy)(attr);
  return braid_dnnl_status(status, "a conversion");
}

static const dnnl_memory_desc_t *desc_of(const braid_dnnl *program, int number) {
  const dnnl_memory_desc_t *desc = NULL;
  DNNL(memory_get_memory_desc)(program->memories[number].handle, &desc);
  return desc;
}

braid_status braid_dnnl_reorder(braid_dnnl *program, int from, int to) {
  dnnl_primitive_desc_t primitive_desc;
  BRAID_TRY(describe_reorder(desc_of(program, from), desc_of(program, to), &primitive_desc));
  return braid_dnnl_step(program, primitive_desc, (braid_dnnl_arg[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, 2);
}

/* --- packed constants ----------------------------------------------------------------------------------------------
 */
static uint64_t mix(uint64_t key, const void *data, size_t bytes) { /* FNV-1a */
  const uint8_t *at = data;
  for (size_t i = 0; i < bytes; i++) key = (key ^ at[i]) * 1099511628211u;
  return key;
}

static uint64_t mix_integer(uint64_t key, int64_t value) {
  return mix(key, &value, sizeof value);
}

/* A description, member by member: what lies between them in memory is anything. */
static uint64_t mix_description(uint64_t key, const dnnl_memory_desc_t *desc) {
  size_t bytes = (size_t)desc->ndims * sizeof *desc->dims;
  key = mix_integer(key, desc->ndims);
  key = mix_integer(mix_integer(key, desc->data_type), desc->offset0);
  key = mix(mix(mix(key, desc->dims, bytes), desc->padded_dims, bytes), desc->padded_offsets, bytes);
  key = mix_integer(key, desc->format_kind);
  key = mix_integer(mix_integer(key, (int64_t)desc->extra.flags), desc->extra.compensation_mask);
  if (desc->format_kind == dnnl_blocked) {
    const dnnl_blocking_desc_t *b = &desc->format_desc.blocking;
    size_t blocks = (size_t)b->inner_nblks * sizeof *b->inner_blks;
    key = mix_integer(mix(key, b->strides, bytes), b->inner_nblks);
    return mix(mix(key, b->inner_blks, blocks), b->inner_idxs, blocks);
  }
  const dnnl_wino_desc_t *w = &desc->format_desc.wino_desc; /* all members are 4 bytes but the last */
  return mix(key, w, offsetof(dnnl_wino_desc_t, size) / sizeof(int) * sizeof(int));
}

void braid_dnnl_list_packings(const void *state, braid_query *query) {
  const braid_dnnl *program = state;
  if (!program->packing_count) return;
  uint64_t key = 14695981039346656037u;
  for (size_t i = 0; i < program->packing_count; i++) {
    const packing *p = &program->packings[i];
    key = mix_description(key, &p->from);
    key = mix_description(key, desc_of(program, p->to));
    key = mix_integer(mix_integer(key, (int64_t)p->offset), (int64_t)program->memories[p->to].offset);
  }
  query->packings[query->packing_count++] = (braid_packing){program->packed_input, program->packed_bytes, key};
}

static braid_status pack_part(const braid_dnnl *program, const packing *part, const void *plain, void *packed) {
  dnnl_primitive_desc_t primitive_desc;
  dnnl_primitive_t primitive = NULL;
  dnnl_memory_t source = NULL, target = NULL, pad = NULL;
  const dnnl_memory_desc_t *from = &part->from, *to = desc_of(program, part->to);
  const char *data = (const char *)plain + part->offset;
  char *out = (char *)packed + program->memories[part->to].offset;
  if (to->format_kind == dnnl_format_kind_wino && from->ndims == 4 &&
      braid_winograd_pack(to, from->dims[0], from->dims[1], (const void *)data, (void *)out))
    return BRAID_OK;
  BRAID_TRY(describe_reorder(from, to, &primitive_desc));
  const dnnl_memory_desc_t *pad_desc = DNNL(primitive_desc_query_md)(primitive_desc, dnnl_query_scratchpad_md, 0);
  dnnl_status_t status = DNNL(memory_create)(&source, from, engine, (void *)data);
  if (status == dnnl_success) status = DNNL(memory_create)(&target, to, engine, out);
  if (status == dnnl_success) status = DNNL(memory_create)(&pad, pad_desc, engine, DNNL_MEMORY_ALLOCATE);
  if (status == dnnl_success) status = DNNL(primitive_create)(&primitive, primitive_desc);
  if (status == dnnl_success) {
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}, {DNNL_ARG_SCRATCHPAD, pad}};
    status = DNNL(primitive_execute)(primitive, program->stream, 3, args);
  }
  if (status == dnnl_success) status = DNNL(stream_wait)(program->stream);
  if (primitive) DNNL(primitive_destroy)(primitive);
  if (source) DNNL(memory_destroy)(source);
  if (target) DNNL(memory_destroy)(target);
  if (pad) DNNL(memory_destroy)(pad);
  DNNL(primitive_desc_destroy)(primitive_desc);
  return braid_dnnl_status(status, "packing a constant");
}

/* Waking a team costs more than what it would save on a small constant, and other threads may be packing others. */
braid_status braid_dnnl_pack(const braid_node_desc *node, void *state, uint32_t input, const void *plain,
                             void *packed) {
  const braid_dnnl *program = state;
  (void)node, (void)input;
  int before = omp_get_max_threads();
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < program->packing_count && status == BRAID_OK; i++) {
    const packing *part = &program->packings[i];
    omp_set_num_threads(DNNL(memory_desc_get_size)(&part->from) < kTeamBytes ? 1 : before);
    status = pack_part(program, part, plain, packed);
  }
  omp_set_num_threads(before);
  return status;
}

/* --- other steps ---------------------------------------------------------------------------------------------------
 */
braid_status braid_dnnl_activate(braid_dnnl *program, const braid_node_desc *node, int result,
                                 dnnl_primitive_desc_t unfused) {
  step *s = &program->steps[program->step_count - 1];
  if (!braid_activation_read(node, &program->activation))
    return braid_fail(BRAID_INTERNAL, "an activation that was matched cannot be read");
  if (!program->activation.entry) return BRAID_OK;
  s->activated = result;
  if (!unfused) return BRAID_OK;
  return braid_dnnl_status(DNNL(primitive_desc_clone)(&s->unfused, unfused), "a description");
}

braid_status braid_dnnl_copy(braid_dnnl *program, size_t from, size_t to, size_t bytes) {
  step *s = add_step(program);
  if (!s) return BRAID_NO_MEMORY;
  *s = (step){.kind = STEP_COPY, .from = from, .to = to, .bytes = bytes};
  program->step_count++;
  return BRAID_OK;
}

braid_status braid_dnnl_sum(braid_dnnl *program, int parts, size_t bytes, size_t count) {
  step *s = add_step(program);
  if (!s) return BRAID_NO_MEMORY;
  *s = (step){.kind = STEP_SUM, .from = (size_t)parts, .bytes = bytes, .parts = count};
  program->step_count++;
  return BRAID_OK;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
enum { kPiece = 1 << 18, kSumPiece = 1 << 12, kActivated = 1 << 13 };

static void run_copy(const step *s, const braid_cpu_args *args) {
  const char *from = args->inputs[s->from];
  char *to = args->outputs[s->to];
  if (from == to) return;
  int64_t pieces = (int64_t)((s->bytes + kPiece - 1) / kPiece);
#pragma omp parallel for
  for (int64_t i = 0; i < pieces; i++) {
    size_t at = (size_t)i * kPiece, left = s->bytes - at;
    memcpy(to + at, from + at, left < kPiece ? left : kPiece);
  }
}

BRAID_VECTORIZED static void add_part(float *restrict sum, const float *restrict part, int64_t count) {
  for (int64_t i = 0; i < count; i++) sum[i] += part[i];
}

/* Adds the parts to the first, one after another. */
static void run_sum(const step *s, float *first) {
  int64_t stride = (int64_t)(s->bytes / sizeof(float)), pieces = (stride + kSumPiece - 1) / kSumPiece;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pieces; i++) {
    float *sum = first + i * kSumPiece;
    int64_t left = stride - i * kSumPiece;
    for (size_t p = 1; p < s->parts; p++) add_part(sum, sum + (int64_t)p * stride, left < kSumPiece ? left : kSumPiece);
  }
}

static void *address_of(const memory *m, const braid_cpu_args *args) {
  switch (m->place) {
  case BRAID_DNNL_INPUT:
    return (char *)args->inputs[m->index] + m->offset;
  case BRAID_DNNL_OUTPUT:
    return (char *)args->outputs[m->index] + m->offset;
  case BRAID_DNNL_WORKSPACE:
    return (char *)args->workspace + m->index + m->offset;
  case BRAID_DNNL_PACKED:
    break;
  }
  return (char *)args->inputs[m->index] + m->offset;
}

/* Blocks of channels are padded with zeros, which have to stay zeros: those of image `image`. */
static void clear_padding(const dnnl_memory_desc_t *desc, int64_t image, float *x) {
  int64_t block = desc->format_desc.blocking.inner_blks[0], used = desc->dims[1] % block, places = 1;
  for (int i = 2; i < desc->ndims; i++) places *= desc->dims[i];
  float *last = x + (image * desc->padded_dims[1] + desc->padded_dims[1] - block) * places;
  for (int64_t p = 0; p < places; p++) memset(last + p * block + used, 0, (size_t)(block - used) * sizeof *last);
}

static int64_t padded_count(const dnnl_memory_desc_t *desc) {
  int64_t count = 1;
  for (int i = 0; i < desc->ndims; i++) count *= desc->padded_dims[i];
  return count;
}

/* The activation over a step's result: numbers without gaps, gone through in pieces, or a part of one or more matrices,
 * row by row. `together`: by all threads. */
static void activate(const braid_dnnl *program, const step *s, const braid_cpu_args *args, bool together) {
  const dnnl_memory_desc_t *desc = desc_of(program, s->activated);
  const dnnl_dim_t *strides = desc->format_desc.blocking.strides;
  float *x = address_of(&program->memories[s->activated], args);
  int rank = desc->ndims;
  int64_t count = padded_count(desc), length = kActivated, stride = length, rows = (count + length - 1) / length;
  int64_t planes = 1, plane = 0, end = count;
  if (DNNL(memory_desc_get_size)(desc) != (size_t)count * sizeof(float)) {
    length = desc->dims[rank - 1], stride = strides[rank - 2], rows = desc->dims[rank - 2];
    if (rank == 3) planes = desc->dims[0], plane = strides[0];
    end = rows * stride;
  }
#pragma omp parallel for schedule(static) if (together && count > kActivated)
  for (int64_t i = 0; i < rows * planes; i++) {
    int64_t at = i % rows * stride, left = end - at;
    braid_activation_run(&program->activation, x + i / rows * plane + at, left < length ? left : length);
  }
  if (desc->padded_dims[1] == desc->dims[1]) return;
#pragma omp parallel for schedule(static) if (together && count > kActivated)
  for (int64_t i = 0; i < desc->dims[0]; i++) clear_padding(desc, i, x);
}

/* oneDNN's activations lose NaN (its Relu is max(x, 0), which takes the 0), but an x86 processor notes an invalid
 * operation when it compares NaN, or takes the larger of it and another, and keeps the note until it is cleared. What
 * other code noted earlier costs a second run, nothing else. */
static bool take_invalid(bool together) {
  int found = 0;
  if (!together) return fetestexcept(FE_INVALID) != 0;
#pragma omp parallel reduction(| : found)
  {
    found |= fetestexcept(FE_INVALID);
    if (found) feclearexcept(FE_INVALID);
  }
  return found != 0;
}

/* Alone, a step may run in the caller's thread, whose note of an earlier operation stays. */
static dnnl_status_t execute(const braid_dnnl *program, step *s, const braid_cpu_args *args, bool together) {
  bool noted = s->unfused && !together && fetestexcept(FE_INVALID) != 0;
  fexcept_t earlier;
  if (noted) (void)fegetexceptflag(&earlier, FE_INVALID);
  if (noted) (void)feclearexcept(FE_INVALID);
  dnnl_status_t status = DNNL(primitive_execute)(s->primitive, program->stream, s->count, s->args);
  bool invalid = s->unfused && take_invalid(together);
  if (noted) (void)fesetexceptflag(&earlier, FE_INVALID);
  if (status != dnnl_success || s->activated < 0 || (s->unfused && !invalid)) return status;
  if (s->unfused && !s->unfused_primitive) status = make_primitive(s->unfused, s->group != 0, &s->unfused_primitive);
  if (s->unfused && status == dnnl_success)
    status = DNNL(primitive_execute)(s->unfused_primitive, program->stream, s->count, s->args);
  if (status == dnnl_success) activate(program, s, args, together);
  return status;
}

/* The steps from `first` to `end`, one thread each. Which thread takes which changes no result. The limit within is for
 * teams of one thread, which OpenMP may give whatever was asked for (OMP_DYNAMIC, OMP_THREAD_LIMIT): oneDNN takes them
 * for none, and would divide what was made for one thread among as many as there might be. */
static dnnl_status_t run_group(const braid_dnnl *program, size_t first, size_t end, const braid_cpu_args *args) {
  int64_t failed = 0, count = (int64_t)(end - first);
  char *scratch = (char *)args->workspace + program->workspace;
  int most = omp_get_max_threads(), threads = most < program->threads ? most : program->threads;
#pragma omp parallel num_threads(threads) reduction(max : failed)
  {
    omp_set_num_threads(1);
    char *own = scratch + (size_t)omp_get_thread_num() * program->scratch_bytes;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < count; i++) {
      step *s = &program->steps[first + (size_t)i];
      dnnl_status_t status = dnnl_success;
      if (s->scratch) status = DNNL(memory_set_data_handle)(s->scratch, own);
      if (status == dnnl_success) status = execute(program, s, args, false);
      if ((int64_t)status > failed) failed = (int64_t)status;
    }
  }
  return (dnnl_status_t)failed;
}

braid_status braid_dnnl_run(const braid_node_desc *node, void *state, const braid_cpu_args *args) {
  const braid_dnnl *program = state;
  (void)node;
  for (size_t i = 0; i < program->memory_count; i++) {
    const memory *m = &program->memories[i];
    dnnl_status_t status = DNNL(memory_set_data_handle)(m->handle, address_of(m, args));
    if (status != dnnl_success) return braid_dnnl_status(status, "an address");
  }
  for (size_t i = 0, end; i < program->step_count; i = end) {
    step *s = &program->steps[i];
    dnnl_status_t status = dnnl_success;
    end = i + 1;
    if (s->kind == STEP_COPY) {
      run_copy(s, args);
    } else if (s->kind == STEP_SUM) {
      run_sum(s, address_of(&program->memories[s->from], args));
    } else if (s->group) {
      while (end < program->step_count && program->steps[end].group == s->group) end++;
      status = run_group(program, i, end, args);
    } else {
      status = execute(program, s, args, omp_get_max_threads() > 1);
    }
    if (status != dnnl_success) return braid_dnnl_status(status, "running a primitive");
  }
  return BRAID_OK;
}

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
static bool data_type(braid_dtype dtype, dnnl_data_type_t *out) {
  switch (dtype) {
  case BRAID_F32:
    *out = dnnl_f32;
    return true;
  case BRAID_BF16:
    *out = dnnl_bf16;
    return true;
  case BRAID_F16:
    *out = dnnl_f16;
    return true;
  case BRAID_I32:
    *out = dnnl_s32;
    return true;
  case BRAID_I8:
    *out = dnnl_s8;
    return true;
  case BRAID_U8:
    *out = dnnl_u8;
    return true;
  default:
    return false;
  }
}

/* dnnl_nchw and the like name a rank too; these are by rank 3, 4, 5. */
static dnnl_format_tag_t tag_of(braid_layout layout, int rank) {
  static const dnnl_format_tag_t kChannelsLast[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
  static const dnnl_format_tag_t kBlocked[] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c};
  if (rank < 3 || rank > 5) return dnnl_format_tag_undef;
  if (layout == BRAID_LAYOUT_BHWC) return kChannelsLast[rank - 3];
  if (layout == BRAID_LAYOUT_BLOCKED16) return kBlocked[rank - 3];
  return dnnl_format_tag_undef;
}

static void row_major(int rank, const int64_t *dims, dnnl_dims_t out_dims, dnnl_dims_t strides) {
  int64_t stride = 1;
  for (int i = rank; i-- > 0;) {
    out_dims[i] = dims[i];
    strides[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
}

bool braid_dnnl_desc(const braid_desc *desc, dnnl_memory_desc_t *out) {
  dnnl_data_type_t type;
  if (!data_type(desc->dtype, &type)) return false;
  int rank = desc->rank ? desc->rank : 1;
  int64_t one = 1;
  dnnl_dims_t dims, strides;
  row_major(rank, desc->rank ? desc->dims : &one, dims, strides);
  if (desc->layout == BRAID_LAYOUT_PLAIN)
    return DNNL(memory_desc_init_by_strides)(out, rank, dims, type, strides) == dnnl_success;
  dnnl_format_tag_t tag = tag_of(desc->layout, rank);
  return tag != dnnl_format_tag_undef && DNNL(memory_desc_init_by_tag)(out, rank, dims, type, tag) == dnnl_success;
}

bool braid_dnnl_desc_any(const braid_desc *desc, dnnl_memory_desc_t *out) {
  dnnl_data_type_t type;
  if (!data_type(desc->dtype, &type) || desc->rank < 1) return false;
  dnnl_dims_t dims = {0};
  memcpy(dims, desc->dims, (size_t)desc->rank * sizeof *dims);
  return DNNL(memory_desc_init_by_tag)(out, desc->rank, dims, type, dnnl_format_tag_any) == dnnl_success;
}

void braid_dnnl_plain(int rank, const int64_t *dims, dnnl_memory_desc_t *out) {
  dnnl_dims_t own, strides;
  row_major(rank, dims, own, strides);
  if (DNNL(memory_desc_init_by_strides)(out, rank, own, dnnl_f32, strides) != dnnl_success) memset(out, 0, sizeof *out);
}

bool braid_dnnl_all_f32(const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    const braid_operand *operand = i < node->input_count ? &node->inputs[i] : &node->outputs[i - node->input_count];
    if (!operand->present || operand->desc.dtype == BRAID_F32) continue;
    snprintf(why, why_bytes, "%s operand, float32 only", braid_dtype_name(operand->desc.dtype));
    return false;
  }
  return true;
}
