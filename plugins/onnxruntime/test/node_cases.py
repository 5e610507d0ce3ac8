"""ONNX's node cases through the provider, beside ONNX Runtime's CPU provider.

    python node_cases.py [--every N] [--only TEXT] [--verbose]

A case fails where the CPU provider gives what is expected and a session with the provider does not. Cases run in worker
processes, so that one that ended its process would be a failure and not the end of the test. How many of them Braid
really ran is counted by what ONNX Runtime says of its assignment, and --least-claimed makes fewer a failure."""
import argparse
import collections
import multiprocessing
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

import provider  # noqa: E402


# Braid is nearer to the exact numbers than what is expected: docs/conformance.md.
KNOWN = {"test_attention_4d_causal_fp16_expanded": "off by 0.000488"}


def array(value):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (onnx.SequenceProto, onnx.OptionalProto)):
        raise TypeError("a sequence")
    return value


def run(make, model, feeds):
    """Outputs and session, or the reason."""
    try:
        session = make(model)
    except Exception as error:
        return None, None, f"load: {error}"
    try:
        return session.run(None, feeds), session, None
    except Exception as error:
        return None, session, f"run: {error}"


def check(case):
    model = case.model.SerializeToString()
    names = [i.name for i in case.model.graph.input]
    result, claimed, total, note = "passed", 0, 0, ""
    for inputs, outputs in case.data_sets:
        feeds = dict(zip(names, (array(v) for v in inputs)))
        expected = [array(v) for v in outputs]
        theirs, _, why_theirs = run(provider.cpu_session, model, feeds)
        ours, session, why_ours = run(provider.session, model, feeds)
        if session is not None:
            counts = provider.assignment(session)
            claimed, total = counts.get(provider.NAME, (0, 0))[0], sum(n for n, _ in counts.values())
        if why_theirs is not None and why_ours is not None:
            return "refused by both", claimed, total, f"{why_theirs} | {why_ours}"
        off = why_ours or provider.difference(ours, expected)
        theirs_off = why_theirs or provider.difference(theirs, expected)
        if off and theirs_off and ours is not None and theirs is not None and not provider.difference(ours, theirs):
            result, note = "as the CPU provider, which differs from what is expected", theirs_off
        elif off and theirs_off:
            result, note = "both differ from what is expected", f"{off} | {theirs_off}"
        elif off and KNOWN.get(case.name) == off:
            result, note = "known to differ", off
        elif off:
            return "failed", claimed, total, off
        elif why_theirs:
            result, note = "passed, refused by the CPU provider", why_theirs
    return result, claimed, total, note


def worker(cases, numbers, pipe):
    provider.register()
    for number in numbers:
        pipe.send((number, None))
        try:
            pipe.send((number, check(cases[number])))
        except TypeError as error:
            pipe.send((number, ("no tensors", 0, 0, str(error))))
        except Exception as error:
            pipe.send((number, ("failed", 0, 0, f"{type(error).__name__}: {error}")))
    pipe.send((None, None))


def load(every, only):
    np.random.seed(0)
    from onnx.backend.test.case.node import collect_testcases
    cases = sorted(collect_testcases(None), key=lambda c: c.name)
    return [c for i, c in enumerate(cases) if i % every == 0 and (not only or only in c.name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--every", type=int, default=1, help="of the cases, one in so many")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--verbose", action="store_true", help="one line per case")
    parser.add_argument("--least-claimed", type=int, default=0)
    options = parser.parse_args()
    cases = load(options.every, options.only)
    results, next_case = {}, 0
    while next_case < len(cases):
        here, there = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=worker, args=(cases, range(next_case, len(cases)), there))
        child.start()
        there.close()
        current = None
        try:
            while True:
                current, answer = here.recv()
                if current is None:
                    next_case = len(cases)
                    break
                if answer is not None:
                    results[current] = answer
                    next_case = current + 1
        except EOFError:
            child.join()
            results[current] = ("failed", 0, 0, f"the process ended with {child.exitcode}")
            next_case = current + 1
        child.join()
    counts, ran = collections.Counter(), collections.Counter()
    for number, (result, claimed, total, note) in sorted(results.items()):
        counts[result] += 1
        whole = "all" if claimed and claimed == total else "some" if claimed else "none"
        ran[whole] += 1
        if options.verbose or result in ("failed", "both differ from what is expected"):
            print(f"{cases[number].name}: {result}; {claimed} of {total} nodes by Braid {note[:300]}")
    print(f"{len(cases)} cases: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()))
    print(f"Braid ran all nodes of {ran['all']}, some of {ran['some']}, none of {ran['none']}")
    if counts["failed"] or ran["all"] < options.least_claimed:
        sys.exit(1)


if __name__ == "__main__":
    main()
