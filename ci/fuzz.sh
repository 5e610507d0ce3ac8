#!/bin/sh
# Each fuzz target runs for a short while from its seeds (tests/data/<format>) and finds nothing.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-8}
cmake --preset fuzz -B build-ci-fuzz
targets=$(find src -name '*_fuzz.c' -exec basename {} .c \;)
# shellcheck disable=SC2086
cmake --build build-ci-fuzz --target $targets
export LSAN_OPTIONS="suppressions=$PWD/ci/lsan.supp print_suppressions=0" ASAN_OPTIONS=allocator_may_return_null=1
for target in $targets; do
  work=build-ci-fuzz/corpus/$target
  mkdir -p "$work"
  seeds=tests/data/${target%_fuzz}
  [ -d "$seeds" ] || seeds=
  echo "--- $target"
  # shellcheck disable=SC2086
  build-ci-fuzz/fuzz/"$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix=build-ci-fuzz/ "$work" $seeds
done
