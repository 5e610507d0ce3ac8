"""Compares outputs and gradients computed by Braid with PyTorch's.

usage: torch_check.py FOLDER      exit code 1 when they differ

FOLDER/cases.txt has a line for each case: its number, how many inputs it has (of them how many, from the first on, are
differentiated by), how many outputs, and a PyTorch expression over x0, x1 ... that gives a tuple of outputs. The arrays
lie beside it as N_input_I.npy, N_weight_I.npy, N_output_I.npy, N_gradient_I.npy; gradients are those of the sum of the
outputs times the weights.
"""
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F  # noqa: F401, for the expressions


def load(folder, number, what, count):
    return [torch.from_numpy(numpy.load(folder / f"{number}_{what}_{i}.npy")) for i in range(count)]


def differs(what, got, expected):
    if got.shape != expected.shape:
        return f"{what}: shape {tuple(got.shape)}, PyTorch has {tuple(expected.shape)}"
    if not torch.allclose(got, expected, rtol=1e-9, atol=1e-10, equal_nan=True):
        return f"{what}: differs by up to {(got - expected).abs().max()}"
    return None


def optimized(name, parameter, gradients, **options):
    """The parameter after a step of torch.optim.<name> for each gradient, for the expressions."""
    parameter = parameter.clone().requires_grad_()
    optimizer = getattr(torch.optim, name)([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return (parameter.detach(),)


def check(folder, number, inputs, wanted, outputs, expression):
    xs = load(folder, number, "input", inputs)
    for x in xs[:wanted]:
        x.requires_grad_()
    expected = eval(expression, globals() | {f"x{i}": x for i, x in enumerate(xs)})
    weights = load(folder, number, "weight", outputs)
    if wanted:
        sum((y * w).sum() for y, w in zip(expected, weights, strict=True)).backward()
    pairs = [("output", y) for y in expected] + [("gradient", x.grad) for x in xs[:wanted]]
    got = load(folder, number, "output", outputs) + load(folder, number, "gradient", wanted)
    problems = [differs(what, g, e.detach()) for (what, e), g in zip(pairs, got, strict=True)]
    return [f"{expression}: {problem}" for problem in problems if problem]


def main(folder):
    problems = []
    for line in (folder / "cases.txt").read_text().splitlines():
        number, inputs, wanted, outputs, expression = line.split(maxsplit=4)
        problems += check(folder, number, int(inputs), int(wanted), int(outputs), expression)
    return problems


if __name__ == "__main__":
    found = main(pathlib.Path(sys.argv[1]))
    for problem in found:
        print(problem)
    sys.exit(bool(found))
