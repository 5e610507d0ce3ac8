#include "backend/opencl/program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "launch/cache.h"
#include "launch/includes.h"

struct braid_cl_program {
  cl_program program;
  cl_device_id device;
  const braid_launch_text *source;
  char *options;
  braid_cl_program *next;
};

enum { kDetailLog = 600 }; /* bytes of a compiler's log in an error detail */
static const char kStandard[] = "-cl-std=CL1.2", kBlanks[] = " \t";

/* The compiler's log, whole: the error detail has room for its beginning alone. */
static void write_log(const braid_log *to, const char *file, const char *log) {
  enum { kLineBytes = 800 };
  while (*log) {
    size_t line = strcspn(log, "\n"), part = line < kLineBytes ? line : kLineBytes;
    if (part) braid_log_write(to, BRAID_LOG_WARNING, "%.150s: %.*s", file, (int)part, log);
    log += part + (part == line && log[line]);
  }
}

/* The compiler's log behind what was compiled for what. */
static braid_status build_failure(const braid_cl_device *device, cl_program program, const braid_launch_text *source,
                                  const char *options, cl_int code) {
  char scratch[32];
  braid_status status = code == CL_BUILD_PROGRAM_FAILURE ? BRAID_INVALID_FILE : braid_cl_status(code);
  size_t bytes = 0;
  char *log = NULL;
  const braid_cl_api *cl = device->cl;
  if (cl->GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) == CL_SUCCESS && bytes)
    log = braid_zalloc(NULL, bytes + 1);
  if (log) (void)cl->GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
  (void)braid_fail(status, "%s%s does not build for %s (%s) with \"%s\": %s%s%.*s", source->name,
                   strchr(source->name, '.') ? "" : ".cl", device->info.name, device->info.description, options,
                   braid_cl_error_name(code, scratch), log && log[0] ? ", the compiler says: " : "", kDetailLog,
                   log ? log : "");
  if (log) write_log(device->log, source->name, log);
  braid_free(NULL, log);
  return status;
}

/* --- in files ------------------------------------------------------------------------------------------------------
 */
/* All that the binary depends on, but not where the text lies; false: more than is known here. */
static bool write_key(const braid_cl_device *device, const braid_launch_text *source, const char *options,
                      braid_text *key) {
  static const cl_device_info kFacts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
  char fact[512];
  for (size_t i = 0; i < sizeof kFacts / sizeof *kFacts; i++) {
    braid_cl_query_text(device->id, kFacts[i], fact, sizeof fact);
    braid_text_printf(key, "%s\n", fact);
  }
  braid_text_printf(key, "%s\n", options);
  braid_text_add_bytes(key, source->text, source->bytes);
  bool known =
      !source->folders[0] || braid_launch_includes_collect(source->folders, options, source->text, source->bytes, key);
  return known && !key->failed;
}

uint8_t *braid_cl_program_binary(const braid_cl_device *device, cl_program program, size_t *bytes) {
  enum { kDevices = 64 };
  const braid_cl_api *cl = device->cl;
  cl_uint count = 0, mine = 0;
  cl_device_id devices[kDevices];
  size_t sizes[kDevices] = {0};
  uint8_t *binaries[kDevices] = {NULL};
  if (cl->GetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) != CL_SUCCESS ||
      count > kDevices ||
      cl->GetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof *devices, devices, NULL) != CL_SUCCESS ||
      cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL) != CL_SUCCESS)
    return NULL;
  while (mine < count && devices[mine] != device->id) mine++;
  if (mine == count || !sizes[mine]) return NULL;
  binaries[mine] = braid_alloc(NULL, sizes[mine]);
  *bytes = sizes[mine];
  if (binaries[mine] &&
      cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL) == CL_SUCCESS)
    return binaries[mine];
  braid_free(NULL, binaries[mine]);
  return NULL;
}

/* A program of a binary for the device; NULL with the driver's code if it does not take it. */
static cl_program load_binary(const braid_cl_device *device, const uint8_t *binary, size_t bytes, cl_int *code) {
  const braid_cl_api *cl = device->cl;
  cl_int taken = CL_SUCCESS;
  cl_program program =
      cl->CreateProgramWithBinary(device->shared->context, 1, &device->id, &bytes, &binary, &taken, code);
  if (program && taken == CL_SUCCESS) *code = cl->BuildProgram(program, 1, &device->id, NULL, NULL, NULL);
  if (taken != CL_SUCCESS) *code = taken;
  if (program && *code != CL_SUCCESS) {
    cl->ReleaseProgram(program);
    program = NULL;
  }
  return program;
}

