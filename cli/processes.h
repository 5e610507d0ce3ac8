/* Processes that a launcher (mpirun, srun) started together, for commands that share their work. */
#ifndef BRAID_CLI_PROCESSES_H
#define BRAID_CLI_PROCESSES_H
#include "cli.h"

/* As the launcher says it in the environment, before anything is loaded: 1 and 0 without one. */
int cli_launched_size(void);
int cli_launched_rank(void);
/* As cli_parse, in several processes with the messages of process 0 alone. */
void cli_parse_together(const struct argp *argp, int argc, char **argv, void *input);
/* Joins the others; *group is NULL for one process alone. Each process of a machine takes its part of the CPUs, where
 * the launcher has not bound it to some: their threads would all be put on the first ones. */
braid_status cli_join_processes(braid_group **group);
/* A name without its number ("cuda") among `devices`, separated by spaces, becomes that of this process's own: the
 * device of its number on its machine, from the first on where there are more processes than devices. *own is NULL
 * where nothing changes, else to be freed. */
braid_status cli_own_devices(braid_registry *registry, const char *devices, char **own);
/* The end of a command: prints a failure once, whichever process it came from, and leaves. Returns the exit code. */
int cli_leave_processes(const cli_common *common, const char *command, braid_status status, bool began,
                        braid_group *group);

#endif
