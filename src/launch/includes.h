/* What kernel text of somebody else includes, so that a program kept in a file is built anew when any of it changes.
 * Only the compiler knows which file it takes and whether a condition holds around it; here every file counts that it
 * may take. Folders of the text's own count by their order, not by their names: the same files elsewhere make the same
 * program. */
#ifndef BRAID_LAUNCH_INCLUDES_H
#define BRAID_LAUNCH_INCLUDES_H

#include "base/text.h"

/* Adds names and bytes of all files to `out` that `text` may include, and those that they may include: beside the
 * including file, in `folders` (the text's own first; NULL: none), and where -I of `options` says. False: not all is
 * known (a name made by a macro, a file that is not there, options that include by themselves), so that nothing built
 * of it may be kept. */
bool braid_launch_includes_collect(const char *const folders[2], const char *options, const char *text, size_t bytes,
                                   braid_text *out);

#endif
