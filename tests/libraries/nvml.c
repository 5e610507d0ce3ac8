/* A library that passes for NVIDIA's NVML by its name and its functions, for two cards that a test sets
 * (launch/nvml_test.c). WITHOUT_FUNCTIONS: it has none but nvmlInit_v2. */
#include <stdio.h>
#include <string.h>

#include "nvml.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE fake_nvml_card fake_nvml_cards[2];
VISIBLE int fake_nvml_init_code;

VISIBLE int nvmlInit_v2(void);
VISIBLE int nvmlInit_v2(void) {
  return fake_nvml_init_code;
}

#ifndef WITHOUT_FUNCTIONS
VISIBLE const char *nvmlErrorString(int code);
VISIBLE const char *nvmlErrorString(int code) {
  return code == 3 ? "Not Supported" : code == 6 ? "Not Found" : code == 15 ? "GPU is lost" : "Unknown Error";
}

/* As the driver does, it takes hexadecimal numbers with or without leading zeros. */
VISIBLE int nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **out);
VISIBLE int nvmlDeviceGetHandleByPciBusId_v2(const char *text, void **out) {
  unsigned domain, bus, device, function;
  if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return 2;
  for (int i = 0; i < 2; i++) {
    const fake_nvml_card *card = &fake_nvml_cards[i];
    if (card->domain != domain || card->bus != bus || card->device != device || function) continue;
    *out = &fake_nvml_cards[i];
    return 0;
  }
  return 6;
}

VISIBLE int nvmlDeviceGetPowerUsage(fake_nvml_card *card, unsigned *milliwatts);
VISIBLE int nvmlDeviceGetPowerUsage(fake_nvml_card *card, unsigned *milliwatts) {
  *milliwatts = card->average_milliwatts;
  return card->power_code;
}

VISIBLE int nvmlDeviceGetTotalEnergyConsumption(fake_nvml_card *card, unsigned long long *millijoules);
VISIBLE int nvmlDeviceGetTotalEnergyConsumption(fake_nvml_card *card, unsigned long long *millijoules) {
  *millijoules = card->millijoules;
  return card->energy_code;
}

typedef struct field_value {
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  union {
    double real;
    unsigned number;
  } value;
} field_value;

VISIBLE int nvmlDeviceGetFieldValues(fake_nvml_card *card, int count, field_value *values);
VISIBLE int nvmlDeviceGetFieldValues(fake_nvml_card *card, int count, field_value *values) {
  for (int i = 0; i < count; i++) {
    bool known = values[i].field == 186 && values[i].scope == 0;
    values[i].code = known ? card->instant_code : 3;
    values[i].type = 1;
    values[i].value.number = card->instant_milliwatts;
  }
  return 0;
}

VISIBLE int nvmlDeviceGetMigMode(fake_nvml_card *card, unsigned *now, unsigned *later);
VISIBLE int nvmlDeviceGetMigMode(fake_nvml_card *card, unsigned *now, unsigned *later) {
  *now = *later = card->divided;
  return card->can_divide ? 0 : 3;
}
#endif
