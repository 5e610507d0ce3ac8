/* Files of designs: YAML, each number with its source. */
#include "overlay/design.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "device/yaml.h"

enum { kNameBytes = 32, kSourceBytes = 512, kLine = 16, kPathBytes = 64, kPartBytes = 64 };

/* --- what a file has ---------------------------------------------------------------------------------------------- */
typedef struct design_number {
  double value;
  char *source;
} design_number;

typedef struct design_document {
  char *name, *summary, *network;
#define X(name, kind, whole, least, most, text) design_number *name;
  BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
} design_document;

static const cyaml_schema_field_t kNumberFields[] = {
    CYAML_FIELD_FLOAT("value", CYAML_FLAG_DEFAULT, design_number, value),
    CYAML_FIELD_STRING_PTR("source", CYAML_FLAG_POINTER, design_number, source, 1, kSourceBytes - 1),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t kFields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, design_document, name, 1, kNameBytes - 1),
    CYAML_FIELD_STRING_PTR("summary", CYAML_FLAG_POINTER, design_document, summary, 1, kSourceBytes - 1),
    CYAML_FIELD_STRING_PTR("network", CYAML_FLAG_POINTER, design_document, network, 1, kNameBytes - 1),
#define X(name, kind, whole, least, most, text)                                                                        \
  CYAML_FIELD_MAPPING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, design_document, name, kNumberFields),
    BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
        CYAML_FIELD_END,
};

static const cyaml_schema_value_t kDocument = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, design_document, kFields),
};

/* A design from a file owns the document that its texts are in. */
typedef struct loaded_design {
  braid_overlay_design design; /* stays first */
  const char *sources[BRAID_OVERLAY_FIGURES];
  design_document *document;
  const braid_allocator *allocator;
} loaded_design;

/* --- its figures ---------------------------------------------------------------------------------------------------
 */
typedef enum figure_kind { EVERY, CONVOLUTIONAL, RECURRENT, MAYBE } figure_kind;

typedef struct figure_rule {
  const char *key, *text;
  figure_kind kind;
  bool whole;
  double least, most;
} figure_rule;

static const figure_rule kRules[] = {
#define X(name, kind, whole, least, most, text) {#name, text, kind, whole, least, most},
    BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
};
_Static_assert(sizeof kRules / sizeof *kRules == BRAID_OVERLAY_FIGURES, "the number in braid/overlay.h");

static bool figure_is_of(const figure_rule *rule, bool recurrent) {
  return rule->kind == (recurrent ? RECURRENT : CONVOLUTIONAL) || rule->kind == EVERY || rule->kind == MAYBE;
}

static const char *kind_name(bool recurrent) {
  return recurrent ? "recurrent" : "convolutional";
}

static braid_status check_figure(const figure_rule *rule, const design_number *number, bool recurrent) {
  if (!number && (rule->kind == MAYBE || !figure_is_of(rule, recurrent))) return BRAID_OK;
  if (!number)
    return braid_fail(BRAID_INVALID_FILE, "%s is missing (%s), which a design for %s networks has", rule->key,
                      rule->text, kind_name(recurrent));
  if (!figure_is_of(rule, recurrent))
    return braid_fail(BRAID_INVALID_FILE, "%s is of designs for %s networks, this one is for %s ones", rule->key,
                      kind_name(!recurrent), kind_name(recurrent));
  bool inside = number->value >= rule->least && number->value <= rule->most; /* not of NAN */
  if (inside && (!rule->whole || number->value == trunc(number->value))) return BRAID_OK;
  return braid_fail(BRAID_INVALID_FILE, "%s is %.10g, expected a %s from %.10g to %.10g", rule->key, number->value,
                    rule->whole ? "whole number" : "number", rule->least, rule->most);
}

static void fill_design(const design_document *document, braid_overlay_design *out) {
  const double kMissing[] = {[EVERY] = 0, [CONVOLUTIONAL] = 0, [RECURRENT] = 0, [MAYBE] = NAN};
  out->name = document->name;
  out->summary = document->summary;
#define X(name, kind, whole, least, most, text)                                                                        \
  out->name = (__typeof__(out->name))(document->name ? document->name->value : kMissing[kind]);
  BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
}

/* --- what figures say of each other --------------------------------------------------------------------------------
 */
/* Memories and ports have whole lines. */
static braid_status check_lines(const braid_overlay_design *design, char path[kPathBytes]) {
  const struct {
    const char *key;
    int64_t value;
    int multiple;
  } all[] = {{"feature_bytes", design->feature_bytes, kLine}, {"weight_bytes", design->weight_bytes, kLine},
             {"bias_bytes", design->bias_bytes, kLine},       {"sum_bytes", design->sum_bytes, kLine},
             {"vector_bytes", design->vector_bytes, kLine},   {"instruction_bytes", design->instruction_bytes, kLine},
             {"bank_bytes", design->bank_bytes, kLine},       {"burst_bytes", design->burst_bytes, kLine},
             {"port_bits", design->port_bits, 8 * kLine},     {"bank_bits", design->bank_bits, 8 * kLine}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].value % all[i].multiple == 0) continue;
    snprintf(path, kPathBytes, "%s/value", all[i].key);
    return braid_fail(BRAID_INVALID_FILE, "%s is %lld, expected a multiple of %d: lines of 16 bytes", all[i].key,
                      (long long)all[i].value, all[i].multiple);
  }
  return BRAID_OK;
}

