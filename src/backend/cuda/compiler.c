#include "backend/cuda/compiler.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "base/text.h"
#include "base/try.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 * As NVIDIA's "NVRTC" has it. */
typedef struct _nvrtcProgram *nvrtc_program;
typedef int nvrtc_code;

typedef struct nvrtc_api {
  nvrtc_code (*version)(int *major, int *minor);
  const char *(*error_string)(nvrtc_code code);
  nvrtc_code (*arch_count)(int *count);
  nvrtc_code (*archs)(int *out);
  nvrtc_code (*create)(nvrtc_program *program, const char *text, const char *name, int count,
                       const char *const *headers, const char *const *names);
  nvrtc_code (*destroy)(nvrtc_program *program);
  nvrtc_code (*compile)(nvrtc_program program, int count, const char *const *options);
  nvrtc_code (*log_bytes)(nvrtc_program program, size_t *bytes);
  nvrtc_code (*log)(nvrtc_program program, char *out);
  nvrtc_code (*cubin_bytes)(nvrtc_program program, size_t *bytes);
  nvrtc_code (*cubin)(nvrtc_program program, char *out);
  nvrtc_code (*ptx_bytes)(nvrtc_program program, size_t *bytes);
  nvrtc_code (*ptx)(nvrtc_program program, char *out);
} nvrtc_api;

enum { kOptions = 64, kArchs = 64, kDetailLog = 600 };

static nvrtc_api api;
static int version;
static int archs[kArchs], arch_count;
static char missing[200];

static const char *const kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

static bool compiler_find_functions(void *library) {
  const braid_library_function functions[] = {
      {"nvrtcVersion", &api.version},
      {"nvrtcGetErrorString", &api.error_string},
      {"nvrtcGetNumSupportedArchs", &api.arch_count},
      {"nvrtcGetSupportedArchs", &api.archs},
      {"nvrtcCreateProgram", &api.create},
      {"nvrtcDestroyProgram", &api.destroy},
      {"nvrtcCompileProgram", &api.compile},
      {"nvrtcGetProgramLogSize", &api.log_bytes},
      {"nvrtcGetProgramLog", &api.log},
      {"nvrtcGetCUBINSize", &api.cubin_bytes},
      {"nvrtcGetCUBIN", &api.cubin},
      {"nvrtcGetPTXSize", &api.ptx_bytes},
      {"nvrtcGetPTX", &api.ptx},
  };
  const char *lacks = braid_library_find_all(library, functions, sizeof functions / sizeof *functions);
  if (lacks) snprintf(missing, sizeof missing, "libnvrtc has no %s, 11.2 or later is needed", lacks);
  return !lacks;
}

/* Kept until the program ends. */
static void load_library(void) {
  void *library = NULL;
  int major = 0, minor = 0, count = 0;
  for (size_t i = 0; !library && i < sizeof kLibraries / sizeof *kLibraries; i++)
    library = dlopen(kLibraries[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(missing, sizeof missing,
             "there is no libnvrtc, CUDA's compiler (Debian: libnvrtc11.2 or later; else CUDA's toolkit)");
    return;
  }
  if (!compiler_find_functions(library)) {
    dlclose(library);
    return;
  }
  (void)api.version(&major, &minor);
  if (api.arch_count(&count) == 0 && count <= kArchs && api.archs(archs) == 0) arch_count = count;
  version = major * 1000 + minor * 10;
}

static void require_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_library);
}

braid_status braid_cuda_compiler_find(void) {
  require_library();
  return version ? BRAID_OK : braid_fail(BRAID_UNSUPPORTED, "%s", missing);
}

int braid_cuda_compiler_version(void) {
  require_library();
  return version;
}

/* --- compiling -----------------------------------------------------------------------------------------------------
 */
/* The newest generation that the compiler knows and the card runs. */
static int newest_arch(int capability) {
  int best = 0;
  for (int i = 0; i < arch_count; i++)
    if (archs[i] <= capability && archs[i] > best) best = archs[i];
  return best;
}

braid_status braid_cuda_compiler_check(int capability) {
  BRAID_TRY(braid_cuda_compiler_find());
  if (newest_arch(capability)) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "CUDA's compiler %d.%d knows no card of compute capability %d.%d",
                    version / 1000, version % 1000 / 10, capability / 10, capability % 10);
}

enum { kHopper = 90, kKnowsHopper = 12000 };

bool braid_cuda_compiler_knows_own(int capability) {
  require_library();
  return capability == kHopper && newest_arch(capability) == kHopper && version >= kKnowsHopper;
}

const braid_launch_text *braid_cuda_find_text(const char *name) {
  for (size_t i = 1; i < braid_cuda_text_count; i++)
    if (strcmp(braid_cuda_texts[i].name, name) == 0) return &braid_cuda_texts[i];
  return braid_launch_find_text(name);
}

/* A number with a point or an exponent begins here, and is of double precision? Its length, else 0. */
static size_t double_constant(const char *text) {
  size_t digits = strspn(text, "0123456789"), length = digits;
  if (text[length] == '.') length += 1 + strspn(text + length + 1, "0123456789");
  bool real = length > digits;
  if (length && (text[length] == 'e' || text[length] == 'E')) {
    size_t sign = text[length + 1] == '-' || text[length + 1] == '+';
    size_t exponent = strspn(text + length + 1 + sign, "0123456789");
    if (exponent) length += 1 + sign + exponent;
    real |= exponent > 0;
  }
  return real && length > 1 && text[length] != 'f' && text[length] != 'F' ? length : 0;
}

