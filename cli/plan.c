/* Saved plans at the command line: run with one, look at one, compare two. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "values.h"

bool cli_is_plan(const char *path) {
  static const char kMagic[] = "braidpln";
  char start[sizeof kMagic - 1];
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false; /* a pipe would be emptied by looking */
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  bool is = fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, kMagic, sizeof start) == 0;
  fclose(file);
  return is;
}

static braid_status print_differences(const char *path, const char *against, const char *text, bool json) {
  cli_json document;
  if (!json) {
    printf("%s", text[0] ? text : "no differences\n");
    return BRAID_OK;
  }
  if (!cli_json_begin(&document)) return cli_no_memory();
  cli_json_string(&document, "plan", path);
  cli_json_string(&document, "against", against);
  cli_json_array(&document, "differences");
  for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    cli_json_string(&document, NULL, line);
  }
  cli_json_close(&document, ']');
  cli_json_end(&document);
  return BRAID_OK;
}

braid_status cli_inspect_plan(const char *path, const char *against, bool json) {
  char *text = NULL;
  braid_status status =
      against ? braid_plan_file_compare(path, against, NULL, &text) : braid_plan_file_print(path, json, NULL, &text);
  if (status == BRAID_OK && against)
    status = print_differences(path, against, text, json);
  else if (status == BRAID_OK)
    printf("%s", text);
  braid_free(NULL, text);
  return status;
}

braid_status cli_session_with_plan(const braid_graph *graph, const braid_session_options *options, const char *load,
                                   const char *save, braid_session **out) {
  braid_machine *machine = NULL;
  braid_plan *plan = NULL;
  braid_session_options own = *options;
  braid_machine_options of = {.devices = own.devices, .threads = own.threads, .registry = own.registry};
  braid_plan_options choices = {.no_fusion = own.no_fusion, .place = own.place};
  *out = NULL;
  braid_status status = braid_machine_create(NULL, &of, &machine);
  if (status == BRAID_OK)
    status = load ? braid_plan_load(machine, graph, load, &plan) : braid_plan_create(machine, graph, &choices, &plan);
  if (status == BRAID_OK && save) status = braid_plan_save(plan, graph, save);
  own.plan = plan;
  if (status == BRAID_OK) status = braid_session_create(graph, &own, out);
  braid_plan_release(plan);
  braid_machine_release(machine);
  return status;
}
