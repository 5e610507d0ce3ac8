"""Makes the binding of the C library from its public headers: a Python module with a ctypes class for every struct,
the values of every enum, and the types of every function. Nothing in it is written by hand, so it cannot differ from
the headers; tests/test_abi.py holds it against what the compiler says of them.

    python abi.py INCLUDE_FOLDER OUT.py     (CC: the compiler whose preprocessor is used)

The headers are C17 of a plain style: typedefs, enums, structs and prototypes. What the parser does not know is an
error with the place, never left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

SCALARS = {
    "void": None,
    "bool": "c_bool",
    "_Bool": "c_bool",
    "char": "c_char",
    "int": "c_int",
    "unsigned": "c_uint",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    "int8_t": "c_int8",
    "int16_t": "c_int16",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint8_t": "c_uint8",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
    "uintptr_t": "c_size_t",
}
TOKEN = re.compile(r'\s*(?:(?P<word>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)|(?P<text>"[^"]*")'
                   r"|(?P<mark>\.\.\.|<<|>>|[-+*/|&~(){}\[\],;=:]))")


# Of the braid program and of libbraid-client: libbraid has none of their functions.
OTHERS = ("serve.h", "client.h")


class ParseError(Exception):
    pass


@dataclass
class Type:
    """A name (of a scalar, enum, struct or typedef), a pointer, an array or a function."""

    name: str = ""
    target: Type | None = None  # of a pointer
    element: Type | None = None  # of an array
    count: int = 0
    result: Type | None = None  # of a function
    arguments: list[Type] = field(default_factory=list)
    variadic: bool = False


@dataclass
class Struct:
    name: str
    union: bool = False
    fields: list[tuple[str, Type]] | None = None  # None: declared only; a name of "" is an anonymous union
    inner: int = 0


@dataclass
class Header:
    """All that the headers declare, in their order."""

    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    typedefs: dict[str, Type] = field(default_factory=dict)
    functions: dict[str, Type] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)


def preprocess(include: str) -> str:
    """The declarations of the headers below `include`, without those of the C library."""
    found = os.listdir(os.path.join(include, "braid"))
    names = sorted(name for name in found if name.endswith(".h") and name not in OTHERS)
    compiler = os.environ.get("CC", "cc").split()
    source = "".join(f"#include <braid/{name}>\n" for name in names)
    text = subprocess.run([*compiler, "-std=c17", "-E", "-I", include, "-x", "c", "-"], input=source, text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    ours, kept = False, []
    for line in text.splitlines():
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = os.path.basename(os.path.dirname(mark.group(1))) == "braid"
        elif ours and not line.startswith("#"):
            kept.append(line)
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*(?:\([^()]*\))?[^()]*\))*\)\)", " ", "\n".join(kept))


class Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = TOKEN.match(text, position)
            if not found:
                raise ParseError(f"unknown text in the headers: {text[position:position + 60]!r}")
            self.tokens.append(found.group().strip())
            position = found.end()
        self.at = 0
        self.header = Header()

    def fail(self, expected: str) -> ParseError:
        return ParseError(f"expected {expected} in the headers at: {' '.join(self.tokens[self.at - 8:self.at + 8])}")

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise self.fail(expected or "more")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def parse(self) -> Header:
        while self.at < len(self.tokens):
            self.declaration()
        return self.header

    def declaration(self) -> None:
        typedef = self.accept("typedef")
        self.accept("extern")
        base = self.specifier()
        if self.accept(";"):
            return
        name, kind = self.declarator(base)
        if typedef:
            self.header.typedefs[name] = kind
            self.header.order.append(name)
        elif kind.result is not None:
            self.header.functions[name] = kind
        else:
            raise self.fail("a function")
        self.take(";")

    def specifier(self) -> Type:
        """The type before the declarators, with the struct or enum that it defines."""
        while self.peek() in ("const", "volatile", "struct", "enum", "union", "inline", "static"):
            token = self.take()
            if token == "enum":
                return self.enum()
            if token in ("struct", "union"):
                return self.struct(token == "union")
        name = self.take()
        if name in ("unsigned", "signed", "long", "short") and self.peek() in ("int", "char", "long"):
            raise self.fail("a type of a given width")
        if name not in SCALARS and name not in self.header.typedefs:
            raise ParseError(f"the headers use a type that they do not declare: {name}")
        while self.accept("const"):
            pass
        return Type(name)

    def enum(self) -> Type:
        name = self.take() if self.peek() != "{" else ""
        if self.accept("{"):
            value, values = 0, {}
            while not self.accept("}"):
                key = self.take()
                if self.accept("="):
                    value = self.constant()
                values[key] = self.header.values[key] = value
                value += 1
                if self.peek() != "}":
                    self.take(",")
            if name:
                self.header.enums[name] = values
        return Type("int" if not name else "enum " + name)

    def constant(self) -> int:
        words: list[str] = []
        depth = 0
        while depth or self.peek() not in (",", "}", "]"):
            token = self.take()
            depth += (token == "(") - (token == ")")
            words.append(str(self.header.values[token]) if token in self.header.values else token.rstrip("uUlL"))
        text = " ".join(words)
        if not re.fullmatch(r"[-\d\sa-fA-FxX+*/|&~()<>]+", text):
            raise self.fail("a number")
        return int(eval(text, {"__builtins__": {}}))

    def struct(self, union: bool) -> Type:
        name = self.take() if self.peek() != "{" else ""
        if not name:
            name = f"anonymous{len(self.header.structs)}"
        struct = self.header.structs.setdefault(name, Struct(name, union))
        if self.accept("{"):
            fields: list[tuple[str, Type]] = []
            while not self.accept("}"):
                base = self.specifier()
                if self.accept(";"):
                    fields.append(("", base))
                    continue
                while True:
                    fields.append(self.declarator(base))
                    if not self.accept(","):
                        break
                self.take(";")
            struct.fields = fields
            self.header.order.append("struct " + name)
        while self.accept("const"):
            pass
        return Type("struct " + name)

    def declarator(self, base: Type) -> tuple[str, Type]:
        while self.accept("*"):
            base = Type(target=base)
            while self.peek() in ("const", "restrict"):
                self.take()
        if self.peek() == "(" and self.peek(1) == "*":
            self.take("(")
            self.take("*")
            self.accept("const")
            name = self.take() if self.peek() not in (")", "[") else ""
            count = self.suffix_array()
            self.take(")")
            kind = Type(target=self.suffix_function(base))
            return name, Type(element=kind, count=count) if count else kind
        name = self.take() if re.match(r"[A-Za-z_]", self.peek()) else ""
        if self.peek() == "(":
            return name, self.suffix_function(base)
        counts = []
        while self.peek() == "[":
            counts.append(self.suffix_array())
        for count in reversed(counts):
            base = Type(element=base, count=count)
        return name, base

    def suffix_array(self) -> int:
        if not self.accept("["):
            return 0
        count = self.constant() if self.peek() != "]" else 0
        self.take("]")
        return count

    def suffix_function(self, result: Type) -> Type:
        kind = Type(result=result)
        self.take("(")
        while not self.accept(")"):
            if self.accept("..."):
                kind.variadic = True
                continue
            argument = self.declarator(self.specifier())[1]
            if argument.name != "void":
                kind.arguments.append(argument)
            if self.peek() != ")":
                self.take(",")
        return kind


# What structs and functions of the binding have in common.
EXACT = '''
class _Fields:
    """Setting a field refuses a whole number that its type does not have: ctypes would cut it off."""

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except TypeError as problem:
            raise InvalidArgumentError(f"{name} is {value!r}: {problem}") from problem
        held = getattr(self, name)
        if type(held) is int and held != value and isinstance(value, SupportsIndex):
            raise InvalidArgumentError(f"{name} is {value}, which the library's type of it does not have")


def _range(kind: Any) -> tuple[int, int] | None:
    """The least and the largest number of an integer type; None: it is another type."""
    if kind not in (c_int, c_int8, c_int16, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64):
        return None
    bits, signed = 8 * sizeof(kind), kind(-1).value < 0
    return (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _exact(name: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """The function; where it takes integers, one that refuses what their types do not have."""
    ranges = [(index, *limits) for index, kind in enumerate(arguments) if (limits := _range(kind))]
    if not ranges:
        return function

    def call(*given: Any) -> Any:
        try:
            for index, least, most in ranges:
                if not least <= given[index] <= most:
                    raise InvalidArgumentError(f"argument {index + 1} of {name} is {given[index]}, expected a number "
                                               f"from {least} to {most}")
        except (IndexError, TypeError):
            pass  # the call says what is wrong
        try:
            return function(*given)
        except ArgumentError as problem:
            for index, least, most in ranges:
                if not isinstance(given[index], SupportsIndex):
                    raise InvalidArgumentError(f"argument {index + 1} of {name} is {given[index]!r:.80}, expected a "
                                               f"whole number from {least} to {most}") from problem
            raise

    return call
'''


class Writer:
    """Writes the parsed headers as a module. Pointers in calls are plain addresses (c_void_p takes numbers, arrays,
    references and functions alike); in structs they have their types, so that what they point to can be read."""

    def __init__(self, header: Header) -> None:
        self.header = header

    def resolve(self, kind: Type) -> Type:
        while kind.name in self.header.typedefs:
            kind = self.header.typedefs[kind.name]
        return kind

    def value(self, kind: Type) -> str:
        kind = self.resolve(kind)
        if kind.name.startswith("enum "):
            return "c_int"
        if kind.name.startswith("struct "):
            return kind.name[7:]
        if kind.name:
            return str(SCALARS[kind.name])
        if kind.element:
            return f"{self.value(kind.element)} * {kind.count}" if kind.element.element is None else \
                f"({self.value(kind.element)}) * {kind.count}"
        if kind.result:
            return self.callback(kind)
        assert kind.target
        return self.pointer(kind.target)

    def pointer(self, target: Type) -> str:
        target = self.resolve(target)
        if target.result:
            return self.callback(target)
        if target.name == "char":
            return "c_char_p"
        if target.name.startswith("struct "):
            struct = self.header.structs[target.name[7:]]
            return "c_void_p" if struct.fields is None else f"POINTER({struct.name})"
        if target.name == "void":
            return "c_void_p"
        return f"POINTER({self.value(target)})"

    def argument(self, kind: Type) -> str:
        kind = self.resolve(kind)
        if kind.target or kind.element or kind.result:
            target = self.resolve(kind.target) if kind.target else None
            return "c_char_p" if target and target.name == "char" else "c_void_p"
        return self.value(kind)

    def callback(self, kind: Type) -> str:
        """A callback's structs are given by address: ctypes converts what it knows."""
        assert kind.result
        result = self.value(kind.result) if kind.result.name != "void" else "None"
        # What a callback returns by address Python gives as a number.
        result = "c_void_p" if result.startswith("POINTER") or result == "c_char_p" else result
        parts = [result] + [self.callback_argument(argument) for argument in kind.arguments]
        return f"CFUNCTYPE({', '.join(parts)})"

    def callback_argument(self, kind: Type) -> str:
        resolved = self.resolve(kind)
        if resolved.target or resolved.element or resolved.result:
            target = self.resolve(resolved.target) if resolved.target else None
            return "c_char_p" if target and target.name == "char" else "c_void_p"
        return self.value(kind)

    def struct_lines(self, struct: Struct) -> list[str]:
        assert struct.fields is not None
        lines = [f"{struct.name}._fields_ = ["]
        anonymous = []
        for index, (name, kind) in enumerate(struct.fields):
            if not name:
                name = f"_{index}"
                anonymous.append(name)
            lines.append(f"    ({name!r}, {self.value(kind)}),")
        lines.append("]")
        if anonymous:
            lines.insert(0, f"{struct.name}._anonymous_ = {tuple(anonymous)!r}")
        return lines

    def result(self, kind: Type) -> str:
        resolved = self.resolve(kind)
        if resolved.target:
            return self.pointer(resolved.target)
        return self.value(kind) if resolved.name != "void" else "None"

    def write(self, version: str) -> str:
        header = self.header
        lines = ['"""The C interface of libbraid, made from its headers by abi.py. Not to be changed by hand."""', "",
                 "from ctypes import (ArgumentError, CDLL, CFUNCTYPE, POINTER, Structure, Union, c_bool, c_char,",
                 "                    c_char_p, c_double, c_float, c_int, c_int8, c_int16, c_int32, c_int64, c_size_t,",
                 "                    c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, sizeof)", "from typing import Any, SupportsIndex", "",
                 "from .errors import InvalidArgumentError", "", f"VERSION = {version!r}", ""]
        lines += [f"{name} = {value}" for name, value in header.values.items()]
        lines += ["", "ENUMS = {"]
        for name, values in header.enums.items():
            lines.append(f"    {name!r}: {values!r},")
        lines += ["}", "", *EXACT.splitlines(), ""]
        complete = [struct for struct in header.structs.values() if struct.fields is not None]
        for struct in complete:
            lines += ["", f"class {struct.name}(_Fields, {'Union' if struct.union else 'Structure'}):", "    pass", ""]
        lines.append("")
        for name in header.order:
            if name.startswith("struct "):
                lines += self.struct_lines(header.structs[name[7:]])
                continue
            kind = header.typedefs[name]
            resolved = self.resolve(kind)
            function = resolved if resolved.result else resolved.target and self.resolve(resolved.target)
            if function and function.result:
                lines.append(f"{name} = {self.callback(function)}")
        lines += ["", "STRUCTS = (" + ", ".join(struct.name for struct in complete
                                               if not struct.name.startswith("anonymous")) + ")", "",
                  "FUNCTIONS = {"]
        for name, kind in header.functions.items():
            assert kind.result
            arguments = ", ".join(self.argument(argument) for argument in kind.arguments)
            comma = "," if len(kind.arguments) == 1 else ""
            lines.append(f"    {name!r}: ({self.result(kind.result)}, ({arguments}{comma}), {kind.variadic}),")
        lines += ["}", "", "", "def bind(path: str) -> CDLL:",
                  '    """Loads the library and gives every function its types."""', "    library = CDLL(path)",
                  "    for name, (result, arguments, variadic) in FUNCTIONS.items():",
                  "        function = getattr(library, name)", "        function.restype = result",
                  "        if not variadic:", "            function.argtypes = arguments",
                  "            setattr(library, name, _exact(name, function, arguments))", "    return library", ""]
        return "\n".join(lines)


def read(include: str) -> Header:
    return Parser(preprocess(include)).parse()


def make(include: str) -> str:
    with open(os.path.join(include, "braid", "version.h"), encoding="utf-8") as file:
        version = re.search(r'define BRAID_VERSION "([^"]+)"', file.read())
    if not version:
        raise ParseError(f"{include}/braid/version.h: expected BRAID_VERSION")
    return Writer(read(include)).write(version.group(1))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python abi.py INCLUDE_FOLDER OUT.py")
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(make(sys.argv[1]))
