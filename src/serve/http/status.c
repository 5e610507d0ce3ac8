/* The page, and what it shows as JSON. Admins see all tenants, others themselves and the models that they may use. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "braid/version.h"
#include "serve/http/call.h"
#include "serve/http/page.h"

void braid_http_page(braid_http_call *call) {
  braid_text_add(&call->text, braid_serve_pages[0].text);
  call->content_type = "text/html; charset=utf-8";
  call->status = 200;
}

static void add_devices(braid_http_call *call) {
  const braid_server *server = call->server;
  braid_text *text = &call->text;
  for (size_t i = 0; i < server->device_count; i++) {
    const braid_serve_device *device = &server->devices[i];
    braid_serve_load load = braid_serve_scheduler_load(server->scheduler, i);
    braid_text_add(text, i ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(text, device->config->name);
    braid_text_add(text, ",\"device\":");
    braid_text_add_json(text, device->config->device);
    braid_text_printf(text,
                      ",\"instances\":%zu,\"busy\":%.4f,\"waiting\":%lld,\"running\":%lld,\"runs\":%llu,\"rows\":%llu,"
                      "\"filled\":%llu,\"margin_ms\":%.3f}",
                      device->instance_count, load.busy, (long long)load.waiting, (long long)load.running,
                      (unsigned long long)load.runs, (unsigned long long)load.rows, (unsigned long long)load.filled,
                      load.margin_ms);
  }
}

static void add_tenant(braid_text *text, braid_serve_tenant *tenant, double instances) {
  double recent = braid_serve_tenant_recent(tenant, braid_now_ns()) * 1e-9 / instances;
  pthread_mutex_lock(&tenant->lock);
  braid_serve_usage usage = tenant->usage;
  int64_t in_flight = tenant->in_flight;
  size_t bytes = tenant->bytes_in_flight;
  pthread_mutex_unlock(&tenant->lock);
  braid_text_add(text, "{\"name\":");
  braid_text_add_json(text, tenant->config->name);
  braid_text_printf(text,
                    ",\"priority\":%lld,\"share\":%.4f,\"recent\":%.4f,\"in_flight\":%lld,\"bytes_in_flight\":%zu",
                    (long long)tenant->config->priority, tenant->config->share, recent, (long long)in_flight, bytes);
  braid_text_printf(text,
                    ",\"requests\":%llu,\"done\":%llu,\"refused\":%llu,\"late\":%llu,\"failed\":%llu,\"cancelled\":%"
                    "llu,\"device_s\":%.6f,\"joules\":%.6f}",
                    (unsigned long long)usage.requests, (unsigned long long)usage.done,
                    (unsigned long long)usage.refused, (unsigned long long)usage.late, (unsigned long long)usage.failed,
                    (unsigned long long)usage.cancelled, (double)usage.device_ns * 1e-9,
                    (double)usage.energy_uj * 1e-6);
}

static void add_tenants(braid_http_call *call) {
  const braid_server *server = call->server;
  double instances = 0;
  bool any = false;
  for (size_t i = 0; i < server->device_count; i++) instances += (double)server->devices[i].instance_count;
  for (size_t i = 0; i < server->tenant_count; i++) {
    if (&server->tenants[i] != call->tenant && !call->tenant->config->admin) continue;
    if (any) braid_text_add(&call->text, ",");
    add_tenant(&call->text, &server->tenants[i], instances);
    any = true;
  }
}

static void add_models(braid_http_call *call) {
  static const char *const kStates[] = {[BRAID_SERVE_UNLOADED] = "unloaded",
                                        [BRAID_SERVE_LOADING] = "loading",
                                        [BRAID_SERVE_READY] = "ready",
                                        [BRAID_SERVE_BROKEN] = "broken"};
  braid_serve_entry entry;
  bool any = false;
  for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++) {
    if (!braid_serve_tenant_may(call->tenant, entry.config->name)) continue;
    braid_text_add(&call->text, any ? ",{\"name\":" : "{\"name\":");
    braid_text_add_json(&call->text, entry.config->name);
    braid_text_printf(&call->text,
                      ",\"state\":\"%s\",\"bytes\":%zu,\"done\":%llu,\"failed\":%llu,\"runs\":%llu,\"reason\":",
                      kStates[entry.state], entry.bytes, (unsigned long long)entry.statistics.done,
                      (unsigned long long)entry.statistics.failed, (unsigned long long)entry.statistics.runs);
    braid_text_add_json(&call->text, entry.reason);
    braid_text_add(&call->text, "}");
    any = true;
  }
}

static void add_watts(braid_text *text, const char *key, double watts) {
  if (isfinite(watts))
    braid_text_printf(text, ",\"%s\":%.4f", key, watts);
  else
    braid_text_printf(text, ",\"%s\":null", key);
}

static void add_power(braid_http_call *call) {
  braid_serve_supply_view view = braid_serve_supply_look(call->server->supply);
  braid_text *text = &call->text;
  braid_text_printf(text, "{\"seconds\":%.3f", view.seconds);
  add_watts(text, "cap_watts", view.cap_watts > 0 ? view.cap_watts : NAN);
  add_watts(text, "modelled_idle_watts", view.idle_watts);
  add_watts(text, "modelled_watts", view.now_watts);
  add_watts(text, "modelled_peak_watts", view.peak_watts);
  add_watts(text, "measured_watts", view.measured_watts);
  braid_text_printf(text, ",\"modelled_joules\":%.4f,\"waits\":%llu}", view.idle_watts * view.seconds + view.run_joules,
                    (unsigned long long)view.waits);
}

static void add_trainings(braid_http_call *call) {
  braid_serve_harvester_view view;
  double open;
  bool any = false;
  for (size_t i = 0; braid_serve_harvest_look(call->server->harvest, i, &view, &open); i++) {
    if (!call->tenant->config->admin && strcmp(view.tenant, call->tenant->config->name) != 0) continue;
    braid_text_add(&call->text, any ? ",{\"tenant\":" : "{\"tenant\":");
    braid_text_add_json(&call->text, view.tenant);
    braid_text_printf(&call->text, ",\"process\":%ld,\"computes\":%s,\"seconds\":%.3f", (long)view.pid,
                      view.open ? "true" : "false", view.seconds);
    if (isfinite(view.cpu_seconds))
      braid_text_printf(&call->text, ",\"cpu_seconds\":%.2f}", view.cpu_seconds);
    else
      braid_text_add(&call->text, ",\"cpu_seconds\":null}");
    any = true;
  }
}

void braid_http_status(braid_http_call *call) {
  braid_text_printf(&call->text, "{\"version\":\"%s\",\"ready\":%s,\"devices\":[", BRAID_VERSION,
                    braid_server_is_ready(call->server) ? "true" : "false");
  add_devices(call);
  braid_text_add(&call->text, "],\"cards\":[");
  braid_http_add_cards(call);
  braid_text_add(&call->text, "],\"tenants\":[");
  add_tenants(call);
  braid_text_add(&call->text, "],\"models\":[");
  add_models(call);
  braid_text_add(&call->text, "],\"power\":");
  add_power(call);
  braid_text_add(&call->text, ",\"trainings\":[");
  add_trainings(call);
  braid_text_add(&call->text, "]");
  if (call->server->cluster && call->tenant->config->admin) {
    braid_text_add(&call->text, ",\"cluster\":");
    braid_serve_cluster_report(call->server->cluster, &call->text);
  }
  braid_text_add(&call->text, "}");
  call->status = 200;
}
