#include "backend/manycore/networks.h"

#include "braid/manycore.h"

bool braid_manycore_network(size_t index, const char **name, const char **text, size_t *bytes) {
  if (index >= braid_manycore_network_file_count) return false;
  *name = braid_manycore_network_files[index].name;
  *text = braid_manycore_network_files[index].text;
  *bytes = braid_manycore_network_files[index].bytes;
  return true;
}
