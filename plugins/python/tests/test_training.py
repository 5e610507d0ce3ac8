"""Training: what is learnt, how it goes on, and how it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest
from conftest import clusters, perceptron


def weights_of(graph: braid.Graph) -> list[np.ndarray]:
    return [value.numpy() for value in sorted(graph.values(), key=lambda value: value.name)
            if value.kind in ("constant", "parameter")]


def test_arrays_are_learnt() -> None:
    x, y = clusters()
    seen: list[braid.Progress] = []
    trainer = braid.train(perceptron(), (x, y), (x, y), epochs=4, batch=20, optimizer="adam", lr=0.02,
                          on_epoch=seen.append)
    assert [now.epoch for now in seen] == [1, 2, 3, 4] and seen == trainer.history
    last = seen[-1]
    assert last.accuracy > 0.95 and last.test_accuracy is not None and last.test_accuracy > 0.95
    assert last.test is not None and last.test.confusion is not None and last.test.confusion.sum() == len(x)
    model = trainer.model()
    assert (model(x).argmax(1) == y).mean() == pytest.approx(last.test_accuracy, abs=1e-6)
    result = braid.evaluate(trainer.graph(), braid.Dataset.from_arrays(x, y))
    assert result.accuracy == pytest.approx(last.test_accuracy) and result.top(1) == pytest.approx(result.accuracy)
    assert len(result.per_class) == 3 and result.auc is not None and result.mse is None


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_halves_are_learnt_too(precision: str) -> None:
    x, y = clusters()
    options: dict[str, Any] = {"epochs": 4, "batch": 20, "optimizer": "adam", "lr": 0.02}
    whole = braid.train(perceptron(), (x, y), **options).history[-1]
    half = braid.train(perceptron(), (x, y), precision=precision, **options).history[-1]
    # the run has 28 steps: what 16 bits change, and steps that fp16 passes over, is much of it
    assert half.loss == pytest.approx(whole.loss, rel=0.4) and half.loss != whole.loss and half.accuracy > 0.95
    graph = perceptron()
    graph.precision = precision
    assert graph.precision == precision
    exact, rounded = braid.Model(perceptron())(x), braid.Model(graph)(x)
    assert rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()
    with pytest.raises(braid.InvalidArgumentError, match="float32, tf32, bf16 and fp16"):
        graph.precision = "int8"


def test_plain_descent_is_numpys() -> None:
    """One epoch of SGD without momentum in the data's order is computed by hand."""
    x, y = clusters(40)
    graph = perceptron()
    data = braid.Dataset.from_arrays(x, y)
    trainer = braid.Trainer(graph, data, epochs=1, batch=40, momentum=0, weight_decay=0, lr=0.1, schedule="constant",
                            optimizer="sgd")
    trainer.run()
    w1, b1, w2, b2 = (graph.value(name).numpy().astype(np.float64) for name in ("w1", "b1", "w2", "b2"))
    hidden = np.maximum(x @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(40), y] -= 1
    shares /= 40
    back = (shares @ w2.T) * (hidden > 0)
    expected = {"w1": w1 - 0.1 * x.T @ back, "b1": b1 - 0.1 * back.sum(0), "w2": w2 - 0.1 * hidden.T @ shares,
                "b2": b2 - 0.1 * shares.sum(0)}
    trained = trainer.graph()
    for name, value in expected.items():
        assert np.allclose(trained.value(name).numpy(), value, atol=1e-5), name


def test_a_torn_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    x, y = clusters()
    data = braid.Dataset.from_arrays(x, y)
    options = braid.TrainOptions(epochs=4, batch=30, learning_rate=0.05, seed=7, checkpoint_steps=5)
    whole = braid.train(perceptron(), data, options=options).graph()
    trainer = braid.Trainer(perceptron(), data, options=options, out=tmp_path / "run", checkpoint_steps=5)
    trainer.run(on_step=lambda now: now.epoch < 2 or now.step < 3)
    assert trainer.stopped
    trainer.close()
    again = braid.Trainer(perceptron(), data, options=options, out=tmp_path / "run", resume=True)
    assert again.resumed
    again.run()
    for one, other in zip(weights_of(whole), weights_of(again.graph())):
        assert np.array_equal(one, other)
    assert (tmp_path / "run/model.onnx").exists()
    with pytest.raises(braid.Error, match="run"):
        braid.Trainer(perceptron(), data, options=options, out=tmp_path / "run", resume=True)


