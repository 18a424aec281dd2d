#!/usr/bin/env python3
"""Runs the node tests of the installed `onnx` package through `ingot onnx check` and counts what comes of them.

    pip install onnx
    tools/compare/onnx_node_tests.py [--ingot build/bin/ingot] [--to DIRECTORY] [--all]

The package makes its node tests in Python; they are written to DIRECTORY (default: a temporary one) in the layout of
ONNX' backend tests. One line for each test that is wrong, with --all also for those that are refused, then a table by
operator set and the rate.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests


def as_message(value, declared):
    """A test's value as the message that ONNX keeps it in."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = declared.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, declared.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, declared.name)
    return numpy_helper.from_array(value, declared.name)


def write_case(case, directory):
    """model.onnx and test_data_set_*/{input,output}_*.pb of one test."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(case.model.SerializeToString())
    for i, (inputs, outputs) in enumerate(case.data_sets):
        data = directory / f"test_data_set_{i}"
        data.mkdir(exist_ok=True)
        for kind, values, declared in (("input", inputs, case.model.graph.input),
                                       ("output", outputs, case.model.graph.output)):
            for j, value in enumerate(values):
                (data / f"{kind}_{j}.pb").write_bytes(as_message(value, declared[j]).SerializeToString())


def write_tests(directory):
    cases = load_model_tests(kind="node")
    for case in cases:
        write_case(case, directory / case.name)
    return len(cases)


def report(result, total, everything):
    tests = result["tests"]
    for test in tests:
        if test["end"] == "wrong" or (everything and test["end"] != "passed"):
            print(f"{test['end']:<12} {test['name']}: {test['detail']}")
    counts = collections.defaultdict(collections.Counter)
    for test in tests:
        counts[test["opset"]][test["end"]] += 1
    print(f"\n{'operator set':>12} {'passed':>7} {'refused':>8} {'wrong':>6}")
    for opset, count in sorted(counts.items()):
        print(f"{opset:>12} {count['passed']:>7} {count['unsupported']:>8} {count['wrong']:>6}")
    print(f"onnx {onnx.__version__}: {result['passed']} of {total} node tests pass "
          f"({100 * result['passed'] / total:.1f} %), {result['unsupported']} are refused, "
          f"{result['wrong']} are wrong")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ingot", default="build/bin/ingot")
    parser.add_argument("--to", type=pathlib.Path, help="where the tests are written and kept")
    parser.add_argument("--all", action="store_true", help="also name the tests that are refused")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.to or pathlib.Path(temporary)
        total = write_tests(directory)
        done = subprocess.run([options.ingot, "onnx", "check", str(directory), "--json"], capture_output=True, text=True)
        if not done.stdout:
            sys.exit(done.stderr)
        report(json.loads(done.stdout), total, options.all)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
