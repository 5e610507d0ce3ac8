/* What a core build (BRAID_CORE) does without, as functions that say so: the parts that stand on other libraries. */
#include "backend/cpu/tables.h"
#include "braid/group.h"
#include "device/platform.h"
#include "device/plugin.h"
#include "model/model.h"
#include "schedule/program/program.h"

const braid_cpu_table *const braid_cpu_onednn_tables[] = {NULL};

static braid_status without(const char *what, const char *path) {
  return braid_fail(BRAID_UNSUPPORTED, "%.200s: this is a core build, without %s", path, what);
}

braid_status braid_onnx_load(const braid_allocator *allocator, const char *path, const braid_model_options *options,
                             braid_graph **out) {
  (void)allocator, (void)options;
  *out = NULL;
  return without("ONNX", path);
}

braid_status braid_onnx_parse(const braid_allocator *allocator, const braid_model_memory *memory, braid_graph **out) {
  (void)allocator;
  *out = NULL;
  return without("ONNX", memory->name);
}

braid_status braid_model_save_onnx(const braid_graph *graph, const char *path) {
  (void)graph;
  return without("ONNX", path);
}

braid_status braid_platform_load(const braid_allocator *allocator, const char *path, braid_platform **out) {
  (void)allocator;
  *out = NULL;
  return without("platform files", path);
}

void braid_platform_free(braid_platform *platform) {
  (void)platform;
}

const braid_platform_device *braid_platform_find(const braid_platform *platform, const char *name, int64_t *part) {
  (void)platform, (void)name;
  *part = -1;
  return NULL;
}

bool braid_platform_options(const braid_platform_device *device, int64_t part, const char *more, char *out,
                            size_t bytes) {
  (void)device, (void)part, (void)more, (void)out, (void)bytes;
  return false;
}

braid_status braid_plugin_open(const char *path, void **handle, const braid_backend **backend) {
  *handle = NULL;
  *backend = NULL;
  return without("plug-ins", path);
}

braid_status braid_group_load(const braid_allocator *allocator, const char *path, braid_group **out) {
  (void)allocator;
  *out = NULL;
  return without("modules", path ? path : "libbraid_mpi.so");
}

void braid_plugin_close(void *handle) {
  (void)handle;
}

braid_status braid_program_relax(const braid_program *program, int iterations, double *joules) {
  (void)program, (void)iterations;
  *joules = 0;
  return without("GLPK", "a bound of energy");
}

braid_status braid_program_search_run(const braid_program *program, braid_program_search *search) {
  (void)program;
  search->joules = 0;
  return without("GLPK", "the policy optimal");
}
