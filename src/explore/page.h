/* Tables of pages, for others too. */
#ifndef BRAID_EXPLORE_PAGE_H
#define BRAID_EXPLORE_PAGE_H

#include "base/text.h"
#include "braid/explore.h"

void braid_page_add_table(braid_text *text, const braid_page_table *table);

#endif
