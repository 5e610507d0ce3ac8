#include "overlay/isa/instruction.h"

#include <string.h>

#include "base/try.h"
#include "overlay/isa/stamp.h"

/* --- the table -----------------------------------------------------------------------------------------------------
 */
/* Of arrays of as many bytes as fields have bits, the size is the number of bits. */
#define F(name, bits, less, lowest, highest, text) char name[bits];
#define I(NAME, name, opcode, words, module, text)                                                                     \
  typedef struct name##_bits {                                                                                         \
    BRAID_ISA_HEADER(F) struct { BRAID_ISA_##NAME(F) } own;                                                            \
  } name##_bits;                                                                                                       \
  _Static_assert(sizeof(name##_bits) <= 8 * BRAID_ISA_WORD * (words), #name " fits its words");                        \
  _Static_assert(sizeof(name##_bits) > 8 * BRAID_ISA_WORD * ((words)-1), #name " needs its words");                    \
  _Static_assert((words) <= BRAID_ISA_MOST_WORDS && (opcode) > 0 && (opcode) < 16, #name);
BRAID_ISA_INSTRUCTIONS(I)
#undef I
#undef F

#define F(name, bits, less, lowest, highest, text) {#name, text, bits, less, lowest, highest},
const braid_isa_field braid_isa_header[] = {BRAID_ISA_HEADER(F)};
const size_t braid_isa_header_count = sizeof braid_isa_header / sizeof *braid_isa_header;
#define I(NAME, name, opcode, words, module, text) static const braid_isa_field name##_fields[] = {BRAID_ISA_##NAME(F)};
BRAID_ISA_INSTRUCTIONS(I)
#undef I
#undef F

#define I(NAME, name, opcode, words, module, text)                                                                     \
  {#NAME, text, BRAID_ISA_OP_##NAME, words, module, name##_fields, sizeof name##_fields / sizeof *name##_fields},
static const braid_isa_form kForms[] = {BRAID_ISA_INSTRUCTIONS(I)};
#undef I
enum { kFormCount = sizeof kForms / sizeof *kForms };

const braid_isa_form *braid_isa_form_of(int32_t opcode) {
  for (size_t i = 0; i < kFormCount; i++)
    if ((int32_t)kForms[i].opcode == opcode) return &kForms[i];
  return NULL;
}

/* The fields as numbers. Both parts are structs of int32_t alone, in the table's order. */
static int32_t *header_of(braid_instruction *instruction) {
  return &instruction->opcode;
}

static int32_t *fields_of(braid_instruction *instruction) {
  return (int32_t *)(void *)&instruction->load;
}

static int32_t neutral(const braid_isa_field *field) {
  return field->lowest > 0 ? field->lowest : 0;
}

braid_instruction braid_isa_blank(braid_isa_opcode opcode) {
  braid_instruction made;
  const braid_isa_form *form = braid_isa_form_of((int32_t)opcode);
  memset(&made, 0, sizeof made);
  made.opcode = (int32_t)opcode;
  for (size_t i = 0; form && i < form->count; i++) fields_of(&made)[i] = neutral(&form->fields[i]);
  return made;
}

/* --- words ---------------------------------------------------------------------------------------------------------
 */
static uint32_t get_bits(const uint8_t *words, int at, int bits) {
  uint32_t value = 0;
  for (int i = 0; i < bits; i += 8 - (at + i) % 8) {
    int room = 8 - (at + i) % 8, take = bits - i < room ? bits - i : room;
    value |= (words[(at + i) / 8] >> (at + i) % 8 & ((1u << take) - 1)) << i;
  }
  return value;
}

static braid_status put_fields(const char *name, const braid_isa_field *fields, size_t count, const int32_t *values,
                               braid_isa_stamped *out, int *at) {
  for (size_t i = 0; i < count; i++) {
    const braid_isa_field *field = &fields[i];
    if (values[i] < field->lowest || values[i] > field->highest)
      return braid_fail(BRAID_INVALID_ARGUMENT, "%s: %s is %d; %d to %d are allowed", name, field->name, values[i],
                        field->lowest, field->highest);
    uint64_t mask = ((uint64_t)1 << field->bits) - 1, value = (uint32_t)values[i] - (uint32_t)field->less;
    braid_isa_stamp(out, (size_t)*at, (size_t)field->bits, value & mask);
    *at += field->bits;
  }
  return BRAID_OK;
}

braid_status braid_isa_encode(const braid_instruction *instruction, uint8_t *out, size_t *bytes) {
  braid_instruction copy = *instruction;
  const braid_isa_form *form = braid_isa_form_of(instruction->opcode);
  braid_isa_stamped words = {{0}};
  int at = 0;
  if (!form) return braid_fail(BRAID_INVALID_ARGUMENT, "no instruction has the opcode %d", instruction->opcode);
  *bytes = (size_t)form->words * BRAID_ISA_WORD;
  BRAID_TRY(put_fields(form->name, braid_isa_header, braid_isa_header_count, header_of(&copy), &words, &at));
  BRAID_TRY(put_fields(form->name, form->fields, form->count, fields_of(&copy), &words, &at));
  braid_isa_store(&words, (size_t)form->words, out);
  return BRAID_OK;
}

static braid_status get_fields(const char *name, const braid_isa_field *fields, size_t count, const uint8_t *words,
                               size_t position, int *at, int32_t *values) {
  for (size_t i = 0; i < count; i++) {
    const braid_isa_field *field = &fields[i];
    uint32_t raw = get_bits(words, *at, field->bits);
    int64_t value = raw;
    if (field->lowest < 0 && raw >> (field->bits - 1)) value -= (int64_t)1 << field->bits;
    value += field->less;
    if (value < field->lowest || value > field->highest)
      return braid_fail(BRAID_INVALID_FILE, "byte %zu, %s: %s is %lld; %d to %d are allowed", position, name,
                        field->name, (long long)value, field->lowest, field->highest);
    values[i] = (int32_t)value;
    *at += field->bits;
  }
  return BRAID_OK;
}

braid_status braid_isa_decode(const uint8_t *program, size_t bytes, size_t at, braid_instruction *out, size_t *next) {
  int bit = 0;
  memset(out, 0, sizeof *out);
  if (at > bytes || bytes - at < BRAID_ISA_WORD)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: an instruction has at least %d bytes, %zu are left", at,
                      BRAID_ISA_WORD, at > bytes ? 0 : bytes - at);
  const uint8_t *words = program + at;
  int32_t opcode = (int32_t)get_bits(words, 0, braid_isa_header[0].bits);
  const braid_isa_form *form = braid_isa_form_of(opcode);
  if (!form) return braid_fail(BRAID_INVALID_FILE, "byte %zu: no instruction has the opcode %d", at, opcode);
  size_t size = (size_t)form->words * BRAID_ISA_WORD;
  if (bytes - at < size)
    return braid_fail(BRAID_INVALID_FILE, "byte %zu: %s has %zu bytes, %zu are left", at, form->name, size, bytes - at);
  BRAID_TRY(get_fields(form->name, braid_isa_header, braid_isa_header_count, words, at, &bit, header_of(out)));
  BRAID_TRY(get_fields(form->name, form->fields, form->count, words, at, &bit, fields_of(out)));
  for (; bit < (int)size * 8; bit++)
    if (get_bits(words, bit, 1))
      return braid_fail(BRAID_INVALID_FILE, "byte %zu, %s: bit %d is 1; it has no meaning and must be 0", at,
                        form->name, bit);
  *next = at + size;
  return BRAID_OK;
}

/* --- text ----------------------------------------------------------------------------------------------------------
 */
static void print_mask(const char *name, int32_t mask, braid_text *out) {
  static const char *const kNames[] = {"load", "save", "compute", "side"};
  const char *sign = "=";
  if (!mask) return;
  braid_text_printf(out, " %s", name);
  for (int m = 0; m < BRAID_ISA_MODULES; m++) {
    if (!(mask >> m & 1)) continue;
    braid_text_printf(out, "%s%s", sign, kNames[m]);
    sign = "+";
  }
}

void braid_isa_print(const braid_instruction *instruction, braid_text *out) {
  braid_instruction copy = *instruction;
  const braid_isa_form *form = braid_isa_form_of(instruction->opcode);
  if (!form) {
    braid_text_printf(out, "(opcode %d)", instruction->opcode);
    return;
  }
  braid_text_printf(out, "%-6s core=%d", form->name, instruction->core);
  print_mask("wait", instruction->wait, out);
  print_mask("signal", instruction->signal, out);
  for (size_t i = 0; i < form->count; i++)
    if (fields_of(&copy)[i] != neutral(&form->fields[i]))
      braid_text_printf(out, " %s=%d", form->fields[i].name, fields_of(&copy)[i]);
}

braid_status braid_isa_disassemble(const uint8_t *program, size_t bytes, braid_text *out) {
  for (size_t at = 0; at < bytes;) {
    braid_instruction instruction;
    size_t next;
    BRAID_TRY(braid_isa_decode(program, bytes, at, &instruction, &next));
    braid_text_printf(out, "%8zx  ", at);
    braid_isa_print(&instruction, out);
    braid_text_printf(out, "\n");
    at = next;
  }
  return out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}
