/* braid call --batch: the rows of arrays, launched a few at a time over several daemons, and put together again. */
#include <stdlib.h>
#include <string.h>

#include "call.h"

/* What is launched, and what has come back. */
typedef struct batch {
  const call_options *o;
  cli_call_state l;
  int64_t rows, at_once;                           /* of the inputs; of a launch */
  braid_client_tensor inputs[CLI_MAX_ASSIGNMENTS]; /* of the launch that is given now */
  braid_client_tensor outputs[BRAID_CLIENT_MAX_TENSORS];
  char names[BRAID_CLIENT_MAX_TENSORS][128];
  size_t output_count, row_bytes[BRAID_CLIENT_MAX_TENSORS];
  char wrong[256]; /* why a result is not taken; "": nothing */
  char *text;      /* the addresses, cut at commas */
  const char *addresses[CLI_CALL_ADDRESSES];
  size_t address_count;
  char unreached[CLI_CALL_ADDRESSES][BRAID_CLIENT_SENTENCE]; /* why; "": it was */
} batch;

static int64_t rows_of(const batch *b, size_t index) {
  int64_t left = b->rows - (int64_t)index * b->at_once;
  return left < b->at_once ? left : b->at_once;
}

static bool give_rows(void *context, size_t index, braid_client_launch_options *out) {
  batch *b = context;
  *out = b->l.options;
  for (size_t i = 0; i < b->l.options.input_count; i++) {
    const braid_client_tensor *all = &b->l.inputs[i];
    size_t bytes = all->bytes / (size_t)b->rows;
    b->inputs[i] = *all;
    b->inputs[i].dims[0] = rows_of(b, index);
    b->inputs[i].data = (const char *)all->data + index * (size_t)b->at_once * bytes;
    b->inputs[i].bytes = bytes * (size_t)rows_of(b, index);
  }
  out->inputs = b->inputs;
  return true;
}

/* Memory for all rows of an output, by its first ones. */
static bool begin_output(batch *b, const braid_client_tensor *first, int64_t rows) {
  size_t at = b->output_count;
  braid_client_tensor *all = &b->outputs[at];
  if (first->rank < 1 || first->dims[0] != rows) {
    snprintf(b->wrong, sizeof b->wrong, "output %.100s has no row for each row of the inputs", first->name);
    return false;
  }
  *all = *first;
  snprintf(b->names[at], sizeof b->names[at], "%s", first->name);
  all->name = b->names[at];
  all->dims[0] = b->rows;
  b->row_bytes[at] = first->bytes / (size_t)rows;
  bool fits = !__builtin_mul_overflow(b->row_bytes[at], (size_t)b->rows, &all->bytes);
  all->data = fits ? malloc(all->bytes ? all->bytes : 1) : NULL;
  if (!all->data) {
    snprintf(b->wrong, sizeof b->wrong, "no memory for output %.100s", first->name);
    return false;
  }
  b->output_count++;
  return true;
}

static bool same_rows(const batch *b, size_t at, const braid_client_tensor *output, int64_t rows) {
  const braid_client_tensor *all = &b->outputs[at];
  bool same = strcmp(all->name, output->name) == 0 && all->dtype == output->dtype && all->rank == output->rank &&
              output->dims[0] == rows && output->bytes == b->row_bytes[at] * (size_t)rows;
  for (int k = 1; same && k < all->rank; k++) same = all->dims[k] == output->dims[k];
  return same;
}

static bool take_rows(void *context, size_t index, const braid_client_call *call) {
  batch *b = context;
  size_t count;
  const braid_client_tensor *outputs = braid_client_outputs(call, &count);
  int64_t rows = rows_of(b, index);
  for (size_t i = 0; index == 0 && i < count; i++)
    if (!begin_output(b, &outputs[i], rows)) return false;
  bool same = count == b->output_count;
  for (size_t i = 0; i < count && same; i++) same = same_rows(b, i, &outputs[i], rows);
  if (!same) {
    snprintf(b->wrong, sizeof b->wrong, "launch %zu has outputs of other shapes than the first", index);
    return false;
  }
  for (size_t i = 0; i < count; i++)
    if (outputs[i].bytes)
      memcpy((char *)b->outputs[i].data + index * (size_t)b->at_once * b->row_bytes[i], outputs[i].data,
             outputs[i].bytes);
  return true;
}

/* --- the command ---------------------------------------------------------------------------------------------------
 */
static braid_status cut_addresses(batch *b) {
  b->text = strdup(b->o->address);
  if (!b->text) return cli_no_memory();
  for (char *at = b->text; at; b->address_count++) {
    if (b->address_count == CLI_CALL_ADDRESSES)
      return braid_fail(BRAID_INVALID_ARGUMENT, "up to %d addresses are expected", CLI_CALL_ADDRESSES);
    b->addresses[b->address_count] = at;
    at = strchr(at, ',');
    if (at) *at++ = '\0';
  }
  return BRAID_OK;
}

/* From the first daemon that answers within a second, or at all. */
static braid_status describe_model(batch *b, const braid_client_options *connection) {
  enum { FIRST_MS = 1000 };
  braid_client_options first = *connection;
  if (first.connect_ms > FIRST_MS) first.connect_ms = FIRST_MS;
  braid_client_status status = BRAID_CLIENT_LOST;
  for (size_t i = 0; i < 2 * b->address_count && status != BRAID_CLIENT_OK; i++)
    status = braid_client_connect(b->addresses[i % b->address_count], i < b->address_count ? &first : connection,
                                  &b->l.client);
  if (status != BRAID_CLIENT_OK) return cli_call_status(status);
  return cli_call_find_model(b->o, &b->l);
}

