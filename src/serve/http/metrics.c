/* Prometheus' text, with Triton's names where there are such. Admins see all tenants, others themselves. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/http/call.h"

static void metric_describe(braid_text *text, const char *name, const char *type, const char *help) {
  braid_text_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

typedef struct counter {
  const char *name, *help;
  size_t offset;
  double scale;
} counter;

static const counter kModel[] = {
    {"nv_inference_request_success", "Requests that were answered", offsetof(braid_serve_statistics, done), 1},
    {"nv_inference_request_failure", "Requests that were refused or failed", offsetof(braid_serve_statistics, failed),
     1},
    {"nv_inference_count", "Rows that were computed", offsetof(braid_serve_statistics, rows), 1},
    {"nv_inference_exec_count", "Runs", offsetof(braid_serve_statistics, runs), 1},
    {"nv_inference_request_duration_us", "Time from arrival to end, measured",
     offsetof(braid_serve_statistics, total_ns), 1e-3},
    {"nv_inference_queue_duration_us", "Time in the queue, measured", offsetof(braid_serve_statistics, queue_ns), 1e-3},
    {"nv_inference_compute_infer_duration_us", "Time in runs, measured", offsetof(braid_serve_statistics, compute_ns),
     1e-3},
};

static const counter kTenant[] = {
    {"braid_tenant_requests_total", "Requests", offsetof(braid_serve_usage, requests), 1},
    {"braid_tenant_done_total", "Requests that were answered", offsetof(braid_serve_usage, done), 1},
    {"braid_tenant_refused_total", "Requests that were refused before they ran", offsetof(braid_serve_usage, refused),
     1},
    {"braid_tenant_failed_total", "Requests that failed", offsetof(braid_serve_usage, failed), 1},
    {"braid_tenant_late_total", "Requests that were admitted and then missed their deadline",
     offsetof(braid_serve_usage, late), 1},
    {"braid_tenant_cancelled_total", "Requests whose client had gone", offsetof(braid_serve_usage, cancelled), 1},
    {"braid_tenant_received_bytes_total", "Bytes of inputs", offsetof(braid_serve_usage, bytes_in), 1},
    {"braid_tenant_sent_bytes_total", "Bytes of outputs", offsetof(braid_serve_usage, bytes_out), 1},
    {"braid_tenant_device_seconds_total", "Time of devices, measured; of shared runs the part by rows",
     offsetof(braid_serve_usage, device_ns), 1e-9},
    {"braid_tenant_energy_joules_total", "Energy of that time by the configuration's run_watts, modelled",
     offsetof(braid_serve_usage, energy_uj), 1e-6},
    {"braid_tenant_wait_seconds_total", "Time in queues, measured", offsetof(braid_serve_usage, wait_ns), 1e-9},
};

static void add_value(braid_text *text, const counter *c, const void *from, const char *label, const char *name,
                      const char *more) {
  uint64_t value;
  memcpy(&value, (const char *)from + c->offset, sizeof value);
  braid_text_printf(text, "%s{%s=\"%s\"%s} %.17g\n", c->name, label, name, more, (double)value * c->scale);
}

static void add_models(braid_http_call *call) {
  braid_text *text = &call->text;
  braid_serve_entry entry;
  char version[160];
  for (size_t k = 0; k < sizeof kModel / sizeof *kModel; k++) {
    metric_describe(text, kModel[k].name, "counter", kModel[k].help);
    for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++) {
      if (!braid_serve_tenant_may(call->tenant, entry.config->name)) continue;
      snprintf(version, sizeof version, ",version=\"%.100s\"", entry.config->version);
      add_value(text, &kModel[k], &entry.statistics, "model", entry.config->name, version);
    }
  }
  metric_describe(text, "braid_model_bytes", "gauge", "Memory of a loaded model");
  for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++)
    if (braid_serve_tenant_may(call->tenant, entry.config->name))
      braid_text_printf(text, "braid_model_bytes{model=\"%s\"} %zu\n", entry.config->name, entry.bytes);
  metric_describe(text, "braid_model_evictions_total", "counter", "How often a model left for the memory of others");
  for (size_t i = 0; braid_serve_registry_entry(call->server->registry, i, &entry); i++)
    if (braid_serve_tenant_may(call->tenant, entry.config->name))
      braid_text_printf(text, "braid_model_evictions_total{model=\"%s\"} %llu\n", entry.config->name,
                        (unsigned long long)entry.evictions);
}

static void add_tenants(braid_http_call *call) {
  const braid_server *server = call->server;
  for (size_t k = 0; k < sizeof kTenant / sizeof *kTenant; k++) {
    metric_describe(&call->text, kTenant[k].name, "counter", kTenant[k].help);
    for (size_t i = 0; i < server->tenant_count; i++) {
      braid_serve_tenant *tenant = &server->tenants[i];
      if (tenant != call->tenant && !call->tenant->config->admin) continue;
      pthread_mutex_lock(&tenant->lock);
      braid_serve_usage usage = tenant->usage;
      pthread_mutex_unlock(&tenant->lock);
      add_value(&call->text, &kTenant[k], &usage, "tenant", tenant->config->name, "");
    }
  }
}

static void add_power(braid_http_call *call) {
  braid_text *text = &call->text;
  braid_serve_supply_view view = braid_serve_supply_look(call->server->supply);
  if (view.cap_watts > 0) {
    metric_describe(text, "braid_power_cap_watts", "gauge", "The power cap over all devices");
    braid_text_printf(text, "braid_power_cap_watts %.6g\n", view.cap_watts);
    metric_describe(text, "braid_power_cap_waits_total", "counter", "How often a run waited for the power cap");
    braid_text_printf(text, "braid_power_cap_waits_total %llu\n", (unsigned long long)view.waits);
  }
  if (view.idle_watts > 0 || view.peak_watts > 0) {
    metric_describe(text, "braid_power_modelled_watts", "gauge", "Power of all devices by the configuration, modelled");
    braid_text_printf(text, "braid_power_modelled_watts %.6g\n", view.now_watts);
    metric_describe(text, "braid_energy_modelled_joules_total", "counter", "Energy of all devices, modelled");
    braid_text_printf(text, "braid_energy_modelled_joules_total %.6f\n",
                      view.idle_watts * view.seconds + view.run_joules);
  }
  if (isfinite(view.measured_watts)) {
    metric_describe(text, "braid_power_measured_watts", "gauge", "Power of the devices that have a sensor, measured");
    braid_text_printf(text, "braid_power_measured_watts %.6g\n", view.measured_watts);
  }
}

/* Only whoever administers the daemon sees who trains beside it. */
static void add_trainings(braid_http_call *call) {
  braid_serve_harvester_view view;
  braid_text *text = &call->text;
  double open;
  size_t count = 0;
  while (braid_serve_harvest_look(call->server->harvest, count, &view, &open)) count++;
  metric_describe(text, "braid_training_beside", "gauge", "Processes that train beside the daemon");
  braid_text_printf(text, "braid_training_beside %zu\n", count);
  metric_describe(text, "braid_training_seconds_total", "counter", "Time in which training beside might compute");
  braid_text_printf(text, "braid_training_seconds_total %.6f\n", open);
}

