/* Loading of shared objects with backends; they are closed with their registry. */
#ifndef BRAID_DEVICE_PLUGIN_H
#define BRAID_DEVICE_PLUGIN_H

#include "braid/device.h"

/* Opens the file and gets the backend's table from its entry point; the table is not checked. */
BRAID_MUST_CHECK braid_status braid_plugin_open(const char *path, void **handle, const braid_backend **backend);
void braid_plugin_close(void *handle);

#endif
