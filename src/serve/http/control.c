/* What changes the daemon: models loaded and unloaded, shared memory registered; and what it has decided. */
#include <stdio.h>
#include <string.h>

#include "serve/http/call.h"

static void *load_main(void *context) {
  braid_http_call *call = context;
  braid_serve_registry *registry = call->server->registry;
  braid_status status = call->load ? braid_serve_registry_load(registry, call->model)
                                   : braid_serve_registry_unload(registry, call->model);
  if (status == BRAID_OK) {
    braid_text_add(&call->text, "{}");
    call->status = 200;
  } else {
    braid_serve_verdict verdict = status == BRAID_NOT_FOUND      ? BRAID_SERVE_UNKNOWN
                                  : status == BRAID_INVALID_FILE ? BRAID_SERVE_INVALID
                                                                 : BRAID_SERVE_FAILED;
    braid_http_refuse(call, verdict, "%s", braid_error_detail());
  }
  MHD_resume_connection(call->connection);
  return NULL;
}

bool braid_http_load(braid_http_call *call, const char *model, bool load) {
  if (!call->tenant->config->admin) {
    braid_http_refuse(call, BRAID_SERVE_FORBIDDEN, "tenant %s may not load and unload models (admin)",
                      call->tenant->config->name);
    return false;
  }
  json_t *asked =
      call->bytes && call->bytes <= BRAID_JSON_MOST ? json_loadb((const char *)call->body, call->bytes, 0, NULL) : NULL;
  size_t given = json_object_size(json_object_get(asked, "parameters"));
  bool dependents = json_object_get(json_object_get(asked, "parameters"), "unload_dependents") != NULL;
  json_decref(asked);
  if (call->bytes > BRAID_JSON_MOST || given > dependents) {
    braid_http_refuse(call, BRAID_SERVE_INVALID,
                      "parameters are not offered: models are loaded as the daemon's configuration says");
    return false;
  }
  snprintf(call->model, sizeof call->model, "%s", model);
  call->load = load;
  call->waiting = call->loading = true;
  MHD_suspend_connection(call->connection);
  if (pthread_create(&call->loader, NULL, load_main, call) == 0) return true;
  call->loading = false;
  braid_http_refuse(call, BRAID_SERVE_FAILED, "no thread to load a model with");
  MHD_resume_connection(call->connection);
  return true;
}

/* The thread has written the answer. */
void braid_http_answer_load(braid_http_call *call) {
  if (call->loading) pthread_join(call->loader, NULL);
  call->loading = false;
}

/* --- shared memory -------------------------------------------------------------------------------------------------
 */
static void list_regions(braid_http_call *call, const char *name) {
  braid_serve_region_info info;
  bool any = false;
  braid_text_add(&call->text, "[");
  for (size_t i = 0; braid_serve_region_get(call->server->regions, call->tenant, i, &info); i++) {
    if (name && strcmp(info.name, name) != 0) continue;
    braid_text_add(&call->text, any ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(&call->text, info.name);
    braid_text_add(&call->text, ",\"key\":");
    braid_text_add_json(&call->text, info.key);
    braid_text_printf(&call->text, ",\"offset\":%llu,\"byte_size\":%llu}", (unsigned long long)info.offset,
                      (unsigned long long)info.bytes);
    any = true;
  }
  braid_text_add(&call->text, "]");
  call->status = 200;
  if (name && !any) braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is no region \"%.100s\"", name);
}