def test_an_exception_of_a_callback_ends_it_and_is_raised(tmp_path: Path) -> None:
    x, y = clusters()
    trainer = braid.Trainer(perceptron(), (x, y), epochs=3, batch=20, out=tmp_path / "run")

    def fail(now: braid.Progress) -> None:
        if now.step == 4:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.run(on_step=fail)
    trainer.close()
    assert braid.Trainer(perceptron(), (x, y), epochs=3, batch=20, out=tmp_path / "run", resume=True).resumed


def test_a_callback_may_not_use_the_trainer() -> None:
    x, y = clusters()
    trainer = braid.Trainer(perceptron(), (x, y), epochs=1, batch=20)
    with pytest.raises(braid.BusyError, match="in use"):
        trainer.run(on_step=lambda now: trainer.graph())


INTERRUPTED = """
import sys, braid, numpy as np
sys.path.insert(0, {tests!r})
from conftest import clusters, perceptron
x, y = clusters(2000)
trainer = braid.Trainer(perceptron(), (x, y), epochs=100000, batch=20, out={out!r}, resume=True)
print("resumed" if trainer.resumed else "new", flush=True)
try:
    trainer.run(on_step=lambda now: print("step", flush=True) if now.step == 10 else None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(5)
"""


def test_control_c_leaves_a_checkpoint(tmp_path: Path) -> None:
    script = INTERRUPTED.format(tests=str(Path(__file__).parent), out=str(tmp_path / "run"))
    for turn in ("new", "resumed"):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == turn
        assert process.stdout.readline().strip() == "step"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
        assert process.returncode == 5 and rest.strip().endswith("interrupted"), errors
        assert "Traceback" not in errors and "ignored" not in errors, errors
        assert any((tmp_path / "run").rglob("*checkpoint*")) or any((tmp_path / "run").iterdir())


def test_samples_of_python() -> None:
    x, y = clusters(60)
    graph = perceptron()
    for data in (braid.Dataset.from_samples([(x[index], int(y[index])) for index in range(60)]),
                 braid.Dataset.from_samples((x[index], int(y[index])) for index in range(60)),
                 braid.Dataset.from_function(lambda index: (x[index], y[index]), 60, (1, 1, 8), classes=3)):
        assert len(data) == 60 and data.info.classes == 3
        pixels, label = data[7]
        assert np.allclose(pixels.ravel(), x[7]) and label == y[7]
        assert braid.train(graph, data, epochs=1, batch=20).history[0].loss > 0
    with pytest.raises(IndexError):
        data[60]
    assert data[-1][1] == y[59]


def test_labels_and_numbers() -> None:
    x, _ = clusters(100)
    labels = x[:, :3] > 0
    trainer = braid.train(perceptron(), (x, labels), (x, labels), epochs=3, batch=20, optimizer="adam", lr=0.05)
    assert trainer.history[-1].accuracy > 0.7
    numbers = x[:, :3] * 2
    trainer = braid.train(perceptron(), (x, numbers), (x, numbers), epochs=5, batch=20, optimizer="adam", lr=0.05)
    test = trainer.history[-1].test
    assert test is not None and test.mse is not None and test.r2 is not None and len(test.per_number) == 3
    assert test.accuracy is None


def test_what_a_data_set_raises_is_raised_where_it_is_read() -> None:
    def read(index: int) -> tuple[Any, int]:
        if index == 33:
            raise RuntimeError("sample 33 is bad")
        return np.zeros(8, np.float32), 0

    data = braid.Dataset.from_function(read, 60, (1, 1, 8), classes=3)
    with pytest.raises(RuntimeError, match="sample 33"):
        braid.train(perceptron(), data, epochs=1, batch=20)
    with pytest.raises(RuntimeError, match="sample 33"):
        data[33]
    assert data[3][1] == 0
    wrong = braid.Dataset.from_function(lambda index: (np.zeros(9), 0), 60, (1, 1, 8), classes=3)
    with pytest.raises(braid.InvalidArgumentError, match=r"sample 5 has shape \(9,\)"):
        wrong[5]
    beyond = braid.Dataset.from_function(lambda index: (np.zeros(8), 3), 60, (1, 1, 8), classes=3)
    with pytest.raises(braid.InvalidArgumentError, match="class 3 of 3"):
        beyond[0]


def test_descriptions() -> None:
    data = braid.Dataset("builtin:glyphs,limit=20")
    assert (data.info.classes, data.info.channels, len(data)) == (10, 3, 20)
    assert data.picture(0).shape == (32, 32, 3) and data.picture(0).dtype == np.uint8
    with pytest.raises(braid.InvalidArgumentError, match="colour"):
        braid.Dataset("builtin:glyphs,colour=1")
    batches = list(data.loader(8, shuffle=True, seed=3, keep_last=True))
    assert [batch.count for batch in batches] == [8, 8, 4] and len(data.loader(8)) == 2
    assert sorted(np.concatenate([batch.indices[:batch.count] for batch in batches])) == list(range(20))
    first = batches[0]
    assert np.array_equal(first.images[0], data[first.indices[0]][0]) and first.targets[0] == data[first.indices[0]][1]


