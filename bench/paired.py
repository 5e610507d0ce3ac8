#!/usr/bin/env python3
"""Two builds of the library in turns: is the second slower than the first, or larger?

  bench/paired.py OLD NEW [--turns 21] [--devices cpu opencl0] [--only WORD] [--json FILE]

OLD and NEW are `braid` binaries. Each row is measured turn by turn, by processes of their own, old and new one after
the other in an order that changes with every turn, so that the machine's other work meets both. A row is the median of
the turns' ratios new / old (below 1: the new one is faster or smaller) with its 95 % interval (order statistics; from 6
turns on). "slower" is printed where the whole interval lies above 1.02, and the exit status is 1."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models")
NETS = (("resnet50", 1), ("resnet50", 16), ("mobilenet", 1), ("mobilenet", 16), ("mobilenet2", 1), ("mobilenet2", 16),
        ("vgg16", 1), ("resnet20", 16))
LIMIT = 1.02


def run(command):
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed ({process.returncode}): {' '.join(command)}")
    return output, (time.perf_counter() - start) * 1e3, usage.ru_maxrss / 1024


def inference(braid, model, batch, device, runs, threads):
    output, _, peak = run([braid, "bench", model, "--batch", str(batch), "--device", device, "--runs", str(runs),
                           "--nodes", "0", "--threads", str(threads), "--json"])
    return {"ms": json.loads(output)["measured_ms"]["median"], "MB": peak}


def training(braid, threads):
    data = "builtin:glyphs,limit=512,augment=crop+flip"
    output, _, peak = run([braid, "train", os.path.join(MODELS, "vgg-tile.cfg"), "--data", data, "--batch", "128",
                           "--epochs", "2", "--lr", "0.001", "--threads", str(threads), "--json"])
    return {"ms": 128e3 / json.loads(output)["epochs"][-1]["measured_images_per_second"], "MB": peak}


def start_up(braid, model, threads):
    _, wall, peak = run([braid, "bench", model, "--runs", "1", "--nodes", "0", "--threads", str(threads), "--json"])
    return {"ms": wall, "MB": peak}


def interval(ratios):
    """The order statistics that hold the median with 95 %; the whole range if there are too few."""
    ordered, n = sorted(ratios), len(ratios)
    chance, k = 0.5 ** n, 0
    while 2 * (chance + math.comb(n, k + 1) * 0.5 ** n) <= 0.05:
        k += 1
        chance += math.comb(n, k) * 0.5 ** n
    return ordered[k], ordered[n - 1 - k]


def works(args):
    small = os.path.join(MODELS, "mobilenet2.cfg")
    yield "start-up and one run, MobileNet v2", lambda braid: start_up(braid, small, args.threads)
    yield "training step, VGG-like, b128", lambda braid: training(braid, args.threads)
    for device in args.devices:
        for name, batch in NETS:
            model = os.path.join(MODELS, f"{name}.cfg")
            runs = max(3, args.runs // batch)
            yield (f"{name}, batch {batch}, {device}",
                   lambda braid, m=model, b=batch, d=device, r=runs: inference(braid, m, b, d, r, args.threads))


def compare(work, measure, args):
    ratios = {}
    last = {}
    for turn in range(args.turns):
        sides = [args.old, args.new] if turn % 2 == 0 else [args.new, args.old]
        results = {braid: measure(braid) for braid in sides}
        for unit in results[args.old]:
            ratios.setdefault(unit, []).append(results[args.new][unit] / results[args.old][unit])
            last.setdefault(unit, []).append((results[args.old][unit], results[args.new][unit]))
    rows = []
    for unit, values in ratios.items():
        low, high = interval(values)
        old, new = (statistics.median(side) for side in zip(*last[unit]))
        rows.append({"work": work, "unit": unit, "old": old, "new": new, "ratio": statistics.median(values), "low": low,
                     "high": high, "ok": low <= LIMIT})
        print(f"{work:38} {unit:2} {old:10.2f} {new:10.2f} {rows[-1]['ratio']:7.3f}  {low:.3f} to {high:.3f}"
              f"{'' if rows[-1]['ok'] else '  slower'}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--devices", nargs="+", default=["cpu"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=24, help="runs of a process at batch 1")
    parser.add_argument("--only", default="", help="rows that have this in their name")
    parser.add_argument("--json", help="write the rows to this file")
    args = parser.parse_args()
    print(f"{'work':38} {'':2} {'old':>10} {'new':>10} {'new/old':>7}  95 %")
    rows = [row for work, measure in works(args) if args.only in work for row in compare(work, measure, args)]
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    return 0 if all(row["ok"] for row in rows) else 1


sys.exit(main())
