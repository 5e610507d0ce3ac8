/* A pass: one span over the loop nest of its operands' broadcast shape. Operands of another type than the span's are
 * converted, and those that do not lie as it wants gathered, in pieces that stay in the first-level cache. */
#ifndef BRAID_BACKEND_CPU_SPANS_PASS_H
#define BRAID_BACKEND_CPU_SPANS_PASS_H

#include "backend/cpu/spans/nest.h"
#include "backend/cpu/spans/spans.h"

enum { BRAID_PASS_CONSTANT = -1, BRAID_PASS_OUTPUT = -2 };

typedef struct braid_pass_operand {
  int source;          /* index of a node's input, or one of the above */
  braid_desc desc;     /* of the input; left alone for a constant */
  double constant;     /* its value */
  double held[1];      /* the constant in the span's type */
  braid_convert *load; /* NULL: of the span's type */
  size_t bytes, span_bytes;
} braid_pass_operand;

typedef struct braid_pass {
  const braid_span_entry *entry;
  double params[2];
  int input_count;
  braid_pass_operand inputs[BRAID_SPAN_INPUTS];
  braid_convert *store; /* NULL: the output is of the span's type */
  size_t out_bytes, out_span_bytes;
  braid_nest nest; /* inputs, then the output */
  int64_t outer, inner;
  bool direct; /* no operand needs converting or gathering */
} braid_pass;

/* `pass` comes with entry, params, input_count and each input's source and desc (or constant). False: layouts that do
 * not go together. */
bool braid_pass_init(braid_pass *pass, const braid_desc *output);
void braid_pass_run(const braid_pass *pass, const void *const *inputs, void *output);

#endif
