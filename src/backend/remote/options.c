#include "backend/remote/options.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/try.h"
#include "braid/remote.h"

static const double kSilence = 10, kLeastSilence = 3 /* signs of life come each second */, kMostSilence = 3600;

/* For devices that say nothing else; set before any is opened. */
static char default_token[BRAID_WIRE_TOKEN];

braid_status braid_remote_set_token(const char *token) {
  if (token && strlen(token) >= sizeof default_token)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a token of at most %zu bytes is expected", sizeof default_token - 1);
  snprintf(default_token, sizeof default_token, "%s", token ? token : "");
  return BRAID_OK;
}

/* The first line of the file. */
static braid_status read_token(const char *path, char *out) {
  FILE *file = fopen(path, "re");
  if (!file) return braid_fail(BRAID_IO, "token-file %.200s: there is no such file, or it cannot be read", path);
  bool read = fgets(out, BRAID_WIRE_TOKEN, file) != NULL;
  fclose(file);
  out[read ? strcspn(out, "\r\n") : 0] = '\0';
  if (out[0] && strlen(out) < BRAID_WIRE_TOKEN - 1) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "token-file %.200s: a line of 1 to %d bytes is expected", path,
                    BRAID_WIRE_TOKEN - 2);
}

/* Files of TLS. False: it is none. */
static bool read_path(const char *text, remote_options *out) {
  static const char *const kNames[] = {"authority=", "certificate=", "key="};
  const char **const paths[] = {&out->authority, &out->certificate, &out->key};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) {
    size_t length = strlen(kNames[i]);
    if (strncmp(text, kNames[i], length) != 0 || !text[length]) continue;
    snprintf(out->paths[i], sizeof out->paths[i], "%s", text + length);
    *paths[i] = out->paths[i];
    return true;
  }
  return false;
}

static braid_status read_option(const char *text, remote_options *out) {
  double seconds;
  if (read_path(text, out)) return BRAID_OK;
  if (strncmp(text, "token-file=", 11) == 0) return read_token(text + 11, out->token);
  if (strncmp(text, "timeout=", 8) != 0)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "option \"%.100s\": expected ADDRESS/NAME, timeout=SECONDS, token-file=PATH, authority=PATH, "
                      "certificate=PATH or key=PATH",
                      text);
  if (!braid_parse_f64(text + 8, &seconds) || seconds < kLeastSilence || seconds > kMostSilence)
    return braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.100s\": expected %.0f to %.0f seconds", text, kLeastSilence,
                      kMostSilence);
  out->silence_ns = (int64_t)(seconds * 1e9);
  return BRAID_OK;
}

/* "A|B/NAME" */
static braid_status read_place(const char *text, remote_options *out) {
  const char *slash = strrchr(text, '/');
  if (!slash || slash == text)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "\"%.100s\": expected HOST:PORT/NAME or unix:PATH/NAME, NAME as the daemon calls the device",
                      text);
  if (strlen(slash + 1) >= sizeof out->device)
    return braid_fail(BRAID_INVALID_ARGUMENT, "a device's name of up to %d bytes is expected", BRAID_WIRE_NAME - 1);
  strcpy(out->device, slash + 1);
  while (text < slash) {
    size_t length = strcspn(text, "|");
    if (length > (size_t)(slash - text)) length = (size_t)(slash - text);
    if (!length || length >= REMOTE_HOST || out->host_count == REMOTE_HOSTS)
      return braid_fail(BRAID_INVALID_ARGUMENT, "1 to %d hosts of up to %d bytes are expected, with | between them",
                        REMOTE_HOSTS, REMOTE_HOST - 1);
    memcpy(out->hosts[out->host_count], text, length);
    out->hosts[out->host_count++][length] = '\0';
    text += length + (text[length] == '|');
  }
  return BRAID_OK;
}

braid_status remote_options_read(const char *text, remote_options *out) {
  *out = (remote_options){.silence_ns = (int64_t)(kSilence * 1e9)};
  memcpy(out->token, default_token, sizeof out->token);
  while (text && *text) {
    char part[1024];
    size_t length = strcspn(text, ",");
    if (length >= sizeof part) return braid_fail(BRAID_INVALID_ARGUMENT, "option \"%.60s...\" is too long", text);
    memcpy(part, text, length);
    part[length] = '\0';
    const char *equals = strchr(part, '='), *slash = strchr(part, '/');
    bool place = !out->host_count && slash && (!equals || slash < equals);
    BRAID_TRY(place ? read_place(part, out) : read_option(part, out));
    text += length + (text[length] == ',');
  }
  for (size_t i = 0; i < out->host_count; i++)
    if ((out->authority || out->certificate || out->key) && strncmp(out->hosts[i], "tls:", 4) != 0)
      return braid_fail(BRAID_INVALID_ARGUMENT,
                        "authority, certificate and key go with hosts tls:HOST:PORT, and \"%.100s\" is none",
                        out->hosts[i]);
  if (out->host_count) return BRAID_OK;
  return braid_fail(
      BRAID_INVALID_ARGUMENT,
      "which daemon? remote:HOST:PORT/NAME, remote:tls:HOST:PORT/NAME or remote:unix:PATH/NAME is expected");
}
