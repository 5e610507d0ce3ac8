/* `braid plan`: what it prints, as JSON and as files, and how it fails. */
#include <math.h>

#include "clicheck.h"

#define LENET BRAID_MODELS "/lenet.cfg"
#define GLYPHS BRAID_MODELS "/glyphs.cfg"
#define STAR BRAID_PICTURES "/star.png"
#define ALEXNET BRAID_MODELS "/alexnet-branches.cfg"

static double number_of(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(text, quoted);
  assert_non_null(at);
  return strtod(at + strlen(quoted), NULL);
}

static void test_text(void **state) {
  (void)state;
  outcome o = run_quietly("plan " ALEXNET
                          " --train --batch 256 --platform v100-s10x3 --policy gpu-only,hybrid-energy,dvfs,hybrid-cap "
                          "--power-cap 230");
  expect_text(o.out, "batch 256, a training step");
  expect_text(o.out, "Modelled");
  expect_text(o.out, "assumed, since nobody published it");
  expect_text(o.out, "cap: 230 W");
  expect_text(o.out, "fpga2");
  discard(&o);
  o = run_quietly("plan " LENET " --platform v100 --explain");
  expect_text(o.out, "inference");
  expect_text(o.out, "taken as Mul");
  expect_text(o.out, "* gpu at 1530 MHz");
  expect_text(o.out, "+ gpu at 1320 MHz");
  discard(&o);
}

/* DCGAN against itself, and two GPUs, each with half of the batch. */
static void test_steps(void **state) {
  (void)state;
  outcome o = run_quietly("plan " BRAID_MODELS "/dcgan-generator.cfg --discriminator " BRAID_MODELS
                          "/dcgan-discriminator.cfg --train --batch 16 --platform v100 --explain");
  expect_text(o.out, "discriminator/0_convolutional/Conv");
  discard(&o);
  o = run_quietly("plan " LENET " --train --batch 64 --platform v100x2 --explain");
  expect_text(o.out, "runs the step for 32 samples");
  expect_text(o.out, "1/0_convolutional/Conv");
  expect_text(o.out, "exchange/0 (AllReduce)");
  discard(&o);
}

static void test_help(void **state) {
  (void)state;
  outcome o = run_quietly("plan --policy help");
  expect_text(o.out, "hybrid-energy");
  expect_text(o.out, "slack-energy");
  discard(&o);
  o = run_quietly("plan --policy help --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "{\"policies\":[{\"name\":\"");
  expect_text(o.out, "\"name\":\"slack-energy\",\"summary\":\"");
  discard(&o);
}

static void test_json(void **state) {
  (void)state;
  outcome o =
      run_quietly("plan " ALEXNET " --train --batch 128 --platform v100-s10x3 --policy dvfs --power-cap 230 --json");
  assert_true(is_one_document(o.out));
  double throughput = number_of(o.out, "throughput"), ms = number_of(o.out, "modelled_ms");
  assert_true(fabs(throughput * ms / 128e3 - 1) < 1e-6);
  assert_true(number_of(o.out, "peak_w") > 230 && number_of(o.out, "cap_violations") > 0); /* it reacts late */
  assert_true(fabs(number_of(o.out, "energy_j") / number_of(o.out, "average_w") * 1e3 / ms - 1) < 1e-6);
  expect_text(o.out, "\"baseline\":{\"policy\":\"gpu-only\"");
  expect_text(o.out, "\"source\":\"modelled\"");
  discard(&o);
  o = run_quietly("plan " ALEXNET
                  " --train --batch 128 --platform v100-s10x3 --policy hybrid-cap --power-cap 230 --json --explain");
  assert_true(is_one_document(o.out));
  assert_true(number_of(o.out, "peak_w") <= 230 && number_of(o.out, "cap_violations") == 0);
  expect_text(o.out, "\"tasks\":[{");
  discard(&o);
  o = run_quietly("plan " LENET " --platform v100 --platform v100-s10x3 --policy gpu-only,heft --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"plans\":[{");
  discard(&o);
}

static void put_text(const char *name, const char *text) {
  put_file(in_folder(name), text, strlen(text));
}

/* What a policy did instead stands under the table, in the document and in the log. */
static void test_notes(void **state) {
  (void)state;
  put_text("dark.yaml", "name: dark\nprofile: dark-rows.yaml\ndevices:\n"
                        "  - {name: a, class: cpu, profile: c, idle_watts: 1}\n"
                        "  - {name: b, class: fpga, profile: c, idle_watts: 1}\n");
  put_text("dark-rows.yaml", "source: s\nothers: Relu\nrows:\n  - {device: c, op: Relu, bytes: 1000, ms: 0.01}\n");
  outcome o = run("plan " LENET " --platform $/dark.yaml --policy hybrid-energy -v");
  assert_int_equal(o.code, 0);
  expect_text(o.out, "dark.yaml, hybrid-energy: No device is a GPU: it begins with");
  expect_text(o.out, "so none is offloaded.");
  expect_text(o.out, "dark.yaml, the baseline gpu-only: No device is a GPU: everything goes by");
  expect_text(o.err, "so none is offloaded.");
  discard(&o);
  o = run_quietly("plan " LENET " --platform $/dark.yaml --policy gpu-only --json");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"note\":\"No device is a GPU: everything goes by the earliest end over all devices.\"");
  discard(&o);
}

