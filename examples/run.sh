#!/bin/sh
# Runs the built examples, dynamically and statically linked: run.sh FOLDER-OF-PROGRAMS
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
for kind in "" -static; do
  "$work/training$kind" "$here/../models/glyphs.cfg" "$work/trained.onnx"
  [ "$("$work/inference$kind" "$work/trained.onnx" | wc -l)" -eq 10 ]
  "$work/several$kind" "$work/trained.onnx"
  "$work/custom_op$kind"
  "$work/ops$kind"
  "$work/own$kind" "$work/own.onnx"
done
# A cluster in virtual time.
"$work/usr/bin/braid" simulate cluster "$here/cluster.yaml" --json | grep -q '"cap_violations":0,'
for backend in plugin:tutor:tutor_relu unified:pixels:pixels_conv; do
  plugin=${backend%%:*} device=${backend#*:} kernel=${backend##*:}
  device=${device%%:*}
  # Not piped: a failed case must fail this script.
  "$work/usr/bin/braid" devices --plugin "$work/$plugin.so" --check "$device" >"$work/check.txt" || {
    cat "$work/check.txt"
    exit 1
  }
  tail -1 "$work/check.txt"
  "$work/usr/bin/braid" bench "$work/trained.onnx" --plugin "$work/$plugin.so" --device "$device cpu" --no-fusion --runs 1 \
    --nodes 99 | grep -q "$kernel"
done
