"""Writes ONNX's node cases as folders that `braid conformance` reads. The onnx package holds the cases as Python, and of
the folders only those of whole networks.

    python3 bench/onnx_cases.py build/onnx-node && build/braid conformance build/onnx-node
"""
import argparse
import pathlib
import warnings

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def message(value, info):
    if isinstance(value, onnx.TensorProto):
        return value
    kind = info.type.WhichOneof("value")
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional}.get(kind, numpy_helper.from_array)
    return make(value, info.name)


def write(case, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir(exist_ok=True)
        for name, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for i, value in enumerate(values):
                (data / f"{name}_{i}.pb").write_bytes(message(value, infos[i]).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")  # cases of overflow and of division by zero
    cases = load_model_tests(kind="node")
    for case in cases:
        write(case, folder / case.name)
    print(f"onnx {onnx.__version__}: {len(cases)} cases in {folder}")


if __name__ == "__main__":
    main()
