"""Mistakes and interruptions are told at their place, in the caller's own exception, and no number changes silently."""

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest
from conftest import TREE, clusters, perceptron, relu_graph


def failing(problem: BaseException) -> braid.Model:
    ops = braid.CustomOps()

    @ops.add("test.Fail")
    def fail(attributes: braid.Attributes, inputs: Any, outputs: Any) -> None:
        raise problem

    graph = ops.use(braid.Graph())
    graph.output(graph.add_node("test.Fail", graph.input("x", "float32", (4,))))
    return braid.load(graph)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("problem, sentence", [
    (FileNotFoundError("no file \udcff.bin"), r"FileNotFoundError: no file \\udcff.bin"),
    (Silent(), "Silent: .*no text"),
    (braid.UnsupportedError(), "not supported")])
def test_any_exception_of_a_custom_op_is_the_cause(problem: Exception, sentence: str, capfd: Any) -> None:
    with pytest.raises(braid.Error, match=sentence) as caught:
        failing(problem)(np.ones(4, np.float32))
    assert caught.value.__cause__ is problem
    assert "ignored" not in capfd.readouterr().err
    with pytest.raises(braid.Error) as caught:
        braid.load_graph("/nowhere.onnx")
    assert caught.value.__cause__ is None


def test_control_c_in_a_custom_op_is_no_error() -> None:
    with pytest.raises(KeyboardInterrupt):
        failing(KeyboardInterrupt())(np.ones(4, np.float32))


