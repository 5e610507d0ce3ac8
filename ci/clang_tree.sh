#!/bin/sh
# Configures build-ci-clang, the tree of ci/clang.sh and ci/fuzz.sh. lld links it in a third of the time that ld takes,
# and without optimization clang compiles a file under the sanitizers in a third of the time that -O2 takes.
set -eu
cd "$(dirname "$0")/.."
# What the tests and the fuzz targets wait for is optimized. Of the kernels these are few: the others take longer to be
# optimized than they then run.
rooms='base|tensor|model|runtime/plan|schedule|simulate|train/(data|integer|ledger)|backend/(null|overlay)'
rooms="$rooms|overlay/(compiler|evaluate|isa|lower/constants|recurrent|sim|reference)"
rooms="$rooms|isa/[a-z0-9]*_backend_cpu_blocked_planes_isa"
rooms="$rooms|backend/cpu/(loops/conv|plain/(fft|integer_window|qlinear|quantize)|spans/convert)"
cmake --preset fuzz -B build-ci-clang -DBRAID_WERROR=ON -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O0 -g1 -DNDEBUG" \
  -DBRAID_ROOMS_OPTIMIZE=-O2 -DBRAID_ROOMS="$rooms" \
  -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld \
  -DCMAKE_MODULE_LINKER_FLAGS=-fuse-ld=lld -DBRAID_TEST_CACHE="${BRAID_BUILD:-$PWD/build-ci-clang}/cache"
