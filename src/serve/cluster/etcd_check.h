/* For tests: etcd processes of our own, on free ports of this machine, that may be killed and come back. */
#ifndef BRAID_SERVE_CLUSTER_ETCD_CHECK_H
#define BRAID_SERVE_CLUSTER_ETCD_CHECK_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "skip.h"

enum { ETCD_MEMBERS = 3 };

typedef struct etcd_member {
  pid_t pid; /* 0: it does not run */
  int port, peer_port;
} etcd_member;

typedef struct etcd_group {
  etcd_member members[ETCD_MEMBERS];
  size_t count;
  bool tls;            /* with cert.pem and key.pem of the folder, for itself and for clients */
  char endpoints[128]; /* "127.0.0.1:PORT,..." */
} etcd_group;

static inline void etcd_pause(int ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static inline int etcd_free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(file, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(getsockname(file, (struct sockaddr *)&at, &length), 0);
  close(file);
  return ntohs(at.sin_port);
}

static inline bool etcd_is_installed(void) {
  char path[4096], file[4200];
  snprintf(path, sizeof path, "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin");
  for (char *part = strtok(path, ":"); part; part = strtok(NULL, ":")) {
    snprintf(file, sizeof file, "%s/etcd", part);
    if (access(file, X_OK) == 0) return true;
  }
  return false;
}

static inline bool etcd_listens(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool listens = connect(file, (struct sockaddr *)&to, sizeof to) == 0;
  close(file);
  return listens;
}

static inline void etcd_begin(etcd_group *group, size_t index) {
  etcd_member *member = &group->members[index];
  char name[16], data[160], client[64], peer[64], cluster[256] = "";
  snprintf(name, sizeof name, "m%zu", index);
  snprintf(data, sizeof data, "%s/etcd-%d", folder, member->port);
  char certificate[64], key[64];
  snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
  snprintf(key, sizeof key, "%s/key.pem", folder);
  snprintf(client, sizeof client, "%s://127.0.0.1:%d", group->tls ? "https" : "http", member->port);
  snprintf(peer, sizeof peer, "http://127.0.0.1:%d", member->peer_port);
  for (size_t i = 0; i < group->count; i++) {
    size_t used = strlen(cluster);
    snprintf(cluster + used, sizeof cluster - used, "%sm%zu=http://127.0.0.1:%d", i ? "," : "", i,
             group->members[i].peer_port);
  }
  member->pid = fork();
  if (member->pid == 0) {
    int null = open("/dev/null", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, 1);
    dup2(null, 2);
    execlp("etcd", "etcd", "--name", name, "--data-dir", data, "--listen-client-urls", client,
           "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
           "--initial-cluster", cluster, "--unsafe-no-fsync", group->tls ? "--client-cert-auth" : (char *)NULL,
           "--trusted-ca-file", certificate, "--cert-file", certificate, "--key-file", key, (char *)NULL);
    _exit(127);
  }
}

static inline void etcd_kill(etcd_group *group, size_t index) {
  etcd_member *member = &group->members[index];
  if (!member->pid) return;
  kill(member->pid, SIGKILL);
  waitpid(member->pid, NULL, 0);
  member->pid = 0;
}

static inline void etcd_stop(etcd_group *group) {
  for (size_t i = 0; i < group->count; i++) etcd_kill(group, i);
}

/* Skips the test where there is no etcd. */
static inline void etcd_start_as(etcd_group *group, size_t count, bool tls) {
  if (!etcd_is_installed()) skip_test("etcd", "there is no etcd here (etcd-server)");
  *group = (etcd_group){.count = count, .tls = tls};
  for (size_t i = 0; i < count; i++) {
    group->members[i].port = etcd_free_port();
    group->members[i].peer_port = etcd_free_port();
    size_t used = strlen(group->endpoints);
    snprintf(group->endpoints + used, sizeof group->endpoints - used, "%s127.0.0.1:%d", i ? "," : "",
             group->members[i].port);
  }
  for (size_t i = 0; i < count; i++) etcd_begin(group, i);
  for (size_t i = 0; i < count; i++)
    for (int n = 0; !etcd_listens(group->members[i].port); n++) {
      if (n == 1000) fail_msg("etcd does not listen within 10 s");
      etcd_pause(10);
    }
}

static inline void etcd_start(etcd_group *group, size_t count) {
  etcd_start_as(group, count, false);
}

#endif
