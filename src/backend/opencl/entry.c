/* A manifest's kernel for one node: does it fit, and what to launch. Operands that it wants in another order or size
 * are copied into the workspace before its launches, and out of it behind them. */
#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backend/opencl/manifest.h"
#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "launch/formula.h"
#include "launch/move.h"

/* --- matching ------------------------------------------------------------------------------------------------------
 */
static bool match_types(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->input_count + node->output_count; i++) {
    bool input = i < node->input_count;
    const braid_operand *operand = input ? &node->inputs[i] : &node->outputs[i - node->input_count];
    const char *wanted = !entry->types_count ? "float32" : i < entry->types_count ? entry->types[i] : NULL;
    if (!operand->present) continue;
    if (!wanted) return braid_launch_refuse(why, why_bytes, "more than %u operands", entry->types_count);
    if (strcmp(wanted, braid_dtype_name(operand->desc.dtype)) != 0)
      return braid_launch_refuse(why, why_bytes, "operand %zu is %s, not %s", i, braid_dtype_name(operand->desc.dtype),
                                 wanted);
  }
  return true;
}

bool braid_cl_entry_gives(const braid_cl_entry *entry, size_t output) {
  for (unsigned i = 0; i < entry->launches_count; i++)
    for (unsigned k = 0; k < entry->launches[i].arguments_count; k++) {
      const int64_t *out = entry->launches[i].arguments[k].out;
      if (out && *out == (int64_t)output) return true;
    }
  return false;
}

/* What no launch writes would be whatever lies in memory. */
static bool match_outputs(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && !braid_cl_entry_gives(entry, i))
      return braid_launch_refuse(why, why_bytes, "no launch takes out: %zu, which the node has", i);
  return true;
}

/* A formula without a value is likelier a mistake than a condition, and the kernel is passed over: said once. */
static braid_status value_of(const braid_cl_entry *entry, const braid_node_desc *node, const char *formula,
                             int64_t *out) {
  braid_status status = braid_launch_formula(formula, node, out);
  if (status == BRAID_OUT_OF_RANGE && !atomic_exchange(entry->warned, true))
    braid_log_write(BRAID_LOG_WARNING, "the manifest's kernel %s is passed over for node %.120s: %s", entry->name,
                    node->name ? node->name : node->op, braid_error_detail());
  return status;
}

bool braid_cl_entry_match(const braid_cl_entry *entry, const braid_node_desc *node, char *why, size_t why_bytes) {
  if (!match_types(entry, node, why, why_bytes) || !match_outputs(entry, node, why, why_bytes)) return false;
  for (unsigned i = 0; i < entry->when_count; i++) {
    int64_t holds;
    if (value_of(entry, node, entry->when[i], &holds) != BRAID_OK)
      return braid_launch_refuse(why, why_bytes, "%.150s", braid_error_detail());
    if (!holds) return braid_launch_refuse(why, why_bytes, "not %.100s", entry->when[i]);
  }
  return true;
}

/* --- operands ------------------------------------------------------------------------------------------------------
 */
enum { kStaged = 16, kWorkspaces = 16 };

/* An operand as the kernel wants it: a piece of the workspace. */
typedef struct staged {
  bool input;
  size_t index;
  int rank;
  int64_t order[BRAID_MAX_RANK], shape[BRAID_MAX_RANK]; /* position to the operand's axis, and its size */
  braid_launch_piece piece;
} staged;

/* A piece of the workspace that launches share by its name; as large as the largest that they ask for. */
typedef struct shared_piece {
  const char *name;
  int64_t bytes;
  braid_launch_piece piece;
} shared_piece;

typedef struct planning {
  const braid_cl_entry *entry;
  const braid_node_desc *node;
  braid_launch_planner planner;
  staged staged[kStaged];
  size_t staged_count;
  shared_piece shared[kWorkspaces];
  size_t shared_count;
} planning;

