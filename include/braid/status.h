/* Status codes: what every function that can fail returns.
 *
 * One list makes the enum, the names and the texts. A status gives the kind of failure; the detail (file, line, node,
 * value, what was expected) is kept per thread and read with braid_error_detail(). */
#ifndef BRAID_STATUS_H
#define BRAID_STATUS_H

/* C linkage in C++ programs. */
#ifdef __cplusplus
#define BRAID_LINKAGE extern "C"
#else
#define BRAID_LINKAGE
#endif

#if defined(__GNUC__)
#define BRAID_API BRAID_LINKAGE __attribute__((visibility("default")))
#define BRAID_MUST_CHECK __attribute__((warn_unused_result))
#define BRAID_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define BRAID_API BRAID_LINKAGE
#define BRAID_MUST_CHECK
#define BRAID_PRINTF(text, first)
#endif

#define BRAID_STATUS_MAP(X)                                                                                            \
  X(OK, "success")                                                                                                     \
  X(NO_MEMORY, "out of memory")                                                                                        \
  X(INVALID_ARGUMENT, "invalid argument")                                                                              \
  X(INVALID_FILE, "malformed file")                                                                                    \
  X(INVALID_GRAPH, "invalid graph")                                                                                    \
  X(UNSUPPORTED, "not supported")                                                                                      \
  X(NOT_FOUND, "not found")                                                                                            \
  X(IO, "input/output error")                                                                                          \
  X(OUT_OF_RANGE, "out of range")                                                                                      \
  X(NOT_FINITE, "not a finite number")                                                                                 \
  X(DEVICE_LOST, "device lost")                                                                                        \
  X(TIMEOUT, "timed out")                                                                                              \
  X(CANCELLED, "cancelled")                                                                                            \
  X(INTERNAL, "internal error")                                                                                        \
  X(BUSY, "in use")                                                                                                    \
  X(TORN, "torn weights")

typedef enum braid_status {
#define BRAID_STATUS_ENUM(name, text) BRAID_##name,
  BRAID_STATUS_MAP(BRAID_STATUS_ENUM)
#undef BRAID_STATUS_ENUM
} braid_status;

/* The text of a status ("out of memory"). Never NULL; static storage. */
BRAID_API const char *braid_status_text(braid_status status);

/* The detail of the failure that the last call on this thread returned: one sentence that names the place and what was
 * expected, or "" if a backend or a custom op returned a status without a detail. Valid until the next call of the
 * library on this thread; undefined after a success. */
BRAID_API const char *braid_error_detail(void);

/* Records a detail (printf format, cut at 1 KiB) for the calling thread and returns `status`, so that a failing
 * function ends in `return braid_fail(BRAID_INVALID_FILE, "%s:%d: ...", ...)`. Allocates nothing. */
BRAID_API braid_status braid_fail(braid_status status, const char *format, ...) BRAID_PRINTF(2, 3);

/* Puts a prefix (printf format) and ": " before the detail already recorded; returns `status`. */
BRAID_API braid_status braid_fail_prefix(braid_status status, const char *format, ...) BRAID_PRINTF(2, 3);

#endif
