/* For tests: authorities, and certificates that are good and that are not, in the test's folder. */
#ifndef BRAID_TLS_TLS_CHECK_H
#define BRAID_TLS_TLS_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "folder.h"
#include "tls/tls.h"

/* A path in the folder; up to eight at a time. */
static inline const char *tls_file(const char *name) {
  static _Thread_local char paths[8][96];
  static _Thread_local unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* ca.pem, and of it NAME.pem with NAME.key: server (localhost, 127.0.0.1, ::1), elsewhere (of another host), expired,
 * client, misused (a client's, that says it is no server's); other-ca.pem, with stranger.pem of it. False:
 * there is no openssl, or no GnuTLS. */
static inline bool tls_make_files(void) {
  static const char kScript[] =
      "cd %s && exec 2>/dev/null && make() { "
      "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.csr -subj /CN=$1 && "
      "printf '%%s\\n' \"$4\" >$1.ext && "
      "openssl x509 -req -in $1.csr -CA $2.pem -CAkey $2.key -CAcreateserial -extfile $1.ext -days $3 -out $1.pem; }\n"
      "authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem "
      "-subj /CN=$1 -days 2; }\n"
      "here=subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n"
      "set -e\n"
      "authority ca; authority other-ca\n"
      "make server ca 2 \"$here\"; make elsewhere ca 2 subjectAltName=DNS:braid.test; make expired ca -1 \"$here\"\n"
      "make misused ca 2 \"$here\n"
      "extendedKeyUsage=clientAuth\"; make client ca 2 extendedKeyUsage=clientAuth\n"
      "make stranger other-ca 2 \"$here\"\n";
  char command[sizeof kScript + 64];
  snprintf(command, sizeof command, kScript, folder);
  if (system(command) != 0) return false;
  char why[BRAID_TLS_WHY];
  braid_tls_context *context;
  bool there = braid_tls_context_create(false, &(braid_tls_files){.authority = tls_file("ca.pem")}, &context, why);
  braid_tls_context_destroy(context);
  return there;
}

#endif
