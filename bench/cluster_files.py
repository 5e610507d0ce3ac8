#!/usr/bin/env python3
"""How fast a model's files come from one daemon of a cluster to another on this machine: by Braid's protocol and by UCX.

One etcd, a daemon that has an ONNX model whose weights are one file of external data, and for each time a new daemon that
has nothing and fetches it, in turn by Braid's protocol, by UCX over TCP, and by UCX as it chooses here. The time is the
daemon's own (its log): asking, carrying, SHA-256, writing and syncing to the disk of --folder.

    bench/cluster_files.py --build build --megabytes 500 --times 5
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from serving_daemon import await_answer, free_port

WAYS = [("Braid's protocol", "wire", None), ("UCX over TCP", "ucx", "tcp"), ("UCX, its own choice", "ucx", None)]
SAID = re.compile(r"have come from \S+: (\d+) bytes by UCX, (\d+) by Braid's protocol, in ([0-9.]+) s")


def varint(n):
    out = b""
    while True:
        byte, n = n & 127, n >> 7
        out += bytes([byte | (128 if n else 0)])
        if not n:
            return out


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value if isinstance(value, bytes) else varint(number << 3) + varint(value)


def model():
    """y = x + w, where w begins the file data.bin (ONNX's protobuf by hand)."""
    entry = field(1, b"location") + field(2, b"data.bin")
    weights = field(1, 4) + field(2, 1) + field(8, b"w") + field(13, entry) + field(14, 1)
    shape = field(1, field(1, 1) + field(2, field(1, field(1, 4))))
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Add")
    graph = field(1, node) + field(2, b"g") + field(5, weights) + field(11, field(1, b"x") + field(2, shape)) + field(12, field(1, b"y"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def start(args, folder, name, etcd_port, bulk, transports):
    port = free_port()
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    with open(f"{folder}/{name}.yaml", "w") as f:
        f.write(f"port: {port}\nwire_port: {free_port()}\ndevices:\n  - {{name: cpu, threads: 1}}\nmodels:\n"
                f"  - {{name: m, path: {folder}/{name}/model.onnx}}\ncluster: {{etcd: '127.0.0.1:{etcd_port}', node: {name}, copies: 2, "
                f"token: a-token-of-tests, fetch_max_bytes: 100000000000, bulk: {bulk}}}\n")
    environment = dict(os.environ, **({"UCX_TLS": transports} if transports else {}))
    log = open(f"{folder}/{name}.log", "w")
    process = subprocess.Popen([os.path.join(args.build, "braid"), "serve", "-v", "--config", f"{folder}/{name}.yaml"],
                               stderr=log, stdout=subprocess.DEVNULL, env=environment)
    log.close()
    return process, port


def fetch(args, folder, etcd_port, way, transports):
    """Bytes by UCX, bytes in all, seconds."""
    subprocess.run(["rm", "-rf", f"{folder}/b"], check=True)
    process, _ = start(args, folder, "b", etcd_port, way, transports)
    try:
        for _ in range(1200):
            with open(f"{folder}/b.log") as log:
                said = SAID.search(log.read())
            if said:
                return int(said[1]), int(said[1]) + int(said[2]), float(said[3])
            time.sleep(0.05)
        raise RuntimeError(open(f"{folder}/b.log").read())
    finally:
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder with braid (default build)")
    parser.add_argument("--megabytes", type=int, default=500, help="of the file, 10^6 bytes each (default 500)")
    parser.add_argument("--times", type=int, default=5, help="each way (default 5)")
    parser.add_argument("--folder", help="where files are written (default: the system's for temporary ones)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        os.makedirs(f"{folder}/a")
        with open(f"{folder}/a/model.onnx", "wb") as f:
            f.write(model())
        with open(f"{folder}/a/data.bin", "wb") as f:
            for _ in range(args.megabytes):
                f.write(os.urandom(10**6))
        etcd_port, peer = free_port(), f"http://127.0.0.1:{free_port()}"
        client = f"http://127.0.0.1:{etcd_port}"
        etcd = subprocess.Popen(["etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", client, "--advertise-client-urls",
                                 client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                                 f"default={peer}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # What the one that sends may use has to be what the one that receives uses.
        source, port = start(args, folder, "a", etcd_port, "auto", None)
        try:
            if not await_answer(f"http://127.0.0.1:{port}/v2/health/ready", 120, source):
                raise RuntimeError(open(f"{folder}/a.log").read())
            speeds = {way: [] for way, _, _ in WAYS}
            for _ in range(args.times):
                for way, bulk, transports in WAYS:
                    by_ucx, total, seconds = fetch(args, folder, etcd_port, bulk, transports)
                    if (by_ucx > total // 2) != (bulk == "ucx"):
                        raise RuntimeError(f"{way}: {by_ucx} of {total} bytes by UCX")
                    speeds[way].append(total / seconds / 2**20)
                    time.sleep(3)  # the lease of the one that was ended
        finally:
            for process in (source, etcd):
                process.terminate()
                process.wait()
    print(f"{args.megabytes} MB, {args.times} times each, MiB/s: median (least, most); load average {os.getloadavg()[0]:.1f}")
    for way, _, _ in WAYS:
        print(f"{way}: {statistics.median(speeds[way]):.0f} ({min(speeds[way]):.0f}, {max(speeds[way]):.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
