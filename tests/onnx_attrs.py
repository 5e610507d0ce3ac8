"""The attributes of ONNX's ops, one op of one opset a line, as the onnx package knows them:

    OP OPSET ATTRIBUTE...     in the order of their names

usage: onnx_attrs.py LAST_OPSET
"""
import sys

from onnx import defs

if __name__ == "__main__":
    last = min(int(sys.argv[1]), defs.onnx_opset_version())
    history = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    for op in sorted({s.name for s in history}):
        versions = {s.since_version: s for s in history if s.name == op}
        for opset in range(min(versions), last + 1):
            schema = versions[max(v for v in versions if v <= opset)]
            if not schema.deprecated:
                print(op, opset, *sorted(schema.attributes))
