/* What a benchmark prints: rows of what, value, unit, must and whether it holds, as text or JSON; for frame_bench. */
#ifndef BRAID_RUNTIME_BENCH_ROWS_H
#define BRAID_RUNTIME_BENCH_ROWS_H

#include <stdbool.h>
#include <stdio.h>

enum { kMostRows = 40, kTurns = 7, kMostTurns = 99 };

typedef enum bound { NONE, AT_MOST, AT_LEAST } bound;

typedef struct row {
  char what[96], unit[16];
  double value, must;
  bound limit;
} row;

/* In memory that the cases' processes share with the first. */
static struct results {
  row rows[kMostRows];
  size_t count;
} * results;

static int turns = kTurns;

static void add_row(const char *what, double value, const char *unit, bound limit, double must) {
  if (results->count == kMostRows) return;
  row *r = &results->rows[results->count++];
  *r = (row){.value = value, .must = must, .limit = limit};
  snprintf(r->what, sizeof r->what, "%s", what);
  snprintf(r->unit, sizeof r->unit, "%s", unit);
}

static bool holds(const row *r) {
  return r->limit == AT_MOST ? r->value <= r->must : r->value >= r->must;
}

static double median(double *values, int count) {
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
      double value = values[k];
      values[k] = values[k - 1];
      values[k - 1] = value;
    }
  return values[count / 2];
}

static void format_must(const row *r, char *text, size_t bytes) {
  snprintf(text, bytes, "%s%g", r->limit == AT_MOST ? "<= " : ">= ", r->must);
}

static void print_text(void) {
  char must[32];
  for (size_t i = 0; i < results->count; i++) {
    const row *r = &results->rows[i];
    format_must(r, must, sizeof must);
    printf("%-62s %10.3f %-10s", r->what, r->value, r->unit);
    if (r->limit != NONE) printf(" must be %-8s %s", must, holds(r) ? "ok" : "NOT YET");
    printf("\n");
  }
}

static void print_json(void) {
  char must[32];
  printf("{\"rows\": [");
  for (size_t i = 0; i < results->count; i++) {
    const row *r = &results->rows[i];
    format_must(r, must, sizeof must);
    printf("%s\n  {\"what\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", i ? "," : "", r->what, r->value, r->unit);
    if (r->limit == NONE)
      printf("\"must\": null, \"ok\": null}");
    else
      printf("\"must\": \"%s\", \"ok\": %s}", must, holds(r) ? "true" : "false");
  }
  printf("\n]}\n");
}

#endif
