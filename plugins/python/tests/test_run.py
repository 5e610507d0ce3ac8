"""Models run: against NumPy, at any shape, in place, by several threads."""

import threading
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest
from conftest import perceptron, relu_graph


def two_ends() -> braid.Graph:
    """Two inputs, two outputs."""
    graph = braid.Graph("ends")
    a, b = graph.input("a", "float32", (None, 4)), graph.input("b", "float32", (None, 4))
    graph.output(graph.add_node("Add", [a, b]), "sum")
    graph.output(graph.add_node("Mul", [a, b]), "product")
    return graph


def forward(graph: braid.Graph, x: np.ndarray) -> np.ndarray:
    w1, b1, w2, b2 = (graph.value(name).numpy() for name in ("w1", "b1", "w2", "b2"))
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2  # type: ignore[no-any-return]


def test_a_network_gives_what_numpy_gives_at_any_batch() -> None:
    graph = perceptron()
    model = braid.load(graph)
    assert [info.name for info in model.inputs] == ["x"] and model.inputs[0].shape == (None, 8)
    assert [info.name for info in model.outputs] == ["scores"]
    for batch in (1, 7, 64, 1):
        x = np.random.default_rng(batch).normal(size=(batch, 8)).astype(np.float32)
        assert np.allclose(model(x), forward(graph, x), atol=1e-5)


def test_inputs_by_position_and_by_name_and_several_outputs() -> None:
    model = braid.load(two_ends())
    a, b = np.full((2, 4), 3, np.float32), np.full((2, 4), 5, np.float32)
    for result in (model.run(a, b), model.run({"b": b, "a": a})):
        assert isinstance(result, tuple)
        assert (result[0] == 8).all() and (result[1] == 15).all()
    with pytest.raises(braid.InvalidArgumentError, match="no input 'c'.*'a', 'b'"):
        model.run({"a": a, "b": b, "c": a})
    with pytest.raises(braid.InvalidArgumentError, match="input 'b' is not given"):
        model.run({"a": a})
    with pytest.raises(braid.InvalidArgumentError, match="1 inputs are given, expected 2"):
        model.run(a)


def test_lists_and_numbers_become_arrays_of_the_type() -> None:
    assert braid.load(relu_graph((None, 3))).run([[1, -2, 3]]).tolist() == [[1, 0, 3]]


def test_wrong_types_and_shapes_are_sentences() -> None:
    model = braid.load(relu_graph((None, 16)))
    with pytest.raises(braid.InvalidArgumentError, match=r"input 'x' is float64\[1,16\], expected float32"):
        model.run(np.zeros((1, 16)))
    with pytest.raises(braid.InvalidArgumentError, match=r"float32\[1,15\], expected float32\[\?,16\]"):
        model.run(np.zeros((1, 15), np.float32))
    with pytest.raises(braid.InvalidArgumentError, match=r"float32\[16\]"):
        model.run(np.zeros(16, np.float32))
    with pytest.raises(braid.UnsupportedError, match="complex64"):
        model.run(np.zeros((1, 16), np.complex64))
    with pytest.raises(braid.UnsupportedError, match="byte order"):
        model.run(np.zeros((1, 16), ">f4"))
    assert (model.run(np.ones((1, 16), np.float32)) == 1).all(), "it still runs"


def test_a_fixed_batch_is_refused_unless_it_is_opened() -> None:
    graph = relu_graph((1, 16))
    with pytest.raises(braid.InvalidArgumentError, match="input_shapes"):
        braid.load(graph).run(np.zeros((2, 16), np.float32))
    model = braid.load(graph, input_shapes={"x": (None, 16)})
    assert model.run(np.zeros((2, 16), np.float32)).shape == (2, 16)


def test_arrays_that_are_not_row_major_are_copied() -> None:
    model = braid.load(relu_graph((None, 4)))
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    assert np.array_equal(model(x.T), np.maximum(x.T, 0))
    assert np.array_equal(model(x[::2]), np.maximum(x[::2], 0))
    assert np.array_equal(model(np.asfortranarray(x)), np.maximum(x, 0))


def test_read_only_arrays_are_inputs_and_no_outputs() -> None:
    model = braid.load(relu_graph((None, 4)))
    x = np.ones((2, 4), np.float32)
    x.flags.writeable = False
    assert (model(x) == 1).all()
    with pytest.raises(braid.InvalidArgumentError, match="output 'y' is read-only"):
        model(x, out=x)


