/* Any value of a key is a node or an order within its bounds, which is written and read again, or counts as none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/cluster/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void apply(const char *key, const uint8_t *data, size_t bytes) {
  braid_cluster_roster roster = {0};
  char name[128];
  braid_etcd_key keys[] = {{.key = name, .value = (const char *)data, .value_bytes = bytes, .create_revision = 1},
                           {.key = name, .value = "", .deleted = true}};
  keys[0].key_bytes = keys[1].key_bytes = (size_t)snprintf(name, sizeof name, "/p/%s", key);
  braid_cluster_roster_apply(&roster, "/p/", &(braid_etcd_keys){.keys = keys, .count = 1});
  braid_cluster_roster_apply(&roster, "/p/", &(braid_etcd_keys){.keys = keys + 1, .count = 1});
  if (roster.member_count || roster.order_count || roster.candidate_count) abort();
  braid_cluster_roster_deinit(&roster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  braid_cluster_member member, again;
  braid_cluster_order order, same;
  braid_text text;
  braid_text_init(&text, NULL);
  if (braid_cluster_member_read((const char *)data, bytes, &member)) {
    if (member.holding_count > BRAID_CLUSTER_HOLDINGS || member.instances < 1) abort();
    braid_cluster_member_write(&member, &text);
    if (!braid_cluster_member_read(text.data, text.length, &again)) abort();
    if (again.holding_count != member.holding_count || strcmp(again.address, member.address) != 0) abort();
    braid_cluster_member_deinit(&again);
  } else if (member.holdings) {
    abort();
  }
  braid_cluster_member_deinit(&member);
  braid_text_deinit(&text);
  if (braid_cluster_order_read((const char *)data, bytes, &order)) {
    if (order.node_count > BRAID_CLUSTER_COPIES) abort();
    braid_cluster_order_write(&order, &text);
    if (!braid_cluster_order_read(text.data, text.length, &same) || same.node_count != order.node_count) abort();
    braid_text_deinit(&text);
  }
  apply("nodes/a", data, bytes);
  apply("orders/a", data, bytes);
  apply("election/a", data, bytes);
  return 0;
}