def test_real_pictures(data_folder: Path) -> None:
    data = braid.Dataset(f"cifar10:{data_folder / 'cifar10'}", "test")
    assert data.info.classes == 10 and "cat" in data.info.class_names
    assert braid.Dataset(f"idx:{data_folder / 'mnist'}", "test").info.height == 28


def test_options_are_checked() -> None:
    x, y = clusters(40)
    for change, sentence in (({"optimizer": "adamx"}, "optimizer is 'adamx', expected one of sgd, adam, adamw, wage"),
                             ({"learningrate": 1}, "no option 'learningrate'"), ({"epochs": "3"}, "epochs is '3'"),
                             ({"batch": 0}, "batch"), ({"schedule": "on"}, "one-cycle")):
        with pytest.raises(braid.InvalidArgumentError, match=sentence):
            braid.Trainer(perceptron(), (x, y), **change)
    with pytest.raises(braid.NotFoundError, match="tpu"):
        braid.Trainer(perceptron(), (x, y), batch=20, device="tpu")
    frozen = braid.ParameterGroup("w1", rate=0)
    graph = perceptron()
    trainer = braid.train(graph, (x, y), epochs=1, batch=20, groups=[frozen])
    assert np.array_equal(trainer.graph().value("w1").numpy(), graph.value("w1").numpy())
    assert not np.array_equal(trainer.graph().value("w2").numpy(), graph.value("w2").numpy())


def test_integers_and_their_ledger(tree: Path, tmp_path: Path) -> None:
    graph = braid.load_graph(tree / "models/glyphs.cfg")
    data = braid.Dataset("builtin:glyphs,limit=200")
    ledger = tmp_path / "ledger"
    trainer = braid.train(graph, data, precision="int8", epochs=1, batch=50, lr=1.0, ledger=ledger,
                          out=tmp_path / "run")
    assert trainer.history[0].loss > 0
    trainer.close()
    with braid.Ledger(ledger) as opened:
        assert opened.info.steps == 4 and len(opened.info.chain) == 64 and not opened.info.torn
        result = opened.audit(graph, data, last=2)
        assert result.agrees and result.checked == 2
        with pytest.raises(braid.CancelledError):
            opened.audit(graph, data, progress=lambda done, total: False)
    text = ledger.read_bytes()
    ledger.write_bytes(text.replace(b"1", b"2", 1) if b"1" in text else text)
    with pytest.raises(braid.InvalidFileError):
        braid.Ledger(ledger)


def test_quantization(tree: Path, tmp_path: Path) -> None:
    x, y = clusters()
    trainer = braid.train(perceptron(), (x, y), epochs=3, batch=20, optimizer="adam", lr=0.02)
    phases: set[str] = set()
    result = braid.quantize(trainer.graph(), (x, y), progress=lambda phase, done, total: phases.add(phase))
    assert result.after.accuracy is not None and result.after.accuracy > 0.9 and "calibrating" in phases
    assert [layer.name for layer in result.layers if layer.why is None]
    result.graph.save_onnx(tmp_path / "int8.onnx")
    assert (braid.load(tmp_path / "int8.onnx")(x).argmax(1) == y).mean() > 0.9
    by_arrays = braid.quantize(trainer.graph(), [x], layers=-1)
    assert by_arrays.after.agreement is not None and by_arrays.after.accuracy is None
    with pytest.raises(braid.InvalidArgumentError, match="calibration is 'most'"):
        braid.quantize(trainer.graph(), [x], calibration="most")


def test_a_learning_rate_is_found(tmp_path: Path) -> None:
    x, y = clusters()
    search = braid.find_rate(perceptron(), (x, y), batch=20, steps=30, directory=tmp_path / "rates")
    assert len(search.points) <= 30 and search.points[0].rate < search.points[-1].rate
    assert (tmp_path / "rates/learning-rate.csv").exists()


def test_heads_are_replaced(tree: Path) -> None:
    graph = braid.load_graph(tree / "models/glyphs.cfg")
    x = np.zeros((10, 3, 32, 32), np.float32)
    data = braid.Dataset.from_arrays(x, np.arange(10) % 4)
    model = braid.load(braid.replace_head(graph, data), input_shapes={graph.inputs[0].name: (None, 3, 32, 32)})
    assert model(x).shape[1] == 4


