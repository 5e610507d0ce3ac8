/* Cores that a client asks for, for its tenant alone until it gives them back or its connection ends: of a public card
 * of the overlay, or, of a device that is no card, instances, which the answer says. */
#include <stdio.h>
#include <string.h>

#include "serve/wire/wire.h"

static void put_grant(wire_connection *c, const braid_wire_header *header, braid_serve_verdict verdict,
                      const char *detail, const braid_wire_grant *grant) {
  braid_wire_writer *writer = braid_wire_answer(c, header->kind, header->id, verdict, detail);
  if (verdict == BRAID_SERVE_DONE) braid_wire_put_grant(writer, grant);
  braid_wire_answer_send(c, writer);
}

static void tell_cores(const braid_serve_device *d, const braid_serve_tenant *t, braid_serve_verdict verdict,
                       uint32_t count, size_t held, char *detail) {
  const char *name = d->config->name, *tenant = t->config->name;
  int cores = d->card->cores;
  if (verdict == BRAID_SERVE_DONE)
    snprintf(detail, BRAID_WIRE_DETAIL, "%u of %d cores of card %s for tenant %s alone; %zu are held", count, cores,
             name, tenant, held);
  else if (verdict == BRAID_SERVE_INVALID)
    snprintf(detail, BRAID_WIRE_DETAIL,
             "card %s shares its %d cores among all runs (cores: private): none are for one tenant", name, cores);
  else if (verdict == BRAID_SERVE_OVER_QUOTA)
    snprintf(detail, BRAID_WIRE_DETAIL,
             "card %s has %d cores, of which %zu are held: %u more are over the share of tenant %s, which may hold up "
             "to %zu",
             name, cores, held, count, tenant, braid_serve_share_of(t, (size_t)cores));
  else
    snprintf(detail, BRAID_WIRE_DETAIL,
             "card %s has %d cores, of which %zu are held: %u cannot be given now to tenant %s", name, cores, held,
             count, tenant);
}

static void tell_instances(const braid_serve_device *d, const braid_serve_tenant *t, braid_serve_verdict verdict,
                           uint32_t count, size_t held, char *detail) {
  const char *name = d->config->name, *tenant = t->config->name;
  if (verdict == BRAID_SERVE_DONE)
    snprintf(detail, BRAID_WIRE_DETAIL,
             "%u of %zu instances of device %s for tenant %s alone; the device has no cores of the overlay", count,
             d->instance_count, name, tenant);
  else if (verdict == BRAID_SERVE_OVER_QUOTA)
    snprintf(detail, BRAID_WIRE_DETAIL,
             "device %s has %zu instances, of which %zu are held; %u more are over the share of tenant %s, which may "
             "hold up to %zu; the device has no cores of the overlay",
             name, d->instance_count, held, count, tenant, braid_serve_share_of(t, d->instance_count));
  else
    snprintf(detail, BRAID_WIRE_DETAIL,
             "device %s has %zu instances, of which %zu are held and one stays for all: %u cannot be given to "
             "tenant %s; the device has no cores of the overlay",
             name, d->instance_count, held, count, tenant);
}

static braid_serve_verdict give_cores(wire_connection *c, size_t device, uint32_t count, braid_wire_grant *grant,
                                      char *detail) {
  braid_server *server = c->wire->server;
  const braid_serve_device *d = &server->devices[device];
  size_t held;
  wire_grant *kept = braid_zalloc(NULL, sizeof *kept);
  if (!kept) {
    snprintf(detail, BRAID_WIRE_DETAIL, "no memory for a grant");
    return BRAID_SERVE_FAILED;
  }
  braid_serve_verdict verdict = braid_serve_hold(server->scheduler, device, c->tenant, count, &held);
  grant->held = (uint32_t)held;
  (d->card ? tell_cores : tell_instances)(d, c->tenant, verdict, count, held, detail);
  if (verdict != BRAID_SERVE_DONE) {
    braid_free(NULL, kept);
    return verdict;
  }
  *kept = (wire_grant){c->grants, ++c->wire->handles, device, count};
  c->grants = kept;
  grant->handle = kept->handle;
  grant->granted = count;
  grant->overlay_cores = d->card ? count : 0;
  return BRAID_SERVE_DONE;
}

void braid_wire_cores_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_server *server = c->wire->server;
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  braid_wire_cores cores;
  const char *wrong = braid_wire_get_cores(&reader, &cores);
  char detail[BRAID_WIRE_DETAIL] = "";
  size_t device = 0;
  while (!wrong && cores.device[0] && device < server->device_count &&
         strcmp(server->devices[device].config->name, cores.device) != 0)
    device++;
  if (wrong || !cores.count) {
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "cores: %s", wrong ? wrong : "0 are asked for");
  } else if (device == server->device_count) {
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "there is no device \"%.100s\"", cores.device);
  } else {
    const braid_serve_device *d = &server->devices[device];
    braid_wire_grant grant = {.instances = d->card ? (uint32_t)d->card->cores : (uint32_t)d->instance_count};
    braid_serve_verdict verdict = give_cores(c, device, cores.count, &grant, detail);
    put_grant(c, header, verdict, detail, &grant);
  }
}

static bool grant_free(wire_connection *c, uint64_t handle) {
  wire_grant **link = &c->grants;
  while (*link && (*link)->handle != handle) link = &(*link)->next;
  wire_grant *grant = *link;
  if (!grant) return false;
  *link = grant->next;
  braid_serve_unhold(c->wire->server->scheduler, grant->device, c->tenant, grant->count);
  braid_free(NULL, grant);
  return true;
}

void braid_wire_release_message(wire_connection *c, const braid_wire_header *header, const uint8_t *body) {
  braid_wire_reader reader = {.data = body, .bytes = (size_t)header->bytes};
  uint64_t handle = braid_wire_get_number(&reader, 8);
  const char *wrong = braid_wire_finish(&reader);
  if (wrong)
    braid_wire_answer_status(c, header, BRAID_SERVE_INVALID, "release: %s", wrong);
  else if (grant_free(c, handle))
    braid_wire_answer_status(c, header, BRAID_SERVE_DONE, "%s", "");
  else
    braid_wire_answer_status(c, header, BRAID_SERVE_UNKNOWN, "the connection holds no cores by the handle %llu",
                             (unsigned long long)handle);
}

void braid_wire_cores_free_all(wire_connection *c) {
  while (c->grants) (void)grant_free(c, c->grants->handle);
}