def test_outputs_go_where_they_are_told() -> None:
    model = braid.load(two_ends())
    a = np.ones((3, 4), np.float32)
    first, second = np.empty((3, 4), np.float32), np.empty((3, 4), np.float32)
    results = model.run(a, a, out=(first, second))
    assert results[0] is first and results[1] is second and (first == 2).all() and (second == 1).all()
    with pytest.raises(braid.InvalidArgumentError, match="out has 1 arrays, expected 2"):
        model.run(a, a, out=first)
    with pytest.raises(braid.InvalidArgumentError, match="not row-major"):
        model.run(a, a, out=(first, np.empty((4, 3), np.float32).T))
    with pytest.raises(braid.InvalidArgumentError, match=r"output 'sum' is float64"):
        model.run(a, a, out=(np.empty((3, 4)), second))


@pytest.mark.parametrize("size", [512, 1 << 20])
def test_nothing_is_copied(recording: Any, size: int) -> None:
    """The addresses that an op sees are those of the caller's arrays."""
    make, seen = recording
    model = braid.load(make(), input_shapes={"x": (None, size)})
    x = np.ones((2, size), np.float32)
    y = model(x)
    assert seen[-1] == (x.ctypes.data, y.ctypes.data)
    z = np.empty_like(y)
    model(x, out=z)
    assert seen[-1] == (x.ctypes.data, z.ctypes.data)
    x.flags.writeable = False
    y = model(x)
    assert seen[-1] == (x.ctypes.data, y.ctypes.data)
    view = np.ones((4, size), np.float32)[1:3]
    y = model.run({"x": view})
    assert seen[-1] == (view.ctypes.data, y.ctypes.data)
    session = braid.Session(sized(make(), (2, size)))
    y = session.run(x)
    assert seen[-1] == (x.ctypes.data, y.ctypes.data)
    buffer = braid.Buffer.of(z)
    execution = braid.Plan(braid.machine(), sized(make(), (2, size))).execution()
    execution.run(buffer, out=y)
    assert seen[-1] == (z.ctypes.data, y.ctypes.data)


def sized(graph: braid.Graph, shape: tuple[int, ...]) -> braid.Graph:
    graph.set_input_shape("x", shape)
    return graph


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"])
def test_types(dtype: str) -> None:
    graph = braid.Graph("identity")
    x = graph.input("x", dtype, (None, 5))
    graph.output(graph.add_node("Concat", [x, x], axis=1))
    array = np.arange(10).reshape(2, 5).astype(dtype)
    result = braid.load(graph).run(array)
    assert result.dtype == array.dtype and np.array_equal(result, np.concatenate([array, array], 1))