static bool read_region(braid_http_call *call, const char *name, braid_serve_region_info *info) {
  json_t *root = call->bytes <= BRAID_JSON_MOST ? json_loadb((const char *)call->body, call->bytes, 0, NULL) : NULL;
  const char *key = json_string_value(json_object_get(root, "key"));
  const json_t *offset = json_object_get(root, "offset"), *bytes = json_object_get(root, "byte_size");
  bool whole = key && strlen(key) < sizeof info->key && strlen(name) < sizeof info->name && json_is_integer(bytes) &&
               json_integer_value(bytes) > 0 &&
               (!offset || (json_is_integer(offset) && json_integer_value(offset) >= 0));
  if (whole) {
    *info = (braid_serve_region_info){.offset = (uint64_t)json_integer_value(offset),
                                      .bytes = (uint64_t)json_integer_value(bytes)};
    strcpy(info->name, name);
    strcpy(info->key, key);
  } else {
    braid_http_refuse(call, BRAID_SERVE_INVALID,
                      "{\"key\": TEXT, \"offset\": N, \"byte_size\": N} is expected, key and name of up to 127 bytes");
  }
  json_decref(root);
  return whole;
}

void braid_http_shared_memory(braid_http_call *call, const char *region, const char *action) {
  braid_serve_regions *regions = call->server->regions;
  braid_serve_region_info info;
  char detail[BRAID_SERVE_DETAIL];
  braid_serve_verdict verdict;
  if (strcmp(action, "status") == 0) {
    list_regions(call, region);
    return;
  }
  if (strcmp(action, "unregister") == 0) {
    verdict = braid_serve_region_unregister(regions, call->tenant, region, detail);
  } else if (strcmp(action, "register") == 0 && region) {
    if (!read_region(call, region, &info)) return;
    verdict = braid_serve_region_register(regions, call->tenant, call->tenant->config->shared_memory, &info, detail);
  } else {
    braid_http_refuse(call, BRAID_SERVE_UNKNOWN, "there is nothing at %.200s", call->path);
    return;
  }
  if (verdict != BRAID_SERVE_DONE) {
    braid_http_refuse(call, verdict, "%s", detail);
    return;
  }
  braid_text_add(&call->text, "{}");
  call->status = 200;
}

/* --- decisions -----------------------------------------------------------------------------------------------------
 */
void braid_http_decisions(braid_http_call *call) {
  enum { MOST = 256 };
  braid_serve_decision *decisions = braid_zalloc_array(NULL, MOST, sizeof *decisions);
  if (!decisions) {
    braid_http_refuse(call, BRAID_SERVE_FAILED, "no memory for the decisions");
    return;
  }
  size_t count = braid_serve_decisions_read(braid_serve_scheduler_decisions(call->server->scheduler), decisions, MOST);
  bool any = false;
  char why[BRAID_SERVE_DETAIL];
  braid_text *text = &call->text;
  braid_text_add(text, "[");
  for (size_t i = 0; i < count; i++) {
    const braid_serve_decision *d = &decisions[i];
    if (!call->tenant->config->admin && strcmp(d->tenant, call->tenant->config->name) != 0) continue;
    braid_text_printf(text, "%s{\"number\":%llu,\"time_ms\":%lld,\"model\":", any ? "," : "",
                      (unsigned long long)d->number, (long long)d->at_ns / 1000000);
    braid_text_add_json(text, d->model);
    braid_text_add(text, ",\"tenant\":");
    braid_text_add_json(text, d->tenant);
    braid_text_printf(
        text,
        ",\"status\":%d,\"rows\":%lld,\"batch\":%lld,\"waited_us\":%lld,\"ran_us\":%lld,\"predicted_us\":%lld,\"why\":",
        braid_serve_http_status(d->verdict), (long long)d->rows, (long long)d->batch, (long long)d->waited_ns / 1000,
        (long long)d->ran_ns / 1000, (long long)d->predicted_ns / 1000);
    if (d->verdict == BRAID_SERVE_DONE) braid_serve_why_text(&d->why, d->waited_ns, why);
    braid_text_add_json(text, d->verdict == BRAID_SERVE_DONE ? why : d->refusal);
    braid_text_add(text, "}");
    any = true;
  }
  braid_text_add(text, "]");
  braid_free(NULL, decisions);
  call->status = 200;
}
