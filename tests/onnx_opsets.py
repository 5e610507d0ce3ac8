"""What came to ONNX's ops after opset 17, one a line, as the onnx package knows it:

    OP FIRST input I TYPE OPSET     operand I may be of TYPE from OPSET on; FIRST is the opset of the op's present meaning
    OP FIRST output I TYPE OPSET
    OP FIRST inputs N - OPSET       it may have N inputs from OPSET on
    OP FIRST attribute NAME - OPSET

usage: onnx_opsets.py OP:FIRST...
"""
import sys

from onnx import defs

TYPES = {"float": "float32", "double": "float64"}


def operand_types(schema, operands, index):
    if index >= len(operands):
        if not operands or operands[-1].option != defs.OpSchema.FormalParameterOption.Variadic:
            return []
        index = -1
    kind = operands[index].type_str
    allowed = [c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == kind]
    names = [t[len("tensor(") : -1] for t in (allowed[0] if allowed else [kind]) if t.startswith("tensor(")]
    return [TYPES.get(name, name) for name in names]


def list_op(op, first):
    schemas = sorted((s for s in SCHEMAS if s.name == op), key=lambda s: s.since_version)
    schemas = [s for s in schemas if s.since_version <= first][-1:] + [s for s in schemas if s.since_version > first]
    seen = {}
    for schema in schemas:
        since = max(first, schema.since_version)
        for name in schema.attributes:
            seen.setdefault(("attribute", name, "-"), since)
        for count in range(1, min(schema.max_input, 20) + 1):
            seen.setdefault(("inputs", count, "-"), since)
        for role, operands in (("input", schema.inputs), ("output", schema.outputs)):
            for index in range(len(operands)):
                for name in operand_types(schema, operands, index):
                    seen.setdefault((role, index, name), since)
    for key, since in seen.items():
        print(op, first, *key, since)


if __name__ == "__main__":
    SCHEMAS = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    for argument in sys.argv[1:]:
        name, opset = argument.split(":")
        list_op(name, int(opset))
