#include "backend/opencl/program.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct braid_cl_program {
  cl_program program;
  cl_device_id device;
  const braid_cl_source *source;
  char *options;
  braid_cl_program *next;
};

static const char kStandard[] = "-cl-std=CL1.2";

static const braid_cl_source *find_source(const char *name) {
  for (size_t i = 0; i < braid_cl_source_count; i++)
    if (strcmp(braid_cl_sources[i].name, name) == 0) return &braid_cl_sources[i];
  return NULL;
}

/* The compiler's log behind what was compiled for what. */
static braid_status build_failure(const braid_cl_device *device, cl_program program, const braid_cl_source *source,
                                  const char *options, cl_int code) {
  char scratch[32];
  braid_status status = code == CL_BUILD_PROGRAM_FAILURE ? BRAID_INVALID_FILE : braid_cl_status(code);
  size_t bytes = 0;
  char *log = NULL;
  const braid_cl_api *cl = device->cl;
  if (cl->GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) == CL_SUCCESS && bytes)
    log = braid_zalloc(NULL, bytes + 1);
  if (log) (void)cl->GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
  (void)braid_fail(status, "%s.cl does not build for %s (%s) with \"%s\": %s%s%.600s", source->name, device->info.name,
                   device->info.description, options, braid_cl_error_name(code, scratch),
                   log && log[0] ? ", the compiler says: " : "", log ? log : "");
  braid_free(NULL, log);
  return status;
}

static braid_status build(const braid_cl_device *device, const braid_cl_source *source, const char *options,
                          cl_program *out) {
  const braid_cl_api *cl = device->cl;
  cl_int code;
  *out = NULL;
  cl_program program =
      cl->CreateProgramWithSource(device->shared->context, 1, &(const char *){source->text}, &source->bytes, &code);
  if (!program) return braid_cl_fail(code, "a program");
  code = cl->BuildProgram(program, 1, &device->id, options, NULL, NULL);
  if (code == CL_SUCCESS) {
    *out = program;
    return BRAID_OK;
  }
  braid_status status = build_failure(device, program, source, options, code);
  cl->ReleaseProgram(program);
  return status;
}

static braid_status add(const braid_cl_device *device, const braid_cl_source *source, const char *options,
                        braid_cl_program **out) {
  *out = NULL;
  braid_cl_program *own = braid_zalloc(NULL, sizeof *own);
  if (!own) return BRAID_NO_MEMORY;
  *own = (braid_cl_program){.device = device->id, .source = source, .options = braid_strdup(NULL, options)};
  braid_status status = own->options ? build(device, source, options, &own->program) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    own->next = device->shared->programs;
    device->shared->programs = own;
    *out = own;
  } else {
    braid_free(NULL, own->options);
    braid_free(NULL, own);
  }
  return status;
}

braid_status braid_cl_program_get(const braid_cl_device *device, const char *name, const char *options,
                                  cl_program *out) {
  *out = NULL;
  const braid_cl_source *source = find_source(name);
  if (!source) return braid_fail(BRAID_INTERNAL, "there is no kernels/opencl/%s.cl in this library", name);
  char all[BRAID_CL_OPTION_BYTES + sizeof kStandard];
  snprintf(all, sizeof all, "%s%s%s", kStandard, options[0] ? " " : "", options);
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&device->shared->lock);
  braid_cl_program *found = device->shared->programs;
  while (found && (found->device != device->id || found->source != source || strcmp(found->options, all) != 0))
    found = found->next;
  if (!found) status = add(device, source, all, &found);
  if (found) *out = found->program;
  pthread_mutex_unlock(&device->shared->lock);
  return status;
}

void braid_cl_programs_release(braid_cl_context *context) {
  while (context->programs) {
    braid_cl_program *program = context->programs;
    context->programs = program->next;
    context->cl->ReleaseProgram(program->program);
    braid_free(NULL, program->options);
    braid_free(NULL, program);
  }
}
