"""Bad weather: devices that are lost or wrong, no memory, forks, objects in any order, threads: an exception with a
sentence, and nothing crashes."""

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest
from conftest import TREE, build_plugin, clusters, perceptron, relu_graph


def python(script: str, *, environment: dict[str, str] | None = None, timeout: float = 60) -> str:
    """Runs a script in a process of its own; its output. Anything but a clean end fails."""
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", head + script], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    assert "ignored" not in done.stderr, done.stderr
    return done.stdout


def test_errors_are_pythons_too() -> None:
    for kind, base in ((braid.OutOfMemoryError, MemoryError), (braid.InvalidArgumentError, ValueError),
                       (braid.NotFoundError, LookupError), (braid.FileError, OSError),
                       (braid.TimedOutError, TimeoutError), (braid.UnsupportedError, NotImplementedError)):
        assert issubclass(kind, base) and issubclass(kind, braid.Error)
    with pytest.raises(braid.Error) as caught:
        braid.load_graph("/nowhere/model.onnx")
    assert "/nowhere/model.onnx" in caught.value.detail and caught.value.detail == str(caught.value)
    assert caught.value.status in ("IO", "NOT_FOUND")


def test_wrong_devices_are_named() -> None:
    with pytest.raises(braid.NotFoundError, match="tpu7.*cpu"):
        braid.load(relu_graph(), "tpu7")
    with pytest.raises(braid.NotFoundError, match="cpu"):
        braid.Buffer((4,), device="gpu9")
    with pytest.raises(braid.InvalidArgumentError):
        braid.Machine("cpu:colour=red")
    with pytest.raises(braid.NotFoundError, match="relux"):
        braid.load(relu_graph(), place="relux=cpu")
    with pytest.raises(braid.Error, match="nowhere.so"):
        braid.Registry(plugins=["/tmp/nowhere.so"])
    with pytest.raises(braid.Error, match="nowhere.yaml"):
        braid.devices(platform="/tmp/nowhere.yaml")
    assert braid.devices()[0].name == "cpu"


def test_no_memory_is_a_memory_error(tutor: braid.Machine) -> None:
    with pytest.raises(MemoryError, match="."):
        braid.Buffer((1 << 31,), machine=tutor, device="tutor")  # the device has 1 GiB
    with pytest.raises(braid.Error):
        braid.Buffer((1 << 62,))
    buffer = braid.Buffer((1 << 10,), machine=tutor, device="tutor")
    assert buffer.device == "tutor", "it goes on"


def test_no_memory_of_the_host() -> None:
    """Under a limit of memory a model of any batch that does not fit is refused, and others still run."""
    python("""
import resource, braid, numpy as np
from conftest import relu_graph
model = braid.load(relu_graph((None, 16)))
model(np.ones((1, 16), np.float32))
session = braid.Session(relu_graph((4, 16)))
size = int(open('/proc/self/statm').read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 28), resource.RLIM_INFINITY))
try:
    braid.Buffer((1 << 27,), device=None)
    raise SystemExit('it fits')
except MemoryError as error:
    assert isinstance(error, braid.OutOfMemoryError) and str(error), error
assert model(np.ones((1, 16), np.float32)).sum() == 16
""")


LOST = """
import threading, braid, numpy as np
from conftest import perceptron, relu_graph
registry = braid.Registry(plugins=[{plugin!r}])
machine = braid.Machine({device!r}, registry=registry)
model = braid.load(relu_graph((None, 64)), machine=machine)
x = np.ones((2, 64), np.float32)
lost = 0
for turn in range(30):
    try:
        assert (model(x) == 1).all()
    except braid.DeviceLostError as error:
        assert 'pulled the plug' in str(error) or 'lost' in str(error), error
        lost += 1
assert lost, 'no run was lost'
def work():
    for turn in range(5):
        try:
            model(x)
        except braid.DeviceLostError:
            pass
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
try:
    machine.op('Relu', x)
except braid.DeviceLostError as error:
    assert str(error)
del model, machine, registry
other = braid.load(relu_graph((None, 64)))
assert (other(x) == 1).all(), 'other machines go on'
print('done')
"""