def test_control_c_after_the_last_batch_is_raised(monkeypatch: Any) -> None:
    train = sys.modules["braid.train"]

    made = train._test_result

    def interrupted(result: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return made(result)

    monkeypatch.setattr(train, "_test_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        braid.evaluate(perceptron(), clusters())


def test_a_sample_that_is_read_ahead_fails_in_its_batch() -> None:
    def read(index: int) -> tuple[Any, int]:
        if index == 33:
            raise RuntimeError("sample 33 is bad")
        return np.zeros(8, np.float32), 0

    data = braid.Dataset.from_function(read, 60, (1, 1, 8), classes=3)
    loader = data.loader(10, threads=2, depth=4)
    time.sleep(0.5)  # it has read ahead
    assert data[3][1] == 0
    for step in range(3):
        assert loader.next().step == step
    with pytest.raises(RuntimeError, match="sample 33"):
        loader.next()


def test_samples_of_another_order_are_refused() -> None:
    def data(*shape: int) -> braid.Dataset:
        return braid.Dataset.from_function(lambda index: (np.zeros(shape, np.float32), 0), 5, (2, 3, 4), classes=2)

    with pytest.raises(braid.InvalidArgumentError, match=r"sample 0 has shape \(3, 4, 2\), expected \(2, 3, 4\)"):
        data(3, 4, 2)[0]
    assert data(24)[0][0].shape == data(2, 3, 4)[0][0].shape == data(1, 2, 3, 4)[0][0].shape == (2, 3, 4)


def test_numbers_do_not_change() -> None:
    graph = braid.Graph()
    graph.output(graph.add_node("Neg", graph.input("x", "int64", (2,))))
    model = braid.load(graph)
    assert model([1, 2.0]).tolist() == [-1, -2]
    for wrong in (lambda: model([1.7, 2]), lambda: model([float("nan"), 1]),
                  lambda: graph.constant([0.5], dtype="int32"),
                  lambda: graph.constant(300, dtype="uint8"), lambda: graph.constant(-1, dtype="uint8")):
        with pytest.raises(braid.InvalidArgumentError, match="has numbers that u?int.* does not have"):
            wrong()
    x, y = clusters(40)
    for name, value in (("batch", 2**64 + 20), ("seed", -1), ("warmup_steps", 2**64)):
        with pytest.raises(braid.InvalidArgumentError, match=f"{name} is {value}"):
            braid.Trainer(perceptron(), (x, y), **{"batch": 20, name: value})


def test_numbers_that_the_library_has_no_room_for_are_refused() -> None:
    """ctypes would cut them off: 2**32 + 1 threads would be one."""
    data = braid.Dataset.from_arrays(*clusters(40))
    graph, many = perceptron(), 2**32 + 1
    plan = braid.Plan(braid.machine(), graph)
    for name, call in (
            ("threads", lambda: braid.load(graph, threads=many)), ("threads", lambda: braid.Machine(threads=many)),
            ("threads", lambda: braid.Session(graph, threads=many)),
            ("threads", lambda: braid.load(graph, threads=np.int64(many))),
            ("threads", lambda: braid.evaluate(graph, data, threads=many)),
            ("threads", lambda: braid.quantize(graph, data, threads=many)),
            ("threads", lambda: data.loader(8, threads=many)), ("seed", lambda: data.loader(8, seed=2**64)),
            ("batch", lambda: data.loader(2**64 + 8)), ("epochs", lambda: braid.train(graph, data, epochs=many**2)),
            ("samples", lambda: braid.quantize(graph, data, samples=2**64))):
        with pytest.raises(braid.InvalidArgumentError, match=f"{name} is [0-9]+, which the library's type of it"):
            call()
    for call in (lambda: plan.offers(2**64), lambda: plan.input_device(-1), lambda: braid.replace_head(graph, data, 2**64),
                 lambda: plan.execution().bind_input(2**64, None), lambda: data.loader(8, first_epoch=2**64),
                 lambda: braid.evaluate(graph, data, batch=2**64 + 8),
                 lambda: braid.load_image("none.png", 3, many, 8)):
        with pytest.raises(braid.InvalidArgumentError, match="argument [0-9] of braid_.* is -?[0-9]+, expected a number"):
            call()
    with pytest.raises(braid.InvalidArgumentError, match="batch of 1099511627776, 1 to 2147483647 are expected"):
        data.loader(2**40)
    x = np.zeros((4, 3), np.float32)
    other = relu_graph()
    for call in (lambda: braid.op("Split", x, outputs=2**33), lambda: braid.op("Split", x, outputs=-1),
                 lambda: other.add_node("Split", [other.value("x")], outputs=2**33)):
        with pytest.raises(braid.InvalidArgumentError, match="outputs are asked for, expected at most 65536"):
            call()


def test_numpys_numbers_are_attributes() -> None:
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    assert np.allclose(braid.op("Softmax", x, axis=np.int64(0)).sum(0), 1, atol=1e-6)
    assert np.allclose(braid.op("LeakyRelu", x, alpha=np.float32(0.5)), np.where(x < 0, x / 2, x))
    graph = braid.Graph()
    value = graph.add_node("Softmax", graph.input("x", "float32", (3, 4)), axis=np.int32(0))
    graph.output(graph.add_node("Transpose", value, perm=list(np.arange(2)[::-1])))
    assert np.allclose(braid.load(graph)(x).sum(1), 1, atol=1e-6)


def test_names_end_where_python_ends_them(tmp_path: Path) -> None:
    graph = relu_graph()
    for wrong in (lambda: graph.save_onnx(f"{tmp_path}/a\0.onnx"), lambda: braid.load_graph(f"{tmp_path}/a\0b"),
                  lambda: braid.Machine("cpu\0opencl9"), lambda: braid.Dataset("builtin:glyphs\0"),
                  lambda: braid.TrainOptions(trace="a\0b") and braid.Trainer(perceptron(), clusters(), trace="a\0b"),
                  lambda: graph.value("x\0")):
        with pytest.raises(braid.InvalidArgumentError, match="contains a zero"):
            wrong()
    assert not list(tmp_path.iterdir())


def test_infinity_is_no_limit_of_time() -> None:
    graph = relu_graph((2, 16))
    x = np.ones((2, 16), np.float32)
    assert braid.Session(graph, timeout=float("inf")).run(x).sum() == 32
    execution = braid.Plan(braid.machine(), graph).execution()
    for timeout in (float("inf"), 1e11):
        execution.submit(x)
        assert execution.wait(timeout).sum() == 32


def test_what_is_no_time_is_no_limit() -> None:
    graph = relu_graph((2, 16))
    x = np.ones((2, 16), np.float32)
    execution = braid.Plan(braid.machine(), graph).execution()
    execution.submit(x)
    for wrong in (float("nan"), -1, -0.5, float("-inf"), np.float32("nan"), "1", 1j):
        with pytest.raises(braid.InvalidArgumentError, match="timeout is .*, expected seconds, or None for no limit"):
            execution.wait(wrong)
        with pytest.raises(braid.InvalidArgumentError, match="timeout is .*, expected seconds above 0, or None"):
            braid.Session(graph, timeout=wrong)
    with pytest.raises(braid.InvalidArgumentError, match="timeout is 0, expected seconds above 0, or None"):
        braid.Session(graph, timeout=0)
    assert execution.wait(10**400).sum() == 32
    assert braid.Session(graph, timeout=10**400).run(x).sum() == 32
    assert braid.Session(graph, timeout=np.float64(1e3)).run(x).sum() == 32


def test_a_source_archive_of_an_edited_tree_can_be_unpacked(tmp_path: Path) -> None:
    """An editable install leaves a link to the headers among the sources."""
    package = TREE / "plugins/python"
    script = f"""
import os, shutil, sys
sys.path.insert(0, {str(package)!r})
import backend
from pathlib import Path
copy = Path(sys.argv[1]) / "package"
shutil.copytree(backend.HERE, copy, ignore=shutil.ignore_patterns("__pycache__", "_lib", "_bin", "include"))
(copy / "src/braid/include").symlink_to(backend.TREE / "include")
backend.HERE = copy
print(backend.build_sdist(sys.argv[1]))
"""
    name = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True,
                          text=True).stdout.strip()
    with tarfile.open(tmp_path / name) as archive:
        assert not [entry.name for entry in archive if entry.issym() and os.path.isabs(entry.linkname)]


def test_no_option_is_left_out_silently(tmp_path: Path) -> None:
    graph = relu_graph()
    graph.save_onnx(tmp_path / "model.onnx")
    for options in ({"weights": "w"}, {"seed": 3}, {"format": "onnx"}, {"custom_ops": braid.CustomOps()}):
        with pytest.raises(braid.InvalidArgumentError, match="is a Graph"):
            braid.load(graph, **options)
    with pytest.raises(braid.InvalidArgumentError, match="format is 'darknet' and the model is a path"):
        braid.load(tmp_path / "model.onnx", format="darknet")


def test_messages_of_imports_go_to_logging(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (tree / "models/glyphs.cfg").read_text().replace("[net]", "[net]\nhue=.1", 1)
    with caplog.at_level("DEBUG", "braid"):
        braid.load_graph(text.encode(), format="darknet")
    assert any("hue" in record.getMessage() for record in caplog.records)
