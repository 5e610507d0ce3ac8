/* GnuTLS, loaded, and what sessions share: certificates and authorities. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tls/gnutls.h"
#include "tls/tls.h"

/* --- the library ---------------------------------------------------------------------------------------------------
 */
/* The linker's name for the dynamic section of what this file is linked into; a static program has none, and loads no
 * libraries: one would bring a second C library with it. */
extern const char _DYNAMIC[] __attribute__((weak));
#pragma weak dlopen

static const char kLibrary[] = "libgnutls.so.30";

tls_functions tls;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char trouble[BRAID_TLS_WHY]; /* "": it is loaded */

static void load(void) {
  static const struct {
    const char *name;
    size_t offset;
  } kFunctions[] = {
#define FUNCTION(name) {"gnutls_" #name, offsetof(tls_functions, name)},
      TLS_FUNCTIONS(FUNCTION)
#undef FUNCTION
  };
  if (!_DYNAMIC) {
    snprintf(trouble, sizeof trouble, "TLS is GnuTLS's, and a program that is linked statically loads no libraries");
    return;
  }
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    snprintf(trouble, sizeof trouble, "TLS is GnuTLS's, which cannot be loaded: %.400s", error ? error : kLibrary);
    return;
  }
  for (size_t i = 0; i < sizeof kFunctions / sizeof *kFunctions; i++) {
    void *symbol = dlsym(library, kFunctions[i].name);
    if (!symbol) snprintf(trouble, sizeof trouble, "%s has no %s", kLibrary, kFunctions[i].name);
    memcpy((char *)&tls + kFunctions[i].offset, &symbol, sizeof symbol);
  }
}

/* --- contexts ------------------------------------------------------------------------------------------------------
 */
/* Whether a file is there at all, which GnuTLS does not tell apart from one that is malformed. */
static bool can_read(const char *what, const char *path, char *why) {
  if (access(path, R_OK) == 0) return true;
  snprintf(why, BRAID_TLS_WHY, "%s %.300s: %s", what, path, strerror(errno));
  return false;
}

static bool set_authority(braid_tls_context *context, const char *path, char *why) {
  if (!path) {
    if (context->server || tls.certificate_set_x509_system_trust(context->credentials) > 0) return true;
    snprintf(why, BRAID_TLS_WHY, "the system has no authorities (Debian: ca-certificates): one has to be named");
    return false;
  }
  if (!can_read("authority", path, why)) return false;
  int count = tls.certificate_set_x509_trust_file(context->credentials, path, GNUTLS_X509_FMT_PEM);
  context->asks = context->server;
  if (count > 0) return true;
  snprintf(why, BRAID_TLS_WHY, "authority %.300s: %s", path,
           count < 0 ? tls.strerror(count) : "a PEM file with certificates is expected");
  return false;
}

static bool set_pair(braid_tls_context *context, const braid_tls_files *files, char *why) {
  if (!files->certificate != !files->key || (context->server && !files->key)) {
    snprintf(why, BRAID_TLS_WHY, "TLS takes both certificate and key");
    return false;
  }
  if (!files->key) return true;
  if (!can_read("certificate", files->certificate, why) || !can_read("key", files->key, why)) return false;
  int code = tls.certificate_set_x509_key_file2(context->credentials, files->certificate, files->key,
                                                GNUTLS_X509_FMT_PEM, NULL, 0);
  if (code >= 0) return true;
  snprintf(why, BRAID_TLS_WHY, "certificate %.180s, key %.180s: %s", files->certificate, files->key,
           tls.strerror(code));
  return false;
}

bool braid_tls_context_create(bool server, const braid_tls_files *files, braid_tls_context **out, char *why) {
  *out = NULL;
  pthread_once(&once, load);
  if (trouble[0]) {
    memcpy(why, trouble, sizeof trouble);
    return false;
  }
  braid_tls_context *context = calloc(1, sizeof *context);
  if (!context || tls.certificate_allocate_credentials(&context->credentials) < 0) {
    free(context);
    snprintf(why, BRAID_TLS_WHY, "no memory for TLS");
    return false;
  }
  context->server = server;
  if (set_pair(context, files, why) && set_authority(context, files->authority, why)) {
    *out = context;
    return true;
  }
  braid_tls_context_destroy(context);
  return false;
}

void braid_tls_context_destroy(braid_tls_context *context) {
  if (!context) return;
  tls.certificate_free_credentials(context->credentials);
  free(context);
}
