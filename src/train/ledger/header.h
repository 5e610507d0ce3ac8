/* The head of a ledger: all that decides what a training in integers computes, one setting a line, "name: value". */
#ifndef BRAID_TRAIN_LEDGER_HEADER_H
#define BRAID_TRAIN_LEDGER_HEADER_H

#include "base/text.h"
#include "braid/ledger.h"
#include "train/integer/network.h"
#include "train/trainer.h"

/* The names of the lines that tell which numbers the data hold: with others, every step can still be computed. */
#define BRAID_LEDGER_DATA_SUM "checksum of the data set"
#define BRAID_LEDGER_DATA_HASH "hash of the data set"

/* The head of this trainer's ledger. `model`: where the model is; NULL: not said. */
BRAID_MUST_CHECK braid_status braid_ledger_write_head(const braid_trainer *trainer, const char *model, braid_text *out);
/* Compares the head's lines with those that this trainer's ledger would have: INVALID_ARGUMENT names the first that
 * differs, but for those of the numbers that the data hold: these are told in `other_data` ("" if they agree). */
BRAID_MUST_CHECK braid_status braid_ledger_compare_head(const braid_ledger *ledger, const braid_trainer *trainer,
                                                        char *other_data, size_t room);

/* Does each line have the hash of this parameter or state? Not of momentums: of them it has the digest. */
static inline bool braid_ledger_hashes(const braid_trainer *trainer, const braid_value *value) {
  return braid_value_is_kept(value) && !braid_integer_is_momentum(trainer->step, value);
}
#endif
