/* For tests: what may happen to a file that is in use. */
#ifndef BRAID_TESTS_DAMAGE_H
#define BRAID_TESTS_DAMAGE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum damage_kind { DAMAGE_CUT, DAMAGE_OVERWRITE, DAMAGE_REPLACE, DAMAGE_REMOVE, DAMAGE_KINDS } damage_kind;

/* CUT leaves a third; OVERWRITE and REPLACE put as many bytes of another kind in the file, or in one of its name. */
static inline void damage(const char *path, damage_kind kind) {
  struct stat about;
  char other[4096];
  if (stat(path, &about) != 0) abort();
  if (kind == DAMAGE_CUT && truncate(path, about.st_size / 3) != 0) abort();
  if (kind == DAMAGE_REMOVE && unlink(path) != 0) abort();
  if (kind != DAMAGE_OVERWRITE && kind != DAMAGE_REPLACE) return;
  if (snprintf(other, sizeof other, kind == DAMAGE_REPLACE ? "%s.other" : "%s", path) >= (int)sizeof other) abort();
  int file = open(other, O_WRONLY | O_CREAT, 0666);
  char *bytes = malloc((size_t)about.st_size + 1);
  if (file < 0 || !bytes) abort();
  memset(bytes, 0x5a, (size_t)about.st_size);
  if (write(file, bytes, (size_t)about.st_size) != about.st_size || close(file) != 0) abort();
  if (kind == DAMAGE_REPLACE && rename(other, path) != 0) abort();
  free(bytes);
}

#endif
