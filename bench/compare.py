"""The library beside PyTorch (training) and ONNX Runtime (inference): time, peak memory and start-up, with ratios.

Everything is measured here and now, on as many threads as --threads says; each measurement is a process of its own, and
ours and the peer's alternate. A ratio above 1 means that we are faster, or smaller.

This process stays small: what Linux reports as a child's peak memory is at least its parent's at the time of the fork."""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INFERENCE_NETS = ("resnet50", "mobilenet_v1", "mobilenet_v2", "vgg16")
EXPORTED_NETS = ("lstm_512 gru_512 lstm_256_both_ways bert_like gpt_like efficientnet_b0 shufflenet_v2_x1_0 "
                 "mobilenet_v3_small mobilenet_v3_large mobilenet_v2 squeezenet1_1 resnet18 resnet50 densenet121 alexnet "
                 "googlenet mnasnet1_0 regnet_y_400mf regnet_x_400mf inception_v3 resnext50_32x4d swin_t convnext_tiny "
                 "vit_b_16 efficientnet_v2_s wide_resnet50_2 vgg11_bn fcn_resnet50").split()


def run(command, **options):
    """Runs a command; returns its output, its wall time and its peak memory in MB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed ({process.returncode}): {' '.join(command)}")
    return output, time.perf_counter() - start, usage.ru_maxrss / 1024


def peer(args, *words):
    output, _, _ = run([sys.executable, os.path.join(HERE, "peer.py"), *words, "--threads", str(args.threads)])
    return json.loads(output.splitlines()[-1])


def braid_inference(args, model, runs, *words):
    output, _, peak = run([args.braid, "bench", model, *words, "--runs", str(runs), "--threads", str(args.threads),
                           "--json"])
    measured = json.loads(output)["measured_ms"]
    return {"median_ms": measured["median"], "min_ms": measured["least"], "peak_mb": peak}


def braid_training(args, runs):
    """Whole training with loading and augmentation, against the peer's bare step; 128 samples a step."""
    data = f"builtin:glyphs,limit={128 * runs},augment=crop+flip"
    output, _, peak = run([args.braid, "train", os.path.join(HERE, "..", "models", "vgg-tile.cfg"), "--data", data,
                           "--batch", "128", "--epochs", "2", "--lr", "0.001", "--threads", str(args.threads), "--json"],
                          stderr=subprocess.DEVNULL)
    rate = json.loads(output)["epochs"][-1]["measured_images_per_second"]
    return {"median_ms": 128e3 / rate, "peak_mb": peak}


def best(measure, repeats):
    """The repeat with the smallest median: what the machine can do when nobody else uses it."""
    return min((measure() for _ in range(repeats)), key=lambda result: result["median_ms"])


class Table:
    def __init__(self):
        self.rows = []
        print(f"{'work':34} {'peer':22} {'ours':>11} {'peer':>11} {'ratio':>7}")

    def add(self, work, other, ours, theirs, unit):
        ratio = theirs / ours
        self.rows.append({"work": work, "peer": other, "ours": ours, "theirs": theirs, "unit": unit, "ratio": ratio})
        print(f"{work:34} {other:22} {ours:8.1f} {unit:2} {theirs:8.1f} {unit:2} {ratio:6.2f}x", flush=True)


def compare_training(args, table):
    ours = best(lambda: braid_training(args, args.runs), args.repeats)
    for name, flags in (("PyTorch", []), ("PyTorch channels_last", ["--channels-last"])):
        theirs = best(lambda: peer(args, "pytorch", "--runs", str(args.runs), *flags), args.repeats)
        table.add("training step, VGG-like, b128", name, ours["median_ms"], theirs["median_ms"], "ms")
        table.add("  peak memory", name, ours["peak_mb"], theirs["peak_mb"], "MB")


def onnx_file(name, batch, folder):
    """The path of NAME_bBATCH.onnx in the folder, written there unless it is there. Batch 0: left open."""
    path = os.path.join(folder, f"{name}_b{batch}.onnx")
    if not os.path.exists(path):
        run([sys.executable, os.path.join(HERE, "nets.py"), name, str(batch), path], stderr=subprocess.DEVNULL)
    return path


