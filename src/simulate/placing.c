#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "base/vector.h"
#include "simulate/world.h"

enum { kRecords = 100000, kLacks = 1000 };
static const double kChange = 0.05; /* of a model's load, that a placement is made for, if it is more than chance */

/* --- what the policy sees ------------------------------------------------------------------------------------------
 */
static void fill_models(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (size_t m = 0; m < s->models_count; m++) {
    const braid_scenario_model *model = &s->models[m];
    world->models[m] = (braid_cluster_model){.memory_bytes = (int64_t)(model->memory_mib * 1048576),
                                             .least = (size_t)model->least,
                                             .most = (size_t)model->most,
                                             .features = braid_scenario_features(s, model->features),
                                             .tenant = model->tenant,
                                             .is_private = model->private_to != NULL};
    for (size_t k = 0; k < s->nodes_count; k++)
      world->seconds[k * s->models_count + m] =
          braid_world_time_of(world, k, m, model->plan_rows)->mean_ns * 1e-9 / (double)model->plan_rows;
  }
  for (size_t t = 0; t < s->tenants_count; t++)
    world->models[s->tenants[t].model_index].requests_per_s += world->arrivals[t].rate;
}

static void fill_nodes(braid_world *world) {
  const braid_scenario *s = world->scenario;
  for (size_t i = 0; i < world->site_count; i++) {
    const braid_scenario_nodes *kind = &s->nodes[world->sites[i].kind];
    world->nodes[i] = (braid_cluster_node){.alive = true,
                                           .kind = world->sites[i].kind,
                                           .slow = 1,
                                           .instances = world->sites[i].instances,
                                           .memory_bytes = (int64_t)(kind->memory_mib * 1048576),
                                           .power_known = true,
                                           .asleep_watts = kind->asleep_watts,
                                           .idle_watts = kind->idle_watts,
                                           .busy_watts = kind->busy_watts,
                                           .load_bytes_per_s = kind->load_mib_per_s * 1048576};
  }
  for (size_t k = 0; k < s->nodes_count; k++) {
    uint64_t features = braid_scenario_features(s, s->nodes[k].features);
    for (size_t i = 0; i < world->site_count; i++)
      if (world->sites[i].kind == k) world->nodes[i].features = features;
  }
}

braid_status braid_placing_init(braid_world *world) {
  const braid_scenario *s = world->scenario;
  world->nodes = braid_zalloc_array(world->allocator, world->site_count, sizeof *world->nodes);
  world->models = braid_zalloc_array(world->allocator, s->models_count, sizeof *world->models);
  world->seconds = braid_zalloc_array(world->allocator, (size_t)s->models_count * s->nodes_count, sizeof(double));
  world->arrived = braid_zalloc_array(world->allocator, s->models_count, sizeof *world->arrived);
  if (!world->nodes || !world->models || !world->seconds || !world->arrived) return BRAID_NO_MEMORY;
  fill_models(world);
  fill_nodes(world);
  return BRAID_OK;
}

void braid_placing_deinit(braid_world *world) {
  braid_cluster_router_destroy(world->router);
  braid_free(world->allocator, world->nodes);
  braid_free(world->allocator, world->models);
  braid_free(world->allocator, world->seconds);
  braid_free(world->allocator, world->arrived);
  braid_free(world->allocator, world->loads);
}

/* How slow its runs have shown a node to be, in steps, so that noise moves nothing. */
static double known_slow(const braid_site *site) {
  if (fabs(site->learned - 1) < 0.1) return 1;
  return fmax(0.05, round(site->learned * 20) / 20);
}

static int64_t known_cap(const braid_world *world) {
  return world->coming_cap < world->cap ? world->coming_cap : world->cap;
}

/* What the policy takes for present on a node, at `index`: what stays, or what was lost with it. */
static const braid_site_held *present_on(const braid_site *site, size_t index) {
  if (!site->alive) return index < site->lost_count ? &site->lost[index] : NULL;
  return index < site->held_count ? &site->held[index] : NULL;
}

