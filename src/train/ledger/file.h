/* Reading a ledger: lines of text, each with the hash of the line before it. docs/audit.md is the format. */
#ifndef BRAID_TRAIN_LEDGER_FILE_H
#define BRAID_TRAIN_LEDGER_FILE_H

#include "base/sha256.h"
#include "base/text.h"
#include "braid/ledger.h"

#define BRAID_LEDGER_FIRST "braid ledger "
enum { BRAID_LEDGER_VERSION = 1 };
/* Digits of the line's parts. */
enum { BRAID_LEDGER_ORDER = 32, BRAID_LEDGER_NUMBER = 8 };

/* A line of a step, without its chain. */
typedef struct braid_ledger_line {
  const char *text; /* ends with a NUL */
  int64_t step;
  size_t number; /* of the line, from 1 */
  size_t end;    /* bytes of the file up to its end */
  const char *chain;
} braid_ledger_line;

/* Parts of a line's text; those of step 0 are the last two alone. */
typedef struct braid_ledger_parts {
  const char *rate, *order, *labels, *loss, *values, *parameters, *state;
  size_t rate_length, loss_length;
} braid_ledger_parts;

struct braid_ledger {
  const braid_allocator *allocator;
  char *path, *text; /* chopped into lines, and lines into text and chain */
  size_t bytes;
  const char **head; /* the lines of the head that are hashed; head_lines[i] is where line i stands */
  size_t *head_lines, head_count, head_capacity;
  char *model;               /* as it was named; NULL: not said */
  size_t model_line;         /* 0: there is none */
  size_t values, parameters; /* of each step */
  braid_ledger_line *lines;  /* step 0 first */
  size_t line_count, line_capacity;
  braid_parameter_group *groups; /* of braid_ledger_options */
  bool torn;                     /* bytes follow the last whole line */
};

/* Takes `text`, of `bytes` and a NUL that is not counted; released also on failure. `path` is for messages. */
BRAID_MUST_CHECK braid_status braid_ledger_parse(const braid_allocator *allocator, const char *path, char *text,
                                                 size_t bytes, braid_ledger **out);
/* False: the text is not that of a step with so many values and parameters. */
bool braid_ledger_split(const char *text, size_t values, size_t parameters, int64_t *step, braid_ledger_parts *out);
/* The first number of a list that differs; '-' in the second stands for any. `count`: none does. */
size_t braid_ledger_other_number(const char *a, const char *b, size_t count);
/* The first number of the chain: of the head's lines without the model's name, each with its line feed. */
void braid_ledger_begin_chain(const char *head, char out[BRAID_SHA256_HEX + 1]);
/* The next one, in place of the one before it. */
void braid_ledger_chain(char chain[BRAID_SHA256_HEX + 1], const char *text);
/* The value of the head's line with this name, and where it stands; NULL: there is none. */
const char *braid_ledger_setting(const braid_ledger *ledger, const char *name, size_t *line);

#endif
