#!/bin/sh
# The execution provider for ONNX Runtime under the wheels from PyPI: models, what goes wrong, and one in six of ONNX's
# node cases. Skipped (77) where pip cannot fetch them. BRAID_ORT_VERSION: another version than the one tested last.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # many processes import the same
build=${BRAID_BUILD:-$PWD/build-ci-onnxruntime}
venv=$PWD/build-ci-onnxruntime/venv-${BRAID_ORT_VERSION:=1.31.1}
ci/wheels.sh "$venv" numpy onnx==1.23.2 "onnxruntime==$BRAID_ORT_VERSION" || exit $?
[ -f "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -Wno-dev -DBRAID_WERROR=ON
cmake --build "$build" --target onnxruntime_plugin plugin_metered
export BRAID_ORT_PLUGIN="$build/plugins/libbraid_onnxruntime.so"
export BRAID_PLUGIN_METERED="$build/tests/plugins/metered.so"
export OMP_WAIT_POLICY=passive # as for all tests: threads that wait for a team must not spin while others need the CPU
tests=plugins/onnxruntime/test
"$venv/bin/python" $tests/models_test.py
"$venv/bin/python" $tests/weather_test.py
"$venv/bin/python" $tests/node_cases.py --every 6 --least-claimed 200
# The objects are those of ci/clang.sh; alone, this script does not wait for them.
if [ -f build-ci-clang/build.ninja ]; then
  ci/asan_plugins.sh onnxruntime "$venv/bin/python"
else
  echo "AddressSanitizer: skipped (ci/clang.sh has not run here)"
fi
