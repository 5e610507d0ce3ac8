/* Cards of a library that passes for NVML: what it says of them. Codes are NVML's. */
#ifndef BRAID_TESTS_NVML_H
#define BRAID_TESTS_NVML_H

#include <stdbool.h>

typedef struct fake_nvml_card {
  unsigned domain, bus, device;
  unsigned average_milliwatts, instant_milliwatts;
  unsigned long long millijoules;
  int power_code, instant_code, energy_code;
  bool can_divide;
  unsigned divided;
} fake_nvml_card;

#endif
