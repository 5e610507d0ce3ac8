#!/usr/bin/env python3
"""The daemon beside MLServer, LitServe and Triton, in one run: requests a second and latency of a trivial model.

Every server computes y = x + x of one tensor of float32, sent and answered as bytes (Triton's binary tensors) and, where a
server has no binary form (MLServer, LitServe), as JSON, by wrk on the same machine:

    bench/serving.py --build build --mlserver VENV/bin/python --litserve VENV/bin/python --triton VENV/bin/python

A server whose Python is not given, or that does not start here, is left out with a line that says so. Needs wrk, and
the package onnx in the Python that runs this.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from serving_daemon import await_answer, free_port

SIZES = {"1 KiB": 256, "600 KiB": 153600}


def make_model(path):
    import onnx
    from onnx import TensorProto, helper
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def kserve_body(path, count):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, count], "parameters": {"binary_data_size": 4 * count}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    with open(path, "wb") as f:
        f.write(head + b"\0" * (4 * count))
    return len(head)


def json_body(path, count):
    with open(path, "w") as f:
        json.dump({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, count], "data": [0.5] * count}]}, f)


class Server:
    def __init__(self, command, url, ready, folder, env=None):
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, cwd=folder, env={**os.environ, **(env or {})},
                                        start_new_session=True)
        self.url = url
        if await_answer(ready, 90, self.process):
            return
        self.stop()
        self.log.seek(0)
        raise RuntimeError("does not start here: " + " ".join(self.log.read().split("\n")[-3:]).strip()[-300:])

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def braid(args, folder):
    make_model(os.path.join(folder, "twice.onnx"))
    port = free_port()
    with open(os.path.join(folder, "serve.yaml"), "w") as f:
        f.write(f"port: {port}\nhttp_threads: 1\ndevices:\n  - {{name: cpu, threads: 1}}\nmodels:\n  - {{name: twice, path: twice.onnx}}\n")
    return Server([os.path.join(os.path.abspath(args.build), "braid"), "serve", "--config", "serve.yaml"],
                  f"http://127.0.0.1:{port}/v2/models/twice/infer", f"http://127.0.0.1:{port}/v2/models/twice", folder)


def mlserver(args, folder):
    port = free_port()
    with open(os.path.join(folder, "settings.json"), "w") as f:
        json.dump({"http_port": port, "grpc_port": free_port(), "metrics_port": free_port(), "parallel_workers": 0, "debug": False}, f)
    with open(os.path.join(folder, "model-settings.json"), "w") as f:
        json.dump({"name": "twice", "implementation": "twice.Twice"}, f)
    with open(os.path.join(folder, "twice.py"), "w") as f:
        f.write("from mlserver import MLModel\nfrom mlserver.codecs import NumpyCodec\nfrom mlserver.types import InferenceResponse\n\n"
                "class Twice(MLModel):\n"
                "    async def predict(self, payload):\n"
                "        x = self.decode(payload.inputs[0], default_codec=NumpyCodec)\n"
                "        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output('y', x + x)])\n")
    return Server([os.path.join(os.path.dirname(args.mlserver), "mlserver"), "start", "."],
                  f"http://127.0.0.1:{port}/v2/models/twice/infer", f"http://127.0.0.1:{port}/v2/models/twice/ready", folder,
                  {"PYTHONPATH": folder})


def litserve(args, folder):
    port = free_port()
    with open(os.path.join(folder, "twice.py"), "w") as f:
        f.write("import litserve, numpy\n\n"
                "class Twice(litserve.LitAPI):\n"
                "    def setup(self, device): pass\n"
                "    async def decode_request(self, request): return numpy.asarray(request['inputs'][0]['data'], dtype=numpy.float32)\n"
                "    async def predict(self, x): return x + x\n"
                "    async def encode_response(self, y): return {'y': y.tolist()}\n\n"
                f"if __name__ == '__main__':\n    litserve.LitServer(Twice(enable_async=True), accelerator='cpu').run(port={port}, generate_client_file=False)\n")
    return Server([args.litserve, "twice.py"], f"http://127.0.0.1:{port}/predict", f"http://127.0.0.1:{port}/health", folder)


def triton(args, folder):
    port = free_port()
    with open(os.path.join(folder, "twice.py"), "w") as f:
        f.write("import numpy\nfrom pytriton.decorators import batch\nfrom pytriton.model_config import ModelConfig, Tensor\n"
                "from pytriton.triton import Triton, TritonConfig\n\n@batch\ndef infer(x): return {'y': x + x}\n\n"
                f"with Triton(config=TritonConfig(http_port={port})) as triton:\n"
                "    triton.bind('twice', infer, [Tensor(name='x', dtype=numpy.float32, shape=(-1,))],\n"
                "                [Tensor(name='y', dtype=numpy.float32, shape=(-1,))], config=ModelConfig(max_batch_size=8))\n"
                "    triton.serve()\n")
    return Server([args.triton, "twice.py"], f"http://127.0.0.1:{port}/v2/models/twice/infer",
                  f"http://127.0.0.1:{port}/v2/models/twice/ready", folder)


SERVERS = {"Braid": braid, "Braid, JSON": braid, "MLServer": mlserver, "LitServe": litserve, "Triton": triton}


def load(url, body, json_bytes, connections, seconds):
    with open(body, "rb") as f:
        kind = "application/json" if f.read(1) == b"{" else "application/octet-stream"
    env = {**os.environ, "BODY": body, "TYPE": kind}
    if json_bytes:
        env["JSON_BYTES"] = str(json_bytes)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "serving.lua")
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", script, url], env=env,
                         capture_output=True, text=True, check=True).stdout
    count, us, p50, p99, errors, least = map(int, out.strip().splitlines()[-1].split())
    return {"rps": count / us * 1e6, "p50_us": p50, "p99_us": p99, "errors": errors}


def measure(name, args, folder):
    server = SERVERS[name](args, folder)
    rows = {}
    try:
        for size, count in SIZES.items():
            body = os.path.join(folder, "body")
            json_bytes = kserve_body(body, count)
            if name in ("Braid, JSON", "MLServer", "LitServe"):
                json_bytes = 0
                json_body(body, count)
            load(server.url, body, json_bytes, 1, 1)
            rows[size] = {"one": load(server.url, body, json_bytes, 1, args.seconds), "many": load(server.url, body, json_bytes, 16, args.seconds)}
    finally:
        server.stop()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--mlserver")
    parser.add_argument("--litserve")
    parser.add_argument("--triton")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("bench/serving.py: wrk is not there (Debian's package wrk)")
    results = {}
    for name in SERVERS:
        if not name.startswith("Braid") and not getattr(args, name.lower()):
            print(f"{name}: left out, its Python is not given", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                results[name] = measure(name, args, folder)
            except (RuntimeError, subprocess.CalledProcessError, ValueError) as error:
                print(f"{name}: left out, {error}", file=sys.stderr)
    if args.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'server':12} {'tensor':8} {'1 connection: p50':>18} {'16 connections: requests/s':>27} {'p99':>10} {'errors':>7} {'Braid / it':>11}")
    for name, sizes in results.items():
        for size, row in sizes.items():
            own = results.get("Braid, JSON" if name in ("MLServer", "LitServe") else "Braid")
            ratio = own[size]["many"]["rps"] / row["many"]["rps"] if own and row["many"]["rps"] else float("nan")
            print(f"{name:12} {size:8} {row['one']['p50_us']:15} us {row['many']['rps']:27.0f} {row['many']['p99_us']:7} us "
                  f"{row['one']['errors'] + row['many']['errors']:7} {ratio:11.2f}")


if __name__ == "__main__":
    main()
