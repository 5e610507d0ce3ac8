#!/usr/bin/env python3
"""Holds the cluster's simulator against one daemon: both get the same requests of a recorded trace at the same times.

What runs took meanwhile, as the daemon says it, becomes a scenario of one node, and what the simulator makes of it stands
beside what the daemon did: answered, refused, in time, and the 99th percentile.

    bench/simulated_trace.py --build build --trace AzureLLMInferenceTrace_conv.csv.gz --model models/mobilenet2.cfg --shape 1x3x224x224
"""
import argparse
import asyncio
import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

from serving_daemon import daemon
from serving_trace import Pool, arrivals, body, closed_loop, part, replay


async def watch_runs(port, seen):
    """Milliseconds that each run takes from now on, by the number of its decision, until it is cancelled; the daemon keeps the last 256."""
    before = max((one["number"] for one in await decisions(port)), default=0)
    while True:
        for one in await decisions(port):
            if one["ran_us"] and one["number"] > before:
                seen[one["number"]] = one["ran_us"] * 1e-3
        await asyncio.sleep(0.5)


async def decisions(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v2/braid/decisions HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def write_trace(path, most, to):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as f, open(to, "w", newline="\n") as out:
        rows = sorted(csv.reader(list(f)[1:]), key=lambda row: row[0])[:most]
        out.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        out.writelines(",".join(row) + "\n" for row in rows)


def simulate(args, trace, seconds, network, mean, deviation, deadline, rate):
    scenario = f"""seconds: {seconds + 60:.3f}
network_ms: {network * 1e3:.4f}
max_waiting: 100000
period_s: 1000000
nodes:
  - {{kind: node}}
models:
  - name: m
    deadline_ms: {deadline * 1e3:.4f}
    times:
      - {{kind: node, mean_ms: {mean * 1e3:.4f}, deviation_ms: {deviation * 1e3:.4f}}}
tenants:
  - {{name: all, model: m, arrivals: trace, rate: {rate:.4f}}}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(scenario)
        f.flush()
        command = [os.path.join(args.build, "braid"), "simulate", "cluster", f.name, "--trace", trace, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["all"]


async def measure_capacity(args, port):
    """Seconds of one request alone, and requests a second of 16 clients."""
    pool = Pool(port, "/v2/models/m/infer")
    alone = await closed_loop(pool, body(args.shape, 0), 1, 3)
    capacity = len(await closed_loop(pool, body(args.shape, 0), 16, 5)) / 5
    return alone[len(alone) // 2], capacity


async def compare(args, port, load, capacity, deadline):
    pool, runs = Pool(port, "/v2/models/m/infer"), {}
    await closed_loop(pool, body(args.shape, 0), 1, 1)  # so that the daemon knows its times
    trace = arrivals(args.trace, args.requests)
    times = [t * (len(trace) / trace[-1]) / (load * capacity) for t in trace]
    watcher = asyncio.create_task(watch_runs(port, runs))
    await asyncio.sleep(0.2)
    results = await replay(pool, body(args.shape, int(deadline * 1e6)), times, deadline)
    await asyncio.sleep(0.6)
    watcher.cancel()
    done = sorted(r[1] for r in results if r[0] == 200)
    mean, deviation = statistics.mean(runs.values()) * 1e-3, statistics.stdev(runs.values()) * 1e-3
    network = max(0, done[0] - min(runs.values()) * 1e-3) / 2
    with tempfile.TemporaryDirectory() as folder:
        cut = os.path.join(folder, "trace.csv")
        write_trace(args.trace, args.requests, cut)
        said = simulate(args, cut, times[-1], network, mean, deviation, deadline, load * capacity)
    print(f"load {load:4.0%}, {len(times)} requests in {times[-1]:.0f} s; {len(runs)} runs of {mean * 1e3:.2f} ms, deviation "
          f"{deviation * 1e3:.2f} (measured meanwhile)")
    print(f"  {'':28} measured   simulated")
    for name, a, b in [
            ("answered", len(done), said["done"]),
            ("of all in time, %", part(sum(t <= deadline for t in done), len(times)), part(said["in_time"], len(times))),
            ("refused at once", sum(r[0] == 503 for r in results), said["refused"]),
            ("admitted, late or not run", sum(r[0] == 504 for r in results) + sum(t > deadline for t in done), said["late"]),
            ("median, ms", done[len(done) // 2] * 1e3, said["p50_ms"]),
            ("99 % took up to, ms", done[len(done) * 99 // 100] * 1e3, said["p99_ms"])]:
        print(f"  {name:28} {a:8.5g}   {b:8.5g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--model", default="models/resnet20.cfg")
    parser.add_argument("--shape", type=lambda t: [int(d) for d in t.split("x")], default=[1, 3, 32, 32])
    parser.add_argument("--multiple", type=float, default=5)
    parser.add_argument("--load", type=float, nargs="+", default=[0.5, 0.7, 1, 1.5])
    parser.add_argument("--requests", type=int, default=1500)
    args = parser.parse_args()
    config = ("port: PORT\nhttp_threads: 1\ndevices:\n  - {name: cpu, threads: 1}\nmodels:\n"
              f"  - {{name: m, path: {os.path.abspath(args.model)}}}\ntenants:\n  - {{name: all, max_requests: 100000, admin: true}}\n")
    with daemon(args.build, config) as (port, _):
        model, capacity = asyncio.run(measure_capacity(args, port))
    deadline = args.multiple * model
    print(f"one request alone: {model * 1e3:.2f} ms at the median (measured); capacity {capacity:.0f} requests/s (16 clients); "
          f"deadline {deadline * 1e3:.1f} ms")
    for load in args.load:
        with daemon(args.build, config) as (port, _):  # a new one: the margin that admission keeps begins at nothing
            asyncio.run(compare(args, port, load, capacity, deadline))


if __name__ == "__main__":
    sys.exit(main())
