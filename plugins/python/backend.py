"""The build backend (PEP 517): builds the library and the command by CMake and puts them into a wheel, with the
binding that abi.py makes from the headers. It needs nothing but Python, CMake, a C compiler and the packages that Braid
is built with (packages.txt); nothing is fetched.

    pip install plugins/python                                    builds in build-python/ of the tree
    BRAID_BUILD=build pip install plugins/python                  takes what a configured build folder has, or makes it;
                                                                  a path that is not absolute is one in the tree
    pip wheel plugins/python --config-settings build=FOLDER       the same
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import abi

HERE = Path(__file__).resolve().parent
# In the source archive the tree is a folder beside this file.
TREE = HERE / "tree" if (HERE / "tree").is_dir() else HERE.parent.parent
Settings = Mapping[str, Any] | None


def _version() -> str:
    text = (TREE / "include/braid/version.h").read_text(encoding="utf-8")
    found = re.search(r'define BRAID_VERSION "([^"]+)"', text)
    if not found:
        raise RuntimeError("include/braid/version.h does not say the version")
    return found.group(1)


def _tag() -> str:
    import sysconfig

    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"py3-none-{platform}"


def _project(key: str) -> str:
    """A text of [project]: Python has no reader of TOML before 3.11."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf'^{re.escape(key)} = "(.*)"$', text, re.MULTILINE)
    if not found:
        raise RuntimeError(f"pyproject.toml has no {key}")
    return found.group(1)


def _metadata() -> str:
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^dependencies = \[(.*)\]$", text, re.MULTILINE)
    needs = re.findall(r'"([^"]+)"', found.group(1)) if found else []
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    lines = ["Metadata-Version: 2.1", f"Name: {_project('name')}", f"Version: {_version()}",
             f"Summary: {_project('description')}", "License: Apache-2.0",
             f"Requires-Python: {_project('requires-python')}", "Classifier: Typing :: Typed",
             "Classifier: Operating System :: POSIX :: Linux", *(f"Requires-Dist: {need}" for need in needs),
             "Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def _run(*command: str | Path) -> None:
    print("+", *command, file=sys.stderr)
    try:
        subprocess.run([str(part) for part in command], check=True)
    except FileNotFoundError as error:
        raise SystemExit(f"{command[0]} is not installed; packages.txt names what Braid needs") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{command[0]} failed with status {error.returncode}: see its messages above") from error


def _build(settings: Settings) -> Path:
    """The folder with libbraid.so and the command."""
    given = (settings or {}).get("build") or os.environ.get("BRAID_BUILD")
    # pip calls this in a folder of its own choice: a path that is relative is one in the tree.
    folder = (TREE / given).resolve() if given else TREE / "build-python"
    if not (folder / "CMakeCache.txt").exists():
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        _run("cmake", "-S", TREE, "-B", folder, *generator, "-Wno-dev", "-DCMAKE_BUILD_TYPE=Release")
    _run("cmake", "--build", folder, "--target", "braid", "braid_shared", "--parallel", str(_jobs()))
    return folder


def _jobs() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Wheel:
    """A zip file with the list of its contents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.records: list[str] = []

    def add(self, name: str, data: bytes, executable: bool = False) -> None:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same contents give the same file
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}")

    def finish(self, info: str) -> None:
        self.records.append(f"{info}/RECORD,,")
        self.zip.writestr(zipfile.ZipInfo(f"{info}/RECORD", (1980, 1, 1, 0, 0, 0)), "\n".join(self.records) + "\n")
        self.zip.close()


def _stripped(path: Path) -> bytes:
    """Without symbols for debuggers, where there is a `strip`."""
    tool = shutil.which("strip")
    if not tool:
        return path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        _run(tool, "--strip-unneeded", "-o", copy, path)
        return copy.read_bytes()


def _info_folder() -> str:
    return f"braid-{_version()}.dist-info"


def _add_info(wheel: _Wheel) -> None:
    info = _info_folder()
    for name, text in _info_files().items():
        wheel.add(f"{info}/{name}", text.encode())
    wheel.add(f"{info}/LICENSE", (TREE / "LICENSE").read_bytes())
    wheel.add(f"{info}/NOTICE", (TREE / "NOTICE").read_bytes())


def _info_files() -> dict[str, str]:
    return {"METADATA": _metadata(),
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: braid\nRoot-Is-Purelib: false\nTag: {_tag()}\n",
            "entry_points.txt": f"[console_scripts]\nbraid = {_project('braid')}\n"}


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    folder = _build(config_settings)
    name = f"braid-{_version()}-{_tag()}.whl"
    wheel = _Wheel(Path(wheel_directory) / name)
    for path in sorted((HERE / "src").rglob("*")):
        if path.suffix in (".py", ".typed") and path.name != "_abi.py":
            wheel.add(path.relative_to(HERE / "src").as_posix(), path.read_bytes())
    wheel.add("braid/_abi.py", abi.make(str(TREE / "include")).encode())
    wheel.add("braid/_lib/libbraid.so", _stripped(folder / "libbraid.so"), True)
    wheel.add("braid/_bin/braid", _stripped(folder / "braid"), True)
    for header in sorted((TREE / "include/braid").glob("*.h")):
        wheel.add(f"braid/include/braid/{header.name}", header.read_bytes())
    _add_info(wheel)
    wheel.finish(_info_folder())
    return name


def build_editable(wheel_directory: str, config_settings: Settings = None,
                   metadata_directory: str | None = None) -> str:
    """The wheel has the path of the sources; what is built lies beside them."""
    folder = _build(config_settings)
    package = HERE / "src/braid"
    (package / "_abi.py").write_text(abi.make(str(TREE / "include")), encoding="utf-8")
    for below, name in (("_lib", "libbraid.so"), ("_bin", "braid")):
        (package / below).mkdir(exist_ok=True)
        shutil.copy(folder / name, package / below / name)
    if not (package / "include").exists():
        (package / "include").symlink_to(TREE / "include")
    name = f"braid-{_version()}-{_tag()}.whl"
    wheel = _Wheel(Path(wheel_directory) / name)
    wheel.add("braid.pth", f"{HERE / 'src'}\n".encode())
    _add_info(wheel)
    wheel.finish(_info_folder())
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    info = Path(metadata_directory) / _info_folder()
    info.mkdir(parents=True, exist_ok=True)
    for name, text in _info_files().items():
        (info / name).write_text(text, encoding="utf-8")
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """The package with the whole tree beside it, in `tree`."""
    name = f"braid-{_version()}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(HERE.iterdir()):
            if not _left_out(path.name) and path.name != "tree":
                archive.add(path, f"{name}/{path.name}", filter=_archived)
        for folder, below in ((TREE, "tree"), (TREE / "plugins", "tree/plugins")):  # CMake builds other plug-ins, too
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if not _left_out(path.name) and path != TREE / "plugins" and path != HERE:
                    archive.add(path, f"{name}/{below}/{path.name}", filter=_archived)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(_metadata())
            file.flush()
            archive.add(file.name, f"{name}/PKG-INFO")
    return f"{name}.tar.gz"


def _left_out(name: str) -> bool:
    """At the top: folders of builds, and what version control has."""
    return name.startswith((".", "build")) and name != "backend.py" or name in _MADE


_MADE = ("__pycache__", "_lib", "_bin", "_abi.py", "egg-info")


def _archived(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    made = os.path.basename(entry.name) in _MADE or entry.issym() and os.path.isabs(entry.linkname)
    return None if made else entry