def test_a_lost_device(compiler: list[str], tmp_path: Path) -> None:
    plugin = build_plugin(compiler, TREE / "tests/plugins/metered.c", tmp_path)
    name = next(info.name for info in braid.devices(plugins=[plugin]) if info.name not in
                [known.name for known in braid.devices()])
    script = LOST.format(plugin=str(plugin), device=name)
    assert "done" in python(script, environment={"BRAID_METERED": "kernels=5"})


def test_a_run_that_takes_too_long(compiler: list[str], tmp_path: Path) -> None:
    plugin = build_plugin(compiler, TREE / "tests/plugins/metered.c", tmp_path)
    python(f"""
import braid, numpy as np, os
from conftest import relu_graph
registry = braid.Registry(plugins=[{str(plugin)!r}])
name = registry.devices()[-1].name
session = braid.Session(relu_graph((4, 16)), machine=braid.Machine(name, registry=registry), timeout=0.05)
try:
    session.run(np.ones((4, 16), np.float32))
    raise SystemExit('it was in time')
except (braid.TimedOutError, braid.DeviceLostError) as error:
    assert str(error), error
session.close()
""", environment={"BRAID_METERED": "link_us=400000"})


def test_closed_objects_say_so() -> None:
    x = np.ones((2, 16), np.float32)
    graph = relu_graph((2, 16))
    model, session, machine = braid.load(graph), braid.Session(graph), braid.Machine("cpu")
    plan, buffer, data = braid.Plan(machine, graph), braid.Buffer.of(x), braid.Dataset("builtin:glyphs,limit=3")
    execution, weights = plan.execution(), braid.Weights(machine)
    uses: list[tuple[Any, Any]] = [
        (model, lambda: model(x)), (session, lambda: session.run(x)), (graph, graph.nodes), (plan, plan.lines),
        (buffer, buffer.numpy), (data, lambda: data[0]), (execution, lambda: execution.run(x)),
        (weights, lambda: weights.nbytes), (machine, lambda: machine.op("Relu", x))]
    for thing, use in uses:
        with thing as same:
            assert same is thing
            use()
        with pytest.raises(braid.ClosedError, match=f"this {type(thing).__name__} is closed"):
            use()
        thing.close()
        assert thing.closed


def test_any_order_of_endings() -> None:
    """What something stands on may be closed before it."""
    x = np.ones((2, 16), np.float32)
    registry = braid.Registry()
    machine = braid.Machine("cpu", registry=registry)
    graph = relu_graph((2, 16))
    plan, weights = braid.Plan(machine, graph), braid.Weights(machine)
    execution = plan.execution(weights)
    view = braid.Buffer.of(x, machine=machine).view((16,))
    for thing in (registry, machine, graph, plan, weights):
        thing.close()
    del registry, machine, graph, plan, weights
    gc.collect()
    assert (execution.run(x) == 1).all() and view.numpy().sum() == 16


def test_cycles_are_collected() -> None:
    x = np.ones((2, 16), np.float32)
    for _ in range(20):
        ring: list[Any] = []
        machine = braid.Machine("cpu", registry=braid.Registry())
        model = braid.load(relu_graph((None, 16)), machine=machine)
        ring += [machine, model, ring, braid.Session(relu_graph((2, 16)), machine=machine)]
        model(x)
        del ring, machine, model
    gc.collect()


