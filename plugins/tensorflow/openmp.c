/* The functions of GNU's OpenMP that the library calls. The plug-in is not linked with OpenMP but loads it, since its
 * threads would spin for long (spins.h). A function that is missing here is one of the linker's, with OpenMP. */
#include "../spins.h"
#include "plugin.h"

#ifdef __clang__ /* which has an OpenMP of its own */

bool fpga_load_openmp(void) {
  return true;
}

#else

/* PROCEDURE(name, parameters, arguments), FUNCTION(result, name, parameters, arguments) */
#define OPENMP(PROCEDURE, FUNCTION)                                                                                    \
  PROCEDURE(GOMP_parallel, (void (*run)(void *), void *data, unsigned threads, unsigned flags),                        \
            (run, data, threads, flags))                                                                               \
  PROCEDURE(GOMP_barrier, (void), ())                                                                                  \
  PROCEDURE(GOMP_atomic_start, (void), ())                                                                             \
  PROCEDURE(GOMP_atomic_end, (void), ())                                                                               \
  PROCEDURE(GOMP_critical_name_start, (void **name), (name))                                                           \
  PROCEDURE(GOMP_critical_name_end, (void **name), (name))                                                             \
  PROCEDURE(GOMP_loop_end, (void), ())                                                                                 \
  PROCEDURE(GOMP_loop_end_nowait, (void), ())                                                                          \
  FUNCTION(bool, GOMP_loop_nonmonotonic_dynamic_start,                                                                 \
           (long start, long end, long step, long chunk, long *first, long *last),                                     \
           (start, end, step, chunk, first, last))                                                                     \
  FUNCTION(bool, GOMP_loop_nonmonotonic_dynamic_next, (long *first, long *last), (first, last))                        \
  FUNCTION(int, omp_get_max_threads, (void), ())                                                                       \
  FUNCTION(int, omp_get_num_threads, (void), ())                                                                       \
  FUNCTION(int, omp_get_thread_num, (void), ())                                                                        \
  FUNCTION(int, omp_get_proc_bind, (void), ())                                                                         \
  FUNCTION(int, omp_in_parallel, (void), ())                                                                           \
  FUNCTION(int, omp_pause_resource_all, (int kind), (kind))                                                            \
  PROCEDURE(omp_set_dynamic, (int dynamic), (dynamic))                                                                 \
  PROCEDURE(omp_set_num_threads, (int threads), (threads))

#define DECLARE_PROCEDURE(name, parameters, arguments)                                                                 \
  void name parameters;                                                                                                \
  static void(*real_##name) parameters;
#define DECLARE_FUNCTION(result, name, parameters, arguments)                                                          \
  result name parameters;                                                                                              \
  static result(*real_##name) parameters;
#define DEFINE_PROCEDURE(name, parameters, arguments)                                                                  \
  void name parameters {                                                                                               \
    real_##name arguments;                                                                                             \
  }
#define DEFINE_FUNCTION(result, name, parameters, arguments)                                                           \
  result name parameters {                                                                                             \
    return real_##name arguments;                                                                                      \
  }
#define FIND_PROCEDURE(name, parameters, arguments) {#name, (void **)&real_##name},
#define FIND_FUNCTION(result, name, parameters, arguments) {#name, (void **)&real_##name},

OPENMP(DECLARE_PROCEDURE, DECLARE_FUNCTION)
OPENMP(DEFINE_PROCEDURE, DEFINE_FUNCTION)

bool fpga_load_openmp(void) {
  static const struct {
    const char *name;
    void **address;
  } kFunctions[] = {OPENMP(FIND_PROCEDURE, FIND_FUNCTION)};
  void *library = braid_load_with_short_spins("libgomp.so.1");
  for (size_t i = 0; library && i < sizeof kFunctions / sizeof *kFunctions; i++)
    if (!(*kFunctions[i].address = dlsym(library, kFunctions[i].name))) return false;
  return library != NULL;
}

#endif
