/* Conformance: a kernel prepared for a trial, as conformance_prepare.c makes it and conformance_run.c runs it. */
#ifndef BRAID_DEVICE_CONFORMANCE_TRIAL_H
#define BRAID_DEVICE_CONFORMANCE_TRIAL_H

#include "device/conformance.h"

/* What a query says: of kernels, or of regions, which may have a packing per input. */
typedef struct braid_trial_needs {
  size_t workspace_bytes, packing_count;
  braid_packing packings[kTrialOperands];
} braid_trial_needs;

struct braid_trial_run {
  const braid_trial *trial;
  const braid_kernel *kernel;
  braid_trial_way way;
  braid_node_desc node;
  braid_operand operands[kTrialOperands];
  void *constants[kTrialOperands]; /* copies for prepare */
  void *prepared;
  braid_prepared_info info;
  bool asked; /* the device has query */
  braid_trial_needs needs;
  void *packed[kTrialOperands];
  uint32_t calls;
};

/* What must not be relied on, different at each place. In every floating-point type, whatever the alignment to four
 * bytes: NaN; or large numbers of changing sign, for kernels that let a NaN pass unseen. */
typedef enum braid_spoil { BRAID_SPOIL_NAN, BRAID_SPOIL_LARGE } braid_spoil;
void braid_suite_spoil(uint8_t *bytes, size_t count, braid_spoil with);

extern const braid_trial_way braid_trial_plainly;
enum { BRAID_IMAGE_LAYOUTS = 4 };
extern const braid_layout
    braid_image_layouts[BRAID_IMAGE_LAYOUTS]; /* those that activations have; the first is plain */

/* --- ways of trying a kernel with a node ---------------------------------------------------------------------------
 * Each prepares what it needs; true where there is nothing to try. Results over each input that the kernel allows, one
 * by one and all at once. */
bool braid_way_in_place(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* Images that come in other layouts than plain. */
bool braid_way_layouts(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* All inputs but the first known beforehand. */
bool braid_way_constants(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* Prepared and discarded again and again: no host memory is kept. */
bool braid_way_discarded(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* Two prepared kernels of the node at the same time. */
bool braid_way_together(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* From a recording. */
bool braid_way_replay(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
/* With indices that are out of range, of the ops whose kernels refuse them. indices_of: the input that holds them; -1:
 * none could be bad. */
int braid_way_indices_of(const braid_trial *trial);
bool braid_way_indices(braid_suite *suite, const braid_trial *trial, const braid_kernel *kernel, char *detail);
#endif
