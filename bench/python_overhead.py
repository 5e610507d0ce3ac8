#!/usr/bin/env python3
"""What Python costs: a model of one node (Relu) run by the package `braid`, beside the same run of the same execution
by a loop in C in the same process, and beside ONNX Runtime's Python, turn by turn.

  bench/python_overhead.py [--turns 41] [--runs 1000] [--json FILE]

Needs the package (pip install plugins/python) and a C compiler; ONNX Runtime and PyTorch where they are. A turn is the
median of chunks of 20 runs, a row the median of the turns; the overhead is the median of the differences to C in the
same turn."""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import braid
import numpy as np
from braid._library import lib

LOOP = r"""
#include <stddef.h>
#include <time.h>
double loop(int (*run)(void *, const void *const *, void *const *), void *execution, const void *const *inputs,
            void *const *outputs, int count) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < count; i++)
    if (run(execution, inputs, outputs)) return -1;
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / count / 1e3;
}
"""


def compiled_loop():
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "loop.c"), os.path.join(folder, "loop.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(LOOP)
        subprocess.run([*os.environ.get("CC", "cc").split(), "-O2", "-shared", "-fPIC", source, "-o", library],
                       check=True)
        loop = ctypes.CDLL(library).loop
    loop.restype = ctypes.c_double
    return loop


CHUNK = 20


def timed(call, count):
    """Median of chunks of a few runs: other programs that take the CPU meet some chunks, not all."""
    chunks = []
    for _ in range(count // CHUNK):
        start = time.perf_counter_ns()
        for _ in range(CHUNK):
            call()
        chunks.append((time.perf_counter_ns() - start) / CHUNK / 1e3)
    return statistics.median(chunks)


def relu(shape):
    graph = braid.Graph("relu")
    graph.output(graph.add_node("Relu", graph.input("x", "float32", shape), name="relu"), "y")
    return graph


def contestants(x, count):
    """Name and what measures it once."""
    model = braid.load(relu((None, x.shape[1])))
    y = model(x)
    slot, loop = next(iter(model._plans.values())).free[0], compiled_loop()
    inputs, outputs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
    run = ctypes.cast(lib.braid_execution_run, ctypes.c_void_p)
    found = {"C, the same execution": lambda: statistics.median(
                loop(run, slot.pointer, inputs, outputs, CHUNK) for _ in range(count // CHUNK)),
             "braid, NumPy": lambda: timed(lambda: model.run(x), count),
             "braid, NumPy, out=": lambda: timed(lambda: model.run(x, out=y), count),
             "braid, single op": lambda: timed(lambda: braid.op("Relu", x), count)}
    try:
        import torch

        tensor = torch.ones(x.shape)
        found["braid, PyTorch"] = lambda: timed(lambda: model.run(tensor), count)
        found["PyTorch, torch.relu"] = lambda: timed(lambda: torch.relu(tensor), count)
    except ImportError:
        print("PyTorch: skipped (not there)")
    try:
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "relu.onnx")
            relu((None, x.shape[1])).save_onnx(path)
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        found["ONNX Runtime, NumPy"] = lambda: timed(lambda: session.run(None, {"x": x}), count)
    except ImportError:
        print("ONNX Runtime: skipped (not there)")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json")
    options = parser.parse_args()
    x = np.ones((1, 16), np.float32)
    measure = contestants(x, options.runs)
    for call in measure.values():
        call()
    turns = {name: [] for name in measure}
    for turn in range(options.turns):
        order = list(measure) if turn % 2 else list(reversed(measure))
        for name in order:
            turns[name].append(measure[name]())
    plain = turns["C, the same execution"]
    print(f"one Relu of [1,16], medians of {options.turns} turns of {options.runs} runs, microseconds (measured)")
    rows = {}
    for name, values in turns.items():
        over = statistics.median(one - base for one, base in zip(values, plain))
        rows[name] = {"us": statistics.median(values), "least_us": min(values), "over_c_us": over}
        print(f"{name:24} {rows[name]['us']:8.2f}   least {min(values):8.2f}   over C {over:8.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
