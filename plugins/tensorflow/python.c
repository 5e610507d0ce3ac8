/* The part in Python, braid_tensorflow.py, is run when a Python process loads this library, so that nothing has to be
 * installed or imported beside it. Python is looked for among what the process has loaded; other programs have none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* The module is made by hand: there is no file to import. */
static const char kLoader[] =
    "import sys as _s, types as _t\n"
    "if 'braid_tensorflow' not in _s.modules:\n"
    "  _m = _t.ModuleType('braid_tensorflow')\n"
    "  _m.__file__ = %s\n"
    "  _s.modules['braid_tensorflow'] = _m\n"
    "  try:\n"
    "    exec(compile(bytes.fromhex('%s').decode(), 'braid_tensorflow.py', 'exec'), _m.__dict__)\n"
    "  except Exception as _e:\n"
    "    del _s.modules['braid_tensorflow']\n"
    "    print('braid: the part in Python does not work here, so kernels run one after the "
    "other:', repr(_e), file=_s.stderr)\n"
    "  del _m\n"
    "del _s, _t\n";

static char *make_script(const char *text) {
  Dl_info info = {.dli_fname = NULL};
  (void)dladdr(text, &info);
  const char *path = info.dli_fname ? info.dli_fname : "";
  size_t length = strlen(text), bytes = sizeof kLoader + 2 * length + 2 * strlen(path) + 64;
  char *hex = malloc(2 * length + 1), *quoted = malloc(4 * strlen(path) + 32),
       *script = malloc(bytes + 4 * strlen(path));
  if (hex && quoted && script) {
    hex[0] = '\0';
    for (size_t i = 0; i < length; i++) snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
    size_t used = (size_t)sprintf(quoted, "bytes.fromhex('");
    for (const char *at = path; *at; at++) used += (size_t)sprintf(quoted + used, "%02x", (unsigned char)*at);
    sprintf(quoted + used, "').decode()");
    snprintf(script, bytes + 4 * strlen(path), kLoader, quoted, hex);
  } else {
    free(script);
    script = NULL;
  }
  free(hex);
  free(quoted);
  return script;
}

void fpga_run_python(void) {
  int (*is_initialized)(void);
  int (*ensure)(void);
  void (*release)(int);
  int (*run)(const char *, void *);
  *(void **)&is_initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  *(void **)&ensure = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  *(void **)&release = dlsym(RTLD_DEFAULT, "PyGILState_Release");
  *(void **)&run = dlsym(RTLD_DEFAULT, "PyRun_SimpleStringFlags");
  if (!is_initialized || !ensure || !release || !run || !is_initialized()) return;
  char *script = make_script(fpga_texts[0].text);
  if (!script) return;
  int state = ensure();
  (void)run(script, NULL);
  release(state);
  free(script);
}
