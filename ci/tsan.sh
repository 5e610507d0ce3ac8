#!/bin/sh
# What runs on several threads passes under ThreadSanitizer: the tests of the rooms that have threads of their own, for
# queues, timelines, executions and loaders. libgomp is not instrumented, so teams of OpenMP are of one thread.
set -eu
cd "$(dirname "$0")/.."
# Without optimization gcc sees less of how long a text may be. The rooms that are optimized are those that these tests
# wait for.
CC=gcc cmake --preset tsan -B build-ci-tsan -DBRAID_WERROR=ON -DBRAID_ROOMS_OPTIMIZE=-O2 \
  -DBRAID_ROOMS='isa|base|backend/(cpu|manycore|null)|model|runtime/plan|tensor|train/(data|integer|ledger)' \
  -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O0 -g1 -DNDEBUG -Wno-format-truncation" -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld \
  -DBRAID_TEST_CACHE="${BRAID_BUILD:-$PWD/build-ci-tsan}/cache"
# Not those that judge what kernels compute, or what ledgers of such kernels say, nor those that train again and again on
# the threads of trainer_test; nor those that read files, convert graphs, compile programs or load plug-ins on one thread.
without='cl_.*|foreign|manifest|arguments|differential|conformance_samples|ledger|audit|integer_train|opencl_in_place'
without="$without|trainer_resume|trainer_targets|precision_train|own_loss|finder|parallel|update|head"
without="$without|text|sha256|siphash|philox|opencl|plugin|saved_refused|quantize|range|power|contract|contract_window"
without="$without|manycore_device|dataset|image|coco|csv|listing|export"
tests=$(find src/base src/device src/launch src/runtime src/train src/steering src/quantize src/backend/null \
  src/backend/manycore src/backend/opencl plugins/onnxruntime -name '*_test.c' -exec basename {} .c \; |
  grep -vE "^($without)_test\$")
# shellcheck disable=SC2086
cmake --build build-ci-tsan --target $tests
export OMP_THREAD_LIMIT=1 OMP_NUM_THREADS=1
export TSAN_OPTIONS="halt_on_error=1 allocator_may_return_null=1 suppressions=$PWD/ci/tsan.supp"
ci/test.sh build-ci-tsan --output-on-failure -R "^($(echo "$tests" | paste -sd '|'))\$"
