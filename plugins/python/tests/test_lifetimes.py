"""What the library was given stays as long as it may use it, whoever closes it, and nothing waits for ever."""

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest
from conftest import TREE, build_plugin, clusters, perceptron, relu_graph
from test_weather import python


def cubes(weight: np.ndarray) -> braid.Graph:
    """A product, and a custom op that only the graph holds."""
    ops = braid.CustomOps()

    @ops.add("test.Cube")
    def cube(attributes: braid.Attributes, inputs: Any, outputs: Any) -> None:
        outputs[0][...] = inputs[0] ** 3

    graph = ops.use(braid.Graph())
    product = graph.add_node("MatMul", [graph.input("x", "float32", (None, 8)), graph.constant(weight)])
    graph.output(graph.add_node("test.Cube", product))
    return graph


def test_a_call_without_inputs_does_not_run_with_those_of_the_last() -> None:
    graph = braid.Graph("scalar")
    graph.output(graph.add_node("Neg", graph.input("x", "float32", ())))
    model = braid.load(graph)
    assert model.run(np.float32(3)) == -3
    with pytest.raises(braid.InvalidArgumentError, match="0 inputs are given, expected 1"):
        model.run()
    graph = braid.Graph("constant")
    graph.output(graph.add_node("Neg", graph.constant(np.float32(2))))
    model = braid.load(graph)
    assert model.run() == -2
    with pytest.raises(braid.InvalidArgumentError, match="1 inputs are given, expected 0"):
        model.run(np.float32(3))


def test_outputs_over_inputs_are_refused() -> None:
    """A product that writes over what it still reads would be wrong without a word."""
    weight = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    graph = braid.Graph()
    x = graph.input("x", "float32", (None, 8))
    graph.output(graph.add_node("MatMul", [x, graph.constant(weight)]), "y")
    graph.output(graph.add_node("Relu", x), "z")
    model = braid.load(graph)
    sized = graph.clone()
    sized.set_input_shape("x", (8, 8))
    session, execution = braid.Session(sized), braid.Plan(braid.machine(), sized).execution()
    array, other = np.ones((16, 8), np.float32), np.empty((8, 8), np.float32)
    for run in (model.run, session.run, execution.run):
        for out in ((array[:8], other), (other, array[4:12])):
            with pytest.raises(braid.InvalidArgumentError, match="overlaps input 'x'"):
                run(array[:8], out=out)
        with pytest.raises(braid.InvalidArgumentError, match="output 'z' overlaps output 'y'"):
            run(array[:8], out=(other, other))
        y, _ = run(array[:8], out=(array[8:], other))
        assert np.allclose(y, np.ones((8, 8), np.float32) @ weight, atol=1e-5)
        array[8:] = 1


def test_a_bound_array_stays_when_its_buffer_is_closed() -> None:
    count = 1 << 20  # so much memory is given back to the system when it is freed
    plan = braid.Plan(braid.machine(), relu_graph((count,)))
    execution = plan.execution()
    array = np.ones(count, np.float32)
    buffer = braid.Buffer.of(array)
    held = weakref.ref(array)
    execution.bind_input(0, buffer)
    buffer.close()
    del array, buffer
    gc.collect()
    assert held() is not None and (execution.run() == 1).all()
    for value in (2, 3):
        execution.bind_input(0, braid.Buffer.of(np.full(count, value, np.float32)))
        assert held() is None and (execution.run() == value).all()
    execution.bind_input(0, None)
    assert execution.run(np.zeros(count, np.float32)).sum() == 0


def test_what_is_made_of_a_graph_keeps_its_custom_ops() -> None:
    python("""
import gc, braid, numpy as np
from test_lifetimes import cubes
random = np.random.default_rng(1)
weight, data = random.normal(size=(8, 8)).astype(np.float32), random.normal(size=(32, 8)).astype(np.float32)
graph = braid.quantize(cubes(weight), [data]).graph
gc.collect()
others = [braid.CustomOps() for _ in range(50)]
result, expected = braid.load(graph)(data), (data @ weight) ** 3
assert abs(result - expected).max() < 0.1 * abs(expected).max()
""")


@pytest.mark.parametrize("what", ["find_rate", "quantize", "audit"])
def test_a_data_set_that_another_thread_closes_stays_for_the_call(what: str, tree: Path, tmp_path: Path) -> None:
    graph = braid.load_graph(tree / "models/glyphs.cfg") if what == "audit" else perceptron()
    data = braid.Dataset("builtin:glyphs,limit=200") if what == "audit" else braid.Dataset.from_arrays(*clusters())
    if what == "audit":
        braid.train(graph, data, precision="int8", epochs=1, batch=50, lr=1.0, ledger=tmp_path / "ledger").close()

    def close(*now: Any) -> None:
        thread = threading.Thread(target=data.close)
        thread.start()
        thread.join()

    if what == "find_rate":
        assert braid.find_rate(graph, data, batch=20, steps=30, progress=close).points
    elif what == "quantize":
        assert braid.quantize(graph, data, progress=close).samples == 300
    else:
        assert braid.Ledger(tmp_path / "ledger").audit(graph, data, progress=close).agrees
    assert data.closed


