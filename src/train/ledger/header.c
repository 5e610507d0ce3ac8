#include "train/ledger/header.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "train/checkpoint/settings.h"
#include "train/data/dataset.h"
#include "train/integer/network.h"
#include "train/ledger/file.h"
#include "train/options.h"

static const char kContract[] = "contract", kBatch[] = "batch", kEpochs[] = "number of epochs", kSeed[] = "seed",
                  kBits[] = "bits of weights, activations, gradients, errors", kRate[] = "first learning rate",
                  kLoss[] = "loss", kError[] = "squared-error", kNoise[] = "label noise", kWeights[] = "first weights",
                  kDrawn[] = "drawn", kRule[] = "optimizer", kWage[] = "wage", kMomentum[] = "sgd",
                  kDecay[] = "weight decay", kFrozen[] = "frozen", kTrained[] = "trained";

/* --- writing -------------------------------------------------------------------------------------------------------
 */
static void add_line(braid_text *out, const char *name, const char *value) {
  braid_text_printf(out, "%s: ", name);
  for (; *value; value++) braid_text_add_bytes(out, (unsigned char)*value < ' ' ? "?" : value, 1);
  braid_text_add(out, "\n");
}

static void add_options(const braid_train_options *o, braid_text *out) {
  braid_text_printf(out, "%s: %" PRId64 "\n%s: %" PRId64 "\n", kBatch, o->batch, kEpochs, o->epochs);
  braid_text_printf(out, "%s: %" PRIu64 "\n", kSeed, o->seed);
  braid_text_printf(out, "%s: %d/%d/%d/%d\n", kBits, o->weight_bits, o->activation_bits, o->gradient_bits,
                    o->error_bits);
  braid_text_printf(out, "%s: %.17g\n", kRate, o->learning_rate);
  add_line(out, kRule, o->optimizer == BRAID_WAGE ? kWage : kMomentum);
  braid_text_printf(out, "%s: %.17g\n", kDecay, o->weight_decay);
  add_line(out, kLoss, o->loss == BRAID_SQUARED_HINGE ? braid_loss_name(o->loss) : kError);
  braid_text_printf(out, "%s: %.17g\n", kNoise, o->label_noise);
  add_line(out, kWeights, o->draw_weights ? kDrawn : "the model's");
  for (size_t i = 0; i < o->group_count; i++)
    add_line(out, o->groups[i].rate == 0 ? kFrozen : kTrained, o->groups[i].pattern);
}

static braid_status add_data_hash(const braid_trainer *trainer, braid_text *out) {
  uint8_t sum[BRAID_SHA256_BYTES];
  char text[BRAID_SHA256_HEX + 1];
  BRAID_TRY(braid_dataset_hash(trainer->train, sum));
  braid_sha256_text(sum, sizeof sum, text);
  add_line(out, BRAID_LEDGER_DATA_HASH, text);
  return BRAID_OK;
}

static void add_names(const braid_trainer *trainer, braid_text *out) {
  for (size_t i = 0; i < trainer->digests.count; i++) {
    const braid_integer_digest *d = &trainer->digests.items[i];
    braid_text line;
    braid_text_init(&line, trainer->allocator);
    braid_text_printf(&line, "%s %s %zu", d->layer, d->op, d->output);
    add_line(out, "value", line.data);
    out->failed |= line.failed;
    braid_text_deinit(&line);
  }
  for (size_t i = 0; i < trainer->step->value_count; i++)
    if (braid_ledger_hashes(trainer, &trainer->step->values[i]))
      add_line(out, "parameter", trainer->step->values[i].name);
}

braid_status braid_ledger_write_head(const braid_trainer *trainer, const char *model, braid_text *out) {
  braid_text_printf(out, BRAID_LEDGER_FIRST "%d\n", BRAID_LEDGER_VERSION);
  if (model) add_line(out, "model", model);
  braid_text_printf(out, "%s: integer training %d\n", kContract, BRAID_INTEGER_CONTRACT);
  add_options(&trainer->options, out);
  BRAID_TRY(braid_settings_write_data(trainer->train, out));
  BRAID_TRY(add_data_hash(trainer, out));
  braid_settings_write_model(trainer, out);
  add_names(trainer, out);
  return out->failed ? BRAID_NO_MEMORY : BRAID_OK;
}

