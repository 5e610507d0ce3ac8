/* Cards of the overlay: whose runs have how many cores, and what each tenant used, in the words of Linux's fdinfo.
 * Admins see all tenants, others themselves. */
#include <string.h>

#include "base/clock.h"
#include "serve/http/call.h"

/* What is shown of a card; a copy, so that its line is not locked while text is written. */
typedef struct card_view {
  const char *design;
  int cores, runs, running, busy, held;
  bool elastic;
  double pace, clock, compile_microseconds;
  uint64_t decisions, switches, compiles;
} card_view;

/* Of one tenant. */
typedef struct card_share {
  const braid_serve_tenant *tenant;
  size_t client;
  int held, used;
  char fdinfo[1024];
} card_share;

static void view_card(braid_serve_card *card, void *context) {
  *(card_view *)context = (card_view){.design = card->design->name,
                                      .cores = card->cores,
                                      .runs = card->runs,
                                      .running = card->running_count,
                                      .busy = __builtin_popcountll(card->busy),
                                      .held = braid_serve_card_held(card, NULL),
                                      .elastic = card->elastic,
                                      .pace = card->pace,
                                      .clock = braid_serve_card_clock(card, braid_now_ns()),
                                      .compile_microseconds = card->compile_microseconds,
                                      .decisions = card->decisions,
                                      .switches = card->switches,
                                      .compiles = card->compiles};
}

static void view_share(braid_serve_card *card, void *context) {
  card_share *share = context;
  share->held = card->elastic ? 0 : braid_serve_card_held(card, share->tenant);
  share->used = braid_serve_card_used(card, share->tenant);
  (void)braid_serve_card_fdinfo(card, share->tenant, share->client, 10.0 - (double)share->tenant->config->priority,
                                braid_now_ns(), share->fdinfo, sizeof share->fdinfo);
}

/* False: the device is no card, or the tenant is not shown to whoever asks. */
static bool get_share(const braid_http_call *call, size_t device, size_t tenant, card_share *out) {
  const braid_server *server = call->server;
  *out = (card_share){.tenant = &server->tenants[tenant], .client = tenant};
  if (out->tenant != call->tenant && !call->tenant->config->admin) return false;
  return braid_serve_look_at_card(server->scheduler, device, view_share, out);
}

/* --- status --------------------------------------------------------------------------------------------------------
 */
/* "drm-engine-core:\t12 ns" becomes "drm-engine-core":"12 ns". */
static void add_fdinfo(braid_text *text, char *lines) {
  bool any = false;
  braid_text_add(text, "{");
  for (char *key = lines, *end; (end = strchr(key, '\n')) != NULL; key = end + 1) {
    *end = '\0';
    char *value = strstr(key, ":\t");
    if (!value) continue;
    *value = '\0';
    if (any) braid_text_add(text, ",");
    braid_text_add_json(text, key);
    braid_text_add(text, ":");
    braid_text_add_json(text, value + 2);
    any = true;
  }
  braid_text_add(text, "}");
}

static void add_shares(braid_http_call *call, size_t device) {
  bool any = false;
  for (size_t t = 0; t < call->server->tenant_count; t++) {
    card_share share;
    if (!get_share(call, device, t, &share)) continue;
    braid_text_add(&call->text, any ? ",{\"tenant\":" : "{\"tenant\":");
    braid_text_add_json(&call->text, share.tenant->config->name);
    braid_text_printf(&call->text, ",\"own_cores\":%d,\"cores_in_use\":%d,\"fdinfo\":", share.held, share.used);
    add_fdinfo(&call->text, share.fdinfo);
    braid_text_add(&call->text, "}");
    any = true;
  }
}

void braid_http_add_cards(braid_http_call *call) {
  const braid_server *server = call->server;
  braid_text *text = &call->text;
  bool any = false;
  for (size_t d = 0; d < server->device_count; d++) {
    card_view view;
    if (!braid_serve_look_at_card(server->scheduler, d, view_card, &view)) continue;
    braid_text_add(text, any ? ",{\"device\":" : "{\"device\":");
    braid_text_add_json(text, server->devices[d].config->name);
    braid_text_add(text, ",\"design\":");
    braid_text_add_json(text, view.design);
    braid_text_printf(
        text,
        ",\"mode\":\"%s\",\"cores\":%d,\"most_runs\":%d,\"runs\":%d,\"cores_in_use\":%d,\"cores_held\":%d,"
        "\"decisions\":%llu,\"switches\":%llu,\"compiles\":%llu,\"measured_compile_us\":%.3f,"
        "\"measured_pace\":%.6g,\"modelled_seconds\":%.9g,\"tenants\":[",
        view.elastic ? "private" : "public", view.cores, view.runs, view.running, view.busy, view.held,
        (unsigned long long)view.decisions, (unsigned long long)view.switches, (unsigned long long)view.compiles,
        view.compile_microseconds, view.pace, view.clock);
    add_shares(call, d);
    braid_text_add(text, "]}");
    any = true;
  }
}

/* --- metrics -------------------------------------------------------------------------------------------------------
 */
typedef struct card_metric {
  const char *name, *type, *help;
} card_metric;

