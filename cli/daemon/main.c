/* braid-serve: what `braid serve` becomes; argv is the command's. */
#include <signal.h>

#include "cli.h"

int main(int argc, char **argv) {
  (void)signal(SIGXFSZ, SIG_IGN); /* a file that reaches a limit is an error of writing, with a sentence */
  cli_fit_terminal(cli_wants_json(argc, argv));
  argp_err_exit_status = CLI_USAGE;
  return cli_serve(argc, argv);
}
