/* A database with any bytes changed, or cut: it is read within its bounds, or refused with a sentence, and a forecast
 * can be asked of what was read. The input is a list of changes to a file that is sound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planning/machine.h"
#include "profile/database.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { kMost = 1 << 17 };
static char sound[kMost];
static size_t sound_bytes;
static char path[64];

static void clean_up(void) {
  (void)unlink(path);
}

static void make_sound(void) {
  braid_profile_db *db;
  braid_profile_entry entry;
  size_t count;
  snprintf(path, sizeof path, "/tmp/braid-database-fuzz-%d.db", (int)getpid());
  (void)unlink(path);
  (void)atexit(clean_up);
  if (braid_profile_db_open(NULL, path, BRAID_PROFILE_WRITE, &db) != BRAID_OK) abort();
  if (braid_profile_import(db, "hype-training", &count) != BRAID_OK) abort();
  braid_table_clear(&braid_profile_entry_table, &entry);
  entry.device = "cpu";
  entry.devices = 1;
  entry.op = entry.key = "Relu";
  entry.beside = "";
  entry.shapes = "8x8";
  entry.source = "measured";
  entry.date = "2026-11-23T10:52:55Z";
  entry.runs = 10;
  entry.bytes = 512;
  entry.seconds = 1e-3;
  if (braid_profile_put(db, &braid_profile_entry_table, &entry) != BRAID_OK) abort();
  braid_profile_db_close(db);
  FILE *file = fopen(path, "rb");
  if (!file) abort();
  sound_bytes = fread(sound, 1, sizeof sound, file);
  fclose(file);
}

/* Three bytes of place and one of contents for each change; the first says where the file ends. */
static void write_changed(const uint8_t *data, size_t bytes) {
  static char changed[kMost];
  memcpy(changed, sound, sound_bytes);
  size_t length = sound_bytes;
  if (bytes >= 4 && data[3] & 1) length = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % (sound_bytes + 1);
  for (size_t i = 4; i + 4 <= bytes; i += 4)
    changed[(data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16) % sound_bytes] = (char)data[i + 3];
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(changed, 1, length, file) != length) abort();
  fclose(file);
}

static void read_all(void) {
  braid_profile_db *db;
  braid_profile_list list;
  if (braid_profile_db_open(NULL, path, BRAID_PROFILE_READ, &db) != BRAID_OK) {
    if (!braid_error_detail()[0]) abort();
    return;
  }
  if (braid_profile_list_create(db, NULL, &list) == BRAID_OK) {
    for (size_t i = 0; i < list.entry_count; i++)
      if (!(list.entries[i].bytes >= 0) || list.entries[i].seconds <= 0 || !list.entries[i].op) abort();
    braid_profile_list_deinit(&list);
  } else if (!braid_error_detail()[0]) {
    abort();
  }
  braid_profile_db_close(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_profile *profile;
  if (!sound_bytes) make_sound();
  write_changed(data, bytes);
  read_all();
  if (braid_profile_read_database(NULL, path, &profile) != BRAID_OK) {
    if (!braid_error_detail()[0]) abort();
    return 0;
  }
  for (unsigned i = 0; i < profile->rows_count; i++) {
    braid_profile_row row;
    if (!braid_profile_at(profile, profile->rows[i].device, profile->rows[i].devices, profile->rows[i].op, 1e6, &row) ||
        !(row.ms > 0) || !isfinite(row.ms))
      abort();
  }
  braid_profile_free(profile);
  return 0;
}
