#!/usr/bin/env python3
"""Every check and measurement of a GPU in one call of some minutes, and one table.

  bench/gpu.py --build BUILD [--device cuda0] [--out DIR] [--parts conformance,tests,ledger,step,inference] [--jobs N]

conformance: `braid devices --check`, case by case, several processes side by side, since most of the time goes into
compiling kernels. tests: the programs of BUILD/tests that judge kernels, networks and gradients, on the device. ledger:
training in 8-bit integers there and on the CPU, the same hashes. step, inference: times and joules beside PyTorch in the
same run (where this Python has it); joules are those of the card's counter, read before and after, divided by the runs.
Failures are listed, and the exit status is 1."""
import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models")
TESTS = "cl_products cl_kernels cl_layers cl_conv cl_recurrent cl_integer cl_nets cl_ledger".split()
NETS = ("resnet50", "mobilenet2", "vgg16")
GLYPHS = "builtin:glyphs,limit={},augment=crop+flip"


def say(line):
    print(line, flush=True)


def run(command, seconds, environment=None):
    started = time.time()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                              env={**os.environ, **(environment or {})}, errors="replace")
        return done.returncode, done.stdout, time.time() - started
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace"), time.time() - started


class Meter:
    """The card's counter of energy."""

    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.read = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1e3
            self.read()
        except Exception:  # no NVML, or a card without the counter
            self.read = lambda: float("nan")


# --- checks ----------------------------------------------------------------------------------------------------------
def conformance_cases(braid, device):
    """Cases of the contract, and ops: what the device that only copies passes, and what it has no kernels for."""
    code, text, _ = run([braid, "devices", "--check", "null", "--verbose"], 120)
    contract = [line[5:].split(":")[0] for line in text.splitlines() if line.startswith("ok   ")]
    ops = {name.split(" by ")[0] for name in contract if " by " in name} | set(re.findall(r"^none (\w+): ", text, re.M))
    contract, ops = [name for name in contract if " by " not in name], sorted(ops)
    return contract, ops


def check_case(braid, device, case):
    code, text, seconds = run([braid, "devices", "--check", device, "--case", case, "--verbose"], 300)
    lines = [line for line in text.splitlines() if line[:5] in ("ok   ", "FAIL ", "none ")]
    if "no case has" in text:  # the device has no kernel for the op
        return case, [], seconds
    if code not in (0, 1) or not re.search(r"\d+ passed", text):
        lines.append(f"FAIL {case}: the process ended with {code}: {text[-300:]!r}")
    return case, lines, seconds


def conformance(args, failures):
    contract, ops = conformance_cases(args.braid, args.device)
    cases = [f"{op} by" for op in ops]
    device = args.device + (",arena=2000000000" if ":" in args.device else ":arena=2000000000")
    passed, failed, none, seen = 0, [], 0, set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, lines, seconds in pool.map(lambda c: check_case(args.braid, device, c), cases):
            for line in lines:
                if line in seen:  # "Grad by" is a part of other names
                    continue
                seen.add(line)
                passed += line.startswith("ok")
                none += line.startswith("none")
                if line.startswith("FAIL"):
                    failed.append(line)
    for case in contract:
        _, lines, _ = check_case(args.braid, args.device, case)
        for line in lines:
            if line in seen:
                continue
            seen.add(line)
            passed += line.startswith("ok")
            if line.startswith("FAIL"):
                failed.append(line)
    say(f"conformance of {args.device}: {passed} passed, {len(failed)} failed")
    failures += failed


def tests(args, failures):
    for name in TESTS:
        program = os.path.join(args.build, "tests", name + "_test")
        if not os.path.exists(program):
            continue
        code, text, seconds = run([program], 280, {"BRAID_TEST_OPENCL": args.device, "CMOCKA_MESSAGE_OUTPUT": "stdout"})
        told = [line for line in text.splitlines() if re.search(r"FAILED|ERROR|error|PASSED|SKIPPED|Skip", line)]
        say(f"{name}_test on {args.device}: {'passed' if code == 0 else f'FAILED ({code})'}, {seconds:.0f} s; "
            f"{told[-1] if told else ''}")
        if code:
            failures.append(f"{name}_test: " + text[-2500:])


# --- measurements ----------------------------------------------------------------------------------------------------
def ours_step(args, batch, options, meter):
    """Seconds and joules of a step of the VGG-like network, by two lengths of training, whose difference is steps."""
    steps = 200 if batch <= 128 else 40
    epochs = 3
    data = GLYPHS.format(batch * steps)
    before = meter.read()
    code, text, _ = run([args.braid, "train", os.path.join(MODELS, "vgg-tile.cfg"), "--data", data, "--batch",
                         str(batch), "--epochs", str(epochs), "--lr", "0.001", "--no-test", "--json", "--device",
                         options.get("device", args.device) + " cpu", "--out", f"/tmp/gpu-bench-{os.getpid()}"]
                        + options.get("train", []), 200)
    joules = meter.read() - before
    if code:
        return None, text[-600:]
    rates = [epoch["measured_images_per_second"] for epoch in json.loads(text[text.index("{"):])["epochs"]]
    return {"ms": batch * 1e3 / max(rates[1:]), "J": joules / (steps * epochs)}, ""


