/* Fingerprint of the design (32 bytes), its name, cores; what the dynamic compiler knows of a core; steps, length;
 * after the number of each: sequences, states, cells, inputs, outputs. */
#include "overlay/recurrent/rnn_file.h"

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static void put_core(const braid_rnn_core *core, braid_text *out) {
  put_u32(out, (uint64_t)core->rows);
  put_u32(out, (uint64_t)core->columns);
  put_u32(out, (uint64_t)core->side);
  put_u64(out, (uint64_t)core->weights);
  put_u64(out, (uint64_t)core->biases);
  put_u64(out, (uint64_t)core->vectors);
  put_u64(out, (uint64_t)core->sums);
  put_u32(out, (uint64_t)core->queue);
  put_u32(out, (uint64_t)core->latency);
  put_u32(out, (uint64_t)core->line_parts);
  put_u32(out, (uint64_t)core->piece_cycles);
}

static void put_origin(const braid_rnn_origin *origin, braid_text *out) {
  put_u32(out, origin->cell);
  put_u32(out, (uint64_t)origin->index);
  put_u32(out, (uint64_t)origin->part);
}

static void put_vector(const char *name, int32_t parts, int32_t part, int32_t exponent, bool input, braid_text *out) {
  put_text(out, name);
  put_u32(out, (uint64_t)parts);
  put_u32(out, (uint64_t)part);
  put_u32(out, (uint32_t)exponent);
  put_u32(out, input);
}

static void put_rnn_ports(const braid_rnn_port *ports, size_t count, braid_text *out) {
  put_u32(out, count);
  for (size_t i = 0; i < count; i++) {
    put_text(out, ports[i].name);
    put_u32(out, (uint64_t)ports[i].kind);
    put_u32(out, (uint64_t)ports[i].index);
  }
}

void braid_rnn_put_tables(const braid_package *package, braid_text *out) {
  const braid_rnn *rnn = package->rnn;
  braid_text_add_bytes(out, package->design, sizeof package->design);
  put_text(out, package->design_name);
  put_u32(out, (uint64_t)package->cores);
  put_core(&rnn->core, out);
  put_u32(out, (uint64_t)rnn->steps);
  put_u32(out, (uint64_t)rnn->length);
  put_u32(out, rnn->sequence_count);
  for (size_t i = 0; i < rnn->sequence_count; i++) {
    const braid_rnn_sequence *q = &rnn->sequences[i];
    put_vector(q->name, q->parts, q->part, q->exponent, q->input, out);
  }
  put_u32(out, rnn->state_count);
  for (size_t i = 0; i < rnn->state_count; i++) {
    const braid_rnn_state *s = &rnn->states[i];
    put_vector(s->name, s->parts, s->part, s->exponent, s->input, out);
  }
  put_u32(out, rnn->cell_count);
  for (size_t i = 0; i < rnn->cell_count; i++) {
    const braid_rnn_cell *cell = &rnn->cells[i];
    put_text(out, cell->name);
    put_u32(out, (uint64_t)cell->source);
    put_u32(out, (uint64_t)cell->into);
    put_u32(out, (uint64_t)cell->part);
    put_u32(out, (uint64_t)cell->hidden);
    put_u32(out, (uint64_t)cell->shift);
    put_u32(out, cell->backwards);
    put_origin(&cell->h, out);
    put_origin(&cell->c, out);
  }
  put_rnn_ports(rnn->inputs, rnn->input_count, out);
  put_rnn_ports(rnn->outputs, rnn->output_count, out);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
enum { kMostIndex = 1 << 20, kMostNumber = 1 << 24 };

static braid_status get_flag(braid_bytes *in, const char *what, bool *out) {
  uint32_t word = 0;
  BRAID_TRY(get_u32(in, what, 0, 1, &word));
  *out = word == 1;
  return BRAID_OK;
}

/* A number of at least `least`. */
static braid_status get_count(braid_bytes *in, const char *what, int32_t least, int32_t *out) {
  return get_i32(in, what, least, kMostNumber, out);
}

static braid_status get_core(braid_bytes *in, braid_rnn_core *core) {
  BRAID_TRY(get_i32(in, "rows of a core", 1, 1024, &core->rows));
  BRAID_TRY(get_i32(in, "columns of a core", 1, 1024, &core->columns));
  BRAID_TRY(get_i32(in, "numbers of ELE", 1, 65536, &core->side));
  BRAID_TRY(get_i64(in, "lines of weights", 1 << 20, &core->weights));
  BRAID_TRY(get_i64(in, "lines of biases", 1 << 16, &core->biases));
  BRAID_TRY(get_i64(in, "lines of vectors", 1 << 14, &core->vectors));
  BRAID_TRY(get_i64(in, "bytes of sums", 1 << 24, &core->sums));
  BRAID_TRY(get_count(in, "queues", 1, &core->queue));
  BRAID_TRY(get_count(in, "latency", 0, &core->latency));
  BRAID_TRY(get_count(in, "the time of a line", 1, &core->line_parts));
  return get_count(in, "cycles of a piece", 1, &core->piece_cycles);
}

static braid_status get_vector(braid_bytes *in, const char **name, int32_t *parts, int32_t *part, int32_t *exponent,
                               bool *input) {
  uint32_t raw = 0;
  BRAID_TRY(get_text(in, "a name", name));
  BRAID_TRY(get_count(in, "parts", 1, parts));
  BRAID_TRY(get_count(in, "numbers of a part", 1, part));
  BRAID_TRY(get_u32(in, "an exponent", 0, UINT32_MAX, &raw));
  *exponent = (int32_t)raw;
  if (*exponent < -200 || *exponent > 200)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu of the tables: the exponent %d; -200 to 200 are allowed", in->at,
                      *exponent);
  return get_flag(in, "whether it is an input", input);
}

