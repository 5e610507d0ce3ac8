#!/bin/sh
# make bench: the library beside its peers in one run. BRAID_PYTHON names a python that has the packages of peers.txt;
# without it they are installed into BUILD/peers (about 5 GB: PyTorch comes with its GPU libraries).
set -eu
build=${1:-build}
here=$(cd "$(dirname "$0")" && pwd)
# Measurements of the library alone, src/**/*_bench.c; frame_bench says what must hold.
for program in "$build"/bench/*; do
  [ -x "$program" ] && [ -f "$program" ] && "$program"
done
# NVIDIA's own libraries, where they are.
cuda=${CUDA_HOME:-/usr/local/cuda}
if ${CC:-cc} -O2 "$here/cuda_peer.c" -o "$build/cuda_peer" -I"$cuda/include" -L"$cuda/lib64" -Wl,-rpath,"$cuda/lib64" \
  -lcudnn -lcublas -lcudart 2>/dev/null; then
  "$build/cuda_peer"
else
  echo "cuBLAS and cuDNN: skipped (not there)"
fi
python=${BRAID_PYTHON:-$build/peers/bin/python}
if [ -z "${BRAID_PYTHON:-}" ] && ! "$python" -c 'import torch, torchvision, onnx, onnxruntime, onnxscript' 2>/dev/null; then
  command -v python3 >/dev/null || { echo "bench: python3 is needed for the peers" >&2; exit 1; }
  python3 -m venv "$build/peers"
  "$python" -m pip install --quiet -r "$here/peers.txt"
fi
"$python" "$here/compare.py" --braid "$build/braid" --work "$build/bench-models"
exec "$python" "$here/quantized.py" --braid "$build/braid" --work "$build/bench-models"
