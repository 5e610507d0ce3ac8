/* For tests of this backend: libraries that pass for NVIDIA's are loaded once in a program, so each case runs in a
 * child of its own. */
#ifndef BRAID_BACKEND_CUDA_CUDA_CHILDREN_H
#define BRAID_BACKEND_CUDA_CUDA_CHILDREN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/library.h"
#include "braid/status.h"

#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, braid_error_detail());                        \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

static inline void *preload(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", BRAID_LIBRARIES, name);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *card_driver; /* the library that passes for it */
/* Of it: streams stop, and go on; how often they were given functions of the host, graphs, and kernels or captures of
 * them. */
static void (*hold_streams)(void);
static void (*go_on)(void);
static long (*host_calls)(void);
static long (*graph_launches)(void);
static long (*kernel_launches)(void);
static int (*graph_depth)(void); /* of the graph made last: how many steps wait one for the other */

static inline bool preload_driver(const char *name) {
  card_driver = preload(name);
  if (card_driver && braid_library_find(card_driver, "fake_cuda_hold", &hold_streams, sizeof hold_streams))
    return braid_library_find(card_driver, "fake_cuda_go", &go_on, sizeof go_on) &&
           braid_library_find(card_driver, "fake_cuda_host_calls", &host_calls, sizeof host_calls) &&
           braid_library_find(card_driver, "fake_cuda_graphs", &graph_launches, sizeof graph_launches) &&
           braid_library_find(card_driver, "fake_cuda_depth", &graph_depth, sizeof graph_depth) &&
           braid_library_find(card_driver, "fake_cuda_launches", &kernel_launches, sizeof kernel_launches);
  return card_driver != NULL;
}

enum { kLongestChild = 120 }; /* seconds; one that takes longer hangs */

/* Runs it in a child, with the libraries loaded before (NULL: none) and a variable set. */
static inline void in_child(int (*run)(void), const char *driver, const char *compiler, const char *variable,
                            const char *value) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test */
    alarm(kLongestChild);
    if (variable) setenv(variable, value, 1);
    bool loaded = (!driver || preload_driver(driver)) && (!compiler || preload(compiler));
    _exit(loaded ? run() : 2);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
