#!/bin/sh
# Other CPUs, under an emulator: the whole library for aarch64, with the libraries that ci/sysroot.sh unpacks, and the
# core library as a static archive for riscv64. Their tests pass. The same tree of aarch64 gives one archive of everything
# and braid linked statically, which computes the small ones of ci/networks.sh as this machine does; the large two take an
# emulator minutes, as the whole for riscv64 takes to build: docs/manycore.md says how, and when they were last run.
set -eu
cd "$(dirname "$0")/.."
export BRAID_REQUIRE= # an emulator has not all that this machine has
unset BRAID_DATA      # nor the time for real data
flags="-O2 -DNDEBUG" # -O3 takes the compiler half as long again
cmake --preset riscv64 -B build-ci-riscv64 -DBRAID_WERROR=ON -DCMAKE_C_FLAGS_RELEASE="$flags"
cmake --build build-ci-riscv64
ci/test.sh build-ci-riscv64 --output-on-failure
ci/sysroot.sh arm64 build-ci-sysroot-arm64
cmake --preset aarch64-whole -B build-ci-aarch64 -DBRAID_WERROR=ON -DBRAID_SYSROOT="$PWD/build-ci-sysroot-arm64" \
  -DBRAID_STATIC=ON -DCMAKE_C_FLAGS_RELEASE="$flags"
# What compares shapes or plans by the thousand, trains or runs the command by the hundred, takes an emulator half an
# hour; so do oracles in long double, which no such CPU has. What meters a device would meter the emulator.
long='threads|in_place|nonfinite|mutants|fft|audit|ledger|finder|trainer_resume|trainer_targets|own_loss|policy|program|planning|steering'
long="$long|isolation|card_tenants|policy_memory|share_policy|stops|precision_train|integer_train|trainer|parallel|quantize|head|scale"
# Nor what is the same on every CPU: databases, forecasts, policies, the overlay's compiler and simulator.
long="$long|optimizer|database|forecast|dvfs|formulas|package|compiler|overlay_(evaluate|device)|cli_hybrid|dataset|session_ends"
long="$long|cli|cli_(audit|explore|overlay|plan|profile|quantize|share|steering|train)"
tests=$(ctest --test-dir build-ci-aarch64 -N -E "^($long)_test\$" | awk '$2 ~ /^#/ { print $3 }')
# shellcheck disable=SC2086
cmake --build build-ci-aarch64 --target products static $tests
here=${BRAID_BUILD:-build}/braid
if [ -x "$here" ]; then
  NETWORKS="cifarnet lenet" ci/networks.sh "$here" qemu-aarch64-static build-ci-aarch64/static/braid
else
  echo "not compared: $here is not built" >&2
fi
ci/test.sh build-ci-aarch64 --output-on-failure -E "^($long)_test\$"
