#!/usr/bin/env python3
"""Training beside the daemon on the same CPUs: what it takes of idle time, and what it costs the requests.

Requests come at random (Poisson) at a part of what the daemon can do; the same arrivals without training, beside
`braid train --tenant` of the daemon, `braid train --idle` and `braid train`. Printed: latencies, and the CPU time that training had, beside what
it has alone.

    bench/serving_beside.py --build build
"""
import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time

from serving_daemon import daemon
from serving_trace import Pool, body, closed_loop, replay


def train(args, folder, *more):
    return subprocess.Popen([os.path.join(args.build, "braid"), "train", args.train_model, "--data", "builtin:glyphs", "--epochs", "1000", "--no-test",
                             "--log-steps", "1", "--out", tempfile.mkdtemp(dir=folder), *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tail(results):
    times = sorted(r[1] for r in results if r[0] == 200)
    return [times[int(len(times) * q)] * 1e3 for q in (0.5, 0.99, 0.999)]


async def measure(args, port, folder, server):
    pool = Pool(port, "/v2/models/m/infer")
    request = body(args.shape, 0)
    await closed_loop(pool, request, 4, 2)
    capacity = len(await closed_loop(pool, request, 4, 4)) / 4
    rate = args.load * capacity
    random_of, times, at = random.Random(1), [], 0.0
    while at < args.seconds:
        at += random_of.expovariate(rate)
        times.append(at)
    alone = train(args, folder)
    await asyncio.sleep(4)
    before, began = cpu_seconds(alone.pid), time.monotonic()
    await asyncio.sleep(6)
    full = (cpu_seconds(alone.pid) - before) / (time.monotonic() - began)
    alone.kill()
    alone.wait()
    print(f"capacity {capacity:.0f} requests/s; {len(times)} requests at {args.load:.0%} of it; training alone uses {full:.2f} CPUs")
    tenant = ["--tenant", "unix:" + os.path.join(folder, "b.sock")]
    for name, more in (("no training", None), ("--tenant", tenant), ("no training", None), ("--tenant, all CPUs", [*tenant, "--threads", str(os.cpu_count())]),
                       ("no training", None), ("--idle", ["--idle"]), ("no training", None), ("braid train", [])):
        trainer = train(args, folder, *more) if more is not None else None
        await asyncio.sleep(4 if trainer else 0)
        before, began = cpu_seconds(trainer.pid) if trainer else 0, time.monotonic()
        others = cpu_seconds(server.pid) + time.process_time()
        results = await replay(pool, request, times, 1)
        others = (cpu_seconds(server.pid) + time.process_time() - others) / (time.monotonic() - began)
        idle = os.cpu_count() - others
        used = (cpu_seconds(trainer.pid) - before) / (time.monotonic() - began) if trainer else 0
        if trainer:
            trainer.kill()
            trainer.wait()
        p50, p99, p999 = tail(results)
        print(f"{name:22} p50 {p50:7.2f} ms, p99 {p99:7.2f} ms, p99.9 {p999:7.2f} ms; training had {used:.2f} CPUs ({used / full:.0%} of alone; {used / idle:.0%} of the {idle:.2f} that requests leave)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--model", default="models/resnet20.cfg")
    parser.add_argument("--shape", type=lambda t: [int(d) for d in t.split("x")], default=[1, 3, 32, 32])
    parser.add_argument("--train-model", default="models/glyphs.cfg")
    parser.add_argument("--load", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = (f"port: PORT\nsocket: {folder}/b.sock\nhttp_threads: 1\ndevices:\n  - {{name: cpu, threads: 1}}\nmodels:\n"
                  f"  - {{name: m, path: {os.path.abspath(args.model)}}}\n")
        with daemon(args.build, config) as (port, process):
            asyncio.run(measure(args, port, folder, process))


if __name__ == "__main__":
    sys.exit(main())
