/* `braid profile`: what its files share. */
#ifndef BRAID_CLI_PROFILES_H
#define BRAID_CLI_PROFILES_H

#include "table.h"

enum { CLI_PROFILE_IMPORTS = 16 };

typedef struct cli_profile_options {
  cli_common common;
  cli_place place; /* devices, platform, plug-ins, threads */
  cli_source source;
  const char *discriminator, *db, *html, *save_platform, *imports[CLI_PROFILE_IMPORTS];
  size_t import_count;
  int64_t batch; /* 0: not given */
  int64_t rows;
  bool train, show, measure, forget_bad;
  size_t forgotten;
  braid_profile_options measuring;
} cli_profile_options;

/* Tables, JSON and the page of a database; `report` NULL: nothing was measured. */
braid_status cli_profile_show(const cli_profile_options *o, braid_profile_db *db, braid_profile_list *list,
                              const braid_profile_report *report);

#endif
