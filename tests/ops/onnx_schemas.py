"""What ONNX says of ops, as the onnx package has it, for docs/ops.md; one op a line:

    OP|OPERAND...|RESULT...|ATTRIBUTE=DEFAULT...|NAME:TYPE,TYPE...

"X:T" is an operand and the name of its type, "B:T?" an optional one, "inputs:T*" any number. Attributes without a default
are "name" if they may be left out and "name!" if not.

usage: onnx_schemas.py
"""
from onnx import defs
from onnx.helper import get_attribute_value

TYPES = {"float": "float32", "double": "float64"}
MARKS = {defs.OpSchema.FormalParameterOption.Single: "", defs.OpSchema.FormalParameterOption.Optional: "?",
         defs.OpSchema.FormalParameterOption.Variadic: "*"}


def plain(name):
    inner = name
    for outer in ("optional(", "seq(", "tensor("):
        inner = inner.removeprefix(outer)
    inner = inner.rstrip(")")
    return TYPES.get(inner, inner) if name.startswith("tensor(") else None


def operands(parameters, constraints):
    return " ".join(f"{p.name}:{p.type_str if p.type_str in constraints else plain(p.type_str)}{MARKS[p.option]}"
                    for p in parameters)


def default(attribute):
    value = get_attribute_value(attribute.default_value) if attribute.default_value.name else None
    if value is None:
        return "!" if attribute.required else ""
    if isinstance(value, list):
        return "=" + ",".join(v.decode() if isinstance(v, bytes) else f"{v:g}" for v in value)
    return "=" + (value.decode() if isinstance(value, bytes) else f"{value:g}")


def row(schema):
    constraints = {c.type_param_str: c for c in schema.type_constraints}
    types = []
    for name, constraint in constraints.items():
        of = sorted({t for t in map(plain, constraint.allowed_type_strs) if t})
        types.append(f"{name}:{','.join(of)}")
    attributes = " ".join(f"{a}{default(v)}" for a, v in sorted(schema.attributes.items()))
    return "|".join([schema.name, operands(schema.inputs, constraints), operands(schema.outputs, constraints),
                     attributes, " ".join(types)])


if __name__ == "__main__":
    newest = {}
    for s in defs.get_all_schemas():
        if s.domain == "" and not s.deprecated:
            newest[s.name] = s
    for name in sorted(newest):
        print(row(newest[name]))
