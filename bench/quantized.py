"""Networks that ONNX Runtime's quantizer made, beside ONNX Runtime: the median of each, and their ratio (above 1: ours is
faster). Each measurement is a process of its own, and both take turns."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = ("resnet50", "mobilenet_v2", "resnet18")


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(args, model, batch):
    """The fastest of some turns: what the machine can do when nobody else uses it."""
    ours, peers = [], []
    for _ in range(args.turns):
        words = ["--batch", str(batch), "--runs", str(args.runs), "--threads", str(args.threads)]
        ours.append(json.loads(output_of([args.braid, "bench", model, "--json", *words]))["measured_ms"]["median"])
        peer = [sys.executable, os.path.join(HERE, "peer.py"), "onnxruntime", "--model", model, *words]
        peers.append(json.loads(output_of(peer).splitlines()[-1])["median_ms"])
    return min(ours), min(peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--work", default="build/bench-models", help="folder for the models that are made")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--nets", default=",".join(NETS))
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    ratios = []
    print(f"{'quantized network':24} {'batch':>5} {'ours ms':>9} {'ONNX Runtime ms':>16} {'ratio':>6}")
    for net in args.nets.split(","):
        for kind in ("qdq", "qlinear"):
            path = os.path.join(args.work, f"{net}-{kind}.onnx")
            if not os.path.exists(path):
                subprocess.run([sys.executable, os.path.join(HERE, "quantized_nets.py"), net, kind, path + ".part"],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                os.replace(path + ".part", path)
            for batch in (1, 16):
                ours, peer = measure(args, path, batch)
                ratios.append(peer / ours)
                print(f"{net + ' ' + kind:24} {batch:5} {ours:9.2f} {peer:16.2f} {peer / ours:6.2f}", flush=True)
    print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


main()