def test_scalars_and_empty_arrays() -> None:
    graph = braid.Graph("scalar")
    graph.output(graph.add_node("Neg", graph.input("x", "float32", ())))
    assert braid.load(graph).run(np.float32(3)) == -3
    assert braid.load(graph).run(3.0) == -3
    assert braid.load(relu_graph((None, 4))).run(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_few_plans_are_kept() -> None:
    model = braid.load(relu_graph((None, 4)), max_plans=3)
    for batch in list(range(1, 20)) + [1]:
        assert model(np.ones((batch, 4), np.float32)).shape == (batch, 4)
    assert len(model._plans) == 3


def test_threads_run_one_model_at_once() -> None:
    graph = perceptron()
    model = braid.load(graph)
    inputs = [np.random.default_rng(seed).normal(size=(seed % 5 + 1, 8)).astype(np.float32) for seed in range(8)]
    expected = [forward(graph, x) for x in inputs]
    problems: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for turn in range(300):
                at = (index + turn) % len(inputs)
                assert np.allclose(model(inputs[at]), expected[at], atol=1e-5)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_model_is_closed_while_threads_run_it() -> None:
    model = braid.load(perceptron(hidden=256))
    x = np.ones((64, 8), np.float32)
    ends: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                model(x)
        except braid.ClosedError as problem:
            ends.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join(30)
    assert len(ends) == 4
    assert model.closed and repr(model) == "<braid.Model, closed>"


def test_other_threads_go_on_while_a_model_runs(recording: Any) -> None:
    """A run holds the interpreter's lock for its ends only."""
    graph = braid.Graph("long")
    x = graph.input("x", "float32", (1200, 1200))
    y = x
    for _ in range(6):
        y = graph.add_node("MatMul", [y, x])
    graph.output(y)
    model, counted, running = braid.load(graph, threads=1), [0], threading.Event()

    def count() -> None:
        while not running.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    model(np.zeros((1200, 1200), np.float32))
    during = counted[0] - before
    running.set()
    thread.join()
    assert during > 1000


def graph_of_outputs_that_are_no_results() -> tuple[braid.Graph, dict[str, Any]]:
    """With the outputs that it gives for numbers from -4 to 3."""
    x = np.arange(-4, 4, dtype=np.float32)
    graph = braid.Graph()
    value = graph.input("x", "float32", (8,))
    made = graph.add_node("Relu", value)
    graph.output(value)
    graph.output(made, "y")
    graph.output(graph.value("y"), "again")
    graph.output(value, "same")
    graph.output(graph.constant([1.0, 2.0], "k"), "fixed")
    return graph, {"x": x, "y": x.clip(0), "again": x.clip(0), "same": x, "fixed": np.float32([1, 2])}


def test_outputs_that_are_no_results_keep_their_names(tmp_path: Path) -> None:
    graph, expected = graph_of_outputs_that_are_no_results()
    graph.save_onnx(tmp_path / "model.onnx")
    for model in (braid.load(graph), braid.load(tmp_path / "model.onnx")):
        assert [info.name for info in model.inputs] == ["x"]
        assert [info.name for info in model.outputs] == list(expected)
        for result, wanted in zip(model(expected["x"]), expected.values()):
            assert result.tolist() == wanted.tolist()


def test_onnxruntime_runs_outputs_that_are_no_results(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    graph, expected = graph_of_outputs_that_are_no_results()
    graph.save_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [end.name for end in session.get_outputs()] == list(expected)
    for result, wanted in zip(session.run(None, {"x": expected["x"]}), expected.values()):
        assert result.tolist() == wanted.tolist()


def test_models_from_memory_and_from_files(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    perceptron().save_onnx(path)
    x = np.ones((2, 8), np.float32)
    first = braid.load(path)(x)
    assert np.array_equal(first, braid.load(path.read_bytes())(x))
    assert np.array_equal(first, braid.load(str(path))(x))
    with pytest.raises(braid.InvalidFileError, match="model"):
        braid.load(path.read_bytes()[:-20])
    with pytest.raises(braid.Error, match="nowhere.onnx"):
        braid.load(tmp_path / "nowhere.onnx")
    with pytest.raises(braid.InvalidArgumentError, match="'onnx' or 'darknet'"):
        braid.load(b"", format="other")


def test_onnxruntime_gives_the_same(data_folder: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = data_folder / "models/resnet20.onnx"
    if not path.exists():
        pytest.skip("the model is not there")
    x = np.random.default_rng(3).random((4, 3, 32, 32), np.float32)
    expected = onnxruntime.InferenceSession(str(path)).run(None, {"image": x})[0]
    assert np.allclose(braid.load(path)(x), expected, atol=1e-4)


def test_plans_say_what_runs_where(tmp_path: Path) -> None:
    graph = perceptron()
    model = braid.load(graph)
    assert {line.device for line in model.lines()} == {"cpu"} and all(line.kernel for line in model.lines())
    machine = braid.machine()
    sized(graph, (4, 8))
    plan = braid.Plan(machine, graph, explain=True)
    offers = plan.offers(0)
    assert any(offer.chosen for offer in offers) and len(offers) > 1
    assert "fc1" in plan.explain() and plan.explain(json=True).startswith("{")
    plan.save(graph, tmp_path / "plan")
    loaded = braid.Plan.load(machine, graph, tmp_path / "plan")
    assert plan.compare(loaded) == "" and "fc1" in braid.plan_file_text(tmp_path / "plan")
    assert braid.Plan.decode(machine, graph, plan.encode(graph)).lines() == loaded.lines()
    x = np.ones((4, 8), np.float32)
    weights = braid.Weights(machine)
    assert np.array_equal(loaded.execution(weights).run(x), plan.execution(weights).run(x))
    other = perceptron(hidden=17)
    sized(other, (4, 8))
    with pytest.raises(braid.UnsupportedError):
        braid.Plan.load(machine, other, tmp_path / "plan")


def test_executions_are_in_flight_together() -> None:
    graph = sized(perceptron(), (16, 8))
    machine = braid.machine()
    weights, plan = braid.Weights(machine), braid.Plan(machine, graph)
    runs = [plan.execution(weights) for _ in range(4)]
    inputs = [np.full((16, 8), index, np.float32) for index in range(4)]
    for run, x in zip(runs, inputs):
        run.submit(x)
    for run, x in zip(runs, inputs):
        assert np.allclose(run.wait(), forward(graph, x), atol=1e-4)
    with pytest.raises(braid.InvalidArgumentError, match="nothing was submitted"):
        plan.execution(weights).wait()


def test_buffers_are_bound_and_go_from_run_to_run() -> None:
    graph = sized(relu_graph((None, 4)), (2, 4))
    machine = braid.machine()
    plan = braid.Plan(machine, graph, device_io=True)
    source, middle = braid.Buffer((2, 4), machine=machine), braid.Buffer((2, 4), machine=machine)
    source.write(np.array([[-1, 2, -3, 4]] * 2, np.float32))
    run = plan.execution()
    run.bind_input(0, source)
    run.bind_output(0, middle)
    assert run.run() is middle
    assert middle.numpy().tolist() == [[0, 2, 0, 4]] * 2
    run.bind_output(0, None)
    assert run.run().tolist() == [[0, 2, 0, 4]] * 2


def test_only_buffers_are_bound_to_inputs_and_outputs_by_their_number() -> None:
    run = braid.Plan(braid.machine(), sized(relu_graph((None, 4)), (2, 4))).execution()
    array = np.zeros((2, 4), np.float32)
    for bind in (run.bind_input, run.bind_output):
        with pytest.raises(braid.InvalidArgumentError, match="a ndarray cannot be bound, expected a Buffer"):
            bind(0, array)
        for index in ("x", 0.5, None):
            with pytest.raises(braid.InvalidArgumentError, match=f"argument 2 of braid_execution_bind_.* is {index!r}, "
                                                                 "expected a whole number from 0"):
                bind(index, braid.Buffer.of(array))
        bind(np.int64(0), braid.Buffer.of(array))
        bind(0, None)


def test_an_array_that_overlaps_a_bound_buffer_is_refused() -> None:
    machine = braid.machine()
    plan = braid.Plan(machine, sized(relu_graph((None, 4)), (2, 4)))
    memory = np.array([-1, 2, -3, 4] * 3, np.float32)
    first, second = memory[:8].reshape(2, 4), memory[4:].reshape(2, 4)
    run = plan.execution()
    run.bind_input(0, braid.Buffer.of(first, machine=machine))
    with pytest.raises(braid.InvalidArgumentError, match="output 'y' overlaps input 'x' in memory"):
        run.run(out=second)
    with pytest.raises(braid.InvalidArgumentError, match="overlaps"):
        run.bind_output(0, braid.Buffer.of(second, machine=machine))
    assert run.run().tolist() == [[0, 2, 0, 4]] * 2
    run.bind_input(0, None)
    run.bind_output(0, braid.Buffer.of(second, machine=machine))
    with pytest.raises(braid.InvalidArgumentError, match="output 'y' overlaps input 'x' in memory"):
        run.run(first)
    assert run.run(first.copy()).read(np.empty((2, 4), np.float32)).tolist() == [[0, 2, 0, 4]] * 2


@pytest.mark.parametrize("pieces", [2, 3, 7])
def test_a_model_that_does_not_take_a_batch_of_one_is_loaded(pieces: int) -> None:
    graph = braid.Graph("pairs")
    graph.output(graph.add_node("Reshape", [graph.input("x", "float32", (None, 5)), graph.constant([-1, pieces * 5])]),
                 "y")
    model = braid.load(graph)
    x = np.arange(2 * pieces * 5, dtype=np.float32).reshape(-1, 5)
    assert model(x).tolist() == x.reshape(2, -1).tolist()
    with pytest.raises(braid.Error, match="Reshape"):
        model(x[:1])


def test_a_model_that_takes_no_batch_is_refused_with_what_is_wrong_at_one() -> None:
    graph = braid.Graph("never")
    graph.output(graph.add_node("Reshape", [graph.input("x", "float32", (None, 5)), graph.constant([-1, 11 * 13])]))
    with pytest.raises(braid.Error, match="Reshape"):
        braid.load(graph)


def test_sessions_keep_state_from_run_to_run() -> None:
    """Plain gradient descent, built by hand, does what NumPy does."""
    graph = braid.Graph("descent")
    x, target = graph.input("x", "float32", (16, 4)), graph.input("target", "float32", (16, 1))
    start = np.random.default_rng(1).normal(size=(4, 1)).astype(np.float32)
    w = graph.parameter(start, "w")
    difference = graph.add_node("Sub", [graph.add_node("MatMul", [x, w]), target])
    loss = graph.add_node("ReduceMean", graph.add_node("Mul", [difference, difference]), keepdims=0)
    graph.output(loss, "loss")
    (gradient,) = graph.gradients(graph.value("loss"), [graph.value("w")])
    assert gradient is not None
    step = graph.add_node("Mul", [gradient, graph.constant(0.1)])
    graph.update_state(graph.value("w"), graph.add_node("Sub", [graph.value("w"), step]))
    session = braid.Session(graph, training=True)
    random = np.random.default_rng(2)
    xs, wanted = random.normal(size=(16, 4)).astype(np.float32), random.normal(size=(16, 1)).astype(np.float32)
    known = start.copy()
    for _ in range(20):
        error = xs @ known - wanted
        assert np.isclose(session.run(xs, wanted), (error ** 2).mean(), rtol=1e-4)
        known -= 0.1 * 2 * xs.T @ error / 16
    assert np.allclose(session.read("w"), known, atol=1e-4)
    session.write("w", start)
    assert np.array_equal(session.read("w"), start)
    assert session.stats().nodes == len(session.lines())
    with pytest.raises(braid.NotFoundError, match="'v'.*'w'"):
        session.read("v")
    with pytest.raises(braid.Error):
        session.write("w", np.zeros((3, 1), np.float32))


def test_graphs_are_looked_at() -> None:
    graph = perceptron()
    assert [node.op for node in graph.nodes()] == ["Gemm", "Relu", "Gemm"]
    assert graph.nodes()[0].inputs == ("x", "w1", "b1")
    assert graph.value("w1").kind == "parameter" and graph.value("w1").shape == (8, 16)
    assert graph.value("x").dtype == "float32" and graph.outputs[0].name == "scores"
    assert [node.macs for node in graph.nodes()] == [0, 0, 0], "the batch is not known"
    graph.resolve()
    assert sum(node.macs for node in graph.nodes()) == 8 * 16 + 16 * 3
    with pytest.raises(braid.InvalidArgumentError, match="no value 'other'"):
        graph.value("other")
    with pytest.raises(braid.NotFoundError, match="Nothing"):
        graph.add_node("Nothing", graph.value("x"))
    other = perceptron()
    with pytest.raises(braid.InvalidGraphError, match="wrong"):
        other.add_node("Relu", other.value("x"), wrong=1)
    with pytest.raises(braid.InvalidArgumentError, match="of another graph"):
        graph.add_node("Relu", other.value("x"))


def test_a_run_in_flight_ends_with_its_execution() -> None:
    """Nothing writes to arrays that were freed."""
    graph = braid.Graph("long")
    x = graph.input("x", "float32", (400, 400))
    y = x
    for _ in range(10):
        y = graph.add_node("MatMul", [y, x])
    graph.output(y)
    plan = braid.Plan(braid.machine(), graph)
    for close in (False, True) * 5:
        execution = plan.execution()
        execution.submit(np.zeros((400, 400), np.float32))
        if close:
            execution.close()
        del execution
        np.ones((400, 400), np.float32)
    cancelled = plan.execution()
    cancelled.submit(np.zeros((400, 400), np.float32))
    cancelled.cancel()
    try:
        cancelled.wait()
    except braid.CancelledError as error:
        assert str(error)


@pytest.mark.long
def test_an_opencl_device_gives_the_same() -> None:
    if "opencl0" not in [info.name for info in braid.devices()]:
        pytest.skip("there is no OpenCL device")
    graph = perceptron()
    model = braid.load(graph, "opencl0 cpu")
    for batch in (1, 5):
        x = np.random.default_rng(batch).normal(size=(batch, 8)).astype(np.float32)
        assert np.allclose(model(x), forward(graph, x), atol=1e-4)
    assert "opencl0" in {line.device for line in model.lines()}
    machine = model.machine
    x = np.arange(-8, 8, dtype=np.float32)
    buffer = braid.Buffer((16,), device="opencl0", machine=machine)
    buffer.write(x)
    y = machine.op("Relu", buffer, device="opencl0")
    assert np.array_equal(y.numpy(), np.maximum(x, 0))


def test_no_input_is_not_the_last_number() -> None:
    model = braid.load(relu_graph(()))
    assert model(np.array(3, np.float32)) == 3
    with pytest.raises(braid.InvalidArgumentError, match="0 inputs are given, expected 1"):
        model()


def test_outputs_have_memory_of_their_own() -> None:
    graph = braid.Graph("transpose")
    x = graph.input("x", "float32", (8, 8))
    graph.output(graph.add_node("Transpose", x, perm=[1, 0]), "y")
    graph.output(graph.add_node("Neg", x), "z")
    memory = np.arange(256, dtype=np.float32)
    given, other, third = memory[:64].reshape(8, 8), memory[64:128].reshape(8, 8), memory[128:192].reshape(8, 8)
    before = memory.copy()
    model = braid.load(graph)
    session = braid.Session(graph)
    execution = braid.Plan(braid.machine("cpu"), graph).execution()
    for run in (model.run, session.run, execution.run):
        with pytest.raises(braid.InvalidArgumentError, match="output 'y' overlaps input 'x'"):
            run(given, out=(given, other))
        with pytest.raises(braid.InvalidArgumentError, match="output 'z' overlaps output 'y'"):
            run(given, out=(other, memory[100:164].reshape(8, 8)))
        assert np.array_equal(memory, before)
        run(given, out=(other, third))  # neighbours are not in each other
        assert np.array_equal(other, given.T) and np.array_equal(third, -given)
        memory[:] = before
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(given)
    with pytest.raises(braid.InvalidArgumentError, match="overlaps input 'x'"):
        model(tensor, out=(tensor, torch.from_numpy(other)))


def test_lists_are_not_cut_off() -> None:
    model = braid.load(relu_graph((2,), "int32"))
    assert model([1, -2]).tolist() == [1, 0]
    for numbers in ([1.7, 2.0], [1, 2**31], [2**70, 1]):
        with pytest.raises(braid.Error):
            model(numbers)

    class Picture:
        """Has a type of its own, as one of Pillow."""

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.array([1, 2], np.uint8 if dtype is None else dtype)

    with pytest.raises(braid.InvalidArgumentError, match="input 'x' is uint8"):
        model(Picture())
    graph = braid.Graph("constants")
    with pytest.raises(braid.InvalidArgumentError, match="numbers that int32 does not have"):
        graph.constant([1, 2.7], dtype="int32")
    with pytest.raises(braid.InvalidArgumentError, match="is float64, expected float32"):
        graph.constant(np.ones(2), dtype="float32")


def test_numbers_are_not_cut_off() -> None:
    """What has more bits than the library's types is refused, also where ctypes would take the lower ones."""
    graph, x = braid.Graph("wide"), np.ones((2, 3), np.float32)
    for shape in ((2**64 + 3,), (2.7,)):
        with pytest.raises(braid.InvalidArgumentError, match="a shape is"):
            graph.input("x", "float32", shape)  # type: ignore[arg-type]
    with pytest.raises(braid.InvalidArgumentError, match="64 bits"):
        relu_graph().set_input_shape("x", (2**64 + 2, 16))
    with pytest.raises(braid.InvalidArgumentError, match="attribute 'axis'"):
        braid.op("Softmax", x, axis=2**64 + 1)
    with pytest.raises(braid.InvalidArgumentError, match="attribute 'axis'"):
        graph.add_node("Softmax", graph.input("y", "float32", (2, 3)), axis=2**64 + 1)
    with pytest.raises(braid.InvalidArgumentError, match="samples is"):
        braid.Dataset.from_function(lambda index: (x, 0), 2**64 + 5, (1, 2, 3), classes=1)
    for name in ("threads", "batch"):
        with pytest.raises(braid.InvalidArgumentError, match=f"{name} is"):
            braid.train(relu_graph((None, 3)), (x, np.zeros(2, np.int64)), **{name: 2**64 + 1})
    with pytest.raises(braid.InvalidArgumentError, match="input -1 is to be constant"):
        braid.op("Relu", x, constants=[-1])


def test_attributes_are_numbers_of_numpy_too() -> None:
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    assert np.allclose(braid.op("LeakyRelu", x, alpha=np.float32(0.5)), np.where(x < 0, x / 2, x))
    assert np.array_equal(braid.op("Transpose", x, perm=[np.int64(1), np.int64(0)]), x.T)
    graph = braid.Graph("numbers")
    graph.output(graph.add_node("Transpose", graph.input("x", "float32", (2, 3)), perm=list(np.array([1, 0]))))
    assert np.array_equal(braid.load(graph)(x), x.T)


def test_lists_are_no_outputs() -> None:
    model = braid.load(relu_graph((2,), "float64"))
    with pytest.raises(braid.InvalidArgumentError, match="output 'y' is a list, expected an array to write to"):
        model(np.ones(2), out=[[0.0, 0.0]])
