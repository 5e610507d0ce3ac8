"""Training in several processes of one machine: `braid train` in one process with N threads beside N processes with one
thread each (mpirun), in floating point and in integers, and PyTorch's DistributedDataParallel (gloo) in N processes with
one thread each, by turns in one run. All train the same network with the same global batch. Braid reads and augments
its samples meanwhile; PyTorch is given random ones that are in memory.

    python3 bench/data_parallel.py --turns 5                    # Braid alone
    /path/to/venv/bin/python bench/data_parallel.py --turns 5   # and PyTorch, where there is a torch
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def sections(path):
    """The layers of a .cfg: (name, {key: value})."""
    found = []
    for line in open(path):
        line = line.split("#")[0].strip()
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line:
            key, value = line.split("=", 1)
            found[-1][1][key.strip()] = value.strip()
    return found


def torch_network(path):
    """Convolutions, normalizations, rectifiers, pools and products: what models/glyphs.cfg and vgg-tile.cfg have."""
    import torch
    layers, channels, size = [], 3, 32
    for name, keys in sections(path):
        number = lambda key, otherwise: int(keys.get(key, otherwise))
        if name == "net":
            channels, size = number("channels", 3), number("height", 32)
            continue
        if name == "convolutional":
            kernel, stride, filters = number("size", 1), number("stride", 1), number("filters", 1)
            pad = kernel // 2 if number("pad", 0) else number("padding", 0)
            normal = number("batch_normalize", 0)
            layers.append(torch.nn.Conv2d(channels, filters, kernel, stride, pad, bias=not normal))
            if normal:
                layers.append(torch.nn.BatchNorm2d(filters))
            channels, size = filters, (size + 2 * pad - kernel) // stride + 1
        elif name == "maxpool":
            kernel, stride = number("size", 2), number("stride", 2)
            layers.append(torch.nn.MaxPool2d(kernel, stride))
            size = (size - kernel) // stride + 1
        elif name == "avgpool":
            layers.append(torch.nn.AdaptiveAvgPool2d(1))
            size = 1
        elif name == "connected":
            layers += [torch.nn.Flatten(), torch.nn.Linear(channels * size * size, number("output", 1))]
            channels, size = number("output", 1), 1
        elif name not in ("softmax", "dropout", "cost"):
            raise SystemExit(f"{path}: [{name}] has no form here")
        if keys.get("activation") == "relu":
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def torch_member(rank, args, port, results):
    import torch
    import torch.distributed as dist
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=args.processes)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch_network(args.model))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9, weight_decay=5e-4)
    images = torch.randn(args.batch // args.processes, 3, 32, 32)
    labels = torch.randint(0, 10, (args.batch // args.processes,))
    steps, begin = args.samples // args.batch, 0
    for step in range(steps + 3):
        if step == 3:
            dist.barrier()
            begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        results.put(steps * args.batch / (time.perf_counter() - begin))
    dist.destroy_process_group()


def torch_rate(args, turn):
    import torch.multiprocessing as multiprocessing
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    port = 20000 + (os.getpid() + 7 * turn) % 20000
    members = [context.Process(target=torch_member, args=(r, args, port, results)) for r in range(args.processes)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    if any(member.exitcode for member in members):
        raise SystemExit("a process of PyTorch failed")
    return results.get(timeout=10)


def braid_rate(args, processes, options):
    """Samples a second of the second epoch, of process 0."""
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.abspath(args.braid), "train", os.path.abspath(args.model), "--data",
                   f"builtin:glyphs,limit={args.samples}", "--no-test", "--epochs", "2", "--batch", str(args.batch),
                   "--threads", str(args.processes // processes), "--json", "--out", os.path.join(folder, "run")]
        if processes > 1:
            command = ["mpirun", "--oversubscribe", "-n", str(processes)] + command
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        run = subprocess.run(command + options, capture_output=True, text=True, env=environment)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: {run.stderr}")
    return json.loads(run.stdout)["epochs"][-1]["measured_images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--model", default=os.path.join(HERE, "..", "models", "glyphs.cfg"))
    parser.add_argument("--batch", type=int, default=128, help="of all processes together")
    parser.add_argument("--samples", type=int, default=3840, help="of an epoch")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    n = args.processes
    kinds = {f"float32, 1 process x {n} threads": lambda turn: braid_rate(args, 1, []),
             f"float32, {n} processes x 1 thread": lambda turn: braid_rate(args, n, []),
             f"int8, 1 process x {n} threads": lambda turn: braid_rate(args, 1, ["--precision", "int8"]),
             f"int8, {n} processes x 1 thread": lambda turn: braid_rate(args, n, ["--precision", "int8"])}
    peer = f"PyTorch DDP (gloo), {n} processes x 1 thread"
    if importlib.util.find_spec("torch"):
        kinds[peer] = lambda turn: torch_rate(args, turn)
    else:
        print("no torch: Braid alone", file=sys.stderr)
    rates = {kind: [] for kind in kinds}
    for turn in range(args.turns):
        for kind, measure in kinds.items():
            rates[kind].append(measure(turn))
    print(f"{os.path.basename(args.model)}, batch {args.batch}, medians of {args.turns} turns (least to most), samples/s")
    for kind, found in rates.items():
        print(f"{kind:44} {statistics.median(found):9.0f}  ({min(found):.0f} to {max(found):.0f})")
    names = list(kinds)

    def ratio(a, b):
        each = [x / y for x, y in zip(rates[a], rates[b])]
        print(f"{a} / {b}: {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})")

    ratio(names[1], names[0])
    ratio(names[3], names[2])
    if peer in rates:
        ratio(names[1], peer)


if __name__ == "__main__":
    main()
