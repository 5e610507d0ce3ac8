/* Modelled machines: devices, clocks, links, power and caps as data, with a profile for their times. A file is YAML
 * (docs/planning.md). */
#ifndef BRAID_PLANNING_MACHINE_H
#define BRAID_PLANNING_MACHINE_H

#include "braid/planning.h"
#include "planning/profile.h"
#include "schedule/problem.h"

enum { BRAID_MODELLED_CLOCKS = 64 };

/* A state of a device's clock: what an operation takes there, and what it draws above the idle power, in proportion to
 * the first state. */
typedef struct braid_modelled_clock {
  double mhz, seconds, watts;
} braid_modelled_clock;

typedef struct braid_modelled_link {
  double latency_ms, gigabytes_per_second; /* each way, to the host's memory */
  bool shared;                             /* one for all devices of the kind */
} braid_modelled_link;

/* By which part of its time an operation takes longer while others run elsewhere, and while its link is used. */
typedef struct braid_modelled_slowdown {
  double *beside, *traffic; /* NULL: unknown */
} braid_modelled_slowdown;

/* How the GPUs add their gradients where each trains on a share of the batch. */
typedef struct braid_modelled_exchange {
  double latency_ms, gigabytes_per_second; /* of a step of the ring, from one to the next */
  double bucket_megabytes;                 /* of gradients that are exchanged together */
  double *bucket;                          /* as the file has it; NULL: it has not */
  double *watts;                           /* what all draw more meanwhile; NULL: unknown */
} braid_modelled_exchange;

/* `count` devices alike. NAN: not in the file. */
typedef struct braid_modelled_device {
  char *name, *class, *profile; /* profile: the device's name there */
  int64_t count;
  /* As the file has them; NULL: it has not. */
  int64_t *counted;
  double *idle, *cap, *memory;
  double idle_watts, cap_watts, memory_gigabytes, clock_change_ms;
  braid_modelled_link *link;
  braid_modelled_slowdown *slowdown; /* NULL: unknown */
  braid_modelled_clock *clocks;      /* the first is the one of the profile, and the highest */
  unsigned clocks_count;
} braid_modelled_device;

typedef struct braid_machine_file {
  char *name, *profile; /* profile: a file beside this one */
  char **assumptions;
  unsigned assumptions_count;
  double host_watts, cap_watts;
  double *cap;                       /* as the file has it; NULL: it has not */
  braid_modelled_exchange *exchange; /* NULL: GPUs share the operations of a step */
  braid_modelled_device *devices;
  unsigned devices_count;
} braid_machine_file;

struct braid_modelled_machine {
  const braid_allocator *allocator;
  braid_machine_file *file;
  braid_profile *profile;
  braid_modelled_thresholds thresholds;
};

/* Texts of the source tree that the build puts into the library: the .yaml files of platforms and platforms/profiles.
 */
typedef struct braid_planning_file {
  const char *name; /* without its ending */
  const char *text;
  size_t bytes;
} braid_planning_file;
extern const braid_planning_file braid_platform_texts[], braid_profile_texts[];
extern const size_t braid_platform_text_count, braid_profile_text_count;
/* The .cfg files of the networks of Hype-training. */
extern const braid_planning_file braid_network_texts[];
extern const size_t braid_network_text_count;

BRAID_MUST_CHECK braid_status braid_machine_file_parse(const char *name, const void *text, size_t bytes,
                                                       braid_machine_file **out);
void braid_machine_file_free(braid_machine_file *file); /* NULL is allowed */
size_t braid_machine_device_count(const braid_machine_file *file);
/* A machine of a platform file's text and a profile, which becomes the machine's, also on failure. */
BRAID_MUST_CHECK braid_status braid_modelled_machine_make(const braid_allocator *allocator, const char *name,
                                                          const void *text, size_t bytes, braid_profile *profile,
                                                          braid_modelled_machine **out);
int64_t braid_machine_gpu_count(const braid_machine_file *file);
/* thresholds.c */
braid_modelled_thresholds braid_machine_thresholds(const braid_machine_file *file, const braid_profile *profile);
/* What the fast device has at an op where up to `others` of another stop being faster at it for good, in logarithms of
 * times: 0 if they never are, NAN what the profile has not counted; false: they never stop, or the fast one has no
 * rows.
 */
bool braid_profile_crossing(const braid_profile *profile, const char *fast, const char *other, int64_t others,
                            const char *op, braid_modelled_thresholds *out);
braid_device_class braid_modelled_class(const char *name);

#endif
