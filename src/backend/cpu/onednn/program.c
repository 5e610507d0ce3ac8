#include "backend/cpu/onednn/program.h"

#include <fenv.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fnv.h"
#include "base/try.h"
#include "base/vector.h"

enum { kPiece = 1 << 18, kSumPiece = 1 << 12, kActivated = 1 << 13 };
static const size_t kAlignment = 64, kTeamBytes = 4 << 20;

typedef struct memory {
  dnnl_memory_t handle;
  braid_md desc;
  braid_dnnl_place place;
  size_t index;  /* operand, or offset in the workspace */
  size_t offset; /* from there: a part */
} memory;

/* How a part of the packed input comes from the constant. */
typedef struct packing {
  braid_md from;
  size_t offset;                  /* in the constant */
  int to;                         /* memory */
  braid_description *description; /* whose weights it is for */
} packing;

/* A result that an activation goes over: numbers without gaps, gone through in pieces, or a part of one or more
 * matrices, row by row. */
typedef struct activated {
  int memory;                                              /* -1: no activation follows */
  int64_t count, planes, plane, rows, stride, length, end; /* in numbers */
  int64_t images, places, channels;                        /* of blocks of channels with padding; else images is 0 */
} activated;

typedef enum step_kind { STEP_PRIMITIVE, STEP_COPY, STEP_SUM } step_kind;

