/* Saved plans at the command line: look at one, compare two. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "values.h"

/* The number of bytes that were read; 0: it cannot be looked at. */
static size_t read_start(const char *path, char *start, size_t bytes) {
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return 0; /* a pipe would be emptied by looking */
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  size_t count = fread(start, 1, bytes, file);
  fclose(file);
  return count;
}

bool cli_is_plan(const char *path) {
  static const char kMagic[] = "braidpln";
  char start[sizeof kMagic - 1];
  return read_start(path, start, sizeof start) == sizeof start && memcmp(start, kMagic, sizeof start) == 0;
}

bool cli_is_placement(const char *path) {
  char start[64];
  return braid_placement_is(start, read_start(path, start, sizeof start));
}

const char *cli_why_unreadable(const char *path) {
  struct stat about;
  if (stat(path, &about) != 0) return strerror(errno);
  if (S_ISDIR(about.st_mode)) return strerror(EISDIR);
  return access(path, R_OK) == 0 ? NULL : strerror(errno);
}

enum { MOST_DEVICES = 256 };

static braid_status fail_device(const char *name, const braid_device_info *infos, size_t count) {
  char list[512] = "";
  for (size_t i = 0, used = 0; i < count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", infos[i].name);
  return braid_fail(BRAID_NOT_FOUND,
                    "--save: the platform's device \"%s\" is none of this machine, which has %s; a plan can be saved "
                    "for these whole devices by these names: parts of devices, and names that a platform file of "
                    "`braid run` gives, are placed by --place",
                    name, list);
}

braid_status cli_check_forecast(const braid_forecast *forecast) {
  braid_device_info infos[MOST_DEVICES];
  size_t count = 0;
  cli_place place = {.devices = NULL};
  braid_status status = cli_open_registry(&place);
  if (status == BRAID_OK) status = braid_registry_devices(place.registry, infos, MOST_DEVICES, &count);
  for (size_t d = 0; d < braid_forecast_device_count(forecast) && status == BRAID_OK; d++) {
    braid_forecast_device device = braid_forecast_get_device(forecast, d);
    bool known = !device.tasks;
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) known |= strcmp(infos[i].name, device.name) == 0;
    if (!known) status = fail_device(device.name, infos, count < MOST_DEVICES ? count : MOST_DEVICES);
  }
  if (place.registry) cli_close_registry(&place);
  return status;
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

/* 0: no end, as files and pipes have none; what goes to a terminal is broken there. */
static size_t asked_columns(void) {
  const char *asked = getenv("COLUMNS");
  return asked ? strtoul(asked, NULL, 10) : 0;
}

braid_status cli_inspect_plan(const char *path, const char *against, bool json) {
  char *text = NULL;
  braid_status status =
      against ? braid_plan_file_compare(path, against, NULL, &text) : braid_plan_file_print(path, json, NULL, &text);
  if (status == BRAID_OK && against)
    status = print_differences(path, against, text, json);
  else if (status == BRAID_OK && !json && asked_columns())
    cli_print_wrapped(stdout, text, asked_columns());
  else if (status == BRAID_OK)
    printf("%s", text);
  braid_free(NULL, text);
  return status;
}

/* --- running by one ------------------------------------------------------------------------------------------------
 */
braid_status cli_check_batch(const cli_place *place, int64_t batch) {
  if (!place->placement.batch || place->placement.batch == batch) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "--plan %.200s: it is of a batch of %" PRId64 ", and this one is of %" PRId64
                    "; `braid plan --batch %" PRId64 " --save FILE` makes one for it",
                    place->placement_file, place->placement.batch, batch, batch);
}

braid_status cli_check_session_batch(const cli_place *place, const braid_session *session) {
  const braid_desc *first = braid_session_input_count(session) ? braid_session_input(session, 0) : NULL;
  return first && first->rank > 0 ? cli_check_batch(place, first->dims[0]) : BRAID_OK;
}
