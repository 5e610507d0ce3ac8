/* What to export and where: the configuration's `trace` first, then OpenTelemetry's environment variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/trace/record.h"

enum { PAIRS = 64, PAIRS_BYTES = 8192 };
static const double kSample = 0.01;
static const int64_t kFileBytes = 64 << 20, kTimeoutMs = 10000;

/* --- lists of pairs ------------------------------------------------------------------------------------------------
 */
static int hex_of(char c) {
  const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* Without the space around it, %-escapes undone; NULL: an escape that is none, a control character, or no memory. */
static char *copy_decoded(const char *text, size_t bytes) {
  while (bytes && strchr(" \t", text[0])) text++, bytes--;
  while (bytes && strchr(" \t", text[bytes - 1])) bytes--;
  char *out = braid_alloc(NULL, bytes + 1);
  size_t used = 0;
  for (size_t i = 0; out && i < bytes; i++) {
    unsigned char c = (unsigned char)text[i];
    bool escape = c == '%' && i + 2 < bytes && hex_of(text[i + 1]) >= 0 && hex_of(text[i + 2]) >= 0;
    if (escape) {
      c = (unsigned char)(hex_of(text[i + 1]) << 4 | hex_of(text[i + 2]));
      i += 2;
    }
    if ((text[i] == '%' && !escape) || c < 0x20 || c == 0x7f) {
      braid_free(NULL, out);
      return NULL;
    }
    out[used++] = (char)c;
  }
  if (out) out[used] = '\0';
  return out;
}

static void pairs_free(trace_attribute *pairs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    braid_free(NULL, pairs[i].key);
    braid_free(NULL, pairs[i].value);
  }
  braid_free(NULL, pairs);
}

bool braid_trace_read_pairs(const char *text, trace_attribute **out, size_t *out_count) {
  size_t bytes = strlen(text), count = 0;
  *out = NULL;
  *out_count = 0;
  if (bytes > PAIRS_BYTES) return false;
  trace_attribute *pairs = braid_zalloc_array(NULL, PAIRS, sizeof *pairs);
  bool read = pairs != NULL;
  for (size_t at = 0; read && at < bytes;) {
    const char *from = text + at, *comma = memchr(from, ',', bytes - at), *equals;
    size_t length = comma ? (size_t)(comma - from) : bytes - at;
    at += length + 1;
    if (strspn(from, " \t") >= length) continue;
    equals = memchr(from, '=', length);
    read = equals && count < PAIRS;
    if (!read) break;
    pairs[count].key = copy_decoded(from, (size_t)(equals - from));
    pairs[count].value = copy_decoded(equals + 1, length - (size_t)(equals + 1 - from));
    read = pairs[count].key && pairs[count].key[0] && pairs[count].value;
    count++;
  }
  if (read) {
    *out = pairs;
    *out_count = count;
  } else {
    pairs_free(pairs, count);
  }
  return read;
}

/* --- the environment -----------------------------------------------------------------------------------------------
 */
/* NULL: not set, or empty, which is the same to OpenTelemetry. */
static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* The variable of traces before that of all signals. */
static const char *variable_of(const char *of_traces, const char *of_all, const char **out_name) {
  const char *value = variable(of_traces);
  *out_name = value ? of_traces : of_all;
  return value ? value : variable(of_all);
}

static void ignore(const braid_log *log, const char *name, const char *why) {
  braid_log_write(log, BRAID_LOG_WARNING, "%s: %s; it is left out", name, why);
}

