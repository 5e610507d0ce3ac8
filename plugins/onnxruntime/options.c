#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The framework writes the provider's name in small letters before each option. */
static const char kPrefix[] = "ep.braidexecutionprovider.";

typedef enum option_kind { OPTION_TEXT, OPTION_INT, OPTION_BOOL, OPTION_SIZE } option_kind;

/* One list: what is allowed, where it goes, and what the message about unknown options says. */
static const struct option {
  const char *name;
  option_kind kind;
  size_t offset;
  long least, most;
} kOptions[] = {
    {"device", OPTION_TEXT, offsetof(braid_ort_options, device), 0, 0},
    {"platform", OPTION_TEXT, offsetof(braid_ort_options, platform), 0, 0},
    {"plugins", OPTION_TEXT, offsetof(braid_ort_options, plugins), 0, 0},
    {"cache", OPTION_TEXT, offsetof(braid_ort_options, cache), 0, 0},
    {"place", OPTION_TEXT, offsetof(braid_ort_options, place), 0, 0},
    {"threads", OPTION_INT, offsetof(braid_ort_options, threads), 0, 1024},
    {"fusion", OPTION_BOOL, offsetof(braid_ort_options, fusion), 0, 1},
    {"plans", OPTION_SIZE, offsetof(braid_ort_options, plans), 1, 4096},
    {"min_nodes", OPTION_SIZE, offsetof(braid_ort_options, least), 1, 1000000},
};
enum { OPTION_COUNT = sizeof kOptions / sizeof *kOptions };

static braid_status option_set(const struct option *option, const char *text, braid_ort_options *options) {
  void *place = (char *)options + option->offset;
  if (option->kind == OPTION_TEXT) {
    if (strlen(text) >= BRAID_ORT_TEXT)
      return braid_fail(BRAID_INVALID_ARGUMENT, "option %s has %zu characters, fewer than %d are allowed", option->name,
                        strlen(text), BRAID_ORT_TEXT);
    memcpy(place, text, strlen(text) + 1);
    return BRAID_OK;
  }
  if (option->kind == OPTION_BOOL) {
    bool yes = strcmp(text, "1") == 0 || strcmp(text, "true") == 0 || strcmp(text, "True") == 0;
    if (!yes && strcmp(text, "0") != 0 && strcmp(text, "false") != 0 && strcmp(text, "False") != 0)
      return braid_fail(BRAID_INVALID_ARGUMENT, "option %s is \"%s\": 0 or 1 is allowed", option->name, text);
    memcpy(place, &yes, sizeof yes);
    return BRAID_OK;
  }
  char *end = NULL;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (!text[0] || *end || errno || number < option->least || number > option->most)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option %s is \"%s\": a number from %ld to %ld is allowed", option->name,
                      text, option->least, option->most);
  int integer = (int)number;
  size_t size = (size_t)number;
  memcpy(place, option->kind == OPTION_INT ? (void *)&integer : (void *)&size,
         option->kind == OPTION_INT ? sizeof integer : sizeof size);
  return BRAID_OK;
}

static braid_status option_read(const char *name, const char *text, braid_ort_options *options) {
  char known[512] = "";
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (strcmp(kOptions[i].name, name) == 0) return option_set(&kOptions[i], text, options);
    size_t length = strlen(known);
    snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", kOptions[i].name);
  }
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s has no option %s; it has %s", BRAID_ORT_NAME, name, known);
}

braid_status braid_ort_options_read(const OrtSessionOptions *session, const char *device, braid_ort_options *options) {
  OrtKeyValuePairs *entries = NULL;
  const char *const *keys = NULL, *const *values = NULL;
  size_t count = 0;
  *options = (braid_ort_options){.fusion = true, .plans = 16, .least = 1};
  snprintf(options->device, sizeof options->device, "%s", device && device[0] ? device : "cpu");
  braid_status status = braid_ort_check(braid_ort.GetSessionOptionsConfigEntries(session, &entries));
  if (status != BRAID_OK) return status;
  braid_ort.GetKeyValuePairs(entries, &keys, &values, &count);
  for (size_t i = 0; i < count && status == BRAID_OK; i++) {
    if (strcmp(keys[i], "ep.context_enable") == 0 && strcmp(values[i], "1") == 0)
      status = braid_fail(BRAID_UNSUPPORTED,
                          "%s writes no compiled models (ep.context_enable): it plans a model each time "
                          "that a session is created",
                          BRAID_ORT_NAME);
    if (status == BRAID_OK && strncmp(keys[i], kPrefix, sizeof kPrefix - 1) == 0)
      status = option_read(keys[i] + sizeof kPrefix - 1, values[i], options);
  }
  braid_ort.ReleaseKeyValuePairs(entries);
  return status;
}
