"""Test accuracy of training in integers beside training in floating point: the same network, data, epochs and batches
for several seeds, by `braid train`; the last epoch counts. Figures of a run repeat to the bit in integers."""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))


def train(args, seed, extra):
    with tempfile.TemporaryDirectory() as folder:
        command = [args.braid, "train", args.model, "--data", args.data, "--epochs", str(args.epochs), "--batch",
                   str(args.batch), "--seed", str(seed), "--threads", str(args.threads), "--json", "--out",
                   os.path.join(folder, "run")] + extra
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{shlex.join(command)}: {run.stderr}")
    last = json.loads(run.stdout)["epochs"][-1]
    return 100 * last["test_accuracy"], last["measured_images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="as --data of braid train")
    parser.add_argument("--model", default=os.path.join(HERE, "..", "models", "lenet.cfg"))
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--float", default="", help="options of the runs in floating point")
    parser.add_argument("--integer", default="", help="options of the runs in integers, for instance '--optimizer wage --lr 16'")
    args = parser.parse_args()
    kinds = {"float": shlex.split(args.float), "integer": ["--precision", "int8"] + shlex.split(args.integer)}
    jobs = [(kind, seed) for seed in range(1, args.seeds + 1) for kind in kinds]
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(jobs, pool.map(lambda job: train(args, job[1], kinds[job[0]]), jobs)))
    print(f"{args.model}, {args.data}, {args.epochs} epochs")
    for kind, options in kinds.items():
        found = [results[kind, seed] for seed in range(1, args.seeds + 1)]
        each = " ".join(f"{accuracy:.2f}" for accuracy, _ in found)
        print(f"{kind:8} {shlex.join(options) or '(defaults)'}: {each}; mean "
              f"{statistics.mean(a for a, _ in found):.2f} %, {statistics.median(r for _, r in found):.0f} samples/s")
    print(f"integers - float: {statistics.mean(results['integer', s][0] - results['float', s][0] for s in range(1, args.seeds + 1)):+.2f} points")


main()
