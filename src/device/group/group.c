#include "braid/group.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/detail.h"
#include "base/try.h"

enum { kDetailBytes = 1024 };

struct braid_group {
  const braid_allocator *allocator;
  const braid_group_ops *ops;
  void *context; /* the transport's */
  int rank, size;
  bool lost;     /* atomic; a collective has failed */
  bool together; /* a failure that all know of */
  braid_status failure;
  char detail[kDetailBytes]; /* of the failure */
  bool (*interrupted)(void *context);
  void *watch_context;
  int64_t interrupted_ns; /* since when the collective knows; 0: it does not */
  int64_t told_ns;        /* atomic; the same for collectives of devices */
};

static const int64_t kPatienceNs = 20000000000; /* after this process was told to end: others may be in a long step */

/* --- joining -------------------------------------------------------------------------------------------------------
 */
static braid_status check_ops(const braid_group_ops *ops) {
  if (ops->abi != BRAID_GROUP_ABI)
    return braid_fail(BRAID_UNSUPPORTED, "a transport was built for version %u of groups, this is %d", ops->abi,
                      BRAID_GROUP_ABI);
  if (ops->name && ops->join && ops->all_reduce && ops->broadcast && ops->abort && ops->leave) return BRAID_OK;
  return braid_fail(BRAID_INVALID_ARGUMENT, "the transport %.40s lacks a function",
                    ops->name ? ops->name : "(unnamed)");
}

braid_status braid_group_join(const braid_allocator *allocator, const braid_group_ops *ops, braid_group **out) {
  *out = NULL;
  BRAID_TRY(check_ops(ops));
  braid_group *group = braid_zalloc(allocator, sizeof *group);
  if (!group) return BRAID_NO_MEMORY;
  *group = (braid_group){.allocator = allocator, .ops = ops, .size = 1};
  braid_clear_detail();
  braid_status status = ops->join(&group->context, &group->rank, &group->size);
  if (status == BRAID_OK) {
    *out = group;
    return BRAID_OK;
  }
  braid_free(allocator, group);
  return braid_fail_prefix(status, "joining by %.40s", ops->name);
}

void braid_group_destroy(braid_group *group) {
  if (!group) return;
  group->ops->leave(group->context, __atomic_load_n(&group->lost, __ATOMIC_ACQUIRE));
  braid_free(group->allocator, group);
}

int braid_group_rank(const braid_group *group) {
  return group ? group->rank : 0;
}

int braid_group_size(const braid_group *group) {
  return group ? group->size : 1;
}

void braid_group_set_watch(braid_group *group, bool (*interrupted)(void *context), void *context) {
  group->interrupted = interrupted;
  group->watch_context = context;
}

/* --- collectives ---------------------------------------------------------------------------------------------------
 */
static bool patience_is_over(void *context) {
  braid_group *group = context;
  if (!group->interrupted || !group->interrupted(group->watch_context)) return false;
  int64_t now = braid_now_ns();
  if (!group->interrupted_ns) group->interrupted_ns = now;
  return now - group->interrupted_ns > kPatienceNs;
}

bool braid_group_gives_up(braid_group *group) {
  if (group->together) return false; /* all know, and end by themselves */
  if (__atomic_load_n(&group->lost, __ATOMIC_ACQUIRE)) return true;
  if (!group->interrupted || !group->interrupted(group->watch_context)) return false;
  int64_t now = braid_now_ns(), since = 0;
  if (__atomic_compare_exchange_n(&group->told_ns, &since, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return false;
  return now - since > kPatienceNs;
}

static braid_status group_begin(braid_group *group, braid_group_patience *patience) {
  if (group->together || __atomic_load_n(&group->lost, __ATOMIC_ACQUIRE))
    return braid_fail(BRAID_DEVICE_LOST, "the other processes of the group are lost");
  group->interrupted_ns = 0;
  *patience = (braid_group_patience){patience_is_over, group};
  braid_clear_detail();
  return BRAID_OK;
}

static braid_status group_end(braid_group *group, braid_status status) {
  if (status != BRAID_OK) __atomic_store_n(&group->lost, true, __ATOMIC_RELEASE);
  return status;
}

static bool reduces(braid_dtype dtype, braid_reduction reduction) {
  bool integer = dtype == BRAID_I32 || dtype == BRAID_I64;
  return integer || (reduction != BRAID_REDUCE_OR && (dtype == BRAID_F32 || dtype == BRAID_F64));
}

braid_status braid_group_all_reduce(braid_group *group, void *data, size_t count, braid_dtype dtype,
                                    braid_reduction reduction) {
  braid_group_patience patience;
  if (!reduces(dtype, reduction))
    return braid_fail(BRAID_INVALID_ARGUMENT, "groups do not reduce %s in this way", braid_dtype_name(dtype));
  if (braid_group_size(group) < 2 || !count) return BRAID_OK;
  BRAID_TRY(group_begin(group, &patience));
  return group_end(group, group->ops->all_reduce(group->context, data, count, dtype, reduction, &patience));
}

braid_status braid_group_broadcast(braid_group *group, void *data, size_t bytes, int root) {
  braid_group_patience patience;
  if (braid_group_size(group) < 2 || !bytes) return BRAID_OK;
  if (root < 0 || root >= group->size)
    return braid_fail(BRAID_INVALID_ARGUMENT, "process %d of %d cannot be the source", root, group->size);
  BRAID_TRY(group_begin(group, &patience));
  return group_end(group, group->ops->broadcast(group->context, data, bytes, root, &patience));
}

braid_status braid_group_barrier(braid_group *group) {
  int32_t nothing = 0;
  return braid_group_all_reduce(group, &nothing, 1, BRAID_I32, BRAID_REDUCE_SUM);
}

braid_status braid_group_agree(braid_group *group, braid_status status) {
  if (braid_group_size(group) < 2) return status;
  if (group->together) return braid_fail(group->failure, "%s", group->detail);
  char detail[kDetailBytes];
  snprintf(detail, sizeof detail, "%s", status == BRAID_OK ? "" : braid_error_detail());
  int32_t first = status == BRAID_OK ? 0 : group->size - group->rank; /* the lowest rank has the greatest number */
  BRAID_TRY(braid_group_all_reduce(group, &first, 1, BRAID_I32, BRAID_REDUCE_MAX));
  if (!first) return BRAID_OK;
  int failed = group->size - first;
  int32_t number = (int32_t)status;
  BRAID_TRY(braid_group_broadcast(group, &number, sizeof number, failed));
  BRAID_TRY(braid_group_broadcast(group, detail, sizeof detail, failed));
  detail[sizeof detail - 1] = '\0';
  if (!detail[0]) snprintf(detail, sizeof detail, "%s", braid_status_text((braid_status)number));
  char process[32] = "";
  if (failed) snprintf(process, sizeof process, "process %d: ", failed);
  snprintf(group->detail, sizeof group->detail, "%s%.960s", process, detail);
  group->failure = (braid_status)number;
  group->together = true;
  return braid_fail(group->failure, "%s", group->detail);
}

bool braid_group_failed_together(const braid_group *group) {
  return group->together;
}

void braid_group_abort(braid_group *group, int code) {
  if (braid_group_size(group) > 1) group->ops->abort(group->context, code);
}