/* --- building ------------------------------------------------------------------------------------------------------
 */
static braid_status compile_in_folders(const braid_cl_device *device, const braid_launch_text *source,
                                       const char *options, cl_program *out) {
  const braid_cl_api *cl = device->cl;
  cl_int code;
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

/* The source's own folders, which may be the same, come before those that the options name. */
static braid_status compile_program(const braid_cl_device *device, const braid_launch_text *source, const char *options,
                                    cl_program *out) {
  braid_text all;
  braid_text_init(&all, NULL);
  for (int i = 0; i < 2 && source->folders[i]; i++)
    if (!strpbrk(source->folders[i], kBlanks) && (!i || strcmp(source->folders[0], source->folders[1]) != 0))
      braid_text_printf(&all, "-I %s ", source->folders[i]);
  braid_text_add(&all, options);
  braid_status status = all.failed ? BRAID_NO_MEMORY : compile_in_folders(device, source, all.data, out);
  braid_text_deinit(&all);
  return status;
}

/* Compiled and kept, unless an included file changed meanwhile: the compiler may have read either. */
static braid_status compile_and_keep(const braid_cl_device *device, const braid_launch_text *source,
                                     const char *options, const braid_text *key, cl_program *out) {
  braid_status status = compile_program(device, source, options, out);
  if (status != BRAID_OK) return status;
  size_t bytes;
  braid_text now;
  braid_text_init(&now, NULL);
  bool same = write_key(device, source, options, &now) && now.length == key->length &&
              memcmp(now.data, key->data, now.length) == 0;
  uint8_t *binary = same ? braid_cl_program_binary(device, *out, &bytes) : NULL;
  if (binary) braid_launch_cache_store(device->log, device->cache, key->data, key->length, binary, bytes);
  braid_free(NULL, binary);
  braid_text_deinit(&now);
  return BRAID_OK;
}

/* From the cache if it is there and the driver takes it, else compiled and put there. */
static braid_status build_program(const braid_cl_device *device, const braid_launch_text *source, const char *options,
                                  cl_program *out) {
  *out = NULL;
  if (!device->cache) return compile_program(device, source, options, out);
  braid_text key;
  braid_text_init(&key, NULL);
  bool known = write_key(device, source, options, &key);
  size_t bytes = 0;
  cl_int code;
  uint8_t *binary = known ? braid_launch_cache_load(device->log, device->cache, key.data, key.length, &bytes) : NULL;
  if (binary) *out = load_binary(device, binary, bytes, &code);
  braid_free(NULL, binary);
  braid_status status = BRAID_OK;
  if (!*out && known)
    status = compile_and_keep(device, source, options, &key, out);
  else if (!*out)
    status = compile_program(device, source, options, out);
  braid_text_deinit(&key);
  return status;
}

static braid_status add_program(const braid_cl_device *device, const braid_launch_text *source, const char *options,
                                braid_cl_program **list, braid_cl_program **out) {
  *out = NULL;
  braid_cl_program *own = braid_zalloc(NULL, sizeof *own);
  if (!own) return BRAID_NO_MEMORY;
  *own = (braid_cl_program){.device = device->id, .source = source, .options = braid_strdup(NULL, options)};
  braid_status status = own->options ? build_program(device, source, options, &own->program) : BRAID_NO_MEMORY;
  if (status == BRAID_OK) {
    own->next = *list;
    *list = own;
    *out = own;
  } else {
    braid_free(NULL, own->options);
    braid_free(NULL, own);
  }
  return status;
}

/* --- bitstreams ----------------------------------------------------------------------------------------------------
 */
struct braid_cl_bitstream {
  cl_program program;
  char *kernels; /* "a;b;c" */
  char path[];
};

static bool has_kernel(const braid_cl_bitstream *bitstream, const char *name) {
  size_t length = strlen(name);
  for (const char *at = bitstream->kernels; (at = strstr(at, name)); at += length) {
    bool begins = at == bitstream->kernels || at[-1] == ';';
    if (begins && (at[length] == ';' || !at[length])) return true;
  }
  return false;
}

struct braid_cl_module {
  braid_launch_text source;      /* its text, whose name is the path */
  braid_cl_bitstream *bitstream; /* instead; NULL: text */
  braid_cl_program *programs;    /* of the text; guarded by the context's lock */
};

static braid_cl_module *module_of(const braid_launch *launch) {
  return launch->module;
}

static const braid_cl_bitstream *bitstream_of(const braid_cl_device *device, const braid_launch *launch) {
  return launch->module ? module_of(launch)->bitstream : device->bitstream;
}

bool braid_cl_program_is_possible(const braid_cl_device *device, const braid_launch *launch, char *why,
                                  size_t why_bytes) {
  const braid_cl_bitstream *bitstream = bitstream_of(device, launch);
  if (bitstream) {
    if (has_kernel(bitstream, launch->function)) return true;
    snprintf(why, why_bytes, "%.80s has no kernel %.60s, it has %.90s", bitstream->path, launch->function,
             bitstream->kernels);
  } else if (!launch->module && !braid_launch_find_text(launch->source)) {
    snprintf(why, why_bytes, "there is no kernels/opencl/%.60s.cl in this library", launch->source);
  } else if (!braid_cl_query(device->id, CL_DEVICE_COMPILER_AVAILABLE)) {
    snprintf(why, why_bytes, "the driver has no compiler: the device needs a bitstream=FILE");
  } else {
    return true;
  }
  return false;
}

char *braid_cl_program_kernels(const braid_cl_device *device, cl_program program) {
  const braid_cl_api *cl = device->cl;
  size_t bytes = 0;
  if (cl->GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes) != CL_SUCCESS) return NULL;
  char *names = braid_zalloc(NULL, bytes + 1);
  if (names && cl->GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, bytes, names, NULL) == CL_SUCCESS) return names;
  braid_free(NULL, names);
  return NULL;
}