typedef struct step {
  step_kind kind;
  braid_description *description;
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[BRAID_DNNL_ARGS];
  int count;
  int group;             /* 0: alone, with all threads; else steps of one group run side by side, one thread each */
  dnnl_memory_t scratch; /* of a step in a group: it lies where the thread's is */
  size_t from, to;       /* copy: operands; sum: `from` is a memory */
  size_t bytes, parts;   /* copy and sum: of one part; sum: how many */
  bool converts;         /* a conversion between layouts, counted */
  activated activated;
  /* The primitive has the activation in it, and this is the same without: made if it comes to that. */
  braid_description *unfused;
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

/* --- program -------------------------------------------------------------------------------------------------------
 */
braid_status braid_dnnl_create(const braid_allocator *allocator, braid_dnnl **out) {
  *out = NULL;
  if (!braid_dnnl_engine()) return braid_fail(BRAID_UNSUPPORTED, "oneDNN has no engine for this CPU");
  braid_dnnl *program = braid_zalloc(allocator, sizeof *program);
  if (!program) return BRAID_NO_MEMORY;
  program->allocator = allocator;
  program->threads = omp_get_max_threads();
  braid_status status = braid_dnnl_status(
      DNNL(stream_create)(&program->stream, braid_dnnl_engine(), dnnl_stream_default_flags), "a stream");
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
    step *s = &program->steps[i];
    if (s->primitive) DNNL(primitive_destroy)(s->primitive);
    if (s->scratch) DNNL(memory_destroy)(s->scratch);
    if (s->unfused_primitive) DNNL(primitive_destroy)(s->unfused_primitive);
    braid_description_release(s->description);
    braid_description_release(s->unfused);
  }
  for (size_t i = 0; i < program->memory_count; i++)
    if (program->memories[i].handle) DNNL(memory_destroy)(program->memories[i].handle);
  for (size_t i = 0; i < program->packing_count; i++) braid_description_release(program->packings[i].description);
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

static step *add_step(braid_dnnl *program) {
  step *grown =
      braid_grow(program->allocator, program->steps, program->step_count, &program->step_capacity, sizeof *grown);
  if (!grown) return NULL;
  program->steps = grown;
  return &grown[program->step_count];
}

static braid_status new_memory(braid_dnnl *program, const braid_md *desc, braid_dnnl_place place, size_t index,
                               size_t offset, int *out) {
  memory *grown = braid_grow(program->allocator, program->memories, program->memory_count, &program->memory_capacity,
                             sizeof *grown);
  if (!grown) return BRAID_NO_MEMORY;
  program->memories = grown;
  memory *m = &grown[program->memory_count];
  *m = (memory){.desc = *desc, .place = place, .index = index, .offset = offset};
  *out = (int)program->memory_count++;
  return braid_dnnl_status(braid_md_memory(desc, DNNL_MEMORY_NONE, &m->handle), "a memory");
}

braid_status braid_dnnl_memory(braid_dnnl *program, const braid_md *desc, braid_dnnl_place place, size_t index,
                               int *out) {
  if (place == BRAID_DNNL_WORKSPACE) index = reserve(program, braid_md_bytes(desc));
  return new_memory(program, desc, place, index, 0, out);
}

braid_status braid_dnnl_packed(braid_dnnl *program, uint32_t input, const braid_md *from, size_t offset,
                               const braid_description *description, int *out) {
  braid_md wanted = braid_description_md(description, dnnl_query_weights_md);
  packing *grown = braid_grow(program->allocator, program->packings, program->packing_count, &program->packing_capacity,
                              sizeof *grown);
  if (!grown) return BRAID_NO_MEMORY;
  program->packings = grown;
  BRAID_TRY(new_memory(program, &wanted, BRAID_DNNL_PACKED, input, program->packed_bytes, out));
  program->packed_input = input;
  program->packed_bytes += aligned(braid_md_bytes(&wanted));
  grown[program->packing_count++] = (packing){*from, offset, *out, braid_description_retain(description)};
  return BRAID_OK;
}

braid_status braid_dnnl_part(braid_dnnl *program, int whole, const braid_md *desc, size_t offset, int *out) {
  const memory of = program->memories[whole];
  return new_memory(program, desc, of.place, of.index, of.offset + offset, out);
}

void braid_dnnl_begin_group(braid_dnnl *program) {
  program->group = ++program->groups;
}

void braid_dnnl_end_group(braid_dnnl *program) {
  program->group = 0;
}

static braid_status make_scratch(braid_dnnl *program, step *s) {
  braid_md desc = braid_description_md(s->description, dnnl_query_scratchpad_md);
  size_t bytes = desc.chosen ? braid_md_bytes(&desc) : 0;
  if (bytes == 0) return BRAID_OK;
  if (s->group) {
    BRAID_TRY(braid_dnnl_status(braid_md_memory(&desc, DNNL_MEMORY_NONE, &s->scratch), "scratch memory"));
    s->args[s->count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratch};
    if (program->scratch_bytes < aligned(bytes)) program->scratch_bytes = aligned(bytes);
    return BRAID_OK;
  }
  int number;
  BRAID_TRY(braid_dnnl_memory(program, &desc, BRAID_DNNL_WORKSPACE, 0, &number));
  s->args[s->count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, program->memories[number].handle};
  return BRAID_OK;
}

braid_status braid_dnnl_step(braid_dnnl *program, const braid_description *description, const braid_dnnl_arg *args,
                             size_t count) {
  if (count + 1 > BRAID_DNNL_ARGS) return braid_fail(BRAID_INTERNAL, "too many arguments");
  step *s = add_step(program);
  if (!s) return BRAID_NO_MEMORY;
  *s = (step){.kind = STEP_PRIMITIVE,
              .group = program->group,
              .activated = {.memory = -1},
              .description = braid_description_retain(description)};
  program->step_count++;
  for (size_t i = 0; i < count; i++)
    s->args[s->count++] = (dnnl_exec_arg_t){args[i].arg, program->memories[args[i].memory].handle};
  return make_scratch(program, s);
}

braid_status braid_dnnl_finish(void *state) {
  const braid_dnnl *program = state;
  for (size_t i = 0; i < program->step_count; i++) {
    step *s = &program->steps[i];
    if (s->description)
      BRAID_TRY(braid_dnnl_status(braid_description_make(s->description, s->group != 0, &s->primitive), "a primitive"));
  }
  return BRAID_OK;
}

braid_status braid_dnnl_reorder(braid_dnnl *program, int from, int to) {
  braid_description *description;
  BRAID_TRY(braid_describe_reorder(&program->memories[from].desc, &program->memories[to].desc, &description));
  braid_status status =
      braid_dnnl_step(program, description, (braid_dnnl_arg[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, 2);
  braid_description_release(description);
  if (status == BRAID_OK) program->steps[program->step_count - 1].converts = true;
  return status;
}

/* --- packed constants ----------------------------------------------------------------------------------------------
 */
void braid_dnnl_list_packings(const void *state, braid_query *query) {
  const braid_dnnl *program = state;
  if (!program->packing_count) return;
  uint64_t key = BRAID_FNV_START;
  for (size_t i = 0; i < program->packing_count; i++) {
    const packing *p = &program->packings[i];
    const memory *to = &program->memories[p->to];
    key = braid_md_mix(braid_md_mix(key, &p->from), &to->desc);
    key = braid_fnv_mix(key, (uint64_t[]){p->offset, to->offset}, 2 * sizeof(uint64_t));
  }
  query->packings[query->packing_count++] = (braid_packing){program->packed_input, program->packed_bytes, key};
}

static braid_status pack_part(const braid_dnnl *program, const packing *part, const void *plain, void *packed) {
  const braid_md *from = &part->from, *to = &program->memories[part->to].desc;
  const char *data = (const char *)plain + part->offset;
  char *out = (char *)packed + program->memories[part->to].offset;
  braid_description *description;
  dnnl_primitive_t primitive = NULL;
  dnnl_memory_t source = NULL, target = NULL, pad = NULL;
  if (braid_md_pack_winograd(from, to, (const void *)data, (void *)out)) return BRAID_OK;
  BRAID_TRY(braid_describe_reorder(from, to, &description));
  braid_md scratch = braid_description_md(description, dnnl_query_scratchpad_md);
  dnnl_status_t status = braid_md_memory(from, (void *)data, &source);
  if (status == dnnl_success) status = braid_md_memory(to, out, &target);
  if (status == dnnl_success) status = braid_md_memory(&scratch, DNNL_MEMORY_ALLOCATE, &pad);
  if (status == dnnl_success) status = braid_description_make(description, false, &primitive);
  if (status == dnnl_success) {
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}, {DNNL_ARG_SCRATCHPAD, pad}};
    status = DNNL(primitive_execute)(primitive, program->stream, 3, args);
  }
  if (status == dnnl_success) status = DNNL(stream_wait)(program->stream);
  if (primitive) DNNL(primitive_destroy)(primitive);
  if (source) DNNL(memory_destroy)(source);
  if (target) DNNL(memory_destroy)(target);
  if (pad) DNNL(memory_destroy)(pad);
  braid_description_release(description);
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
    omp_set_num_threads(braid_md_bytes(&part->from) < kTeamBytes ? 1 : before);
    status = pack_part(program, part, plain, packed);
  }
  omp_set_num_threads(before);
  return status;
}

