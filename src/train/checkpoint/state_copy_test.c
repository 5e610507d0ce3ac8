/* The copy of a trainer's state: what sessions give by name, whatever layout values are kept in, and the same bytes one
 * after the other where there is no memory for all of them. */
#include "train/checkpoint/state_copy.h"

#include "runtime/plan/plan.h"
#include "train/diagnose.h"
#include "train/trainer_fixture.h"

static braid_dataset *data;

static braid_trainer *trained_for(int64_t steps) {
  braid_graph *graph = network();
  braid_train_options options = options_of("");
  braid_trainer *trainer;
  options.out_directory = NULL;
  data = glyphs("train");
  ok(braid_trainer_create(graph, data, NULL, &options, &trainer));
  braid_graph_destroy(graph);
  for (int64_t i = 0; i < steps; i++) ok(braid_trainer_run_step(trainer, 0.01));
  return trainer;
}

static void end(braid_trainer *trainer) {
  braid_trainer_destroy(trainer);
  braid_dataset_close(data);
}

static void test_contents(void **state) {
  (void)state;
  braid_trainer *trainer = trained_for(2);
  for (int round = 0; round < 2; round++) { /* the second time into the same memory */
    ok(braid_state_copy_take(trainer));
    const uint8_t *memory = trainer->state_copy.memory;
    size_t kept = 0;
    for (size_t i = 0; i < trainer->step->value_count; i++) {
      const braid_value *value = &trainer->step->values[i];
      braid_tensor *read, *copied;
      if (!braid_value_is_kept(value)) continue;
      kept++;
      ok(braid_tensor_create(NULL, &value->desc, &read));
      ok(braid_session_read(trainer->session, value->name, read));
      ok(braid_state_copy_find(NULL, &trainer->state_copy, value->name, &copied));
      assert_memory_equal(braid_tensor_const_data(copied), braid_tensor_const_data(read),
                          braid_desc_bytes(&value->desc));
      braid_tensor_release(read);
      braid_tensor_release(copied);
    }
    assert_int_equal(kept, trainer->state_copy.count);
    assert_true(kept > 4);
    ok(braid_trainer_run_step(trainer, 0.01));
    if (round) assert_ptr_equal(trainer->state_copy.memory, memory);
  }
  braid_tensor *none;
  assert_int_equal(braid_state_copy_find(NULL, &trainer->state_copy, "nothing", &none), BRAID_NOT_FOUND);
  end(trainer);
}

/* A value's name and bytes in the order of the visits. */
static braid_status add_visit(void *context, const braid_state_item *item, const void *bytes) {
  uint64_t *sum = context;
  *sum = *sum * 31 + braid_digest_of(item->value->name, strlen(item->value->name)).words[0];
  *sum = *sum * 31 + braid_digest_of(bytes, item->bytes).words[0];
  return BRAID_OK;
}

/* The heap, but for requests beyond `most`. */
static size_t most = SIZE_MAX;

static void *allocate_little(void *context, size_t bytes, size_t alignment) {
  (void)context;
  return bytes > most ? NULL : braid_allocator_default()->allocate(NULL, bytes, alignment);
}

static void release_little(void *context, void *pointer) {
  (void)context;
  braid_allocator_default()->release(NULL, pointer);
}

static void test_without_memory(void **state) {
  (void)state;
  static const braid_allocator kLittle = {NULL, allocate_little, release_little};
  braid_trainer *trainer = trained_for(2);
  uint64_t whole = 0, parts = 0;
  ok(braid_state_copy_take(trainer));
  ok(braid_state_copy_visit(trainer, add_visit, &whole));
  size_t all = trainer->state_copy.bytes;
  braid_state_copy_deinit(trainer);
  const braid_allocator *own = trainer->allocator;
  trainer->allocator = &kLittle;
  most = all - 1;
  assert_int_equal(braid_state_copy_take(trainer), BRAID_NO_MEMORY);
  assert_false(trainer->state_copy.whole);
  ok(braid_state_copy_visit(trainer, add_visit, &parts));
  assert_true(parts == whole);
  ok(braid_trainer_look(trainer)); /* it does without, too */
  most = SIZE_MAX;
  trainer->allocator = own;
  end(trainer);
}

/* A number that is not finite is found in the copy, and named. */
static void test_not_finite(void **state) {
  (void)state;
  braid_trainer *trainer = trained_for(1);
  ok(braid_trainer_look(trainer));
  braid_value_id id = braid_graph_find_value(trainer->step, "bias");
  braid_tensor *tensor;
  ok(braid_tensor_create(NULL, &trainer->step->values[id].desc, &tensor));
  ok(braid_session_read(trainer->session, "bias", tensor));
  ((float *)braid_tensor_data(tensor))[1] = INFINITY;
  ok(braid_session_write(trainer->session, "bias", tensor));
  braid_tensor_release(tensor);
  assert_int_equal(braid_trainer_look(trainer), BRAID_NOT_FINITE);
  assert_non_null(strstr(braid_error_detail(), "parameter bias holds a number that is not finite"));
  end(trainer);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_contents), cmocka_unit_test(test_without_memory),
                                     cmocka_unit_test(test_not_finite)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