static const braid_operand *operand_of(const planning *p, const braid_cl_entry_argument *a) {
  size_t index = (size_t)(a->in ? *a->in : *a->out);
  size_t count = a->in ? p->node->input_count : p->node->output_count;
  const braid_operand *operands = a->in ? p->node->inputs : p->node->outputs;
  return index < count && operands[index].present ? &operands[index] : NULL;
}

static braid_status evaluate_formula(const planning *p, const char *formula, int64_t least, int64_t most,
                                     int64_t *out) {
  BRAID_TRY(value_of(p->entry, p->node, formula, out));
  if (*out >= least && *out <= most) return BRAID_OK;
  return braid_fail(BRAID_OUT_OF_RANGE, "\"%.100s\" is %lld, expected %lld to %lld", formula, (long long)*out,
                    (long long)least, (long long)most);
}

static bool is_staged(const braid_cl_entry_argument *a) {
  return (a->in || a->out) && (a->order_count || a->shape_count);
}

/* Evaluates order and shape. An axis may grow, never shrink. */
static braid_status describe_staged(const planning *p, const braid_cl_entry_argument *a, staged *s) {
  const braid_operand *operand = operand_of(p, a);
  unsigned rank = a->order_count ? a->order_count : a->shape_count;
  *s = (staged){.input = a->in != NULL, .index = (size_t)(a->in ? *a->in : *a->out), .rank = (int)rank};
  if (!operand) return braid_fail(BRAID_OUT_OF_RANGE, "order or shape of an operand that the node has not");
  if (operand->desc.rank != (int)rank)
    return braid_fail(BRAID_OUT_OF_RANGE, "order or shape of %u axes for an operand of %d", rank, operand->desc.rank);
  for (unsigned i = 0; i < rank; i++) {
    s->order[i] = a->order_count ? a->order[i] : i;
    int64_t size = operand->desc.dims[s->order[i]];
    s->shape[i] = size;
    if (a->shape_count) BRAID_TRY(evaluate_formula(p, a->shape[i], size, INT32_MAX, &s->shape[i]));
  }
  return BRAID_OK;
}

static bool same_staged(const staged *a, const staged *b) {
  return a->input == b->input && a->index == b->index && a->rank == b->rank &&
         memcmp(a->order, b->order, sizeof a->order) == 0 && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

/* The piece for an argument, made once for all arguments that want the same. */
static braid_status stage_operand(planning *p, const braid_cl_entry_argument *a, const staged **out) {
  staged wanted;
  BRAID_TRY(describe_staged(p, a, &wanted));
  for (size_t i = 0; i < p->staged_count; i++) {
    *out = &p->staged[i];
    if (same_staged(*out, &wanted)) return BRAID_OK;
  }
  if (p->staged_count == kStaged)
    return braid_fail(BRAID_OUT_OF_RANGE, "more than %d operands in another order or size", kStaged);
  int64_t count = 1;
  for (int i = 0; i < wanted.rank; i++) {
    if (wanted.shape[i] && count > INT64_MAX / wanted.shape[i])
      return braid_fail(BRAID_OUT_OF_RANGE, "shape overflows");
    count *= wanted.shape[i];
  }
  const braid_operand *operand = operand_of(p, a);
  wanted.piece = braid_launch_reserve(&p->planner, count, 1, braid_dtype_size(operand->desc.dtype));
  p->staged[p->staged_count] = wanted;
  *out = &p->staged[p->staged_count++];
  return BRAID_OK;
}

/* The operand's own axes as a nest: operand 0 as it lies, operand 1 in the piece. */
static void move_staged(planning *p, const staged *s) {
  const braid_desc *desc = &(s->input ? p->node->inputs : p->node->outputs)[s->index].desc;
  braid_launch_nest nest = {.rank = s->rank};
  int64_t inside = 1, outside = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    nest.dims[i] = desc->dims[i];
    nest.steps[s->input ? 0 : 1][i] = outside;
    outside *= desc->dims[i];
    nest.steps[s->input ? 1 : 0][s->order[i]] = inside;
    inside *= s->shape[i];
  }
  if (inside > INT32_MAX / 2) p->planner.wide = true;
  braid_launch_add_staging(&p->planner, &nest, s->input, s->index, s->piece, inside > outside,
                           braid_dtype_size(desc->dtype));
}

