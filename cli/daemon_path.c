#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "serving_evaluation.h"

braid_status cli_daemon_path(char *out, size_t bytes) {
  static const char kName[] = "braid-serve";
  ssize_t length = bytes > sizeof kName ? readlink("/proc/self/exe", out, bytes - sizeof kName) : -1;
  if (length <= 0) return braid_fail(BRAID_IO, "/proc/self/exe: %s", strerror(errno));
  out[length] = '\0';
  strcpy(strrchr(out, '/') + 1, kName);
  if (access(out, X_OK) == 0) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED,
                    "%s is not there: Braid was built without the daemon, which needs libmicrohttpd and jansson", out);
}
