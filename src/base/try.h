/* BRAID_TRY: returns a failure to the caller. For functions that own nothing that would leak. */
#ifndef BRAID_BASE_TRY_H
#define BRAID_BASE_TRY_H
#include "braid/status.h"
#define BRAID_TRY(expression)                                                                                          \
  do {                                                                                                                 \
    braid_status braid_try_status_ = (expression);                                                                     \
    if (braid_try_status_ != BRAID_OK) return braid_try_status_;                                                       \
  } while (0)
#endif
