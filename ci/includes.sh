#!/bin/sh
# The rooms of src/ include downwards only; cli and examples use the public headers alone (docs/architecture.md).
# Tests, benchmarks and fuzz targets may reach wherever they need. `ci/includes.sh TREE` looks at another tree.
set -eu
cd "${1:-$(dirname "$0")/..}"
# Prints "file:line: file includes header" for each include that `allowed` (a pattern of first path parts) lacks. In
# angle brackets too, where a file of ours has that name: <sys/stat.h> is none, <runtime/machine.h> is.
check() { # files pattern
  pattern=$2
  for file in $1; do
    case $file in *_test.c | *_fuzz.c | *_bench.c) continue ;; esac
    own=$(dirname "$file" | sed 's|^src/||')
    grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "$file" |
      sed -E 's/^([0-9]+):[^"<]*(["<])([^">]+).*/\1 \2 \3/' |
      while read -r line quote header; do
        case $header in */*) ;; *) continue ;; esac # generated, or beside the file
        [ "$quote" = '"' ] || [ -f "src/$header" ] || [ -f "include/$header" ] || continue
        case $header in
          *../*) ;; # leads anywhere
          "$own"/*) continue ;;
          *) if echo "$header" | grep -qE "^($pattern)"; then continue; fi ;;
        esac
        echo "$file:$line: $own may not include $header"
      done
  done
}
sources() { find "$1" -name '*.[ch]' 2>/dev/null | sort; }

base='base/|braid/(status|allocator|log|version)\.h'
tensor="$base|tensor/|braid/tensor\.h"
graph="$tensor|graph/|braid/(graph|custom)\.h"
model="$graph|model/|braid/model\.h"
device="$graph|device/|braid/(device|group|host_queue|plugin)\.h"
launch="$device|launch/"
schedule="$base|schedule/" # numbers only
runtime="$device|schedule/|model/|backend/|runtime/|braid/(model|machine|buffer|op|plan|session|conformance)\.h"
upper="$runtime|braid/(data|train|ledger)\.h"
explore="$upper|train/|explore/|braid/explore\.h"
profile="$graph|profile/|braid/(device|explore|planning|profile)\.h" # the database alone
planning="$upper|train/|profile/|planning/|braid/(explore|planning|profile)\.h"
measure="$planning|explore/page|braid/explore\.h|measure/"
steering="$measure|steering/|braid/steering\.h"
overlay="$graph|device/yaml|overlay/|schedule/program/glpk\.h|braid/(model|overlay(_[a-z]+)?)\.h" # below runtime: its device is a backend
simulate="$base|device/yaml|overlay/share/recorded\.h|serve/serving_policy\.h|serve/cluster/(placement|routing)_policy\.h|simulate/|braid/cluster_simulation\.h"
quantize="$upper|train/|quantize/|braid/quantize\.h"
{
  check "$(sources src/base)" "$base"
  check "$(sources src/client) $(find src/serve/wire -name 'wire_format.[ch]' 2>/dev/null)" 'client/|serve/wire/wire_format\.h|tls/tls\.h|braid/client\.h' # libc alone
  check "$(sources src/tls)" 'tls/' # the same
  check "$(sources src/serve/cluster | grep -E '/(placement|routing)_') $(find src/serve -name 'serving_policy.[ch]')" "$base|serve/serving_policy\.h|serve/cluster/(placement|routing)_" # numbers only
  check "$(sources src/tensor)" "$tensor"
  check "$(sources src/graph)" "$graph"
  check "$(sources src/model)" "$model"
  check "$(sources src/device)" "$device"
  check "$(sources src/launch)" "$launch"
  check "$(sources src/schedule)" "$schedule"
  check "$(sources src/runtime)" "$runtime"
  check "$(sources src/train)" "$upper|train/"
  check "$(sources src/explore)" "$explore"
  check "$(sources src/overlay)" "$overlay"
  check "$(sources src/simulate)" "$simulate"
  check "$(sources src/quantize)" "$quantize"
  check "$(sources src/profile)" "$profile"
  check "$(sources src/planning)" "$planning"
  check "$(sources src/measure)" "$measure"
  check "$(sources src/steering)" "$steering"
  for backend in src/backend/*/; do
    name=$(basename "$backend")
    pattern="$launch|backend/$name/"
    [ "$name" != overlay ] || pattern="$pattern|overlay/|braid/overlay\.h" # the device that src/overlay simulates
    [ "$name" != remote ] || pattern="$pattern|serve/wire/wire_format\.h|tls/tls\.h|braid/remote\.h" # the daemon's protocol, on libc alone
    [ "$name" != manycore ] || pattern="$pattern|backend/cpu/|braid/manycore\.h" # its management core is a CPU
    check "$(sources "src/backend/$name")" "$pattern"
  done
  check "$(sources cli) $(sources examples)" 'braid/'
} >"${TMPDIR:-/tmp}/braid-includes.$$"
trap 'rm -f "${TMPDIR:-/tmp}/braid-includes.$$"' EXIT
cat "${TMPDIR:-/tmp}/braid-includes.$$"
[ ! -s "${TMPDIR:-/tmp}/braid-includes.$$" ]
