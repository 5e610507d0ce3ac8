#!/bin/sh
# The TensorFlow plug-in builds without a warning and works in an unmodified wheel: every op, training, virtual devices
# and failures, beside TensorFlow's CPU. BRAID_TENSORFLOW_WHEEL names another wheel. Skipped (77) where pip cannot fetch it.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # many processes import the same
venv=$PWD/build-ci-tensorflow/venv
mkdir -p "${venv%/*}"
ci/wheels.sh "$venv" "${BRAID_TENSORFLOW_WHEEL:-tensorflow-cpu==2.21.0}" || exit $?
build=${BRAID_BUILD:-$PWD/build-ci-tensorflow/build} # that of CI has BRAID_WERROR on
[ -f "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -Wno-dev -DBRAID_WERROR=ON
folder=$("$venv/bin/python" plugins/tensorflow/where.py)
cmake -B "$build" -S . -DBRAID_TENSORFLOW="$folder" >/dev/null
cmake --build "$build" --target tensorflow
export BRAID_TF_PLUGIN="$build/libbraid_tensorflow.so"
# Not loaded by itself as well: a second registration of the platform would end the process.
rm -rf "$("$venv/bin/python" plugins/tensorflow/where.py --plugins)"
# The cores are shared with TensorFlow's threads: waiting ones must not keep them busy.
export OMP_WAIT_POLICY=passive
"$venv/bin/python" plugins/tensorflow/tests/ops.py
"$venv/bin/python" plugins/tensorflow/tests/training.py
"$venv/bin/python" plugins/tensorflow/tests/devices.py
# As a user has it: installed where TensorFlow looks, with no line in the script.
unset BRAID_TF_PLUGIN
plugins=$("$venv/bin/python" plugins/tensorflow/where.py --plugins)
mkdir -p "$plugins"
cp "$build/libbraid_tensorflow.so" "$plugins/"
"$venv/bin/python" plugins/tensorflow/tests/installed.py
rm -r "$plugins"
