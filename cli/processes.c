#include "processes.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What launchers say of a process: its number, how many there are, and the same on its machine. */
static const struct {
  const char *size, *rank, *local_size, *local_rank;
} kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS_PER_NODE", "SLURM_LOCALID"},
};
enum { kLauncherCount = sizeof kLaunchers / sizeof *kLaunchers, kMostProcesses = 1 << 20 };

static int number_in(const char *name, int otherwise) {
  const char *text = getenv(name);
  char *end = NULL;
  long value = text ? strtol(text, &end, 10) : -1;
  return text && end != text && !*end && value >= 0 && value <= kMostProcesses ? (int)value : otherwise;
}

/* The launcher that started several processes; -1: none did. */
static int find_launcher(void) {
  for (int i = 0; i < kLauncherCount; i++)
    if (number_in(kLaunchers[i].size, 1) > 1) return i;
  return -1;
}

int cli_launched_size(void) {
  int launcher = find_launcher();
  return launcher < 0 ? 1 : number_in(kLaunchers[launcher].size, 1);
}

int cli_launched_rank(void) {
  int launcher = find_launcher();
  return launcher < 0 ? 0 : number_in(kLaunchers[launcher].rank, 0);
}

/* A launcher ends all processes when the first ends with a failure: that is to be the one which says why. */
static void let_first_end(void) {
  (void)nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
}

static bool parsing;

static void end_parsing(void) {
  if (parsing) let_first_end();
}

void cli_parse_together(const struct argp *argp, int argc, char **argv, void *input) {
  int kept[2] = {-1, -1}, nowhere = cli_launched_rank() ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  for (int i = 0; nowhere >= 0 && i < 2; i++) {
    kept[i] = dup(i + 1);
    (void)dup2(nowhere, i + 1);
  }
  parsing = nowhere >= 0 && atexit(end_parsing) == 0;
  cli_parse(argp, argc, argv, input);
  parsing = false;
  fflush(NULL);
  for (int i = 0; i < 2; i++)
    if (kept[i] >= 0) {
      (void)dup2(kept[i], i + 1);
      close(kept[i]);
    }
  if (nowhere >= 0) close(nowhere);
}

/* Processes that may run on all CPUs would all run on the first ones. */
static void take_cpus(int launcher) {
  cpu_set_t all, own;
  int size = number_in(kLaunchers[launcher].local_size, 1), rank = number_in(kLaunchers[launcher].local_rank, 0);
  if (sched_getaffinity(0, sizeof all, &all) != 0 || size < 2 || rank >= size) return;
  int count = CPU_COUNT(&all), first = rank * count / size, end = (rank + 1) * count / size, at = 0;
  if (count < sysconf(_SC_NPROCESSORS_ONLN)) return; /* bound by the launcher */
  if (end == first) end++;
  CPU_ZERO(&own);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (at >= first && at < end) CPU_SET(cpu, &own);
    at++;
  }
  (void)sched_setaffinity(0, sizeof own, &own);
}

/* Devices of that backend: name0, name1 and so on. */
static int count_devices(braid_registry *registry, const char *name, size_t length) {
  braid_device_info infos[64];
  size_t count = 0;
  int found = 0;
  if (braid_registry_devices(registry, infos, sizeof infos / sizeof *infos, &count) != BRAID_OK) return 0;
  for (size_t i = 0; i < count && i < sizeof infos / sizeof *infos; i++) {
    char *end = NULL;
    if (strncmp(infos[i].name, name, length) != 0 || !infos[i].name[length]) continue;
    (void)strtol(infos[i].name + length, &end, 10);
    found += !*end;
  }
  return found;
}

braid_status cli_own_devices(braid_registry *registry, const char *devices, char **own) {
  int launcher = find_launcher(), rank = launcher < 0 ? 0 : number_in(kLaunchers[launcher].local_rank, 0);
  size_t bytes = devices ? 12 * strlen(devices) + 16 : 0, used = 0;
  bool changed = false;
  *own = devices ? malloc(bytes) : NULL;
  if (!*own) return devices ? cli_no_memory() : BRAID_OK;
  for (const char *at = devices + strspn(devices, " "); *at; at += strspn(at, " ")) {
    size_t word = strcspn(at, " "), name = strcspn(at, " :");
    bool numbered = name && at[name - 1] >= '0' && at[name - 1] <= '9', cpu = name == 3 && strncmp(at, "cpu", 3) == 0;
    int count = numbered || cpu ? 0 : count_devices(registry, at, name); /* which loads what lists devices */
    char number[12] = "";
    if (count) snprintf(number, sizeof number, "%d", rank % count);
    used += (size_t)snprintf(*own + used, bytes - used, "%s%.*s%s%.*s", used ? " " : "", (int)name, at, number,
                             (int)(word - name), at + name);
    changed |= count > 0;
    at += word;
  }
  if (changed) return BRAID_OK;
  free(*own);
  *own = NULL;
  return BRAID_OK;
}

static bool was_interrupted(void *context) {
  (void)context;
  return cli_interrupted();
}

braid_status cli_join_processes(braid_group **group) {
  int launcher = find_launcher(), size = cli_launched_size();
  *group = NULL;
  if (launcher < 0) return BRAID_OK;
  braid_status status = braid_group_load(NULL, NULL, group);
  if (status != BRAID_OK)
    return braid_fail_prefix(status, "%s says that %d processes were started to train together",
                             kLaunchers[launcher].size, size);
  if (braid_group_size(*group) != size)
    return braid_fail(
        BRAID_UNSUPPORTED,
        "%s says that %d processes were started to train together, but MPI joined %d: libbraid_mpi.so was "
        "built with another MPI than the launcher's",
        kLaunchers[launcher].size, size, braid_group_size(*group));
  braid_group_set_watch(*group, was_interrupted, NULL);
  if (braid_group_rank(*group)) cli_mute_log();
  take_cpus(launcher);
  return BRAID_OK;
}

static bool first_of_machine(void) {
  int launcher = find_launcher();
  return launcher < 0 || number_in(kLaunchers[launcher].local_rank, 0) == 0;
}

int cli_leave_processes(const cli_common *common, const char *command, braid_status status, bool began,
                        braid_group *group) {
  int code = CLI_OK;
  bool joined = braid_group_size(group) > 1, all_know = !joined || braid_group_failed_together(group);
  if (status != BRAID_OK) {
    bool says_it = joined ? !all_know || braid_group_rank(group) == 0 : first_of_machine();
    code = says_it ? cli_fail(common, command, status) : cli_exit_code(status);
    if (began && code == CLI_USAGE) code = CLI_FAILED;
    if (!joined && !says_it) let_first_end();
    fflush(NULL);
    if (!all_know) braid_group_abort(group, code); /* the others would wait for this process */
  }
  braid_group_destroy(group);
  return code;
}
