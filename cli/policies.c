/* The policies of `braid plan`, listed. */
#include "cli.h"

static int list_as_json(void) {
  cli_json json;
  if (!cli_json_begin(&json)) return CLI_FAILED;
  cli_json_array(&json, "policies");
  for (size_t i = 0; i < braid_planning_policy_count(); i++) {
    cli_json_object(&json, NULL);
    cli_json_string(&json, "name", braid_planning_policy_name(i));
    cli_json_string(&json, "summary", braid_planning_policy_summary(i));
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(&json) ? CLI_OK : CLI_FAILED;
}

int cli_list_policies(bool json) {
  if (json) return list_as_json();
  for (size_t i = 0; i < braid_planning_policy_count(); i++)
    printf("%-14s %s\n", braid_planning_policy_name(i), braid_planning_policy_summary(i));
  return CLI_OK;
}