/* --- comparing -----------------------------------------------------------------------------------------------------
 */
static bool is_of_data(const char *line) {
  return strncmp(line, BRAID_LEDGER_DATA_SUM, strlen(BRAID_LEDGER_DATA_SUM)) == 0 ||
         strncmp(line, BRAID_LEDGER_DATA_HASH, strlen(BRAID_LEDGER_DATA_HASH)) == 0;
}

static braid_status other_line(const braid_ledger *ledger, size_t i, const char *now, size_t length) {
  int most = 100, shown = length < (size_t)most ? (int)length : most;
  if (i >= ledger->head_count)
    return braid_fail(BRAID_INVALID_ARGUMENT,
                      "%s: its head ends where, by this model and data, \"%.*s\" is expected: it is of another run",
                      ledger->path, shown, now);
  return braid_fail(BRAID_INVALID_ARGUMENT,
                    "%s: line %zu: is \"%.100s\"; by this model and data it would be \"%.*s\": it is of another run",
                    ledger->path, ledger->head_lines[i], ledger->head[i], shown, now);
}

static braid_status compare_lines(const braid_ledger *ledger, const char *now, char *other_data, size_t room) {
  size_t i = 0;
  for (const char *end; *now; now = end + 1, i++) {
    end = strchr(now, '\n');
    size_t length = (size_t)(end - now);
    const char *was = i < ledger->head_count ? ledger->head[i] : NULL;
    if (was && strlen(was) == length && memcmp(was, now, length) == 0) continue;
    if (!was || !is_of_data(was)) return other_line(ledger, i, now, length);
    snprintf(other_data, room, "line %zu is \"%.100s\"; of the data given it is \"%.*s\"", ledger->head_lines[i], was,
             length < 100 ? (int)length : 100, now);
  }
  if (i == ledger->head_count) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "%s: line %zu: \"%.100s\" is more than a ledger of this model and data has",
                    ledger->path, ledger->head_lines[i], ledger->head[i]);
}

braid_status braid_ledger_compare_head(const braid_ledger *ledger, const braid_trainer *trainer, char *other_data,
                                       size_t room) {
  braid_text now;
  braid_text_init(&now, trainer->allocator);
  *other_data = '\0';
  braid_status status = braid_ledger_write_head(trainer, NULL, &now);
  if (status == BRAID_OK) status = compare_lines(ledger, now.data, other_data, room);
  braid_text_deinit(&now);
  return status;
}

/* --- reading -------------------------------------------------------------------------------------------------------
 */
static braid_status refuse_setting(const braid_ledger *ledger, size_t line, const char *name, const char *allowed) {
  if (!line) return braid_fail(BRAID_INVALID_FILE, "%s: its head has no line \"%s: ...\"", ledger->path, name);
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu: %s is expected as %s", ledger->path, line, allowed, name);
}

static braid_status get_whole(const braid_ledger *ledger, const char *name, int64_t least, int64_t most, int64_t *out) {
  size_t line = 0;
  char allowed[80];
  const char *text = braid_ledger_setting(ledger, name, &line);
  if (text && braid_parse_i64(text, out) && *out >= least && *out <= most) return BRAID_OK;
  snprintf(allowed, sizeof allowed, "a number from %" PRId64 " to %" PRId64, least, most);
  return refuse_setting(ledger, line, name, allowed);
}

static braid_status get_real(const braid_ledger *ledger, const char *name, double *out) {
  size_t line = 0;
  const char *text = braid_ledger_setting(ledger, name, &line);
  return text && braid_parse_f64(text, out) ? BRAID_OK : refuse_setting(ledger, line, name, "a number");
}

static braid_status get_bits(const braid_ledger *ledger, braid_train_options *out) {
  size_t line = 0;
  const char *text = braid_ledger_setting(ledger, kBits, &line);
  int used = 0, bits[4];
  if (!text || strlen(text) > 16 || sscanf(text, "%d/%d/%d/%d%n", &bits[0], &bits[1], &bits[2], &bits[3], &used) != 4 ||
      text[used])
    return refuse_setting(ledger, line, kBits, "four numbers with / between");
  out->weight_bits = bits[0], out->activation_bits = bits[1];
  out->gradient_bits = bits[2], out->error_bits = bits[3];
  return BRAID_OK;
}

