"""The package is typed: mypy --strict finds nothing in it, in the examples, and knows what they are given."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("typing")


def mypy(folder: Path, *arguments: str) -> str:
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *arguments],
                          capture_output=True, text=True, cwd=folder)
    return done.stdout + done.stderr


def test_the_package_and_the_examples(folder: Path) -> None:
    output = mypy(folder, "-p", "braid", "-p", "braid_command")
    assert "Success" in output, output
    output = mypy(folder, "--allow-any-generics", "--scripts-are-modules", *map(str, EXAMPLES))
    assert "Success" in output, output


def test_mistakes_are_found(folder: Path) -> None:
    (folder / "wrong.py").write_text("import braid\nmodel = braid.load('x', threads='two')\nmodel.rum(1)\n")
    output = mypy(folder, "wrong.py")
    assert '"threads"' in output and '"rum"' in output, output


def test_everything_public_is_documented() -> None:
    import inspect

    import braid

    missing = []
    for name in braid.__all__:
        thing = getattr(braid, name)
        if name.startswith("__"):
            continue
        if not inspect.getdoc(thing):
            missing.append(name)
        if inspect.isclass(thing):
            missing += [f"{name}.{member}" for member, value in vars(thing).items()
                        if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
                        and not inspect.getdoc(value)]
    assert not missing
