/* Drivers of OpenCL beside TensorFlow. TensorFlow's library exports the functions of the LLVM that is in it, and a
 * driver with an LLVM of its own (PoCL) would be bound to those when it is loaded later, and crash. So the drivers that
 * the OpenCL loader is going to load are loaded here first, each bound to its own libraries. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* A vendor's file has one line: the driver's library. */
static void load_vendor(const char *folder, const char *name) {
  char path[600], library[512] = "";
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) return;
  if (fgets(library, sizeof library, file)) {
    library[strcspn(library, "\r\n \t")] = '\0';
    if (library[0]) (void)dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  }
  fclose(file);
}

void fpga_load_drivers(void) {
  const char *folder = getenv("OCL_ICD_VENDORS");
  if (!folder || !*folder) folder = "/etc/OpenCL/vendors";
  DIR *entries = opendir(folder);
  if (!entries) return;
  for (const struct dirent *entry; (entry = readdir(entries));) {
    size_t length = strlen(entry->d_name);
    if (length > 4 && length < 256 && strcmp(entry->d_name + length - 4, ".icd") == 0)
      load_vendor(folder, entry->d_name);
  }
  closedir(entries);
}
