/* Power and energy of NVIDIA's cards, by NVML: the library of their driver, loaded when the program runs, so that a
 * machine without it has no meter and nothing else changes. For every backend that drives such cards.
 *
 * Energy is the card's counter, in millijoules since the driver was loaded (Volta and later). Power is that of this
 * instant where the driver tells it (field 186, drivers of 2023 and later), else nvmlDeviceGetPowerUsage's, which cards
 * since Ampere average over a second. */
#ifndef BRAID_LAUNCH_NVML_H
#define BRAID_LAUNCH_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/status.h"

typedef struct braid_pci_address {
  uint32_t domain, bus, device, function;
} braid_pci_address;

typedef struct braid_nvml_card braid_nvml_card;

/* The card at an address. UNSUPPORTED: there is no NVML that can be used, or the card is divided (MIG), so that its
 * power is that of all parts together. NOT_FOUND: NVML knows no card there. */
BRAID_MUST_CHECK braid_status braid_nvml_open(const braid_pci_address *address, braid_nvml_card **out);
void braid_nvml_close(braid_nvml_card *card); /* NULL is allowed */
/* Watts. Any thread. UNSUPPORTED: this card tells none. DEVICE_LOST: it is gone. */
BRAID_MUST_CHECK braid_status braid_nvml_read_power(braid_nvml_card *card, double *watts);
/* Microjoules since it was opened; they never fall: where the driver's counter begins anew, what it had counted since
 * the last reading is missing. Any thread. */
BRAID_MUST_CHECK braid_status braid_nvml_read_energy(braid_nvml_card *card, double *microjoules);

#endif
