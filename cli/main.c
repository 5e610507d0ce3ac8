#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/remote.h"
#include "cli.h"

static const struct {
  const char *name, *summary;
  int (*main)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, summary) {#name, summary, cli_##name},
    CLI_COMMANDS(COMMAND)
#undef COMMAND
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *file) {
  fputs("Usage: braid COMMAND [OPTION...]\n"
        "Trains and runs neural networks on the devices of this machine.\n\n",
        file);
  for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(file, "  %-12s %s\n", commands[i].name, commands[i].summary);
  fputs("\n`braid COMMAND --help` describes a command and gives examples; `braid --version` prints the version.\n"
        "Exit codes: 0 success, 1 the operation failed, 2 invalid options, model or data, 130 interrupted.\n",
        file);
}

/* Damerau-Levenshtein distance of two names (optimal string alignment); names are short. */
static size_t distance(const char *a, const char *b) {
  enum { MOST = 24 };
  size_t rows = strlen(a), columns = strlen(b);
  if (rows > MOST || columns > MOST) return MOST;
  size_t cost[MOST + 1][MOST + 1];
  for (size_t i = 0; i <= rows; i++) {
    for (size_t k = 0; k <= columns; k++) {
      if (!i || !k) {
        cost[i][k] = i + k;
        continue;
      }
      size_t best = cost[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
      if (cost[i - 1][k] + 1 < best) best = cost[i - 1][k] + 1;
      if (cost[i][k - 1] + 1 < best) best = cost[i][k - 1] + 1;
      bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (swapped && cost[i - 2][k - 2] + 1 < best) best = cost[i - 2][k - 2] + 1;
      cost[i][k] = best;
    }
  }
  return cost[rows][columns];
}

static int unknown_command(const char *name, int argc, char **argv) {
  size_t nearest = 0, least = SIZE_MAX;
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    size_t edits = distance(name, commands[i].name);
    if (edits < least) least = edits, nearest = i;
  }
  fprintf(stderr, "braid: there is no command \"%s\"", name);
  if (least <= 3 && least < strlen(name)) fprintf(stderr, ", did you mean \"%s\"?", commands[nearest].name);
  fputs("\n`braid --help` lists the commands.\n", stderr);
  if (cli_wants_json(argc, argv)) cli_print_error_json("invalid argument", "there is no such command");
  return CLI_USAGE;
}

/* Waiting OpenMP threads spin for about 15 ms before they sleep, which is slow if other processes use the CPUs too,
 * because the thread that is waited for may not be running. 0.5 ms is enough to bridge the gaps between kernels
 * (measured: not slower on an idle machine, start-up up to four times faster on a loaded one). Huge pages for malloc
 * save page faults (measured: 5% of the start-up time, more with slow memory). Both settings are read only from the
 * environment when the libraries are loaded, so the program executes itself again. */
static void prepare_environment(char **argv) {
  if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
  (void)setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
  if (setenv("GOMP_SPINCOUNT", "10000", 0) == 0) execv("/proc/self/exe", argv);
}

/* Buffers of some megabytes are allocated and freed while a model is prepared. Keeping their memory in the heap instead
 * of returning it to the system saves page faults (measured: 10% of the start-up time). */
static void keep_memory(void) {
  (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
  (void)mallopt(M_TRIM_THRESHOLD, 16 << 20);
  (void)mallopt(M_TOP_PAD, 1 << 20);
}

int main(int argc, char **argv) {
  prepare_environment(argv);
  keep_memory();
  (void)signal(SIGXFSZ, SIG_IGN); /* a file that reaches a limit is an error of writing, with a sentence */
  if (braid_remote_set_token(getenv("BRAID_TOKEN")) != BRAID_OK) {
    fprintf(stderr, "braid: BRAID_TOKEN: %s\n", braid_error_detail());
    return CLI_USAGE;
  }
  cli_fit_terminal(cli_wants_json(argc, argv));
  argp_err_exit_status = CLI_USAGE;
  if (argc < 2) {
    print_help(stderr);
    return CLI_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
    puts("braid " BRAID_VERSION);
    return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(stdout);
    return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
  }
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(name, commands[i].name) != 0) continue;
    char title[32];
    snprintf(title, sizeof title, "braid %s", name);
    argv[1] = title; /* argp prints it in its messages */
    int code = commands[i].main(argc - 1, argv + 1);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    perror("braid: standard output");
    return code ? code : CLI_FAILED;
  }
  return unknown_command(name, argc, argv);
}
