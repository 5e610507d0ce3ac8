/* The entry points of the library, and the factory by which ONNX Runtime lists devices and makes providers. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "braid/allocator.h"
#include "braid/version.h"
#include "log.h"
#include "provider.h"

BRAID_API OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                       void **factories, size_t capacity, size_t *count);
BRAID_API OrtStatus *ReleaseEpFactory(void *factory);

/* A factory stays in memory when it is released: sessions that are still open give their provider back to it. The next
 * registration takes it again. */
typedef struct factory {
  braid_ort_factory_table table; /* first: the framework knows the factory by it */
  const OrtLogger *logger;       /* of the process */
  struct factory *next;
  bool taken;
} factory;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static factory *g_factories; /* under g_lock */

static const char *factory_name(const void *self) {
  (void)self;
  return BRAID_ORT_NAME;
}

static const char *factory_vendor(const void *self) {
  (void)self;
  return "Braid";
}

static uint32_t factory_vendor_id(const void *self) {
  (void)self;
  return 0; /* no PCI vendor */
}

static const char *factory_version(const void *self) {
  (void)self;
  return BRAID_VERSION;
}

/* The provider is listed at the CPU, which every machine has; the option `device` says where it runs. */
static OrtStatus *factory_devices(void *self, const OrtHardwareDevice *const *hardware, size_t count,
                                  OrtEpDevice **devices, size_t capacity, size_t *written) {
  *written = 0;
  for (size_t i = 0; i < count && *written < capacity && *written == 0; i++) {
    if (braid_ort.HardwareDevice_Type(hardware[i]) != BRAID_ORT_HARDWARE_CPU) continue;
    OrtStatus *status = braid_ort.CreateEpDevice(self, hardware[i], NULL, NULL, &devices[0]);
    if (status) return status;
    *written = 1;
  }
  return NULL;
}

static OrtStatus *factory_create_ep(void *self, const OrtHardwareDevice *const *hardware,
                                    const OrtKeyValuePairs *const *metadata, size_t count,
                                    const OrtSessionOptions *session, const OrtLogger *logger, void **ep) {
  braid_ort_options options;
  (void)hardware;
  (void)metadata;
  (void)count;
  *ep = NULL;
  braid_status status = braid_ort_options_read(session, NULL, &options);
  if (status == BRAID_OK) status = braid_ort_provider_create(&options, ((factory *)self)->logger, logger, ep);
  return braid_ort_status(status);
}

static void factory_release_ep(void *self, void *ep) {
  (void)self;
  braid_ort_provider_destroy(ep);
}

static OrtStatus *factory_data_transfer(void *self, void **transfer) {
  (void)self;
  *transfer = NULL; /* inputs and outputs are in host memory */
  return NULL;
}

static bool factory_is_stream_aware(const void *self) {
  (void)self;
  return false;
}

static factory *factory_take(const OrtLogger *logger) {
  pthread_mutex_lock(&g_lock);
  factory *self = g_factories;
  while (self && self->taken) self = self->next;
  if (!self) {
    self = braid_zalloc(NULL, sizeof *self);
    if (self) {
      self->next = g_factories;
      g_factories = self;
    }
  }
  if (self) {
    self->taken = true;
    self->logger = logger;
    self->table = (braid_ort_factory_table){
        .version = braid_ort.version,
        .GetName = factory_name,
        .GetVendor = factory_vendor,
        .GetSupportedDevices = factory_devices,
        .CreateEp = factory_create_ep,
        .ReleaseEp = factory_release_ep,
        .GetVendorId = factory_vendor_id,
        .GetVersion = factory_version,
        .CreateDataTransfer = factory_data_transfer,
        .IsStreamAware = factory_is_stream_aware,
    };
  }
  pthread_mutex_unlock(&g_lock);
  return self;
}

/* ONNX Runtime loads this library, and with it libbraid, for itself alone. Backends in shared objects look for the
 * library's functions among those that everybody sees: libbraid is made one of them. */
static void library_publish(void) {
  Dl_info info;
  union {
    const char *(*function)(void);
    void *address;
  } braid = {.function = braid_error_detail};
  if (dladdr(braid.address, &info) && info.dli_fname)
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger, void **factories,
                             size_t capacity, size_t *count) {
  bool too_old = false;
  (void)name;
  *count = 0;
  const char *version = braid_ort_connect(base, &too_old);
  if (too_old) {
    /* CreateStatus has been the first function of the table since its first version. */
    const unsigned char *oldest = ((const braid_ort_base *)base)->GetApi(1);
    char text[128];
    snprintf(text, sizeof text, "Braid: ONNX Runtime %s is too old, 1.%d or later is needed", version,
             BRAID_ORT_OLDEST);
    memcpy(&braid_ort.CreateStatus, oldest, sizeof(void *));
    return braid_ort.CreateStatus(BRAID_ORT_NOT_IMPLEMENTED, text);
  }
  if (capacity == 0) return braid_ort.CreateStatus(BRAID_ORT_INVALID_ARGUMENT, "Braid: no room for a factory");
  library_publish();
  factory *self = factory_take(logger);
  if (!self) return braid_ort.CreateStatus(BRAID_ORT_FAIL, "Braid: out of memory");
  factories[0] = self;
  *count = 1;
  return NULL;
}

OrtStatus *ReleaseEpFactory(void *self) {
  pthread_mutex_lock(&g_lock);
  ((factory *)self)->taken = false;
  pthread_mutex_unlock(&g_lock);
  return NULL;
}
