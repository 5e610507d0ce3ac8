/* Profiles: what operations take on the devices of this machine, or are published to take, in a database (SQLite) that
 * forecasts (braid/planning.h) read in place of a profile file (docs/planning.md).
 *
 * Unknown is NAN, NULL or -1 here and NULL in the database, never 0. */
#ifndef BRAID_PROFILE_H
#define BRAID_PROFILE_H

#include "braid/device.h"
#include "braid/planning.h"

/* --- the database --------------------------------------------------------------------------------------------------
 */
typedef struct braid_profile_db braid_profile_db;

typedef enum braid_profile_access {
  BRAID_PROFILE_READ,  /* the file must be there and is not changed */
  BRAID_PROFILE_WRITE, /* it is made if it is not there */
} braid_profile_access;

/* Opens a file and looks whether it is whole. INVALID_FILE: it is no database, one of something else, one of another
 * version, or damaged; the detail says which, and where. BUSY: another process holds it locked for longer than some
 * seconds. IO: it cannot be opened or written. A handle is used by one thread at a time. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_db_open(const braid_allocator *allocator, const char *path,
                                                              braid_profile_access access, braid_profile_db **out);
BRAID_API void braid_profile_db_close(braid_profile_db *db); /* NULL is allowed */

/* A device that entries are of. `device` is its name as it was given ("cpu", "opencl0:as=gpu"), or as published. */
typedef struct braid_profile_device {
  const char *device, *kind, *description;
  const char *software;      /* the library or driver that its kernels use, with its version */
  const char *version;       /* Braid's, whose kernels they are */
  const char *source;        /* "measured", or where it was published */
  const char *date;          /* of the measurement, UTC: "2026-11-23T10:52:55Z" */
  const char *memory;        /* "unified", "separate" */
  const char *energy_source; /* "counter", "polling"; NULL: unknown */
  const char *energy_note;   /* why it is unknown, or refused */
  int64_t threads;
  double idle_watts, idle_watts_error;
  double window_seconds;                      /* between updates of the sensor */
  double link_seconds, link_bytes_per_second; /* of a transfer to or from its memory, if that is separate */
} braid_profile_device;

/* What one operation takes on a device. */
typedef struct braid_profile_entry {
  const char *device, *op;
  const char *key;    /* identifies the operation: op, attributes, types, shapes, and what of it is constant */
  const char *beside; /* what ran on another device meanwhile: "opencl0 MatMul medium"; "": it ran alone */
  const char *size;   /* "small", "medium", "large"; NULL: of a model */
  const char *shapes; /* for readers */
  const char *kernel, *description, *software, *version, *date, *source;
  const char *energy_source, *ipc_note;
  const char *why; /* why the time is unknown: the device cannot run it, or failed; NULL: it is known */
  const char *previous_date;
  int64_t devices; /* that share the operation */
  int64_t threads, runs;
  double bytes, macs;          /* read and written at least; multiply-accumulates */
  double seconds, seconds_mad; /* median and median absolute deviation of `runs` runs */
  double joules, joules_error; /* of a run */
  double average_watts;        /* while it runs */
  double peak_watts;           /* over a window of the sensor */
  double busy;                 /* share of the time of the energy measurement that the operation ran */
  double bytes_per_second, instructions_per_cycle;
  double previous_seconds; /* what was there before this measurement */
  double drift;            /* how many MADs this one lies apart from that */
} braid_profile_entry;

/* The contents of a database. Strings are the list's. Entries by device, operation and bytes. */
typedef struct braid_profile_list {
  braid_profile_device *devices;
  braid_profile_entry *entries;
  size_t device_count, entry_count;
  struct braid_arena *arena;
} braid_profile_list;
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_list_create(braid_profile_db *db,
                                                                  const braid_allocator *allocator,
                                                                  braid_profile_list *out);
BRAID_API void braid_profile_list_deinit(braid_profile_list *list);

/* Adds the rows of a profile file (YAML, docs/planning.md), or of the library's profile of this name, with what it says
 * of operations that have none. Rows that are there are replaced. *count: rows. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_import(braid_profile_db *db, const char *path_or_name,
                                                             size_t *count);

#endif