/* What every device holds at most, and what fits; a plan that does not fit is refused with what is largest. */
static void test_memory(void **state) {
  (void)state;
  put_text("small.yaml", "name: small\nprofile: small-rows.yaml\ndevices:\n"
                         "  - {name: a, class: gpu, profile: c, idle_watts: 1, memory_gigabytes: 0.5, link: "
                         "{gigabytes_per_second: 1}}\n");
  put_text("tiny.yaml", "name: tiny\nprofile: small-rows.yaml\ndevices:\n"
                        "  - {name: a, class: gpu, profile: c, idle_watts: 1, memory_gigabytes: 0.00165, link: "
                        "{gigabytes_per_second: 1}}\n");
  put_text("small-rows.yaml", "source: s\nothers: Relu\nrows:\n  - {device: c, op: Relu, bytes: 1000, ms: 0.01}\n");
  outcome o = run_quietly("plan " LENET " --platform $/small.yaml --policy gpu-only");
  expect_text(o.out, "peak GB  of GB\n");
  expect_text(o.out, "  0.5\n");
  discard(&o);
  o = run_quietly("plan " LENET " --platform $/small.yaml --policy gpu-only --json");
  assert_true(is_one_document(o.out));
  assert_true(number_of(o.out, "peak_memory_bytes") > 100000 && number_of(o.out, "peak_memory_bytes") < 5e8);
  assert_true(number_of(o.out, "memory_bytes") == 5e8);
  discard(&o);
  o = run_quietly("plan " LENET " --platform v100 --policy gpu-only --json");
  expect_text(o.out, "\"memory_bytes\":null");
  discard(&o);
  o = run("plan " LENET " --platform $/tiny.yaml --policy gpu-only");
  assert_int_equal(o.code, 2);
  expect_text(o.err, "no plan was found that fits into the memories: a would hold ");
  discard(&o);
}

/* Interference is modelled where every device has its numbers. */
static void test_interference(void **state) {
  (void)state;
  static const struct {
    const char *a, *b, *said;
  } cases[] = {
      {"", "", "not modelled"},
      {", slowdown: {}", "", "not modelled"},
      {", slowdown: {beside: 0.1, traffic: 0.1}", "", "modelled in part"},
      {", slowdown: {beside: 0.1}", ", slowdown: {beside: 0}", "modelled in part"}, /* b has a link */
      {", slowdown: {beside: 0.1}", ", slowdown: {beside: 0, traffic: 0}", "modelled"},
  };
  put_text("slowed-rows.yaml", "source: s\nothers: Relu\nrows:\n  - {device: c, op: Relu, bytes: 1000, ms: 0.01}\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512], said[64];
    snprintf(text, sizeof text,
             "name: s\nprofile: slowed-rows.yaml\ndevices:\n  - {name: a, class: cpu, profile: c, idle_watts: 1%s}\n"
             "  - {name: b, class: gpu, profile: c, idle_watts: 1, link: {gigabytes_per_second: 1}%s}\n",
             cases[i].a, cases[i].b);
    snprintf(said, sizeof said, "\"interference\":\"%s\"", cases[i].said);
    put_text("slowed.yaml", text);
    outcome o = run_quietly("plan " LENET " --platform $/slowed.yaml --policy heft --no-bound --json");
    expect_text(o.out, said);
    discard(&o);
  }
  outcome o = run_quietly("plan " LENET " --platform $/slowed.yaml --policy heft --no-bound");
  assert_null(strstr(o.out, "Interference is"));
  discard(&o);
}