static void add_traces(braid_http_call *call) {
  braid_text *text = &call->text;
  if (!call->server->tracer) return;
  braid_tracer_counts counts = braid_serve_tracer_count(call->server->tracer);
  metric_describe(text, "braid_trace_spans_total", "counter", "Spans that were exported");
  braid_text_printf(text, "braid_trace_spans_total %llu\n", (unsigned long long)counts.exported);
  metric_describe(text, "braid_trace_dropped_total", "counter",
                  "Records of requests, batches and forwards whose spans were dropped: no room was left while the "
                  "collector was away or slow, or it did not take them");
  braid_text_printf(text, "braid_trace_dropped_total{reason=\"full\"} %llu\n", (unsigned long long)counts.dropped_full);
  braid_text_printf(text, "braid_trace_dropped_total{reason=\"refused\"} %llu\n",
                    (unsigned long long)counts.dropped_failed);
  metric_describe(text, "braid_trace_post_failures_total", "counter", "Posts to the collector without success");
  braid_text_printf(text, "braid_trace_post_failures_total %llu\n", (unsigned long long)counts.failures);
}

void braid_http_metrics(braid_http_call *call) {
  const braid_server *server = call->server;
  braid_text *text = &call->text;
  add_models(call);
  add_tenants(call);
  add_power(call);
  braid_http_add_card_metrics(call);
  if (call->tenant->config->admin) add_trainings(call);
  if (call->tenant->config->admin) add_traces(call);
  metric_describe(text, "braid_device_busy_ratio", "gauge",
                  "Part of the last second that a device was in use, measured");
  for (size_t i = 0; i < server->device_count; i++)
    braid_text_printf(text, "braid_device_busy_ratio{device=\"%s\"} %.6g\n", server->devices[i].config->name,
                      braid_serve_scheduler_load(server->scheduler, i).busy);
  metric_describe(text, "braid_device_waiting", "gauge", "Requests that wait for a device");
  for (size_t i = 0; i < server->device_count; i++)
    braid_text_printf(text, "braid_device_waiting{device=\"%s\"} %lld\n", server->devices[i].config->name,
                      (long long)braid_serve_scheduler_load(server->scheduler, i).waiting);
  if (server->cluster) braid_serve_cluster_metrics(server->cluster, text);
  call->content_type = "text/plain; version=0.0.4; charset=utf-8";
  call->status = 200;
}
