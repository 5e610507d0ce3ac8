/* What policies do where a problem lacks what they go by, in sentences. */
#include "base/try.h"
#include "schedule/policy.h"

typedef struct policy_need {
  const braid_policy *policy;
  braid_device_class class; /* that it is about */
  const char *without;      /* a device of that class, it does this */
  const char *unknown;      /* where the energy of the whole stays unknown; NULL: it needs none */
} policy_need;

static const char kStandIn[] = "it begins with the earliest end over all devices, and counts those of the first one's "
                               "class as GPUs";
static const policy_need kNeeds[] = {
    {&braid_policy_gpu_only, BRAID_CLASS_GPU, "everything goes by the earliest end over all devices", NULL},
    {&braid_policy_cpu_only, BRAID_CLASS_CPU, "everything goes by the earliest end over all devices", NULL},
    {&braid_policy_dvfs, BRAID_CLASS_GPU, kStandIn, NULL},
    {&braid_policy_hybrid_energy, BRAID_CLASS_GPU, kStandIn, NULL},
    {&braid_policy_hybrid_cap, BRAID_CLASS_GPU, kStandIn, NULL},
    {&braid_policy_region_clock, BRAID_CLASS_GPU, kStandIn, "no clock was lowered: this is gpu-only"},
    {&braid_policy_slack_energy, BRAID_CLASS_GPU, kStandIn, "nothing was saved: this is what it begins with, "},
    {&braid_policy_optimal, BRAID_CLASS_GPU, kStandIn, "nothing was saved: this is what it begins with, "},
};

static const policy_need *need_of(const braid_policy *policy) {
  for (size_t i = 0; i < sizeof kNeeds / sizeof *kNeeds; i++)
    if (kNeeds[i].policy == policy) return &kNeeds[i];
  return NULL;
}

static bool has_class(const braid_problem *problem, braid_device_class class) {
  for (size_t d = 0; d < problem->device_count; d++)
    if (problem->devices[d].class == class) return true;
  return false;
}

/* Whether a device has a cap of its own; `fast`: a GPU, without any one of the first device's class. */
static bool has_cap(const braid_problem *problem, bool fast) {
  braid_device_class class = has_class(problem, BRAID_CLASS_GPU) ? BRAID_CLASS_GPU : problem->devices[0].class;
  for (size_t d = 0; d < problem->device_count; d++)
    if (problem->devices[d].cap_watts.source != BRAID_UNKNOWN && (!fast || problem->devices[d].class == class))
      return true;
  return false;
}

/* Adds a sentence; NULL without memory. */
static const char *add_sentence(braid_arena *arena, const char *before, const char *sentence) {
  if (!before || !sentence) return NULL;
  return braid_arena_format(arena, "%s%s%s", before, *before ? " " : "", sentence);
}

static const char *note_class(const policy_need *need, braid_arena *arena) {
  const char *class = need->class == BRAID_CLASS_CPU ? "CPU" : "GPU";
  return braid_arena_format(arena, "No device is a %s: %s.", class, need->without);
}

/* The first thing whose energy is unknown. */
static const char *unknown_energy(const braid_problem *problem, const braid_choices *choices, braid_arena *arena) {
  for (size_t d = 0; d < problem->device_count; d++)
    if (problem->devices[d].idle_watts.source == BRAID_UNKNOWN)
      return braid_arena_format(arena, "The idle power of %s is unknown", problem->devices[d].name);
  for (size_t i = 0; i < choices->task_count; i++) {
    int32_t task = choices->order[i];
    const braid_offer *offer = &problem->offers[choices->offer_of[task]];
    if (offer->joules.source == BRAID_UNKNOWN)
      return braid_arena_format(arena, "The energy of %s on %s is unknown", problem->nodes[task].name,
                                problem->devices[offer->device].name);
  }
  return "A time is unknown";
}

/* --- hybrid-energy -------------------------------------------------------------------------------------------------
 */
typedef struct seen {
  int device, metered; /* the first device that runs the node, and of them the first whose energy is known; -1: none */
  bool several, weighed; /* there is another one */
} seen;

static void see(seen *node, const braid_offer *offer) {
  node->several |= node->device >= 0 && node->device != offer->device;
  if (node->device < 0) node->device = offer->device;
  if (offer->joules.source == BRAID_UNKNOWN || offer->seconds.source == BRAID_UNKNOWN) return;
  node->weighed |= node->metered >= 0 && node->metered != offer->device;
  if (node->metered < 0) node->metered = offer->device;
}

