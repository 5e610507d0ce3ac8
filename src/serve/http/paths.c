/* Which paths there are, and what may be done at each. */
#include <string.h>

#include "serve/http/call.h"

#define MODEL(path)                                                                                                    \
  {path, kRead}, {path "/infer", kWrite}, {path "/ready", kRead}, {path "/config", kRead}, {                           \
    path "/stats", kRead                                                                                               \
  }
#define MEMORY(path)                                                                                                   \
  {path "/status", kRead}, {path "/unregister", kWrite}, {path "/region/*/status", kRead},                             \
      {path "/region/*/register", kWrite}, {                                                                           \
    path "/region/*/unregister", kWrite                                                                                \
  }

static const char kRead[] = "GET, HEAD", kWrite[] = "POST";
/* Of parts between slashes; "*" is any one part. */
static const struct {
  const char *path, *methods;
} kPaths[] = {
    {"", kRead},
    {"metrics", kRead},
    {"v2", kRead},
    {"v2/health/live", kRead},
    {"v2/health/ready", kRead},
    {"v2/models/stats", kRead},
    MODEL("v2/models/*"),
    MODEL("v2/models/*/versions/*"),
    {"v2/repository/index", kWrite},
    {"v2/repository/models/*/load", kWrite},
    {"v2/repository/models/*/unload", kWrite},
    MEMORY("v2/systemsharedmemory"),
    MEMORY("v2/cudasharedmemory"),
    {"v2/braid/status", kRead},
    {"v2/braid/decisions", kRead},
    {"v2/braid/fdinfo", kRead},
};

/* The next part, behind any number of slashes; its length is 0 at the end. */
static const char *next_part(const char *at, size_t *out_length) {
  at += strspn(at, "/");
  *out_length = strcspn(at, "/");
  return at;
}

static bool path_fits(const char *pattern, const char *path) {
  for (;;) {
    size_t wanted, given;
    pattern = next_part(pattern, &wanted);
    path = next_part(path, &given);
    if (!wanted || !given) return wanted == given;
    bool any = wanted == 1 && *pattern == '*';
    if (!any && (wanted != given || strncmp(pattern, path, given) != 0)) return false;
    pattern += wanted;
    path += given;
  }
}

const char *braid_http_methods(const char *path) {
  for (size_t i = 0; i < sizeof kPaths / sizeof *kPaths; i++)
    if (path_fits(kPaths[i].path, path)) return kPaths[i].methods;
  return NULL;
}