/* --- other steps ---------------------------------------------------------------------------------------------------
 */
/* Of images in blocks of 16 channels, which are padded with zeros; of other images; of a part of one or more matrices.
 */
static activated activation_over(const braid_md *desc, int result) {
  int rank = desc->rank;
  bool blocked = desc->kind == BRAID_MD_TAGGED &&
                 (desc->tag == dnnl_nCw16c || desc->tag == dnnl_nChw16c || desc->tag == dnnl_nCdhw16c);
  activated a = {.memory = result, .count = 1, .planes = 1, .places = 1};
  for (int i = 0; i < rank; i++) a.count *= i == 1 && blocked ? (desc->dims[1] + 15) / 16 * 16 : desc->dims[i];
  a.length = a.stride = kActivated, a.rows = (a.count + a.length - 1) / a.length, a.end = a.count;
  for (int i = 2; i < rank; i++) a.places *= desc->dims[i];
  if (blocked && desc->dims[1] % 16 != 0) a.images = desc->dims[0], a.channels = desc->dims[1];
  if (braid_md_bytes(desc) == (size_t)a.count * sizeof(float)) return a;
  a.length = desc->dims[rank - 1], a.stride = desc->strides[rank - 2], a.rows = desc->dims[rank - 2];
  if (rank == 3) a.planes = desc->dims[0], a.plane = desc->strides[0];
  a.end = a.rows * a.stride;
  return a;
}

braid_status braid_dnnl_activate(braid_dnnl *program, const braid_node_desc *node, int result,
                                 const braid_description *unfused) {
  step *s = &program->steps[program->step_count - 1];
  if (!braid_activation_read(node, &program->activation))
    return braid_fail(BRAID_INTERNAL, "an activation that was matched cannot be read");
  if (!program->activation.entry) return BRAID_OK;
  s->activated = activation_over(&program->memories[result].desc, result);
  if (unfused) s->unfused = braid_description_retain(unfused);
  return BRAID_OK;
}

braid_status braid_dnnl_copy(braid_dnnl *program, size_t from, size_t to, size_t bytes) {
  step *s = add_step(program);
  if (!s) return BRAID_NO_MEMORY;
  *s = (step){.kind = STEP_COPY, .from = from, .to = to, .bytes = bytes};
  program->step_count++;
  return BRAID_OK;
}

