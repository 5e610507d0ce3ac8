/* braid serve: becomes braid-serve, the program beside this one that has the daemon and loads its libraries. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "serving_evaluation.h"

int cli_serve(int argc, char **argv) {
  const cli_common common = {.json = cli_wants_json(argc, argv)};
  char path[4096];
  if (cli_daemon_path(path, sizeof path) != BRAID_OK)
    return cli_fail_text(&common, "serve", CLI_FAILED, "%s", braid_error_detail());
  execv(path, argv);
  return cli_fail_text(&common, "serve", CLI_FAILED, "%s: %s", path, strerror(errno));
}
