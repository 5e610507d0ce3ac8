/* A running braid-ucx, and its line; private to this folder. */
#ifndef BRAID_SERVE_BULK_BULK_PROCESS_H
#define BRAID_SERVE_BULK_BULK_PROCESS_H

#include "serve/bulk/bulk.h"

typedef struct bulk_process {
  pid_t pid; /* 0: none */
  int line;  /* -1: none */
} bulk_process;

/* With `data` as its second descriptor, which stays the caller's. The program has none of our other descriptors, no
 * signal of ours blocked or ignored, and nothing of our environment that begins with BRAID_, as tokens do. */
BRAID_MUST_CHECK braid_status bulk_process_start(const char *program, int data, bulk_process *out);
/* Closes the line, at which the program ends; it is killed when it has not within patience_ms. */
void bulk_process_end(bulk_process *process, int patience_ms);
/* False: the program is not there any more, or does not take it. */
bool bulk_process_tell(const bulk_process *process, const braid_bulk_message *message);
/* 1: a message, which is whole and of a program's kinds; 0: none within timeout_ms; -1: the program has ended, or says
 * what makes no sense. */
int bulk_process_hear(const bulk_process *process, int timeout_ms, braid_bulk_message *out);
/* The sentence of a message, made fit for logs. */
void bulk_sentence(const braid_bulk_message *message, char detail[BRAID_BULK_DETAIL]);

#endif
