#include "schedule/program/glpk.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "base/thread.h"

/* The interface of 5.0, the only one of its major version. */
static const char kLibrary[] = "libglpk.so.40";

braid_glpk_api braid_glpk_functions;
static bool loaded;
static char missing[160];

static bool find_functions(void *library) {
#define BRAID_GLPK_FIND(name)                                                                                          \
  if (!braid_library_find(library, "glp_" #name, &braid_glpk_functions.name, sizeof braid_glpk_functions.name)) {      \
    snprintf(missing, sizeof missing, "%s lacks glp_" #name, kLibrary);                                                \
    return false;                                                                                                      \
  }
  BRAID_GLPK_FUNCTIONS(BRAID_GLPK_FIND)
#undef BRAID_GLPK_FIND
  return true;
}

static void load(void) {
  char why[128];
  void *library = braid_library_open(kLibrary, why, sizeof why);
  if (!library) {
    if (braid_library_static())
      snprintf(missing, sizeof missing, "%s: %s", kLibrary, why);
    else
      snprintf(missing, sizeof missing, "%s is not there (Debian: libglpk40)", kLibrary);
    return;
  }
  loaded = find_functions(library);
  if (loaded && !GLP(config)("TLS")) {
    snprintf(missing, sizeof missing, "%s was built for a single thread", kLibrary);
    loaded = false;
  }
  if (!loaded) dlclose(library);
}

bool braid_glpk_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return loaded;
}

typedef struct session {
  braid_status (*run)(void *context);
  void *context;
  int megabytes;
  jmp_buf error;
  char text[256]; /* what it said last */
  braid_status status;
} session;

/* Everything it would print comes here; nothing is printed. Its sentence of an error is followed by the place in its
 * source, which is not kept. */
static int keep_text(void *info, const char *text) {
  session *s = info;
  if (strncmp(text, "Error detected in file", 22) == 0) return 1;
  size_t length = strcspn(text, "\n");
  if (length >= sizeof s->text) length = sizeof s->text - 1;
  memcpy(s->text, text, length);
  s->text[length] = '\0';
  return 1;
}

static void leave(void *info) {
  longjmp(((session *)info)->error, 1);
}

static void *solver_main(void *context) {
  session *s = context;
  GLP(term_hook)(keep_text, s);
  GLP(error_hook)(leave, s);
  GLP(mem_limit)(s->megabytes);
  if (setjmp(s->error) == 0)
    s->status = s->run(s->context);
  else /* "memory allocation limit exceeded", "no memory available" */
    s->status = strstr(s->text, "memory") ? BRAID_NO_MEMORY : BRAID_INTERNAL;
  GLP(free_env)();
  return NULL;
}

braid_status braid_glpk_run(braid_status (*run)(void *context), void *context, int megabytes) {
  if (!braid_glpk_load()) return braid_fail(BRAID_UNSUPPORTED, "no GLPK: %s", missing);
  session s = {.run = run, .context = context, .megabytes = megabytes};
  braid_thread thread;
  braid_status status = braid_thread_start(&thread, "braid-glpk", solver_main, &s);
  if (status != BRAID_OK) return status;
  braid_thread_join(&thread);
  if (s.status != BRAID_OK) return braid_fail(s.status, "GLPK: %s", s.text);
  return BRAID_OK;
}
