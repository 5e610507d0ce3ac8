#!/bin/sh
# oneDNN 3 does as well as 2, which Debian 12 has: built against it, the tests of the kernels that stand on it pass. What
# includes none of its headers comes from BRAID_BUILD where that is set.
# Skipped (77) where pip cannot fetch it.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/build-ci-onednn3
prefix=$build/venv
ci/wheels.sh "$prefix" onednn-cpu-gomp onednn-devel-cpu-gomp || exit $?
cmake -S . -B "$build" -G Ninja -DBRAID_WERROR=ON -DCMAKE_PREFIX_PATH="$prefix" \
  -DBRAID_TEST_CACHE="${BRAID_BUILD:-$build}/cache" ${BRAID_BUILD:+-DBRAID_ARCHIVE="$BRAID_BUILD/libbraid.a"}
tests='describe_test fast_test nonfinite_test threads_test differential_test dense_gradient_test window_gradient_test
  prepare_test real_models_test'
# shellcheck disable=SC2086
cmake --build "$build" --target braid $tests
export LD_LIBRARY_PATH="$prefix/lib"
"$build/braid" devices | grep -q 'oneDNN 3\.' || { echo "the CPU does not run on oneDNN 3" >&2; exit 1; }
# shellcheck disable=SC2086
ci/test.sh "$build" --output-on-failure -j "${CTEST_PARALLEL_LEVEL:-$(nproc)}" -R "^($(echo $tests | tr ' ' '|'))\$"
