#!/usr/bin/env python3
"""Every check and measurement of a GPU in one call of some minutes, and one table.

  bench/gpu.py --build BUILD [--device cuda0] [--out DIR] [--parts conformance,tests,int8,step,inference]
               [--jobs N]

conformance: `braid devices --check`, case by case, several processes side by side, since most of the time goes into
compiling kernels. tests: the programs of BUILD/tests that judge kernels, networks and gradients, on the device, and
training in 8-bit integers there and on the CPU, the same hashes. int8: each product of bytes of a step of the VGG-like
network, what puts its operands in order too, beside the bare product of matrices of that size by cuBLASLt. step, inference: times and joules beside PyTorch in the
same run (where this Python has it), whose data lies on the card, and once more with copies from pinned memory, as
ours have; joules are those of the card's counter, read before and after, divided by the runs.
Failures are listed, and the exit status is 1."""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models")
TESTS = "cl_products cl_kernels cl_layers cl_conv cl_recurrent cl_integer cuda_tensor cuda_few_channels cuda_ledger cl_nets cl_ledger".split()
NETS = ("resnet50", "mobilenet2", "vgg16")


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


def word_of(device):
    return re.sub(r"\W", "-", device)


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
    device = args.device + ("," if ":" in args.device else ":") + "arena=2000000000,libraries=all"
    passed, failed, none, seen = 0, [], 0, set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, lines, seconds in pool.map(lambda c: check_case(args.braid, device, c), cases):
            for line in lines:
                if line in seen:
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


def run_test(args, name):
    program = os.path.join(args.build, "tests", name + "_test")
    device = args.device if name in ("cl_ledger", "cuda_ledger", "cuda_tensor", "cuda_few_channels") else args.device + ("," if ":" in args.device else ":") + "libraries=all"
    return run([program], 280, {"BRAID_TEST_OPENCL": device, "CMOCKA_MESSAGE_OUTPUT": "stdout"})


def tests(args, failures):
    names = [name for name in TESTS if os.path.exists(os.path.join(args.build, "tests", name + "_test"))]
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs // 2)) as pool:
        for name, (code, text, seconds) in zip(names, pool.map(lambda name: run_test(args, name), names)):
            ran = sum(int(n) for n in re.findall(r"PASSED  \] (\d+) test", text))
            say(f"{name}_test on {args.device}: {'passed' if code == 0 else f'FAILED ({code})'}, {ran} tests, "
                f"{seconds:.0f} s")
            if code:
                wrong = [line for line in text.splitlines() if re.search("ERROR|FAILED|error:", line)]
                failures.append(f"{name}_test: " + "; ".join(wrong)[:1500])


# --- measurements ----------------------------------------------------------------------------------------------------
def ours_step(args, batch, device):
    """{precision: times and joules} of a step of the VGG-like network, in integers and in float32 by turns."""
    steps = 200 if batch <= 128 else 60
    program = os.path.join(args.build, "bench", "integer_step_bench")
    code, text, _ = run([program, "--device", device + " cpu", "--batch", str(batch), "--steps", str(steps), "--nodes",
                         "10", os.path.join(MODELS, "vgg-tile.cfg")], 280)
    with open(os.path.join(args.out, f"step-{batch}-{word_of(device)}.txt"), "w") as out:
        out.write(text)
    times = re.search(r"int8 ([\d.]+) ms a step, float32 ([\d.]+) ms", text)
    joules = dict(re.findall(r"(\w+): ([\d.]+) J a step", text))
    if code or not times:
        return {}, text[-600:]
    return {name: {"ms": float(ms), "J": float(joules.get(name, "nan"))}
            for name, ms in zip(("int8", "float32"), times.groups())}, ""


def ours_mixed(args, model, batch, precision, classes):
    """Time and joules of a step in one precision."""
    steps = 200 if model == "vgg-tile" and batch <= 128 else 30
    program = os.path.join(args.build, "bench", "mixed_step_bench")
    code, text, _ = run([program, "--device", args.device + " cpu", "--batch", str(batch), "--steps", str(steps),
                         "--nodes", "30", "--classes", str(classes), "--precision", precision,
                         os.path.join(MODELS, model + ".cfg")], 280)
    with open(os.path.join(args.out, f"mixed-{model}-{batch}-{precision}.txt"), "w") as out:
        out.write(text)
    found = re.search(r": \w+ ([\d.]+) ms a step, ([-\d.]+) J", text)
    if code or not found:
        return None, text[-600:]
    return {"ms": float(found[1]), "J": float(found[2]) if float(found[2]) >= 0 else float("nan")}, ""


