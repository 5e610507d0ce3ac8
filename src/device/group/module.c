/* Where the module with a transport is: beside the program or the library that this code is in, in a build and where
 * both are installed. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "braid/group.h"

static const char kModule[] = "libbraid_mpi.so";
enum { kPathBytes = 4096 };

/* The folder of the object that this function is in; "" if the system does not say. */
static void own_folder(char out[kPathBytes]) {
  union {
    braid_status (*call)(const braid_allocator *, const char *, braid_group **);
    void *object;
  } here = {.call = braid_group_load};
  Dl_info info;
  ssize_t length = -1;
  out[0] = '\0';
  if (dladdr(here.object, &info) && info.dli_fname && strchr(info.dli_fname, '/'))
    snprintf(out, kPathBytes, "%s", info.dli_fname);
  else if ((length = readlink("/proc/self/exe", out, kPathBytes - 1)) >= 0) /* the program, found by PATH */
    out[length] = '\0';
  char *slash = strrchr(out, '/');
  if (slash)
    *slash = '\0';
  else
    out[0] = '\0';
}

/* *found: there is such a file; it is opened then, or why says why not. */
static void *try_path(const char *path, bool *found, char *why, size_t why_bytes) {
  *found = access(path, R_OK) == 0;
  return *found ? braid_library_open(path, why, why_bytes) : NULL;
}

static void *find_module(const char *path, bool *found, char *where, size_t where_bytes, char *why, size_t why_bytes) {
  static const char *const kFolders[] = {"", "/../lib"};
  char folder[kPathBytes], full[kPathBytes + 64];
  if (path) {
    snprintf(where, where_bytes, "%.600s", path);
    return try_path(path, found, why, why_bytes);
  }
  own_folder(folder);
  snprintf(where, where_bytes, "%s, which was looked for beside %.600s and in ../lib", kModule, folder);
  for (size_t i = 0; folder[0] && i < sizeof kFolders / sizeof *kFolders; i++) {
    snprintf(full, sizeof full, "%s%s/%s", folder, kFolders[i], kModule);
    void *library = try_path(full, found, why, why_bytes);
    if (*found) return library;
  }
  void *library = braid_library_open(kModule, why, why_bytes);
  *found = library != NULL;
  return library;
}

static braid_status open_module(const char *path, void **library, const braid_group_ops **ops) {
  char where[800], why[400] = "";
  bool found = false;
  const braid_group_ops *(*entry)(uint32_t abi);
  if (braid_library_static())
    return braid_fail(BRAID_UNSUPPORTED, "a program that is linked statically cannot load %s", kModule);
  *library = find_module(path, &found, where, sizeof where, why, sizeof why);
  if (!*library && !found) return braid_fail(BRAID_NOT_FOUND, "there is no %s", where);
  if (!*library) return braid_fail(BRAID_UNSUPPORTED, "%.300s cannot be loaded: %s", where, why);
  if (!braid_library_find(*library, "braid_group_module", &entry, sizeof entry))
    return braid_fail(BRAID_INVALID_FILE, "%.300s exports no braid_group_module", where);
  *ops = entry(BRAID_GROUP_ABI);
  if (*ops) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "%.300s has no transport for version %d of groups", where, BRAID_GROUP_ABI);
}

/* The library stays loaded: what MPI leaves behind runs when the program ends. */
braid_status braid_group_load(const braid_allocator *allocator, const char *path, braid_group **out) {
  void *library = NULL;
  const braid_group_ops *ops = NULL;
  *out = NULL;
  braid_status status = open_module(path, &library, &ops);
  if (status == BRAID_OK) status = braid_group_join(allocator, ops, out);
  if (status != BRAID_OK && library && !ops) (void)dlclose(library);
  return status;
}