/* Models that are there or being loaded, and those on lost nodes that were not planned for yet; by model and then node.
 */
static braid_status list_present(const braid_world *world, braid_cluster_replica **out, size_t *out_count) {
  size_t models = world->scenario->models_count, count = 0;
  const braid_site_held *held;
  size_t *at = braid_zalloc_array(world->allocator, models + 1, sizeof *at);
  for (size_t i = 0; at && i < world->site_count; i++)
    for (size_t h = 0; (held = present_on(&world->sites[i], h)); h++)
      if (held->state != BRAID_SITE_DRAINING) at[held->model + 1]++;
  for (size_t m = 0; at && m < models; m++) at[m + 1] += at[m];
  if (at) count = at[models];
  braid_cluster_replica *list = at ? braid_zalloc_array(world->allocator, count, sizeof *list) : NULL;
  for (size_t i = 0; list && i < world->site_count; i++)
    for (size_t h = 0; (held = present_on(&world->sites[i], h)); h++)
      if (held->state != BRAID_SITE_DRAINING)
        list[at[held->model]++] = (braid_cluster_replica){held->model, i, held->rate};
  braid_free(world->allocator, at);
  *out = list;
  *out_count = count;
  return list ? BRAID_OK : BRAID_NO_MEMORY;
}

/* --- what is done about a plan -------------------------------------------------------------------------------------
 */
typedef struct names {
  const braid_world *world;
  char nodes[3][32];
  int at;
} names;

static const char *name_of(const void *context, bool is_node, size_t index) {
  names *n = (names *)context; /* a ring of texts */
  if (!is_node) return n->world->scenario->models[index].name;
  char *text = n->nodes[n->at = (n->at + 1) % 3];
  snprintf(text, sizeof n->nodes[0], "%zu", index);
  return text;
}

static braid_status record_text(const braid_world *world, const char *text, braid_cluster_move_record **list,
                                size_t *count, size_t *capacity) {
  braid_cluster_move_record *records = braid_grow(world->allocator, *list, *count, capacity, sizeof *records);
  if (!records) return BRAID_NO_MEMORY;
  *list = records;
  size_t bytes = strlen(text) + 1;
  char *copy = braid_alloc(world->allocator, bytes);
  if (!copy) return BRAID_NO_MEMORY;
  memcpy(copy, text, bytes);
  records[(*count)++] = (braid_cluster_move_record){(double)world->now_ns * 1e-9, copy};
  return BRAID_OK;
}

static braid_status record_move(braid_world *world, const braid_cluster_move *move) {
  char text[512];
  names n = {.world = world};
  if (!world->options->moves || world->record_count == kRecords) return BRAID_OK;
  braid_cluster_move_text(move, name_of, &n, text, sizeof text);
  return record_text(world, text, &world->records, &world->record_count, &world->record_capacity);
}

/* Models that have too few places, and why, whenever that is another reason than before. */
static braid_status record_lacks(braid_world *world, const braid_cluster_plan *plan) {
  size_t models = world->scenario->models_count;
  if (!world->bounds) world->bounds = braid_zalloc_array(world->allocator, models, sizeof *world->bounds);
  if (!world->bounds) return BRAID_NO_MEMORY;
  for (size_t m = 0; m < models && world->lack_count < kLacks; m++) {
    const braid_cluster_bounds *now = &plan->bounds[m];
    bool news = memcmp(&world->bounds[m], now, sizeof *now) != 0, lacks = false;
    for (size_t i = 0; i < BRAID_CLUSTER_BOUNDS; i++) lacks |= now->nodes[i] > 0;
    world->bounds[m] = *now;
    if (!news || !lacks) continue;
    char why[512], text[768], of[64] = "";
    braid_cluster_bounds_text(now, why, sizeof why);
    if (plan->unmet[m] > 0)
      snprintf(of, sizeof of, ", and %.4g of %.4g requests/s have no place", plan->unmet[m],
               world->models[m].requests_per_s);
    snprintf(text, sizeof text, "%.80s has %zu replica%s%s%s: %s", world->scenario->models[m].name, now->replicas,
             now->replicas == 1 ? "" : "s", now->replicas < world->models[m].least ? ", fewer than its least" : "", of,
             why);
    BRAID_TRY(record_text(world, text, &world->lacks, &world->lack_count, &world->lack_capacity));
  }
  return BRAID_OK;
}

