#include "serve/card/packaged.h"

#include <string.h>

#include "base/try.h"
#include "overlay/sim/package_time.h"

/* --- life ----------------------------------------------------------------------------------------------------------
 */
static braid_status find_costs(braid_serve_packaged *packaged) {
  const braid_overlay_design *design = packaged->design;
  for (int k = 1; k <= packaged->cores; k++) {
    braid_overlay_program_info program;
    BRAID_TRY(braid_overlay_package_share(packaged->package, k, NULL, &program));
    packaged->seconds[k - 1] = (double)(program.cycles > 0 ? program.cycles : 1) / (design->clock_mhz * 1e6);
    packaged->switch_seconds[k - 1] =
        design->host_latency_us * 1e-6 + (double)program.bytes / (design->host_gigabytes_per_second * 1e9);
  }
  packaged->model =
      (braid_share_model){.name = "", .seconds = packaged->seconds, .switch_seconds = packaged->switch_seconds};
  return BRAID_OK;
}

/* Takes the package, also on failure. */
static braid_status packaged_make(braid_overlay_package *package, const braid_overlay_design *design, int cores,
                                  braid_serve_packaged **out) {
  braid_serve_packaged *packaged = braid_zalloc(NULL, sizeof *packaged);
  if (!packaged) {
    braid_overlay_package_destroy(package);
    return BRAID_NO_MEMORY;
  }
  packaged->design = design;
  packaged->cores = cores;
  packaged->package = package;
  pthread_mutex_init(&packaged->lock, NULL);
  braid_status status = BRAID_OK;
  if (package->rnn || !package->layer_count)
    status = braid_fail(BRAID_UNSUPPORTED, "the package is of a recurrent network, which cards of the daemon do not "
                                           "run (braid simulate does)");
  if (status == BRAID_OK) status = braid_package_fits(package, design, cores);
  if (status == BRAID_OK) status = find_costs(packaged);
  if (status == BRAID_OK)
    *out = packaged;
  else
    braid_serve_packaged_destroy(packaged);
  return status;
}

braid_status braid_serve_packaged_open(const char *path, const braid_overlay_design *design, int cores,
                                       braid_serve_packaged **out) {
  braid_overlay_package *package;
  *out = NULL;
  BRAID_TRY(braid_overlay_package_read(NULL, path, &package));
  return packaged_make(package, design, cores, out);
}

braid_status braid_serve_packaged_compile(const braid_graph *graph, const braid_overlay_design *design, int cores,
                                          braid_serve_packaged **out) {
  braid_overlay_package *package;
  *out = NULL;
  BRAID_TRY(braid_overlay_compile(graph, design, NULL, NULL, &package));
  return packaged_make(package, design, cores, out);
}

void braid_serve_packaged_destroy(braid_serve_packaged *packaged) {
  if (!packaged) return;
  for (size_t i = 0; i < packaged->step_count; i++) braid_package_steps_destroy(packaged->steps[i]);
  for (size_t i = 0; i < packaged->image_count; i++) braid_free(NULL, packaged->images[i]);
  braid_overlay_package_destroy(packaged->package);
  pthread_mutex_destroy(&packaged->lock);
  braid_free(NULL, packaged);
}

static size_t image_bytes(const braid_package *package) {
  size_t bytes = 0;
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) bytes += (size_t)package->bytes[s];
  return bytes;
}

size_t braid_serve_packaged_bytes(braid_serve_packaged *packaged) {
  const braid_package *package = packaged->package;
  size_t bytes = (size_t)package->bytes[BRAID_SEGMENT_CONSTANTS] + package->instruction_bytes;
  pthread_mutex_lock(&packaged->lock);
  bytes += packaged->image_count * image_bytes(package);
  for (size_t i = 0; i < packaged->step_count; i++) bytes += braid_package_steps_get_info(packaged->steps[i]).bytes;
  pthread_mutex_unlock(&packaged->lock);
  return bytes;
}

/* --- what is kept --------------------------------------------------------------------------------------------------
 */
/* Programs for so many cores that no task has; NULL: there are none. */
static braid_package_steps *take_steps(braid_serve_packaged *packaged, int cores) {
  braid_package_steps *found = NULL;
  pthread_mutex_lock(&packaged->lock);
  for (size_t i = packaged->step_count; i-- > 0 && !found;) {
    if (braid_package_steps_get_info(packaged->steps[i]).cores != cores) continue;
    found = packaged->steps[i];
    packaged->step_count--;
    memmove(&packaged->steps[i], &packaged->steps[i + 1], (packaged->step_count - i) * sizeof *packaged->steps);
  }
  pthread_mutex_unlock(&packaged->lock);
  return found;
}

