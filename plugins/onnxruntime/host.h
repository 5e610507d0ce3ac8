/* Machines that the sessions of a process share: sessions with the same devices use the same workers and memory. */
#ifndef BRAID_ORT_HOST_H
#define BRAID_ORT_HOST_H

#include "braid/machine.h"
#include "options.h"

typedef struct braid_ort_host braid_ort_host;

/* A machine with the devices that the options name, shared with sessions whose options name the same. `logger` hears
 * what the devices have to say; it must live as long as the process. NOT_FOUND lists the devices that there are. */
BRAID_MUST_CHECK braid_status braid_ort_host_open(const braid_ort_options *options, const OrtLogger *logger,
                                                  braid_ort_host **out);
void braid_ort_host_close(braid_ort_host *host); /* NULL is allowed */
braid_machine *braid_ort_host_machine(const braid_ort_host *host);
/* The process was forked after the machine was made. The machine and what is made for it are not destroyed in the copy:
 * its threads cannot be joined. */
bool braid_ort_host_foreign(const braid_ort_host *host);
/* UNSUPPORTED: the process was forked after the machine was made, and lacks its threads. */
BRAID_MUST_CHECK braid_status braid_ort_host_check(const braid_ort_host *host);
/* A device is lost: sessions that are created from now on get a machine of their own. */
void braid_ort_host_lost(braid_ort_host *host);

#endif
