#include "steering.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- options -------------------------------------------------------------------------------------------------------
 */
enum { KEY_POLICY = CLI_FIRST_KEY + 0x200, KEY_PROFILE, KEY_CAP, KEY_DRIFT, KEY_WINDOW, KEY_ALONE };

static const struct argp_option table[] = {
    {"policy", KEY_POLICY, "NAME", 0,
     "Let a policy of `braid plan` (hybrid-energy, heft, slack-energy ...) place the step's operations on the devices "
     "of --device (default: all that compute and are not simulated), by measured costs, and again where these drift "
     "(docs/steering.md)",
     70},
    {"profile", KEY_PROFILE, "FILE", 0,
     "With --policy: costs from a database of `braid profile --train` (default: a quick measurement, kept in DIR)", 70},
    {"power-cap", KEY_CAP, "W", 0,
     "Cap on the power of all devices together; power is sampled and violations are counted (default policy: "
     "hybrid-cap)",
     70},
    {"drift", KEY_DRIFT, "X", 0,
     "With --policy: plan again where operations take more than 1 + X times what the plan has, or less than that part "
     "of it (default 0.5)",
     70},
    {"drift-steps", KEY_WINDOW, "N", 0, "With --policy: ... as the median of N steps (default 8)", 70},
    {"alone", KEY_ALONE, "N", 0, "With --policy: run N steps on each device alone first, to compare with", 70},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
  cli_steering *s = state->input;
  braid_steering_options *o = &s->options;
  switch (key) {
  case ARGP_KEY_INIT:
    braid_steering_options_init(o);
    o->policy = NULL;
    return 0;
  case KEY_POLICY:
    o->policy = argument;
    s->given = true;
    return 0;
  case KEY_PROFILE:
    o->profile = argument;
    s->effect = "--profile";
    return 0;
  case KEY_CAP:
    o->cap_watts = cli_number(state, "--power-cap", argument, 1e-6, 1e9);
    s->given = true;
    return 0;
  case KEY_DRIFT:
    o->drift = cli_number(state, "--drift", argument, 1e-3, 1e6);
    s->effect = "--drift";
    return 0;
  case KEY_WINDOW:
    o->window = cli_integer(state, "--drift-steps", argument, 2, 1024);
    s->effect = "--drift-steps";
    return 0;
  case KEY_ALONE:
    o->alone = cli_integer(state, "--alone", argument, 2, INT32_MAX);
    s->effect = "--alone";
    return 0;
  case ARGP_KEY_END:
    if (s->given && !o->policy) o->policy = "hybrid-cap";
    if (!s->given && s->effect) argp_error(state, "%s has no effect without --policy", s->effect);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

const struct argp cli_steering_argp = {table, parse, NULL, NULL, NULL, NULL, NULL};

/* --- training ------------------------------------------------------------------------------------------------------
 */
braid_status cli_steering_devices(cli_steering *s, braid_registry *registry) {
  enum { MOST = 16 };
  braid_device_info infos[MOST];
  size_t count, used = 0;
  braid_status status = braid_registry_devices(registry, infos, MOST, &count);
  for (size_t i = 0; status == BRAID_OK && i < count && i < MOST; i++) {
    /* A simulated device has no times that could be measured. */
    bool computes = !infos[i].modelled &&
                    (!strcmp(infos[i].kind, "cpu") || !strcmp(infos[i].kind, "gpu") || !strcmp(infos[i].kind, "fpga"));
    if (computes && used + strlen(infos[i].name) + 2 < sizeof s->devices)
      used += (size_t)snprintf(s->devices + used, sizeof s->devices - used, "%s%s", used ? " " : "", infos[i].name);
  }
  return status;
}

static bool show_progress(void *context, size_t done, size_t total, const char *what) {
  (void)what;
  cli_progress_update(context, (int64_t)done, (int64_t)total, NULL);
  return !cli_interrupted();
}

braid_status cli_steering_begin(cli_steering *s, braid_trainer *trainer, const char *out) {
  cli_progress progress;
  if (!s->options.profile && asprintf(&s->measured, "%s/profile.db", out) < 0) {
    s->measured = NULL;
    return cli_no_memory();
  }
  s->options.measured = s->measured;
  s->options.progress = show_progress;
  s->options.context = &progress;
  cli_progress_begin(&progress, "measuring");
  braid_status status = braid_steering_create(trainer, &s->options, &s->made);
  cli_progress_end(&progress);
  return status;
}

void cli_steering_end(cli_steering *s) {
  braid_steering_destroy(s->made);
  free(s->measured);
  s->made = NULL;
  s->measured = NULL;
}

/* --- what came of it -----------------------------------------------------------------------------------------------
 */
static const char *number(double value, double factor, const char *format, char *buffer, size_t bytes) {
  if (isnan(value))
    snprintf(buffer, bytes, "?");
  else
    snprintf(buffer, bytes, format, value * factor);
  return buffer;
}

static void print_run(FILE *file, const braid_steering_run *run, int64_t samples) {
  char text[5][24];
  double rate = (double)samples / run->seconds;
  fprintf(file, "%-24s %7" PRId64 " %10s %10s %10s %12s %12s\n", run->what, run->steps,
          number(run->seconds, 1e3, "%.3f", text[0], sizeof text[0]), number(rate, 1, "%.0f", text[1], sizeof text[1]),
          number(run->joules, 1, "%.4g", text[2], sizeof text[2]),
          number(run->planned_seconds, 1e3, "%.3f", text[3], sizeof text[3]),
          number(run->planned_joules, 1, "%.4g", text[4], sizeof text[4]));
}

static void print_event(FILE *file, const braid_steering_event *e) {
  fprintf(file, "after step %" PRId64 ": %s\n", e->step, e->reason);
  fprintf(file, "  %zu operations moved: %s; now %s%s\n", e->moved, e->from, e->to,
          e->copied ? "; parameters were copied" : "");
  fprintf(file, "  policy %.1f ms, preparing %.1f ms, switching %.3f ms", e->policy_seconds * 1e3,
          e->prepare_seconds * 1e3, e->switch_seconds * 1e3);
  if (isnan(e->steps_lost))
    fprintf(file, "\n");
  else
    fprintf(file, "; %.3f s from the first step that took another time to the new plan, %.1f steps lost\n",
            e->recover_seconds, e->steps_lost);
}

static void print_power(FILE *file, const braid_steering_power *p) {
  char text[3][24];
  if (p->any)
    fprintf(file, "power: %s W on average, %s W at most in %zu samples, %s J%s%s\n",
            number(p->average_watts, 1, "%.4g", text[0], sizeof text[0]),
            number(p->peak_watts, 1, "%.4g", text[1], sizeof text[1]), p->samples,
            number(p->joules, 1, "%.4g", text[2], sizeof text[2]), p->unknown[0] ? "; not in it, since unknown: " : "",
            p->unknown);
  else
    fprintf(file, "power and energy: unknown; no counter and no sensor of %s can be read\n", p->unknown);
  if (isnan(p->cap_watts)) return;
  if (p->any)
    fprintf(file, "cap of %g W: %zu of %zu samples above it%s\n", p->cap_watts, p->violations, p->samples,
            p->unknown[0] ? ", without what is unknown" : "");
  else
    fprintf(file, "cap of %g W: %s; nothing was sampled\n", p->cap_watts,
            p->planned_unknown          ? "whether it holds is unknown, since the profile lacks peaks"
            : p->planned_violations > 0 ? "the plan does not keep it"
                                        : "it holds by the profile's peaks only");
  if (p->planned_violations > 0)
    fprintf(file, "  %.0f operations of the plan start above it by the profile's peaks\n", p->planned_violations);
  if (p->waits)
    fprintf(file, "  %zu operations of the plan wait for others because of it, which runs do not keep\n", p->waits);
}

void cli_steering_print(FILE *file, const braid_steering *steering, int64_t samples) {
  braid_steering_power power = braid_steering_get_power(steering);
  fprintf(file, "costs: %s\n", braid_steering_source(steering));
  if (*braid_steering_note(steering)) fprintf(file, "policy: %s\n", braid_steering_note(steering));
  fprintf(file, "%-24s %7s %10s %10s %10s %12s %12s\n", "", "steps", "ms a step", "samples/s", "J a step",
          "forecast ms", "forecast J");
  for (size_t i = 0; i < braid_steering_run_count(steering); i++) {
    braid_steering_run run = braid_steering_get_run(steering, i);
    print_run(file, &run, samples);
  }
  for (size_t i = 0; i < braid_steering_event_count(steering); i++) {
    braid_steering_event event = braid_steering_get_event(steering, i);
    print_event(file, &event);
  }
  if (braid_steering_corrections(steering))
    fprintf(file, "costs were corrected %zu times more, which gave the same plan or one that is hardly better\n",
            braid_steering_corrections(steering));
  print_power(file, &power);
}

static void event_json(cli_json *json, const braid_steering_event *e) {
  cli_json_object(json, NULL);
  cli_json_integer(json, "step", e->step);
  cli_json_string(json, "reason", e->reason);
  cli_json_integer(json, "operations_moved", (int64_t)e->moved);
  cli_json_string(json, "from", e->from);
  cli_json_string(json, "to", e->to);
  cli_json_number(json, "measured_policy_ms", e->policy_seconds * 1e3);
  cli_json_number(json, "measured_prepare_ms", e->prepare_seconds * 1e3);
  cli_json_number(json, "measured_switch_ms", e->switch_seconds * 1e3);
  cli_json_bool(json, "parameters_copied", e->copied);
  cli_json_number(json, "measured_seconds_to_recover", e->recover_seconds);
  cli_json_number(json, "steps_lost", e->steps_lost);
  cli_json_close(json, '}');
}

static void run_json(cli_json *json, const braid_steering_run *run, int64_t samples) {
  cli_json_object(json, NULL);
  cli_json_string(json, "what", run->what);
  cli_json_integer(json, "steps", run->steps);
  if (run->steps) cli_json_integer(json, "first_step", run->first);
  cli_json_number(json, "measured_step_ms", run->seconds * 1e3);
  cli_json_number(json, "measured_samples_per_second", (double)samples / run->seconds);
  cli_json_number(json, "measured_joules_per_step", run->joules);
  cli_json_number(json, "modelled_step_ms", run->planned_seconds * 1e3);
  cli_json_number(json, "modelled_joules_per_step", run->planned_joules);
  cli_json_close(json, '}');
}

static void power_json(cli_json *json, const braid_steering_power *p) {
  cli_json_object(json, "power");
  cli_json_string(json, "unknown", p->unknown);
  cli_json_integer(json, "samples", (int64_t)p->samples);
  cli_json_number(json, "measured_average_w", p->average_watts);
  cli_json_number(json, "measured_peak_w", p->peak_watts);
  cli_json_number(json, "measured_joules", p->joules);
  cli_json_number(json, "cap_w", p->cap_watts);
  cli_json_number(json, "cap_violations", p->any ? (double)p->violations : NAN);
  cli_json_number(json, "modelled_cap_violations", p->planned_violations);
  cli_json_bool(json, "modelled_cap_violations_may_be_more", p->planned_unknown);
  cli_json_integer(json, "waits_not_kept", (int64_t)p->waits);
  cli_json_close(json, '}');
}

void cli_steering_json(cli_json *json, const braid_steering *steering, int64_t samples) {
  braid_steering_power power = braid_steering_get_power(steering);
  cli_json_object(json, "steering");
  cli_json_string(json, "costs", braid_steering_source(steering));
  cli_json_string(json, "note", braid_steering_note(steering));
  cli_json_array(json, "runs");
  for (size_t i = 0; i < braid_steering_run_count(steering); i++) {
    braid_steering_run run = braid_steering_get_run(steering, i);
    run_json(json, &run, samples);
  }
  cli_json_close(json, ']');
  cli_json_array(json, "events");
  for (size_t i = 0; i < braid_steering_event_count(steering); i++) {
    braid_steering_event event = braid_steering_get_event(steering, i);
    event_json(json, &event);
  }
  cli_json_close(json, ']');
  cli_json_integer(json, "corrections_without_another_plan", (int64_t)braid_steering_corrections(steering));
  power_json(json, &power);
  cli_json_close(json, '}');
}
