#include "backend/manycore/team.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"

typedef struct member {
  braid_manycore_team *team;
  braid_thread thread;
  bool started;
  uint8_t *memory, *scratchpad;
} member;

struct braid_manycore_team {
  const braid_allocator *allocator;
  const braid_manycore_group *group;
  int count;
  member *members;      /* the first is the calling thread */
  pthread_mutex_t turn; /* of tasks */
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t wanted, ended;
  uint64_t task; /* counts tasks */
  bool ends;
  const braid_kernel *kernel;
  const braid_manycore_plan *plan;
  const braid_manycore_operand *operands;
  int next, left; /* the next core; cores that have not ended */
  int failed;     /* the first core that failed; -1: none */
  braid_status status;
  char detail[192];
};

static void keep_failure(braid_manycore_team *team, int id, braid_status status, const char *detail) {
  if (team->failed >= 0 && team->failed < id) return;
  team->failed = id;
  team->status = status;
  snprintf(team->detail, sizeof team->detail, "%s", detail);
}

/* With the lock held: takes the next core and runs its program without the lock. False: there is none left. */
static bool run_next(braid_manycore_team *team, member *own) {
  if (team->next >= team->group->cores) return false;
  int id = team->next++;
  const braid_kernel *kernel = team->kernel;
  const braid_manycore_kernel *program = kernel->implementation;
  braid_manycore_core core;
  pthread_mutex_unlock(&team->lock);
  braid_manycore_core_begin(&core, team->group, kernel->name, id, own->scratchpad, team->operands);
  program->run(&core, team->plan);
  if (!braid_manycore_scratchpad_check(team->group, own->scratchpad)) {
    core.status = BRAID_OUT_OF_RANGE;
    snprintf(core.detail, sizeof core.detail, "core %d of %s wrote outside of its scratchpad of %zu bytes", id,
             kernel->name, team->group->scratchpad);
  }
  pthread_mutex_lock(&team->lock);
  if (core.status != BRAID_OK) keep_failure(team, id, core.status, core.detail);
  if (--team->left == 0) pthread_cond_broadcast(&team->ended);
  return true;
}

static void *member_main(void *context) {
  member *own = context;
  braid_manycore_team *team = own->team;
  uint64_t seen = 0;
  pthread_mutex_lock(&team->lock);
  for (;;) {
    while (!team->ends && team->task == seen) pthread_cond_wait(&team->wanted, &team->lock);
    if (team->ends) break;
    seen = team->task;
    while (run_next(team, own)) {
    }
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

static braid_status start_members(braid_manycore_team *team) {
  for (int i = 0; i < team->count; i++) {
    member *own = &team->members[i];
    own->team = team;
    own->memory = braid_alloc(team->allocator, braid_manycore_scratchpad_bytes(team->group));
    if (!own->memory) return BRAID_NO_MEMORY;
    own->scratchpad = braid_manycore_scratchpad_init(team->group, own->memory);
    if (i == 0) continue;
    braid_status status = braid_thread_start(&own->thread, "braid core", member_main, own);
    if (status != BRAID_OK) return status;
    own->started = true;
  }
  return BRAID_OK;
}

braid_status braid_manycore_team_create(const braid_allocator *allocator, const braid_manycore_group *group,
                                        int threads, braid_manycore_team **out) {
  *out = NULL;
  braid_manycore_team *team = braid_zalloc(allocator, sizeof *team);
  if (!team) return BRAID_NO_MEMORY;
  team->allocator = allocator;
  team->group = group;
  team->count = threads < group->cores ? threads : group->cores;
  pthread_mutex_init(&team->turn, NULL);
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wanted, NULL);
  pthread_cond_init(&team->ended, NULL);
  team->members = braid_zalloc_array(allocator, (size_t)team->count, sizeof *team->members);
  braid_status status = team->members ? start_members(team) : BRAID_NO_MEMORY;
  if (status == BRAID_OK)
    *out = team;
  else
    braid_manycore_team_destroy(team);
  return status;
}

void braid_manycore_team_destroy(braid_manycore_team *team) {
  if (!team) return;
  pthread_mutex_lock(&team->lock);
  team->ends = true;
  pthread_cond_broadcast(&team->wanted);
  pthread_mutex_unlock(&team->lock);
  for (int i = 0; team->members && i < team->count; i++) {
    if (team->members[i].started) braid_thread_join(&team->members[i].thread);
    braid_free(team->allocator, team->members[i].memory);
  }
  braid_free(team->allocator, team->members);
  pthread_cond_destroy(&team->ended);
  pthread_cond_destroy(&team->wanted);
  pthread_mutex_destroy(&team->lock);
  pthread_mutex_destroy(&team->turn);
  braid_free(team->allocator, team);
}

braid_status braid_manycore_team_run(braid_manycore_team *team, const braid_kernel *kernel,
                                     const braid_manycore_plan *plan, const braid_manycore_operand *operands) {
  pthread_mutex_lock(&team->turn);
  pthread_mutex_lock(&team->lock);
  team->kernel = kernel;
  team->plan = plan;
  team->operands = operands;
  team->next = 0;
  team->left = team->group->cores;
  team->failed = -1;
  team->task++;
  if (team->count > 1) pthread_cond_broadcast(&team->wanted);
  while (run_next(team, &team->members[0])) {
  }
  while (team->left > 0) pthread_cond_wait(&team->ended, &team->lock);
  braid_status status = team->failed < 0 ? BRAID_OK : braid_fail(team->status, "%s", team->detail);
  pthread_mutex_unlock(&team->lock);
  pthread_mutex_unlock(&team->turn);
  return status;
}