/* A model goes when what uses it has ended; one that still loads goes at once. */
static void unload(braid_world *world, const braid_cluster_move *move) {
  braid_site_held *held = braid_site_find(&world->sites[move->node], (uint32_t)move->model);
  if (!held) return; /* with its node */
  world->unloads_done++;
  held->rate = 0;
  if (held->state == BRAID_SITE_LOADING || !held->jobs)
    braid_site_drop(world, (uint32_t)move->node, held);
  else
    held->state = BRAID_SITE_DRAINING;
}

static braid_status take_moves(braid_world *world, const braid_cluster_plan *plan, bool at_once) {
  world->load_count = 0;
  braid_cluster_move *loads = braid_zalloc_array(world->allocator, plan->move_count, sizeof *loads);
  if (!loads) return BRAID_NO_MEMORY;
  braid_free(world->allocator, world->loads);
  world->loads = loads;
  for (size_t i = 0; i < plan->move_count; i++) {
    const braid_cluster_move *move = &plan->moves[i];
    if (!at_once) BRAID_TRY(record_move(world, move));
    if (!move->load)
      unload(world, move);
    else if (at_once)
      BRAID_TRY(braid_site_add(world, (uint32_t)move->node, (uint32_t)move->model, BRAID_SITE_READY));
    else
      world->loads[world->load_count++] = *move;
  }
  return BRAID_OK;
}

/* Requests go where the plan says, as far as it is there. */
static braid_status make_router(braid_world *world, const braid_cluster_plan *plan) {
  size_t count = plan->replica_count;
  braid_cluster_router *router = NULL;
  braid_cluster_target *targets = braid_zalloc_array(world->allocator, count, sizeof *targets);
  if (!targets) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < count; i++) {
    const braid_cluster_replica *r = &plan->replicas[i];
    const braid_site *site = &world->sites[r->node];
    double mean = braid_world_time_of(world, site->kind, r->model, 1)->mean_ns;
    targets[i] = (braid_cluster_target){r->model, r->node, (int64_t)(mean * site->learned) + 2 * world->network_ns};
  }
  braid_status status = braid_cluster_router_create(targets, count, world->site_count, world->scenario->models_count,
                                                    world->allocator, &router);
  braid_free(world->allocator, targets);
  BRAID_TRY(status);
  braid_cluster_router_destroy(world->router);
  world->router = router;
  for (size_t i = 0; i < count; i++) {
    const braid_cluster_replica *r = &plan->replicas[i];
    braid_site_held *held = braid_site_find(&world->sites[r->node], (uint32_t)r->model);
    if (held) held->rate = r->requests_per_s;
    braid_cluster_router_open(router, r->model, r->node, held && held->state == BRAID_SITE_READY);
  }
  for (size_t i = 0; i < world->site_count; i++) braid_site_refresh(world, (uint32_t)i);
  return BRAID_OK;
}