# PyTorch's side of all rows, in one process: importing it takes longer than measuring. A line of JSON for each.
TORCH = r"""
import json, sys, time, torch, torchvision
import torch.nn as nn
try:
    import pynvml
    pynvml.nvmlInit()
    energy = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)) / 1e3
    energy()
except Exception:
    energy = lambda: float("nan")

def vgg_tile():
    layers, channels = [], 3
    for out, pool in ((128, 0), (128, 1), (256, 0), (256, 1), (512, 0), (512, 1)):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
        channels = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8192, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()

def step_of(batch, mode):
    net = vgg_tile()
    if mode == "bf16":
        net = net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, y = torch.randn(batch, 3, 32, 32, device="cuda"), torch.randint(10, (batch,), device="cuda")
    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16, enabled=mode == "bf16"):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return step, (x, y)

def net_of(name, batch, mode):
    net, x = getattr(torchvision.models, name)().cuda().eval(), torch.randn(batch, 3, 224, 224, device="cuda")
    if mode == "fp16":
        last = torch.channels_last
        net, x = net.half().to(memory_format=last), x.half().contiguous(memory_format=last)
    def forward():
        with torch.no_grad():
            net(x)
    return forward, (x,)

# With `copies` each run's inputs come from pinned memory of the host, as ours do.
def measure(work, inputs):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(8): work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): work()
    for _ in range(10): graph.replay()
    torch.cuda.synchronize()
    host = [x.cpu().contiguous(memory_format=torch.channels_last if x.dim() == 4 and x.is_contiguous(
        memory_format=torch.channels_last) else torch.contiguous_format).pin_memory() for x in inputs]
    def timed(seconds, copies):
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 20:
            start = time.perf_counter()
            if copies:
                for x, h in zip(inputs, host): x.copy_(h, non_blocking=True)
            graph.replay()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return times
    copied, before = timed(0.5, True), energy()
    times = timed(1.5, False)
    return {"ms": sorted(times)[len(times) // 2] * 1e3, "J": (energy() - before) / len(times),
            "with_copies_ms": sorted(copied)[len(copied) // 2] * 1e3}

torch.backends.cudnn.benchmark = True
for name, batch, mode in json.loads(sys.argv[1]):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode != "float32"
    try:
        result = measure(*(step_of(batch, mode) if name == "step" else net_of(name, batch, mode)))
    except Exception as wrong:
        result = {"failed": repr(wrong)[:200]}
    print(json.dumps([name, batch, mode, result]), flush=True)
    torch.cuda.empty_cache()
"""


def torch_rows(rows, wanted):
    """`wanted`: (name, batch, mode, the table's word for the work)."""
    _, text, _ = run([sys.executable, "-c", TORCH, json.dumps([w[:3] for w in wanted])], 240)
    found = {}
    for line in text.splitlines():
        if line.startswith("["):
            name, batch, mode, result = json.loads(line)
            found[name, batch, mode] = result
    for name, batch, mode, work in wanted:
        result = found.get((name, batch, mode), {"failed": text[-200:]})
        add_row(rows, work, f"PyTorch {mode}, graph", (result if "ms" in result else None, result.get("failed", "")))


# Layers of models/vgg-tile.cfg: places of a sample, filters, products of each result.
LAYERS = ((1024, 128, 27), (1024, 128, 1152), (256, 256, 1152), (256, 256, 2304), (64, 512, 2304), (64, 512, 4608),
          (1, 1024, 8192), (1, 10, 1024))

INT_MM = r"""
import json, sys, time, torch
for rows, columns, inner in json.loads(sys.argv[1]):
    rows, columns, inner = max(rows, 24), (columns + 7) // 8 * 8, (inner + 7) // 8 * 8
    a = torch.randint(-127, 128, (rows, inner), device="cuda", dtype=torch.int8)
    b = torch.randint(-127, 128, (columns, inner), device="cuda", dtype=torch.int8).t()
    for _ in range(3): torch._int_mm(a, b)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50): torch._int_mm(a, b)
    torch.cuda.synchronize()
    print(json.dumps((time.perf_counter() - start) / 50 * 1e6), flush=True)
"""


