/* Records of simulations: what is kept is what was counted, names of others harm no page, and no more than fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "overlay/compiler/compiler_fixture.h"
#include "overlay/sim/record.h"

static void make(drawn_network *n, braid_package **package, const braid_overlay_design *design, const char *name) {
  draw_key = 91;
  drawn_begin(n, 24, 18, 18);
  for (int i = 0; i < 3; i++) draw_convolution(n, (int32_t)n->network.map_count - 1);
  drawn_end(n);
  for (size_t l = 0; l < n->network.layer_count; l++) n->layers[l].name = name;
  assert_int_equal(braid_package_compile(&n->network, design, NULL, package), BRAID_OK);
}

/* In each row spans follow each other; together with stalls that are too short to keep they are all of the time; bytes
 * are those that were moved; a layer has all instructions of it. */
static void test_kept(void **state) {
  (void)state;
  drawn_network n;
  braid_package *package;
  const braid_overlay_design *design;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  make(&n, &package, design, "layer");
  for (int cores = 1; cores <= 16; cores += 5) {
    braid_overlay_simulated t, alone;
    braid_overlay_record *r;
    assert_int_equal(braid_overlay_record_make(package, design, cores, NULL, &t, &r), BRAID_OK);
    assert_int_equal(braid_overlay_simulate(package, design, cores, &alone), BRAID_OK);
    assert_int_equal(t.cycles, alone.cycles); /* whether it is kept or not */
    assert_true(braid_overlay_record_get_info(r).whole && braid_overlay_record_get_info(r).until == t.cycles);
    uint64_t until[16][BRAID_OVERLAY_UNITS] = {{0}}, bytes = 0;
    double busy[BRAID_OVERLAY_UNITS] = {0};
    for (size_t i = 0; i < r->count; i++) {
      const braid_record_span *s = &r->spans[i];
      assert_true(s->core < cores && s->from >= until[s->core][s->module] && s->to > s->from);
      assert_true(s->to <= (uint64_t)t.cycles);
      until[s->core][s->module] = s->to;
      bytes += s->bytes;
      if (!s->opcode) continue;
      busy[s->module] += (double)(s->to - s->from);
      assert_true(r->layers[s->layer].from <= s->from && r->layers[s->layer].to >= s->to);
    }
    for (size_t l = 0; l < r->layer_count; l++) {
      assert_true(r->layers[l].to > r->layers[l].from && r->layers[l].to <= (uint64_t)t.cycles);
      assert_true(l == 0 || r->layers[l].from >= r->layers[l - 1].to); /* all cores meet between */
    }
    for (int m = 0; m < BRAID_OVERLAY_UNITS; m++)
      assert_true(fabs(busy[m] - t.units[m].busy * (double)t.cycles * cores) < 1);
    assert_int_equal(bytes, (uint64_t)(t.read_bytes + t.written_bytes));
    braid_overlay_record_destroy(r);
  }
  braid_package_destroy(package);
  drawn_free(&n);
  braid_overlay_design_destroy(design);
}

static char *save(const braid_overlay_record *r, bool page) {
  char path[] = "/tmp/braid-record-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(
      page ? braid_overlay_record_save_html(r, "<b>&title", path) : braid_overlay_record_save_trace(r, path), BRAID_OK);
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  static char text[1 << 22];
  size_t length = fread(text, 1, sizeof text - 1, in);
  text[length] = 0;
  fclose(in);
  unlink(path);
  return text;
}

/* In a trace, too, nothing begins before what stands in its row is over, to the last digit. */
static void test_rounded(void **state) {
  (void)state;
  drawn_network n;
  braid_package *package;
  const braid_overlay_design *design;
  braid_overlay_simulated t;
  braid_overlay_record *r;
  long long until[8][BRAID_OVERLAY_UNITS] = {{0}};
  int events = 0;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  make(&n, &package, design, "layer");
  assert_int_equal(braid_overlay_record_make(package, design, 4, NULL, &t, &r), BRAID_OK);
  for (const char *at = save(r, false); (at = strstr(at, "{\"ph\":\"X\",\"pid\":")); at++) {
    int core, unit;
    double from, took;
    assert_int_equal(
        sscanf(at, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lf,\"dur\":%lf", &core, &unit, &from, &took), 4);
    assert_true(core >= 1 && core < 8 && unit < BRAID_OVERLAY_UNITS);
    assert_true(llround(from * 1e4) >= until[core][unit]);
    until[core][unit] = llround(from * 1e4) + llround(took * 1e4);
    events++;
  }
  assert_true(events > 100);
  braid_overlay_record_destroy(r);
  braid_package_destroy(package);
  braid_overlay_design_destroy(design);
  drawn_free(&n);
}

static void test_written(void **state) {
  (void)state;
  drawn_network n;
  braid_package *package;
  const braid_overlay_design *design;
  braid_overlay_simulated t;
  braid_overlay_record *r;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  make(&n, &package, design, "</script><script>alert(\"1\")\\");
  assert_int_equal(braid_record_make(package, design, 4, 20, NULL, &t, &r), BRAID_OK);
  braid_overlay_record *whole;
  assert_int_equal(braid_record_make(package, design, 4, 1 << 20, NULL, &t, &whole), BRAID_OK);
  braid_package_destroy(package);
  braid_overlay_design_destroy(design);
  drawn_free(&n);
  braid_overlay_record_info info = braid_overlay_record_get_info(r);
  assert_true(info.spans >= 20 && info.spans <= 20 + 4 * BRAID_OVERLAY_UNITS);
  assert_true(!info.whole && info.until < t.cycles && info.until > 0);
  size_t begun = 0; /* of all, what had begun by then */
  for (size_t i = 0; i < whole->count; i++) begun += (int64_t)whole->spans[i].from < info.until;
  assert_true(begun == info.spans && info.spans > 20);
  braid_overlay_record_destroy(whole);
  char *text = save(r, true);
  assert_null(strstr(text, "<b>&title"));
  assert_null(strstr(text, "<script>alert"));
  assert_non_null(strstr(text, "\\u003c/script>\\u003cscript>alert(\\\"1\\\")\\\\"));
  assert_non_null(
      strstr(text, "Only the first 20 instructions and stalls are here, and those that had begun by cycle"));
  text = save(r, false);
  assert_non_null(strstr(text, "\"name\":\"</script><script>alert(\\\"1\\\")\\\\\""));
  assert_int_equal(braid_overlay_record_save_trace(r, "/nowhere/at/all.json"), BRAID_IO);
  braid_overlay_record_destroy(r);
  braid_overlay_record_destroy(NULL);
}

static void test_refused(void **state) {
  (void)state;
  drawn_network n;
  braid_package *package;
  const braid_overlay_design *design;
  braid_overlay_simulated t;
  braid_overlay_record *r;
  assert_int_equal(braid_overlay_design_load(NULL, "cnn-16x512", &design), BRAID_OK);
  make(&n, &package, design, "layer");
  assert_int_equal(braid_overlay_record_make(package, design, 17, NULL, &t, &r), BRAID_INVALID_ARGUMENT);
  assert_null(r);
  braid_package_destroy(package);
  braid_overlay_design_destroy(design);
  drawn_free(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_rounded),
                                     cmocka_unit_test(test_written), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
