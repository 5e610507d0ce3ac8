#!/bin/sh
# Each fuzz target runs for a short while from its seeds (tests/data/<format>) and finds nothing.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-3}
ci/clang_tree.sh
targets=$(find src -name '*_fuzz.c' -exec basename {} .c \;)
# shellcheck disable=SC2086
cmake --build build-ci-clang --target $targets
export LSAN_OPTIONS="suppressions=$PWD/ci/lsan.supp print_suppressions=0" ASAN_OPTIONS=allocator_may_return_null=1
export seconds
# As many at a time as there are processors; what one prints comes out in one piece.
# shellcheck disable=SC2016,SC2086
printf '%s\n' $targets | xargs -P "${CTEST_PARALLEL_LEVEL:-$(nproc)}" -I {} sh -ec '
  work=build-ci-clang/corpus/$1 seeds=tests/data/${1%_fuzz}
  mkdir -p "$work"
  [ -d "$seeds" ] || seeds=
  said=$(build-ci-clang/fuzz/"$1" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix=build-ci-clang/ "$work" $seeds 2>&1) && status=0 || status=$?
  printf -- "--- %s\n%s\n" "$1" "$said"
  exit $status' sh {}