/* --- workspace ------------------------------------------------------------------------------------------------------
 */
static shared_piece *find_shared(planning *p, const braid_cl_entry_argument *a) {
  for (size_t i = 0; i < p->shared_count; i++)
    if (strcmp(p->shared[i].name, braid_cl_workspace_name(a)) == 0) return &p->shared[i];
  return NULL;
}

static braid_status size_shared(planning *p, const braid_cl_entry_argument *a) {
  int64_t bytes;
  BRAID_TRY(evaluate_formula(p, a->workspace, 1, INT64_MAX / 2, &bytes));
  shared_piece *shared = find_shared(p, a);
  if (!shared) {
    if (p->shared_count == kWorkspaces)
      return braid_fail(BRAID_OUT_OF_RANGE, "more than %d names of workspace", kWorkspaces);
    shared = &p->shared[p->shared_count++];
    *shared = (shared_piece){.name = braid_cl_workspace_name(a)};
  }
  if (bytes > shared->bytes) shared->bytes = bytes;
  return BRAID_OK;
}

/* --- launches ------------------------------------------------------------------------------------------------------
 */
/* The attribute as a number, whole or not. */
static double read_attribute_number(const braid_attrs *attrs, const char *name, double otherwise) {
  double number = braid_attr_float(attrs, name, otherwise);
  int64_t whole = braid_attr_int(attrs, name, INT64_MIN);
  return whole == INT64_MIN ? number : (double)whole;
}

braid_status braid_cl_real(const char *text, const braid_attrs *attrs, double *out) {
  if (braid_parse_f64(text, out)) return BRAID_OK;
  char name[64];
  int end = 0;
  if (sscanf(text, " attr ( %63[A-Za-z0-9_] , %lf ) %n", name, out, &end) == 2 && end && !text[end]) {
    if (attrs) *out = read_attribute_number(attrs, name, *out);
    return BRAID_OK;
  }
  return braid_fail(BRAID_INVALID_FILE, "float \"%.60s\": expected a number or attr(NAME, NUMBER)", text);
}

static braid_status add_operand_argument(planning *p, const braid_cl_entry_argument *a) {
  if (is_staged(a)) {
    const staged *s;
    BRAID_TRY(stage_operand(p, a, &s));
    braid_launch_workspace(&p->planner, s->piece);
    braid_launch_element(&p->planner, operand_of(p, a)->desc.dtype);
    return BRAID_OK;
  }
  if (!operand_of(p, a))
    return braid_fail(BRAID_OUT_OF_RANGE, "%s %lld is not there; say when: present(%s%lld)", a->in ? "in" : "out",
                      (long long)(a->in ? *a->in : *a->out), a->in ? "in" : "out",
                      (long long)(a->in ? *a->in : *a->out));
  if (a->in)
    braid_launch_input(&p->planner, (size_t)*a->in);
  else
    braid_launch_output(&p->planner, (size_t)*a->out);
  braid_launch_element(&p->planner, operand_of(p, a)->desc.dtype);
  return BRAID_OK;
}

