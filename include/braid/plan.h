/* Plans as data: saved and loaded, printed, compared.
 *
 * A saved plan holds what was decided for a graph on a machine: what became one node, where every node runs and with
 * which kernel, what the kernels asked for. Loading takes that and asks no policy and no kernel; it is refused, with
 * the first difference as a sentence, where the machine (devices, their kernels, threads, software), the processor, the
 * library or the graph (structure, shapes, attributes, small constants) is not that which the plan was made for.
 * Weights are not compared: a plan serves the same network trained again. Weights are floating-point constants of more
 * than 8 elements, and of fewer where nothing but convolutions, matrix products and normalization takes them. A file is
 * not trusted: offsets, waits and shapes are made anew and must be those that it has, and kernels are asked when the
 * first execution is made whether they take the nodes and packed constants in question. */
#ifndef BRAID_PLAN_H
#define BRAID_PLAN_H

#include "braid/machine.h"

/* `graph` is the one that the plan was made of, else INVALID_ARGUMENT. The file is written whole or not at all.
 * UNSUPPORTED: the plan's data has been dropped (braid_plan_drop_data, or it is a session's own). */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_save(braid_plan *plan, const braid_graph *graph, const char *path);
/* The graph may be destroyed afterwards; its tensors are kept until the first execution is made. UNSUPPORTED: the plan
 * was made for something else. INVALID_FILE: damaged, or no saved plan. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_load(braid_machine *machine, const braid_graph *graph,
                                                        const char *path, braid_plan **out);
/* The same to and from memory; *data is to be freed with braid_free and the allocator (NULL: the C library's). */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_encode(braid_plan *plan, const braid_graph *graph,
                                                          const braid_allocator *allocator, void **data, size_t *bytes);
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_decode(braid_machine *machine, const braid_graph *graph,
                                                          const void *data, size_t bytes, braid_plan **out);

/* All that a plan is, in lines or as JSON; *text is to be freed like the above. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_print(braid_plan *plan, bool json, const braid_allocator *allocator,
                                                         char **text);
/* *text gets a line for each of the first 20 differences, "" if there are none. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_compare(braid_plan *a, braid_plan *b,
                                                           const braid_allocator *allocator, char **text);
/* The same of files, without the machines and graphs that they were made for. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_file_print(const char *path, bool json,
                                                              const braid_allocator *allocator, char **text);
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_file_compare(const char *a, const char *b,
                                                                const braid_allocator *allocator, char **text);

#endif