static braid_status read_rows(batch *b) {
  braid_status status = BRAID_OK;
  for (size_t i = 0; i < b->o->inputs.count && status == BRAID_OK; i++)
    status = cli_call_read_input(&b->l, b->o->inputs.names[i], b->o->inputs.values[i]);
  if (status != BRAID_OK) return status;
  for (size_t i = 0; i < b->l.options.input_count; i++) {
    const braid_client_tensor *input = &b->l.inputs[i];
    if (input->rank < 1 || input->dims[0] < 1)
      return braid_fail(BRAID_INVALID_ARGUMENT, "--batch: input %s has no rows", input->name);
    if (i && input->dims[0] != b->rows)
      return braid_fail(BRAID_INVALID_ARGUMENT, "--batch: input %s has %lld rows, and input %s has %lld", input->name,
                        (long long)input->dims[0], b->l.inputs[0].name, (long long)b->rows);
    b->rows = input->dims[0];
  }
  if (!b->rows) return braid_fail(BRAID_INVALID_ARGUMENT, "--batch: rows of inputs are expected");
  b->at_once = b->o->batch < b->rows ? b->o->batch : b->rows;
  return BRAID_OK;
}

static braid_status show_batch(const batch *b, size_t launches, const size_t *answered, size_t retried) {
  FILE *file = cli_call_writes_output(b->o) ? stderr : stdout;
  cli_json document, *json = b->o->common.json ? &document : NULL;
  braid_status status = BRAID_OK;
  if (json && !cli_json_begin(json)) return cli_no_memory();
  if (json) {
    cli_json_string(json, "model", b->o->model);
    cli_json_integer(json, "rows", b->rows);
    cli_json_integer(json, "launches", (int64_t)launches);
    cli_json_integer(json, "launched_again", (int64_t)retried);
    cli_json_array(json, "daemons");
  } else {
    fprintf(file, "%lld rows in %zu launches, %zu launched again;", (long long)b->rows, launches, retried);
  }
  for (size_t i = 0; i < b->address_count; i++) {
    if (!json) {
      fprintf(file, "%s %s: %zu", i ? "," : "", b->addresses[i], answered[i]);
      continue;
    }
    cli_json_object(json, NULL);
    cli_json_string(json, "address", b->addresses[i]);
    cli_json_integer(json, "launches", (int64_t)answered[i]);
    cli_json_close(json, '}');
  }
  if (json) {
    cli_json_close(json, ']');
    cli_json_array(json, "outputs");
  } else {
    fputc('\n', file);
  }
  for (size_t i = 0; i < b->output_count && status == BRAID_OK; i++)
    status = cli_call_show_output(file, json, &b->outputs[i]);
  if (json) cli_json_close(json, ']');
  if (json && status == BRAID_OK && !cli_json_end(json))
    return braid_fail(BRAID_IO, "standard output cannot be written");
  if (json && status != BRAID_OK) cli_json_discard(json);
  return status;
}

static braid_status spread_rows(batch *b, const braid_client_options *connection) {
  size_t answered[CLI_CALL_ADDRESSES], retried;
  braid_client_spread_options options = {.addresses = b->addresses,
                                         .address_count = b->address_count,
                                         .connection = connection,
                                         .lost_ms = b->o->timeout_ms,
                                         .unreached = b->unreached};
  braid_client_work work = {
      .count = (size_t)((b->rows + b->at_once - 1) / b->at_once), .give = give_rows, .take = take_rows, .context = b};
  b->l.options.deadline_us = b->o->deadline_us;
  b->l.options.priority = b->o->priority;
  braid_client_status status = braid_client_spread(&options, &work, answered, &retried);
  for (size_t i = 0; i < b->address_count; i++)
    if (b->unreached[i][0])
      braid_log_write(cli_log(), BRAID_LOG_WARNING, "--batch: a daemon was never reached: %s", b->unreached[i]);
  if (b->wrong[0]) return braid_fail(BRAID_INVALID_ARGUMENT, "--batch: %s", b->wrong);
  if (status != BRAID_CLIENT_OK) return cli_call_status(status);
  braid_status saved = cli_call_save_outputs(b->o, b->outputs, b->output_count);
  return saved == BRAID_OK ? show_batch(b, work.count, answered, retried) : saved;
}

braid_status cli_call_batch(const call_options *o, const braid_client_options *connection) {
  batch *b = calloc(1, sizeof *b);
  if (!b) return cli_no_memory();
  b->o = o;
  braid_status status = cut_addresses(b);
  if (status == BRAID_OK) status = describe_model(b, connection);
  if (status == BRAID_OK) status = read_rows(b);
  braid_client_close(b->l.client); /* the daemon may hang before the end */
  b->l.client = NULL;
  if (status == BRAID_OK) status = spread_rows(b, connection);
  for (size_t i = 0; i < b->output_count; i++) free((void *)b->outputs[i].data);
  for (size_t i = 0; i < CLI_MAX_ASSIGNMENTS; i++) braid_tensor_release(b->l.arrays[i]);
  free(b->l.model);
  free(b->text);
  free(b);
  return status;
}
