#include "backend/cpu/onednn/describe.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/onednn/differences.h"
#include "backend/cpu/spans/activation.h"
#include "base/try.h"

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

/* --- memory --------------------------------------------------------------------------------------------------------
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

/* What oneDNN has of layouts in blocks, by rank 3, 4, 5; of weights whose groups are a dimension of their own for it,
 * too. */
static dnnl_format_tag_t tag_of(braid_layout layout, int rank, bool grouped) {
  static const struct {
    braid_layout layout;
    dnnl_format_tag_t tags[3], grouped[3];
  } kTags[] = {
      {BRAID_LAYOUT_BLOCKED16, {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c}, {dnnl_format_tag_undef}},
      {BRAID_DNNL_16I16O,
       {dnnl_OIw16i16o, dnnl_OIhw16i16o, dnnl_OIdhw16i16o},
       {dnnl_gOIw16i16o, dnnl_gOIhw16i16o, dnnl_gOIdhw16i16o}},
      {BRAID_DNNL_16O16I,
       {dnnl_OIw16o16i, dnnl_OIhw16o16i, dnnl_OIdhw16o16i},
       {dnnl_gOIw16o16i, dnnl_gOIhw16o16i, dnnl_gOIdhw16o16i}},
      {BRAID_DNNL_8I8O,
       {dnnl_OIw8i8o, dnnl_OIhw8i8o, dnnl_OIdhw8i8o},
       {dnnl_gOIw8i8o, dnnl_gOIhw8i8o, dnnl_gOIdhw8i8o}},
      {BRAID_DNNL_8O8I,
       {dnnl_OIw8o8i, dnnl_OIhw8o8i, dnnl_OIdhw8o8i},
       {dnnl_gOIw8o8i, dnnl_gOIhw8o8i, dnnl_gOIdhw8o8i}},
      {BRAID_DNNL_I16O, {dnnl_Owi16o, dnnl_Ohwi16o, dnnl_Odhwi16o}, {dnnl_gOwi16o, dnnl_gOhwi16o, dnnl_gOdhwi16o}},
      {BRAID_DNNL_I8O, {dnnl_Owi8o, dnnl_Ohwi8o, dnnl_Odhwi8o}, {dnnl_gOwi8o, dnnl_gOhwi8o, dnnl_gOdhwi8o}},
      {BRAID_DNNL_16G, {dnnl_format_tag_undef}, {dnnl_Goiw16g, dnnl_Goihw16g, dnnl_Goidhw16g}},
      {BRAID_DNNL_8G, {dnnl_format_tag_undef}, {dnnl_Goiw8g, dnnl_Goihw8g, dnnl_format_tag_undef}},
  };
  for (size_t i = 0; rank >= 3 && rank <= 5 && i < sizeof kTags / sizeof *kTags; i++)
    if (kTags[i].layout == layout) return grouped ? kTags[i].grouped[rank - 3] : kTags[i].tags[rank - 3];
  return dnnl_format_tag_undef;
}

static braid_md md_cleared(braid_md_kind kind, int rank, const int64_t *dims, dnnl_data_type_t type) {
  braid_md md;
  memset(&md, 0, sizeof md); /* what lies between members too: it is compared */
  md.kind = kind, md.rank = rank, md.type = type;
  memcpy(md.dims, dims, (size_t)rank * sizeof *dims);
  return md;
}

braid_md braid_md_strided(int rank, const int64_t *dims, const int64_t *strides) {
  braid_md md = md_cleared(BRAID_MD_STRIDED, rank, dims, dnnl_f32);
  memcpy(md.strides, strides, (size_t)rank * sizeof *strides);
  return md;
}

