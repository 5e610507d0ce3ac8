/* All public headers of libbraid except those for backends (braid/host_queue.h, braid/plugin.h). */
#ifndef BRAID_BRAID_H
#define BRAID_BRAID_H
#include "braid/buffer.h"
#include "braid/conformance.h"
#include "braid/custom.h"
#include "braid/data.h"
#include "braid/device.h"
#include "braid/explore.h"
#include "braid/ledger.h"
#include "braid/log.h"
#include "braid/model.h"
#include "braid/op.h"
#include "braid/overlay.h"
#include "braid/plan.h"
#include "braid/planning.h"
#include "braid/profile.h"
#include "braid/quantize.h"
#include "braid/session.h"
#include "braid/steering.h"
#include "braid/train.h"
#include "braid/version.h"
#endif