static void free_bitstream(const braid_cl_device *device, braid_cl_bitstream *bitstream) {
  if (!bitstream) return;
  if (bitstream->program) braid_cl_context_drop(device->shared, BRAID_CL_OBJECT_PROGRAM, bitstream->program);
  braid_free(NULL, bitstream->kernels);
  braid_free(device->allocator, bitstream);
}

static braid_status load_bitstream(const braid_cl_device *device, const char *path, braid_cl_bitstream **out) {
  static const size_t kMostBytes = (size_t)2 << 30;
  braid_file_view file;
  *out = NULL;
  braid_status status = braid_file_open(device->allocator, path, kMostBytes, &file);
  if (status != BRAID_OK) return status;
  braid_cl_bitstream *bitstream = braid_zalloc(device->allocator, sizeof *bitstream + strlen(path) + 1);
  if (!bitstream) {
    braid_file_close(&file);
    return BRAID_NO_MEMORY;
  }
  strcpy(bitstream->path, path);
  cl_int code = CL_INVALID_BINARY;
  if (file.bytes) bitstream->program = load_binary(device, file.data, file.bytes, &code);
  braid_file_close(&file);
  char scratch[32];
  if (!bitstream->program)
    status = braid_fail(BRAID_INVALID_FILE, "%s: %s (%s) does not take it as a program for itself: %s", path,
                        device->info.name, device->info.description, braid_cl_error_name(code, scratch));
  if (status == BRAID_OK && !(bitstream->kernels = braid_cl_program_kernels(device, bitstream->program)))
    status = braid_fail(BRAID_INVALID_FILE, "%s: the driver does not say which kernels are in it", path);
  if (status == BRAID_OK)
    *out = bitstream;
  else
    free_bitstream(device, bitstream);
  return status;
}

braid_status braid_cl_bitstream_load(braid_cl_device *device, const char *path) {
  return load_bitstream(device, path, &device->bitstream);
}

void braid_cl_bitstream_release(braid_cl_device *device) {
  free_bitstream(device, device->bitstream);
  device->bitstream = NULL;
}

/* --- modules -------------------------------------------------------------------------------------------------------
 */
const char *braid_cl_module_path(const braid_cl_module *module) {
  return module->bitstream ? module->bitstream->path : module->source.name;
}

/* The file's folder: absolute, since a driver may compile in a process of its own, unless only as given it has no
 * blanks, which not all compilers take in an option. */
static char *folder_of(const braid_allocator *allocator, const char *path) {
  char full[PATH_MAX];
  const char *chosen = realpath(path, full) && !strpbrk(full, kBlanks) ? full : path;
  const char *slash = strrchr(chosen, '/');
  if (!slash) return braid_strdup(allocator, ".");
  size_t length = (size_t)(slash - chosen) + (slash == chosen);
  char *folder = braid_zalloc(allocator, length + 1);
  if (folder) memcpy(folder, chosen, length);
  return folder;
}

