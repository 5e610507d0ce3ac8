#include "schedule/policies/reasons.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"

const char braid_reason_no_other[] = "no other device can, or may by the policy";

size_t braid_reason_end(char *text, size_t used, size_t room, const char *device, bool known, double end) {
  const char *says = known ? ": ends at " : ": time not known";
  size_t name = strlen(device), length = strlen(says);
  if (used + name + length + 40 > room || end > 1e9) return used;
  if (used) memcpy(text + used, "; ", 2), used += 2;
  memcpy(text + used, device, name), used += name;
  memcpy(text + used, says, length), used += length;
  if (!known) return used;
  uint64_t micros = (uint64_t)(end * 1e6 + 0.5), whole = micros / 1000;
  char digits[24];
  size_t count = 0;
  do digits[count++] = (char)('0' + whole % 10);
  while (whole /= 10);
  while (count) text[used++] = digits[--count];
  text[used++] = '.';
  for (uint64_t unit = 100; unit; unit /= 10) text[used++] = (char)('0' + micros / unit % 10);
  memcpy(text + used, " ms", 3);
  return used + 3;
}

braid_status braid_reasons_late(const braid_choosing *choosing, const braid_choices *units, const double *finish,
                                braid_choices *choices) {
  static const char kExpected[] = "expected when it was placed: ";
  static const double kShown = 5e-7; /* ends are printed in microseconds */
  char text[sizeof kExpected + 256];
  for (size_t i = 0; i < choices->task_count; i++) {
    int32_t task = choices->order[i], last = braid_choices_task(choosing->problem, units, task);
    const char **reason = &choices->reasons[task]; /* it names the end of the whole set */
    if (*reason == braid_reason_no_other || fabs(finish[last] - choices->end[last]) < kShown) continue;
    int length = snprintf(text, sizeof text, "%s%s", kExpected, *reason);
    *reason = braid_arena_text(choosing->arena, text, (size_t)length);
    if (!*reason) return BRAID_NO_MEMORY;
  }
  return BRAID_OK;
}

/* The devices that run some of the tasks together with the given one: names, as far as they fit, else how many. */
static braid_status name_others(const braid_choosing *choosing, size_t device, const braid_choices *choices, char *text,
                                size_t room) {
  const braid_problem *problem = choosing->problem;
  size_t used = 0, count = 0;
  bool *also = braid_zalloc_array(choosing->allocator, problem->device_count + 1, sizeof *also);
  if (!also) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < choices->task_count; i++) {
    const braid_offer *offer = &problem->offers[choices->offer_of[choices->order[i]]];
    for (size_t k = 0; k < offer->also_count; k++) also[offer->also[k]] = true;
  }
  text[0] = '\0';
  for (size_t d = 0; d < problem->device_count; d++) {
    if (!also[d] || d == device) continue;
    count++;
    if (used < room)
      used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", problem->devices[d].name);
  }
  if (used >= room) snprintf(text, room, "%zu others", count);
  braid_free(choosing->allocator, also);
  return BRAID_OK;
}

static void print_seconds(const braid_number *seconds, char *text, size_t room) {
  if (seconds->source == BRAID_UNKNOWN)
    snprintf(text, room, "time not known");
  else
    snprintf(text, room, "%.3f ms", seconds->value * 1e3);
}

static braid_status give_all(const braid_choosing *choosing, const char *text, size_t length, braid_choices *choices) {
  const char *reason = braid_arena_text(choosing->arena, text, length);
  if (!reason) return BRAID_NO_MEMORY;
  for (size_t i = 0; i < choices->task_count; i++) choices->reasons[choices->order[i]] = reason;
  return BRAID_OK;
}

braid_status braid_reasons_class(const braid_choosing *choosing, const char *which, braid_number others,
                                 braid_choices *choices) {
  char text[256], here[40], there[40];
  print_seconds(&choices->seconds, here, sizeof here);
  print_seconds(&others, there, sizeof there);
  int length = snprintf(text, sizeof text, "%.60s alone: %s, with the other devices: %s", which, here, there);
  return give_all(choosing, text, (size_t)length, choices);
}

braid_status braid_reasons_alone(const braid_choosing *choosing, size_t device, braid_number spread,
                                 braid_choices *choices) {
  char text[256], others[100], here[40], there[40];
  print_seconds(&choices->seconds, here, sizeof here);
  print_seconds(&spread, there, sizeof there);
  BRAID_TRY(name_others(choosing, device, choices, others, sizeof others));
  int length = snprintf(text, sizeof text, "all on %.60s%s%s: %s, spread by earliest ends: %s",
                        choosing->problem->devices[device].name, others[0] ? ", some of it together with " : "", others,
                        here, there);
  size_t used = length < (int)sizeof text ? (size_t)length : sizeof text - 1;
  return give_all(choosing, text, used, choices);
}

braid_status braid_reasons_of(const braid_choosing *choosing, const char *policy, braid_choices *choices) {
  char text[80];
  int length = snprintf(text, sizeof text, "as by %.60s", policy);
  return give_all(choosing, text, (size_t)length, choices);
}
