/* Times and energies of simulated devices: they are of no machine, and are never shown as measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static void add_device(cli_modelled *m, const char *device) {
  size_t used = strlen(m->devices);
  if (strstr(m->devices, device) || used + strlen(device) + 3 > sizeof m->devices) return;
  snprintf(m->devices + used, sizeof m->devices - used, "%s%s", used ? ", " : "", device);
}

cli_modelled cli_find_modelled(const braid_session *session) {
  cli_modelled m = {0};
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    if (!line.modelled) continue;
    m.tasks++;
    m.ms += line.median_us < 0 ? NAN : line.median_us / 1e3;
    m.millijoules += line.energy_uj < 0 ? NAN : line.energy_uj / 1e3;
    add_device(&m, line.device);
  }
  return m;
}

int64_t cli_session_batch(const braid_session *session) {
  const braid_desc *input = braid_session_input_count(session) ? braid_session_input(session, 0) : NULL;
  return input && input->rank > 0 ? input->dims[0] : 1;
}

void cli_print_modelled(const braid_session *session, int64_t batch, FILE *file, cli_json *json) {
  cli_modelled m = cli_find_modelled(session);
  double per_second = m.ms > 0 ? (double)batch * 1e3 / m.ms : NAN;
  if (!m.tasks) return;
  if (json) {
    cli_json_object(json, "modelled");
    cli_json_string(json, "devices", m.devices);
    cli_json_integer(json, "tasks", (int64_t)m.tasks);
    cli_json_integer(json, "batch", batch);
    cli_json_number(json, "ms", m.ms);
    cli_json_number(json, "per_second", per_second);
    cli_json_number(json, "millijoules", m.millijoules);
    cli_json_close(json, '}');
    return;
  }
  fprintf(file, "%s, modelled: %zu %s, ", m.devices, m.tasks, m.tasks == 1 ? "task" : "tasks");
  if (isnan(m.ms)) {
    fprintf(file, "no times yet\n");
    return;
  }
  fprintf(file, "%.4g ms a run, %.5g per second", m.ms, per_second);
  if (!isnan(m.millijoules)) fprintf(file, ", %.4g mJ a run", m.millijoules);
  fprintf(file, "\n");
}

/* "overlay.1:parts=2" begins with "overlay", behind which no letter stands. */
static bool names(const char *spec, const char *device) {
  size_t length = strlen(device);
  return strncmp(spec, device, length) == 0 && strchr(" :.", spec[length]);
}

bool cli_place_simulates(const cli_place *place) {
  size_t count = 0;
  bool found = false;
  if (!place->devices || braid_registry_devices(place->registry, NULL, 0, &count) != BRAID_OK) return false;
  braid_device_info *infos = calloc(count + 1, sizeof *infos);
  size_t room = count;
  if (infos && braid_registry_devices(place->registry, infos, room, &count) == BRAID_OK)
    for (const char *spec = place->devices; *spec; spec += strcspn(spec, " "), spec += strspn(spec, " "))
      for (size_t i = 0; i < count && i < room; i++) found |= infos[i].modelled && names(spec, infos[i].name);
  free(infos);
  return found;
}
