"""Exported networks beside PyTorch and ONNX Runtime: are answers and gradients right, and is a trained network kept?

Every network of export_nets.py is written as ONNX by both of PyTorch's exporters, with an open batch, and goes through
  inference  `braid run` at batch 1 and 3, against ONNX Runtime and PyTorch in double precision
  gradients  one step of `braid train` by plain SGD: what every parameter changed by, against PyTorch's gradients in double
             precision; as many numbers train as PyTorch has parameters
  report     some epochs on a network as it was written down, initial values and all: the saved file, run by ONNX Runtime
             one sample at a time, has the accuracy and the loss that the report says
A network that an exporter cannot write counts as `peer`; one that Braid refuses before its first step as `refused`, with
the sentence; everything else is `right` or `wrong`. Exit code 1 if anything is wrong or was lost.

    exports.py --braid build/braid --work build/exports [--what inference,gradients,report] [--only 'vit*,lstm*']"""
import argparse
import collections
import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import time
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

import export_nets

EXPORTERS = ("script", "dynamo")
SAMPLES = 8


class Lost(Exception):
    """A wrong answer, or work that was lost."""


class Refused(Exception):
    """A sentence before any work was done."""


class Peer(Exception):
    """PyTorch or ONNX Runtime cannot do it."""


# --- the peers -------------------------------------------------------------------------------------------------------
def make(name, distinct):
    """A network, always the same. `distinct`: no two parameters alike, so that each is found again in the file."""
    torch.manual_seed(1)
    module = export_nets.NETS[name][1]()
    if distinct:
        with torch.no_grad():
            for p in module.parameters():
                p += 0.05 * torch.randn_like(p)
            for key, b in module.named_buffers():
                if key.endswith("running_mean") or key.endswith("running_var"):
                    b += 0.05 * torch.rand_like(b)
    return module


def set_mode(module, training):
    """Training mode with every Dropout switched off: masks of two programs never agree."""
    module.train(training)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout) or type(part).__name__ == "StochasticDepth":
            part.eval()
        if hasattr(part, "dropout") and isinstance(part.dropout, float):
            part.dropout = 0.0