/* Operations that several devices could run, and of which energies of two are not known: they stay. */
static braid_status note_unweighed(const braid_problem *problem, const braid_allocator *allocator, braid_arena *arena,
                                   const char **note) {
  size_t several = 0, unweighed = 0;
  seen *nodes = braid_alloc(allocator, (problem->node_count + 1) * sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  for (size_t n = 0; n < problem->node_count; n++) nodes[n] = (seen){-1, -1, false, false};
  for (size_t i = 0; i < problem->offer_count; i++)
    for (size_t k = 0; k < problem->offers[i].node_count; k++)
      see(&nodes[problem->offers[i].nodes[k]], &problem->offers[i]);
  for (size_t n = 0; n < problem->node_count; n++) {
    several += nodes[n].several;
    unweighed += nodes[n].several && !nodes[n].weighed;
  }
  braid_free(allocator, nodes);
  if (!unweighed) return BRAID_OK;
  const char *text =
      unweighed == several
          ? "No operation's energy is known on two devices, so none is offloaded: this is gpu-only."
          : braid_arena_format(arena,
                               "Of %zu of %zu operations that several devices could run, the energy is not known on "
                               "two of them: these are not offloaded.",
                               unweighed, several);
  *note = add_sentence(arena, *note, text);
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static const char *note_optimal(const braid_problem *problem, const braid_choices *choices, braid_arena *arena) {
  const braid_number *least = &choices->least_joules;
  size_t tasks = 0;
  for (size_t n = 0; n < problem->node_count; n++) tasks += !problem->nodes[n].idle;
  if (least->source != BRAID_UNKNOWN && choices->joules.value <= least->value * (1 + 1e-6)) return "";
  if (choices->left_out || choices->crowded_out || choices->baseline)
    return "It is not proved to be the least: plans were left out since they do not fit into the memories as they are "
           "simulated; this is the best plan found that does.";
  if (least->source == BRAID_UNKNOWN)
    return "Nothing is proved, since GLPK is not there or finds no bound: this is slack-energy.";
  return braid_arena_format(arena, "It is not proved to be the least: %s; this is the best plan found.",
                            tasks > BRAID_OPTIMAL_TASKS
                                ? braid_arena_format(arena,
                                                     "graphs of more than %d operations are not searched, this "
                                                     "has %zu",
                                                     BRAID_OPTIMAL_TASKS, tasks)
                                : "the search ended at its limit");
}

/* What the spaces' capacities have changed. */
static const char *note_memory(const braid_problem *problem, const braid_choices *choices, const char *note,
                               braid_arena *arena) {
  size_t tasks = 0;
  for (size_t n = 0; n < problem->node_count; n++) tasks += !problem->nodes[n].idle;
  if (choices->crowded_out)
    note = add_sentence(arena, note,
                        braid_arena_format(arena,
                                           "So that what is held fits into the memories, %zu of %zu operations may not "
                                           "run on some of the devices that could run them.",
                                           choices->crowded_out, tasks));
  if (choices->baseline && note)
    note = add_sentence(arena, note,
                        problem->cap_watts.source == BRAID_UNKNOWN
                            ? "This is gpu-only's plan: what it found itself and fits is worse."
                            : "This is hybrid-cap's plan: what it found itself and fits is worse.");
  return note;
}

static braid_status note_needs(const braid_policy *policy, const braid_problem *problem, const braid_choices *choices,
                               const braid_allocator *allocator, braid_arena *arena, const char **note) {
  const policy_need *need = need_of(policy);
  bool fixed = false;
  bool known = choices->joules.source != BRAID_UNKNOWN;
  *note = "";
  for (size_t n = 0; n < problem->node_count; n++) fixed |= problem->nodes[n].fixed >= 0;
  if (policy == &braid_policy_manual && !fixed)
    *note = "Nothing is placed by hand: everything is on the first device that can run it.";
  if (!need) return BRAID_OK;
  if (!has_class(problem, need->class)) *note = note_class(need, arena);
  if (policy == &braid_policy_hybrid_energy && *note) BRAID_TRY(note_unweighed(problem, allocator, arena, note));
  if (need->unknown && !known) {
    bool capped = problem->cap_watts.source != BRAID_UNKNOWN && policy != &braid_policy_region_clock;
    const char *base = policy == &braid_policy_region_clock ? "" : capped ? "hybrid-cap" : "gpu-only";
    const char *what = unknown_energy(problem, choices, arena);
    *note =
        what ? add_sentence(arena, *note, braid_arena_format(arena, "%s, so %s%s.", what, need->unknown, base)) : NULL;
  }
  if (policy == &braid_policy_optimal && known)
    *note = add_sentence(arena, *note, note_optimal(problem, choices, arena));
  if (choices->unsettled)
    *note = add_sentence(
        arena, *note, "Its clocks do not settle: steps begin at clocks that change, and this is one of these steps.");
  if (policy == &braid_policy_dvfs && problem->cap_watts.source == BRAID_UNKNOWN && !has_cap(problem, true))
    *note = add_sentence(arena, *note,
                         has_cap(problem, false) ? "Only devices that are no GPUs have a cap, so its clocks stay at "
                                                   "the top."
                                                 : "There is no cap, so its clocks stay at the top.");
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_policy_note(const braid_policy *policy, const braid_problem *problem, const braid_choices *choices,
                               const braid_allocator *allocator, braid_arena *arena, const char **note) {
  BRAID_TRY(note_needs(policy, problem, choices, allocator, arena, note));
  *note = note_memory(problem, choices, *note, arena);
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}
