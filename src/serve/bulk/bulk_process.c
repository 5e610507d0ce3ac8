#include "serve/bulk/bulk_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/try.h"
#include "braid/allocator.h"

extern char **environ;

braid_status braid_bulk_find(char path[BRAID_BULK_PATH]) {
  static const char kName[] = "braid-ucx";
  const char *given = getenv("BRAID_UCX");
  ssize_t length = given ? snprintf(path, BRAID_BULK_PATH, "%s", given)
                         : readlink("/proc/self/exe", path, BRAID_BULK_PATH - sizeof kName);
  if (length <= 0 || length >= BRAID_BULK_PATH) return braid_fail(BRAID_UNSUPPORTED, "no path to %s", kName);
  if (!given) {
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, kName);
  }
  if (access(path, X_OK) == 0) return BRAID_OK;
  return braid_fail(BRAID_UNSUPPORTED, "%.300s is not there: Braid was built without UCX (libucx-dev)", path);
}

/* --- start ---------------------------------------------------------------------------------------------------------
 */
/* UCX reads its settings when it is loaded. What the administrator has set stands, but for these: an error is the end
 * of its program, of which the daemon hears, and nothing that waits for a debugger. */
static const char *const kSettings[] = {"UCX_ERROR_SIGNALS=", "UCX_HANDLE_ERRORS=none", "UCX_MEM_MALLOC_HOOKS=n",
                                        "UCX_WARN_UNUSED_ENV_VARS=n"};
/* And what holds where the administrator says nothing: UCX's 8 KiB are a system call each. */
static const char *const kDefaults[] = {"UCX_LOG_LEVEL=fatal", "UCX_LOG_FILE=stderr", "UCX_TCP_TX_SEG_SIZE=64k",
                                        "UCX_TCP_RX_SEG_SIZE=64k"};
/* Nothing else of ours is its business: there may be tokens and keys among it, and whoever reaches its ports may get
 * hold of it. Names that begin so pass; the last ones are of sanitizers, for builds with them. */
static const char *const kPassed[] = {
    "UCX_",    "PATH=",         "LD_LIBRARY_PATH=", "HOME=",         "LANG=",         "LC_",
    "TMPDIR=", "ASAN_OPTIONS=", "LSAN_OPTIONS=",    "TSAN_OPTIONS=", "UBSAN_OPTIONS="};
enum {
  SETTINGS = sizeof kSettings / sizeof *kSettings,
  DEFAULTS = sizeof kDefaults / sizeof *kDefaults,
  PASSED = sizeof kPassed / sizeof *kPassed
};

static bool is_set_by(const char *const *settings, size_t count, const char *entry) {
  for (size_t i = 0; i < count; i++)
    if (strncmp(settings[i], entry, strcspn(settings[i], "=") + 1) == 0) return true;
  return false;
}

static bool is_passed(const char *entry) {
  for (size_t i = 0; i < PASSED; i++)
    if (strncmp(entry, kPassed[i], strlen(kPassed[i])) == 0) return true;
  return false;
}

/* Ours for the program: what it is to know, with UCX's settings; NULL: no memory. */
static const char **make_environment(void) {
  size_t count = 0, used = 0;
  while (environ[count]) count++;
  const char **made = braid_zalloc_array(NULL, count + SETTINGS + DEFAULTS + 1, sizeof *made);
  if (!made) return NULL;
  for (size_t i = 0; i < count; i++)
    if (is_passed(environ[i]) && !is_set_by(kSettings, SETTINGS, environ[i])) made[used++] = environ[i];
  for (size_t i = 0, given = used; i < DEFAULTS; i++)
    if (!is_set_by(made, given, kDefaults[i])) made[used++] = kDefaults[i];
  memcpy(made + used, kSettings, sizeof kSettings);
  return made;
}

/* What the program has at its start: no input, messages of its libraries in our log, and the two descriptors. They are
 * not where they are to come, so that neither is overwritten on the way. */
