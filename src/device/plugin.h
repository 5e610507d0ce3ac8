/* Shared objects that hold backends, kept open as long as their registry. */
#ifndef BRAID_DEVICE_PLUGIN_H
#define BRAID_DEVICE_PLUGIN_H

#include "braid/device.h"

/* Opens the file and asks its entry point for the backend's table, which is not checked. */
BRAID_MUST_CHECK braid_status braid_plugin_open(const char *path, void **handle, const braid_backend **backend);
void braid_plugin_close(void *handle);

#endif
