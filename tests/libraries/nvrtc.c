/* Passes for NVRTC, CUDA's compiler: whatever it is given compiles, to some bytes, which cuda.c takes for a program.
 * With FAKE_NVRTC_NO_CODE set it does not hand them over. EMULATE: the bytes are the text itself. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the real headers are not needed */
#define EXPORT __attribute__((visibility("default")))
typedef void *program;
static const char kCode[] = "no code";
#ifndef EMULATE
static char any;
#endif

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
EXPORT const char *nvrtcGetErrorString(int code) {
  return code ? "NVRTC_ERROR" : "NVRTC_SUCCESS";
}
EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetNumSupportedArchs(int *count) {
  *count = 1;
  return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *out);
EXPORT int nvrtcGetSupportedArchs(int *out) {
  *out = 90;
  return 0;
}
EXPORT int nvrtcCreateProgram(program *out, const char *text, const char *name, int count, const char *const *headers,
                              const char *const *names);
EXPORT int nvrtcCreateProgram(program *out, const char *text, const char *name, int count, const char *const *headers,
                              const char *const *names) {
  (void)name, (void)count, (void)headers, (void)names;
#ifdef EMULATE
  *out = strdup(text);
#else
  (void)text;
  *out = &any;
#endif
  return 0;
}
EXPORT int nvrtcDestroyProgram(program *which);
EXPORT int nvrtcDestroyProgram(program *which) {
#ifdef EMULATE
  free(*which);
#endif
  *which = NULL;
  return 0;
}
EXPORT int nvrtcCompileProgram(program which, int count, const char *const *options);
EXPORT int nvrtcCompileProgram(program which, int count, const char *const *options) {
  (void)which, (void)count, (void)options;
  return 0;
}
#ifdef EMULATE
#define CODE(which, text) (*(text) ? (const char *)(which) : (text))
#define SIZE(which, text) (strlen(CODE(which, text)) + 1)
#else
#define CODE(which, text) (text)
#define SIZE(which, text) sizeof text
#endif
#define NVRTC_RESULT(size_name, name, text)                                                                            \
  EXPORT int size_name(program which, size_t *bytes) {                                                                 \
    (void)which;                                                                                                       \
    *bytes = SIZE(which, text);                                                                                        \
    return 0;                                                                                                          \
  }                                                                                                                    \
  EXPORT int name(program which, char *out) {                                                                          \
    (void)which;                                                                                                       \
    if (getenv("FAKE_NVRTC_NO_CODE")) return 11;                                                                       \
    memcpy(out, CODE(which, text), SIZE(which, text));                                                                 \
    return 0;                                                                                                          \
  }
NVRTC_RESULT(nvrtcGetProgramLogSize, nvrtcGetProgramLog, "")
NVRTC_RESULT(nvrtcGetCUBINSize, nvrtcGetCUBIN, kCode)
NVRTC_RESULT(nvrtcGetPTXSize, nvrtcGetPTX, kCode)
