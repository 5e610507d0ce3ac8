/* Passing failures on. */
#ifndef BRAID_ORT_TRY_H
#define BRAID_ORT_TRY_H

#define TRY(expression)                                                                                                \
  do {                                                                                                                 \
    braid_status try_status = (expression);                                                                            \
    if (try_status != BRAID_OK) return try_status;                                                                     \
  } while (0)
/* Of a function of the framework. */
#define TRY_ORT(call) TRY(braid_ort_check(call))

#endif
