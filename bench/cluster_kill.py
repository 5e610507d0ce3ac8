#!/usr/bin/env python3
"""Kills nodes of a cluster, its control node and etcd with SIGKILL at random moments under load, and stops nodes with SIGSTOP.

Three daemons and one etcd on this machine. Each client knows one daemon, and asks it for all models, wherever they are.
After a kill the victim comes back at once or after four seconds, when its lease is long over; etcd within two seconds. A node that is stopped goes on after four.
Every answer must be whole and of the same bits. Printed is, for clients of daemons that were not killed, how long the
longest request took around each kill, and which were refused; and that all models have their copies again.

    bench/cluster_kill.py --build build --times 20 --copies 2
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from serving_daemon import ROOT, await_answer, free_port
from serving_soak import ask, body

NODES = ["a", "b", "c"]
MODELS = {"m1": [1, 28, 28], "m2": [1, 28, 28], "m3": [3, 32, 32]}
NETWORK = {"m1": "lenet", "m2": "lenet", "m3": "resnet20"}


class Cluster:
    def __init__(self, build, folder, copies):
        self.build, self.folder, self.processes = build, folder, {}
        self.etcd_port, self.peer_port = free_port(), free_port()
        self.ports = {node: free_port() for node in NODES}
        for node in NODES:
            models = "".join(f"  - {{name: {m}, path: {ROOT}/models/{NETWORK[m]}.cfg}}\n" for m in MODELS)
            with open(f"{folder}/{node}.yaml", "w") as f:
                f.write(f"port: {self.ports[node]}\nwire_port: {free_port()}\nstate: {folder}/{node}.state\ndevices:\n"
                        f"  - {{name: cpu, threads: 1}}\nmodels:\n{models}cluster: {{etcd: '127.0.0.1:{self.etcd_port}', "
                        f"node: {node}, copies: {copies}, token: a-token-of-tests}}\n")

    def start(self, who):
        if who == "etcd":
            client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
            command = ["etcd", "--data-dir", f"{self.folder}/etcd", "--listen-client-urls", client, "--advertise-client-urls",
                       client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                       f"default={peer}"]
        else:
            command = [os.path.join(self.build, "braid"), "serve", "--config", f"{self.folder}/{who}.yaml"]
        self.processes[who] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, who):
        self.processes[who].send_signal(signal.SIGKILL)
        self.processes[who].wait()

    def status(self, node):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[node]}/v2/braid/status", timeout=2) as answer:
            return json.load(answer)["cluster"]

    def is_whole(self, copies):
        """Whether every node sees all nodes, and every model has its copies."""
        try:
            for node in NODES:
                status = self.status(node)
                if len(status["nodes"]) != len(NODES) or not status["registered"] or len(status["placement"]) != len(MODELS):
                    return False
                for order in status["placement"]:
                    if len(order["nodes"]) < copies or any(n["state"] != "ready" for n in order["nodes"]):
                        return False
            return True
        except (OSError, ValueError, KeyError):
            return False

    async def await_whole(self, copies, seconds=30):
        until = time.monotonic() + seconds
        while not await asyncio.to_thread(self.is_whole, copies):
            if time.monotonic() > until:
                raise RuntimeError("the cluster does not become whole again")
            await asyncio.sleep(0.05)

    def control(self):
        return next((node for node in NODES for n in self.status(node)["nodes"] if n["control"] and n["self"]), NODES[0])

    def holders(self):
        """Nodes that hold a model."""
        placement = self.status(NODES[0])["placement"]
        return sorted({n["name"] for order in placement for n in order["nodes"]})

    def stop(self):
        codes = []
        for who in NODES:
            if who in self.processes:
                self.processes[who].terminate()
        for who in NODES:
            if who in self.processes:
                codes.append(self.processes[who].wait(30))
        if "etcd" in self.processes:
            self.kill("etcd")
        return codes


class Load:
    def __init__(self, cluster):
        self.cluster, self.stop, self.first, self.answers, self.wrong = cluster, False, {}, 0, 0
        self.dead, self.took, self.refused = set(), [], {}

    async def client(self, index):
        node, random_of, connection = NODES[index % len(NODES)], random.Random(index), None
        while not self.stop:
            model, seed, began = random_of.choice(list(MODELS)), random_of.randrange(4), time.monotonic()
            if node in self.dead:  # its only daemon: nothing is to be expected of it
                connection = None
                await asyncio.sleep(0.01)
                continue
            try:
                status, answer, connection = await ask(self.cluster.ports[node], f"/v2/models/{model}/infer", "t",
                                                       *body(MODELS[model], seed), connection)
            except (OSError, asyncio.IncompleteReadError, IndexError, ValueError):
                if connection is None and node not in self.dead:
                    self.refused["no connection"] = self.refused.get("no connection", 0) + 1
                connection = None
                await asyncio.sleep(0.005)
                continue
            if status == 200:
                self.answers += 1
                first = self.first.setdefault((model, seed), answer)
                self.wrong += first != answer or not answer
                self.took.append((node, began, time.monotonic()))
            else:
                self.refused[status] = self.refused.get(status, 0) + 1
                await asyncio.sleep(0.005)


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


async def run_kills(cluster, load, what, times, copies, random_of):
    longest = []
    refused_before = dict(load.refused)
    for i in range(times):
        await cluster.await_whole(copies)
        await asyncio.sleep(random_of.random())
        victim = ("etcd" if what == "etcd" else cluster.control() if what == "control" else
                  random_of.choice(cluster.holders() if what == "stop" else NODES))
        load.took.clear()
        if victim != "etcd":
            load.dead.add(victim)
        killed = time.monotonic()
        if what == "stop":
            cluster.processes[victim].send_signal(signal.SIGSTOP)
        else:
            cluster.kill(victim)
        await asyncio.sleep(random_of.random() * 2 if what == "etcd" else (0.05 if i % 2 and what != "stop" else 4))
        if what == "stop":
            cluster.processes[victim].send_signal(signal.SIGCONT)
        else:
            cluster.start(victim)
        if victim != "etcd":
            await asyncio.to_thread(await_answer, f"http://127.0.0.1:{cluster.ports[victim]}/v2/health/ready", 30,
                                    cluster.processes[victim])
            load.dead.discard(victim)
        await cluster.await_whole(copies)
        longest.append(max((end - began for node, began, end in load.took if end > killed and node != victim), default=float("inf")))
    refused = {k: v - refused_before.get(k, 0) for k, v in load.refused.items() if v != refused_before.get(k, 0)}
    print(f"{what}, {times} times: the longest request {quantile(longest, 0.5):.2f} s at the median of kills, "
          f"{max(longest):.2f} s at most; refused {refused or 'none'}", flush=True)
    return max(longest)


async def run(args, folder):
    cluster = Cluster(args.build, folder, args.copies)
    load = Load(cluster)
    random_of = random.Random(args.seed)
    try:
        for who in ["etcd", *NODES]:
            cluster.start(who)
        await cluster.await_whole(args.copies, 60)
        clients = [asyncio.create_task(load.client(i)) for i in range(2 * len(NODES))]
        worst = [await run_kills(cluster, load, what, args.times, args.copies, random_of) for what in args.kill.split(",")]
        load.stop = True
        await asyncio.gather(*clients)
    finally:
        codes = cluster.stop()
    print(f"copies {args.copies}: {load.answers} answers, {load.wrong} torn or wrong; exit codes at the end {codes}")
    return 1 if load.wrong or max(worst) > 3 or any(codes) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--copies", type=int, default=2, help="nodes that hold each model")
    parser.add_argument("--kill", default="node,control,etcd,stop")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not shutil.which("etcd"):
        sys.exit("there is no etcd here (etcd-server)")
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(args, folder))


if __name__ == "__main__":
    sys.exit(main())