static int set_files(posix_spawn_file_actions_t *files, int line, int data) {
  int code = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
  if (!code) code = posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
  if (!code) code = posix_spawn_file_actions_adddup2(files, line, BRAID_BULK_LINE);
  if (!code) code = posix_spawn_file_actions_adddup2(files, data, BRAID_BULK_DATA);
  return code;
}

static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int code = posix_spawnattr_setsigmask(attributes, &none);
  if (!code) code = posix_spawnattr_setsigdefault(attributes, &all);
  return code ? code : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* An errno; 0: it runs. */
static int spawn(const char *program, int line, int data, pid_t *out) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  char *arguments[] = {"braid-ucx", NULL};
  const char **environment = make_environment();
  if (!environment) return ENOMEM;
  int code = posix_spawn_file_actions_init(&files);
  if (!code) {
    code = posix_spawnattr_init(&attributes);
    if (!code) {
      code = set_files(&files, line, data);
      if (!code) code = set_signals(&attributes);
      if (!code) code = posix_spawn(out, program, &files, &attributes, arguments, (char **)environment);
      posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
  }
  braid_free(NULL, environment);
  return code;
}

braid_status bulk_process_start(const char *program, int data, bulk_process *out) {
  enum { AWAY = 16 }; /* beyond the numbers that the program's descriptors get */
  int ends[2] = {-1, -1}, code = 0;
  *out = (bulk_process){.line = -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return braid_fail(BRAID_IO, "no sockets for braid-ucx: %s", strerror(errno));
  int line = fcntl(ends[1], F_DUPFD_CLOEXEC, AWAY), away = fcntl(data, F_DUPFD_CLOEXEC, AWAY);
  code = line < 0 || away < 0 ? errno : spawn(program, line, away, &out->pid);
  if (line >= 0) close(line);
  if (away >= 0) close(away);
  close(ends[1]);
  out->line = ends[0];
  if (!code) return BRAID_OK;
  out->pid = 0;
  bulk_process_end(out, 0);
  return braid_fail(BRAID_IO, "%.300s cannot be started: %s", program, strerror(code));
}

/* --- end -----------------------------------------------------------------------------------------------------------
 */
void bulk_process_end(bulk_process *process, int patience_ms) {
  if (process->line >= 0) close(process->line);
  process->line = -1;
  if (!process->pid) return;
  int64_t until = braid_now_ns() + patience_ms * INT64_C(1000000);
  pid_t ended;
  while ((ended = waitpid(process->pid, NULL, WNOHANG)) == 0 && braid_now_ns() < until) (void)poll(NULL, 0, 2);
  if (ended == 0) {
    (void)kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  process->pid = 0;
}

/* --- the line ------------------------------------------------------------------------------------------------------
 */
bool bulk_process_tell(const bulk_process *process, const braid_bulk_message *message) {
  return send(process->line, message, braid_bulk_message_bytes(message->text_bytes), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static bool makes_sense(const braid_bulk_message *message, size_t bytes) {
  return bytes >= braid_bulk_message_bytes(0) && message->version == BRAID_BULK_VERSION &&
         message->kind >= BRAID_BULK_READY && message->kind <= BRAID_BULK_FAILED &&
         message->text_bytes <= sizeof message->text && bytes == braid_bulk_message_bytes(message->text_bytes);
}

int bulk_process_hear(const bulk_process *process, int timeout_ms, braid_bulk_message *out) {
  struct pollfd file = {.fd = process->line, .events = POLLIN};
  int ready = poll(&file, 1, timeout_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return 0;
  ssize_t count = ready < 0 ? -1 : recv(process->line, out, sizeof *out, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return count > 0 && makes_sense(out, (size_t)count) ? 1 : -1;
}

void bulk_sentence(const braid_bulk_message *message, char detail[BRAID_BULK_DETAIL]) {
  size_t bytes = message->text_bytes < BRAID_BULK_DETAIL ? message->text_bytes : BRAID_BULK_DETAIL - 1;
  for (size_t i = 0; i < bytes; i++)
    detail[i] = message->text[i] >= ' ' && message->text[i] <= '~' ? (char)message->text[i] : '?';
  detail[bytes] = '\0';
}