braid_status braid_placing_plan(braid_world *world, bool at_once) {
  const braid_scenario *s = world->scenario;
  braid_cluster_plan plan;
  braid_cluster_replica *present;
  size_t count;
  int64_t asleep = 0; /* of lost nodes: they may be back at any time */
  BRAID_TRY(list_present(world, &present, &count));
  for (size_t i = 0; i < world->site_count; i++) {
    world->nodes[i].alive = world->sites[i].alive || !world->sites[i].detected;
    world->nodes[i].slow = known_slow(&world->sites[i]);
    if (!world->nodes[i].alive) asleep += braid_site_asleep(world, (uint32_t)i);
  }
  int64_t cap = known_cap(world);
  braid_cluster_problem problem = {.nodes = world->nodes,
                                   .node_count = world->site_count,
                                   .models = world->models,
                                   .model_count = s->models_count,
                                   .seconds = world->seconds,
                                   .kind_count = s->nodes_count,
                                   .present = present,
                                   .present_count = count,
                                   .most_busy = s->most_busy,
                                   .cap_watts =
                                       cap == INT64_MAX ? (double)INFINITY : fmax(0, (double)(cap - asleep) * 1e-6),
                                   .horizon_s = s->horizon_s};
  braid_status status = braid_cluster_place(&problem, world->allocator, &plan);
  if (status == BRAID_OK) {
    world->plans++;
    world->changed = false;
    status = record_lacks(world, &plan);
    if (status == BRAID_OK) status = take_moves(world, &plan, at_once);
    if (status == BRAID_OK) status = make_router(world, &plan);
    if (status == BRAID_OK) status = braid_placing_go_on(world);
    braid_cluster_plan_deinit(&plan);
  }
  braid_free(world->allocator, present);
  return status;
}

/* --- loads ---------------------------------------------------------------------------------------------------------
 */
/* Whether the load has room: memory, no other tenant's model where one of them is private, and watts. */
static bool has_room(const braid_world *world, const braid_cluster_move *load) {
  const braid_site *site = &world->sites[load->node];
  const braid_cluster_model *model = &world->models[load->model];
  uint32_t node = (uint32_t)load->node;
  if (site->memory_left < load->bytes) return false;
  for (size_t i = 0; i < site->held_count; i++) {
    const braid_cluster_model *other = &world->models[site->held[i].model];
    if (other->tenant != model->tenant && (other->is_private || model->is_private)) return false;
  }
  return site->held_count ||
         world->peak + braid_site_most(world, node) - braid_site_asleep(world, node) <= known_cap(world);
}

static braid_status start_load(braid_world *world, const braid_cluster_move *load) {
  uint32_t node = (uint32_t)load->node, model = (uint32_t)load->model;
  braid_site *site = &world->sites[node];
  double rate = world->nodes[node].load_bytes_per_s;
  int64_t begin = site->load_free_ns > world->now_ns ? site->load_free_ns : world->now_ns;
  site->load_free_ns = begin + (rate > 0 ? (int64_t)((double)load->bytes / rate * 1e9) : 0);
  world->loads_done++;
  world->loaded_bytes += (double)load->bytes;
  BRAID_TRY(braid_site_add(world, node, model, BRAID_SITE_LOADING));
  site->held[site->held_count - 1].ready_ns = site->load_free_ns;
  return braid_agenda_note(&world->agenda, site->load_free_ns, BRAID_AGENDA_LOADED, node, model, site->life);
}

braid_status braid_placing_go_on(braid_world *world) {
  size_t kept = 0;
  world->freed = false;
  for (size_t i = 0; i < world->load_count; i++) {
    const braid_cluster_move load = world->loads[i];
    const braid_site *site = &world->sites[load.node];
    braid_site_held *held = braid_site_find(site, (uint32_t)load.model);
    if (!site->alive) continue;                       /* it is not known to be lost yet; the next plan knows */
    if (held && held->state == BRAID_SITE_DRAINING) { /* it need not have gone */
      held->state = BRAID_SITE_READY;
      braid_cluster_router_open(world->router, load.model, load.node, true);
    } else if (!held && has_room(world, &load)) {
      BRAID_TRY(start_load(world, &load));
    } else if (!held) {
      world->loads[kept++] = load;
    }
  }
  world->load_count = kept;
  return BRAID_OK;
}

braid_status braid_placing_loaded(braid_world *world, uint32_t node, uint32_t model) {
  braid_site *site = &world->sites[node];
  braid_site_held *held = braid_site_find(site, model);
  if (!held || held->state != BRAID_SITE_LOADING || held->ready_ns != world->now_ns) return BRAID_OK; /* given up */
  braid_site_account(world, node);
  held->state = BRAID_SITE_READY;
  site->loading--;
  braid_site_power(world, node);
  braid_cluster_router_open(world->router, model, node, true);
  return BRAID_OK;
}

/* --- what leads to another plan ------------------------------------------------------------------------------------
 */