@contextlib.contextmanager
def silence():
    """Keeps what the exporters print, from C++ too, off the terminal."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), kept):
                os.dup2(copy, number)
                os.close(copy)


def export(module, path, shape, exporter, training):
    x = torch.randn(2, *shape)
    if exporter == "script":
        mode = torch.onnx.TrainingMode.PRESERVE if training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(module, (x,), path, dynamo=False, input_names=["x"], output_names=["y"], training=mode,
                          do_constant_folding=not training, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    else:
        torch.onnx.export(module, (x,), path, dynamo=True, input_names=["x"], output_names=["y"], verbose=False,
                          optimize=not training, external_data=False, dynamic_shapes=({0: torch.export.Dim("batch")},))


def exported(args, name, exporter, training, distinct):
    """The module, and the path of its file."""
    module = make(name, distinct)
    path = os.path.join(args.work, f"{name}-{exporter}{'-train' if training else ''}{'' if distinct else '-fresh'}.onnx")
    set_mode(module, training and exporter == "script")
    if not os.path.exists(path):
        try:
            with silence():
                export(module, path + ".part", export_nets.NETS[name][2], exporter, training)
        except Exception as error:
            raise Peer(f"export: {type(error).__name__}: {str(error).strip().splitlines()[0][:120]}") from None
        os.rename(path + ".part", path)
    return module, path


def run_peer(path, x):
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: x})[0]
    except Exception as error:
        raise Peer(f"ONNX Runtime: {str(error).strip().splitlines()[0][:160]}") from None


def samples(name, count, seed=2):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, *export_nets.NETS[name][2])).astype(np.float32)
    return x, generator.integers(0, export_nets.CLASSES, count)


# --- Braid -----------------------------------------------------------------------------------------------------------
def braid(args, *words):
    """Runs the command; the document that it prints, or None if it prints none."""
    process = subprocess.run([args.braid, *words], capture_output=True, text=True, timeout=args.timeout)
    if process.returncode not in (0, 1, 2):
        raise Lost(f"exit code {process.returncode}: {process.stderr[-200:]}")
    return process


def sentence(process):
    lines = [line for line in process.stderr.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"exit code {process.returncode} without a word"


def train(args, name, path, count, epochs, rate, batch):
    """Trains; returns the report and the path of the saved file."""
    out = path[:-5] + ".out"
    shutil.rmtree(out, ignore_errors=True)
    x, labels = samples(name, count)
    labels[0] = export_nets.CLASSES - 1  # the number of classes is the largest label and one
    while x.ndim < 4:
        x = x[:, None]
    np.save(path + ".x.npy", x)
    np.save(path + ".labels.npy", labels)
    data = f"npy:{path}.x.npy+{path}.labels.npy"
    process = braid(args, "train", path, "--data", data, "--test", data, "--epochs", str(epochs), "--batch", str(batch),
                    "--lr", repr(rate), "--schedule", "constant", "--momentum", "0", "--weight-decay", "0", "--out", out,
                    "--threads", str(args.threads), "--json")
    saved = os.path.join(out, "model.onnx")
    if process.returncode:
        began = os.path.isdir(out) and any(entry.startswith(("checkpoint", "events")) for entry in os.listdir(out))
        diverged = "not finite" in process.stderr  # said, and the last checkpoint is good
        raise (Refused if diverged or not began else Lost)(sentence(process))
    if not os.path.exists(saved):
        raise Lost("no model.onnx")
    return json.loads(process.stdout), saved, x.reshape(count, *export_nets.NETS[name][2]), labels


# --- the three questions ---------------------------------------------------------------------------------------------
def distance(x, truth):
    scale = np.abs(truth).max()
    return float(np.abs(x - truth).max() / (scale if scale > 0 else 1)) if np.isfinite(x).all() else float("inf")


def check_inference(args, name, exporter):
    module, path = exported(args, name, exporter, False, True)
    module = module.double().eval()
    worst = 0
    for batch in (1, 3):
        x, _ = samples(name, batch)
        np.save(path + ".x.npy", x)
        with torch.no_grad():
            truth = module(torch.from_numpy(x).double()).numpy()
        theirs = run_peer(path, x)
        process = braid(args, "run", path, "--input", path + ".x.npy", "--output", path + ".y.npy", "--shape",
                        "x".join(map(str, x.shape)), "--threads", str(args.threads))
        if process.returncode:
            raise Refused(sentence(process))
        ours = np.load(path + ".y.npy")
        far, peer = distance(ours, truth), distance(theirs, truth)
        # Where the file itself differs from the module (an exporter's fault), ONNX Runtime is the measure.
        if far > max(2e-5, 8 * peer) and distance(ours, theirs) > 2e-5:
            raise Lost(f"batch {batch}: {far:.1e} from PyTorch, ONNX Runtime {peer:.1e}")
        worst = max(worst, far)
    return f"{worst:.1e}"


def tensors(path):
    model = onnx.load(path)
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}


def gradients_of(module, x, labels):
    """The loss, and by parameter the value and the gradient, flat."""
    module.zero_grad()
    loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(x).double()), torch.from_numpy(labels))
    loss.backward()
    return loss.item(), {k: (p.detach().float().numpy().ravel(), np.zeros(p.numel()) if p.grad is None else
                             p.grad.numpy().ravel().copy()) for k, p in module.named_parameters()}


def conditioning(module, x, labels, truth):
    """By how much of its largest number a gradient moves when every parameter moves by some roundings of float32: where
    an activation lies that close to the kink of a ReLU or to its neighbour in a pool, any program may be on either side."""
    worst, kept = 0, {k: p.detach().clone() for k, p in module.named_parameters()}
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for k, p in module.named_parameters():
                p.copy_(kept[k] * (1 + 1e-6 * torch.randn(p.shape, generator=generator, dtype=p.dtype)))
        _, moved = gradients_of(module, x, labels)
        largest = max(float(np.abs(g).max()) for _, g in truth.values())
        for key, (_, g) in truth.items():
            worst = max(worst, float(np.abs(moved[key][1] - g).max()) / (float(np.abs(g).max()) + 1e-4 * largest))
    return worst


def by_value(parameters):
    """Finds the gradient of every number of a file's tensor by its initial value."""
    ordered = {}
    for key, (value, gradient) in parameters.items():
        order = np.argsort(value, kind="stable")
        ordered[key] = (value[order], gradient[order])
    small = [(value, gradient) for value, gradient in ordered.values() if value.size <= 65536]
    every = np.concatenate([v for v, _ in small]) if small else np.zeros(0, np.float32)
    gradients = np.concatenate([g for _, g in small]) if small else np.zeros(0)
    where = np.argsort(every, kind="stable")
    every, gradients = every[where], gradients[where]

    def find(tensor):
        flat = tensor.ravel()
        order = np.argsort(flat, kind="stable")
        for value, gradient in ordered.values():
            if value.size == flat.size and np.array_equal(value, flat[order]):
                result = np.empty(flat.size)
                result[order] = gradient
                return result.reshape(tensor.shape)
        if not every.size or flat.size > every.size or flat.size < 2:
            return None
        at = np.minimum(np.searchsorted(every, flat), every.size - 1)  # several parameters in one tensor, as of an LSTM
        return gradients[at].reshape(tensor.shape) if np.array_equal(every[at], flat) else None

    return find


