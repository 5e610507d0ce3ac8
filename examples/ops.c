/* Single ops on buffers, as a framework above the library calls them: y = softmax(relu(x W)). What one op leaves on a
 * device the next takes there; the result goes out as a DLPack tensor and comes back as a buffer. */
#include <stdio.h>

#include <braid/braid.h>

enum { ROWS = 2, INNER = 3, COLUMNS = 4 };

static braid_status make(braid_machine *machine, int64_t rows, int64_t columns, const float *data, braid_buffer **out) {
  braid_desc desc;
  braid_status status = braid_desc_init(&desc, BRAID_F32, 2, (int64_t[]){rows, columns});
  if (status == BRAID_OK) status = braid_buffer_create(machine, "0", &desc, out);
  if (status == BRAID_OK) status = braid_buffer_write(*out, data, braid_desc_bytes(&desc), -1);
  return status;
}

/* *result is NULL before, and made by the call. */
static braid_status apply(braid_machine *machine, const char *op, braid_buffer *first, braid_buffer *second,
                          braid_buffer **result) {
  braid_buffer *inputs[] = {first, second};
  braid_op_call call = {
      .op = op, .inputs = inputs, .input_count = second ? 2 : 1, .outputs = result, .output_count = 1};
  return braid_machine_call(machine, &call);
}

static void tell(void *context, const braid_op_candidate *candidate) {
  (void)context;
  printf("MatMul: %s, %s%s%s\n", candidate->device, candidate->kernel, candidate->why ? ": " : "",
         candidate->why ? candidate->why : "");
}

int main(void) {
  const float x[ROWS * INNER] = {1, 2, 3, 4, 5, 6}, w[INNER * COLUMNS] = {1, 0, 0, -1, 0, 1, 0, -1, 0, 0, 1, -1};
  braid_machine *machine = NULL;
  braid_buffer *buffers[6] = {NULL}; /* x, w, xW, relu, softmax, the same from outside */
  struct DLManagedTensor *tensor;
  float y[ROWS * COLUMNS], sum = 0;
  braid_status status = braid_machine_create(NULL, NULL, &machine);
  if (status == BRAID_OK) status = make(machine, ROWS, INNER, x, &buffers[0]);
  if (status == BRAID_OK) status = make(machine, INNER, COLUMNS, w, &buffers[1]);
  if (status == BRAID_OK) {
    const braid_operand inputs[] = {{.present = true, .desc = *braid_buffer_desc(buffers[0])},
                                    {.present = true, .desc = *braid_buffer_desc(buffers[1])}};
    braid_op_use use = {.op = "MatMul", .inputs = inputs, .input_count = 2};
    status = braid_machine_supports(machine, &use, tell, NULL, NULL);
  }
  if (status == BRAID_OK) status = apply(machine, "MatMul", buffers[0], buffers[1], &buffers[2]);
  if (status == BRAID_OK) status = apply(machine, "Relu", buffers[2], NULL, &buffers[3]);
  if (status == BRAID_OK) status = apply(machine, "Softmax", buffers[3], NULL, &buffers[4]);
  if (status == BRAID_OK) status = braid_buffer_export_dlpack(buffers[4], &tensor); /* PyTorch would take it */
  if (status == BRAID_OK) status = braid_buffer_import_dlpack(machine, tensor, &buffers[5]);
  if (status == BRAID_OK) status = braid_buffer_read(buffers[5], y, sizeof y, -1);
  for (int i = 0; status == BRAID_OK && i < ROWS * COLUMNS; i++) {
    printf("%g%c", (double)y[i], i % COLUMNS == COLUMNS - 1 ? '\n' : ' ');
    sum += y[i];
  }
  if (status == BRAID_OK && (sum < 1.999f || sum > 2.001f))
    status = braid_fail(BRAID_INTERNAL, "the rows sum to %g, expected 2", (double)sum);
  if (status != BRAID_OK) fprintf(stderr, "%s: %s\n", braid_status_text(status), braid_error_detail());
  for (int i = 0; i < 6; i++) braid_buffer_release(buffers[i]);
  braid_machine_release(machine);
  return status != BRAID_OK;
}
