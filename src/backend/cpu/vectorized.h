/* BRAID_VECTORIZED: one text compiled for several widths of vectors; which is used is decided when the program starts.
 * Not under ThreadSanitizer, whose runtime is not there yet when the choice is made, and not with clang, which (14)
 * gives a function that is not static a name that no other file finds. */
#ifndef BRAID_BACKEND_CPU_VECTORIZED_H
#define BRAID_BACKEND_CPU_VECTORIZED_H

#if defined(__x86_64__) && defined(__ELF__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define BRAID_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BRAID_VECTORIZED
#endif

#endif
