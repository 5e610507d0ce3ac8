#!/usr/bin/env python3
"""Replays a recorded trace of requests against the daemon: how many end within their deadline, and what becomes of the rest.

The arrival times of the trace are stretched so that the mean rate is a part of what the daemon does in a closed loop
(capacity, measured first); every request has a deadline of some multiples of the model's time (measured, alone).

    bench/serving_trace.py --build build --trace AzureLLMInferenceTrace_code.csv.gz --model models/resnet20.cfg
"""
import argparse
import asyncio
import csv
import datetime
import gzip
import json
import os
import sys
import time

from serving_daemon import daemon


def arrivals(path, most):
    """Seconds from the first request on."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as f:
        times = [datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in csv.DictReader(f)]
    times = sorted(times)[:most]
    return [t - times[0] for t in times]


def body(shape, timeout_us):
    count = 1
    for d in shape:
        count *= d
    parameters = {"timeout": timeout_us} if timeout_us else {}
    head = json.dumps({"parameters": parameters,
                       "inputs": [{"name": "input", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 4 * count}}],
                       "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
    return len(head), head + b"\0" * (4 * count)


class Pool:
    """Connections that are kept."""

    def __init__(self, port, path):
        self.port, self.path, self.free = port, path, []

    async def ask(self, head, data):
        try:
            return await self.ask_once(head, data)
        except (OSError, IndexError, asyncio.IncompleteReadError):  # a connection that rested too long
            self.free.clear()
            return await self.ask_once(head, data)

    async def ask_once(self, head, data):
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"POST {self.path} HTTP/1.1\r\nHost: b\r\nInference-Header-Content-Length: {head}\r\n"
                     f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status = int((await reader.readline()).split()[1])
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)
        self.free.append((reader, writer))
        return status


async def closed_loop(pool, request, clients, seconds):
    times, until = [], time.monotonic() + seconds

    async def one():
        while time.monotonic() < until:
            began = time.monotonic()
            await pool.ask(*request)
            times.append(time.monotonic() - began)
    await asyncio.gather(*[one() for _ in range(clients)])
    return sorted(times)


async def replay(pool, request, times, deadline):
    results, begin = [], time.monotonic() + 0.1

    async def one(at):
        await asyncio.sleep(max(0, begin + at - time.monotonic()))
        sent = time.monotonic()
        status = await pool.ask(*request)
        results.append((status, time.monotonic() - sent, sent - begin - at))
    await asyncio.gather(*[one(t) for t in times])
    return results


def ideal(times, service, deadline):
    """What first come, first served answers in time if a request takes exactly `service` and none share a run."""
    free, count = 0, 0
    for at in times:
        end = max(free, at) + service
        if end <= at + deadline:
            free, count = end, count + 1
    return count


def part(count, whole):
    return 100 * count / whole if whole else float("nan")


async def measure(args, port):
    pool = Pool(port, "/v2/models/m/infer")
    alone = await closed_loop(pool, body(args.shape, 0), 1, 2)
    model = alone[len(alone) // 2]
    capacity = len(await closed_loop(pool, body(args.shape, 0), 16, 5)) / 5
    deadline = args.multiple * model
    print(f"one request alone: {model * 1e3:.2f} ms at the median (measured); capacity {capacity:.0f} requests/s (16 clients); "
          f"deadline {deadline * 1e3:.1f} ms")
    trace = arrivals(args.trace, args.requests)
    for load in args.load:
        times = [t * (len(trace) / trace[-1]) / (load * capacity) for t in trace]
        best = ideal(times, 1 / capacity, deadline)
        results = await replay(pool, body(args.shape, int(deadline * 1e6)), times, deadline)
        done = [r for r in results if r[0] == 200]
        refused, late = sum(r[0] == 503 for r in results), sum(r[0] == 504 for r in results)
        in_time = sum(r[1] <= deadline for r in done)
        tail = sorted(r[1] for r in done) or [float("nan")]
        behind = sorted(r[2] for r in results)[len(results) * 99 // 100]
        print(f"load {load:4.0%}: {len(results)} requests in {times[-1]:.0f} s; {len(done)} answered (first come, first served with exact times: {best}), {part(in_time, len(done)):.2f} % of them within "
              f"the deadline as the client saw it (99 % took up to {tail[len(tail) * 99 // 100] * 1e3:.1f} ms); refused at once {refused} "
              f"({part(refused, len(results)):.1f} %), admitted and not run in time {late} ({part(late, len(results)):.2f} %), other "
              f"{len(results) - len(done) - refused - late}. The client was up to {behind * 1e3:.1f} ms behind (99 %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--model", default="models/resnet20.cfg")
    parser.add_argument("--shape", type=lambda t: [int(d) for d in t.split("x")], default=[1, 3, 32, 32])
    parser.add_argument("--multiple", type=float, default=5)
    parser.add_argument("--load", type=float, nargs="+", default=[0.7, 1.5])
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--reserve-ms", type=float, default=0, help="the daemon's reserve_ms: what the client sees has the way besides")
    parser.add_argument("--batch-bits", default="same")
    parser.add_argument("--max-batch", type=int, default=1)
    args = parser.parse_args()
    config = ("port: PORT\nhttp_threads: 1\ndevices:\n  - {name: cpu, threads: 1}\nmodels:\n"
              f"  - {{name: m, path: {os.path.abspath(args.model)}, batch_bits: {args.batch_bits}, max_batch: {args.max_batch},\n"
              f"     reserve_ms: {args.reserve_ms:g}}}\n"
              "tenants:\n  - {name: all, max_requests: 100000}\n")
    with daemon(args.build, config) as (port, _):
        asyncio.run(measure(args, port))


if __name__ == "__main__":
    sys.exit(main())
