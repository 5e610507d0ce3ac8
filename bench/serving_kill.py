#!/usr/bin/env python3
"""Kills the daemon with SIGKILL at random moments under load, and starts it again, as systemd would.

Every answer that a client got must be whole and of the same bits; what the API loaded and unloaded must be so after the
restart (`state`); printed is how long the service was away.

    bench/serving_kill.py --build build --times 20
"""
import argparse
import asyncio
import random
import signal
import sys
import time

from serving_daemon import ROOT, configured, start
from serving_soak import ask, body

SHAPE = [3, 32, 32]


class Load:
    def __init__(self, port):
        self.port, self.stop, self.first, self.answers, self.wrong = port, False, {}, 0, 0

    async def client(self, index):
        random_of, connection = random.Random(index), None
        while not self.stop:
            seed = random_of.randrange(6)
            try:
                status, answer, connection = await ask(self.port, "/v2/models/a/infer", "t", *body(SHAPE, seed), connection)
            except (OSError, asyncio.IncompleteReadError, IndexError, ValueError):
                connection = None
                await asyncio.sleep(0.005)
                continue
            if status != 200:
                await asyncio.sleep(0.005)
                continue
            self.answers += 1
            self.wrong += self.first.setdefault(seed, answer) != answer or len(answer) != len(self.first[seed])


async def run(args, port, config):
    load, daemon, away, forgotten = Load(port), start(args.build, config), [], 0
    clients = [asyncio.create_task(load.client(i)) for i in range(8)]
    random_of, loaded = random.Random(1), False
    while not load.answers:
        await asyncio.sleep(0.01)
    for _ in range(args.times):
        action = "unload" if loaded else "load"
        status, _, connection = await ask(port, f"/v2/repository/models/b/{action}", "t", 0, b"")
        connection[1].close()
        if status != 200:
            raise RuntimeError(f"{action} answered {status}")
        loaded = not loaded
        await asyncio.sleep(random_of.random())
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        killed = time.monotonic()
        daemon = start(args.build, config)
        status = 0
        while status != 200:
            try:
                status, _, connection = await ask(port, "/v2/models/a/infer", "t", *body(SHAPE, 0))
                connection[1].close()
            except (OSError, asyncio.IncompleteReadError, IndexError, ValueError):
                await asyncio.sleep(0.005)
            if time.monotonic() - killed > 30:
                raise RuntimeError("the service does not come back")
        away.append(time.monotonic() - killed)
        for _ in range(600):  # its models load one after the other
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /v2/models/b/ready HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
            ready = b" 200 " in await reader.readline()
            writer.close()
            if ready == loaded:
                break
            await asyncio.sleep(0.01)
        forgotten += ready != loaded
    load.stop = True
    await asyncio.gather(*clients)
    daemon.terminate()
    return load, away, forgotten, daemon.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--times", type=int, default=20)
    args = parser.parse_args()
    config = ("port: PORT\nstate: FOLDER/state\ndevices:\n  - {name: cpu, threads: 1}\nmodels:\n"
              f"  - {{name: a, path: {ROOT}/models/resnet20.cfg}}\n  - {{name: b, path: {ROOT}/models/lenet.cfg, lazy: true}}\n")
    with configured(config) as (port, path):
        load, away, forgotten, code = asyncio.run(run(args, port, path))
    print(f"killed {args.times} times: {load.answers} answers, {load.wrong} torn or wrong; away {sorted(away)[len(away) // 2]:.2f} s at the median, "
          f"{max(away):.2f} s at most; forgotten loads {forgotten}; exit code at the end {code}")
    return 1 if load.wrong or forgotten or code else 0


if __name__ == "__main__":
    sys.exit(main())
