/* Programs: kernel text, which the build puts into the library from kernels/opencl, compiled for a device; or a
 * bitstream, which somebody compiled before. A program is built once per device, text and options, kept until the
 * context ends, and beyond that in files (cache.h). */
#ifndef BRAID_BACKEND_OPENCL_PROGRAM_H
#define BRAID_BACKEND_OPENCL_PROGRAM_H

#include "backend/opencl/device.h"
#include "launch/text.h"

/* A file of text or a bitstream that is not the library's, and the programs made of it. */
typedef struct braid_cl_module braid_cl_module;
/* The text includes from its own folder and that of the manifest. */
BRAID_MUST_CHECK braid_status braid_cl_module_open(braid_cl_device *device, const char *path, bool bitstream,
                                                   const char *manifest, braid_cl_module **out);
void braid_cl_module_close(const braid_cl_device *device, braid_cl_module *module); /* NULL is allowed */

const char *braid_cl_module_path(const braid_cl_module *module);

/* The program that holds the launch's function; it stays the context's. When it does not compile, the detail holds the
 * compiler's log with file, options and device. */
BRAID_MUST_CHECK braid_status braid_cl_program_get(const braid_cl_device *device, const braid_launch *launch,
                                                   cl_program *out);
/* The kernels of a program, "a;b;c", which the caller frees; NULL: the driver does not say. */
char *braid_cl_program_kernels(const braid_cl_device *device, cl_program program);
/* Is there a program for the launch, or text and a compiler to make one? If not, says why. */
bool braid_cl_program_is_possible(const braid_cl_device *device, const braid_launch *launch, char *why,
                                  size_t why_bytes);
void braid_cl_programs_release(braid_cl_context *context); /* with the context */

/* Reads the bitstream that the device's options name; all kernels then come out of it. */
BRAID_MUST_CHECK braid_status braid_cl_bitstream_load(braid_cl_device *device, const char *path);
void braid_cl_bitstream_release(braid_cl_device *device);
/* What the driver made of a program for the device, which the caller frees (the C library's heap); NULL: it does not
 * say. */
uint8_t *braid_cl_program_binary(const braid_cl_device *device, cl_program program, size_t *bytes);

#endif
