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

/* What policies begin with: GPUs, without any what is of the first device's class. */
static braid_device_class fast_class(const braid_problem *problem) {
  return has_class(problem, BRAID_CLASS_GPU) || !problem->device_count ? BRAID_CLASS_GPU : problem->devices[0].class;
}

static bool has_own_cap(const braid_problem *problem, size_t d, bool fast) {
  return problem->devices[d].cap_watts.source != BRAID_UNKNOWN &&
         (!fast || problem->devices[d].class == fast_class(problem));
}

/* Whether a device has a cap of its own; `fast`: one that policies begin with. */
static bool has_cap(const braid_problem *problem, bool fast) {
  for (size_t d = 0; d < problem->device_count; d++)
    if (has_own_cap(problem, d, fast)) return true;
  return false;
}

/* Adds a sentence; NULL without memory. */
static const char *add_sentence(braid_arena *arena, const char *before, const char *sentence) {
  if (!before || !sentence) return NULL;
  return braid_arena_format(arena, "%s%s%s", before, *before && *sentence ? " " : "", sentence);
}

static const char *note_class(const policy_need *need, braid_arena *arena) {
  const char *class = need->class == BRAID_CLASS_CPU ? "CPU" : "GPU";
  return braid_arena_format(arena, "No device is a %s: %s.", class, need->without);
}

const char *braid_offer_unknown(const braid_problem *problem, const braid_offer *offer, braid_arena *arena) {
  return braid_arena_format(arena, "the %s of %s on %s", offer->seconds.source == BRAID_UNKNOWN ? "time" : "energy",
                            problem->nodes[offer->nodes[offer->node_count - 1]].name,
                            problem->devices[offer->device].name);
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
/* Of a node: the devices that it begins with ([0]) and others ([1]) run it; with energies that are known. */
typedef struct seen {
  bool runs[2], metered[2];
} seen;

static void see(seen *node, const braid_offer *offer, bool fast) {
  node->runs[!fast] = true;
  node->metered[!fast] |= offer->joules.source != BRAID_UNKNOWN && offer->seconds.source != BRAID_UNKNOWN;
}

/* Operations that could be offloaded, but for energies that are not known on both sides: they stay. */
static braid_status note_unweighed(const braid_problem *problem, const braid_allocator *allocator, braid_arena *arena,
                                   const char **note) {
  size_t several = 0, unweighed = 0;
  braid_device_class class = fast_class(problem);
  seen *nodes = braid_zalloc_array(allocator, problem->node_count + 1, sizeof *nodes);
  if (!nodes) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < problem->offer_count; i++) {
    const braid_offer *offer = &problem->offers[i];
    for (size_t k = 0; k < offer->node_count && braid_offer_allowed(problem, offer); k++)
      see(&nodes[offer->nodes[k]], offer, problem->devices[offer->device].class == class);
  }
  for (size_t n = 0; n < problem->node_count; n++) {
    bool both = nodes[n].runs[0] && nodes[n].runs[1];
    several += both;
    unweighed += both && !(nodes[n].metered[0] && nodes[n].metered[1]);
  }
  braid_free(allocator, nodes);
  if (!unweighed) return BRAID_OK;
  const char *begins = class == BRAID_CLASS_GPU ? "a GPU" : "a device of the first one's class";
  const char *text =
      unweighed == several
          ? braid_arena_format(arena,
                               "No operation's energy is known both on %s and on a device of another class, so none "
                               "is offloaded.",
                               begins)
          : braid_arena_format(arena,
                               "Of %zu of %zu operations that could be offloaded, the energy is not known both on %s "
                               "and on a device of another class: these stay.",
                               unweighed, several, begins);
  *note = add_sentence(arena, *note, text);
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- the whole -----------------------------------------------------------------------------------------------------
 */
static const char *note_mean(const braid_choices *choices, braid_arena *arena) {
  const braid_mean_run *mean = &choices->mean;
  return braid_arena_format(
      arena,
      "Its clocks do not settle: step time, energy, average power, violations and the time above caps are the means of "
      "%.0f steps of %.4g to %.4g ms, the peak is the largest; operations, busy times and transfers are those of one "
      "of %.4g ms.",
      mean->runs, mean->shortest * 1e3, mean->longest * 1e3, choices->seconds.value * 1e3);
}

/* Caps that change no clock: which of them, since nobody knows what they are about to hold down. */
static const char *note_unmeasured(const braid_problem *problem, const braid_choices *choices, braid_arena *arena) {
  size_t caps = 0, unmeasured = 0, devices = problem->device_count;
  const char *first = NULL;
  for (size_t d = 0; d <= devices; d++) {
    if (d < devices ? !has_own_cap(problem, d, true) : problem->cap_watts.source == BRAID_UNKNOWN) continue;
    caps++;
    if (braid_dvfs_measures(problem, choices, d < devices ? (int)d : -1)) continue;
    unmeasured++;
    if (!first) first = d < devices ? problem->devices[d].name : "the machine";
  }
  if (!unmeasured) return "";
  if (unmeasured == caps) return "No power is measured that has a cap, so its clocks stay at the top.";
  return braid_arena_format(arena, "The power of %s is not measured, so %s cap%s no clock.", first,
                            unmeasured > 1 ? "this and other" : "its", unmeasured > 1 ? "s change" : " changes");
}

static const char *note_clocks(const braid_problem *problem, const braid_choices *choices, braid_arena *arena) {
  if (problem->cap_watts.source != BRAID_UNKNOWN || has_cap(problem, true))
    return note_unmeasured(problem, choices, arena);
  return has_cap(problem, false) ? "Only devices that are no GPUs have a cap, so its clocks stay at the top."
                                 : "There is no cap, so its clocks stay at the top.";
}

static const char *note_unproved(const braid_problem *problem, const braid_offer *offer, braid_arena *arena) {
  const char *what = braid_offer_unknown(problem, offer, arena);
  if (!what) return NULL;
  return braid_arena_format(arena,
                            "Nothing is proved, since %s is unknown; this is the best plan found of those whose "
                            "energy is known.",
                            what);
}

static const char *note_optimal(const braid_problem *problem, const braid_choices *choices, braid_arena *arena) {
  const braid_number *least = &choices->least_joules;
  size_t tasks = 0;
  for (size_t n = 0; n < problem->node_count; n++) tasks += !problem->nodes[n].idle;
  if (least->source != BRAID_UNKNOWN && choices->joules.value <= least->value * (1 + 1e-6)) return "";
  if (choices->unweighed) return note_unproved(problem, choices->unweighed, arena);
  if (choices->left_out || choices->crowded_out || choices->baseline)
    return "It is not proved to be the least: plans were left out since they do not fit into the memories as they are "
           "simulated; this is the best plan found that does.";
  if (choices->crossed)
    return "It is not proved to be the least: values wait for each other on a link, and in which order they go there "
           "is "
           "not searched; this is the best plan found.";
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
  if (choices->mean.runs > 0) *note = add_sentence(arena, *note, note_mean(choices, arena));
  if (policy == &braid_policy_dvfs && *note) *note = add_sentence(arena, *note, note_clocks(problem, choices, arena));
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_policy_note(const braid_policy *policy, const braid_problem *problem, const braid_choices *choices,
                               const braid_allocator *allocator, braid_arena *arena, const char **note) {
  BRAID_TRY(note_needs(policy, problem, choices, allocator, arena, note));
  *note = note_memory(problem, choices, *note, arena);
  return *note ? BRAID_OK : BRAID_NO_MEMORY;
}
