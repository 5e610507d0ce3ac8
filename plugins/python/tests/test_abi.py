"""The binding agrees with what the compiler says of the headers: sizes and offsets of all structs, values of all
enumerators, and what functions take and return."""

import ctypes
import functools
import re
import subprocess
from pathlib import Path

import braid
import pytest
from braid import _abi
from braid._library import LIBRARY, lib


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("abi")


def headers() -> str:
    found = (Path(braid.get_include()) / "braid").glob("*.h")
    names = sorted(path.name for path in found if path.name not in ("serve.h", "client.h"))  # of other libraries
    return "#include <stddef.h>\n#include <stdio.h>\n" + "".join(f"#include <braid/{name}>\n" for name in names)


def run_c(compiler: list[str], folder: Path, name: str, body: str, *flags: str) -> str:
    source = folder / f"{name}.c"
    source.write_text(headers() + body)
    program = folder / name
    subprocess.run([*compiler, "-std=gnu17", "-w", "-I", braid.get_include(), *flags, str(source), "-o", str(program)],
                   check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def test_structs_have_the_compilers_sizes_and_offsets(compiler: list[str], folder: Path) -> None:
    lines, expected = [], []
    for struct in _abi.STRUCTS:
        name = struct.__name__
        lines.append(f'printf("%zu\\n", sizeof({type_name(name)}));')
        expected.append(f"{name}: {ctypes.sizeof(struct)}")
        for field in struct._fields_:
            if field[0].startswith("_") and field[0][1:].isdigit():
                continue  # an anonymous union, whose members have offsets of their own
            lines.append(f'printf("%zu %zu\\n", offsetof({type_name(name)}, {field[0]}), '
                         f"sizeof((({type_name(name)} *)0)->{field[0]}));")
            place = getattr(struct, field[0])
            expected.append(f"{name}.{field[0]}: {place.offset} {place.size}")
    assert len(_abi.STRUCTS) > 100
    output = run_c(compiler, folder, "structs", "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    found = [f"{said.split(':')[0]}: {line}" for said, line in zip(expected, output.splitlines())]
    assert found == expected


@functools.lru_cache
def typedefs() -> set[str]:
    text = " ".join(path.read_text() for path in (Path(braid.get_include()) / "braid").glob("*.h"))
    return {name for pair in re.findall(r"\} (braid_\w+);|typedef struct \w+ (braid_\w+);", text) for name in pair}


def type_name(name: str) -> str:
    """Most structs are typedefs, too."""
    return name if name in typedefs() else f"struct {name}"


def test_enumerators_have_the_compilers_values(compiler: list[str], folder: Path) -> None:
    names = [name for values in _abi.ENUMS.values() for name in values]
    assert "BRAID_TORN" in names
    body = "".join(f'printf("{name} %d\\n", (int){name});\n' for name in names)
    output = run_c(compiler, folder, "enums", f"int main(void) {{\n{body}return 0;\n}}\n")
    assert output.splitlines() == [f"{name} {getattr(_abi, name)}" for name in names]


KINDS = {ctypes.c_void_p: "pointer", ctypes.c_char_p: "pointer", ctypes.c_bool: "integer 1", ctypes.c_int: "integer 4",
         ctypes.c_uint: "integer 4", ctypes.c_int32: "integer 4", ctypes.c_uint32: "integer 4",
         ctypes.c_int64: "integer 8", ctypes.c_uint64: "integer 8", ctypes.c_size_t: "integer 8",
         ctypes.c_float: "real 4", ctypes.c_double: "real 8", None: "void"}


def kind_of(kind: object) -> str:
    if kind in KINDS:
        return KINDS[kind]  # type: ignore[index]
    if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
        return "pointer"
    assert isinstance(kind, type) and issubclass(kind, (ctypes.Structure, ctypes.Union)), kind
    return f"struct {ctypes.sizeof(kind)}"


def prototypes(compiler: list[str], folder: Path) -> dict[str, tuple[str, list[str]]]:
    """What the compiler has read: the type of the result and of each argument, as it writes them."""
    source, listing = folder / "all.c", folder / "all.txt"
    source.write_text(headers())
    done = subprocess.run([*compiler, "-std=gnu17", "-I", braid.get_include(), "-fsyntax-only", "-aux-info",
                           str(listing), str(source)], capture_output=True)
    if done.returncode or not listing.exists():
        pytest.skip("only gcc lists prototypes (-aux-info)")
    found = {}
    for line in listing.read_text().splitlines():
        match = re.match(r"/\* .*braid/\w+\.h:.* \*/ extern (.*?)(braid_\w+) \((.*)\);", line)
        if match:
            arguments = [part.strip() for part in re.split(r",(?![^()]*\))", match.group(3))]
            found[match.group(2)] = (match.group(1).strip(), [] if arguments == ["void"] else arguments)
    return found


def test_functions_take_and_return_what_the_compiler_says(compiler: list[str], folder: Path) -> None:
    declared = prototypes(compiler, folder)
    assert set(declared) == set(_abi.FUNCTIONS)
    probes, expected = [], []
    for name, (result, arguments) in sorted(declared.items()):
        bound_result, bound, variadic = _abi.FUNCTIONS[name]
        types = [result, *(argument for argument in arguments if argument != "...")]
        assert len(types) - 1 == len(bound), f"{name} takes {len(types) - 1} arguments, the binding has {len(bound)}"
        assert variadic == ("..." in arguments), name
        for index, (text, kind) in enumerate(zip(types, (bound_result, *bound))):
            expected.append(f"{name} {index}: {kind_of(kind)}")
            probes.append(f'tell("{name} {index}", {classify(text)}, {0 if text == "void" else f"sizeof(TYPE({text}))"});')
    body = """
#define TYPE(...) __typeof__(__VA_ARGS__)
static void tell(const char *what, int kind, size_t size) {
  if (kind < 0) printf("%s: void\\n", what);
  else if (kind == 5) printf("%s: pointer\\n", what);
  else printf("%s: %s %zu\\n", what, kind == 8 ? "real" : kind == 12 ? "struct" : "integer", size);
}
int main(void) {
""" + "\n".join(probes) + "\nreturn 0;\n}\n"
    output = run_c(compiler, folder, "functions", body)
    assert output.splitlines() == expected


def classify(text: str) -> str:
    if text == "void":
        return "-1"
    if "(*)" in text or text.endswith("*") or "*" in text:
        return "5"
    return f"__builtin_classify_type(*(TYPE({text}) *)0)"


def test_the_library_exports_what_is_bound() -> None:
    for name in _abi.FUNCTIONS:
        assert getattr(lib, name)
    listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True)
    if listed.returncode == 0:
        names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
        assert {name for name in names if name.startswith("braid_")} == set(_abi.FUNCTIONS)


def test_the_version_is_that_of_the_headers() -> None:
    text = (Path(braid.get_include()) / "braid/version.h").read_text()
    assert f'"{braid.__version__}"' in text
