#!/usr/bin/env python3
"""Training over several cards of one machine: `mpirun braid train` with one process for each card, whose gradients NCCL
sums, beside PyTorch's DistributedDataParallel (NCCL, eager, channels last, bfloat16) in the same run.

  bench/gpus.py --braid BUILD/braid [--cards 1,2,4] [--batches 128,1024] [--precisions int8,bf16] [--no-torch]

First what must be so: in integers the ledger of every number of cards is the same file as that of one card and of the
CPU. Then samples per second and joules for a thousand samples, of the network of models/vgg-tile.cfg and images of
32 x 32; --batches are for each card. Joules are those of the cards' counters from the end of the first epoch to that of
the last. PyTorch's samples lie on the cards; Braid reads and augments them."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
MODELS = os.path.join(HERE, "..", "models")
IMAGES, LEAST_STEPS = 50000, 400  # of the epochs that are measured


def joules(cards):
    """The counters of the first cards, summed; nan where they cannot be read."""
    try:
        import pynvml
        pynvml.nvmlInit()
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(i)) / 1e3
                   for i in range(cards))
    except Exception:  # no NVML, or a card without the counter
        return float("nan")


def command(braid, cards, *words):
    start = [] if cards == 1 else ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(cards)]
    return start + [braid, "train", *words]


def check_ledgers(braid, most, folder):
    """Failures: ledgers that differ from the CPU's."""
    failures, expected = [], None
    for cards in [0] + [n for n in (1, 2, 3, 4, 8) if n <= most]:
        path = os.path.join(folder, f"ledger-{cards}")
        device = ["--device", "cpu" if cards == 0 else "cuda"]
        done = subprocess.run(command(braid, max(1, cards), os.path.join(MODELS, "glyphs.cfg"), "--data", "builtin:glyphs",
                                      "--precision", "int8", "--epochs", "1", "--batch", "120", "--no-test", "--ledger",
                                      path, "--out", path + ".out", *device),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        text = open(path, "rb").read() if done.returncode == 0 else None
        where = "the CPU" if cards == 0 else f"{cards} cards"
        if text is None:
            failures.append(f"{where}: exit status {done.returncode}: {done.stdout[-600:]}")
        elif expected is None:
            expected = text
        elif text != expected:
            failures.append(f"{where}: another ledger than the CPU's")
        else:
            print(f"int8, glyphs.cfg, {where}: the CPU's ledger, {len(text.splitlines())} lines", flush=True)
    return failures


def write_images(folder):
    """Random images in CIFAR-10's files."""
    block = os.urandom(10000 * 3073)
    data = bytearray(block)
    data[::3073] = bytes(b % 10 for b in block[::3073])
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)


def ours(braid, cards, batch, precision, folder):
    out = os.path.join(folder, f"out-{cards}-{batch}-{precision}")
    steps = IMAGES // (batch * cards)
    epochs = 2 + LEAST_STEPS // steps
    run = subprocess.Popen(command(braid, cards, os.path.join(MODELS, "vgg-tile.cfg"), "--data", f"cifar10:{folder}",
                                   "--precision", precision, "--epochs", str(epochs), "--batch", str(batch * cards),
                                   "--no-test", "--device", "cuda", "--out", out,
                                   *([] if precision == "int8" else ["--lr", "0.01"])),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text, rates, first, last, began, ended = "", [], None, None, 0, 0
    for line in run.stdout:
        text += line
        found = re.match(r"epoch \d+/.*?(\d+) samples/s", line)
        if found:
            rates.append(float(found.group(1)))
            last, ended = joules(cards), time.time()
            if first is None:
                first, began = last, ended
    if run.wait() or len(rates) < epochs:
        return None, None, text[-600:]
    samples = steps * batch * cards * (epochs - 1)
    return samples / (ended - began), (last - first) / samples * 1e3, ""


def torch_worker(rank, cards, batch, port, results):
    import torch
    import torch.distributed as dist
    from data_parallel import torch_network
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=cards)
    net = torch_network(os.path.join(MODELS, "vgg-tile.cfg")).cuda().to(memory_format=torch.channels_last)
    net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    x = torch.randn(batch, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    torch.backends.cudnn.benchmark = True
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    steps, before, began = 150, joules(cards) if rank == 0 else 0, time.time()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 0:
        took = time.time() - began
        results.put((steps * batch * cards / took, (joules(cards) - before) / (steps * batch * cards) * 1e3))
    dist.destroy_process_group()


def theirs(cards, batch):
    import torch.multiprocessing as processes
    context = processes.get_context("spawn")
    results = context.SimpleQueue()
    processes.spawn(torch_worker, (cards, batch, 29500 + cards, results), nprocs=cards)
    return results.get()


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", required=True)
    parser.add_argument("--cards", type=numbers, default=[1, 2, 4])
    parser.add_argument("--batches", type=numbers, default=[128, 1024])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["int8", "bf16"])
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        failures = check_ledgers(args.braid, max(args.cards), folder)
        print("\n".join("FAILED " + failure for failure in failures), flush=True)
        write_images(folder)
        print("| batch a card | | cards | samples/s | times one card | J for 1000 samples |\n"
              "| --- | --- | --- | --- | --- | --- |")
        for batch in args.batches:
            for precision in args.precisions + ([] if args.no_torch else ["PyTorch DDP, bf16"]):
                one = None
                for cards in args.cards:
                    why = ""
                    if precision.startswith("PyTorch"):
                        rate, energy = theirs(cards, batch)
                    else:
                        rate, energy, why = ours(args.braid, cards, batch, precision, folder)
                    if rate is None:
                        failures.append(f"{precision}, {cards} cards, {batch} samples each: {why}")
                        print("FAILED", failures[-1], flush=True)
                        continue
                    one = one or rate
                    print(f"| {batch} | {precision} | {cards} | {rate:.0f} | {rate / one:.2f} | {energy:.2f} |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