def compare_inference(args, table):
    for name in INFERENCE_NETS:
        for batch in (1, 16):
            if args.only and args.only not in name:
                continue
            model = onnx_file(name, batch, args.work)
            runs = args.runs if batch > 1 else args.runs * 5
            ours, theirs = [], []
            for _ in range(args.repeats):
                ours.append(braid_inference(args, model, runs))
                theirs.append(peer(args, "onnxruntime", "--model", model, "--runs", str(runs)))
            ours, theirs = (min(side, key=lambda r: r["median_ms"]) for side in (ours, theirs))
            table.add(f"{name}, batch {batch}", "ONNX Runtime", ours["median_ms"], theirs["median_ms"], "ms")
            table.add("  peak memory", "ONNX Runtime", ours["peak_mb"], theirs["peak_mb"], "MB")


def compare_exported(args, table):
    """Networks with an open batch, ours and the peer in turns, as many as there is time for."""
    end = time.perf_counter() + args.limit
    ratios, left = {}, 0
    for name in EXPORTED_NETS:
        if args.only and args.only not in name:
            continue
        if time.perf_counter() > end:
            left += 1
            continue
        model = onnx_file(name, 0, args.work)
        for batch in (1, 8):
            work, words, turns = f"{name}, batch {batch}", ("--batch", str(batch)), []
            once = braid_inference(args, model, 1, *words)["median_ms"]
            runs = max(2, min(args.runs * 5, int(1000 / once)))
            for turn in range(3):
                sides = [lambda: braid_inference(args, model, runs, *words)["median_ms"],
                         lambda: peer(args, "onnxruntime", "--model", model, "--runs", str(runs), *words)["median_ms"]]
                times = [sides[i]() for i in ((0, 1), (1, 0))[turn % 2]]
                turns.append(times if turn % 2 == 0 else times[::-1])
            ours, theirs = sorted(turns, key=lambda t: t[1] / t[0])[1]  # the turn of the median ratio
            table.add(work, "ONNX Runtime", ours, theirs, "ms")
            ratios[work] = theirs / ours
    if not ratios:
        return
    worst = min(ratios, key=ratios.get)
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
    print(f"exported networks: {len(ratios)} rows, geometric mean {mean:.2f}x, worst {ratios[worst]:.2f}x ({worst})"
          f"{f'; {left} networks left out, --limit {args.limit:g} s are over' if left else ''}", flush=True)


def compare_loader(args, table):
    """Microseconds per sample of one loading thread (PyTorch: one process), CIFAR's size and augmentation."""
    program = os.path.join(os.path.dirname(args.braid), "bench", "loader_bench")
    output, _, _ = run([program])
    ours = float(re.search(r"normalize +(\d+) images/s", output).group(1))
    theirs = peer(args, "loader")["images_per_s"]
    table.add("loader, 1 thread, per image", "PyTorch DataLoader", 1e6 / ours, 1e6 / theirs, "us")


def compare_start(args, table):
    """Whole processes: load SqueezeNet, run it once, end."""
    model = args.squeezenet
    if not os.path.exists(model):
        print("start-up: skipped (SqueezeNet is not there; set BRAID_DATA)")
        return
    script = ("import sys, numpy as np, onnxruntime as ort; s = ort.InferenceSession(sys.argv[1], "
              "providers=['CPUExecutionProvider']); i = s.get_inputs()[0]; "
              "s.run(None, {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], np.float32)})")
    zeros = os.path.join(args.work, "zeros.npy")
    import numpy
    numpy.save(zeros, numpy.zeros((1, 3, 227, 227), numpy.float32))
    commands = [args.braid, "run", model, "--input", zeros], [sys.executable, "-c", script, model]
    turns = [[run(command)[1] for command in commands] for _ in range(21)]  # in turns: the machine's moods meet both
    ours, theirs = (statistics.median(times) for times in zip(*turns))
    table.add("start-up, SqueezeNet, whole process", "python + ONNX Runtime", ours * 1e3, theirs * 1e3, "ms")


def main():
    data = os.environ.get("BRAID_DATA") or os.path.join(HERE, "..", "..", "shared", "data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--work", default="build/bench-models", help="where models are kept")
    parser.add_argument("--squeezenet", default=os.path.join(data, "models", "squeezenet1.0.onnx"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--limit", type=float, default=900, help="seconds for the exported networks; what is under way ends")
    parser.add_argument("--only", default="", help="networks whose name has this in it")
    parser.add_argument("--json", help="write the rows to this file")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    table = Table()
    compare_start(args, table)
    if not args.only or args.only in "training":
        compare_training(args, table)
        compare_loader(args, table)
    compare_inference(args, table)
    compare_exported(args, table)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(table.rows, out, indent=1)


main()
