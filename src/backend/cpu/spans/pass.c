#include "backend/cpu/spans/pass.h"

#include <string.h>

enum {
  kGrain = 32768, /* elements a thread takes at a time */
  kPiece = 512,   /* elements converted at a time */
};

static braid_dtype span_type(const braid_span_entry *entry, int input) {
  return input == 0 && (entry->flags & BRAID_SPAN_BOOL_IN) ? BRAID_BOOL : entry->dtype;
}

/* The smallest and largest numbers of an integer type stand for bounds beyond them. */
static void hold_constant(braid_pass_operand *operand, braid_dtype dtype) {
  braid_convert_find(BRAID_F64, dtype)(&operand->constant, operand->held, 1);
}

static void init_operand(braid_pass *pass, int index) {
  braid_pass_operand *operand = &pass->inputs[index];
  braid_dtype dtype = span_type(pass->entry, index);
  if (operand->source == BRAID_PASS_CONSTANT) {
    operand->desc = (braid_desc){.dtype = dtype};
    hold_constant(operand, dtype);
  }
  operand->bytes = braid_dtype_size(operand->desc.dtype);
  operand->span_bytes = braid_dtype_size(dtype);
  operand->load = operand->desc.dtype == dtype ? NULL : braid_convert_find(operand->desc.dtype, dtype);
}

static bool is_bound(const braid_pass *pass, int index) {
  return (pass->entry->flags & BRAID_SPAN_BOUNDS) && index >= pass->input_count - 2;
}

/* Must the operand go through a buffer: another type, another step, or fewer elements than are wanted? */
static bool needs_buffer(const braid_pass *pass, int index) {
  int64_t stride = pass->nest.strides[index][pass->nest.rank - 1];
  bool spread =
      stride == 0 && !is_bound(pass, index) && (pass->input_count == 1 || pass->entry->flags & BRAID_SPAN_DENSE);
  return pass->inputs[index].load || stride > 1 || pass->nest.period[index] || spread;
}

bool braid_pass_init(braid_pass *pass, const braid_desc *output) {
  const braid_desc *descs[BRAID_SPAN_INPUTS + 1];
  for (int i = 0; i < pass->input_count; i++) {
    init_operand(pass, i);
    descs[i] = &pass->inputs[i].desc;
  }
  descs[pass->input_count] = output;
  braid_dtype result = pass->entry->flags & BRAID_SPAN_BOOL_OUT ? BRAID_BOOL : pass->entry->dtype;
  pass->out_bytes = braid_dtype_size(output->dtype);
  pass->out_span_bytes = braid_dtype_size(result);
  pass->store = output->dtype == result ? NULL : braid_convert_find(result, output->dtype);
  if (!braid_nest_init(&pass->nest, output, descs, pass->input_count + 1)) return false;
  pass->outer = braid_nest_outer(&pass->nest);
  pass->inner = pass->nest.dims[pass->nest.rank - 1];
  pass->direct = !pass->store;
  for (int i = 0; i < pass->input_count; i++) pass->direct &= !needs_buffer(pass, i);
  return true;
}

/* --- running -------------------------------------------------------------------------------------------------------
 */
#define GATHER(T)                                                                                                      \
  for (int64_t i = 0; i < count; i++) ((T *)to)[i] = ((const T *)from)[i * stride]

static void gather(const void *from, int64_t stride, size_t bytes, int64_t count, void *to) {
  switch (bytes) {
  case 1:
    GATHER(uint8_t);
    break;
  case 2:
    GATHER(uint16_t);
    break;
  case 4:
    GATHER(uint32_t);
    break;
  default:
    GATHER(uint64_t);
  }
}

/* `count` elements of a period that begins again and again, from its element `first` on. */
static void repeat(const char *period_of, int64_t period, int64_t first, size_t bytes, int64_t count, char *to) {
  int64_t have = period - first < count ? period - first : count;
  memcpy(to, period_of + first * (int64_t)bytes, (size_t)have * bytes);
  int64_t rest = first < count - have ? first : count - have;
  memcpy(to + have * (int64_t)bytes, period_of, (size_t)rest * bytes);
  for (have += rest; have < count; have += rest) {
    rest = have < count - have ? have : count - have;
    memcpy(to + have * (int64_t)bytes, to, (size_t)rest * bytes);
  }
}

/* One operand of a piece that begins at element `begin` of a row, as the span wants it, in `buffer` where it has to be
 * moved. */