TORCH_STEP = r"""
import json, sys, time, torch
import torch.nn as nn
mode, batch = sys.argv[1], int(sys.argv[2])
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode != "float32"
torch.backends.cudnn.benchmark = True
layers, channels = [], 3
for out, pool in ((128, 0), (128, 1), (256, 0), (256, 1), (512, 0), (512, 1)):
    layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
    channels = out
net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8192, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
if mode == "bf16":
    net = net.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x, y = torch.randn(batch, 3, 32, 32, device="cuda"), torch.randint(10, (batch,), device="cuda")
def step():
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cuda", torch.bfloat16, enabled=mode == "bf16"):
        loss = nn.functional.cross_entropy(net(x), y)
    loss.backward(); optimizer.step()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(8): step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): step()
def energy():
    import pynvml; pynvml.nvmlInit(); return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1e3
for _ in range(10): graph.replay()
torch.cuda.synchronize(); before, start, runs = energy(), time.perf_counter(), 300 if batch <= 128 else 60
for _ in range(runs): graph.replay()
torch.cuda.synchronize(); took = time.perf_counter() - start
print(json.dumps({"ms": took / runs * 1e3, "J": (energy() - before) / runs}))
"""

TORCH_NET = r"""
import json, sys, time, torch, torchvision
name, batch, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
torch.backends.cudnn.benchmark = True
net = getattr(torchvision.models, name)().cuda().eval()
x = torch.randn(batch, 3, 224, 224, device="cuda")
if mode == "fp16":
    net, x = net.half().to(memory_format=torch.channels_last), x.half().contiguous(memory_format=torch.channels_last)
with torch.no_grad():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5): net(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): net(x)
    def energy():
        import pynvml; pynvml.nvmlInit(); return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1e3
    for _ in range(10): graph.replay()
    torch.cuda.synchronize(); before, times = energy(), []
    for _ in range(200):
        start = time.perf_counter(); graph.replay(); torch.cuda.synchronize(); times.append(time.perf_counter() - start)
    print(json.dumps({"ms": sorted(times)[100] * 1e3, "J": (energy() - before) / 200}))
"""


def torch_row(script, arguments):
    code, text, _ = run([sys.executable, "-c", script] + [str(a) for a in arguments], 150)
    try:
        return json.loads(text.strip().splitlines()[-1]), ""
    except (ValueError, IndexError):
        return None, text[-300:]


def add_row(rows, work, name, result):
    row, why = result
    rows.append((work, name, row, why))
    say(f"  {work:34} {name:28} " + (f"{row['ms']:9.3f} ms {row['J']:9.3f} J" if row else "none: " + why[-300:]))


def step(args, rows, meter):
    for batch in (128, 1024):
        work = f"training step, VGG-like, b{batch}"
        tf32 = args.device + (",tf32=on" if ":" in args.device else ":tf32=on")
        add_row(rows, work, "braid float32", ours_step(args, batch, {}, meter))
        add_row(rows, work, "braid TF32", ours_step(args, batch, {"device": tf32}, meter))
        add_row(rows, work, "braid int8", ours_step(args, batch, {"train": ["--precision", "int8"]}, meter))
        for mode in ("float32", "tf32", "bf16"):
            add_row(rows, work, f"PyTorch {mode}, graph", torch_row(TORCH_STEP, (mode, batch)))


def ours_net(args, net, batch, device, meter):
    runs = 100
    before = meter.read()
    code, text, _ = run([args.braid, "bench", os.path.join(MODELS, net + ".cfg"), "--batch", str(batch), "--device",
                         device + " cpu", "--runs", str(runs), "--nodes", "12", "--json"], 200)
    joules = meter.read() - before
    if code:
        return None, text[-600:]
    found = json.loads(text[text.index("{"):])
    with open(os.path.join(args.out, f"{net}-{batch}-{device.replace(':', '-')}.json"), "w") as out:
        out.write(text)
    return {"ms": found["measured_ms"]["median"], "J": joules / (runs + 2)}, ""


def inference(args, rows, meter):
    torch_names = {"resnet50": "resnet50", "mobilenet2": "mobilenet_v2", "vgg16": "vgg16"}
    for net in NETS:
        for batch in (1, 32):
            work = f"inference, {net}, b{batch}"
            tf32 = args.device + (",tf32=on" if ":" in args.device else ":tf32=on")
            add_row(rows, work, "braid float32", ours_net(args, net, batch, args.device, meter))
            add_row(rows, work, "braid TF32", ours_net(args, net, batch, tf32, meter))
            for mode in ("float32", "tf32", "fp16"):
                add_row(rows, work, f"PyTorch {mode}, graph", torch_row(TORCH_NET, (torch_names[net], batch, mode)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--device", default="cuda0")
    parser.add_argument("--out", default=".")
    parser.add_argument("--parts", default="conformance,tests,step,inference")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    args = parser.parse_args()
    args.braid = os.path.join(args.build, "braid")
    meter, failures, rows = Meter(), [], []
    say(run([args.braid, "devices"], 60)[1])
    for part in args.parts.split(","):
        started = time.time()
        try:
            {"conformance": lambda: conformance(args, failures), "tests": lambda: tests(args, failures),
             "step": lambda: step(args, rows, meter), "inference": lambda: inference(args, rows, meter)}[part]()
        except Exception as wrong:  # one part must not keep the others from being seen
            failures.append(f"{part}: {wrong!r}")
        say(f"-- {part}: {time.time() - started:.0f} s")
    with open(os.path.join(args.out, "gpu.json"), "w") as out:
        json.dump({"rows": rows, "failures": failures}, out, indent=1)
    for failure in failures:
        say("FAIL " + failure[:1200])
    say(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
