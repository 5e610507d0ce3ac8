#include "device/yaml.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/file.h"
#include "base/try.h"

enum { kMessageBytes = 512, kMaxBytes = 1 << 20 };

/* What libcyaml logs about a failure: its reason first, then where, from the inside out. */
typedef struct complaint {
  char reason[kMessageBytes], place[kMessageBytes];
} complaint;

static void trim(char *text) {
  size_t length = strlen(text);
  while (length && (text[length - 1] == '\n' || text[length - 1] == ' ' || text[length - 1] == '.'))
    text[--length] = '\0';
}

static void hear(cyaml_log_t level, void *context, const char *format, va_list arguments) {
  (void)level;
  complaint *heard = context;
  char line[kMessageBytes];
  vsnprintf(line, sizeof line, format, arguments);
  trim(line);
  const char *text = line;
  if (strncmp(text, "Load: ", 6) == 0) text += 6;
  text += strspn(text, " ");
  const char *where = strstr(text, "(line:");
  if (!heard->place[0] && where)
    snprintf(heard->place, sizeof heard->place, "%s", text);
  else if (!heard->reason[0] && !where && strncmp(text, "Backtrace", 9) != 0)
    snprintf(heard->reason, sizeof heard->reason, "%s", text);
}

static cyaml_config_t config(complaint *heard) {
  return (cyaml_config_t){
      .log_fn = hear, .log_ctx = heard, .mem_fn = cyaml_mem, .log_level = CYAML_LOG_ERROR, .flags = CYAML_CFG_NO_ALIAS};
}

/* A text written with an escape, as in "cpu\\0", may hold a byte of value 0, at which libcyaml cuts it without a word.
 * What is no YAML is left to libcyaml's complaint. */
static braid_status check_no_zero_bytes(const char *name, const void *text, size_t bytes) {
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return BRAID_NO_MEMORY;
  yaml_parser_set_input_string(&parser, text, bytes);
  braid_status status = BRAID_OK;
  for (bool more = true; more && status == BRAID_OK;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) break;
    if (event.type == YAML_SCALAR_EVENT && memchr(event.data.scalar.value, 0, event.data.scalar.length))
      status = braid_fail(BRAID_INVALID_FILE, "%.200s: a text holds a byte of value 0, line: %zu", name,
                          event.start_mark.line + 1);
    more = event.type != YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  return status;
}

braid_status braid_yaml_parse(const char *name, const void *text, size_t bytes, const cyaml_schema_value_t *schema,
                              void **out) {
  complaint heard = {"", ""};
  cyaml_config_t how = config(&heard);
  *out = NULL;
  BRAID_TRY(check_no_zero_bytes(name, text, bytes));
  cyaml_err_t error = cyaml_load_data(text, bytes, &how, schema, out, NULL);
  if (error == CYAML_OK && *out) return BRAID_OK;
  *out = NULL;
  if (error == CYAML_ERR_OOM) return BRAID_NO_MEMORY;
  const char *reason = heard.reason[0] ? heard.reason : error == CYAML_OK ? "it is empty" : cyaml_strerror(error);
  return braid_fail(BRAID_INVALID_FILE, "%.200s: %.300s%s%.200s", name, reason, heard.place[0] ? ", " : "",
                    heard.place);
}

braid_status braid_yaml_load(const braid_allocator *allocator, const char *path, const cyaml_schema_value_t *schema,
                             void **out) {
  *out = NULL;
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, path, kMaxBytes, &view));
  braid_status status = braid_yaml_parse(path, view.data, view.bytes, schema, out);
  braid_file_close(&view);
  return status;
}

void braid_yaml_free(const cyaml_schema_value_t *schema, void *document) {
  cyaml_config_t how = config(NULL);
  how.log_fn = NULL;
  if (document) (void)cyaml_free(&how, schema, document, 0);
}
