/* `braid evaluate manycore`: the modelled core group against its management core, and what Zhao et al. (2018) say. */
#ifndef BRAID_CLI_MANYCORE_H
#define BRAID_CLI_MANYCORE_H

#include "cli.h"

/* `models`: names of the paper's networks, separated by commas; NULL: all. NOT_FOUND lists them. */
braid_status cli_manycore_evaluate(const char *models, bool json, const char *html);

#endif
