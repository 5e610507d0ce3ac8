#include "device/yaml.h"

#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/text.h"
#include "base/try.h"

enum { kMessageBytes = 512, kMostDepth = 64 };

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

static int depth_change(yaml_token_type_t type) {
  switch (type) {
  case YAML_BLOCK_SEQUENCE_START_TOKEN:
  case YAML_BLOCK_MAPPING_START_TOKEN:
  case YAML_FLOW_SEQUENCE_START_TOKEN:
  case YAML_FLOW_MAPPING_START_TOKEN:
    return 1;
  case YAML_BLOCK_END_TOKEN:
  case YAML_FLOW_SEQUENCE_END_TOKEN:
  case YAML_FLOW_MAPPING_END_TOKEN:
    return -1;
  default:
    return 0;
  }
}

/* What takes libyaml a time that grows with its square: lists in lists, and directives that abbreviate tags, which no
 * schema has. What is no YAML ends the look; the parser says why. */
static braid_status check_tokens(const char *name, const void *text, size_t bytes) {
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return BRAID_NO_MEMORY;
  yaml_parser_set_input_string(&parser, text, bytes);
  braid_status status = BRAID_OK;
  int depth = 0;
  for (bool more = true; more && status == BRAID_OK;) {
    yaml_token_t token;
    if (!yaml_parser_scan(&parser, &token)) break;
    depth += depth_change(token.type);
    if (depth > kMostDepth)
      status = braid_fail(BRAID_INVALID_FILE, "%.200s: more than %d lists and mappings in each other, line: %zu", name,
                          kMostDepth, token.start_mark.line + 1);
    else if (token.type == YAML_TAG_DIRECTIVE_TOKEN)
      status = braid_fail(BRAID_INVALID_FILE, "%.200s: there are no tags here that %%TAG could abbreviate, line: %zu",
                          name, token.start_mark.line + 1);
    more = token.type != YAML_STREAM_END_TOKEN;
    yaml_token_delete(&token);
  }
  yaml_parser_delete(&parser);
  return status;
}

/* What is no YAML is said here, since libcyaml does not say where. And a text written with an escape, as in "cpu\\0",
 * may hold a byte of value 0, at which libcyaml cuts it without a word. */
static braid_status check_yaml(const char *name, const void *text, size_t bytes) {
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return BRAID_NO_MEMORY;
  yaml_parser_set_input_string(&parser, text, bytes);
  braid_status status = BRAID_OK;
  for (bool more = true; more && status == BRAID_OK;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&parser, &event)) {
      status = parser.error == YAML_MEMORY_ERROR
                   ? BRAID_NO_MEMORY
                   : braid_fail(BRAID_INVALID_FILE, "%.200s: this is no YAML: %s, line: %zu", name,
                                parser.problem ? parser.problem : "unreadable", parser.mark.line + 1);
      break;
    }
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
  BRAID_TRY(check_tokens(name, text, bytes));
  BRAID_TRY(check_yaml(name, text, bytes));
  cyaml_err_t error = cyaml_load_data(text, bytes, &how, schema, out, NULL);
  if (error == CYAML_OK && *out) return BRAID_OK;
  *out = NULL;
  if (error == CYAML_ERR_OOM) return BRAID_NO_MEMORY;
  const char *reason = heard.reason[0] ? heard.reason : error == CYAML_OK ? "it is empty" : cyaml_strerror(error);
  return braid_fail(BRAID_INVALID_FILE, "%.200s: %.300s%s%.200s", name, reason, heard.place[0] ? ", " : "",
                    heard.place);
}

/* The value of a key, or the item of a number; NULL: the node has it not. */
static yaml_node_t *find_child(yaml_document_t *document, const yaml_node_t *node, const char *name, size_t length) {
  if (node->type == YAML_MAPPING_NODE) {
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
      const yaml_node_t *key = yaml_document_get_node(document, pair->key);
      if (key && key->type == YAML_SCALAR_NODE && key->data.scalar.length == length &&
          memcmp(key->data.scalar.value, name, length) == 0)
        return yaml_document_get_node(document, pair->value);
    }
  } else if (node->type == YAML_SEQUENCE_NODE) {
    char number[24];
    int64_t index;
    snprintf(number, sizeof number, "%.*s", (int)length, name);
    const yaml_node_item_t *items = node->data.sequence.items.start;
    if (braid_parse_i64(number, &index) && index >= 0 && index < node->data.sequence.items.top - items)
      return yaml_document_get_node(document, items[index]);
  }
  return NULL;
}

size_t braid_yaml_line(const void *text, size_t bytes, const char *path) {
  yaml_parser_t parser;
  yaml_document_t document;
  size_t line = 0;
  if (!yaml_parser_initialize(&parser)) return 0;
  yaml_parser_set_input_string(&parser, text, bytes);
  if (yaml_parser_load(&parser, &document)) {
    for (yaml_node_t *node = yaml_document_get_root_node(&document); node;) {
      line = node->start_mark.line + 1;
      size_t length = strcspn(path, "/");
      node = length ? find_child(&document, node, path, length) : NULL;
      path += length + (path[length] == '/');
    }
    yaml_document_delete(&document);
  }
  yaml_parser_delete(&parser);
  return line;
}

void braid_yaml_free(const cyaml_schema_value_t *schema, void *document) {
  cyaml_config_t how = config(NULL);
  how.log_fn = NULL;
  if (document) (void)cyaml_free(&how, schema, document, 0);
}
