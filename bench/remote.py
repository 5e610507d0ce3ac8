"""Remote devices (docs/remote.md): the latency of one inference on the CPU itself, and on the same CPU by a daemon over
a Unix socket and TCP loopback; calls and bytes; and what set-up takes over a link of a given round trip, which a proxy
in this process delays. Usage: python3 bench/remote.py [BUILD] [--runs N] [--models a,b] [--round-trip-ms X]"""
import argparse
import json
import os
import re
import select
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import serving_daemon

MODELS = os.path.join(serving_daemon.ROOT, "models")
CONFIG = f"""port: PORT
socket: FOLDER/braid.sock
wire_port: WIRE
devices:
  - {{name: cpu, device: cpu, remote: true}}
models:
  - {{name: lenet, path: {MODELS}/lenet.cfg, lazy: true}}
tenants:
  - {{name: all, max_bytes: 4000000000, remote: true}}
"""


def delay(source, target, seconds):
    """Passes bytes on, each `seconds` after it came."""
    waiting = []
    while True:
        left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([source], [], [], left)
        if ready:
            data = source.recv(1 << 20)
            waiting.append((time.monotonic() + seconds, data))
        while waiting and waiting[0][0] <= time.monotonic():
            data = waiting.pop(0)[1]
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)


def proxy(port, seconds):
    """A port that leads to `port`, with half of a round trip each way."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for s in (near, far):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=delay, args=(*ends, seconds / 2), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def bench(build, model, device, runs):
    """Milliseconds: least and median of the runs, preparation; and what the device says of its calls."""
    command = [os.path.join(build, "braid"), "bench", os.path.join(MODELS, model + ".cfg"), "--device", device, "--runs",
               str(runs), "--json", "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    said = re.search(r"(\d+) calls, (\d+) bytes sent, (\d+) received; (\d+) runs in (\d+)", done.stderr)
    calls = [int(n) for n in said.groups()] if said else None
    return result["measured_ms"]["least"], result["measured_ms"]["median"], result["prepare_measured_ms"], calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default=os.path.join(serving_daemon.ROOT, "build"))
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="lenet,resnet20,mobilenet,resnet50")
    parser.add_argument("--round-trip-ms", type=float, default=1)
    options = parser.parse_args()
    wire = serving_daemon.free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "braid.sock")
        config = CONFIG.replace("FOLDER", folder).replace("WIRE", str(wire))
        with serving_daemon.daemon(options.build, config):
            slow = proxy(wire, options.round_trip_ms / 1e3)
            ways = {"here": "cpu", "Unix socket": f"remote:unix:{path}/cpu", "TCP": f"remote:127.0.0.1:{wire}/cpu",
                    f"TCP, {options.round_trip_ms:g} ms": f"remote:127.0.0.1:{slow}/cpu"}
            print("model       way            least ms  median ms  set-up ms  calls  of set-up  calls/run     MB out      MB in")
            for model in options.models.split(","):
                rows = {way: [] for way in ways}
                for _ in range(options.rounds):  # the ways in turns, so that what else the machine does meets all
                    for way, device in ways.items():
                        rows[way].append(bench(options.build, model, device, options.runs if way != list(ways)[3] else 20))
                for way, results in rows.items():
                    least = min(r[0] for r in results)
                    median = statistics.median(r[1] for r in results)
                    setup = statistics.median(r[2] for r in results)
                    calls = results[0][3]
                    text = ""
                    if calls:
                        text = (f"{calls[0]:7} {calls[0] - calls[4]:10} {calls[4] / calls[3]:10.2f} "
                                f"{calls[1] / 1e6:10.2f} {calls[2] / 1e6:10.2f}")
                    print(f"{model:11} {way:13} {least:9.3f} {median:10.3f} {setup:10.1f}{text}", flush=True)


if __name__ == "__main__":
    main()