/* A policy that is refused stands beside the others, with the operation and the cap; alone it is an error, and so are
 * several that all are refused. */
static void test_one_refused(void **state) {
  (void)state;
  put_text("low.yaml", "name: low\nprofile: low-rows.yaml\ndevices:\n"
                       "  - {name: g, class: gpu, profile: g, idle_watts: 20}\n");
  put_text("low-rows.yaml", "source: s\nothers: Relu\nrows:\n"
                            "  - {device: g, op: Relu, bytes: 1000, ms: 1, average_watts: 100, peak_watts: 110}\n"
                            "  - {device: g, op: Gemm, bytes: 1000, ms: 1, average_watts: 100, peak_watts: 210}\n");
  const char *said = "_connected/Gemm: no offer is left for it under the power cap of 150 W: its peak on g is 210 W";
  outcome o = run_quietly("plan " LENET " --platform $/low.yaml --policy hybrid-cap,gpu-only --power-cap 150");
  expect_text(o.out, "low.yaml, hybrid-cap: refused: node ");
  expect_text(o.out, said);
  expect_text(o.out, "low.yaml, gpu-only: devices");
  discard(&o);
  o = run_quietly("plan " LENET " --platform $/low.yaml --policy hybrid-cap,gpu-only --power-cap 150 --json --explain");
  assert_true(is_one_document(o.out));
  expect_text(o.out, "\"policy\":\"hybrid-cap\",\"refused\":\"node ");
  expect_text(o.out, said);
  expect_text(o.out, "\"policy\":\"gpu-only\",\"throughput\":");
  discard(&o);
  static const char *const kAll[] = {"hybrid-cap", "hybrid-cap,slack-energy"};
  for (int i = 0; i < 2; i++) {
    char line[256];
    snprintf(line, sizeof line, "plan " LENET " --platform $/low.yaml --policy %s --power-cap 150", kAll[i]);
    o = run(line);
    assert_int_equal(o.code, 2);
    assert_string_equal(o.out, "");
    expect_text(o.err, said);
    discard(&o);
  }
}

static void test_place(void **state) {
  (void)state;
  outcome o = run_quietly("plan " LENET " --platform v100-s10x3 --place *Conv=fpga0 --explain");
  expect_text(o.out, "v100-s10x3, manual: Placed by hand: 2 of 10 operations; the policy places the others: ");
  expect_text(o.out, "by hand");
  expect_text(o.out, "and 5 more.");
  expect_text(o.out, "* fpga0");
  discard(&o);
  o = run_quietly("plan " LENET " --platform v100-s10x3 --place *=gpu,*Conv=fpga0,*Gemm=gpu,*a*=gpu,*e*=gpu");
  expect_text(o.out,
              "Placed by hand: 10 of 10 operations. \"*Conv\", \"*Gemm\", \"*a*\" and 1 more place nothing: what "
              "matches is placed by patterns before");
  discard(&o);
}

static void test_files(void **state) {
  (void)state;
  outcome o = run_quietly("plan " LENET " --train --platform v100-s10x3 --html $/page.html --trace $/trace.json");
  discard(&o);
  char *page = get_file(in_folder("page.html"), NULL), *trace = get_file(in_folder("trace.json"), NULL);
  expect_text(page, "<svg");
  expect_text(page, "</svg>");
  expect_text(page, "Modelled");
  expect_text(trace, "\"ph\":\"C\"");
  assert_true(is_one_document(trace));
  free(page);
  free(trace);
}

