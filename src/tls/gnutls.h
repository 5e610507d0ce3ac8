/* GnuTLS, as far as this room needs it; private to this folder. */
#ifndef BRAID_TLS_GNUTLS_H
#define BRAID_TLS_GNUTLS_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>

/* X(function): each is gnutls_FUNCTION. */
#define TLS_FUNCTIONS(X)                                                                                               \
  X(alert_get)                                                                                                         \
  X(alert_get_name)                                                                                                    \
  X(alert_send_appropriate)                                                                                            \
  X(alpn_set_protocols)                                                                                                \
  X(bye)                                                                                                               \
  X(certificate_allocate_credentials)                                                                                  \
  X(certificate_free_credentials)                                                                                      \
  X(certificate_server_set_request)                                                                                    \
  X(certificate_set_x509_key_file2)                                                                                    \
  X(certificate_set_x509_system_trust)                                                                                 \
  X(certificate_set_x509_trust_file)                                                                                   \
  X(credentials_set)                                                                                                   \
  X(deinit)                                                                                                            \
  X(error_is_fatal)                                                                                                    \
  X(handshake)                                                                                                         \
  X(init)                                                                                                              \
  X(priority_set_direct)                                                                                               \
  X(record_check_pending)                                                                                              \
  X(record_get_direction)                                                                                              \
  X(record_recv)                                                                                                       \
  X(record_send)                                                                                                       \
  X(server_name_set)                                                                                                   \
  X(session_get_verify_cert_status)                                                                                    \
  X(session_set_verify_cert2)                                                                                          \
  X(strerror)                                                                                                          \
  X(transport_set_pull_function)                                                                                       \
  X(transport_set_pull_timeout_function)                                                                               \
  X(transport_set_push_function)                                                                                       \
  X(transport_set_ptr)

typedef struct tls_functions {
#define TLS_FUNCTION(name) __typeof__(&gnutls_##name) name;
  TLS_FUNCTIONS(TLS_FUNCTION)
#undef TLS_FUNCTION
} tls_functions;

/* Valid once a context has been made. */
extern tls_functions tls;

struct braid_tls_context {
  gnutls_certificate_credentials_t credentials;
  bool server, asks; /* asks: clients show a certificate */
};

#endif
