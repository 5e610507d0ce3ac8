/* The part in Python, braid_tensorflow.py, is run when a Python process loads this library, so that nothing has to be
 * installed or imported beside it. Python is looked for among what the process has loaded; other programs have none. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* The module is made by hand: there is no file to import. */
static const char kLoader[] =
    "def load(text, path):\n"
    "  import sys, types\n"
    "  if 'braid_tensorflow' in sys.modules:\n"
    "    return\n"
    "  module = sys.modules['braid_tensorflow'] = types.ModuleType('braid_tensorflow')\n"
    "  module.__file__ = path\n"
    "  try:\n"
    "    exec(compile(text, 'braid_tensorflow.py', 'exec'), module.__dict__)\n"
    "  except Exception as error:\n"
    "    del sys.modules['braid_tensorflow']\n"
    "    print('braid: the part in Python does not work here, so kernels run one after the '\n"
    "          'other:', repr(error), file=sys.stderr)\n";

/* Python runs it among the names of the user's script (__main__), so it makes none of its own there. */
static const char kCall[] = "(lambda names: (exec(bytes.fromhex('%s').decode(), names), "
                            "names['load'](bytes.fromhex('%s').decode(), bytes.fromhex('%s').decode())))({})\n";

static char *write_hex(const char *text) {
  size_t length = strlen(text);
  char *hex = malloc(2 * length + 1);
  if (!hex) return NULL;
  hex[0] = '\0';
  for (size_t i = 0; i < length; i++) snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
  return hex;
}

static char *make_script(const char *text) {
  Dl_info info = {.dli_fname = NULL};
  (void)dladdr(text, &info);
  char *loader = write_hex(kLoader), *module = write_hex(text), *path = write_hex(info.dli_fname ? info.dli_fname : "");
  char *script = NULL;
  if (loader && module && path) {
    size_t bytes = sizeof kCall + strlen(loader) + strlen(module) + strlen(path);
    script = malloc(bytes);
    if (script) snprintf(script, bytes, kCall, loader, module, path);
  }
  free(loader);
  free(module);
  free(path);
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
