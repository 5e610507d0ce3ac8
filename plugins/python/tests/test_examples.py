"""The examples run, and do what those in C do."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TREE, build_plugin

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *arguments: object) -> str:
    done = subprocess.run([sys.executable, str(EXAMPLES / name), *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "trained.onnx"
    assert "accuracy" in run("training.py", TREE / "models/glyphs.cfg", path)
    return path


def test_inference(trained: Path) -> None:
    assert len(run("first.py", trained).splitlines()) == 10
    assert run("first.py", trained) == run("inference.py", trained)


def test_several(trained: Path) -> None:
    first, second = run("several.py", trained).split(" over ")[0].split(" and ")
    assert abs(float(first) - float(second)) < 1e-3


def test_ops_and_custom_ops() -> None:
    assert "MatMul: cpu" in run("ops.py")
    assert "-4 cubed is -64" in run("custom_op.py")


def test_own(tmp_path: Path) -> None:
    assert "from point to scores" in run("own.py", tmp_path / "own.onnx")


def test_the_tutorial(tmp_path: Path) -> None:
    run("make_pictures.py", tmp_path / "pictures", 300)
    output = run("learn.py", TREE / "models/glyphs.cfg", tmp_path / "pictures", TREE / "examples/pictures/star.png",
                 tmp_path / "learnt.onnx")
    assert "star.png: " in output.splitlines()[-1] and "epoch 6" in output


@pytest.mark.parametrize("source, device, kernel", [("plugin", "tutor", "tutor_relu"), ("unified", "pixels", "pixels")])
def test_plugins(compiler: list[str], trained: Path, tmp_path: Path, source: str, device: str, kernel: str) -> None:
    plugin = build_plugin(compiler, TREE / f"examples/{source}.c", tmp_path)
    assert kernel in run("plugin.py", plugin, device, trained)