def test_the_interpreter_ends_with_objects_alive() -> None:
    for kept in ("", "import builtins; builtins.kept = [m, r, b, n, t]", "t.m = m; sys.kept = [m, r, b, n, t]",
                 "class Ring: pass\nring = Ring(); ring.ring = ring; ring.all = [m, r, b, n, t]"):
        python(f"""
import braid, numpy as np, logging
from conftest import *
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
r = braid.Registry(progress=lambda *now: None)
m = braid.load(perceptron(), machine=braid.Machine('cpu', registry=r))
b = braid.Buffer.of(np.ones(100, np.float32))
n = np.from_dlpack(b)
t = braid.Trainer(perceptron(), clusters(), epochs=1, batch=20)
t.run(on_step=lambda now: now.step < 2)
m(np.ones((1, 8), np.float32))
{kept}
""")


def memory_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.parametrize("what", ["models", "runs", "ops", "buffers", "errors", "trainings"])
def test_nothing_leaks(what: str) -> None:
    x = np.ones((4, 4096), np.float32)
    graph, model = relu_graph((None, 4096)), braid.load(relu_graph((None, 4096)))
    data, small = clusters(60), perceptron()

    def fail() -> None:
        for wrong in (lambda: model(x.astype(np.float64)), lambda: braid.op("Nothing", x),
                      lambda: braid.load(graph, "nowhere")):
            with pytest.raises(braid.Error):
                wrong()

    turns: dict[str, tuple[Any, int]] = {
        "models": (lambda: braid.load(graph)(x), 60), "runs": (lambda: model(x), 1500),
        "ops": (lambda: braid.op("Relu", x), 1500),
        "buffers": (lambda: np.from_dlpack(braid.Buffer.of(x)).sum(), 1500), "errors": (fail, 100),
        "trainings": (lambda: braid.train(small, data, epochs=1, batch=20), 15)}
    turn, count = turns[what]
    for _ in range(count):
        turn()
    gc.collect()
    before, objects = memory_kib(), len(gc.get_objects())
    for _ in range(count):
        turn()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert memory_kib() - before < 4096, "x alone is 64 KiB: 1500 of them would be 96 MiB"


FORK = """
import os, braid, numpy as np
from conftest import relu_graph
x = np.ones((2, 16), np.float32)
{before}
child = os.fork()
if child == 0:
    try:
        {inside}
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
        os._exit(1)
    os._exit(0)
_, status = os.waitpid(child, 0)
print('status', os.waitstatus_to_exitcode(status))
"""


def test_a_fork_is_told() -> None:
    before = "model = braid.load(relu_graph()); model(x); machine = braid.machine()"
    calls = ("model(x)", "braid.load(relu_graph())", "machine.op('Relu', x)", "braid.op('Relu', x)",
             "braid.Session(relu_graph((2, 16)))", "model(np.ones((7, 16), np.float32))")
    inside = f"""
        for call in {calls!r}:
            try:
                eval(call)
                print('no error:', call)
            except braid.ForkedError as error:
                assert 'spawn' in str(error)
        model.close()
        machine.close()
        del model, machine
        import gc
        gc.collect()"""
    output = python(FORK.format(before=before, inside=inside), timeout=30)
    assert "status 0" in output and "no error" not in output, output
    assert "status 0" in python(FORK.format(before="pass", inside="assert braid.load(relu_graph())(x).sum() == 32"),
                                timeout=30), "a fork before the first device works"


def test_many_threads_make_and_use_everything() -> None:
    problems: list[BaseException] = []
    machine, graph = braid.Machine("cpu"), relu_graph((None, 64))
    end = time.monotonic() + 3

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            while time.monotonic() < end:
                x = random.normal(size=(int(random.integers(1, 9)), 64)).astype(np.float32)
                expected = np.maximum(x, 0)
                assert np.array_equal(braid.load(graph, machine=machine)(x), expected)
                assert np.array_equal(machine.op("Relu", x), expected)
                y = machine.op("Relu", braid.Buffer.of(x, machine=machine))
                assert np.array_equal(np.from_dlpack(y), expected)
                with pytest.raises(braid.NotFoundError):
                    machine.op("Nothing", x)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_one_session_is_used_by_one_thread_at_a_time() -> None:
    session = braid.Session(perceptron())
    x = np.ones((1, 8), np.float32)
    busy, done = [0], [0]

    def work() -> None:
        for _ in range(200):
            try:
                session.run(x)
                done[0] += 1
            except braid.BusyError as error:
                assert "in use" in str(error)
                busy[0] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done[0] and done[0] + busy[0] == 800