braid_md braid_md_plain(int rank, const int64_t *dims) {
  braid_md md = md_cleared(BRAID_MD_STRIDED, rank, dims, dnnl_f32);
  int64_t stride = 1;
  for (int i = rank; i-- > 0;) {
    md.strides[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
  return md;
}

bool braid_md_of(const braid_desc *desc, braid_md *out) {
  dnnl_data_type_t type;
  int64_t one = 1;
  if (!data_type(desc->dtype, &type)) return false;
  if (desc->layout == BRAID_LAYOUT_PLAIN) {
    *out = braid_md_plain(desc->rank ? desc->rank : 1, desc->rank ? desc->dims : &one);
    out->type = type;
    return true;
  }
  if (!braid_layout_is_blocked(desc->layout)) {
    *out = braid_md_strided(desc->rank, desc->dims, braid_places_of(desc).stride);
    out->type = type;
    return true;
  }
  *out = md_cleared(BRAID_MD_TAGGED, desc->rank, desc->dims, type);
  out->tag = tag_of(desc->layout, desc->rank, false);
  return out->tag != dnnl_format_tag_undef;
}

/* Blocks of filters that end where groups do are the same memory with groups as a dimension of their own, and so are
 * blocks of groups where each has one filter and one channel. */
bool braid_md_of_groups(const braid_desc *desc, int64_t groups, braid_md *out) {
  int64_t dims[BRAID_MAX_RANK + 1] = {groups, desc->dims[0] / groups};
  memcpy(dims + 2, desc->dims + 1, (size_t)(desc->rank - 1) * sizeof *dims);
  if (desc->layout == BRAID_LAYOUT_PLAIN) {
    *out = braid_md_plain(desc->rank + 1, dims);
    return true;
  }
  bool depthwise = dims[1] == 1 && dims[2] == 1;
  braid_layout_parts parts = braid_layout_take_apart(desc->layout, desc->rank);
  for (int i = 0; i < parts.block_count; i++)
    if (parts.blocks[i].dim == 0 && !depthwise && dims[1] % parts.blocks[i].size != 0) return false;
  bool of_groups = desc->layout == BRAID_DNNL_16G || desc->layout == BRAID_DNNL_8G;
  *out = md_cleared(BRAID_MD_TAGGED, desc->rank + 1, dims, dnnl_f32);
  out->tag = of_groups == depthwise ? tag_of(desc->layout, desc->rank, true) : dnnl_format_tag_undef;
  return out->tag != dnnl_format_tag_undef;
}

braid_md braid_md_any(const braid_md *shape) {
  braid_md md = md_cleared(BRAID_MD_TAGGED, shape->rank, shape->dims, shape->type);
  md.tag = dnnl_format_tag_any;
  return md;
}

/* 0: oneDNN has no such memory. */
size_t braid_md_bytes(const braid_md *md) {
  made_md made;
  if (md_make(md, &made) != dnnl_success) return 0;
  size_t bytes = DNNL(memory_desc_get_size)(made.ref);
  md_drop(&made);
  return bytes;
}

bool braid_md_equal(const braid_md *a, const braid_md *b) {
  made_md made[2] = {{.made = false}};
  bool equal = md_make(a, &made[0]) == dnnl_success && md_make(b, &made[1]) == dnnl_success &&
               DNNL(memory_desc_equal)(made[0].ref, made[1].ref);
  md_drop(&made[0]), md_drop(&made[1]);
  return equal;
}

uint64_t braid_md_mix(uint64_t key, const braid_md *md) {
  made_md made;
  if (md_make(md, &made) != dnnl_success) return key;
  key = md_mix(key, made.ref);
  md_drop(&made);
  return key;
}

bool braid_md_pack_winograd(const braid_md *from, const braid_md *to, const float *data, float *out) {
  return from->rank == 4 && to->kind == BRAID_MD_CHOSEN &&
         pack_winograd(to->chosen, from->dims[0], from->dims[1], data, out);
}

dnnl_status_t braid_md_memory(const braid_md *md, void *data, dnnl_memory_t *out) {
  made_md made;
  dnnl_status_t status = md_make(md, &made);
  if (status == dnnl_success) status = DNNL(memory_create)(out, made.ref, engine, data);
  if (status != dnnl_success) *out = NULL;
  md_drop(&made);
  return status;
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */
void braid_dnnl_request_of(braid_dnnl_kind kind, braid_dnnl_request *out) {
  memset(out, 0, sizeof *out);
  out->kind = kind;
  out->scale = 1;
}

/* One or two of oneDNN's; 0: none, or (Gelu) one whose relative error is large where its results are small. */
static int activation_of(const braid_node_desc *node, braid_dnnl_eltwise out[BRAID_DNNL_ELTWISE]) {
  const char *name = braid_attr_string(node->attrs, "activation", "");
  braid_activation read;
  if (!braid_activation_read(node, &read) || !read.entry) return 0;
  float a = (float)read.params[0], b = (float)read.params[1];
  if (strcmp(name, "HardSigmoid") == 0) {
    out[0] = (braid_dnnl_eltwise){dnnl_eltwise_linear, a, b};
    out[1] = (braid_dnnl_eltwise){dnnl_eltwise_clip, 0, 1};
    return 2;
  }
  if (strcmp(name, "Relu") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_relu, 0, 0};
  else if (strcmp(name, "LeakyRelu") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_relu, a, 0};
  else if (strcmp(name, "Clip") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_clip, a, b};
  else if (strcmp(name, "Sigmoid") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_logistic, 0, 0};
  else if (strcmp(name, "Swish") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_swish, a, 0};
  else if (strcmp(name, "Tanh") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_tanh, 0, 0};
  /* ONNX's HardSwish is x * max(0, min(1, x / 6 + 0.5)), oneDNN's x * min(max(0, x + 3), 6) / 6: the same */
  else if (strcmp(name, "HardSwish") == 0)
    *out = (braid_dnnl_eltwise){dnnl_eltwise_hardswish, 0, 0};
  else
    return 0;
  return 1;
}

void braid_dnnl_fuse(const braid_node_desc *node, braid_dnnl_request *request) {
  request->eltwise_count = activation_of(node, request->eltwise);
}

#ifdef __x86_64__
static const bool kTellsInvalid = true;
#else
static const bool kTellsInvalid = false;
#endif

bool braid_dnnl_can_fuse(const braid_node_desc *node, bool sum) {
  braid_dnnl_eltwise eltwise[BRAID_DNNL_ELTWISE];
  return kTellsInvalid && !sum && activation_of(node, eltwise) > 0;
}

/* Scratchpad memory is the caller's. */
static dnnl_status_t attributes_of(const braid_dnnl_request *r, dnnl_primitive_attr_t *out) {
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = DNNL(primitive_attr_create)(out);
  if (status != dnnl_success) return status;
  status = DNNL(primitive_attr_set_scratchpad_mode)(*out, dnnl_scratchpad_mode_user);
  if (status == dnnl_success) status = DNNL(post_ops_create)(&ops);
  if (status == dnnl_success && r->scale != 1) status = set_scale(*out, ops, r->scale);
  if (status == dnnl_success && r->sum) status = append_sum(ops);
  for (int i = 0; i < r->eltwise_count && status == dnnl_success; i++) status = append_eltwise(ops, &r->eltwise[i]);
  if (status == dnnl_success) status = DNNL(primitive_attr_set_post_ops)(*out, ops);
  if (ops) DNNL(post_ops_destroy)(ops);
  if (status != dnnl_success) DNNL(primitive_attr_destroy)(*out);
  return status;
}

/* --- which implementation ------------------------------------------------------------------------------------------
 * Winograd's algorithm is in oneDNN twice: tiles handed out to the threads it was made for, in blocks that depend on
 * their number, or its three phases one after another by the threads that run it. It chooses the latter where threads
 * outnumber blocks. */
enum { kManyThreads = 1024 };

/* Not those that divide sums, or cut them into blocks by the number of threads: products (gemm) and what stands on
 * them. */
static bool divides_outputs(const char *name) {
  return strncmp(name, "jit", 3) == 0 && !strstr(name, "wino_2x3");
}

static bool is_reference(const char *name) {
  return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") || strstr(name, "+ref");
}

static const char *name_of(dnnl_primitive_desc_t primitive_desc) {
  const char *name = NULL;
  bool known = DNNL(primitive_desc_query)(primitive_desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name;
  return known ? name : "ref";
}

static int threads_of(dnnl_primitive_desc_t primitive_desc) {
  return strstr(name_of(primitive_desc), "wino_4x3") ? kManyThreads : omp_get_max_threads();
}

int64_t braid_dnnl_pieces_of(int64_t batch, int64_t most) {
  int64_t pieces = batch < most ? batch : most;
  while (batch % pieces != 0) pieces--;
  return pieces;
}

static bool is_fast(dnnl_primitive_desc_t implementation, const void *context) {
  (void)context;
  return !is_reference(name_of(implementation));
}

static bool is_whole(dnnl_primitive_desc_t implementation, const void *context) {
  const char *name = name_of(implementation);
  (void)context;
  return !is_reference(name) && divides_outputs(name);
}

static bool is_named(dnnl_primitive_desc_t implementation, const void *context) {
  return strcmp(name_of(implementation), context) == 0;
}

typedef struct search {
  const braid_dnnl_request *request;
  made_md x, w, b, y;
  dnnl_primitive_attr_t attr;
} search;

static void search_end(search *s) {
  if (s->attr) DNNL(primitive_attr_destroy)(s->attr);
  md_drop(&s->x), md_drop(&s->w), md_drop(&s->b), md_drop(&s->y);
}

static dnnl_status_t search_begin(const braid_dnnl_request *request, search *s) {
  *s = (search){.request = request};
  dnnl_status_t status = attributes_of(request, &s->attr);
  if (status != dnnl_success) s->attr = NULL;
  if (status == dnnl_success) status = md_make(&request->x, &s->x);
  if (status == dnnl_success && request->w.rank) status = md_make(&request->w, &s->w);
  if (status == dnnl_success && request->b.rank) status = md_make(&request->b, &s->b);
  if (status == dnnl_success) status = md_make(&request->y, &s->y);
  if (status != dnnl_success) search_end(s);
  return status;
}

/* The first implementation that is accepted, of those there are for so many threads. */
static dnnl_status_t description_find(const search *s, int threads, braid_dnnl_accepts *accepts, const void *context,
                                      dnnl_primitive_desc_t *out) {
  int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  dnnl_status_t status = find_implementation(s->request, s->x.ref, s->w.ref, s->b.ref, s->y.ref, s->attr,
                                             braid_dnnl_engine(), accepts, context, out);
  omp_set_num_threads(before);
  return status;
}

static dnnl_status_t find_whole(const search *s, dnnl_primitive_desc_t *out, bool *pieces) {
  dnnl_primitive_desc_t single;
  *pieces = false;
  dnnl_status_t status = description_find(s, 1, is_whole, NULL, &single);
  if (status == dnnl_success) {
    status = description_find(s, threads_of(single), is_named, name_of(single), out);
    DNNL(primitive_desc_destroy)(single);
  }
  if (status == dnnl_success || status == dnnl_out_of_memory) return status;
  *pieces = true;
  return description_find(s, 1, is_fast, NULL, out);
}

/* --- descriptions --------------------------------------------------------------------------------------------------
 */
typedef enum search_kind { SEARCH_SINGLE, SEARCH_WHOLE, SEARCH_REORDER } search_kind;

struct braid_description {
  atomic_int references;
  braid_description *next; /* in its bucket */
  uint64_t hash;
  braid_dnnl_request request;
  search_kind kind;
  int threads;               /* that there were; 0 for SINGLE */
  dnnl_primitive_desc_t own; /* NULL: there is none, because of `status` */
  dnnl_status_t status;
  bool pieces;
};

static atomic_uint_least64_t made_count;

uint64_t braid_descriptions_made(void) {
  return atomic_load(&made_count);
}

static braid_description *description_make(const braid_dnnl_request *request, search_kind kind, int threads,
                                           uint64_t hash) {
  braid_description *d = braid_zalloc(NULL, sizeof *d);
  if (!d) return NULL;
  atomic_init(&d->references, 1);
  d->hash = hash, d->request = *request, d->kind = kind, d->threads = threads;
  atomic_fetch_add(&made_count, 1);
  search s;
  d->status = search_begin(request, &s);
  if (d->status != dnnl_success) return d;
  if (kind == SEARCH_REORDER)
    d->status = DNNL(reorder_primitive_desc_create)(&d->own, s.x.ref, engine, s.y.ref, engine, s.attr);
  else if (kind == SEARCH_WHOLE)
    d->status = find_whole(&s, &d->own, &d->pieces);
  else
    d->status = description_find(&s, 1, is_fast, NULL, &d->own);
  if (d->status != dnnl_success) d->own = NULL;
  search_end(&s);
  return d;
}

braid_description *braid_description_retain(const braid_description *description) {
  braid_description *d = (braid_description *)description;
  atomic_fetch_add_explicit(&d->references, 1, memory_order_relaxed);
  return d;
}

void braid_description_release(braid_description *d) {
  if (!d || atomic_fetch_sub_explicit(&d->references, 1, memory_order_acq_rel) != 1) return;
  if (d->own) DNNL(primitive_desc_destroy)(d->own);
  braid_free(NULL, d);
}

/* Those that were asked for lately: a few in each bucket, the latest first. */
enum { kBuckets = 128, kPerBucket = 8 };

static struct {
  pthread_mutex_t lock;
  size_t users;
  braid_description *buckets[kBuckets];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Cuts a bucket to its first `count`. */
static void trim(braid_description **link, size_t count) {
  for (; *link && count > 0; count--) link = &(*link)->next;
  for (braid_description *d = *link, *next; d; d = next) {
    next = d->next;
    braid_description_release(d);
  }
  *link = NULL;
}

void braid_descriptions_enter(void) {
  pthread_mutex_lock(&kept.lock);
  kept.users++;
  pthread_mutex_unlock(&kept.lock);
}

void braid_descriptions_leave(void) {
  pthread_mutex_lock(&kept.lock);
  if (--kept.users == 0)
    for (size_t i = 0; i < kBuckets; i++) trim(&kept.buckets[i], 0);
  pthread_mutex_unlock(&kept.lock);
}

static braid_description *find_kept(const braid_dnnl_request *request, search_kind kind, int threads, uint64_t hash) {
  braid_description **first = &kept.buckets[hash % kBuckets], *found = NULL;
  pthread_mutex_lock(&kept.lock);
  for (braid_description **link = first; *link && !found; link = &(*link)->next) {
    braid_description *d = *link;
    if (d->hash != hash || d->kind != kind || d->threads != threads) continue;
    if (memcmp(&d->request, request, sizeof *request) != 0) continue;
    *link = d->next, d->next = *first, *first = d;
    found = braid_description_retain(d);
    break;
  }
  pthread_mutex_unlock(&kept.lock);
  return found;
}

/* Two threads may have made the same: one of them is never found again. */
static void keep(braid_description *d) {
  braid_description **first = &kept.buckets[d->hash % kBuckets];
  pthread_mutex_lock(&kept.lock);
  if (kept.users) {
    d->next = *first, *first = braid_description_retain(d);
    trim(first, kPerBucket);
  }
  pthread_mutex_unlock(&kept.lock);
}

/* In words, not bytes: a request is some 2 KiB, most of it zero. */
static uint64_t hash_of(const braid_dnnl_request *request, search_kind kind, int threads) {
  uint64_t hash = 14695981039346656037u ^ (uint64_t)kind << 32 ^ (uint64_t)threads, word;
  _Static_assert(sizeof *request % sizeof word == 0, "a request is hashed in words");
  for (size_t i = 0; i < sizeof *request; i += sizeof word) {
    memcpy(&word, (const char *)request + i, sizeof word);
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

/* Memory that oneDNN has chosen is told by an address, which another may have later: not kept. */
static bool may_keep(const braid_dnnl_request *r) {
  return r->x.kind != BRAID_MD_CHOSEN && r->w.kind != BRAID_MD_CHOSEN && r->y.kind != BRAID_MD_CHOSEN;
}

static braid_status description_get(const braid_dnnl_request *request, search_kind kind, braid_description **out,
                                    bool *pieces) {
  *out = NULL;
  if (!braid_dnnl_engine()) return braid_fail(BRAID_UNSUPPORTED, "oneDNN has no engine for this CPU");
  int threads = kind == SEARCH_SINGLE ? 0 : omp_get_max_threads();
  uint64_t hash = hash_of(request, kind, threads);
  braid_description *d = find_kept(request, kind, threads, hash);
  if (!d) {
    d = description_make(request, kind, threads, hash);
    if (!d) return BRAID_NO_MEMORY;
    if (may_keep(request) && d->status != dnnl_out_of_memory) keep(d);
  }
  *pieces = d->pieces;
  if (d->status == dnnl_success) {
    *out = d;
    return BRAID_OK;
  }
  /* what oneDNN calls invalid is, of what we ask, what it has not */
  bool lacks = d->status == dnnl_unimplemented || d->status == dnnl_invalid_arguments;
  braid_status status = braid_dnnl_status(lacks ? dnnl_unimplemented : d->status, "a primitive's description");
  braid_description_release(d);
  return status;
}

braid_status braid_describe_single(const braid_dnnl_request *request, braid_description **out) {
  bool pieces;
  return description_get(request, SEARCH_SINGLE, out, &pieces);
}

braid_status braid_describe_whole(const braid_dnnl_request *request, braid_description **out, bool *pieces) {
  return description_get(request, SEARCH_WHOLE, out, pieces);
}

braid_status braid_describe_reorder(const braid_md *from, const braid_md *to, braid_description **out) {
  braid_dnnl_request request;
  bool pieces;
  braid_dnnl_request_of(BRAID_DNNL_REORDER, &request);
  request.x = *from;
  request.y = *to;
  return description_get(&request, SEARCH_REORDER, out, &pieces);
}

braid_md braid_description_md(const braid_description *description, dnnl_query_t which) {
  braid_md md;
  memset(&md, 0, sizeof md);
  md.kind = BRAID_MD_CHOSEN;
  md.chosen = DNNL(primitive_desc_query_md)(description->own, which, 0);
  return md;
}

static bool same(const braid_description *a, const braid_description *b, dnnl_query_t what) {
  return DNNL(memory_desc_equal)(DNNL(primitive_desc_query_md)(a->own, what, 0),
                                 DNNL(primitive_desc_query_md)(b->own, what, 0));
}

bool braid_description_interchangeable(const braid_description *a, const braid_description *b) {
  return same(a, b, dnnl_query_weights_md) && same(a, b, dnnl_query_scratchpad_md) &&
         strcmp(name_of(a->own), name_of(b->own)) == 0;
}

bool braid_description_multiplies(const braid_description *convolution) {
  return strstr(name_of(convolution->own), "gemm") != NULL;
}

dnnl_status_t braid_description_make(const braid_description *description, bool single, dnnl_primitive_t *out) {
  int before = omp_get_max_threads();
  omp_set_num_threads(single ? 1 : threads_of(description->own)); /* also the key of oneDNN's cache */
  dnnl_status_t status = DNNL(primitive_create)(out, description->own);
  omp_set_num_threads(before);
  return status;
}