static braid_status add_entry_argument(planning *p, const braid_cl_entry_argument *a) {
  int64_t value;
  double real;
  if (a->in || a->out) return add_operand_argument(p, a);
  if (a->integer) {
    BRAID_TRY(evaluate_formula(p, a->integer, INT32_MIN, INT32_MAX, &value));
    braid_launch_int(&p->planner, value);
  } else if (a->wide) {
    BRAID_TRY(evaluate_formula(p, a->wide, INT64_MIN, INT64_MAX, &value));
    braid_launch_long(&p->planner, value);
  } else if (a->real) {
    BRAID_TRY(braid_cl_real(a->real, p->node->attrs, &real));
    braid_launch_float(&p->planner, real);
  } else if (a->local) {
    BRAID_TRY(evaluate_formula(p, a->local, 1, INT32_MAX, &value));
    braid_launch_local(&p->planner, (size_t)value);
  } else {
    braid_launch_workspace(&p->planner, find_shared(p, a)->piece);
  }
  return BRAID_OK;
}

/* No work-items are right where there is nothing to write, and a mistake elsewhere. */
static int64_t least_items(const braid_node_desc *node) {
  for (size_t i = 0; i < node->output_count; i++)
    if (node->outputs[i].present && braid_desc_count(&node->outputs[i].desc)) return 1;
  return 0;
}

static braid_status add_launch(planning *p, const braid_cl_entry_launch *from) {
  braid_launch_planner *planner = &p->planner;
  braid_launch_begin_foreign(planner, p->entry->module, braid_cl_module_path(p->entry->module), from->function);
  if (p->entry->common_options) braid_launch_option(planner, "%s", p->entry->common_options);
  if (from->options) braid_launch_option(planner, "%s", from->options);
  for (unsigned i = 0; i < from->arguments_count; i++) {
    braid_status status = add_entry_argument(p, &from->arguments[i]);
    if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", from->function, i);
  }
  size_t global[3] = {1, 1, 1}, local[3] = {0, 0, 0};
  for (unsigned i = 0; i < from->global_count; i++) {
    int64_t value;
    BRAID_TRY(evaluate_formula(p, from->global[i], least_items(p->node), INT64_MAX / 2, &value));
    global[i] = (size_t)value;
    if (!from->local_count) continue;
    BRAID_TRY(evaluate_formula(p, from->local[i], 1, INT32_MAX, &value));
    local[i] = (size_t)value;
  }
  braid_launch_sizes(planner, from->global_count, global, local);
  return BRAID_OK;
}

/* All pieces of the workspace, before any launch is written: copies in stand before the launches, and what launches
 * share is as large as the largest asks. */
static braid_status reserve_all(planning *p) {
  for (unsigned i = 0; i < p->entry->launches_count; i++) {
    const braid_cl_entry_launch *launch = &p->entry->launches[i];
    for (unsigned k = 0; k < launch->arguments_count; k++) {
      const braid_cl_entry_argument *a = &launch->arguments[k];
      const staged *ignored;
      braid_status status = is_staged(a) ? stage_operand(p, a, &ignored) : a->workspace ? size_shared(p, a) : BRAID_OK;
      if (status != BRAID_OK) return braid_fail_prefix(status, "%s, argument %u", launch->function, k);
    }
  }
  for (size_t i = 0; i < p->shared_count; i++)
    p->shared[i].piece = braid_launch_reserve(&p->planner, p->shared[i].bytes, 1, 1);
  return BRAID_OK;
}

braid_status braid_cl_entry_plan(const braid_cl_entry *entry, const braid_launch_traits *traits,
                                 const braid_node_desc *node, braid_launch_recipe *recipe) {
  planning p = {.entry = entry, .node = node};
  braid_launch_plan_begin(&p.planner, traits, node, recipe);
  BRAID_TRY(reserve_all(&p));
  for (size_t i = 0; i < p.staged_count; i++)
    if (p.staged[i].input) move_staged(&p, &p.staged[i]);
  for (unsigned i = 0; i < entry->launches_count; i++) BRAID_TRY(add_launch(&p, &entry->launches[i]));
  for (size_t i = 0; i < p.staged_count; i++)
    if (!p.staged[i].input) move_staged(&p, &p.staged[i]);
  return braid_launch_plan_end(&p.planner);
}
