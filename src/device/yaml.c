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

/* Text goes to terminals: an escape, as in "\\e[31m", could move the cursor there. */
static bool has_controls(const unsigned char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    bool c1 = text[i] == 0xc2 && i + 1 < bytes && text[i + 1] < 0xa0;
    if ((text[i] < ' ' && text[i] != '\n' && text[i] != '\t') || text[i] == 0x7f || c1) return true;
  }
  return false;
}

static braid_status check_event(const char *name, const yaml_event_t *event) {
  size_t line = event->start_mark.line + 1;
  bool anchor = event->type == YAML_ALIAS_EVENT || (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
                (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
                (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
  if (anchor)
    return braid_fail(BRAID_INVALID_FILE, "%.200s: there are no anchors and aliases here, line: %zu", name, line);
  if (event->type != YAML_SCALAR_EVENT) return BRAID_OK;
  if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
    return braid_fail(BRAID_INVALID_FILE, "%.200s: a text holds a byte of value 0, line: %zu", name, line);
  if (has_controls(event->data.scalar.value, event->data.scalar.length))
    return braid_fail(BRAID_INVALID_FILE, "%.200s: a text holds control characters, line: %zu", name, line);
  return BRAID_OK;
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
    status = check_event(name, &event);
    more = event.type != YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
  }
  yaml_parser_delete(&parser);
  return status;
}

/* --- what libcyaml takes without a word, or says of another line ---------------------------------------------------
 */
typedef struct reading {
  const char *name;
  yaml_document_t *document;
} reading;

static const char *text_of(const yaml_node_t *node) {
  return (const char *)node->data.scalar.value;
}

/* libcyaml reads as much of a text as is a number, and what begins with a 0 to the base of 8. */
static braid_status check_number(const reading *r, const yaml_node_t *node, const char *key, bool whole) {
  const char *text = text_of(node), *digits = text + (*text == '-');
  size_t line = node->start_mark.line + 1;
  int64_t integer;
  double number;
  if (whole && braid_parse_i64(text, &integer) && !(digits[0] == '0' && digits[1])) return BRAID_OK;
  if (!whole && (strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0)) return BRAID_OK; /* out of every range */
  if (!whole && strspn(text, "0123456789+-.eE") == strlen(text) && braid_parse_f64(text, &number)) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%.200s: %.60s is %.60s, %s is expected, line: %zu", r->name, key,
                    *text ? text : "empty", whole ? "a whole number without a 0 before its digits" : "a number", line);
}

static braid_status fail_key(const reading *r, const yaml_node_t *key, const cyaml_schema_field_t *fields) {
  char known[kMessageBytes] = "";
  for (size_t used = 0; fields->key && used < sizeof known; fields++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", fields->key);
  return braid_fail(BRAID_INVALID_FILE, "%.200s: Unexpected key: %.60s, line: %zu; there are %.500s", r->name,
                    text_of(key), key->start_mark.line + 1, known);
}

static braid_status check_node(const reading *r, const yaml_node_t *node, const cyaml_schema_value_t *schema,
                               const char *key);

/* `seen`: a bit for each of the first 64 fields. */
static braid_status check_missing(const reading *r, const yaml_node_t *node, const cyaml_schema_field_t *fields,
                                  uint64_t seen, const char *key) {
  for (size_t i = 0; i < 64 && fields[i].key; i++)
    if (!(fields[i].value.flags & CYAML_FLAG_OPTIONAL) && !(seen >> i & 1))
      return braid_fail(BRAID_INVALID_FILE, "%.200s: key %s is missing in %.60s, line: %zu", r->name, fields[i].key,
                        key, node->start_mark.line + 1);
  return BRAID_OK;
}

static braid_status check_mapping(const reading *r, const yaml_node_t *node, const cyaml_schema_field_t *fields,
                                  const char *key_of_all) {
  uint64_t seen = 0;
  for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
    if (!key || key->type != YAML_SCALAR_NODE) continue;
    size_t at = 0;
    while (fields[at].key && strcmp(fields[at].key, text_of(key)) != 0) at++;
    if (!fields[at].key) return fail_key(r, key, fields);
    uint64_t bit = at < 64 ? (uint64_t)1 << at : 0;
    if (seen & bit)
      return braid_fail(BRAID_INVALID_FILE, "%.200s: key %s comes twice, line: %zu", r->name, fields[at].key,
                        key->start_mark.line + 1);
    seen |= bit;
    BRAID_TRY(check_node(r, yaml_document_get_node(r->document, pair->value), &fields[at].value, fields[at].key));
  }
  return check_missing(r, node, fields, seen, key_of_all);
}

static braid_status fail_kind(const reading *r, const yaml_node_t *node, const char *key, const char *expected) {
  bool text = node->type == YAML_SCALAR_NODE;
  return braid_fail(BRAID_INVALID_FILE, "%.200s: %.60s is %.60s, %s expected, line: %zu", r->name, key,
                    text && *text_of(node)             ? text_of(node)
                    : text                             ? "empty"
                    : node->type == YAML_SEQUENCE_NODE ? "a list"
                                                       : "keys with values",
                    expected, node->start_mark.line + 1);
}

/* What else is of another kind than the schema has is left to libcyaml. No schema is in itself, so this ends. */
static braid_status check_node(const reading *r, const yaml_node_t *node, const cyaml_schema_value_t *schema,
                               const char *key) {
  if (!node) return BRAID_OK;
  if (node->type == YAML_SCALAR_NODE && (schema->type == CYAML_INT || schema->type == CYAML_FLOAT))
    return check_number(r, node, key, schema->type == CYAML_INT);
  if (node->type == YAML_MAPPING_NODE && schema->type == CYAML_MAPPING)
    return check_mapping(r, node, schema->mapping.fields, key);
  if (schema->type == CYAML_MAPPING) return fail_kind(r, node, key, "keys with values are");
  if (schema->type != CYAML_SEQUENCE) return BRAID_OK;
  if (node->type != YAML_SEQUENCE_NODE) return fail_kind(r, node, key, "a list is");
  for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
    BRAID_TRY(check_node(r, yaml_document_get_node(r->document, *item), schema->sequence.entry, key));
  return BRAID_OK;
}

static braid_status check_values(const char *name, const void *text, size_t bytes, const cyaml_schema_value_t *schema) {
  yaml_parser_t parser;
  yaml_document_t document;
  braid_status status = BRAID_OK;
  if (!yaml_parser_initialize(&parser)) return BRAID_NO_MEMORY;
  yaml_parser_set_input_string(&parser, text, bytes);
  if (yaml_parser_load(&parser, &document)) {
    const reading r = {name, &document};
    status = check_node(&r, yaml_document_get_root_node(&document), schema, "the file");
    yaml_document_delete(&document);
  } else if (parser.error == YAML_MEMORY_ERROR) {
    status = BRAID_NO_MEMORY;
  }
  yaml_parser_delete(&parser);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
braid_status braid_yaml_parse(const char *name, const void *text, size_t bytes, const cyaml_schema_value_t *schema,
                              void **out) {
  complaint heard = {"", ""};
  cyaml_config_t how = config(&heard);
  *out = NULL;
  BRAID_TRY(check_tokens(name, text, bytes));
  BRAID_TRY(check_yaml(name, text, bytes));
  BRAID_TRY(check_values(name, text, bytes, schema));
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