static double value_of(const card_view *view, size_t index) {
  const double values[] = {view->cores,
                           view->busy,
                           view->held,
                           (double)view->switches,
                           (double)view->compiles,
                           view->compile_microseconds * 1e-6,
                           view->pace};
  return values[index];
}

static const card_metric kCard[] = {
    {"braid_card_cores", "gauge", "Cores of a card"},
    {"braid_card_cores_in_use", "gauge", "Cores that runs have"},
    {"braid_card_cores_held", "gauge", "Cores of a public card that are for one tenant alone"},
    {"braid_card_switches_total", "counter", "Changes of the cores of a run, at ends of layers"},
    {"braid_card_compiles_total", "counter", "Programs that the dynamic compiler made"},
    {"braid_card_compile_seconds_total", "counter", "Time of the dynamic compiler, measured"},
    {"braid_card_pace", "gauge", "Time that runs take, measured, over what they take by the model"},
};

/* Counters of fdinfo by their keys there. */
static const struct {
  const char *key, *name, *type, *help;
} kShares[] = {
    {"drm-engine-core:\t", "braid_card_drm_engine_core_nanoseconds", "counter",
     "drm-engine-core: time of cores that a tenant's runs used, modelled"},
    {"drm-cycles-core:\t", "braid_card_drm_cycles_core", "counter", "drm-cycles-core: the same in cycles, modelled"},
    {"submissions:\t", "braid_card_command_submissions_total", "counter", "Runs that began"},
    {"completions:\t", "braid_card_command_completions_total", "counter", "Runs that ended well"},
    {"migrations:\t", "braid_card_migrations_total", "counter", "Runs that went on with other cores"},
    {"preemptions:\t", "braid_card_preemptions_total", "counter", "Runs that gave cores back before their end"},
    {"errors:\t", "braid_card_errors_total", "counter", "Runs that failed"},
    {"time-outs:\t", "braid_card_time_outs_total", "counter", "Runs that were cancelled at their deadline"},
};

static void add_share_metrics(braid_http_call *call) {
  const braid_server *server = call->server;
  card_share share;
  braid_text_add(&call->text, "# HELP braid_card_tenant_cores_in_use Cores that runs of a tenant have\n"
                              "# TYPE braid_card_tenant_cores_in_use gauge\n");
  for (size_t d = 0; d < server->device_count; d++)
    for (size_t t = 0; t < server->tenant_count; t++)
      if (get_share(call, d, t, &share))
        braid_text_printf(&call->text, "braid_card_tenant_cores_in_use{device=\"%s\",tenant=\"%s\"} %d\n",
                          server->devices[d].config->name, share.tenant->config->name, share.used);
  for (size_t k = 0; k < sizeof kShares / sizeof *kShares; k++) {
    braid_text_printf(&call->text, "# HELP %s %s\n# TYPE %s %s\n", kShares[k].name, kShares[k].help, kShares[k].name,
                      kShares[k].type);
    for (size_t d = 0; d < server->device_count; d++)
      for (size_t t = 0; t < server->tenant_count; t++) {
        if (!get_share(call, d, t, &share)) continue;
        const char *at = strstr(share.fdinfo, kShares[k].key);
        const char *digits = at ? at + strlen(kShares[k].key) : "0";
        braid_text_printf(&call->text, "%s{device=\"%s\",tenant=\"%s\"} %.*s\n", kShares[k].name,
                          server->devices[d].config->name, share.tenant->config->name,
                          (int)strspn(digits, "0123456789"), digits);
      }
  }
}

void braid_http_add_card_metrics(braid_http_call *call) {
  const braid_server *server = call->server;
  card_view view;
  size_t cards = 0;
  for (size_t d = 0; d < server->device_count; d++) cards += server->devices[d].card != NULL;
  for (size_t k = 0; cards && k < sizeof kCard / sizeof *kCard; k++) {
    braid_text_printf(&call->text, "# HELP %s %s\n# TYPE %s %s\n", kCard[k].name, kCard[k].help, kCard[k].name,
                      kCard[k].type);
    for (size_t d = 0; d < server->device_count; d++)
      if (braid_serve_look_at_card(server->scheduler, d, view_card, &view))
        braid_text_printf(&call->text, "%s{device=\"%s\"} %.9g\n", kCard[k].name, server->devices[d].config->name,
                          value_of(&view, k));
  }
  if (cards) add_share_metrics(call);
}

/* --- fdinfo --------------------------------------------------------------------------------------------------------
 */
void braid_http_fdinfo(braid_http_call *call) {
  const braid_server *server = call->server;
  for (size_t d = 0; d < server->device_count; d++)
    for (size_t t = 0; t < server->tenant_count; t++) {
      card_share share;
      if (!get_share(call, d, t, &share)) continue;
      braid_text_printf(&call->text, "%sbraid-overlay-device:\t%s\nbraid-overlay-tenant:\t%s\n%s",
                        call->text.length ? "\n" : "", server->devices[d].config->name, share.tenant->config->name,
                        share.fdinfo);
    }
  call->content_type = "text/plain; charset=utf-8";
  call->status = 200;
}