def test_filters_are_whitened(tree: Path) -> None:
    data = braid.Dataset("builtin:glyphs,limit=64,augment=alternating-flip,views=flip")
    assert data.info.views
    graph = braid.load_graph(tree / "models/glyphs.cfg")
    whitened = braid.whiten_filters(graph, data)
    seen: list[braid.Progress] = []
    options = braid.TrainOptions(batch=16, steps=6, schedule="linear", lookahead_steps=2, lookahead_share=1,
                                 lookahead_end=0.5, groups=[braid.ParameterGroup("0_*.weight", rate=0)])
    with braid.Trainer(whitened, data, data, options=options) as trainer:
        trainer.run(on_epoch=seen.append)
    assert [now.steps for now in seen] == [4, 2] and 0 < seen[0].seconds < seen[1].seconds


def test_forecasts(tree: Path, tmp_path: Path) -> None:
    names = {policy.name for policy in braid.policies()}
    assert "hybrid-energy" in names
    platform = sorted((tree / "platforms").glob("*.yaml"))[0]
    machine = braid.ModelledMachine(platform)
    assert machine.name
    step = braid.training_step(tree / "models/resnet50.cfg", 8)
    forecast = machine.forecast(step, "first")
    assert forecast.summary.seconds > 0 and len(forecast.tasks()) == forecast.summary.tasks
    assert sum(device.tasks for device in forecast.devices()) >= forecast.summary.tasks
    forecast.save_html(tmp_path / "forecast.html")
    with pytest.raises(braid.NotFoundError):
        machine.forecast(step, "none")
    with pytest.raises(braid.NotFoundError):
        braid.ModelledMachine("nowhere")


def test_profiles(tmp_path: Path) -> None:
    with braid.Profile(tmp_path / "here.db", "write") as profile:
        report = profile.measure(ops="MatMul", sizes="small", devices="cpu", seconds=0.01)
        assert report.measured == report.operations >= 1
        entries = profile.entries(check_days=30)
        assert entries[0].op == "MatMul" and entries[0].seconds and entries[0].stale is None
        assert profile.devices()[0].device == "cpu"
        with pytest.raises(braid.CancelledError):
            profile.measure(ops="MatMul", sizes="medium", devices="cpu", progress=lambda *now: False)
    with pytest.raises(braid.NotFoundError):
        braid.Profile(tmp_path / "nowhere.db")


def test_training_ends_with_the_program(tmp_path: Path) -> None:
    """Threads that read samples in Python have ended when the interpreter goes."""
    script = f"""
import sys, braid, numpy as np
sys.path.insert(0, {str(Path(__file__).parent)!r})
from conftest import clusters, perceptron
trainer = braid.Trainer(perceptron(), clusters(), epochs=1, batch=20)
loader = braid.Dataset.from_arrays(*clusters()).loader(20)
loader.next()
model = braid.load(perceptron())
model(np.zeros((1, 8), np.float32))
"""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert time.monotonic() - start < 40




def test_samples_have_their_shape() -> None:
    """As many numbers in another order are other samples."""
    other = braid.Dataset.from_function(lambda index: (np.zeros((5, 4, 3), np.float32), 0), 2, (3, 5, 4), classes=1)
    with pytest.raises(braid.InvalidArgumentError, match=r"shape \(5, 4, 3\), expected \(3, 5, 4\)"):
        other[0]
    mixed = braid.Dataset.from_samples([(np.zeros((1, 4, 6), np.float32), 0), (np.zeros((1, 6, 4), np.float32), 1)])
    with pytest.raises(braid.InvalidArgumentError, match="sample 1 has shape"):
        mixed[1]
    row = braid.Dataset.from_function(lambda index: (np.zeros(6, np.float32), 0), 2, (1, 6, 1), classes=1)
    assert row[0][0].shape == (1, 6, 1)
    half = braid.Dataset.from_function(lambda index: (np.zeros((3, 5, 4)), 0.5), 2, (3, 5, 4), classes=1)
    with pytest.raises(braid.InvalidArgumentError, match="sample 0 has class 0.5 of 1"):
        half[0]


@pytest.mark.parametrize("keys", [None, "augment=flip"])
@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4), (8,)])
def test_bytes_are_divided_by_255(shape: tuple[int, ...], keys: str | None) -> None:
    if keys and len(shape) == 1:
        pytest.skip("rows have nothing to flip")
    data = braid.Dataset.from_arrays(np.full((2, *shape), 255, np.uint8), [0, 1], keys=keys)
    assert np.allclose(data[0][0], 1)
