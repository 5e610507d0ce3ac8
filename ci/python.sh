#!/bin/sh
# The Python package: its wheel builds, installs into a fresh environment, is typed, and passes its tests beside NumPy.
# Skipped (77) where pip cannot fetch these. Tests beside PyTorch and ONNX Runtime run where BRAID_PYTHON names a python
# that has them.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # many processes import the same
tree=$PWD
build=$(cd "${BRAID_BUILD:-build}" && pwd)
work=$build/python
ci/wheels.sh "$work/venv" numpy pytest mypy || exit $?
python=$work/venv/bin/python
rm -rf "$work/wheel" "$work/site"
# The backend needs nothing that pip would have to fetch.
BRAID_BUILD=$build "$python" -m pip wheel -q --disable-pip-version-check --no-index --no-deps "$tree/plugins/python" \
  -w "$work/wheel"
"$python" -m pip install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$work"/wheel/*.whl
export OMP_WAIT_POLICY=passive BRAID_BUILD="$build"
cd plugins/python
"$python" -m pytest -q -p no:cacheprovider tests -m "not long"
# With the wheel in a folder of its own, since that python is somebody else's.
peers=${BRAID_PYTHON:-}
if [ -n "$peers" ] && "$peers" -c 'import torch, onnxruntime' 2>/dev/null; then
  "$python" -m pip install -q --disable-pip-version-check --no-index --no-deps --target "$work/site" "$work"/wheel/*.whl
  PYTHONPATH=$work/site:$work/venv/lib/$(basename "$(echo "$work"/venv/lib/python3*)")/site-packages \
    "$peers" -m pytest -q -p no:cacheprovider tests/test_arrays.py tests/test_run.py -k 'torch or onnxruntime or bfloat16'
else
  echo "PyTorch and ONNX Runtime: skipped (BRAID_PYTHON names no python that has them)"
fi
if [ -f "$tree/build-ci-clang/build.ninja" ]; then
  "$tree/ci/asan_plugins.sh" python "$python"
else
  echo "AddressSanitizer: skipped (ci/clang.sh has not run here)"
fi
