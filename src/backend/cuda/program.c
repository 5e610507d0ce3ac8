#include "backend/cuda/program.h"

#include <string.h>

#include "backend/cuda/compiler.h"
#include "base/text.h"
#include "launch/cache.h"

struct braid_cuda_program {
  const braid_launch_text *text;
  char *options;
  braid_cuda_module module; /* NULL: it is being built */
  braid_cuda_program *next;
};

/* All that the binary depends on: it is the same on every card of the generation. */
static bool write_key(const braid_cuda_device *device, const braid_launch_text *text, const char *options,
                      braid_text *key) {
  braid_text_printf(key, "CUDA %d for %d\n%s\n", braid_cuda_compiler_version(), device->capability, options);
  braid_text_add_bytes(key, braid_cuda_texts[0].text, braid_cuda_texts[0].bytes);
  braid_text_add_bytes(key, text->text, text->bytes);
  return !key->failed;
}

static braid_status load_module(const braid_cuda_device *device, const void *binary, const char *name,
                                braid_cuda_module *out) {
  braid_cuda_enter(device);
  braid_cuda_result code = device->cuda->module_load(out, binary);
  braid_cuda_leave(device);
  return code ? braid_fail_prefix(braid_cuda_fail(code, "loading a program"), "%s.cl", name) : BRAID_OK;
}

/* From the cache if it is there and the driver takes it, else compiled and put there. */
static braid_status build_module(const braid_cuda_device *device, const braid_launch_text *text, const char *options,
                                 braid_cuda_module *out) {
  braid_text key;
  size_t bytes = 0;
  uint8_t *binary = NULL;
  braid_text_init(&key, NULL);
  bool keeps = write_key(device, text, options, &key) && device->cache;
  if (keeps) binary = braid_launch_cache_load(device->log, device->cache, key.data, key.length, &bytes);
  braid_status status = binary ? load_module(device, binary, text->name, out) : BRAID_NOT_FOUND;
  if (status != BRAID_OK) {
    braid_free(NULL, binary);
    status = braid_cuda_compile(device->log, text, device->capability, options, &binary, &bytes);
    if (status == BRAID_OK) status = load_module(device, binary, text->name, out);
    if (status == BRAID_OK && keeps)
      braid_launch_cache_store(device->log, device->cache, key.data, key.length, binary, bytes);
  }
  braid_free(NULL, binary);
  braid_text_deinit(&key);
  return status;
}

static braid_cuda_program *find_program(braid_cuda_device *device, const braid_launch_text *text, const char *options) {
  braid_cuda_program *found = device->programs;
  while (found && (found->text != text || strcmp(found->options, options) != 0)) found = found->next;
  return found;
}

static void free_program(const braid_cuda_device *device, braid_cuda_program *program) {
  if (program->module) (void)device->cuda->module_unload(program->module);
  braid_free(NULL, program->options);
  braid_free(NULL, program);
}

static void forget_program(braid_cuda_device *device, braid_cuda_program *program) {
  braid_cuda_program **link = &device->programs;
  while (*link != program) link = &(*link)->next;
  *link = program->next;
  free_program(device, program);
}

/* With the lock held, which is free while it compiles. */
static braid_status add_program(braid_cuda_device *device, const braid_launch_text *text, const char *options,
                                braid_cuda_module *out) {
  braid_cuda_program *program = braid_zalloc(NULL, sizeof *program);
  char *copy = program ? braid_strdup(NULL, options) : NULL;
  if (!copy) {
    braid_free(NULL, program);
    return BRAID_NO_MEMORY;
  }
  *program = (braid_cuda_program){.text = text, .options = copy, .next = device->programs};
  device->programs = program;
  pthread_mutex_unlock(&device->program_lock);
  braid_cuda_module module = NULL;
  braid_status status = build_module(device, text, options, &module);
  pthread_mutex_lock(&device->program_lock);
  program->module = module;
  *out = module;
  if (status != BRAID_OK) forget_program(device, program);
  pthread_cond_broadcast(&device->program_built);
  return status;
}

static braid_status find_or_build(braid_cuda_device *device, const braid_launch_text *text, const char *options,
                                  braid_cuda_module *out) {
  braid_status status = BRAID_OK;
  *out = NULL;
  pthread_mutex_lock(&device->program_lock);
  while (status == BRAID_OK && !*out) {
    const braid_cuda_program *found = find_program(device, text, options);
    if (!found)
      status = add_program(device, text, options, out);
    else if (found->module)
      *out = found->module;
    else
      pthread_cond_wait(&device->program_built, &device->program_lock);
  }
  pthread_mutex_unlock(&device->program_lock);
  return status;
}

braid_status braid_cuda_program_find(braid_cuda_device *device, const braid_launch *launch, const char *more_options,
                                     braid_cuda_function *out) {
  *out = NULL;
  const braid_launch_text *text = braid_cuda_find_text(launch->source);
  if (!text) return braid_fail(BRAID_NOT_FOUND, "there is no %s.cl in this library", launch->source);
  braid_text options;
  braid_cuda_module module = NULL;
  braid_text_init(&options, NULL);
  braid_text_printf(&options, "%s%s", launch->options, more_options);
  braid_status status = options.failed ? BRAID_NO_MEMORY : find_or_build(device, text, options.data, &module);
  braid_text_deinit(&options);
  if (status != BRAID_OK) return status;
  braid_cuda_enter(device);
  braid_cuda_result code = device->cuda->module_function(out, module, launch->function);
  braid_cuda_leave(device);
  if (!code) return BRAID_OK;
  return braid_fail_prefix(braid_cuda_fail(code, launch->function), "%s.cl", launch->source);
}

void braid_cuda_programs_release(braid_cuda_device *device) {
  while (device->programs) {
    braid_cuda_program *program = device->programs;
    device->programs = program->next;
    free_program(device, program);
  }
}