static void load_operand(const braid_pass *pass, int index, const char *at, int64_t begin, int64_t count,
                         double *buffer, braid_span *span) {
  const braid_pass_operand *operand = &pass->inputs[index];
  int64_t stride = pass->nest.strides[index][pass->nest.rank - 1], period = pass->nest.period[index];
  bool repeated = stride == 0;
  span->in[index] = at;
  span->step[index] = repeated ? 0 : 1;
  if (!needs_buffer(pass, index)) return;
  int64_t elements = repeated ? 1 : count;
  if (period) {
    repeat(at, period, begin % period, operand->bytes, count, (char *)buffer);
    at = (const char *)buffer;
  } else if (stride > 1) {
    gather(at, stride, operand->bytes, count, buffer);
    at = (const char *)buffer;
  }
  if (operand->load && at == (const char *)buffer) {
    double raw[kPiece];
    memcpy(raw, buffer, (size_t)elements * operand->bytes);
    operand->load(raw, buffer, elements);
  } else if (operand->load) {
    operand->load(at, buffer, elements);
  } else if (repeated) {
    memcpy(buffer, at, operand->bytes);
  }
  span->in[index] = buffer;
  if (!repeated || is_bound(pass, index) || (pass->input_count > 1 && !(pass->entry->flags & BRAID_SPAN_DENSE))) return;
  double first = buffer[0];
  gather(&first, 0, operand->span_bytes, count, buffer);
  span->step[index] = 1;
}

static void run_piece(const braid_pass *pass, const char *const *at, char *out, int64_t begin, int64_t count) {
  double buffers[BRAID_SPAN_INPUTS][kPiece], result[kPiece];
  braid_span span = {.count = count, .params = pass->params, .out = pass->store ? (void *)result : out};
  for (int i = 0; i < pass->input_count; i++) load_operand(pass, i, at[i], begin, count, buffers[i], &span);
  pass->entry->run(&span);
  if (pass->store) pass->store(result, out, count);
}

static void run_direct(const braid_pass *pass, const char *const *at, char *out, int64_t count) {
  braid_span span = {.count = count, .params = pass->params, .out = out};
  for (int i = 0; i < pass->input_count; i++) {
    span.in[i] = at[i];
    span.step[i] = pass->nest.strides[i][pass->nest.rank - 1];
  }
  pass->entry->run(&span);
}

/* Elements [begin, end) of the innermost loop. */
static void run_row(const braid_pass *pass, const braid_nest_cursor *cursor, const char *const *bases, char *output,
                    int64_t begin, int64_t end) {
  const char *at[BRAID_SPAN_INPUTS] = {NULL};
  int last = pass->nest.rank - 1;
  int64_t step = pass->direct ? end - begin : kPiece;
  for (int64_t i = begin; i < end; i += step) {
    int64_t count = i + step < end ? step : end - i;
    for (int k = 0; k < pass->input_count; k++) {
      int64_t along = pass->nest.period[k] ? 0 : i * pass->nest.strides[k][last];
      at[k] = bases[k] + (cursor->offsets[k] + along) * (int64_t)pass->inputs[k].bytes;
    }
    char *out = output + (cursor->offsets[pass->input_count] + i) * (int64_t)pass->out_bytes;
    if (pass->direct)
      run_direct(pass, at, out, count);
    else
      run_piece(pass, at, out, i, count);
  }
}

void braid_pass_run(const braid_pass *pass, const void *const *inputs, void *output) {
  const char *bases[BRAID_SPAN_INPUTS] = {NULL};
  for (int i = 0; i < pass->input_count; i++) {
    int source = pass->inputs[i].source;
    bases[i] = source == BRAID_PASS_CONSTANT ? (const char *)pass->inputs[i].held
               : source == BRAID_PASS_OUTPUT ? output
                                             : inputs[source];
  }
  int64_t total = pass->outer * pass->inner;
  if (total == 0) return;
  /* a task is a piece of one row, or a number of whole rows */
  int64_t pieces = pass->inner > kGrain ? (pass->inner + kGrain - 1) / kGrain : 1;
  int64_t rows = pass->inner > kGrain ? 1 : kGrain / pass->inner;
  int64_t tasks = (pass->outer + rows - 1) / rows * pieces;
#pragma omp parallel for schedule(static) if (total > kGrain)
  for (int64_t t = 0; t < tasks; t++) {
    int64_t row = t / pieces * rows, end = row + rows < pass->outer ? row + rows : pass->outer;
    int64_t begin = t % pieces * kGrain;
    int64_t stop = pieces == 1 || begin + kGrain > pass->inner ? pass->inner : begin + kGrain;
    braid_nest_cursor cursor;
    braid_nest_seek(&pass->nest, row, &cursor);
    for (; row < end; row++, braid_nest_next(&pass->nest, &cursor)) run_row(pass, &cursor, bases, output, begin, stop);
  }
}
