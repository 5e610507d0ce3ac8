#include "serve/power_policy.h"

#include <math.h>

static const double kNothing = 0.1;   /* watts that no sensor is right to */
static const double kRounding = 1e-9; /* of sums of watts, relative */

double braid_serve_power_now(const braid_serve_power *power) {
  return power->idle + power->running + power->beyond;
}

static bool power_fits(const braid_serve_power *power, double watts) {
  return power->cap == 0 || braid_serve_power_now(power) + watts <= power->cap * (1 + kRounding);
}

static void power_add(braid_serve_power *power, double watts) {
  power->running += watts;
  power->peak = fmax(power->peak, braid_serve_power_now(power));
}

static bool power_is_behind(const braid_serve_power *power, size_t line, int rank, int64_t due_ns) {
  for (size_t i = 0; i < BRAID_SERVE_POWER_LINES; i++) {
    const struct braid_serve_power_wait *other = &power->lines[i];
    if (i == line || !other->waits) continue;
    if (other->rank < rank || (other->rank == rank && other->due_ns < due_ns)) return true;
  }
  return false;
}

bool braid_serve_power_begin(braid_serve_power *power, size_t line, double watts, int rank, int64_t due_ns) {
  struct braid_serve_power_wait *own = &power->lines[line];
  if (power_fits(power, watts) && !power_is_behind(power, line, rank, due_ns)) {
    own->waits = false;
    power_add(power, watts);
    return true;
  }
  power->waits += !own->waits;
  *own = (struct braid_serve_power_wait){true, rank, due_ns};
  return false;
}

void braid_serve_power_withdraw(braid_serve_power *power, size_t line) {
  power->lines[line].waits = false;
}

void braid_serve_power_end(braid_serve_power *power, double watts) {
  power->running = fmax(0, power->running - watts);
}

bool braid_serve_power_begin_behind(braid_serve_power *power, double watts) {
  bool waits = false;
  for (size_t i = 0; i < BRAID_SERVE_POWER_LINES; i++) waits |= power->lines[i].waits;
  if (waits || !power_fits(power, watts)) return false;
  power_add(power, watts);
  return true;
}

void braid_serve_power_measure(braid_serve_power *power, double beyond) {
  power->beyond = beyond > power->beyond ? beyond : (power->beyond + beyond) / 2;
  if (power->beyond < kNothing) power->beyond = 0;
  power->peak = fmax(power->peak, braid_serve_power_now(power));
}

size_t braid_serve_power_fit(const braid_serve_power *power, double watts, size_t most) {
  if (power->cap == 0 || watts <= 0) return most;
  double count = floor((power->cap * (1 + kRounding) - power->idle - power->beyond) / watts);
  return count < 1 ? 1 : count < (double)most ? (size_t)count : most;
}
