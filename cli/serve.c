/* braid serve: becomes braid-serve, the program beside this one that has the daemon and loads its libraries. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cli_serve(int argc, char **argv) {
  static const char kName[] = "braid-serve";
  const cli_common common = {.json = cli_wants_json(argc, argv)};
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof kName);
  if (length <= 0) return cli_fail_text(&common, "serve", CLI_FAILED, "/proc/self/exe: %s", strerror(errno));
  path[length] = '\0';
  char *folder = strrchr(path, '/') + 1;
  strcpy(folder, kName);
  if (access(path, X_OK) != 0)
    return cli_fail_text(&common, "serve", CLI_FAILED,
                         "%s is not there: Braid was built without the daemon, which needs libmicrohttpd and jansson",
                         path);
  execv(path, argv);
  return cli_fail_text(&common, "serve", CLI_FAILED, "%s: %s", path, strerror(errno));
}