/* What modules take in one cycle must be there; a core's part of the memory for instructions holds the longest. */
static braid_status check_room(const braid_overlay_design *design, char path[kPathBytes]) {
  int64_t features = (int64_t)design->pixels * design->channels_in; /* 0 of recurrent ones */
  int64_t weights = design->recurrent ? (int64_t)2 * design->rows * design->columns
                                      : (int64_t)design->channels_in * design->channels_out;
  int64_t sums = design->recurrent ? (int64_t)6 * design->rows : (int64_t)4 * design->pixels * design->channels_out;
  const struct {
    const char *key;
    int64_t has, needs;
    const char *what;
  } rooms[] = {
      {"weight_bytes", design->weight_bytes, weights, "weights of one cycle"},
      {"sum_bytes", design->sum_bytes, sums, "sums of one cycle"},
      {"feature_bytes", design->feature_bytes, features, "numbers of one cycle"},
      {"instruction_bytes", design->instruction_bytes, kPartBytes * design->cores, "parts of all cores"},
  };
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    if (rooms[i].has >= rooms[i].needs) continue;
    snprintf(path, kPathBytes, "%s/value", rooms[i].key);
    return braid_fail(BRAID_INVALID_FILE, "%s is %lld, but the %s take %lld", rooms[i].key, (long long)rooms[i].has,
                      rooms[i].what, (long long)rooms[i].needs);
  }
  return BRAID_OK;
}

/* Weights lie in whole lines for the channels of a cycle. */
static braid_status check_channels(const braid_overlay_design *design, char path[kPathBytes]) {
  int products = design->channels_in * design->channels_out;
  if (products % kLine == 0) return BRAID_OK;
  snprintf(path, kPathBytes, "channels_out/value");
  return braid_fail(
      BRAID_INVALID_FILE,
      "channels_out is %d, which makes %d with channels_in: expected a multiple of %d, since weights take "
      "whole lines",
      design->channels_out, products, kLine);
}

/* Section 4.2.2: the ports at a bank are together no wider than the bank's. */
static braid_status check_ports(const braid_overlay_design *design, char path[kPathBytes]) {
  double bits[BRAID_OVERLAY_MOST_BANKS] = {0};
  for (int core = 0; core < design->cores; core++) {
    int first, count;
    braid_overlay_core_banks(design, core, &first, &count);
    for (int i = first; i < first + count; i++) bits[i] += (double)design->port_bits / count;
  }
  snprintf(path, kPathBytes, "port_bits/value");
  for (int i = 0; i < design->banks; i++)
    if (bits[i] > design->bank_bits * (1 + 1e-9))
      return braid_fail(BRAID_INVALID_FILE, "port_bits is %d, so that the ports at bank %d have %.10g bits; it has %d",
                        design->port_bits, i, bits[i], design->bank_bits);
  return BRAID_OK;
}

static bool is_design_name(const char *name) {
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == '\0';
}

