/* Implements --explain: prints the plan, and for every task all candidates and the reason of the choice. */
#include <math.h>
#include <string.h>

#include "values.h"

static void print_offers_json(const braid_session *session, size_t line, cli_json *json) {
  cli_json_array(json, "offers");
  for (size_t i = 0; i < braid_session_offer_count(session, line); i++) {
    braid_plan_offer offer = braid_session_offer(session, line, i);
    cli_json_object(json, NULL);
    cli_json_string(json, "device", offer.device);
    cli_json_string(json, "kernel", offer.kernel);
    cli_json_string(json, "op", offer.op);
    cli_json_string(json, "nodes", offer.nodes);
    cli_json_string(json, "state", offer.chosen ? "chosen" : offer.able ? "able" : "unable");
    cli_json_string(json, "why", offer.why);
    cli_json_number(json, "us", offer.us < 0 ? NAN : offer.us);
    cli_json_string(json, "source", offer.us < 0 ? "unknown" : offer.measured ? "measured" : "modelled");
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

static void print_plan_json(const braid_session *session, cli_json *json) {
  cli_json_array(json, "plan");
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    cli_json_object(json, NULL);
    cli_json_string(json, "node", line.node);
    cli_json_string(json, "op", line.op);
    cli_json_string(json, "device", line.device);
    cli_json_string(json, "kernel", line.kernel);
    cli_json_string(json, "why", line.why);
    cli_json_number(json, line.modelled ? "modelled_us" : "measured_us", line.median_us < 0 ? NAN : line.median_us);
    if (line.energy_uj >= 0)
      cli_json_number(json, line.modelled ? "modelled_microjoules" : "measured_microjoules", line.energy_uj);
    print_offers_json(session, i, json);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* Offers of a kind, in the order in which they are printed. */
enum { CHOSEN, ABLE, UNABLE, KINDS };

static int kind_of(const braid_plan_offer *offer) {
  return offer->chosen ? CHOSEN : offer->able ? ABLE : UNABLE;
}

static bool is_alike(const braid_plan_offer *a, const braid_plan_offer *b) {
  return kind_of(a) == kind_of(b) && strcmp(a->device, b->device) == 0 && strcmp(a->nodes, b->nodes) == 0 &&
         strcmp(a->why, b->why) == 0 && a->us == b->us;
}

/* Prints one line for all offers of a device that differ only in their kernel; their nodes are printed if they are not
 * those of the task. Returns the number of offers. */
static size_t print_alike(const braid_session *session, size_t line, size_t first, const char *nodes, FILE *file) {
  static const char *const kMarks[KINDS] = {[CHOSEN] = "*", [ABLE] = "+", [UNABLE] = "-"};
  braid_plan_offer offer = braid_session_offer(session, line, first), next = offer;
  size_t count = braid_session_offer_count(session, line), at = first;
  fprintf(file, "  %s %s ", kMarks[kind_of(&offer)], offer.device);
  if (strcmp(offer.nodes, nodes) != 0) fprintf(file, "%s of %s, ", offer.op, offer.nodes);
  while (is_alike(&offer, &next)) {
    fprintf(file, "%s%s", at > first ? ", " : "", *next.kernel ? next.kernel : offer.op);
    if (++at == count) break;
    next = braid_session_offer(session, line, at);
  }
  if (offer.us >= 0) fprintf(file, ", %.1f us %s", offer.us, offer.measured ? "measured" : "modelled");
  fprintf(file, ": %s\n", offer.why);
  return at - first;
}

static void print_offers(const braid_session *session, size_t line, FILE *file) {
  size_t count = braid_session_offer_count(session, line);
  const char *nodes = "";
  for (size_t i = 0; i < count; i++)
    if (braid_session_offer(session, line, i).chosen) nodes = braid_session_offer(session, line, i).nodes;
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < count;) {
      braid_plan_offer offer = braid_session_offer(session, line, i);
      i += kind_of(&offer) == kind ? print_alike(session, line, i, nodes, file) : 1;
    }
}

/* For a loaded plan: it has the chosen kernels and the reasons, but no other candidates. */
static void print_loaded(const braid_plan_line *line, FILE *file) {
  if (line->why[0])
    fprintf(file, "  * %s %s: %s\n", line->device, line->kernel[0] ? line->kernel : line->op, line->why);
}

void cli_print_plan(const braid_session *session, const char *loaded, FILE *file, cli_json *json) {
  if (json) {
    if (loaded) cli_json_string(json, "plan_loaded_from", loaded);
    print_plan_json(session, json);
    return;
  }
  if (loaded)
    fprintf(file,
            "plan loaded from %s; it has the chosen kernels and the reasons noted when it was made, but not the other "
            "candidates\n* chosen\n",
            loaded);
  else
    fprintf(file, "* chosen, + possible, - not possible\n");
  fprintf(file, "%-32s %-20s %-8s %-20s %10s\n", "node", "op", "device", "kernel", "median us");
  for (size_t i = 0; i < braid_session_plan_count(session); i++) {
    braid_plan_line line = braid_session_plan(session, i);
    char time[32] = "-";
    if (line.median_us >= 0) snprintf(time, sizeof time, "%.1f", line.median_us);
    fprintf(file, "%-32.32s %-20s %-8s %-20s %10s%s\n", line.node, line.op, line.device, line.kernel, time,
            line.modelled && line.median_us >= 0 ? " modelled" : "");
    if (loaded)
      print_loaded(&line, file);
    else
      print_offers(session, i, file);
  }
}
