#!/bin/sh
# The kernels' text compiles for CUDA: by NVRTC's wheel, on a machine without a card, with a library that passes for
# NVIDIA's driver. Skipped (77) where pip cannot fetch it.
set -eu
cd "$(dirname "$0")/.."
build=${BRAID_BUILD:-$PWD/build}
prefix=$PWD/build-ci-cuda/venv
ci/wheels.sh "$prefix" nvidia-cuda-nvrtc-cu12 || exit $?
folder=$(find "$prefix" -name 'libnvrtc.so.12' -exec dirname {} \; | head -n 1)
[ -n "$folder" ] || { echo "the wheel has no libnvrtc.so.12" >&2; exit 1; }
cmake --build "$build" --target cuda_texts_test
output=$(LD_LIBRARY_PATH="$folder" "$build/tests/cuda_texts_test" 2>&1) || { echo "$output" >&2; exit 1; }
case $output in *SKIP*test_texts*) echo "the kernels' text was not compiled" >&2; exit 1 ;; esac