def check_gradients(args, name, exporter):
    module, path = exported(args, name, exporter, True, True)
    run_peer(path, samples(name, SAMPLES)[0])
    report, saved, x, labels = train(args, name, path, SAMPLES, 1, 1.0, SAMPLES)
    trains_norm = any(n.op_type == "BatchNormalization" for n in onnx.load(path).graph.node)
    set_mode(module, trains_norm)
    module = module.double()
    loss, parameters = gradients_of(module, x, labels)
    find, before, after = by_value(parameters), tensors(path), tensors(saved)
    said = report["epochs"][0]["loss"]
    if abs(said - loss) > 1e-4 * max(1, abs(loss)):
        raise Lost(f"the loss is {loss:.6f}, the report says {said:.6f}")
    largest = max(float(np.abs(g).max()) for _, g in parameters.values())
    worst, count, fixed = (0, ""), 0, 0
    for key, value in before.items():
        truth = find(value)
        if truth is None:
            continue
        if key not in after:
            raise Lost(f"{key} is not in the saved file")
        count += value.size
        step = value.astype(np.float64) - after[key]
        noise = 2e-7 * float(np.abs(value).max())
        far = max(float(np.abs(step - truth).max()) - noise, 0) / (float(np.abs(truth).max()) + 1e-4 * largest + 1e-12)
        if not step.any() and np.abs(truth).max() > 1e-5 * largest:
            fixed += value.size
            far = float("inf") if far > 1e-2 else far
        worst = max(worst, (far, key))
    wanted = sum(p.numel() for p in module.parameters())
    text = f"{worst[0]:.1e}, {count} of {wanted} numbers compared"
    if not np.isfinite(worst[0]):
        raise Lost(f"{worst[1]} did not train ({fixed} numbers in all)")
    if worst[0] > 2e-3:
        moves = conditioning(module, x, labels, parameters)
        if worst[0] > 2 * moves:
            raise Lost(f"gradient of {worst[1]} off by {worst[0]:.1e}; roundings move PyTorch's by {moves:.1e}")
        text += f"; roundings move PyTorch's by {moves:.1e}"
    if count < wanted * 0.5:
        raise Peer(f"the exporter changed the parameters: {text}")
    return text


def check_report(args, name, exporter):
    results = []
    for training in (False, True):
        _, path = exported(args, name, exporter, training, False)
        report, saved, x, labels = train(args, name, path, 32, 2, 0.002, 8)
        scores = np.concatenate([run_peer(saved, x[i:i + 1]) for i in range(len(x))]).astype(np.float64)
        log = scores - scores.max(1, keepdims=True)
        log -= np.log(np.exp(log).sum(1, keepdims=True))
        if (scores >= 0).all() and np.allclose(scores.sum(1), 1):
            log = np.log(scores)  # the network ends in a softmax
        loss, accuracy = -log[np.arange(len(x)), labels].mean(), (scores.argmax(1) == labels).mean()
        last = report["epochs"][-1]
        if abs(last["test_loss"] - loss) > 1e-3 * max(1, abs(loss)) or abs(last["test_accuracy"] - accuracy) > 1.5 / len(x):
            raise Lost(f"{'training' if training else 'evaluation'} mode: the report says {last['test_loss']:.4f}, "
                       f"{last['test_accuracy']:.2f}; the saved file gives {loss:.4f}, {accuracy:.2f}")
        results.append(f"{loss:.4f}")
    return "loss " + ", ".join(results)


CHECKS = {"inference": check_inference, "gradients": check_gradients, "report": check_report}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--work", default="build/exports", help="where the exported files stay")
    parser.add_argument("--what", default=",".join(CHECKS))
    parser.add_argument("--only", default="*", help="patterns of names or groups, separated by commas")
    parser.add_argument("--exporter", default=",".join(EXPORTERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one command")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all: what is under way ends, the "
                        "rest is counted")
    parser.add_argument("--json", help="write the rows to this file too")
    args = parser.parse_args()
    args.braid, args.work = os.path.abspath(args.braid), os.path.abspath(args.work)
    os.makedirs(args.work, exist_ok=True)
    torch.set_num_threads(args.threads)
    patterns, rows, left, start = args.only.split(","), [], 0, time.time()
    for name, (group, _, _) in export_nets.NETS.items():
        if not any(fnmatch.fnmatch(name, p) or fnmatch.fnmatch(group, p) for p in patterns):
            continue
        for exporter in args.exporter.split(","):
            for what in args.what.split(","):
                if time.time() - start > args.limit:
                    left += 1
                    continue
                try:
                    verdict, detail = "right", CHECKS[what](args, name, exporter)
                except Peer as error:
                    verdict, detail = "peer", str(error)
                except Refused as error:
                    verdict, detail = "refused", str(error)
                except (Lost, subprocess.TimeoutExpired) as error:
                    verdict, detail = "wrong", str(error)
                rows.append({"net": name, "group": group, "exporter": exporter, "what": what, "verdict": verdict,
                             "detail": detail})
                print(f"{verdict:8} {what:10} {exporter:7} {name:24} {detail}", flush=True)
    print()
    for what in args.what.split(","):
        counts = collections.Counter(row["verdict"] for row in rows if row["what"] == what)
        print(f"{what:10} " + ", ".join(f"{counts[v]} {v}" for v in ("right", "wrong", "refused", "peer")))
    print(f"{len(rows)} rows in {time.time() - start:.0f} s" + (f"; {left} left out, the limit is over" if left else ""))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    sys.exit(any(row["verdict"] == "wrong" for row in rows))


if __name__ == "__main__":
    main()
