#!/bin/sh
# Runs the built examples, dynamically and statically linked: run.sh FOLDER-OF-PROGRAMS
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
for kind in "" -static; do
  "$work/training$kind" "$here/../models/glyphs.cfg" "$work/trained.onnx"
  [ "$("$work/inference$kind" "$work/trained.onnx" | wc -l)" -eq 10 ]
  "$work/custom_op$kind"
done
