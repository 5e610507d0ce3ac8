/* Instructions go into words and back; words that are no instruction are refused with the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "overlay/isa/instruction.h"

enum { kTrials = 20000, kMostBytes = BRAID_ISA_MOST_WORDS * BRAID_ISA_WORD };
static uint64_t drawn;

static uint32_t draw(void) {
  return braid_random_u32(20260, 0, 0, drawn++);
}

/* Between the bounds, which themselves are likely. */
static int32_t draw_value(const braid_isa_field *field) {
  uint32_t r = draw();
  if (r % 8 == 0) return field->lowest;
  if (r % 8 == 1) return field->highest;
  return (int32_t)(field->lowest + (int64_t)(draw() % (uint32_t)(field->highest - field->lowest + 1)));
}

static int32_t *value_of(braid_instruction *in, size_t index) {
  if (index < braid_isa_header_count) return &in->opcode + index;
  return (int32_t *)(void *)&in->load + (index - braid_isa_header_count);
}

static const braid_isa_field *field_of(const braid_isa_form *form, size_t index) {
  return index < braid_isa_header_count ? &braid_isa_header[index] : &form->fields[index - braid_isa_header_count];
}

static braid_instruction draw_instruction(const braid_isa_form **form) {
  braid_instruction in;
  memset(&in, 0, sizeof in);
  *form = braid_isa_form_of((int32_t)(1 + draw() % 7));
  assert_non_null(*form);
  for (size_t i = 1; i < braid_isa_header_count + (*form)->count; i++)
    *value_of(&in, i) = draw_value(field_of(*form, i));
  in.opcode = (int32_t)(*form)->opcode;
  return in;
}

static void test_round_trip(void **state) {
  (void)state;
  for (int trial = 0; trial < kTrials; trial++) {
    const braid_isa_form *form;
    braid_instruction in = draw_instruction(&form), out;
    uint8_t words[kMostBytes];
    size_t bytes, next;
    memset(words, 0xff, sizeof words); /* nothing that was there stays */
    assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_OK);
    assert_int_equal(bytes, (size_t)form->words * BRAID_ISA_WORD);
    assert_int_equal(braid_isa_decode(words, bytes, 0, &out, &next), BRAID_OK);
    assert_int_equal(next, bytes);
    for (size_t i = 0; i < braid_isa_header_count + form->count; i++)
      if (*value_of(&in, i) != *value_of(&out, i))
        fail_msg("%s: %s was %d and is %d", form->name, field_of(form, i)->name, *value_of(&in, i), *value_of(&out, i));
    if (bytes > BRAID_ISA_WORD)
      assert_int_equal(braid_isa_decode(words, bytes - 1, 0, &out, &next), BRAID_INVALID_FILE);
  }
}

/* Each field stands where the sizes of those before it put it: read bit by bit, without the decoder. */
static void test_positions(void **state) {
  (void)state;
  for (int trial = 0; trial < kTrials; trial++) {
    const braid_isa_form *form;
    braid_instruction in = draw_instruction(&form);
    uint8_t words[kMostBytes];
    size_t bytes;
    int at = 0;
    assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_OK);
    for (size_t i = 0; i < braid_isa_header_count + form->count; i++) {
      const braid_isa_field *field = field_of(form, i);
      int64_t stored = 0;
      for (int bit = 0; bit < field->bits; bit++, at++) stored |= (int64_t)(words[at / 8] >> at % 8 & 1) << bit;
      if (field->lowest < 0 && stored >> (field->bits - 1)) stored -= (int64_t)1 << field->bits;
      assert_int_equal(stored + field->less, *value_of(&in, i));
    }
    assert_true(at <= form->words * 8 * BRAID_ISA_WORD);
  }
}

