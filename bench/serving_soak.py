#!/usr/bin/env python3
"""Minutes of well-behaved and rude tenants against one daemon: answers keep their bits, memory does not grow, it ends cleanly.

    bench/serving_soak.py --build build --minutes 30

12 models, 64 connections: most ask and compare every answer with the first one; others flood, send rubbish, die in the
middle, hold sockets, send slowly, load and unload, and name deadlines that cannot be met.
"""
import argparse
import asyncio
import json
import os
import random
import sys
import time

from serving_daemon import ROOT, daemon

MODELS = {"lenet": [1, 28, 28], "resnet20": [3, 32, 32], "cifarnet": [3, 32, 32]}


def body(shape, seed, extra=None):
    count = 1
    for d in shape:
        count *= d
    data = random.Random(seed).randbytes(count * 2)  # halves of floats: small numbers, each of a plain exponent
    floats = b"".join(data[2 * i:2 * i + 1] + b"\0" + bytes([data[2 * i + 1] & 0x7F, 0x3E]) for i in range(count))
    head = json.dumps({"parameters": extra or {}, "inputs": [{"name": "input", "datatype": "FP32", "shape": [1] + shape,
                                                              "parameters": {"binary_data_size": len(floats)}}],
                       "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
    return len(head), head + floats


async def ask(port, path, token, head, data, connection=None):
    reader, writer = connection or await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {token}\r\nInference-Header-Content-Length: {head}\r\n"
                 f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    status = int((await reader.readline()).split()[1])
    length, json_bytes = 0, 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line.lower().startswith(b"inference-header"):
            json_bytes = int(line.split(b":")[1])
    answer = await reader.readexactly(length)
    return status, answer[json_bytes:], (reader, writer)


class Soak:
    def __init__(self, port, until):
        self.port, self.until = port, until
        self.first, self.counts, self.wrong = {}, {}, 0

    def count(self, who, status):
        key = f"{who} {status}"
        self.counts[key] = self.counts.get(key, 0) + 1

    async def polite(self, index):
        random_of = random.Random(index)
        connection = None
        while time.monotonic() < self.until:
            base = random_of.choice(list(MODELS))
            name, seed = f"{base}-{random_of.randrange(4)}", random_of.randrange(8)
            try:
                status, answer, connection = await ask(self.port, f"/v2/models/{name}/infer", "polite", *body(MODELS[base], seed), connection)
            except (OSError, asyncio.IncompleteReadError, IndexError):
                self.count("polite", "connection lost")
                connection = None
                continue
            self.count("polite", status)
            if status == 200 and self.first.setdefault((base, seed), answer) != answer:
                self.wrong += 1
            await asyncio.sleep(random_of.random() * 0.02)

    async def flood(self, index):
        request = body(MODELS["resnet20"], index)
        connection = None
        while time.monotonic() < self.until:
            try:
                status, _, connection = await ask(self.port, "/v2/models/resnet20-0/infer", "flood", *request, connection)
                self.count("flood", status)
            except (OSError, asyncio.IncompleteReadError, IndexError):
                connection = None

    async def rubbish(self, index):
        random_of = random.Random(index)
        while time.monotonic() < self.until:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                head, data = body(MODELS["lenet"], 1, {"timeout": random_of.choice([1, 500, 10**6])})
                data = bytearray(data)
                for _ in range(random_of.randrange(1, 30)):
                    data[random_of.randrange(len(data))] = random_of.randrange(256)
                kind = random_of.randrange(5)
                if kind == 0:
                    writer.write(random_of.randbytes(random_of.randrange(1, 3000)))
                elif kind == 1:
                    writer.write(b"POST /v2/models/lenet-1/infer HTTP/1.1\r\nHost: b\r\nContent-Length: 99999999999\r\n\r\n")
                else:
                    writer.write(f"POST /v2/models/lenet-{kind}/infer HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer rude\r\n"
                                 f"Inference-Header-Content-Length: {head + random_of.choice([0, 0, 1, -7])}\r\nContent-Length: {len(data)}\r\n\r\n".encode())
                    writer.write(bytes(data[:random_of.choice([len(data), len(data), random_of.randrange(len(data))])]))
                if kind != 3:
                    try:
                        line = await asyncio.wait_for(reader.readline(), 0.3)
                        self.count("rubbish", line.split()[1].decode() if line else "closed")
                    except asyncio.TimeoutError:
                        self.count("rubbish", "left")
                writer.transport.abort()
            except (OSError, IndexError):
                self.count("rubbish", "closed")
            await asyncio.sleep(0.01)

    async def hold(self):
        while time.monotonic() < self.until:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"POST /v2/models/lenet-1/infer HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer rude\r\nContent-Length: 4000\r\n\r\n")
            for _ in range(40):
                writer.write(b" ")
                await asyncio.sleep(0.25)
                if time.monotonic() > self.until:
                    break
            writer.transport.abort()

    async def admin(self):
        while time.monotonic() < self.until:
            for action in ("unload", "load"):
                status, _, connection = await ask(self.port, f"/v2/repository/models/cifarnet-3/{action}", "admin", 0, b"")
                connection[1].close()
                self.count("admin", status)
            await asyncio.sleep(0.5)


def read_memory(pid):
    """KiB in memory, open files, threads."""
    with open(f"/proc/{pid}/status") as f:
        facts = dict(line.split(":", 1) for line in f)
    return int(facts["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(facts["Threads"])


async def run(port, pid, minutes, memory):
    soak = Soak(port, time.monotonic() + 60 * minutes)
    tasks = [soak.polite(i) for i in range(40)] + [soak.flood(i) for i in range(12)] + [soak.rubbish(i) for i in range(6)]
    tasks += [soak.hold() for _ in range(5)] + [soak.admin()]

    async def watch():
        while time.monotonic() < soak.until:
            memory.append((round(time.monotonic()), *read_memory(pid)))
            await asyncio.sleep(5)
    await asyncio.gather(watch(), *tasks)
    return soak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--minutes", type=float, default=30)
    args = parser.parse_args()
    config = "port: PORT\nreceive_ms: 2000\nmax_request_bytes: 1000000\ndevices:\n  - {name: cpu, threads: 1}\nmodels:\n"
    for base in MODELS:
        for i in range(4):
            config += f"  - {{name: {base}-{i}, path: {ROOT}/models/{base}.cfg}}\n"
    config += ("tenants:\n  - {name: polite, token: polite, share: 0.8, max_requests: 100}\n  - {name: flood, token: flood, priority: 7, max_requests: 8}\n"
               "  - {name: rude, token: rude, max_requests: 4, max_bytes: 1000000}\n  - {name: admin, token: admin, admin: true}\n")
    memory = []
    with daemon(args.build, config) as (port, process):
        soak = asyncio.run(run(port, process.pid, args.minutes, memory))
    code = process.returncode
    for key in sorted(soak.counts):
        print(f"{key:24} {soak.counts[key]}")
    third = len(memory) // 3
    print(f"memory: {memory[third][1] // 1024} MiB after a third, {memory[-1][1] // 1024} MiB at the end; files {memory[third][2]}, {memory[-1][2]}; "
          f"threads {memory[third][3]}, {memory[-1][3]}")
    print(f"answers with other bits: {soak.wrong}; exit code {code}")
    return 1 if soak.wrong or code else 0


if __name__ == "__main__":
    sys.exit(main())
