#include "backend/opencl/power.h"

#include "base/try.h"

/* NVIDIA's cards by their vendor's number; where they are, by cl_khr_pci_bus_info, else cl_nv_device_attribute_query.
 */
enum { kNvidia = 0x10DE, kPciInfo = 0x410F, kNvBus = 0x4008, kNvSlot = 0x4009, kNvDomain = 0x400A };

static bool ask_driver(const braid_cl_device *device, cl_device_info what, void *out, size_t bytes) {
  size_t used = 0;
  return device->cl->GetDeviceInfo(device->shared->device, what, bytes, out, &used) == CL_SUCCESS && used == bytes;
}

static bool find_address(const braid_cl_device *device, braid_pci_address *out) {
  cl_uint numbers[4] = {0}, bus, slot, domain; /* domain, bus, device, function */
  if (ask_driver(device, kPciInfo, numbers, sizeof numbers)) {
    *out = (braid_pci_address){numbers[0], numbers[1], numbers[2], numbers[3]};
    return true;
  }
  if (!ask_driver(device, kNvBus, &bus, sizeof bus) || !ask_driver(device, kNvSlot, &slot, sizeof slot)) return false;
  if (!ask_driver(device, kNvDomain, &domain, sizeof domain)) domain = 0; /* drivers before 2020 */
  *out = (braid_pci_address){domain, bus, slot >> 3, slot & 7};
  return true;
}

static braid_status open_card(braid_cl_device *device) {
  braid_pci_address address;
  cl_uint vendor = 0;
  if (!ask_driver(device, CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor) || vendor != kNvidia)
    return braid_fail(BRAID_UNSUPPORTED, "%s: OpenCL tells no power, and only NVIDIA's cards are asked otherwise",
                      device->info.name);
  if (device->shared->share.parts > 1)
    return braid_fail(BRAID_UNSUPPORTED, "%s is a part: the power is that of the whole card", device->info.name);
  if (!find_address(device, &address))
    return braid_fail(BRAID_UNSUPPORTED, "%s: the driver does not tell which card it is", device->info.name);
  return braid_nvml_open(&address, &device->card);
}

/* Opened by the first reading: NVML takes a moment, which most programs have no use for. */
static braid_status find_card(braid_cl_device *device, braid_nvml_card **out) {
  BRAID_TRY(braid_cl_device_status(device));
  pthread_mutex_lock(&device->card_lock);
  braid_status status = device->card ? BRAID_OK : open_card(device);
  *out = device->card;
  pthread_mutex_unlock(&device->card_lock);
  return status;
}

braid_status braid_cl_read_power(void *self, double *watts) {
  braid_nvml_card *card;
  BRAID_TRY(find_card(self, &card));
  return braid_nvml_read_power(card, watts);
}

braid_status braid_cl_read_energy(void *self, double *microjoules) {
  braid_nvml_card *card;
  BRAID_TRY(find_card(self, &card));
  return braid_nvml_read_energy(card, microjoules);
}
