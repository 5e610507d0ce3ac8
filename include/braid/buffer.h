/* Buffers: memory of a device or of the host, for inputs and outputs of executions.
 *
 * The output of one execution can be the input of another without being copied to the host, and tensors are exchanged
 * with other libraries by DLPack. Programs that need neither pass host pointers to braid_execution_submit.
 *
 * A buffer has a PLAIN descriptor. It is reference counted, and views, executions and exported tensors hold references.
 * Any thread may use it, but access to its contents is not synchronized: wait for the runs in flight that use a buffer
 * before reading or writing it, and before submitting a run that reads what another run writes. */
#ifndef BRAID_BUFFER_H
#define BRAID_BUFFER_H

#include "braid/machine.h"

typedef struct braid_buffer braid_buffer;

/* Contents undefined. `device`: name ("opencl0") or index in the machine; NULL: host memory. Buffers of devices that
 * use host memory (the CPU) are host memory. NOT_FOUND lists the machine's devices. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_create(braid_machine *machine, const char *device,
                                                            const braid_desc *desc, braid_buffer **out);
/* A buffer over the caller's host memory, which is not copied. `release(context)` (may be NULL) is called once, when
 * the last reference is released; not if braid_buffer_wrap fails. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_wrap(braid_machine *machine, const braid_desc *desc, void *data,
                                                          void (*release)(void *context), void *context,
                                                          braid_buffer **out);
/* A view of a part of a buffer, `offset` bytes from its start, with another shape or type if wanted. OUT_OF_RANGE: it
 * exceeds the buffer. INVALID_ARGUMENT: the offset is not a multiple of the element size or, in device memory, of the
 * device's alignment. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_view(braid_buffer *buffer, size_t offset, const braid_desc *desc,
                                                          braid_buffer **out);
BRAID_API braid_buffer *braid_buffer_retain(braid_buffer *buffer);
BRAID_API void braid_buffer_release(braid_buffer *buffer); /* NULL is allowed */

BRAID_API const braid_desc *braid_buffer_desc(const braid_buffer *buffer);
BRAID_API const char *braid_buffer_device(const braid_buffer *buffer); /* name of its device; "host" for host memory */
BRAID_API void *braid_buffer_host(const braid_buffer *buffer); /* its address; NULL if it is not in host memory */

/* Copies the whole contents to or from `host`; `bytes` must be the size of the descriptor. TIMEOUT after timeout_ns (<
 * 0: no limit); the transfer may then still happen, before the next one. With a limit, `host` is not used after the
 * call returns. Without one, `host` must stay valid after DEVICE_LOST until the buffer is released. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_read(braid_buffer *buffer, void *host, size_t bytes,
                                                          int64_t timeout_ns);
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_write(braid_buffer *buffer, const void *host, size_t bytes,
                                                           int64_t timeout_ns);

/* --- executions ----------------------------------------------------------------------------------------------------
 * Binds a buffer to an input or output for the following runs; the execution holds a reference. NULL unbinds. A host
 * pointer given to a run takes precedence over the buffer. INVALID_ARGUMENT: the buffer is not of the plan's machine,
 * has another type or shape, or overlaps another bound buffer (unless both are inputs). BUSY while a run is in flight,
 * or has outputs that wait has still to copy.
 *
 * A buffer in the memory where the plan expects the input or output (braid_plan_input_device) is used in place. Others
 * are copied: an input by submit before the run starts, an output by wait; so a run with a callback needs its outputs
 * in place. Plans made with braid_plan_options.device_io expect inputs and outputs on the devices that use them, other
 * plans in host memory. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_bind_input(braid_execution *execution, size_t index,
                                                                   braid_buffer *buffer);
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_bind_output(braid_execution *execution, size_t index,
                                                                    braid_buffer *buffer);
/* Name of the device on which the plan expects it; NULL: host memory. */
BRAID_API const char *braid_plan_input_device(const braid_plan *plan, size_t index);
BRAID_API const char *braid_plan_output_device(const braid_plan *plan, size_t index);

/* --- DLPack --------------------------------------------------------------------------------------------------------
 * The structs are those of dlpack.h (https://github.com/dmlc/dlpack), which this header does not include; the functions
 * named "versioned" are for DLPack version 1.
 *
 * Import: makes a buffer over the tensor's memory. UNSUPPORTED unless it is in host memory, row-major, and of a type
 * that has a braid_dtype; the tensor then stays the caller's. On success the buffer owns the tensor, and calls its
 * deleter when the last reference is released. A read-only tensor cannot be bound to an output or written to.
 * Export: makes a tensor over the buffer's memory. It holds a reference to the buffer until its deleter is called. Host
 * memory only. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_import_dlpack(braid_machine *machine,
                                                                   struct DLManagedTensor *tensor, braid_buffer **out);
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_export_dlpack(braid_buffer *buffer, struct DLManagedTensor **out);
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_import_dlpack_versioned(braid_machine *machine,
                                                                             struct DLManagedTensorVersioned *tensor,
                                                                             braid_buffer **out);
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_export_dlpack_versioned(braid_buffer *buffer,
                                                                             struct DLManagedTensorVersioned **out);

#endif
