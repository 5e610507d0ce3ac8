#!/bin/sh
# ci/includes.sh finds includes that go upwards, however they are written, and nothing else.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/base" "$work/src/runtime/plan" "$work/src/train" "$work/include/braid" "$work/cli" "$work/examples"
: >"$work/src/runtime/machine.h" >"$work/include/braid/session.h" >"$work/include/braid/status.h"
: >"$work/src/train/step.h" >"$work/src/base/text.h" >"$work/include/braid/train.h"
cat >"$work/src/base/text.c" <<'END'
#include <sys/stat.h>
#include <CL/cl.h>
#include <braid/status.h>
#include "base/text.h"
#include <runtime/machine.h>
#include <braid/session.h>
  #  include "runtime/machine.h"
#include "../runtime/machine.h"
#include <base/../runtime/machine.h>
END
echo '#include <train/step.h>' >"$work/src/runtime/plan/plan.c"
echo '#include "base/text.h"' >"$work/src/runtime/plan/order.c"
echo '#include <base/text.h>' >"$work/cli/main.c"
echo '#include <braid/train.h>' >"$work/examples/first.c"
cat >"$work/expected" <<'END'
src/base/text.c:5: base may not include runtime/machine.h
src/base/text.c:6: base may not include braid/session.h
src/base/text.c:7: base may not include runtime/machine.h
src/base/text.c:8: base may not include ../runtime/machine.h
src/base/text.c:9: base may not include base/../runtime/machine.h
src/runtime/plan/plan.c:1: runtime/plan may not include train/step.h
cli/main.c:1: cli may not include base/text.h
END
if "$here/ci/includes.sh" "$work" >"$work/found"; then
  echo "ci/includes.sh lets everything pass" >&2
  exit 1
fi
diff "$work/expected" "$work/found"