static braid_status get_loss(const braid_ledger *ledger, braid_train_options *out) {
  const char *hinge = braid_loss_name(BRAID_SQUARED_HINGE);
  size_t line = 0;
  const char *text = braid_ledger_setting(ledger, kLoss, &line);
  if (!text || (strcmp(text, kError) != 0 && strcmp(text, hinge) != 0))
    return refuse_setting(ledger, line, kLoss, "squared-error or squared-hinge");
  if (strcmp(text, hinge) == 0) out->loss = BRAID_SQUARED_HINGE;
  return BRAID_OK;
}

static braid_status get_rule(const braid_ledger *ledger, braid_train_options *out) {
  size_t line = 0;
  const char *text = braid_ledger_setting(ledger, kRule, &line);
  if (!text || (strcmp(text, kWage) != 0 && strcmp(text, kMomentum) != 0))
    return refuse_setting(ledger, line, kRule, "sgd or wage");
  if (strcmp(text, kWage) == 0) out->optimizer = BRAID_WAGE;
  return get_real(ledger, kDecay, &out->weight_decay);
}

static braid_status check_contract(const braid_ledger *ledger) {
  size_t line = 0;
  char ours[32];
  const char *text = braid_ledger_setting(ledger, kContract, &line);
  snprintf(ours, sizeof ours, "integer training %d", BRAID_INTEGER_CONTRACT);
  if (text && strcmp(text, ours) == 0) return BRAID_OK;
  if (!text) return refuse_setting(ledger, 0, kContract, ours);
  return braid_fail(BRAID_INVALID_FILE, "%s: line %zu: it is of the contract \"%.100s\"; this version computes \"%s\"",
                    ledger->path, line, text, ours);
}

static braid_status get_groups(braid_ledger *ledger, braid_train_options *out) {
  static const char *const kNames[] = {kFrozen, kTrained};
  size_t count = 0;
  braid_free(ledger->allocator, ledger->groups);
  ledger->groups = braid_zalloc_array(ledger->allocator, ledger->head_count, sizeof *ledger->groups);
  if (!ledger->groups) return BRAID_NO_MEMORY;
  for (size_t i = 1; i < ledger->head_count; i++)
    for (size_t k = 0; k < 2; k++) {
      const char *text = ledger->head[i];
      size_t length = strlen(kNames[k]);
      if (strncmp(text, kNames[k], length) != 0 || strncmp(text + length, ": ", 2) != 0) continue;
      ledger->groups[count++] = (braid_parameter_group){text + length + 2, (double)k, NAN};
    }
  out->groups = ledger->groups;
  out->group_count = count;
  return BRAID_OK;
}

braid_status braid_ledger_options(braid_ledger *ledger, braid_train_options *out) {
  enum { kMostBatch = 1 << 20, kMostEpochs = 1000000 };
  int64_t seed;
  size_t line = 0;
  braid_train_options_init(out);
  out->precision = BRAID_INT8;
  BRAID_TRY(check_contract(ledger));
  BRAID_TRY(get_whole(ledger, kBatch, 1, kMostBatch, &out->batch));
  BRAID_TRY(get_whole(ledger, kEpochs, 1, kMostEpochs, &out->epochs));
  BRAID_TRY(get_whole(ledger, kSeed, 0, INT64_MAX, &seed));
  out->seed = (uint64_t)seed;
  BRAID_TRY(get_bits(ledger, out));
  BRAID_TRY(get_real(ledger, kRate, &out->learning_rate));
  BRAID_TRY(get_rule(ledger, out));
  BRAID_TRY(get_loss(ledger, out));
  BRAID_TRY(get_real(ledger, kNoise, &out->label_noise));
  const char *weights = braid_ledger_setting(ledger, kWeights, &line);
  if (!weights) return refuse_setting(ledger, 0, kWeights, "");
  out->draw_weights = strcmp(weights, kDrawn) == 0;
  BRAID_TRY(get_groups(ledger, out));
  braid_status status = braid_train_options_check(out);
  return status == BRAID_INVALID_ARGUMENT ? braid_fail_prefix(BRAID_INVALID_FILE, "%s: its head", ledger->path)
                                          : status;
}
