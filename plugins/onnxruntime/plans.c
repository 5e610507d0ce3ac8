#include "plans.h"

#include <pthread.h>
#include <string.h>

#include "braid/allocator.h"
#include "probe.h"
#include "try.h"

typedef struct plans_input {
  int rank; /* -1: any, up to BRAID_MAX_RANK */
  braid_dtype dtype;
  bool may_bind; /* a number or a short list; dimensions may be open */
  bool bound;    /* its contents determine shapes: it is a constant of every plan */
} plans_input;

struct braid_ort_plans {
  braid_ort_plans_options options;
  braid_graph *graph; /* NULL once the only plan is made */
  plans_input *inputs;
  size_t input_count, output_count, key_capacity;
  bool bound_known; /* which inputs are bound: from the first plan on. Written under `build` and `lock` */

  pthread_mutex_t build; /* one plan is made at a time; before `lock` */
  pthread_mutex_t lock;  /* of what follows */
  braid_ort_plan *list;
  size_t count;
  braid_ort_call *calls; /* that nobody uses */
};

/* --- calls --- */

static size_t align16(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

static braid_status call_create(const braid_ort_plans *plans, braid_ort_call **out) {
  size_t pointers = align16((plans->input_count + 1) * sizeof(void *));
  size_t ranks = align16((plans->input_count + 1) * sizeof(size_t));
  size_t outputs = align16((plans->output_count + 1) * sizeof(void *));
  size_t head = align16(sizeof(braid_ort_call));
  unsigned char *memory = braid_zalloc(NULL, head + 3 * pointers + outputs + ranks + plans->key_capacity);
  if (!memory) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a run");
  braid_ort_call *call = (void *)memory;
  call->inputs = (void *)(memory + head);
  call->left = (void *)(memory + head + pointers);
  call->dims = (void *)(memory + head + 2 * pointers);
  call->outputs = (void *)(memory + head + 3 * pointers);
  call->ranks = (void *)(memory + head + 3 * pointers + outputs);
  call->key = memory + head + 3 * pointers + outputs + ranks;
  *out = call;
  return BRAID_OK;
}

braid_status braid_ort_plans_call(braid_ort_plans *plans, braid_ort_call **out) {
  pthread_mutex_lock(&plans->lock);
  *out = plans->calls;
  if (*out) plans->calls = (*out)->next;
  pthread_mutex_unlock(&plans->lock);
  return *out ? BRAID_OK : call_create(plans, out);
}

/* Of any type: what another group has computed from shapes is an input of this one. */
static bool input_may_bind(braid_dtype dtype, int rank, const int64_t *dims) {
  size_t size = braid_dtype_size(dtype);
  return size && (rank <= 0 || (rank == 1 && dims[0] <= (int64_t)(BRAID_ORT_CONTENTS / size)));
}

static size_t input_bytes(const plans_input *input, size_t rank, const int64_t *dims) {
  size_t bytes = braid_dtype_size(input->dtype);
  for (size_t i = 0; i < rank; i++) bytes *= (size_t)dims[i];
  return bytes;
}

static braid_status call_key(const braid_ort_plans *plans, braid_ort_call *call) {
  unsigned char *at = call->key;
  size_t left = 0;
  for (size_t i = 0; i < plans->input_count; i++) {
    size_t bytes = call->ranks[i] * sizeof(int64_t);
    if (plans->inputs[i].rank < 0) {
      memcpy(at, &call->ranks[i], sizeof *call->ranks);
      at += sizeof *call->ranks;
    }
    if (bytes) memcpy(at, call->dims[i], bytes);
    at += bytes;
    if (!plans->inputs[i].bound) call->left[left++] = call->inputs[i];
  }
  for (size_t i = 0; i < plans->input_count; i++) {
    const plans_input *input = &plans->inputs[i];
    if (!input->bound) continue;
    size_t bytes = input_bytes(input, call->ranks[i], call->dims[i]);
    if (bytes > BRAID_ORT_CONTENTS)
      return braid_fail(BRAID_UNSUPPORTED,
                        "shapes follow from the contents of input %zu, which has %zu bytes: at most %zu", i, bytes,
                        (size_t)BRAID_ORT_CONTENTS);
    memcpy(at, call->inputs[i], bytes);
    at += bytes;
  }
  call->key_bytes = (size_t)(at - call->key);
  return BRAID_OK;
}

/* --- plans --- */

static void plan_destroy(braid_ort_plan *entry) {
  if (!entry) return;
  for (size_t i = 0; i < entry->idle_count; i++) braid_execution_destroy(entry->idle[i]);
  braid_free(NULL, entry->idle);
  braid_plan_release(entry->plan);
  braid_free(NULL, entry->key);
  braid_free(NULL, entry);
}

/* Gives a copy of the group's graph the shapes of the call, and the contents of the inputs that `bound` names. */
static braid_status graph_give(const braid_ort_plans *plans, braid_graph *graph, const braid_ort_call *call,
                               const bool *bound) {
  for (size_t i = 0, at = 0; i < plans->input_count; i++) {
    const plans_input *input = &plans->inputs[i];
    braid_value_id value = braid_graph_input(graph, at);
    if (!bound[i]) {
      TRY(braid_graph_set_input_shape(graph, value, (int)call->ranks[i], call->dims[i]));
      at++;
      continue;
    }
    braid_desc desc;
    braid_tensor *tensor = NULL;
    TRY(braid_desc_init(&desc, input->dtype, (int)call->ranks[i], call->dims[i]));
    TRY(braid_tensor_create(NULL, &desc, &tensor));
    memcpy(braid_tensor_data(tensor), call->inputs[i], braid_desc_bytes(&desc));
    braid_status status = braid_graph_bind_input(graph, value, tensor);
    braid_tensor_release(tensor);
    TRY(status);
  }
  return BRAID_OK;
}

static braid_status plan_attempt(const braid_ort_plans *plans, const braid_ort_call *call, const bool *bound,
                                 braid_plan **out) {
  braid_graph *graph = NULL;
  *out = NULL;
  TRY(braid_graph_clone(plans->graph, &graph));
  braid_status status = call ? graph_give(plans, graph, call, bound) : BRAID_OK;
  if (status == BRAID_OK) status = braid_plan_create(plans->options.machine, graph, &plans->options.plan, out);
  braid_graph_destroy(graph);
  return status;
}

static bool plan_refused(braid_status status) {
  return status != BRAID_OK && status != BRAID_NO_MEMORY && status != BRAID_DEVICE_LOST;
}

/* Binds all inputs that may be bound, then takes back those that it works without. */
static braid_status plan_bind(const braid_ort_plans *plans, const braid_ort_call *call, bool *bound, braid_plan **out) {
  for (size_t i = 0; i < plans->input_count; i++)
    bound[i] = input_may_bind(plans->inputs[i].dtype, (int)call->ranks[i], call->dims[i]);
  TRY(plan_attempt(plans, call, bound, out));
  for (size_t i = 0; i < plans->input_count; i++) {
    braid_plan *plan = NULL;
    if (!bound[i]) continue;
    bound[i] = false;
    braid_status status = plan_attempt(plans, call, bound, &plan);
    bound[i] = status != BRAID_OK;
    if (plan_refused(status)) continue;
    braid_plan_release(*out);
    *out = plan;
    TRY(status); /* memory or the device ended: that says nothing of the input */
  }
  return BRAID_OK;
}

static bool plans_may_bind(const braid_ort_plans *plans) {
  bool may = false;
  for (size_t i = 0; i < plans->input_count; i++) may = may || plans->inputs[i].may_bind;
  return may;
}

/* The first plan finds out which inputs are bound; `call` NULL: all shapes are known. */
static braid_status plan_first(braid_ort_plans *plans, const braid_ort_call *call, braid_plan **out) {
  bool *bound = braid_zalloc_array(NULL, plans->input_count + 1, sizeof *bound);
  if (!bound) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a plan");
  braid_status status = plan_attempt(plans, call, bound, out);
  /* If that fails too, it says what is wrong with the contents; without them, only that they must be known. */
  if (plan_refused(status) && call && plans_may_bind(plans)) status = plan_bind(plans, call, bound, out);
  if (status == BRAID_OK) {
    pthread_mutex_lock(&plans->lock);
    for (size_t i = 0; i < plans->input_count; i++) plans->inputs[i].bound = bound[i];
    plans->bound_known = true;
    pthread_mutex_unlock(&plans->lock);
  }
  braid_free(NULL, bound);
  return status;
}

/* --- the list --- */

/* With `lock` held. The entry becomes the first of the list and gets a user. */
static braid_ort_plan *list_find(braid_ort_plans *plans, const braid_ort_call *call) {
  for (braid_ort_plan **link = &plans->list; *link; link = &(*link)->next) {
    braid_ort_plan *entry = *link;
    if (entry->key_bytes != call->key_bytes || memcmp(entry->key, call->key, call->key_bytes) != 0) continue;
    *link = entry->next;
    entry->next = plans->list;
    plans->list = entry;
    entry->users++;
    return entry;
  }
  return NULL;
}

/* With `lock` held. Returns the entries that nobody uses any more. */
static braid_ort_plan *list_trim(braid_ort_plans *plans) {
  braid_ort_plan *gone = NULL;
  size_t seen = 0;
  for (braid_ort_plan **link = &plans->list; *link;) {
    braid_ort_plan *entry = *link;
    if (++seen <= plans->options.limit) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    plans->count--;
    entry->kept = false;
    entry->next = NULL;
    if (entry->users) continue; /* its last user destroys it */
    entry->next = gone;
    gone = entry;
  }
  return gone;
}

static braid_status plan_add(braid_ort_plans *plans, const braid_ort_call *call, braid_plan *plan,
                             braid_ort_plan **out) {
  braid_ort_plan *entry = braid_zalloc(NULL, sizeof *entry);
  unsigned char *key = braid_alloc(NULL, call->key_bytes);
  if (!entry || !key) {
    braid_free(NULL, entry);
    braid_free(NULL, key);
    return braid_fail(BRAID_NO_MEMORY, "there is no memory for a plan");
  }
  memcpy(key, call->key, call->key_bytes);
  *entry = (braid_ort_plan){.key = key, .key_bytes = call->key_bytes, .users = 1, .kept = true};
  entry->plan = braid_plan_retain(plan);
  pthread_mutex_lock(&plans->lock);
  entry->next = plans->list;
  plans->list = entry;
  plans->count++;
  braid_ort_plan *gone = list_trim(plans);
  pthread_mutex_unlock(&plans->lock);
  while (gone) {
    braid_ort_plan *next = gone->next;
    plan_destroy(gone);
    gone = next;
  }
  *out = entry;
  return BRAID_OK;
}

/* With `build` held. */
static braid_status plan_make(braid_ort_plans *plans, braid_ort_call *call, braid_ort_plan **out) {
  if (plans->bound_known) { /* another caller may have made it meanwhile */
    TRY(call_key(plans, call));
    pthread_mutex_lock(&plans->lock);
    *out = list_find(plans, call);
    pthread_mutex_unlock(&plans->lock);
    if (*out) return BRAID_OK;
  }
  if (!plans->graph) return braid_fail(BRAID_INVALID_ARGUMENT, "an input has another shape than the model declares");
  braid_plan *plan = NULL;
  if (plans->bound_known) {
    bool *bound = braid_zalloc_array(NULL, plans->input_count + 1, sizeof *bound);
    if (!bound) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a plan");
    for (size_t i = 0; i < plans->input_count; i++) bound[i] = plans->inputs[i].bound;
    braid_status status = plan_attempt(plans, call, bound, &plan);
    braid_free(NULL, bound);
    TRY(status);
  } else {
    TRY(plan_first(plans, call, &plan));
  }
  braid_status status = call_key(plans, call);
  if (status == BRAID_OK) status = plan_add(plans, call, plan, out);
  braid_plan_release(plan);
  return status;
}

braid_status braid_ort_plans_take(braid_ort_plans *plans, braid_ort_call *call, braid_ort_plan **plan,
                                  braid_execution **execution) {
  *plan = NULL;
  *execution = NULL;
  pthread_mutex_lock(&plans->lock);
  braid_status status = BRAID_OK;
  if (plans->bound_known) {
    status = call_key(plans, call);
    if (status == BRAID_OK) *plan = list_find(plans, call);
  }
  if (*plan && (*plan)->idle_count) *execution = (*plan)->idle[--(*plan)->idle_count];
  pthread_mutex_unlock(&plans->lock);
  if (*execution || status != BRAID_OK) return status;
  if (!*plan) {
    pthread_mutex_lock(&plans->build);
    status = plan_make(plans, call, plan);
    pthread_mutex_unlock(&plans->build);
  }
  return status == BRAID_OK ? braid_execution_create((*plan)->plan, plans->options.weights, execution) : status;
}

/* With `lock` held. False: there is no memory to keep it. */
static bool idle_keep(braid_ort_plan *plan, braid_execution *execution) {
  if (plan->idle_count == plan->idle_capacity) {
    size_t capacity = plan->idle_capacity * 2 + 4;
    braid_execution **grown = braid_zalloc_array(NULL, capacity, sizeof *grown);
    if (!grown) return false;
    if (plan->idle_count) memcpy(grown, plan->idle, plan->idle_count * sizeof *grown);
    braid_free(NULL, plan->idle);
    plan->idle = grown;
    plan->idle_capacity = capacity;
  }
  plan->idle[plan->idle_count++] = execution;
  return true;
}

void braid_ort_plans_give(braid_ort_plans *plans, braid_ort_call *call, braid_ort_plan *plan,
                          braid_execution *execution) {
  bool last = false;
  pthread_mutex_lock(&plans->lock);
  if (plan) {
    if (execution && idle_keep(plan, execution)) execution = NULL;
    last = --plan->users == 0 && !plan->kept;
  }
  call->next = plans->calls;
  plans->calls = call;
  pthread_mutex_unlock(&plans->lock);
  braid_execution_destroy(execution);
  if (last) plan_destroy(plan);
}

/* --- create, settle, destroy --- */

static void plans_read_inputs(braid_ort_plans *plans) {
  for (size_t i = 0; i < plans->input_count; i++) {
    braid_desc desc = braid_graph_value(plans->graph, braid_graph_input(plans->graph, i)).desc;
    plans_input *input = &plans->inputs[i];
    *input = (plans_input){.rank = desc.rank, .dtype = desc.dtype};
    input->may_bind = input_may_bind(desc.dtype, desc.rank, desc.dims);
    plans->key_capacity += (desc.rank < 0 ? 1 + BRAID_MAX_RANK : (size_t)desc.rank) * sizeof(int64_t);
    if (input->may_bind) plans->key_capacity += BRAID_ORT_CONTENTS;
  }
}

braid_status braid_ort_plans_create(const braid_ort_plans_options *options, braid_graph *graph, braid_ort_plans **out) {
  *out = NULL;
  braid_ort_plans *plans = braid_zalloc(NULL, sizeof *plans);
  plans_input *inputs = braid_zalloc_array(NULL, braid_graph_input_count(graph) + 1, sizeof *inputs);
  if (!plans || !inputs) {
    braid_free(NULL, plans);
    braid_free(NULL, inputs);
    braid_graph_destroy(graph);
    return braid_fail(BRAID_NO_MEMORY, "there is no memory for a group's plans");
  }
  plans->options = *options;
  plans->graph = graph;
  plans->inputs = inputs;
  plans->input_count = braid_graph_input_count(graph);
  plans->output_count = braid_graph_output_count(graph);
  plans->key_capacity = 16;
  plans_read_inputs(plans);
  pthread_mutex_init(&plans->build, NULL);
  pthread_mutex_init(&plans->lock, NULL);
  *out = plans;
  return BRAID_OK;
}

void braid_ort_plans_destroy(braid_ort_plans *plans) {
  if (!plans) return;
  while (plans->list) {
    braid_ort_plan *next = plans->list->next;
    plan_destroy(plans->list);
    plans->list = next;
  }
  while (plans->calls) {
    braid_ort_call *next = plans->calls->next;
    braid_free(NULL, plans->calls);
    plans->calls = next;
  }
  pthread_mutex_destroy(&plans->build);
  pthread_mutex_destroy(&plans->lock);
  braid_graph_destroy(plans->graph);
  braid_free(NULL, plans->inputs);
  braid_free(NULL, plans);
}

static braid_status plans_settle(braid_ort_plans *plans, braid_ort_call *call, braid_desc *descs, bool only) {
  for (size_t i = 0; i < plans->input_count; i++) {
    descs[i] = braid_graph_value(plans->graph, braid_graph_input(plans->graph, i)).desc;
    call->dims[i] = descs[i].dims;
    call->ranks[i] = (size_t)descs[i].rank;
  }
  braid_plan *plan = NULL;
  braid_ort_plan *entry = NULL;
  braid_execution *execution = NULL;
  braid_status status = plan_first(plans, NULL, &plan);
  if (plan_refused(status) && (plans_may_bind(plans) || !only)) {
    braid_ort_plans_give(plans, call, NULL, NULL);
    return BRAID_OK;
  }
  if (status == BRAID_OK) status = call_key(plans, call);
  if (status == BRAID_OK) status = plan_add(plans, call, plan, &entry);
  if (status == BRAID_OK) status = braid_execution_create(plan, plans->options.weights, &execution);
  if (status == BRAID_OK && only) {
    braid_graph_destroy(plans->graph);
    plans->graph = NULL;
    braid_plan_drop_data(plan);
  }
  braid_plan_release(plan);
  braid_ort_plans_give(plans, call, entry, execution);
  return status;
}

braid_status braid_ort_plans_settle(braid_ort_plans *plans, bool only) {
  braid_ort_call *call = NULL;
  braid_desc *descs = braid_zalloc_array(NULL, plans->input_count + 1, sizeof *descs);
  if (!descs) return braid_fail(BRAID_NO_MEMORY, "there is no memory for a plan");
  braid_status status = braid_ort_plans_call(plans, &call);
  if (status == BRAID_OK) status = plans_settle(plans, call, descs, only);
  braid_free(NULL, descs);
  return status;
}

size_t braid_ort_plans_input_count(const braid_ort_plans *plans) {
  return plans->input_count;
}

int braid_ort_plans_input_rank(const braid_ort_plans *plans, size_t index) {
  return plans->inputs[index].rank;
}
