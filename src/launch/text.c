#include "launch/text.h"

#include <string.h>

const braid_launch_text *braid_launch_find_text(const char *name) {
  for (size_t i = 0; i < braid_launch_text_count; i++)
    if (strcmp(braid_launch_texts[i].name, name) == 0) return &braid_launch_texts[i];
  return NULL;
}