static braid_status get_origin(braid_bytes *in, braid_rnn_origin *origin) {
  BRAID_TRY(get_flag(in, "an origin", &origin->cell));
  BRAID_TRY(get_i32(in, "the index of an origin", 0, kMostIndex, &origin->index));
  return get_i32(in, "the part of an origin", 0, kMostIndex, &origin->part);
}

static braid_status get_cells(braid_bytes *in, braid_rnn *rnn) {
  void *items;
  BRAID_TRY(get_items(in, "cells", 52, sizeof *rnn->cells, BRAID_RNN_MOST_ITEMS, &items, &rnn->cell_count));
  rnn->cells = items;
  for (size_t i = 0; i < rnn->cell_count; i++) {
    braid_rnn_cell *cell = &rnn->cells[i];
    BRAID_TRY(get_text(in, "the name of a cell", &cell->name));
    BRAID_TRY(get_i32(in, "a source", 0, kMostIndex, &cell->source));
    BRAID_TRY(get_i32(in, "a destination", 0, kMostIndex, &cell->into));
    BRAID_TRY(get_i32(in, "a part", 0, kMostIndex, &cell->part));
    BRAID_TRY(get_count(in, "hidden states", 1, &cell->hidden));
    BRAID_TRY(get_i32(in, "a shift", 0, 63, &cell->shift));
    BRAID_TRY(get_flag(in, "a direction", &cell->backwards));
    BRAID_TRY(get_origin(in, &cell->h));
    BRAID_TRY(get_origin(in, &cell->c));
  }
  return BRAID_OK;
}

static braid_status get_rnn_ports(braid_bytes *in, braid_rnn_port **ports, size_t *count) {
  void *items;
  BRAID_TRY(get_items(in, "ports", 12, sizeof **ports, BRAID_RNN_MOST_ITEMS, &items, count));
  *ports = items;
  for (size_t i = 0; i < *count; i++) {
    uint32_t kind = 0;
    BRAID_TRY(get_text(in, "the name of a port", &(*ports)[i].name));
    BRAID_TRY(get_u32(in, "the kind of a port", 0, BRAID_RNN_PORT_KINDS - 1, &kind));
    (*ports)[i].kind = (braid_rnn_port_kind)kind;
    BRAID_TRY(get_i32(in, "the index of a port", 0, kMostIndex, &(*ports)[i].index));
  }
  return BRAID_OK;
}

static braid_status get_network(braid_bytes *in, braid_rnn *rnn) {
  void *items;
  BRAID_TRY(get_core(in, &rnn->core));
  BRAID_TRY(get_count(in, "steps", 1, &rnn->steps));
  BRAID_TRY(get_count(in, "the length", 1, &rnn->length));
  BRAID_TRY(get_items(in, "sequences", 20, sizeof *rnn->sequences, BRAID_RNN_MOST_ITEMS, &items, &rnn->sequence_count));
  rnn->sequences = items;
  for (size_t i = 0; i < rnn->sequence_count; i++) {
    braid_rnn_sequence *q = &rnn->sequences[i];
    BRAID_TRY(get_vector(in, &q->name, &q->parts, &q->part, &q->exponent, &q->input));
  }
  BRAID_TRY(get_items(in, "states", 20, sizeof *rnn->states, BRAID_RNN_MOST_ITEMS, &items, &rnn->state_count));
  rnn->states = items;
  for (size_t i = 0; i < rnn->state_count; i++) {
    braid_rnn_state *s = &rnn->states[i];
    BRAID_TRY(get_vector(in, &s->name, &s->parts, &s->part, &s->exponent, &s->input));
  }
  BRAID_TRY(get_cells(in, rnn));
  BRAID_TRY(get_rnn_ports(in, &rnn->inputs, &rnn->input_count));
  return get_rnn_ports(in, &rnn->outputs, &rnn->output_count);
}

braid_status braid_rnn_get_tables(braid_bytes *in, const uint8_t *constants, braid_package *package) {
  int64_t expected = package->bytes[BRAID_SEGMENT_CONSTANTS];
  braid_rnn *rnn = braid_arena_alloc(in->arena, sizeof *rnn);
  if (!rnn) return BRAID_NO_MEMORY;
  if (package->instruction_bytes)
    return braid_fail(BRAID_INVALID_FILE, "a recurrent network with %zu bytes of instructions",
                      package->instruction_bytes);
  if (in->count < BRAID_SHA256_BYTES)
    return braid_fail(BRAID_INVALID_FILE, "the tables have only %zu bytes", in->count);
  memcpy(package->design, in->data, BRAID_SHA256_BYTES);
  in->at = BRAID_SHA256_BYTES;
  BRAID_TRY(get_text(in, "the name of the design", &package->design_name));
  BRAID_TRY(get_i32(in, "cores", 1, BRAID_OVERLAY_MOST_CORES, &package->cores));
  BRAID_TRY(get_network(in, rnn));
  if (in->at != in->count) return braid_fail(BRAID_INVALID_FILE, "%zu bytes follow the tables", in->count - in->at);
  BRAID_TRY(braid_rnn_lay_out(rnn, package->bytes));
  if (package->bytes[BRAID_SEGMENT_CONSTANTS] != expected)
    return braid_fail(BRAID_INVALID_FILE, "%lld bytes of constants; the tables need %lld", (long long)expected,
                      (long long)package->bytes[BRAID_SEGMENT_CONSTANTS]);
  uint8_t *copy = braid_arena_alloc(in->arena, (size_t)expected + 1);
  if (!copy) return BRAID_NO_MEMORY;
  memcpy(copy, constants, (size_t)expected);
  package->constants = copy;
  package->rnn = rnn;
  return BRAID_OK;
}