def test_custom_ops_fail_with_their_own_exception() -> None:
    ops = braid.CustomOps()

    @ops.add("test.Fail")
    def fail(attributes: braid.Attributes, inputs: Any, outputs: Any) -> None:
        if inputs[0][0] < 0:
            raise KeyError("below zero")
        outputs[0][...] = inputs[0] * attributes.float("factor", 2) + attributes.int("offset")

    graph = ops.use(braid.Graph())
    graph.output(graph.add_node("test.Fail", graph.input("x", "float32", (3,)), factor=3.0, offset=1))
    model = braid.load(graph)
    with pytest.raises(braid.InternalError, match="KeyError: 'below zero'") as caught:
        model(np.full(3, -1, np.float32))
    assert isinstance(caught.value.__cause__, KeyError)
    del ops, graph, fail
    gc.collect()
    assert model(np.ones(3, np.float32)).tolist() == [4, 4, 4], "the model keeps its ops"


def test_messages_go_to_logging(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    x, y = clusters()
    with caplog.at_level("DEBUG", "braid"):
        braid.Trainer(perceptron(), (x, y), batch=20, out=tmp_path / "run", resume=True)
    assert any("no checkpoint" in record.getMessage() for record in caplog.records)


def test_the_command(tmp_path: Path) -> None:
    for command in ([sys.executable, "-m", "braid"], [str(Path(sys.executable).parent / "braid")]):
        if not Path(command[0]).exists():
            continue
        done = subprocess.run([*command, "--version"], capture_output=True, text=True)
        assert done.returncode == 0 and braid.__version__ in done.stdout
        assert subprocess.run([*command, "run", "/nowhere.onnx"], capture_output=True).returncode != 0


def test_the_source_archive_is_whole(tmp_path: Path) -> None:
    """A wheel can be built from it: it has every file of the tree that version control has, and CMake takes it."""
    import tarfile

    tracked = subprocess.run(["git", "-C", str(TREE), "ls-files", "-z"], capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("the tree is not under version control")
    package = TREE / "plugins/python"
    script = (f"import sys; sys.path.insert(0, {str(package)!r}); import backend; "
              "print(backend.build_sdist(sys.argv[1]))")
    name = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True,
                          text=True).stdout.strip()
    with tarfile.open(tmp_path / name) as archive:
        names = {entry.split("/", 1)[1] for entry in archive.getnames() if "/" in entry}
    wanted = [path for path in tracked.stdout.split("\0") if path and not path.startswith(".")]
    missing = [path for path in wanted if (path.removeprefix("plugins/python/") if path.startswith("plugins/python/")
                                           else f"tree/{path}") not in names]
    assert not missing
    assert "PKG-INFO" in names and "pyproject.toml" in names
    if not shutil.which("cmake"):
        pytest.skip("there is no cmake")
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(["cmake", "-S", str(tmp_path / name.removesuffix(".tar.gz") / "tree"), "-B",
                           str(tmp_path / "build"), "-Wno-dev"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_texts_do_not_end_in_the_middle(tmp_path: Path) -> None:
    """For C a zero ends a text: the file would be another one."""
    with pytest.raises(braid.InvalidArgumentError, match="contains a zero"):
        relu_graph().save_onnx(f"{tmp_path}/a.onnx\0.txt")
    assert not list(tmp_path.iterdir())
    for call in (lambda: braid.Dataset("builtin:glyphs\0x"), lambda: braid.op("Relu\0x", np.ones(1, np.float32)),
                 lambda: braid.load("a.onnx\0")):
        with pytest.raises(braid.InvalidArgumentError, match="contains a zero"):
            call()


class _Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("problem", [_Speechless(), ValueError("caf\udce9.png")])
def test_exceptions_without_a_sentence_are_told(problem: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    ops = braid.CustomOps()

    @ops.add("test.Fails")
    def fails(attributes: braid.Attributes, inputs: object, outputs: object) -> None:
        raise problem

    graph = ops.use(braid.Graph("fails"))
    graph.output(graph.add_node("test.Fails", graph.input("x", "float32", (4,))))
    with pytest.raises(braid.InternalError, match=type(problem).__name__):
        braid.load(graph)(np.ones(4, np.float32))
    assert "ignored" not in capfd.readouterr().err


def test_copies_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for thing in (braid.Machine("cpu"), braid.CustomOps()):
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copied(thing)
    gc.collect()
    assert "ignored" not in capfd.readouterr().err


def test_a_build_folder_is_relative_to_the_tree(tree: Path) -> None:
    code = "import sys, backend; backend._run = lambda *command: None; print(backend._build({'build': 'some/folder'}))"
    made = subprocess.run([sys.executable, "-c", code], cwd=tree / "plugins/python", check=True, capture_output=True,
                          text=True)
    assert made.stdout.strip() == str(tree / "some/folder")


def test_none_is_no_text() -> None:
    """For C it is the address of nothing."""
    script = """
import braid, numpy as np
from conftest import relu_graph
for call in (lambda: braid.load(None), lambda: braid.Dataset(None), lambda: braid.load_image(None),
             lambda: relu_graph().save_onnx(None), lambda: braid.op(None, np.ones(1, np.float32)),
             lambda: braid.Machine(None), lambda: braid.Ledger(None), lambda: braid.plan_file_text(None)):
    try:
        call()
    except (TypeError, ValueError):
        print("refused")
"""
    assert python(script).split() == ["refused"] * 8


def test_an_op_that_waits_for_its_own_machine_is_told() -> None:
    script = """
import braid, faulthandler, numpy as np
from conftest import relu_graph
faulthandler.dump_traceback_later(30, exit=True)
x = np.array([[-1, 2, 3]], np.float32)
ops, other = braid.CustomOps(), braid.load(relu_graph((1, 3)))
own = braid.load(relu_graph((1, 3)), machine=braid.Machine("cpu"))
session = braid.Session(relu_graph((1, 3)))
execution = braid.Plan(braid.machine("cpu"), relu_graph((1, 3))).execution()
for name, inner in dict(Own=own, Model=other, Op=lambda a: braid.op("Relu", a), Session=session.run,
                        Execution=execution.run).items():
    @ops.add("test." + name)
    def compute(attributes, inputs, outputs, inner=inner):
        outputs[0][...] = inner(np.array(inputs[0]))
    graph = ops.use(braid.Graph(name))
    graph.output(graph.add_node("test." + name, graph.input("x", "float32", (1, 3))))
    try:
        print(braid.load(graph)(x).tolist() == [[0, 2, 3]])
    except braid.BusyError as error:
        print("machine=braid.Machine" in str(error))
print(other(x).tolist() == [[0, 2, 3]])
"""
    assert python(script).split() == ["True"] * 6


def test_an_output_is_filled_not_replaced() -> None:
    ops = braid.CustomOps()

    @ops.add("test.Replaces")
    def replaces(attributes: braid.Attributes, inputs: Any, outputs: Any) -> None:
        outputs[0] = inputs[0] * 2

    graph = ops.use(braid.Graph("replaces"))
    graph.output(graph.add_node("test.Replaces", graph.input("x", "float32", (4,))))
    with pytest.raises(braid.InternalError, match="does not support item assignment"):
        braid.load(graph)(np.ones(4, np.float32))
