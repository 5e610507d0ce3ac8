#!/bin/sh
# Other CPUs, under an emulator: the whole library for aarch64, with the libraries that ci/sysroot.sh unpacks, and the
# core library as a static archive for riscv64. Their tests pass. The same tree of aarch64 gives one archive of everything
# and braid linked statically, which computes the small ones of ci/networks.sh as this machine does; the large two take an
# emulator minutes, as the whole for riscv64 takes to build: docs/manycore.md says how, and when they were last run.
set -eu
cd "$(dirname "$0")/.."
export BRAID_REQUIRE= # an emulator has not all that this machine has
unset BRAID_DATA      # nor the time for real data
cmake --preset riscv64 -B build-ci-riscv64 -DBRAID_WERROR=ON -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" # -O3 takes longer
cmake --build build-ci-riscv64
# Not the longest, which run for aarch64 too; derivatives and plans are the same on every CPU.
ci/test.sh build-ci-riscv64 --output-on-failure \
  -E '^(elementwise|reduce|differential|place|manycore|(norm|dense|movement)_gradient)_test$'
ci/sysroot.sh arm64 build-ci-sysroot-arm64
# Without optimization gcc sees less of how long a text may be. The rooms that are optimized are those that the tests
# below wait for.
cmake --preset aarch64-whole -B build-ci-aarch64 -DBRAID_WERROR=ON -DBRAID_SYSROOT="$PWD/build-ci-sysroot-arm64" \
  -DBRAID_STATIC=ON -DBRAID_ROOMS_OPTIMIZE=-O2 \
  -DBRAID_ROOMS='isa|base|backend/(cpu|manycore|null)|model|runtime/plan|tensor|train/(data|integer|ledger)' \
  -DCMAKE_C_FLAGS_RELEASE="-O0 -DNDEBUG -Wno-format-truncation"
# The rooms whose work depends on the processor: its order of bytes, its arithmetic and vectors, its atomics and alignment,
# and files and messages that other processors read; not what is the same on every CPU: derivatives, policies, plans,
# forecasts, simulators and the overlay's compiler.
rooms='src/base src/tensor src/graph/*_test.c src/graph/ops src/model src/device src/launch src/backend src/runtime
  src/train/*_test.c src/train/checkpoint src/train/data src/train/ledger src/serve/wire src/overlay/isa
  src/overlay/recurrent/rnn_file_test.c plugins/onnxruntime tests/cli_recurrent_test.c tests/cli_manycore_test.c'
# What compares shapes or plans by the thousand, trains or runs the command by the hundred, takes an emulator half an
# hour; so do oracles in long double, which no such CPU has. What meters a device would meter the emulator; an OpenCL
# driver is not there, nor a card, and programs that pass for a card's driver say nothing of this CPU. The contract of
# devices is judged for riscv64, under the same emulator.
long='threads|in_place|nonfinite|fft|audit|ledger|finder|trainer.*|own_loss|precision_train|parallel|head|scale|optimizer'
long="$long|formulas|package|overlay_device|dataset|session_ends|plugin|group|share|policy|program|cl_.*|opencl_.*|opencl"
long="$long|conformance_samples|winograd_conv|cuda|cuda_.*|manycore_device|early|device_conformance"
# shellcheck disable=SC2086
there=$(find $rooms -name '*_test.c' -exec basename {} .c \; | grep -vE "^($long)_test\$" | paste -sd '|')
tests=$(ctest --test-dir build-ci-aarch64 -N -R "^($there)\$" | awk '$2 ~ /^#/ { print $3 }')
# shellcheck disable=SC2086
cmake --build build-ci-aarch64 --target products static $tests
here=${BRAID_BUILD:-build}/braid
if [ -x "$here" ]; then
  NETWORKS="cifarnet lenet" ci/networks.sh "$here" qemu-aarch64-static build-ci-aarch64/static/braid
else
  echo "not compared: $here is not built" >&2
fi
ci/test.sh build-ci-aarch64 --output-on-failure -R "^($there)\$"
