/* Profiles: what operations take on the devices of this machine, or are published to take, in a database (SQLite) that
 * forecasts (braid/planning.h) read in place of a profile file. docs/profiling.md says how everything is measured.
 *
 * Unknown is NAN, NULL or -1 here and NULL in the database, never 0. */
#ifndef BRAID_PROFILE_H
#define BRAID_PROFILE_H

#include "braid/device.h"
#include "braid/explore.h"
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
 * seconds. NOT_FOUND: there is none to read. IO: it cannot be opened or written. A handle is used by one thread at a
 * time. */
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
  double seconds_mean;         /* of the same runs: more than the median where others use the device, too */
  double joules, joules_error; /* of a run */
  double average_watts;        /* while it runs */
  double peak_watts;           /* over a window of the sensor */
  double busy;                 /* share of the time of the energy measurement that the operation ran */
  double bytes_per_second, instructions_per_cycle;
  const char *stale;       /* set by braid_profile_list_check: why it counts no more; NULL: it does */
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
/* Sets `stale` of measured entries: the device is not here, or is another one, its driver or Braid has another version,
 * the number of threads is another, or the entry is older than so many days. `threads`: 0 for as many as the process
 * may use. Devices are opened for it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_list_check(braid_profile_list *list, braid_registry *registry,
                                                                 int threads, double most_days);

/* Deletes rows that can't be read (braid_profile_list_create: INVALID_FILE names the first), so that the others can be;
 * what they were of counts as never measured. Each is a warning in the log, which may be NULL. *count: of them. On
 * failure the database is as it was, and *count 0; what the log had by then stays. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_forget_bad(braid_profile_db *db, const braid_log *log,
                                                                 size_t *count);

/* Adds the rows of a profile file (YAML, docs/planning.md), or of the library's profile of this name, with what it says
 * of operations that have none. Rows that are there are replaced. *count: rows. On failure the database is as it was.
 * INVALID_FILE names the line. The source of rows of size "assumed" begins with "assumed, not in: ". */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_import(braid_profile_db *db, const char *path_or_name,
                                                             size_t *count);
/* Whether there is such a profile that can be read; for callers that make a database only then. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_import_check(const braid_allocator *allocator,
                                                                   const char *path_or_name);

/* --- measuring -----------------------------------------------------------------------------------------------------
 */
typedef struct braid_profile_options {
  const char *devices; /* specs separated by spaces; NULL: all that the registry lists and that have a kernel for some
                          of the operations */
  int threads;         /* of the CPU; 0: as many as the process may use */
  const braid_graph *graph; /* resolved: its operations are measured at their sizes; NULL: none */
  const char *ops;          /* "MatMul,Conv", or "all" for those of the published table, at given sizes; NULL: none */
  const char *sizes;        /* "small,medium,large"; NULL: all three */
  const char *beside;       /* "OP:SIZE@DEVICE": runs meanwhile on another device; NULL: everything is measured alone */
  double seconds;           /* for an operation's time; the energy takes as much again, and at least 20 windows */
  double most_days;         /* older entries are measured again */
  double drift;             /* MADs that lie between two measurements before that is said */
  int checks;               /* entries of each device that are measured again to see whether they drift */
  bool again;               /* all entries are */
  /* Before each operation, and a few times a second; false: stop (CANCELLED). What was measured is kept. */
  bool (*progress)(void *context, size_t done, size_t total, const char *what);
  void *context;
} braid_profile_options;
BRAID_API void braid_profile_options_init(braid_profile_options *options);

typedef struct braid_profile_report {
  size_t operations;                                       /* different ones, times devices */
  size_t measured, unable, kept, stale, checked, drifting; /* unable: the device cannot run it */
} braid_profile_report;

/* Whether measuring could begin: refuses operations, sizes and devices that are not there, as braid_profile_measure
 * does, and a number out of range. For callers that make a database only then. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_options_check(braid_registry *registry,
                                                                    const braid_profile_options *options);

/* Measures what the database does not have, or has no more (braid_profile_list_check), one operation after the other;
 * each is in the database when the next one begins. What is stale, drifts or is refused goes to the registry's log.
 * DEVICE_LOST, CANCELLED: what came before is kept, and the next call goes on there. `report` is filled either way. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_measure(braid_registry *registry, braid_profile_db *db,
                                                              const braid_profile_options *options,
                                                              braid_profile_report *report);

/* --- what it is for ------------------------------------------------------------------------------------------------
 */
/* Where another device stops being faster than a fast one at an operation (Hype-training, section 3.2): what the fast
 * one has there is a threshold for candidates. */
typedef struct braid_profile_threshold {
  const char *op, *fast, *other; /* memory of the list */
  bool
      stops; /* false: the other one is the faster one at the largest size that was measured, or one was not measured */
  bool ever; /* whether it is faster at any size */
  double gigabytes_per_second, instructions_per_cycle; /* NAN: unknown; 0: not `ever` */
} braid_profile_threshold;
/* For MatMul and Conv, and every device beside the fast one (NULL: the first GPU, else the fastest at the largest) that
 * has rows. Free *out with braid_free. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_thresholds(braid_profile_db *db, const braid_profile_list *list,
                                                                 const char *fast, const braid_allocator *allocator,
                                                                 braid_profile_threshold **out, size_t *count);

/* Writes a platform file (docs/planning.md) of the measured devices, with the database as its profile, their idle power
 * and links. `db_path` is where the database is. Written atomically. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_save_platform(const braid_profile_list *list, const char *db_path,
                                                                    const char *path);
/* A page of its own: time and power over the bytes of operations, and the tables. `note` (may be NULL) stands below the
 * title. Written atomically. */
BRAID_API BRAID_MUST_CHECK braid_status braid_profile_save_html(const braid_profile_list *list, const char *title,
                                                                const char *note, const braid_page_table *tables,
                                                                size_t table_count, const char *path);

#endif
