#!/bin/sh
# The four networks of Zhao et al. (NPC 2018) by two programs: `ci/networks.sh BRAID OTHER...`. OTHER is a braid for
# another processor with what starts it, as in `ci/networks.sh build/braid qemu-riscv64-static build/static/braid`.
# Weights and input are the same; the numbers must be equal within 1e-4 of the largest, and the five best classes the
# same, on the CPU's kernels and on those of the device manycore. NETWORKS="lenet ..." chooses.
set -eu
braid=$1
shift
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# An array's numbers, one a line: behind the head of 128 bytes that .npy has.
numbers() { tail -c +129 "$1" | od -An -v -w4 -tf4 | tr -d ' '; }
best() { numbers "$1" | awk '{ print $1, NR - 1 }' | sort -k1,1gr -k2,2n | head -n 5 | awk '{ print $2 }' | tr '\n' ' '; }
for name in ${NETWORKS:-cifarnet lenet inception-v3 resnet50-v2}; do
  for device in cpu manycore; do
    run="run models/$name.cfg --model-seed 7 --input examples/pictures/star.png --device $device --output"
    # shellcheck disable=SC2086
    "$braid" $run "$folder/here.npy" >"$folder/said" 2>&1 || { cat "$folder/said" >&2 && exit 1; }
    # shellcheck disable=SC2086
    "$@" $run "$folder/there.npy" >"$folder/said" 2>&1 || { cat "$folder/said" >&2 && exit 1; }
    numbers "$folder/here.npy" >"$folder/here"
    numbers "$folder/there.npy" >"$folder/there"
    paste "$folder/here" "$folder/there" | awk -v what="$name, $device" '
      { size = $1 < 0 ? -$1 : $1; off = $1 - $2; off = off < 0 ? -off : off
        if (size > most) most = size
        if (off > worst || $2 != $2) worst = off }
      END { if (!NR || worst > 1e-4 * most || worst != worst) { print what ": off by " worst " of " most; exit 1 }
        printf "%s: %d numbers, off by at most %.2g of the largest\n", what, NR, worst / most }'
    [ "$(best "$folder/here.npy")" = "$(best "$folder/there.npy")" ] || {
      echo "$name, $device: the best classes are $(best "$folder/there.npy"), not $(best "$folder/here.npy")" && exit 1
    }
  done
done