/* A plan for devices of this machine is saved, and runs and training go by it. */
static void test_saved(void **state) {
  (void)state;
  put_text("here.yaml", "name: here\nprofile: rows.yaml\ndevices:\n"
                        "  - {name: cpu, class: cpu, profile: c, idle_watts: 1}\n"
                        "  - {name: gpu, class: gpu, profile: g, idle_watts: 1}\n");
  put_text("rows.yaml", "source: s\nothers: Relu\nrows:\n"
                        "  - {device: c, op: Relu, bytes: 1000, ms: 0.01, average_watts: 5, peak_watts: 6}\n"
                        "  - {device: g, op: Relu, bytes: 1000, ms: 0.02, average_watts: 5, peak_watts: 6}\n");
  outcome o = run_quietly("plan " GLYPHS " --platform $/here.yaml --policy cpu-only --save $/run.plan");
  discard(&o);
  char *text = get_file(in_folder("run.plan"), NULL);
  expect_text(text, "# braid placement 2\n# " GLYPHS ", batch 1, inference, by cpu-only");
  expect_text(text, "\ndevices cpu\nbatch 1\nordered\nnodes ");
  expect_text(text, "\ncpu 0_convolutional/Conv\n");
  free(text);
  o = run_quietly("run " GLYPHS " --input " STAR " --plan $/run.plan --explain");
  expect_text(o.out, "by hand");
  discard(&o);
  put_text("slow.yaml",
           "name: here\nprofile: rows.yaml\ndevices:\n"
           "  - {name: cpu, class: gpu, profile: c, idle_watts: 1, clocks: [{mhz: 9, seconds: 1, watts: 1}, "
           "{mhz: 4, seconds: 2, watts: 0.1}]}\n");
  o = run_quietly("plan " GLYPHS " --platform $/slow.yaml --power-cap 5 --save $/slow.plan");
  discard(&o);
  text = get_file(in_folder("slow.plan"), NULL);
  expect_text(text, "\nordered\nclocked ");
  free(text);
  o = run("run " GLYPHS " --input " STAR " --plan $/slow.plan");
  assert_int_equal(o.code, 0);
  expect_text(o.err, "operations have a lower clock in the forecast; runs set no clocks");
  discard(&o);
  o = run_quietly("plan " GLYPHS " --train --batch 32 --platform $/here.yaml --policy cpu-only --save $/train.plan");
  discard(&o);
  o = run("train " GLYPHS " --data builtin:glyphs,limit=640 --epochs 1 --batch 32 --plan $/train.plan --out $/t");
  if (o.code) fail_msg("%s", o.err);
  discard(&o);
  o = run_quietly("plan " GLYPHS " --batch 2 --platform $/here.yaml --policy cpu-only --save $/two.plan");
  discard(&o);
  put_text("parts.yaml", "name: here\nprofile: rows.yaml\ndevices:\n"
                         "  - {name: cpu, class: cpu, profile: c, idle_watts: 1, count: 2}\n");
  put_text("empty.plan", "# braid placement 2\n");
  put_text("old.plan", "# braid placement 1\ndevices cpu\nordered\ncpu 0_convolutional/Conv\n");
  put_text("twice.plan", "# braid placement 2\ndevices cpu\nnodes 2\ncpu 0_convolutional/Conv\n"
                         "cpu 0_convolutional/Conv\n");
  put_text("short.plan", "# braid placement 2\ndevices cpu\nnodes 2\ncpu 0_convolutional/Conv\n");
  put_text("any.plan", "# braid placement 2\ndevices cpu\nordered\nnodes 1\ncpu 0_convolutional/Conv\n");
  o = run("bench " GLYPHS " --batch 2 --runs 1 --plan $/any.plan"); /* which says no batch */
  if (o.code) fail_msg("%s", o.err);
  discard(&o);
  static const struct {
    const char *line, *said;
  } cases[] = {
      {"plan " GLYPHS " --platform $/here.yaml --policy gpu-only --save $/x.plan",
       "the platform's device \"gpu\" is none of this machine, which has cpu"},
      {"plan " GLYPHS " --platform $/parts.yaml --policy first --save $/x.plan",
       "for these whole devices by these names: parts of devices"},
      {"train " GLYPHS " --data builtin:glyphs --plan $/nowhere.plan",
       "nowhere.plan can't be read: No such file or directory"},
      {"train " GLYPHS " --data builtin:glyphs --plan $", "can't be read: Is a directory"},
      {"run " GLYPHS " --input " STAR " --plan $/nowhere.plan", "nowhere.plan: cannot open: No such file"},
      {"plan " GLYPHS " --platform $/here.yaml --policy gpu-only,heft --save $/x.plan", "--save is of one plan"},
      {"bench " LENET " --plan $/run.plan", "place: no node"},
      {"bench " GLYPHS " --batch 2 --plan $/run.plan",
       "run.plan: it is of a batch of 1, and this one is of 2; `braid plan --batch 2"},
      {"run " GLYPHS " --input " STAR " --plan $/two.plan", "it is of a batch of 2, and this one is of 1"},
      {"test " GLYPHS " --data builtin:glyphs,limit=64 --plan $/run.plan",
       "it is of a batch of 1, and this one is of 100"},
      {"train " GLYPHS " --data builtin:glyphs,limit=640 --batch 16 --plan $/train.plan --out $/v",
       "train.plan: it is of a batch of 32, and this one is of 16"},
      {"train " GLYPHS " --data builtin:glyphs --plan $/empty.plan", "empty.plan:1: the file was cut"},
      {"train " GLYPHS " --data builtin:glyphs --plan $/old.plan",
       "old.plan:1: a plan of format 1, and format 2 is expected; `braid plan --save FILE` makes it anew"},
      {"run " GLYPHS " --input " STAR " --plan $/old.plan", "old.plan:1: a plan of format 1"},
      {"run " GLYPHS " --input " STAR " --plan $/twice.plan",
       "twice.plan:5: node 0_convolutional/Conv is on line 4 already"},
      {"bench " GLYPHS " --plan $/short.plan", "short.plan:4: the file was cut: it ends after 1 of the 2 nodes"},
      {"run " GLYPHS " --input " STAR " --plan $/run.plan --place a=cpu", "--plan cannot be combined"},
      {"train " GLYPHS " --data builtin:glyphs --plan $/here.yaml", "is no plan of `braid plan --train --save`"},
      {"train " GLYPHS " --data builtin:glyphs --plan $/train.plan --place a=cpu", "--plan cannot be combined"},
      {"train " GLYPHS " --data builtin:glyphs,limit=640 --batch 32 --optimizer adam --plan $/train.plan "
       "--out $/u",
       "place: no node"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    o = run(cases[i].line);
    if (!o.code) fail_msg("%s", cases[i].line);
    expect_text(o.err, cases[i].said);
    assert_null(strstr(o.err, "BRAID_PLUGINS"));
    discard(&o);
  }
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *line, *said;
    int code;
  } cases[] = {
      {"plan " LENET, "--platform is expected", 2},
      {"plan " LENET " --platform nowhere", "there is no platform \"nowhere\"; there are", 2},
      {"plan " LENET " --platform nowhere.yaml", "nowhere.yaml", 2},
      {"plan " LENET " --platform v100 --policy quick", "no policy \"quick\"", 2},
      {"plan " LENET " --platform v100 --power-cap -3", "--power-cap", 2},
      {"plan " LENET " --platform v100 --power-cap 60", "under the power cap", 2},
      {"plan " LENET " --platform v100 --policy heft,dvfs --trace t.json", "--trace is of one plan", 2},
      {"plan " LENET " --platform v100-s10x3 --place *=fpga7", "fpga7 is not among the platform's devices", 2},
      {"plan " LENET " --platform v100 --place ~", "--place: pattern=device,... is expected, not \" \"", 2},
      {"plan " LENET " --platform v100 --shape 0x1x28x28", "the batch, which is the first dimension of input \"", 2},
      {"plan " LENET " --platform v100-s10x3 --place none=gpu", "no node matches", 2},
      {"plan none.onnx --platform v100", "none.onnx", 2},
      {"plan " LENET " --train --batch 3 --platform v100x2", "a batch of 3 does not divide among 2 GPUs", 2},
      {"plan " LENET " --platform v100 --discriminator " LENET, "--discriminator has no effect without --train", 2},
      {"plan " LENET " --train --platform v100 --discriminator " LENET, "node discriminator/0_convolutional/Conv", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    outcome o = run(cases[i].line);
    if (o.code != cases[i].code) fail_msg("%s: code %d: %s", cases[i].line, o.code, o.err);
    expect_text(o.err, cases[i].said);
    assert_string_equal(o.out, "");
    discard(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_saved), cmocka_unit_test(test_interference), cmocka_unit_test(test_text),
      cmocka_unit_test(test_steps), cmocka_unit_test(test_help),         cmocka_unit_test(test_json),
      cmocka_unit_test(test_notes), cmocka_unit_test(test_place),        cmocka_unit_test(test_memory),
      cmocka_unit_test(test_files), cmocka_unit_test(test_refused),      cmocka_unit_test(test_one_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
