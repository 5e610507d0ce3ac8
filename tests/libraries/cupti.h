/* What a library that passes for CUPTI counts for each kernel's launch. */
#ifndef BRAID_TESTS_CUPTI_H
#define BRAID_TESTS_CUPTI_H

enum { FAKE_CUPTI_BYTES = 4096, FAKE_CUPTI_INSTRUCTIONS = 640, FAKE_CUPTI_CYCLES = 256 };

#endif