braid_status braid_dnnl_sum(braid_dnnl *program, int parts, size_t bytes, size_t count, int to) {
  step *s = add_step(program);
  if (!s) return BRAID_NO_MEMORY;
  *s = (step){.kind = STEP_SUM, .from = (size_t)parts, .to = (size_t)to, .bytes = bytes, .parts = count};
  program->step_count++;
  return BRAID_OK;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
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

/* Adds the parts to the first, one after another; the sum goes to `out`, which may be the first. */
static void run_sum(const step *s, const float *first, float *out) {
  const braid_span_entry *add = braid_spans_find("Add", BRAID_F32);
  int64_t stride = (int64_t)(s->bytes / sizeof(float)), pieces = (stride + kSumPiece - 1) / kSumPiece;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pieces; i++) {
    const float *part = first + i * kSumPiece;
    float *sum = out + i * kSumPiece;
    int64_t left = stride - i * kSumPiece;
    for (size_t p = 1; p < s->parts; p++)
      add->run(&(braid_span){.in = {p == 1 ? part : sum, part + (int64_t)p * stride},
                             .step = {1, 1},
                             .out = sum,
                             .count = left < kSumPiece ? left : kSumPiece});
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
static void clear_padding(const activated *a, int64_t image, float *x) {
  int64_t padded = (a->channels + 15) / 16 * 16, used = a->channels % 16;
  float *last = x + (image * padded + padded - 16) * a->places;
  for (int64_t p = 0; p < a->places; p++) memset(last + p * 16 + used, 0, (size_t)(16 - used) * sizeof *last);
}

/* `together`: by all threads. */
static void activate(const braid_dnnl *program, const activated *a, const braid_cpu_args *args, bool together) {
  float *x = address_of(&program->memories[a->memory], args);
#pragma omp parallel for schedule(static) if (together && a->count > kActivated)
  for (int64_t i = 0; i < a->rows * a->planes; i++) {
    int64_t at = i % a->rows * a->stride, left = a->end - at;
    braid_activation_run(&program->activation, x + i / a->rows * a->plane + at, left < a->length ? left : a->length);
  }
#pragma omp parallel for schedule(static) if (together && a->count > kActivated)
  for (int64_t i = 0; i < a->images; i++) clear_padding(a, i, x);
}

/* oneDNN's activations lose NaN (its Relu is max(x, 0), which takes the 0), but an x86 processor notes an invalid
 * operation when it compares NaN, or takes the larger of it and another, and keeps the note until it is cleared. */
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

/* Alone, a step may run in the caller's thread, whose note of an earlier operation stays. Of a team the notes are not
 * looked at before, but after: one that may be of other code costs a second run, whose notes are its own. */
static dnnl_status_t execute(const braid_dnnl *program, step *s, const braid_cpu_args *args, bool together) {
  bool noted = s->unfused && !together && fetestexcept(FE_INVALID) != 0;
  fexcept_t earlier;
  if (noted) (void)fegetexceptflag(&earlier, FE_INVALID);
  if (noted) (void)feclearexcept(FE_INVALID);
  dnnl_status_t status = DNNL(primitive_execute)(s->primitive, program->stream, s->count, s->args);
  bool invalid = s->unfused && take_invalid(together);
  if (invalid && together && status == dnnl_success) {
    status = DNNL(primitive_execute)(s->primitive, program->stream, s->count, s->args);
    invalid = take_invalid(together);
  }
  if (noted) (void)fesetexceptflag(&earlier, FE_INVALID);
  if (status != dnnl_success || s->activated.memory < 0 || (s->unfused && !invalid)) return status;
  if (s->unfused && !s->unfused_primitive)
    status = braid_description_make(s->unfused, s->group != 0, &s->unfused_primitive);
  if (s->unfused && status == dnnl_success)
    status = DNNL(primitive_execute)(s->unfused_primitive, program->stream, s->count, s->args);
  if (status == dnnl_success) activate(program, &s->activated, args, together);
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

static _Atomic uint64_t conversions, conversions_ns;

static void count_conversion(int64_t ns) {
  (void)atomic_fetch_add_explicit(&conversions, 1, memory_order_relaxed);
  (void)atomic_fetch_add_explicit(&conversions_ns, (uint64_t)ns, memory_order_relaxed);
}

uint64_t braid_dnnl_conversions(uint64_t *ns) {
  *ns = atomic_load_explicit(&conversions_ns, memory_order_relaxed);
  return atomic_load_explicit(&conversions, memory_order_relaxed);
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
      run_sum(s, address_of(&program->memories[s->from], args), address_of(&program->memories[s->to], args));
    } else if (s->group) {
      while (end < program->step_count && program->steps[end].group == s->group) end++;
      status = run_group(program, i, end, args);
    } else {
      int64_t begun_ns = s->converts ? braid_now_ns() : 0;
      status = execute(program, s, args, omp_get_max_threads() > 1);
      if (s->converts) count_conversion(braid_now_ns() - begun_ns);
    }
    if (status != dnnl_success) return braid_dnnl_status(status, "running a primitive");
  }
  return BRAID_OK;
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
