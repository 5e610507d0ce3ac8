#!/bin/sh
# What `make demo` shows: a network is trained on generated pictures, tested, and classifies some of them.
set -eu
build=$1
out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
braid=$build/braid
title() { printf '\n== %s\n' "$*"; }

title "Training a small network on 32x32 pictures of ten kinds of glyphs"
"$braid" train "$here/models/glyphs.cfg" --data builtin:glyphs,augment=crop --epochs 5 --out "$out"

title "Testing it on pictures it has never seen"
"$braid" test "$out/model.onnx" --data builtin:glyphs --worst 3

title "Classifying single pictures"
for picture in "$out"/pictures/*.png; do
  echo "$picture"
  "$braid" run "$out/model.onnx" --input "$picture" --labels "$out/labels.txt" --top 3
done

title "Look at $out/report.html (curves, confusion matrix, the worst classified pictures)"
