/* Buffers: memory of a machine's devices or of the host, for the inputs and outputs of executions.
 *
 * What one execution computes on a device another can take there, without a way through the host; and memory of other
 * libraries comes and goes by DLPack. Host pointers (braid_execution_submit) stay the easy way.
 *
 * A buffer has a description, PLAIN, and may be used by any thread. It is reference counted: views, executions and
 * exports keep what they use. Its contents are not guarded: whoever reads or writes them waits first for the runs in
 * flight that use them, and so does whoever submits a run that reads what another writes. */
#ifndef BRAID_BUFFER_H
#define BRAID_BUFFER_H

#include "braid/machine.h"

typedef struct braid_buffer braid_buffer;

/* Contents undefined. `device`: its name in the machine ("opencl0") or its number there; NULL: host memory, which is
 * what devices that work on it have too. NOT_FOUND lists the machine's devices. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_create(braid_machine *machine, const char *device,
                                                            const braid_desc *desc, braid_buffer **out);
/* Host memory of the caller's; `release(context)` is called once, with the last reference (may be NULL). On failure it
 * is not called. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_wrap(braid_machine *machine, const braid_desc *desc, void *data,
                                                          void (*release)(void *context), void *context,
                                                          braid_buffer **out);
/* A part of a buffer, `offset` bytes from its start, or all of it in another shape or type. OUT_OF_RANGE beyond its
 * end; INVALID_ARGUMENT: an offset that is no multiple of the element size and, on a device, of its alignment. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_view(braid_buffer *buffer, size_t offset, const braid_desc *desc,
                                                          braid_buffer **out);
BRAID_API braid_buffer *braid_buffer_retain(braid_buffer *buffer);
BRAID_API void braid_buffer_release(braid_buffer *buffer); /* NULL is allowed */

BRAID_API const braid_desc *braid_buffer_desc(const braid_buffer *buffer);
BRAID_API const char *braid_buffer_device(const braid_buffer *buffer); /* its name; "host" for host memory */
BRAID_API void *braid_buffer_host(const braid_buffer *buffer);         /* its address; NULL: not in host memory */

/* Copies the whole contents out or in; `bytes` must be those of the description. TIMEOUT after timeout_ns (< 0: no
 * limit); the transfer may then still take place, before the next one. With a limit `host` is not touched after the
 * call; without one it must stay, after DEVICE_LOST, until the buffer is released. */
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_read(braid_buffer *buffer, void *host, size_t bytes,
                                                          int64_t timeout_ns);
BRAID_API BRAID_MUST_CHECK braid_status braid_buffer_write(braid_buffer *buffer, const void *host, size_t bytes,
                                                           int64_t timeout_ns);

/* --- executions ----------------------------------------------------------------------------------------------------
 * From the next run on an input or output is this buffer, which the execution keeps; NULL: memory given at each run
 * again. A pointer given to a run goes before it. The buffer must be of the plan's machine, and of the type and shape
 * of the input or output, else INVALID_ARGUMENT; so is one that overlaps another that is bound, unless both are
 * inputs. BUSY while a run is in flight, and until it is waited for if its outputs are moved then.
 *
 * A buffer that lies where the plan wants the input or output (braid_plan_input_device) is used in place. Any other
 * is moved: an input by submit before the run starts, an output by wait, so that a run with a callback needs outputs in
 * place. Plans made with braid_plan_options.device_io want them on the devices that use them, other plans in host
 * memory. */
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_bind_input(braid_execution *execution, size_t index,
                                                                   braid_buffer *buffer);
BRAID_API BRAID_MUST_CHECK braid_status braid_execution_bind_output(braid_execution *execution, size_t index,
                                                                    braid_buffer *buffer);
/* The name of the device, as for braid_buffer_create; NULL: host memory. */
BRAID_API const char *braid_plan_input_device(const braid_plan *plan, size_t index);
BRAID_API const char *braid_plan_output_device(const braid_plan *plan, size_t index);

/* --- DLPack --------------------------------------------------------------------------------------------------------
 * The structs are those of dlpack.h (dmlc/dlpack), which this header does not need; "versioned" is version 1.
 *
 * Import: a buffer over the tensor's memory, of host memory, row-major, of a type that has a braid_dtype; anything else
 * is UNSUPPORTED and the tensor stays the caller's. On success the tensor is the buffer's, which calls its deleter with
 * the last reference. Memory that is marked read-only is refused as an output and for writing.
 * Export: a tensor over the buffer's memory, which it keeps until its deleter is called. Host memory only. */
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