braid_status braid_placing_control(braid_world *world) {
  double seconds = (double)(world->now_ns - world->looked_ns) * 1e-9;
  for (size_t m = 0; seconds > 0 && m < world->scenario->models_count; m++) {
    double *wanted = &world->models[m].requests_per_s;
    double count = (double)world->arrived[m], seen = 0.5 * *wanted + 0.5 * count / seconds;
    double noise = sqrt(count) / seconds; /* two standard deviations of half of a Poisson number */
    world->arrived[m] = 0;
    if (fabs(seen - *wanted) <= fmax(kChange * *wanted, noise)) continue;
    *wanted = seen < 1e-9 ? 0 : seen;
    world->changed = true;
  }
  for (size_t i = 0; i < world->site_count && !world->changed; i++)
    world->changed = world->sites[i].alive && known_slow(&world->sites[i]) != world->nodes[i].slow;
  world->looked_ns = world->now_ns;
  return world->changed || world->load_count ? braid_placing_plan(world, false) : BRAID_OK;
}

static int64_t as_microwatts(double watts) {
  return watts > 0 ? (int64_t)(watts * 1e6) : INT64_MAX;
}

braid_status braid_placing_notice(braid_world *world, double watts) {
  int64_t cap = as_microwatts(watts);
  if (cap >= known_cap(world)) return BRAID_OK;
  world->coming_cap = cap;
  return braid_placing_plan(world, false);
}

/* Nodes whose models all have to go are put to sleep, and what they had goes elsewhere. */
static braid_status force_asleep(braid_world *world) {
  for (uint32_t i = 0; i < world->site_count && world->peak > world->cap; i++) {
    const braid_site *site = &world->sites[i];
    bool leaving = site->alive && site->held_count > 0;
    for (size_t h = 0; h < site->held_count; h++) leaving &= site->held[h].state == BRAID_SITE_DRAINING;
    if (!leaving) continue;
    uint32_t jobs = braid_site_clear(world, i);
    braid_site_refresh(world, i);
    BRAID_TRY(braid_gateway_retry(world, jobs));
  }
  return BRAID_OK;
}

braid_status braid_placing_cap(braid_world *world, double watts) {
  world->cap = as_microwatts(watts);
  world->coming_cap = INT64_MAX;
  BRAID_TRY(braid_placing_plan(world, false));
  return force_asleep(world);
}

braid_status braid_placing_lost(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  if (!site->alive) return BRAID_OK;
  site->lost = braid_zalloc_array(world->allocator, site->held_count, sizeof *site->lost);
  if (!site->lost) return BRAID_NO_MEMORY;
  site->lost_count = site->held_count;
  if (site->held_count) memcpy(site->lost, site->held, site->held_count * sizeof *site->lost);
  site->stuck = braid_site_clear(world, node);
  site->alive = false;
  site->detected = false;
  site->slow = 1;
  braid_site_power(world, node);
  return braid_agenda_note(&world->agenda, world->now_ns + (int64_t)(world->scenario->detect_ms * 1e6),
                           BRAID_AGENDA_DETECT, node, 0, site->life);
}

braid_status braid_placing_detected(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  uint32_t stuck = site->stuck;
  site->stuck = BRAID_WORLD_NONE;
  site->detected = true;
  braid_site_refresh(world, node);
  BRAID_TRY(braid_placing_plan(world, false));
  braid_free(world->allocator, site->lost);
  site->lost = NULL;
  site->lost_count = 0;
  return braid_gateway_retry(world, stuck);
}

braid_status braid_placing_back(braid_world *world, uint32_t node) {
  braid_site *site = &world->sites[node];
  if (site->alive) return BRAID_OK;
  if (!site->detected) BRAID_TRY(braid_placing_detected(world, node));
  braid_site_account(world, node);
  site->alive = true;
  site->detected = false;
  site->life++;
  site->learned = 1;
  site->margin = (braid_serve_margin){0};
  braid_site_power(world, node);
  world->changed = true; /* for the next look */
  return BRAID_OK;
}
