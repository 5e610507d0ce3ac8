/* Any bytes name places beside the model, or are refused with a sentence. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/fuzz.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_name(const char *name) {
  if (!*name || *name == '/') abort();
  for (const char *part = name; *part;) {
    size_t length = strcspn(part, "/");
    if (!length || (length <= 2 && memcmp(part, "..", length) == 0)) abort();
    part += length + (part[length] == '/');
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  enum { BUDGET = 64 << 20 };
  fuzz_budget budget;
  fuzz_budget_init(&budget, BUDGET);
  braid_model_locations found;
  char path[32];
  int file = memfd_create("model", MFD_CLOEXEC);
  if (file < 0 || write(file, data, bytes) != (ssize_t)bytes || lseek(file, 0, SEEK_SET) != 0) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  braid_status status = braid_onnx_locations(&budget.allocator, path, &found);
  if (status != BRAID_OK && status != BRAID_NO_MEMORY && !braid_error_detail()[0]) abort();
  for (size_t i = 0; i < found.count; i++) check_name(found.names[i]);
  braid_model_locations_deinit(&budget.allocator, &found);
  if (budget.left != BUDGET) abort();
  close(file);
  return 0;
}
