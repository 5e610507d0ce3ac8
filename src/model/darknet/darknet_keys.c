/* Keys of a section: each that stands in a file is read by its layer, or Darknet knows it and it has no effect here, or
 * it is refused. A misspelt key would otherwise mean the value that goes without saying. */
#include <limits.h>
#include <string.h>

#include "base/try.h"
#include "model/darknet/darknet.h"

/* What Darknet (J. Redmon's and AlexeyAB's) reads for training, data, drawing and its own GPU code. */
static const struct {
  const char *types, *keys;
} kIdle[] = {
    {"net network",
     "batch subdivisions learning_rate learning_rate_min momentum decay angle saturation exposure hue aspect burn_in "
     "max_batches policy steps scales seq_scales step scale gamma power max_crop min_crop max_ratio min_ratio center "
     "clip adam B1 B2 eps seen notruth random sgdr_cycle sgdr_mult track augment_speed sequential_subdivisions "
     "try_fix_nan weights_reject_freq equidistant_point badlabels_rejection_percentage num_sigmas_reject_badlabels "
     "ema_alpha use_cuda_graph loss_scale dynamic_minibatch optimized_memory workspace_size_limit_MB flip blur "
     "gaussian_noise mixup cutmix mosaic mosaic_bound letter_box contrastive contrastive_jit_flip contrastive_color "
     "unsupervised label_smooth_eps resize_step attention adversarial_lr max_chart_loss"},
    {"convolutional conv", "dot angle reverse grad_centr stream wait_stream"},
    {"maxpool max", "out_channels"},
    {"softmax soft", "noloss"},
    {"dropout", "dropblock dropblock_size_rel dropblock_size_abs"},
    {"cost", "type ratio noobj thresh"},
    {"crop", "flip angle saturation exposure shift"},
    {"route", "stream wait_stream"},
    {"yolo",
     "anchors jitter resize ignore_thresh truth_thresh random max map iou_thresh iou_thresh_kind iou_loss "
     "iou_normalizer "
     "obj_normalizer cls_normalizer delta_normalizer uc_normalizer nms_kind beta_nms show_details max_delta "
     "counters_per_class label_smooth_eps objectness_smooth focal_loss track_history_size sim_thresh dets_for_track "
     "dets_for_show track_ciou_norm embedding_layer yolo_point"},
    {"region",
     "anchors jitter resize rescore thresh classfix absolute random coord_scale object_scale noobject_scale mask_scale "
     "class_scale bias_match map max log sqrt focal_loss"},
    {"detection",
     "rescore sqrt max coord_scale forced object_scale noobject_scale class_scale jitter resize random reorg"},
};
static const char kIdleOfLayers[] =
    "truth onlyforward stopbackward dontsave learning_rate smooth show_receptive_field clip dont_update burnin_update "
    "train_only_bn";

static bool is_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = words; *at; at += strspn(at, " ")) {
    size_t here = strcspn(at, " ");
    if (here == length && memcmp(at, word, length) == 0) return true;
    at += here;
  }
  return false;
}

/* Of a section's own; "" if it has none. */
static const char *idle_of(const char *type) {
  for (size_t i = 0; i < sizeof kIdle / sizeof *kIdle; i++)
    if (is_word(kIdle[i].types, type)) return kIdle[i].keys;
  return "";
}

/* --- the nearest key ---------------------------------------------------------------------------------------------- */
enum { MAX_KEY = 40 };

/* Letters to insert, remove or replace. */
static size_t edits(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t row[MAX_KEY + 1];
  for (size_t k = 0; k <= b_length; k++) row[k] = k;
  for (size_t i = 1; i <= a_length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= b_length; k++) {
      size_t best = diagonal + (a[i - 1] != b[k - 1]);
      diagonal = row[k];
      if (row[k] + 1 < best) best = row[k] + 1;
      if (row[k - 1] + 1 < best) best = row[k - 1] + 1;
      row[k] = best;
    }
  }
  return row[b_length];
}

typedef struct candidate {
  const char *key;
  size_t length, edits;
} candidate;

static void compare(const char *key, const char *words, candidate *nearest) {
  size_t length = strlen(key);
  for (const char *at = words; *at; at += strspn(at, " ")) {
    size_t here = strcspn(at, " ");
    size_t count = length <= MAX_KEY && here <= MAX_KEY ? edits(key, length, at, here) : SIZE_MAX;
    if (count < nearest->edits) *nearest = (candidate){at, here, count};
    at += here;
  }
}

static braid_status refuse(const braid_darknet *net, const braid_cfg_option *option, const char *idle) {
  candidate nearest = {.edits = strlen(option->key) / 3 + 2}; /* further away is no misspelling */
  for (size_t i = 0; i < net->cfg->asked_count; i++) compare(option->key, net->cfg->asked[i], &nearest);
  compare(option->key, idle, &nearest);
  return braid_fail(BRAID_INVALID_FILE, "%s:%d: [%.40s] has no key \"%.80s\"%s%.*s%s", net->cfg->path, option->line,
                    net->section->type, option->key, nearest.key ? ", did you mean \"" : "", (int)nearest.length,
                    nearest.key ? nearest.key : "", nearest.key ? "\"?" : "");
}

/* --- one section -------------------------------------------------------------------------------------------------- */
static bool was_asked(const braid_cfg *cfg, const char *key) {
  for (size_t i = 0; i < cfg->asked_count; i++)
    if (strcmp(cfg->asked[i], key) == 0) return true;
  return false;
}

/* Darknet goes by the first, other readers by the last. */
static braid_status check_once(const braid_darknet *net, size_t index) {
  const braid_cfg_option *option = &net->section->options[index];
  for (size_t i = 0; i < index; i++) {
    const braid_cfg_option *first = &net->section->options[i];
    if (strcmp(first->key, option->key) != 0 || strcmp(first->value, option->value) == 0) continue;
    return braid_fail(BRAID_INVALID_FILE, "%s:%d: [%.40s] %.80s=%.80s, but line %d says %.80s=%.80s", net->cfg->path,
                      option->line, net->section->type, option->key, option->value, first->line, first->key,
                      first->value);
  }
  return BRAID_OK;
}

braid_status braid_darknet_check_keys(braid_darknet *net) {
  const braid_cfg_section *section = net->section;
  const char *idle = idle_of(section->type);
  bool layer = section != net->cfg->sections;
  for (size_t i = 0; i < section->count; i++) {
    const char *key = section->options[i].key;
    if (was_asked(net->cfg, key)) {
      BRAID_TRY(check_once(net, i));
    } else if (is_word(idle, key) || (layer && is_word(kIdleOfLayers, key))) {
      if (is_word(net->idle.data, key)) continue;
      braid_text_add(&net->idle, " ");
      braid_text_add(&net->idle, key);
      if (net->idle.failed) return BRAID_NO_MEMORY;
    } else {
      return refuse(net, &section->options[i], idle);
    }
  }
  return BRAID_OK;
}

void braid_darknet_tell_idle(const braid_darknet *net) {
  if (net->idle.length)
    braid_log_write(net->log, BRAID_LOG_INFO, "%s: without effect here:%s", net->cfg->path, net->idle.data);
}
