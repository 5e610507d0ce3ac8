/* braid-serve: what `braid serve` becomes; argv is the command's. */
#include <signal.h>
#include <sys/resource.h>

#include "cli.h"

/* A connection is a file: as many as this system lets us have, not as many as programs that use select() can. */
static void allow_files(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv) {
  (void)signal(SIGXFSZ, SIG_IGN); /* a file that reaches a limit is an error of writing, with a sentence */
  allow_files();
  cli_fit_terminal(cli_wants_json(argc, argv));
  argp_err_exit_status = CLI_USAGE;
  return cli_serve(argc, argv);
}
