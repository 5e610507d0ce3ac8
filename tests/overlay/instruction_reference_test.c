/* docs/isa.md is generated from the table of fields, and is current. `instruction_reference_test FILE` writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/file.h"
#include "overlay/isa/instruction.h"

static const char *const kParts[] = {
    "# Instructions of the overlay\n"
    "The overlay is an accelerator that runs networks by instructions: a pool of cores, each with modules that work "
    "side\n"
    "by side, and nothing of a network in its hardware. After \"A Unified FPGA Virtualization Framework for\n"
    "General-Purpose Deep Neural Networks in the Cloud\" (Zeng et al. 2021), which names the instructions (sections "
    "2.3,\n"
    "2.4, 4.1); fields and encoding are ours. This page is generated from `src/overlay/isa/fields.h` by\n"
    "`build/tests/instruction_reference_test docs/isa.md`; a test compares the two.\n"
    "\n"
    "## A core\n"
    "| module | runs |\n| --- | --- |\n"
    "| load | LOAD: from DDR to the memories of the core |\n"
    "| save | SAVE: back |\n"
    "| compute | CONV of a core for convolutional networks, MVM of one for recurrent ones |\n"
    "| side | MISC, ELE |\n"
    "| dispatch | hands each module its instructions in their order; runs SYSTEM itself |\n"
    "\n"
    "A module runs its instructions one after the other, in their order; different modules run side by side. What "
    "they\n"
    "have to wait for each other is in the instructions: for each ordered pair of modules there is a count of tokens, "
    "0 at\n"
    "first. Before an instruction starts it takes one token from each module in `wait` (of that module, for its own); "
    "when\n"
    "it is done it gives one to each module in `signal`. A count goes to 255; more is an error of the program, and so "
    "is a\n"
    "wait for or a signal to the module itself. SYSTEM waits until every module of its core has nothing left and "
    "starts\n"
    "nothing meanwhile; counts must be 0 then, and so must its own `wait` and `signal`. With `tile` alone it waits "
    "for\n"
    "nothing and orders nothing. An instruction that has to wait for tokens stays in its module's queue; one whose "
    "queue\n"
    "is full holds up those behind it, whatever their module.\n"
    "\n"
    "An instruction writes no line twice, and none that it reads. Only what belongs to the same place of the result "
    "may "
    "lie\n"
    "where the result goes: the map that CONV adds, the maps of a MISC sum or copy, the vectors of ELE. Two "
    "instructions "
    "of\n"
    "which one writes what the other reads or writes are in an order that tokens, SYSTEM or `sync` make: else what "
    "happens\n"
    "is undefined within the memories of the tenant.\n"
    "\n"
    "Memories are counted in *lines* of 16 bytes, the width of a port. The *feature* memory holds maps: planes of 16\n"
    "channels, in them rows, in them columns; a line is 16 channels (int8) of one column, of which those that a map "
    "lacks\n"
    "are 0. A map lies in DDR in the same way. *Weights* and *biases* (int32, four to a line) have memories of their "
    "own.\n"
    "Cores for recurrent networks have weights, biases and *vectors* (int16, eight to a line); the memory of vectors "
    "is\n"
    "one for all cores of a tenant.\n"
    "\n"
    "An address in DDR is a field plus one of eight base registers of the tenant, so that a program does not know "
    "where\n"
    "it lies. What the sum leaves the tenant's range with is not done, and is an error of the tenant; so is a SAVE to "
    "a "
    "range\n"
    "that it may only read. Memories on the chip are 0 when a task begins.\n"
    "\n",
    "## Numbers\n"
    "`round(x, s)` is x / 2^s rounded to the nearest integer, a half to the even one; `clip` is to `low` .. `high`, "
    "`int8`\n"
    "to -128 .. 127, `int16` to -32768 .. 32767. A `low` above `high` is an error.\n"
    "\n"
    "**CONV**. Row r, column x and channel c of the result have the sum over the window's taps (i, k) and channels n "
    "of\n"
    "`input[n][first_row + r * stride_rows + i * dilation_rows][first_column + x * stride_columns + k * "
    "dilation_columns]`\n"
    "times `weight[c][n][i][k]`, where what lies outside of `input_rows` and `input_columns` counts as 0; with "
    "`depthwise`\n"
    "n is c alone. Sums wrap at 32 bits; compilers see to it that they do not. With `start` the bias of c comes first, "
    "else\n"
    "the sum that the CONV before it left for r, x, c: it must have had the same rows, columns and channels and no "
    "`finish`.\n"
    "Sums that are left are taken by the next CONV: one with `start`, a `tile` or an `end` before that is an error. "
    "They "
    "take\n"
    "4 bytes for each row, column and channel, channels filled to groups of OCP, of the memory for sums. With "
    "`depthwise`,\n"
    "`channels_in` equals `channels_out`. With `finish` the result is\n"
    "\n"
    "| | |\n| --- | --- |\n"
    "| without `residual` | clip(round(sum, shift)) |\n"
    "| `residual` and `round_first` | clip(round(int8(round(sum, shift)) * 2^sum_left + addend * 2^addend_left, "
    "add_shift)) |\n"
    "| `residual` alone | clip(round(sum * 2^sum_left + addend * 2^addend_left, shift)) |\n"
    "\n"
    "in numbers that do not wrap; with `half_up`, round(sum, shift) and the round of `residual` alone take a half up.\n"
    "Channels of the result from `channels_out` up to a multiple of 16 are 0.\n"
    "Weights lie by groups of OCP channels of the result, in them rows and columns of the window, in them groups of "
    "ICP\n"
    "channels of the input, in them OCP times ICP bytes, the channel of the input running fastest; what a last group "
    "lacks\n"
    "is 0. Depthwise ones lie by groups of OCP channels, rows, columns, OCP bytes. It takes as many cycles as there "
    "are\n"
    "groups of channels out, columns of the result, taps and groups of channels in (with `depthwise` one), multiplied\n"
    "(equation 5): PP rows, ICP and OCP channels are computed at once.\n"
    "\n",
    "**MISC** is done for `groups` planes, with windows as above. Greatest: of what lies inside the map, of nothing "
    "-128;\n"
    "mean: the sum, where outside counts as 0, divided by `divisor`; copy: what lies under the window's first tap, "
    "outside\n"
    "0; sum: the same of two maps. With v for it, the result is clip(round(v * 2^left, shift)), for the sum "
    "clip(round(v *\n"
    "2^left + addend * 2^addend_left, shift)); the mean is rounded once, after shift and division together. The second "
    "map\n"
    "has the form and pitches of the result. With `half_up` that round takes a half up.\n"
    "\n"
    "**MVM**. Number r is `int16(round(sum, shift))`, the sum over columns of matrix times vector, by `start` and "
    "`finish`\n"
    "as for CONV, in 48 bits that wrap; sums that are left take 6 bytes for each row, rows filled to groups of HP. "
    "What the\n"
    "last line of a result has behind the last number becomes 0, here and with ELE. Weights (int16) lie by groups of "
    "HP\n"
    "rows, in them groups of WP columns, in them HP times WP numbers, the column running fastest; the last groups are "
    "filled\n"
    "with 0. Groups of rows times groups of columns are its cycles.\n"
    "\n"
    "**ELE**. Sum: int16(round(a * 2^left + b * 2^addend_left, shift)); product: int16(round(a * b * 2^left, shift)); "
    "copy:\n"
    "int16(round(a * 2^left, shift)). Sigmoid and tanh take numbers with 11 bits behind the point and give numbers "
    "with 15,\n"
    "of which those above 32767 / 2^15 are 32767; `shift` and `left` are not used. T[i] is tanh(i / 64) * 2^15 rounded "
    "to "
    "the\n"
    "nearest integer, at most 32767, for i in 0 .. 512, and T(p), for p in 0 .. 32768, is T[p / 64] * (64 - p mod 64) "
    "+\n"
    "T[p / 64 + 1] * (p mod 64), linear between them. For a of 0 or more tanh is round(T(min(2 * a, 32768)), 6), and\n"
    "sigmoid, which is (1 + tanh(a / 2)) / 2, is int16(16384 + round(T(a), 7)); below 0 tanh(a) is -tanh(-a) and "
    "sigmoid(a)\n"
    "16384 - round(T(-a), 7). The greatest errors are 1.55 (tanh) and 1.01 (sigmoid) of 2^-15.\n"
    "\n"
    "**SYSTEM**. `sync`: the core raises sync_local and stands until all cores of its tenant have, which is "
    "sync_global.\n"
    "`end`: the last instruction of its core; the task ends when all cores have come to theirs. `tile`: a place at "
    "which\n"
    "the core may be given away and the task go on later, there or on another core. The memories of the core are 0 "
    "then, but\n"
    "for what the LOADs at `repeat_a`, `repeat_b`, `repeat_c` and `repeat_d` bring, which are done once more, in this "
    "order,\n"
    "before anything behind the tile; they take and give no tokens. Each begins so many words before the tile, behind "
    "the\n"
    "last SYSTEM that waits, and nothing has written since what it reads or what it wrote. Else nothing behind a tile "
    "uses\n"
    "what an instruction before it left in the memories; vectors stay. A core that passes a tile repeats nothing.\n"
    "A core that is to be given away goes on to the first tile behind all that compute, side and save have begun. With "
    "`back`\n"
    "it goes back to the last tile instead, if compute or side have begun something behind it and save has not: that "
    "is done\n"
    "again later. It stands when compute, side and save have done what is before the tile and run nothing; what waits "
    "behind\n"
    "it is thrown away, and LOADs that have begun are done in vain. When the task goes on, counts of tokens are what "
    "the\n"
    "instructions before the tile have given less what they have taken. `back` and `repeat_a` .. `repeat_d` are 0 "
    "without\n"
    "`tile` or with `sync` or `end`; cores for recurrent networks have no `back`.\n"
    "\n"
    "## Words\n"
    "An instruction is one to three words of 16 bytes; its fields stand one behind the other from bit 0 of byte 0 on. "
    "A\n"
    "field holds its value less the number under *less*, values below 0 in two's complement. Bits behind the last "
    "field are\n"
    "0. Whatever is outside of what is allowed is refused with its position.\n"};

static int add_fields(braid_text *text, const braid_isa_field *fields, size_t count, int at) {
  for (size_t i = 0; i < count; i++) {
    const braid_isa_field *f = &fields[i];
    braid_text_printf(text, "| `%s` | %d .. %d | ", f->name, at, at + f->bits - 1);
    if (f->less) braid_text_printf(text, "%d", f->less);
    braid_text_printf(text, " | %d .. %d | %s |\n", f->lowest, f->highest, f->text);
    at += f->bits;
  }
  return at;
}

static void make_page(braid_text *text) {
  static const char kTable[] = "\n| field | bits | less | allowed | |\n| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < sizeof kParts / sizeof *kParts; i++) braid_text_add(text, kParts[i]);
  braid_text_printf(text, "\nThis is version %d.\n\n### Every instruction\n%s", BRAID_ISA_VERSION, kTable + 1);
  int header = add_fields(text, braid_isa_header, braid_isa_header_count, 0);
  braid_text_add(text, "\nIn masks bit 0 is load, 1 save, 2 compute, 3 side.\n");
  for (int opcode = 0; opcode < 16; opcode++) {
    const braid_isa_form *form = braid_isa_form_of(opcode);
    if (!form) continue;
    braid_text_printf(text, "\n### %s\nOpcode %d, %d word%s: %s.\n%s", form->name, opcode, form->words,
                      form->words == 1 ? "" : "s", form->text, kTable);
    add_fields(text, form->fields, form->count, header);
  }
  assert_false(text->failed);
}

static const char *target; /* where to write the page; NULL: it is compared */

static void test_page(void **state) {
  (void)state;
  braid_text text;
  braid_text_init(&text, NULL);
  make_page(&text);
  if (target) {
    assert_int_equal(braid_file_write(NULL, target, text.data, text.length), BRAID_OK);
  } else {
    braid_file_view view;
    assert_int_equal(braid_file_open(NULL, BRAID_DOCS "/isa.md", 0, &view), BRAID_OK);
    if (view.bytes != text.length || memcmp(view.data, text.data, view.bytes) != 0)
      fail_msg("docs/isa.md is not what the table says: run build/tests/instruction_reference_test docs/isa.md");
    braid_file_close(&view);
  }
  braid_text_deinit(&text);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_page)};
  target = argc > 1 ? argv[1] : NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
