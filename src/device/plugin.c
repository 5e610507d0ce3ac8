#include "device/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/library.h"

/* A name without a slash would be looked for in the system's folders. */
static bool is_path(const char *path) {
  return strchr(path, '/') != NULL;
}

braid_status braid_plugin_open(const char *path, void **handle, const braid_backend **backend) {
  *handle = NULL;
  *backend = NULL;
  if (!is_path(path))
    return braid_fail(BRAID_INVALID_ARGUMENT, "plug-in %.200s: expected a path with a slash in it, as ./%.200s", path,
                      path);
  struct stat about;
  if (stat(path, &about) != 0 || access(path, R_OK) != 0)
    return braid_fail(errno == ENOENT ? BRAID_NOT_FOUND : BRAID_IO, "plug-in %.200s: %s", path, strerror(errno));
  if (!S_ISREG(about.st_mode)) /* dlopen would wait for the writer of a FIFO */
    return braid_fail(BRAID_INVALID_FILE, "plug-in %.200s: is not a regular file", path);
  char why[300];
  *handle = braid_library_open(path, why, sizeof why);
  if (!*handle)
    return braid_fail(braid_library_static() ? BRAID_UNSUPPORTED : BRAID_INVALID_FILE,
                      "plug-in %.200s cannot be loaded: %s", path, why);
  union {
    void *object;
    const braid_backend *(*call)(uint32_t abi);
  } entry = {.object = dlsym(*handle, "braid_plugin")};
  if (entry.object) *backend = entry.call(BRAID_DEVICE_ABI);
  if (*backend) return BRAID_OK;
  braid_plugin_close(*handle);
  *handle = NULL;
  if (entry.object)
    return braid_fail(BRAID_UNSUPPORTED, "plug-in %.200s has no backend for version %d of the device contract", path,
                      BRAID_DEVICE_ABI);
  return braid_fail(BRAID_INVALID_FILE, "%.200s is no plug-in: it exports no function braid_plugin", path);
}

void braid_plugin_close(void *handle) {
  (void)dlclose(handle);
}