/* What the schema can't say. `path` leads to what is refused. */
static braid_status design_check(const design_document *document, braid_overlay_design *design, char path[kPathBytes]) {
  snprintf(path, kPathBytes, "name");
  if (!is_design_name(document->name))
    return braid_fail(BRAID_INVALID_FILE, "name \"%s\": expected letters, digits, '_' and '-'", document->name);
  snprintf(path, kPathBytes, "network");
  design->recurrent = strcmp(document->network, "recurrent") == 0;
  if (!design->recurrent && strcmp(document->network, "convolutional") != 0)
    return braid_fail(BRAID_INVALID_FILE, "network is %s, expected convolutional or recurrent", document->network);
  const design_number *const numbers[] = {
#define X(name, kind, whole, least, most, text) document->name,
      BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
  };
  for (size_t i = 0; i < BRAID_OVERLAY_FIGURES; i++) {
    snprintf(path, kPathBytes, "%s/value", kRules[i].key);
    BRAID_TRY(check_figure(&kRules[i], numbers[i], design->recurrent));
  }
  fill_design(document, design);
  BRAID_TRY(check_lines(design, path));
  BRAID_TRY(check_room(design, path));
  BRAID_TRY(check_channels(design, path));
  return check_ports(design, path);
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
braid_status braid_overlay_design_parse(const braid_allocator *allocator, const char *name, const void *text,
                                        size_t bytes, const braid_overlay_design **out) {
  void *document;
  char path[kPathBytes];
  *out = NULL;
  loaded_design *made = braid_zalloc(allocator, sizeof *made);
  if (!made) return BRAID_NO_MEMORY;
  made->allocator = allocator;
  braid_status status = braid_yaml_parse(name, text, bytes, &kDocument, &document);
  if (status == BRAID_OK) {
    made->document = document;
    status = design_check(document, &made->design, path);
    if (status != BRAID_OK)
      status = braid_fail_prefix(status, "%.200s, line %zu", name, braid_yaml_line(text, bytes, path));
  }
  if (status != BRAID_OK) {
    braid_overlay_design_destroy(&made->design);
    return status;
  }
  size_t i = 0;
#define X(name, kind, whole, least, most, text)                                                                        \
  made->sources[i++] = made->document->name ? made->document->name->source : NULL;
  BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
  made->design.sources = made->sources;
  *out = &made->design;
  return BRAID_OK;
}

void braid_overlay_design_destroy(const braid_overlay_design *design) {
  if (!design) return;
  loaded_design *made = (loaded_design *)(uintptr_t)design;
  braid_yaml_free(&kDocument, made->document);
  braid_free(made->allocator, made);
}

/* --- by name -------------------------------------------------------------------------------------------------------
 */
size_t braid_overlay_design_count(void) {
  return braid_overlay_design_file_count;
}

const char *braid_overlay_design_name(size_t index) {
  return braid_overlay_design_files[index].name;
}

static braid_status design_unknown(const char *name) {
  char list[512] = "";
  for (size_t i = 0, used = 0; i < braid_overlay_design_file_count && used < sizeof list; i++)
    used +=
        (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", braid_overlay_design_files[i].name);
  return braid_fail(BRAID_NOT_FOUND,
                    "there is no design \"%.100s\"; there are %s, and files of designs whose names end in .yaml", name,
                    list);
}

static bool is_path(const char *name) {
  const char *dot = strrchr(name, '.');
  return strchr(name, '/') || strcmp(name, "-") == 0 || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

braid_status braid_overlay_design_load(const braid_allocator *allocator, const char *path_or_name,
                                       const braid_overlay_design **out) {
  *out = NULL;
  for (size_t i = 0; !is_path(path_or_name) && i < braid_overlay_design_file_count; i++) {
    const braid_overlay_file *file = &braid_overlay_design_files[i];
    if (strcmp(file->name, path_or_name) == 0)
      return braid_overlay_design_parse(allocator, file->name, file->text, file->bytes, out);
  }
  if (!is_path(path_or_name)) return design_unknown(path_or_name);
  braid_file_view view;
  BRAID_TRY(braid_file_open(allocator, path_or_name, BRAID_YAML_BYTES, &view));
  braid_status status = braid_overlay_design_parse(allocator, path_or_name, view.data, view.bytes, out);
  braid_file_close(&view);
  return status;
}

/* --- asking --------------------------------------------------------------------------------------------------------
 */
bool braid_overlay_design_figure(const braid_overlay_design *design, size_t index, braid_overlay_figure *out) {
  const double values[] = {
#define X(name, kind, whole, least, most, text) (double)design->name,
      BRAID_OVERLAY_FIGURE_LIST(X)
#undef X
  };
  const figure_rule *rule = &kRules[index];
  const char *source = design->sources ? design->sources[index] : NULL;
  *out = (braid_overlay_figure){rule->key, rule->text, values[index], source, false};
  out->assumed = source && strncmp(source, "assumed", 7) == 0;
  return figure_is_of(rule, design->recurrent) && !isnan(out->value);
}

int64_t braid_overlay_core_products(const braid_overlay_design *design) {
  return design->recurrent ? (int64_t)design->rows * design->columns
                           : (int64_t)design->pixels * design->channels_in * design->channels_out;
}

void braid_overlay_core_banks(const braid_overlay_design *design, int core, int *first, int *count) {
  *first = core * design->banks / design->cores;
  int end = (core + 1) * design->banks / design->cores;
  *count = end > *first ? end - *first : 1;
}

void braid_overlay_get_roofline(const braid_overlay_design *design, int cores, braid_overlay_roofline *out) {
  double hertz = design->clock_mhz * 1e6, bank = design->bank_bits / 8.0 * design->efficiency * hertz;
  int first = 0, count = 0;
  if (cores > 0) braid_overlay_core_banks(design, cores - 1, &first, &count);
  *out = (braid_overlay_roofline){
      .operations_per_second = 2.0 * (double)braid_overlay_core_products(design) * hertz * cores,
      .one_way_bytes_per_second = fmin(design->port_bits / 8.0 * hertz * cores, bank * (first + count)),
      .bytes_per_second = fmin(2 * design->port_bits / 8.0 * hertz * cores, bank * (first + count))};
  out->turning_point = out->bytes_per_second > 0 ? out->operations_per_second / out->bytes_per_second : 0;
}
