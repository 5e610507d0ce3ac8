#include "emulate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*run_function)(void (*entry)(void **), const unsigned *grid, unsigned block, void **arguments);

struct emulated_function {
  char *text, *name;
  run_function run;
  void (*entry)(void **);
  int (*count)(void);
  emulated_function *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emulated_function *functions;

static int write_source(const char *path, const char *text, const char *name) {
  FILE *file = fopen(path, "w");
  if (!file) return 0;
  fprintf(file,
          "#include \"%s\"\n%s\nextern \"C\" void emulated_call_it(void **a) { emulated_call(&%s, a); }\n"
          "extern \"C\" int emulated_count_it() { return emulated_count_of(&%s); }\n",
          EMULATE_HEADER, text, name, name);
  return fclose(file) == 0;
}

static void *find_symbol(void *library, const char *name, void *out, size_t bytes) {
  void *found = dlsym(library, name);
  memcpy(out, &found, bytes);
  return found;
}

static int compile(emulated_function *function) {
  char folder[] = "/tmp/braid-emulate-XXXXXX", source[64], library[64], command[512];
  if (!mkdtemp(folder)) return 0;
  snprintf(source, sizeof source, "%s/kernel.cpp", folder);
  snprintf(library, sizeof library, "%s/kernel.so", folder);
  snprintf(command, sizeof command, "c++ -std=gnu++14 -O1 -fwrapv -w -shared -fPIC %s -o %s", source, library);
  void *loaded = NULL;
  if (write_source(source, function->text, function->name) && system(command) == 0) loaded = dlopen(library, RTLD_NOW);
  int found = loaded && find_symbol(loaded, "emulated_run", &function->run, sizeof function->run) &&
              find_symbol(loaded, "emulated_call_it", &function->entry, sizeof function->entry) &&
              find_symbol(loaded, "emulated_count_it", &function->count, sizeof function->count);
  unlink(source);
  unlink(library);
  rmdir(folder);
  return found;
}

emulated_function *emulate_find(const char *text, const char *name) {
  pthread_mutex_lock(&lock);
  emulated_function *found = functions;
  while (found && (strcmp(found->text, text) != 0 || strcmp(found->name, name) != 0)) found = found->next;
  if (!found && (found = calloc(1, sizeof *found))) {
    found->text = strdup(text);
    found->name = strdup(name);
    if (found->text && found->name && compile(found)) {
      found->next = functions;
      functions = found;
    } else {
      free(found->text);
      free(found->name);
      free(found);
      found = NULL;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

int emulate_arguments(const emulated_function *function) {
  return function->count();
}

uint64_t *emulate_copy(const emulated_function *function, void *const *arguments) {
  uint64_t *values = calloc((size_t)function->count() + 1, sizeof *values);
  for (int i = 0; values && i < function->count(); i++) memcpy(&values[i], arguments[i], sizeof *values);
  return values;
}

void emulate_launch(const emulated_function *function, const unsigned grid[3], unsigned block, void **arguments) {
  pthread_mutex_lock(&lock);
  function->run(function->entry, grid, block, arguments);
  pthread_mutex_unlock(&lock);
}
