/* Saving, loading, printing and comparing plans.
 *
 * A saved plan holds the decisions made for a graph on a machine: which nodes were fused, the device and kernel of
 * every node, layouts, workspace and packed constants. Loading reuses them without asking a policy or a kernel. A plan
 * is refused, and the detail names the first difference, if the machine (devices, their kernels, threads, software),
 * the processor, the version of the library or the graph (structure, shapes, attributes) differs from what the plan was
 * made for. Of constants, only the contents that were read while planning are compared: by shape inference (the target
 * shape of a Reshape, and the constants it was folded from) and by fusion (the bounds of a Clip). All others are
 * weights, so a plan also fits the same network trained again.
 *
 * Files are not trusted: shapes, memory offsets and waits are computed again and must equal those in the file, and when
 * the first execution is created, kernels are asked whether they accept the nodes and packed constants; if not,
 * creating it fails with UNSUPPORTED. */
#ifndef BRAID_PLAN_H
#define BRAID_PLAN_H

#include "braid/machine.h"

/* `graph` is the one that the plan was made from, else INVALID_ARGUMENT. The file is written atomically. UNSUPPORTED: a
 * backend runs a region of the graph by a kernel that it compiled. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_save(braid_plan *plan, const braid_graph *graph, const char *path);
/* The graph may be destroyed afterwards; its tensors are retained until the first execution is created. UNSUPPORTED:
 * the plan was made for another machine or graph. INVALID_FILE: damaged, or not a saved plan. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_load(braid_machine *machine, const braid_graph *graph,
                                                        const char *path, braid_plan **out);
/* The same to and from memory. Free *data with braid_free and `allocator` (NULL: the C library's heap). */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_encode(braid_plan *plan, const braid_graph *graph,
                                                          const braid_allocator *allocator, void **data, size_t *bytes);
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_decode(braid_machine *machine, const braid_graph *graph,
                                                          const void *data, size_t bytes, braid_plan **out);

/* The whole contents of a plan, as text or as JSON. Free *text with braid_free and `allocator`. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_print(braid_plan *plan, bool json, const braid_allocator *allocator,
                                                         char **text);
/* *text has a line for each of the first 20 differences, or is "". Free it as above. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_compare(braid_plan *a, braid_plan *b,
                                                           const braid_allocator *allocator, char **text);
/* The same for saved plans; the machine and graph that they were made for are not needed. */
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_file_print(const char *path, bool json,
                                                              const braid_allocator *allocator, char **text);
BRAID_API BRAID_MUST_CHECK braid_status braid_plan_file_compare(const char *a, const char *b,
                                                                const braid_allocator *allocator, char **text);

#endif