def product_sizes(batch):
    """Rows, columns, inner dimension of each kind of product, by layers."""
    forward = [(batch * places, filters, inner) for places, filters, inner in LAYERS]
    taps = [9 if places > 1 else 1 for places, _, _ in LAYERS]
    by_inputs = [(batch * places, inner // t, filters * t) for (places, filters, inner), t in zip(LAYERS, taps)]
    by_weights = [(filters, inner, batch * places) for places, filters, inner in LAYERS]
    return {"IntegerConv": forward, "IntegerConvGradInput": by_inputs[1:], "IntegerConvGradFilter": by_weights}


def products_of_step(text):
    """{op: its times, by layers}: gradients are numbered from the last layer on."""
    found = {}
    for name, op, us in re.findall(r"^    (\S+) +(IntegerConv\w*) +\S+ +(\d+) us", text, re.M):
        number = int(re.search(r"\d+", name).group())
        found.setdefault(op, []).append((number if op == "IntegerConv" else -number, float(us)))
    return {op: [us for _, us in sorted(times)] for op, times in found.items()}


def int8(args, rows, meter):
    for batch in (128, 1024):
        program = os.path.join(args.build, "bench", "integer_step_bench")
        _, text, _ = run([program, "--device", args.device + " cpu", "--batch", str(batch), "--steps", "20", "--nodes",
                          "200", os.path.join(MODELS, "vgg-tile.cfg")], 200)
        ours = products_of_step(text.split("  float32: nodes")[0])
        for op, sizes in product_sizes(batch).items():
            _, theirs, _ = run([sys.executable, "-c", INT_MM, json.dumps(sizes)], 100)
            peers = [float(line) for line in theirs.splitlines() if re.fullmatch(r"[\d.]+", line)]
            for i, size in enumerate(sizes):
                us, peer = (times[i] if len(times) == len(sizes) else float("nan") for times in (ours.get(op, []), peers))
                rate = [2e-6 * size[0] * size[1] * size[2] / t for t in (us, peer)]
                say(f"  b{batch} {op:22} {'x'.join(map(str, size)):22} {us:7.0f} us {rate[0]:5.0f} TOP/s, cuBLASLt "
                    f"{peer:7.0f} us {rate[1]:5.0f} TOP/s")


def add_row(rows, work, name, result):
    row, why = result
    rows.append((work, name, row, why))
    copies = f" {row['with_copies_ms']:9.3f} ms with copies" if row and "with_copies_ms" in row else ""
    say(f"  {work:34} {name:28} " + (f"{row['ms']:9.3f} ms {row['J']:9.3f} J" if row else "none: " + why[-300:]) + copies)


def step(args, rows, meter):
    tf32 = args.device + (",tf32=on" if ":" in args.device else ":tf32=on")
    for batch in (128, 1024):
        work = f"training step, VGG-like, b{batch}"
        plain, why = ours_step(args, batch, args.device)
        rounded, why_rounded = ours_step(args, batch, tf32)
        add_row(rows, work, "braid float32", (plain.get("float32"), why))
        add_row(rows, work, "braid TF32", (rounded.get("float32"), why_rounded))
        add_row(rows, work, "braid int8", (plain.get("int8"), why))
        add_row(rows, work, "braid bf16", ours_mixed(args, "vgg-tile", batch, "bf16", 10))
    add_row(rows, "training step, ResNet-50, b256", "braid bf16", ours_mixed(args, "resnet50", 256, "bf16", 1000))
    torch_rows(rows, [("step", batch, mode, f"training step, VGG-like, b{batch}")
                      for batch in (128, 1024) for mode in ("float32", "tf32", "bf16")])


def ours_net(args, net, batch, device, meter, precision="float32"):
    """The energy of a run is what ten times as many runs take more."""
    joules, texts = [], []
    for runs in (5, 60, 600):  # the first fills the cache of programs
        before = meter.read()
        code, text, _ = run([args.braid, "bench", os.path.join(MODELS, net + ".cfg"), "--batch", str(batch),
                             "--device", device + " cpu", "--runs", str(runs), "--nodes", "12", "--json",
                             "--precision", precision], 200)
        joules.append(meter.read() - before)
        texts.append(text)
        if code:
            return None, text[-600:]
    found = json.loads(texts[-1][texts[-1].index("{"):])
    with open(os.path.join(args.out, f"{net}-{batch}-{word_of(device)}-{precision}.json"), "w") as out:
        out.write(texts[-1])
    return {"ms": found["measured_ms"]["median"], "J": (joules[2] - joules[1]) / 540}, ""


def inference(args, rows, meter):
    torch_names = {"resnet50": "resnet50", "mobilenet2": "mobilenet_v2", "vgg16": "vgg16"}
    tf32 = args.device + (",tf32=on" if ":" in args.device else ":tf32=on")
    for net in NETS:
        for batch in (1, 32):
            work = f"inference, {net}, b{batch}"
            add_row(rows, work, "braid float32", ours_net(args, net, batch, args.device, meter))
            add_row(rows, work, "braid TF32", ours_net(args, net, batch, tf32, meter))
            add_row(rows, work, "braid fp16", ours_net(args, net, batch, args.device, meter, "fp16"))
    torch_rows(rows, [(torch_names[net], batch, mode, f"inference, {net}, b{batch}")
                      for net in NETS for batch in (1, 32) for mode in ("float32", "tf32", "fp16")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--device", default="cuda0")
    parser.add_argument("--out", default=".")
    parser.add_argument("--parts", default="conformance,tests,int8,step,inference")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    args.braid = os.path.join(args.build, "braid")
    meter, failures, rows = Meter(), [], []
    say(run([args.braid, "devices"], 60)[1])
    for part in args.parts.split(","):
        started = time.time()
        try:
            {"conformance": lambda: conformance(args, failures), "tests": lambda: tests(args, failures),
             "int8": lambda: int8(args, rows, meter), "step": lambda: step(args, rows, meter), "inference": lambda: inference(args, rows, meter)}[part]()
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
