/* The page as text: page.html, embedded when Braid is built. */
#ifndef BRAID_SERVE_HTTP_PAGE_H
#define BRAID_SERVE_HTTP_PAGE_H

#include <stddef.h>

typedef struct braid_serve_file {
  const char *name, *text;
  size_t bytes;
} braid_serve_file;
extern const braid_serve_file braid_serve_pages[];
extern const size_t braid_serve_page_count;

#endif