/* Random words: what is taken encodes to the same words. */
static void test_random_words(void **state) {
  (void)state;
  size_t taken = 0, refused = 0;
  for (int trial = 0; trial < 10 * kTrials; trial++) {
    uint8_t words[kMostBytes], again[kMostBytes];
    braid_instruction out;
    size_t next, bytes;
    for (size_t i = 0; i < sizeof words; i += 4) {
      uint32_t r = draw();
      memcpy(words + i, &r, 4);
    }
    if (trial % 2) memset(words + 8, 0, sizeof words - 8); /* else bits without a meaning are nearly always set */
    if (braid_isa_decode(words, sizeof words, 0, &out, &next) != BRAID_OK) {
      assert_non_null(strstr(braid_error_detail(), "byte 0"));
      refused++;
      continue;
    }
    taken++;
    assert_int_equal(braid_isa_encode(&out, again, &bytes), BRAID_OK);
    assert_int_equal(bytes, next);
    assert_memory_equal(words, again, bytes);
  }
  assert_true(taken > 1000 && refused > 1000);
}

static void expect_refused(const uint8_t *words, size_t bytes, const char *detail) {
  braid_instruction out;
  size_t next;
  assert_int_equal(braid_isa_decode(words, bytes, 0, &out, &next), BRAID_INVALID_FILE);
  if (!strstr(braid_error_detail(), detail)) fail_msg("%s, expected %s", braid_error_detail(), detail);
}

static void test_refused(void **state) {
  (void)state;
  uint8_t words[kMostBytes] = {0};
  size_t bytes;
  expect_refused(words, sizeof words, "no instruction has the opcode 0");
  expect_refused(words, 3, "an instruction has at least 16 bytes, 3 are left");
  words[0] = 9;
  expect_refused(words, sizeof words, "no instruction has the opcode 9");
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_ELE);
  assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_OK);
  words[2] |= 7 << 2; /* the function, behind 18 bits of the header */
  expect_refused(words, bytes, "byte 0, ELE: function is 7; 0 to 4 are allowed");
  in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_OK);
  words[15] = 0x80;
  expect_refused(words, bytes, "bit 127 is 1; it has no meaning");
  in = braid_isa_blank(BRAID_ISA_OP_CONV);
  in.conv.channels_out = 8193;
  assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_INVALID_ARGUMENT);
  assert_string_equal(braid_error_detail(), "CONV: channels_out is 8193; 1 to 8192 are allowed");
  in.opcode = 12;
  assert_int_equal(braid_isa_encode(&in, words, &bytes), BRAID_INVALID_ARGUMENT);
}

static void test_text(void **state) {
  (void)state;
  uint8_t program[4 * kMostBytes];
  size_t bytes, used = 0;
  braid_instruction in = braid_isa_blank(BRAID_ISA_OP_LOAD);
  in.core = 3;
  in.signal = 1 << BRAID_ISA_COMPUTE | 1 << BRAID_ISA_SIDE;
  in.load.memory = BRAID_ISA_WEIGHTS;
  in.load.ddr = 1000;
  assert_int_equal(braid_isa_encode(&in, program, &bytes), BRAID_OK);
  used += bytes;
  in = braid_isa_blank(BRAID_ISA_OP_CONV);
  in.wait = 1 << BRAID_ISA_IN;
  in.conv.first_row = -1;
  in.conv.low = 0;
  in.conv.high = 127;
  assert_int_equal(braid_isa_encode(&in, program + used, &bytes), BRAID_OK);
  used += bytes;
  in = braid_isa_blank(BRAID_ISA_OP_SYSTEM);
  in.system.end = 1;
  assert_int_equal(braid_isa_encode(&in, program + used, &bytes), BRAID_OK);
  used += bytes;
  braid_text text;
  braid_text_init(&text, NULL);
  assert_int_equal(braid_isa_disassemble(program, used, &text), BRAID_OK);
  assert_string_equal(text.data, "       0  LOAD   core=3 signal=compute+side memory=1 ddr=1000\n"
                                 "      20  CONV   core=0 wait=load first_row=-1 high=127\n"
                                 "      50  SYSTEM core=0 end=1\n");
  program[used - 1] = 1;
  assert_int_equal(braid_isa_disassemble(program, used, &text), BRAID_INVALID_FILE);
  assert_non_null(strstr(braid_error_detail(), "byte 80, SYSTEM"));
  braid_text_deinit(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_positions),
                                     cmocka_unit_test(test_random_words), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