/* What OpenCL's -cl-single-precision-constant says, which CUDA's compiler does not know: constants are of single
 * precision. In options alone, where expressions come from; the kernels' own text says what it means. */
static void add_single(braid_text *out, const char *option) {
  for (const char *at = option; *at;) {
    bool within = at > option && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
    size_t length = within ? 0 : double_constant(at);
    braid_text_add_bytes(out, at, length ? length : 1);
    if (length) braid_text_add(out, "f");
    at += length ? length : 1;
  }
}

static const char kSingle[] = "-cl-single-precision-constant";

/* The options for CUDA's compiler. */
static char *translate_options(const char *options) {
  const char *found = strstr(options, kSingle);
  if (!found) return braid_strdup(NULL, options);
  braid_text text;
  braid_text_init(&text, NULL);
  braid_text_add_bytes(&text, options, (size_t)(found - options));
  add_single(&text, found + sizeof kSingle - 1);
  char *copy = text.failed ? NULL : braid_strdup(NULL, text.data);
  braid_text_deinit(&text);
  return copy;
}

/* Of options as "-DA=1 -DB -x", cut at their blanks: definitions become lines of the text, since the compiler's own
 * headers, which stand before everything, use short names too; the rest is passed on. */
static int split_options(char *options, braid_text *text, const char **out, int room) {
  int count = 0;
  char *rest = NULL;
  for (char *option = strtok_r(options, " ", &rest); option; option = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(option, '=');
    bool definition = strncmp(option, "-D", 2) == 0 && strncmp(option, "-DGRID_", 7) != 0;
    if (!definition && count < room) out[count++] = option;
    if (!definition) continue;
    if (value) *value = '\0';
    braid_text_printf(text, "#define %s %s\n", option + 2, value ? value + 1 : "1");
  }
  return count;
}

static braid_status fail_compile(const braid_log *log, nvrtc_program program, const char *name, const char *options,
                                 nvrtc_code code) {
  size_t bytes = 0;
  char *text = api.log_bytes(program, &bytes) == 0 && bytes ? braid_zalloc(NULL, bytes + 1) : NULL;
  if (text) (void)api.log(program, text);
  (void)braid_fail(BRAID_INVALID_FILE, "%s.cl does not compile for CUDA with \"%s\": %s%s%.*s", name, options,
                   api.error_string(code), text ? ", the compiler says: " : "", kDetailLog, text ? text : "");
  char *rest = NULL;
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    braid_log_write(log, BRAID_LOG_WARNING, "%s.cl: %.700s", name, line);
  braid_free(NULL, text);
  return BRAID_INVALID_FILE;
}

static braid_status take_binary(nvrtc_program program, bool ptx, uint8_t **binary, size_t *bytes) {
  if ((ptx ? api.ptx_bytes : api.cubin_bytes)(program, bytes) || !*bytes)
    return braid_fail(BRAID_INTERNAL, "CUDA's compiler gives no code");
  *binary = braid_alloc(NULL, *bytes);
  if (!*binary) return BRAID_NO_MEMORY;
  nvrtc_code code = (ptx ? api.ptx : api.cubin)(program, (char *)*binary);
  return code ? braid_fail(BRAID_INTERNAL, "CUDA's compiler gives no code: %s", api.error_string(code)) : BRAID_OK;
}

/* `options` are cut here. */
static braid_status compile_text(const braid_log *log, const braid_launch_text *text, int capability, char *options,
                                 const char *shown, braid_text *whole, uint8_t **binary, size_t *bytes) {
  const char *given[kOptions] = {"-default-device", "-std=c++17"};
  char arch[48], name[80];
  int newest = newest_arch(capability), count = 2;
  bool ptx = newest < capability;
  snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d%s", ptx ? "compute" : "sm", newest,
           braid_cuda_compiler_knows_own(capability) ? "a" : "");
  snprintf(name, sizeof name, "%s.cl", text->name);
  given[count++] = arch;
  braid_text_add(whole, braid_cuda_texts[0].text);
  count += split_options(options, whole, given + count, kOptions - count);
  braid_text_printf(whole, "#line 1 \"%s\"\n", name);
  braid_text_add(whole, text->text);
  if (whole->failed) return BRAID_NO_MEMORY;
  nvrtc_program program;
  nvrtc_code code = api.create(&program, whole->data, name, 0, NULL, NULL);
  if (code) return braid_fail(BRAID_INTERNAL, "nvrtcCreateProgram: %s", api.error_string(code));
  code = api.compile(program, count, given);
  braid_status status =
      code ? fail_compile(log, program, text->name, shown, code) : take_binary(program, ptx, binary, bytes);
  (void)api.destroy(&program);
  return status;
}

braid_status braid_cuda_compile(const braid_log *log, const braid_launch_text *text, int capability,
                                const char *options, uint8_t **binary, size_t *bytes) {
  *binary = NULL;
  BRAID_TRY(braid_cuda_compiler_check(capability));
  char *cut = translate_options(options);
  if (!cut) return BRAID_NO_MEMORY;
  braid_text whole;
  braid_text_init(&whole, NULL);
  braid_status status = compile_text(log, text, capability, cut, options, &whole, binary, bytes);
  braid_text_deinit(&whole);
  braid_free(NULL, cut);
  return status;
}
