/* Ledgers of trainings in integers: what each step computed, in lines whose hashes are chained, so that somebody else
 * can compute any steps again, on any device, and find the first result that differs (docs/audit.md). */
#ifndef BRAID_LEDGER_H
#define BRAID_LEDGER_H

#include "braid/train.h"

typedef struct braid_ledger braid_ledger;

/* Reads the whole ledger and checks its chain. INVALID_FILE names the line and what is wrong with it. */
BRAID_API BRAID_MUST_CHECK braid_status braid_ledger_open(const braid_allocator *allocator, const char *path,
                                                          braid_ledger **out);
BRAID_API void braid_ledger_close(braid_ledger *ledger); /* NULL is allowed */

typedef struct braid_ledger_info {
  const char *model; /* where the model was when training began; not hashed; NULL: not said */
  int64_t steps;
  size_t values, parameters; /* how many digests of results, and hashes of parameters and states, a step has */
  const char *chain;         /* of the last line, 64 hexadecimal digits: it stands for the whole ledger */
  bool torn;                 /* the last line is not whole, and left out */
} braid_ledger_info;
/* Its texts live until the ledger is closed. */
BRAID_API braid_ledger_info braid_ledger_get_info(const braid_ledger *ledger);
/* The options that a training by this ledger has; those of devices, folders and reports are the defaults.
 * INVALID_FILE names the line that no training could have. Texts and groups live until the ledger is closed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_ledger_options(braid_ledger *ledger, braid_train_options *out);

typedef struct braid_audit_options {
  const char *devices, *place; /* as in braid_session_options */
  int threads;
  braid_registry *registry;
  const char *trace;       /* as in braid_session_options */
  const char *checkpoints; /* a folder; NULL: the audit begins at the start of training */
  int64_t first, last;     /* steps, from 1; 0: the first, the last */
} braid_audit_options;

enum { BRAID_AUDIT_TEXT = 256 };
typedef struct braid_audit_result {
  int64_t from;    /* the step whose state it began with: that of a checkpoint, or 0 */
  int64_t checked; /* steps computed again */
  bool agrees;     /* the data and all steps that were computed */
  bool steps_agree;
  char other_data[2 * BRAID_AUDIT_TEXT]; /* a sentence: the data hold other numbers than those of the ledger's head;
                                            "": they do not */
  /* The first difference of the steps, if there is one. */
  int64_t step;                                              /* 0: before the first */
  size_t line;                                               /* of the ledger */
  char layer[BRAID_AUDIT_TEXT], operation[BRAID_AUDIT_TEXT]; /* as in the training graph */
  char what[2 * BRAID_AUDIT_TEXT];                           /* a sentence */
} braid_audit_result;
/* Called after each step. If it returns false, the audit returns CANCELLED. */
typedef bool braid_audit_callback(void *context, int64_t done, int64_t total);
/* Computes the steps from options->first to options->last again, from the state of the newest valid checkpoint before
 * them or from the start of training, and compares every number of the ledger with its own; steps between the
 * checkpoint and the first are compared, too. OK also if they differ: result->agrees says it. INVALID_ARGUMENT if the
 * model or the form of the data is not that of the ledger, or if it has no such steps. Data of the same form that hold
 * other numbers are a difference, too, whether or not the steps agree: what is rounded may be the same. `data`: the
 * training part, with the normalization and augmentation of the run. `callback` may be NULL. */
BRAID_API BRAID_MUST_CHECK braid_status braid_audit(braid_ledger *ledger, const braid_graph *model, braid_dataset *data,
                                                    const braid_audit_options *options, braid_audit_callback *callback,
                                                    void *context, braid_audit_result *result);

#endif
