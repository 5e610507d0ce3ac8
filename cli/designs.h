/* Designs of the overlay, for `braid compile`. */
#ifndef BRAID_CLI_DESIGNS_H
#define BRAID_CLI_DESIGNS_H

#include "cli.h"

/* Prints those of the library, a line or an object each. */
braid_status cli_design_list(bool json);
/* Prints one: roofline, resources beside those of `chip` (a name or a file; NULL: all of the library), memories, the
 * estimate's errors, figures that are published and assumed. */
braid_status cli_design_show(const char *path_or_name, const char *chip, bool json);

#endif
