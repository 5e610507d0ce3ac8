/* Which cores a context gets. */
#include "overlay/card/internal.h"

static uint64_t bit(int core) {
  return (uint64_t)1 << core;
}

void card_banks(const braid_overlay_design *design, uint64_t cores, int *first, int *last) {
  *first = design->banks;
  *last = -1;
  for (int c = 0; c < design->cores; c++) {
    int from, count;
    if (!(cores & bit(c))) continue;
    braid_overlay_core_banks(design, c, &from, &count);
    if (from < *first) *first = from;
    if (from + count - 1 > *last) *last = from + count - 1;
  }
}

/* Another context that has some. */
static bool has_cores(const braid_card *card, const card_context *context, const card_context *other) {
  if (!other->open || other == context || !other->cores) return false;
  return other->request.keeps_cores || !card->kept_alone;
}

/* What others were promised of the banks of this core, each bank counting for itself: the greatest. */
static double promised(const braid_card *card, const card_context *context, int core, uint64_t taken) {
  int from, count;
  double most = 0;
  braid_overlay_core_banks(card->design, core, &from, &count);
  for (int b = from; b < from + count; b++) {
    double sum = 0;
    for (int c = 0; c < card->design->cores; c++) {
      int at, banks;
      braid_overlay_core_banks(card->design, c, &at, &banks);
      if (b < at || b >= at + banks) continue;
      if (taken & bit(c)) sum += context->request.bandwidth;
      for (size_t i = 0; i < card->count; i++)
        if (has_cores(card, context, card->contexts[i]) && card->contexts[i]->cores & bit(c))
          sum += card->contexts[i]->request.bandwidth;
    }
    if (sum > most) most = sum;
  }
  return most;
}

/* Contexts whose data are at one of these banks. */
static int others_at(const braid_card *card, const card_context *context, int first, int last) {
  int others = 0;
  for (size_t i = 0; i < card->count; i++) {
    const card_context *other = card->contexts[i];
    int from, to;
    if (!has_cores(card, context, other)) continue;
    card_banks(card->design, other->cores, &from, &to);
    others += from <= last && to >= first;
  }
  return others;
}

/* `count` cores of the window of banks: its own before free ones. */
static uint64_t choose_within(const braid_card *card, const card_context *context, int count, int first, int last) {
  uint64_t own = context->cores ? context->cores : context->last_cores, taken = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int c = 0; c < card->design->cores && card_count(taken) < count; c++) {
      int from, banks;
      braid_overlay_core_banks(card->design, c, &from, &banks);
      if (from < first || from + banks - 1 > last || taken & bit(c)) continue;
      if (!((card->free | context->cores) & bit(c)) || (!pass && !(own & bit(c)))) continue;
      if (context->request.bandwidth > 0 && promised(card, context, c, taken) + context->request.bandwidth > 1 + 1e-9)
        continue;
      taken |= bit(c);
    }
  return card_count(taken) == count ? taken : 0;
}

uint64_t card_choose(const braid_card *card, const card_context *context, int count) {
  int banks = card->design->banks, best_cost = 0;
  uint64_t best = 0;
  if (count <= 0 || count > card_count(card->free | context->cores)) return 0;
  for (int span = 1; span <= banks; span++)
    for (int first = 0; first + span <= banks; first++) {
      uint64_t cores = choose_within(card, context, count, first, first + span - 1);
      int from, to;
      if (!cores) continue;
      card_banks(card->design, cores, &from, &to);
      uint64_t moved = context->last_cores ? cores & ~context->last_cores : 0;
      int cost = (others_at(card, context, from, to) * 2 * banks + (to - from)) * 128 + card_count(moved);
      if (best && cost >= best_cost) continue;
      best = cores;
      best_cost = cost;
    }
  return best;
}

bool card_could_have(const braid_card *card, const card_context *context, int count, bool empty) {
  braid_card seen = *card;
  seen.kept_alone = true;
  if (empty) seen.count = 0;
  seen.free = card->design->cores == 64 ? UINT64_MAX : bit(card->design->cores) - 1;
  for (size_t i = 0; i < seen.count; i++)
    if (has_cores(&seen, context, seen.contexts[i])) seen.free &= ~seen.contexts[i]->cores;
  if (context->request.bandwidth <= 0) return count <= card_count(seen.free | context->cores);
  return card_choose(&seen, context, count) != 0;
}
