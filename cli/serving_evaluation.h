/* `braid evaluate serving`: what sections 6 and 7 of Zeng et al. (2021) say of remote access and of tenants, and what a
 * daemon on this machine gives (serving_measure.c). */
#ifndef BRAID_CLI_SERVING_EVALUATION_H
#define BRAID_CLI_SERVING_EVALUATION_H

#include "cli.h"

enum { CLI_SERVING_NETWORKS = 4 };

/* How a launch's tensors travel. */
typedef enum cli_serving_way {
  CLI_SERVING_SHARED, /* Unix socket, shared memory */
  CLI_SERVING_UNIX,   /* Unix socket, in the message */
  CLI_SERVING_TCP,    /* TCP over the loopback */
  CLI_SERVING_WAYS
} cli_serving_way;

typedef struct cli_serving_times {
  double p50_us, p99_us;   /* of a launch, measured; NAN: not measured */
  double set_up, launches; /* messages: before the first launch; for each launch */
  double sent, received;   /* bytes of each launch over the connection */
} cli_serving_times;

typedef struct cli_serving_network {
  const char *name;
  double local_us, local_p99_us; /* the same model in this process, measured */
  size_t tasks;                  /* of the device in a run: what forwarding each call of the device would forward */
  cli_serving_times ways[CLI_SERVING_WAYS];
} cli_serving_network;

/* A tenant that has an instance of the device for itself, while another one asks as often as it can. */
typedef struct cli_serving_neighbours {
  double alone_us, beside_us, alone_p99_us, beside_p99_us;
  int cpus;
} cli_serving_neighbours;

typedef struct cli_serving {
  cli_serving_network networks[CLI_SERVING_NETWORKS];
  size_t count;
  double empty_us[CLI_SERVING_WAYS]; /* of a message that asks for nothing and its answer, measured; UNIX and TCP */
  cli_serving_neighbours neighbours;
} cli_serving;

/* Runs a daemon in a folder of its own, which is gone afterwards, and measures. `models`: names of networks separated
 * by commas; NULL: all. NOT_FOUND lists them. */
braid_status cli_serving_measure(const char *models, cli_serving *out);
braid_status cli_serving_evaluate(const char *models, bool json, const char *html);
/* The path of braid-serve, beside this program; NOT_FOUND: it is not there. */
braid_status cli_daemon_path(char *out, size_t bytes);

#endif
