"""The provider for ONNX Runtime beside ONNX Runtime's own CPU provider, in one process: nodes that Braid runs, the
largest error, and times.

    python bench/onnxruntime_ep.py --plugin build/plugins/libbraid_onnxruntime.so [--threads N] [--batch N] MODEL.onnx...
    python bench/onnxruntime_ep.py --plugin ... --export FOLDER      # writes torchvision's networks first, if absent
    python bench/onnxruntime_ep.py --plugin ... --overhead           # what a call of a group costs

Both providers have the same number of threads and take turns, some runs each, so that what else the machine does falls
on both; idle threads of one would otherwise spin while the other computes, so spinning is off for both. Times are
medians over all turns, and the ratio is of these medians. `CPU time` is the ratio of the processor time that the process
used, which counts no time when other programs had the cores."""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np
import onnxruntime as ort

NETS = ("resnet50 mobilenet_v2 squeezenet1_1 resnet18 alexnet vgg11_bn densenet121 mobilenet_v3_small mobilenet_v3_large "
        "shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 regnet_y_400mf convnext_tiny swin_t vit_b_32").split()
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
         "tensor(bool)": np.bool_}


def export(folder):
    """Torchvision's networks with random weights, spread-out statistics, and an open batch."""
    import torch
    import torchvision
    folder.mkdir(parents=True, exist_ok=True)
    for name in NETS:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(0)
        net = getattr(torchvision.models, name)(weights=None).eval()
        for module in net.modules():
            if getattr(module, "running_mean", None) is not None:
                module.running_mean.normal_(0, 0.05)
                module.running_var.uniform_(0.8, 1.2)
        torch.onnx.export(net, (torch.randn(1, 3, 224, 224),), str(path), dynamo=False, opset_version=17,
                          input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    return [folder / f"{name}.onnx" for name in NETS]


def settings(threads):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def sessions(model, threads, extra):
    options = settings(threads)
    devices = [d for d in ort.get_ep_devices() if d.ep_name == "BraidExecutionProvider"]
    options.add_provider_for_devices(devices, {"threads": str(threads), **extra})
    ours = ort.InferenceSession(model, options, enable_fallback=0)
    return ours, ort.InferenceSession(model, settings(threads), providers=["CPUExecutionProvider"])


def counts(session):
    ours = total = groups = 0
    for group in session.get_provider_graph_assignment_info():
        nodes = len(group.get_nodes())
        total += nodes
        if group.ep_name == "BraidExecutionProvider":
            ours, groups = ours + nodes, groups + 1
    return ours, total, groups


def feeds(session, batch):
    random = np.random.default_rng(1)
    result = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else batch for d in value.shape]
        kind = TYPES[value.type]
        high = 1 if np.issubdtype(kind, np.floating) else 2
        result[value.name] = (random.random(shape) * high).astype(kind)
    return result


def error(ours, theirs):
    """The largest difference of any output, in units of its largest value; infinite where shapes differ, or one has a
    number and the other has none."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if a.shape != b.shape:
            return np.inf
        differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if differ.any():
            off = float(np.max(np.abs(a - b)[differ]) / max(np.max(np.abs(b)), 1e-30))
            worst = max(worst, off if np.isfinite(off) else np.inf)
    return worst


def race(runs, seconds):
    """Times of each of `runs` in seconds, and processor times per run: they take turns."""
    times, work = [[] for _ in runs], [[] for _ in runs]
    for run in runs:
        run()
    started = time.perf_counter()
    run_time = max(min(time_of(run) for _ in range(3)) for run in runs)
    each = max(1, int(0.05 / max(run_time, 1e-7)))
    while time.perf_counter() - started < seconds or len(times[0]) < 5:
        for run, list_of, used in zip(runs, times, work):
            run()
            begun = time.process_time()
            list_of += [time_of(run) for _ in range(each)]
            used.append((time.process_time() - begun) / each)
    return times, work


def time_of(run):
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def overhead(threads):
    """Time per call of a network of small Relus, by the number of groups that Braid's nodes are divided into."""
    from onnx import TensorProto, helper
    print("microseconds per run of n times Relu (1, 16); with more than one, a RandomNormalLike stands behind each, which "
          "is left to the CPU provider, so that Braid's nodes are in n groups")
    for groups in (1, 10):
        nodes, last = [], "x"
        for i in range(groups):
            nodes.append(helper.make_node("Relu", [last], [f"r{i}"]))
            last = f"r{i}"
            if groups > 1:
                nodes.append(helper.make_node("RandomNormalLike", [last], [f"c{i}"]))
                last = f"c{i}"
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
                                  [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 16])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
        ours, theirs = sessions(model, threads, {})
        x = {"x": np.ones((1, 16), np.float32)}
        binds = []
        for session in (ours, theirs):
            binding = session.io_binding()
            binding.bind_cpu_input("x", x["x"])
            binding.bind_output(last, "cpu")
            binds.append((session, binding))
        times, _ = race([lambda s=s, b=b: s.run_with_iobinding(b) for s, b in binds], 4)
        mine, other = (statistics.median(t) * 1e6 for t in times)
        print(f"  {groups:2} groups: {mine:.2f} against {other:.2f}: {(mine - other) / groups:+.2f} per group")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4, help="per network")
    parser.add_argument("--export", type=pathlib.Path)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--options", default="", help="more options of the provider: key=value,...")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    extra = dict(item.split("=", 1) for item in options.options.split(",") if item)
    ort.register_execution_provider_library("braid", str(pathlib.Path(options.plugin).resolve()))
    print(f"ONNX Runtime {ort.__version__}, {options.threads} threads, batch {options.batch}")
    if options.overhead:
        overhead(options.threads)
    models = options.models + ([str(p) for p in export(options.export)] if options.export else [])
    worst, ratios = 0.0, []
    for model in models:
        begun = time.perf_counter()
        ours, theirs = sessions(model, options.threads, extra)
        load = time.perf_counter() - begun
        x = feeds(theirs, options.batch)
        off = error(ours.run(None, x), theirs.run(None, x))
        times, work = race([lambda: ours.run(None, x), lambda: theirs.run(None, x)], options.seconds)
        mine, other = (statistics.median(t) * 1e3 for t in times)
        nodes, total, groups = counts(ours)
        ratio, cpu = mine / other, statistics.median(work[0]) / statistics.median(work[1])
        worst, ratios = max(worst, off), ratios + [ratio]
        print(f"{pathlib.Path(model).stem:22} {nodes:4} of {total:4} nodes in {groups:2} groups  error {off:.1e}  "
              f"{mine:9.3f} ms, CPU provider {other:9.3f}: {ratio:.2f}, CPU time {cpu:.2f}  loaded in {load:.1f} s", flush=True)
    if ratios:
        print(f"median ratio {statistics.median(ratios):.2f}, largest error {worst:.1e}")
        sys.exit(worst > 1e-3)


if __name__ == "__main__":
    main()