static bool is_url(const char *text) {
  return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

static void read_endpoint(const braid_log *log, trace_settings *out) {
  const char *name, *url = variable_of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", &name);
  const char *exporter = variable("OTEL_TRACES_EXPORTER"), *protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
  if (!protocol) protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL");
  if (!url || (exporter && strcmp(exporter, "none") == 0)) return;
  bool whole = strcmp(name, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == 0; /* of the other one it is the beginning */
  size_t bytes = strlen(url);
  while (!whole && bytes && url[bytes - 1] == '/') bytes--;
  if (!is_url(url) || bytes + sizeof "/v1/traces" > sizeof out->endpoint) {
    ignore(log, name, "http://HOST[:PORT] or https://HOST[:PORT] is expected");
    return;
  }
  snprintf(out->endpoint, sizeof out->endpoint, "%.*s%s", (int)bytes, url, whole ? "" : "/v1/traces");
  if (protocol && strcmp(protocol, "http/json") != 0)
    braid_log_write(
        log, BRAID_LOG_WARNING,
        "OTEL_EXPORTER_OTLP_PROTOCOL is %.40s: spans go as http/json all the same, which collectors take at "
        "their HTTP port (4318)",
        protocol);
}

static void read_sampler(const braid_log *log, trace_settings *out) {
  const char *sampler = variable("OTEL_TRACES_SAMPLER"), *argument = variable("OTEL_TRACES_SAMPLER_ARG");
  if (!sampler) return;
  const char *kind = strncmp(sampler, "parentbased_", 12) == 0 ? sampler + 12 : sampler;
  double ratio = 1;
  if (strcmp(kind, "always_on") == 0 || strcmp(kind, "always_off") == 0)
    out->sample = strcmp(kind, "always_on") == 0;
  else if (strcmp(kind, "traceidratio") != 0)
    ignore(log, "OTEL_TRACES_SAMPLER", "always_on, always_off and traceidratio, with parentbased_ before, are known");
  else if (argument && !(braid_parse_f64(argument, &ratio) && ratio >= 0 && ratio <= 1))
    ignore(log, "OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1 is expected");
  else
    out->sample = ratio;
}

static void read_rest(const braid_log *log, trace_settings *out) {
  const char *name, *value = variable("OTEL_SERVICE_NAME");
  if (value) out->service = value;
  value = variable("OTEL_RESOURCE_ATTRIBUTES");
  if (value && !braid_trace_read_pairs(value, &out->attributes, &out->attribute_count))
    ignore(log, "OTEL_RESOURCE_ATTRIBUTES", "KEY=VALUE,KEY=VALUE with %-escapes is expected");
  value = variable_of("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", &name);
  if (value && !braid_trace_read_pairs(value, &out->headers, &out->header_count))
    ignore(log, name, "KEY=VALUE,KEY=VALUE with %-escapes is expected");
  value = variable_of("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", &name);
  int64_t ms;
  if (value && braid_parse_i64(value, &ms) && ms > 0 && ms <= 3600000)
    out->timeout_ms = ms;
  else if (value)
    ignore(log, name, "milliseconds from 1 to 3600000 are expected");
}

/* --- both ----------------------------------------------------------------------------------------------------------
 */
void braid_trace_settings_read(const braid_serve_trace_config *config, const braid_log *log, trace_settings *out) {
  *out = (trace_settings){
      .service = "braid", .sample = kSample, .file_bytes = (size_t)kFileBytes, .timeout_ms = kTimeoutMs};
  const char *disabled = variable("OTEL_SDK_DISABLED");
  if (disabled && strcasecmp(disabled, "true") == 0) return;
  read_endpoint(log, out);
  if (!config && !out->endpoint[0]) return; /* whatever else is in the environment is not for us */
  read_sampler(log, out);
  read_rest(log, out);
  if (!config) return;
  if (config->endpoint) {
    snprintf(out->endpoint, sizeof out->endpoint, "%s", config->endpoint); /* its length is checked when it is read */
    out->endpoint_given = true;
  }
  out->file = config->file;
  if (config->file_max_bytes) out->file_bytes = (size_t)config->file_max_bytes;
  if (config->sample) out->sample = *config->sample;
  if (config->service) out->service = config->service;
}

void braid_trace_settings_free(trace_settings *settings) {
  if (settings->attributes) pairs_free(settings->attributes, settings->attribute_count);
  if (settings->headers) pairs_free(settings->headers, settings->header_count);
  *settings = (trace_settings){0};
}