static braid_status read_module_text(const braid_cl_device *device, const char *path, const char *manifest,
                                     braid_launch_text *out) {
  static const size_t kMostBytes = (size_t)16 << 20;
  braid_file_view file;
  braid_status status = braid_file_open(device->allocator, path, kMostBytes, &file);
  if (status != BRAID_OK) return status;
  char *text = braid_alloc(device->allocator, file.bytes + 1);
  out->name = braid_strdup(device->allocator, path);
  out->folders[0] = folder_of(device->allocator, path);
  out->folders[1] = folder_of(device->allocator, manifest);
  out->text = text;
  out->bytes = file.bytes;
  if (text && file.bytes) memcpy(text, file.data, file.bytes);
  if (text) text[file.bytes] = '\0';
  braid_file_close(&file);
  return text && out->name && out->folders[0] && out->folders[1] ? BRAID_OK : BRAID_NO_MEMORY;
}

braid_status braid_cl_module_open(braid_cl_device *device, const char *path, bool bitstream, const char *manifest,
                                  braid_cl_module **out) {
  *out = NULL;
  braid_cl_module *module = braid_zalloc(device->allocator, sizeof *module);
  if (!module) return BRAID_NO_MEMORY;
  braid_status status = bitstream ? load_bitstream(device, path, &module->bitstream)
                                  : read_module_text(device, path, manifest, &module->source);
  if (status == BRAID_OK)
    *out = module;
  else
    braid_cl_module_close(device, module);
  return status;
}

static void free_programs(braid_cl_context *context, braid_cl_program *list) {
  while (list) {
    braid_cl_program *program = list;
    list = program->next;
    braid_cl_context_drop(context, BRAID_CL_OBJECT_PROGRAM, program->program);
    braid_free(NULL, program->options);
    braid_free(NULL, program);
  }
}

void braid_cl_module_close(const braid_cl_device *device, braid_cl_module *module) {
  if (!module) return;
  free_programs(device->shared, module->programs);
  free_bitstream(device, module->bitstream);
  braid_free(device->allocator, (void *)module->source.name);
  braid_free(device->allocator, (void *)module->source.text);
  for (int i = 0; i < 2; i++) braid_free(device->allocator, (void *)module->source.folders[i]);
  braid_free(device->allocator, module);
}

/* --- programs -------------------------------------------------------------------------------------------------------
 */
/* Of text of somebody else, the names of arguments' types are kept, so that they can be compared with what is given
 * (arguments.c). */
static void write_options(const braid_launch_text *source, const braid_launch *launch, braid_text *out) {
  /* A compiler that is given two standards takes either. */
  if (!strstr(launch->options, "-cl-std")) braid_text_add(out, kStandard);
  if (source->folders[0]) braid_text_add(out, " -cl-kernel-arg-info");
  if (launch->options[0]) braid_text_printf(out, " %s", launch->options);
}

static braid_status find_or_build(const braid_cl_device *device, const braid_launch_text *source, const char *options,
                                  braid_cl_program **list, cl_program *out) {
  braid_status status = BRAID_OK;
  pthread_mutex_lock(&device->shared->lock);
  braid_cl_program *found = *list;
  while (found && (found->device != device->id || found->source != source || strcmp(found->options, options) != 0))
    found = found->next;
  if (!found) status = add_program(device, source, options, list, &found);
  if (found) *out = found->program;
  pthread_mutex_unlock(&device->shared->lock);
  return status;
}

braid_status braid_cl_program_get(const braid_cl_device *device, const braid_launch *launch, cl_program *out) {
  *out = NULL;
  char why[256];
  if (!braid_cl_program_is_possible(device, launch, why, sizeof why)) return braid_fail(BRAID_NOT_FOUND, "%s", why);
  const braid_cl_bitstream *bitstream = bitstream_of(device, launch);
  if (bitstream) {
    *out = bitstream->program;
    return BRAID_OK;
  }
  const braid_launch_text *source =
      launch->module ? &module_of(launch)->source : braid_launch_find_text(launch->source);
  braid_cl_program **list = launch->module ? &module_of(launch)->programs : &device->shared->programs;
  braid_text options;
  braid_text_init(&options, NULL);
  write_options(source, launch, &options);
  braid_status status = options.failed ? BRAID_NO_MEMORY : find_or_build(device, source, options.data, list, out);
  braid_text_deinit(&options);
  return status;
}

void braid_cl_programs_release(braid_cl_context *context) {
  free_programs(context, context->programs);
  context->programs = NULL;
}
