#include "launch/includes.h"

#include <string.h>

#include "base/file.h"

enum { kFiles = 256, kFolders = 32, kOptionBytes = 8192, kLineBytes = 4096 };
static const size_t kMostBytes = (size_t)16 << 20;

typedef struct collection {
  char *folders[kFolders];        /* searched for every include, after the including file's own */
  size_t folder_count, own_count; /* the first are the text's own */
  char *files[kFiles];            /* collected so far; those from `next` on are not read yet */
  size_t file_count, next;
  braid_text *out;
  bool known; /* nothing escaped so far */
} collection;

/* --- where is looked -----------------------------------------------------------------------------------------------
 */
static void add_folder(collection *c, const char *path, size_t bytes) {
  char *copy = c->folder_count < kFolders ? braid_zalloc(NULL, bytes + 1) : NULL;
  if (copy) {
    memcpy(copy, path, bytes);
    c->folders[c->folder_count++] = copy;
  } else {
    c->known = false;
  }
}

/* The next option, without its quotes; false: there is none. */
static bool next_option(const char **at, char *option, size_t room) {
  size_t length = 0;
  bool quoted = false;
  while (**at == ' ' || **at == '\t') ++*at;
  if (!**at) return false;
  for (; **at && (quoted || (**at != ' ' && **at != '\t')); ++*at) {
    if (**at == '"')
      quoted = !quoted;
    else if (length + 1 < room)
      option[length++] = **at;
  }
  option[length] = '\0';
  return true;
}

static void read_options(collection *c, const char *options) {
  char option[kOptionBytes];
  while (next_option(&options, option, sizeof option)) {
    if (strncmp(option, "-i", 2) == 0) c->known = false; /* -include, -isystem ... of some compilers */
    if (strncmp(option, "-I", 2) != 0) continue;
    if (option[2])
      add_folder(c, option + 2, strlen(option + 2));
    else if (next_option(&options, option, sizeof option))
      add_folder(c, option, strlen(option));
  }
}

/* --- files ---------------------------------------------------------------------------------------------------------
 */
/* Remembers folder/name if it is a file, once. */
static bool add_file(collection *c, const char *folder, size_t folder_bytes, const char *name, size_t name_bytes) {
  braid_text path;
  braid_file_view file;
  braid_text_init(&path, NULL);
  if (name[0] != '/' && folder_bytes) {
    braid_text_add_bytes(&path, folder, folder_bytes);
    braid_text_add(&path, "/");
  }
  braid_text_add_bytes(&path, name, name_bytes);
  bool there = !path.failed && braid_file_open(NULL, path.data, kMostBytes, &file) == BRAID_OK;
  if (there) braid_file_close(&file);
  size_t i = 0;
  while (there && i < c->file_count && strcmp(c->files[i], path.data) != 0) i++;
  if (there && i == c->file_count) {
    char *copy = i < kFiles ? braid_strdup(NULL, path.data) : NULL;
    if (copy)
      c->files[c->file_count++] = copy;
    else
      c->known = false;
  }
  braid_text_deinit(&path);
  return there;
}

static void add_include(collection *c, const char *own, size_t own_bytes, const char *name, size_t bytes) {
  bool there = add_file(c, own, own_bytes, name, bytes);
  for (size_t i = 0; i < c->folder_count && name[0] != '/'; i++)
    there |= add_file(c, c->folders[i], strlen(c->folders[i]), name, bytes);
  c->known &= there;
}

/* --- directives ----------------------------------------------------------------------------------------------------
 */
static const char *skip_blanks(const char *s) {
  return s + strspn(s, " \t\r\f\v");
}

/* A line with a '#' and one of the words behind it: #include "name" or <name> and nothing before it but blanks, or
 * something that only a preprocessor can read. */
static void read_line(collection *c, const char *own, size_t own_bytes, const char *line) {
  const char *hash = strchr(line, '#');
  if (!hash) hash = strstr(line, "%:");
  if (!hash || (!strstr(hash, "include") && !strstr(hash, "import") && !strstr(hash, "embed"))) return;
  const char *at = skip_blanks(line);
  bool plain = *at == '#';
  if (plain) at = skip_blanks(at + 1);
  plain = plain && strncmp(at, "include", 7) == 0;
  if (plain) at = skip_blanks(at + 7);
  const char *end = plain && (*at == '"' || *at == '<') ? strchr(at + 1, *at == '"' ? '"' : '>') : NULL;
  if (end && end > at + 1)
    add_include(c, own, own_bytes, at + 1, (size_t)(end - at - 1));
  else
    c->known = false;
}

/* Line by line, those that end with a backslash being continued by the next. A carriage return alone ends a line for
 * some compilers and is a blank for others. */
static void read_included_text(collection *c, const char *own, size_t own_bytes, const char *text, size_t bytes) {
  char line[kLineBytes];
  size_t length = 0;
  bool cut = false, hash = false; /* the line did not fit; it may be a directive */
  for (size_t i = 0; i <= bytes; i++) {
    char byte = i < bytes ? text[i] : '\n';
    c->known &= byte != '\r' || (i + 1 < bytes && text[i + 1] == '\n');
    if (byte == '\\' && i + 1 < bytes && text[i + 1] == '\n') {
      i++;
    } else if (byte == '\\' && i + 2 < bytes && text[i + 1] == '\r' && text[i + 2] == '\n') {
      i += 2;
    } else if (byte == '\n') {
      line[length] = '\0';
      read_line(c, own, own_bytes, line);
      c->known &= !cut || !hash;
      length = 0;
      cut = hash = false;
    } else {
      hash |= byte == '#' || byte == '%';
      cut |= length + 1 == sizeof line;
      if (!cut) line[length++] = byte ? byte : ' ';
    }
  }
}

/* The file's name in the list: in a folder of the text's own by its place there. */
static void add_file_name(collection *c, const char *path) {
  for (size_t i = 0; i < c->own_count; i++) {
    size_t bytes = strlen(c->folders[i]);
    if (strncmp(path, c->folders[i], bytes) != 0 || path[bytes] != '/') continue;
    braid_text_printf(c->out, "<%zu>%s", i, path + bytes);
    return;
  }
  braid_text_add(c->out, path);
}

static void read_included(collection *c, const char *path) {
  braid_file_view file;
  if (braid_file_open(NULL, path, kMostBytes, &file) != BRAID_OK) {
    c->known = false;
    return;
  }
  const char *slash = strrchr(path, '/');
  size_t own = slash ? (size_t)(slash - path) + (slash == path) : 0;
  add_file_name(c, path);
  braid_text_printf(c->out, " %zu\n", file.bytes);
  braid_text_add_bytes(c->out, file.data, file.bytes);
  read_included_text(c, path, own, (const char *)file.data, file.bytes);
  c->known &= c->out->length <= kMostBytes;
  braid_file_close(&file);
}

bool braid_launch_includes_collect(const char *const folders[2], const char *options, const char *text, size_t bytes,
                                   braid_text *out) {
  collection c = {.out = out, .known = true};
  for (int i = 0; i < 2 && folders[i]; i++) add_folder(&c, folders[i], strlen(folders[i]));
  c.own_count = c.folder_count;
  read_options(&c, options);
  read_included_text(&c, folders[0], strlen(folders[0]), text, bytes);
  while (c.known && c.next < c.file_count) read_included(&c, c.files[c.next++]);
  for (size_t i = 0; i < c.folder_count; i++) braid_free(NULL, c.folders[i]);
  for (size_t i = 0; i < c.file_count; i++) braid_free(NULL, c.files[i]);
  return c.known && !out->failed;
}
