#include "launch/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/library.h"
#include "base/try.h"
#include "braid/allocator.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 * As NVIDIA's "NVML API Reference Guide" has it. */
typedef void *nvml_device;
typedef int nvml_code;
enum {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kTimeout = 10,
  kGpuIsLost = 15,
  kPowerInstant = 186,
};

typedef struct nvml_field {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type; /* of value */
  nvml_code code;
  union {
    double real;
    unsigned number;
    unsigned long long large;
  } value;
} nvml_field;
_Static_assert(sizeof(nvml_field) == 40, "nvmlFieldValue_t");
enum { kTypeReal, kTypeNumber };

typedef struct nvml_api {
  nvml_code (*init)(void);
  const char *(*error_string)(nvml_code code);
  nvml_code (*handle_by_pci)(const char *address, nvml_device *out);
  nvml_code (*power_usage)(nvml_device device, unsigned *milliwatts);
  nvml_code (*total_energy)(nvml_device device, unsigned long long *millijoules);
  nvml_code (*field_values)(nvml_device device, int count, nvml_field *fields); /* NULL: an older library */
  nvml_code (*mig_mode)(nvml_device device, unsigned *now, unsigned *later);    /* NULL: the same */
} nvml_api;

static nvml_api api;
static char missing[160]; /* why it can't be used; "": it can */

static const char *const kLibrary = "libnvidia-ml.so.1";

static void find_functions(void *library) {
  const struct {
    const char *name;
    void *out;
    bool needed;
  } functions[] = {
      {"nvmlInit_v2", &api.init, true},
      {"nvmlErrorString", &api.error_string, true},
      {"nvmlDeviceGetHandleByPciBusId_v2", &api.handle_by_pci, true},
      {"nvmlDeviceGetPowerUsage", &api.power_usage, true},
      {"nvmlDeviceGetTotalEnergyConsumption", &api.total_energy, true},
      {"nvmlDeviceGetFieldValues", &api.field_values, false},
      {"nvmlDeviceGetMigMode", &api.mig_mode, false},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions && !missing[0]; i++)
    if (!braid_library_find(library, functions[i].name, functions[i].out, sizeof api.init) && functions[i].needed)
      snprintf(missing, sizeof missing, "%s has no %s", kLibrary, functions[i].name);
}

static const char *text_of(nvml_code code) {
  const char *text = api.error_string(code);
  return text ? text : "an unknown error";
}

/* Kept until the program ends, as the driver itself is. */
static void load_library(void) {
  char why[160];
  void *library = braid_library_open(kLibrary, why, sizeof why);
  if (!library) {
    snprintf(missing, sizeof missing, "there is no %s, which tells the power of NVIDIA's cards", kLibrary);
    return;
  }
  find_functions(library);
  nvml_code code = missing[0] ? kSuccess : api.init();
  if (code != kSuccess) snprintf(missing, sizeof missing, "nvmlInit_v2: %.100s", text_of(code));
  if (missing[0]) dlclose(library);
}

static braid_status require_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_library);
  return missing[0] ? braid_fail(BRAID_UNSUPPORTED, "%s", missing) : BRAID_OK;
}

/* --- cards ---------------------------------------------------------------------------------------------------------
 */
struct braid_nvml_card {
  nvml_device device;
  char address[48];
  pthread_mutex_t lock;    /* of what follows */
  bool read;               /* the counter was */
  unsigned long long last; /* millijoules then */
  double counted;          /* since it was opened */
};

static braid_status fail_call(const char *address, const char *call, nvml_code code) {
  braid_status status = code == kNotSupported || code == kNoPermission ? BRAID_UNSUPPORTED
                        : code == kNotFound                            ? BRAID_NOT_FOUND
                        : code == kTimeout                             ? BRAID_TIMEOUT
                        : code == kGpuIsLost                           ? BRAID_DEVICE_LOST
                                                                       : BRAID_IO;
  return braid_fail(status, "the card at %s: %s: %.100s", address, call, text_of(code));
}

/* A card's counters are of all of its parts. */
static braid_status check_whole(const braid_nvml_card *card) {
  unsigned now = 0, later = 0;
  if (!api.mig_mode || api.mig_mode(card->device, &now, &later) != kSuccess || !now) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "the card at %s is divided (MIG): NVML tells the power of all parts together",
                    card->address);
}

static braid_status find_card(braid_nvml_card *card) {
  BRAID_TRY(require_library());
  nvml_code code = api.handle_by_pci(card->address, &card->device);
  if (code != kSuccess) return fail_call(card->address, "nvmlDeviceGetHandleByPciBusId_v2", code);
  BRAID_TRY(check_whole(card));
  card->read = api.total_energy(card->device, &card->last) == kSuccess;
  return BRAID_OK;
}

braid_status braid_nvml_open(const braid_pci_address *address, braid_nvml_card **out) {
  *out = NULL;
  braid_nvml_card *card = braid_zalloc(NULL, sizeof *card);
  if (!card) return BRAID_NO_MEMORY;
  snprintf(card->address, sizeof card->address, "%08x:%02x:%02x.%x", address->domain, address->bus, address->device,
           address->function);
  braid_status status = find_card(card);
  if (status != BRAID_OK) {
    braid_free(NULL, card);
    return status;
  }
  pthread_mutex_init(&card->lock, NULL);
  *out = card;
  return BRAID_OK;
}

void braid_nvml_close(braid_nvml_card *card) {
  if (!card) return;
  pthread_mutex_destroy(&card->lock);
  braid_free(NULL, card);
}

static bool read_instant(const braid_nvml_card *card, double *watts) {
  nvml_field field = {.field = kPowerInstant};
  if (!api.field_values || api.field_values(card->device, 1, &field) != kSuccess || field.code != kSuccess ||
      field.type != kTypeNumber)
    return false;
  *watts = field.value.number * 1e-3;
  return true;
}

braid_status braid_nvml_read_power(braid_nvml_card *card, double *watts) {
  unsigned milliwatts = 0;
  if (read_instant(card, watts)) return BRAID_OK;
  nvml_code code = api.power_usage(card->device, &milliwatts);
  if (code != kSuccess) return fail_call(card->address, "nvmlDeviceGetPowerUsage", code);
  *watts = milliwatts * 1e-3;
  return BRAID_OK;
}

braid_status braid_nvml_read_energy(braid_nvml_card *card, double *microjoules) {
  unsigned long long millijoules = 0;
  pthread_mutex_lock(&card->lock);
  nvml_code code = api.total_energy(card->device, &millijoules);
  if (code == kSuccess) {
    if (card->read && millijoules > card->last) card->counted += (double)(millijoules - card->last);
    card->last = millijoules;
    card->read = true;
  }
  double counted = card->counted;
  pthread_mutex_unlock(&card->lock);
  if (code != kSuccess) return fail_call(card->address, "nvmlDeviceGetTotalEnergyConsumption", code);
  *microjoules = counted * 1e3;
  return BRAID_OK;
}
