"""Learning, beside PyTorch: LeNet (models/lenet.cfg) on Fashion-MNIST, the same hyperparameters on both sides, several
epochs, test accuracy after each. Initial weights and the order of samples differ, so figures agree only in size."""
import argparse
import gzip
import json
import os
import subprocess
import time

import numpy as np
import torch
import torch.nn as nn

HERE = os.path.dirname(os.path.abspath(__file__))


def read_idx(folder, name):
    path = os.path.join(folder, name)
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")
    with opened as file:
        data = file.read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_split(folder, prefix):
    images = read_idx(folder, prefix + "-images-idx3-ubyte")[:, None].astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(read_idx(folder, prefix + "-labels-idx1-ubyte").astype(np.int64))


def torch_run(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    x, y = read_split(args.data, "train")
    test_x, test_y = read_split(args.data, "t10k")
    net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    steps = len(x) // args.batch
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * steps - 1)
    loss_of = nn.CrossEntropyLoss()
    rows = []
    for _ in range(args.epochs):
        start = time.perf_counter()
        order = torch.randperm(len(x))
        for s in range(steps):
            at = order[s * args.batch:(s + 1) * args.batch]
            optimizer.zero_grad()
            loss_of(net(x[at]), y[at]).backward()
            optimizer.step()
            schedule.step()
        seconds = time.perf_counter() - start
        with torch.no_grad():
            right = sum((net(test_x[i:i + 1000]).argmax(1) == test_y[i:i + 1000]).sum().item() for i in range(0, 10000, 1000))
        rows.append((right / 10000, steps * args.batch / seconds))
    return rows


def braid_run(args):
    command = [args.braid, "train", os.path.join(HERE, "..", "models", "lenet.cfg"), "--data", "idx:" + args.data,
               "--epochs", str(args.epochs), "--batch", str(args.batch), "--lr", str(args.lr), "--seed", str(args.seed),
               "--threads", str(args.threads), "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [(e["test_accuracy"], e["measured_images_per_second"]) for e in json.loads(output)["epochs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="the folder with Fashion-MNIST's (or MNIST's) four files")
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    ours, theirs = braid_run(args), torch_run(args)
    print(f"{'epoch':>5} {'braid':>9} {'PyTorch':>9} {'braid':>12} {'PyTorch':>12}")
    for i, (a, b) in enumerate(zip(ours, theirs), 1):
        print(f"{i:5} {a[0]:9.2%} {b[0]:9.2%} {a[1]:8.0f} im/s {b[1]:8.0f} im/s")


main()