/* Keeps them, in the place of the longest unused where there are too many. */
static void keep_steps(braid_serve_packaged *packaged, braid_package_steps *steps) {
  if (!steps) return;
  braid_package_steps *oldest = NULL;
  braid_package_steps_leave(steps);
  pthread_mutex_lock(&packaged->lock);
  if (packaged->step_count == BRAID_SERVE_KEPT_STEPS) {
    oldest = packaged->steps[0];
    packaged->step_count--;
    memmove(&packaged->steps[0], &packaged->steps[1], packaged->step_count * sizeof *packaged->steps);
  }
  packaged->steps[packaged->step_count++] = steps;
  pthread_mutex_unlock(&packaged->lock);
  braid_package_steps_destroy(oldest);
}

/* A kept image has what the last task left: another one finds none of it. */
static braid_status take_image(braid_serve_packaged *packaged, braid_overlay_image *image) {
  uint8_t *kept = NULL;
  pthread_mutex_lock(&packaged->lock);
  if (packaged->image_count) kept = packaged->images[--packaged->image_count];
  pthread_mutex_unlock(&packaged->lock);
  if (!kept) return braid_package_make_image(packaged->package, NULL, image);
  const braid_package *package = packaged->package;
  *image = (braid_overlay_image){.ddr = kept};
  for (int s = 0; s < BRAID_PACKAGE_SEGMENTS; s++) {
    bool read_only = s == BRAID_SEGMENT_CONSTANTS || s == BRAID_SEGMENT_INPUTS;
    image->segments[s] = (braid_overlay_segment){image->bytes, (uint64_t)package->bytes[s], read_only};
    if (s != BRAID_SEGMENT_CONSTANTS) memset(kept + image->bytes, 0, (size_t)package->bytes[s]);
    image->bytes += (uint64_t)package->bytes[s];
  }
  return BRAID_OK;
}

static void keep_image(braid_serve_packaged *packaged, uint8_t *ddr) {
  pthread_mutex_lock(&packaged->lock);
  bool kept = ddr && packaged->image_count < BRAID_SERVE_KEPT_IMAGES;
  if (kept) packaged->images[packaged->image_count++] = ddr;
  pthread_mutex_unlock(&packaged->lock);
  if (!kept) braid_free(NULL, ddr);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------
 */
braid_status braid_serve_task_switch(braid_serve_task *task, int cores) {
  braid_serve_packaged *packaged = task->packaged;
  if (task->steps && braid_package_steps_get_info(task->steps).cores == cores) return BRAID_OK;
  keep_steps(packaged, task->steps);
  task->steps = take_steps(packaged, cores);
  if (!task->steps) {
    BRAID_TRY(braid_package_steps_create(packaged->package, packaged->design, cores, NULL, &task->steps));
    task->compiles++;
    task->compile_microseconds += braid_package_steps_get_info(task->steps).compile_microseconds;
  }
  task->transfer_seconds += packaged->switch_seconds[cores - 1];
  return BRAID_OK;
}

braid_status braid_serve_task_begin(braid_serve_packaged *packaged, int cores, braid_tensor *const *inputs,
                                    braid_serve_task *out) {
  const braid_package *package = packaged->package;
  *out = (braid_serve_task){.packaged = packaged, .layers = package->layer_count};
  BRAID_TRY(take_image(packaged, &out->image));
  for (size_t i = 0; i < package->input_count; i++)
    BRAID_TRY(braid_package_put_input(package, i, inputs[i], &out->image));
  return braid_serve_task_switch(out, cores);
}

braid_status braid_serve_task_step(braid_serve_task *task, double *seconds) {
  *seconds = braid_package_steps_get_info(task->steps).layer_seconds[task->layer];
  BRAID_TRY(braid_package_steps_run(task->steps, &task->image, task->layer, task->layer + 1));
  task->layer++;
  return BRAID_OK;
}

double braid_serve_task_progress(const braid_serve_task *task) {
  braid_package_steps_info info = braid_package_steps_get_info(task->steps);
  double done = 0;
  for (size_t i = 0; i < task->layer; i++) done += info.layer_seconds[i];
  return info.seconds > 0 && task->layer < task->layers ? done / info.seconds : 1;
}

void braid_serve_task_end(braid_serve_task *task) {
  keep_steps(task->packaged, task->steps);
  keep_image(task->packaged, task->image.ddr);
  *task = (braid_serve_task){0};
}
