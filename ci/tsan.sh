#!/bin/sh
# The tests of what runs on several threads pass under ThreadSanitizer. libgomp is not instrumented, so OpenMP runs on
# one thread, and threads_test, which asks for more, stays out; the queues, timelines, executions and loader use POSIX
# threads, which is what is looked at here.
set -eu
cd "$(dirname "$0")/.."
CC=gcc cmake --preset tsan -B build-ci-tsan -DBRAID_WERROR=ON -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG" \
  -DBRAID_TEST_CACHE="${BRAID_BUILD:-$PWD/build-ci-tsan}/cache"
tests=$(find src/base src/device src/launch src/backend src/runtime src/train tests -name '*_test.c' -exec basename {} .c \; |
  grep -E '^(timeline|queue|host_queue|executor|execution|shared|prepare|session|loader|device|null|ring|conformance|opencl|op_|buffer)' || true)
[ -n "$tests" ] || { echo "no threaded tests found" >&2; exit 1; }
# shellcheck disable=SC2086
cmake --build build-ci-tsan --target $tests
export OMP_NUM_THREADS=1 TSAN_OPTIONS="halt_on_error=1 allocator_may_return_null=1 suppressions=$PWD/ci/tsan.supp"
ci/test.sh build-ci-tsan --output-on-failure -R "^($(echo "$tests" | paste -sd '|'))\$"
