/* What tenants can do to each other (`braid share --isolation`). */
#include <stdlib.h>

#include "sharing.h"
#include "table.h"

typedef struct trials {
  const cli_sharing *how;
  const braid_overlay_design *design;
  braid_overlay_package *package; /* NULL: the library's */
  braid_overlay_trial *rows;      /* by offence, then by where */
  size_t count;
} trials;

static braid_overlay_beside beside_of(size_t row) {
  return (braid_overlay_beside)(row % BRAID_OVERLAY_BESIDES);
}

static braid_status run_trials(trials *t) {
  cli_progress progress;
  braid_status status = BRAID_OK;
  cli_progress_begin(&progress, "trials");
  for (size_t r = 0; status == BRAID_OK && r < t->count; r++) {
    size_t offence = r / BRAID_OVERLAY_BESIDES;
    cli_progress_update(&progress, (int64_t)r, (int64_t)t->count, braid_overlay_offence_at(offence).name);
    status = braid_overlay_try_isolation(t->design, t->package, offence, beside_of(r), &t->rows[r]);
  }
  cli_progress_end(&progress);
  return status;
}

static const char *got(const braid_overlay_trial *row) {
  if (!row->offences) return "nothing yet: no job of it has ended";
  return row->status == BRAID_OK ? "no error" : row->why;
}

static int print_json(const trials *t) {
  cli_json json;
  if (!cli_json_begin(&json)) return CLI_FAILED;
  cli_json_string(&json, "design", t->design->name);
  cli_json_string(&json, "package", t->how->package_count ? t->how->packages[0] : NULL);
  cli_json_array(&json, "trials");
  for (size_t r = 0; r < t->count; r++) {
    const braid_overlay_trial *row = &t->rows[r];
    braid_overlay_offence offence = braid_overlay_offence_at(r / BRAID_OVERLAY_BESIDES);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "offence", offence.name);
    cli_json_string(&json, "what", offence.text);
    cli_json_string(&json, "where", braid_overlay_beside_name(beside_of(r)));
    cli_json_integer(&json, "cores", row->cores);
    cli_json_integer(&json, "offender_cores", row->offender_cores);
    cli_json_integer(&json, "offences", row->offences);
    cli_json_string(&json, "status", row->offences ? braid_status_text(row->status) : NULL);
    cli_json_string(&json, "error", row->status == BRAID_OK ? NULL : row->why);
    cli_json_integer(&json, "cycles", row->cycles);
    cli_json_number(&json, "deviation", row->deviation);
    cli_json_number(&json, "gate_cost", row->gate_cost);
    cli_json_bool(&json, "same_bits", row->same_bits);
    cli_json_bool(&json, "clean", row->clean);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(&json) ? CLI_OK : CLI_FAILED;
}

static braid_status print_text(const trials *t) {
  cli_table table;
  double gate[BRAID_OVERLAY_BESIDES] = {0};
  cli_table_begin(&table, "A tenant beside one that means harm", NULL,
                  "the other one|where|times|deviation|same bits|nothing left|what it gets");
  for (size_t r = 0; r < t->count; r++) {
    const braid_overlay_trial *row = &t->rows[r];
    braid_overlay_offence offence = braid_overlay_offence_at(r / BRAID_OVERLAY_BESIDES);
    gate[beside_of(r)] = row->gate_cost;
    cli_table_cell(&table, "%s", r % BRAID_OVERLAY_BESIDES ? "" : offence.text);
    cli_table_cell(&table, "%s", braid_overlay_beside_name(beside_of(r)));
    cli_table_cell(&table, "%lld", (long long)row->offences);
    cli_table_cell(&table, "%.3f %%", 100 * row->deviation);
    cli_table_cell(&table, "%s", row->same_bits ? "yes" : "NO");
    cli_table_cell(&table, "%s", row->clean ? "yes" : "NO");
    cli_table_cell(&table, "%s", r % BRAID_OVERLAY_BESIDES ? "" : got(row));
  }
  if (!table.failed) {
    cli_table_print(&table, t->count);
    printf("\nDeviation: of the tenant's cycles beside the other one from those alone, the greatest of several jobs.\n"
           "Gates that let an equal part of its bank pass for each core cost the tenant %.2f %% of its cycles when it "
           "is alone, and %.2f %% at own banks.\nTimes are modelled; %s, %d and %d cores at own banks.\n",
           100 * gate[BRAID_OVERLAY_GATED_BANK], 100 * gate[BRAID_OVERLAY_OWN_GATED], t->design->name, t->rows[0].cores,
           t->rows[0].offender_cores);
  }
  bool failed = table.failed;
  cli_table_end(&table);
  return failed ? cli_no_memory() : BRAID_OK;
}

/* What must hold, whatever the times are. */
static braid_status judge(const trials *t) {
  for (size_t r = 0; r < t->count; r++) {
    braid_overlay_offence offence = braid_overlay_offence_at(r / BRAID_OVERLAY_BESIDES);
    const char *name = offence.name;
    if (t->rows[r].offences && offence.fails && t->rows[r].status == BRAID_OK)
      return braid_fail(BRAID_INTERNAL, "%s: it got no error", name);
    if (!t->rows[r].same_bits)
      return braid_fail(BRAID_INTERNAL, "%s: the tenant beside it computed something else", name);
    if (!t->rows[r].clean) return braid_fail(BRAID_INTERNAL, "%s: something is left of it", name);
  }
  return BRAID_OK;
}

braid_status cli_try_isolation(const cli_sharing *how) {
  trials t = {.how = how, .count = braid_overlay_offence_count() * BRAID_OVERLAY_BESIDES};
  t.rows = calloc(t.count, sizeof *t.rows);
  if (!t.rows) return cli_no_memory();
  braid_status status = braid_overlay_design_load(NULL, how->design, &t.design);
  if (status == BRAID_OK && how->package_count) status = braid_overlay_package_read(NULL, how->packages[0], &t.package);
  if (status == BRAID_OK) status = run_trials(&t);
  if (status == BRAID_OK) status = judge(&t);
  if (status == BRAID_OK && how->json)
    status = print_json(&t) == CLI_OK ? BRAID_OK : braid_fail(BRAID_IO, "the document could not be printed");
  else if (status == BRAID_OK)
    status = print_text(&t);
  braid_overlay_package_destroy(t.package);
  braid_overlay_design_destroy(t.design);
  free(t.rows);
  return status;
}