def test_a_loader_does_not_wait_in_a_fork() -> None:
    output = python("""
import os, signal, braid
from conftest import clusters
loader = braid.Dataset.from_arrays(*clusters()).loader(20, threads=2)
child = os.fork()
if child == 0:
    signal.alarm(20)
    try:
        loader.next()
    except braid.ForkedError:
        loader.close()
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert output.strip() == "7"


def test_the_interpreter_ends_a_training_of_a_daemon() -> None:
    python("""
import threading, time, braid
from conftest import clusters, perceptron
trainer = braid.Trainer(perceptron(), clusters(), epochs=10**6, batch=20)
started = threading.Event()
threading.Thread(target=lambda: trainer.run(on_step=lambda now: started.set()), daemon=True).start()
assert started.wait(30)
""", timeout=40)


def test_the_interpreter_ends_a_run_in_flight_of_a_custom_op() -> None:
    python("""
import time, braid, numpy as np
ops = braid.CustomOps()
@ops.add("test.Slow")
def slow(attributes, inputs, outputs):
    time.sleep(0.5)
    outputs[0][...] = inputs[0]
graph = ops.use(braid.Graph())
graph.output(graph.add_node("test.Slow", graph.input("x", "float32", (4,))))
execution = braid.Plan(braid.machine(), graph).execution()
execution.submit(np.ones(4, np.float32))
""", timeout=40)


def test_a_buffer_that_is_closed_in_a_run_stays_for_it() -> None:
    graph = braid.Graph("long")
    x = y = graph.input("x", "float32", (500, 500))
    for _ in range(10):
        y = graph.add_node("MatMul", [y, x])
    graph.output(y)
    execution = braid.Plan(braid.machine(), graph).execution()
    array = np.eye(500, dtype=np.float32)
    buffer, held = braid.Buffer.of(array), weakref.ref(array)
    execution.submit(buffer)
    buffer.close()
    del array
    gc.collect()
    assert held() is not None and execution.wait().sum() == 500
    x, y = clusters()
    data = braid.Dataset.from_arrays(braid.Buffer.of(x), braid.Buffer.of(y))
    assert np.array_equal(data[7][0].ravel(), x[7]) and data[7][1] == y[7]


def test_the_array_of_an_op_stays_where_its_device_is_lost(compiler: list[str], tmp_path: Path) -> None:
    """Tasks of the device may still use it."""
    plugin = build_plugin(compiler, TREE / "tests/plugins/metered.c", tmp_path)
    output = python(f"""
import gc, weakref, braid, numpy as np
machine = braid.Machine("metered", registry=braid.Registry(plugins=[{str(plugin)!r}]))
lost = False
while not lost:
    x = np.ones((2, 64), np.float32)
    try:
        machine.op("Relu", x)
    except braid.DeviceLostError:
        lost = True
held = weakref.ref(x)
del x
gc.collect()
print("held" if held() is not None else "freed")
""", environment={"BRAID_METERED": "kernels=5"})
    assert output.strip() == "held"


def test_arrays_go_when_they_are_not_used_any_more() -> None:
    x, y = clusters()
    held = weakref.ref(x)
    trainer = braid.train(perceptron(), (x, y), epochs=1, batch=20)
    graph, model = trainer.graph(), trainer.model()
    del x, y, trainer
    gc.collect()
    assert held() is None and model(np.ones((1, 8), np.float32)).shape == (1, 3) and graph.nodes()
    execution = braid.Plan(braid.machine(), relu_graph((4, 16))).execution()
    x = np.ones((4, 16), np.float32)
    held = weakref.ref(x)
    execution.run(x)
    del x
    assert held() is None
    with pytest.raises(braid.InvalidArgumentError, match="nothing was submitted"):
        execution.wait()


def test_several_threads_close_an_execution() -> None:
    plan = braid.Plan(braid.machine(), relu_graph((4, 16)))
    problems: list[BaseException] = []

    def close(execution: braid.Execution) -> None:
        try:
            execution.close()
        except BaseException as problem:
            problems.append(problem)

    for _ in range(100):
        execution = plan.execution()
        execution.submit(np.ones((4, 16), np.float32))
        threads = [threading.Thread(target=close, args=(execution,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not problems
