#include "backend/cuda/power.h"

#include "backend/cuda/device.h"
#include "base/try.h"

static uint32_t attribute_of(const braid_cuda_device *device, int attribute) {
  int value = 0;
  (void)device->cuda->device_attribute(&value, attribute, device->id);
  return (uint32_t)value;
}

/* Opened by the first reading: NVML takes a moment, which most programs have no use for. */
static braid_status find_card(braid_cuda_device *device, braid_nvml_card **out) {
  BRAID_TRY(braid_cuda_device_status(device));
  pthread_mutex_lock(&device->card_lock);
  const braid_pci_address address = {attribute_of(device, BRAID_CUDA_PCI_DOMAIN),
                                     attribute_of(device, BRAID_CUDA_PCI_BUS),
                                     attribute_of(device, BRAID_CUDA_PCI_DEVICE), 0};
  braid_status status = device->card ? BRAID_OK : braid_nvml_open(&address, &device->card);
  *out = device->card;
  pthread_mutex_unlock(&device->card_lock);
  return status;
}

braid_status braid_cuda_read_power(void *self, double *watts) {
  braid_nvml_card *card;
  BRAID_TRY(find_card(self, &card));
  return braid_nvml_read_power(card, watts);
}

braid_status braid_cuda_read_energy(void *self, double *microjoules) {
  braid_nvml_card *card;
  BRAID_TRY(find_card(self, &card));
  return braid_nvml_read_energy(card, microjoules);
}
