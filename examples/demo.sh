#!/bin/sh
# What `make demo` shows: a network is trained on generated pictures, tested, and classifies some: demo.sh BUILD OUT
set -eu
build=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
title() { printf '\n== %s\n' "$*"; }

title "Training a small network on 32x32 pictures of ten kinds of glyphs"
"$build/braid" train "$here/../models/glyphs.cfg" --data builtin:glyphs --epochs 5 --lr 0.1 --schedule one-cycle \
  --out "$out"

title "Testing it on pictures it has never seen"
"$build/braid" test "$out/model.onnx" --data builtin:glyphs --worst 3

for picture in "$here"/pictures/*.png; do
  title "Classifying $(basename "$picture")"
  "$build/braid" run "$out/model.onnx" --input "$picture" --labels "$here/pictures/labels.txt" --top 3
done

title "Curves, confusion matrix and the worst classified pictures: $out/report.html"
