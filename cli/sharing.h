/* Tenants of a card of the overlay, for `braid share`. */
#ifndef BRAID_CLI_SHARING_H
#define BRAID_CLI_SHARING_H

#include "cli.h"

enum { CLI_SHARING_PACKAGES = 16 };

typedef struct cli_sharing {
  const char *design, *packages[CLI_SHARING_PACKAGES];
  size_t package_count;
  bool isolation, json;
} cli_sharing;
/* Runs all trials and prints them (isolation.c). INTERNAL: a tenant computed something else, or something was left. */
braid_status cli_try_isolation(const cli_sharing *how);

#endif
